"""Copies of contiguous tensors of one dtype: what torch_npu does by aclrtMemcpy and aclrtMemcpyAsync alone."""

import numpy
import pytest
import torch

import support
from support import hold_stream, pinned

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
SIZES = [1, 3, 10, 511, 512, 513, 4096, 100_003]


def sample(count, dtype):
    """Numbers that fill every byte of an element, always the same ones."""
    generator = torch.Generator().manual_seed(count)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    size = count * torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator).view(dtype)


def same(a, b):
    """Equality of bytes, so that NaN and -0.0 count."""
    assert a.dtype == b.dtype and a.shape == b.shape
    return torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))


def test_empty_to_cpu():
    x = torch.empty(10, device="npu").cpu()
    assert x.device.type == "cpu" and x.shape == (10,) and x.dtype == torch.float32


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("device", [0, 1])
def test_round_trip(device, dtype):
    for count in SIZES:
        source = sample(count, dtype)
        on_npu = source.to(f"npu:{device}")
        assert on_npu.device == torch.device("npu", device) and on_npu.dtype == dtype
        assert same(on_npu.cpu(), source), count


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip_pinned_and_not_blocking(dtype):
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        for count in SIZES:
            source = sample(count, dtype).pin_memory()
            out = torch.empty_like(source).pin_memory()
            out.copy_(source.to("npu", non_blocking=True), non_blocking=True)
            stream.synchronize()
            assert same(out, source), count


def test_shapes():
    for shape in [(), (1,), (2, 3), (4, 1, 5), (2, 3, 4, 5), (1,) * 8]:
        source = sample(max(1, torch.Size(shape).numel()), torch.float32).reshape(shape)
        assert same(source.npu().cpu(), source)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0, 2)])
def test_no_elements(shape):
    on_npu = torch.empty(shape, device="npu")
    assert on_npu.cpu().shape == torch.Size(shape)
    assert torch.empty(shape).npu().shape == torch.Size(shape)
    assert on_npu.to("npu:1").shape == torch.Size(shape)
    torch.npu.synchronize()


def test_item_and_numpy():
    assert torch.tensor(2.5).npu().item() == 2.5
    assert torch.tensor(True).npu().item() is True
    array = numpy.arange(1000, dtype=numpy.int64)
    assert (torch.from_numpy(array).npu().cpu().numpy() == array).all()
    assert torch.arange(5).npu().tolist() == [0, 1, 2, 3, 4]


def test_slices_with_an_offset():
    """A contiguous part of a tensor: the copy starts inside the allocation, and changes nothing beside it."""
    source = torch.arange(1000, dtype=torch.int64)
    on_npu = source.npu()
    assert torch.equal(on_npu[100:200].cpu(), source[100:200])
    on_npu[100:200].copy_(torch.full((100,), -1))
    expected = source.clone()
    expected[100:200] = -1
    assert torch.equal(on_npu.cpu(), expected)


def test_cast_and_broadcast_on_the_host_side():
    """torch_npu converts on the CPU when one side is the CPU."""
    on_npu = torch.empty(3, 4, dtype=torch.float32, device="npu")
    on_npu.copy_(torch.arange(4))
    assert on_npu.cpu().tolist() == [[0, 1, 2, 3]] * 3


def test_source_changed_after_a_blocking_copy():
    source = torch.zeros(100_000, dtype=torch.int32)
    on_npu = source.npu()
    source.fill_(1)
    assert (on_npu.cpu() == 0).all()


def test_pinned_memory():
    x = torch.empty(1000, pin_memory=True)
    assert x.is_pinned()
    assert not torch.empty(1000).is_pinned()
    assert x[10:20].is_pinned()
    y = torch.arange(1000).pin_memory()
    assert y.is_pinned() and y.tolist() == list(range(1000))


def test_pinned_block_is_not_reused_before_its_copy_ran():
    """torch_npu's host allocator asks an event whether a freed pinned block may be handed out again."""
    stream = torch.npu.Stream()
    on_npu = torch.empty(1 << 16, dtype=torch.int32, device="npu")
    with hold_stream(stream):
        with torch.npu.stream(stream):
            source = pinned(1 << 16, fill=1)
            on_npu.copy_(source, non_blocking=True)
        address = source.data_ptr()
        del source
        others = [pinned(1 << 16, fill=2) for _ in range(4)]
        assert address not in [other.data_ptr() for other in others]
    assert (on_npu.cpu() == 1).all()


def test_non_blocking_from_pageable_memory():
    on_npu = torch.empty(1 << 16, dtype=torch.int32, device="npu")
    source = torch.full((1 << 16,), 3, dtype=torch.int32)
    on_npu.copy_(source, non_blocking=True)
    torch.npu.synchronize()
    assert (on_npu.cpu() == 3).all()


def test_many_copies_stay_in_order():
    """One stream, one target, ten thousand writes: each read sees the last write before it."""
    sources = [pinned(256, fill=value) for value in range(16)]
    outs = pinned(10_000, 256, fill=-1)
    on_npu = torch.empty(256, dtype=torch.int32, device="npu")
    for turn in range(10_000):
        on_npu.copy_(sources[turn % 16], non_blocking=True)
        outs[turn].copy_(on_npu, non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(outs, (torch.arange(10_000, dtype=torch.int32) % 16)[:, None].expand(-1, 256))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64], ids=str)
@pytest.mark.parametrize("devices", [(0, 1), (1, 0)])
def test_between_devices(devices, dtype):
    first, second = (f"npu:{device}" for device in devices)
    for count in SIZES:
        source = sample(count, dtype)
        on_npu = source.to(first)
        other = on_npu.to(second)
        assert other.device == torch.device(second) and other.data_ptr() != on_npu.data_ptr()
        assert same(other.cpu(), source), count
        assert same(on_npu.cpu(), source), count


def test_between_devices_into_a_given_tensor():
    source = sample(100_003, torch.float32)
    target = torch.empty(100_003, device="npu:1")
    assert target.copy_(source.to("npu:0"), non_blocking=True) is target
    torch.npu.synchronize(1)
    assert same(target.cpu(), source)


def test_between_devices_waits_for_both_streams():
    """The copy runs after what was queued on the source's stream."""
    stream = torch.npu.Stream(device=0)
    source = torch.zeros(1 << 16, dtype=torch.int32).to("npu:0")
    with hold_stream(stream) as release:
        with torch.npu.stream(stream):
            source.copy_(pinned(1 << 16, fill=9), non_blocking=True)
            release.set()
            assert (source.to("npu:1").cpu() == 9).all()


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_task_queue_modes(mode):
    support.run_script(
        """
        import torch
        for count in (1, 1000, 1 << 20):
            source = torch.arange(count, dtype=torch.int32).pin_memory()
            out = torch.empty_like(source).pin_memory()
            out.copy_(source.to("npu", non_blocking=True), non_blocking=True)
            torch.npu.synchronize()
            assert torch.equal(source, out)
            assert torch.equal(source.to("npu:1").to("npu:0").cpu(), source)
        """,
        TASK_QUEUE_ENABLE=mode,
    )


def test_launch_blocking():
    support.run_script(
        """
        import torch
        source = torch.arange(1000).pin_memory()
        on_npu = source.to("npu", non_blocking=True)
        assert torch.equal(on_npu.cpu(), source)
        """,
        fresh=True,
        ASCEND_LAUNCH_BLOCKING="1",
    )
