"""PyTorch's own samples through `npu` and `cpu`: see op_db.py."""

import json
import re

import builds
import depth
import support

REQUIRED = set(re.search(r'REQUIRED = set\("""(.*?)"""', (builds.HERE / "op_db.py").read_text(), re.S)[1].split())


def names():
    code = "import sys; sys.argv = ['']; import op_db; print(*dict.fromkeys(op.name for op in op_db.op_db))"
    return support.run_script(code).stdout.splitlines()[-1].split()


def entries(names):
    """What op_db.py says of each name. Where it ends early, it begins again after that name."""
    report, left = {}, list(names)
    while left:
        run = support.run_script("import op_db; op_db.main()", arguments=left, check=False, timeout=1500, TASK_QUEUE_ENABLE="0")
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        report |= {entry["name"]: entry for entry in lines}
        left = [name for name in left if name not in report]
        if run.returncode == 0:
            break
        if run.returncode != 3:
            report[left.pop(0)] = {"passed": 0, "failed": 1, "absent": 0, "refused": 0, "notes": [run.stderr[-1000:]]}
    return report


def test_samples_of_pytorch(capsys):
    # Those that have to pass first, so that no other can stop the device before them.
    others = [name for name in names() if name not in REQUIRED] if depth.DEEP else []
    report = entries([*sorted(REQUIRED), *others])
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
