"""Models by `acl.mdl` against onnxruntime on the CPU: what depends on values that only a run brings, and on the edges of ONNX's definitions."""

import numpy as np
import onnx
import pytest
from loaded import one_node, run
from onnx import TensorProto, helper
from support import compare, model, session


def check_nodes(nodes, inputs, outputs, constants=None, open_sizes=False, opset=17):
    """A model of several nodes, with the sizes of its inputs or with open ones."""
    data = model(nodes, inputs, outputs, constants, opset, open_sizes)
    compare(run(data, list(inputs.values())), session(data).run(None, inputs))


def check_node(kind, inputs, attributes=None, outputs=1, constant=(), opset=18, open_axes=()):
    data, fed = one_node(kind, inputs, outputs, attributes, constant, opset, open_axes)
    names = [entry.name for entry in onnx.load_from_string(data).graph.input]
    compare(run(data, fed), session(data).run(None, dict(zip(names, fed))))


def filled(value, dtype):
    return {"value": onnx.numpy_helper.from_array(np.array([value], dtype))}


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("value, dtype", [(1.5, np.float32), (3, np.int32), (True, np.bool_)])
@pytest.mark.parametrize("to", [TensorProto.INT64, TensorProto.FLOAT])
def test_a_constant_of_a_fed_shape_has_the_type_of_its_value(value, dtype, to, open_sizes):
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["a"], **filled(value, dtype)),
        helper.make_node("Cast", ["a"], ["y"], to=to),
    ]
    check_nodes(nodes, {"s": np.array([2, 3], np.int64)}, ["y", "a"], open_sizes=open_sizes)


INDICES = [[0, 2, 1], [0, -1, 2], [0, 7, -9], [-4, -5, 4]]


@pytest.mark.parametrize("indices", INDICES)
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("constant", [(), (1,), (1, 2)])
@pytest.mark.parametrize("open_axes", [(), (0,)])
def test_one_hot(indices, axis, constant, open_axes):
    inputs = [np.array(indices, np.int64), np.array(4, np.int64), np.array([-1, 2], np.float32)]
    check_node("OneHot", inputs, {"axis": axis}, constant=constant, open_axes=open_axes)


def test_one_hot_of_more_dimensions():
    for axis in (-1, 0, 1, 2, -2):
        inputs = [np.arange(-7, 5, dtype=np.int64).reshape(3, 4), np.array(5, np.int64), np.array([3, 9], np.int64)]
        check_node("OneHot", inputs, {"axis": axis})


def test_one_hot_with_a_fed_depth_is_of_the_type_of_its_values():
    nodes = [helper.make_node("OneHot", ["x", "d", "v"], ["a"]), helper.make_node("Cast", ["a"], ["y"], to=TensorProto.INT64)]
    inputs = {"x": np.array([0, 2], np.int64), "d": np.array(3, np.int64), "v": np.array([0.5, 2.5], np.float32)}
    check_nodes(nodes, inputs, ["y"])


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_pools_that_leave_positions_out(kind, auto_pad):
    for size, kernel, stride in [(3, 1, 3), (4, 1, 3), (5, 2, 3), (6, 1, 4), (7, 1, 5), (7, 2, 4), (6, 1, 6)]:
        x = np.arange(1, 2 * size * size + 1, dtype=np.float32)
        attributes = {"auto_pad": auto_pad, "kernel_shape": [kernel], "strides": [stride]}
        check_node(kind, [x[: 2 * size].reshape(1, 2, size)], attributes)
        attributes |= {"kernel_shape": [kernel, 2], "strides": [stride, 1]}
        check_node(kind, [x.reshape(1, 2, size, size)], attributes)


@pytest.mark.parametrize("constant", [(), (1, 2, 3, 4)])
@pytest.mark.parametrize("open_axes", [(), (0, 1)])
def test_slices_that_go_backward_from_before_the_first_element(constant, open_axes):
    for start, end, step in [(-9, -20, -1), (-3, -20, -1), (1, -20, -1), (-9, 2, 1), (9, -20, -2), (-9, 0, -1)]:
        numbers = [np.array([one, two], np.int64) for one, two in [(start, 1), (end, 3), (1, 0), (step, 1)]]
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        # Inputs of two numbers have no open sizes.
        check_node("Slice", [x, *numbers], constant=constant, open_axes=open_axes if constant else ())


@pytest.mark.parametrize("open_axes", [(), (0,), (0, 1)])
@pytest.mark.parametrize("size, parts", [(7, 3), (6, 3), (8, 3), (2, 1)])
def test_split_into_parts_the_last_of_which_is_smaller(size, parts, open_axes):
    x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    check_node("Split", [x], {"axis": 0, "num_outputs": parts}, outputs=parts, open_axes=open_axes)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_unsqueeze_with_open_sizes(dtype):
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    for axes in ([0], [-1], [1, 3], [0, -1]):
        check_node("Unsqueeze", [x, np.array(axes, np.int64)], constant=(1,), open_axes=(0, 1))


def test_matrices_with_open_sizes():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for k in (0, 1, -2, 5):
        for upper in (0, 1):
            check_node("Trilu", [x, np.array(k, np.int64)], {"upper": upper}, open_axes=(0, 1))
        check_node("EyeLike", [x], {"k": k, "dtype": TensorProto.INT64}, open_axes=(0, 1))
        check_node("EyeLike", [x], {"k": k})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_with_open_sizes(mode):
    x = np.arange(2 * 8 * 3 * 2, dtype=np.float32).reshape(2, 8, 3, 2)
    check_node("DepthToSpace", [x], {"blocksize": 2, "mode": mode}, open_axes=(0, 1, 2, 3))
