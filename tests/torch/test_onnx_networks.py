"""Networks exported to ONNX by PyTorch, compiled by atc, and run by programs: the results are those of PyTorch on the CPU.

In `cargo xtask deep` also in the sizes of their papers. `onnx_networks.py` has the networks, and only there each of them in every way.
"""

import os
import pathlib
import subprocess
import sys

import numpy
import pytest

import builds
import depth
from onnx_networks import NETWORKS

SIZES = ["small", "full"] if depth.DEEP else ["small"]
WAYS = ["static", "gears", "ranges"]
# In `cargo xtask test` each network has one way: all ways of it are run, and every network.
CASES = [(name, way) for at, name in enumerate(NETWORKS) for number, way in enumerate(WAYS) if depth.DEEP or at % 3 == number]
# And these are run by onnxruntime.
BY_ONNXRUNTIME = list(NETWORKS) if depth.DEEP else ["resnet50", "bert"]
GEAR_WORDS = {"dynamic_batch_size": "batch", "dynamic_image_size": "image", "dynamic_dims": "dims"}
# Numbers of aclDataType.
TYPES = {0: numpy.float32, 9: numpy.int64, 3: numpy.int32, 12: numpy.bool_}


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(scope="session")
def programs(work):
    """The command of each door."""
    source, program = builds.HERE / "run_model.c", work / "run_model"
    home = builds.home()
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", source, "-o", program, f"-I{home}/include", f"-L{home}/lib64", "-lascendcl"], check=True)
    return {"c": [program], "python": [sys.executable, builds.HERE / "run_model.py"]}


@pytest.fixture(scope="session")
def exported(work):
    """Exports a network once."""
    made = {}

    def export(name, full):
        path = work / f"{name}-{'full' if full else 'small'}.onnx"
        if path not in made:
            # One at a time: the full ones have hundreds of megabytes.
            for old in list(made):
                old.unlink()
                del made[old]
            NETWORKS[name].export(str(path), full)
            made[path] = True
        return path

    return export


def input_shape(network, full, values):
    """The flag of atc: sizes that vary as `values` has them."""
    dims = network.dims(full, values)
    return "--input_shape=" + ";".join(f"{name}:{','.join(map(str, sizes))}" for name, sizes in dims.items())


def compile_model(path, output, *flags):
    command = [builds.home() / "bin/atc", f"--model={path}", "--framework=5", f"--output={output}", "--soc_version=Ascend310P3", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return f"{output}.om"


def way_of(network, full, way):
    """The flags of atc, the sizes of each run, and its gear."""
    static = network.full_sizes if full else network.sizes
    if way == "static":
        return [input_shape(network, full, static)], [(static, "-")]
    if way == "ranges":
        ranges = {name: f"{least}~{max(most, static[name])}" for name, (least, most) in network.ranges.items()}
        runs = [static] if full else [static, *network.runs]
        return [input_shape(network, full, static | ranges)], [(static | run, "-") for run in runs]
    flag, names, gears = network.gears
    if full:
        gears = ({name: static[name] for name in names}, gears[-1])
    separator = "," if flag == "dynamic_batch_size" else ";"
    # atc wants each list of sizes in the order in which the sizes stand in the inputs.
    varying = [dim for tensor in network.described(full).values() for dim in tensor.dims if dim in names]
    texts = [",".join(str(gear[dim]) for dim in varying) for gear in gears]
    flags = [input_shape(network, full, static | dict.fromkeys(names, -1)), f"--{flag}={separator.join(texts)}"]
    if flag != "dynamic_image_size":
        flags.append("--input_format=ND")
    runs = []
    for gear, text in zip(gears, texts):
        sizes = static | gear
        if flag == "dynamic_dims":
            text = ",".join(str(dim) for dims in network.dims(full, sizes).values() for dim in dims)
        runs.append((sizes, f"{GEAR_WORDS[flag]}:{text}"))
    return flags, runs


def close(made, expected, tolerance):
    """Whether the results are equal, numbers with a point up to a part of the largest one."""
    assert made.shape == expected.shape and made.dtype == expected.dtype, f"{made.shape} {made.dtype}, expected {expected.shape} {expected.dtype}"
    if made.dtype != numpy.float32:
        assert (made == expected).all()
        return
    assert numpy.isfinite(expected).all()
    bound = tolerance * max(1.0, float(abs(expected).max(initial=0)))
    difference = float(abs(made - expected).max(initial=0))
    assert difference <= bound, f"differs by {difference}, more than {bound}"


def run_model(command, model, runs, folder):
    """Runs a model by a program; gives the outputs of each run. A run is its gear and its inputs."""
    words = []
    for number, (gear, inputs) in enumerate(runs):
        words += ["--"] if number else []
        words += [folder / f"run{number}", gear]
        for name, tensor in inputs.items():
            path = folder / f"run{number}-{name}.in"
            path.write_bytes(tensor.numpy().tobytes())
            words.append(f"{path}:{','.join(map(str, tensor.shape))}")
    done = subprocess.run([*command, model, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    lines = [line.split(" ") for line in done.stdout.splitlines()]
    results = []
    for number in range(len(runs)):
        mine = lines[number * len(lines) // len(runs) : (number + 1) * len(lines) // len(runs)]
        outputs = []
        for at, (_, kind, dims) in enumerate(mine):
            values = numpy.frombuffer((folder / f"run{number}.{at}").read_bytes(), TYPES[int(kind)])
            outputs.append(values.reshape([int(dim) for dim in dims.split(",") if dim]))
        results.append(outputs)
    return results


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name, way", CASES)
def test_network(name, size, way, exported, programs, tmp_path):
    network, full = NETWORKS[name], size == "full"
    flags, runs = way_of(network, full, way)
    runs = [(sizes | choice, gear) for sizes, gear in runs for choice in network.choices]
    model = compile_model(exported(name, full), tmp_path / "net", *flags)
    inputs = [network.inputs(full, sizes) for sizes, _ in runs]
    answers = [network.expected(full, one) for one in inputs]
    for command in programs.values():
        made = run_model(command, model, [(gear, one) for (_, gear), one in zip(runs, inputs)], tmp_path)
        for outputs, expected in zip(made, answers):
            assert len(outputs) == len(expected)
            for output, answer in zip(outputs, expected):
                close(output, answer.numpy(), network.tolerance)
    if full:
        pathlib.Path(model).unlink()


# The provider makes nodes of its own of an If's branches, and then wants the whole graph parsed with these nodes in it.
BRANCHING = {"whisper"}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [name for name in BY_ONNXRUNTIME if name not in BRANCHING])
def test_network_by_onnxruntime(name, size, exported, tmp_path):
    """The exported file itself, with sizes that change from run to run, by the CANN provider of onnxruntime."""
    python = os.environ.get("CAIRN_ORT_PYTHON")
    if not python:
        pytest.skip("CAIRN_ORT_PYTHON is not set")
    network, full = NETWORKS[name], size == "full"
    _, runs = way_of(network, full, "ranges")
    inputs = [network.inputs(full, sizes | choice) for sizes, _ in runs for choice in network.choices]
    command = [python, builds.HERE / "run_ort.py"]
    made = run_model(command, exported(name, full), [("-", one) for one in inputs], tmp_path)
    for one, outputs in zip(inputs, made):
        expected = network.expected(full, one)
        assert len(outputs) == len(expected)
        for output, answer in zip(outputs, expected):
            close(output, answer.numpy(), network.tolerance)
