"""The examples run as they stand."""

import subprocess
import sys

from support import ROOT


def test_pool():
    run = subprocess.run(
        [sys.executable, ROOT / "examples/python/pool.py"], capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    assert "in order" in run.stdout
    assert "20 blocks taken, 20 given back" in run.stdout
