"""`cairn check` on programs with torch: what is ordered has no findings, in every mode of torch_npu's queue; what is not, has one."""

import json
import os
import subprocess
import sys

import pytest

import builds
import depth

RIGHT = """
import torch, torch_npu
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).npu()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    x, y = torch.randn(16, 32).npu(), torch.randint(0, 10, (16,)).npu()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
side = torch.npu.Stream()
side.wait_stream(torch.npu.current_stream())
with torch.npu.stream(side):
    doubled = loss * 2
    loss.record_stream(side)
torch.npu.current_stream().wait_stream(side)
print(doubled.item())
"""

WRONG = """
import torch, torch_npu
a = torch.randn(1000, device="npu")
with torch.npu.stream(torch.npu.Stream()):
    b = a * 2
torch.npu.synchronize()
print(b.sum().item())
"""


def check(tmp_path, script, queue):
    """Runs a script under the checker; its exit code and its findings."""
    path, report = tmp_path / "script.py", tmp_path / "findings.json"
    path.write_text(script)
    command = [str(builds.home() / "bin/cairn"), "check", "--error-exitcode", "9", "--json", str(report), "--", sys.executable, str(path)]
    environment = dict(os.environ, TASK_QUEUE_ENABLE=queue)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    findings = [finding for process in json.loads(report.read_text()) for finding in process["findings"]]
    return done, findings


@pytest.mark.parametrize("queue", ["0", "1", "2"] if depth.DEEP else ["1"])
def test_a_training_loop_has_no_findings(tmp_path, queue):
    done, findings = check(tmp_path, RIGHT, queue)
    assert (done.returncode, findings) == (0, []), done.stderr


@pytest.mark.parametrize("queue", ["0", "1", "2"] if depth.DEEP else ["1"])
def test_a_stream_that_does_not_wait_is_found(tmp_path, queue):
    done, findings = check(tmp_path, WRONG, queue)
    errors = [finding for finding in findings if finding["severity"] == "error"]
    assert done.returncode == 9 and len(errors) == 1, done.stderr
    assert errors[0]["rule"] == "order"
    first, second = errors[0]["places"]
    assert "writes" in first["text"] and "aclnnMuls reads" in second["text"]
