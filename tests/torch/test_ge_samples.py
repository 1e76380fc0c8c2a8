"""Models that torchair wrote (`facts/ge_samples` of the data folder, CAIRN_DATA) through ge::Session, against PyTorch on the CPU."""

import os
import pathlib
import re

import pytest
import torch

import ge_reference
from device import Device, raw
from ge_model import Model, with_outputs

SAMPLES = "add_static add_dynamic mlp_static mlp_dynamic attn attn_dynamic misc inplace conv".split()
# Inputs of a sample that are variances: not negative.
VARIANCES = {"conv": {"arg4_1"}}
# Indices of a sample are below this.
BOUNDS = {"attn": 50, "attn_dynamic": 50, "misc": 4}
# Sizes for the unknown dimensions of a sample's inputs, in order; the first again at the end.
SIZES = {
    "add_dynamic": [(2, 3, 2, 3), (4, 1, 1, 5), (1, 1, 1, 1), (0, 3, 0, 3), (33, 65, 33, 65), (2, 3, 2, 3)],
    "mlp_dynamic": [(4, 6, 6), (1, 1, 1), (17, 29, 29), (0, 6, 6), (128, 64, 64), (4, 6, 6)],
    "attn_dynamic": [(2, 7), (1, 1), (3, 12), (1, 33), (0, 7), (2, 7)],
}
# Relative, the second one after products; absolute a tenth of it, relative to the greatest element of the tensor.
TOLERANCE, AFTER_PRODUCTS = 1e-5, 1e-4
# Fused and folded, and neither; feature memory that changes with each run.
OPTIONS = ({}, {"ge.oo.level": "O1"}, {"ge.oo.constantFolding": "false"}, {"ge.featureBaseRefreshable": "1"})


def sample(name):
    folder = os.environ.get("CAIRN_DATA")
    if not folder:
        pytest.skip("CAIRN_DATA names no folder: the samples of the graph engine are not at hand")
    return (pathlib.Path(folder) / f"facts/ge_samples/ge_sample_{name}.pb").read_bytes()


def random_inputs(model, name, sizes, seed):
    """Random inputs of a model."""
    generator, unknown, tensors = torch.Generator().manual_seed(seed), iter(sizes), []
    for one in model.inputs:
        dtype, dims = one.output_descs[0]
        dims = [next(unknown) if dim < 0 else dim for dim in dims]
        if dtype.is_floating_point:
            tensor = 0.3 * torch.randn(dims, generator=generator, dtype=dtype)
            tensors.append(tensor.abs() if one.name in VARIANCES.get(name, ()) else tensor)
        else:
            tensors.append(torch.randint(0, BOUNDS[name], dims, generator=generator, dtype=dtype))
    assert next(unknown, None) is None
    return tensors


def greatest(tensor):
    """The greatest absolute value of a finite element."""
    finite = tensor[tensor.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def compare(found, expected, links, how):
    assert len(found) == len(links), f"{len(found)} outputs {how}"
    for one, link in zip(found, links):
        value = expected[link]
        relative = AFTER_PRODUCTS if value.is_after_product else TOLERANCE
        relative = relative if value.tensor.is_floating_point() else 0
        absolute = 0.1 * relative * greatest(value.tensor.double())
        message = lambda text: f"{link} {how}: {text}"
        torch.testing.assert_close(one, value.tensor, rtol=relative, atol=absolute, equal_nan=True, msg=message)


@pytest.fixture(scope="module", autouse=True)
def device_0():
    torch.npu.set_device(0)
    torch.npu.synchronize()


class SampleRunner:
    """Runs one model with several inputs, each on the host and on a stream, and counts what it compared. A value has the same
    bytes whichever way it is computed."""

    def __init__(self, engine, name):
        self.engine, self.name = engine, name
        self.data = sample(name)
        self.model = Model(self.data)
        absent = {one.type for one in self.model.nodes if not engine.knows(one.type)}
        assert not absent, f"operators that are absent: {sorted(absent)}"
        self.runs, self.compared, self.bytes = 0, 0, {}
        self.inputs = [random_inputs(self.model, name, sizes, seed) for seed, sizes in enumerate(SIZES.get(name, [()] * 3))]
        self.expected = [ge_reference.compute(self.model, inputs) for inputs in self.inputs]

    def run(self, data, links, options, has_memory):
        with self.engine.model(data, **options) as first, self.engine.model(data, **options) as second:
            for at, (inputs, expected) in enumerate(zip(self.inputs, self.expected)):
                settings = f"with {options} for {[tuple(one.shape) for one in inputs]}"
                on_host = first.run(inputs)
                compare(on_host, expected, links, f"by RunGraph {settings}")
                if set(links) == set(expected):
                    each = ge_reference.compute_each(self.model, dict(zip(links, on_host)))
                    compare(on_host, each, links, f"by RunGraph, from its own inputs, {settings}")
                shapes = [(expected[link].tensor.dtype, tuple(expected[link].tensor.shape)) for link in links]
                with Device() as device:
                    on_stream = second.run_on(device, inputs, shapes if has_memory else ())
                for link, one, other in zip(links, on_host, on_stream, strict=True):
                    before = self.bytes.setdefault((at, link), raw(one))
                    assert torch.equal(before, raw(one)), f"{link} has other bytes than before {settings}"
                    assert torch.equal(before, raw(other)), f"{link} has other bytes on a stream {settings}"
                self.runs += 2
                self.compared += 2 * len(links)

    def report(self, capsys, what):
        with capsys.disabled():
            print(f"\n{self.name}, {what}: {self.runs} runs, {self.compared} tensors as PyTorch has them", end=" ")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_computes_what_pytorch_computes(name, engine, capsys):
    runner = SampleRunner(engine, name)
    links = runner.model.output.inputs
    for options in OPTIONS:
        for has_memory in (True, False):
            taken, given_back = engine.blocks()
            runner.run(runner.data, links, options, has_memory)
            now = engine.blocks()
            assert has_memory or now[0] > taken, f"nothing came from the pool with {options}"
            assert now[0] - taken == now[1] - given_back, f"blocks of the pool are missing with {options}"
    runner.report(capsys, f"{len(OPTIONS)} sets of options")


@pytest.mark.parametrize("name", SAMPLES)
def test_every_node_of_a_sample_computes_what_pytorch_computes(name, engine, capsys):
    runner = SampleRunner(engine, name)
    links = list(runner.expected[0])
    data = with_outputs(runner.data, [(link, runner.expected[0][link].tensor.dtype) for link in links])
    assert Model(data).output.inputs == links
    runner.run(runner.data, runner.model.output.inputs, {}, False)
    for options in OPTIONS:
        runner.run(data, links, options, False)
    runner.report(capsys, f"{len(links)} values of {len(runner.model.nodes)} nodes")


def test_every_sample_is_known():
    sample("add_static")
    folder = pathlib.Path(os.environ["CAIRN_DATA"]) / "facts/ge_samples"
    found = {re.fullmatch(r"ge_sample_(\w+)", path.stem)[1] for path in folder.glob("*.pb")}
    assert found == set(SAMPLES)
