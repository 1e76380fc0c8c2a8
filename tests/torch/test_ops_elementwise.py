"""Elementwise operators against PyTorch's CPU: forward and backward, types, strides, broadcasting, no elements."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from against import LAYOUTS, REALS, agree, assert_near, gelu, numbers

# Function, and the range of its inputs.
UNARY = {
    "neg": (torch.neg, -4, 4),
    "abs": (torch.abs, -4, 4),
    "exp": (torch.exp, -4, 4),
    "exp2": (torch.exp2, -4, 4),
    "expm1": (torch.expm1, -2, 2),
    "log": (torch.log, 0.1, 9),
    "log1p": (torch.log1p, -0.5, 9),
    "log2": (torch.log2, 0.1, 9),
    "log10": (torch.log10, 0.1, 9),
    "sqrt": (torch.sqrt, 0.1, 9),
    "rsqrt": (torch.rsqrt, 0.1, 9),
    "reciprocal": (torch.reciprocal, 0.5, 4),
    "square": (torch.square, -4, 4),
    "sin": (torch.sin, -9, 9),
    "cos": (torch.cos, -9, 9),
    "tan": (torch.tan, -1, 1),
    "asin": (torch.asin, -0.9, 0.9),
    "acos": (torch.acos, -0.9, 0.9),
    "atan": (torch.atan, -4, 4),
    "sinh": (torch.sinh, -3, 3),
    "cosh": (torch.cosh, -3, 3),
    "asinh": (torch.asinh, -4, 4),
    "acosh": (torch.acosh, 1.5, 4),
    "atanh": (torch.atanh, -0.9, 0.9),
    "tanh": (torch.tanh, -3, 3),
    "sigmoid": (torch.sigmoid, -5, 5),
    "erf": (torch.erf, -2, 2),
    "erfc": (torch.erfc, -2, 2),
    "erfinv": (torch.erfinv, -0.8, 0.8),
    "floor": (torch.floor, -4, 4),
    "ceil": (torch.ceil, -4, 4),
    "round": (torch.round, -4, 4),
    "trunc": (torch.trunc, -4, 4),
    "frac": (torch.frac, -4, 4),
    "sign": (torch.sign, -4, 4),
    "relu": (torch.relu, -4, 4),
    "gelu": (gelu, -3, 3),
    "silu": (F.silu, -4, 4),
    "leaky_relu": (F.leaky_relu, -4, 4),
    "elu": (F.elu, -3, 3),
    "celu": (F.celu, -3, 3),
    "selu": (F.selu, -3, 3),
    "softplus": (F.softplus, -4, 4),
    "mish": (F.mish, -4, 4),
    "hardswish": (F.hardswish, -5, 5),
    "hardsigmoid": (F.hardsigmoid, -5, 5),
    "hardtanh": (F.hardtanh, -3, 3),
    "relu6": (F.relu6, -3, 9),
    "logsigmoid": (F.logsigmoid, -4, 4),
    "softshrink": (F.softshrink, -2, 2),
    "hardshrink": (F.hardshrink, -2, 2),
    "threshold": (lambda x: F.threshold(x, 0.5, 2.0), -2, 2),
    "add": (lambda x: x + 1.5, -4, 4),
    "add_alpha": (lambda x: torch.add(x, 1.5, alpha=2), -4, 4),
    "rsub": (lambda x: 1.5 - x, -4, 4),
    "mul": (lambda x: x * 1.5, -4, 4),
    "div": (lambda x: x / 3, -4, 4),
    "divided": (lambda x: 3 / x, 0.5, 4),
    "pow_2": (lambda x: x**2, -4, 4),
    "pow_3": (lambda x: x**3, -2, 2),
    "pow_half": (lambda x: x**0.5, 0.1, 4),
    "pow_real": (lambda x: x**1.7, 0.1, 4),
    "pow_minus": (lambda x: x**-1, 0.5, 4),
    "base": (lambda x: 2.5**x, -2, 2),
    "remainder": (lambda x: x % 0.75, -4, 4),
    "fmod": (lambda x: torch.fmod(x, 0.75), -4, 4),
    "clamp": (lambda x: x.clamp(-1, 1), -4, 4),
    "clamp_min": (lambda x: x.clamp(min=0.5), -4, 4),
    "clamp_max": (lambda x: x.clamp(max=0.5), -4, 4),
    "lerp": (lambda x: torch.lerp(x, x * 2, 0.3), -4, 4),
    "addcmul": (lambda x: torch.addcmul(x, x, x + 1, value=0.5), -4, 4),
    "addcdiv": (lambda x: torch.addcdiv(x, x, x, value=0.5), 0.5, 4),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 2.0), -4, 4),
    "where": (lambda x: torch.where(x > 0, x, 2 * x), -4, 4),
    "nan_to_num": (torch.nan_to_num, -4, 4),
    "logit": (torch.logit, 0.1, 0.9),
    "sinc": (torch.sinc, -3, 3),
}
WITHOUT_BACKWARD = {"add_alpha", "frac"}

BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: torch.sub(x, y, alpha=2),
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: torch.pow(y, x),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "where": lambda x, y: torch.where(x > y, x, y),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=2),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=2),
    "lerp": lambda x, y: torch.lerp(x, x + y, y),
    "atan2": torch.atan2,
    "clamp": lambda x, y: x.clamp(y - 2, y),
    "xlogy": torch.xlogy,
    "logaddexp": torch.logaddexp,
}
DIVISIONS = {
    "floor_divide": torch.floor_divide,
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}
COMPARISONS = {
    "eq": torch.eq,
    "ne": torch.ne,
    "gt": torch.gt,
    "ge": torch.ge,
    "lt": torch.lt,
    "le": torch.le,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "isclose": torch.isclose,
    "equal": torch.equal,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_of_one(name, dtype, layout):
    function, low, high = UNARY[name]
    x = numbers(low, high, dtype)
    agree(function, x, view=LAYOUTS[layout])
    if name not in WITHOUT_BACKWARD:
        agree(function, x, view=LAYOUTS[layout], backward=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_of_two(name, dtype, layout):
    x, y = numbers(-3, 3, dtype), numbers(0.5, 2, dtype, seed=1)
    agree(BINARY[name], x, y, view=LAYOUTS[layout], backward=True)


@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_of_two_that_broadcast(name, dtype):
    x, y = numbers(-3, 3, dtype), numbers(0.5, 2, dtype, seed=1)
    for other in (y[0], y[:, :1], y[0, 0], numbers(0.5, 2, dtype, size=(3, 1, 6))):
        agree(BINARY[name], x, other, backward=True)


@pytest.mark.parametrize("dtype", [*REALS, torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_division_and_remainder(name, dtype):
    x = numbers(0 if dtype == torch.uint8 else -9, 9, dtype)
    agree(DIVISIONS[name], x, numbers(1, 4, dtype, seed=1))
    agree(DIVISIONS[name], x, 3)
    agree(DIVISIONS[name], x, numbers(1, 4, dtype, seed=1)[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [*REALS, torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name, dtype, layout):
    x, y = numbers(0, 3, dtype), numbers(0, 3, dtype, seed=1)
    agree(COMPARISONS[name], x, y, view=LAYOUTS[layout])
    agree(COMPARISONS[name], x, x, view=LAYOUTS[layout])


@pytest.mark.parametrize("dtype", [*REALS, torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_numbers_and_in_place(name, dtype):
    x, y = numbers(0, 3, dtype), numbers(0, 3, dtype, seed=1)
    if name in ("eq", "ne", "gt", "ge", "lt", "le"):
        for number in (1, 0.1, True):
            agree(COMPARISONS[name], x, number)
        on_npu = x.npu()
        getattr(on_npu, name + "_")(y.npu())
        assert_near(on_npu, getattr(x, name + "_")(y))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool], ids=str)
def test_of_bits_and_integers(dtype):
    x, y = numbers(0, 9, dtype), numbers(1, 9, dtype, seed=1)
    for function in (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor):
        agree(function, x, y)
        agree(function, x, y, view=lambda x: x.t())
        agree(function, x, 1)
    agree(torch.bitwise_not, x)
    agree(torch.logical_not, x)
    agree(lambda x, y: x + y, x, y)
    agree(lambda x, y: x * y, x, y)
    agree(lambda x, y: x / y, x, y)
    agree(lambda x: x + 1.5, x)
    agree(lambda x: x * 2, x)
    agree(torch.maximum, x, y)
    agree(lambda x, y: torch.where(x > y, x, y), x, y)
    # For the other integer types torch_npu asks for integer results.
    if dtype in (torch.int64, torch.bool):
        agree(torch.exp, x)
        agree(torch.sqrt, x)
    if dtype != torch.bool:
        agree(lambda x: x**3, x)
        agree(lambda x, y: x - y, x, y)
        agree(torch.neg, x)
        agree(torch.abs, x)
        agree(torch.sign, x)
        agree(lambda x: x.clamp(2, 5), x)


@pytest.mark.parametrize("left", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("right", [torch.bool, torch.int8, torch.int32, torch.float16, torch.float32], ids=str)
def test_types_promote(left, right):
    x, y = numbers(0, 4, left), numbers(1, 4, right, seed=1)
    for function in (torch.add, torch.mul, torch.div, torch.gt, torch.eq, torch.maximum):
        agree(function, x, y)


def test_edges():
    edges = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 3e38, -3e38, 100.0, -100.0, 1e6, 1.0, -1.0])
    for function in (
        torch.exp, torch.log, torch.log1p, torch.expm1, torch.sqrt, torch.rsqrt, torch.tanh, torch.sigmoid, torch.erf, torch.sin, torch.cos, torch.abs,
        torch.floor, torch.relu, torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf, torch.signbit, torch.reciprocal,
        torch.nan_to_num, F.silu, F.softplus, F.logsigmoid, lambda x: x.clamp(-1, 1), lambda x: torch.maximum(x, x.flip(0)), lambda x: x > x.flip(0), F.hardswish,
    ):  # fmt: skip
        agree(function, edges)
    for function in (torch.remainder, torch.fmod, torch.div, torch.floor_divide, torch.pow):
        agree(function, edges, edges.flip(0))
        agree(function, edges, edges.roll(3))


def test_bounds_that_are_no_numbers():
    x, bounds = torch.tensor([-2.0, 0.0, 3.0]), torch.tensor([math.nan, 0.0, math.nan])
    for function in (
        lambda x: x.clamp_min(math.nan), lambda x: x.clamp_max(math.nan), lambda x: x.clamp(math.nan, 1.0), lambda x: x.clamp(-1.0, math.nan),
        lambda x: x.clone().clamp_(math.nan, 2), lambda x: x.clone().clamp_min_(math.nan), lambda x: x.clone().clamp_max_(math.nan),
    ):  # fmt: skip
        for dtype in REALS:
            agree(function, x.to(dtype))
    agree(lambda x, y: x.clamp(min=y), x, bounds)
    agree(lambda x, y: x.clamp(max=y), x, bounds)
    agree(lambda x, y: x.clamp(y, y + 1), x, bounds)
    # On the CPU, clamp with the one bound alone leaves x as it is, unlike clamp_min.
    assert x.npu().clamp(min=math.nan).isnan().all() and x.npu().clamp(max=math.nan).isnan().all()


def test_in_place():
    for name in "neg abs exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan tanh sigmoid floor ceil round trunc erf".split():
        x = numbers(0.5, 2, torch.float32)
        agree(lambda x: getattr(x.clone(), name + "_")(), x)
        agree(lambda x: getattr(x.clone()[:, ::2], name + "_")(), x)
    x, y = numbers(0.5, 2, torch.float32), numbers(0.5, 2, torch.float32, seed=1)
    for name in "add_ sub_ mul_ div_ pow_ remainder_ fmod_ floor_divide_ atan2_".split():
        agree(lambda x, y: getattr(x.clone(), name)(y), x, y)
        agree(lambda x, y: getattr(x.clone(), name)(y[0]), x, y)
        if name != "atan2_":
            agree(lambda x: getattr(x.clone(), name)(2), x)
    agree(lambda x, y: x.clone().clamp_(0.7, 1.2).lerp_(y, 0.3).addcmul_(x, y, value=2).addcdiv_(x, y), x, y)
    agree(lambda x, y: x.clone().lerp_(y, y).masked_fill_(x > 1, 3).clamp_min_(0.6).clamp_max_(2.0), x, y)
    agree(lambda x, y: x.clone().masked_fill_(x > 1, y[0, 0]).logical_and_(y).logical_or_(y), x, y)
    agree(lambda x: F.relu(x.clone() - 1, inplace=True), x)
    agree(lambda x: F.silu(x.clone() - 1, inplace=True), x)
    agree(lambda x: F.leaky_relu(x.clone() - 1, inplace=True), x)


def test_over_shared_memory():
    x = torch.arange(20.0)
    agree(lambda x: x.clone()[1:].add_(x[:-1]), x)

    y = x.reshape(4, 5)[:4, :4]
    on_npu = y.npu()
    assert_near(on_npu.add_(on_npu.t()), y + y.t())


def test_gelu_backward_of_both_kinds():
    x = numbers(-3, 3, torch.float32)
    # torch_npu calls aclnnGelu for either kind, and aclnnGelu computes the tanh form only.
    agree(gelu, x, backward=True)
    agree(lambda x: F.gelu(x, approximate="tanh"), x, backward=True)
    exact, ours = F.gelu(x), F.gelu(x.npu()).cpu()
    assert 0 < (exact - ours).abs().max() < 5e-4


FOREACH = {
    "abs": (), "exp": (), "sqrt": (), "neg": (), "reciprocal": (), "sigmoid": (), "tanh": (), "sign": (), "log": (), "sin": (), "cos": (), "erf": (), "floor": (), "ceil": (),
    "round": (), "trunc": (), "frac": (),
    "add": (1.5, "list", [1.0, 2.0, 3.0]), "sub": (1.5, "list", [1.0, 2.0, 3.0]), "mul": (1.5, "list", [1.0, 2.0, 3.0]), "div": (1.5, "list", [1.0, 2.0, 3.0]),
    "maximum": (1.5, "list", [1.0, 2.0, 3.0]), "minimum": (1.5, "list", [1.0, 2.0, 3.0]), "pow": (1.5, "list", [1.0, 2.0, 3.0]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", FOREACH)
def test_foreach(name, dtype):
    sizes = [(3, 4), (5,), ()]
    cpu = [numbers(0.5, 2, dtype, size=size) for size in sizes]
    others = [numbers(0.5, 2, dtype, size=size, seed=1) for size in sizes]
    for argument in FOREACH[name] or (None,):
        cpu_arguments = [] if argument is None else [others if argument == "list" else argument]
        npu = [x.npu() for x in cpu]
        npu_arguments = [[y.npu() for y in others] if one is others else one for one in cpu_arguments]
        assert_near(getattr(torch, f"_foreach_{name}")(npu, *npu_arguments), getattr(torch, f"_foreach_{name}")(cpu, *cpu_arguments))
        copies = [x.clone() for x in cpu]
        getattr(torch, f"_foreach_{name}_")(npu, *npu_arguments)
        getattr(torch, f"_foreach_{name}_")(copies, *cpu_arguments)
        assert_near(npu, copies)


def test_foreach_of_three_and_norms():
    sizes = [(3, 4), (5,), (), (70_000,)]
    a, b, c = ([numbers(0.5, 2, torch.float32, size=size, seed=seed) for size in sizes] for seed in range(3))
    on_npu = [[x.npu() for x in one] for one in (a, b, c)]
    for name in ("addcmul", "addcdiv"):
        for value in (0.5, [1.0, 2.0, 3.0, 4.0], torch.tensor([1.0, 2.0, 3.0, 4.0])):
            assert_near(getattr(torch, f"_foreach_{name}")(*on_npu, value), getattr(torch, f"_foreach_{name}")(a, b, c, value))
    assert_near(torch._foreach_lerp(*on_npu), torch._foreach_lerp(a, b, c))
    assert_near(torch._foreach_lerp(*on_npu[:2], 0.3), torch._foreach_lerp(a, b, 0.3))
    for order in (1, 2, math.inf):
        assert_near(torch._foreach_norm(on_npu[0], order), torch._foreach_norm(a, order), 1e-4 if order == 1 else None)
    torch._foreach_zero_(on_npu[0])
    assert all(not x.any() for x in on_npu[0])
    torch._foreach_copy_(on_npu[0], on_npu[1])
    assert_near(on_npu[0], b)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        lambda p: torch.optim.Adam(p, 0.01),
        lambda p: torch.optim.Adam(p, 0.01, amsgrad=True, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, 0.01),
        lambda p: torch.optim.AdamW(p, 0.01, foreach=False),
        lambda p: torch.optim.RMSprop(p, 0.01),
    ],
    ids=["sgd", "momentum", "adam", "amsgrad", "adamw", "adamw-single", "rmsprop"],
)
def test_optimisers(make):
    torch.manual_seed(0)
    cpu = nn.ParameterList([nn.Parameter(torch.randn(7, 5)), nn.Parameter(torch.randn(5))])
    npu = copy.deepcopy(cpu).npu()
    x = torch.randn(11, 7)
    steps = []
    for model, data in ((cpu, x), (npu, x.npu())):
        optimiser = make(model.parameters())
        for _ in range(5):
            optimiser.zero_grad()
            loss = torch.tanh((data.unsqueeze(2) * model[0]).sum(1) + model[1]).square().sum()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        steps.append([p.detach() for p in model])
    assert_near(steps[1], steps[0], 1e-4)
