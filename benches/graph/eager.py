"""Runs models in PyTorch's eager mode, on the CPU, one run for each line that asks for it.

Lines: `load KIND FILE` with the numbers of the input and then of all weights, in the order
of the layers, where KIND is `mlp:ROWS:WIDTH:..` or `bert:LAYERS:SEQUENCE`; `run`, answered with
nanoseconds; `output`, answered with the output's numbers. Every answer is one line of JSON.
"""

import json
import sys
import time

import numpy
import torch
from torch.nn import functional

HEADS = 12
WIDTH = 768
INNER = 3072


class Numbers:
    """Tensors one after the other from a file of floats."""

    def __init__(self, file):
        self.values = numpy.fromfile(file, dtype="<f4")
        self.offset = 0

    def take(self, *sizes):
        count = int(numpy.prod(sizes))
        part = self.values[self.offset : self.offset + count].reshape(sizes)
        self.offset += count
        return torch.from_numpy(part.copy())

    def linear(self, inputs, out):
        """A weight in the layout of torch.nn.Linear, and a bias."""
        weight = self.take(inputs, out).t().contiguous()
        return weight, self.take(out)


def perceptron(numbers, rows, *widths):
    x = numbers.take(rows, widths[0])
    layers = [numbers.linear(inputs, out) for inputs, out in zip(widths, widths[1:])]

    def forward():
        y = functional.linear(x, *layers[0])
        for weight, bias in layers[1:]:
            y = functional.linear(functional.relu(y), weight, bias)
        return y

    return forward


def encoder(numbers, layers, sequence):
    x = numbers.take(sequence, WIDTH)
    blocks = []
    for _ in range(layers):
        q, k, v, out = (numbers.linear(WIDTH, WIDTH) for _ in range(4))
        norm_1 = numbers.take(WIDTH), numbers.take(WIDTH)
        up = numbers.linear(WIDTH, INNER)
        down = numbers.linear(INNER, WIDTH)
        norm_2 = numbers.take(WIDTH), numbers.take(WIDTH)
        blocks.append((q, k, v, out, norm_1, up, down, norm_2))

    def split(y):
        return y.view(1, sequence, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward():
        y = x
        for q, k, v, out, norm_1, up, down, norm_2 in blocks:
            heads = (split(functional.linear(y, *one)) for one in (q, k, v))
            attended = functional.scaled_dot_product_attention(*heads)
            attended = attended.transpose(1, 2).reshape(sequence, WIDTH)
            y = functional.layer_norm(functional.linear(attended, *out) + y, (WIDTH,), *norm_1)
            inner = functional.gelu(functional.linear(y, *up))
            y = functional.layer_norm(functional.linear(inner, *down) + y, (WIDTH,), *norm_2)
        return y

    return forward


def load(kind, file):
    name, *sizes = kind.split(":")
    make = {"mlp": perceptron, "bert": encoder}[name]
    return make(Numbers(file), *map(int, sizes))


def main():
    forward = None
    with torch.inference_mode():
        for line in sys.stdin:
            command, *rest = line.split()
            if command == "load":
                forward = load(*rest)
                answer = True
            else:
                start = time.perf_counter_ns()
                result = forward()
                took = time.perf_counter_ns() - start
                answer = took if command == "run" else result.flatten().tolist()
            print(json.dumps(answer), flush=True)


main()
