"""`y = x + 1; del x` under a user's allocator: `x` goes back while the addition still waits in torch_npu's queue.

The allocator keeps nothing: each tensor is one aclrtMallocAlign32 and one aclrtFree. A chain of additions begins at zero, so a
block that was reused too early shows in the sum of the last tensor. Slow products before each batch fill the queue.
"""

import pytest

import depth
import support

CHAIN = """
import ctypes, sys
import torch, torch_npu

library, turns, elements, batch = sys.argv[1], *map(int, sys.argv[2:])
counters = ctypes.CDLL(library)
counters.released_byte_count.restype = counters.failure_count.restype = ctypes.c_uint64
torch.npu.change_current_allocator(torch_npu.npu.memory.NPUPluggableAllocator(library, "my_malloc", "my_free"))

slow = torch.ones(512, 512).npu()
x = torch.zeros(elements, device="npu")
for begin in range(0, turns, batch):
    for _ in range(4):
        torch.mm(slow, slow)
    for _ in range(batch):
        y = x + 1
        del x
        x = y
        del y
    total = x.cpu().double().sum().item()
    assert total == elements * (begin + batch), f"after {begin + batch} turns the sum is {total}, not {elements * (begin + batch)}"
print(counters.released_byte_count(), counters.failure_count())
"""

MIB = 1 << 20


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return support.build_allocator(tmp_path_factory.mktemp("allocator"))


@pytest.mark.parametrize("mode", ["0", "1", "2"])
@pytest.mark.parametrize(
    ("turns", "kib", "memory", "quarantine", "batch"),
    [(100_000, 64, 128 * MIB, 8 * MIB, 5_000), (2_000, 16 << 10, 512 * MIB, 64 * MIB, 200)]
    if depth.DEEP
    else [(10_000, 64, 128 * MIB, 8 * MIB, 2_500), (200, 16 << 10, 512 * MIB, 64 * MIB, 100)],
    ids=["64KiB", "16MiB"],
)
def test_add_and_delete(library, mode, turns, kib, memory, quarantine, batch):
    result = support.run_script(
        CHAIN,
        arguments=[library, str(turns), str(kib * 256), str(batch)],
        timeout=600,
        TASK_QUEUE_ENABLE=mode,
        CAIRN_DEVICE_MEMORY=str(memory),
        CAIRN_QUARANTINE=str(quarantine),
    )
    released, failures = map(int, result.stdout.split())
    assert failures == 0
    assert released >= 20 * quarantine and released > memory
