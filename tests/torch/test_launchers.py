"""What starts the ranks of a program: `cairn run --ranks`, torchrun, and torch.multiprocessing; with examples/torch/ddp.py."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import builds
import support
from test_examples import FOLDER

import char_transformer

CAIRN = pathlib.Path(builds.home()) / "bin" / "cairn"
STEPS = 20
LAUNCHERS = {
    "cairn": [CAIRN, "run", "--ranks", "2", "--", sys.executable],
    "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    "one rank": [sys.executable],
}


def run_example(launcher, *arguments):
    command = [*LAUNCHERS[launcher], FOLDER / "ddp.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ddp_learns_what_one_device_learns(launcher, tmp_path):
    """The ranks share the batch of the single device, so their mean loss is its loss."""
    picture = tmp_path / "loss.png"
    run = run_example(launcher, "--steps", str(STEPS), "--out", picture)
    assert run.returncode == 0, run.stdout + run.stderr
    ranks = 1 if launcher == "one rank" else 2
    found = re.search(rf"loss ([\d.]+) -> ([\d.]+) in {STEPS} steps on {ranks} ranks", run.stdout)
    assert found, run.stdout
    _, losses = char_transformer.train("cpu", STEPS)
    assert [float(found[1]), float(found[2])] == pytest.approx([losses[0], losses[-1]], rel=1e-3)
    assert "weights are the same on all ranks" in run.stdout
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 1000


SPAWNED = """
    import socket, torch, torch_npu
    from torch import distributed, multiprocessing

    def work(rank, world, port):
        torch.npu.set_device(rank)
        distributed.init_process_group("hccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
        tensor = torch.ones(3, device="npu")
        distributed.all_reduce(tensor)
        assert tensor.tolist() == [world] * 3
        distributed.destroy_process_group()

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # A fork: this process has used no device.
    multiprocessing.start_processes(work, args=(2, port), nprocs=2, start_method="fork")
    print("done")
"""


def test_processes_started_by_torch():
    assert support.run_script(SPAWNED).stdout.endswith("done\n")
