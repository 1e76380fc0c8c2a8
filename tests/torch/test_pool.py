"""libcairn_pool.so as torch's allocator: its figures, its budget, what it gives back, and which stream gets which memory.

The tests that every allocator has to pass are in test_user_allocators.py.
"""

import pytest

import builds
import support

PRELUDE = """
import os, re, subprocess
import torch, torch_npu
import pool
from support import MIB, hold_stream, pinned
from workload import block, block_on, churn, fails, free_memory, in_threads

plug = pool.plug()
queued = os.environ["TASK_QUEUE_ENABLE"] != "0"
"""

FIGURES = """
torch.npu.change_current_allocator(plug)
side, of_device_1 = torch.npu.Stream(), torch.npu.default_stream(1)
default = torch.npu.default_stream()
padded = lambda size: -(-size // 512) * 512

# The pool's figures are those of torch's tensors, by stream and in total.
def check(tensors_by_stream):
    reports = [pool.report(device) for device in range(2)]
    for device, report in enumerate(reports):
        assert report["device"] == device and report["queued"] == queued
        assert report["total"] == pool.figures(device).as_dict()
    for stream, tensors in tensors_by_stream.items():
        device = stream.device.index
        figures = pool.figures(device, stream)
        sizes = [tensor.nbytes for tensor in tensors]
        assert (figures.blocks, figures.requested) == (len(sizes), sum(sizes)), (stream, figures.as_dict())
        assert figures.live == sum(map(padded, sizes)) <= figures.peak and figures.failed == 0
        by_stream = {entry["stream"]: entry for entry in reports[device]["streams"]}
        assert figures.as_dict().items() <= by_stream[hex(stream.npu_stream)].items()
        assert figures.taken == figures.blocks + figures.freed
    for device in range(2):
        total = pool.figures(device)
        device_tensors = [tensor for stream, tensors in tensors_by_stream.items() if stream.device.index == device for tensor in tensors]
        assert (total.blocks, total.requested) == (len(device_tensors), sum(tensor.nbytes for tensor in device_tensors))
        assert total.live <= total.reserved <= total.peakReserved

tensors_by_stream = {default: [], side: [], of_device_1: []}
for count in (1, 128, 129, 5000, 1 << 20):
    for stream, tensors in tensors_by_stream.items():
        with torch.npu.stream(stream):
            tensors.append(torch.empty(count, dtype=torch.int32, device=stream.device))
            tensors[-1].copy_(torch.arange(count, dtype=torch.int32))
    check(tensors_by_stream)
peaks = {stream: pool.figures(stream.device.index, stream).live for stream in tensors_by_stream}
for tensors in tensors_by_stream.values():
    del tensors[::2]
    check(tensors_by_stream)
for tensors in tensors_by_stream.values():
    for tensor in tensors:
        assert torch.equal(tensor.cpu(), torch.arange(len(tensor), dtype=torch.int32))
del tensor
# The peak stays until torch resets it. That of a device may be too high, by two mebibytes a stream.
for stream, peak in peaks.items():
    assert pool.figures(stream.device.index, stream).peak == peak, (stream, peak, pool.report(stream.device.index))
assert 0 <= pool.figures().peak - (peaks[default] + peaks[side]) <= 4 * MIB, (peaks, pool.report())
torch.npu.reset_peak_memory_stats()
assert pool.figures(0, side).peak == pool.figures(0, side).live, pool.report()
assert 0 <= pool.figures().peak - pool.figures().live <= 4 * MIB, pool.report()
assert pool.figures(1, of_device_1).peak == peaks[of_device_1]
for tensors in tensors_by_stream.values():
    tensors.clear()
check(tensors_by_stream)
assert pool.figures().live == 0 < pool.figures().reserved

streams = [torch.npu.Stream(device=number % 2) for number in range(4)]
in_threads(lambda number: [churn(streams[number], 200, 1000 * turn + number) for turn in range(5)], 4)
check(tensors_by_stream)
assert pool.last_error() is None
"""

STREAMS = """
torch.npu.change_current_allocator(plug)
torch.npu.set_device(0)
start = free_memory()
first, second = torch.npu.Stream(), torch.npu.Stream()

def overlap(address, mib, tensor):
    return tensor.data_ptr() < address + mib * MIB and address < tensor.data_ptr() + tensor.nbytes

# Its own stream gets a freed block at once, also while work that reads it is still queued, in torch_npu or here.
out = pinned(4 * MIB, fill=-1, dtype=torch.int8)
for turn in range(3):
    with hold_stream(first):
        with torch.npu.stream(first):
            old = torch.empty(4 * MIB, dtype=torch.int8, device="npu")
            old.copy_(pinned(4 * MIB, fill=turn, dtype=torch.int8), non_blocking=True)
            out.copy_(old, non_blocking=True)
            address = old.data_ptr()
            del old
            new = torch.empty(4 * MIB, dtype=torch.int8, device="npu")
            assert new.data_ptr() == address
            new.copy_(pinned(4 * MIB, fill=99, dtype=torch.int8), non_blocking=True)
            # Another stream does not get it: what it writes would land in the copy that is still to come.
            other = block_on(second, 4)
            assert not overlap(address, 4, other)
            del new
            third = block_on(second, 4)
            assert not overlap(address, 4, third)
            with torch.npu.stream(second):
                third.copy_(pinned(4 * MIB, fill=77, dtype=torch.uint8), non_blocking=True)
    assert (out == turn).all(), turn
    del other, third

# One block takes most of the budget. Freed on the first stream, the second gets it only when its last use is known to be over:
# without torch_npu's queue (mode 0) an event proves it, with the queue only the program can say so.
pool.synchronized()
assert pool.trim() > 0 and pool.figures().reserved == 0 and free_memory() == start
torch.npu.set_per_process_memory_fraction(0.25)
assert pool.figures().budget == 64 * MIB
for turn in range(2):
    with hold_stream(first):
        old = block_on(first, 40)
        address = old.data_ptr()
        with torch.npu.stream(first):
            out.copy_(old[: 4 * MIB].view(torch.int8), non_blocking=True)
        del old
        assert pool.figures().waiting >= 40 * MIB
        before = pool.figures().failed
        fails(lambda: block_on(second, 40))
        assert pool.figures().failed > before
        text = pool.last_error()
        assert "no memory on device 0 for 40" in text and "What to do" in text, text
        assert ("torch.npu.synchronize()" in text) == queued, text
        # To give it back to the device would be as wrong.
        assert pool.trim() == 0 and pool.figures().reserved >= 40 * MIB
        # The first stream may have it.
        assert overlap(address, 40, block_on(first, 40))
    torch.npu.synchronize()
    if queued:
        fails(lambda: block_on(second, 40))
        assert pool.trim() == 0
        pool.synchronized()
    new = block_on(second, 40)
    assert pool.figures().reserved <= 64 * MIB
    del new
    pool.synchronized()

# A block that another stream uses is kept from everybody, its own stream included, by the pool's record_stream and by torch's.
for record_stream in (pool.record_stream, torch.Tensor.record_stream):
    old = block_on(first, 40)
    address = old.data_ptr()
    with hold_stream(second):
        with torch.npu.stream(second):
            out.copy_(old[: 4 * MIB].view(torch.int8), non_blocking=True)
        record_stream(old, second)
        del old
        fails(lambda: block_on(first, 40))
    pool.synchronized()
    assert overlap(address, 40, block_on(first, 40))
    pool.synchronized()
while pool.last_error():
    pass

# Every byte comes back, by the pool's own function and by torch's.
for give_back in (pool.trim, torch.npu.empty_cache):
    kept = [block_on(stream, 10) for stream in (first, second, torch.npu.default_stream())]
    used = start[0] - free_memory()[0]
    assert used == pool.figures().reserved >= 30 * MIB, used
    table = subprocess.run(["npu-smi", "info"], capture_output=True, text=True, check=True).stdout
    row = re.search(rf"^\\| 0 .*\\| {os.getpid()} .*\\| (\\d+) +\\|$", table, re.M)
    assert int(row[1]) >= 30, table
    del kept
    pool.synchronized()
    assert start[0] - free_memory()[0] == used
    give_back()
    assert pool.figures().reserved == 0 and free_memory() == start
    assert pool.figures().taken == pool.figures().freed
assert pool.last_error() is None
"""

SLOW = """
torch.npu.change_current_allocator(plug)
torch.npu.set_device(0)
first, second = torch.npu.Stream(), torch.npu.Stream()
slow = torch.ones(1024, 1024, device="npu")
product = torch.empty_like(slow)
pool.synchronized()

def overlap(address, size, tensor):
    return tensor.data_ptr() < address + size and address < tensor.data_ptr() + tensor.nbytes

def queue(turn):
    # After slow products: y and z read x, which is freed before any of it has run.
    with torch.npu.stream(first):
        for _ in range(6):
            torch.mm(slow, slow, out=product)
        x = torch.full((10 * MIB,), float(turn), device="npu")
        y, z = x[:MIB] + 1, x[-MIB:] + 1
        return x.data_ptr(), y, z

def check(turn, *tensors):
    for tensor in tensors:
        assert (tensor.cpu() == turn + 1).all(), (turn, tensor.cpu().unique())

# With room enough the second stream gets other memory. A turn counts if the products were still running then.
in_time = 0
for turn in range(60):
    if in_time == 3:
        break
    address, y, z = queue(turn)
    with torch.npu.stream(second):
        others = [torch.full((size * MIB,), -1.0, device="npu") for size in (1, 3, 10)]
        running = not first.query()
        assert not (running or queued) or not any(overlap(address, 40 * MIB, other) for other in others)
    in_time += running
    pool.synchronized()
    check(turn, y, z)
    assert all((other.cpu() == -1).all() for other in others)
    del y, z, others
    pool.synchronized()
assert in_time == 3

# Without: in mode 0 the second stream waits for the event that proves that x was read; else it is refused until the
# program calls cairn_pool_synchronized.
pool.trim()
torch.npu.set_per_process_memory_fraction(0.25)
for turn in range(2):
    address, y, z = queue(turn)
    fill = lambda: torch.full((10 * MIB,), -1.0, device="npu")
    with torch.npu.stream(second):
        if queued:
            fails(fill)
            assert "torch.npu.synchronize()" in pool.last_error()
            pool.synchronized()
        other = fill()
        assert overlap(address, 40 * MIB, other) and pool.figures().reserved <= 64 * MIB
    torch.npu.synchronize()
    check(turn, y, z)
    assert (other.cpu() == -1).all()
    del y, z, other
    pool.synchronized()
while pool.last_error():
    pass
"""

BUDGET = """
# torch's caching allocator over the pool runs out of the pool's budget ...
start = free_memory()
torch.npu.set_device(0)
pool.check(pool.LIBRARY.cairn_pool_set_fraction(0.25, 0))
mem_pool = torch.npu.MemPool(plug.allocator())

def in_mem_pool(make):
    with torch.npu.use_mem_pool(mem_pool):
        return make()

kept = in_mem_pool(lambda: torch.full((40 * MIB,), 7, dtype=torch.uint8).npu())
message = fails(lambda: in_mem_pool(lambda: block(40)), torch.OutOfMemoryError)
assert "Tried to allocate 42.00 MiB" in message, message
text = pool.last_error()
assert "budget 64" in text and "largest owners: stream" in text and "cairn_pool_set_fraction(.., 0)" in text, text
assert pool.figures().failed > 0 and pool.figures().reserved <= 64 * MIB
# ... and goes on: with small blocks, and with large ones after the budget grew.
assert (kept.cpu() == 7).all() and in_mem_pool(lambda: torch.full((MIB,), 9, dtype=torch.uint8).npu()).cpu().sum() == 9 * MIB
pool.check(pool.LIBRARY.cairn_pool_set_fraction(1.0, 0))
more = in_mem_pool(lambda: torch.full((40 * MIB,), 8, dtype=torch.uint8).npu())
assert (more.cpu() == 8).all() and (kept.cpu() == 7).all()
assert pool.figures().live >= 80 * MIB and pool.figures().requested >= 80 * MIB
del kept, more, mem_pool, in_mem_pool
pool.synchronized()
torch.npu.empty_cache()
assert pool.figures().live == 0
pool.trim()
assert free_memory() == start, free_memory()
for wrong in (0.0, -1.0, 1.5, float("nan")):
    assert pool.LIBRARY.cairn_pool_set_fraction(wrong, 0) == -1 and "fraction" in pool.last_error()
"""

SOC = """
torch.npu.change_current_allocator(plug)
on_npu = torch.arange(1000).npu()
assert torch.npu.get_device_name() == os.environ["CAIRN_SOC"]
assert pool.figures().requested == on_npu.nbytes and torch.equal(on_npu.cpu(), torch.arange(1000))
churn(torch.npu.Stream(), 20, 0)
"""

MODES = pytest.mark.parametrize("mode", ["0", "1", "2"])


def run(code, mode="1", **env):
    builds.cairn()
    # A request waits for streams; here it would wait for one that this very thread holds.
    settings = {"TASK_QUEUE_ENABLE": mode, "CAIRN_DEVICE_MEMORY": "256mib", "CAIRN_POOL_WAIT_MS": "20"}
    return support.run_script(PRELUDE + code, **settings | env)


@pytest.mark.parametrize("mode", ["0", "1"])
def test_figures_are_what_torch_holds(mode):
    run(FIGURES, mode)


@MODES
def test_which_stream_gets_which_memory(mode):
    run(STREAMS, mode)


@MODES
def test_slow_kernel_in_front_of_what_is_freed(mode):
    run(SLOW, mode, CAIRN_POOL_WAIT_MS="60000")


def test_budget_is_out_of_memory_and_passes():
    run(BUDGET)


# Other chips: one for inference, and one on which ACL takes no registered allocators.
@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend310B4"])
def test_torch_7_product_families(soc):
    run(SOC, CAIRN_SOC=soc)
