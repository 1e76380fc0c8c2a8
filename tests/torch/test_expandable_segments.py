"""torch_npu's expandable segments on our virtual memory."""

import support

EXPANDABLE = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}

TRAINING = """
    import torch, torch_npu

    MIB = 1 << 20
    net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).npu()
    optimizer = torch.optim.Adam(net.parameters())

    def step(rows):
        output = net(torch.ones(rows, 512, device="npu"))
        (output * output).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for rows in (64, 1024, 4096, 256):
        step(rows)
    peak = torch.npu.memory_reserved()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    live, reserved = torch.npu.memory_allocated(), torch.npu.memory_reserved()
    assert peak > reserved + 20 * MIB, (peak, reserved)
    assert live <= reserved < live + 44 * MIB, (live, reserved)
    free, total = torch.npu.mem_get_info()
    step(4096)
    torch.npu.synchronize()
    assert torch.npu.mem_get_info()[0] < free
    segments = torch.npu.memory_snapshot()
    assert all(segment["is_expandable"] for segment in segments)
    assert sum(segment["total_size"] for segment in segments) == torch.npu.memory_reserved()
    assert sum(segment["allocated_size"] for segment in segments) == torch.npu.memory_allocated()
    print("trained")
"""


def test_reserved_follows_live_through_training():
    assert "trained" in support.run_script(TRAINING, **EXPANDABLE).stdout


def test_a_tensor_lies_across_pieces_and_out_of_memory_is_an_exception():
    code = """
        import torch, torch_npu

        big = torch.empty(70 << 20, dtype=torch.uint8, device="npu").fill_(3)
        assert int(big.sum(dtype=torch.int64)) == 3 * big.numel()
        try:
            torch.empty(1 << 44, device="npu")
            raise SystemExit("no error")
        except torch.OutOfMemoryError:
            pass
        assert int(big[-1]) == 3
        pool = torch.npu.MemPool()
        with torch.npu.use_mem_pool(pool):
            inside = torch.ones(1 << 22, device="npu")
        assert float(inside.sum()) == 1 << 22
    """
    support.run_script(code, **EXPANDABLE)


def test_pinned_memory_grows_in_segments_too():
    code = """
        import torch, torch_npu

        torch.npu.set_device(0)
        host = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
        assert host.is_pinned() and host.data_ptr() >> 40 == 16
        device = host.to("npu", non_blocking=True)
        torch.npu.synchronize()
        assert torch.equal(device.cpu(), host)
    """
    settings = "expandable_segments:True,pin_memory_expandable_segments:True"
    support.run_script(code, PYTORCH_NPU_ALLOC_CONF=settings)
