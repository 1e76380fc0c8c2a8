"""torchair's backend of torch.compile, as torch_npu brings it: networks on the device against the CPU, with sizes that are
known and with sizes that are not, forward and backward.

torchair wants protobuf, which torch_npu does not ask for; without it these tests are skipped.
"""

import importlib.util
import pathlib
import subprocess
import sys

import pytest
import support
from depth import DEEP

# What `cargo xtask test` runs; `deep` runs all there are.
FAST_CASES = [
    "mlp dynamic training", "convolutions static training", "resnet dynamic inference", "gpt dynamic inference", "std", "index twice",
    "as_strided_scatter", "view of bytes", "linspace",
]  # fmt: skip

HAS_PROTOBUF = importlib.util.find_spec("google") is not None and importlib.util.find_spec("google.protobuf") is not None

pytestmark = pytest.mark.skipif(not HAS_PROTOBUF, reason="torchair wants protobuf")


def run(names):
    """All in one process: compiling one takes a second or two, the import five."""
    command = [sys.executable, str(pathlib.Path(__file__).parent / "torchair_cases.py"), *names]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, env=support.script_environment({}))


def test_networks_and_functions():
    process = run([] if DEEP else FAST_CASES)
    bad = [line for line in process.stdout.splitlines() if not line.endswith(": ok")]
    assert process.returncode == 0 and not bad, "\n".join(bad) or process.stdout + process.stderr
