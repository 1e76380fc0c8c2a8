"""Small models: ONNX written field by field, compiled by the toolkit's atc; and data sets with device memory."""

import os
import pathlib
import struct
import subprocess
import sys
import threading

import acl
from support import DEVICE_TO_HOST, FLOAT, HOST_TO_DEVICE, ND

mdl = acl.mdl
WEIGHTS = [1, 0, 0, 0, 2, 0, 0, 0, 3], [10, 20, 30]
INT64 = 7


def varint(value):
    """A number as protobuf writes it, seven bits a byte."""
    value &= (1 << 64) - 1
    data = b""
    while value >= 0x80:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    """A field with a str, or with the bytes of a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def value_info(name, dims, element=1):
    """The description of an input or output; -1 is an unknown size, None an unknown rank."""
    sizes = [text(1, text(2, "n") if size < 0 else number(1, size)) for size in dims or []]
    shape = b"" if dims is None else text(2, b"".join(sizes))
    return text(1, name) + text(2, text(1, number(1, element) + shape))


def node(kind, name, inputs, output):
    return b"".join(text(1, one) for one in inputs) + text(2, output) + text(3, name) + text(4, kind)


def tensor(name, dims, numbers):
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    return b"".join(number(1, size) for size in dims) + number(2, 1) + text(8, name) + text(9, data)


def model(nodes, constants, inputs, outputs):
    def fields(field, parts):
        return b"".join(text(field, part) for part in parts)

    graph = fields(1, nodes) + text(2, "net") + fields(5, constants) + fields(11, inputs) + fields(12, outputs)
    return number(1, 8) + text(8, number(2, 17)) + text(7, graph)


def affine(rows):
    """y = relu(x @ diag(1, 2, 3) + (10, 20, 30)) for rows of three numbers."""
    nodes = [node("MatMul", "product", ["x", "w"], "xw"), node("Add", "sum", ["xw", "b"], "xwb"),
             node("Relu", "relu", ["xwb"], "y")]
    constants = [tensor("w", [3, 3], WEIGHTS[0]), tensor("b", [3], WEIGHTS[1])]
    return model(nodes, constants, [value_info("x", [rows, 3])], [value_info("y", [rows, 3])])


def affine_of(rows):
    """What `affine` makes of 1, 2, 3, .. in this many rows."""
    return [float((i + 1) * (i % 3 + 1) + 10 * (i % 3 + 1)) for i in range(3 * rows)]


def relu(dims):
    return model([node("Relu", "relu", ["image"], "y")], [], [value_info("image", dims)], [value_info("y", dims)])


def matmul():
    inputs = [value_info("a", [-1, 2]), value_info("b", [2, -1])]
    return model([node("MatMul", "product", ["a", "b"], "y")], [], inputs, [value_info("y", [-1, -1])])


def nonzero():
    """The indices of elements that are not zero: a shape that depends on values."""
    return model([node("NonZero", "find", ["x"], "y")], [], [value_info("x", [6])], [value_info("y", None, INT64)])


def positive():
    """The indices of positive elements; what is computed after them waits for their number."""
    nodes = [node("Relu", "relu", ["x"], "r"), node("NonZero", "find", ["r"], "f"), node("Abs", "abs", ["f"], "y")]
    return model(nodes, [], [value_info("x", [6])], [value_info("y", None, INT64)])


def long_name():
    name = "f" * 128
    return model([node("Relu", "relu", [name], "y")], [], [value_info(name, [2])], [value_info("y", [2])])


def atc(source, output, *flags):
    """Compiles a model with the toolkit's atc."""
    tool = pathlib.Path(os.environ["ASCEND_HOME_PATH"]) / "bin/atc"
    run = subprocess.run(
        [tool, f"--model={source}", "--framework=5", f"--output={output}", "--soc_version=Ascend910B1", *flags],
        capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "ATC run success" in run.stdout


def write(folder):
    """Writes every model of the tests into a folder."""
    sources = {"affine": affine(2), "open": affine(-1), "image": relu([1, 1, -1, -1]), "dims": matmul(),
               "nonzero": nonzero(), "positive": positive(), "long_name": long_name()}
    for name, data in sources.items():
        (folder / f"{name}.onnx").write_bytes(data)
    atc(folder / "affine.onnx", folder / "affine")
    atc(folder / "open.onnx", folder / "range", "--input_shape=x:1~8,3")
    atc(folder / "open.onnx", folder / "batch", "--input_shape=x:-1,3", "--dynamic_batch_size=1,2,4")
    atc(folder / "image.onnx", folder / "image", "--input_shape=image:1,1,-1,-1", "--dynamic_image_size=2,2;3,5")
    atc(folder / "dims.onnx", folder / "dims", "--input_format=ND", "--input_shape=a:-1,2;b:2,-1", "--dynamic_dims=1,2;3,4")
    return folder


def to_device(address, data):
    assert acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), HOST_TO_DEVICE) == 0


def floats_at(address, count):
    """Floats in device memory."""
    host, ret = acl.rt.malloc_host(4 * count)
    assert ret == 0
    assert acl.rt.memcpy(host, 4 * count, address, 4 * count, DEVICE_TO_HOST) == 0
    numbers = struct.unpack(f"{count}f", acl.util.ptr_to_bytes(host, 4 * count))
    assert acl.rt.free_host(host) == 0
    return list(numbers)


def counted(count):
    """The bytes of 1, 2, 3, .. as floats."""
    return struct.pack(f"{count}f", *range(1, count + 1))


class Tensors:
    """A data set, and the device memory behind its buffers; a size of 0 is a buffer without memory."""

    def __init__(self, *sizes):
        self.set = mdl.create_dataset()
        self.sizes = sizes
        self.memory = [acl.rt.malloc(size, 0)[0] if size else 0 for size in sizes]
        self.buffers = [acl.create_data_buffer(*pair) for pair in zip(self.memory, sizes)]
        for buffer in self.buffers:
            assert mdl.add_dataset_buffer(self.set, buffer) == (self.set, 0)

    def set_shape(self, index, dims):
        desc = acl.create_tensor_desc(FLOAT, dims, ND)
        assert mdl.set_dataset_tensor_desc(self.set, desc, index) == (self.set, 0)
        acl.destroy_tensor_desc(desc)
        return self

    def shape(self, index=0):
        """The shape that the last run gave a tensor."""
        desc = mdl.get_dataset_tensor_desc(self.set, index)
        assert desc != 0
        return [acl.get_tensor_desc_dim(desc, axis) for axis in range(acl.get_tensor_desc_num_dims(desc))]

    def put(self, *parts):
        """Fills the first buffers with 1, 2, 3, .., or with these bytes."""
        for address, size, data in zip(self.memory, self.sizes, parts):
            to_device(address, counted(size // 4) if data is None else data)
        return self

    def clear(self):
        for address, size in zip(self.memory, self.sizes):
            assert acl.rt.memset(address, size, 0, size) == 0

    def floats(self, count, index=0):
        return floats_at(acl.get_data_buffer_addr(self.buffers[index]), count)

    def close(self):
        for buffer, address in zip(self.buffers, self.memory):
            assert acl.destroy_data_buffer(buffer) == 0
            if address:
                assert acl.rt.free(address) == 0
        assert mdl.destroy_dataset(self.set) == 0


class Model:
    """A loaded model and its description."""

    def __init__(self, path):
        self.id, ret = mdl.load_from_file(str(path))
        assert ret == 0 and self.id != 0, acl.get_recent_err_msg()
        self.desc = mdl.create_desc()
        assert mdl.get_desc(self.desc, self.id) == 0

    def close(self):
        assert mdl.destroy_desc(self.desc) == 0
        assert mdl.unload(self.id) == 0


def run_while_a_thread_records(event, call):
    """Calls while another Python thread records the event that the call waits for: it gets the interpreter lock only if
    the call releases it, because the switch interval makes no thread yield."""
    other, context, entered = acl.rt.create_stream()[0], acl.rt.get_context()[0], threading.Event()
    codes = []

    def record():
        entered.wait()
        codes.extend([acl.rt.set_context(context), acl.rt.record_event(event, other)])

    thread = threading.Thread(target=record)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        entered.set()
        ret = call()
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert codes == [0, 0]
    assert acl.rt.destroy_stream(other) == 0
    return ret
