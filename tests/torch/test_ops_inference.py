"""Attention for inference as torch_npu calls it, against a plain reference: orders of dimensions, lengths, paged caches, masks,
padding, prefixes, sinks, logarithms of sums, features apart."""

import pytest
import torch

from test_ops_attention import compressed_mask, distances
from test_ops_linear import tensor


def reference(q, k, v, scale, hidden=None, shift=None, sink=None):
    """Attention of one sequence, (heads, positions, features): the result and the logarithms of sums. Heads of keys are
    shared; `hidden` scores do not count, `shift` is added after scaling, `sink` is a score without a key for each head."""
    k, v = (one.repeat_interleave(q.shape[0] // one.shape[0], 0).double() for one in (k, v))
    scores = q.double() @ k.mT * scale
    if shift is not None:
        scores = scores + shift
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    keys = scores.shape[-1]
    if sink is not None:
        scores = torch.cat((scores, sink.double()[:, None, None].expand(*scores.shape[:-1], 1)), -1)
    logarithms = scores.logsumexp(-1, keepdim=True)
    weights = (scores - logarithms).exp().nan_to_num()[..., :keys]
    return weights @ v, torch.where(logarithms == -torch.inf, torch.inf, logarithms)


def close(have, want, dtype=torch.float32):
    tolerance = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(have.cpu().double(), want.double(), atol=tolerance, rtol=tolerance)


def to_form(x, form):
    """Batches, heads, positions, features in another order."""
    order = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "NBSD": (1, 0, 2, 3)}[form]
    x = x.permute(order).contiguous()
    return x.flatten(2) if form == "BSH" else x


def pages(x, lengths, size, form, seed=5):
    """The blocks of a cache that holds (heads, positions, features) of each sequence, in any order, and their table. What no
    sequence has are numbers that would show."""
    counts = [-(-length // size) for length in lengths]
    heads, _, features = x[0].shape
    order = torch.randperm(sum(counts) + 2, generator=torch.Generator().manual_seed(seed)).tolist()
    cache = torch.full((sum(counts) + 2, heads, size, features), 1e4, dtype=x[0].dtype)
    table = torch.full((len(lengths), max(counts) + 1), -9, dtype=torch.int32)
    for sequence, (one, length) in enumerate(zip(x, lengths)):
        for at in range(counts[sequence]):
            block = table[sequence, at] = order.pop()
            part = one[:, at * size : min(length, (at + 1) * size)]
            cache[block, :, : part.shape[1]] = part
    if form == "BnBsH":
        cache = cache.transpose(1, 2).flatten(2)
    if form == "NZ":
        cache = cache.unflatten(3, (features // 16, 16)).transpose(2, 3)
    return cache.contiguous(), table


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", ["BSH", "BSND", "BNSD", "BNSD_BSND", "BSND_BNSD", "BSH_BNSD", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD"])
def test_forms(form, dtype):
    import torch_npu

    (b, n, groups, sq, sk, d), lengths = (3, 6, 2, 7, 150, 32), ([7, 4, 0], [150, 99, 3])
    q, k, v = (tensor(shape, at).to(dtype) for at, shape in enumerate([(b, n, sq, d), (b, groups, sk, d), (b, groups, sk, d)]))
    start, _, end = form.partition("_")
    have, logarithms = torch_npu.npu_fused_infer_attention_score(
        *(to_form(one, start).npu() for one in (q, k, v)), num_heads=n, num_key_value_heads=groups, scale=0.2, input_layout=form,
        actual_seq_lengths=lengths[0], actual_seq_lengths_kv=lengths[1], softmax_lse_flag=True,
    )  # fmt: skip
    want, want_logarithms = torch.zeros(b, n, sq, d, dtype=torch.float64), torch.full((b, n, sq, 1), torch.inf, dtype=torch.float64)
    for at, (queries, keys) in enumerate(zip(*lengths)):
        want[at, :, :queries], want_logarithms[at, :, :queries] = reference(q[at, :, :queries], k[at, :, :keys], v[at, :, :keys], 0.2)
    close(have, to_form(want, end or start), dtype)
    close(logarithms, want_logarithms)


@pytest.mark.parametrize("form", ["TND", "NTD", "TND_NTD", "NTD_TND"])
@pytest.mark.parametrize("causal", [False, True])
def test_sequences(form, causal):
    import torch_npu

    (n, groups, d), (queries, keys) = (4, 2, 16), ([3, 3, 40, 45], [5, 5, 60, 160])
    q, k, v = tensor((n, 45, d), 1), tensor((groups, 160, d), 2), tensor((groups, 160, d), 3)
    order = lambda x, form: x.transpose(0, 1).contiguous() if form == "TND" else x  # noqa: E731
    start, _, end = form.partition("_")
    have, logarithms = torch_npu.npu_fused_infer_attention_score(
        *(order(one, start).npu() for one in (q, k, v)), num_heads=n, num_key_value_heads=groups, scale=0.3, input_layout=form,
        actual_seq_lengths=queries, actual_seq_lengths_kv=keys, softmax_lse_flag=True,
        **({"sparse_mode": 3, "atten_mask": compressed_mask().npu()} if causal else {}),
    )  # fmt: skip
    parts, first = [], (0, 0)
    for last in zip(queries, keys):
        (q0, q1), (k0, k1) = zip(first, last)
        hidden = distances(q1 - q0, k1 - k0) > (k1 - k0) - (q1 - q0)
        parts.append(reference(q[:, q0:q1], k[:, k0:k1], v[:, k0:k1], 0.3, hidden if causal else None))
        first = last
    close(have, order(torch.cat([one[0] for one in parts], 1), end or start))
    close(logarithms, torch.cat([one[1] for one in parts], 1).transpose(0, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("cache", ["BnBsH", "BnNBsD", "NZ"])
@pytest.mark.parametrize("form", ["BSH", "BNSD", "BSND"])
@pytest.mark.parametrize("size", [16, 128])
@pytest.mark.parametrize("queries", [1, 3])
def test_pages(dtype, cache, form, size, queries):
    import torch_npu

    (n, groups, d), lengths = (8, 2, 32), [300, 1, 128, 77]
    q = tensor((len(lengths), n, queries, d), 1).to(dtype)
    k, v = ([tensor((groups, length, d), seed + length).to(dtype) for length in lengths] for seed in (2, 3))
    (keys, table), (values, _) = pages(k, lengths, size, cache), pages(v, lengths, size, cache)
    masks = {"sparse_mode": 3, "atten_mask": compressed_mask().npu()} if queries > 1 else {}
    have, _ = torch_npu.npu_fused_infer_attention_score(
        to_form(q, form).npu(), keys.npu(), values.npu(), num_heads=n, num_key_value_heads=groups, scale=0.2, input_layout=form,
        actual_seq_lengths_kv=lengths, block_table=table.npu(), block_size=size, **masks,
    )  # fmt: skip
    hidden = [distances(queries, length) > length - queries for length in lengths]
    want = torch.stack([reference(*all, 0.2, mask)[0] for *all, mask in zip(q, k, v, hidden)])
    close(have, to_form(want, form), dtype)


def test_pages_of_sequences():
    import torch_npu

    (n, groups, d), lengths, ends = (4, 1, 64), [200, 130, 9], [1, 34, 36]
    q = tensor((36, n, d), 1)
    k, v = ([tensor((groups, length, d), seed + length) for length in lengths] for seed in (2, 3))
    (keys, table), (values, _) = pages(k, lengths, 128, "BnBsH"), pages(v, lengths, 128, "BnBsH")
    sink = tensor((n,), 9).bfloat16()
    have, _ = torch_npu.npu_fused_infer_attention_score_v2(
        q.npu(), keys.npu(), values.npu(), num_query_heads=n, num_key_value_heads=groups, softmax_scale=0.2, input_layout="TND",
        actual_seq_qlen=ends, actual_seq_kvlen=lengths, block_table=table.npu(), block_size=128, sparse_mode=3,
        atten_mask=compressed_mask().npu(), learnable_sink=sink.npu(),
    )  # fmt: skip
    parts = []
    for at, (start, end) in enumerate(zip([0, *ends], ends)):
        hidden = distances(end - start, lengths[at]) > lengths[at] - (end - start)
        parts.append(reference(q[start:end].transpose(0, 1), k[at], v[at], 0.2, hidden, sink=sink)[0].transpose(0, 1))
    close(have, torch.cat(parts))


def test_pages_of_latent_attention():
    """Keys are values with 64 more features, one head for all, in a cache of chunks."""
    import torch_npu

    (n, d), lengths, ends = (32, 512), [70, 200], [1, 4]
    q, q_rope = tensor((4, n, d), 1), tensor((4, n, 64), 2)
    k, k_rope = ([tensor((1, length, features), seed + length) for length in lengths] for seed, features in ((2, d), (3, 64)))
    (keys, table), (ropes, _) = pages(k, lengths, 128, "NZ"), pages(k_rope, lengths, 128, "NZ")
    have, _ = torch_npu.npu_fused_infer_attention_score(
        q.npu(), keys.npu(), keys.npu(), query_rope=q_rope.npu(), key_rope=ropes.npu(), num_heads=n, num_key_value_heads=1,
        scale=0.05, input_layout="TND_NTD", actual_seq_lengths=ends, actual_seq_lengths_kv=lengths, block_table=table.npu(),
        block_size=128, sparse_mode=3, atten_mask=compressed_mask().npu(),
    )  # fmt: skip
    parts, both = [], torch.cat((q, q_rope), -1).transpose(0, 1)
    for at, (start, end) in enumerate(zip([0, *ends], ends)):
        hidden = distances(end - start, lengths[at]) > lengths[at] - (end - start)
        parts.append(reference(both[:, start:end], torch.cat((k[at], k_rope[at]), -1), k[at], 0.05, hidden)[0])
    close(have, torch.cat(parts, 1))


@pytest.mark.parametrize("mode", range(5))
def test_masks(mode):
    import torch_npu

    b, n, sq, sk, d, before, after = 2, 2, 50, 70, 16, 30, 10
    q, k, v = tensor((b, n, sq, d), 1), tensor((b, n, sk, d), 2), tensor((b, n, sk, d), 3)
    own = torch.rand(b, 1, sq, sk, generator=torch.Generator().manual_seed(1)) < 0.3
    apart = distances(sq, sk)
    hidden = {
        0: own | (apart < -before) | (apart > after),
        1: own,
        2: apart > 0,
        3: apart > sk - sq,
        4: (apart > sk - sq + after) | (apart < sk - sq - before),
    }[mode].expand(b, 1, sq, sk)
    have, _ = torch_npu.npu_fused_infer_attention_score(
        q.npu(), k.npu(), v.npu(), num_heads=n, scale=0.3, input_layout="BNSD", sparse_mode=mode, pre_tokens=before,
        next_tokens=after, atten_mask=(own if mode < 2 else compressed_mask()).npu(),
    )  # fmt: skip
    close(have, torch.stack([reference(*all, 0.3, mask[0])[0] for *all, mask in zip(q, k, v, hidden)]))


def test_a_shift_and_a_prefix():
    import torch_npu

    b, n, sq, sk, d, prefix = 2, 4, 9, 20, 16, 13
    q, k, v = tensor((b, n, sq, d), 1), tensor((b, n, sk, d), 2), tensor((b, n, sk, d), 3)
    before = tensor((1, n, 16, d), 4), tensor((1, n, 16, d), 5)
    shift = tensor((1, n, sq, 48), 6)
    have, _ = torch_npu.npu_fused_infer_attention_score(
        q.npu(), k.npu(), v.npu(), pse_shift=shift.npu(), num_heads=n, scale=0.3, input_layout="BNSD", key_shared_prefix=before[0].npu(),
        value_shared_prefix=before[1].npu(), actual_shared_prefix_len=[prefix], actual_seq_lengths_kv=[20, 8],
    )  # fmt: skip
    joined = [[torch.cat((one[0, :, :prefix], other[at]), 1) for one, other in zip(before, (k, v))] for at in range(b)]
    lengths = [prefix + 20, prefix + 8]
    want = [reference(q[at], *(one[:, :length] for one in joined[at]), 0.3, shift=shift[0, ..., :length])[0] for at, length in enumerate(lengths)]
    close(have, torch.stack(want))


def test_padding_in_front():
    import torch_npu

    b, n, sq, sk, d, queries, keys = 2, 2, 8, 12, 16, [5, 8], [7, 12]
    q, k, v = tensor((b, n, sq, d), 1), tensor((b, n, sk, d), 2), tensor((b, n, sk, d), 3)
    hidden = torch.rand(b, 1, sq, sk, generator=torch.Generator().manual_seed(1)) < 0.3
    have, _ = torch_npu.npu_fused_infer_attention_score(
        q.npu(), k.npu(), v.npu(), num_heads=n, scale=0.3, input_layout="BNSD", actual_seq_lengths=queries, actual_seq_lengths_kv=keys,
        query_padding_size=torch.tensor([2]).npu(), kv_padding_size=torch.tensor([0]).npu(), atten_mask=hidden.npu(),
    )  # fmt: skip
    want = torch.zeros(b, n, sq, d, dtype=torch.float64)
    want[0, :, 1:6] = reference(q[0, :, 1:6], k[0, :, 5:], v[0, :, 5:], 0.3, hidden[0, :, 1:6, 5:])[0]
    # The queries of the second would begin in front of the tensor: zeros.
    close(have, want)


def test_prompt():
    import torch_npu

    b, n, groups, s, d = 2, 4, 2, 40, 16
    q, k, v = tensor((b, n, s, d), 1), tensor((b, groups, s, d), 2), tensor((b, groups, s, d), 3)
    have = torch_npu.npu_prompt_flash_attention(
        *(to_form(one, "BSH").npu() for one in (q, k, v)), num_heads=n, num_key_value_heads=groups, scale_value=0.3, input_layout="BSH",
        sparse_mode=2, atten_mask=compressed_mask().npu(), actual_seq_lengths=[40, 31], actual_seq_lengths_kv=[40, 31],
    )  # fmt: skip
    want = torch.zeros(b, n, s, d, dtype=torch.float64)
    for at, length in enumerate([40, 31]):
        want[at, :, :length] = reference(*(one[at, :, :length] for one in (q, k, v)), 0.3, distances(length, length) > 0)[0]
    close(have, to_form(want, "BSH"))


@pytest.mark.parametrize("paged", [False, True])
def test_incremental(paged):
    import torch_npu

    (n, groups, d), lengths = (4, 2, 32), [90, 33]
    q = tensor((2, n, 1, d), 1)
    k, v = ([tensor((groups, length, d), seed + length) for length in lengths] for seed in (2, 3))
    if paged:
        (keys, table), (values, _) = pages(k, lengths, 16, "BnNBsD"), pages(v, lengths, 16, "BnNBsD")
        extra = {"block_table": table.npu(), "block_size": 16}
    else:
        keys, values = (torch.nn.utils.rnn.pad_sequence([one.transpose(0, 1) for one in all], True).transpose(1, 2) for all in (k, v))
        extra = {}
    have = torch_npu.npu_incre_flash_attention(
        q.npu(), keys.contiguous().npu(), values.contiguous().npu(), num_heads=n, num_key_value_heads=groups, scale_value=0.3,
        input_layout="BNSD", actual_seq_lengths=lengths, **extra,
    )  # fmt: skip
    close(have, torch.stack([reference(*all, 0.3)[0] for all in zip(q, k, v)]))


def test_quantised_arguments_are_named():
    import torch_npu

    q = tensor((1, 2, 4, 16), 1).npu()
    with pytest.raises(RuntimeError, match="quantised"):
        torch_npu.npu_fused_infer_attention_score(q, q, q, num_heads=2, input_layout="BNSD", antiquant_scale=torch.ones(2).npu())


def test_modes_of_quantised_attention_are_named():
    import torch_npu

    q = tensor((1, 2, 5, 16), 1).npu()
    with pytest.raises(RuntimeError, match="keyAntiquantMode = 3: quantised"):
        torch_npu.npu_fused_infer_attention_score(q, q, q, num_heads=2, scale=0.25, input_layout="BNSD", key_antiquant_mode=3)


def test_padding_of_a_paged_cache_is_refused():
    import torch_npu

    q, cache = tensor((1, 2, 1, 16), 1).npu(), tensor((2, 16, 32), 2).npu()
    table, padding = torch.tensor([[0, 1]], dtype=torch.int32).npu(), torch.tensor([2]).npu()
    with pytest.raises(RuntimeError, match="kvPaddingSize.* together with blockTable"):
        torch_npu.npu_fused_infer_attention_score(
            q, cache, cache, num_heads=2, num_key_value_heads=2, scale=0.25, input_layout="BNSD", block_table=table, block_size=16,
            actual_seq_lengths_kv=[20], kv_padding_size=padding,
        )  # fmt: skip


def test_parts_without_keys_are_merged():
    import torch_npu

    q, k, v = tensor((2, 4, 1, 16), 1), tensor((2, 2, 20, 16), 2), tensor((2, 2, 20, 16), 3)
    parts = [
        torch_npu.npu_fused_infer_attention_score(
            q.npu(), *(one[:, :, start : start + 10].contiguous().npu() for one in (k, v)), num_heads=4, num_key_value_heads=2, scale=0.25,
            input_layout="BNSD", actual_seq_lengths_kv=lengths, softmax_lse_flag=True,
        )
        for start, lengths in [(0, [10, 10]), (10, [10, 0])]
    ]  # fmt: skip
    rows = [(logarithms.flatten(), result.reshape(-1, 16)) for result, logarithms in parts]
    merged = torch_npu.npu_attention_update([one for one, _ in rows], [one for _, one in rows], 1)[0].view(2, 4, 1, 16)
    close(merged[0], reference(q[0], k[0], v[0], 0.25)[0])
    close(merged[1], reference(q[1], k[1, :, :10], v[1, :, :10], 0.25)[0])


def test_gating_of_no_tokens():
    import torch_npu

    weights, experts, _ = torch_npu.npu_moe_gating_top_k(torch.zeros(0, 32).npu(), 4)
    torch.npu.synchronize()
    assert weights.shape == experts.shape == (0, 4)
