"""`torch_npu.npu.change_current_allocator`: the vendor's manual page, its examples, and what a wrong library leads to.

Each test is named after the clause of the contract that it shows. More of TORCH-1, TORCH-3 and TORCH-6 is in
test_user_allocators.py, the operators' part of TORCH-6 in test_null_addresses.py.
"""

import os
import pathlib
import re
import stat
import subprocess

import pytest

import builds
import support

EXAMPLE = """
import torch
import torch_npu
# Load the allocator
new_alloc = torch_npu.npu.memory.NPUPluggableAllocator('pluggable_allocator_extensions.so', 'my_malloc', 'my_free')
# Swap the current allocator
torch.npu.change_current_allocator(new_alloc)
# This will allocate memory in the device using the new allocator
npu_tensor = torch.zeros(10, device='npu')
"""
# Checks the tensor of the example, and operators on it.
VALUES = """
assert npu_tensor.tolist() == [0.0] * 10
assert (npu_tensor + 1).mul_(torch.arange(10, device='npu')).tolist() == list(range(10))
"""


def run_with(library, code, **options):
    """Runs a script that finds the library by its bare name, through the loader's path."""
    path = os.pathsep.join(filter(None, [library.folder, os.environ.get("LD_LIBRARY_PATH")]))
    return support.run_script(code, LD_LIBRARY_PATH=path, **options)


def allocated(output):
    """The addresses of all blocks. torch_npu asks for empty tensors too, which have none."""
    return re.findall(r"^alloc ptr = (\w+), size = [1-9]", output, re.M)


def freed(output):
    return re.findall(r"^free ptr = (\w+)$", output, re.M)


def test_torch_1_example(vendor_example):
    result = run_with(vendor_example, EXAMPLE + "print('address', hex(npu_tensor.data_ptr()), npu_tensor.tolist())")
    address, values = re.search(r"^address (0x[0-9a-f]+) (.*)$", result.stdout, re.M).groups()
    assert f"alloc ptr = {address}, size = 40\n" in result.stdout
    assert values == str([0.0] * 10)
    # The tensor goes when the interpreter ends.
    assert allocated(result.stdout) == freed(result.stdout) == [address]


def test_torch_1_other_name_and_torch_3_after_questions(vendor_example):
    """Asking for the number of devices does not initialise an allocator yet."""
    questions = "import torch\nassert torch.npu.is_available() and torch.npu.device_count() == 2\n"
    use = """
for count in (1, 10, 1000, 1 << 20):
    source = torch.arange(count)
    assert torch.equal(source.npu().cpu(), source)
"""
    result = run_with(vendor_example, questions + EXAMPLE.replace("torch.npu.change", "torch_npu.npu.change") + use)
    assert sorted(allocated(result.stdout)) == sorted(freed(result.stdout))
    assert len(freed(result.stdout)) == 5 and "size = 8388608\n" in result.stdout


def test_torch_2_toolkit_headers(vendor_example_on_toolkit):
    """The page's example as it is, with the toolkit's headers in front of the wheel's. Of a header that both have, the
    first one counts, by its guard."""
    first = {}
    for file in pathlib.Path(vendor_example_on_toolkit.path).with_suffix(".d").read_text().split():
        header = pathlib.Path(os.path.realpath(file))
        first.setdefault(header.name, header)
    names = ["acl_base.h", "acl_base_rt.h", "acl_base_mdl.h", "acl_rt.h", "acl_mdl.h", "rt_error_codes.h", "ge_error_codes.h"]
    for name in names:
        assert first[name].is_relative_to(os.path.realpath(builds.home())), first[name]
    result = run_with(vendor_example_on_toolkit, EXAMPLE + VALUES)
    assert "size = 40\n" in result.stdout and sorted(allocated(result.stdout)) == sorted(freed(result.stdout))


def test_torch_2_headers_mix():
    """Whichever copy of a header comes first, the toolkit's or the wheel's, the rest may be the other's."""
    folders = [builds.home() / "include", builds.package("torch_npu") / "include"]
    names = [sorted(str(path.relative_to(folder)) for path in folder.glob("acl/**/*.h")) for folder in folders]
    common = set(names[0]) & set(names[1])
    assert {"acl/acl.h", "acl/acl_rt.h", "acl/acl_rt_allocator.h", "acl/error_codes/rt_error_codes.h"} <= common
    for first, second in (folders, folders[::-1]):
        for name in sorted(common):
            text = "".join(f'#include "{path}"\n' for path in [first / name, *(second / other for other in sorted(common))])
            for language in ("c", "c++"):
                command = ["gcc", "-x", language, "-fsyntax-only", f"-I{second}", f"-I{first}", "-"]
                result = subprocess.run(command, input=text, capture_output=True, text=True)
                assert result.returncode == 0, f"{command}\n{text}\n{result.stderr}"


def test_torch_3_swap_after_use_raises(vendor_example):
    """The allocator is initialised by the first use of a device."""
    result = run_with(
        vendor_example,
        """
        import torch, torch_npu
        before = torch.zeros(10, device="npu")
        allocator = torch_npu.npu.memory.NPUPluggableAllocator('pluggable_allocator_extensions.so', 'my_malloc', 'my_free')
        try:
            torch.npu.change_current_allocator(allocator)
        except RuntimeError as error:
            assert "Can't swap an already initialized allocator" in str(error), error
        else:
            raise AssertionError("swapped")
        # The first allocator goes on.
        assert torch.equal((torch.arange(10).npu() + before).cpu(), torch.arange(10.0))
        """,
    )
    assert "alloc ptr" not in result.stdout


LOGGED = (
    EXAMPLE
    + """
on_npu = torch.arange(1234, dtype=torch.uint8).npu()
print('address', hex(on_npu.data_ptr()))
del on_npu
"""
)


def test_torch_4_log_on_stdout(vendor_example_with_logs):
    """The page's way to log, ASCEND_LOGD, and the lines of the library itself. Built with headers of the wheel and of the toolkit."""
    result = run_with(vendor_example_with_logs, LOGGED, ASCEND_GLOBAL_LOG_LEVEL="0", ASCEND_SLOG_PRINT_TO_STDOUT="1")
    address = re.search(r"^address (0x[0-9a-f]+)$", result.stdout, re.M)[1]
    for line in [
        r"\[DEBUG\] APP.*Pluggable Allocator malloc: malloc = 1234$",
        rf"\[DEBUG\] CAIRN.*device 0 gave 1234 bytes at {address}$",
        r"\[DEBUG\] APP.*Pluggable Allocator free: free= 1234$",
        rf"\[DEBUG\] CAIRN.*device memory took back {address}$",
    ]:
        assert re.search(f"^{line}", result.stdout, re.M), line


def test_torch_4_log_in_private_files(vendor_example_with_logs, tmp_path):
    folder = tmp_path / "logs"
    result = run_with(vendor_example_with_logs, LOGGED, ASCEND_GLOBAL_LOG_LEVEL="0", ASCEND_PROCESS_LOG_PATH=str(folder))
    assert "Pluggable Allocator" not in result.stdout
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert "Pluggable Allocator malloc: malloc = 1234\n" in "".join(path.read_text() for path in files)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in files}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")] if path.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


def test_torch_5_missing_file_and_symbol(vendor_example):
    result = run_with(
        vendor_example,
        """
        import torch, torch_npu
        make = torch_npu.npu.memory.NPUPluggableAllocator
        for arguments, kind in [
            (("no_such_file.so", "my_malloc", "my_free"), OSError),
            (("pluggable_allocator_extensions.so", "no_malloc", "my_free"), AttributeError),
            (("pluggable_allocator_extensions.so", "my_malloc", "no_free"), AttributeError),
        ]:
            try:
                make(*arguments)
            except kind as error:
                assert any(argument in str(error) for argument in arguments if argument.startswith("no_")), error
            else:
                raise AssertionError(arguments)
        assert torch.zeros(10, device="npu").tolist() == [0.0] * 10
        """,
    )
    assert "alloc ptr" not in result.stdout


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    folder, flags = tmp_path_factory.mktemp("wrong"), ["-Wall", "-Werror", f"-I{builds.home()}/include"]
    return builds.Build(folder, builds.HERE / "wrong_allocator.cpp", *flags).library()


WRONG = """
import ctypes, os
import torch, torch_npu

NONE, NULL_ADDRESS, HOST_ADDRESS, WILD_ADDRESS, SHORT_BLOCK, FREED_BLOCK, FREE_TWICE, FREE_INSIDE, LEAK = range(9)
library = ctypes.CDLL("pluggable_allocator_extensions.so")
library.last_free_text.restype = ctypes.c_char_p
plug = torch_npu.npu.memory.NPUPluggableAllocator("pluggable_allocator_extensions.so", "my_malloc", "my_free")
torch.npu.change_current_allocator(plug)

def fails(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("no error")

def tensor():
    return torch.empty(1024, dtype=torch.uint8, device="npu")

source = torch.arange(1024).to(torch.uint8)
"""


def test_torch_5_wrong_addresses_and_frees(wrong):
    """Each mistake is an error with a code and an address; nothing crashes, and the next tensor is fine."""
    run_with(
        wrong,
        WRONG
        + """
def mistake(which, refused, free_code, *words):
    library.make(which)
    on_npu = tensor()
    address = hex(on_npu.data_ptr())
    if refused:
        message = fails(lambda: on_npu.copy_(source))
        assert "107000" in message and f"the destination range {address} of 1024 bytes" in message, message
    else:
        assert torch.equal(on_npu.copy_(source).cpu(), source)
    del on_npu
    text = library.last_free_text().decode()
    assert library.last_free_code() == free_code and all(word in text for word in (*words, address) if free_code), (which, text)
    library.make(NONE)
    assert torch.equal(source.npu().cpu(), source) and library.last_free_code() == 0

library.make(NULL_ADDRESS)
message = fails(tensor)
assert "data_ptr failed" in message, message
library.make(NONE)
mistake(NONE, False, 0)
mistake(HOST_ADDRESS, False, 107000, "host memory that ACL does not know")
mistake(WILD_ADDRESS, True, 107000, "host memory that ACL does not know")
mistake(SHORT_BLOCK, True, 0)
mistake(FREED_BLOCK, False, 107000, "already freed")
mistake(FREE_TWICE, False, 107000, "already freed")

library.make(FREE_INSIDE)
on_npu = tensor()
address = on_npu.data_ptr()
del on_npu
text = library.last_free_text().decode()
assert library.last_free_code() == 107000, text
assert hex(address + 32) in text and f"{hex(address)} of 1024 bytes (offset 32)" in text, text
library.make(NONE)

# Host memory passes a blocking copy, which looks at the address; the first task that touches it is refused.
library.make(HOST_ADDRESS)
on_npu, pinned = tensor(), source.pin_memory()
def use():
    on_npu.copy_(pinned, non_blocking=True)
    torch.npu.synchronize()
message = fails(use)
assert "107000" in message and hex(on_npu.data_ptr()) in message, message
# A failed task ends torch_npu's queue for good, and its destructors throw.
os._exit(0)
""",
    )


def test_torch_5_free_that_leaks(wrong):
    """It leaks until the device is full: an error. With CAIRN_MEMORY=stats, the end of the process reports the live blocks."""
    result = run_with(
        wrong,
        WRONG
        + """
library.make(LEAK)
free_at_start = torch.npu.mem_get_info()[0]
ten = torch.ones(10 << 20, dtype=torch.uint8)
for turn in range(100):
    print(turn, flush=True)
    assert turn == 0 or free_at_start - torch.npu.mem_get_info()[0] >= turn * (10 << 20)
    ten.npu()
""",
        check=False,
        CAIRN_DEVICE_MEMORY="256mib",
        CAIRN_MEMORY="stats",
    )
    assert result.returncode == 1, result.returncode
    assert 24 <= int(result.stdout.split()[-1]) <= 25, result.stdout
    assert re.search(r"^RuntimeError: Get \w+ failed$", result.stderr, re.M), result.stderr
    figures = re.search(r"stats of device 0: live (\d+) bytes, blocks (\d+),.* given back (\d+),", result.stderr)
    live, blocks, given_back = map(int, figures.groups())
    assert (live, given_back) == (blocks * (10 << 20), 0), result.stderr


# Product families: training, A2, A3, inference.
@pytest.mark.parametrize("soc", ["Ascend910ProB", "Ascend910B3", "Ascend910_9382", "Ascend310P3"])
def test_torch_7_product_families(vendor_example, soc):
    result = run_with(vendor_example, EXAMPLE + VALUES, CAIRN_SOC=soc)
    assert "size = 40\n" in result.stdout and sorted(allocated(result.stdout)) == sorted(freed(result.stdout))


def test_torch_7_and_acl_reg_8_on_a_chip_without_allocators(vendor_example):
    """ACL's own registration of allocators is missing on this chip; torch's way does not need it."""
    run_with(
        vendor_example,
        EXAMPLE
        + """
import ctypes
acl = ctypes.CDLL("libascendcl.so")
acl.aclrtAllocatorCreateDesc.restype = acl.aclGetRecentErrMsg.restype = ctypes.c_void_p
assert torch.npu.get_device_name() == "Ascend310B4"
assert acl.aclrtAllocatorCreateDesc() is None
message = ctypes.string_at(acl.aclGetRecentErrMsg()).decode()
assert "Ascend310B4" in message, message
stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
assert acl.aclrtAllocatorUnregister(stream) == acl.aclrtAllocatorRegister(stream, None) == 207000
"""
        + VALUES,
        CAIRN_SOC="Ascend310B4",
    )
