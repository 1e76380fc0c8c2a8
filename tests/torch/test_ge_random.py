"""Random graphs through ge::Session: every node computes what PyTorch computes from the same inputs, and neither fusion nor
folding nor the way to run changes a byte.
"""

import pytest
import torch

import depth
import ge_reference
from device import Device, raw
from ge_model import Model, with_outputs
from ge_random import RandomModel

# Neither fusion nor folding: every node runs by itself.
PLAIN = {"ge.oo.level": "O1", "ge.oo.constantFolding": "false"}
OPTIONS = ({}, {"ge.oo.level": "O1"}, {"ge.oo.constantFolding": "false"}, {"ge.featureBaseRefreshable": "1"})
TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3}


@pytest.fixture(scope="module", autouse=True)
def device_0():
    torch.npu.set_device(0)
    torch.npu.synchronize()


def check_each(model, values):
    """Compares every node with PyTorch, from the values that the graph gave its inputs."""
    for link, expected in ge_reference.compute_each(model, values).items():
        tolerance = TOLERANCES.get(expected.tensor.dtype, 0)
        finite = expected.tensor[expected.tensor.isfinite()].double().abs()
        absolute = 0.1 * tolerance * max(1.0, float(finite.max()) if finite.numel() else 0)
        message = lambda text: f"{link}: {text}"
        torch.testing.assert_close(
            values[link], expected.tensor, rtol=tolerance, atol=absolute, equal_nan=True, msg=message
        )  # fmt: skip


def check_bytes(engine, data, links, inputs, values):
    """Compares the outputs of a model with the bytes of `values`, with all options, twice on the host and twice on a stream."""
    shapes = [(values[link].dtype, tuple(values[link].shape)) for link in links]
    for options in OPTIONS:
        with engine.model(data, **options) as first, engine.model(data, **options) as second:
            for outputs in ((), shapes):
                with Device() as device:
                    results = {"on the host": first.run(inputs), "on a stream": second.run_on(device, inputs, outputs)}
                for mode, tensors in results.items():
                    for link, one in zip(links, tensors, strict=True):
                        assert torch.equal(raw(values[link]), raw(one)), f"{link} {mode} with {options}"


@pytest.mark.parametrize("seed", range(16 if depth.DEEP else 4))
def test_a_random_graph_is_its_nodes_one_by_one(seed, engine):
    random_model = RandomModel(seed, is_dynamic=seed % 2 == 1, count=6 + seed)
    data, inputs = random_model.model(), random_model.tensors(seed)
    model = Model(data)
    expected = ge_reference.compute(model, inputs)
    everything = with_outputs(data, [(link, value.tensor.dtype) for link, value in expected.items()])
    with engine.model(everything, **PLAIN) as graph:
        values = dict(zip(expected, graph.run(inputs), strict=True))
    check_each(model, values)
    taken, given_back = engine.blocks()
    check_bytes(engine, data, model.output.inputs, inputs, values)
    check_bytes(engine, everything, list(expected), inputs, values)
    now = engine.blocks()
    assert now[0] - taken == now[1] - given_back > 0, "blocks of the pool are missing"
