"""Paged caches and positions as torch_npu calls them, against plain references: tokens put into slots and taken from blocks, norm
and rope on the way there, rope by position, and what latent attention does before its scores."""

import pytest
import torch

import support
from test_ops_inference import close
from test_ops_linear import tensor

SLOTS = [5, 40, 0, 17, 63, 33]


def chunks(cache, last):
    """Blocks, positions, heads, features as blocks, chunks of all heads, positions, features of a chunk."""
    return cache.flatten(2).unflatten(2, (-1, last)).transpose(1, 2).contiguous()


def rms_norm(x, gamma, epsilon):
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt() * gamma.double()


def rotate_half(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def interleave_half(x, cos, sin):
    return rotate_half(torch.cat((x[..., ::2], x[..., 1::2]), -1), cos, sin)


@pytest.mark.parametrize("mode", ["Norm", "PA_NZ"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_slots(mode, dtype, index):
    import torch_npu

    n, widths, last = 3, (64, 32), 32 // torch.empty(0, dtype=dtype).element_size()
    rows = [(tensor((6, n, width), at) * 20).to(dtype) for at, width in enumerate(widths)]
    caches = [(tensor((4, 16, n, width), 7 + at) * 20).to(dtype) for at, width in enumerate(widths)]
    form = (lambda cache: chunks(cache, last)) if mode == "PA_NZ" else torch.clone
    have = [form(cache).npu() for cache in caches]
    slots = torch.tensor(SLOTS, dtype=index)
    torch_npu.npu_scatter_pa_kv_cache(*(one.npu() for one in rows), *have, slots.npu(), cache_mode=mode)
    for row, cache, one in zip(rows, caches, have):
        want = cache.clone()
        want.flatten(0, 1)[SLOTS] = row
        assert torch.equal(one.cpu(), form(want))


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("offset", [None, [16, 0, 32]])
def test_blocks_of_sequences(summed, offset):
    import torch_npu

    n, widths, lengths, size = 2, (32, 16), [20, 0, 33], 16
    caches = [tensor((9, size, n, width), 7 + at).half() for at, width in enumerate(widths)]
    table = torch.tensor([[3, 1, 8, -1, -1], [-1] * 5, [0, 7, 2, 5, 6]], dtype=torch.int32)
    want = []
    for cache in caches:
        parts = []
        for at, length in enumerate(lengths):
            first = (offset[at] if offset else 0) // size
            blocks = table[at, first : first + -(-length // size)].long()
            parts.append(cache[blocks].flatten(0, 1)[:length])
        want.append(torch.cat(parts))
    starts = torch.tensor([0, *lengths]).cumsum(0) if summed else torch.tensor(lengths)
    have = [torch.zeros(sum(lengths) + 2, n, width, dtype=torch.half).npu() for width in widths]
    torch_npu.npu_gather_pa_kv_cache(
        *(cache.npu() for cache in caches), table.npu(), starts.int().npu(), *have,
        seq_offset=torch.tensor(offset, dtype=torch.int32).npu() if offset else None, is_seq_lens_cumsum=summed,
    )  # fmt: skip
    for one, expected in zip(have, want):
        assert torch.equal(one.cpu()[:-2], expected) and not one.cpu()[-2:].any()


@pytest.mark.parametrize("mode", ["Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("wanted", [False, True])
def test_norm_and_rope_into_caches(mode, dtype, wanted):
    import torch_npu

    b, s, norm, rope, size = 2, 20, 64, 32, 16
    kv, gamma = tensor((b, 1, s, norm + rope), 1).to(dtype), tensor((norm,), 2).to(dtype)
    cos, sin = tensor((b, 1, s, rope), 3).to(dtype), tensor((b, 1, s, rope), 4).to(dtype)
    rows = {
        "ckv": rms_norm(kv[..., :norm], gamma, 1e-5),
        "k": interleave_half(kv[..., norm:].double(), cos.double(), sin.double()),
    }
    shape = (b, 1, 32) if mode == "Norm" else (8, size, 1)
    caches = {"k": tensor((*shape, rope), 5).to(dtype), "ckv": tensor((*shape, norm), 6).to(dtype)}
    generator = torch.Generator().manual_seed(3)
    if mode == "Norm":
        index = torch.stack([torch.randperm(32, generator=generator)[:s] for _ in range(b)])
        index[1, 3] = -1
    elif "BLK" in mode:
        index = torch.randperm(8, generator=generator)[: b * 2] * size + 3
        index[1] = -1
    else:
        index = torch.randperm(8 * size, generator=generator)[: b * s]
        index[7] = -1
    want = {name: cache.double() for name, cache in caches.items()}
    for batch in range(b):
        for at in range(s):
            if mode == "Norm":
                slot = int(index[batch, at])
            elif "BLK" in mode:
                slot = int(index[batch * 2 + at // size])
                slot = slot // size * size + at % size if slot >= 0 else -1
            else:
                slot = int(index[batch * s + at])
            if slot >= 0:
                for name, cache in want.items():
                    (cache[batch, 0] if mode == "Norm" else cache.flatten(0, 1)[:, 0])[slot] = rows[name][batch, 0, at]
    form = (lambda cache: chunks(cache, 16).reshape(cache.shape)) if mode.endswith("NZ") else (lambda cache: cache)
    given = {name: form(cache).npu() for name, cache in caches.items()}
    out = torch_npu.npu_kv_rmsnorm_rope_cache(
        *(one.npu() for one in (kv, gamma, cos, sin, index)), given["k"], given["ckv"], cache_mode=mode, is_output_kv=wanted
    )
    close(given["k"], form(want["k"]), dtype)
    close(given["ckv"], form(want["ckv"]), dtype)
    if wanted:
        close(out[2], rows["k"], dtype)
        close(out[3], rows["ckv"], dtype)


@pytest.mark.parametrize("wanted", [False, True])
def test_norm_and_rope_of_all(wanted):
    import torch_npu

    (b, s, q, k, d), size = (2, 3, 4, 2, 128), 16
    tokens, heads = b * s, q + 2 * k
    qkv = tensor((tokens, heads * d), 1).half()
    gammas = [tensor((d,), at).half() for at in (2, 3)]
    cos, sin = tensor((tokens, d), 4).half(), tensor((tokens, d), 5).half()
    index = torch.tensor([20, 3, -1, 31, 0, 7])
    caches = [tensor((2, size, k, d), at).half() for at in (6, 7)]
    rows = qkv.double().unflatten(1, (heads, d))
    factors = cos.double()[:, None], sin.double()[:, None]
    want_q, want_k = (rotate_half(rms_norm(x, gamma, 1e-6), *factors) for x, gamma in zip((rows[:, :q], rows[:, q : q + k]), gammas))
    want_v = rows[:, q + k :]
    have = [torch.zeros(tokens, q * d).half().npu(), *(chunks(cache, 16).npu() for cache in caches)]
    before = torch_npu.npu_qkv_rms_norm_rope_cache(
        *(one.npu() for one in (qkv, *gammas, cos, sin, index)), *have, [b, s, heads, d], [q, k, k], is_output_qkv=wanted
    )
    close(have[0], want_q.flatten(1), torch.float16)
    for cache, new, one in zip(caches, (want_k, want_v), have[1:]):
        want = cache.double()
        for at, slot in enumerate(index.tolist()):
            if slot >= 0:
                want.flatten(0, 1)[slot] = new[at]
        close(one, chunks(want, 16), torch.float16)
    if wanted:
        for one, want in zip(before, (want_q, want_k, want_v)):
            close(one, want.flatten(1), torch.float16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("style", ["half", "interleave"])
@pytest.mark.parametrize("sections", [None, "default", "interleave"])
def test_rope_by_position(dtype, style, sections):
    import torch_npu

    tokens, heads, d, rope, most = 7, (4, 2), 128, 64, 50
    parts = [8, 12, 12]
    q, k = (tensor((tokens, count * d), at).to(dtype) for at, count in enumerate(heads))
    cache = tensor((most, rope), 3).to(dtype)
    generator = torch.Generator().manual_seed(1)
    positions = torch.randint(0, most, (3, tokens) if sections else (tokens,), generator=generator)
    have = torch_npu.npu_mrope(
        *(one.npu() for one in (positions, q, k, cache)), d, mrope_section=parts if sections else None, rotary_mode=style,
        cache_mode=sections or "default",
    )  # fmt: skip
    cos, sin = cache.double()[positions].chunk(2, -1)
    if sections:
        pair = torch.arange(rope // 2)
        if sections == "default":
            which = torch.repeat_interleave(torch.arange(3), torch.tensor(parts))
        else:
            which = torch.where(pair < 3 * parts[1], pair % 3, 0)
        cos, sin = (one[which, :, pair].T for one in (cos, sin))
    cos, sin = cos[:, None], sin[:, None]
    for one, x in zip(have, (q, k)):
        x = x.double().unflatten(1, (-1, d))
        turned, kept = x[..., :rope], x[..., rope:]
        a, b = turned.chunk(2, -1) if style == "half" else (turned[..., ::2], turned[..., 1::2])
        pairs = a * cos - b * sin, b * cos + a * sin
        turned = torch.cat(pairs, -1) if style == "half" else torch.stack(pairs, -1).flatten(-2)
        close(one, torch.cat((turned, kept), -1).flatten(1), dtype)


@pytest.mark.parametrize("mode", ["PA_BSND", "PA_NZ"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("function", ["npu_mla_prolog", "npu_mla_prolog_v2"])
def test_latent_attention_before_its_scores(mode, packed, function):
    import torch_npu

    (b, s, hidden, rank, n, d, width, rope), (blocks, size) = (2, 3, 96, 48, 4, 32, 64, 32), (4, 16)
    real = torch.bfloat16
    scaled = lambda shape, seed: (tensor(shape, seed) / shape[-2] ** 0.5).to(real)  # noqa: E731
    x = tensor((b, s, hidden), 1).to(real)
    weights = scaled((hidden, rank), 2), scaled((rank, n * (d + rope)), 3), scaled((n, d, width), 4), scaled((hidden, width + rope), 5)
    gammas = tensor((rank,), 6).to(real), tensor((width,), 7).to(real)
    sin, cos = tensor((b, s, rope), 8).to(real), tensor((b, s, rope), 9).to(real)
    index = torch.tensor([[5, 63, 0], [17, 33, 48]])
    caches = [tensor((blocks, size, 1, features), at).to(real) for at, features in ((10, width), (11, rope))]
    low = rms_norm(x.double() @ weights[0].double(), gammas[0], 1e-5)
    heads = (low @ weights[1].double()).unflatten(-1, (n, d + rope))
    factors = cos.double(), sin.double()
    want_query = torch.einsum("bsnd,ndw->bsnw", heads[..., :d], weights[2].double())
    want_rope = interleave_half(heads[..., d:], *(one[:, :, None] for one in factors))
    keys = x.double() @ weights[3].double()
    new = rms_norm(keys[..., :width], gammas[1], 1e-5), interleave_half(keys[..., width:], *factors)
    form = (lambda cache: chunks(cache, 16).reshape(cache.shape)) if mode == "PA_NZ" else (lambda cache: cache)
    given = [form(cache).npu() for cache in caches]
    tokens = (lambda one: one.flatten(0, 1)) if packed else (lambda one: one)
    out = getattr(torch_npu, function)(
        tokens(x).npu(), *(one.npu() for one in (*weights, *gammas)), *(tokens(one).npu() for one in (sin, cos, index)), *given,
        cache_mode=mode,
    )  # fmt: skip
    close(out[0] / 3, tokens(want_query) / 3, real)
    close(out[1] / 3, tokens(want_rope) / 3, real)
    for one, cache, rows in zip(out[2:4], caches, new):
        want = cache.double()
        want.flatten(0, 1)[index.flatten(), 0] = rows.flatten(0, 1)
        close(one / 3, form(want) / 3, real)


OUT_OF_RANGE = """
import re
import torch, torch_npu
import cases

def table():
    return torch.tensor([[1, 3, -5]], dtype=torch.int32).npu()

def cache():
    return torch.arange(3.0 * 16 * 2 * 16).reshape(3, 16, 2, 16).npu()

def attend(cache):
    torch_npu.npu_fused_infer_attention_score(
        torch.ones(1, 2, 1, 16).npu(), cache.transpose(1, 2).contiguous(), cache.transpose(1, 2).contiguous(), num_heads=2,
        input_layout="BNSD", block_table=table(), block_size=16, actual_seq_lengths_kv=[20],
    )

def attend_v2(cache):
    torch_npu.npu_fused_infer_attention_score_v2(
        torch.ones(1, 2, 16).npu(), cache.flatten(2), cache.flatten(2), num_query_heads=2, input_layout="TND", block_table=table(),
        block_size=16, actual_seq_qlen=[1], actual_seq_kvlen=[20],
    )

def attend_once(cache):
    torch_npu.npu_incre_flash_attention(
        torch.ones(1, 1, 32).npu(), cache.flatten(2), cache.flatten(2), num_heads=2, input_layout="BSH", block_table=table(),
        block_size=16, actual_seq_lengths=[20],
    )

def put(cache):
    rows, slots = torch.zeros(2, 2, 16).npu(), torch.tensor([4, 48], dtype=torch.int32).npu()
    torch_npu.npu_scatter_pa_kv_cache(rows, rows, cache, cache, slots, cache_mode="Norm")

def take(cache):
    rows = torch.zeros(20, 2, 16).npu()
    torch_npu.npu_gather_pa_kv_cache(cache, cache, table(), torch.tensor([20], dtype=torch.int32).npu(), rows, rows.clone())

CASES = {
    "attention": (attend, r"aclnnFusedInferAttentionScore\\w*: blockTable\\w*\\[0, 1\\] = 3 is no block: the cache has 3"),
    "attention of packed tokens": (attend_v2, r"aclnnFusedInferAttentionScore\\w*: blockTable\\w*\\[0, 1\\] = 3 is no block: the cache has 3"),
    "incremental attention": (attend_once, r"aclnnIncreFlashAttention\\w*: blocktable\\w*\\[0, 1\\] = 3 is no block: the cache has 3"),
    "scatter": (put, r"aclnnScatterPaKvCache: slotMapping\\[1\\] = 48 is outside 0 to 47"),
    "gather": (take, r"aclnnGatherPaKvCache: blockTables\\[0, 1\\] = 3 is no block: the cache has 3"),
}

def case(name):
    function, pattern = CASES[name]
    given = cache()
    text = cases.error_of(lambda: function(given))
    assert re.search(pattern, text), text
    # Nothing was written.
    assert torch.equal(cases.copied_without_stream(given), torch.arange(3.0 * 16 * 2 * 16).reshape(3, 16, 2, 16))

cases.run([(name, lambda name=name: case(name)) for name in CASES])
"""


def test_a_block_out_of_range_is_named_and_nothing_is_touched():
    support.run_script(OUT_OF_RANGE)
