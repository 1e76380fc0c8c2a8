"""Writes traces of programs that do not exist: the order and the sizes in which a transformer takes
and frees memory, worked out by hand. `python3 synthesize.py` writes them again, byte for byte.

    synthetic_train.trc   training of a decoder: bf16, AdamW, gradients dropped after each step, another
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
        activations, x = [], t.take(*rows, width)
        for _ in range(layers):
            norm = t.take(*rows, width)
            qkv = t.take(*rows, 3 * width)
            qkv_by_head = t.take(*rows, 3 * width)
            with t.scratch(batch, heads, length, length):
                probabilities = t.take(batch, heads, length, length)
            attended = t.take(*rows, width)
            with t.scratch(*rows, width):
                middle = t.take(*rows, width)
            norm_2 = t.take(*rows, width)
            hidden = t.take(*rows, 4 * width)
            active = t.take(*rows, 4 * width)
            with t.scratch(*rows, width):
                out = t.take(*rows, width)
            t.free(qkv)
            activations.append((x, norm, qkv_by_head, probabilities, attended, middle, norm_2, hidden, active))
            x = out
        logits = t.take(*rows, vocabulary)
        with t.scratch(*rows, vocabulary, 2):  # the loss, in f32
            loss = t.take(2)
            gradient = t.take(*rows, vocabulary)
        t.free(logits)
        gradients = [t.take(vocabulary, width)]
        x_gradient = t.take(*rows, width)
        t.free(gradient, x)
        for layer in reversed(range(layers)):
            layer_input, norm, qkv_by_head, probabilities, attended, middle, norm_2, hidden, active = activations[layer]
            layer_shapes = shapes[1 + 6 * layer : 7 + 6 * layer]
            active_gradient = t.take(*rows, 4 * width)
            gradients.append(t.take(*layer_shapes[5]))
            t.free(active)
            hidden_gradient = t.take(*rows, 4 * width)
            t.free(active_gradient, hidden)
            gradient = t.take(*rows, width)
            gradients.append(t.take(*layer_shapes[4]))
            t.free(hidden_gradient, norm_2)
            gradients.append(t.take(*layer_shapes[1]))
            with t.scratch(*rows, width):
                t.free(gradient, middle)
            gradient = t.take(*rows, width)
            gradients.append(t.take(*layer_shapes[3]))
            t.free(attended)
            with t.scratch(batch, heads, length, length):
                scores_gradient = t.take(batch, heads, length, length)
                t.free(probabilities)
            qkv_gradient = t.take(*rows, 3 * width)
            t.free(scores_gradient, qkv_by_head, gradient)
            gradient = t.take(*rows, width)
            gradients.append(t.take(*layer_shapes[2]))
            t.free(qkv_gradient, norm)
            gradients.append(t.take(*layer_shapes[0]))
            next_gradient = t.take(*rows, width)
            t.free(gradient, x_gradient, layer_input)
            x_gradient = next_gradient
        t.free(x_gradient, loss, ids)
        if moments is None:
            moments = [t.take(*shape, 2) for shape in shapes for _ in range(2)]  # f32
        for shape in shapes:
            with t.scratch(*shape, 2), t.scratch(*shape, 2):
                pass
        t.free(*gradients)
    t.write("synthetic_train.trc")


def serve(width=2048, layers=6, heads=16, vocabulary=32000, rounds=160, max_requests=12):
    t, rng = Trace(), random.Random(2)
    weights(t, width, layers, vocabulary)
    requests = []

    def forward(tokens, context):
        x = t.take(tokens, width)
        for _ in range(layers):
            qkv = t.take(tokens, 3 * width)
            with t.scratch(heads, tokens, context):
                attended = t.take(tokens, width)
            t.free(qkv)
            with t.scratch(tokens, 4 * width):
                out = t.take(tokens, width)
            t.free(attended, x)
            x = out
        with t.scratch(tokens, vocabulary):
            t.free(x)

    for _ in range(rounds):
        if len(requests) < max_requests and rng.random() < 0.35:
            prompt = rng.randrange(16, 700)
            forward(prompt, prompt)
            capacity = -(-prompt // 128) * 128
            caches = [t.take(capacity, width) for _ in range(2 * layers)]
            requests.append([prompt, prompt + rng.randrange(8, 400), capacity, caches])
        if requests:
            forward(len(requests), max(length for length, *_ in requests))
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
