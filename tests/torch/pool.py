"""For scripts in a child process: libcairn_pool.so as torch_npu's allocator, and the pool's other functions (include/cairn/pool.h)."""

import ctypes
import json

import torch
import torch_npu

NAME = "libcairn_pool.so"


class Figures(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("live", "requested", "peak", "reserved", "peakReserved", "waiting", "largestHole", "budget")
        + ("blocks", "taken", "freed", "failed")
    ]

    def as_dict(self):
        return {name: getattr(self, name) for name, _ in self._fields_}


LIBRARY = ctypes.CDLL(NAME)
LIBRARY.cairn_pool_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
LIBRARY.cairn_pool_trim.argtypes = [ctypes.c_int, ctypes.c_size_t]
LIBRARY.cairn_pool_trim.restype = ctypes.c_size_t
LIBRARY.cairn_pool_set_fraction.argtypes = [ctypes.c_double, ctypes.c_int]
LIBRARY.cairn_pool_figures.argtypes = [ctypes.c_int, ctypes.c_void_p]
LIBRARY.cairn_pool_stream_figures.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
LIBRARY.cairn_pool_json.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
LIBRARY.cairn_pool_json.restype = ctypes.c_size_t
LIBRARY.cairn_pool_last_error.restype = ctypes.c_char_p


class TorchStream(ctypes.Structure):
    """What torch_npu passes to a record_stream callback: the address of a C++ object, not an aclrtStream."""

    _fields_ = [("device_type", ctypes.c_int8), ("device_index", ctypes.c_int8), ("stream_id", ctypes.c_int64)]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(TorchStream))
def on_record_stream(address, stream):
    parts = {name: getattr(stream.contents, name) for name, _ in TorchStream._fields_}
    check(LIBRARY.cairn_pool_record_stream(address, torch.npu.Stream(**parts).npu_stream))


def plug():
    """The allocator, with torch_npu's further callbacks as docs/torch.md sets them."""
    pluggable = torch_npu.npu.memory.NPUPluggableAllocator(NAME, "cairn_malloc", "cairn_free")
    address = lambda function: ctypes.cast(function, ctypes.c_void_p).value
    pluggable.allocator().set_memory_fraction_fn(address(LIBRARY.cairn_pool_set_fraction))
    pluggable.allocator().set_reset_fn(address(LIBRARY.cairn_pool_empty_cache))
    pluggable.allocator().set_reset_peak_status_fn(address(LIBRARY.cairn_pool_reset_peak))
    pluggable.allocator().set_record_stream_fn(address(on_record_stream))
    return pluggable


def check(status):
    """Fails unless a function of the pool returned 0."""
    assert status == 0, last_error()


def last_error():
    text = LIBRARY.cairn_pool_last_error()
    return text and text.decode()


def figures(device=0, stream=None):
    result = Figures()
    if stream is None:
        check(LIBRARY.cairn_pool_figures(device, ctypes.byref(result)))
    else:
        check(LIBRARY.cairn_pool_stream_figures(device, stream.npu_stream, ctypes.byref(result)))
    return result


def report(device=0):
    size = LIBRARY.cairn_pool_json(device, None, 0) + 1
    text = ctypes.create_string_buffer(size)
    assert LIBRARY.cairn_pool_json(device, text, size) == size - 1
    return json.loads(text.value)


def synchronized(device=0):
    """Waits for torch_npu's queue and all streams, and tells the pool so."""
    torch.npu.synchronize(device)
    check(LIBRARY.cairn_pool_synchronized(device))


def trim(device=0, keep=0):
    return LIBRARY.cairn_pool_trim(device, keep)


def record_stream(tensor, stream):
    check(LIBRARY.cairn_pool_record_stream(tensor.data_ptr(), stream.npu_stream))
