"""A user's allocators, as the current one and under a `MemPool`, in every mode of torch_npu's task queue; and torch_npu's
own, with which everything computes the same.

The library under test is called through recorder.cpp. So a tensor is known to lie in memory that the library gave, for its
device and stream, and journal.py checks that no two blocks overlap and that each is freed with the size and stream of its malloc.
Each script tests much, because starting torch takes longest.
"""

import pytest

import support

MODES = pytest.mark.parametrize("mode", ["0", "1", "2"])

PRELUDE = """
import gc
import torch, torch_npu
from journal import Journal
from support import MIB
from workload import block, churn, compute, fails, free_memory, in_threads

journal = Journal.from_arguments()
default, side = torch.npu.default_stream, torch.npu.Stream
"""

CURRENT = """
journal.make_current()
# What torch_npu takes for itself: in mode 2 the workspace of operators, which it keeps.
compute()
journal.give_back()
free = free_memory()

# Every tensor is one block of exactly its bytes, for its device and its stream, whether it was copied there or computed.
kept = [torch.arange(count, dtype=torch.int32).to(f"npu:{device}") for count in (1, 10, 1000, 1 << 20) for device in (0, 1)]
kept += [torch.arange(count, dtype=torch.int32, device="npu") for count in (1, 5000)]
kept.append(torch.zeros(4000, dtype=torch.int32, device="npu:1") + kept[7][:4000])
stream = side()
with torch.npu.stream(stream):
    kept.append(torch.zeros(777, dtype=torch.int32, device="npu"))
    kept[-1] += torch.arange(777, dtype=torch.int32).npu()
stream.synchronize()
for tensor in kept:
    call = journal.live()[tensor.data_ptr()]
    expected_stream = stream if tensor is kept[-1] else default(tensor.device.index)
    assert (call.size, call.device, call.stream) == (tensor.nbytes, tensor.device.index, expected_stream.npu_stream), call
    assert torch.equal(tensor.cpu(), torch.arange(len(tensor), dtype=torch.int32))
assert len(journal.live()) == len(kept), journal.live()
# A view and a slice are no blocks of their own, an empty tensor is none at all.
views = [kept[2][10:20], kept[2].view(-1, 1), torch.empty(0, device="npu")]
assert len(journal.live()) == len(kept)
del kept, views, tensor
assert not journal.live()

# What operators make lies in the allocator's memory, and nothing stays behind.
results = compute()
assert all(journal.block_of(tensor) for tensor in results)
torch.npu.synchronize()
del results
assert not journal.live(), journal.live()
results = compute()
del results

# Many short-lived tensors, on several streams, on two devices, from several threads.
churn(default(), 100, 1000)
churn(side(), 100, 2000)
streams = [side(device=number % 2) for number in range(4)]
in_threads(lambda number: churn(streams[number], 60, 10_000 * number), 4)
assert not journal.live()
assert journal.mallocs == journal.frees >= 440 and journal.failures == 0

# Out of memory is an error of torch's, twice in a row; other tensors keep their values, and all memory comes back.
survivor = torch.arange(1000).npu()
for turn in range(2):
    failures = journal.failures
    print(fails(lambda: block(1 << 10)))
    filling = []
    fails(lambda: [filling.append(block(20)) for _ in range(100)])
    assert 10 <= len(filling) <= 12, len(filling)
    assert len(journal.live()) == len(filling) + 1 and journal.failures >= failures + 2
    for number, tensor in enumerate(filling):
        tensor.copy_(torch.full((20 * MIB,), number, dtype=torch.uint8))
    assert all((tensor.cpu() == number).all() for number, tensor in enumerate(filling))
    del filling, tensor
    assert torch.equal(survivor.cpu(), torch.arange(1000))
    assert len(journal.live()) == 1
# It cannot be swapped any more, and still works.
assert "Can't swap an already initialized allocator" in fails(journal.make_current)
churn(side(), 20, 0)

del survivor
assert not journal.live() and journal.mallocs == journal.frees
torch.npu.synchronize()
journal.give_back()
assert free_memory() == free, (free_memory(), free)
"""

POOL = """
free = free_memory()
pool = torch.npu.MemPool(journal.allocator)
assert torch_npu.npu.MemPool is torch.npu.MemPool and pool.allocator is journal.allocator
plain = torch.npu.MemPool()

def in_mem_pool(make, pool=pool):
    with torch.npu.use_mem_pool(pool):
        return make()

# Inside, memory comes from the allocator in segments; outside, and in a pool without one, it does not.
small = in_mem_pool(lambda: torch.arange(10).npu())
large = in_mem_pool(lambda: block(30))
outside, other = torch.arange(10).npu(), in_mem_pool(lambda: torch.arange(10).npu(), plain)
assert journal.block_of(small).size == 2 * MIB and journal.block_of(large).size >= 30 * MIB
assert journal.block_of(outside) is None and journal.block_of(other) is None
assert {call.stream for call in journal.live().values()} == {default().npu_stream}
assert torch.equal(small.cpu(), outside.cpu()) and torch.equal(small.cpu(), other.cpu())
# A stream has its own segments.
stream = side()
with torch.npu.stream(stream):
    on_stream = in_mem_pool(lambda: torch.full((500,), 3.0).npu())
assert journal.block_of(on_stream).stream == stream.npu_stream
# A pool belongs to the device on which it was made.
with torch.npu.device(1):
    second = torch.npu.MemPool(journal.allocator)
    on_device_1 = in_mem_pool(lambda: torch.arange(10).npu(), second)
assert on_device_1.device.index == 1 and torch.equal(on_device_1.cpu(), small.cpu())
assert journal.block_of(on_device_1).stream == default(1).npu_stream
segments = len(journal.live())
assert segments == 4, journal.live()

# Cached segments serve again, and stay while the pool does.
address = large.data_ptr()
del large
torch.npu.empty_cache()
large = in_mem_pool(lambda: block(30))
assert large.data_ptr() == address and len(journal.live()) == segments and journal.frees == 0
results = in_mem_pool(compute)
assert all(journal.block_of(tensor) for tensor in results)
del results
in_mem_pool(lambda: churn(default(), 100, 1000))
with torch.npu.stream(stream):
    in_mem_pool(lambda: churn(stream, 100, 2000))

# Out of memory is torch's own error; other tensors keep their values.
for turn in range(2):
    failures = journal.failures
    message = fails(lambda: in_mem_pool(lambda: block(1 << 10)), torch.OutOfMemoryError)
    assert "Tried to allocate 1.00 GiB" in message, message
    journal.live()
    assert journal.failures > failures
    assert torch.equal(small.cpu(), outside.cpu())
    assert (in_mem_pool(lambda: torch.full((MIB,), turn, dtype=torch.uint8).npu()).cpu() == turn).all()

# The end of the pool gives everything back; a tensor that is still there keeps its segment.
del large, on_stream, on_device_1, second, pool, in_mem_pool
gc.collect()
torch.npu.empty_cache()
assert torch.equal(small.cpu(), outside.cpu()) and journal.block_of(small), journal.live()
del small, plain, other
gc.collect()
torch.npu.synchronize()
torch.npu.empty_cache()
assert not journal.live() and journal.mallocs == journal.frees, journal.live()
del outside
torch.npu.empty_cache()
journal.give_back()
assert free_memory() == free, (free_memory(), free)
"""


OWN = """
torch.npu.set_device(0)
assert torch.zeros(10, device="npu").tolist() == [0.0] * 10
before = torch.npu.memory_allocated()
for stream in (default(), side()):
    with torch.npu.stream(stream):
        results = compute()
assert torch.npu.memory_allocated() >= before + sum(tensor.nbytes for tensor in results)
assert not journal.live() and journal.mallocs == 0
"""


def run(code, library, recorder, mode):
    return support.run_script(
        PRELUDE + code,
        arguments=[recorder, library.path, library.malloc, library.free],
        TASK_QUEUE_ENABLE=mode,
        CAIRN_DEVICE_MEMORY="256mib",
    )


@MODES
def test_torch_1_3_6_current_allocator(library, recorder, mode):
    run(CURRENT, library, recorder, mode)


@MODES
def test_torch_1_memory_pool(library, recorder, mode):
    run(POOL, library, recorder, mode)


@MODES
def test_torch_npus_own_allocator(cairn, recorder, mode):
    run(OWN, cairn, recorder, mode)
