"""Small networks with random weights: a perceptron, two residual blocks, a transformer block."""

import numpy as np
from onnx import helper


class Network:
    """Nodes and weights, added one after the other. Methods return the name of what they add."""

    def __init__(self, seed=3):
        self.nodes, self.weights, self.random = [], {}, np.random.default_rng(seed)

    def add(self, op, *inputs, **attributes):
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"node_{name}", **attributes))
        return name

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return name

    def weight(self, *sizes):
        scale = 1.0 / np.sqrt(np.prod(sizes[1:]) or 1.0)
        return self.constant((self.random.standard_normal(sizes) * scale).astype(np.float32))

    def linear(self, x, inputs, outputs):
        return self.add("Gemm", x, self.weight(inputs, outputs), self.weight(outputs))

    def convolution(self, x, inputs, outputs, kernel=3, stride=1):
        pads = [kernel // 2] * 4
        return self.add("Conv", x, self.weight(outputs, inputs, kernel, kernel), pads=pads, strides=[stride] * 2, kernel_shape=[kernel] * 2)

    def normalized(self, x, channels):
        variance = self.constant(self.random.uniform(0.5, 1.5, channels).astype(np.float32))
        return self.add("BatchNormalization", x, self.weight(channels), self.weight(channels), self.weight(channels), variance)


def perceptron():
    net = Network()
    x = net.add("Relu", net.linear("x", 12, 16))
    return net, net.add("Softmax", net.linear(x, 16, 5)), (4, 12)


def residual():
    net = Network()
    x = net.add("Relu", net.normalized(net.convolution("x", 3, 8), 8))
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for inputs, outputs, stride in [(8, 8, 1), (8, 16, 2)]:
        y = net.add("Relu", net.normalized(net.convolution(x, inputs, outputs, 3, stride), outputs))
        y = net.normalized(net.convolution(y, outputs, outputs), outputs)
        if stride != 1:
            x = net.convolution(x, inputs, outputs, 1, stride)
        x = net.add("Relu", net.add("Add", x, y))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net, net.linear(x, 16, 10), (2, 3, 16, 16)


def transformer(heads=2, width=8, length=6):
    net = Network()

    def layer_norm(x):
        centred = net.add("Sub", x, net.add("ReduceMean", x, axes=[-1]))
        variance = net.add("ReduceMean", net.add("Mul", centred, centred), axes=[-1])
        root = net.add("Sqrt", net.add("Add", variance, net.constant(np.array(1e-5, np.float32))))
        return net.add("Add", net.add("Mul", net.add("Div", centred, root), net.weight(width)), net.weight(width))

    def project(x, outputs=width, inputs=width):
        return net.add("Add", net.add("MatMul", x, net.weight(inputs, outputs)), net.weight(outputs))

    def split(x, order):
        sizes = net.constant(np.array([0, length, heads, width // heads], np.int64))
        return net.add("Transpose", net.add("Reshape", x, sizes), perm=order)

    x = layer_norm("x")
    query, key, value = (split(project(x), order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scale = net.constant(np.array((width // heads) ** -0.5, np.float32))
    scores = net.add("Softmax", net.add("Mul", net.add("MatMul", query, key), scale), axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", scores, value), perm=[0, 2, 1, 3])
    mixed = net.add("Reshape", mixed, net.constant(np.array([0, length, width], np.int64)))
    x = net.add("Add", "x", project(mixed))
    inner = project(layer_norm(x), 4 * width)
    erf = net.add("Erf", net.add("Div", inner, net.constant(np.array(2**0.5, np.float32))))
    half = net.add("Mul", inner, net.constant(np.array(0.5, np.float32)))
    gelu = net.add("Mul", half, net.add("Add", erf, net.constant(np.array(1.0, np.float32))))
    return net, net.add("Add", x, project(gelu, width, 4 * width)), (2, length, width)


ALL = [perceptron, residual, transformer]
