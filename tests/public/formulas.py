"""What the expressions of references.txt use: PyTorch on the CPU, in the words of aclnn's arguments."""

import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch"))
from references import *  # noqa: E402, F403
from references import backward  # noqa: E402

TYPES = {
    0: torch.float32, 1: torch.float16, 2: torch.int8, 3: torch.int32, 4: torch.uint8, 6: torch.int16, 7: torch.uint16, 8: torch.uint32, 9: torch.int64,
    10: torch.uint64, 11: torch.float64, 12: torch.bool, 16: torch.complex64, 17: torch.complex128, 27: torch.bfloat16, 33: torch.complex32,
}

def typed(number):
    return TYPES[number]


def near(approximate):
    return "tanh" if approximate else "none"


def some(scale):
    return scale if scale > 0 else None


def reduced(number):
    return ["none", "mean", "sum"][number]


def wide(one, like):
    return one.reshape([1, -1] + [1] * (like.dim() - 2))


def channels(x):
    return x.transpose(0, 1).flatten(1)


def kept(gradients, mask):
    return tuple(one if keep else None for one, keep in zip(gradients, mask))


def rounded(a, b, mode):
    return torch.div(a, b, rounding_mode=[None, "trunc", "floor"][mode])


def averaged(reduction, x):
    return 1 / x.numel() if reduction == 1 else 1


def ge_glu_gradient(grad, x, gelu, dim, approximate, left):
    """With the activation that the forward function left."""
    one, other = halves(x, dim, left)  # noqa: F405
    parts = backward(lambda y: F.gelu(y, approximate=near(approximate)), grad * other, one), grad * gelu
    return torch.cat(parts if left else parts[::-1], dim)


def remainder(a, b):
    """Of an integer by zero, the integer."""
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    whole = not (a.is_floating_point() or b.is_floating_point())
    return torch.where(b == 0, a, torch.remainder(a, torch.where(b == 0, 1, b))) if whole else torch.remainder(a, b)


def elu(x, alpha, scale, slope):
    return torch.where(x > 0, scale * x, alpha * scale * torch.expm1(x * slope))


def running_sum(x, dim, exclusive, reverse):
    x = x.flip(dim) if reverse else x
    total = x.cumsum(dim) - (x if exclusive else 0)
    return total.flip(dim) if reverse else total


def padded_gradient(grad, x, padding, mode):
    lead = (1,) * (2 + len(padding) // 2 - x.dim())
    big = lambda y: F.pad(y.reshape(lead + y.shape), padding, mode).reshape(grad.shape)  # noqa: E731
    return backward(big, grad, x)


def gather(x, dim, index):
    dim %= x.dim() or 1
    index = torch.where(index < 0, index + x.shape[dim], index)
    return x.index_select(dim, index.long().flatten()).reshape(x.shape[:dim] + index.shape + x.shape[dim + 1:])


def places(indices):
    return tuple(slice(None) if one is None or one.numel() == 0 else one if one.dtype == torch.bool else one.long() for one in indices)


def indexed(x, indices):
    return x[places(indices)]


def index_put(x, indices, values, accumulate):
    x = x.clone()
    if not accumulate:
        x[places(indices)] = values
        return x
    return x.index_put([one if one.dtype == torch.bool else one.long() for one in indices], values, True)


def one_hot(x, count, on, off, axis):
    hit = x[..., None] == torch.arange(count)
    return torch.where(hit.movedim(-1, axis), on, off)


def repeated_gradient(grad, repeats, axis):
    if repeats.numel() == 1:
        return grad.unflatten(axis, (-1, int(repeats))).sum(axis % grad.dim() + 1)
    return torch.stack([one.sum(axis) for one in grad.split(repeats.tolist(), axis)], axis)


def scatter(x, dim, index, source, reduce):
    index = index.long()
    return x.scatter(dim, index, source) if not reduce else x.scatter_reduce(dim, index, source, [None, "sum", "prod"][reduce])


def scatter_nd(x, indices, updates):
    x = x.clone()
    x[tuple(indices.long().unbind(-1))] = updates
    return x


def sliced(x, starts, ends, axes, steps):
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = x[(slice(None),) * (axis % x.dim()) + (slice(start, end, step),)]
    return x


def sorted_pair(x, dim, descending):
    return torch.sort(x, dim=dim, descending=descending, stable=True)


def unpooled(grad, x, indices, rank):
    flat = torch.zeros_like(x).flatten(-rank)
    return flat.scatter_add(-1, indices.long().flatten(-rank), grad.flatten(-rank)).reshape(x.shape)


def max_pool(x, kernel, strides, pads, dilations, ceil):
    rank = len(kernel)
    pads = pads or [0] * 2 * rank
    both = [one for before, after in zip(pads[:rank], pads[rank:] or pads[:rank]) for one in (before, after)]
    if both[::2] != both[1::2]:
        return None
    return [F.max_pool1d, F.max_pool2d, F.max_pool3d][rank - 1](x, kernel, strides or None, both[::2], dilations or 1, bool(ceil))


def convolution(x, weight, bias, stride, padding, dilation, transposed, extra, groups):
    rank = weight.dim() - 2
    if len(padding) == 2 * rank and not transposed:
        x = F.pad(x, [one for before, after in reversed(list(zip(padding[::2], padding[1::2]))) for one in (before, after)])
        padding = [0] * rank
    bias = bias.flatten() if bias is not None else None
    return torch.ops.aten.convolution(x, weight, bias, stride[-rank:] if len(stride) > rank else stride, padding, dilation, transposed, extra or [0] * rank, groups)


def convolution_gradients(grad, x, weight, bias_sizes, stride, padding, dilation, transposed, extra, groups, mask):
    return kept(torch.ops.aten.convolution_backward(grad, x, weight, bias_sizes or [0], stride, padding, dilation, transposed, extra, groups, [True] * 3), mask)


def signed_l1(grad, x, target, reduction):
    x, target, grad = torch.broadcast_tensors(x, target, grad)
    return torch.sign(x - target) * grad / (x.numel() if reduction == 1 else 1)


def rms_norm_f64(x, gamma, epsilon):
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    scale = (x.square().mean(dims, True) + epsilon).rsqrt()
    return x * scale * gamma, scale


def rms_gradients(dy, x, rstd, gamma):
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    rstd = rstd.reshape(x.shape[: x.dim() - gamma.dim()] + (1,) * gamma.dim())
    line = dy * gamma
    dx = rstd * line - x * rstd**3 * (line * x).mean(dims, True)
    return dx, (dy * x * rstd).reshape((-1,) + gamma.shape).sum(0)


def deep_norm(x, gx, beta, gamma, alpha, epsilon):
    total = alpha * x + gx
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    mean, scale = total.mean(dims, True), (total.var(dims, unbiased=False, keepdim=True) + epsilon).rsqrt()
    return mean, scale, (total - mean) * scale * gamma + beta


def heads(x, count, layout):
    """As [batch, heads, rows, features]."""
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "SBH":
        x = x.transpose(0, 1)
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attention(query, key, value, shift, mask, scale, count, layout, sparse, pre_tokens, next_tokens, dropped):
    """The result of attention; the window of `pre_tokens` and `next_tokens` is not modelled."""
    if sparse not in (0, 1, 2, 3) or dropped is not None:
        return None
    q = heads(query, count, layout)
    features = q.shape[-1]
    key_heads = key.shape[-1] // features if layout in ("BSH", "SBH") else count
    k, v = heads(key, key_heads, layout), heads(value, key_heads, layout)
    k, v = (one.repeat_interleave(q.shape[1] // one.shape[1], 1) for one in (k, v))
    scores = q @ k.mT * scale
    if shift is not None:
        scores = scores + shift
    rows, columns = scores.shape[-2:]
    at, to = torch.arange(rows)[:, None], torch.arange(columns)
    if sparse in (2, 3):
        hidden = to > at + (columns - rows if sparse == 3 else 0)
    else:
        hidden = torch.zeros(rows, columns, dtype=torch.bool) if mask is None else mask.bool()
    scores = scores.masked_fill(hidden, -torch.inf)
    return joined(scores.softmax(-1) @ v, count, layout)


def joined(x, count, layout):
    """The other way round: from [batch, heads, rows, features]."""
    if layout == "BNSD":
        return x
    x = x.transpose(1, 2)
    if layout == "BSND":
        return x
    if layout == "TND":
        return x[0]
    x = x.flatten(2)
    return x.transpose(0, 1) if layout == "SBH" else x


def attention_gradients(query, key, value, grad, most, sums, result, mask, scale, count, layout, sparse):
    """From the greatest scores, the sums and the result that the forward function left, whatever they are. Of one sequence, or a batch,
    with as many heads of keys as of queries."""
    if sparse > 1 or layout not in ("BNSD", "BSND", "BSH", "SBH", "TND"):
        return None
    apart = lambda x: x.transpose(0, 1)[None] if layout == "TND" else heads(x, count, layout)  # noqa: E731
    q, k, v, dy, out = (apart(one) for one in (query, key, value, grad, result))
    if layout == "TND":
        most, sums = (one.reshape(1, q.shape[1], -1, 8) if q.shape[1] == 1 else None for one in (most, sums))
    if k.shape[1] != q.shape[1] or most is None or most.shape[2] != q.shape[2]:
        return None
    weights = (scale * q @ k.mT - most[..., :1]).exp() / sums[..., :1]
    if mask is not None:
        weights = weights.masked_fill(mask.bool(), 0.0)
    to_scores = weights * (dy @ v.mT - (dy * out).sum(-1, True))
    found = scale * to_scores @ k, scale * to_scores.mT @ q, weights.mT @ dy
    return tuple(joined(one, count, layout) for one in found)


def rotary_gradients(grad, cos, sin, x, mode):
    if x is None:
        return backward(lambda y: rotary(y, cos, sin, mode), grad, torch.zeros_like(grad)), None, None  # noqa: F405
    return backward(lambda y, c, s: rotary(y, c, s, mode), grad, x, cos, sin)  # noqa: F405


def between(one, x):
    """Scale or shift of each batch, for all its rows."""
    return one if one.dim() == x.dim() else one.unsqueeze(-2)


def adam_w(x, mean, square, most, grad, beta1_power, beta2_power, rate, decay, beta1, beta2, epsilon, amsgrad, maximize):
    grad = -grad if maximize else grad
    x = x * (1 - rate * decay)
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad * grad
    most = torch.maximum(most, square) if amsgrad else square
    root = (most / (1 - beta2_power * beta2)).sqrt() + epsilon
    return x - rate * mean / (1 - beta1_power * beta1) / root, mean, square


def amp_scale(scale, tracker, found, growth, backoff, interval):
    """The scale of a loss, smaller after an overflow, greater after so many steps without."""
    grown = tracker + 1
    done = grown == interval
    calm = torch.where(done, scale * growth, scale), torch.where(done, 0, grown)
    return torch.where(found != 0, scale * backoff, calm[0]), torch.where(found != 0, 0, calm[1])


def ada_layer_norm_gradients(grad, x, rstd, mean, scale, weight, bias):
    """Of x, scale, shift, weight and bias, from the figures that the forward function left."""
    size = x.shape[-1]
    weight = torch.ones(size, dtype=x.dtype) if weight is None else weight
    bias = torch.zeros(size, dtype=x.dtype) if bias is None else bias
    normal = (x - mean) * rstd * weight + bias
    through = grad * (1 + between(scale, x))
    dx, dweight, dbias = layer_gradients(through, x, mean, rstd, weight)  # noqa: F405
    return dx, (grad * normal).sum(-2).reshape(scale.shape), grad.sum(-2).reshape(scale.shape), dweight, dbias


def fused_adam_w(params, grads, means, squares, most, steps, rate, beta1, beta2, decay, epsilon, amsgrad, maximize):
    most = most if amsgrad else [None] * len(params)
    steps = [float(one) for one in steps]
    each = zip(params, grads, means, squares, most, steps, strict=True)
    found = [adam(*one, rate, beta1, beta2, decay, epsilon, False, maximize) for one in each]  # noqa: F405
    return tuple([one[at] for one in found] for at in range(3))


def fused_sgd(params, grads, buffers, scale, decay, momentum, rate, dampening, nesterov, maximize, first):
    scale = 1.0 if scale is None else scale
    each = zip(params, grads, buffers, strict=True)
    found = [sgd(*one, scale, decay, momentum, rate, dampening, nesterov, maximize, first) for one in each]  # noqa: F405
    return tuple([one[at] for one in found] for at in range(3))


def recurrent(kind, x, params, bias, layers, both, first, hidden, state):
    net = kind(x.shape[-1], hidden, layers, bias, first, 0.0, both).double()
    with torch.no_grad():
        for to, value in zip(net.parameters(), params, strict=True):
            to.copy_(value)
    return net(x, state)


def lstm(x, params, hx, bias, layers, both, first):
    output, (h, c) = recurrent(torch.nn.LSTM, x, params, bias, layers, both, first, params[1].shape[-1], tuple(hx) if hx else None)
    return output.detach(), h.detach(), c.detach()


def gru(x, params, hx, bias, layers, both, first):
    output, h = recurrent(torch.nn.GRU, x, params, bias, layers, both, first, params[1].shape[-1], hx)
    return output.detach(), h.detach()


def lstm_cell(gates, more, cx, bias, other):
    total = gates + more + (0 if bias is None else bias) + (0 if other is None else other)
    i, f, g, o = total.chunk(4, 1)
    c = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def lstm_cell_gradients(grad_h, grad_c, cx, cy, storage):
    """From the gates after their functions, in the order that the forward function stores them."""
    i, f, g, o = storage.chunk(4, 1)
    grad_h, grad_c = (torch.zeros_like(cx) if one is None else one for one in (grad_h, grad_c))
    to_c = grad_h * o * (1 - cy.tanh() ** 2) + grad_c
    gates = (to_c * g * i * (1 - i), to_c * cx * f * (1 - f), to_c * i * (1 - g * g), grad_h * cy.tanh() * o * (1 - o))
    return torch.cat(gates, 1), to_c * f


def bits(mask, like):
    """The bits of a mask of bytes, lowest first, as many as there are elements."""
    if mask.numel() == like.numel():
        return mask.reshape(like.shape) != 0
    found = (mask.flatten()[:, None].to(torch.int64) & 255) >> torch.arange(8) & 1
    return found.flatten()[: like.numel()].reshape(like.shape)


def strided(x, begin, end, strides):
    for axis, (start, stop, step) in enumerate(zip(begin, end, strides, strict=True)):
        assert step > 0
        x = x[(slice(None),) * axis + (slice(start, stop, step),)]
    return x


def gathered(mean, invstd, counts, epsilon):
    """Mean and scale of all parts together."""
    counts = counts.reshape(-1, 1)
    total = counts.sum()
    whole = (mean * counts).sum(0) / total
    spread = ((1 / invstd**2 - epsilon + (mean - whole) ** 2) * counts).sum(0) / total
    return whole, (spread + epsilon).rsqrt()


def group_swish_gradients(dy, mean, rstd, x, gamma, beta, groups, scale):
    count, width = x.shape[:2]
    per = (count, groups, -1)
    normal = ((x.reshape(per) - mean.reshape(count, groups, 1)) * rstd.reshape(count, groups, 1)).reshape(x.shape)
    y = normal * wide(gamma, x) + wide(beta, x)
    gate = torch.sigmoid(scale * y)
    dy = dy * (gate + y * scale * gate * (1 - gate))
    rest = math.prod(x.shape[2:])
    return torch.ops.aten.native_group_norm_backward(dy, x, mean.reshape(count, groups), rstd.reshape(count, groups), gamma, count, width, rest, groups, [True] * 3)


def sequences(query, key, value, queries, keys, scale, sparse, mask):
    """Attention of sequences that lie one after the other, [tokens, heads, features]."""
    if sparse not in (0, 1, 2, 3) or (sparse < 2 and mask is not None and mask.any()):
        return None
    causal = sparse if sparse > 1 else 0
    parts, start, begin = [], 0, 0
    key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (key, value))
    for end, last in zip(queries, keys):
        q, k, v = (one.transpose(0, 1) for one in (query[start:end], key[begin:last], value[begin:last]))
        scores = scale * q @ k.mT
        if causal:
            shift = scores.shape[2] - scores.shape[1] if causal == 3 else 0
            scores = scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(shift + 1), -torch.inf)
        parts.append((scores.softmax(-1) @ v).transpose(0, 1))
        start, begin = end, last
    return torch.cat(parts)


ELEMENTS = {"ACos": "acos", "Copy": "clone", "Zero": "zeros_like"}


def foreach(name, a):
    """The list that a function of lists makes of its elements."""
    if name == "NonFiniteCheckAndUnscale":
        return None
    scalars = a.get("scalars", a.get("scalar", a.get("alpha")))
    if torch.is_tensor(scalars):
        scalars = scalars.flatten().tolist()
        scalars = scalars[0] if len(scalars) == 1 and "List" not in name.replace("List", "", 1) else scalars
    first = a.get("x", a.get("x1"))
    many = scalars if isinstance(scalars, list) else [scalars] * len(first)
    many = many * len(first) if len(many) == 1 else many
    kind = name
    for end in ("Inplace", "V2", "ScalarAndTensor", "ScalarList", "Scalar", "List"):
        kind = kind.removesuffix(end) or kind
    if kind == "LerpScalar" or kind == "Lerp":
        weights = a["weight"] if isinstance(a["weight"], list) else [a["weight"]] * len(first)
        return [torch.lerp(x, y, w if torch.is_tensor(w) else float(w)) for x, y, w in zip(first, a["x2"], weights)]
    if kind in ("Addcdiv", "Addcmul"):
        return [getattr(torch, kind.lower())(x, y, z, value=s) for x, y, z, s in zip(first, a["x2"], a["x3"], many)]
    if kind in ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum", "Pow"):
        others = a["x2"] if "x2" in a else [torch.tensor(s) if kind in ("Maximum", "Minimum") else s for s in many]
        if kind in ("Add", "Sub") and "x2" in a:
            return [getattr(torch, kind.lower())(x, y, alpha=s) for x, y, s in zip(first, others, many)]
        if name == "PowScalarAndTensor":
            return [torch.pow(a["scalar"], x) for x in first]
        return [getattr(torch, kind.lower())(x, y) for x, y in zip(first, others)]
    if kind == "Norm":
        return [x.norm(a["scalar"]) for x in first]
    if kind == "RoundOffNumber":
        return None
    return [getattr(torch, ELEMENTS.get(kind, kind.lower()))(x) for x in first]
