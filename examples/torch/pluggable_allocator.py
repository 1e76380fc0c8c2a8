"""Trains a small network in memory of your own: every tensor comes from the two functions in examples/c/pluggable_allocator.c.

    gcc -shared -fPIC ../c/pluggable_allocator.c -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 -lascendcl -o pluggable_allocator.so
    python pluggable_allocator.py [./pluggable_allocator.so]
"""

import ctypes
import sys

import torch
import torch_npu

import mlp


class Figures(ctypes.Structure):
    """What the library counts; as in the C file."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("taken", "returned", "bytes", "live", "peak", "failed")]


def figures(library):
    result = Figures()
    ctypes.CDLL(library).my_figures(ctypes.byref(result))
    return result


def main():
    library = sys.argv[1] if len(sys.argv) > 1 else "./pluggable_allocator.so"
    # Before the first use of a device: later it is refused.
    torch.npu.change_current_allocator(torch_npu.npu.memory.NPUPluggableAllocator(library, "my_malloc", "my_free"))

    npu_tensor = torch.zeros(10, device="npu")
    print(f"torch.zeros(10) lies at {npu_tensor.data_ptr():#x}, {figures(library).live} bytes, and holds {npu_tensor.tolist()}")

    _, losses = mlp.train("npu", 50)
    torch.npu.synchronize()
    counts = figures(library)
    print(f"50 steps of training, loss {losses[0]:.4f} -> {losses[-1]:.4f}:")
    print(f"{counts.taken} blocks taken, {counts.bytes >> 10} KiB in all, {counts.peak >> 10} KiB at most at a time, {counts.failed} refused")
    print(f"{counts.returned} blocks given back, {counts.live} bytes still out")


if __name__ == "__main__":
    main()
