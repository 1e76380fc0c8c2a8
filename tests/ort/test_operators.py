"""Every operator that the provider puts into graphs, against the CPU provider."""

import numpy as np
import pytest
from onnx import helper

import operators
import support


def single_node(case):
    """The model of a case, and its inputs of a run."""
    names = [f"x{at}" if value is not None else "" for at, value in enumerate(case.inputs)]
    outputs = [f"y{at}" for at in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name=case.op, **case.attributes)
    given = {name: value for name, value in zip(names, case.inputs) if value is not None}
    constants = {name: value for at, (name, value) in enumerate(zip(names, case.inputs)) if at in case.constant}
    inputs = {name: value for name, value in given.items() if name not in constants}
    return support.model([node], inputs, outputs, constants, case.opset), inputs


@pytest.mark.parametrize("case", operators.CASES, ids=str)
def test_operator_in_a_graph(case):
    data, inputs = single_node(case)
    assert support.check(data, inputs, support.GRAPH, support.UNOPTIMIZED), "nothing ran on the device"


@pytest.mark.parametrize("case", operators.DRAWN, ids=str)
def test_drawn_numbers(case):
    data, inputs = single_node(case)
    [expected] = support.session(data, level=support.UNOPTIMIZED).run(None, inputs)
    ours = support.session(data, support.GRAPH, support.UNOPTIMIZED)
    [have] = ours.run(None, inputs)
    assert (have.dtype, have.shape) == (expected.dtype, expected.shape)
    if case.op == "Multinomial":
        assert set(np.unique(have)) <= set(range(4))
    elif case.op == "RandomNormalLike":
        assert abs(have.mean() - 3.0) < 0.3 and abs(have.std() - 2.0) < 0.3
    else:
        assert 2.0 <= have.min() and have.max() < 3.0 and abs(have.mean() - 2.5) < 0.05


def test_every_operator_of_the_provider_is_here():
    """The names that the provider compares nodes with stand in its library as text."""
    text = support.LIBRARY.read_bytes()
    names = {case.op for case in operators.CASES + operators.DRAWN + operators.REFUSED}
    missing = [name for name in sorted(names) if name.encode() not in text]
    assert not missing
    assert len(names) >= 133
