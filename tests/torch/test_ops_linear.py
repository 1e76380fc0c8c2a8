"""Products of matrices, attention, random numbers and dropout: torch on the device against torch on the CPU."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def plain(x):
    return x


def transposed(x):
    """The same values, with the last two dimensions swapped in memory."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x


def with_gaps(x):
    """The same values, every second element of a larger tensor."""
    return torch.stack([x, x], -1)[..., 0] if x.dim() else x


def tensor(shape, seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(-5, 6, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def assert_near(have, want, dtype, factor=1.0):
    have = have.detach().cpu()
    assert have.shape == want.shape
    if have.numel() == 0:
        return
    assert not have.dtype.is_floating_point or torch.isfinite(have).all()
    bound = TOLERANCE[dtype] * factor * max(1.0, want.abs().max().item())
    assert (have.double() - want.double()).abs().max().item() <= bound


def compare(function, shapes, dtype, layout=plain, backward=True):
    """The function and its gradients on the device, against sums in f32 on the CPU of the same values."""
    values = [tensor(shape, seed, dtype) for seed, shape in enumerate(shapes)]
    cpu = [value.float().requires_grad_(backward) for value in values]
    npu = [layout(value.npu()).detach().requires_grad_(backward) for value in values]
    want, have = function(*cpu), function(*npu)
    assert have.dtype == dtype
    assert_near(have, want.detach(), dtype)
    if backward and want.numel():
        weight = tensor(want.shape, 99, dtype)
        want.backward(weight.float())
        have.backward(weight.npu())
        for x, y in zip(npu, cpu):
            assert_near(x.grad, y.grad, dtype)


PRODUCTS = {
    "mm": (torch.mm, [(17, 33), (33, 29)]),
    "mm wide": (torch.mm, [(300, 70), (70, 130)]),
    "mm empty": (torch.mm, [(0, 5), (5, 3)]),
    "mm of nothing": (torch.mm, [(4, 0), (0, 3)]),
    "matmul 1 1": (torch.matmul, [(65,), (65,)]),
    "matmul 2 1": (torch.matmul, [(9, 65), (65,)]),
    "matmul 1 2": (torch.matmul, [(65,), (65, 9)]),
    "matmul 3 2": (torch.matmul, [(4, 7, 9), (9, 5)]),
    "matmul 3 1": (torch.matmul, [(4, 7, 9), (9,)]),
    "matmul 3 3": (torch.matmul, [(4, 7, 9), (4, 9, 5)]),
    "matmul 4 3": (torch.matmul, [(3, 1, 7, 9), (4, 9, 5)]),
    "matmul 2 4": (torch.matmul, [(7, 9), (2, 3, 9, 5)]),
    "bmm": (torch.bmm, [(6, 20, 31), (6, 31, 14)]),
    "addmm": (torch.addmm, [(29,), (17, 33), (33, 29)]),
    "addmm weights": (functools.partial(torch.addmm, beta=0.5, alpha=-2.0), [(17, 29), (17, 33), (33, 29)]),
    "baddbmm": (functools.partial(torch.baddbmm, beta=2.0, alpha=0.5), [(6, 1, 14), (6, 20, 31), (6, 31, 14)]),
    "addbmm": (torch.addbmm, [(20, 14), (3, 20, 31), (3, 31, 14)]),
    "addmv": (functools.partial(torch.addmv, beta=0.5, alpha=3.0), [(9,), (9, 65), (65,)]),
    "addr": (functools.partial(torch.addr, beta=0.5, alpha=3.0), [(9, 7), (9,), (7,)]),
    "mv": (torch.mv, [(40, 65), (65,)]),
    "dot": (torch.dot, [(1000,), (1000,)]),
    "outer": (torch.outer, [(9,), (7,)]),
    "linear": (F.linear, [(5, 33), (29, 33), (29,)]),
    "linear 3d": (F.linear, [(3, 5, 33), (29, 33), (29,)]),
    "linear without bias": (F.linear, [(3, 5, 33), (29, 33)]),
    "einsum": (functools.partial(torch.einsum, "bij,bkj->bik"), [(3, 7, 9), (3, 5, 9)]),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, dtype):
    function, shapes = PRODUCTS[name]
    compare(function, shapes, dtype)


@pytest.mark.parametrize("layout", [transposed, with_gaps])
@pytest.mark.parametrize("name", ["mm", "matmul 4 3", "bmm", "addmm", "baddbmm", "mv", "dot", "linear 3d"])
def test_products_of_strided_tensors(name, layout):
    function, shapes = PRODUCTS[name]
    for dtype in (torch.float32, torch.bfloat16):
        compare(function, shapes, dtype, layout)


def test_products_of_expanded_tensors():
    x, y = tensor((1, 7, 9), 1), tensor((9, 5), 2)
    have = torch.bmm(x.npu().expand(4, 7, 9), y.npu().expand(4, 9, 5))
    assert_near(have, torch.bmm(x.expand(4, 7, 9), y.expand(4, 9, 5)), torch.float32)


def test_products_in_place_and_into_given_tensors():
    x, a, b = tensor((17, 29), 1), tensor((17, 33), 2), tensor((33, 29), 3)
    in_place = x.npu()
    in_place.addmm_(a.npu(), b.npu(), beta=0.5, alpha=2.0)
    assert_near(in_place, torch.addmm(x, a, b, beta=0.5, alpha=2.0), torch.float32)
    out = torch.full((29, 17), math.nan).npu().t()
    torch.mm(a.npu(), b.npu(), out=out)
    assert_near(out, a @ b, torch.float32)
    square = tensor((20, 20), 4)
    in_place = square.npu()
    torch.mm(in_place, in_place, out=in_place)
    assert_near(in_place, square @ square, torch.float32)


def test_long_sums_stay_exact():
    x, y = tensor((1 << 20,), 1), tensor((1 << 20,), 2)
    assert abs(torch.dot(x.npu(), y.npu()).item() - torch.dot(x.double(), y.double()).item()) < 0.05
    a, b = tensor((3, 200_000), 1), tensor((200_000, 5), 2)
    assert_near(a.npu() @ b.npu(), (a.double() @ b.double()).float(), torch.float32)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", ["plain", "causal", "mask", "grouped", "long"])
def test_attention(case, dtype):
    heads, groups, queries, keys = 4, 4, 20, 20
    options = {}
    if case == "causal":
        options["is_causal"] = True
    if case == "grouped":
        groups, options["enable_gqa"] = 2, True
    if case == "long":
        queries, keys = 100, 300
    shapes = [(2, heads, queries, 16), (2, groups, keys, 16), (2, groups, keys, 16)]
    mask = torch.rand(2, 1, queries, keys, generator=torch.Generator().manual_seed(5)) < 0.7
    mask[..., 0] = True

    def attend(q, k, v):
        attn_mask = mask.to(q.device) if case == "mask" else None
        return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, **options)

    compare(attend, shapes, dtype)


@pytest.mark.parametrize("form", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("mode", [0, 2, 3, 4])
def test_fusion_attention(form, mode):
    import torch_npu

    b, n, s, d = 2, 3, 10, 8
    values = [tensor((b, n, s, d), seed) for seed in range(3)]

    def shaped(x):
        return {
            "BNSD": lambda: x,
            "BSND": lambda: x.transpose(1, 2),
            "BSH": lambda: x.transpose(1, 2).reshape(b, s, n * d),
            "SBH": lambda: x.permute(2, 0, 1, 3).reshape(s, b, n * d),
        }[form]()

    compressed = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    distance = torch.arange(s)[None, :] - torch.arange(s)[:, None]
    masked = {0: distance > 0, 2: distance > 0, 3: distance > 0, 4: (distance > 1) | (distance < -2)}[mode]
    mask = masked if mode == 0 else compressed
    tokens = {"pre_tockens": 2, "next_tockens": 1} if mode == 4 else {}

    cpu = [value.clone().requires_grad_() for value in values]
    want = F.scaled_dot_product_attention(*cpu, attn_mask=~masked, scale=0.3)
    npu = [value.npu().requires_grad_() for value in values]
    have = torch_npu.npu_fusion_attention(
        *[shaped(x).contiguous() for x in npu], n, form, atten_mask=mask.npu(), scale=0.3, sparse_mode=mode, **tokens
    )[0]
    assert_near(have, shaped(want).detach(), torch.float32)
    weight = tensor((b, n, s, d), 9)
    want.backward(weight)
    have.backward(shaped(weight.npu()).contiguous())
    for x, y in zip(npu, cpu):
        assert_near(x.grad, y.grad, torch.float32)


def moments(x):
    x = x.double()
    return x.mean().item(), x.var().item()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal_and_uniform_numbers(dtype):
    torch.npu.manual_seed(3)
    mean, variance = moments(torch.randn(100_000, device="npu", dtype=dtype).cpu())
    assert abs(mean) < 0.02 and abs(variance - 1) < 0.03
    mean, variance = moments(torch.empty(100_000, device="npu", dtype=dtype).normal_(3.0, 2.0).cpu())
    assert abs(mean - 3) < 0.03 and abs(variance - 4) < 0.1
    values = torch.rand(100_000, device="npu", dtype=dtype).cpu()
    mean, variance = moments(values)
    assert values.min() >= 0 and values.max() < 1 and abs(mean - 0.5) < 0.01 and abs(variance - 1 / 12) < 0.002
    values = torch.empty(100_000, device="npu", dtype=dtype).uniform_(-2, 4).cpu()
    assert values.min() >= -2 and values.max() <= 4 and abs(moments(values)[0] - 1) < 0.05


def test_numbers_around_means_of_their_own():
    mean, deviation = torch.tensor([0.0, 100.0]).npu(), torch.tensor([1.0, 10.0]).npu()
    expanded = [x.expand(50_000, 2) for x in (mean, deviation)]
    for have in (torch.normal(*expanded), torch.normal(expanded[0], 10.0), torch.normal(100.0, expanded[1])):
        assert have.shape == (50_000, 2) and torch.isfinite(have.cpu()).all()
    have = torch.normal(*expanded).cpu()
    assert (have.mean(0) - mean.cpu()).abs().max() < 0.3
    assert (have.std(0) - deviation.cpu()).abs().max() < 0.2


def test_integers():
    torch.npu.manual_seed(5)
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.float32):
        values = torch.randint(2, 8, (60_000,), device="npu", dtype=dtype).cpu()
        counts = torch.bincount(values.long(), minlength=8)
        assert counts[:2].sum() == 0 and (counts[2:] / 10_000 - 1).abs().max() < 0.06
    order = torch.randperm(1000, device="npu").cpu()
    assert torch.equal(order.sort().values, torch.arange(1000)) and not torch.equal(order, torch.arange(1000))
    assert torch.randperm(0, device="npu").numel() == 0


def test_chances_and_categories():
    torch.npu.manual_seed(7)
    probabilities = torch.linspace(0, 1, 5).npu().expand(20_000, 5)
    have = torch.bernoulli(probabilities).cpu()
    assert set(have.unique().tolist()) == {0.0, 1.0}
    assert (have.mean(0) - torch.linspace(0, 1, 5)).abs().max() < 0.02
    assert abs(torch.empty(50_000, device="npu").bernoulli_(0.3).mean().item() - 0.3) < 0.01
    weights = torch.tensor([[1.0, 0.0, 3.0], [0.0, 5.0, 5.0]]).npu()
    have = torch.multinomial(weights, 20_000, replacement=True).cpu()
    for row, expected in zip(have, [[0.25, 0, 0.75], [0, 0.5, 0.5]]):
        assert (torch.bincount(row, minlength=3) / 20_000 - torch.tensor(expected)).abs().max() < 0.02
    have = torch.multinomial(torch.ones(50).npu(), 50).cpu()
    assert torch.equal(have.sort().values, torch.arange(50))


def test_a_seed_gives_the_same_numbers_again():
    def draws():
        return [
            torch.randn(1000, device="npu").cpu(),
            torch.randn(1000, device="npu").cpu(),
            torch.rand(1000, device="npu").cpu(),
            torch.randint(0, 1000, (1000,), device="npu").cpu(),
            torch.randperm(100, device="npu").cpu(),
            F.dropout(torch.ones(1000, device="npu"), 0.5).cpu(),
        ]

    torch.npu.manual_seed(11)
    first = draws()
    torch.npu.manual_seed(11)
    assert all(torch.equal(x, y) for x, y in zip(first, draws()))
    assert not torch.equal(first[0], first[1])
    torch.npu.manual_seed(12)
    assert not any(torch.equal(x, y) for x, y in zip(first, draws()))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(3, 1001), (128,), (0, 4), ()])
def test_dropout(shape, dtype):
    x = torch.ones(shape, dtype=dtype).npu().requires_grad_()
    y = F.dropout(x, 0.25)
    kept = y.detach().cpu()
    scale = torch.tensor(1 / 0.75).to(dtype)
    assert ((kept == 0) | (kept == scale)).all()
    if x.numel() > 1000:
        assert abs((kept != 0).double().mean().item() - 0.75) < 0.03
    y.backward(torch.full(shape, 2.0, dtype=dtype).npu())
    assert torch.equal(x.grad.cpu(), (kept != 0) * (2 * scale))
    assert torch.equal(F.dropout(x, 0.5, training=False).detach().cpu(), x.detach().cpu())
    assert F.dropout(x, 1.0).detach().cpu().count_nonzero() == 0
