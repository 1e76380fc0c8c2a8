"""Every kernel that the provider has for single operators, in the types that it takes, against the CPU provider."""

import numpy as np
import pytest
from onnx import helper

import support
from operators import Case, f32, flags, positive, whole
from test_operators import single_node

F16, F32, F64 = np.float16, np.float32, np.float64
I8, I16, I32, I64 = np.int8, np.int16, np.int32, np.int64
U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
TYPES = [U8, U16, U32, U64, I8, I16, I32, I64, F16, F32, F64, bool]


def numbers(dtype, *sizes):
    """Numbers that every type holds, none of them 0."""
    return whole(*sizes, low=1, high=6).astype(dtype)


def typed(op, dtype, *values, **more):
    return Case(op, [value.astype(dtype) for value in values], note=np.dtype(dtype).name, **more)


CASES = [
    # (case, the operators that run on the device)
    *[(typed(op, t, numbers(t, 3, 4), numbers(t, 3, 4), opset=13), [op]) for op in ("Add", "Sub", "Mul", "Div") for t in (I32, I64, F16, F32, F64)],
    *[(typed(op, t, numbers(t, 3, 4), numbers(t, 3, 4), opset=14), [op]) for op in ("Sub", "Mul", "Div") for t in (U8, U16, I8, I16)],
    *[(typed("Add", t, numbers(t, 3, 4), numbers(t, 3, 4), opset=14), ["Add"]) for t in (U8, I8, I16)],
    *[(Case(op, [f32(2, 3, 4), f32(3, 1)], note="broadcast"), ["BroadcastToD", op]) for op in ("Add", "Sub", "Mul")],
    (Case("Add", [f32(4), f32(2, 3, 4)], note="broadcast the first"), ["BroadcastToD", "Add"]),
    (Case("Mul", [f32(2, 3), f32()], note="scalar"), ["BroadcastToD", "Mul"]),
    *[(typed(op, t, f32(2, 5)), [op]) for op in ("Floor", "Ceil", "Erf", "Round", "Sin", "Cos", "Abs", "Neg", "Relu") for t in (F16, F32)],
    *[(typed(op, t, positive(2, 5)), [op]) for op in ("Reciprocal", "Sqrt", "Log") for t in (F16, F32)],
    (typed("Exp", F16, f32(2, 5)), ["Exp"]),
    (typed("Abs", I32, whole(7)), ["Abs"]),
    (typed("Neg", I32, whole(7)), ["Neg"]),
    (typed("Neg", I8, whole(7)), ["Neg"]),
    *[(typed("Relu", t, whole(7), opset=14), ["Relu"]) for t in (I8, I16, I32, I64, F64) if t in (I8, I32, F64)],
    *[(typed("MatMul", t, f32(2, 3, 4), f32(2, 4, 5)), ["BatchMatMul"]) for t in (F16, F32)],
    (typed("MatMul", I32, whole(3, 4), whole(4, 5)), ["BatchMatMul"]),
    (Case("MatMul", [f32(2, 3, 4), f32(4, 5)], note="broadcast"), ["BatchMatMul"]),
    (Case("MatMul", [f32(3, 4), f32(4, 5)], note="matrices"), ["BatchMatMul"]),
    (typed("Gemm", F16, f32(3, 4), f32(4, 5), f32(3, 5)), ["GEMM"]),
    (typed("Gemm", F16, f32(3, 4), f32(5, 4), f32(5), attributes={"transB": 1, "alpha": 0.5, "beta": 2.0}), ["BroadcastToD", "GEMM"]),
    (typed("Gemm", F16, f32(4, 3), f32(4, 5), f32(1), attributes={"transA": 1}), ["Fill", "GEMM"]),
    *[(typed("AveragePool", t, f32(1, 2, 6, 8), attributes={"kernel_shape": [2, 2], "strides": [2, 2]}), ["AvgPoolV2"]) for t in (F16, F32)],
    (Case("AveragePool", [f32(1, 2, 7, 9)], {"kernel_shape": [3, 3], "strides": [2, 3], "auto_pad": "VALID"}, note="valid"), ["AvgPoolV2"]),
    *[(typed("GlobalAveragePool", t, f32(2, 3, 4, 5)), ["AvgPoolV2"]) for t in (F16, F32)],
    *[(typed("GlobalMaxPool", t, f32(2, 3, 4, 5)), ["MaxPoolV3"]) for t in (F16, F32)],
    *[(typed("MaxPool", t, f32(1, 2, 6, 8), attributes={"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}, opset=7), ["MaxPoolV3"]) for t in (F16, F32)],
    (Case("BatchNormalization", [f32(2, 3, 4, 5), f32(3), f32(3), f32(3), positive(3)]), ["BatchNorm"]),
    (Case("BatchNormalization", [f32(2, 3), f32(3), f32(3), f32(3), positive(3)], {"epsilon": 1e-2}, opset=14, note="rows"), ["BatchNorm"]),
    *[(typed("Conv", t, f32(1, 3, 7, 8), f32(4, 3, 3, 3), f32(4), attributes={"pads": [1, 1, 1, 1], "strides": [2, 1]}), ["Conv2D"]) for t in (F16, F32)],
    (Case("Conv", [f32(1, 4, 7, 7), f32(6, 2, 3, 3)], {"group": 2, "dilations": [2, 2]}, note="groups, no bias"), ["Conv2D"]),
    (Case("Conv", [f32(1, 2, 4, 5, 6), f32(3, 2, 2, 2, 2), f32(3)], note="3d"), ["Conv3D"]),
    *[(typed("Flatten", t, numbers(t, 2, 3, 4), attributes={"axis": 2}), ["Flatten"]) for t in TYPES if t not in (F64, bool)],
    (Case("Flatten", [f32(2, 3, 4)], {"axis": -1}, note="from the end"), ["Flatten"]),
    *[(typed("Transpose", t, numbers(t, 2, 3, 4), attributes={"perm": [2, 0, 1]}, opset=12), ["TransposeD"]) for t in TYPES if t is not F64],
    *[(typed("Cast", t, numbers(t, 7), attributes={"to": to}), ["Cast"]) for t in TYPES for to in (1, 7)],
    *[(Case("Cast", [f32(7).astype(F32) * 3 + 10], {"to": to}, note=str(to)), ["Cast"]) for to in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)],
    # Copies alone.
    *[(typed("Identity", t, numbers(t, 7)), []) for t in TYPES],
    *[(Case("Reshape", [numbers(t, 2, 6), np.array([3, -1], I64)], constant=(1,), note=np.dtype(t).name), []) for t in TYPES],
    (Case("Dropout", [f32(2, 3)], outputs=2), []),
    (typed("Dropout", F16, f32(2, 3)), []),
]


@pytest.mark.parametrize("case, expected", CASES, ids=lambda one: str(one) if isinstance(one, Case) else "")
def test_kernel(case, expected):
    data, inputs = single_node(case)
    tolerance = 4e-3 if case.inputs[0].dtype == F16 else 1e-4
    assert support.check(data, inputs, support.SINGLE, support.UNOPTIMIZED, tolerance) == expected


def test_operators_without_a_kernel_run_on_the_cpu():
    data, inputs = single_node(Case("Softmax", [f32(2, 3)]))
    assert support.check(data, inputs, support.SINGLE, support.UNOPTIMIZED) == []
    nodes = [helper.make_node("Softmax", ["x"], ["a"]), helper.make_node("Add", ["a", "a"], ["y"])]
    x = f32(2, 3)
    data = support.model(nodes, {"x": x}, ["y"])
    assert support.check(data, {"x": x}, support.SINGLE, support.UNOPTIMIZED) == ["Add"]


def test_logical_operators_run_on_the_cpu():
    data, inputs = single_node(Case("And", [flags(3), flags(3)]))
    assert support.check(data, inputs, support.SINGLE, support.UNOPTIMIZED) == []


REFUSED = [
    Case("Conv", [f32(1, 2, 9), f32(3, 2, 3)], note="one dimension"),
    Case("Conv", [f32(1, 2, 9, 9), f32(3, 2, 3, 3)], {"pads": [1, 0, 1, 0]}, note="pads in another order"),
    Case("GlobalAveragePool", [f32(1, 2, 6)], note="one dimension"),
    Case("GlobalMaxPool", [f32(1, 2, 6, 4, 3)], note="three dimensions"),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_the_provider_passes_on_wrongly_is_refused(case):
    """docs/onnx.md: the run fails, and gives no wrong numbers. Graphs compute it."""
    data, inputs = single_node(case)
    with pytest.raises(Exception, match="aclopCompileAndExecute"):
        support.session(data, support.SINGLE, support.UNOPTIMIZED).run(None, inputs)
    assert "graph" in support.check(data, inputs, support.GRAPH, support.UNOPTIMIZED)
