"""In a child process: what the tests of allocators do with torch."""

import threading

import torch
import torch_npu

from support import MIB, pinned


def fails(call, kind=RuntimeError):
    """The text of the error that `call` must raise."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no error")


def free_memory():
    """Free bytes of both devices; torch_npu, which sets devices late, has to be told the current one."""
    torch.npu.set_device(0)
    return [torch.npu.mem_get_info(device)[0] for device in range(2)]


def block(mib, device="npu"):
    return torch.empty(mib * MIB, dtype=torch.uint8, device=device)


def block_on(stream, mib):
    with torch.npu.stream(stream):
        return block(mib, stream.device)


def churn(stream, turns, first):
    """Tensors that live for two copies each, on one stream. Every element carries the number of its turn."""
    sizes = (1, 100, 3000, 20_000)
    outs = pinned(turns, max(sizes), fill=-1)
    with torch.npu.stream(stream):
        for turn in range(turns):
            size = sizes[turn % len(sizes)]
            device = torch.empty(size, dtype=torch.int32, device=stream.device)
            device.copy_(pinned(size, fill=first + turn), non_blocking=True)
            outs[turn, :size].copy_(device, non_blocking=True)
            del device
    stream.synchronize()
    for turn in range(turns):
        size = sizes[turn % len(sizes)]
        assert (outs[turn, :size] == first + turn).all(), (turn, size)
        assert (outs[turn, size:] == -1).all(), (turn, size)


def in_threads(work, count):
    """Calls `work(number)` in as many threads, and fails if one of them does."""
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
