"""Sleep and wake of a model whose memory an allocator with virtual memory has: the addresses stay, the memory goes."""

import pytest

import builds
import support

CODE = """
    import ctypes, os, sys
    import acl, torch, torch_npu

    LIBRARY = ctypes.CDLL(sys.argv[1])
    LIBRARY.block_at.restype = ctypes.c_bool
    MIB = 1 << 20
    is_small = "CAIRN_DEVICE_MEMORY" in os.environ

    def blocks():
        found, address, size = [], ctypes.c_void_p(), ctypes.c_size_t()
        while LIBRARY.block_at(ctypes.c_size_t(len(found)), ctypes.byref(address), ctypes.byref(size)):
            found.append((address.value, size.value))
        return found

    def shared_mib():
        for line in open("/proc/self/status"):
            if line.startswith("RssShmem:"):
                return int(line.split()[1]) // 1024

    def set_asleep(address, is_asleep):
        assert LIBRARY.set_asleep(ctypes.c_void_p(address), ctypes.c_bool(is_asleep), 0) == 0

    torch.npu.set_device(0)
    allocator = torch_npu.npu.memory.NPUPluggableAllocator(sys.argv[1], "my_malloc", "my_free")
    pool = torch.npu.MemPool(allocator.allocator())
    torch.manual_seed(0)
    with torch.npu.use_mem_pool(pool):
        net = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).npu()
    batch = torch.randn(4, 2048).npu()
    before = net(batch).cpu()
    pointers = [parameter.data_ptr() for parameter in net.parameters()]
    torch.npu.synchronize()
    bytes_held = sum(size for _, size in blocks())
    assert bytes_held >= 8 * 16 * MIB, bytes_held
    # Of the segments only what was touched is resident.
    touched = sum(parameter.numel() * 4 for parameter in net.parameters()) // MIB
    allocated = torch.npu.memory_allocated()
    for _ in range(3):
        awake, free = shared_mib(), torch.npu.mem_get_info()[0]
        saved = {}
        for address, size in blocks():
            saved[address] = host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
            # The room that is passed is an address and more, as the allocator of vllm-ascend passes it.
            assert acl.rt.memcpy(host.data_ptr(), host.data_ptr() + 2 * size, address, size, 2) == 0
            set_asleep(address, True)
        asleep = shared_mib()
        assert awake - asleep >= touched * 9 // 10, (awake, asleep, touched)
        # On a device that is as large as the machine's memory allows, others take some of what is free meanwhile.
        assert torch.npu.mem_get_info()[0] >= free + (bytes_held if is_small else bytes_held // 2)
        assert torch.npu.memory_allocated() == allocated
        for address, host in saved.items():
            set_asleep(address, False)
            assert acl.rt.memcpy(address, host.numel(), host.data_ptr(), host.numel(), 1) == 0
        assert [parameter.data_ptr() for parameter in net.parameters()] == pointers
        assert torch.equal(net(batch).cpu(), before)
        assert not is_small or torch.npu.mem_get_info()[0] <= free
    print("slept")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sleeping")
    flags = ["-O1", "-Wall", "-Werror", *builds.toolkit_flags(folder)]
    return builds.Build(folder, builds.HERE / "sleeping_allocator.cpp", *flags, name="sleeping_allocator.so").library().path


@pytest.mark.parametrize("device_memory", [{"CAIRN_DEVICE_MEMORY": "1gib"}, {}], ids=["small", "default"])
def test_a_model_sleeps_and_wakes(library, device_memory):
    assert "slept" in support.run_script(CODE, arguments=[library], **device_memory).stdout
