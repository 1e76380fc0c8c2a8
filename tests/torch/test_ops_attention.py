"""Attention as torch_npu calls it, against a plain reference: masks, position shift encodings (`pse`), dropout, attention sinks,
packed sequences, layouts."""

import pytest
import torch

from test_ops_linear import tensor

# pre_tockens or next_tockens that limit nothing.
UNLIMITED = 2147483647


def reference_attention(q, k, v, masked=None, shift=None, scale_first=False, dropout_mask=None, keep_prob=1.0, sink=None, scale=0.3):
    """Attention of (heads, positions, features). `masked` keys count for nothing, `shift` is added to the scores, after scaling if
    `scale_first`; `dropout_mask` is the mask of dropout, `sink` a score without a key for each head."""
    k, v = (one.repeat_interleave(q.shape[-3] // one.shape[-3], -3) for one in (k, v))
    scores = q @ k.mT
    shift = 0 if shift is None else shift
    scores = scores * scale + shift if scale_first else (scores + shift) * scale
    if masked is not None:
        scores = scores.masked_fill(masked, -torch.inf)
    if sink is not None:
        scores = torch.cat((scores, sink[:, None, None].expand(*scores.shape[:-1], 1)), -1)
    weights = scores.softmax(-1)[..., : k.shape[-2]]
    if dropout_mask is not None:
        weights = weights * dropout_mask / keep_prob
    return weights @ v


def compare(attend, reference, inputs, tolerance=1e-4):
    """Results and gradients of `attend` on the device against those of `reference` on the CPU."""
    npu = [one.npu().requires_grad_() for one in inputs]
    cpu = [one.clone().requires_grad_() for one in inputs]
    have, want = attend(*npu), reference(*cpu)
    torch.testing.assert_close(have.cpu(), want, atol=tolerance, rtol=tolerance)
    weight = tensor(tuple(want.shape), 77)
    have.backward(weight.npu().to(have.dtype))
    want.backward(weight)
    for at, (one, other) in enumerate(zip(npu, cpu)):
        torch.testing.assert_close(one.grad.cpu(), other.grad, atol=tolerance, rtol=tolerance, msg=lambda text: f"input {at}: {text}")


def distances(queries, keys):
    """By how many positions each key is after each query."""
    return torch.arange(keys)[None, :] - torch.arange(queries)[:, None]


def compressed_mask():
    """The mask that stands for a causal one of any size."""
    return torch.ones(2048, 2048, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("has_sink", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_sinks(has_sink, groups):
    import torch_npu

    inputs = [tensor((2, 4, 9, 8), 1), tensor((2, groups, 11, 8), 2), tensor((2, groups, 11, 8), 3), *([tensor((4,), 4)] if has_sink else [])]
    mask = distances(9, 11) > 2

    def attend(q, k, v, sink=None):
        return torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", atten_mask=mask.npu(), scale=0.3, sparse_mode=1, sink=sink)[0]

    compare(attend, lambda q, k, v, sink=None: reference_attention(q, k, v, mask, sink=sink), inputs)


@pytest.mark.parametrize("mode", [5, 6])
def test_prefixes(mode):
    import torch_npu

    prefix, (b, n, sq, sk) = [3, 5], (2, 2, 6, 7)
    hidden = torch.stack([(distances(sq, sk) > sk - sq) & (torch.arange(sk) >= one) for one in prefix])[:, None]
    mask = hidden if mode == 5 else torch.zeros(3072, 2048, dtype=torch.bool)
    inputs = [tensor((b, n, sq, 8), 1), tensor((b, n, sk, 8), 2), tensor((b, n, sk, 8), 3)]

    def attend(*inputs):
        return torch_npu.npu_fusion_attention(*inputs, n, "BNSD", atten_mask=mask.npu(), scale=0.3, sparse_mode=mode, prefix=prefix)[0]

    compare(attend, lambda q, k, v: reference_attention(q, k, v, hidden), inputs)


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
@pytest.mark.parametrize("input_layout", ["BNSD", "TND"])
def test_shifts(kind, input_layout):
    import torch_npu

    n, s, d, b = 2, 6, 8, 2
    is_slope = kind >= 2  # computed from a slope for each head
    pse = tensor((n,) if is_slope else (b, n, s, s), 5).abs()
    distance = (distances(s, s) - 1).abs().float()
    shift = -pse[:, None, None] * (distance.sqrt() if kind == 3 else distance) if is_slope else pse
    values = [tensor((b, n, s, d), seed) for seed in range(3)]
    options = {"pse": pse.npu(), "scale": 0.3, "pse_type": kind, "q_start_idx": [2], "kv_start_idx": [1]}
    if input_layout == "TND":
        values = [one.transpose(1, 2).reshape(b * s, n, d) for one in values]
        options |= {"actual_seq_qlen": [s, 2 * s], "actual_seq_kvlen": [s, 2 * s]}

    def reference(*inputs):
        if input_layout == "BNSD":
            return reference_attention(*inputs, shift=shift, scale_first=kind != 1)
        parts = [[one[at * s : at * s + s].transpose(0, 1) for one in inputs] for at in range(b)]
        return torch.cat([reference_attention(*part, shift=shift if is_slope else shift[at], scale_first=kind != 1).transpose(0, 1) for at, part in enumerate(parts)])

    compare(lambda *inputs: torch_npu.npu_fusion_attention_v2(*inputs, n, input_layout, **options)[0], reference, values)


def test_a_shift_of_the_last_rows_stands_for_all():
    import torch_npu

    s, n, d = 1100, 1, 8
    slope = torch.tensor([0.1])
    shift = -slope[:, None, None] * distances(s, s).abs().float()
    hidden = distances(s, s) > 0
    inputs = [tensor((1, n, s, d), seed) for seed in range(3)]

    def attend(*inputs):
        pse = shift[None, :, -1024:].contiguous().npu()
        return torch_npu.npu_fusion_attention(*inputs, n, "BNSD", pse=pse, atten_mask=hidden.npu(), scale=0.3, next_tockens=0)[0]

    compare(attend, lambda q, k, v: reference_attention(q, k, v, hidden, shift=shift), inputs)


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4, 6, 7, 8])
def test_sequences(mode):
    """In modes 7 and 8 the last and the first sequence, respectively, have a band mask, as documented."""
    import torch_npu

    lengths = {7: [(3, 3), (2, 6)], 8: [(3, 4), (5, 5), (4, 4)]}.get(mode, [(3, 5), (0, 0), (4, 4)])
    before, after = {4: (2, 1), 7: (6, -2), 8: (4, 1)}.get(mode, (UNLIMITED, UNLIMITED))
    prefix = [max(keys - queries, keys // 2) for queries, keys in lengths]

    def hidden(at, queries, keys):
        distance, last = distances(queries, keys), keys - queries
        band = (distance > last + after) | (distance < last - before)
        causal = distance > last
        return {
            0: distance > 1, 1: distance > 1, 2: distance > 0, 3: causal, 4: band, 6: causal & (torch.arange(keys) >= prefix[at]),
            7: band if at == len(lengths) - 1 else causal, 8: band if at == 0 else distance > 0,
        }[mode]  # fmt: skip

    n, groups, d = 4, 2, 8
    tokens = [sum(one) for one in zip(*lengths)]
    ends = [torch.tensor(one).cumsum(0).tolist() for one in zip(*lengths)]
    mask = distances(8, 8) > 1 if mode < 2 else torch.zeros(3072, 2048, dtype=torch.bool) if mode == 6 else compressed_mask()
    inputs = [tensor((tokens[0], n, d), 1), tensor((tokens[1], groups, d), 2), tensor((tokens[1], groups, d), 3)]

    def attend(*inputs):
        return torch_npu.npu_fusion_attention(
            *inputs, n, "TND", atten_mask=mask.npu(), scale=0.3, sparse_mode=mode, prefix=prefix if mode == 6 else None,
            pre_tockens=before, next_tockens=after, actual_seq_qlen=ends[0], actual_seq_kvlen=ends[1],
        )[0]  # fmt: skip

    def reference(q, k, v):
        parts, query_start, key_start = [], 0, 0
        for at, (queries, keys) in enumerate(lengths):
            part = [q[query_start : query_start + queries], *(one[key_start : key_start + keys] for one in (k, v))]
            query_start, key_start = query_start + queries, key_start + keys
            if queries:
                parts.append(reference_attention(*[one.transpose(0, 1) for one in part], hidden(at, queries, keys)).transpose(0, 1))
        return torch.cat(parts)

    compare(attend, reference, inputs)


@pytest.mark.parametrize("input_layout", ["BNSD", "TND"])
def test_dropout_by_a_mask(input_layout):
    """The bits of a mask, from the lowest of each byte: head by head, and packed sequences one after the other."""
    import torch_npu

    lengths, n, d, keep_prob = [(5, 7), (3, 2)] if input_layout == "TND" else [(5, 7)], 2, 8, 0.5
    counts = [n * queries * keys for queries, keys in lengths]
    bits = torch.randint(0, 2, ((sum(counts) + 127) // 128 * 128,), generator=torch.Generator().manual_seed(3))
    mask = (bits.reshape(-1, 8) << torch.arange(8)).sum(1).to(torch.uint8)
    dropout_masks = [one.reshape(n, *length) for one, length in zip(bits[: sum(counts)].split(counts), lengths)]
    ends = [torch.tensor(one).cumsum(0).tolist() for one in zip(*lengths)]
    tokens = [one[-1] for one in ends]
    inputs = [tensor((tokens[0], n, d), 1), tensor((tokens[1], n, d), 2), tensor((tokens[1], n, d), 3)]
    options = {"actual_seq_qlen": ends[0], "actual_seq_kvlen": ends[1]} if input_layout == "TND" else {}

    def shaped(one):
        return one if input_layout == "TND" else one.transpose(0, 1)[None]

    def attend(*inputs):
        inputs = [shaped(one).contiguous() for one in inputs]
        result = torch_npu.npu_fusion_attention(*inputs, n, input_layout, scale=0.3, keep_prob=keep_prob, dropout_mask=mask.npu(), **options)[0]
        return result if input_layout == "TND" else result[0].transpose(0, 1)

    def reference(q, k, v):
        parts, query_start, key_start = [], 0, 0
        for (queries, keys), mask in zip(lengths, dropout_masks):
            part = [q[query_start : query_start + queries], *(one[key_start : key_start + keys] for one in (k, v))]
            query_start, key_start = query_start + queries, key_start + keys
            parts.append(reference_attention(*[one.transpose(0, 1) for one in part], dropout_mask=mask, keep_prob=keep_prob).transpose(0, 1))
        return torch.cat(parts)

    npu = attend(*[one.npu() for one in inputs])
    torch.testing.assert_close(npu.cpu(), reference(*inputs), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("layout", ["", "TND"])
@pytest.mark.parametrize("has_sink", [False, True])
def test_separate_rotary_features(layout, has_sink):
    import torch_npu

    ends, n, groups, d, rope = [3, 8], 4, 2, 8, 8
    sizes = [(n, d), (groups, d), (groups, d), (n, rope), (groups, rope)]
    inputs = [tensor((8, *size), seed, torch.bfloat16).float() for seed, size in enumerate(sizes)]
    sink = tensor((n,), 9) if has_sink else None

    def attend(q, k, v, qr, kr):
        halves = [one.bfloat16() for one in (q, k, v)]
        return torch_npu.npu_fusion_attention_v2(
            *halves, n, "TND", query_rope=qr.bfloat16(), key_rope=kr.bfloat16(), scale=0.3, sparse_mode=3, softmax_layout=layout,
            atten_mask=compressed_mask().npu(), actual_seq_qlen=ends, actual_seq_kvlen=ends, sink=sink.npu() if has_sink else None,
        )[0].float()  # fmt: skip

    def reference(q, k, v, qr, kr):
        q, k, parts = torch.cat((q, qr), -1), torch.cat((k, kr), -1), []
        for start, end in zip([0, *ends], ends):
            part = [one[start:end].transpose(0, 1) for one in (q, k, v)]
            parts.append(reference_attention(*part, distances(end - start, end - start) > 0, sink=sink).transpose(0, 1))
        return torch.cat(parts)

    compare(attend, reference, inputs, 3e-2)


@pytest.mark.parametrize("sizes", [(0, 3, 3), (1, 0, 3)], ids=["no batch", "no queries"])
def test_the_gradients_of_nothing_are_zeros(sizes):
    batch, queries, keys = sizes
    inputs = [torch.zeros(batch, 2, length, 4, device="npu", requires_grad=True) for length in (queries, keys, keys)]
    result = torch.nn.functional.scaled_dot_product_attention(*inputs)
    junk = [torch.full((1, 2, 3, 4), 7.0, device="npu") for _ in range(8)]
    torch.npu.synchronize()
    del junk
    result.sum().backward()
    torch.npu.synchronize()
    assert all(one.grad.abs().sum().item() == 0.0 for one in inputs)
