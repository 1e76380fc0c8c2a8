"""ACL called from Python: device memory, handles and the stream of one test."""

import ctypes
from ctypes import byref, c_char_p, c_int64, c_size_t, c_void_p

import pytest
import torch

from support import ACL

SUCCESS, DEVICE_TO_HOST, HOST_TO_DEVICE = 0, 2, 1
# Numbers of aclDataType and of ge::DataType.
TYPES = {
    "f32": (0, torch.float32), "f16": (1, torch.float16), "i8": (2, torch.int8), "i32": (3, torch.int32),
    "u8": (4, torch.uint8), "i16": (6, torch.int16), "i64": (9, torch.int64), "f64": (11, torch.float64),
    "c64": (16, torch.complex64),
    "bool": (12, torch.bool), "bf16": (27, torch.bfloat16),
}  # fmt: skip
NUMBERS = {dtype: number for number, dtype in TYPES.values()}

ACL.aclGetRecentErrMsg.restype = c_char_p


def call(name, *arguments):
    """A function of the library that returns a code; anything but success fails the test with the text of the library."""
    code = getattr(ACL, name)(*arguments)
    if code != SUCCESS:
        text = ACL.aclGetRecentErrMsg()
        pytest.fail(f"{name} returned {code}: {text.decode() if text else 'without a text'}", pytrace=False)


def array(kind, values):
    values = list(values)
    return (kind * max(len(values), 1))(*values)


def raw(tensor):
    """The bytes of a tensor on the CPU, as a tensor."""
    return tensor.contiguous().flatten().view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


class Device:
    """A stream, device memory and handles of one run; all are freed at the end."""

    def __init__(self):
        self.memory, self.handles, self.keepalive = [], [], []
        self.stream = c_void_p()
        call("aclrtCreateStream", byref(self.stream))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        call("aclrtSynchronizeStream", self.stream)
        call("aclrtDestroyStream", self.stream)
        for name, handle in reversed(self.handles):
            getattr(ACL, name.replace("Create", "Destroy"))(handle)
        for address in self.memory:
            call("aclrtFree", address)

    def synchronize(self):
        call("aclrtSynchronizeStream", self.stream)

    def make(self, name, *arguments):
        """The handle that a function of the library returns; it is destroyed at the end."""
        function = getattr(ACL, name)
        function.restype = c_void_p
        handle = c_void_p(function(*arguments))
        assert handle, name
        self.handles.append((name, handle))
        return handle

    def allocate(self, count, fill=0):
        """`count` bytes of device memory, each `fill`."""
        address = c_void_p()
        call("aclrtMalloc", byref(address), c_size_t(max(count, 1)), 0)
        self.memory.append(address)
        call("aclrtMemset", address, c_size_t(max(count, 1)), fill, c_size_t(max(count, 1)))
        return address

    def put(self, tensor):
        """The address of a copy of a CPU tensor on the device."""
        source = raw(tensor)
        address = self.allocate(source.numel())
        count = c_size_t(source.numel())
        call("aclrtMemcpy", address, count, c_void_p(source.data_ptr()), count, HOST_TO_DEVICE)
        return address

    def get(self, address, shape):
        """A copy on the CPU of the tensor at an address; `shape` is the name of its type and its sizes."""
        name, sizes = shape
        return from_device(address.value, TYPES[name][1], sizes)

    def keep(self, thing):
        """Keeps a Python object alive as long as this one."""
        self.keepalive.append(thing)
        return thing


def from_device(address, dtype, sizes):
    """A CPU copy of a tensor on the device, from its address as a number."""
    tensor = torch.zeros(sizes, dtype=dtype)
    count = c_size_t(tensor.nbytes)
    call("aclrtMemcpy", c_void_p(tensor.data_ptr()), count, c_void_p(address), count, DEVICE_TO_HOST)
    return tensor


def int64s(values):
    return array(c_int64, values)


def from_host(address, dtype, sizes):
    """A copy of a tensor in host memory, from its address as a number."""
    tensor = torch.zeros(sizes, dtype=dtype)
    if tensor.nbytes:
        ctypes.memmove(tensor.data_ptr(), address, tensor.nbytes)
    return tensor
