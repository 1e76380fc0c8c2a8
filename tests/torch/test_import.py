"""Loading the wheels, and what they say about the devices."""

import os
import threading

import pytest
import torch

import support


def test_import_is_silent_and_needs_no_torch_npu_line():
    """torch finds the backend by itself, through the wheel's entry point."""
    result = support.run_script("import torch; print(torch.npu.is_available())", fresh=True)
    assert (result.stdout, result.stderr) == ("True\n", "")


def test_first_use_and_exit_are_silent():
    result = support.run_script(
        """
        import torch
        x = torch.empty(10, device="npu")
        s = torch.npu.Stream()
        with torch.npu.stream(s):
            x.copy_(torch.ones(10).pin_memory(), non_blocking=True)
        # The end of the process finds a live tensor, a stream and perhaps a copy on its way.
        """,
        fresh=True,
    )
    # torch_npu says this on the hardware too, at the first allocation.
    lines = [line for line in result.stderr.splitlines() if "processing for 32 padding size" not in line]
    assert (result.stdout, lines) == ("", [])


def test_two_devices_by_default():
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 2


def test_device_count_follows_the_settings():
    script = "import torch; print(torch.npu.device_count())"
    assert support.run_script(script, CAIRN_DEVICES="5").stdout == "5\n"
    assert support.run_script(script, CAIRN_DEVICES="5", ASCEND_RT_VISIBLE_DEVICES="1,3").stdout == "2\n"


def test_bad_setting_is_an_error_that_names_it():
    result = support.run_script("import torch; torch.empty(1, device='npu')", check=False, CAIRN_DEVICES="many")
    assert result.returncode == 1
    assert "CAIRN_DEVICES" in result.stderr and "many" in result.stderr


def test_name_and_properties():
    assert torch.npu.get_device_name() == torch.npu.get_device_name(1) == "Ascend910B1"
    for device in range(2):
        properties = torch.npu.get_device_properties(device)
        assert properties.name == "Ascend910B1"
        assert properties.total_memory == torch.npu.mem_get_info(device)[1] > 0
        assert properties.cube_core_num > 0 and properties.vector_core_num > 0
        assert properties.L2_cache_size > 0
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.npu.get_device_properties(2)


@pytest.mark.parametrize("soc", ["Ascend910B4", "Ascend910_9391"])
def test_name_follows_the_setting(soc):
    script = "import torch; x = torch.empty(4, device='npu'); print(torch.npu.get_device_name()); x.cpu()"
    assert support.run_script(script, CAIRN_SOC=soc).stdout == soc + "\n"


def test_current_device():
    assert torch.npu.current_device() == 0
    torch.npu.set_device(1)
    assert torch.npu.current_device() == 1
    assert torch.empty(1, device="npu").device == torch.device("npu:1")
    with torch.npu.device(0):
        assert torch.empty(1, device="npu").device == torch.device("npu:0")
    assert torch.npu.current_device() == 1
    with pytest.raises(RuntimeError):
        torch.npu.set_device(2)
    torch.npu.set_device(0)
    assert torch.empty(1, device="npu").device == torch.device("npu:0")


def test_current_device_belongs_to_the_thread():
    torch.npu.set_device(1)
    devices = []
    thread = threading.Thread(target=lambda: devices.append(torch.empty(1, device="npu").device))
    thread.start()
    thread.join()
    assert devices == [torch.device("npu:0")]
    assert torch.npu.current_device() == 1


def test_memory_info_of_each_device():
    """With sizes that the machine can back for both devices at once: otherwise they share what there is."""
    support.run_script(
        """
        import torch
        MIB = 1 << 20
        # torch_npu sets devices late: without this it answers for device 0 with the device it used last.
        torch.npu.set_device(0)
        assert [torch.npu.mem_get_info(device) for device in range(2)] == [(256 * MIB, 256 * MIB)] * 2
        tensor = torch.empty(64 * MIB, dtype=torch.uint8, device="npu:1")
        assert torch.npu.mem_get_info(0) == (256 * MIB, 256 * MIB)
        free, total = torch.npu.mem_get_info(1)
        assert 160 * MIB < free <= 192 * MIB, free
        assert total == 256 * MIB
        assert torch.npu.get_device_properties(1).total_memory == 256 * MIB
        """,
        CAIRN_DEVICE_MEMORY="256mib",
    )


def test_peer_access_is_possible():
    assert torch.npu.can_device_access_peer(0, 1)
    assert torch.npu.can_device_access_peer(1, 0)


def test_fork_after_use_is_refused_in_the_child():
    """torch_npu notices `multiprocessing` only; after a bare fork it is the library that must refuse."""
    support.run_script(
        """
        import multiprocessing, os, torch

        def use():
            try:
                torch.empty(64 << 20, device="npu")
            except RuntimeError as error:
                os._exit(42 if "forked subprocess" in str(error) else 43)
            os._exit(1)

        x = torch.ones(10).npu()
        worker = multiprocessing.get_context("fork").Process(target=use)
        worker.start()
        worker.join()
        assert worker.exitcode == 42, worker.exitcode

        child = os.fork()
        if child == 0:
            use()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 43, status
        assert x.cpu().tolist() == [1] * 10
        """,
        fresh=True,
    )


def test_fork_before_use_gives_the_child_its_own_devices():
    support.run_script(
        """
        import os, torch, torch_npu
        child = os.fork()
        x = torch.full((1000,), os.getpid()).npu()
        assert x.cpu().tolist() == [os.getpid()] * 1000
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )


def test_environment_is_the_toolkit():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = {line.split()[-1] for line in maps if "/" in line}
    home = os.path.realpath(os.environ["ASCEND_HOME_PATH"])
    acl_libraries = {path for path in loaded if "ascendcl" in os.path.basename(path)}
    assert acl_libraries and all(path.startswith(home + "/") for path in acl_libraries), acl_libraries
