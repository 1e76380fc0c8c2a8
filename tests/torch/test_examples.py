"""The programs under examples/torch: they learn on `npu` what they learn on `cpu`, and draw it."""

import re
import subprocess
import sys

import pytest

import builds

FOLDER = builds.HERE.parents[1] / "examples" / "torch"
sys.path.insert(0, str(FOLDER))

import char_transformer  # noqa: E402
import cnn  # noqa: E402
import mlp  # noqa: E402


# Number of steps, and tolerance: batch norm makes small differences grow.
STEPS_AND_TOLERANCES = {mlp: (50, 1e-4), char_transformer: (50, 1e-4), cnn: (20, 1e-2)}


@pytest.mark.parametrize("example", STEPS_AND_TOLERANCES, ids=lambda module: module.__name__)
def test_losses_are_those_of_the_cpu(example):
    steps, tolerance = STEPS_AND_TOLERANCES[example]
    expected, actual = (example.train(device, steps)[1] for device in ("cpu", "npu"))
    assert expected[-1] < 0.9 * expected[0]
    assert actual == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("name", ["mlp", "char_transformer", "cnn"])
def test_draws_its_loss(name, tmp_path):
    picture = tmp_path / "loss.png"
    command = [sys.executable, FOLDER / f"{name}.py", "--steps", "20", "--out", picture]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "in 20 steps" in run.stdout
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 1000


def test_pluggable_allocator(tmp_path):
    """The example of a pluggable allocator: the two functions in C, and the counts of their calls."""
    library = tmp_path / "pluggable_allocator.so"
    source, home = FOLDER.parent / "c" / "pluggable_allocator.c", builds.home()
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{home}/include", f"-L{home}/lib64", "-lascendcl"]
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library, *flags], check=True)
    command = [sys.executable, FOLDER / "pluggable_allocator.py", library]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"40 bytes, and holds {[0.0] * 10}" in run.stdout
    taken, refused = map(int, re.search(r"(\d+) blocks taken, .* (\d+) refused", run.stdout).groups())
    assert taken > 1000 and refused == 0, run.stdout
    returned = int(re.search(r"(\d+) blocks given back", run.stdout)[1])
    assert 0 < taken - returned < 40, run.stdout
