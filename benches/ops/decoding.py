"""Serving for `cargo xtask bench ops`: steps of a Llama of GPT-2's size, and layers of experts.

The model has 12 layers, hidden size 768, 12 heads of 64 that share 4 heads of keys and values, an inner size of 2,048 and 50,257
tokens, whose table is also the last product. On `npu` it is written with torch_npu's calls and a paged cache (blocks of 128), on `cpu`
with PyTorch's own and a dense cache; weights, tokens and what the caches hold are the same. A decode step computes
the last of so many tokens of each sequence, whose others are in the cache; it writes the same place each time.
"""

import functools

import torch
import torch_npu
from torch.nn import functional as F

LAYERS, HIDDEN, HEADS, GROUPS, WIDTH, INNER, VOCABULARY = 12, 768, 12, 4, 64, 2048, 50_257
SIDES = [HEADS * WIDTH, GROUPS * WIDTH, GROUPS * WIDTH]
BLOCK, EPSILON, SCALE = 128, 1e-6, WIDTH**-0.5


def numbers(*size, seed, factor=1.0, dtype=torch.float32):
    return (torch.randn(size, generator=torch.Generator().manual_seed(seed)) * factor).to(dtype)


@functools.cache
def weights(device, dtype):
    """The table of tokens, and of each layer the products and the weights of its norms."""
    if device != "cpu":
        table, layers = weights("cpu", dtype)
        return table.to(device), [tuple(one.to(device) for one in layer) for layer in layers]
    shapes = [(sum(SIDES), HIDDEN), (HIDDEN, HIDDEN), (2 * INNER, HIDDEN), (HIDDEN, INNER)]
    layers = [
        (*(numbers(*shape, seed=10 * at + one, factor=0.03, dtype=dtype) for one, shape in enumerate(shapes)),
         *(1 + numbers(HIDDEN, seed=10 * at + one, factor=0.1, dtype=dtype) for one in (4, 5)))
        for at in range(LAYERS)
    ]  # fmt: skip
    return numbers(VOCABULARY, HIDDEN, seed=999, factor=0.5, dtype=dtype), layers


def angles(start, end, dtype):
    """Cosines and sines of these positions, for all features of a head."""
    turns = torch.arange(start, end)[:, None] / 10_000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    return [torch.cat((one, one), -1).to(dtype) for one in (turns.cos(), turns.sin())]


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class OnCpu:
    """Sequences with `tokens` in their dense caches, of which a step computes the last `count`."""

    def __init__(self, sequences, tokens, count, dtype):
        self.table, self.layers = weights("cpu", dtype)
        self.ids = torch.arange(sequences * count).reshape(sequences, count) * 37 % VOCABULARY
        self.cos, self.sin = angles(tokens - count, tokens, dtype)
        self.first, self.count = tokens - count, count
        one = [numbers(sequences, GROUPS, tokens, WIDTH, seed=at, dtype=dtype) for at in (1, 2)]
        self.caches = [[side.clone() for side in one] for _ in range(LAYERS)]

    def step(self):
        sequences = len(self.ids)
        x = F.embedding(self.ids, self.table)
        for (qkv, out, up, down, norm1, norm2), (keys, values) in zip(self.layers, self.caches):
            q, k, v = F.linear(F.rms_norm(x, (HIDDEN,), norm1, EPSILON), qkv).split(SIDES, -1)
            q, k, v = (one.view(sequences, self.count, -1, WIDTH).transpose(1, 2) for one in (q, k, v))
            keys[:, :, self.first :] = rotated(k, self.cos, self.sin)
            values[:, :, self.first :] = v
            attended = F.scaled_dot_product_attention(rotated(q, self.cos, self.sin), keys, values, is_causal=self.count > 1, enable_gqa=True)
            x = x + F.linear(attended.transpose(1, 2).flatten(2), out)
            gate, other = F.linear(F.rms_norm(x, (HIDDEN,), norm2, EPSILON), up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * other, down)
        # The weights of the last norm are those of the first.
        return F.linear(F.rms_norm(x[:, -1], (HIDDEN,), self.layers[0][4], EPSILON), self.table)


class OnNpu:
    """As OnCpu, with the cache in blocks, in no order."""

    def __init__(self, sequences, tokens, count, dtype):
        self.table, self.layers = weights("npu", dtype)
        self.sequences, self.count, self.lengths = sequences, count, [tokens] * sequences
        self.ids = (torch.arange(sequences * count) * 37 % VOCABULARY).npu()
        self.cos, self.sin = (one.repeat(sequences, 1)[:, None, None].npu() for one in angles(tokens - count, tokens, dtype))
        blocks = -(-tokens // BLOCK)
        order = torch.randperm(sequences * blocks, generator=torch.Generator().manual_seed(3))
        table = order.reshape(sequences, blocks)
        self.blocks = table.int().npu()
        at = torch.arange(tokens - count, tokens)
        self.slots = (table[:, at // BLOCK] * BLOCK + at % BLOCK).flatten().int().npu()
        self.mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu() if count > 1 else None
        caches = []
        for seed in (1, 2):
            dense = numbers(sequences, GROUPS, tokens, WIDTH, seed=seed, dtype=dtype).transpose(1, 2)
            pages = torch.zeros(sequences * blocks, BLOCK, GROUPS, WIDTH, dtype=dtype)
            padded = torch.zeros(sequences, blocks * BLOCK, GROUPS, WIDTH, dtype=dtype)
            padded[:, :tokens] = dense
            pages[order] = padded.reshape(-1, BLOCK, GROUPS, WIDTH)
            caches.append(pages)
        self.caches = [[side.npu() for side in caches] for _ in range(LAYERS)]

    def attend(self, q, k, v, keys, values):
        heads = dict(num_heads=HEADS, num_key_value_heads=GROUPS, scale=SCALE, input_layout="BSH")
        if self.count > 1:
            fresh = (one.view(self.sequences, self.count, -1) for one in (q, k, v))
            return torch_npu.npu_fused_infer_attention_score(*fresh, atten_mask=self.mask, sparse_mode=3, **heads)[0]
        return torch_npu.npu_fused_infer_attention_score(
            q.view(self.sequences, 1, -1), keys.flatten(2), values.flatten(2), block_table=self.blocks, block_size=BLOCK,
            actual_seq_lengths_kv=self.lengths, **heads,
        )[0]  # fmt: skip

    def step(self):
        x = F.embedding(self.ids, self.table)
        normalised = torch_npu.npu_rms_norm(x, self.layers[0][4], EPSILON)[0]
        for at, ((qkv, out, up, down, _, norm2), (keys, values)) in enumerate(zip(self.layers, self.caches)):
            q, k, v = (one.view(len(x), 1, -1, WIDTH) for one in F.linear(normalised, qkv).split(SIDES, -1))
            q, k = torch_npu.npu_apply_rotary_pos_emb(q, k, self.cos, self.sin)
            torch_npu.npu_scatter_pa_kv_cache(k.view(-1, GROUPS, WIDTH), v.view(-1, GROUPS, WIDTH), keys, values, self.slots, cache_mode="Norm")
            attended = self.attend(q, k, v, keys, values).view(len(x), HIDDEN)
            normalised, _, x = torch_npu.npu_add_rms_norm(F.linear(attended, out), x, norm2, EPSILON)
            inner = torch_npu.npu_swiglu(F.linear(normalised, up))
            following = self.layers[(at + 1) % LAYERS][4]
            normalised, _, x = torch_npu.npu_add_rms_norm(F.linear(inner, down), x, following, EPSILON)
        return F.linear(normalised.view(self.sequences, self.count, HIDDEN)[:, -1], self.table)


def llama(sequences, tokens, count=1, dtype=torch.float32):
    """Work and inputs of a step."""

    def make(device):
        return [(OnCpu if device == "cpu" else OnNpu)(sequences, tokens, count, dtype)]

    return lambda model: model.step(), make


EXPERTS, CHOSEN = 8, 2


@functools.cache
def experts(device, dtype):
    if device != "cpu":
        return [one.to(device) for one in experts("cpu", dtype)]
    shapes = [(HIDDEN, EXPERTS), (EXPERTS, HIDDEN, 2 * INNER), (EXPERTS, INNER, HIDDEN)]
    return [numbers(*shape, seed=at, factor=0.03, dtype=dtype) for at, shape in enumerate(shapes)]


def chosen_experts(x, gate, up, down):
    """A layer of experts on `npu`: each token by its two best alone."""
    factors, chosen, _ = torch_npu.npu_moe_gating_top_k_softmax(x @ gate, None, CHOSEN)
    rows, places, counts, _ = torch_npu.npu_moe_init_routing_v2(
        x, chosen, active_num=CHOSEN * len(x), expert_num=EXPERTS, expert_tokens_num_type=1, expert_tokens_num_flag=True,
        active_expert_range=[0, EXPERTS],
    )  # fmt: skip
    options = dict(group_list=counts, split_item=3, group_type=0, group_list_type=1)
    [middle] = torch_npu.npu_grouped_matmul([rows], [up], **options)
    [results] = torch_npu.npu_grouped_matmul([torch_npu.npu_swiglu(middle)], [down], **options)
    return torch_npu.npu_moe_finalize_routing(results, None, None, None, factors, places, None, drop_pad_mode=2)


def every_expert(x, gate, up, down):
    """The same layer, each token by all of the experts, most of them with the factor 0."""
    factors, chosen = (x @ gate).softmax(-1).topk(CHOSEN)
    factors = x.new_zeros(len(x), EXPERTS).scatter(1, chosen, factors)
    first, second = (x @ up).chunk(2, -1)
    return (factors.t()[:, :, None] * ((F.silu(first) * second) @ down)).sum(0)


def mixture(tokens, beside, dtype=torch.float32):
    """Work and inputs of a layer of experts on `npu`; in place of the CPU stands `beside`, where all experts are computed."""

    def make(device):
        layer, device = (chosen_experts, "npu") if device == "npu" else (every_expert, beside)
        return [layer, numbers(tokens, HIDDEN, seed=7, dtype=dtype).to(device), *experts(device, dtype)]

    return lambda layer, *arguments: layer(*arguments), make


# Name, goal, work and inputs, and how far results may be apart, by the greatest of them.
ROWS = [
    (f"Llama decode step, {sequences} x {tokens:,}", 0.8, llama(sequences, tokens), 1e-5)
    for sequences in (1, 8) for tokens in (128, 1024, 4096)
]  # fmt: skip
ROWS += [("Llama prefill, 1 x 1,024", 1.0, llama(1, 1024, 1024), 1e-5)]
ROWS += [(f"bf16 Llama decode step, {sequences} x 1,024", None, llama(sequences, 1024, dtype=torch.bfloat16), 5e-2) for sequences in (1, 8)]
ROWS += [("bf16 Llama prefill, 1 x 1,024", None, llama(1, 1024, 1024, torch.bfloat16), 5e-2)]
ROWS += [
    (f"2 of 8 experts, {tokens} token{'s' * (tokens > 1)}, beside all on {beside}", goal, mixture(tokens, beside), 1e-5)
    for tokens in (1, 128) for beside, goal in (("npu", 0.5), ("cpu", None))
]  # fmt: skip
