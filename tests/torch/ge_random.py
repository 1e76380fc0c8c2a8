"""Models of random nodes: chains and branches of elementwise operators, with casts, views, reductions and concatenations between."""

import math
import random
from typing import NamedTuple

import torch

from ge_model import TYPES, encoded, encoded_varint
from graphs import declarations

FORMAT_NUMBERS = {dtype: number for number, dtype in TYPES.items()}
# Numbers of ge::DataType, which attributes use.
NUMBERS = {torch.float32: 0, torch.float16: 1, torch.int32: 3, torch.int64: 9, torch.bool: 12}
REALS, INTEGERS = (torch.float32, torch.float16), (torch.int32, torch.int64)
SHAPES = [
    (3, 4), (1, 4), (4,), (), (3, 1), (37, 129), (129,), (37, 1), (2, 1, 300), (2, 5, 300), (300,), (0, 4), (5000,), (1,),
]  # fmt: skip
UNARY = ["Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Square", "Sign", "Floor", "Identity", "ZerosLike"]
BINARY = ["Add", "Sub", "Mul", "Maximum", "Minimum"]
COMPARISONS = ["Greater", "Less", "Equal"]


def packed(values):
    return b"".join(encoded_varint(value & (1 << 64) - 1) for value in values)


def desc(name, dtype, sizes=None):
    fields = {1: [name.encode()], 2: [FORMAT_NUMBERS[dtype]], 4: [b"ND"]}
    return encoded(fields if sizes is None else fields | {3: [encoded({1: [packed(sizes)]})]})


def encoded_attribute(value):
    """The message of an attribute."""
    if isinstance(value, torch.Tensor):
        content = value.contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return encoded({12: [encoded({1: [desc("", value.dtype, value.shape)], 2: [content]})]})
    if isinstance(value, bool):
        return encoded({5: [int(value)]})
    if isinstance(value, int):
        return encoded({3: [value & (1 << 64) - 1]})
    return encoded({1: [encoded({3: [packed(value)], 20: [2]})]})


class ValueSpec(NamedTuple):
    """A value of the model: its node's name, its type and its sizes."""

    name: str
    dtype: torch.dtype
    sizes: tuple


class RandomModel:
    """One random model; the same for the same seed."""

    def __init__(self, seed, is_dynamic, count):
        self.random, self.is_dynamic = random.Random(seed), is_dynamic
        self.nodes, self.values, self.inputs = [], [], []
        for _ in range(self.random.randint(1, 4)):
            self.input(self.random.choice((torch.float32,) * 4 + (torch.float16, torch.int64, torch.int32, torch.bool)))
        while len(self.values) < count:
            self.step()

    def node(self, kind, sources, output=None, **attributes):
        """Adds a node; `output` is the type and the sizes of its first output."""
        name = f"{kind}_{len(self.nodes)}"
        ports = iter(declarations()[kind].inputs)
        names = [next(ports)[0] if kind not in ("ConcatV2", "Pack") else "" for _ in sources]
        links = [f"{one.name}:0".encode() for one in sources]
        descs = [desc(port, one.dtype) for port, one in zip(names, sources)] if all(names) else []
        entries = [encoded({1: [key.encode()], 2: [encoded_attribute(value)]}) for key, value in attributes.items()]
        sizes = self.declared_sizes(output) if kind == "Data" else None
        fields = {1: [name.encode()], 2: [kind.encode()], 5: links, 10: entries, 33: descs}
        self.nodes.append(encoded(fields | {34: [desc("y", output[0], sizes)]}))
        return ValueSpec(name, *output)

    def declared_sizes(self, output):
        """The sizes that an input declares: not all of them in a dynamic model."""
        return [-1 if self.is_dynamic and self.random.random() < 0.7 else size for size in output[1]]

    def input(self, dtype):
        sizes = self.random.choice(SHAPES)
        value = self.node("Data", [], (dtype, sizes), index=len(self.inputs))
        self.inputs.append((dtype, sizes))
        self.values.append(value)

    def constant(self, tensor):
        return self.node("Const", [], (tensor.dtype, tuple(tensor.shape)), value=tensor)

    def pick(self, *dtypes):
        """A value of one of these types, more often one of the newest; None if there is none."""
        candidates = [one for one in self.values if not dtypes or one.dtype in dtypes]
        return self.random.choice(candidates[-4:] if self.random.random() < 0.7 else candidates) if candidates else None

    def second_operand(self, one):
        """A value of the same type that broadcasts with `one`, or a constant that does."""
        candidates = [other for other in self.values if other.dtype == one.dtype and broadcast_sizes(one.sizes, other.sizes)]
        if candidates and self.random.random() < 0.75:
            return self.random.choice(candidates)
        sizes = self.random.choice([(), one.sizes, one.sizes[-1:]])
        generator = torch.Generator().manual_seed(self.random.randrange(1 << 30))
        numbers = torch.randint(-3, 4, sizes, generator=generator)
        return self.constant(numbers.bool() if one.dtype == torch.bool else (numbers / 2).to(one.dtype))

    def step(self):
        """Tries to add a node of a random kind; not every kind fits the values that are there."""
        kinds = [self.unary] * 5 + [self.binary] * 6 + [self.compare, self.select, self.cast] * 2
        value = self.random.choice(kinds + [self.logic, self.reshape, self.transpose, self.reduce, self.concatenate, self.softmax])()
        if value and math.prod(value.sizes) <= 20_000:
            self.values.append(value)

    def unary(self):
        one = self.pick(torch.float32, torch.float16)
        return one and self.node(self.random.choice(UNARY), [one], one[1:])

    def binary(self):
        one = self.pick(*REALS, *INTEGERS)
        if one is None:
            return None
        other = self.second_operand(one)
        pair = [one, other] if self.random.random() < 0.5 else [other, one]
        return self.node(self.random.choice(BINARY), pair, (one.dtype, broadcast_sizes(one.sizes, other.sizes)))

    def compare(self):
        one = self.pick(*REALS, *INTEGERS)
        if one is None:
            return None
        other = self.second_operand(one)
        return self.node(self.random.choice(COMPARISONS), [one, other], (torch.bool, broadcast_sizes(one.sizes, other.sizes)))

    def logic(self):
        one = self.pick(torch.bool)
        if one is None:
            return None
        other = self.second_operand(one)
        kind = self.random.choice(["LogicalAnd", "LogicalOr"])
        return self.node(kind, [one, other], (torch.bool, broadcast_sizes(one.sizes, other.sizes)))

    def select(self):
        condition, one = self.pick(torch.bool), self.pick(*REALS, *INTEGERS)
        if condition is None or one is None or not broadcast_sizes(condition.sizes, one.sizes):
            return None
        other = self.second_operand(one)
        sizes = broadcast_sizes(broadcast_sizes(condition.sizes, one.sizes) or (), other.sizes)
        return sizes and self.node("SelectV2", [condition, one, other], (one.dtype, sizes))

    def cast(self):
        one, dtype = self.pick(), self.random.choice([*REALS, *INTEGERS, torch.bool])
        if one.dtype in REALS and dtype not in REALS:
            one = self.node("Tanh", [one], one[1:])
        return self.node("Cast", [one], (dtype, one.sizes), dst_type=NUMBERS[dtype])

    def reshape(self):
        one = self.pick()
        count = math.prod(one.sizes)
        sizes = self.random.choice([(count,), (1, count), (count, 1), (1, *one.sizes)])
        return self.node("Reshape", [one, self.constant(torch.tensor(sizes))], (one.dtype, sizes))

    def transpose(self):
        one = self.pick()
        order = self.random.sample(range(len(one.sizes)), len(one.sizes))
        if not order:
            return None
        sizes = tuple(one.sizes[at] for at in order)
        return self.node("Transpose", [one, self.constant(torch.tensor(order))], (one.dtype, sizes))

    def reduce(self):
        one = self.pick(torch.float32)
        if one is None or not one.sizes or 0 in one.sizes:
            return None
        axis, keep_dims = self.random.randrange(len(one.sizes)), self.random.random() < 0.5
        sizes = one.sizes[:axis] + ((1,) if keep_dims else ()) + one.sizes[axis + 1 :]
        axes = self.constant(torch.tensor([axis]))
        return self.node(self.random.choice(["ReduceSum", "ReduceMean"]), [one, axes], (one.dtype, sizes), keep_dims=keep_dims)

    def concatenate(self):
        one = self.pick()
        if not one.sizes:
            return None
        axis = self.random.randrange(len(one.sizes))
        fits = lambda other: len(other.sizes) == len(one.sizes) and without(other.sizes, axis) == without(one.sizes, axis)
        parts = [one] + [other for other in self.values if other.dtype == one.dtype and fits(other)][:2]
        sizes = one.sizes[:axis] + (sum(part.sizes[axis] for part in parts),) + one.sizes[axis + 1 :]
        return self.node("ConcatV2", [*parts, self.constant(torch.tensor(axis))], (one.dtype, sizes), N=len(parts))

    def softmax(self):
        one = self.pick(torch.float32)
        if one is None or not one.sizes or 0 in one.sizes:
            return None
        return self.node("SoftmaxV2", [one], one[1:], axes=[-1])

    def tensors(self, seed):
        """Random inputs."""
        generator, found = torch.Generator().manual_seed(seed), []
        for dtype, sizes in self.inputs:
            integers = torch.randint(-9, 10, sizes, generator=generator)
            reals = torch.randn(sizes, generator=generator)
            found.append(reals.to(dtype) if dtype.is_floating_point else integers > 0 if dtype == torch.bool else integers.to(dtype))
        return found

    def model(self):
        """The bytes, with a few of the values as outputs."""
        outputs = self.random.sample(self.values, min(len(self.values), 3))
        links = [f"{one.name}:0".encode() for one in outputs]
        descs = [desc(f"input{at}", one.dtype) for at, one in enumerate(outputs)]
        last = encoded({1: [b"NetOutput"], 2: [b"NetOutput"], 5: links, 33: descs})
        return encoded({1: [b"random"], 7: [encoded({1: [b"random"], 6: [*self.nodes, last]})]})


def without(sizes, axis):
    return sizes[:axis] + sizes[axis + 1 :]


def broadcast_sizes(a, b):
    """The sizes that two shapes broadcast to; None if they do not."""
    try:
        return tuple(torch.broadcast_shapes(a, b))
    except RuntimeError:
        return None
