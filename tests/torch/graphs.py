"""Graphs through ge::Session, by way of ge_door.cpp."""

import ctypes
import functools
import itertools
import pathlib
import re
from ctypes import POINTER, byref, c_bool, c_char_p, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

import pytest
import torch

import builds
from device import NUMBERS, array, from_host, from_device, int64s, raw

IR = pathlib.Path(__file__).parents[2] / "cpp/operators.txt"
MAX_DIMS = 8


class DoorTensor(ctypes.Structure):
    """A tensor of a run; see ge_door.cpp."""

    _fields_ = [
        ("type", c_int32), ("is_on_host", c_int32), ("rank", c_uint64), ("dims", POINTER(c_int64)), ("data", c_void_p),
        ("bytes", c_uint64),
    ]  # fmt: skip


TENSORS = POINTER(DoorTensor)
FUNCTIONS = {
    "door_text": (c_char_p,),
    "door_open": (c_uint32,),
    "door_close": (c_uint32,),
    "door_knows": (c_bool, c_char_p),
    "door_operator": (c_void_p, c_char_p, c_char_p),
    "door_release_operator": (None, c_void_p),
    "door_grow": (None, c_void_p, c_char_p, c_uint32, c_bool),
    "door_feed": (None, c_void_p, c_char_p, c_void_p),
    "door_describe": (c_uint32, c_void_p, c_int32, POINTER(c_int64), c_uint64),
    "door_set_tensor": (None, c_void_p, c_char_p, TENSORS),
    "door_set_int": (None, c_void_p, c_char_p, c_int64),
    "door_set_float": (None, c_void_p, c_char_p, c_float),
    "door_set_bool": (None, c_void_p, c_char_p, c_bool),
    "door_set_text": (None, c_void_p, c_char_p, c_char_p),
    "door_set_type": (None, c_void_p, c_char_p, c_int32),
    "door_set_ints": (None, c_void_p, c_char_p, POINTER(c_int64), c_uint64),
    "door_graph": (c_void_p, c_char_p, POINTER(c_void_p), c_uint64, c_void_p),
    "door_model": (c_void_p, c_char_p, c_uint64),
    "door_release_graph": (None, c_void_p),
    "door_add": (c_uint32, c_uint32, c_void_p, POINTER(c_char_p), c_uint64),
    "door_remove": (c_uint32, c_uint32),
    "door_register": (c_uint32, c_void_p),
    "door_unregister": (c_uint32, c_void_p),
    "door_blocks": (None, POINTER(c_uint64), POINTER(c_uint64)),
    "door_run": (c_void_p, c_uint32, c_void_p, TENSORS, c_uint64, TENSORS, c_uint64),
    "door_outputs": (c_uint64, c_void_p),
    "door_output": (None, c_void_p, c_uint64, TENSORS, POINTER(c_int64)),
    "door_release_outputs": (None, c_void_p),
}


class Declaration:
    """What the IR declares of an operator type: inputs and outputs with their kind, and the types of attributes."""

    def __init__(self, inputs, outputs, attributes):
        self.inputs, self.outputs = self.ports(inputs), self.ports(outputs)
        parts = (one.split(",")[0].strip() for one in attributes.split(";") if one.strip())
        self.attributes = dict(part.replace("!", "").split(":") for part in parts)

    def ports(self, field):
        found = re.findall(r"(\w+)(\?|\[\])?", field)
        return [(name, {"": "required", "?": "optional", "[]": "dynamic"}[mark]) for name, mark in found]


@functools.cache
def declarations():
    """What the IR declares, by operator type."""
    lines = (line for line in IR.read_text().splitlines() if not line.startswith("#"))
    fields = ([field.strip() for field in line.split("|")] for line in lines)
    return {name: Declaration(inputs, outputs, attributes) for name, inputs, outputs, attributes, *_graphs in fields}


class Engine:
    """The session of ge_door.cpp; open from the first use to the end of the run."""

    def __init__(self, library):
        self.door = ctypes.CDLL(library)
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(self.door, name)
            function.restype, function.argtypes = result, arguments
        self.ids = itertools.count(1)
        self.check("GEInitialize", self.door.door_open() == 0)

    def close(self):
        self.check("GEFinalize", self.door.door_close() == 0)

    def text(self):
        return self.door.door_text().decode()

    def check(self, what, ok):
        """Fails the test with the engine's text."""
        if not ok:
            pytest.fail(f"{what} failed: {self.text() or 'without a text'}", pytrace=False)

    def knows(self, kind):
        return self.door.door_knows(kind.encode())

    def blocks(self):
        """How many blocks the engine took from the pool, and how many came back."""
        taken, given_back = c_uint64(), c_uint64()
        self.door.door_blocks(byref(taken), byref(given_back))
        return taken.value, given_back.value

    def model(self, data, **options):
        """The graph in the bytes of a model."""
        graph = self.door.door_model(data, len(data))
        self.check("Graph::LoadFromSerializedModelArray", graph)
        return Graph(self, graph, options)


def door_tensors(tensors):
    """An array of tensors for ge_door.cpp, its length, and what has to live as long. Each tensor is given as
    (dtype, sizes, address, bytes, is on the host)."""
    size_arrays, door_list = [], []
    for dtype, sizes, address, count, is_on_host in tensors:
        size_arrays.append(int64s(sizes))
        door_list.append(DoorTensor(NUMBERS[dtype], is_on_host, len(sizes), size_arrays[-1], address, count))
    return array(DoorTensor, door_list), len(door_list), size_arrays


class Graph:
    """A graph in the session, to be used with `with`."""

    def __init__(self, engine, handle, options):
        self.engine, self.handle, self.id = engine, handle, next(engine.ids)
        words = [word.encode() for key, value in options.items() for word in (key, value)]
        status = engine.door.door_add(self.id, handle, array(c_char_p, words), len(words))
        if status != 0:
            engine.door.door_release_graph(handle)
        engine.check("Session::AddGraph", status == 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        status = self.engine.door.door_remove(self.id)
        self.engine.door.door_release_graph(self.handle)
        self.engine.check("Session::RemoveGraph", status == 0)

    def run(self, tensors):
        """What the graph makes of tensors on the CPU, by RunGraph."""
        host_bytes = [raw(one) for one in tensors]
        inputs = [(one.dtype, one.shape, data.data_ptr(), data.numel(), True) for one, data in zip(tensors, host_bytes)]
        return self.outputs("Session::RunGraph", None, inputs, [], lambda: None)

    def run_on(self, device, tensors, outputs=(), written_inputs=None):
        """The same by RunGraphWithStreamAsync, with the tensors copied to the device and, for outputs given as
        (dtype, sizes), memory of exactly their bytes; without them the engine takes it from the pool. No input may change,
        but for those in `written_inputs`: at the end such an input has to equal the output of the index it maps to."""
        addresses = [device.put(one) for one in tensors]
        inputs = [(one.dtype, one.shape, address, one.nbytes, False) for one, address in zip(tensors, addresses)]
        sizes = [torch.empty(shape, dtype=dtype, device="meta").nbytes for dtype, shape in outputs]
        preallocated = [(*shape, device.allocate(size, 0x5A), size, False) for shape, size in zip(outputs, sizes)]
        self.engine.check("RegisterExternalAllocator", self.engine.door.door_register(device.stream) == 0)
        try:
            found = self.outputs("RunGraphWithStreamAsync", device.stream, inputs, preallocated, device.synchronize)
        finally:
            self.engine.check("UnregisterExternalAllocator", self.engine.door.door_unregister(device.stream) == 0)
        expected = dict(enumerate(tensors))
        expected |= {at: found[output] for at, output in (written_inputs or {}).items()}
        for at, (one, address) in enumerate(zip(tensors, addresses)):
            after = from_device(address.value, one.dtype, one.shape)
            assert torch.equal(raw(expected[at]), raw(after)), f"input {at} is {after} after the run"
        return found

    def outputs(self, what, stream, inputs, outputs, synchronize):
        door = self.engine.door
        (inputs, input_count, _input_sizes), (outputs, output_count, _output_sizes) = door_tensors(inputs), door_tensors(outputs)
        results = door.door_run(self.id, stream, inputs, input_count, outputs, output_count)
        self.engine.check(what, results)
        try:
            synchronize()
            return [self.output(results, at) for at in range(door.door_outputs(results))]
        finally:
            door.door_release_outputs(results)

    def output(self, results, at):
        described, dims = DoorTensor(), (c_int64 * MAX_DIMS)()
        self.engine.door.door_output(results, at, byref(described), dims)
        dtype = next(dtype for dtype, number in NUMBERS.items() if number == described.type)
        sizes = dims[: described.rank]
        count = torch.empty(sizes, dtype=dtype, device="meta").nbytes
        assert described.bytes >= count, f"output {at} is {dtype}{sizes} in {described.bytes} bytes"
        read = from_host if described.is_on_host else from_device
        return read(described.data, dtype, sizes) if count else torch.zeros(sizes, dtype=dtype)


class GraphBuilder:
    """Builds a graph of operators, which are released at the end."""

    def __init__(self, engine):
        self.engine, self.door, self.operators = engine, engine.door, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for op in self.operators:
            self.door.door_release_operator(op)

    def operator(self, kind, name=None):
        op = self.door.door_operator((name or f"{kind}_{len(self.operators)}").encode(), kind.encode())
        self.engine.check(f"OperatorFactory::CreateOperator of {kind}", op)
        self.operators.append(op)
        return op

    def data(self, index, dtype, sizes):
        """An input of the graph; -1 is a size that is not known."""
        op = self.operator("Data")
        self.door.door_set_int(op, b"index", index)
        status = self.door.door_describe(op, NUMBERS[dtype], int64s(sizes), len(sizes))
        self.engine.check("Operator::UpdateInputDesc of Data", status == 0)
        return op

    def constant(self, tensor):
        op, source = self.operator("Const"), raw(tensor)
        value, _, _sizes = door_tensors([(tensor.dtype, tensor.shape, source.data_ptr(), source.numel(), True)])
        self.door.door_set_tensor(op, b"value", value)
        return op

    def feed(self, op, ports, sources, lengths=None):
        """Feeds declared inputs in their order; None feeds nothing, and dynamic inputs have these lengths, or share equally what
        the others leave, at least one each."""
        rest, single_count = iter(sources), sum(kind != "dynamic" for _, kind in ports)
        dynamic_count = len(ports) - single_count
        shared = (len(sources) - single_count) // max(dynamic_count, 1)
        counts = iter(lengths or [max(shared, 1)] * dynamic_count)
        for name, kind in ports:
            if kind != "dynamic":
                self.link(op, name, next(rest, None))
                continue
            count = next(counts)
            self.door.door_grow(op, name.encode(), count, False)
            for at in range(count):
                self.link(op, f"{name}{at}", next(rest))
        assert next(rest, None) is None, f"the IR declares fewer inputs than {len(sources)}"

    def link(self, op, name, source):
        if source is not None:
            self.door.door_feed(op, name.encode(), source)

    def grow_outputs(self, op, name, count):
        self.door.door_grow(op, name.encode(), count, True)

    def graph(self, inputs, output, **options):
        handle = self.door.door_graph(b"one node", array(c_void_p, inputs), len(inputs), output)
        self.engine.check("Graph::SetInputs, SetOutputs", handle)
        return Graph(self.engine, handle, options)


def build(folder):
    """Begins to compile ge_door.cpp."""
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{builds.home()}/include", f"-L{builds.home()}/lib64", "-lge_runner"]
    return builds.Build(folder, builds.HERE / "ge_door.cpp", *flags, name="ge_door.so")
