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
