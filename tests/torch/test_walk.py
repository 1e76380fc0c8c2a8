"""A walk over the table of operators: each case of tests/walk/cases.txt through aclnn, by name through aclopExecuteV2 and
aclopCompileAndExecute, and as a graph of one node through ge::Session. All give the same bytes, those of PyTorch within its
tolerance, and the shapes that inference gave.
"""

import collections
import ctypes
import functools
import itertools
import pathlib
import re
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p

import pytest
import torch
import torch.nn.functional as F

from device import HOST_TO_DEVICE, TYPES, Device, array, call, raw
from graphs import GraphBuilder, declarations
from references import *  # noqa: F403
from references_moe import *  # noqa: F403
from support import ACL

ROOT = pathlib.Path(__file__).parents[2]
ND, HOST = 2, 1
TOLERANCES = {
    torch.float32: (1e-5, 1e-6), torch.float64: (1e-9, 1e-12), torch.float16: (2e-3, 1e-4), torch.bfloat16: (2e-2, 1e-3),
    torch.complex64: (1e-5, 1e-6),
}  # fmt: skip
# Their results are sums of products that may cancel: how far PyTorch itself is off depends on the terms, and on the processor's kernels.
SUMS = re.compile("Conv|MatMul|GEMM")
C_TYPES = {
    "int64_t": c_int64, "int32_t": c_int, "int": c_int, "aclDataType": c_int, "int8_t": ctypes.c_int8, "uint64_t": c_uint64,
    "uint32_t": ctypes.c_uint32,
    "double": ctypes.c_double, "float": ctypes.c_float, "bool": ctypes.c_bool,
}  # fmt: skip


ACL.aclGetTensorDescNumDims.restype = c_size_t


class Case:
    """One line of the file."""

    def __init__(self, line):
        self.name, inputs, attributes, outputs, aclnn, self.torch = (field.strip() for field in line.split(";", 5))
        self.inputs = [Input(text, seed) for seed, text in enumerate(inputs.split())]
        self.outputs = [shaped(text) for text in outputs.split()]
        self.attributes = [text.split("=", 1) for text in attributes.split()]
        # How many tensors each list of inputs has, where they differ: no attribute of the operator, but told each door.
        lengths = dict(self.attributes).get("_list_lengths")
        self.lengths = lengths and [int(one) for one in lengths.strip("[]").split(",")]
        self.attributes = [one for one in self.attributes if one[0] != "_list_lengths"]
        self.aclnn = None if aclnn == "-" else aclnn.split()


def shaped(text):
    """`f32[3,4]` as the name of the type and the sizes."""
    name, sizes = re.fullmatch(r"(\w+)\[([\d,]*)\]", text).groups()
    return name, tuple(int(size) for size in sizes.split(",") if size)


class Input:
    """A tensor that a case takes: on the CPU, and where it goes."""

    def __init__(self, text, seed):
        self.location, self.tensor = "device", None
        if text == "-":
            return
        location, _, rest = text.partition(":") if text.startswith(("const:", "host:")) else ("device", ":", text)
        tensor, separator, values = re.fullmatch(r"([^:=]+)([:=]?)(.*)", rest).groups()
        self.location, (self.type, self.sizes) = location, shaped(tensor)
        self.tensor = self.fill(separator, values, torch.Generator().manual_seed(seed + 1))

    def fill(self, separator, values, generator):
        """The values after `=`, or random ones in the range after `:`."""
        dtype = TYPES[self.type][1]
        if separator == "=":
            return torch.tensor([float(value) for value in values.split(",")], dtype=torch.float64).to(dtype).reshape(self.sizes)
        if dtype == torch.bool:
            return torch.randint(0, 2, self.sizes, generator=generator).bool()
        low, high = (float(value) for value in (values or ("-2..2" if dtype.is_floating_point else "-5..5")).split(".."))
        if dtype.is_floating_point:
            return (torch.rand(self.sizes, generator=generator) * (high - low) + low).to(dtype)
        return torch.randint(int(low), int(high), self.sizes, generator=generator).to(dtype)


def byte_size(shape):
    name, sizes = shape
    return torch.empty(sizes, dtype=TYPES[name][1], device="meta").nbytes


@functools.cache
def signatures():
    """The types of every aclnn function's arguments, by name."""
    kinds_by_name = {}
    for line in (ROOT / "crates/ascendcl/aclnn.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            _, name, arguments = (field.strip() for field in line.split(";"))
            kinds = (re.sub(r"\w+$", "", one.strip()) for one in arguments.split(","))
            kinds_by_name[name] = [kind.replace("const", "").replace(" ", "") for kind in kinds]
    return kinds_by_name


class ByAclnn:
    """A case through its aclnn function, in two phases."""

    def __init__(self, case, device, fill):
        self.case, self.device, self.fill = case, device, fill
        self.tensors, self.addresses = {}, {}

    def address(self, word):
        if word not in self.addresses:
            at = int(word[1:])
            inputs, outputs = self.case.inputs, self.case.outputs
            self.addresses[word] = (
                self.device.put(inputs[at].tensor) if word[0] == "x" else self.device.allocate(byte_size(outputs[at]), self.fill)
            )
        return self.addresses[word]

    def tensor(self, word):
        """The handle of `x0`, `x0.T`, `y0` or `y0<x0`."""
        word, _, start = word.partition("<")
        word, _, transposed = word.partition(".")
        address = self.address(word)
        at = int(word[1:])
        name, sizes = (self.case.inputs[at].type, self.case.inputs[at].sizes) if word[0] == "x" else self.case.outputs[at]
        if start:
            source = raw(self.case.inputs[int(start[1:])].tensor)
            count = c_size_t(source.numel())
            call("aclrtMemcpy", address, count, c_void_p(source.data_ptr()), count, HOST_TO_DEVICE)
        view = torch.empty(sizes, device="meta")
        view = view.mT if transposed else view
        dims, strides = array(c_int64, view.shape), array(c_int64, view.stride())
        handle = self.device.make(
            "aclCreateTensor", dims, c_uint64(view.dim()), TYPES[name][0], strides, c_int64(0), ND,
            array(c_int64, sizes), c_uint64(len(sizes)), address,
        )  # fmt: skip
        self.tensors[word] = handle
        return handle

    def argument(self, kind, word):
        """An argument as the function takes it."""
        if word == "null":
            return None
        if kind == "aclTensor*":
            return self.tensor(word)
        if kind == "aclTensorList*":
            members = [self.tensor(one).value for one in word.strip("{}").split(",")]
            return self.device.make("aclCreateTensorList", array(c_void_p, members), c_uint64(len(members)))
        if kind == "aclScalar*":
            value = c_int64(int(word)) if re.fullmatch(r"-?\d+", word) else ctypes.c_double(float(word))
            return self.device.make("aclCreateScalar", byref(value), TYPES["i64" if isinstance(value, c_int64) else "f64"][0])
        if kind == "aclIntArray*":
            values = [int(one) for one in word.strip("[]").split(",") if one]
            return self.device.make("aclCreateIntArray", array(c_int64, values), c_uint64(len(values)))
        if kind == "aclFloatArray*":
            values = [float(one) for one in word.strip("[]").split(",")]
            return self.device.make("aclCreateFloatArray", array(ctypes.c_float, values), c_uint64(len(values)))
        if kind == "aclBoolArray*":
            values = [one == "true" for one in word.strip("[]").split(",")]
            return self.device.make("aclCreateBoolArray", array(ctypes.c_bool, values), c_uint64(len(values)))
        if kind == "char*":
            return c_char_p(word.encode())
        if kind == "aclDataType":
            return c_int(TYPES[word][0])
        if kind == "bool":
            return ctypes.c_bool(word == "true")
        return C_TYPES[kind](float(word) if kind in ("double", "float") else int(word))

    def run(self):
        """The outputs."""
        function, *words = self.case.aclnn
        function = next(name for name in (f"aclnn{function}", f"acl{function}") if name in signatures())
        kinds = signatures()[function]
        assert len(kinds) == len(words), f"{function} takes {kinds}"
        arguments = [self.argument(kind, word) for kind, word in zip(kinds, words)]
        size, executor = c_uint64(), c_void_p()
        call(f"{function}GetWorkspaceSize", *arguments, byref(size), byref(executor))
        workspace = self.device.allocate(size.value, 0xEE) if size.value else None
        call(function, workspace, size, executor, self.device.stream)
        call("aclrtSynchronizeStream", self.device.stream)
        return [self.device.get(self.address(f"y{at}"), shape) for at, shape in enumerate(self.case.outputs)]


class ByName:
    """A case by its IR name."""

    def __init__(self, case, device, fill):
        self.case, self.device = case, device
        self.input_descs, self.input_buffers = [], []
        for one in case.inputs:
            desc, buffer = self.input(one)
            self.input_descs.append(desc.value)
            self.input_buffers.append(buffer.value)
        if case.lengths:
            lists = [name for name, kind in declarations()[case.name].inputs if kind == "dynamic"]
            names = itertools.chain.from_iterable([name] * length for name, length in zip(lists, case.lengths))
            for desc, name in zip(self.input_descs, names):
                call("aclSetTensorDynamicInput", c_void_p(desc), name.encode())
        self.attributes = self.device.make("aclopCreateAttr")
        for name, value in case.attributes:
            self.set(name.encode(), value)
        self.outputs = [device.allocate(byte_size(shape), fill) for shape in case.outputs]

    def desc(self, name, sizes):
        return self.device.make("aclCreateTensorDesc", TYPES[name][0], len(sizes), array(c_int64, sizes), ND)

    def buffer(self, address, count):
        return self.device.make("aclCreateDataBuffer", address, c_size_t(count))

    def input(self, one):
        if one.tensor is None:
            return self.device.make("aclCreateTensorDesc", -1, 0, None, -1), self.buffer(None, 0)
        desc = self.desc(one.type, one.sizes)
        source = self.device.keep(raw(one.tensor))
        address, count = c_void_p(source.data_ptr()), source.numel()
        if one.location == "device":
            return desc, self.buffer(self.device.put(one.tensor), count)
        if one.location == "const":
            call("aclSetTensorConst", desc, address, c_size_t(count))
        else:
            call("aclSetTensorPlaceMent", desc, HOST)
        return desc, self.buffer(address, count)

    def set(self, name, value):
        if value.startswith("!"):
            call("aclopSetAttrDataType", self.attributes, name, TYPES[value[1:]][0])
        elif value.startswith("["):
            values = [int(one) for one in value.strip("[]").split(",")]
            call("aclopSetAttrListInt", self.attributes, name, len(values), array(c_int64, values))
        elif value in ("true", "false"):
            call("aclopSetAttrBool", self.attributes, name, ctypes.c_uint8(value == "true"))
        elif re.fullmatch(r"-?\d+", value):
            call("aclopSetAttrInt", self.attributes, name, c_int64(int(value)))
        elif re.fullmatch(r"-?[\d.]+", value):
            call("aclopSetAttrFloat", self.attributes, name, ctypes.c_float(float(value)))
        else:
            call("aclopSetAttrString", self.attributes, name, value.encode())

    def name_and_inputs(self):
        """The name and the inputs as the functions of aclop take them."""
        return (
            self.case.name.encode(), len(self.input_descs),
            array(c_void_p, self.input_descs), array(c_void_p, self.input_buffers),
        )  # fmt: skip

    def sizes(self, desc):
        """The type and sizes in a description."""
        kind, size = ACL.aclGetTensorDescType(desc), c_int64()
        sizes = []
        for at in range(ACL.aclGetTensorDescNumDims(desc)):
            call("aclGetTensorDescDimV2", desc, c_size_t(at), byref(size))
            sizes.append(size.value)
        return next(name for name, (number, _) in TYPES.items() if number == kind), tuple(sizes)

    def inferred(self):
        """What inference says of the outputs."""
        descs = [self.desc("f32", ()) for _ in self.outputs]
        desc_array = array(c_void_p, (one.value for one in descs))
        call("aclopInferShape", *self.name_and_inputs(), len(descs), desc_array, self.attributes)
        return [self.sizes(one) for one in descs]

    def run(self, function, *extra_arguments):
        """The outputs, and the sizes that the function wrote back."""
        descs = [self.desc(*shape) for shape in self.case.outputs]
        buffers = [self.buffer(address, byte_size(shape)).value for address, shape in zip(self.outputs, self.case.outputs)]
        outputs = (len(descs), array(c_void_p, (one.value for one in descs)), array(c_void_p, buffers))
        call(function, *self.name_and_inputs(), *outputs, self.attributes, *extra_arguments, self.device.stream)
        call("aclrtSynchronizeStream", self.device.stream)
        outputs = [self.device.get(address, shape) for address, shape in zip(self.outputs, self.case.outputs)]
        return outputs, [self.sizes(one)[1] for one in descs]


# Operators that write inputs other than the first: outputs that have the name of an input are that input.
WRITE_NAMED_INPUTS = {
    "InplaceFusedCausalConv1d", "KvRmsNormRopeCache", "MlaProlog", "MlaPrologV2", "MlaPrologV3", "QkvRmsNormRopeCache", "ScatterPaKvCache",
}  # fmt: skip
# Operators that write their first input in place.
IN_PLACE_OPERATORS = {
    "ApplyAdamD", "ApplyAdamV2", "ApplyAdamW", "ApplyRotaryPosEmb", "Assign", "AssignAdd", "AssignSub", "InplaceIndexAdd", "NPUGetFloatStatus", "Scatter",
    "ScatterList", "ScatterNdAdd", "ScatterNdMax", "ScatterNdMin", "ScatterNdMul", "ScatterNdUpdate", "ScatterUpdate", "ViewCopy",
}  # fmt: skip


class AsGraph:
    """A case as a graph of one node."""

    def __init__(self, case, engine):
        self.case, self.engine, self.ir = case, engine, declarations()[case.name]
        # Inputs that are written in place -> outputs that they are: all tensors of a list.
        is_list = bool(self.ir.inputs) and self.ir.inputs[0][1] == "dynamic"
        count = len(case.outputs) if is_list else 1
        inputs, outputs = ([one[0] for one in all] for all in (self.ir.inputs, self.ir.outputs))
        named = {inputs.index(name): at for at, name in enumerate(outputs) if name in inputs}
        if case.name in IN_PLACE_OPERATORS:
            self.written_inputs = {at: at for at in range(count)}
        else:
            self.written_inputs = named if case.name in WRITE_NAMED_INPUTS else {}

    def graph(self, sized=tuple, is_fed=lambda one: one.location == "device"):
        """The graph, with what `sized` makes of the sizes of its inputs. What is not fed in a run is a constant."""
        with GraphBuilder(self.engine) as builder:
            op = builder.operator(self.case.name, "node")
            sources, data_nodes = [], []
            for one in self.case.inputs:
                if one.tensor is None:
                    sources.append(None)
                elif is_fed(one):
                    data_nodes.append(builder.data(len(data_nodes), one.tensor.dtype, sized(one.sizes)))
                    sources.append(data_nodes[-1])
                else:
                    sources.append(builder.constant(one.tensor))
            builder.feed(op, self.ir.inputs, sources, self.case.lengths)
            for name, kind in self.ir.outputs:
                if kind == "dynamic":
                    builder.grow_outputs(op, name, len(self.case.outputs))
            for name, value in self.case.attributes:
                self.set(builder.door, op, name, value)
            return builder.graph(data_nodes or [one for one in sources if one], op)

    def set(self, door, op, name, value):
        kind = self.ir.attributes.get(name)
        assert kind, f"the IR of {self.case.name} declares no attribute {name}"
        key = name.encode()
        if kind == "Type":
            door.door_set_type(op, key, TYPES[value[1:]][0])
        elif kind == "Int":
            door.door_set_int(op, key, TYPES[value[1:]][0] if value.startswith("!") else int(value))
        elif kind == "Float":
            door.door_set_float(op, key, float(value))
        elif kind == "Bool":
            door.door_set_bool(op, key, value == "true")
        elif kind == "ListInt":
            values = [int(one) for one in value.strip("[]").split(",")]
            door.door_set_ints(op, key, array(c_int64, values), len(values))
        else:
            door.door_set_text(op, key, value.encode())

    def runs(self, device):
        """The outputs on the host; on a stream into memory of ours; on a stream into memory of the pool, with sizes, their
        number, and the values that decide them known only in the run."""
        everything = [one.tensor for one in self.case.inputs if one.tensor is not None]
        tensors = [one.tensor for one in self.case.inputs if one.tensor is not None and one.location == "device"]
        with self.graph() as graph:
            yield "RunGraph", graph.run(tensors)
        with self.graph() as graph:
            outputs = [(TYPES[name][1], sizes) for name, sizes in self.case.outputs]
            yield "RunGraphWithStreamAsync", graph.run_on(device, tensors, outputs, self.written_inputs)
        with self.graph(lambda sizes: [-1] * len(sizes)) as graph:
            yield "a graph of unknown sizes", graph.run_on(device, tensors, written_inputs=self.written_inputs)
        with self.graph(lambda _: [-2]) as graph:
            yield "a graph of unknown ranks", graph.run_on(device, tensors, written_inputs=self.written_inputs)
        if len(tensors) == len(everything):
            return
        with self.graph(is_fed=lambda _: True) as graph:
            yield "a graph without constants", graph.run_on(device, everything, written_inputs=self.written_inputs)


def gradient(function, x, grad):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x), x, grad)[0]


def sorted_by(x, dim, descending):
    values, indices = x.sort(dim=dim, descending=descending, stable=True)
    return values, indices.int()


def cumulative(function, x):
    values, indices = function(x, 1)
    return values, indices.int()


def top(x, count, **options):
    values, indices = x.topk(count, **options)
    return values, indices.int()


def bits(mask, count):
    """The first `count` bits of bytes, the lowest of each byte first."""
    return ((mask[:, None] >> torch.arange(8)) & 1).flatten()[:count].bool()


def rms_gradients(dy, x, scale, weight):
    """The gradients of input and weight; `scale` is the reciprocal root mean square."""
    normed = x * scale
    grad = dy * weight
    return scale * (grad - normed * (grad * normed).mean(-1, True)), (dy * normed).sum(0)


def batch_norm(x, weight, bias, mean, variance):
    """The result, the running statistics after it, the statistics of this batch."""
    mean, variance = mean.clone(), variance.clone()
    result, *saved = torch.native_batch_norm(x, weight, bias, mean, variance, True, 0.1, 1e-5)
    return result, mean, variance, *saved


def lstm_layer(x, w, b, h, c, order="ifjo", mask=None, backward=False, forget_bias=0.0):
    """The output of one layer, both states after each step, gates, the tanh of the cell state. The rows of `w` are the
    weights of the inputs, then those of the hidden state; `order` is that of the gates in its columns."""
    states, gates = [None] * len(x), [None] * len(x)
    h, c = h.reshape(h.shape[-2:]), c.reshape(c.shape[-2:])
    for step in reversed(range(len(x))) if backward else range(len(x)):
        blocks = dict(zip(order, (torch.cat([x[step], h], 1) @ w + b).chunk(4, 1)))
        i, f, o = (torch.sigmoid(blocks[gate] + (forget_bias if gate == "f" else 0)) for gate in "ifo")
        j = torch.tanh(blocks["j"])
        cell = f * c + i * j
        active = torch.ones_like(c) if mask is None else mask[step].to(c.dtype)
        gates[step] = (i, j, f, o, torch.tanh(cell))
        out = o * torch.tanh(cell) * active
        h, c = out + h * (1 - active), cell * active + c * (1 - active)
        states[step] = (out, h, c)
    y, hs, cs = (torch.stack(one) for one in zip(*states))
    return y, hs, cs, *(torch.stack(one) for one in zip(*gates))


def lstm_split(x, wx, wh, b, h, c, order="ifjo"):
    """As `lstm_layer`, with only the states after the last step."""
    y, hs, cs, *rest = lstm_layer(x, torch.cat([wx, wh]), b, h, c, order)
    return y, hs[-1:], cs[-1:], *rest


def lstm_gradients(x, w, h0, c0, hs, cs, dy, dh, dc, i, j, f, o, order="ifjo", mask=None, backward=False, tanh=None):
    """The gradients of weights, bias, inputs and both initial states, by the formulas, from saved gates and states."""
    dh, dc, dx = dh.clone(), dc.clone(), torch.zeros_like(x)
    dw, db = torch.zeros_like(w), torch.zeros(w.shape[1])
    steps = list(reversed(range(len(x)))) if backward else list(range(len(x)))
    for at, step in reversed(list(enumerate(steps))):
        h, c = (hs[steps[at - 1]], cs[steps[at - 1]]) if at else (h0, c0)
        active = torch.ones_like(h) if mask is None else mask[step].to(h.dtype)
        tanh_cell = torch.tanh(cs[step]) if tanh is None else tanh[step]
        dout = (dy[step] + dh) * active
        dcell = (dout * o[step] * (1 - tanh_cell**2) + dc) * active
        by_gate = {
            "i": dcell * j[step] * i[step] * (1 - i[step]),
            "j": dcell * i[step] * (1 - j[step] ** 2),
            "f": dcell * c * f[step] * (1 - f[step]),
            "o": dout * tanh_cell * o[step] * (1 - o[step]),
        }
        dgates = torch.cat([by_gate[gate] for gate in order], 1)
        dw += torch.cat([x[step], h], 1).T @ dgates
        db += dgates.sum(0)
        dx_and_dh = dgates @ w.T
        dx[step], dh = dx_and_dh[:, : x.shape[2]], dx_and_dh[:, x.shape[2] :] + dh * (1 - active)
        dc = dcell * f[step] + dc * (1 - active)
    return dw, db, dx, dh, dc


def split_gradients(x, wx, wh, *rest):
    """As `lstm_gradients`, with both weights separate and the tanh of the cell state last."""
    dw, *others = lstm_gradients(x, torch.cat([wx, wh]), *rest[:-1], tanh=rest[-1])
    return dw[: len(wx)], dw[len(wx) :], *others


def gru_layer(x, wx, wh, bx, bh, h, order="rzh"):
    """The output of one layer, its states, update gate, reset gate, candidate, and what the reset gate is multiplied by."""
    results = []
    for step in x:
        of_input, of_hidden = (dict(zip(order, gates.chunk(3, 1))) for gates in (step @ wx + bx, h @ wh + bh))
        r, z = (torch.sigmoid(of_input[gate] + of_hidden[gate]) for gate in "rz")
        n = torch.tanh(of_input["h"] + r * of_hidden["h"])
        h = (1 - z) * n + z * h
        results.append((h, h, z, r, n, of_hidden["h"]))
    return tuple(torch.stack(one) for one in zip(*results))


def gru_gradients(x, wx, wh, h0, hs, dy, dh, z, r, n, hn, order="rzh"):
    """The gradients of both weights, both biases, inputs and initial state, by the formulas."""
    of_inputs, of_hiddens, states = [], [], [h0, *hs[:-1]]
    for step in reversed(range(len(x))):
        dh = dh + dy[step]
        update = dh * (states[step] - n[step]) * z[step] * (1 - z[step])
        candidate = dh * (1 - z[step]) * (1 - n[step] ** 2)
        reset = candidate * hn[step] * r[step] * (1 - r[step])
        blocks = {"r": reset, "z": update, "h": candidate}
        of_inputs.insert(0, torch.cat([blocks[gate] for gate in order], 1))
        of_hiddens.insert(0, torch.cat([(blocks | {"h": candidate * r[step]})[gate] for gate in order], 1))
        dh = of_hiddens[0] @ wh.T + dh * z[step]
    of_input, of_hidden, before = (torch.cat(one) for one in (of_inputs, of_hiddens, states))
    dx = (of_input @ wx.T).reshape(x.shape)
    return x.flatten(0, 1).T @ of_input, before.T @ of_hidden, of_input.sum(0), of_hidden.sum(0), dx, dh


def with_int_indices(pair):
    """Values, and their indices as 32-bit integers."""
    return pair[0], pair[1].int()


def swish_gradients(grad, mean, rstd, x, weight, bias, factor=1.5):
    """The gradients of a group norm in three groups of two channels with y * sigmoid(factor * y) after it."""
    by_group = lambda one: one.repeat_interleave(2, 1)[..., None]
    y = ((x - by_group(mean)) * by_group(rstd) * weight[:, None] + bias[:, None]).requires_grad_()
    dy = torch.autograd.grad(y * torch.sigmoid(factor * y), y, grad)[0]
    return torch.ops.aten.native_group_norm_backward(dy, x, mean, rstd, weight, 2, 6, 4, 3, [True, True, True])


def complete_iou(a, b):
    """CIoU of boxes given by centre and size: IoU less the penalties of distance and aspect ratio; and the difference of the
    boxes' angles atan(w / h)."""
    low, high = torch.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2), torch.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2)
    intersection = (high - low).clamp(min=0).prod(0)
    iou = intersection / (a[2:].prod(0) + b[2:].prod(0) - intersection)
    enclosing = torch.maximum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2) - torch.minimum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2)
    angle = torch.atan(b[2] / b[3]) - torch.atan(a[2] / a[3])
    aspect = 4 / torch.pi**2 * angle**2
    distance = ((a[:2] - b[:2]) ** 2).sum(0) / (enclosing**2).sum(0)
    return (iou - distance - aspect**2 / (1 - iou + aspect)).reshape(1, -1), angle.reshape(1, -1)


def pooled_region(x, low, high, bins):
    """One sample in the middle of each of `bins` x `bins` parts of a region that lies inside of the first image."""
    rows, columns = x.shape[2:]
    middles = (torch.arange(bins) + 0.5) / bins
    coordinates = [2 * (low[i] + middles * (high[i] - low[i])) / (size - 1) - 1 for i, size in enumerate((columns, rows))]
    grid = torch.stack(torch.meshgrid(*coordinates, indexing="xy"), -1)[None]
    return F.grid_sample(x[:1], grid, align_corners=True)


def attention(query, key, value, scale):
    """The greatest scores and the sums of their exponentials, eight times each; an empty tensor; the result."""
    scores = scale * query @ key.mT
    maxima = scores.amax(-1, True)
    weights = (scores - maxima).exp()
    sums = weights.sum(-1, True)
    eightfold = [one.expand(*one.shape[:-1], 8).contiguous() for one in (maxima, sums)]
    return *eightfold, query.new_empty(0), weights / sums @ value


def attention_gradients(query, key, value, grad, scale):
    inputs = [one.clone().requires_grad_() for one in (query, key, value)]
    result = F.scaled_dot_product_attention(*inputs, scale=scale)
    return *torch.autograd.grad(result, inputs, grad), query.new_empty(0)


def adamw(x, mean, square, grad, step, rate, beta1, beta2, decay, epsilon):
    """The variable and both means after one step."""
    mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad * grad
    root = (square / (1 - beta2**step)).sqrt() + epsilon
    return x * (1 - rate * decay) - rate * mean / (1 - beta1**step) / root, mean, square


def evaluated(expression, case, outputs=()):
    """The value of an expression of x0, x1, .. on the CPU, and of y0, y1, .. when there are outputs."""
    names = {f"x{at}": one.tensor for at, one in enumerate(case.inputs)} | {f"y{at}": one for at, one in enumerate(outputs)}
    return eval(expression, globals() | {"aten": torch.ops.aten} | names)


def expected(case):
    """What PyTorch says on the CPU."""
    answer = evaluated(case.torch, case)
    return [answer] if isinstance(answer, torch.Tensor) else list(answer)


def assert_as_torch(case, outputs):
    for one, want in zip(outputs, expected(case), strict=True):
        relative, absolute = TOLERANCES.get(one.dtype, (0, 0))
        if SUMS.search(case.name) and want.is_floating_point() and want.numel():
            absolute *= max(1, want.double().pow(2).mean().sqrt().item())
        torch.testing.assert_close(one, want, rtol=relative, atol=absolute, equal_nan=True)


def cut_to(output, sizes):
    """The beginning of an output whose final sizes depend on values, in those sizes."""
    count = torch.Size(sizes).numel()
    return output if output.shape == sizes else output.flatten()[:count].reshape(sizes)


def lines_of(name):
    """The lines of a file but comments and empty ones."""
    return [line for line in (ROOT / "tests/walk" / name).read_text().splitlines() if line and not line.startswith("#")]


def function_case(line):
    """A case of an aclnn function that has no operator by name."""
    inputs, outputs, aclnn, expression = (field.strip() for field in line.split(";", 3))
    return Case(f"; {inputs}; ; {outputs}; {aclnn}; {expression}")


CASES = [Case(line) for line in lines_of("cases.txt")]
RUN_COUNTS = collections.Counter()
NUMBERS_BY_NAME = {}
IDS = [f"{case.name}-{NUMBERS_BY_NAME.setdefault(case.name, itertools.count()).__next__()}" for case in CASES]
FUNCTION_CASES = [function_case(line) for line in lines_of("aclnn.txt")]


@pytest.fixture(scope="module", autouse=True)
def device_0():
    torch.npu.set_device(0)
    torch.npu.synchronize()


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_one_operator_through_every_door(case, engine):
    assert case.aclnn or case.torch != "-", "nothing to compare with"
    with Device() as device:
        executed, sizes = ByName(case, device, 0xA5).run("aclopExecuteV2")
        by_name = ByName(case, device, 0x5A)
        assert by_name.inferred() == case.outputs
        compiled, _ = by_name.run("aclopCompileAndExecute", 0, 0, None)
        ways = {"aclopCompileAndExecute": compiled}
        if case.aclnn:
            ways["aclnn"] = ByAclnn(case, device, 0x3C).run()
        # A graph has outputs.
        graphs = dict(AsGraph(case, engine).runs(device)) if case.outputs else {}
    executed = [cut_to(one, size) for one, size in zip(executed, sizes)]
    for way, outputs in ways.items():
        for at, (one, other, size) in enumerate(zip(executed, outputs, sizes)):
            assert torch.equal(raw(one), raw(cut_to(other, size))), f"output {at}: {one} by aclopExecuteV2, {other} by {way}"
    for way, outputs in graphs.items():
        for at, (one, other) in enumerate(zip(executed, outputs, strict=True)):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), f"output {at} by {way}"
            assert torch.equal(raw(one), raw(other)), f"output {at}: {one} by aclopExecuteV2, {other} by {way}"
    RUN_COUNTS.update([*["case"][: len(graphs)], "aclopExecuteV2", *ways, *graphs])
    if case.torch != "-":
        assert_as_torch(case, executed)


def test_every_case_went_through_every_kind_of_graph(capsys):
    """Counts what the test above compared, whichever of its cases were run."""
    with capsys.disabled():
        print(f"\nwalk: {', '.join(f'{count} by {way}' for way, count in RUN_COUNTS.items() if way != 'case')}", end=" ")
    for way in ("RunGraph", "RunGraphWithStreamAsync", "a graph of unknown sizes", "a graph of unknown ranks"):
        assert RUN_COUNTS[way] == RUN_COUNTS["case"], way


@pytest.mark.parametrize("case", FUNCTION_CASES, ids=[case.aclnn[0] for case in FUNCTION_CASES])
def test_one_function_of_aclnn(case):
    with Device() as device:
        outputs = ByAclnn(case, device, 0x3C).run()
    if case.torch.startswith("?"):
        assert evaluated(case.torch[1:].strip(), case, outputs), outputs
    else:
        assert_as_torch(case, outputs)
