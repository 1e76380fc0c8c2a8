"""What the wheels of all releases link, by the recorded lists, is there."""

import ctypes
import pathlib

import pytest

LISTS = sorted(pathlib.Path(__file__).parent.with_name("golden").joinpath("symbols").glob("torch_npu-*.txt"))


def c_symbols(path):
    """The C symbols of a list. `ge::`, `atb::` (C++) and the bounds-checked string functions belong to other libraries."""
    names = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [name for name in names if not name.startswith("_Z") and not name.endswith("_s")]


def test_every_minor_release_is_listed():
    minors = {path.name.removeprefix("torch_npu-").split(".")[1] for path in LISTS}
    # There never was a 2.2 on PyPI.
    assert minors == {str(minor) for minor in range(1, 15)} - {"2"}


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_symbols_resolve(path):
    names = c_symbols(path)
    assert len(names) > 70
    library = ctypes.CDLL("libascendcl.so")
    assert [name for name in names if not hasattr(library, name)] == []


@pytest.mark.parametrize("name", ["ascendcl", "hccl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel"])
def test_library_names_load(name):
    """The names that the wheels' libraries ask the loader for."""
    ctypes.CDLL(f"lib{name}.so")
