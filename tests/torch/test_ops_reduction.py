"""Reductions, scans, softmax, norms and losses against PyTorch on the CPU, forward and backward."""

import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from against import REALS, TOLERANCES
from support import run_script


def random_tensor(*size, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(-3 if dtype != torch.bool else 0, 4, size, generator=generator).to(dtype)
    return torch.randn(size, generator=generator).to(dtype)


LAYOUTS = {
    "plain": lambda dtype: random_tensor(5, 6, 7, dtype=dtype),
    "permuted": lambda dtype: random_tensor(7, 6, 5, dtype=dtype).permute(2, 1, 0),
    "sliced": lambda dtype: random_tensor(5, 12, 9, dtype=dtype)[:, ::2, 1:8],
    "expanded": lambda dtype: random_tensor(5, 1, 7, dtype=dtype).expand(5, 6, 7),
}


def leaf(tensor, device, grad):
    """A leaf with the values and the strides of `tensor`."""
    base = tensor if tensor._base is None else tensor._base
    moved = base.detach().to(device)
    if moved.numel():
        moved = moved.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    return moved.detach().requires_grad_(grad and tensor.is_floating_point())


def results_and_gradients(function, tensors, device, backward):
    leaves = [leaf(tensor, device, backward) for tensor in tensors]
    results = function(*leaves)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    differentiable = [result for result in results if result.requires_grad]
    if backward and differentiable:
        output_grads = [(1 + torch.arange(one.numel()) % 3).reshape(one.shape).to(one.device, one.dtype) for one in differentiable]
        torch.autograd.backward(differentiable, output_grads)
        results += [one.grad for one in leaves if one.grad is not None]
    return [result.detach().cpu() for result in results]


def compare(function, *tensors, backward=True, tolerance=None):
    """Compares the function on the device with the CPU; half types with float32 of the same values."""
    dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
    converted = [t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors]
    expected = results_and_gradients(function, converted, "cpu", backward)
    found = results_and_gradients(function, tensors, "npu", backward)
    assert len(expected) == len(found)
    limit = tolerance or TOLERANCES.get(dtype, 1e-5)
    for want, have in zip(expected, found):
        assert have.shape == want.shape
        if not want.is_floating_point():
            assert have.dtype == want.dtype
            torch.testing.assert_close(have, want, rtol=0, atol=0)
            continue
        finite = want[torch.isfinite(want)].abs()
        largest = float(finite.max()) if finite.numel() else 1.0
        torch.testing.assert_close(have.to(want.dtype), want, rtol=limit, atol=limit * max(largest, 1e-3), equal_nan=True)


def tolerance_of_sum(count):
    """The tolerance in float32 where this many numbers are summed."""
    return 1e-4 if count > 1000 else 1e-5


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum of a dim": lambda x: x.sum(1),
    "sum of dims": lambda x: x.sum((0, 2), keepdim=True),
    "mean": lambda x: x.mean(),
    "mean of dims": lambda x: x.mean((1, 2)),
    "prod of a dim": lambda x: x.prod(1),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "amax": lambda x: x.amax((0, 1)),
    "amin": lambda x: x.amin(2, keepdim=True),
    "var": lambda x: x.var(),
    "var of a dim": lambda x: x.var(1, correction=0, keepdim=True),
    "std": lambda x: x.std((0, 2)),
    "norm": lambda x: x.norm(),
    "norm 1": lambda x: torch.linalg.vector_norm(x, 1, dim=2),
    "norm 3": lambda x: torch.linalg.vector_norm(x, 3.0, dim=(0, 1)),
    "norm inf": lambda x: torch.linalg.vector_norm(x, math.inf, dim=1),
    "logsumexp": lambda x: x.logsumexp(1),
    "cumsum": lambda x: x.cumsum(1),
    "cumsum last": lambda x: x.cumsum(-1),
    "softmax": lambda x: x.softmax(-1),
    "softmax 1": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "log_softmax 0": lambda x: x.log_softmax(0),
}
LOOSE = {"norm 3", "prod of a dim", "var", "var of a dim", "std"}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dtype, layout):
    tolerance = TOLERANCES[dtype] * 4 if name in LOOSE and dtype != torch.float32 else None
    compare(REDUCTIONS[name], LAYOUTS[layout](dtype), backward=layout != "expanded", tolerance=tolerance)


WITH_INDICES = {
    "max": lambda x: tuple(x.max(1)),
    "min": lambda x: tuple(x.min(2, keepdim=True)),
    "argmax": lambda x: x.argmax(0),
    "argmax of all": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(-1, keepdim=True),
    "cummax": lambda x: tuple(x.cummax(1)),
    "cummin": lambda x: tuple(x.cummin(2)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("name", WITH_INDICES)
def test_indices(name, dtype, layout):
    compare(WITH_INDICES[name], LAYOUTS[layout](dtype), backward=False)


OF_INTEGERS = {
    "sum": lambda x: x.sum(),
    "sum of a dim": lambda x: x.sum(1),
    "sum to float": lambda x: x.sum(2, dtype=torch.float32),
    "any": lambda x: x.any(),
    "any of a dim": lambda x: x.any(1),
    "all": lambda x: x.all(),
    "all of a dim": lambda x: x.all(2, keepdim=True),
    "cumsum": lambda x: x.cumsum(0),
    "prod": lambda x: x.prod(2),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers(name, dtype, layout):
    compare(OF_INTEGERS[name], LAYOUTS[layout](dtype), backward=False)


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("name", ["sum", "mean", "softmax", "log_softmax", "cumsum last", "norm", "var"])
def test_few_elements(name):
    for size in [(0,), (3, 0), (0, 3), (), (1,)]:
        compare(REDUCTIONS[name], random_tensor(*size), backward=name != "var")
    for size in [(0, 4), (4, 0)]:
        compare(lambda x: x.sum(0), random_tensor(*size))
        compare(lambda x: x.mean(1), random_tensor(*size))
        compare(lambda x: x.any(1), random_tensor(*size, dtype=torch.bool), backward=False)


def test_nan_and_infinities():
    x = torch.tensor([[1.0, math.nan, 2.0], [math.inf, 1.0, -math.inf], [-math.inf, -math.inf, -math.inf]])
    for function in [lambda x: x.amax(1), lambda x: x.argmax(1), lambda x: x.min(), lambda x: x.logsumexp(1), lambda x: x.softmax(1),
                     lambda x: x.sum(0), lambda x: torch.nansum(x, 1), lambda x: tuple(x.cummax(1)), lambda x: x.isnan().any(1)]:
        compare(function, x, backward=False)


@pytest.mark.parametrize("size", [(300_000,), (70_000, 5), (5, 70_000), (600, 700), (33, 65, 129)], ids=str)
def test_large(size):
    for dim in [None, *range(len(size))]:
        tolerance = tolerance_of_sum(math.prod(size) if dim is None else size[dim])
        compare((lambda x: x.sum()) if dim is None else (lambda x: x.sum(dim)), random_tensor(*size), tolerance=tolerance)
        compare((lambda x: x.var()) if dim is None else (lambda x: x.var(dim)), random_tensor(*size), tolerance=tolerance)
        compare((lambda x: x.max()) if dim is None else (lambda x: x.argmax(dim)), random_tensor(*size), backward=False)
    compare(lambda x: x.softmax(-1), random_tensor(*size), tolerance=tolerance_of_sum(size[-1]))
    compare(lambda x: x.log_softmax(0), random_tensor(*size), tolerance=tolerance_of_sum(size[0]))


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_layer_norm(dtype):
    for size, last in [((4, 5, 6), (6,)), ((4, 5, 6), (5, 6)), ((3, 4000), (4000,)), ((300, 257), (257,)), ((0, 4), (4,))]:
        weight, bias = random_tensor(*last, dtype=dtype, seed=1), random_tensor(*last, dtype=dtype, seed=2)
        tolerance = max(tolerance_of_sum(math.prod(last)), TOLERANCES[dtype])
        compare(lambda x, w, b: F.layer_norm(x, last, w, b), random_tensor(*size, dtype=dtype), weight, bias, tolerance=tolerance)
    compare(lambda x: F.layer_norm(x, (5,)), random_tensor(5, 4, dtype=dtype).t())


def test_rms_norm():
    x, gamma = random_tensor(6, 40).npu().requires_grad_(), random_tensor(40, seed=1).npu().requires_grad_()
    y, _ = torch_npu.npu_rms_norm(x, gamma, epsilon=1e-6)
    y.square().sum().backward()
    a, b = random_tensor(6, 40).requires_grad_(), random_tensor(40, seed=1).requires_grad_()
    want = F.rms_norm(a, (40,), b, eps=1e-6)
    want.square().sum().backward()
    torch.testing.assert_close(y.cpu(), want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(x.grad.cpu(), a.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gamma.grad.cpu(), b.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_channel_norms(dtype):
    tolerance = {torch.float32: 1e-5}.get(dtype, 1e-2)
    x, weight, bias = random_tensor(3, 6, 5, 4, dtype=dtype), random_tensor(6, dtype=dtype, seed=1), random_tensor(6, dtype=dtype, seed=2)
    compare(lambda x, w, b: F.group_norm(x, 3, w, b), x, weight, bias, tolerance=tolerance)
    weight, bias = weight.float(), bias.float()
    compare(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, weight, bias, tolerance=tolerance)
    compare(lambda x, w, b: F.batch_norm(x, b.detach() * 0, w.detach() * 0 + 2, w, b), x, weight, bias, tolerance=tolerance)


def test_batch_norm_keeps_statistics():
    states = []
    for device in ["cpu", "npu"]:
        norm = torch.nn.BatchNorm1d(4).to(device)
        norm(random_tensor(8, 4).to(device))
        states.append({name: value.cpu() for name, value in norm.state_dict().items()})
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value)


LOSSES = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth l1": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.5),
    "bce": lambda x, y, reduction: F.binary_cross_entropy(x.sigmoid(), y.sigmoid().detach(), reduction=reduction),
    "bce with logits": lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y.sigmoid().detach(), reduction=reduction),
    "kl": lambda x, y, reduction: F.kl_div(x.log_softmax(-1), y.softmax(-1).detach(), reduction=reduction),
    "kl of logarithms": lambda x, y, reduction: F.kl_div(x, y.detach(), reduction=reduction, log_target=True),
    "soft margin": lambda x, y, reduction: F.soft_margin_loss(x, y.sign().detach(), reduction=reduction),
}


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, dtype, reduction):
    loss, tolerance = LOSSES[name], {torch.float32: 2e-5}.get(dtype, TOLERANCES[dtype] * 4)
    compare(lambda x, y: loss(x, y, reduction=reduction), random_tensor(5, 7, dtype=dtype), random_tensor(5, 7, dtype=dtype, seed=1), tolerance=tolerance)
    compare(lambda x, y: loss(x, y, reduction=reduction), random_tensor(7, 5, dtype=dtype).t(), random_tensor(5, 7, dtype=dtype, seed=1), tolerance=tolerance)


def test_weights_of_binary_losses():
    x, y, weight = random_tensor(5, 7), random_tensor(5, 7, seed=1).sigmoid(), random_tensor(7, seed=2).exp()
    compare(lambda x: F.binary_cross_entropy_with_logits(x, y.to(x.device), weight.to(x.device), pos_weight=weight.to(x.device)), x)
    compare(lambda x: F.binary_cross_entropy(x.sigmoid(), y.to(x.device), weight.to(x.device)), x)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_likelihood(dtype, reduction):
    target = torch.tensor([1, 0, 4, -100, 2, 3])
    weight = random_tensor(5, seed=3).exp().to(dtype)
    tolerance = {torch.float32: 2e-5}.get(dtype, TOLERANCES[dtype] * 3)
    for weights in [None, weight]:
        compare(lambda x: F.nll_loss(x.log_softmax(-1), target.to(x.device), None if weights is None else weights.to(x.device, x.dtype), reduction=reduction),
                random_tensor(6, 5, dtype=dtype), tolerance=tolerance)
    compare(lambda x: F.cross_entropy(x, target.to(x.device), reduction=reduction), random_tensor(6, 5, dtype=dtype), tolerance=tolerance)
    target = torch.tensor([[[1, 0], [2, 2]], [[0, -100], [1, 1]]])
    compare(lambda x: F.nll_loss(x, target.to(x.device), reduction=reduction), random_tensor(2, 3, 2, 2, dtype=dtype), tolerance=tolerance)


def test_a_class_out_of_range_is_an_error():
    """The device does not go on after it, so it has a process of its own."""
    result = run_script(
        """
        import torch, torch_npu
        torch.nn.functional.nll_loss(torch.zeros(4, 3).npu(), torch.tensor([0, 1, 3, 2]).npu())
        torch.npu.synchronize()
        """,
        check=False,
    )
    assert result.returncode != 0
    assert "aclnnNLLLoss: target has the class 3 at position 2, outside 0 to 2" in result.stderr, result.stderr
