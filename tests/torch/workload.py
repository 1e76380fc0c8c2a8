"""For scripts in a child process: what the tests of allocators do with torch."""

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
    """Makes tensors that live for two copies each, on one stream, and checks them. Every element is the number of its turn."""
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


def learn(device, steps=3):
    """Trains a small network on `device`; returns the losses and the weights, the same on every device."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(approximate="tanh"), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    points = torch.linspace(-1, 1, 60).reshape(10, 6).to(device)
    kinds = torch.arange(10).remainder(3).to(device)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(points), kinds)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return losses + [weight.detach() for weight in model.parameters()]


def compute():
    """Runs operators of several kinds, with and without workspace, checks the results and returns them."""
    x = torch.zeros(1000, device="npu")
    for turn in range(50):
        y = x + turn
        del x
        x = y
        del y
    n = torch.arange(6000, device="npu").reshape(60, 100)
    mixed = n * 7919 % 6007
    half = mixed.half().t() / 6007
    found = [x, mixed.sort(dim=1)[0], half @ half.t(), mixed.float().softmax(-1), mixed.topk(3)[1], mixed.sum(0)]
    m = torch.arange(6000).reshape(60, 100) * 7919 % 6007
    p = m.half().t() / 6007
    references = [torch.full((1000,), 1225.0), m.sort(dim=1)[0], p @ p.t(), m.float().softmax(-1), m.topk(3)[1], m.sum(0)]
    found += learn("npu")
    references += learn("cpu")
    for actual, expected in zip(found, references, strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=2e-3 if expected.dtype == torch.float16 else 1e-4, atol=1e-5)
    return found
