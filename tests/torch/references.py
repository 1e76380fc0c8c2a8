"""Plain references for operators that PyTorch has no namesake of, written from the documentation of each function."""

import math

import torch
import torch.nn.functional as F


def halves(x, dim, left):
    """The half of a gated unit that is activated, and the other half; `left`: the first half is activated."""
    first, second = x.chunk(2, dim)
    return (first, second) if left else (second, first)


def gated(x, dim, left, activation):
    """A gated linear unit with this activation."""
    one, other = halves(x, dim, left)
    return activation(one) * other


def backward(function, grad, *inputs):
    """The gradients of the inputs from `grad`, that of the result."""
    inputs = [one.clone().requires_grad_() for one in inputs]
    gradients = torch.autograd.grad(function(*inputs), inputs, grad)
    return gradients if len(gradients) > 1 else gradients[0]


def rotated(x, mode):
    """Each element, and its signed partner in a rotary embedding of this mode."""
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
    value, partner = rotated(x, mode)
    return value * cos + partner * sin


def rms_norm(x, weight, epsilon=1e-6):
    rstd = (x.float().square().mean(-1, True) + epsilon).rsqrt()
    return (x * rstd * weight).to(x.dtype), rstd


def add_rms_norm(x1, x2, weight):
    return *rms_norm(x1 + x2, weight), x1 + x2


def layer_norm(x, weight, bias, epsilon=1e-5):
    return torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)


def differentiable_layer_norm(x, mean, rstd, weight, bias):
    """Layer norm whose gradient includes that of the statistics; `mean` and `rstd` are ignored."""
    deviation = x - x.mean(-1, True)
    rstd = (deviation.square().mean(-1, True)).rsqrt()
    return deviation * rstd * weight + bias


def layer_norm_gradients(dy, x, mean, rstd, weight):
    return torch.ops.aten.native_layer_norm_backward(dy, x, list(weight.shape), mean, rstd, weight, weight, [True] * 3)


def deep_norm_gradients(dy, x, gx, weight, mean, rstd, alpha):
    d, dweight, dbias = layer_norm_gradients(dy, alpha * x + gx, mean, rstd, weight)
    return alpha * d, d, dbias, dweight


def adaptive_layer_norm(x, scale, shift, weight, bias, epsilon=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, epsilon) * (1 + scale) + shift


def mean_and_rstd(x, epsilon=1e-5):
    """Mean and reciprocal standard deviation of each row."""
    return x.mean(-1, True), (x.var(-1, unbiased=False, keepdim=True) + epsilon).rsqrt()


def pairwise_iou(boxes, others, extra):
    """Intersection over union of each box with each of the others, a row for each of the others; sides are `extra` longer."""
    low = torch.maximum(boxes[None, :, :2], others[:, None, :2])
    high = torch.minimum(boxes[None, :, 2:], others[:, None, 2:])
    intersection = (high - low + extra).clamp(min=0).prod(-1)
    area = lambda one: (one[:, 2:] - one[:, :2] + extra).prod(-1)
    return intersection / (area(boxes)[None] + area(others)[:, None] - intersection)


def iou_variant(which, boxes, others, centred, crossed=False, mode="iou"):
    """GIoU, DIoU or CIoU of boxes in columns, given by centre and size (`centred`) or by two corners; and the difference of
    angles in CIoU. `crossed`: of all pairs, a row for each of the others."""

    def corners(one):
        x, y, u, v = one
        return (x - u / 2, y - v / 2, x + u / 2, y + v / 2) if centred else (x, y, u, v)

    a, b = corners(boxes), corners(others)
    a, b = [one[None] for one in a], [one[:, None] if crossed else one[None] for one in b]
    epsilon, added_height = (1e-16, 0.0) if which == "GIoU" else (1e-9, 1e-9)
    overlap = lambda i: (torch.min(a[i + 2], b[i + 2]) - torch.max(a[i], b[i])).clamp(0)
    enclosing = lambda i: torch.max(a[i + 2], b[i + 2]) - torch.min(a[i], b[i])
    size = lambda one: (one[2] - one[0], one[3] - one[1] + added_height)
    area = lambda one: size(one)[0] * size(one)[1]
    intersection = overlap(0) * overlap(1)
    union = area(a) + area(b) - intersection + epsilon
    iou = intersection / (union if mode == "iou" else area(b) + epsilon)
    zero = torch.zeros_like(iou)
    if which == "GIoU":
        enclosing_area = (enclosing(0) * enclosing(1)).abs()
        return iou - (enclosing_area - union) / enclosing_area, zero
    distance = sum((b[i] + b[i + 2] - a[i] - a[i + 2]) ** 2 for i in (0, 1)) / 4
    diou = iou - distance / (enclosing(0) ** 2 + enclosing(1) ** 2 + epsilon)
    if which == "DIoU":
        return diou, zero
    angle = lambda one: torch.atan(size(one)[0] / size(one)[1])
    difference = angle(b) - angle(a)
    aspect = 4 / torch.pi**2 * difference**2
    return diou - aspect * aspect / (1 + epsilon - iou + aspect), difference


def iou_variant_gradients(which, grad, boxes, others, *options):
    """The gradients of `iou_variant`, computed in float64."""
    doubles = [one.double().requires_grad_() for one in (boxes, others)]
    measure, _ = iou_variant(which, *doubles, *options)
    gradients = torch.autograd.grad(measure, doubles, grad.double().reshape(measure.shape))
    return tuple(one.to(boxes.dtype) for one in gradients)


def non_max_suppression(boxes, scores, max_count, max_iou, min_score):
    """The indices of the boxes that are kept, from the greatest score down."""
    low, high = torch.minimum(boxes[:, :2], boxes[:, 2:]), torch.maximum(boxes[:, :2], boxes[:, 2:])
    ious = pairwise_iou(torch.cat([low, high], 1), torch.cat([low, high], 1), 0.0)
    selected = []
    for at in scores.argsort(descending=True, stable=True).tolist():
        if len(selected) < max_count and scores[at] > min_score and not any(ious[at, one] > max_iou for one in selected):
            selected.append(at)
    return selected


def rotated_corners(box):
    """Of centre, sizes and an angle in degrees, which turns x towards y."""
    x, y, width, height, angle = (float(one) for one in box)
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    signs = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
    return [(x + cos * a * width - sin * b * height, y + sin * a * width + cos * b * height) for a, b in signs]


def rotated_overlap(one, other):
    """The area that two turned boxes share by that of either. The corners of what they share are those of each that lie in
    the other and where their sides meet, in the order of their angles about their middle."""
    def cross(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    def sides(corners):
        return list(zip(corners, corners[1:] + corners[:1]))

    first, second = rotated_corners(one), rotated_corners(other)
    points = [p for p in first if all(cross(a, b, p) >= 0 for a, b in sides(second))]
    points += [p for p in second if all(cross(a, b, p) >= 0 for a, b in sides(first))]
    for a, b in sides(first):
        for c, d in sides(second):
            u, v = cross(c, d, a), cross(c, d, b)
            if u * v < 0 and cross(a, b, c) * cross(a, b, d) < 0:
                points.append((a[0] + (b[0] - a[0]) * u / (u - v), a[1] + (b[1] - a[1]) * u / (u - v)))
    if len(points) < 3:
        return 0.0
    middle = [sum(p[i] for p in points) / len(points) for i in (0, 1)]
    points.sort(key=lambda p: math.atan2(p[1] - middle[1], p[0] - middle[0]))
    shared = sum(a[0] * b[1] - a[1] * b[0] for a, b in sides(points)) / 2
    return shared / (float(one[2] * one[3]) + float(other[2] * other[3]) - shared)


def rotated_suppressed(boxes, scores, overlap, least, most):
    """The numbers of the turned boxes that are kept, from the greatest score down."""
    kept = []
    for at in scores.argsort(descending=True, stable=True).tolist():
        if len(kept) == most or scores[at] <= least:
            break
        if all(rotated_overlap(boxes[at], boxes[one]) <= overlap for one in kept):
            kept.append(at)
    return kept


def suppression_mask(rows, overlap):
    """Rows of corners and score, their numbers, and whether each is kept."""
    boxes, scores = rows[:, :4].double(), rows[:, 4].double()
    mask = torch.zeros(len(rows), dtype=torch.uint8)
    mask[non_max_suppression(boxes, scores, len(rows), overlap, -torch.inf)] = 1
    return rows[:, :5], torch.arange(len(rows), dtype=torch.int32), mask


def class_suppressed(boxes, scores, least, overlap, most, total, windows=None, counts=None, is_reframed=False):
    """The best boxes of all classes of those that each class keeps: with scores, classes and how many they are. Boxes are
    cut to a window first; those without an area are not kept."""
    batches, count, classes = scores.shape
    results = [torch.zeros(batches, total, *more, dtype=boxes.dtype) for more in ((4,), (), ())]
    numbers = torch.zeros(batches, dtype=torch.int32)
    for batch in range(batches):
        found = []
        for kind in range(classes):
            own = boxes[batch, :, kind if boxes.shape[2] > 1 else 0].double()
            if windows is not None:
                low, high = windows[batch, :2].double(), windows[batch, 2:].double()
                own = torch.cat([torch.maximum(own[:, :2], low), torch.minimum(own[:, 2:], high)], 1)
                if is_reframed:
                    own = (own - low.repeat(2)) / (high - low).repeat(2)
            values = scores[batch, :, kind].double().clone()
            values[~(own[:, 2:] > own[:, :2]).all(1)] = -torch.inf
            if counts is not None:
                values[max(int(counts[batch]), 0) :] = -torch.inf
            found += [(float(values[at]), kind, own[at]) for at in non_max_suppression(own, values, most, overlap, least)]
        found.sort(key=lambda one: -one[0])
        for at, (score, kind, box) in enumerate(found[:total]):
            results[0][batch, at], results[1][batch, at], results[2][batch, at] = box, score, kind
        numbers[batch] = min(len(found), total)
    return *results, numbers


def masked_softmax(x, mask, scale):
    return torch.where(mask, -10000.0, scale * x).softmax(-1)


def sgd(x, grad, momentum_buffer, scale, decay, momentum, rate, dampening, nesterov, maximize, first):
    """Variable, gradient and momentum after one step."""
    grad = grad / scale
    decayed = (-grad if maximize else grad) + decay * x
    buffer = decayed if first else momentum * momentum_buffer + (1 - dampening) * decayed
    return x - rate * (decayed + momentum * buffer if nesterov else buffer), grad, buffer


def adam(x, grad, mean, square, max_square, step, rate, beta1, beta2, decay, epsilon, coupled, maximize=False):
    """Variable, means and the greatest mean of squares (AMSGrad) after step number `step`. `coupled`: decay is added to the
    gradient, as in Adam, not AdamW."""
    grad = -grad if maximize else grad
    if coupled:
        grad = grad + decay * x
    else:
        x = x * (1 - rate * decay)
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad * grad
    max_square = square if max_square is None else torch.maximum(max_square, square)
    root = (max_square / (1 - beta2**step)).sqrt() + epsilon
    return x - rate * mean / (1 - beta1**step) / root, mean, square, max_square


def classic_adam(x, mean, square, power1, power2, rate, beta1, beta2, epsilon, grad, nesterov):
    step_size = rate * (1 - power2).sqrt() / (1 - power1)
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad * grad
    momentum = beta1 * mean + (1 - beta1) * grad if nesterov else mean
    return x - step_size * momentum / (square.sqrt() + epsilon), mean, square


def cross_entropy_gradient(grad, log_probs, target, weight, ignored, smoothing):
    """By the formulas of CrossEntropyLossGrad, for the mean."""
    counted = (target != ignored).float()
    target_weight = weight[target] * counted
    grad = grad / target_weight.sum()
    classes = log_probs.shape[1]
    hard = F.one_hot(target, classes) * (grad * (1 - smoothing) * target_weight)[:, None]
    smooth = (grad * smoothing / classes * counted)[:, None] * weight
    softmax = log_probs.exp()
    return softmax * hard.sum(1, True) - hard + softmax * smooth.sum(1, True) - smooth


def ctc_alpha(log_probs, targets, steps, labels):
    """The forward variables of CTC: log-likelihoods of all prefixes of the labels after each step; -inf beyond the ends."""
    batches, max_steps = log_probs.shape[1], log_probs.shape[0]
    alpha = torch.full((batches, max_steps, 2 * max(labels) + 1), -torch.inf)
    for batch in range(batches):
        path = [0]
        for label in targets[batch, : labels[batch]].tolist():
            path += [label, 0]
        for step in range(steps[batch]):
            for at, label in enumerate(path):
                previous = [alpha[batch, step - 1, at]] if step else []
                if step and at >= 1:
                    previous.append(alpha[batch, step - 1, at - 1])
                if step and at >= 2 and label and label != path[at - 2]:
                    previous.append(alpha[batch, step - 1, at - 2])
                start = torch.tensor(0.0 if at < 2 else -torch.inf)
                alpha[batch, step, at] = (torch.stack(previous).logsumexp(0) if step else start) + log_probs[step, batch, label]
    return alpha


def packed_attention(query, key, value, queries, keys, scale, causal=False, softmax_layout="", rope=None, sink=None):
    """Attention of packed sequences that end at `queries` and `keys`: greatest scores and sums of exponentials of each token,
    eight times each; an empty tensor; the result. Causal masks are aligned at the ends of the sequences.

    Scores and sums lie head by head within a sequence, unless `softmax_layout` is same_as_input. `rope` are the rotary
    features of queries and keys as separate tensors, `sink` is the attention sink: a score without a key for each head.
    """
    if rope:
        query, key = (torch.cat(both, -1) for both in zip((query, key), rope))
    key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (key, value))
    parts, (query_start, key_start) = [], (0, 0)
    for query_end, key_end in zip(queries, keys):
        q, k, v = (one.transpose(0, 1) for one in (query[query_start:query_end], key[key_start:key_end], value[key_start:key_end]))
        scores = scale * q @ k.mT
        if causal:
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(key_end - key_start - (query_end - query_start) + 1)
            scores = scores.masked_fill(hidden, -torch.inf)
        if sink is not None:
            scores = torch.cat((scores, sink[:, None, None].expand(-1, scores.shape[1], 1)), -1)
        maxima = scores.amax(-1, True)
        weights = (scores - maxima).exp()
        sums = weights.sum(-1, True)
        statistics = [one.expand(-1, -1, 8) for one in (maxima, sums)]
        statistics = [one.transpose(0, 1) if softmax_layout else one.reshape(query_end - query_start, -1, 8) for one in statistics]
        parts.append([*statistics, (weights[..., : k.shape[1]] / sums @ v).transpose(0, 1)])
        query_start, key_start = query_end, key_end
    maxima, sums, result = (torch.cat(one).contiguous() for one in zip(*parts))
    return maxima, sums, query.new_empty(0), result


def packed_gradients(query, key, value, grad, queries, keys, scale):
    return *backward(lambda *all: packed_attention(*all, queries, keys, scale, True)[3], grad, query, key, value), query.new_empty(0)


def bilinear(image, y, x, zero_padded):
    """Bilinear samples of `image` [C, H, W] at y and x, tensors of any sizes. Elements outside of the image are 0; without
    `zero_padded`, samples up to one element away from it are those of its border."""
    rows, columns = image.shape[-2:]
    if zero_padded:
        near = (y > -1) & (y < rows) & (x > -1) & (x < columns)
    else:
        near = (y >= -1) & (y <= rows) & (x >= -1) & (x <= columns)
        y, x = y.clamp(0, rows - 1), x.clamp(0, columns - 1)
    top, left = y.detach().floor(), x.detach().floor()
    total = 0
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = (top + dy).long(), (left + dx).long()
            inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            value = image[:, row.clamp(0, rows - 1), column.clamp(0, columns - 1)]
            weight = (1 - (y - (top + dy)).abs()) * (1 - (x - (left + dx)).abs())
            total = total + value * torch.where(inside & near, weight, torch.zeros_like(weight))
    return total


def roi_pooling(images, regions, row_scale, column_scale, height, width):
    """The greatest element of each cell of regions: the number of an image, and two corners, both of which belong to it."""
    def rounded(value):
        return int(torch.sign(value) * torch.floor(value.abs() + 0.5))

    def cells(low, high, scale, count, size):
        first, last = rounded(low.float() * scale), rounded(high.float() * scale)
        each = torch.tensor(float(max(last - first + 1, 1))) / count
        borders = ((int(torch.floor(at * each)) + first, int(torch.ceil((at + 1) * each)) + first) for at in range(count))
        return [slice(max(start, 0), min(max(end, 0), size)) for start, end in borders]

    result = torch.zeros(len(regions), images.shape[1], height, width, dtype=images.dtype)
    for number, (image, left, top, right, bottom) in enumerate(regions):
        rows = cells(top, bottom, row_scale, height, images.shape[2])
        for column, across in enumerate(cells(left, right, column_scale, width, images.shape[3])):
            for row, down in enumerate(rows):
                part = images[int(image), :, down, across]
                if part.numel():
                    result[number, :, row, column] = part.amax((1, 2))
    return result


def roi_align(images, regions, scale, height, width, samples, mode):
    """Averages of samples in each region (image, x0, y0, x1, y1), by the roi_end_mode of the operator: 1 and 3 count x1, y1 in,
    2 moves all corners by half a pixel; 0 and 1 make regions at least one pixel large."""
    results = []
    for region in regions.double():
        x0, y0, x1, y1 = (region[1:] * scale).unbind()
        if mode in (1, 3):
            x1, y1 = x1 + scale, y1 + scale
        if mode == 2:
            x0, y0, x1, y1 = x0 - 0.5, y0 - 0.5, x1 - 0.5, y1 - 0.5
        sizes = [y1 - y0, x1 - x0]
        if mode != 2:
            sizes = [one.clamp(min=0.0 if mode == 3 else 1.0) for one in sizes]
        axes = []
        for start, size, cells in zip((y0, x0), sizes, (height, width)):
            step = size / cells
            count = samples or max(int(step.ceil()), 0)
            axes.append((start + (torch.arange(cells)[:, None] + (torch.arange(count) + 0.5) / max(count, 1)) * step, count))
        (rows, row_samples), (columns, column_samples) = axes
        if row_samples * column_samples == 0:
            results.append(torch.zeros(images.shape[1], height, width, dtype=torch.float64))
            continue
        y, x = torch.broadcast_tensors(rows[:, None, :, None], columns[None, :, None, :])
        results.append(bilinear(images[int(region[0])].double(), y, x, zero_padded=False).mean((-1, -2)))
    return torch.stack(results).to(images.dtype)


def roi_align_gradient(grad, regions, sizes, scale, samples, mode):
    images = torch.zeros(sizes, requires_grad=True)
    roi_align(images, regions, scale, *grad.shape[2:], samples, mode).backward(grad)
    return images.grad


def deformable_samples(images, offsets, kernel, stride, padding, dilation, groups):
    """The samples of a deformable convolution: images whose rows and columns hold the taps of each position."""
    count, channels = images.shape[:2]
    offset_x, offset_y, modulation = offsets.reshape(count, 3, groups, *kernel, *offsets.shape[2:]).unbind(1)
    positions = [torch.arange(size) * step - before for size, step, before in zip(offsets.shape[2:], stride, padding)]
    y = positions[0][:, None] + torch.arange(kernel[0])[:, None, None, None] * dilation[0] + offset_y
    x = positions[1] + torch.arange(kernel[1])[:, None, None] * dilation[1] + offset_x
    parts = images.reshape(count, groups, channels // groups, *images.shape[2:])
    values = [torch.stack([bilinear(parts[n, g], y[n, g], x[n, g], True) * modulation[n, g] for g in range(groups)]) for n in range(count)]
    values = torch.stack(values).reshape(count, channels, *kernel, *offsets.shape[2:])
    rows, columns = offsets.shape[2] * kernel[0], offsets.shape[3] * kernel[1]
    return values.permute(0, 1, 4, 2, 5, 3).reshape(count, channels, rows, columns)


def deformable_conv2d(images, weight, offsets, bias, stride, padding, dilation, groups, offset_groups):
    kernel = weight.shape[2:]
    samples = deformable_samples(images, offsets, kernel, stride, padding, dilation, offset_groups)
    return torch.nn.functional.conv2d(samples, weight, bias, stride=tuple(kernel), groups=groups), samples


def batch_norm_update(x, sums, squares, scale, offset, epsilon, mean=None, variance=None, factor=0.0):
    """The last step of a batch norm in training, from sums and sums of squares: the result, then the running mean and variance
    (where there are any), then those of the batch; without running ones, also the unbiased variance of the batch."""
    count = x.numel() // x.shape[1]
    batch_mean, batch_variance = sums / count, squares / count - (sums / count).square()
    per_channel = (1, -1, *[1] * (x.dim() - 2))
    scales = scale / (batch_variance + epsilon).sqrt()
    result = (x.float() * scales.reshape(per_channel) + (offset - batch_mean * scales).reshape(per_channel)).to(x.dtype)
    unbiased = batch_variance * count / (count - 1)
    if mean is None:
        return result, batch_mean, batch_variance, unbiased
    return result, (1 - factor) * mean + factor * batch_mean, (1 - factor) * variance + factor * unbiased, batch_mean, batch_variance


def deformable_gradients(images, grad, samples, weight, offsets, groups, offset_groups):
    """Gradients of x, weight, offsets and bias, for stride 1 without padding, from the samples that the forward pass saved."""
    kernel = tuple(weight.shape[2:])
    sample_grads = F.conv_transpose2d(grad.double(), weight.double(), stride=kernel, groups=groups)
    sample = lambda x, o: deformable_samples(x, o, kernel, (1, 1), (0, 0), (1, 1), offset_groups)  # noqa: E731
    of_images, of_offsets = backward(sample, sample_grads, images.double(), offsets.double())
    of_weight = torch.nn.grad.conv2d_weight(samples.double(), weight.shape, grad.double(), stride=kernel, groups=groups)
    return tuple(one.to(images.dtype) for one in (of_images, of_weight, of_offsets, grad.double().sum((0, 2, 3))))
def rope_gradients(query, query_rope, key, key_rope, value, grad, queries, keys, scale, sink=None):
    """As packed_gradients, with separate rotary features; with a sink its gradient comes last."""

    def attend(query, query_rope, key, key_rope, value, *sink):
        rope = (query_rope, key_rope)
        return packed_attention(query, key, value, queries, keys, scale, True, rope=rope, sink=sink[0] if sink else None)[3]

    inputs = [query, query_rope, key, key_rope, value, *([] if sink is None else [sink])]
    found = backward(attend, grad, *inputs)
    return *found[:5], query.new_empty(0), *found[5:]


def sink_attention(query, key, value, sink, scale):
    """Attention with a sink, a score without a key for each head; the results of `packed_attention`."""
    scores = torch.cat((scale * query @ key.mT, sink[:, None, None].expand(query.shape[0], -1, query.shape[2], 1)), -1)
    maxima = scores.amax(-1, True)
    weights = (scores - maxima).exp()
    sums = weights.sum(-1, True)
    statistics = [one.expand(*one.shape[:-1], 8).contiguous() for one in (maxima, sums)]
    return *statistics, query.new_empty(0), weights[..., :-1] / sums @ value


def sink_gradients(query, key, value, grad, sink, scale):
    *found, to_sink = backward(lambda *all: sink_attention(*all, scale)[3], grad, query, key, value, sink)
    return *found, query.new_empty(0), to_sink


def embedding_bag(table, index, starts, mode, weights=None, padding=None, with_end=False):
    """The outputs of an embedding bag: a row for each bag, the bag of each index, lengths without padding, the indices of maxima."""
    ends = [*starts.tolist(), *([] if with_end else [index.numel()])]
    rows, lengths, origins, owner = [], [], [], []
    for bag, (start, end) in enumerate(zip(ends, ends[1:])):
        owner += [bag] * (end - start)
        chosen = [at for at in range(start, end) if padding is None or index[at] != padding]
        lengths.append(len(chosen))
        values = table[index[chosen]] * (1 if weights is None else weights[chosen][:, None])
        if mode == "max":
            maxima = values.max(0) if chosen else None
            rows.append(maxima.values if chosen else table.new_zeros(table.shape[1]))
            origins.append(index[chosen][maxima.indices] if chosen else index.new_zeros(table.shape[1]))
            continue
        rows.append(values.sum(0) / (max(len(chosen), 1) if mode == "mean" else 1))
        origins.append(index.new_zeros(()))
    return torch.stack(rows), index.new_tensor(owner), index.new_tensor(lengths), torch.stack(origins)


def merge_by_logsumexp(log_probs, results):
    """Attention results over parts of the keys, merged by the logarithms of their sums of exponentials; and that of all keys."""
    total = torch.stack(log_probs).logsumexp(0)
    return sum(result * (one - total).exp()[:, None] for one, result in zip(log_probs, results)), total


def ring_attention_update(first, first_max, first_sum, second, second_max, second_sum, lengths=None):
    """Merges two attention results over parts of the keys. Without `lengths` a result is (positions, batches, features of all
    heads); else (tokens, heads, features), and if there are lengths, maxima and sums lie head by head within each sequence."""
    statistics = (first_max, first_sum, second_max, second_sum)
    first_max, first_sum, second_max, second_sum = (one[..., :1].expand_as(one) for one in statistics)
    maxima = torch.maximum(first_max, second_max)
    parts = [sum * (one - maxima).exp() for one, sum in ((first_max, first_sum), (second_max, second_sum))]
    total = parts[0] + parts[1]
    shares = [(part / total)[..., :1] for part in parts]
    if lengths is None:
        shares = [one.permute(2, 0, 1, 3) for one in shares]
    elif lengths:
        heads = first.shape[1]
        shares = [torch.cat([part.reshape(heads, -1, 1).transpose(0, 1) for part in one.split(lengths)]) for one in shares]
    sized = [one.reshape(*share.shape[:-1], -1) for one, share in zip((first, second), shares)]
    return (sized[0] * shares[0] + sized[1] * shares[1]).reshape(first.shape), maxima, total


def vocabulary_stats(rows, words, target, first, last):
    """Cross entropy over a part of a vocabulary, words `first` to `last`: greatest scores, sums of exponentials, the target's
    score less the greatest, bits of targets outside of the part, targets within it, scores."""
    scores = rows.float() @ words.float().T
    maxima = scores.amax(1)
    shifted = scores - maxima[:, None]
    outside = (target < first) | (target > last)
    indices = torch.where(outside, 0, target - first)
    predicted = torch.where(outside, 0, shifted.gather(1, indices[:, None])[:, 0])
    bits = torch.cat((outside, outside.new_ones(-len(outside) % 8))).reshape(-1, 8)
    return maxima, shifted.exp().sum(1), predicted, (bits << torch.arange(8)).sum(1).to(torch.uint8), indices, scores.to(rows.dtype)


def vocabulary_gradients(grad, rows, words, outside, indices, weights):
    """The gradients of rows and words, from the softmax of all scores."""
    weights = weights.clone()
    weights[torch.arange(len(indices)), indices] -= 1 - torch.tensor(outside, dtype=weights.dtype)
    weights = weights * grad[:, None]
    return (weights @ words.float()).to(rows.dtype), (weights.T @ rows.float()).to(words.dtype)


def clipped_swiglu(gated, other, factor, limit, bias):
    gated, other = gated.clamp(max=limit), other.clamp(-limit, limit)
    return gated * torch.sigmoid(factor * gated) * (other + bias)


def prefixed_attention(query, key, value, prefix, scale):
    """Attention that is causal, aligned at the last query and key, but for the first `prefix` keys, which every query sees."""
    queries, keys = query.shape[2], key.shape[2]
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1) & (torch.arange(keys) >= prefix)
    scores = (scale * query @ key.mT).masked_fill(hidden, -torch.inf)
    maxima = scores.amax(-1, True)
    weights = (scores - maxima).exp()
    sums = weights.sum(-1, True)
    statistics = [one.expand(*one.shape[:-1], 8).contiguous() for one in (maxima, sums)]
    return *statistics, query.new_empty(0), weights / sums @ value


def causal_conv(x, weight, mask=None):
    """Each channel of steps, batches and channels as a weighted sum of the steps up to its own, 0 where the mask is false."""
    taps = weight.shape[0]
    padded = F.pad(x.float(), (0, 0, 0, 0, taps - 1, 0))
    out = sum(weight[tap].float() * padded[tap : tap + x.shape[0]] for tap in range(taps))
    if mask is not None:
        out = out * mask.T[..., None]
    return out.to(x.dtype)


def updated_batches(data, index, updates, axis):
    """The data with each update from its index on along a dimension: in its own batch, or in the one that a pair names."""
    result, dim = data.clone(), axis % data.dim() - 1
    for at, update in enumerate(updates):
        batch, start = index[at].tolist() if index.dim() == 2 else (at, int(index[at]))
        result[batch].narrow(dim, start, update.shape[dim]).copy_(update)
    return result


def scattered_list(tensors, index, updates, mask, axis):
    """Each tensor with its update written at its index along `axis`, a dimension of `updates`."""
    results = []
    for at, tensor in enumerate(tensors):
        result, update = tensor.clone(), updates[at]
        dim = axis % updates.dim() - 1
        start, length = index[at].tolist() if index.dim() == 2 else (int(index[at]), update.shape[dim])
        if mask is None or mask[at]:
            result.narrow(dim, start, length).copy_(update.narrow(dim, 0, length))
        results.append(result)
    return results


def instance_norm_gradients(dy, x, variance, mean, weight):
    """Gradients of input, weight and bias of an instance norm, with mean and variance as constants; channels last."""
    scale = 1 / (variance + 1e-6).sqrt()
    normed, count = (x - mean) * scale, x[0, ..., 0].numel()
    product, total = (dy * normed).sum((1, 2, 3), True), dy.sum((1, 2, 3), True)
    dx = weight * scale * (dy - (total + normed * product) / count)
    return dx, product.sum((0, 1, 2, 3)), total.sum((0, 1, 2, 3))


def adamw_by_powers(x, mean, square, power1, power2, rate, decay, beta1, beta2, epsilon, grad):
    """AdamW by the powers of its betas before the step."""
    mean, square = mean * beta1 + (1 - beta1) * grad, square * beta2 + (1 - beta2) * grad * grad
    root = (square / (1 - power2 * beta2)).sqrt() + epsilon
    return x * (1 - rate * decay) - rate / (1 - power1 * beta1) * mean / root, mean, square


def bert_adam(x, mean, square, rate, beta1, beta2, epsilon, grad, decay, size=None):
    """Adam without correction of its means; a size of its own for the step as mBART has it."""
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad * grad
    step = mean / (square.sqrt() + epsilon)
    return x - (rate if size is None else size) * step - rate * decay * x, mean, square


def centred(boxes):
    """Centres and sizes of boxes from corner to corner, both of which belong to them."""
    return (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2] + 1


def encoded_boxes(anchors, boxes, means=0, deviations=1):
    (place, size), (target, length) = centred(anchors), centred(boxes)
    return (torch.cat(((target - place) / size, (length / size).log()), 1) - means) / deviations


def decoded_boxes(anchors, deltas, height, width, ratio, means=0, deviations=1):
    """Boxes inside of an image; a size is at most `ratio` of the anchor's or the reverse of it."""
    (place, size), deltas = centred(anchors), deltas * deviations + means
    most = abs(torch.tensor(ratio, dtype=torch.float64).log().item())
    place, half = place + size * deltas[:, :2], size * deltas[:, 2:].clamp(-most, most).exp() / 2 - 0.5
    ends = torch.tensor([width - 1, height - 1], dtype=anchors.dtype)
    return torch.cat([torch.minimum(side.clamp(min=0), ends) for side in (place - half, place + half)], 1)


def encoded_yolo(anchors, boxes, strides, margin=1e-6):
    """As mmdetection's coder of YOLO boxes has it."""
    place, target = ((one[:, :2] + one[:, 2:]) / 2 for one in (anchors, boxes))
    size, length = (one[:, 2:] - one[:, :2] for one in (anchors, boxes))
    moved = ((target - place) / strides[:, None] + 0.5).clamp(margin, 1 - margin)
    return torch.cat((moved, (length / size).clamp(min=margin).log()), 1)


def encoded_rotated(anchors, boxes):
    place, target = ((one[:, :2] + one[:, 2:4]) / 2 for one in (anchors, boxes))
    size, length = (one[:, 2:4] - one[:, :2] for one in (anchors, boxes))
    turns = [one[:, 4:].deg2rad().tan() for one in (anchors, boxes)]
    return torch.cat(((target - place) / size, (length / size).log(), turns[1] - turns[0]), 1)


def decoded_rotated(anchors, deltas):
    size = anchors[:, 2:4] - anchors[:, :2]
    place = (anchors[:, :2] + anchors[:, 2:4]) / 2 + size * deltas[:, :2]
    half = size * deltas[:, 2:4].exp() / 2
    turn = (anchors[:, 4:].deg2rad().tan() + deltas[:, 4:]).atan().rad2deg()
    return torch.cat((place - half, place + half, turn), 1)


def answering_anchors(boxes, sizes, strides, anchors):
    """1 for the anchors of the cells in which centres of boxes lie."""
    flags = torch.zeros(sizes[0] * sizes[1], anchors, dtype=torch.uint8)
    columns, rows = (
        ((boxes[:, at] + boxes[:, at + 2]) / 2 / strides[at]).floor().long().clamp(0, sizes[1 - at] - 1) for at in (0, 1)
    )
    flags[rows * sizes[1] + columns] = 1
    return flags.flatten()


def cropped_and_resized(images, region, sizes, outside):
    """Bilinear samples of the region (top, left, bottom, right, as parts of the way from the first position to the last)."""
    rows, columns = (
        start * (length - 1) + torch.arange(count) * (end - start) * (length - 1) / (count - 1)
        for start, end, length, count in zip(region[:2], region[2:], images.shape[2:], sizes)
    )
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    height, width = (size - 1 for size in images.shape[2:])
    grid = torch.stack((x * 2 / width - 1, y * 2 / height - 1), -1).expand(len(images), *sizes, 2)
    sampled = F.grid_sample(images, grid, align_corners=True)
    inside = (y >= 0) & (y <= height) & (x >= 0) & (x <= width)
    return torch.where(inside, sampled, torch.tensor(outside))


def local_norm(x, below, above, alpha, beta, bias):
    """Each element divided by a power of the squares of the channels around it."""
    sums = torch.zeros_like(x)
    for channel in range(x.shape[1]):
        sums[:, channel] = x[:, max(channel - below, 0) : channel + above + 1].square().sum(1)
    return x / (bias + alpha * sums) ** beta


def reversed_sequences(x, lengths):
    """The first elements of each row in the opposite order."""
    rows = [torch.cat((row[:length].flip(0), row[length:])) for row, length in zip(x, lengths.tolist())]
    return torch.stack(rows)


def distinct(x, in_order=True, dim=None):
    """Distinct values, the number of each element's, how often each is there and where first; sorted or as they come."""
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=dim)
    flat = inverse.flatten().tolist()
    first = torch.tensor([flat.index(group) for group in range(len(counts))])
    if not in_order:
        order = first.argsort()
        inverse = order.argsort()[inverse]
        values, counts, first = values[order], counts[order], first[order]
    return values, inverse, counts, first


def in_whole(x, pooled, dtype=None):
    """Pooled values with indices that count in the whole tensor, not in each plane."""
    values, indices = pooled
    planes = torch.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], *[1] * (x.dim() - 2))
    return values.to(dtype or x.dtype), indices + planes * x[0, 0].numel()


def by_columns(x, pooled):
    """As `in_whole`, where positions of a plane are counted column by column."""
    values, indices = pooled
    height, width = x.shape[2:]
    return in_whole(x, (values, indices % width * height + indices // width))


def inference(query, key, value, scale, keys=None, queries=None, table=None, prefix=None, slopes=None, causal=False):
    """Attention for inference, batches, heads, positions, features, and the logarithms of sums: infinity and zeros for queries
    beyond `queries`. `keys` are lengths; keys are in the blocks of `table`, or come after `prefix`, keys and values of one batch.
    `slopes` are factors of distances, and how far the first key is after the first query. Lists have a tensor for each batch."""
    batches, heads, positions, _ = query.shape
    result, logarithms = query.new_zeros(*query.shape[:3], value[0].shape[-1]), query.new_full((*query.shape[:3], 1), torch.inf)
    for at in range(batches):
        both = []
        for one, before in zip((key, value), prefix or (None, None)):
            if table is None:
                one = one[at][: keys[at]] if one[at].dim() == 2 else one[at].reshape(one[at].shape[-3:])[:, : keys[at] if keys else None]
            else:
                one = one[table[at, : -(-keys[at] // one.shape[2])].long()].transpose(0, 1).flatten(1, 2)[:, : keys[at]]
            one = one if before is None else torch.cat((before, one), 1)
            both.append(one.repeat_interleave(heads // one.shape[0], 0))
        count = queries[at] if queries else positions
        scores = scale * query[at, :, :count] @ both[0].mT
        distance = torch.arange(scores.shape[-1])[None] - torch.arange(count)[:, None]
        if slopes:
            scores = scores - slopes[0][:, None, None] * (distance + slopes[1]).abs()
        if causal:
            scores = scores.masked_fill(distance > 0, -torch.inf)
        result[at, :, :count] = scores.softmax(-1) @ both[1]
        logarithms[at, :, :count] = scores.logsumexp(-1, keepdim=True)
    return result, logarithms


def put_into_slots(cache, slots, rows):
    """Blocks, positions, heads, features with the rows of tokens in their slots; none for a slot that is negative."""
    cache = cache.clone()
    for slot, row in zip(slots.flatten().tolist(), rows):
        if slot >= 0:
            cache.flatten(0, 1)[slot] = row.to(cache.dtype)
    return cache


def root_mean_square_norm(x, gamma, epsilon):
    return x.double() * (x.double().square().mean(-1, keepdim=True) + epsilon).rsqrt() * gamma.double()


def rotated_halves(x, cos, sin, interleaved=False):
    x = torch.cat((x[..., ::2], x[..., 1::2]), -1) if interleaved else x
    first, second = x.chunk(2, -1)
    return x * cos.double() + torch.cat((-second, first), -1) * sin.double()


def norm_rope_cache(kv, gamma, cos, sin, index, keys, values, epsilon):
    """What KvRmsNormRopeCache makes, its caches by batches."""
    norm = root_mean_square_norm(kv[..., : gamma.numel()], gamma, epsilon)
    rope = rotated_halves(kv[..., gamma.numel() :].double(), cos, sin, True)
    caches = [
        torch.stack([put_into_slots(one[None, 0, :, None], slots, new[0][:, None])[0, :, 0][None] for one, slots, new in zip(cache, index, rows)])
        for cache, rows in ((keys, rope), (values, norm))
    ]
    return *caches, rope.to(kv.dtype), norm.to(kv.dtype)


def norm_rope_cache_apart(keys, gamma, cos, sin, index, values, key_cache, value_cache, epsilon):
    """What KvRmsNormRopeCache makes of keys and values apart, its caches by slots: keys normalised, their first features rotated."""
    norm, width = root_mean_square_norm(keys, gamma, epsilon).double(), cos.shape[-1]
    new = torch.cat((rotated_halves(norm[..., :width], cos, sin, True).double(), norm[..., width:]), -1)
    caches = [cache.clone() for cache in (key_cache, value_cache)]
    for token, slot in enumerate(index.flatten().tolist()):
        batch, position = divmod(token, keys.shape[2])
        if slot >= 0:
            block, at = divmod(slot, key_cache.shape[1])
            caches[0][block, at], caches[1][block, at] = new[batch, :, position].to(keys.dtype), values[batch, :, position]
    return *caches, new.to(keys.dtype), values


def turned(x, sin, cos, kind):
    """Rotated pairs: of neighbours (1) or of halves (2)."""
    if kind == 0:
        return x
    first, second = (x[..., ::2], x[..., 1::2]) if kind == 1 else x.chunk(2, -1)
    partner = torch.stack((-second, first), -1).flatten(-2) if kind == 1 else torch.cat((-second, first), -1)
    return x * cos.double() + partner * sin.double()


def norm_rope_concat(sources, affine, sin, cos, kind, order, epsilon=1e-5):
    """Results of query, key and value, each (its own, another source's or None), and mean and reciprocal root of each line: of query,
    key, then of the other source's. `affine` has for each in the same order None, () or weight and bias."""
    results, stats = [], {}
    for which, pair in enumerate(sources):
        parts = []
        for source, x in enumerate(pair):
            if x is None:
                continue
            y, norm = x.double(), affine[2 * source + which] if which < 2 else None
            if norm is not None:
                mean, root = y.mean(-1, True), (y.var(-1, correction=0, keepdim=True) + epsilon).rsqrt()
                stats[2 * source + which] = mean.float(), root.float()
                y = (y - mean) * root
                y = y * norm[0].double() + norm[1].double() if norm else y
            parts.append(y)
        joined = torch.cat(parts[::-1] if order else parts, 1).transpose(1, 2)
        results.append((turned(joined, sin, cos, kind) if which < 2 else joined).to(pair[0].dtype))
    return *results, *(one for which in sorted(stats) for one in stats[which])


def norm_rope_concat_gradients(grads, sources, norms, sin, cos, kind, order):
    """The gradients of query, key, value and of another source's, then of weights and biases. `norms` has for each of query, key and
    the other source's weight or None, mean and reciprocal root."""
    own, other, affine = [], [], []
    for which, grad in enumerate(grads):
        pair = sources[min(which, 1)]
        if which < 2:
            before = torch.zeros(grad.shape, dtype=torch.float64, requires_grad=True)
            (grad,) = torch.autograd.grad(turned(before, sin, cos, kind), before, grad.double())
        lengths = [x.shape[1] for x in pair]
        parts = grad.double().transpose(1, 2).split(lengths[::-1] if order else lengths, 1)
        for source, dy in enumerate(parts[::-1] if order else parts):
            if which < 2:
                weight, mean, root = norms[2 * source + which]
                hat = (pair[source].double() - mean) * root.double()
                if weight is not None:
                    affine += [(dy * hat).sum((0, 1, 2)), dy.sum((0, 1, 2))]
                    dy = dy * weight.double()
                dy = root * (dy - dy.mean(-1, True) - hat * (dy * hat).mean(-1, True))
            (other if source else own).append(dy)
    return tuple(one.to(grads[0].dtype) for one in (*own, *other, *affine))


def in_chunks(cache):
    """Blocks, positions, heads, features as blocks, chunks of 16 features of all heads, positions, features."""
    return cache.flatten(2).unflatten(2, (-1, 16)).transpose(1, 2).contiguous()


def norm_rope_all(qkv, gammas, cos, sin, index, caches, heads, features, epsilon):
    """What QkvRmsNormRopeCache makes."""
    rows = qkv.double().unflatten(1, (-1, features))
    q, k, v = rows.split(heads, 1)
    q, k = (rotated_halves(root_mean_square_norm(x, gamma, epsilon), cos[:, None], sin[:, None]) for x, gamma in zip((q, k), gammas))
    by_slots = [cache.transpose(1, 2).flatten(2).unflatten(2, (-1, features)) for cache in caches]
    stored = [in_chunks(put_into_slots(cache, index, new)) for cache, new in zip(by_slots, (k, v))]
    q, k, v = (one.flatten(1).to(qkv.dtype) for one in (q, k, v))
    return q, *stored, q, k, v


def latent_prolog(x, down, to_heads, up, latent, gamma_q, gamma_k, sin, cos, index, keys, ropes):
    """What MlaProlog makes of packed tokens."""
    heads, features, width = up.shape
    low = root_mean_square_norm(x.double() @ down.double(), gamma_q, 1e-5)
    all_heads = (low @ to_heads.double()).unflatten(-1, (heads, -1))
    query = torch.einsum("tnd,ndw->tnw", all_heads[..., :features], up.double())
    rope = rotated_halves(all_heads[..., features:], cos[:, None], sin[:, None], True)
    both = x.double() @ latent.double()
    new = root_mean_square_norm(both[:, :width], gamma_k, 1e-5), rotated_halves(both[:, width:], cos, sin, True)
    caches = [put_into_slots(cache, index, rows[:, None]) for cache, rows in zip((keys, ropes), new)]
    return query.to(x.dtype), rope.to(x.dtype), *caches


def served_flat(query, key, value, scale, keys=None, queries=None):
    """As `inference`, of two heads in the order BSH."""
    query, key, value = (one.unflatten(2, (2, -1)).transpose(1, 2) for one in (query, key, value))
    return inference(query, key, value, scale, keys, queries)[0].transpose(1, 2).flatten(2)


def rope_by_position(x, factors, features):
    """The first features of each head rotated by cosines and sines of its token, halves apart."""
    x = x.unflatten(1, (-1, features))
    cos, sin = (one[:, None] for one in factors.chunk(2, -1))
    count = factors.shape[-1]
    first, second = x[..., :count].chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin, x[..., count:]), -1).flatten(1)
