"""Models whose weights are in files beside them, and larger than 32 bits can count in `deep`: converted, loaded and run, each in
a process of its own that says what memory it had at most. The files have holes: they take little room."""

import json
import os
import struct
import subprocess
import sys

import models
import pytest
from models import atc, model, node, number, text, value_info

COLUMNS = 1024
# Each table has more than 2 GiB, both together more than 4 GiB.
ROWS = 550_000 if os.environ.get("CAIRN_TESTS") == "deep" else 8192
TABLE = ROWS * COLUMNS * 4
MIB = 1 << 20


def external(name, offset):
    """A table in a file beside the model."""
    entries = {"location": "tables.bin", "offset": str(offset), "length": str(TABLE)}
    entries = b"".join(text(13, text(1, key) + text(2, value)) for key, value in entries.items())
    return number(1, ROWS) + number(1, COLUMNS) + number(2, 1) + text(8, name) + entries + number(14, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sum of one row of each of two tables, by the index of the row."""
    folder = tmp_path_factory.mktemp("large")
    nodes = [node("Gather", "first", ["a", "i"], "x"), node("Gather", "second", ["b", "i"], "y"),
             node("Add", "sum", ["x", "y"], "z")]
    inputs = [value_info("i", [2], models.INT64)]
    data = model(nodes, [external("a", 0), external("b", TABLE)], inputs, [value_info("z", [2, COLUMNS])])
    (folder / "net.onnx").write_bytes(data)
    with open(folder / "tables.bin", "wb") as file:
        file.truncate(2 * TABLE)
        for place, value in [(0, 1.0), (TABLE - 4, 2.0), (TABLE, 16.0), (2 * TABLE - 4, 32.0)]:
            file.seek(place)
            file.write(struct.pack("f", value))
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


RUN = """
import json, struct, sys, acl
sys.path.insert(0, sys.argv[2])
from models import Model, Tensors, mdl
assert acl.init() == 0 and acl.rt.set_device(0) == 0
loaded = Model(sys.argv[1])
# Nothing needs the files any more.
with open("/proc/self/maps") as maps:
    mapped = [line for line in maps if any(name in line for name in (".om", ".onnx", "tables.bin", "_weight_"))]
assert not mapped, mapped
rows, columns = int(sys.argv[3]), int(sys.argv[4])
inputs = Tensors(16).put(struct.pack("2q", 0, rows - 1)).set_shape(0, [2])
outputs = Tensors(8 * columns)
assert mdl.execute(loaded.id, inputs.set, outputs.set) == 0, acl.get_recent_err_msg()
made = outputs.floats(2 * columns)
sizes = mdl.query_size(sys.argv[1])
inputs.close(), outputs.close(), loaded.close()
assert acl.rt.reset_device(0) == 0 and acl.finalize() == 0
print(json.dumps({"ends": [made[0], made[columns - 1], made[columns], made[-1]], "sum": sum(made), "sizes": sizes,
                  "peak": int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10}))
"""


def check(path, is_dynamic=False):
    """What a process that loads and runs the model says."""
    words = [sys.executable, "-c", RUN, path, os.path.dirname(models.__file__), str(ROWS), str(COLUMNS)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    said = json.loads(run.stdout)
    assert said["ends"] == [17.0, 0.0, 0.0, 34.0] and said["sum"] == 51.0
    work, weights, ret = said["sizes"]
    assert ret == 0 and (work > 0) != is_dynamic and weights >= 2 * TABLE
    # The weights are there once; what a process has without them is below 96 MiB.
    assert said["peak"] < 2 * TABLE + 96 * MIB, said["peak"] / MIB


CONVERT = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from models import atc
atc(*sys.argv[2:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def convert(folder, name, *flags):
    """Converts; what atc has in memory does not depend on the weights. A child's figure starts with what its parent has: so the
    parent is a small process of its own."""
    words = [sys.executable, "-c", CONVERT, os.path.dirname(models.__file__), folder / "net.onnx", folder / name, *flags]
    run = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(run.stdout) << 10 < 128 * MIB, run.stdout


def test_weights_in_the_model_file(folder):
    convert(folder, "inside")
    path = folder / "inside.om"
    assert path.stat().st_size > 2 * TABLE
    with path.open("rb") as file:
        header = file.read(256)
    short, long = struct.unpack_from("<I", header, 76)[0], struct.unpack_from("<Q", header, 184)[0]
    # Beyond 4 GiB the long field has the length, and the table long numbers.
    assert (short or long) == path.stat().st_size - 256
    assert bool(long) == (path.stat().st_size - 256 >= 1 << 32)
    assert path.stat().st_blocks * 512 < 64 * MIB, "zeros are holes"
    check(path)


def test_sizes_that_come_with_a_run(folder):
    convert(folder, "range", "--input_shape=i:1~4")
    check(folder / "range.om", is_dynamic=True)


def test_weights_in_files_of_their_own(folder):
    convert(folder, "outside", "--external_weight=2")
    assert (folder / "outside.om").stat().st_size < MIB
    assert (folder / "weight/outside_weight_combined").stat().st_size == 2 * TABLE
    check(folder / "outside.om")


def test_a_model_of_onnx_with_its_data(folder):
    check(folder / "net.onnx")


def test_files_that_are_cut_off_are_named(folder):
    for name, part in [("net.onnx", "tables.bin"), ("outside.om", "outside_weight_combined"), ("inside.om", "copied completely")]:
        file = {"net.onnx": "tables.bin", "outside.om": "weight/outside_weight_combined", "inside.om": "inside.om"}[name]
        os.truncate(folder / file, (folder / file).stat().st_size - 4)
        script = "import acl, sys; acl.init(); acl.rt.set_device(0); print(acl.mdl.load_from_file(sys.argv[1])[1], acl.get_recent_err_msg())"
        run = subprocess.run([sys.executable, "-c", script, folder / name], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0 and part in run.stdout and not run.stdout.startswith("0 "), run.stdout + run.stderr


CHAIN = """
import json, struct, sys, acl
sys.path.insert(0, sys.argv[2])
from models import Model, Tensors, mdl
assert acl.init() == 0 and acl.rt.set_device(0) == 0
loaded = Model(sys.argv[1])
inputs, outputs = Tensors(16).put(None), Tensors(16)
assert mdl.execute(loaded.id, inputs.set, outputs.set) == 0, acl.get_recent_err_msg()
print(json.dumps(outputs.floats(4)))
inputs.close(), outputs.close(), loaded.close()
assert acl.rt.reset_device(0) == 0 and acl.finalize() == 0
"""


def test_a_model_of_many_nodes(tmp_path):
    count = 100_000 if os.environ.get("CAIRN_TESTS") == "deep" else 10_000
    nodes = [node("Add", f"add{at}", [f"t{at}", "one"], f"t{at + 1}") for at in range(count)]
    data = model(nodes, [models.tensor("one", [4], [1.0] * 4)], [value_info("t0", [4])], [value_info(f"t{count}", [4])])
    (tmp_path / "net.onnx").write_bytes(data)
    atc(tmp_path / "net.onnx", tmp_path / "net")
    for name in ("net.om", "net.onnx"):
        words = [sys.executable, "-c", CHAIN, tmp_path / name, os.path.dirname(models.__file__)]
        run = subprocess.run(words, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stdout + run.stderr
        assert json.loads(run.stdout) == [float(count + at) for at in range(1, 5)]
