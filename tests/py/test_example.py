"""The examples run as they stand."""

import os
import re
import subprocess
import sys

import pytest

from support import ROOT


def test_pool():
    run = subprocess.run(
        [sys.executable, ROOT / "examples/python/pool.py"], capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    assert "in order" in run.stdout
    assert "20 blocks taken, 20 given back" in run.stdout


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """The folder with the model and the programs of examples/classify.sh, and what they printed."""
    folder = tmp_path_factory.mktemp("classify")
    run = subprocess.run(["sh", ROOT / "examples/classify.sh", folder], env={**os.environ, "PYTHON": sys.executable},
                         capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder, run.stdout


def test_classify_recognises_every_digit_in_c_and_in_python(classified):
    _, printed = classified
    assert "ATC run success" in printed
    in_c, in_python = printed.partition("== classify.c\n")[2].split("== python classify.py\n")
    assert in_c == in_python
    assert "input image: [1, 1, 16, 16], 1024 bytes\n" in in_c
    places = re.findall(r"^(\d)\.pgm: (\d) \((\d+\.\d) %\), \d \(\d+\.\d %\), \d \(\d+\.\d %\)$", in_c, re.MULTILINE)
    assert [file for file, _, _ in places] == [kind for _, kind, _ in places] == list("0123456789")
    assert all(float(share) > 80 for _, _, share in places)


def test_classify_learns_what_it_has_not_seen(classified):
    right, total = re.search(r"of (\d+) others, (\d+) are", classified[1]).groups()[::-1]
    assert int(right) >= 0.95 * int(total)


@pytest.mark.parametrize("language", ["c", "python"])
def test_classify_says_what_is_wrong(language, classified):
    folder, _ = classified
    program = [folder / "classify"] if language == "c" else [sys.executable, ROOT / "examples/python/classify.py"]
    (folder / "text.pgm").write_text("no picture")
    (folder / "small.pgm").write_bytes(b"P5 2 2 255\n1234")
    (folder / "short.pgm").write_bytes(b"P5 16 16 255\n1234")
    (folder / "cut.om").write_bytes((folder / "digits.om").read_bytes()[:-9])
    wrong = {
        (): "usage:",
        ("digits.om", "missing.pgm"): "missing.pgm: cannot be",
        ("digits.om", "text.pgm"): "text.pgm: is no picture",
        ("digits.om", "small.pgm"): "small.pgm: does not have the size",
        ("digits.om", "short.pgm"): "short.pgm: is too short",
        ("missing.om", "0.pgm"): "145002",
        ("cut.om", "0.pgm"): "145006",
    }
    for arguments, text in wrong.items():
        run = subprocess.run([*program, *(folder / name for name in arguments)], capture_output=True, text=True, timeout=240)
        assert run.returncode in (1, 2), arguments
        assert text in run.stderr, (arguments, run.stderr)
