"""For scripts in a child process: an allocator for torch_npu whose calls recorder.cpp records, and the rules that they must keep.

    journal = Journal.from_arguments()   # recorder, library, malloc, free
    journal.make_current()               # or: pool = torch.npu.MemPool(journal.allocator)
"""

import ctypes
import sys

import torch
import torch_npu


class Call(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("freed", "address", "size", "device", "stream")]

    def __repr__(self):
        kind = "free" if self.freed else "malloc"
        return f"{kind}({self.address:#x}, {self.size} bytes, device {self.device}, stream {self.stream:#x})"

    def key(self):
        return self.address, self.size, self.device, self.stream


class Journal:
    """What recorder.cpp recorded, and the blocks that are live now."""

    def __init__(self, recorder, library, malloc, free):
        self.recorder = ctypes.CDLL(recorder)
        self.library = ctypes.CDLL(library)
        self.recorder.recorder_read.restype = ctypes.c_size_t
        self.recorder.recorder_read.argtypes = [ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
        self.recorder.recorder_forward(getattr(self.library, malloc), getattr(self.library, free))
        plug = torch_npu.npu.memory.NPUPluggableAllocator(recorder, "recorded_malloc", "recorded_free")
        self.plug, self.allocator = plug, plug.allocator()
        self.read_count = 0
        self.live_blocks = {}
        self.mallocs = self.frees = self.failures = 0

    @classmethod
    def from_arguments(cls):
        return cls(*sys.argv[1:5])

    def make_current(self):
        torch.npu.change_current_allocator(self.plug)

    def live(self):
        """What is allocated now, by address. Every call so far is checked: no two blocks overlap, and a free names the
        size, the device and the stream of its malloc."""
        count = self.recorder.recorder_read(self.read_count, None, 0)
        calls = (Call * (count - self.read_count))()
        self.recorder.recorder_read(self.read_count, calls, len(calls))
        for call in calls:
            self.check(call)
        self.read_count += len(calls)
        return self.live_blocks

    def check(self, call):
        if call.freed:
            malloc = self.live_blocks.pop(call.address, None)
            assert malloc is not None and malloc.key() == call.key(), f"{call} after {malloc}"
            self.frees += 1
        elif call.address:
            assert call.address % 32 == 0, call
            overlaps = [
                other
                for other in self.live_blocks.values()
                if other.address < call.address + call.size and call.address < other.address + other.size
            ]
            assert not overlaps, f"{call} overlaps {overlaps}"
            self.live_blocks[call.address] = call
            self.mallocs += 1
        elif call.size:
            self.failures += 1

    def block_of(self, tensor):
        """The allocation that `tensor` lies in; None when it is no memory of this allocator."""
        begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        for call in self.live().values():
            if call.address <= begin and end <= call.address + call.size and call.device == tensor.device.index:
                return call
        return None

    def give_back(self):
        """Makes the library return its cached memory to the devices. The vendor's example caches nothing."""
        if hasattr(self.library, "cairn_pool_trim"):
            for device in range(torch.npu.device_count()):
                torch.npu.synchronize(device)
                assert self.library.cairn_pool_synchronized(device) == 0
                self.library.cairn_pool_trim(device, ctypes.c_size_t(0))
