"""The programs under examples/torch: they learn on `npu` what they learn on `cpu`, serve what they learned, and draw it."""

import re
import subprocess
import sys

import pytest
import torch

import builds

FOLDER = builds.HERE.parents[1] / "examples" / "torch"
sys.path.insert(0, str(FOLDER))

import char_transformer  # noqa: E402
import cnn  # noqa: E402
import generate  # noqa: E402
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
    weights = tmp_path / "weights.pt"
    command = [sys.executable, FOLDER / f"{name}.py", "--steps", "20", "--out", picture]
    saves = name == "char_transformer"
    run = subprocess.run([*command, *(["--save", weights] if saves else [])], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "in 20 steps" in run.stdout
    if saves:
        char_transformer.Writer().load_state_dict(torch.load(weights, map_location="cpu"))
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 1000


def test_workers(tmp_path):
    """Batches that other processes make on the device are those that this process would make."""
    losses = []
    for workers in (0, 2):
        picture = tmp_path / f"{workers}.png"
        command = [sys.executable, FOLDER / "workers.py", "--workers", str(workers), "--steps", "8", "--out", picture]
        run = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stdout + run.stderr
        losses.append(re.search(r"^loss (\S+ -> \S+) in 8 steps", run.stdout, re.M)[1])
        most, left = map(int, re.search(r"(\d+) MiB at most, (\d+) MiB at the end", run.stdout).groups())
        assert left < most, run.stdout
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert losses[0] == losses[1]


@pytest.fixture(scope="module")
def writer():
    """The transformer after some steps on the CPU."""
    return char_transformer.train("cpu", 30)[0].eval()


def test_served_texts_are_those_of_the_whole_model(writer):
    """More requests than the cache has blocks for, on `npu`; on the CPU every letter from the whole text before it."""
    prompts = [[char_transformer.CODE[letter] for letter in prompt] for prompt in generate.questions(9, seed=3)]
    assert len({len(prompt) for prompt in prompts}) > 4
    served = char_transformer.Writer().npu().eval()
    served.load_state_dict(writer.state_dict())
    pages = generate.PagedWriter(served, 13)
    texts, history, written = generate.serve(pages, prompts, generate.greedy)
    assert max(history) <= 12 and history[-1] == 0 and sorted(pages.free) == list(range(13))
    assert written == sum(writer.max_length - len(prompt) for prompt in prompts)
    with torch.no_grad():
        for prompt, text in zip(prompts, texts):
            assert text[: len(prompt)] == prompt
            guesses = writer(torch.tensor([text[:-1]]))[0].argmax(-1).tolist()
            assert text[len(prompt) :] == guesses[len(prompt) - 1 :]


def test_generate(writer, tmp_path):
    picture, weights = tmp_path / "cache.png", tmp_path / "weights.pt"
    torch.save(writer.state_dict(), weights)
    command = [sys.executable, FOLDER / "generate.py", "--weights", weights, "--requests", "5", "--blocks", "7", "--out", picture]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    prompts = generate.questions(5)
    lines = run.stdout.splitlines()
    for prompt, line in zip(prompts, lines):
        assert line.startswith("  " + prompt.strip().replace("\n", " ") + "|"), run.stdout
    letters = sum(48 - len(prompt) for prompt in prompts)
    assert re.search(rf"^5 texts, {letters} letters in [\d.]+ s: \d+ a second; (\d+ of \d+ sums are right|no sum is complete.*)$", run.stdout, re.M), run.stdout
    assert re.search(r"^cache: at most 6 of 7 blocks in use", run.stdout, re.M), run.stdout
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
