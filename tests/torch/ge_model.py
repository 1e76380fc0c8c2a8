"""A reader of the graph engine's models: protobuf's wire format by hand, so that it shares nothing with Cairn's own reader."""

import struct
from typing import NamedTuple

import torch

# Numbers of the types in the format; those of ge::DataType differ.
TYPES = {
    1: torch.float32, 2: torch.float16, 3: torch.int8, 4: torch.uint8, 5: torch.int16, 7: torch.int32, 8: torch.int64,
    11: torch.bool, 12: torch.float64, 27: torch.bfloat16,
}  # fmt: skip


def varint(data, at):
    """The number at an offset, and the offset after it."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def message(data):
    """The fields of a message: the values of each number, in order. Length-delimited values stay bytes."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        elif kind == 2:
            size, at = varint(data, at)
            assert at + size <= len(data), "a field is longer than its message"
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {kind} in field {number}")
        fields.setdefault(number, []).append(value)
    return fields


def last(fields, number, default):
    return fields.get(number, [default])[-1]


def text(fields, number):
    return last(fields, number, b"").decode()


def numbers(fields, number):
    """Integers, packed or one by one."""
    found = []
    for value in fields.get(number, []):
        if isinstance(value, int):
            found.append(signed(value))
            continue
        at = 0
        while at < len(value):
            one, at = varint(value, at)
            found.append(signed(one))
    return found


def floats(fields, number):
    return [one for value in fields.get(number, []) for (one,) in struct.iter_unpack("<f", value)]


def one_float(data):
    return struct.unpack("<f", data)[0]


def described(data):
    """The type and the sizes in a description; -1 is a size that is not known."""
    fields = message(data)
    return TYPES.get(last(fields, 2, 0)), tuple(numbers(message(last(fields, 3, b"")), 1))


def tensor(data):
    fields = message(data)
    dtype, sizes = described(last(fields, 1, b""))
    content = bytearray(last(fields, 2, b""))
    if not content:
        return torch.empty(sizes, dtype=dtype)
    return torch.frombuffer(content, dtype=dtype).reshape(sizes)


def attribute(data):
    """The value of an attribute; None for kinds that no operator of the reference reads."""
    fields = message(data)
    readers = {1: listed, 2: bytes.decode, 3: signed, 4: one_float, 5: bool, 12: tensor, 15: signed}
    found = [read(last(fields, number, None)) for number, read in readers.items() if number in fields]
    return found[0] if found else None


def listed(data):
    fields = message(data)
    if 2 in fields:
        return [one.decode() for one in fields[2]]
    if 4 in fields:
        return floats(fields, 4)
    for number in (3, 5, 12):
        if number in fields:
            return numbers(fields, number)
    return []


def attributes(fields, number):
    entries = (message(entry) for entry in fields.get(number, []))
    return {text(entry, 1): attribute(last(entry, 2, b"")) for entry in entries}


class Node(NamedTuple):
    """A node; an input is the name of a node with the index of its output, or None where nothing feeds it. `after` are the
    nodes that control edges put before it."""

    name: str
    type: str
    inputs: list
    after: list
    attributes: dict
    input_descs: list
    output_descs: list


def link(entry):
    name, colon, index = entry.rpartition(":")
    return (name, int(index)) if colon else None


def node(data):
    fields = message(data)
    links = [link(entry.decode()) for entry in fields.get(5, [])]
    return Node(
        text(fields, 1),
        text(fields, 2),
        [one for one in links if one is None or one[1] >= 0],
        [one[0] for one in links if one is not None and one[1] < 0],
        attributes(fields, 10),
        [described(one) for one in fields.get(33, [])],
        [described(one) for one in fields.get(34, [])],
    )


class Model:
    """The nodes of a model's first graph, and what goes in and comes out."""

    def __init__(self, data):
        graph = message(message(data)[7][0])
        self.nodes = [node(one) for one in graph.get(6, [])]
        data_nodes = [one for one in self.nodes if one.type in ("Data", "RefData")]
        self.inputs = sorted(data_nodes, key=lambda one: one.attributes.get("index", 0))
        (self.output,) = (one for one in self.nodes if one.type == "NetOutput")

    @property
    def is_dynamic(self):
        return any(size < 0 for one in self.inputs for size in one.output_descs[0][1])


def encoded(fields):
    """The bytes of a message whose fields are integers or bytes."""
    data = bytearray()
    for number, values in fields.items():
        for value in values:
            data += encoded_varint(number << 3 | (0 if isinstance(value, int) else 2))
            data += encoded_varint(value) if isinstance(value, int) else encoded_varint(len(value)) + value
    return bytes(data)


def encoded_varint(value):
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def with_outputs(data, outputs):
    """The model with other outputs: (name of a node, index of its output), each with its type."""
    model = message(data)
    graph = message(model[7][0])
    numbers_of_types = {dtype: number for number, dtype in TYPES.items()}
    names = (f"input{at}".encode() for at in range(len(outputs)))
    descs = [encoded({1: [name], 2: [numbers_of_types[dtype]], 4: [b"ND"]}) for name, (_, dtype) in zip(names, outputs)]
    links = [f"{name}:{index}".encode() for (name, index), _ in outputs]
    graph[6] = [one for one in graph[6] if text(message(one), 2) != "NetOutput"]
    graph[6].append(encoded({1: [b"NetOutput"], 2: [b"NetOutput"], 5: links, 33: descs}))
    return encoded(model | {7: [encoded(graph)]})
