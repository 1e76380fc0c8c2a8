"""A model of one node for every operator that the provider puts into graphs, with inputs."""

import dataclasses

import numpy as np

RANDOM = np.random.default_rng(7)


@dataclasses.dataclass
class Case:
    """One node. `constant` has the indices of inputs that are initializers; None is an input that is not there."""

    op: str
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    constant: tuple = ()
    outputs: int = 1
    opset: int = 17
    note: str = ""

    def __str__(self):
        return f"{self.op}-{self.note}" if self.note else self.op


def f32(*sizes, low=-2.0, high=2.0):
    return RANDOM.uniform(low, high, sizes).astype(np.float32)


def positive(*sizes):
    return f32(*sizes, low=0.1, high=3.0)


def whole(*sizes, low=-5, high=6, dtype=np.int32):
    return RANDOM.integers(low, high, sizes).astype(dtype)


def flags(*sizes):
    return RANDOM.integers(0, 2, sizes).astype(bool)


def i64(*values):
    return np.array(values, np.int64)


def of(value, dtype=np.float32):
    return np.array(value, dtype)


def lstm():
    hidden, features = 4, 3
    return [f32(5, 2, features), f32(1, 4 * hidden, features), f32(1, 4 * hidden, hidden), f32(1, 8 * hidden)]


def matrix():
    return f32(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)


BOXES = np.array([[0, 0, 0, 4, 4], [0, 1, 1, 6, 5], [1, 2, 0, 7, 7]], np.float32)

CASES = [
    *[Case(op, [f32(2, 3, 4)]) for op in """Abs Atan Asinh Ceil Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish Identity
    LeakyRelu Neg Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Tanh ThresholdedRelu Celu Hardmax LogSoftmax
    Softmax Flatten Transpose Shape Size LpNormalization Max Min Sum Mean""".split()],
    *[Case(op, [positive(2, 3, 4)]) for op in "Log Sqrt Reciprocal".split()],
    *[Case(op, [f32(2, 3, low=-0.9, high=0.9)]) for op in "Acos Asin Atanh".split()],
    Case("Acosh", [f32(2, 3, low=1.1, high=4.0)]),
    Case("Abs", [whole(7)], note="i32"),
    Case("Neg", [f32(2, 3).astype(np.float16)], note="f16"),
    *[Case(op, [f32(2, 3, 4), f32(3, 1)]) for op in "Add Sub Mul Max Min Greater Less Equal Sum Mean GreaterOrEqual LessOrEqual".split()],
    *[Case(op, [whole(2, 6, dtype=np.int64), whole(6, dtype=np.int64)], note="i64") for op in "Add Sub Mul Greater Less Equal".split()],
    *[Case(op, [f32(2, 3, 1), f32(1, 3, 4)], note="both") for op in "Add Sub Mul".split()],
    Case("Div", [f32(2, 3), positive(2, 3)]),
    Case("Div", [whole(2, 6), whole(6, low=1)], note="i32"),
    Case("Pow", [positive(2, 3), f32(3)]),
    Case("Mod", [whole(2, 6), whole(6, low=1)]),
    Case("Mod", [f32(2, 3), positive(3)], {"fmod": 1}, note="fmod"),
    Case("PRelu", [f32(2, 3, 4), f32(3, 1)], constant=(1,)),
    *[Case(op, [flags(2, 3), flags(3)]) for op in "And Or Xor".split()],
    Case("Not", [flags(2, 3)]),
    Case("BitShift", [whole(6, low=0, dtype=np.uint32), whole(6, low=0, dtype=np.uint32)], {"direction": "LEFT"}),
    *[Case(op, [f32(2, 3, 4)], {"axis": 1, "keepdims": 0}) for op in "ArgMax ArgMin".split()],
    *[
        Case(op, [f32(2, 3, 4)], {"axes": [0, 2]})
        for op in "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare".split()
    ],
    Case("ReduceLogSum", [positive(2, 3, 4)], {"axes": [1], "keepdims": 0}),
    Case("ReduceSum", [f32(2, 3, 4), i64(1)], {"keepdims": 0}, constant=(1,)),
    Case("ReduceSum", [f32(2, 3, 4)], {"axes": [2]}, opset=11, note="axes"),
    Case("AveragePool", [f32(1, 2, 7, 8)], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    Case("MaxPool", [f32(1, 2, 7, 8)], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    Case("MaxPool", [f32(1, 2, 9)], {"kernel_shape": [3], "auto_pad": "SAME_UPPER"}, outputs=2, note="indices"),
    Case("LpPool", [f32(1, 2, 7, 8)], {"kernel_shape": [3, 2], "strides": [2, 2]}),
    *[Case(op, [f32(2, 3, 4, 5)]) for op in "GlobalAveragePool GlobalMaxPool GlobalLpPool".split()],
    Case("MaxUnpool", [positive(1, 1, 2, 2), i64(5, 7, 13, 15).reshape(1, 1, 2, 2)], {"kernel_shape": [2, 2], "strides": [2, 2]}, constant=(1,)),
    Case("MaxRoiPool", [f32(2, 3, 8, 8), BOXES], {"pooled_shape": [2, 2], "spatial_scale": 1.0}),
    Case("RoiAlign", [f32(2, 3, 8, 8), BOXES[:, 1:], i64(0, 0, 1)], {"output_height": 2, "output_width": 3, "sampling_ratio": 2}, opset=16),
    Case("BatchNormalization", [f32(2, 3, 4, 5), f32(3), f32(3), f32(3), positive(3)], constant=(1, 2, 3, 4)),
    Case("InstanceNormalization", [f32(2, 3, 4, 5), f32(3), f32(3)], constant=(1, 2)),
    Case("LRN", [f32(2, 5, 3, 3)], {"size": 3}),
    Case("MeanVarianceNormalization", [f32(2, 3, 4, 5)]),
    Case("Conv", [f32(1, 4, 7, 8), f32(6, 2, 3, 3), f32(6)], {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 2]}, constant=(1, 2)),
    Case("Conv", [f32(1, 2, 9), f32(3, 2, 3)], {"dilations": [2]}, constant=(1,), note="1d"),
    Case("ConvTranspose", [f32(1, 3, 4, 4), f32(3, 2, 3, 3), f32(2)], {"strides": [2, 2], "output_padding": [1, 1]}, constant=(1, 2)),
    Case("Gemm", [f32(3, 4), f32(5, 4), f32(5)], {"transB": 1, "alpha": 0.5, "beta": 2.0}, constant=(1, 2)),
    Case("Gemm", [f32(4, 3), f32(4, 5)], {"transA": 1}, note="no C"),
    Case("MatMul", [f32(2, 3, 4), f32(4, 5)]),
    Case("MatMul", [f32(3, 4).astype(np.float16), f32(4, 5).astype(np.float16)], note="f16"),
    Case("LSTM", lstm(), {"hidden_size": 4}, constant=(1, 2, 3), outputs=3),
    Case("Det", [matrix()]),
    Case("Dropout", [f32(2, 3)]),
    Case("Cast", [f32(2, 3)], {"to": 7}),
    Case("Cast", [whole(2, 3)], {"to": 10}, note="f16"),
    Case("Clip", [f32(2, 3), of(-0.5), of(1.0)], constant=(1, 2)),
    Case("Clip", [f32(2, 3), of(-0.5), of(1.0)], note="scalars"),
    Case("Concat", [f32(2, 3), f32(2, 1)], {"axis": 1}),
    Case("Compress", [f32(3, 4), np.array([True, False, True])], {"axis": 0}, constant=(1,)),
    Case("Compress", [f32(3, 4), np.array([True, False, True])], {"axis": 0}, note="found at run"),
    Case("ConstantOfShape", [i64(2, 3)], constant=(0,)),
    Case("CumSum", [f32(2, 5), of(1, np.int64)], {"reverse": 1}, constant=(1,)),
    Case("DepthToSpace", [f32(1, 8, 2, 3)], {"blocksize": 2}),
    Case("SpaceToDepth", [f32(1, 2, 4, 6)], {"blocksize": 2}),
    Case("Expand", [f32(3, 1), i64(2, 3, 4)], constant=(1,)),
    Case("EyeLike", [f32(3, 4)], {"k": 1}),
    Case("Gather", [f32(5, 3), i64(0, 4, -1)], {"axis": 0}),
    Case("GatherElements", [f32(3, 3), whole(2, 3, low=0, high=3, dtype=np.int64)], {"axis": 0}),
    Case("GatherND", [f32(2, 3, 4), i64(0, 1, 1, 2).reshape(2, 2)]),
    Case("NonMaxSuppression", [f32(1, 6, 4), positive(1, 2, 6), i64(3), of([0.5]), of([0.2])], constant=(2, 3, 4)),
    Case("NonZero", [whole(3, 4, low=0, high=2)]),
    Case("OneHot", [i64(0, 3, -1), i64(4), of([-1.0, 2.0])], {"axis": -1}, constant=(1, 2)),
    Case("Pad", [f32(2, 3), i64(0, 1, 2, 1), of(1.5)], constant=(1, 2)),
    Case("Pad", [f32(3, 4), i64(1, 1, 1, 1)], {"mode": "reflect"}, constant=(1,), note="reflect"),
    Case("Range", [of(0, np.int64), of(7, np.int64), of(2, np.int64)], constant=(0, 1, 2)),
    Case("Reshape", [f32(2, 3, 4), i64(0, -1)], constant=(1,)),
    Case("Resize", [f32(1, 2, 3, 4), None, of([1, 1, 2, 2])], {"mode": "linear"}, constant=(2,)),
    Case("Resize", [f32(1, 2, 3, 4), None, None, i64(1, 2, 5, 7)], {"mode": "nearest"}, constant=(3,), note="sizes"),
    Case("ReverseSequence", [f32(4, 3), i64(2, 4, 1)], {"batch_axis": 1, "time_axis": 0}),
    Case("Scatter", [f32(3, 3), i64(1, 0, 2, 0, 2, 1).reshape(2, 3), f32(2, 3)], opset=10),
    Case("ScatterElements", [f32(3, 3), i64(1, 0, 2, 0, 2, 1).reshape(2, 3), f32(2, 3)], {"axis": 0}),
    Case("ScatterND", [f32(4, 3), i64(1, 3).reshape(2, 1), f32(2, 3)]),
    Case("Slice", [f32(5, 6), i64(1, -1), i64(4, 0), i64(0, 1), i64(2, -2)], constant=(1, 2, 3, 4)),
    Case("SoftmaxCrossEntropyLoss", [f32(4, 3), i64(0, 2, 1, 1)]),
    Case("Softmax", [f32(2, 3, 4)], {"axis": 1}, opset=11, note="flattened"),
    Case("Split", [f32(2, 6), i64(2, 4)], {"axis": 1}, constant=(1,), outputs=2),
    Case("Squeeze", [f32(2, 1, 3), i64(1)], constant=(1,)),
    Case("Unsqueeze", [f32(2, 3), i64(0, 3)], constant=(1,)),
    Case("TfIdfVectorizer", [whole(2, 6, low=0, high=4)], {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 3],
        "ngram_indexes": [0, 1, 2, 3, 4], "pool_int64s": [1, 2, 3, 1, 2, 2, 3],
    }),
    Case("Tile", [f32(2, 3), i64(2, 1)], constant=(1,)),
    Case("TopK", [f32(3, 6), i64(2)], {"axis": 1}, constant=(1,), outputs=2),
    Case("Transpose", [f32(2, 3, 4)], {"perm": [2, 0, 1]}, note="perm"),
    Case("Where", [flags(2, 3), f32(2, 3), f32(3)]),
]

"""Nodes of the provider's operators that our reader of ONNX refuses."""
REFUSED = [Case("Cast", [f32(2, 3)], {"to": 8}, note="strings")]

"""Operators whose numbers are drawn: only types, sizes and ranges can be checked."""
DRAWN = [
    Case("Multinomial", [f32(2, 4)], {"sample_size": 50, "seed": 1.0}),
    Case("RandomNormalLike", [f32(40, 50)], {"seed": 1.0, "mean": 3.0, "scale": 2.0}),
    Case("RandomUniformLike", [f32(40, 50)], {"seed": 1.0, "low": 2.0, "high": 3.0}),
    Case("RandomUniform", [], {"shape": [40, 50], "seed": 1.0, "low": 2.0, "high": 3.0}),
]
