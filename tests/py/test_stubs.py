"""The type stubs of the toolkit agree with the module."""

import ast
import importlib
import inspect
import pathlib

import pytest

import acl
import support

STUBS = pathlib.Path(acl.__file__).parent / "acl-stubs"


def stub(module):
    """The functions of a stub file, by name."""
    file = "__init__" if module == "acl" else module.removeprefix("acl.")
    tree = ast.parse((STUBS / f"{file}.pyi").read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("module", ["acl", "acl.rt", "acl.op", "acl.mdl", "acl.util"])
def test_stubs_have_the_names_and_parameters_of_the_module(module):
    loaded = importlib.import_module(module)
    functions = {name: item for name, item in vars(loaded).items() if inspect.isbuiltin(item)}
    stubs = stub(module)
    assert len(stubs) > 5 and stubs.keys() == functions.keys()
    assert sorted(f"{module}.{name}" for name in stubs) == sorted(
        name for name in support.table() if name.rpartition(".")[0] == module)
    for name, function in functions.items():
        parameters = inspect.signature(function).parameters.values()
        declared = stubs[name].args
        assert [argument.arg for argument in declared.args] == [parameter.name for parameter in parameters], name
        optional = [parameter for parameter in parameters if parameter.default is not parameter.empty]
        assert len(declared.defaults) == len(optional), name


def test_stubs_say_that_functions_of_c_are_addresses():
    returned = ast.unparse(stub("acl.rt")["allocator_get_by_stream"].returns)
    function = "Optional[Union[Callable[..., Any], int]]"
    assert returned == f"Tuple[int, int, {', '.join([function] * 4)}, int]"
