"""Empty tensors, tensors without dimensions, NaN, division by zero, overlapping tensors: as on the CPU."""

import pytest
import torch
from torch.nn import functional as F

from against import gelu

NAN, INF = float("nan"), float("inf")


def check(function, *inputs, rtol=1e-5):
    """The result on `npu`, which must be that on `cpu`."""
    expected = function(*inputs)
    actual = function(*(tensor.npu() for tensor in inputs))
    cpu_values, npu_values = ([value] if isinstance(value, torch.Tensor) else list(value) for value in (expected, actual))
    for cpu, npu in zip(cpu_values, npu_values, strict=True):
        assert (npu.device.type, npu.dtype, npu.shape) == ("npu", cpu.dtype, cpu.shape)
        torch.testing.assert_close(npu.cpu(), cpu, rtol=rtol, atol=1e-6, equal_nan=True)
    return actual


def no_indices(x):
    """An empty tensor of indices, on the device of `x`."""
    return torch.zeros(0, dtype=torch.int64, device=x.device)


# Calls that take a tensor of any sizes.
OF_ANY_SIZES = {
    "neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "log": lambda x: (x * x + 1).log(), "sqrt": lambda x: (x * x).sqrt(),
    "rsqrt": lambda x: (x * x + 1).rsqrt(), "sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu, "gelu": gelu,
    "silu": F.silu, "clamp": lambda x: x.clamp(-1, 1), "add": lambda x: x + x, "add scalar": lambda x: x + 1, "sub": lambda x: x - 2 * x,
    "mul": lambda x: x * x, "div": lambda x: x / (x * x + 1), "pow": lambda x: x**2, "pow tensor": lambda x: (x * x + 1) ** x,
    "eq": lambda x: x == x, "lt": lambda x: x < 1, "and": lambda x: (x > 0) & (x < 1), "not": lambda x: (x > 0).logical_not(),
    "isfinite": torch.isfinite, "isnan": torch.isnan, "where": lambda x: torch.where(x > 0, x, -x),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2.0), "sum": torch.sum, "mean": torch.mean, "any": lambda x: (x > 0).any(),
    "all": lambda x: (x > 0).all(), "clone": torch.clone, "half": torch.Tensor.half, "long": torch.Tensor.long, "zeros_like": torch.zeros_like,
    "full_like": lambda x: torch.full_like(x, 3), "reshape": lambda x: x.reshape(-1), "mse_loss": lambda x: F.mse_loss(x, 2 * x),
    "maximum": lambda x: torch.maximum(x, -x), "add_": lambda x: x.clone().add_(1), "zero_": lambda x: x.clone().zero_(),
    "prod": torch.prod, "flip": lambda x: x.flip(tuple(range(x.dim()))), "stack": lambda x: torch.stack([x, x]), "nonzero": torch.nonzero,
    "masked_select": lambda x: x.masked_select(x > 0), "expand": lambda x: x.expand(2, *x.shape).contiguous(), "numpy": lambda x: x.cpu().to(x.device),
    "dropout": lambda x: F.dropout(x, 0.5, False), "lerp": lambda x: x.lerp(x + 1, 0.5), "sort": lambda x: x.reshape(-1).sort(),
    "cumsum": lambda x: x.cumsum(0), "norm": torch.linalg.vector_norm, "topk 0": lambda x: x.reshape(-1).topk(0),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ANY_SIZES)
def test_empty_and_without_dimensions(name):
    function = OF_ANY_SIZES[name]
    for x in (torch.tensor(0.7), torch.tensor(-2.0), torch.empty(0), torch.empty(0, 3), torch.empty(2, 0, 3), torch.empty(3, 0).t()):
        check(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.mean(1), lambda x: x.any(1), lambda x: x.all(0), lambda x: x.var(1), lambda x: x.softmax(0),
        lambda x: x.log_softmax(1), lambda x: x.cumsum(1), lambda x: x.sort(0), lambda x: x.topk(0, 1), lambda x: x.max(1) if x.shape[1] else x.sum(1),
        lambda x: F.layer_norm(x, x.shape[1:]) if x.shape[1] else x, lambda x: x.index_select(1, no_indices(x)), lambda x: x[:, no_indices(x)], lambda x: torch.cat([x, x], 1),
        lambda x: x.gather(1, no_indices(x).reshape(x.shape[0], 0) if not x.shape[0] else no_indices(x).expand(x.shape[0], 0)), lambda x: x.tril(), lambda x: x.t().contiguous(),
        lambda x: x @ x.t(), lambda x: x.t() @ x, lambda x: torch.bmm(x[None], x.t()[None]), lambda x: F.linear(x, x, x.new_ones(x.shape[0])), lambda x: x.repeat(2, 3),
        lambda x: F.embedding(no_indices(x), x + 0) if x.shape[0] else x, lambda x: x.argmax(1) if x.shape[1] else x, lambda x: x.logsumexp(1) if x.shape[1] else x,
        lambda x: F.pad(x, (1, 1)), lambda x: x.roll(1, 1), lambda x: x.repeat_interleave(2, 1), lambda x: torch.where(x > 0, x, x[:, :1] if x.shape[1] else x),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:var")
def test_empty_dimensions(function):
    for x in (torch.ones(0, 3), torch.ones(3, 0), torch.ones(0, 0)):
        check(function, x)


def test_gradients_of_empty_tensors():
    for shape in ((0,), (0, 3), (3, 0), ()):
        for function in (torch.exp, gelu, lambda x: x * x, lambda x: x.sum(), lambda x: x.softmax(-1), lambda x: x.reshape(-1)[:0]):
            grads = []
            for device in ("cpu", "npu"):
                x = torch.full(shape, 0.5, device=device, requires_grad=True)
                function(x).sum().backward()
                grads.append(x.grad.cpu())
            torch.testing.assert_close(grads[1], grads[0])


def gelu_of_finite(x):
    """Of infinity, PyTorch's own gelu makes NaN on some CPUs (AVX-512)."""
    return gelu(x.masked_fill(x.isinf(), 7.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1, lambda x: x * 0, lambda x: x.max(), lambda x: x.min(), lambda x: x.max(1), lambda x: x.min(1), lambda x: x.amax(0), lambda x: x.argmax(1), lambda x: x.argmin(1),
        lambda x: x.sum(1), lambda x: x.mean(), lambda x: torch.maximum(x, x.flip(0)), lambda x: torch.minimum(x, x.flip(0)), lambda x: x.clamp(-1, 1), lambda x: x.clamp(min=0), torch.relu,
        torch.sigmoid, torch.tanh, torch.exp, lambda x: x.softmax(1), lambda x: x.log_softmax(1), lambda x: x.sort(1), lambda x: x.topk(2, 1)[0], lambda x: x == x, lambda x: x != x,
        lambda x: x < x.flip(0), torch.isnan, torch.isfinite, torch.isinf, lambda x: x.cumsum(1), lambda x: x.bool(), lambda x: x.sign(), torch.abs, lambda x: (x != 0).any(1), lambda x: x.all(1), lambda x: x.prod(1),
        lambda x: x.nan_to_num(1.0), lambda x: x.float().std(1), lambda x: torch.where(x.isnan(), 0.0, x), gelu_of_finite, F.silu, lambda x: F.layer_norm(x, (5,)), lambda x: x**0, lambda x: x.half().float(),
    ],
)  # fmt: skip
def test_nan(function, dtype):
    x = torch.tensor([[1, NAN, 3, -2, 0], [INF, 1, -INF, 2, 5], [0, 2, 1, 4, NAN], [NAN] * 5, [1, 2, 3, 4, 5]], dtype=dtype)
    check(function, x, rtol={torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_by_zero(dtype):
    """The CPU raises, the NPU does not: integers by zero give 0 here, their remainder is the integer, and nothing crashes.
    Nor does the least number by -1."""
    least = torch.iinfo(dtype).min
    x = torch.tensor([7, 0, 100, least, least], dtype=dtype)
    y = torch.tensor([0, 0, 3, 0, 1 if least == 0 else -1], dtype=dtype)
    divisor = torch.where(y > 0, y, 1)
    for function in (torch.floor_divide, torch.remainder, torch.fmod, lambda a, b: torch.div(a, b, rounding_mode="trunc")):
        actual = function(x.npu(), y.npu()).cpu()
        expected = torch.where(y == 0, x if function is torch.remainder else 0, function(x, divisor))
        assert actual.dtype == dtype and torch.equal(actual[:4], expected[:4]), (actual, expected)
    check(torch.div, x, y)


# A function that writes a part of x from another, and the same with `v`, a copy of x before, written to `to`.
OVERLAPS = {
    "x[1:] += x[:-1]": (lambda x: x[1:].add_(x[:-1]), lambda v, to: to[1:].copy_(v[1:] + v[:-1])),
    "x[:-1] += x[1:]": (lambda x: x[:-1].add_(x[1:]), lambda v, to: to[:-1].copy_(v[:-1] + v[1:])),
    "x[1:] *= x[:-1]": (lambda x: x[1:].mul_(x[:-1]), lambda v, to: to[1:].copy_(v[1:] * v[:-1])),
    "copy_": (lambda x: x[1:].copy_(x[:-1]), lambda v, to: to[1:].copy_(v[:-1])),
    "copy_ back": (lambda x: x[:-1].copy_(x[1:]), lambda v, to: to[:-1].copy_(v[1:])),
    "copy_ transposed": (lambda x: square(x, 0).copy_(square(x, 0).t()), lambda v, to: square(to, 0).copy_(square(v, 0).t())),
    "add out": (lambda x: torch.add(x[:-2], x[2:], out=x[1:-1]), lambda v, to: to[1:-1].copy_(v[:-2] + v[2:])),
    "mm out": (
        lambda x: torch.mm(square(x, 0), square(x, 64), out=square(x, 32)),
        lambda v, to: square(to, 32).copy_(square(v, 0) @ square(v, 64)),
    ),
    "cumsum out": (lambda x: torch.cumsum(x[:-1], 0, out=x[1:]), lambda v, to: to[1:].copy_(v[:-1].cumsum(0))),
    "masked_fill_": (lambda x: x[1:].masked_fill_(x[:-1] > 3, 9.0), lambda v, to: to[1:].masked_fill_(v[:-1] > 3, 9.0)),
    "itself": (lambda x: x.add_(x), lambda v, to: to.copy_(v + v)),
    "index_add_": (
        lambda x: x[:50].index_add_(0, torch.arange(50, device=x.device), x[25:75]),
        lambda v, to: to[:50].copy_(v[:50] + v[25:75]),
    ),
}


def square(x, begin):
    return x[begin : begin + 64].view(8, 8)


@pytest.mark.parametrize("name", OVERLAPS)
@pytest.mark.parametrize("count", [200, 70_000])
def test_outputs_over_inputs(name, count):
    """Unless torch itself refuses, the result is as if all inputs had been read before anything was written."""
    in_place, from_copy = OVERLAPS[name]
    values = torch.arange(count).remainder(7).float()
    expected, x = values.clone(), values.npu()
    from_copy(values, expected)
    try:
        in_place(x)
    except RuntimeError as error:
        assert "single memory location" in str(error) or "overlap" in str(error), error
    else:
        torch.testing.assert_close(x.cpu(), expected, rtol=1e-5, atol=1e-5)


def test_an_output_whose_elements_share_memory_is_refused():
    x = torch.zeros(3, device="npu").expand(4, 3)
    with pytest.raises(RuntimeError):
        x.add_(torch.ones(4, 3, device="npu"))
        torch.npu.synchronize()
