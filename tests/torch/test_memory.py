"""torch_npu's caching allocator on our memory: statistics, limits, out of memory."""

import gc

import pytest
import torch
import torch_npu

import support
from support import MIB


@pytest.fixture(autouse=True)
def nothing_held():
    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    torch.npu.reset_accumulated_memory_stats()


def block(mib, device="npu"):
    return torch.empty(mib * MIB, dtype=torch.uint8, device=device)


def test_allocated_and_reserved():
    allocated, reserved = torch.npu.memory_allocated(), torch.npu.memory_reserved()
    small = torch.empty(1000, dtype=torch.uint8, device="npu")
    assert 1000 <= torch.npu.memory_allocated() - allocated < 2048
    assert torch.npu.memory_reserved() - reserved == 2 * MIB
    large = block(32)
    assert 32 * MIB <= torch.npu.memory_allocated() - allocated < 33 * MIB
    del small, large
    assert torch.npu.memory_allocated() == allocated
    assert torch.npu.memory_reserved() - reserved >= 34 * MIB
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == reserved


def test_peak():
    base = torch.npu.memory_allocated()
    first, second = block(16), block(16)
    del first, second
    assert torch.npu.memory_allocated() == base
    assert torch.npu.max_memory_allocated() - base >= 32 * MIB
    assert torch.npu.max_memory_reserved() >= torch.npu.max_memory_allocated()
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == base


def test_statistics():
    before = torch.npu.memory_stats()
    tensors = [block(8) for _ in range(3)]
    during = torch.npu.memory_stats()
    assert during["allocation.all.current"] - before["allocation.all.current"] == 3
    assert during["num_alloc_retries"] == during["num_ooms"] == 0
    del tensors
    after = torch.npu.memory_stats()
    assert after["allocation.all.current"] == before["allocation.all.current"]
    assert after["allocation.all.freed"] - before["allocation.all.freed"] == 3


def test_summary_and_snapshot():
    tensor = block(8)
    summary = torch.npu.memory_summary()
    assert "Allocated memory" in summary and "NPU OOMs: 0" in summary
    segments = torch_npu.npu.memory_snapshot()
    assert any(segment["address"] <= tensor.data_ptr() < segment["address"] + segment["total_size"] for segment in segments)


def test_cache_hands_the_block_out_again():
    first = block(8)
    address = first.data_ptr()
    del first
    free = torch.npu.mem_get_info()[0]
    second = block(8)
    assert second.data_ptr() == address
    assert torch.npu.mem_get_info()[0] == free


def test_devices_are_counted_apart():
    zero, one = (torch.npu.memory_allocated(device) for device in range(2))
    tensor = block(16, "npu:1")
    assert torch.npu.memory_allocated(0) == zero
    assert torch.npu.memory_allocated(1) - one >= 16 * MIB
    del tensor


def test_device_sees_what_torch_reserves():
    free, total = torch.npu.mem_get_info()
    reserved = torch.npu.memory_reserved()
    tensor = block(64)
    assert free - torch.npu.mem_get_info()[0] == torch.npu.memory_reserved() - reserved
    del tensor
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info() == (free, total)


def test_alignment():
    for size in (1, 100, 512, 5000, 3 * MIB):
        assert torch.empty(size, dtype=torch.uint8, device="npu").data_ptr() % 512 == 0


def test_used_by_another_stream():
    """record_stream keeps a freed block from being handed out while the other stream may still use it."""
    other = torch.npu.Stream()
    out = support.pinned(2 * MIB, fill=-1, dtype=torch.int8)
    first = torch.full((2 * MIB,), 1, dtype=torch.int8).npu()
    address = first.data_ptr()
    with support.hold_stream(other):
        with torch.npu.stream(other):
            out.copy_(first, non_blocking=True)
        first.record_stream(other)
        del first
        second = torch.full((2 * MIB,), 2, dtype=torch.int8).npu()
        assert second.data_ptr() != address
    assert (out == 1).all()


def test_raw_allocation():
    base = torch.npu.memory_allocated()
    address = torch_npu.npu.caching_allocator_alloc(1 * MIB)
    assert torch.npu.memory_allocated() - base >= 1 * MIB
    torch_npu.npu.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == base


def test_work_goes_on_after_out_of_memory():
    result = support.run_script(
        """
        import torch
        MIB = 1 << 20

        free, total = torch.npu.mem_get_info()
        assert total == 256 * MIB, total
        try:
            torch.empty(1 << 30, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError as error:
            print(error)
        else:
            raise AssertionError("1 GiB fits in 256 MiB")

        # No memory is lost by that, and every byte comes back.
        for _ in range(3):
            tensors = []
            try:
                while True:
                    tensors.append(torch.full((20 * MIB,), len(tensors), dtype=torch.uint8).npu())
            except torch.OutOfMemoryError:
                pass
            assert 10 <= len(tensors) <= 12, len(tensors)
            assert all((block.cpu() == number).all() for number, block in enumerate(tensors))
            tensors.clear()
            torch.npu.empty_cache()
            assert torch.npu.mem_get_info() == (free, total)
        assert torch.npu.memory_stats()["num_ooms"] == 4

        # The other device was never touched.
        assert torch.npu.mem_get_info(1) == (total, total)
        """,
        CAIRN_DEVICE_MEMORY="256mib",
    )
    assert "NPU out of memory. Tried to allocate 1.00 GiB" in result.stdout
    assert "256.00 MiB total capacity" in result.stdout


def test_cached_blocks_are_given_up_before_out_of_memory():
    support.run_script(
        """
        import torch
        MIB = 1 << 20
        tensors = [torch.empty(30 * MIB, dtype=torch.uint8, device="npu") for _ in range(6)]
        del tensors
        assert torch.npu.memory_reserved() >= 180 * MIB
        large = torch.full((200 * MIB,), 7, dtype=torch.uint8).npu()
        assert torch.npu.memory_stats()["num_alloc_retries"] == 1
        assert (large.cpu() == 7).all()
        """,
        CAIRN_DEVICE_MEMORY="256mib",
    )


def test_huge_request_is_out_of_memory_too():
    for size in (1 << 45, 1 << 55):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(size, dtype=torch.uint8, device="npu")
    assert torch.empty(10, device="npu").cpu().shape == (10,)


def test_memory_fraction():
    support.run_script(
        """
        import torch
        MIB = 1 << 20
        torch.npu.set_per_process_memory_fraction(0.25)
        fits = torch.empty(200 * MIB, dtype=torch.uint8, device="npu")
        try:
            torch.empty(100 * MIB, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError:
            pass
        else:
            raise AssertionError("300 MiB fit in a quarter of 1 GiB")
        assert torch.npu.mem_get_info()[0] >= 800 * MIB
        torch.npu.set_per_process_memory_fraction(1.0)
        more = torch.empty(100 * MIB, dtype=torch.uint8, device="npu")
        """,
        CAIRN_DEVICE_MEMORY="1gib",
    )


def test_without_cache():
    """Every tensor is one aclrtMalloc and one aclrtFree."""
    support.run_script(
        """
        import torch
        MIB = 1 << 20
        free = torch.npu.mem_get_info()[0]
        for turn in range(200):
            x = torch.full((3 * MIB,), turn % 100, dtype=torch.int8).npu()
            assert free - torch.npu.mem_get_info()[0] >= 3 * MIB
            assert (x.cpu() == turn % 100).all()
            del x
            assert torch.npu.mem_get_info()[0] == free
        """,
        PYTORCH_NO_NPU_MEMORY_CACHING="1",
        CAIRN_DEVICE_MEMORY="256mib",
    )
