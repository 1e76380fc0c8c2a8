"""Creation, joining, indexing and sorting on `npu` against PyTorch on the CPU, forward and backward."""

import pytest
import torch
import torch_npu  # noqa: F401
from torch.nn import functional as F

REAL = [torch.float32, torch.float16, torch.bfloat16]
TYPES = [*REAL, torch.int64, torch.int32, torch.uint8, torch.bool]
TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def numbers(*size, dtype=torch.float32, seed=0):
    """Numbers of a type in random order; a few of them occur twice."""
    count = torch.Size(size).numel()
    order = torch.randperm(max(count, 1), generator=torch.Generator().manual_seed(seed))[:count]
    values = (order % 61).reshape(size) - 25
    return (values % 2 == 0) if dtype == torch.bool else (values / 4 if dtype.is_floating_point else values).to(dtype)


def indices(*size, below, seed=1):
    return torch.randint(below, size, generator=torch.Generator().manual_seed(seed)) if below else torch.zeros(size, dtype=torch.int64)


def assert_same(got, want):
    """Fails unless two results, tensors or lists of them, agree."""
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want):
            assert_same(one, other)
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    tolerance = TOLERANCES.get(want.dtype, 0)
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)


def check(function, *inputs, backward=True):
    """`function` on the CPU and on `npu`, with gradients for inputs of real numbers."""
    results = []
    for device in ("cpu", "npu"):
        grad = backward and any(one.dtype.is_floating_point for one in inputs)
        moved = [one.to(device, copy=True) for one in inputs]
        leaves = [one.requires_grad_(grad and one.dtype.is_floating_point) for one in moved]
        result = function(*leaves)
        gradients = []
        outputs = [one for one in (result if isinstance(result, (list, tuple)) else [result]) if one.requires_grad]
        if outputs:
            weights = [numbers(*one.shape, dtype=one.dtype, seed=9).to(device) for one in outputs]
            differentiable = [one for one in leaves if one.requires_grad]
            gradients = torch.autograd.grad(outputs, differentiable, weights, allow_unused=True)
        results.append((result, [one for one in gradients if one is not None]))
    assert_same(results[1][0], results[0][0])
    assert_same(results[1][1], results[0][1])


def device_of(x):
    return {"device": x.device}


CREATION = {
    "arange": lambda d: torch.arange(17, device=d),
    "arange steps": lambda d: torch.arange(10, -7, -3, device=d),
    "arange real": lambda d: torch.arange(0.5, 4, 0.25, device=d),
    "arange half": lambda d: torch.arange(0, 20, 2, dtype=torch.float16, device=d),
    "arange int32": lambda d: torch.arange(5, dtype=torch.int32, device=d),
    "arange none": lambda d: torch.arange(0, device=d),
    "arange long": lambda d: torch.arange(100_000, device=d),
    "linspace": lambda d: torch.linspace(-3, 7, 11, device=d),
    "linspace one": lambda d: torch.linspace(2, 7, 1, device=d),
    "eye": lambda d: torch.eye(4, device=d),
    "eye wide": lambda d: torch.eye(3, 5, dtype=torch.int64, device=d),
    "fill_diagonal": lambda d: torch.zeros(7, 3, device=d).fill_diagonal_(2.5),
    "fill_diagonal wrap": lambda d: torch.zeros(7, 3, device=d).fill_diagonal_(2.5, wrap=True),
    "one_hot": lambda d: F.one_hot(torch.tensor([[0, 2], [1, 2]], device=d), 4),
    "one_hot known": lambda d: F.one_hot(torch.tensor([3, 1], device=d)),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(name):
    assert_same(CREATION[name]("npu"), CREATION[name]("cpu"))


MOVES = {
    "cat": lambda x: torch.cat([x, x[:1], x.flip(0)]),
    "cat inner": lambda x: torch.cat([x, x[:, ::2]], -1),
    "cat transposed": lambda x: torch.cat([x.t(), x.t()], 1),
    "cat empty": lambda x: torch.cat([x, x[:0], x.new_empty(0)]),
    "stack": lambda x: torch.stack([x, x * 1, x], 1),
    "split": lambda x: [part.clone() for part in x.split([1, 2, x.shape[1] - 3], 1)],
    "chunk": lambda x: torch.cat(x.chunk(3, 1)[::-1], 1),
    "repeat": lambda x: x.repeat(2, 3),
    "repeat front": lambda x: x.repeat(2, 1, 2),
    "expand": lambda x: x[:, None].expand(-1, 4, -1).contiguous(),
    "transpose": lambda x: x.t().contiguous(),
    "permute": lambda x: x.reshape(x.shape[0], 2, -1).permute(2, 0, 1).contiguous(),
    "reshape": lambda x: x.t().reshape(-1),
    "slice": lambda x: x[1:, 1::2].contiguous(),
    "index_put scalar": lambda x: x.clone().index_put_((torch.tensor(1, device=x.device),), x[0]),
    "select": lambda x: x[:, 2].contiguous(),
    "flip": lambda x: x.flip(0, 1),
    "roll": lambda x: x.roll(2, 1),
    "roll all": lambda x: x.roll(5),
    "roll two": lambda x: x.roll((1, -1), (0, 1)),
    "tril": lambda x: x.tril(-1),
    "triu": lambda x: x.t().triu(1),
    "tril batch": lambda x: x.expand(3, *x.shape).tril(1),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "pad cut": lambda x: F.pad(x, (-1, 2), value=3),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "repeat_interleave flat": lambda x: x.repeat_interleave(2),
    "unfold": lambda x: x.unfold(1, 2, 2).contiguous(),
    "where": lambda x: x.masked_fill(x == x[0, 0], 1),
    "to bool": lambda x: x.to(torch.bool),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_moves(name, dtype):
    backward = name not in ("unfold", "to bool")
    check(MOVES[name], numbers(4, 6, dtype=dtype), backward=backward)


@pytest.mark.parametrize("name", ["cat", "stack", "transpose", "flip", "roll", "tril", "repeat", "slice", "cat transposed"])
def test_moves_of_nothing(name):
    check(MOVES[name], torch.empty(0, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("size", [(300, 517), (64, 64), (3, 100, 40), (1000, 7)], ids=str)
def test_large_transpositions(size, dtype):
    x = numbers(*size, dtype=dtype)
    order = list(range(len(size)))[::-1]
    assert_same(x.npu().permute(order).contiguous(), x.permute(order).contiguous())
    assert_same(x.npu().transpose(-1, -2).contiguous(), x.transpose(-1, -2).contiguous())


def test_repeats_by_a_tensor():
    x, times = numbers(3, 4), torch.tensor([2, 0, 3])
    check(lambda x, n: x.repeat_interleave(n, 0), x, times, backward=False)
    check(lambda n: torch.repeat_interleave(n), times)


INDEXING = {
    "index_select": lambda x, i: x.index_select(0, i),
    "index_select inner": lambda x, i: x.index_select(1, i),
    "index": lambda x, i: x[i],
    "index inner": lambda x, i: x[:, i],
    "index both": lambda x, i: x[i, i],
    "index broadcast": lambda x, i: x[i[:, None], i[:2]],
    "index negative": lambda x, i: x[-i - 1],
    "index outer and inner": lambda x, i: x.expand(2, *x.shape).contiguous()[i % 2, :, i],
    "index strided": lambda x, i: x.t()[i],
    "mask": lambda x, i: x[x == x[0, 0]],
    "mask rows": lambda x, i: x[(i > 1).repeat(2)[: x.shape[0]]],
    "gather": lambda x, i: x.gather(1, i.expand(x.shape[0], -1)),
    "gather first": lambda x, i: x.gather(0, i[:, None].expand(-1, 3)),
    "take": lambda x, i: x.take(i),
    "take transposed": lambda x, i: x.t().take(-i),
    "scatter": lambda x, i: x.scatter(1, torch.stack([i, i + 1]), x[:2, : len(i)]),
    "scatter value": lambda x, i: x.scatter(0, i[:1, None], 3),
    "scatter_add": lambda x, i: x.scatter_add(1, torch.stack([i, i]), x[:2, : len(i)]),
    "scatter_add transposed": lambda x, i: x.t().scatter_add(0, i[:, None].expand(-1, 3), x.t()[: len(i), :3]),
    "index_add": lambda x, i: x.index_add(0, i, x[: len(i)]),
    "index_add twice": lambda x, i: x.index_add(1, i, x[:, : len(i)], alpha=2),
    "index_copy": lambda x, i: x.index_copy(0, i.unique(), x[: len(i.unique())]),
    "index_fill": lambda x, i: x.index_fill(1, i, 2),
    "index_put": lambda x, i: x.index_put((i,), x[0]),
    "index_put one": lambda x, i: x.index_put((i, i), x[0, 0]),
    "index_put add": lambda x, i: x.index_put((i,), x[: len(i)], accumulate=True),
    "index_put inner": lambda x, i: put_inner(x, i),
    "masked_select": lambda x, i: x.masked_select(x != x[0, 0]),
    "masked_scatter": lambda x, i: x.masked_scatter(x != x[0, 0], x.flip(0).contiguous()),
    "nonzero": lambda x, i: x.nonzero(),
    "argwhere": lambda x, i: torch.where(x),
    "unique": lambda x, i: torch.unique(x, return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x, i: torch.unique_consecutive(x.flatten(), return_counts=True),
    "unique_consecutive rows": lambda x, i: torch.unique_consecutive(x[i], dim=0),
}
NO_BACKWARD = {"index_put inner", "nonzero", "argwhere", "unique", "unique_consecutive", "unique_consecutive rows", "index_put one"}


def put_inner(x, i):
    x = x.clone()
    x[:, i] = 1
    x[x == x[0, 0]] = 0
    return x


@pytest.mark.parametrize("dtype", [*REAL, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name, dtype):
    if dtype == torch.bool and name.startswith("index_add"):
        pytest.skip("PyTorch adds no booleans there")
    check(INDEXING[name], numbers(4, 5, dtype=dtype), torch.tensor([0, 3, 3]), backward=name not in NO_BACKWARD)


@pytest.mark.parametrize("name", ["index_select", "index", "index inner", "gather", "take", "index_add", "index_put add", "index_fill", "scatter_add"])
def test_no_indices(name):
    check(INDEXING[name], numbers(4, 5), torch.tensor([], dtype=torch.int64))


def test_a_mask_without_truth_puts_nothing():
    for dtype in (torch.float32, torch.int64):
        x = numbers(4, 5, dtype=dtype).npu()
        before = x.clone()
        x[x != x] = 7
        x[torch.tensor([], dtype=torch.int64, device="npu")] = 9
        assert_same(x, before.cpu())


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_embedding(dtype):
    table, index = numbers(7, 3, dtype=dtype), indices(4, 5, below=7)
    check(lambda w, i: F.embedding(i, w), table, index)
    check(lambda w, i: F.embedding(i, w, padding_idx=2), table, index)
    check(lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), table, index)
    if dtype == torch.float32:
        check(lambda w, i: F.embedding(i, w.clone(), max_norm=1.5), table, index, backward=False)


def test_many_meet_at_few_places():
    x, index = numbers(3000, 33), indices(3000, below=5)
    want = torch.zeros(5, 33, dtype=torch.float64).index_add(0, index, x.double())
    first = torch.zeros(5, 33, device="npu").index_add(0, index.npu(), x.npu())
    torch.testing.assert_close(first.cpu().double(), want, rtol=1e-4, atol=1e-3)
    for _ in range(3):
        again = torch.zeros(5, 33, device="npu").index_add(0, index.npu(), x.npu())
        assert torch.equal(again, first)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype, descending):
    x = numbers(5, 70, dtype=dtype)
    if dtype.is_floating_point:
        x[1, 3] = x[4, 69] = float("nan")
        x[2, 1] = -0.0
    for dim in (0, 1):
        check(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True)[0], x)
        got, want = (torch.sort(one, dim=dim, descending=descending, stable=True)[1] for one in (x.npu(), x))
        assert_same(got, want)
        assert_same(*(one.argsort(dim=dim, descending=descending, stable=True) for one in (x.t().npu(), x.t())))


@pytest.mark.parametrize("dtype", [*REAL, torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("largest", [False, True])
def test_topk(dtype, largest):
    x = torch.randperm(240, generator=torch.Generator().manual_seed(2)).reshape(4, 60).to(dtype) - 100
    for k, dim in ((1, 1), (7, 1), (60, 1), (3, 0), (0, 1)):
        check(lambda x: x.topk(k, dim, largest)[0], x, backward=k > 0)
        values, index = x.npu().topk(k, dim, largest)
        assert_same(x.gather(dim, index.cpu()), values.cpu())


def test_sorting_of_few_elements():
    for x in (torch.tensor(2.0), torch.empty(0), torch.empty(3, 0), torch.tensor([1.0])):
        assert_same(x.npu().sort(), x.sort())
    assert_same(torch.tensor(2.0).npu().topk(1), torch.tensor(2.0).topk(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_medians(dtype):
    x = torch.randperm(35, generator=torch.Generator().manual_seed(3)).reshape(5, 7).to(dtype)
    check(lambda x: x.median(), x, backward=False)
    check(lambda x: x.median(1), x, backward=False)
    check(lambda x: x.kthvalue(3, 0), x, backward=False)
    if dtype.is_floating_point:
        x[1, 2] = float("nan")
        check(lambda x: x.median(1)[0], x, backward=False)
        check(lambda x: x.nanmedian(1)[0], x, backward=False)
        check(lambda x: x.nanmedian(), x, backward=False)


def test_searches_and_counts():
    line, values = numbers(50).sort()[0], numbers(4, 6, seed=5)
    for right in (False, True):
        check(lambda a, v: torch.searchsorted(a, v, right=right), line, values, backward=False)
        check(lambda a: torch.searchsorted(a, 1.5, right=right), line, backward=False)
    lines = numbers(4, 9, seed=4).sort()[0]
    check(lambda a, v: torch.searchsorted(a, v), lines, values, backward=False)
    check(lambda n: torch.bincount(n), indices(40, below=9), backward=False)
    check(lambda n, w: torch.bincount(n, w, minlength=12), indices(40, below=9), numbers(40), backward=False)


OUT_OF_RANGE = {
    "index_select": (lambda x, i: x.index_select(0, i), "IndexSelect", r"index\[1\] = 4 is outside 0 to 3"),
    "gather": (lambda x, i: x.gather(0, i[:, None]), "Gather", r"index\[1, 0\] = 4 is outside 0 to 3"),
    "index": (lambda x, i: x[i], "Index", r"indices\[0\]\[1\] = 4 is outside -4 to 3"),
    "index two": (lambda x, i: x[i - 1, i], "Index", r"indices\[1\]\[1\] = 4 is outside -4 to 3"),
    "embedding": (lambda x, i: F.embedding(i, x), "Embedding", r"indices\[1\] = 4 is outside 0 to 3"),
    "index_put": (lambda x, i: x.index_put_((i,), x[0].clone()), "IndexPutImpl", r"indices\[0\]\[1\] = 4 is outside -4 to 3"),
    "scatter_add": (lambda x, i: x.scatter_add_(0, i[:, None], x[:2].clone()), "ScatterAdd", r"index\[1, 0\] = 4 is outside 0 to 3"),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_is_reported_and_touches_nothing(name):
    """In a process of its own: an error of a stream stays with it."""
    from support import run_script

    call, operator, text = OUT_OF_RANGE[name]
    result = run_script(
        """
        import sys, torch, torch_npu
        import test_ops_moving
        block = torch.full((12, 4), 5.0, device="npu")
        x = block[4:8]
        index = torch.tensor([0, 4], device="npu")
        torch.npu.synchronize()
        try:
            test_ops_moving.OUT_OF_RANGE[sys.argv[1]][0](x, index)
            torch.npu.synchronize()
        except RuntimeError as error:
            print("ERROR", str(error).replace("\\n", " "))
        print("UNCHANGED", bool((block[:4].cpu() == 5).all() and (block[8:].cpu() == 5).all()))
        """,
        arguments=[name],
        check=False,
    )
    import re

    assert operator in result.stdout + result.stderr, result.stdout + result.stderr
    assert re.search(text, result.stdout + result.stderr), result.stdout + result.stderr
    assert "UNCHANGED True" in result.stdout or "UNCHANGED" not in result.stdout, result.stdout + result.stderr
