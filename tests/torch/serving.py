"""Texts that a decoder writes on `npu`, with dense and paged caches, and what its twin on the CPU writes.

    difference = serving.check("llama", "paged", "several", "greedy", torch.float32)     an empty text when there is none
"""

import functools
from typing import NamedTuple

import torch

import decoders

# Scores, which are about 3 in size, differ from the twin's by less than this. A choice is clear if it is decided by more than twice as much.
TOLERANCES = {torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 4e-1}
STEPS = 8
BLOCK = 16
# What no token was written to: it would show.
UNWRITTEN = 1e4

MODELS = {"llama": decoders.LLAMA, "mixture": decoders.MIXTURE}
# Some reach into the next block within `STEPS`.
PROMPTS = {"one": (13,), "several": (3, 31, 14, 1)}


def mask_of_future():
    """What sparse modes 2 to 4 want: the upper triangle of 2,048 positions."""
    return torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()


class Cache:
    """What writes texts: `start` reads prompts, `step` a token more of each; both return scores of what comes next. `ON_DEVICE` are the
    functions that only compute on the device, for `torch.compile`."""

    ON_DEVICE = []

    def compile(self, **options):
        for name in self.ON_DEVICE:
            setattr(self, name, torch.compile(getattr(self, name), fullgraph=True, **options))


class Dense(Cache):
    """A row of the cache for each sequence, prompts padded at their end: `npu_prompt_flash_attention`, then `npu_incre_flash_attention`."""

    def __init__(self, decoder, prompts):
        self.decoder, sizes = decoder, decoder.sizes
        shape = len(prompts), sizes.shared_heads, max(map(len, prompts)) + STEPS, sizes.features
        self.caches = [[torch.full(shape, UNWRITTEN, dtype=decoder.norm.dtype, device="npu") for _ in range(2)] for _ in range(sizes.depth)]
        self.options = dict(num_heads=sizes.heads, num_key_value_heads=sizes.shared_heads, scale_value=sizes.features**-0.5)

    def start(self, prompts):
        import torch_npu

        self.lengths = [len(prompt) for prompt in prompts]
        count, longest, future = len(prompts), max(self.lengths), mask_of_future()
        tokens = torch.tensor([prompt + [0] * (longest - len(prompt)) for prompt in prompts]).flatten().npu()
        positions = torch.arange(longest).repeat(count).npu()

        def attend(number, *parts):
            rows = [part.unflatten(0, (count, longest)) for part in parts]
            for cache, row in zip(self.caches[number], rows[1:]):
                cache[:, :, :longest] = row.transpose(1, 2)
            return torch_npu.npu_prompt_flash_attention(
                *(row.flatten(2) for row in rows), input_layout="BSH", actual_seq_lengths=self.lengths, actual_seq_lengths_kv=self.lengths,
                sparse_mode=2, atten_mask=future, **self.options,
            ).flatten(0, 1)  # fmt: skip

        last = torch.tensor([row * longest + length - 1 for row, length in enumerate(self.lengths)]).npu()
        return self.decoder(tokens, positions, attend, last)

    def step(self, tokens):
        import torch_npu

        positions = torch.tensor(self.lengths).npu()
        self.lengths = [length + 1 for length in self.lengths]

        def attend(number, query, key, value):
            for cache, row in zip(self.caches[number], (key, value)):
                torch_npu.scatter_update_(cache, positions, row[:, :, None], -2)
            return torch_npu.npu_incre_flash_attention(
                query[:, :, None].contiguous(), *self.caches[number], input_layout="BNSD", actual_seq_lengths=self.lengths, **self.options
            ).flatten(1)

        return self.decoder(tokens, positions, attend, slice(None))


class Padded(Cache):
    """A row of the cache for each sequence, prompts padded at their start, and masks that hide the padding: every step has the same
    sizes and writes the same column, so that one static graph does all."""

    ON_DEVICE = ["start_on_device", "step_on_device"]

    def __init__(self, decoder, prompts):
        self.decoder, sizes = decoder, decoder.sizes
        self.length = max(map(len, prompts)) + STEPS
        shape = len(prompts), sizes.shared_heads, self.length, sizes.features
        self.caches = [[torch.full(shape, UNWRITTEN, dtype=decoder.norm.dtype, device="npu") for _ in range(2)] for _ in range(sizes.depth)]
        self.options = dict(num_heads=sizes.heads, num_key_value_heads=sizes.shared_heads, scale=sizes.features**-0.5, input_layout="BNSD")

    def start(self, prompts):
        self.at = longest = max(map(len, prompts))
        self.padding = torch.tensor([longest - len(prompt) for prompt in prompts]).npu()
        tokens = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts]).npu()
        column = torch.arange(longest).npu()
        # A token of the padding sees itself.
        hidden = (column > column[:, None]) | (column < self.padding[:, None, None]) & (column != column[:, None])
        return self.start_on_device(tokens, hidden[:, None])

    def start_on_device(self, tokens, hidden):
        import torch_npu

        count, longest = tokens.shape
        positions = (torch.arange(longest, device="npu") - self.padding[:, None]).clamp(min=0).flatten()

        def attend(number, *parts):
            rows = [part.unflatten(0, (count, longest)).transpose(1, 2).contiguous() for part in parts]
            for cache, row in zip(self.caches[number], rows[1:]):
                cache[:, :, :longest] = row
            result = torch_npu.npu_fused_infer_attention_score(*rows, atten_mask=hidden, sparse_mode=1, **self.options)[0]
            return result.transpose(1, 2).flatten(0, 1).flatten(1)

        last = torch.arange(1, count + 1, device="npu") * longest - 1
        return self.decoder(tokens.flatten(), positions, attend, last)

    def step(self, tokens):
        column = torch.arange(self.length).npu()
        hidden = ((column > self.at) | (column < self.padding[:, None]))[:, None, None]
        places = torch.full_like(self.padding, self.at)
        self.at += 1
        return self.step_on_device(tokens, places, hidden)

    def step_on_device(self, tokens, places, hidden):
        import torch_npu

        def attend(number, query, key, value):
            for cache, row in zip(self.caches[number], (key, value)):
                torch_npu.scatter_update_(cache, places, row[:, :, None], -2)
            return torch_npu.npu_fused_infer_attention_score(
                query[:, :, None].contiguous(), *self.caches[number], atten_mask=hidden, sparse_mode=1, **self.options
            )[0].flatten(1)

        return self.decoder(tokens, places - self.padding, attend, slice(None))


class Paged(Cache):
    """Blocks of a cache that belong to sequences by a table; batches of any numbers of new tokens of any sequences.

    `form` is how blocks are laid out: "Norm" or "PA_NZ". `step_by` is the operator of steps with one token for each sequence: 1 and 2
    are `npu_fused_infer_attention_score` and `.._v2`, 0 is `npu_incre_flash_attention`. With `chunk` prompts are read in parts of that many tokens.
    """

    ON_DEVICE = ["on_device"]

    def __init__(self, decoder, blocks, form="Norm", step_by=2, chunk=None):
        self.decoder, sizes = decoder, decoder.sizes
        self.form, self.step_by, self.chunk, self.blocks = form, step_by, chunk, blocks
        dtype, heads, features = decoder.norm.dtype, sizes.shared_heads, sizes.features
        last = 32 // torch.empty(0, dtype=dtype).element_size()
        if form == "Norm":
            shape, self.view = (blocks, BLOCK, heads, features), lambda cache: cache.flatten(2)
        else:
            shape = blocks, heads * features // last, BLOCK, last
            self.view = lambda cache: cache.unflatten(1, (heads, -1))
        self.caches = [[torch.full(shape, UNWRITTEN, dtype=dtype, device="npu") for _ in range(2)] for _ in range(sizes.depth)]
        self.future = mask_of_future()
        self.free = torch.randperm(blocks, generator=torch.Generator().manual_seed(1)).tolist()
        self.tables, self.lengths = {}, {}

    def release(self, sequence):
        self.free += self.tables.pop(sequence)
        del self.lengths[sequence]

    def extend(self, counts, tokens):
        """Reads new tokens, a row of them with `counts[sequence]` for each; scores of what comes after the last one of each."""
        positions, slots = [], []
        for sequence, count in counts.items():
            table, length = self.tables.setdefault(sequence, []), self.lengths.get(sequence, 0)
            while len(table) * BLOCK < length + count:
                table.append(self.free.pop())
            places = range(length, length + count)
            positions += places
            slots += [table[place // BLOCK] * BLOCK + place % BLOCK for place in places]
            self.lengths[sequence] = length + count
        tables = [self.tables[sequence] for sequence in counts]
        longest = max(map(len, tables))
        table = torch.tensor([one + [-1] * (longest - len(one)) for one in tables], dtype=torch.int32).npu()
        ends = torch.tensor(list(counts.values())).cumsum(0)
        lengths = [self.lengths[sequence] for sequence in counts]
        numbers = torch.tensor(positions).npu(), torch.tensor(slots, dtype=torch.int32).npu(), table, (ends - 1).npu()
        return self.on_device(tokens, *numbers, ends.tolist(), lengths)

    def on_device(self, tokens, positions, slots, table, last, ends, lengths):
        import torch_npu

        sizes, is_step = self.decoder.sizes, len(tokens) == len(lengths)
        heads = dict(num_key_value_heads=sizes.shared_heads)
        scale = sizes.features**-0.5

        def attend(number, query, key, value):
            caches = self.caches[number]
            torch_npu.npu_scatter_pa_kv_cache(key, value, *caches, slots, cache_mode=self.form)
            caches = [self.view(cache) for cache in caches]
            if is_step and self.step_by == 0:
                return torch_npu.npu_incre_flash_attention(
                    query.flatten(1)[:, None], *caches, input_layout="BSH", num_heads=sizes.heads, scale_value=scale, block_table=table,
                    block_size=BLOCK, actual_seq_lengths=lengths, **heads,
                )[:, 0]  # fmt: skip
            if is_step and self.step_by == 1:
                return torch_npu.npu_fused_infer_attention_score(
                    query[:, :, None].contiguous(), *caches, input_layout="BNSD", num_heads=sizes.heads, scale=scale, block_table=table,
                    block_size=BLOCK, actual_seq_lengths_kv=lengths, **heads,
                )[0].flatten(1)  # fmt: skip
            return torch_npu.npu_fused_infer_attention_score_v2(
                query, *caches, input_layout="TND", num_query_heads=sizes.heads, softmax_scale=scale, block_table=table, block_size=BLOCK,
                actual_seq_qlen=ends, actual_seq_kvlen=lengths, sparse_mode=3, atten_mask=self.future, **heads,
            )[0].flatten(1)  # fmt: skip

        return self.decoder(tokens, positions, attend, last)

    def start(self, prompts):
        results, done = [None] * len(prompts), 0
        while None in results:
            chunk = self.chunk or max(map(len, prompts))
            parts = {number: prompt[done : done + chunk] for number, prompt in enumerate(prompts) if len(prompt) > done}
            tokens = torch.tensor(sum(parts.values(), [])).npu()
            logits = self.extend({number: len(part) for number, part in parts.items()}, tokens)
            done += chunk
            for number, row in zip(parts, logits):
                if len(prompts[number]) <= done:
                    results[number] = row
        return torch.stack(results)

    def step(self, tokens):
        return self.extend(dict.fromkeys(range(len(tokens)), 1), tokens)


def blocks_for(lengths):
    """How many blocks texts of these lengths need."""
    return sum(-(-length // BLOCK) for length in lengths)


def paged(**options):
    return lambda decoder, prompts: Paged(decoder, blocks_for(len(prompt) + STEPS for prompt in prompts) + 1, **options)


CACHES = {
    "dense": Dense, "padded": Padded, "paged": paged(), "paged, v1": paged(step_by=1), "paged, incremental": paged(step_by=0),
    "paged, in chunks": paged(chunk=5), "paged, NZ": paged(form="PA_NZ"),
}  # fmt: skip


class Greedy:
    """The token with the highest score."""

    def __init__(self, sequences, vocabulary):
        pass

    def scores(self, logits, sequence, step):
        """On the CPU and for one sequence: what the best of is taken."""
        return logits

    def choose(self, logits, sequences, step):
        """On the device and for many sequences."""
        return logits.argmax(-1)


class Sampled(Greedy):
    """One of the most probable tokens, by noise that was drawn before: sampling with a temperature, top k and top p."""

    TEMPERATURE = 0.8

    def __init__(self, sequences, vocabulary):
        generator = torch.Generator().manual_seed(7)
        self.noise = torch.empty(sequences, STEPS, vocabulary).exponential_(generator=generator)
        self.k = torch.tensor([20, 5, vocabulary, 2])[:sequences].int()
        self.p = torch.tensor([0.9, 0.7, 0.8, 1.0])[:sequences]

    def scores(self, logits, sequence, step):
        logits, order = (logits / self.TEMPERATURE).sort(descending=True)
        logits[self.k[sequence] :] = -torch.inf
        probability = logits.softmax(-1)
        logits[probability.cumsum(-1) - probability >= self.p[sequence]] = -torch.inf
        return torch.full_like(logits, -torch.inf).scatter(0, order, logits) - self.noise[sequence, step].log()

    def choose(self, logits, sequences, step):
        import torch_npu

        logits, rows = logits.float() / self.TEMPERATURE, list(sequences)
        filtered = torch_npu.npu_top_k_top_p(logits, self.p[rows].npu(), self.k[rows].npu())
        return filtered.softmax(-1).div_(self.noise[rows, step].npu()).argmax(-1)


class SampledAtOnce(Sampled):
    """The same by one operator. Its noise is for the tokens that are kept, in the order of their scores."""

    def scores(self, logits, sequence, step):
        kept = super().scores(logits, sequence, step) + self.noise[sequence, step].log()
        order = kept.argsort(descending=True)
        return kept - torch.zeros_like(kept).scatter(0, order, (self.noise[sequence, step] + 1e-8).log())

    def choose(self, logits, sequences, step):
        import torch_npu

        rows, logits = list(sequences), logits / self.TEMPERATURE
        p = self.p[rows].to(logits.dtype).npu()
        return torch_npu.npu_top_k_top_p_sample(logits, self.k[rows].npu(), p, self.noise[rows, step].npu())[0]


CHOICES = {"greedy": Greedy, "sampled": Sampled, "sampled at once": SampledAtOnce}


class Written(NamedTuple):
    """What the twin writes after a prompt, its scores before each token, and by how much each choice was decided."""

    tokens: list
    scores: torch.Tensor
    margins: list


def written(twin, prompt, choice, sequence, least=0.0):
    """Lets the twin write; None as soon as a choice, of a token or of experts, is decided by less than `least`."""
    text, scores, margins = list(prompt), [], []
    for step in range(STEPS):
        scores.append(twin.logits(text))
        best = choice.scores(scores[-1], sequence, step).topk(2)
        margins.append((best.values[0] - best.values[1]).item())
        if min(margins[-1], twin.margin) < least:
            return None
        text.append(best.indices[0].item())
    return Written(text[len(prompt) :], torch.stack(scores), margins)


@functools.lru_cache(maxsize=None)
def case(sizes, lengths, choice, dtype):
    """Weights, prompts, the choice of tokens and what the twin writes. In float32 these are the first weights with which every choice is clear,
    so that rounding decides nothing; in other types rounding is too large to find such, and only choices of experts are."""
    clear = 2 * TOLERANCES[dtype]
    for seed in range(100):
        generator = torch.Generator().manual_seed(seed)
        prompts = [torch.randint(sizes.vocabulary, (length,), generator=generator).tolist() for length in lengths]
        weights = decoders.Weights(sizes, dtype, seed)
        twin, choices, expected = decoders.Twin(weights), CHOICES[choice](len(prompts), sizes.vocabulary), []
        for number, prompt in enumerate(prompts):
            expected.append(written(twin, prompt, choices, number, clear if dtype == torch.float32 else 0.0))
            if expected[-1] is None or twin.margin < TOLERANCES[dtype]:
                break
        else:
            return weights, prompts, choices, expected
    raise AssertionError("of a hundred seeds none has weights that choose clearly")


def compare(tokens, scores, expected, tolerance):
    """How tokens and scores, a list for each sequence, differ from the twin's; an empty text when they do not. Choices that are not clear
    do not count; too many of them are a difference."""
    clear = [[margin > 2 * tolerance for margin in one.margins] for one in expected]
    apart = max((have - one.scores).abs().max().item() for have, one in zip(scores, expected, strict=True))
    triples = [triple for have, one, flags in zip(tokens, expected, clear) for triple in zip(have, one.tokens, flags, strict=True)]
    if any(have != want and flag for have, want, flag in triples):
        return f"wrote {tokens}, and the twin {[one.tokens for one in expected]}; scores are apart by {apart:g}"
    if sum(flag for *_, flag in triples) < len(triples) / 4:
        return f"of {len(triples)} choices, too few are clear: {clear}"
    return "" if apart < tolerance else f"scores are apart by {apart:g}"


@torch.no_grad()
def generate(cache, prompts, choice, follow=None):
    """The tokens that are chosen after each prompt, and the scores before them. With `follow` the text goes on with those tokens instead."""
    logits, tokens, scores = cache.start(prompts), [], []
    for step in range(STEPS):
        scores.append(logits)
        tokens.append(choice.choose(logits, range(len(prompts)), step).long())
        if step + 1 < STEPS:
            logits = cache.step(tokens[-1] if follow is None else torch.tensor([one[step] for one in follow]).npu())
    return torch.stack(tokens, 1).tolist(), torch.stack(scores, 1).float().cpu()


def check(model, cache, batch, choice, dtype=torch.float32, prepare=lambda cache: None, **options):
    """How what a decoder on `npu` writes differs from its twin; an empty text when it does not. `options` are those of the decoder.

    In float32 it writes by itself; in other types it continues the twin's text, and must choose as the twin where that chooses clearly."""
    weights, prompts, choices, expected = case(MODELS.get(model, model), PROMPTS[batch], choice, dtype)
    made = CACHES[cache](decoders.Decoder(weights, **options), prompts)
    prepare(made)
    follow = None if dtype == torch.float32 else [one.tokens for one in expected]
    return compare(*generate(made, prompts, choices, follow), expected, TOLERANCES[dtype])


@torch.no_grad()
def serve(cache, prompts, lengths, most, choice):
    """Continuous batching: at most `most` sequences at a time, a waiting one takes the place and the blocks of one that is done. Its
    prompt is read in the batch in which others write their next token."""
    waiting, running = list(range(len(prompts))), {}
    tokens, scores = [[] for _ in prompts], [[] for _ in prompts]
    while waiting or running:
        while waiting and len(running) < most and len(cache.free) >= blocks_for([len(prompts[waiting[0]]) + lengths[waiting[0]]]):
            sequence = waiting.pop(0)
            running[sequence] = prompts[sequence]
        logits = cache.extend({sequence: len(part) for sequence, part in running.items()}, torch.tensor(sum(running.values(), [])).npu())
        for sequence, row in zip(list(running), logits):
            step = len(tokens[sequence])
            token = choice.choose(row[None], [sequence], step).item()
            tokens[sequence].append(token)
            scores[sequence].append(row.float().cpu())
            running[sequence] = [token]
            if len(tokens[sequence]) == lengths[sequence]:
                del running[sequence]
                cache.release(sequence)
    return tokens, [torch.stack(rows) for rows in scores]


def check_queue(model, choice):
    """The same with continuous batching: each text of another length, two at a time, in fewer blocks than all need together."""
    weights, prompts, choices, expected = case(MODELS[model], PROMPTS["several"], choice, torch.float32)
    lengths = [STEPS, 5, 2, 7]
    cache = Paged(decoders.Decoder(weights), 5)
    have = serve(cache, prompts, lengths, 2, choices)
    assert sorted(cache.free) == list(range(5)), cache.free
    expected = [Written(*(part[:length] for part in one)) for one, length in zip(expected, lengths)]
    return compare(*have, expected, TOLERANCES[torch.float32])
