"""What a model of the graph engine computes, by PyTorch on the CPU: each node by a function of this file, so that nothing here
depends on Cairn's operators.
"""

import torch
import torch.nn.functional as F

# Numbers of ge::DataType, which attributes use.
TYPES = {0: torch.float32, 1: torch.float16, 3: torch.int32, 9: torch.int64, 12: torch.bool, 27: torch.bfloat16}
PRODUCTS = ("MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2", "Conv2D")


def transposed(x, is_transposed):
    return x.mT if is_transposed else x


def product(node, a, b, bias=None, *_):
    first, second = ("transpose_x1", "transpose_x2") if node.type.startswith("MatMul") else ("adj_x1", "adj_x2")
    result = transposed(a, node.attributes[first]) @ transposed(b, node.attributes[second])
    return result if bias is None else result + bias


def convolution(node, x, weight, bias=None, *_):
    assert node.attributes["data_format"] == "NCHW"
    top, bottom, left, right = node.attributes["pads"]
    strides, dilations = node.attributes["strides"][2:], node.attributes["dilations"][2:]
    padded = F.pad(x, (left, right, top, bottom))
    return F.conv2d(padded, weight, bias, strides, 0, dilations, node.attributes["groups"])


def batch_norm(node, x, scale, offset, mean, variance):
    return F.batch_norm(x, mean, variance, scale, offset, False, 0, node.attributes["epsilon"])


def max_pool(node, x):
    """The first output; the form of the second, the indices, is the operator's own and not compared."""
    sizes, strides, pads, dilations = (node.attributes[name][1:3] for name in ("ksize", "strides", "pads", "dilation"))
    return F.max_pool2d(x, sizes, strides, pads, dilations, node.attributes["ceil_mode"])


def gather(node, x, indices, axis=None):
    assert node.attributes["batch_dims"] == 0
    axis = 0 if axis is None else int(axis)
    sizes = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
    return x.index_select(axis, indices.flatten()).reshape(sizes)


def sliced(node, x, begin, end, axes=None, strides=None):
    assert not any(value for name, value in node.attributes.items() if name.endswith("_mask"))
    starts = begin.flatten().tolist()
    axes = range(len(starts)) if axes is None else axes.flatten().tolist()
    steps = [1] * len(starts) if strides is None else strides.flatten().tolist()
    for axis, start, stop, step in zip(axes, starts, end.flatten().tolist(), steps, strict=True):
        x = x[(slice(None),) * axis + (slice(start, stop, step),)]
    return x


def cumulative_sum(node, x, axis):
    assert not node.attributes["exclusive"] and not node.attributes["reverse"]
    return x.cumsum(int(axis))


def layer_norm(node, x, sizes, gamma, beta):
    count = sizes.numel()
    result, mean, scale = torch.native_layer_norm(x, sizes.tolist(), gamma, beta, node.attributes["epsilon"])
    assert mean.dim() == x.dim() and mean.shape[x.dim() - count :].numel() == 1
    return result, mean, scale


def softmax(node, x):
    (axis,) = node.attributes["axes"]
    return x.softmax(axis)


def max_with_index(node, x):
    values, indices = x.max(node.attributes["dimension"], keepdim=node.attributes["keep_dims"])
    return indices.int(), values


def top_k(node, x, count):
    options = node.attributes
    values, indices = x.topk(int(count), options["dim"], largest=options["largest"], sorted=options["sorted"])
    return values, indices.int()


def over_axes(function):
    return lambda node, x, axes: function(x, axes.flatten().tolist(), keepdim=node.attributes["keep_dims"])


# The outputs of a node from its inputs: one, or a tuple.
FUNCTIONS = {
    "Const": lambda node: node.attributes["value"],
    "Identity": lambda _, x: x,
    "Add": lambda _, a, b: a + b,
    "Sub": lambda _, a, b: a - b,
    "Mul": lambda _, a, b: a * b,
    "RealDiv": lambda _, a, b: a / b,
    "Maximum": lambda _, a, b: torch.maximum(a, b),
    "Minimum": lambda _, a, b: torch.minimum(a, b),
    "Pow": lambda _, a, b: a**b,
    "Abs": lambda _, x: x.abs(),
    "Neg": lambda _, x: -x,
    "Sign": lambda _, x: x.sign(),
    "Floor": lambda _, x: x.floor(),
    "Square": lambda _, x: x * x,
    "Sqrt": lambda _, x: x.sqrt(),
    "Sigmoid": lambda _, x: x.sigmoid(),
    "Tanh": lambda _, x: x.tanh(),
    "Relu": lambda _, x: x.clamp(min=0),
    "Gelu": lambda _, x: F.gelu(x, approximate="tanh"),
    "Greater": lambda _, a, b: a > b,
    "Less": lambda _, a, b: a < b,
    "Equal": lambda _, a, b: a == b,
    "LogicalAnd": lambda _, a, b: a & b,
    "LogicalOr": lambda _, a, b: a | b,
    "SelectV2": lambda _, condition, a, b: torch.where(condition, a, b),
    "MaskedFill": lambda _, x, mask, value: x.masked_fill(mask, value),
    "Cast": lambda node, x: x.to(TYPES[node.attributes["dst_type"]]),
    "Fill": lambda _, sizes, value: value.expand(sizes.tolist()).contiguous(),
    "ZerosLike": lambda _, x: torch.zeros_like(x),
    "Triu": lambda node, x: x.triu(node.attributes["diagonal"]),
    "Shape": lambda node, x: torch.tensor(x.shape, dtype=TYPES[node.attributes["dtype"]]),
    "Reshape": lambda _, x, sizes: x.reshape(sizes.tolist()),
    "Transpose": lambda _, x, order: x.permute(order.tolist()),
    "Pack": lambda node, *parts: torch.stack(parts, node.attributes["axis"]),
    "ConcatV2": lambda _, *parts: torch.cat(parts[:-1], int(parts[-1])),
    "StridedSliceV2": sliced,
    "Gather": gather,
    "GatherV2": gather,
    "ReduceSum": over_axes(torch.sum),
    "ReduceMean": over_axes(torch.mean),
    "ArgMaxWithValue": max_with_index,
    "ArgMaxV2": lambda node, x, axis: x.argmax(int(axis)).to(TYPES[node.attributes["dtype"]]),
    "TopKV2": top_k,
    "Cumsum": cumulative_sum,
    "SoftmaxV2": softmax,
    "LayerNormV4": layer_norm,
    "BNInfer": batch_norm,
    "MaxPoolWithArgmaxV1": max_pool,
} | dict.fromkeys(PRODUCTS, product) | {"Conv2D": convolution}


class Value:
    """An output of a node, and whether it depends on a matrix product or a convolution."""

    def __init__(self, tensor, is_after_product):
        self.tensor, self.is_after_product = tensor, is_after_product


def apply(node, values):
    """The outputs of one node, keyed by its name and their index, from the values of its inputs."""
    inputs = [values[link] if link else None for link in node.inputs]
    is_after_product = node.type in PRODUCTS or any(value.is_after_product for value in inputs if value)
    results = FUNCTIONS[node.type](node, *(value and value.tensor for value in inputs))
    results = results if isinstance(results, tuple) else (results,)
    return {(node.name, index): Value(tensor, is_after_product) for index, tensor in enumerate(results)}


def computed_nodes(model):
    """All nodes but inputs and the output."""
    return [one for one in model.nodes if one.type not in ("Data", "RefData", "NetOutput")]


def compute(model, inputs):
    """Every output of every node, from the inputs of the graph."""
    values = {(one.name, 0): Value(tensor, False) for one, tensor in zip(model.inputs, inputs, strict=True)}
    waiting = computed_nodes(model)
    while waiting:
        ready = [one for one in waiting if all(link in values for link in one.inputs if link)]
        assert ready, f"a cycle through {[one.name for one in waiting]}"
        for one in ready:
            values |= apply(one, values)
        waiting = [one for one in waiting if (one.name, 0) not in values]
    return values


def compute_each(model, tensors):
    """Every output of every node, each node from the tensors that are given for its inputs."""
    inputs = {link: Value(tensor, False) for link, tensor in tensors.items()}
    return inputs | {link: value for one in computed_nodes(model) for link, value in apply(one, inputs).items()}
