"""Decoders as people serve them on an NPU, by the operators of torch_npu, beside twins in plain PyTorch.

    weights = decoders.Weights(decoders.LLAMA, torch.float32, seed)      the same numbers for both
    twin = decoders.Twin(weights)                                        one sequence at a time, no cache
    decoder = decoders.Decoder(weights)                                  many tokens at a time; serving.py has the caches
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

EPSILON = 1e-5
MOST_POSITIONS = 128


class Sizes(NamedTuple):
    """Sizes of a decoder; with `experts` each token takes `chosen` of them, and one that all tokens share."""

    vocabulary: int = 83
    width: int = 64
    heads: int = 4
    shared_heads: int = 2
    features: int = 32
    inner: int = 96
    depth: int = 2
    experts: int = 0
    chosen: int = 2
    is_interleaved: bool = False  # pairs of features that turn together: neighbours, or one of each half


LLAMA = Sizes()
MIXTURE = Sizes(inner=40, experts=8)


class Weights:
    """Random weights of a decoder on the CPU, in a type, and the table of its rotary embedding."""

    def __init__(self, sizes, dtype=torch.float32, seed=0):
        self.sizes, self.dtype = sizes, dtype
        self.generator = torch.Generator().manual_seed(seed)
        width, features = sizes.width, sizes.features
        all_heads = (sizes.heads + 2 * sizes.shared_heads) * features
        self.letters, self.head = self.random(sizes.vocabulary, width, gain=1), self.random(sizes.vocabulary, width, gain=3)
        if sizes.experts:
            # Each letter leans to some experts more than to others, so that rounding does not choose.
            gate = 2 * torch.linalg.qr(torch.randn(width, sizes.experts, generator=self.generator)).Q.T.to(dtype)
            leaning = torch.rand(sizes.vocabulary, sizes.experts, generator=self.generator).argsort(-1) < sizes.chosen
            self.letters = (self.letters.float() + 8 * leaning.float() @ gate.float()).to(dtype)
        self.norm = self.gains(width)
        self.layers = []
        for _ in range(sizes.depth):
            layer = {"norm1": self.gains(width), "qkv": self.random(all_heads, width), "out": self.random(width, sizes.heads * features)}
            layer |= {"norm2": self.gains(width), "up": self.random(2 * sizes.inner, width), "down": self.random(width, sizes.inner)}
            if sizes.experts:
                layer["gate"] = gate
                layer["experts_up"] = self.random(sizes.experts, width, 2 * sizes.inner, count=width)
                layer["experts_down"] = self.random(sizes.experts, sizes.inner, width, count=sizes.inner)
            self.layers.append(layer)
        rates = 10_000 ** (-torch.arange(0, features, 2) / features)
        angles = torch.outer(torch.arange(MOST_POSITIONS), rates).repeat(1, 2)
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def random(self, *shape, gain=1.5, count=None):
        """Weights whose products of `count` factors are about `gain` in size."""
        return (torch.randn(shape, generator=self.generator) * gain / (count or shape[-1]) ** 0.5).to(self.dtype)

    def gains(self, count):
        return (1 + 0.2 * torch.randn(count, generator=self.generator)).to(self.dtype)


def swiglu(x, up, down):
    first, second = (x @ up.mT).chunk(2, -1)
    return (F.silu(first) * second) @ down.mT


class Twin:
    """The decoder in plain PyTorch, in float32 on the CPU, over a whole text and without a cache.

    `margin` is by how much the closest choice of experts was decided.
    """

    def __init__(self, weights):
        self.sizes, self.margin = weights.sizes, float("inf")
        real = lambda tensors: {name: tensor.float() for name, tensor in tensors.items()}  # noqa: E731
        self.layers = [real(layer) for layer in weights.layers]
        self.__dict__ |= real({name: getattr(weights, name) for name in ("letters", "head", "norm", "cos", "sin")})

    def turned(self, x):
        """Rotary embedding of (heads, positions, features)."""
        if self.sizes.is_interleaved:
            x = torch.cat((x[..., ::2], x[..., 1::2]), -1)
        first, second = x.chunk(2, -1)
        return x * self.cos[: x.shape[-2]] + torch.cat((-second, first), -1) * self.sin[: x.shape[-2]]

    def attended(self, x, layer):
        sizes = self.sizes
        heads = (x @ layer["qkv"].mT).unflatten(-1, (-1, sizes.features)).transpose(0, 1)
        query, key, value = heads.split([sizes.heads, sizes.shared_heads, sizes.shared_heads])
        query, key = self.turned(query), self.turned(key)
        key, value = (one.repeat_interleave(sizes.heads // sizes.shared_heads, 0) for one in (key, value))
        scores = query @ key.mT / sizes.features**0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return (scores.masked_fill(future, -torch.inf).softmax(-1) @ value).transpose(0, 1).flatten(1) @ layer["out"].mT

    def fed(self, x, layer):
        result = swiglu(x, layer["up"], layer["down"])
        if not self.sizes.experts:
            return result
        scores = x @ layer["gate"].mT
        ordered = scores.sort(-1, descending=True).values
        closest = ordered[:, self.sizes.chosen - 1] - ordered[:, self.sizes.chosen]
        self.margin = min(self.margin, closest.min().item())
        # The weights of the chosen experts: a softmax of their scores alone.
        weights = scores.masked_fill(scores < ordered[:, self.sizes.chosen - 1, None], -torch.inf).softmax(-1)
        for expert, (up, down) in enumerate(zip(layer["experts_up"], layer["experts_down"])):
            result = result + weights[:, expert, None] * swiglu(x, up.mT, down.mT)
        return result

    def logits(self, text):
        """What comes after a text, a list of numbers: a score for each."""
        norm = lambda x, gain: F.rms_norm(x, gain.shape, gain, EPSILON)  # noqa: E731
        x = self.letters[torch.tensor(text)]
        for layer in self.layers:
            x = x + self.attended(norm(x, layer["norm1"]), layer)
            x = x + self.fed(norm(x, layer["norm2"]), layer)
        return norm(x[-1], self.norm) @ self.head.mT


class Decoder(nn.Module):
    """The decoder on `npu`, by the fused operators of torch_npu, over tokens in one row. `attend(number of the layer, query, key, value)` is
    given (tokens, heads, features) and returns (tokens, heads * features).

    `rope` is the operator of the rotary embedding: "apply", "mul", "positions" or "interleave". `routing` is that of the experts: 1 or 2.
    """

    def __init__(self, weights, rope="apply", routing=2):
        super().__init__()
        assert (rope == "interleave") == weights.sizes.is_interleaved
        self.sizes, self.rope, self.routing = weights.sizes, rope, routing
        for name in ("letters", "head", "norm", "cos", "sin"):
            self.register_buffer(name, getattr(weights, name).npu())
        half = weights.sizes.features // 2
        self.register_buffer("cos_sin", torch.cat((weights.cos[:, :half], weights.sin[:, :half]), -1).npu())
        self.layers = nn.ModuleList()
        for tensors in weights.layers:
            layer = nn.Module()
            for name, tensor in tensors.items():
                layer.register_buffer(name, tensor.npu())
            self.layers.append(layer)

    def turned(self, query, key, positions):
        """The rotary embedding of queries and keys at their positions."""
        import torch_npu

        if self.rope == "positions":
            rows = torch_npu.npu_mrope(positions, query.flatten(1), key.flatten(1), self.cos_sin, self.sizes.features)
            return [row.view(one.shape) for row, one in zip(rows, (query, key))]
        cos, sin = self.cos[positions][None, :, None], self.sin[positions][None, :, None]
        if self.rope == "apply":
            return [one[0] for one in torch_npu.npu_apply_rotary_pos_emb(query[None], key[None], cos, sin, layout="BSND")]
        if self.rope == "mul":
            return [torch_npu.npu_rotary_mul(one[None], cos, sin)[0] for one in (query, key)]
        forms = (one[None].transpose(1, 2).contiguous() for one in (query, key))
        return [torch_npu.npu_interleave_rope(one, cos.transpose(1, 2), sin.transpose(1, 2))[0].transpose(0, 1).contiguous() for one in forms]

    def fed(self, x, layer):
        import torch_npu

        shared = F.linear(torch_npu.npu_swiglu(F.linear(x, layer.up)), layer.down)
        if not self.sizes.experts:
            return shared
        count = self.sizes.experts
        scores, chosen, rows = torch_npu.npu_moe_gating_top_k_softmax(F.linear(x, layer.gate), None, self.sizes.chosen)
        scores = scores / scores.sum(-1, keepdim=True)
        if self.routing == 1:
            tokens, places, experts = torch_npu.npu_moe_init_routing(x, rows, chosen, x.shape[0])
            groups, kind = torch_npu.npu_moe_compute_expert_tokens(experts, count).long(), 0
        else:
            tokens, places, groups, _ = torch_npu.npu_moe_init_routing_v2(
                x, chosen, active_num=x.shape[0] * self.sizes.chosen, expert_num=count, expert_tokens_num_type=1,
                expert_tokens_num_flag=True, active_expert_range=[0, count],
            )  # fmt: skip
            kind = 1
        options = dict(group_list=groups, group_list_type=kind, group_type=0, split_item=3)
        inner = torch_npu.npu_swiglu(torch_npu.npu_grouped_matmul([tokens], [layer.experts_up], **options)[0])
        outer = torch_npu.npu_grouped_matmul([inner], [layer.experts_down], **options)[0]
        if self.routing == 1:
            bias = torch.zeros(count, x.shape[1], dtype=x.dtype, device=x.device)
            return torch_npu.npu_moe_finalize_routing(outer, shared, None, bias, scores, places, chosen)
        return shared + torch_npu.npu_moe_finalize_routing(outer, None, None, None, scores, places, None, drop_pad_mode=2)

    def forward(self, tokens, positions, attend, last):
        """Scores of what comes after the tokens at the places `last`."""
        import torch_npu

        sizes = self.sizes
        x, residual = self.letters[tokens], None
        for number, layer in enumerate(self.layers):
            if residual is None:
                inner, residual = torch_npu.npu_rms_norm(x, layer.norm1, EPSILON)[0], x
            else:
                inner, _, residual = torch_npu.npu_add_rms_norm(x, residual, layer.norm1, EPSILON)
            heads = F.linear(inner, layer.qkv).unflatten(-1, (-1, sizes.features))
            query, key, value = heads.split([sizes.heads, sizes.shared_heads, sizes.shared_heads], 1)
            query, key = self.turned(query.contiguous(), key.contiguous(), positions)
            x = F.linear(attend(number, query, key, value.contiguous()), layer.out)
            inner, _, residual = torch_npu.npu_add_rms_norm(x, residual, layer.norm2, EPSILON)
            x = self.fed(inner, layer)
        x, residual = x[last], residual[last]
        return F.linear(torch_npu.npu_add_rms_norm(x, residual, self.norm, EPSILON)[0], self.head)
