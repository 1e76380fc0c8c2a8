"""What the tests share: a pool, an operator that needs workspace, scripts in processes of their own."""

import ctypes
import os
import pathlib
import struct
import subprocess
import sys
import threading

import acl

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT, INT32, ND = 0, 3, 2
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
COUNT = 5000
INVALID_PARAM, INVALID_HANDLE, GE_FAILURE = 100000, 107017, 500002


def table():
    """The names of all functions, as `functions.txt` has them."""
    rows = (ROOT / "python/functions.txt").read_text().splitlines()
    names = [row.split(" = ")[0] for row in rows if row and not row.startswith("#")]
    return [name if name.startswith("acl.") else f"acl.{name}" for name in names]


class Pool:
    """An allocator of slots in one range of device memory; counts its calls."""

    SLOT, SLOTS = 1 << 20, 8

    def __init__(self, obj=0x1234):
        self.obj = obj
        self.base, ret = acl.rt.malloc(self.SLOT * self.SLOTS, 0)
        assert ret == 0
        self.free_slots = list(range(self.SLOTS))
        self.allocs = self.frees = self.addresses = 0
        self.sizes, self.objects = [], []

    def alloc(self, obj, size):
        self.allocs += 1
        self.sizes.append(size)
        self.objects.append(obj)
        return self.free_slots.pop() + 1 if size <= self.SLOT else None

    def free(self, obj, block):
        self.frees += 1
        self.objects.append(obj)
        self.free_slots.append(block - 1)

    def address(self, block):
        self.addresses += 1
        return self.base + (block - 1) * self.SLOT

    def close(self):
        assert acl.rt.free(self.base) == 0


class NoReusePool(Pool):
    """Returns no slot twice, so that several streams may use it at once (ACL-REG-6)."""

    SLOTS = 256

    def free(self, obj, block):
        self.frees += 1


def in_threads(*bodies):
    """Runs each in a thread of its own, in the context of this one."""
    context, ret = acl.rt.get_context()
    assert ret == 0
    failures = []

    def run(body):
        try:
            assert acl.rt.set_context(context) == 0
            body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def describe(obj, alloc, free, address, advise=None):
    desc = acl.rt.allocator_create_desc()
    assert desc != 0
    assert acl.rt.allocator_set_obj_to_desc(desc, obj) == 0
    assert acl.rt.allocator_set_alloc_func_to_desc(desc, alloc) == 0
    assert acl.rt.allocator_set_free_func_to_desc(desc, free) == 0
    assert acl.rt.allocator_set_get_addr_from_block_func_to_desc(desc, address) == 0
    if advise is not None:
        assert acl.rt.allocator_set_alloc_advise_func_to_desc(desc, advise) == 0
    return desc


def register(stream, pool):
    desc = describe(pool.obj, pool.alloc, pool.free, pool.address)
    assert acl.rt.allocator_register(stream, desc) == 0
    assert acl.rt.allocator_destroy_desc(desc) == 0


class Sort:
    """Sort of `COUNT` floats: an operator that takes workspace."""

    def __init__(self):
        self.numbers = [float(i * 7919 % COUNT) for i in range(COUNT)]
        data = struct.pack(f"{COUNT}f", *self.numbers)
        self.addresses = [acl.rt.malloc(4 * COUNT, 0)[0] for _ in range(3)]
        assert all(self.addresses)
        ptr = acl.util.bytes_to_ptr(data)
        assert acl.rt.memcpy(self.addresses[0], 4 * COUNT, ptr, 4 * COUNT, HOST_TO_DEVICE) == 0
        self.floats = acl.create_tensor_desc(FLOAT, [COUNT], ND)
        self.indices = acl.create_tensor_desc(INT32, [COUNT], ND)
        self.buffers = [acl.create_data_buffer(address, 4 * COUNT) for address in self.addresses]
        self.attr = acl.op.create_attr()
        assert acl.op.set_attr_int(self.attr, "axis", -1) == 0
        assert acl.op.set_attr_bool(self.attr, "descending", 0) == 0

    def run(self, stream):
        source, *results = self.buffers
        return acl.op.execute_v2(
            "Sort", [self.floats], [source], [self.floats, self.indices], results, self.attr, stream
        )

    def run_in_c(self, stream):
        """The same by the C function, without the module."""
        address = ctypes.c_void_p

        def pointers(*items):
            return (address * len(items))(*items)

        source, *results = self.buffers
        return ctypes.CDLL("libascendcl.so").aclopExecuteV2(
            b"Sort", 1, pointers(self.floats), pointers(source), 2, pointers(self.floats, self.indices), pointers(*results),
            address(self.attr), address(stream))

    def result(self):
        host, ret = acl.rt.malloc_host(4 * COUNT)
        assert ret == 0
        assert acl.rt.memcpy(host, 4 * COUNT, self.addresses[1], 4 * COUNT, DEVICE_TO_HOST) == 0
        data = acl.util.ptr_to_bytes(host, 4 * COUNT)
        assert acl.rt.free_host(host) == 0
        return list(struct.unpack(f"{COUNT}f", data))

    def is_correct(self):
        return self.result() == sorted(self.numbers)

    def close(self):
        for buffer in self.buffers:
            assert acl.destroy_data_buffer(buffer) == 0
        acl.destroy_tensor_desc(self.floats)
        acl.destroy_tensor_desc(self.indices)
        acl.op.destroy_attr(self.attr)
        for address in self.addresses:
            assert acl.rt.free(address) == 0


class ProbeBlock(ctypes.Structure):
    """`CairnProbeBlock` of cairn/probe.h."""

    _fields_ = [("bytes", ctypes.c_size_t), ("workspace", ctypes.c_uint32), ("value", ctypes.c_uint32),
                ("near", ctypes.c_void_p), ("copy_to", ctypes.c_void_p), ("address", ctypes.c_void_p),
                ("asked", ctypes.c_size_t)]


class Probe(ctypes.Structure):
    """`CairnProbe` of cairn/probe.h: an execution by C that takes one block, and keeps it until `give_back`."""

    _fields_ = [("blocks", ctypes.POINTER(ProbeBlock)), ("count", ctypes.c_size_t), ("keep", ctypes.c_uint32),
                ("kept", ctypes.c_void_p)]

    def __init__(self, size, near=None):
        self.block = ProbeBlock(bytes=size, workspace=1, near=near)
        super().__init__(ctypes.pointer(self.block), 1, 1)

    def run(self, stream):
        return ctypes.CDLL("libascendcl.so").cairnProbeExecute(ctypes.c_void_p(stream), ctypes.byref(self))

    def give_back(self):
        return ctypes.CDLL("libascendcl.so").cairnProbeGiveBack(ctypes.c_void_p(self.kept))


def program(text, **env):
    """Runs a Python script in a process of its own."""
    here = str(pathlib.Path(__file__).parent)
    head = f"import sys; sys.path.insert(0, {here!r}); import acl; from support import *\n"
    environment = {**os.environ, **env}
    return subprocess.run(
        [sys.executable, "-c", head + text], env=environment, capture_output=True, text=True, timeout=240
    )
