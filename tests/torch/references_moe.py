"""Plain references for mixtures of experts and for sampling, written from the documentation of each function."""

import torch


def grouped_matmul(x, weights, ends, bias=None):
    """Each group of rows times the weights of its group, rows after the last group left as the walk fills them."""
    starts = [0, *ends[:-1]]
    parts = [x[a:b].float() @ weights[i].float() for i, (a, b) in enumerate(zip(starts, ends))]
    if bias is not None:
        parts = [part + bias[i].float() for i, part in enumerate(parts)]
    return torch.cat(parts).to(x.dtype)


def grouped_sums(x, weights, ends):
    """For each group of terms its columns of x times its rows of the weights."""
    starts = [0, *ends[:-1]]
    return torch.stack([x[:, a:b].float() @ weights[a:b].float() for a, b in zip(starts, ends)])


def ffn(x, w1, w2, ends, activation, b1=None, b2=None):
    """activation(x @ w1 + b1) @ w2 + b2 for the tokens of each expert."""
    parts = []
    for i, (a, b) in enumerate(zip([0, *ends[:-1]], ends)):
        hidden = x[a:b].float() @ w1[i].float() + (0 if b1 is None else b1[i].float())
        hidden = activation(hidden).to(x.dtype).float()
        parts.append(hidden @ w2[i].float() + (0 if b2 is None else b2[i].float()))
    return torch.cat(parts).to(x.dtype)


def top_experts(values, k):
    """The greatest k of each row, the least number first where they are equal."""
    order = values.float().sort(dim=-1, descending=True, stable=True).indices[..., :k]
    return values.gather(-1, order), order.int()


def softmax_choice(x, k, finished=None):
    """Weights, experts, and the numbers of slots column by column."""
    weights, experts = top_experts(x.float().softmax(-1), k)
    rows = x[..., 0].numel()
    slots = torch.arange(rows * k).reshape(k, rows).T.reshape(experts.shape).int()
    if finished is not None:
        experts = torch.where(finished[..., None], x.shape[-1], experts).int()
    return weights.to(x.dtype), experts, slots


def choice(x, k, bias=None, kept=1, groups=1, by_pairs=False, renorm=False, norm="softmax", scale=1.0, epsilon=1e-20):
    """Weights, experts, and the weights of all experts."""
    x32 = x.float()
    every = x32.softmax(-1) if norm == "softmax" else torch.sigmoid(x32)
    values = every if bias is None else every + bias.float()
    if groups > 1:
        grouped = values.reshape(len(x), groups, -1)
        scores = grouped.topk(2, -1).values.sum(-1) if by_pairs else grouped.amax(-1)
        chosen = scores.sort(dim=-1, descending=True, stable=True).indices[:, :kept]
        mask = torch.zeros_like(scores, dtype=torch.bool).scatter(1, chosen, True)
        values = grouped.masked_fill(~mask[..., None], -torch.inf).reshape(x.shape)
    experts = values.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    weights = every.gather(1, experts)
    if renorm or norm != "softmax":
        weights = weights / (weights.sum(-1, True) + epsilon)
    return (weights * scale).to(x.dtype), experts.int(), every


def fused_choice(x, bias, groups, kept, counted, k, scale=None):
    """Weights and experts: groups compared by the sum of their greatest biased weights; with a scale, weights divided by their sum."""
    every = torch.sigmoid(x.float())
    grouped = (every + bias.float()).reshape(len(x), groups, -1)
    chosen = grouped.topk(counted, -1).values.sum(-1).topk(kept, -1).indices
    allowed = torch.zeros(len(x), groups, dtype=torch.bool).scatter(1, chosen, True)
    experts = grouped.masked_fill(~allowed[..., None], -torch.inf).reshape(x.shape).topk(k, -1).indices
    weights = every.gather(1, experts)
    return weights if scale is None else weights / weights.sum(-1, True) * scale, experts.int()


def choice_gradient(norm, grad, experts, scale, epsilon):
    """The gradient of the scores, by autograd of the logistic choice."""
    scores = torch.logit(norm.double()).requires_grad_()
    weights = torch.sigmoid(scores).gather(1, experts.long())
    weights = weights / (weights.sum(-1, True) + epsilon) * scale
    return torch.autograd.grad(weights, scores, grad.double())[0].to(grad.dtype)


def by_expert(experts):
    """Slots in the order of their experts, and the place of each slot."""
    order = experts.flatten().long().argsort(stable=True)
    return order, order.argsort()


def counts(experts, number, cumulative=False):
    found = torch.bincount(experts.flatten().long(), minlength=number)
    return found.cumsum(0) if cumulative else found


def count_pairs(experts, number):
    """Experts with tokens and how many they have, then zeros."""
    found = counts(experts, number)
    used = found.nonzero().flatten()
    pairs = torch.zeros(number, 2, dtype=torch.int64)
    pairs[: len(used)] = torch.stack((used, found[used]), 1)
    return pairs


def init_routing(x, slots, experts, active):
    """The first version, where slots have numbers of their own."""
    order = experts.flatten().long().argsort(stable=True)
    numbers = slots.flatten().long()[order]
    places = torch.empty_like(numbers)
    places[numbers] = torch.arange(len(numbers))
    rows = min(len(x), active) * experts.shape[1]
    return x[numbers % len(x)][:rows], places.int(), experts.flatten()[order]


def routing_with_capacity(x, experts, number, capacity):
    """Expanded tokens, the row of each slot, and the counts before the capacity."""
    each = experts.shape[1]
    expanded, places = x.new_zeros(number, capacity, x.shape[1]), torch.full((experts.numel(),), -1)
    used = [0] * number
    for slot, expert in enumerate(experts.flatten().tolist()):
        if used[expert] < capacity:
            expanded[expert, used[expert]] = x[slot // each]
            places[slot] = expert * capacity + used[expert]
        used[expert] += 1
    return expanded, places.int(), torch.tensor(used)


def finalize(expanded, places, weights=None, added=(), bias=None, experts=None, by_column=False):
    """Sums of the rows of each token's slots."""
    rows = expanded.reshape(-1, expanded.shape[-1]).float()
    each = 1 if weights is None else weights.shape[1]
    places = places.reshape(each, -1).T if by_column else places.reshape(-1, each)
    terms = rows[places.clamp(min=0).long()] * ((places >= 0) & (places < len(rows)))[..., None]
    if bias is not None:
        terms = terms + bias[experts.long()].float()
    if weights is not None:
        terms = terms * weights.float()[..., None]
    return (terms.sum(1) + sum(one.float() for one in added)).to(expanded.dtype)


def part_rows(rows, places, start, end):
    """The row of each place, where only those from start to end are there, and zeros elsewhere."""
    there = (places >= start) & (places < end)
    return rows.float()[(places.long() - start).clamp(0, end - start - 1)] * there.reshape(-1, *[1] * (rows.dim() - 1))


def unpermute_part_gradients(grad, places, rows, weights, start, end):
    """The gradients of the rows that are there, those after them zeros, and of the weights."""
    slots = grad.float().repeat_interleave(weights.shape[1], 0)
    by_weight = (slots * part_rows(rows, places, start, end)).sum(-1).reshape(weights.shape).to(weights.dtype)
    out = torch.zeros(len(rows), grad.shape[1])
    for slot, place in enumerate(places.tolist()):
        if start <= place < end:
            out[place - start] = slots[slot] * weights.flatten()[slot].float()
    return out.to(grad.dtype), by_weight


def finalize_gradients(grad, places, expanded, weights):
    inputs = [expanded.double().requires_grad_(), weights.double().requires_grad_()]
    rows = inputs[0].reshape(-1, expanded.shape[-1])
    places = places.reshape(weights.shape)
    terms = rows[places.clamp(min=0).long()] * (places >= 0)[..., None] * inputs[1][..., None]
    one, other = torch.autograd.grad(terms.sum(1), inputs, grad.double())
    return one.to(expanded.dtype), other.to(weights.dtype)


def permute_by_map(x, routing, each, weights=None):
    """Permuted tokens, their weights, and the rows of each token's slots."""
    experts, tokens = routing.bool().T.nonzero(as_tuple=True)
    places = torch.full((len(x), each), -1)
    for row, token in enumerate(tokens.tolist()):
        places[token, (places[token] >= 0).sum()] = row
    permuted = x[tokens]
    return permuted, (None if weights is None else weights[tokens, experts]), places.flatten().int()


def permute_by_capacity(x, routing, capacity, weights):
    order = routing.to(torch.int8).T.argsort(dim=-1, descending=True, stable=True)[:, :capacity]
    experts = torch.arange(routing.shape[1])[:, None].expand_as(order)
    return x[order.flatten()], weights[order, experts].flatten(), order.flatten().int()


def unpermute_by_map(permuted, places, routing, weights):
    """Summed tokens, rows of slots, tokens of slots, weights of slots."""
    tokens, each = len(routing), len(places) // len(routing)
    picked = torch.stack([weights[t][routing[t].bool()] for t in range(tokens)])
    rows = permuted[places.long()].reshape(tokens, each, -1).float()
    summed = (rows * picked.float()[..., None]).sum(1).to(permuted.dtype)
    return summed, places, torch.arange(tokens).repeat_interleave(each).int(), picked.flatten()


def unpermute_by_capacity(permuted, places, weights, tokens):
    capacity = len(places) // weights.shape[1]
    experts = torch.arange(weights.shape[1]).repeat_interleave(capacity)
    picked = weights[places.long(), experts]
    summed = torch.zeros(tokens, permuted.shape[1]).index_add(0, places.long(), permuted.float() * picked.float()[:, None])
    values, order = places.sort(stable=True)
    return summed.to(permuted.dtype), order.int(), values, picked


def unpermute_gradients(grad, rows, tokens, routing, permuted, weights, capacity=None):
    """The gradients of permuted tokens and of the weights, by autograd."""
    inputs = [permuted.double().requires_grad_(), weights.double().requires_grad_()]
    rows, tokens = rows.long(), tokens.long()
    if capacity:
        experts = rows // capacity
    else:
        each = len(rows) // len(routing)
        chosen = [routing[t].bool().nonzero().flatten() for t in range(len(routing))]
        experts = torch.stack([chosen[t][s] for t in range(len(routing)) for s in range(each)])
    terms = inputs[0][rows] * inputs[1][tokens, experts][:, None]
    summed = torch.zeros(grad.shape, dtype=torch.float64).index_add(0, tokens, terms)
    one, other = torch.autograd.grad(summed, inputs, grad.double())
    return one.to(permuted.dtype), other.to(weights.dtype)


def top_k_top_p(logits, p, k):
    """Logits with those that both filters leave out at negative infinity."""
    values, order = logits.sort(dim=-1, stable=True)
    size = logits.shape[1]
    k = torch.where((k <= 0) | (k > size), size, k).long()
    values = values.masked_fill(values < values.gather(1, (size - k)[:, None]), -torch.inf)
    sums = values.float().softmax(-1).cumsum(-1)
    mask = sums <= 1 - p.float()[:, None]
    mask[:, -1] = False
    return torch.empty_like(values).scatter(1, order, values.masked_fill(mask, -torch.inf))


def sample(logits, k, p, noise=None, min_p=None, epsilon=1e-8, most=1024, are_logits=True):
    """The number that is drawn of each row, the kept scores, the kept numbers and their probabilities."""
    drawn, kept_scores, numbers, chances = [], [], [], []
    for row, scores in enumerate(logits.float()):
        values, order = scores.sort(descending=True, stable=True)
        by_k = 1 <= k[row] <= min(most, len(scores))
        by_p, share = bool(p[row] < 1), 0.0 if min_p is None else float(min_p[row])
        if by_k:
            values, order = values[: k[row]], order[: k[row]]
        elif not by_p and share < 1:
            values, order = scores, torch.arange(len(scores))
        probs = values.softmax(-1) if are_logits else values
        if by_p:
            keep = probs.cumsum(-1) - probs < float(p[row])
            keep[0] = True
            if p[row] <= 0:
                keep[1:] = False
                probs = torch.ones_like(probs) if are_logits else probs
            probs, order = probs[keep], order[keep]
        keep = probs >= probs.max() * share if share < 1 else torch.arange(len(probs)) == 0
        probs, order = probs[keep], order[keep]
        quotient = probs if noise is None else probs / (noise[row, : len(probs)] + epsilon)
        drawn.append(order[quotient.argmax()])
        kept = torch.full_like(scores, -torch.inf if are_logits else 0.0)
        kept[order] = scores[order]
        kept_scores.append(kept)
        numbers.append(torch.nn.functional.pad(order, (0, len(scores) - len(order))))
        chances.append(torch.nn.functional.pad(probs, (0, len(scores) - len(probs))))
    return torch.stack(drawn), torch.stack(kept_scores), torch.stack(numbers), torch.stack(chances)


def rerouted(tokens, counts, scales=None):
    """Tokens in the order of experts over all ranks: themselves, their scales, where each came from, counts of experts."""
    ranks, experts = counts.shape
    starts = torch.cat((torch.zeros(1, dtype=torch.long), counts.flatten().cumsum(0)[:-1].long())).reshape(ranks, experts)
    order = [start + i for e in range(experts) for r in range(ranks) for start in [starts[r, e]] for i in range(counts[r, e])]
    order = torch.tensor([int(one) for one in order])
    return tokens[order], (None if scales is None else scales[order]), order.int(), counts.sum(0).to(counts.dtype)


def delta_rule(q, k, v, beta, state, lengths, scale, g=None, gk=None, places=None, accepted=None):
    """Results of all steps and the states: those of `places` after each step, else those after each sequence."""
    heads, group = v.shape[1], v.shape[1] // k.shape[1]
    state, out, start = state.float().clone(), torch.zeros(v.shape), 0
    last = torch.zeros(len(lengths), *state.shape[1:])
    for b, length in enumerate(lengths.tolist()):
        first = b if places is None else int(places[start + (0 if accepted is None else int(accepted[b]) - 1)])
        current = state[first].clone()
        for t in range(start, start + length):
            for h in range(heads):
                decay = 1 if g is None else g[t, h].exp()
                current[h] = current[h] * decay * (1 if gk is None else gk[t, h].exp())
                key = k[t, h // group].float()
                change = beta[t, h].float() * (v[t, h].float() - current[h] @ key)
                current[h] += change[:, None] * key
                out[t, h] = current[h] @ q[t, h // group].float() * scale
            if places is not None:
                state[int(places[t])] = current
        last[b] = current
        start += length
    return out.to(v.dtype), last if places is None else state


def cached_conv(x, w, cache, starts, lines=None, accepted=None, computed=None, residual=True, mode=0):
    """Results of all steps, and the cache after them; without blocks."""
    x32, cache, y = x.float().reshape(-1, x.shape[-1]), cache.clone(), torch.zeros(x.numel() // x.shape[-1], x.shape[-1])
    for b, (start, end) in enumerate(zip(starts, starts[1:])):
        line = b if lines is None else int(lines[b])
        if line == -1:
            y[start:end] = float("nan")
            continue
        rows = cache.shape[1]
        if computed is not None and computed[b] == 0:
            offset, before = 0, torch.zeros(2, x.shape[-1])
        else:
            offset = rows - 2 if accepted is None else int(accepted[b]) - 1
            before = cache[line, : offset + 2].float()
        padded = torch.cat((before, x32[start:end]))
        kept = min(rows, len(padded))
        seen = padded[offset:]
        y[start:end] = sum(w[tap].float() * seen[tap : tap + end - start] for tap in range(3))
        if mode == 1:
            y[start : start + max(2 - int(computed[b]), 0)] = 0
        if residual:
            y[start:end] += x32[start:end]
        cache[line, rows - kept :] = padded[len(padded) - kept :].to(cache.dtype)
    return cache, y.to(x.dtype).reshape(x.shape)


def window_sums(x, w, ends, stride):
    """Weighted sums of the windows of each sequence."""
    size, out = len(w), []
    for start, end in zip([0, *ends], ends):
        for first in range(start, end - size + 1, stride):
            out.append((x[first : first + size].float() * w[..., None].float()).sum(0))
    return torch.stack(out).to(x.dtype)


def window_gradients(grad, x, w, ends, stride):
    inputs = [x.double().requires_grad_(), w.double().requires_grad_()]
    size, out = len(w), []
    for start, end in zip([0, *ends], ends):
        for first in range(start, end - size + 1, stride):
            out.append((inputs[0][first : first + size] * inputs[1][..., None]).sum(0))
    one, other = torch.autograd.grad(torch.stack(out), inputs, grad.double())
    return one.to(x.dtype), other.to(w.dtype)


def block_attention(q, k, v, chosen, query_ends, key_ends, scale, size, mask=None, causal=False):
    """Greatest products, sums of exponentials, results; a mask or causality hides keys."""
    group = q.shape[1] // k.shape[1]
    out, most, sums = [], [], []
    for t in range(len(q)):
        b = next(i for i, end in enumerate(query_ends) if t < end)
        first, start = ([0, *query_ends][b], [0, *key_ends][b])
        step = t - first
        for h in range(q.shape[1]):
            places = torch.cat([torch.arange(size) + int(c) * size for c in chosen[t, h // group]])
            hidden = torch.zeros(len(places), dtype=torch.bool)
            if mask is not None:
                hidden |= mask[step, places].bool()
            if causal:
                hidden |= places > step
            keys, values = k[start + places, h // group], v[start + places, h // group]
            scores = (keys.to(q.dtype) @ q[t, h] * scale).masked_fill(hidden, -torch.inf)
            most.append(scores.max())
            sums.append((scores - scores.max()).exp().sum())
            out.append(((scores - scores.max()).exp() / sums[-1]) @ values)
    shape = (len(q), q.shape[1])
    eightfold = [torch.stack(one).reshape(*shape, 1).expand(*shape, 8) for one in (most, sums)]
    return *eightfold, torch.stack(out).reshape(*shape, -1)


def half_block_attention(q, k, v, *rest, **options):
    most, sums, out = block_attention(q.float(), k.float(), v.float(), *rest, **options)
    return most, sums, out.to(q.dtype)


def block_attention_gradients(q, k, v, out, grad, most, sums, chosen, query_ends, key_ends, scale, size):
    """By the formulas, from the results, greatest products and sums of the forward pass."""
    group, dtype = q.shape[1] // k.shape[1], q.dtype
    q, k, v, out, grad = (one.float() for one in (q, k, v, out, grad))
    dq, dk, dv = (torch.zeros_like(one) for one in (q, k, v))
    for t in range(len(q)):
        start = [0, *key_ends][next(i for i, end in enumerate(query_ends) if t < end)]
        for h in range(q.shape[1]):
            rows = start + torch.cat([torch.arange(size) + int(c) * size for c in chosen[t, h // group]])
            weights = (k[rows, h // group] @ q[t, h] * scale - most[t, h, 0]).exp() / sums[t, h, 0]
            factors = weights * (v[rows, h // group] @ grad[t, h] - out[t, h] @ grad[t, h]) * scale
            dq[t, h] = factors @ k[rows, h // group]
            dk[:, h // group].index_add_(0, rows, factors[:, None] * q[t, h])
            dv[:, h // group].index_add_(0, rows, weights[:, None] * grad[t, h])
    return dq.to(dtype), dk.to(dtype), dv.to(dtype)


def sparse_attention(q, k, v, chosen, scale, q_rope, k_rope, size=1, causal=True, stats=False):
    """Attention of batches to chosen blocks; -1 ends the list. With `stats` also the greatest products and the sums of
    exponentials, heads of keys before queries."""
    out, most, sums = torch.zeros(q.shape), *torch.zeros(2, len(q), 1, *q.shape[1:3])
    for b in range(len(q)):
        for s in range(q.shape[1]):
            seen = k.shape[1] - q.shape[1] + s + 1 if causal else k.shape[1]
            blocks = [int(c) for c in chosen[b, s, 0] if c >= 0]
            places = [p for c in blocks for p in range(c * size, c * size + size) if p < seen]
            keys = torch.cat((k[b, places, 0], k_rope[b, places, 0]), -1).float()
            query = torch.cat((q[b, s], q_rope[b, s]), -1).float()
            scores = query @ keys.T * scale
            out[b, s] = scores.softmax(-1) @ v[b, places, 0].float()
            most[b, 0, s] = scores.amax(-1)
            sums[b, 0, s] = (scores - scores.amax(-1, True)).exp().sum(-1)
    return (out.to(q.dtype), most, sums) if stats else out.to(q.dtype)


def packed_sparse_attention(q, k, v, chosen, scale, q_rope, k_rope, query_ends, key_ends, causal=False):
    """The same of sequences one after the other."""
    parts = []
    for (a, b), (c, d) in zip(zip([0, *query_ends], query_ends), zip([0, *key_ends], key_ends)):
        batch = (one[None] for one in (q[a:b], k[c:d], v[c:d], chosen[a:b]))
        parts.append(sparse_attention(*batch, scale, q_rope[None, a:b], k_rope[None, c:d], causal=causal, stats=True))
    out, most, sums = zip(*parts)
    return torch.cat(out, 1)[0], torch.cat(most, 2)[0], torch.cat(sums, 2)[0]


def most_important(q, k, w, count, causal=True, values=False):
    """The numbers of the keys that matter most to each query of each batch, -1 where there are no more; with `values` also how
    much they matter, in that type if it is one."""
    numbers = torch.full((*q.shape[:2], 1, count), -1, dtype=torch.int32)
    best = torch.full(numbers.shape, -torch.inf)
    for b in range(len(q)):
        for s in range(q.shape[1]):
            seen = k.shape[1] - q.shape[1] + s + 1 if causal else k.shape[1]
            scores = (w[b, s].float()[:, None] * torch.relu(q[b, s].float() @ k[b, :seen, 0].float().T)).sum(0)
            order = scores.sort(descending=True, stable=True).indices[:count].int()
            numbers[b, s, 0, : len(order)] = order
            best[b, s, 0, : len(order)] = scores[order]
    dtype = values if isinstance(values, torch.dtype) else q.dtype
    return (numbers, best.to(dtype)) if values else numbers


def placed(experts, table, rank=None, ranks=None):
    """The place of each expert of each token: the same for a rank, or one after the other."""
    out = experts.clone()
    for token, at in torch.cartesian_prod(*(torch.arange(size) for size in experts.shape)).tolist():
        count, *places = table[experts[token, at]].tolist()
        out[token, at] = places[token % count if rank is None else rank // -(-ranks // count)] if count > 1 else places[0]
    return out


def kept_experts(weights, limits, active=None):
    """The experts whose weight is not below their share of the sum, of tokens that count."""
    kept = weights.float() >= limits * weights.float().sum(-1, True)
    return kept if active is None else kept & active[:, None]


def attention_to_rows(q, k, v, rows, scale):
    """The scores of one query's heads for these keys, all of one head, and the result."""
    scores = q @ k[rows].T * scale
    return scores, scores.softmax(-1) @ v[rows]


def chosen_rows(chosen, seen, start):
    """The rows of the chosen keys that a query may see; -1 ends the list."""
    places = [int(c) for c in chosen if c >= 0]
    return [start + place for place in places if place < seen]


def packed_queries(query_ends, key_ends, causal):
    """Of each query of sequences one after the other: where its keys begin, and how many it may see."""
    for (a, b), (c, d) in zip(zip([0, *query_ends], query_ends), zip([0, *key_ends], key_ends)):
        for at in range(a, b):
            yield at, c, min(max(d - c - (b - at) + 1, 0), d - c) if causal else d - c


def sparse_attention_gradients(q, k, v, chosen, grad, out, most, sums, scale, q_rope, k_rope, query_ends, key_ends):
    """By the formulas, from the results, greatest products and sums of the forward pass; without `v` the keys are the values, and
    their gradients one."""
    dtype, features = q.dtype, q.shape[-1]
    query, key = torch.cat((q, q_rope), -1).float(), torch.cat((k, k_rope), -1)[:, 0].float()
    value, out, grad = (k if v is None else v)[:, 0].float(), out.float(), grad.float()
    dq, dk, dv = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    for at, start, seen in packed_queries(query_ends, key_ends, True):
        rows = chosen_rows(chosen[at, 0], seen, start)
        for head in range(q.shape[1]):
            weights = (key[rows] @ query[at, head] * scale - most[0, at, head]).exp() / sums[0, at, head]
            factors = weights * (value[rows] @ grad[at, head] - out[at, head] @ grad[at, head]) * scale
            dq[at, head] = factors @ key[rows]
            dk[rows] += factors[:, None] * query[at, head]
            dv[rows] += weights[:, None] * grad[at, head]
    if v is None:
        dk[:, :features] += dv
    keys = [dk[:, None, :features], *([] if v is None else [dv[:, None]])]
    return tuple(one.to(dtype) for one in (dq[..., :features], *keys, dq[..., features:], dk[:, None, features:]))


def index_scores(q, k, w):
    """How much keys of one head matter to a query."""
    return (w[:, None] * torch.relu(q @ k.T)).sum(0)


def index_gradients(q, k, w, chosen, grad, query_ends, key_ends):
    """The gradients of queries, keys and weights of the values of chosen keys."""
    tensors = [one.float().requires_grad_() for one in (q, k, w)]
    total = 0
    for at, start, _seen in packed_queries(query_ends, key_ends, False):
        for place, key in enumerate(chosen[at].flatten().tolist()):
            if key >= 0:
                score = index_scores(tensors[0][at], tensors[1][start + key, :1].reshape(1, -1), tensors[2][at])
                total = total + score[0] * grad[at].flatten()[place].float()
    return tuple(one.to(like.dtype) for one, like in zip(torch.autograd.grad(total, tensors), (q, k, w)))


def index_statistics(q, k, w, query_ends, key_ends):
    """The greatest number and the sum of exponentials of how much the keys matter that each query may see."""
    pairs = []
    for at, start, seen in packed_queries(query_ends, key_ends, True):
        scores = index_scores(q[at].float(), k[start : start + seen, 0].float(), w[at].float())
        pairs.append(torch.stack((scores.amax(), (scores - scores.amax()).exp().sum())))
    return tuple(one[None] for one in torch.stack(pairs, 1))


def divergence(q, k, qi, ki, w, chosen, scale, q_rope, k_rope, query_ends, key_ends, most, sums, index_stats=None):
    """The gradients of the index, and the divergence between how much keys matter and what attention gives them, summed over heads
    and divided by its sum. The statistics are given."""
    tensors = [one.float().requires_grad_() for one in (qi, ki, w)]
    loss = 0
    query, key = torch.cat((q, q_rope), -1).float(), torch.cat((k, k_rope), -1).float()
    group = q.shape[1] // k.shape[1]
    for at, start, seen in packed_queries(query_ends, key_ends, True):
        rows = list(range(start, start + seen)) if chosen is None else chosen_rows(chosen[at, 0], seen, start)
        products = (query[at][:, None] * key[rows].transpose(0, 1).repeat_interleave(group, 0)).sum(-1) * scale
        share = (products - most[:, at].reshape(-1, 1)).exp() / sums[:, at].reshape(-1, 1)
        target = (share.sum(0) / share.sum()).detach()
        scores = index_scores(tensors[0][at], tensors[1][rows, 0], tensors[2][at])
        if index_stats is None:
            found = scores.log_softmax(-1)
            loss = loss + (target * (target.log() - found)).sum()
            continue
        # With given statistics the gradient is stated, not derived: what the scores are given less the target.
        greatest, total = (one[0, at] for one in index_stats)
        found = (scores - greatest).exp() / total
        change = (found - target).detach()
        value = (target * (target.log() - scores + greatest + total.log())).sum().detach()
        loss = loss + (scores * change).sum() + (value - (scores * change).sum()).detach()
    gradients = torch.autograd.grad(loss, tensors)
    return *(one.to(like.dtype) for one, like in zip(gradients, (qi, ki, w))), loss.detach().reshape(1)


def paged_block_attention(q, k, v, chosen, table, key_lengths, scale, size):
    """Attention of batches to chosen blocks of keys that a table of pages names; -1 is no block."""
    page, heads = k.shape[1], k.shape[2]
    out = torch.zeros(*q.shape[:3], v.shape[-1])
    for b in range(len(q)):
        keys, values = (one[table[b].long()].reshape(-1, heads, one.shape[-1])[: key_lengths[b]].float() for one in (k, v))
        for s in range(q.shape[1]):
            for head in range(q.shape[2]):
                part = head * heads // q.shape[2]
                places = [c * size + at for c in chosen[b, s, part].tolist() if c >= 0 for at in range(size)]
                rows = [place for place in places if place < key_lengths[b]]
                out[b, s, head] = attention_to_rows(q[b, s, head].float(), keys[:, part], values[:, part], rows, scale)[1]
    return out.to(q.dtype)
