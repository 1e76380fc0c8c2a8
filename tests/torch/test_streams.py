"""Streams and events. No test waits for time to pass: a stream that must be busy is held by a host function."""

import threading
import time

import pytest
import torch

import support
from support import hold_stream, pinned


def test_default_and_current_stream():
    default = torch.npu.default_stream()
    assert torch.npu.current_stream() == default
    side = torch.npu.Stream()
    assert side != default
    with torch.npu.stream(side):
        assert torch.npu.current_stream() == side
    assert torch.npu.current_stream() == default
    assert torch.npu.Stream(device=1).device == torch.device("npu:1")


def test_many_streams_at_work():
    streams = [torch.npu.Stream() for _ in range(64)]
    # torch_npu hands out a fixed set of streams in turn.
    assert len({stream.npu_stream for stream in streams}) >= 30
    outs = []
    for number, stream in enumerate(streams):
        with torch.npu.stream(stream):
            source = pinned(5000, fill=number)
            out = pinned(5000, fill=-1)
            out.copy_(torch.empty_like(source, device="npu").copy_(source, non_blocking=True), non_blocking=True)
            outs.append(out)
    torch.npu.synchronize()
    for number, (stream, out) in enumerate(zip(streams, outs)):
        assert stream.query()
        assert (out == number).all()


def test_priorities():
    streams = [torch.npu.Stream(priority=priority) for priority in (0, -1)]
    for number, stream in enumerate(streams):
        with torch.npu.stream(stream):
            device = torch.empty(100, dtype=torch.int32, device="npu").copy_(pinned(100, fill=number), non_blocking=True)
        stream.synchronize()
        assert device.cpu().tolist() == [number] * 100


def test_query_and_synchronize_see_work_in_flight():
    stream = torch.npu.Stream()
    event = torch.npu.Event()
    with hold_stream(stream) as release:
        event.record(stream)
        assert not stream.query()
        assert not event.query()
        release.set()
        event.synchronize()
        assert event.query()
    assert stream.query()


def test_copies_wait_on_a_held_stream():
    stream = torch.npu.Stream()
    out = pinned(1000, fill=-1)
    device = torch.full((1000,), 7, dtype=torch.int32).npu()
    with hold_stream(stream) as release:
        with torch.npu.stream(stream):
            out.copy_(device, non_blocking=True)
        assert not stream.query()
        assert (out == -1).all()
        release.set()
        stream.synchronize()
        assert (out == 7).all()


def test_streams_run_in_parallel():
    blocked, free = torch.npu.Stream(), torch.npu.Stream()
    with hold_stream(blocked):
        with torch.npu.stream(free):
            out = pinned(1000, fill=-1)
            out.copy_(torch.empty(1000, dtype=torch.int32, device="npu").copy_(pinned(1000, fill=3), non_blocking=True), non_blocking=True)
        free.synchronize()
        assert (out == 3).all()
        assert not blocked.query()


@pytest.mark.parametrize("device", [0, 1])
def test_waiting_orders_copies(device):
    first, second = torch.npu.Stream(), torch.npu.Stream(device=device)
    target = torch.empty(1000, dtype=torch.int32, device="npu:0")
    out = pinned(1000, fill=-1)
    with hold_stream(first) as release:
        with torch.npu.stream(first):
            target.copy_(pinned(1000, fill=11), non_blocking=True)
        copied = first.record_event()
        if device == 0:
            second.wait_stream(first)
        else:
            # torch_npu has one queue for each device: asking for the handle empties the first one, so that the record
            # is submitted before the wait.
            assert first.npu_stream
            second.wait_event(copied)
        second_event = torch.npu.Event()
        with torch.npu.stream(second):
            if device == 0:
                out.copy_(target, non_blocking=True)
            second_event.record()
        assert not second_event.query()
        assert not second.query()
        assert (out == -1).all()
        release.set()
        second_event.synchronize()
        assert copied.query()
        if device == 0:
            assert (out == 11).all()


def test_wait_event_needs_only_what_was_recorded():
    """What is queued on the first stream after the record does not hold up the second."""
    first, second = torch.npu.Stream(), torch.npu.Stream()
    event = first.record_event()
    with hold_stream(first):
        second.wait_event(event)
        second.synchronize()
        assert not first.query()


def test_unrecorded_event_is_complete():
    event = torch.npu.Event()
    assert event.query()
    event.synchronize()
    torch.npu.current_stream().wait_event(event)
    torch.npu.synchronize()


def test_elapsed_time_lies_within_the_wall_clock():
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    source = torch.ones(32 * support.MIB, dtype=torch.uint8).pin_memory()
    device = torch.empty_like(source, device="npu")
    torch.npu.synchronize()
    start_time = time.perf_counter()
    start.record()
    for _ in range(4):
        device.copy_(source, non_blocking=True)
    end.record()
    end.synchronize()
    wall = (time.perf_counter() - start_time) * 1000
    assert 0 < start.elapsed_time(end) <= wall


def test_elapsed_time_covers_the_time_a_stream_was_held():
    stream = torch.npu.Stream()
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record(stream)
    start.synchronize()
    with hold_stream(stream) as release:
        end.record(stream)
        start_time = time.perf_counter()
        torch.ones(16 * support.MIB).sum()
        busy = (time.perf_counter() - start_time) * 1000
        release.set()
        end.synchronize()
    assert start.elapsed_time(end) >= busy


def test_elapsed_time_refuses_events_without_time():
    timed, other = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    timed.record()
    torch.npu.synchronize()
    with pytest.raises(RuntimeError):
        timed.elapsed_time(other)


def test_event_recorded_anew():
    event = torch.npu.Event()
    event.record()
    event.synchronize()
    stream = torch.npu.Stream()
    with hold_stream(stream):
        event.record(stream)
        assert not event.query()
    assert event.query()


def test_synchronize_from_many_threads():
    """Each thread has its own stream and sees its own results only."""
    failures = []

    def work(number):
        try:
            stream = torch.npu.Stream(device=number % 2)
            with torch.npu.stream(stream):
                for turn in range(50):
                    value = number * 1000 + turn
                    out = pinned(2000, fill=-1)
                    device = torch.empty(2000, dtype=torch.int32, device=stream.device)
                    device.copy_(pinned(2000, fill=value), non_blocking=True)
                    out.copy_(device, non_blocking=True)
                    stream.synchronize()
                    assert (out == value).all(), (number, turn)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_thousands_of_events():
    stream = torch.npu.Stream()
    events = [stream.record_event() for _ in range(5000)]
    stream.synchronize()
    assert all(event.query() for event in events)


def test_stream_outlives_its_python_object():
    out = pinned(1000, fill=-1)
    device = torch.full((1000,), 5, dtype=torch.int32).npu()
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        out.copy_(device, non_blocking=True)
    del stream
    torch.npu.synchronize()
    assert (out == 5).all()
