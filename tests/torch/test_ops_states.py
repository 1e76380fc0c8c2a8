"""Sequences with states, and attention to selected keys, through torch_npu's functions, against plain references."""

import pytest
import torch
import torch_npu

import references_moe as plain

BF16, F16 = torch.bfloat16, torch.float16


def random(*sizes, seed=0, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def assert_near(have, want, tolerance):
    torch.testing.assert_close(have.cpu().float(), want.float(), rtol=tolerance, atol=tolerance)


def rule(steps):
    """Queries, keys, values, how much is learnt, and gates."""
    unit = lambda x: torch.nn.functional.normalize(x.float(), dim=-1).to(BF16)
    q, k = unit(random(steps, 2, 32, seed=1)), unit(random(steps, 2, 32, seed=2))
    return q, k, random(steps, 4, 16, seed=3, dtype=BF16), torch.sigmoid(random(steps, 4, seed=4)).to(BF16), -random(steps, 4, seed=5).abs()


@pytest.mark.parametrize("accepted", [None, ints(2, 1)])
def test_the_delta_rule_step_by_step(accepted):
    q, k, v, beta, g = rule(5)
    state, lengths, places = random(7, 4, 16, 32, dtype=BF16), ints(2, 3), ints(6, 0, 3, 5, 2)
    want, states = plain.delta_rule(q, k, v, beta, state, lengths, 0.5, g, None, places, accepted)
    npu_state = state.clone().npu()
    have = torch_npu.npu_recurrent_gated_delta_rule(
        q.npu(), k.npu(), v.npu(), npu_state, beta=beta.npu(), scale=0.5, actual_seq_lengths=lengths.npu(),
        ssm_state_indices=places.npu(), num_accepted_tokens=None if accepted is None else accepted.npu(), g=g.npu(),
    )  # fmt: skip
    assert_near(have, want, 2e-2)
    assert_near(npu_state, states, 2e-2)


def test_the_delta_rule_of_sequences():
    q, k, v, beta, g = rule(70)
    state, lengths = random(2, 4, 16, 32, dtype=BF16), ints(30, 40)
    want, states = plain.delta_rule(q, k, v, beta, state, lengths, 0.2, g)
    have, last = torch_npu.npu_chunk_gated_delta_rule(
        q.npu(), k.npu(), v.npu(), beta=beta.npu(), initial_state=state.npu(), actual_seq_lengths=lengths.npu(), scale=0.2, g=g.npu()
    )
    assert_near(have, want, 2e-2)
    assert_near(last, states, 2e-2)


def test_windows_with_gradients():
    ends = [5, 40, 90]
    x, w, grad = random(90, 2, 32, dtype=F16), random(16, 2, seed=1, dtype=F16), None
    leaves = [one.clone().npu().requires_grad_() for one in (x, w)]
    have = torch_npu.npu_nsa_compress(*leaves, 16, 16, actual_seq_len=ends)
    want = plain.window_sums(x, w, ends, 16)
    assert_near(have / 4, want / 4, 3e-3)
    grad = random(*want.shape, seed=2, dtype=F16)
    have.backward(grad.npu())
    for leaf, one in zip(leaves, plain.window_gradients(grad, x, w, ends, 16), strict=True):
        assert_near(leaf.grad / 8, one / 8, 3e-3)


def test_attention_to_blocks_with_gradients():
    q, k, v = random(6, 4, 192, dtype=F16), random(64, 2, 192, seed=1, dtype=F16), random(64, 2, 128, seed=2, dtype=F16)
    chosen = torch.stack([torch.randperm(2, generator=torch.Generator().manual_seed(i)) for i in range(12)]).reshape(6, 2, 2).int()
    leaves = [one.clone().npu().requires_grad_() for one in (q, k, v)]
    arguments = (192**-0.5, 4, 16, 2)
    have, most, sums = torch_npu.npu_nsa_select_attention(
        *leaves, chosen.npu(), *arguments, actual_seq_qlen=[2, 6], actual_seq_kvlen=[32, 64]
    )
    want = plain.half_block_attention(q, k, v, chosen, [2, 6], [32, 64], 192**-0.5, 16)
    assert_near(most, want[0], 1e-4)
    assert_near(sums, want[1], 1e-4)
    assert_near(have, want[2], 3e-3)
    grad = random(6, 4, 128, seed=3, dtype=F16)
    have.backward(grad.npu())
    wanted = plain.block_attention_gradients(q, k, v, want[2], grad, *want[:2], chosen, [2, 6], [32, 64], 192**-0.5, 16)
    for leaf, one in zip(leaves, wanted, strict=True):
        assert_near(leaf.grad, one, 5e-3)


def test_tokens_of_several_ranks():
    tokens, counts, scales = random(9, 16, dtype=F16), ints([1, 2, 0], [3, 1, 2]), random(9)
    have = torch_npu.npu_moe_re_routing(tokens.npu(), counts.npu(), per_token_scales=scales.npu())
    for one, want in zip(have, plain.rerouted(tokens, counts, scales), strict=True):
        assert torch.equal(one.cpu(), want)


@pytest.mark.parametrize("paged", [False, True])
def test_the_keys_that_matter_most(paged):
    q, k, w = random(2, 3, 8, 128, dtype=F16), random(2, 32, 1, 128, seed=1, dtype=F16), random(2, 3, 8, seed=2, dtype=F16).abs()
    want = plain.most_important(q, k, w, 20)
    options = {}
    if paged:
        order = torch.tensor([[2, 0], [1, 3]])
        blocks = torch.zeros(4, 16, 1, 128, dtype=F16)
        blocks[order.flatten()] = k.reshape(4, 16, 1, 128)
        k = blocks
        options = dict(block_table=order.int().npu(), layout_key="PA_BSND", actual_seq_lengths_key=ints(32, 32).npu())
    have, _ = torch_npu.npu_lightning_indexer(q.npu(), k.npu(), w.npu(), sparse_count=20, **options)
    assert torch.equal(have.cpu(), want)


def test_a_convolution_that_continues_a_cache():
    x, w, cache = random(7, 64, dtype=F16), random(3, 64, seed=1, dtype=F16), random(4, 2, 64, seed=2, dtype=F16)
    lines, starts = ints(2, 0), ints(0, 3, 7)
    after, want = plain.cached_conv(x, w, cache, [0, 3, 7], lines, residual=False)
    npu_cache = cache.clone().npu()
    have = torch_npu.npu_fused_causal_conv1d(
        x.npu(), w.npu(), npu_cache, query_start_loc=starts.npu(), cache_indices=lines.npu(), max_query_len=4
    )
    assert_near(have, want, 3e-3)
    assert torch.equal(npu_cache.cpu(), after)
