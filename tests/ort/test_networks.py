"""Small networks, optimized by onnxruntime as it does by default, in both modes."""

import numpy as np
import pytest

import networks
import support

BOTH = pytest.mark.parametrize("mode", [support.GRAPH, support.SINGLE], ids=["graph", "single"])


def made(build, open_sizes=False):
    net, output, sizes = build()
    x = np.random.default_rng(1).standard_normal(sizes).astype(np.float32)
    return support.model(net.nodes, {"x": x}, [output], net.weights, opset=13, open_sizes=open_sizes), x


@BOTH
@pytest.mark.parametrize("build", networks.ALL, ids=lambda one: one.__name__)
def test_network(build, mode):
    data, x = made(build)
    tasks = support.check(data, {"x": x}, mode)
    kernels = {"perceptron": {"Relu"}, "residual": {"Conv2D", "Relu", "Add"}, "transformer": {"BatchMatMul", "Erf", "BroadcastToD"}}
    assert {"graph"} == set(tasks) - {"graph constants"} if mode == support.GRAPH else kernels[build.__name__] <= set(tasks)


@BOTH
@pytest.mark.parametrize("build", networks.ALL, ids=lambda one: one.__name__)
def test_batch_size_changes_from_run_to_run(build, mode):
    data, x = made(build, open_sizes=True)
    ours, expected = support.session(data, mode), support.session(data)
    trace = support.Trace()
    for batch in [2, 1, 5, 2, 5]:
        feed = {"x": np.resize(x, (batch, *x.shape[1:])) + batch}
        support.compare(ours.run(None, feed), expected.run(None, feed))
    assert trace.tasks()


@BOTH
def test_half_precision(mode):
    net, output, sizes = networks.transformer()
    weights = {name: value.astype(np.float16) if value.dtype == np.float32 else value for name, value in net.weights.items()}
    x = np.random.default_rng(1).standard_normal(sizes).astype(np.float16)
    data = support.model(net.nodes, {"x": x}, [output], weights, opset=13)
    # As it is: onnxruntime would make `Gemm` of products and sums, of which the provider's kernel has a race (docs/onnx.md).
    assert support.check(data, {"x": x}, mode, support.UNOPTIMIZED, tolerance=2e-2)
