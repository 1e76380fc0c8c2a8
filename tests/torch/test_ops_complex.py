"""Complex numbers on `npu` against PyTorch on the CPU, forward and backward."""

import pytest
import torch
import torch_npu  # noqa: F401

# PyTorch warns of complex32.
pytestmark = pytest.mark.filterwarnings("ignore")

TOLERANCES = {torch.complex64: 2e-5, torch.complex128: 1e-11}
TYPES = list(TOLERANCES)


def numbers(*size, dtype=torch.complex64, seed=0):
    return torch.randn(size, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def with_layout(x, layout):
    """The same values with other strides."""
    if layout == "transposed":
        return x.mT.contiguous().mT
    if layout == "with gaps":
        return torch.stack([x, x], -1)[..., 0]
    return x


def check(function, dtype, *inputs, backward=True):
    results = []
    for device in ("cpu", "npu"):
        leaves = [one.detach().to(device).requires_grad_(backward) for one in inputs]
        out = function(*leaves)
        gradients = []
        if backward and out.requires_grad:
            gradients = torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)
        results.append([out, *(one for one in gradients if one is not None)])
    for got, want in zip(results[1], results[0], strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype], equal_nan=True)


UNARY = {
    "neg": torch.neg, "abs": torch.abs, "angle": torch.angle, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt,
    "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "reciprocal": torch.reciprocal, "square": torch.square, "rsqrt": torch.rsqrt,
    "log2": torch.log2, "log10": torch.log10, "conj": lambda x: x.conj().resolve_conj(), "real": lambda x: x.real * 2,
    "imag": lambda x: x.imag * 2, "pow 2": lambda x: x**2, "pow 3": lambda x: x**3, "pow 0.5": lambda x: x**0.5,
    "pow -1": lambda x: x**-1, "pow 1+2j": lambda x: x ** (1 + 2j), "times 2": lambda x: x * 2.0,
    "times 1+2j": lambda x: x * (1 + 2j), "plus 2j": lambda x: x + 2j, "one minus": lambda x: 1 - x,
    "sum": lambda x: x.sum(), "sum 1": lambda x: x.sum(1), "mean": lambda x: x.mean(), "mean 0": lambda x: x.mean(0, True),
    "cumsum": lambda x: x.cumsum(1), "clone": torch.clone, "transposed": lambda x: x.mT.contiguous(),
    "flip": lambda x: x.flip(0), "cat": lambda x: torch.cat([x, x * 2], 1), "view_as_real": lambda x: torch.view_as_real(x) * 2,
    "index": lambda x: x[torch.tensor([2, 0, 2], device=x.device)],
}  # fmt: skip


@pytest.mark.parametrize("layout", ["plain", "transposed", "with gaps"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name, dtype, layout):
    check(UNARY[name], dtype, with_layout(numbers(3, 5, dtype=dtype), layout), backward=name not in ("index", "log2", "log10"))


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "add 3": lambda x, y: torch.add(x, y, alpha=3), "addcmul": lambda x, y: torch.addcmul(x, x, y, value=2),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["plain", "transposed", "with gaps"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name, dtype, layout):
    check(BINARY[name], dtype, with_layout(numbers(3, 5, dtype=dtype), layout), numbers(5, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["mm", "bmm", "mv", "dot", "outer", "broadcast"])
def test_products(name, dtype):
    sizes = {
        "mm": [(3, 4), (4, 5)], "bmm": [(2, 3, 4), (2, 4, 5)], "mv": [(3, 4), (4,)], "dot": [(4,), (4,)],
        "outer": [(3,), (4,)], "broadcast": [(2, 3, 4), (4, 5)],
    }[name]  # fmt: skip
    function = torch.outer if name == "outer" else torch.matmul
    inputs = [numbers(*size, dtype=dtype, seed=at) for at, size in enumerate(sizes)]
    check(function, dtype, *inputs, backward=name == "outer")


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_prod(dtype):
    x = numbers(3, 4, dtype=dtype)
    check(lambda x: x.prod(), dtype, x, backward=False)
    check(lambda x: x.prod(1), dtype, x, backward=False)


REDUCED = {
    "cumprod": lambda x: x.cumprod(1), "var": lambda x: x.var(), "var 0": lambda x: x.var(0), "std 1": lambda x: x.std(1, True),
    "var by 0": lambda x: x.var(1, correction=0), "norm": lambda x: x.norm(), "norm 3": lambda x: torch.linalg.vector_norm(x, 3, 1),
    "norm 1": lambda x: torch.linalg.vector_norm(x, 1, 0), "norm 0": lambda x: torch.linalg.vector_norm(x, 0, 0),
    "greatest": lambda x: torch.linalg.vector_norm(x, float("inf"), 1),
    "least": lambda x: torch.linalg.vector_norm(x, -float("inf"), 1), "any": lambda x: x.any(1), "all": lambda x: x.all(),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["plain", "transposed", "with gaps"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", REDUCED)
def test_reductions(name, dtype, layout):
    x = numbers(3, 5, dtype=dtype)
    x[1, 2] = 0
    x = with_layout(x, layout)
    want, have = REDUCED[name](x), REDUCED[name](x.npu()).cpu()
    assert have.shape == want.shape
    torch.testing.assert_close(have, want, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype], check_dtype=False)


ADDED = {
    "addmm": (torch.addmm, [(3, 5), (3, 4), (4, 5)]), "a row": (torch.addmm, [(5,), (3, 4), (4, 5)]),
    "baddbmm": (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)]), "addbmm": (torch.addbmm, [(3, 5), (2, 3, 4), (2, 4, 5)]),
    "addmv": (torch.addmv, [(3,), (3, 4), (4,)]), "addr": (torch.addr, [(3, 4), (3,), (4,)]),
}  # fmt: skip


@pytest.mark.parametrize("factors", [{}, {"beta": 0.5, "alpha": 2}, {"beta": 0}, {"beta": 1 - 2j, "alpha": 0.5 + 1j}], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ADDED)
def test_added_products(name, dtype, factors):
    function, sizes = ADDED[name]
    inputs = [numbers(*size, dtype=dtype, seed=at) for at, size in enumerate(sizes)]
    if factors.get("beta") == 0:
        inputs[0][...] = float("nan")
    want, have = function(*inputs, **factors), function(*(one.npu() for one in inputs), **factors).cpu()
    torch.testing.assert_close(have, want, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    if want.shape == inputs[0].shape:
        in_place = inputs[0].npu()
        getattr(in_place, f"{name}_")(*(one.npu() for one in inputs[1:]), **factors)
        torch.testing.assert_close(in_place.cpu(), want, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("length,hop,size", [(16, 4, 16), (20, 7, 13), (33, 10, 33)], ids=str)
@pytest.mark.parametrize("normalized", [False, True])
def test_windows_of_signals(dtype, length, hop, size, normalized):
    x = torch.randn(2, 100, dtype=dtype, generator=torch.Generator().manual_seed(3))
    window = torch.hann_window(size, dtype=dtype.to_real()) + 0.1
    tolerance = TOLERANCES[torch.complex128 if dtype == torch.float64 else torch.complex64]

    def run(x):
        return torch.stft(x, length, hop, size, window.to(x.device, dtype), normalized=normalized, return_complex=True, pad_mode="constant")

    torch.testing.assert_close(run(x.npu()).cpu(), run(x), rtol=tolerance, atol=5 * tolerance)
    torch.testing.assert_close(run(x[0].npu()).cpu(), run(x[0]), rtol=tolerance, atol=5 * tolerance)


def test_comparisons_and_masks():
    x = numbers(4, 5)
    x[0, 0], x[0, 1], x[0, 2] = complex("nan"), complex("inf"), 0
    y = x.clone()
    y[1] += 1j
    for function in (torch.eq, torch.ne):
        assert torch.equal(function(x.npu(), y.npu()).cpu(), function(x, y))
    assert torch.equal(torch.isfinite(x.npu()).cpu(), torch.isfinite(x))
    assert torch.equal((x.npu() == 0).cpu(), x == 0)
    mask = torch.isfinite(x)
    assert torch.equal(torch.where(mask.npu(), x.npu(), y.npu()).cpu()[mask], x[mask])
    assert torch.equal(x.npu().masked_fill(~mask.npu(), 1j).cpu(), x.masked_fill(~mask, 1j))


def test_creation_and_casts():
    for dtype in TYPES:
        for create in (torch.zeros, torch.ones):
            assert torch.equal(create(3, dtype=dtype, device="npu").cpu(), create(3, dtype=dtype))
        assert torch.equal(torch.full((3,), 1 + 2j, dtype=dtype, device="npu").cpu(), torch.full((3,), 1 + 2j, dtype=dtype))
    x = torch.arange(-3.0, 4)
    for real in (torch.float32, torch.float64, torch.float16, torch.int32, torch.bool):
        want = x.to(real).to(torch.complex64)
        assert torch.equal(x.to(real).npu().to(torch.complex64).cpu(), want)
        assert torch.equal(want.npu().to(torch.complex128).cpu(), want.to(torch.complex128))
    z = numbers(7)
    assert torch.equal(z.npu().to(torch.complex32).to(torch.complex64).cpu(), z.to(torch.complex32).to(torch.complex64))
    assert torch.equal(torch.complex(x.npu(), x.npu() * 2).cpu(), torch.complex(x, x * 2))
    torch.testing.assert_close(torch.polar(x.npu(), x.npu() * 2).cpu(), torch.polar(x, x * 2))
    assert torch.equal(torch.angle(x.npu()).cpu(), torch.angle(x))


@pytest.mark.parametrize("function", [torch.erf, torch.floor, lambda x: x > x, torch.maximum], ids=["erf", "floor", "gt", "maximum"])
def test_what_has_no_order_is_refused(function):
    x = numbers(3).npu()
    with pytest.raises(RuntimeError):
        function(x, x) if function is torch.maximum else function(x)
        torch.npu.synchronize()


def test_large_and_small_parts():
    x = torch.tensor([3e38 + 1e38j, 1e-30 + 1e-30j, 100 + 1j, -100 - 1j, 0j, 1 + 0j])
    for function in (torch.abs, torch.tanh, torch.sgn):
        torch.testing.assert_close(function(x.npu()).cpu(), function(x), rtol=1e-5, atol=1e-6, equal_nan=True)
    torch.testing.assert_close((x.npu() / x.npu()).cpu()[:4], torch.ones(4, dtype=torch.complex64))


def row_indices(x):
    return torch.tensor([2, 0, 2], device=x.device)


BY_INDEX = {
    "index": lambda x: x[row_indices(x)],
    "index_select": lambda x: x.index_select(0, row_indices(x)),
    "gather": lambda x: x.gather(0, row_indices(x)[:, None].expand(3, 5)),
    "index_add": lambda x: x.index_add(0, row_indices(x), x[:3] * 2),
    "index_add 3": lambda x: x.index_add(0, row_indices(x), x[:3], alpha=3),
    "scatter_add": lambda x: x.scatter_add(0, row_indices(x)[:, None].expand(3, 5), x * 2),
    "index_put": lambda x: x.index_put((row_indices(x),), x[:3] * 2, accumulate=True),
    "put": lambda x: x.put(row_indices(x), x.flatten()[:3] * 2, accumulate=True),
}


@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", BY_INDEX)
def test_functions_by_index(name, dtype, layout):
    check(BY_INDEX[name], dtype, with_layout(numbers(3, 5, dtype=dtype), layout), backward=name != "put")


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_traces(dtype):
    check(torch.trace, dtype, numbers(4, 3, dtype=dtype))
    check(torch.trace, dtype, with_layout(numbers(3, 3, dtype=dtype), "transposed"))
