"""`cargo xtask bench record`: the time of operators on `npu`, for one way of running them: as always, recorded, checked.

Prints JSON: microseconds of the best round of each row of `ops.py` that is named here, and of a tiny addition.
"""

import json
import os

import torch

import ops

ROWS = [
    "matmul 256", "matmul 1024", "add 16 MiB", "gelu 16 MiB", "transpose copy 16 MiB", "sum over rows 16 MiB", "softmax 2048x2048",
    "layer norm 2048x1024", "attention, sequence 128", "conv 1x64x56x56 to 64, 3x3", "transformer block, sequence 128",
]  # fmt: skip


def main():
    rounds = int(os.environ.get("CAIRN_BENCH_ROUNDS", "6"))
    rows = {}
    for call in ops.CALLS:
        if call.name in ROWS:
            run, finish = ops.runner(call, "npu", torch.npu.synchronize)
            rows[call.name] = min(ops.best(run, finish)[0] for _ in range(rounds)) * 1e6
    assert set(rows) == set(ROWS), rows
    rows["tiny x + y"] = ops.tiny() / 1e3
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
