"""Programs of several ranks that go wrong, for test_rank_faults.py: each prints what it got, or is ended by torch_npu's watchdog."""

import os
import signal

import torch
from torch import distributed as dist
from torch import nn


def report(here, work):
    """Runs the work of a rank: an error is printed and ends the rank at once, as the rest of its group cannot go on."""
    try:
        work()
        torch.npu.synchronize()
    except Exception as error:
        print(f"error: {error}", flush=True)
        os._exit(3)


def killed_in_training(here, step):
    """DDP in which rank 1 is killed in the middle."""

    def work():
        torch.manual_seed(0)
        model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8).to(here.device), device_ids=[here.device.index])
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for number in range(1000):
            if here.rank == 1 and number == step:
                os.kill(os.getpid(), signal.SIGKILL)
            model(torch.ones(2, 8, device=here.device)).sum().backward()
            optimiser.step()
            torch.npu.synchronize()

    with here.group("hccl"):
        report(here, work)


def different_counts(here):
    with here.group("hccl"):
        report(here, lambda: dist.all_reduce(torch.ones(10 + here.rank, device=here.device)))


def different_types(here):
    dtype = torch.float32 if here.rank else torch.int32
    with here.group("hccl"):
        report(here, lambda: dist.all_reduce(torch.ones(10, dtype=dtype, device=here.device)))


def different_operators(here):
    tensor = lambda: torch.ones(10, device=here.device)
    with here.group("hccl"):
        report(here, lambda: dist.broadcast(tensor(), 0) if here.rank else dist.all_reduce(tensor()))


def different_roots(here):
    """Each rank is the root, so that none receives anything: noticed by the next operator."""

    def work():
        tensor = torch.ones(10, device=here.device)
        dist.broadcast(tensor, here.rank)
        dist.all_reduce(tensor)

    with here.group("hccl"):
        report(here, work)


def a_rank_that_does_not_call(here):
    """Rank 1 takes part once, then waits for rank 0 to end, and with it the store that it has."""
    with here.group("hccl"):
        tensor = torch.ones(10, device=here.device)
        dist.all_reduce(tensor)
        torch.npu.synchronize()
        if here.rank == 1:
            try:
                here.store.wait(["nothing that is ever set"])
            except dist.DistNetworkError:
                os._exit(0)
        report(here, lambda: dist.all_reduce(tensor))
