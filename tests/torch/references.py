"""Plain references for operators that PyTorch has no namesake of, written from the documentation of each function."""

import torch
import torch.nn.functional as F


def halves(x, dim, left):
    """The half of a gated unit that is activated, and the other."""
    first, second = x.chunk(2, dim)
    return (first, second) if left else (second, first)


def gated(x, dim, left, activation):
    one, other = halves(x, dim, left)
    return activation(one) * other


def backward(function, grad, *inputs):
    """The gradients of inputs that a gradient of the result gives."""
    inputs = [one.clone().requires_grad_() for one in inputs]
    answer = torch.autograd.grad(function(*inputs), inputs, grad)
    return answer if len(answer) > 1 else answer[0]


def rotated(x, mode):
    """Each element's own value and its partner's, as a rotation of this kind orders them."""
    if mode == "half":
        first, second = x.chunk(2, -1)
        return x, torch.cat((-second, first), -1)
    if mode == "quarter":
        a, b, c, d = x.chunk(4, -1)
        return x, torch.cat((-b, a, -d, c), -1)
    even, odd = x[..., ::2], x[..., 1::2]
    if mode == "interleave":
        return x, torch.stack((-odd, even), -1).flatten(-2)
    return torch.cat((even, odd), -1), torch.cat((-odd, even), -1)


def rotary(x, cos, sin, mode="half"):
    own, partner = rotated(x, mode)
    return own * cos + partner * sin


def rms(x, weight, epsilon=1e-6):
    scale = (x.float().square().mean(-1, True) + epsilon).rsqrt()
    return (x * scale * weight).to(x.dtype), scale


def add_rms(x1, x2, weight):
    return *rms(x1 + x2, weight), x1 + x2


def layer(x, weight, bias, epsilon=1e-5):
    return torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)


def layer_with_saved(x, mean, scale, weight, bias):
    """Layer norm by figures that were computed before, which gradients pass through."""
    deviation = x - x.mean(-1, True)
    spread = (deviation.square().mean(-1, True)).rsqrt()
    return deviation * spread * weight + bias


def layer_gradients(dy, x, mean, scale, weight):
    return torch.ops.aten.native_layer_norm_backward(dy, x, list(weight.shape), mean, scale, weight, weight, [True] * 3)


def deep_gradients(dy, x, gx, weight, mean, scale, alpha):
    d, dweight, dbias = layer_gradients(dy, alpha * x + gx, mean, scale, weight)
    return alpha * d, d, dbias, dweight


def adaptive(x, scale, shift, weight, bias, epsilon=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, epsilon) * (1 + scale) + shift


def figures(x, epsilon=1e-5):
    """Mean and scale of each line."""
    return x.mean(-1, True), (x.var(-1, unbiased=False, keepdim=True) + epsilon).rsqrt()


def masked_softmax(x, mask, scale):
    return torch.where(mask, -10000.0, scale * x).softmax(-1)


def sgd(x, grad, momentum_buffer, scale, decay, momentum, rate, dampening, nesterov, maximize, first):
    """Variable, gradient and momentum after one step."""
    grad = grad / scale
    full = (-grad if maximize else grad) + decay * x
    buffer = full if first else momentum * momentum_buffer + (1 - dampening) * full
    return x - rate * (full + momentum * buffer if nesterov else buffer), grad, buffer


def adam(x, grad, mean, square, most, step, rate, beta1, beta2, decay, epsilon, coupled, maximize=False):
    """Variable, means and the greatest mean of squares after step number `step`."""
    grad = -grad if maximize else grad
    if coupled:
        grad = grad + decay * x
    else:
        x = x * (1 - rate * decay)
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad * grad
    most = square if most is None else torch.maximum(most, square)
    root = (most / (1 - beta2**step)).sqrt() + epsilon
    return x - rate * mean / (1 - beta1**step) / root, mean, square, most


def classic_adam(x, mean, square, power1, power2, rate, beta1, beta2, epsilon, grad, nesterov):
    pace = rate * (1 - power2).sqrt() / (1 - power1)
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad * grad
    ahead = beta1 * mean + (1 - beta1) * grad if nesterov else mean
    return x - pace * ahead / (square.sqrt() + epsilon), mean, square


def cross_entropy_gradient(grad, logarithms, target, weight, ignored, smoothing):
    """By the formulas of CrossEntropyLossGrad, for the mean."""
    kept = (target != ignored).float()
    own = weight[target] * kept
    grad = grad / own.sum()
    classes = logarithms.shape[1]
    hit = F.one_hot(target, classes) * (grad * (1 - smoothing) * own)[:, None]
    smooth = (grad * smoothing / classes * kept)[:, None] * weight
    through = logarithms.exp()
    return through * hit.sum(1, True) - hit + through * smooth.sum(1, True) - smooth


def ctc_alpha(logarithms, targets, steps, labels):
    """The logarithms of the likelihoods of all beginnings, by a plain loop; -inf beyond the ends."""
    count, most = logarithms.shape[1], logarithms.shape[0]
    alpha = torch.full((count, most, 2 * max(labels) + 1), -torch.inf)
    for batch in range(count):
        path = [0]
        for label in targets[batch, : labels[batch]].tolist():
            path += [label, 0]
        for step in range(steps[batch]):
            for at, label in enumerate(path):
                before = [alpha[batch, step - 1, at]] if step else []
                if step and at >= 1:
                    before.append(alpha[batch, step - 1, at - 1])
                if step and at >= 2 and label and label != path[at - 2]:
                    before.append(alpha[batch, step - 1, at - 2])
                start = torch.tensor(0.0 if at < 2 else -torch.inf)
                alpha[batch, step, at] = (torch.stack(before).logsumexp(0) if step else start) + logarithms[step, batch, label]
    return alpha


def packed_attention(query, key, value, queries, keys, scale, causal=False):
    """Greatest scores and sums of each token, eight times each; nothing; the result. Causal by the ends of the sequences."""
    key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (key, value))
    parts, (start, begin) = [], (0, 0)
    for end, last in zip(queries, keys):
        q, k, v = (one.transpose(0, 1) for one in (query[start:end], key[begin:last], value[begin:last]))
        scores = scale * q @ k.mT
        if causal:
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(last - begin - (end - start) + 1)
            scores = scores.masked_fill(hidden, -torch.inf)
        most = scores.amax(-1, True)
        weights = (scores - most).exp()
        sums = weights.sum(-1, True)
        parts.append([one.transpose(0, 1) for one in (most.expand(-1, -1, 8), sums.expand(-1, -1, 8), weights / sums @ v)])
        start, begin = end, last
    most, sums, result = (torch.cat(one).contiguous() for one in zip(*parts))
    return most, sums, query.new_empty(0), result


def packed_gradients(query, key, value, grad, queries, keys, scale):
    return *backward(lambda *all: packed_attention(*all, queries, keys, scale, True)[3], grad, query, key, value), query.new_empty(0)
