"""The unmodified torch and torch_npu wheels on our toolkit; `cargo xtask test` starts this inside its environment."""

import os
import sys

import pytest

# Settings of the caller's shell must not decide what is tested. Recording is no setting.
for name in list(os.environ):
    if name.startswith("CAIRN_") and name not in ("CAIRN_COVERAGE", "CAIRN_TRACE", "CAIRN_CACHE"):
        del os.environ[name]

sys.dont_write_bytecode = True


def pytest_configure():
    if not os.environ.get("ASCEND_HOME_PATH"):
        pytest.exit(
            "ASCEND_HOME_PATH is not set: run `cargo xtask test`, or `cargo xtask toolkit` and "
            "`source target/toolkit/set_env.sh` first",
            returncode=2,
        )


@pytest.fixture(autouse=True)
def settled():
    """Each test starts on device 0 with nothing queued and nothing cached."""
    import torch
    import torch_npu

    yield
    if torch_npu.npu.is_initialized():
        for device in range(torch.npu.device_count()):
            torch.npu.synchronize(device)
        torch.npu.set_device(0)
        torch.npu.empty_cache()
