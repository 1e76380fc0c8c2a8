"""`cargo xtask bench record` and `bench sharing`: the time of operators on `npu`, for one way of running them.

Prints JSON: microseconds of the best round of each row of `ops.py` that is named here, and of a tiny addition. With CAIRN_BENCH_EXPORTED=1
the tensors of each row are exported to other processes first.
"""

import ctypes
import json
import os

import torch

import ops

ROWS = [
    "matmul 256", "matmul 1024", "add 16 MiB", "gelu 16 MiB", "transpose copy 16 MiB", "sum over rows 16 MiB", "softmax 2048x2048",
    "layer norm 2048x1024", "attention, sequence 128", "conv 1x64x56x56 to 64, 3x3", "transformer block, sequence 128",
]  # fmt: skip


def export(tensors):
    """Exports their memory to every process."""
    acl = ctypes.CDLL("libascendcl.so")
    key = ctypes.create_string_buffer(65)
    torch.npu.synchronize()
    for tensor in tensors:
        size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
        code = acl.aclrtIpcMemGetExportKey(ctypes.c_void_p(tensor.data_ptr()), size, key, ctypes.c_size_t(len(key)), ctypes.c_uint64(1))
        assert code == 0, code


def main():
    exported = os.environ.get("CAIRN_BENCH_EXPORTED") == "1"
    rounds = int(os.environ.get("CAIRN_BENCH_ROUNDS", "6"))
    rows = {}
    for call in ops.CALLS:
        if call.name in ROWS:
            arguments = call.make("npu")
            if exported:
                export(arguments)
            run, finish = ops.runner(call, arguments, torch.npu.synchronize)
            rows[call.name] = min(ops.best(run, finish)[0] for _ in range(rounds)) * 1e6
    assert set(rows) == set(ROWS), rows
    rows["tiny x + y"] = ops.tiny() / 1e3
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
