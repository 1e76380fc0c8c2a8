"""Memory that is freed while copies that use it are still queued.

An allocator without a cache makes every tensor one aclrtMallocAlign32 and one aclrtFree. With torch_npu's task queue the
free runs on the caller's thread, often before its own thread has even submitted the copies: on the hardware the memory is
not handed out again so soon, and neither may ours be. Each copy carries the number of its turn, so that a block which
was given away too early shows as a wrong number.
"""

import pytest

import depth
import support

TURNS = 100_000 if depth.DEEP else 20_000
# Bytes of the quarantine: more than a batch can free before its copies are submitted, a fraction of what a run frees.
QUARANTINE = 16 << 20

PRELUDE = """
import ctypes, sys
import torch, torch_npu

library, turns = sys.argv[1], int(sys.argv[2])
counters = ctypes.CDLL(library)
for name in ("allocation_count", "release_count", "released_byte_count", "failure_count"):
    getattr(counters, name).restype = ctypes.c_uint64
torch.npu.change_current_allocator(torch_npu.npu.memory.NPUPluggableAllocator(library, "my_malloc", "my_free"))

BATCH = 125
SIZES = (256, 1024, 4096, 8192)  # int32 elements
outs = torch.full((BATCH, max(SIZES)), -1, dtype=torch.int32).pin_memory()

def copy_through_host(turn, size):
    source = torch.empty(size, dtype=torch.int32, pin_memory=True).fill_(turn)
    device = torch.empty(size, dtype=torch.int32, device="npu")
    device.copy_(source, non_blocking=True)
    outs[turn % BATCH, :size].copy_(device, non_blocking=True)
    # The return frees both.

def copy_between_devices(turn, size):
    first_device, second_device = ("npu:0", "npu:1") if turn % 2 else ("npu:1", "npu:0")
    source = torch.empty(size, dtype=torch.int32, pin_memory=True).fill_(turn)
    first = torch.empty(size, dtype=torch.int32, device=first_device)
    first.copy_(source, non_blocking=True)
    second = first.to(second_device, non_blocking=True)
    outs[turn % BATCH, :size].copy_(second, non_blocking=True)

def run(step):
    for begin in range(0, turns, BATCH):
        size = SIZES[begin // BATCH % len(SIZES)]
        for turn in range(begin, begin + BATCH):
            step(turn, size)
        for device in range(2):
            torch.npu.synchronize(device)
        torch_npu.npu.host_empty_cache()
        correct = outs[:, :size] == torch.arange(begin, begin + BATCH, dtype=torch.int32)[:, None]
        if not correct.all():
            row, column = (~correct).nonzero()[0].tolist()
            raise AssertionError(f"turn {begin + row}, element {column} of {size}: {int(outs[row, column])}")
    print(counters.released_byte_count(), counters.allocation_count(), counters.release_count(), counters.failure_count())

"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return support.build_allocator(tmp_path_factory.mktemp("allocator"))


def run(step, library, turns, mode):
    result = support.run_script(
        PRELUDE + f"run({step})",
        arguments=[library, str(turns)],
        TASK_QUEUE_ENABLE=mode,
        CAIRN_DEVICE_MEMORY="256mib",
        CAIRN_QUARANTINE=str(QUARANTINE),
    )
    released_bytes, allocations, releases, failures = map(int, result.stdout.split())
    assert failures == 0
    assert allocations == releases
    assert released_bytes > 3 * QUARANTINE
    return releases


@pytest.mark.parametrize(("mode", "turns"), [("0", TURNS // 5), ("1", TURNS), ("2", TURNS // 5)])
def test_host_copies(library, mode, turns):
    assert run("copy_through_host", library, turns, mode) == turns


@pytest.mark.parametrize(("mode", "turns"), [("0", TURNS // 10), ("1", TURNS), ("2", TURNS // 10)])
def test_peer_copies(library, mode, turns):
    assert run("copy_between_devices", library, turns, mode) >= 2 * turns
