"""Mixtures of experts and sampling through torch_npu's functions, against plain references."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu

import references_moe as plain
import support

TYPES = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCES = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 3e-2}


def random(*sizes, seed=0, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def chosen(tokens, each, experts, seed=0):
    """Different experts for each token."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randperm(experts, generator=generator)[:each] for _ in range(tokens)]).int()


def assert_near(have, want, dtype=torch.float32):
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(have.cpu().float(), want.float(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_choice_by_softmax(dtype):
    x, finished = random(37, 64, dtype=dtype), torch.arange(37) % 5 == 0
    weights, experts, slots = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), finished.npu(), 6)
    want = plain.softmax_choice(x, 6, finished)
    assert_near(weights, want[0], dtype)
    assert torch.equal(experts.cpu(), want[1]) and torch.equal(slots.cpu(), want[2])
    weights, experts, every = torch_npu.npu_moe_gating_top_k_softmax_v2(x.npu(), k=6, output_softmax=True)
    assert torch.equal(experts.cpu(), plain.softmax_choice(x, 6)[1])
    assert_near(every, x.float().softmax(-1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_choice_by_groups(dtype):
    x, bias = random(33, 64, dtype=dtype), random(64, seed=1, dtype=dtype)
    have = torch_npu.npu_moe_gating_top_k(
        x.npu(), 8, bias=bias.npu(), k_group=4, group_count=8, group_select_mode=1, norm_type=1, out_flag=True,
        routed_scaling_factor=2.5,
    )  # fmt: skip
    want = plain.choice(x, 8, bias, 4, 8, True, norm="sigmoid", scale=2.5)
    assert torch.equal(have[1].cpu(), want[1])
    assert_near(have[0], want[0], dtype)
    assert_near(have[2], want[2])


def test_gradient_of_a_choice():
    norm, grad, experts = torch.sigmoid(random(9, 16)), random(9, 4, seed=1), chosen(9, 4, 16)
    have = torch_npu.npu_moe_gating_top_k_backward(
        norm.npu(), grad.npu(), experts.npu(), norm_type=1, routed_scaling_factor=2.0
    )
    assert_near(have, plain.choice_gradient(norm, grad, experts, 2.0, 1e-20))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_routing_and_back(dtype):
    tokens, each, experts = 41, 3, 8
    x, numbers = random(tokens, 24, dtype=dtype), chosen(tokens, each, experts)
    expanded, places, counts, _ = torch_npu.npu_moe_init_routing_v2(
        x.npu(), numbers.npu(), active_num=tokens * each, expert_num=experts, expert_tokens_num_type=1,
        expert_tokens_num_flag=True, active_expert_range=[0, experts],
    )  # fmt: skip
    order, back = plain.by_expert(numbers)
    assert torch.equal(expanded.cpu(), x[order // each]) and torch.equal(places.cpu(), back.int())
    assert torch.equal(counts.cpu(), plain.counts(numbers, experts))
    weights = random(tokens, each, seed=3, dtype=dtype)
    have = torch_npu.npu_moe_finalize_routing(
        expanded, None, None, None, weights.npu(), places, None, drop_pad_mode=2
    )
    assert_near(have, plain.finalize(expanded.cpu(), places.cpu(), weights), dtype)


def test_routing_of_some_experts():
    x, numbers = random(10, 8), chosen(10, 2, 8)
    expanded, places, counts, _ = torch_npu.npu_moe_init_routing_v2(
        x.npu(), numbers.npu(), active_num=20, expert_num=8, expert_tokens_num_type=0, expert_tokens_num_flag=True,
        active_expert_range=[2, 5], row_idx_type=0,
    )  # fmt: skip
    flat = numbers.flatten().long()
    is_active = (flat >= 2) & (flat < 5)
    order = torch.where(is_active, flat, 99).argsort(stable=True)[: is_active.sum()]
    assert torch.equal(expanded.cpu()[: len(order)], x[order // 2])
    want = torch.full((20,), -1).scatter(0, order, torch.arange(len(order))).int()
    assert torch.equal(places.cpu(), want)
    assert torch.equal(counts.cpu(), torch.bincount(flat[order] - 2, minlength=3).cumsum(0))


def test_the_first_routing():
    x, numbers = random(12, 8), chosen(12, 2, 6)
    slots = torch.arange(24).reshape(2, 12).T.contiguous().int()
    have = torch_npu.npu_moe_init_routing(x.npu(), slots.npu(), numbers.npu(), 12)
    for one, want in zip(have, plain.init_routing(x, slots, numbers, 12), strict=True):
        assert torch.equal(one.cpu(), want)
    ends = torch_npu.npu_moe_compute_expert_tokens(have[2], 6)
    assert torch.equal(ends.cpu(), plain.counts(numbers, 6, True).int())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_permuting_with_gradients(dtype):
    x, numbers, weights = random(9, 12, dtype=dtype), chosen(9, 2, 4), random(9, 2, seed=1, dtype=dtype)
    grad, results = random(9, 12, seed=2, dtype=dtype), []
    for device in ("cpu", "npu"):
        leaves = [one.clone().to(device).requires_grad_() for one in (x, weights)]
        if device == "npu":
            rows, places = torch_npu.npu_moe_token_permute(leaves[0], numbers.npu())
            out = torch_npu.npu_moe_token_unpermute(rows * 2, places, leaves[1])
        else:
            order, places = plain.by_expert(numbers)
            rows = leaves[0].float()[order // 2]
            out = ((rows * 2)[places].reshape(9, 2, 12) * leaves[1].float()[..., None]).sum(1).to(dtype)
        out.backward(grad.to(device))
        results.append([out, *(leaf.grad for leaf in leaves)])
    for have, want in zip(results[1], results[0], strict=True):
        assert_near(have, want, dtype)


def test_permuting_by_a_map_with_gradients():
    numbers = chosen(8, 2, 5)
    routing = torch.zeros(8, 5, dtype=torch.bool).scatter(1, numbers.long(), True)
    x, weights, grad, results = random(8, 6), random(8, 5, seed=1).abs(), random(8, 6, seed=2), []
    for device in ("cpu", "npu"):
        leaves = [one.clone().to(device).requires_grad_() for one in (x, weights)]
        if device == "npu":
            rows, _, places = torch_npu.npu_moe_token_permute_with_routing_map(
                leaves[0], routing.npu(), num_out_tokens=16
            )
            out = torch_npu.npu_moe_token_unpermute_with_routing_map(
                rows, places, [8, 6], probs=leaves[1], routing_map=routing.npu()
            )
        else:
            out = leaves[0] * (leaves[1] * routing).sum(1, True)
        out.backward(grad.to(device))
        results.append([out, *(leaf.grad for leaf in leaves)])
    for have, want in zip(results[1], results[0], strict=True):
        assert_near(have, want)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("rows", [8, 300])
def test_grouped_products(dtype, rows):
    x, weights = random(rows, 48, dtype=dtype), random(6, 48, 40, seed=1, dtype=dtype)
    ends = [rows // 4, rows // 4, rows // 2, rows // 2, rows, rows]
    lengths = [b - a for a, b in zip([0, *ends], ends)]
    want = plain.grouped_matmul(x, weights, ends)
    for kind, numbers in ((0, ends), (1, lengths)):
        [have] = torch_npu.npu_grouped_matmul(
            [x.npu()], [weights.npu()], group_list=torch.tensor(numbers).npu(), split_item=3, group_type=0, group_list_type=kind
        )
        assert_near(have / 48**0.5, want.float() / 48**0.5, dtype)
    [have] = torch_npu.npu_grouped_matmul(
        [x.npu()], [weights.mT.contiguous().npu().mT], group_list=torch.tensor(ends).npu(), split_item=3, group_type=0
    )
    assert_near(have / 48**0.5, want.float() / 48**0.5, dtype)
    have = torch_npu.npu_grouped_matmul([x.npu()] * 2, [weights[0].npu(), weights[1].npu()], split_item=0, group_type=-1)
    for one, weight in zip(have, weights):
        assert_near(one / 48**0.5, x.float() @ weight.float() / 48**0.5, dtype)


def test_a_layer_of_experts_is_all_of_them_weighted():
    """Two of eight experts, as a decoder computes them, against every expert with most weights 0."""
    tokens, hidden, inner, experts = 17, 32, 24, 8
    x, gate = random(tokens, hidden), random(hidden, experts, seed=1)
    up, down = random(experts, hidden, 2 * inner, seed=2) / 6, random(experts, inner, hidden, seed=3) / 5
    scores = x @ gate
    weights, numbers = plain.top_experts(scores.softmax(-1), 2)
    every = torch.stack([(lambda a, b: (F.silu(a) * b) @ down[e])(*(x @ up[e]).chunk(2, -1)) for e in range(experts)], 1)
    want = (every.gather(1, numbers.long()[..., None].expand(-1, -1, hidden)) * weights[..., None]).sum(1)
    npu_weights, npu_numbers, _ = torch_npu.npu_moe_gating_top_k_softmax(scores.npu(), None, 2)
    rows, places, counts, _ = torch_npu.npu_moe_init_routing_v2(
        x.npu(), npu_numbers, active_num=2 * tokens, expert_num=experts, expert_tokens_num_type=1, expert_tokens_num_flag=True,
        active_expert_range=[0, experts],
    )  # fmt: skip
    options = dict(group_list=counts, split_item=3, group_type=0, group_list_type=1)
    [middle] = torch_npu.npu_grouped_matmul([rows], [up.npu()], **options)
    [result] = torch_npu.npu_grouped_matmul([torch_npu.npu_swiglu(middle)], [down.npu()], **options)
    have = torch_npu.npu_moe_finalize_routing(result, None, None, None, npu_weights, places, None, drop_pad_mode=2)
    assert_near(have, want)


def test_products_added_in_place():
    x, weights, y = random(20, 6, dtype=torch.float16), random(20, 5, seed=1, dtype=torch.float16), random(3, 6, 5, seed=2)
    have = y.clone().npu()
    torch_npu.npu_grouped_matmul_add_(have, x.npu(), weights.npu(), torch.tensor([4, 4, 20]).npu())
    torch.testing.assert_close(have.cpu(), y + plain.grouped_sums(x.T, weights, [4, 4, 20]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu", "fastgelu"])
def test_feed_forward(activation):
    functions = {
        "relu": torch.relu, "silu": F.silu, "gelu": lambda x: F.gelu(x, approximate="tanh"),
        "fastgelu": lambda x: x * torch.sigmoid(1.702 * x),
    }  # fmt: skip
    half = torch.float16
    x, w1, w2 = random(10, 16, dtype=half), random(3, 16, 8, seed=1, dtype=half), random(3, 8, 16, seed=2, dtype=half)
    have = torch_npu.npu_ffn(x.npu(), w1.npu() / 4, w2.npu() / 4, activation, expert_tokens=[3, 0, 7])
    assert_near(have, plain.ffn(x, w1 / 4, w2 / 4, [3, 3, 10], functions[activation]), half)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_filters_of_logits(dtype):
    logits, p = random(5, 2000, dtype=dtype), torch.tensor([0.1, 0.5, 0.9, 1.0, 0.3]).to(dtype)
    k = torch.tensor([50, 2000, 1, 1024, 7], dtype=torch.int32)
    have = torch_npu.npu_top_k_top_p(logits.npu(), p.npu(), k.npu()).cpu()
    want = plain.top_k_top_p(logits, p, k)
    # Sums of probabilities that are close to the limit are decided by rounding.
    assert ((have != want).sum(-1) <= 1).all()


def test_drawing_from_noise():
    logits, noise = random(6, 500, dtype=torch.float16), torch.empty(6, 500)
    noise.exponential_(generator=torch.Generator().manual_seed(4))
    k, p = torch.tensor([5, 50, 500, 1, 0, 20]).int(), torch.tensor([0.5, 0.9, 0.3, 1.0, 0.8, 1.0]).half()
    have, _ = torch_npu.npu_top_k_top_p_sample(logits.npu(), k.npu(), p.npu(), noise.npu())
    assert torch.equal(have.cpu(), plain.sample(logits, k, p, noise)[0])


FAULTS = """
import re
import torch, torch_npu
import cases

x = torch.ones(4, 8)
ints = lambda *values: torch.tensor(values, dtype=torch.int32).npu()
CASES = {
    "an expert": (r"aclnnMoeInitRoutingV3: expertIdx\\[1, 0\\] = 9 is outside 0 to 3", lambda: torch_npu.npu_moe_init_routing_v2(
        x.npu(), ints([0, 1], [9, 2], [1, 2], [3, 0]), active_num=8, expert_num=4, expert_tokens_num_type=1,
        expert_tokens_num_flag=True, active_expert_range=[0, 4])),
    "a group": (r"groupListOptional\\[1\\] = 5: its group ends at 5, but there are 4", lambda: torch_npu.npu_grouped_matmul(
        [x.npu()], [torch.ones(2, 8, 3).npu()], group_list=torch.tensor([1, 5]).npu(), split_item=3, group_type=0)),
    "a group that ends before it begins": (r"groupListOptional\\[1\\] = 2 is less than 3", lambda: torch_npu.npu_grouped_matmul(
        [x.npu()], [torch.ones(2, 8, 3).npu()], group_list=torch.tensor([3, 2]).npu(), split_item=3, group_type=0)),
    "a place": (r"sortedIndices\\[2\\] = -3 is outside 0 to 3", lambda: torch_npu.npu_moe_token_unpermute(
        x.npu(), ints(0, 1, -3, 2))),
    "a row": (r"expandedRowIdx\\[0\\] = 4 is outside 0 to 3", lambda: torch_npu.npu_moe_finalize_routing(
        x.npu(), None, None, None, torch.ones(2, 2).npu(), ints(4, 1, 2, 3), None, drop_pad_mode=2)),
}

def case(text, function):
    have = cases.error_of(function)
    assert re.search(text, have), have

cases.run([(name, lambda pair=pair: case(*pair)) for name, pair in CASES.items()])
"""


def test_what_is_out_of_range_is_named():
    support.run_script(FAULTS)


def test_what_is_quantised_is_refused():
    x, weights = random(4, 8, dtype=torch.float16).npu(), random(2, 8, 3, dtype=torch.float16).npu()
    with pytest.raises(RuntimeError, match="antiquantScaleOptional is there: quantised calls are not supported"):
        torch_npu.npu_grouped_matmul(
            [x], [weights], antiquant_scale=[random(2, 3, dtype=torch.float16).npu()],
            antiquant_offset=[random(2, 3, dtype=torch.float16).npu()], group_list=torch.tensor([1, 4]).npu(), split_item=3,
            group_type=0,
        )  # fmt: skip
        torch.npu.synchronize()
