"""Functions that the expressions of references.txt use: PyTorch on the CPU, with arguments as aclnn has them."""

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

def dtype_of(number):
    return TYPES[number]


def gelu_mode(approximate):
    return "tanh" if approximate else "none"


def positive_or_none(scale):
    return scale if scale > 0 else None


def reduction_name(number):
    return ["none", "mean", "sum"][number]


def per_channel(one, like):
    """A value for each channel, in a shape that broadcasts with `like`."""
    return one.reshape([1, -1] + [1] * (like.dim() - 2))


def by_channel(x):
    """A row for each channel."""
    return x.transpose(0, 1).flatten(1)


def masked_gradients(gradients, mask):
    return tuple(one if keep else None for one, keep in zip(gradients, mask))


def rounded_division(a, b, mode):
    return torch.div(a, b, rounding_mode=[None, "trunc", "floor"][mode])


def mean_factor(reduction, x):
    """What the gradient of a loss is multiplied by."""
    return 1 / x.numel() if reduction == 1 else 1


def ge_glu_gradient(grad, x, gelu, dim, approximate, left):
    """The gradient from the activation that the forward function saved."""
    one, other = halves(x, dim, left)  # noqa: F405
    parts = backward(lambda y: F.gelu(y, approximate=gelu_mode(approximate)), grad * other, one), grad * gelu
    return torch.cat(parts if left else parts[::-1], dim)


def remainder(a, b):
    """The remainder; of an integer by zero it is the integer."""
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    is_integer = not (a.is_floating_point() or b.is_floating_point())
    return torch.where(b == 0, a, torch.remainder(a, torch.where(b == 0, 1, b))) if is_integer else torch.remainder(a, b)


def elu(x, alpha, scale, slope):
    return torch.where(x > 0, scale * x, alpha * scale * torch.expm1(x * slope))


def cumulative_sum(x, dim, exclusive, reverse):
    x = x.flip(dim) if reverse else x
    total = x.cumsum(dim) - (x if exclusive else 0)
    return total.flip(dim) if reverse else total


def pad_gradient(grad, x, padding, mode):
    leading = (1,) * (2 + len(padding) // 2 - x.dim())
    padded = lambda y: F.pad(y.reshape(leading + y.shape), padding, mode).reshape(grad.shape)  # noqa: E731
    return backward(padded, grad, x)


def gather(x, dim, index):
    dim %= x.dim() or 1
    index = torch.where(index < 0, index + x.shape[dim], index)
    return x.index_select(dim, index.long().flatten()).reshape(x.shape[:dim] + index.shape + x.shape[dim + 1:])


def index_tuple(indices):
    return tuple(slice(None) if one is None or one.numel() == 0 else one if one.dtype == torch.bool else one.long() for one in indices)


def index_by_tensors(x, indices):
    return x[index_tuple(indices)]


def index_put(x, indices, values, accumulate):
    x = x.clone()
    if not accumulate:
        x[index_tuple(indices)] = values
        return x
    return x.index_put([one if one.dtype == torch.bool else one.long() for one in indices], values, True)


def one_hot(x, count, on, off, axis):
    hit = x[..., None] == torch.arange(count)
    return torch.where(hit.movedim(-1, axis), on, off)


def repeat_gradient(grad, repeats, axis):
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


def max_pool_gradient(grad, x, indices, rank):
    flat = torch.zeros_like(x).flatten(-rank)
    return flat.scatter_add(-1, indices.long().flatten(-rank), grad.flatten(-rank)).reshape(x.shape)


def max_pool(x, kernel, strides, pads, dilations, ceil):
    rank = len(kernel)
    pads = pads or [0] * 2 * rank
    by_side = [one for before, after in zip(pads[:rank], pads[rank:] or pads[:rank]) for one in (before, after)]
    if by_side[::2] != by_side[1::2]:
        return None
    return [F.max_pool1d, F.max_pool2d, F.max_pool3d][rank - 1](x, kernel, strides or None, by_side[::2], dilations or 1, bool(ceil))


def convolution(x, weight, bias, stride, padding, dilation, transposed, extra, groups):
    rank = weight.dim() - 2
    if len(padding) == 2 * rank and not transposed:
        x = F.pad(x, [one for before, after in reversed(list(zip(padding[::2], padding[1::2]))) for one in (before, after)])
        padding = [0] * rank
    bias = bias.flatten() if bias is not None else None
    return torch.ops.aten.convolution(x, weight, bias, stride[-rank:] if len(stride) > rank else stride, padding, dilation, transposed, extra or [0] * rank, groups)


def convolution_gradients(grad, x, weight, bias_sizes, stride, padding, dilation, transposed, extra, groups, mask):
    return masked_gradients(torch.ops.aten.convolution_backward(grad, x, weight, bias_sizes or [0], stride, padding, dilation, transposed, extra, groups, [True] * 3), mask)


def l1_loss_gradient(grad, x, target, reduction):
    x, target, grad = torch.broadcast_tensors(x, target, grad)
    return torch.sign(x - target) * grad / (x.numel() if reduction == 1 else 1)


def rms_norm_f64(x, gamma, epsilon):
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    scale = (x.square().mean(dims, True) + epsilon).rsqrt()
    return x * scale * gamma, scale


def rms_gradients(dy, x, rstd, gamma):
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    rstd = rstd.reshape(x.shape[: x.dim() - gamma.dim()] + (1,) * gamma.dim())
    scaled = dy * gamma
    dx = rstd * scaled - x * rstd**3 * (scaled * x).mean(dims, True)
    return dx, (dy * x * rstd).reshape((-1,) + gamma.shape).sum(0)


def deep_norm(x, gx, beta, gamma, alpha, epsilon):
    total = alpha * x + gx
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    mean, scale = total.mean(dims, True), (total.var(dims, unbiased=False, keepdim=True) + epsilon).rsqrt()
    return mean, scale, (total - mean) * scale * gamma + beta


def split_heads(x, count, layout):
    """A tensor of this layout as [batch, heads, rows, features]."""
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
    q = split_heads(query, count, layout)
    features = q.shape[-1]
    key_heads = key.shape[-1] // features if layout in ("BSH", "SBH") else count
    k, v = split_heads(key, key_heads, layout), split_heads(value, key_heads, layout)
    k, v = (one.repeat_interleave(q.shape[1] // one.shape[1], 1) for one in (k, v))
    scores = q @ k.mT * scale
    if shift is not None:
        scores = scores + shift
    rows, columns = scores.shape[-2:]
    row, column = torch.arange(rows)[:, None], torch.arange(columns)
    if sparse in (2, 3):
        hidden = column > row + (columns - rows if sparse == 3 else 0)
    else:
        hidden = torch.zeros(rows, columns, dtype=torch.bool) if mask is None else mask.bool()
    scores = scores.masked_fill(hidden, -torch.inf)
    return join_heads(scores.softmax(-1) @ v, count, layout)


def join_heads(x, count, layout):
    """The inverse of `split_heads`: from [batch, heads, rows, features] to the layout."""
    if layout == "BNSD":
        return x
    x = x.transpose(1, 2)
    if layout == "BSND":
        return x
    if layout == "TND":
        return x[0]
    x = x.flatten(2)
    return x.transpose(0, 1) if layout == "SBH" else x


def attention_gradients(query, key, value, grad, maxima, sums, result, mask, scale, count, layout, sparse):
    """The gradients of query, key and value from the greatest scores, the sums and the result that the forward function saved. For one sequence, or a batch,
    with as many heads of keys as of queries."""
    if sparse > 1 or layout not in ("BNSD", "BSND", "BSH", "SBH", "TND"):
        return None
    to_heads = lambda x: x.transpose(0, 1)[None] if layout == "TND" else split_heads(x, count, layout)  # noqa: E731
    q, k, v, dy, out = (to_heads(one) for one in (query, key, value, grad, result))
    if layout == "TND":
        maxima, sums = (one.reshape(1, q.shape[1], -1, 8) if q.shape[1] == 1 else None for one in (maxima, sums))
    if k.shape[1] != q.shape[1] or maxima is None or maxima.shape[2] != q.shape[2]:
        return None
    weights = (scale * q @ k.mT - maxima[..., :1]).exp() / sums[..., :1]
    if mask is not None:
        weights = weights.masked_fill(mask.bool(), 0.0)
    score_grads = weights * (dy @ v.mT - (dy * out).sum(-1, True))
    found = scale * score_grads @ k, scale * score_grads.mT @ q, weights.mT @ dy
    return tuple(join_heads(one, count, layout) for one in found)


def rotary_gradients(grad, cos, sin, x, mode):
    if x is None:
        return backward(lambda y: rotary(y, cos, sin, mode), grad, torch.zeros_like(grad)), None, None  # noqa: F405
    return backward(lambda y, c, s: rotary(y, c, s, mode), grad, x, cos, sin)  # noqa: F405


def per_batch(one, x):
    """The scale or shift of each batch, in a shape that broadcasts with its rows."""
    return one if one.dim() == x.dim() else one.unsqueeze(-2)


def adam_w(x, mean, square, max_square, grad, beta1_power, beta2_power, rate, decay, beta1, beta2, epsilon, amsgrad, maximize):
    grad = -grad if maximize else grad
    x = x * (1 - rate * decay)
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad * grad
    max_square = torch.maximum(max_square, square) if amsgrad else square
    root = (max_square / (1 - beta2_power * beta2)).sqrt() + epsilon
    return x - rate * mean / (1 - beta1_power * beta1) / root, mean, square


def amp_scale(scale, tracker, found, growth, backoff, interval):
    """The scale of a loss and its count of steps: the scale is smaller after an overflow, greater after `interval` steps without."""
    count = tracker + 1
    grows = count == interval
    without_overflow = torch.where(grows, scale * growth, scale), torch.where(grows, 0, count)
    return torch.where(found != 0, scale * backoff, without_overflow[0]), torch.where(found != 0, 0, without_overflow[1])


def ada_layer_norm_gradients(grad, x, rstd, mean, scale, weight, bias):
    """The gradients of x, scale, shift, weight and bias, from the mean and rstd that the forward function saved."""
    size = x.shape[-1]
    weight = torch.ones(size, dtype=x.dtype) if weight is None else weight
    bias = torch.zeros(size, dtype=x.dtype) if bias is None else bias
    normed = (x - mean) * rstd * weight + bias
    norm_grad = grad * (1 + per_batch(scale, x))
    dx, dweight, dbias = layer_norm_gradients(norm_grad, x, mean, rstd, weight)  # noqa: F405
    return dx, (grad * normed).sum(-2).reshape(scale.shape), grad.sum(-2).reshape(scale.shape), dweight, dbias


def fused_adam_w(params, grads, means, squares, max_squares, steps, rate, beta1, beta2, decay, epsilon, amsgrad, maximize):
    max_squares = max_squares if amsgrad else [None] * len(params)
    steps = [float(one) for one in steps]
    each = zip(params, grads, means, squares, max_squares, steps, strict=True)
    found = [adam(*one, rate, beta1, beta2, decay, epsilon, False, maximize) for one in each]  # noqa: F405
    return tuple([one[at] for one in found] for at in range(3))


def fused_sgd(params, grads, buffers, scale, decay, momentum, rate, dampening, nesterov, maximize, first):
    scale = 1.0 if scale is None else scale
    each = zip(params, grads, buffers, strict=True)
    found = [sgd(*one, scale, decay, momentum, rate, dampening, nesterov, maximize, first) for one in each]  # noqa: F405
    return tuple([one[at] for one in found] for at in range(3))


def recurrent(kind, x, params, bias, layers, bidirectional, batch_first, hidden, state):
    net = kind(x.shape[-1], hidden, layers, bias, batch_first, 0.0, bidirectional).double()
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), params, strict=True):
            parameter.copy_(value)
    return net(x, state)


def lstm(x, params, hx, bias, layers, bidirectional, batch_first):
    output, (h, c) = recurrent(torch.nn.LSTM, x, params, bias, layers, bidirectional, batch_first, params[1].shape[-1], tuple(hx) if hx else None)
    return output.detach(), h.detach(), c.detach()


def gru(x, params, hx, bias, layers, bidirectional, batch_first):
    output, h = recurrent(torch.nn.GRU, x, params, bias, layers, bidirectional, batch_first, params[1].shape[-1], hx)
    return output.detach(), h.detach()


def lstm_cell(input_gates, hidden_gates, cx, input_bias, hidden_bias):
    total = input_gates + hidden_gates + (0 if input_bias is None else input_bias) + (0 if hidden_bias is None else hidden_bias)
    i, f, g, o = total.chunk(4, 1)
    c = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def lstm_cell_gradients(grad_h, grad_c, cx, cy, storage):
    """The gradients of gates and cell state, from the activated gates in the order that the forward function stores them."""
    i, f, g, o = storage.chunk(4, 1)
    grad_h, grad_c = (torch.zeros_like(cx) if one is None else one for one in (grad_h, grad_c))
    dc = grad_h * o * (1 - cy.tanh() ** 2) + grad_c
    gates = (dc * g * i * (1 - i), dc * cx * f * (1 - f), dc * i * (1 - g * g), grad_h * cy.tanh() * o * (1 - o))
    return torch.cat(gates, 1), dc * f


def bits(mask, like):
    """The bits of a mask of bytes, lowest first, one for each element of `like`."""
    if mask.numel() == like.numel():
        return mask.reshape(like.shape) != 0
    found = (mask.flatten()[:, None].to(torch.int64) & 255) >> torch.arange(8) & 1
    return found.flatten()[: like.numel()].reshape(like.shape)


def strided_slice(x, begin, end, strides):
    for axis, (start, stop, step) in enumerate(zip(begin, end, strides, strict=True)):
        assert step > 0
        x = x[(slice(None),) * axis + (slice(start, stop, step),)]
    return x


def gathered_statistics(mean, invstd, counts, epsilon):
    """Mean and reciprocal standard deviation of all parts together."""
    counts = counts.reshape(-1, 1)
    total = counts.sum()
    total_mean = (mean * counts).sum(0) / total
    variance = ((1 / invstd**2 - epsilon + (mean - total_mean) ** 2) * counts).sum(0) / total
    return total_mean, (variance + epsilon).rsqrt()


def group_swish_gradients(dy, mean, rstd, x, gamma, beta, groups, scale):
    count, width = x.shape[:2]
    by_group = (count, groups, -1)
    normed = ((x.reshape(by_group) - mean.reshape(count, groups, 1)) * rstd.reshape(count, groups, 1)).reshape(x.shape)
    y = normed * per_channel(gamma, x) + per_channel(beta, x)
    gate = torch.sigmoid(scale * y)
    dy = dy * (gate + y * scale * gate * (1 - gate))
    inner = math.prod(x.shape[2:])
    return torch.ops.aten.native_group_norm_backward(dy, x, mean.reshape(count, groups), rstd.reshape(count, groups), gamma, count, width, inner, groups, [True] * 3)


def attention_of_sequences(query, key, value, queries, keys, scale, sparse, mask):
    """Attention of packed sequences, [tokens, heads, features], that end at `queries` and `keys`."""
    if sparse not in (0, 1, 2, 3) or (sparse < 2 and mask is not None and mask.any()):
        return None
    causal = sparse if sparse > 1 else 0
    parts, query_start, key_start = [], 0, 0
    key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (key, value))
    for query_end, key_end in zip(queries, keys):
        q, k, v = (one.transpose(0, 1) for one in (query[query_start:query_end], key[key_start:key_end], value[key_start:key_end]))
        scores = scale * q @ k.mT
        if causal:
            shift = scores.shape[2] - scores.shape[1] if causal == 3 else 0
            scores = scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(shift + 1), -torch.inf)
        parts.append((scores.softmax(-1) @ v).transpose(0, 1))
        query_start, key_start = query_end, key_end
    return torch.cat(parts)


TORCH_NAMES = {"ACos": "acos", "Copy": "clone", "Zero": "zeros_like"}


def foreach(name, a):
    """The expected outputs of an aclnnForeach function with the arguments `a`."""
    if name == "NonFiniteCheckAndUnscale":
        return None
    scalars = a.get("scalars", a.get("scalar", a.get("alpha")))
    if torch.is_tensor(scalars):
        scalars = scalars.flatten().tolist()
        scalars = scalars[0] if len(scalars) == 1 and "List" not in name.replace("List", "", 1) else scalars
    first = a.get("x", a.get("x1"))
    by_tensor = scalars if isinstance(scalars, list) else [scalars] * len(first)
    by_tensor = by_tensor * len(first) if len(by_tensor) == 1 else by_tensor
    kind = name
    for end in ("Inplace", "V2", "ScalarAndTensor", "ScalarList", "Scalar", "List"):
        kind = kind.removesuffix(end) or kind
    if kind == "LerpScalar" or kind == "Lerp":
        weights = a["weight"] if isinstance(a["weight"], list) else [a["weight"]] * len(first)
        return [torch.lerp(x, y, w if torch.is_tensor(w) else float(w)) for x, y, w in zip(first, a["x2"], weights)]
    if kind in ("Addcdiv", "Addcmul"):
        return [getattr(torch, kind.lower())(x, y, z, value=s) for x, y, z, s in zip(first, a["x2"], a["x3"], by_tensor)]
    if kind in ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum", "Pow"):
        others = a["x2"] if "x2" in a else [torch.tensor(s) if kind in ("Maximum", "Minimum") else s for s in by_tensor]
        if kind in ("Add", "Sub") and "x2" in a:
            return [getattr(torch, kind.lower())(x, y, alpha=s) for x, y, s in zip(first, others, by_tensor)]
        if name == "PowScalarAndTensor":
            return [torch.pow(a["scalar"], x) for x in first]
        return [getattr(torch, kind.lower())(x, y) for x, y in zip(first, others)]
    if kind == "Norm":
        return [x.norm(a["scalar"]) for x in first]
    if kind == "RoundOffNumber":
        return None
    return [getattr(torch, TORCH_NAMES.get(kind, kind.lower()))(x) for x in first]
