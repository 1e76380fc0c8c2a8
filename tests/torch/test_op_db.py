"""PyTorch's own samples of operators, modules and optimisers through `npu` and `cpu`: see op_db.py, module_db.py.

op_db.txt and module_db.txt name the entries that do not pass entirely, whose fault that is, and why; every other has to pass.
"""

import functools
import json
import re

import builds
import census
import depth
import support

REQUIRED = set(re.search(r'REQUIRED = set\("""(.*?)"""', (builds.HERE / "op_db.py").read_text(), re.S)[1].split())

# What `cargo xtask test` runs: some of each family.
MODULES = """
    nn.Linear nn.Conv2d nn.ConvTranspose2d nn.BatchNorm2d nn.LayerNorm nn.Embedding nn.MaxPool3d nn.AvgPool2d nn.ReLU nn.GELU
    nn.CrossEntropyLoss nn.MSELoss nn.MultiheadAttention nn.TransformerEncoderLayer
    optim.SGD optim.Adam optim.AdamW
""".split()
OPERATORS = "cdist repeat_interleave unfold nan_to_num nn.functional.avg_pool2d nn.functional.interpolate.bilinear cummax fft.fft2".split()


def known(file):
    """The entries of a list that do not pass, with their reasons."""
    lines = (builds.HERE / file).read_text().splitlines()
    return dict(line.split("; ", 1) for line in lines if line and not line.startswith("#"))


def names(script):
    code = f"import sys; sys.argv = ['']; import {script}; print(*{script}.names())"
    return support.run_script(code).stdout.splitlines()[-1].split()


def start(script, names):
    return support.run_script(f"import {script}; {script}.main()", arguments=names, check=False, timeout=3000, TASK_QUEUE_ENABLE="0")


def check(capsys, script, names, required=frozenset()):
    """Runs the entries and prints what became of them; those that are not in the script's list have to pass."""
    # The required ones go first, so that no other can stop the device before them.
    names = sorted(names, key=lambda name: name not in required)
    report = census.entries(functools.partial(start, script), names)
    entirely_passing = {name for name, entry in report.items() if census.passes(entry)}
    passing = {name for name, entry in report.items() if census.passes_but_for_torch_npu(entry)}
    on_cpu = {name for name in entirely_passing if report[name]["cpu"]}
    counts = {kind: sum(entry[kind] for entry in report.values()) for kind in census.KINDS}
    with capsys.disabled():
        print(f"\n{script}: {len(report)} entries: {len(entirely_passing)} pass entirely, {len(on_cpu)} of them with parts that torch_npu", end=" ")
        print(f"computes on the CPU; {len(passing)} pass but for what torch_npu itself refuses; samples: {counts}")
    listed = known(f"{script}.txt")
    unexpected = {name: report[name]["notes"] for name in sorted(report.keys() - passing) if name not in listed}
    unexpected |= {name: entry["notes"] for name, entry in report.items() if entry["wrong"] and name in required}
    assert not unexpected, json.dumps(unexpected, indent=1)
    assert set(names) <= report.keys(), f"no result for {sorted(set(names) - report.keys())}"


def test_samples_of_operators(capsys):
    others = names("op_db") if depth.DEEP else OPERATORS
    check(capsys, "op_db", dict.fromkeys([*sorted(REQUIRED), *others]), REQUIRED)


def test_samples_of_modules(capsys):
    check(capsys, "module_db", names("module_db") if depth.DEEP else MODULES)
