"""PyTorch's own samples through `npu` and `cpu`: see op_db.py."""

import json
import re
import subprocess
import sys

import builds

REQUIRED = set(re.search(r'REQUIRED = set\("""(.*?)"""', (builds.HERE / "op_db.py").read_text(), re.S)[1].split())


def test_samples_of_pytorch(capsys):
    run = subprocess.run([sys.executable, builds.HERE / "op_db.py"], capture_output=True, text=True, timeout=1500)
    assert run.returncode == 0, run.stderr[-4000:]
    report = json.loads(run.stdout.splitlines()[-1])
    count = {kind: sum(entry[kind] for entry in report.values()) for kind in ("passed", "failed", "absent", "refused")}
    clean = {name for name, entry in report.items() if entry["passed"] and not entry["failed"] and not entry["absent"]}
    failing = sorted(name for name, entry in report.items() if entry["failed"])
    absent = sorted(name for name, entry in report.items() if entry["absent"] and not entry["failed"])
    with capsys.disabled():
        print(f"\nop_db: {len(report)} operators: {len(clean)} pass, {len(failing)} fail, {len(absent)} are absent;", end=" ")
        print(f"samples: {count['passed']} pass, {count['failed']} fail, {count['absent']} are absent, {count['refused']} are refused by torch_npu itself")
        print(f"  fail: {', '.join(failing)}\n  absent: {', '.join(absent)}")
    broken = {name: report[name]["notes"] for name in sorted(REQUIRED & report.keys() - clean)}
    assert not broken, json.dumps(broken, indent=1)
    assert REQUIRED <= report.keys(), f"PyTorch has no samples of {sorted(REQUIRED - report.keys())}"
