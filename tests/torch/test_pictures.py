"""Pictures of programs with torch: tensors are seen in torch_npu's own pool, and PyTorch reads the snapshot."""

import json
import pickle
import subprocess
import sys

import builds
import pytest

SCRIPT = """
import torch, torch_npu
a = torch.ones(1000, 1000, device="npu")
for _ in range(3):
    b = a @ a
    # Else torch_npu may free b before its queue submits the product that names it.
    torch.npu.synchronize()
del a
torch.npu.synchronize()
print(b[0, 0].item())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the record of the script."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "script.py").write_text(SCRIPT)
    cairn(folder, "record", "--stacks", "-o", "run.cairn", "--", sys.executable, "script.py")
    return folder


def cairn(folder, *arguments):
    command = [str(builds.home() / "bin/cairn"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pytorch_reads_the_snapshot(folder):
    from torch.cuda import _memory_viz

    cairn(folder, "snapshot", "run.cairn", "--at", "peak")
    with open(folder / "run.pickle", "rb") as file:
        snapshot = pickle.load(file)
    tensors = [block for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] == "active_allocated"]
    assert sum(block["size"] >= 4_000_000 for block in tensors) >= 2, "a and b are blocks of their own"
    names = {frame["name"] for block in tensors for frame in block["frames"]}
    assert "tensor or region" in names and any("Mm" in name or "Matmul" in name for name in names), names
    assert "active_allocated" in _memory_viz.memory(snapshot, lambda lines: lines)
    assert "segments: " in _memory_viz.segsum(snapshot)
    assert _memory_viz.trace(snapshot)
    assert "<script" in _memory_viz.trace_plot(snapshot)
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    assert actions.count("alloc") >= 3 and "segment_alloc" in actions


def test_tensors_end_in_the_timeline(folder):
    cairn(folder, "timeline", "run.cairn")
    events = json.loads((folder / "run.json").read_text())["traceEvents"]
    live = [event["args"].get("tensor or region", 0) for event in events if event["ph"] == "C" and event["name"] == "memory in blocks"]
    assert max(live) >= 8_000_000 and live[-1] < max(live)
    assert any(event["ph"] == "X" and event["name"].startswith("aclnn") for event in events)


def test_stacks_are_folded(folder):
    lines = cairn(folder, "flame", "run.cairn").splitlines()
    assert all(line.rsplit(" ", 1)[1].isdigit() for line in lines)
    assert any("tensor or region" in line for line in lines)
