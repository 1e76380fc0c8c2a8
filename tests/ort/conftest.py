"""onnxruntime's CANN provider on our toolkit; `cargo xtask test` starts this inside its environment."""

import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

for name in list(os.environ):
    if name.startswith("CAIRN_") and name not in ("CAIRN_COVERAGE", "CAIRN_CACHE"):
        del os.environ[name]
# The library reads it when the provider starts it; the tests read there which tasks ran.
os.environ["CAIRN_TRACE"] = os.path.join(tempfile.mkdtemp(prefix="cairn-ort-"), "trace")

sys.dont_write_bytecode = True


def pytest_configure():
    if not os.environ.get("ASCEND_HOME_PATH"):
        pytest.exit(
            "ASCEND_HOME_PATH is not set: run `cargo xtask test`, or `cargo xtask toolkit` and "
            "`source target/toolkit/set_env.sh` first",
            returncode=2,
        )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder for each test: the provider writes and looks for `.om` files there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cairn():
    """Runs the command of the toolkit; the result is what it prints."""
    command = pathlib.Path(os.environ["ASCEND_HOME_PATH"]) / "bin/cairn"

    def run(*arguments):
        return subprocess.run([command, *arguments], check=True, capture_output=True, text=True).stdout

    return run
