"""Writes traces of programs that do not exist: the order and the sizes in which a transformer takes
and frees memory, worked out by hand. `python3 synthesize.py` writes them again, byte for byte.

    synthetic_train.trc   a decoder learns: bf16, AdamW, gradients dropped after each step, another
                          sequence length every step
    synthetic_serve.trc   a decoder serves: requests come and go, each with caches of keys and values
                          that grow by a block of tokens at a time
"""

import random
from contextlib import contextmanager
from pathlib import Path


class Trace:
    """The lines of a trace, and what is live."""

    def __init__(self):
        self.lines, self.count = [], 0

    def take(self, *shape):
        size = 2  # bf16
        for extent in shape:
            size *= extent
        self.lines.append(f"a {self.count} {size}")
        self.count += 1
        return self.count - 1

    def free(self, *blocks):
        self.lines.extend(f"f {block}" for block in blocks)

    @contextmanager
    def scratch(self, *shape):
        block = self.take(*shape)
        yield block
        self.free(block)

    def write(self, name):
        Path(__file__).with_name(name).write_text("\n".join(self.lines) + "\n")


def weights(t, width, layers, vocabulary):
    """Embedding, then for each layer: two norms, queries-keys-values, output, two of the MLP."""
    shapes = [(vocabulary, width)]
    for _ in range(layers):
        shapes += [(width,), (width,), (3 * width, width), (width, width), (4 * width, width), (width, 4 * width)]
    return shapes, [t.take(*shape) for shape in shapes]


def train(width=1024, layers=8, heads=16, vocabulary=8192, batch=4, steps=6):
    t, rng = Trace(), random.Random(1)
    shapes, _ = weights(t, width, layers, vocabulary)
    moments = None
    for _ in range(steps):
        length = rng.randrange(96, 513)
        rows = (batch, length)
        ids = t.take(*rows, 4)
        kept, x = [], t.take(*rows, width)
        for _ in range(layers):
            norm = t.take(*rows, width)
            qkv = t.take(*rows, 3 * width)
            heads_first = t.take(*rows, 3 * width)
            with t.scratch(batch, heads, length, length):
                weights_of = t.take(batch, heads, length, length)
            mixed = t.take(*rows, width)
            with t.scratch(*rows, width):
                middle = t.take(*rows, width)
            norm_2 = t.take(*rows, width)
            hidden = t.take(*rows, 4 * width)
            active = t.take(*rows, 4 * width)
            with t.scratch(*rows, width):
                out = t.take(*rows, width)
            t.free(qkv)
            kept.append((x, norm, heads_first, weights_of, mixed, middle, norm_2, hidden, active))
            x = out
        logits = t.take(*rows, vocabulary)
        with t.scratch(*rows, vocabulary, 2):  # the loss, in f32
            loss = t.take(2)
            gradient = t.take(*rows, vocabulary)
        t.free(logits)
        gradients = [t.take(vocabulary, width)]
        flow = t.take(*rows, width)
        t.free(gradient, x)
        for layer in reversed(range(layers)):
            before, norm, heads_first, weights_of, mixed, middle, norm_2, hidden, active = kept[layer]
            own = shapes[1 + 6 * layer : 7 + 6 * layer]
            wide = t.take(*rows, 4 * width)
            gradients.append(t.take(*own[5]))
            t.free(active)
            wide_2 = t.take(*rows, 4 * width)
            t.free(wide, hidden)
            back = t.take(*rows, width)
            gradients.append(t.take(*own[4]))
            t.free(wide_2, norm_2)
            gradients.append(t.take(*own[1]))
            with t.scratch(*rows, width):
                t.free(back, middle)
            back = t.take(*rows, width)
            gradients.append(t.take(*own[3]))
            t.free(mixed)
            with t.scratch(batch, heads, length, length):
                scores = t.take(batch, heads, length, length)
                t.free(weights_of)
            parts = t.take(*rows, 3 * width)
            t.free(scores, heads_first, back)
            back = t.take(*rows, width)
            gradients.append(t.take(*own[2]))
            t.free(parts, norm)
            gradients.append(t.take(*own[0]))
            following = t.take(*rows, width)
            t.free(back, flow, before)
            flow = following
        t.free(flow, loss, ids)
        if moments is None:
            moments = [t.take(*shape, 2) for shape in shapes for _ in range(2)]  # f32
        for shape in shapes:
            with t.scratch(*shape, 2), t.scratch(*shape, 2):
                pass
        t.free(*gradients)
    t.write("synthetic_train.trc")


def serve(width=2048, layers=6, heads=16, vocabulary=32000, rounds=160, most=12):
    t, rng = Trace(), random.Random(2)
    weights(t, width, layers, vocabulary)
    requests = []

    def pass_through(tokens, context):
        x = t.take(tokens, width)
        for _ in range(layers):
            qkv = t.take(tokens, 3 * width)
            with t.scratch(heads, tokens, context):
                mixed = t.take(tokens, width)
            t.free(qkv)
            with t.scratch(tokens, 4 * width):
                out = t.take(tokens, width)
            t.free(mixed, x)
            x = out
        with t.scratch(tokens, vocabulary):
            t.free(x)

    for _ in range(rounds):
        if len(requests) < most and rng.random() < 0.35:
            prompt = rng.randrange(16, 700)
            pass_through(prompt, prompt)
            capacity = -(-prompt // 128) * 128
            caches = [t.take(capacity, width) for _ in range(2 * layers)]
            requests.append([prompt, prompt + rng.randrange(8, 400), capacity, caches])
        if requests:
            pass_through(len(requests), max(length for length, *_ in requests))
        for request in list(requests):
            request[0] += 8
            length, end, capacity, caches = request
            if length >= end:
                t.free(*caches)
                requests.remove(request)
            elif length > capacity:
                for at, old in enumerate(caches):
                    caches[at] = t.take(capacity + 128, width)
                    t.free(old)
                request[2] = capacity + 128
    t.write("synthetic_serve.trc")


if __name__ == "__main__":
    train()
    serve()
