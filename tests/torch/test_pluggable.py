"""`torch_npu.npu.change_current_allocator`: the vendor's page, its examples, and what a wrong library leads to.

Each test is named after the clause of the contract that it shows. There are no operators yet, so the page's
`torch.zeros` is `torch.empty` here.
"""

import os
import pathlib
import re
import subprocess
import sysconfig

import pytest
import torch
import torch_npu

import support

# The page's C++ example as printed. It lacks one line, the declaration of `useflag`.
SOURCE = pathlib.Path(__file__).with_name("pluggable_allocator_extensions.cpp")
MISSING_LINE = "bool useflag = false;\n"
LIBRARY = "pluggable_allocator_extensions.so"

EXAMPLE = """
import torch
import torch_npu
# Load the allocator
new_alloc = torch_npu.npu.memory.NPUPluggableAllocator('pluggable_allocator_extensions.so', 'my_malloc', 'my_free')
# Swap the current allocator
torch.npu.change_current_allocator(new_alloc)
# This will allocate memory in the device using the new allocator
npu_tensor = torch.empty(10, device='npu')
"""


def compile_library(folder, source, *flags):
    """Builds `source` as the library that the page names; returns the folder."""
    file = folder / "source.cpp"
    file.write_text(source)
    home = os.environ["ASCEND_HOME_PATH"]
    subprocess.run(
        ["g++", "-std=c++17", "-shared", "-fPIC", file, "-o", folder / LIBRARY, *flags]
        + [f"-L{home}/lib64", "-lascendcl"],
        check=True,
    )
    return folder


def run_with(folder, code, **options):
    """Runs a script that finds the library in `folder` by its bare name, through the loader's path."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    return support.run_script(code, LD_LIBRARY_PATH=path, **options)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page's example, built against the headers of the wheels."""
    torch_folder = pathlib.Path(torch.__file__).parent
    torch_include = torch_folder / "include"
    includes = [
        torch_include,
        torch_include / "torch/csrc/api/include",
        pathlib.Path(torch_npu.__file__).parent / "include",
        sysconfig.get_path("include"),
    ]
    source = SOURCE.read_text().replace('extern "C" {', MISSING_LINE + 'extern "C" {')
    flags = [f"-I{include}" for include in includes] + [f"-L{torch_folder}/lib", "-ltorch", "-ltorch_cpu", "-lc10"]
    return compile_library(tmp_path_factory.mktemp("page"), source, *flags)


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory):
    """The same two functions, built against the toolkit's headers under the names that the page includes them by.

    Without the two headers of the wheels, which need more of ACL than the toolkit declares so far.
    """
    folder = tmp_path_factory.mktemp("toolkit")
    (folder / "third_party/acl").mkdir(parents=True)
    (folder / "third_party/acl/inc").symlink_to(pathlib.Path(os.environ["ASCEND_HOME_PATH"], "include"))
    source = SOURCE.read_text().replace('extern "C" {', MISSING_LINE + 'extern "C" {')
    source = source.replace("#include <torch/extension.h>\n", "")
    source = source.replace('#include "torch_npu/csrc/core/npu/NPUCachingAllocator.h"\n', "")
    return compile_library(folder, source, f"-I{folder}", "-Wall", "-Werror")


def test_torch_1_example(page):
    result = run_with(page, EXAMPLE + "print('address', hex(npu_tensor.data_ptr()))")
    address = re.search(r"^address (0x[0-9a-f]+)$", result.stdout, re.M)[1]
    assert f"alloc ptr = {address}, size = 40\n" in result.stdout
    # The tensor goes when the interpreter ends.
    assert f"free ptr = {address}\n" in result.stdout


def test_torch_1_other_name(page):
    result = run_with(page, EXAMPLE.replace("torch.npu.change", "torch_npu.npu.change"))
    assert "size = 40\n" in result.stdout


def test_torch_1_memory_is_usable(page):
    result = run_with(
        page,
        EXAMPLE
        + """
for count in (1, 10, 1000, 1 << 20):
    source = torch.arange(count)
    there = source.npu()
    assert torch.equal(there.cpu(), source)
    del there
""",
    )
    # torch_npu asks for empty tensors too.
    allocated = re.findall(r"^alloc ptr = (\w+), size = [1-9]", result.stdout, re.M)
    freed = re.findall(r"^free ptr = (\w+)$", result.stdout, re.M)
    assert sorted(allocated) == sorted(freed) and len(freed) >= 5
    assert "size = 8388608\n" in result.stdout


def test_torch_2_toolkit_headers(toolkit):
    result = run_with(toolkit, EXAMPLE + "assert npu_tensor.cpu().shape == (10,)")
    assert "size = 40\n" in result.stdout and "free ptr" in result.stdout


def test_torch_3_swap_after_use_raises(toolkit):
    """The allocator is initialised by the first use of a device."""
    result = run_with(
        toolkit,
        """
        import torch, torch_npu
        before = torch.empty(10, device="npu")
        allocator = torch_npu.npu.memory.NPUPluggableAllocator('pluggable_allocator_extensions.so', 'my_malloc', 'my_free')
        try:
            torch.npu.change_current_allocator(allocator)
        except RuntimeError as error:
            assert "Can't swap an already initialized allocator" in str(error), error
        else:
            raise AssertionError("swapped")
        # The first allocator goes on.
        assert torch.equal(torch.arange(10).npu().cpu(), torch.arange(10))
        """,
    )
    assert "alloc ptr" not in result.stdout


def test_torch_3_second_swap_raises(toolkit):
    result = run_with(toolkit, EXAMPLE + "torch.npu.change_current_allocator(new_alloc)", check=False)
    assert result.returncode == 1
    assert "Can't swap an already initialized allocator" in result.stderr


def test_torch_3_swap_before_use_is_fine(toolkit):
    """Asking for the number of devices is no use of an allocator."""
    result = run_with(toolkit, "import torch; assert torch.npu.is_available(); torch.npu.device_count()" + EXAMPLE)
    assert "size = 40\n" in result.stdout


def test_torch_5_missing_file_and_symbol(toolkit):
    result = run_with(
        toolkit,
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
            except kind:
                pass
            else:
                raise AssertionError(arguments)
        assert torch.empty(10, device="npu").cpu().shape == (10,)
        """,
    )
    assert "alloc ptr" not in result.stdout


def test_torch_5_malloc_that_fails(tmp_path):
    """A null address never crashes: the copy into it is refused with a code."""
    compile_library(
        tmp_path,
        """
        #include <sys/types.h>
        extern "C" void *my_malloc(ssize_t, int, void *) { return nullptr; }
        extern "C" void my_free(void *, ssize_t, int, void *) {}
        """,
    )
    result = run_with(tmp_path, EXAMPLE + "npu_tensor.copy_(torch.ones(10))", check=False)
    assert result.returncode == 1, result.returncode
    assert "RuntimeError" in result.stderr or "OutOfMemoryError" in result.stderr


def test_torch_5_free_that_does_nothing(tmp_path):
    """It leaks until the device is full, and then says so."""
    compile_library(
        tmp_path,
        """
        #include <sys/types.h>
        extern "C" int aclrtMallocAlign32(void **, size_t, int);
        extern "C" void *my_malloc(ssize_t size, int, void *)
        {
            void *address = nullptr;
            return aclrtMallocAlign32(&address, size, 0) ? nullptr : address;
        }
        extern "C" void my_free(void *, ssize_t, int, void *) {}
        """,
    )
    result = run_with(
        tmp_path,
        EXAMPLE
        + """
for turn in range(100):
    print(turn, flush=True)
    torch.ones(10 << 20, dtype=torch.uint8).npu()
""",
        check=False,
        CAIRN_DEVICE_MEMORY="256mib",
    )
    assert result.returncode == 1, result.returncode
    assert 20 <= int(result.stdout.split()[-1]) <= 25
    assert "RuntimeError" in result.stderr or "OutOfMemoryError" in result.stderr


def test_torch_5_free_twice(tmp_path):
    """The second free of an address is refused with a code, and nothing else comes of it."""
    compile_library(
        tmp_path,
        """
        #include <sys/types.h>
        #include <cstdio>
        extern "C" int aclrtMallocAlign32(void **, size_t, int);
        extern "C" int aclrtFree(void *);
        extern "C" void *my_malloc(ssize_t size, int, void *)
        {
            void *address = nullptr;
            return aclrtMallocAlign32(&address, size, 0) ? nullptr : address;
        }
        extern "C" void my_free(void *address, ssize_t, int, void *)
        {
            int first = aclrtFree(address), second = aclrtFree(address);
            printf("freed %d %d\\n", first, second);
            fflush(stdout);
        }
        """,
    )
    result = run_with(tmp_path, EXAMPLE + "del npu_tensor\nprint(torch.arange(3).npu().cpu().tolist())")
    assert "[0, 1, 2]\n" in result.stdout
    frees = [line for line in result.stdout.splitlines() if line.startswith("freed")]
    assert len(frees) >= 2 and set(frees) == {"freed 0 107000"}


def test_torch_6_null_when_memory_is_out(toolkit):
    """The page's `my_malloc` does not initialise its pointer: it is the library that writes the null."""
    result = run_with(toolkit, EXAMPLE + "torch.empty(1 << 40, dtype=torch.uint8, device='npu')", check=False)
    assert f"alloc ptr = 0, size = {1 << 40}\n" in result.stdout
    assert result.returncode in (0, 1)


@pytest.mark.parametrize("soc", ["Ascend910ProB", "Ascend910B3", "Ascend910_9382", "Ascend310P3"])
def test_torch_7_product_families(toolkit, soc):
    result = run_with(toolkit, EXAMPLE + "assert npu_tensor.cpu().shape == (10,)", CAIRN_SOC=soc)
    assert "size = 40\n" in result.stdout


def test_memory_pool_of_an_allocator(toolkit):
    """A pool takes whole segments from the allocator, and gives them back when it ends."""
    result = run_with(
        toolkit,
        """
        import torch, torch_npu
        plug = torch_npu.npu.memory.NPUPluggableAllocator('pluggable_allocator_extensions.so', 'my_malloc', 'my_free')
        pool = torch_npu.npu.MemPool(plug._allocator)
        with torch_npu.npu.use_mem_pool(pool):
            inside = torch.arange(10).npu()
        outside = torch.arange(10).npu()
        assert torch.equal(inside.cpu(), outside.cpu())
        del inside, pool
        torch.npu.empty_cache()
        """,
    )
    assert result.stdout.count("alloc ptr") == 1
    assert f"size = {2 * support.MIB}\n" in result.stdout
