"""Serves the transformer of char_transformer.py: many texts at a time, keys and values in a paged cache; draws how full the cache is.

    python generate.py [--weights weights.pt] [--steps N] [--requests N] [--blocks N] [--out cache.png]

The weights are read from a file (`char_transformer.py --save weights.pt`) or trained first; after 2,000 steps most sums are right. A request
comes every other step, and waits until the cache has blocks for all that it may write. Each step reads new prompts, and a letter of every
other text, in one batch.
"""

import argparse
import os
import random
import re
import time

import torch

import curve
from char_transformer import ALPHABET, CODE, Writer, train

BLOCK = 16  # letters
BARS = " ▁▂▃▄▅▆▇█"


class PagedWriter:
    """A `Writer` on `npu` that keeps the keys and values of texts in blocks, which belong to texts by a table."""

    def __init__(self, model, blocks):
        import torch_npu

        self.npu, self.model, self.blocks = torch_npu, model, blocks
        self.heads, width = model.blocks[0].heads, model.letters.embedding_dim
        self.size = width // self.heads
        shape = len(model.blocks), 2, blocks, BLOCK, self.heads, self.size
        self.cache = torch.zeros(shape, device="npu")
        self.future = torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1)
        self.free, self.tables, self.lengths = list(range(blocks)), {}, {}

    def in_use(self):
        return self.blocks - len(self.free)

    def release(self, text):
        self.free += self.tables.pop(text)
        del self.lengths[text]

    @torch.no_grad()
    def extend(self, parts):
        """Reads new letters, a list for each text; returns scores of the letter after the last one of each."""
        positions, slots = [], []
        for text, letters in parts.items():
            table, length = self.tables.setdefault(text, []), self.lengths.get(text, 0)
            self.lengths[text] = length + len(letters)
            while len(table) * BLOCK < self.lengths[text]:
                table.append(self.free.pop())
            for position in range(length, self.lengths[text]):
                positions.append(position)
                slots.append(table[position // BLOCK] * BLOCK + position % BLOCK)
        longest = max(len(self.tables[text]) for text in parts)
        table = [self.tables[text] + [-1] * (longest - len(self.tables[text])) for text in parts]
        ends = torch.tensor([len(letters) for letters in parts.values()]).cumsum(0)
        letters = torch.tensor([letter for part in parts.values() for letter in part])
        places = torch.tensor(slots, dtype=torch.int32).npu()
        options = dict(
            block_table=torch.tensor(table, dtype=torch.int32).npu(), block_size=BLOCK, actual_seq_qlen=ends.tolist(),
            actual_seq_kvlen=[self.lengths[text] for text in parts], input_layout="TND", num_query_heads=self.heads,
            num_key_value_heads=self.heads, softmax_scale=self.size**-0.5, sparse_mode=3, atten_mask=self.future,
        )  # fmt: skip

        x = self.model.letters(letters.npu()) + self.model.positions(torch.tensor(positions).npu())
        for block, (keys, values) in zip(self.model.blocks, self.cache):
            rows = block.qkv(block.norm_1(x)).view(len(x), 3, self.heads, self.size)
            query, key, value = (row.contiguous() for row in rows.unbind(1))
            self.npu.npu_scatter_pa_kv_cache(key, value, keys, values, places, cache_mode="Norm")
            attended, _ = self.npu.npu_fused_infer_attention_score_v2(query, keys.flatten(2), values.flatten(2), **options)
            x = x + block.out(attended.flatten(1))
            x = x + block.mlp(block.norm_2(x))
        return self.model.head(self.model.norm(x[(ends - 1).npu()]))


class Sampler:
    """Draws letters, from the most probable that together have a probability of 0.9."""

    def __init__(self, seed=0):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, scores):
        import torch_npu

        limits = torch.full((len(scores),), 0.9), torch.full((len(scores),), scores.shape[1], dtype=torch.int32)
        kept = torch_npu.npu_top_k_top_p(scores, *(limit.npu() for limit in limits))
        noise = torch.empty(scores.shape).exponential_(generator=self.generator)
        return (kept.softmax(-1) / noise.npu()).argmax(-1)


def blocks_of_a_text(model):
    """How many blocks the longest text needs."""
    return -(-model.max_length // BLOCK)


def greedy(scores):
    return scores.argmax(-1)


def serve(writer, prompts, choose, every=2):
    """Writes after each prompt until the model's longest text; returns the texts, the blocks in use after each step, and the letters written."""
    texts, waiting, running = [list(prompt) for prompt in prompts], list(range(len(prompts))), {}
    history, written = [], 0
    while waiting or running:
        while waiting and waiting[0] * every <= len(history) and len(running) < writer.blocks // blocks_of_a_text(writer.model):
            number = waiting.pop(0)
            running[number] = texts[number]
        if running:
            letters = choose(writer.extend(running)).tolist()
            written += len(letters)
            for number, letter in zip(list(running), letters):
                texts[number].append(letter)
                running[number] = [letter]
                if len(texts[number]) == writer.model.max_length:
                    del running[number]
                    writer.release(number)
        history.append(writer.in_use())
    return texts, history, written


def questions(count, seed=0):
    """Beginnings of texts, of one to four lines: the last one is a question, or part of it."""
    chance = random.Random(seed)
    prompts = []
    for _ in range(count):
        pairs = [(chance.randrange(20), chance.randrange(20)) for _ in range(chance.randint(1, 4))]
        lines = [f"{a}+{b}={a + b}" for a, b in pairs]
        lines[-1] = lines[-1][: chance.randint(1, lines[-1].index("=") + 1)]
        prompts.append("\n" + "\n".join(lines))
    return prompts


def trained(options):
    """The model, from a file or from training."""
    if options.weights and os.path.exists(options.weights):
        model = Writer().npu()
        model.load_state_dict(torch.load(options.weights, map_location="npu"))
        return model.eval()
    model, losses = train("npu", options.steps)
    print(f"trained: loss {losses[0]:.4f} -> {losses[-1]:.4f} in {options.steps} steps")
    if options.weights:
        torch.save(model.state_dict(), options.weights)
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", help="read if it exists, written if not")
    parser.add_argument("--steps", type=int, default=400, help="of training")
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--blocks", type=int, default=24, help=f"of the cache, {BLOCK} letters each")
    parser.add_argument("--out", default="generate_cache.png")
    options = parser.parse_args()
    import torch_npu  # noqa: F401

    model = trained(options)
    if options.requests < 1:
        parser.error(f"--requests {options.requests}: at least one is served")
    if options.blocks < blocks_of_a_text(model):
        parser.error(f"--blocks {options.blocks}: one text needs {blocks_of_a_text(model)}")
    writer = PagedWriter(model, options.blocks)
    prompts = questions(options.requests)
    start = time.perf_counter()
    texts, history, written = serve(writer, [[CODE[letter] for letter in prompt] for prompt in prompts], Sampler())
    seconds = time.perf_counter() - start

    sums = right = 0
    for prompt, text in zip(prompts, texts):
        text = "".join(ALPHABET[letter] for letter in text)
        print("  " + (prompt + "|" + text[len(prompt) :]).strip().replace("\n", " "))
        for a, b, c in re.findall(r"^(\d+)\+(\d+)=(\d+)(?=\n)", text[len(prompt) :], re.M):
            sums, right = sums + 1, right + (int(a) + int(b) == int(c))
    marks = f"; {right} of {sums} sums are right" if sums else "; no sum is complete: train longer (--steps)"
    print(f"{len(texts)} texts, {written} letters in {seconds:.2f} s: {written / seconds:.0f} a second" + marks)
    kib = writer.cache.nbytes / options.blocks / 1024
    dense = options.requests * blocks_of_a_text(model)
    print(f"cache: at most {max(history)} of {options.blocks} blocks in use ({max(history) * kib:.0f} KiB; a row for each text would be {dense * kib:.0f} KiB)")
    print("  " + "".join(BARS[-(-used * (len(BARS) - 1) // options.blocks)] for used in history[:: -(-len(history) // 100)]))
    curve.draw(options.out, history)
    print(f"curve: {options.out}")


if __name__ == "__main__":
    main()
