"""Plain references for operators that PyTorch has no namesake of, written from the documentation of each function."""

import math

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


def overlaps(boxes, others, extra):
    """What two rectangles have in common by what they cover together, a row for each of the others; sides are `extra` longer."""
    low = torch.maximum(boxes[None, :, :2], others[:, None, :2])
    high = torch.minimum(boxes[None, :, 2:], others[:, None, 2:])
    common = (high - low + extra).clamp(min=0).prod(-1)
    area = lambda one: (one[:, 2:] - one[:, :2] + extra).prod(-1)
    return common / (area(boxes)[None] + area(others)[:, None] - common)


def agreement(which, boxes, others, centred, crossed=False, mode="iou"):
    """GIoU, DIoU or CIoU of boxes in columns, with the difference of the angles of CIoU; a row for each of the others if crossed."""

    def corners(one):
        x, y, u, v = one
        return (x - u / 2, y - v / 2, x + u / 2, y + v / 2) if centred else (x, y, u, v)

    a, b = corners(boxes), corners(others)
    a, b = [one[None] for one in a], [one[:, None] if crossed else one[None] for one in b]
    tiny, lift = (1e-16, 0.0) if which == "GIoU" else (1e-9, 1e-9)
    inner = lambda i: (torch.min(a[i + 2], b[i + 2]) - torch.max(a[i], b[i])).clamp(0)
    around = lambda i: torch.max(a[i + 2], b[i + 2]) - torch.min(a[i], b[i])
    size = lambda one: (one[2] - one[0], one[3] - one[1] + lift)
    area = lambda one: size(one)[0] * size(one)[1]
    common = inner(0) * inner(1)
    union = area(a) + area(b) - common + tiny
    overlap = common / (union if mode == "iou" else area(b) + tiny)
    zero = torch.zeros_like(overlap)
    if which == "GIoU":
        outer = (around(0) * around(1)).abs()
        return overlap - (outer - union) / outer, zero
    distance = sum((b[i] + b[i + 2] - a[i] - a[i + 2]) ** 2 for i in (0, 1)) / 4
    near = overlap - distance / (around(0) ** 2 + around(1) ** 2 + tiny)
    if which == "DIoU":
        return near, zero
    angle = lambda one: torch.atan(size(one)[0] / size(one)[1])
    rotation = angle(b) - angle(a)
    form = 4 / torch.pi**2 * rotation**2
    return near - form * form / (1 + tiny - overlap + form), rotation


def agreement_gradients(which, grad, boxes, others, *options):
    """The gradients of what `agreement` measures."""
    wide = [one.double().requires_grad_() for one in (boxes, others)]
    measure, _ = agreement(which, *wide, *options)
    found = torch.autograd.grad(measure, wide, grad.double().reshape(measure.shape))
    return tuple(one.to(boxes.dtype) for one in found)


def suppressed(boxes, scores, most, overlap, least):
    """The numbers of the boxes that are kept, from the greatest score down."""
    low, high = torch.minimum(boxes[:, :2], boxes[:, 2:]), torch.maximum(boxes[:, :2], boxes[:, 2:])
    meets = overlaps(torch.cat([low, high], 1), torch.cat([low, high], 1), 0.0)
    kept = []
    for at in scores.argsort(descending=True, stable=True).tolist():
        if len(kept) < most and scores[at] > least and not any(meets[at, one] > overlap for one in kept):
            kept.append(at)
    return kept


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
    mask[suppressed(boxes, scores, len(rows), overlap, -torch.inf)] = 1
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
            found += [(float(values[at]), kind, own[at]) for at in suppressed(own, values, most, overlap, least)]
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


def packed_attention(query, key, value, queries, keys, scale, causal=False, form="", more=None, sink=None):
    """Greatest scores and sums of each token, eight times each; nothing; the result. Causal by the ends of the sequences.

    Scores and sums lie head by head within a sequence, unless `form` is same_as_input. `more` are features of queries and
    keys that come apart, `sink` has a score of no key for each head.
    """
    if more:
        query, key = (torch.cat(both, -1) for both in zip((query, key), more))
    key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (key, value))
    parts, (start, begin) = [], (0, 0)
    for end, last in zip(queries, keys):
        q, k, v = (one.transpose(0, 1) for one in (query[start:end], key[begin:last], value[begin:last]))
        scores = scale * q @ k.mT
        if causal:
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(last - begin - (end - start) + 1)
            scores = scores.masked_fill(hidden, -torch.inf)
        if sink is not None:
            scores = torch.cat((scores, sink[:, None, None].expand(-1, scores.shape[1], 1)), -1)
        most = scores.amax(-1, True)
        weights = (scores - most).exp()
        sums = weights.sum(-1, True)
        notes = [one.expand(-1, -1, 8) for one in (most, sums)]
        notes = [one.transpose(0, 1) if form else one.reshape(end - start, -1, 8) for one in notes]
        parts.append([*notes, (weights[..., : k.shape[1]] / sums @ v).transpose(0, 1)])
        start, begin = end, last
    most, sums, result = (torch.cat(one).contiguous() for one in zip(*parts))
    return most, sums, query.new_empty(0), result


def packed_gradients(query, key, value, grad, queries, keys, scale):
    return *backward(lambda *all: packed_attention(*all, queries, keys, scale, True)[3], grad, query, key, value), query.new_empty(0)


def bilinear(image, y, x, outside):
    """Values of `image` [C, H, W] between its elements; y and x have any sizes. Outside of it they are 0, or, up to one element
    away (`outside` false), those of its border."""
    rows, columns = image.shape[-2:]
    if outside:
        near = (y > -1) & (y < rows) & (x > -1) & (x < columns)
    else:
        near = (y >= -1) & (y <= rows) & (x >= -1) & (x <= columns)
        y, x = y.clamp(0, rows - 1), x.clamp(0, columns - 1)
    top, left = y.detach().floor(), x.detach().floor()
    total = 0
    for down in (0, 1):
        for across in (0, 1):
            row, column = (top + down).long(), (left + across).long()
            inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            value = image[:, row.clamp(0, rows - 1), column.clamp(0, columns - 1)]
            weight = (1 - (y - (top + down)).abs()) * (1 - (x - (left + across)).abs())
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
    """Averages of samples in each region (image, x0, y0, x1, y1); the mode says what its corners are."""
    found = []
    for region in regions.double():
        x0, y0, x1, y1 = (region[1:] * scale).unbind()
        if mode in (1, 3):
            x1, y1 = x1 + scale, y1 + scale
        if mode == 2:
            x0, y0, x1, y1 = x0 - 0.5, y0 - 0.5, x1 - 0.5, y1 - 0.5
        sizes = [y1 - y0, x1 - x0]
        if mode != 2:
            sizes = [one.clamp(min=0.0 if mode == 3 else 1.0) for one in sizes]
        lines = []
        for start, size, cells in zip((y0, x0), sizes, (height, width)):
            step = size / cells
            count = samples or max(int(step.ceil()), 0)
            lines.append((start + (torch.arange(cells)[:, None] + (torch.arange(count) + 0.5) / max(count, 1)) * step, count))
        (rows, down), (columns, across) = lines
        if down * across == 0:
            found.append(torch.zeros(images.shape[1], height, width, dtype=torch.float64))
            continue
        y, x = torch.broadcast_tensors(rows[:, None, :, None], columns[None, :, None, :])
        found.append(bilinear(images[int(region[0])].double(), y, x, outside=False).mean((-1, -2)))
    return torch.stack(found).to(images.dtype)


def roi_align_gradient(grad, regions, sizes, scale, samples, mode):
    images = torch.zeros(sizes, requires_grad=True)
    roi_align(images, regions, scale, *grad.shape[2:], samples, mode).backward(grad)
    return images.grad


def deformable_samples(images, offsets, kernel, stride, padding, dilation, groups):
    """The samples of a deformable convolution: images whose rows and columns hold the taps of each position."""
    count, channels = images.shape[:2]
    across, down, share = offsets.reshape(count, 3, groups, *kernel, *offsets.shape[2:]).unbind(1)
    positions = [torch.arange(size) * step - before for size, step, before in zip(offsets.shape[2:], stride, padding)]
    y = positions[0][:, None] + torch.arange(kernel[0])[:, None, None, None] * dilation[0] + down
    x = positions[1] + torch.arange(kernel[1])[:, None, None] * dilation[1] + across
    parts = images.reshape(count, groups, channels // groups, *images.shape[2:])
    values = [torch.stack([bilinear(parts[n, g], y[n, g], x[n, g], True) * share[n, g] for g in range(groups)]) for n in range(count)]
    values = torch.stack(values).reshape(count, channels, *kernel, *offsets.shape[2:])
    rows, columns = offsets.shape[2] * kernel[0], offsets.shape[3] * kernel[1]
    return values.permute(0, 1, 4, 2, 5, 3).reshape(count, channels, rows, columns)


def deformable_conv2d(images, weight, offsets, bias, stride, padding, dilation, groups, offset_groups):
    kernel = weight.shape[2:]
    samples = deformable_samples(images, offsets, kernel, stride, padding, dilation, offset_groups)
    return torch.nn.functional.conv2d(samples, weight, bias, stride=tuple(kernel), groups=groups), samples


def batch_norm_update(x, sums, squares, scale, offset, epsilon, mean=None, variance=None, factor=0.0):
    """The last step of a batch norm in training: the result, then the running mean and variance
    (where there are any), then those of the batch; without running ones, the variance of the batch without bias."""
    count = x.numel() // x.shape[1]
    of_batch, spread = sums / count, squares / count - (sums / count).square()
    wide = (1, -1, *[1] * (x.dim() - 2))
    scales = scale / (spread + epsilon).sqrt()
    result = (x.float() * scales.reshape(wide) + (offset - of_batch * scales).reshape(wide)).to(x.dtype)
    grown = spread * count / (count - 1)
    if mean is None:
        return result, of_batch, spread, grown
    return result, (1 - factor) * mean + factor * of_batch, (1 - factor) * variance + factor * grown, of_batch, spread


def deformable_gradients(images, grad, samples, weight, offsets, groups, offset_groups):
    """Of x, weight, offsets and bias, for windows side by side without padding, from the samples that a forward left."""
    kernel = tuple(weight.shape[2:])
    through = F.conv_transpose2d(grad.double(), weight.double(), stride=kernel, groups=groups)
    taken = lambda x, o: deformable_samples(x, o, kernel, (1, 1), (0, 0), (1, 1), offset_groups)  # noqa: E731
    of_images, of_offsets = backward(taken, through, images.double(), offsets.double())
    of_weight = torch.nn.grad.conv2d_weight(samples.double(), weight.shape, grad.double(), stride=kernel, groups=groups)
    return tuple(one.to(images.dtype) for one in (of_images, of_weight, of_offsets, grad.double().sum((0, 2, 3))))
def rope_gradients(query, more_query, key, more_key, value, grad, queries, keys, scale, sink=None):
    """As packed_gradients, with features apart; with a sink its gradient comes last."""

    def attend(query, more_query, key, more_key, value, *sink):
        more = (more_query, more_key)
        return packed_attention(query, key, value, queries, keys, scale, True, more=more, sink=sink[0] if sink else None)[3]

    inputs = [query, more_query, key, more_key, value, *([] if sink is None else [sink])]
    found = backward(attend, grad, *inputs)
    return *found[:5], query.new_empty(0), *found[5:]


def sink_attention(query, key, value, sink, scale):
    """Attention of batches with a score of no key for each head."""
    scores = torch.cat((scale * query @ key.mT, sink[:, None, None].expand(query.shape[0], -1, query.shape[2], 1)), -1)
    most = scores.amax(-1, True)
    weights = (scores - most).exp()
    sums = weights.sum(-1, True)
    notes = [one.expand(*one.shape[:-1], 8).contiguous() for one in (most, sums)]
    return *notes, query.new_empty(0), weights[..., :-1] / sums @ value


def sink_gradients(query, key, value, grad, sink, scale):
    *found, to_sink = backward(lambda *all: sink_attention(*all, scale)[3], grad, query, key, value, sink)
    return *found, query.new_empty(0), to_sink


def bags(table, index, starts, mode, weights=None, padding=None, with_end=False):
    """What an embedding bag gives: rows, the bag of each index, lengths without padding, where greatest values are from."""
    ends = [*starts.tolist(), *([] if with_end else [index.numel()])]
    rows, lengths, origins, owner = [], [], [], []
    for bag, (start, end) in enumerate(zip(ends, ends[1:])):
        owner += [bag] * (end - start)
        chosen = [at for at in range(start, end) if padding is None or index[at] != padding]
        lengths.append(len(chosen))
        values = table[index[chosen]] * (1 if weights is None else weights[chosen][:, None])
        if mode == "max":
            most = values.max(0) if chosen else None
            rows.append(most.values if chosen else table.new_zeros(table.shape[1]))
            origins.append(index[chosen][most.indices] if chosen else index.new_zeros(table.shape[1]))
            continue
        rows.append(values.sum(0) / (max(len(chosen), 1) if mode == "mean" else 1))
        origins.append(index.new_zeros(()))
    return torch.stack(rows), index.new_tensor(owner), index.new_tensor(lengths), torch.stack(origins)


def by_logarithms(logarithms, results):
    """Results over parts of the keys, merged by the logarithms of their sums; and the logarithms of all sums."""
    whole = torch.stack(logarithms).logsumexp(0)
    return sum(result * (one - whole).exp()[:, None] for one, result in zip(logarithms, results)), whole


def merged(first, first_most, first_sum, second, second_most, second_sum, lengths=None):
    """Two results over parts of the keys as one. Without lengths: positions, batches, features of all heads; else tokens, and
    with lengths scores and sums lie head by head within each sequence."""
    notes = (first_most, first_sum, second_most, second_sum)
    first_most, first_sum, second_most, second_sum = (one[..., :1].expand_as(one) for one in notes)
    most = torch.maximum(first_most, second_most)
    parts = [sum * (one - most).exp() for one, sum in ((first_most, first_sum), (second_most, second_sum))]
    whole = parts[0] + parts[1]
    shares = [(part / whole)[..., :1] for part in parts]
    if lengths is None:
        shares = [one.permute(2, 0, 1, 3) for one in shares]
    elif lengths:
        heads = first.shape[1]
        shares = [torch.cat([part.reshape(heads, -1, 1).transpose(0, 1) for part in one.split(lengths)]) for one in shares]
    sized = [one.reshape(*share.shape[:-1], -1) for one, share in zip((first, second), shares)]
    return (sized[0] * shares[0] + sized[1] * shares[1]).reshape(first.shape), most, whole


def vocabulary_stats(rows, words, target, first, last):
    """What a loss needs of the scores of rows over a part of a vocabulary."""
    scores = rows.float() @ words.float().T
    most = scores.amax(1)
    less = scores - most[:, None]
    outside = (target < first) | (target > last)
    indices = torch.where(outside, 0, target - first)
    predicted = torch.where(outside, 0, less.gather(1, indices[:, None])[:, 0])
    bits = torch.cat((outside, outside.new_ones(-len(outside) % 8))).reshape(-1, 8)
    return most, less.exp().sum(1), predicted, (bits << torch.arange(8)).sum(1).to(torch.uint8), indices, scores.to(rows.dtype)


def vocabulary_gradients(grad, rows, words, outside, indices, weights):
    """The gradients of rows and words, from the weights of all words."""
    weights = weights.clone()
    weights[torch.arange(len(indices)), indices] -= 1 - torch.tensor(outside, dtype=weights.dtype)
    weights = weights * grad[:, None]
    return (weights @ words.float()).to(rows.dtype), (weights.T @ rows.float()).to(words.dtype)


def clipped_swiglu(gated, other, factor, limit, bias):
    gated, other = gated.clamp(max=limit), other.clamp(-limit, limit)
    return gated * torch.sigmoid(factor * gated) * (other + bias)


def prefixed_attention(query, key, value, prefix, scale):
    """Attention that is causal by the last query and key, but for the first keys, which count for all."""
    queries, keys = query.shape[2], key.shape[2]
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1) & (torch.arange(keys) >= prefix)
    scores = (scale * query @ key.mT).masked_fill(hidden, -torch.inf)
    most = scores.amax(-1, True)
    weights = (scores - most).exp()
    sums = weights.sum(-1, True)
    notes = [one.expand(*one.shape[:-1], 8).contiguous() for one in (most, sums)]
    return *notes, query.new_empty(0), weights / sums @ value


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
    """Each tensor with its update at its place along a dimension of the updates."""
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
    """Gradients of input, weight and bias of each channel of each sample normalised by figures as they are; channels last."""
    scale = 1 / (variance + 1e-6).sqrt()
    normal, count = (x - mean) * scale, x[0, ..., 0].numel()
    product, total = (dy * normal).sum((1, 2, 3), True), dy.sum((1, 2, 3), True)
    dx = weight * scale * (dy - (total + normal * product) / count)
    return dx, product.sum((0, 1, 2, 3)), total.sum((0, 1, 2, 3))
