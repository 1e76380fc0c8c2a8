"""The libraries that the tests plug into torch_npu, compiled once a run. g++ runs while tests that do not need them run."""

import importlib.util
import os
import pathlib
import subprocess
import sysconfig
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
# The name that the vendor's page gives its library.
PAGE_NAME = "pluggable_allocator_extensions.so"


class Library(NamedTuple):
    """An allocator: the path of its library, and the names of its two functions."""

    path: str
    malloc: str = "my_malloc"
    free: str = "my_free"

    @property
    def folder(self):
        return os.path.dirname(self.path)


def cairn():
    """The standalone pool, which has to be in the toolkit, by its bare name."""
    assert (home() / "lib64/libcairn_pool.so").exists(), "libcairn_pool.so is not in the toolkit: see `cargo xtask toolkit`"
    return Library("libcairn_pool.so", "cairn_malloc", "cairn_free")


def home():
    return pathlib.Path(os.environ["ASCEND_HOME_PATH"])


def package(name):
    """The folder of an installed wheel."""
    return pathlib.Path(importlib.util.find_spec(name).origin).parent


def vendor_example_source():
    """The C++ example of the vendor's manual page as printed, and the one line that it lacks: the declaration of `useflag`."""
    text = (HERE / "pluggable_allocator_extensions.cpp").read_text()
    return text.replace('extern "C" {', 'bool useflag = false;\nextern "C" {', 1)


def logging_source():
    """The same with that page's two log lines, and without torch's headers, which take longest to compile."""
    text = vendor_example_source().replace("#include <torch/extension.h>\n", '#include "torch_npu/csrc/core/npu/npu_log.h"\n')
    for line, log in [
        ("    void *ptr;\n", 'ASCEND_LOGD("Pluggable Allocator malloc: malloc = %zu", size);\n'),
        ("    aclrtFree(ptr);\n", 'ASCEND_LOGD("Pluggable Allocator free: free= %zu", size);\n'),
    ]:
        text = text.replace(line, line + log)
    return text


def wheel_flags():
    """Flags for the headers and libraries of torch and of torch_npu, which brings its own copy of ACL's headers."""
    torch_folder, npu_folder = package("torch"), package("torch_npu")
    includes = [
        torch_folder / "include",
        torch_folder / "include/torch/csrc/api/include",
        npu_folder / "include",
        sysconfig.get_path("include"),
    ]
    libraries = [f"-L{torch_folder}/lib", "-ltorch", "-ltorch_cpu", "-lc10", f"-L{npu_folder}/lib", "-ltorch_npu"]
    return [f"-I{include}" for include in includes] + libraries


def toolkit_flags(folder):
    """The toolkit's headers under both names that programs for torch_npu know them by; to be put first."""
    third_party = folder / "third_party/acl"
    third_party.mkdir(parents=True)
    (third_party / "inc").symlink_to(home() / "include")
    return [f"-I{folder}", f"-I{home()}/include"]


class Build:
    """One run of g++, begun at once. The text of the source may be given instead of a file."""

    def __init__(self, folder, source, *flags, name=PAGE_NAME):
        if not isinstance(source, pathlib.Path):
            text, source = source, folder / "source.cpp"
            source.write_text(text)
        self.path = folder / name
        command = ["g++", "-std=c++17", "-shared", "-fPIC", source, "-o", self.path, *flags]
        command += [f"-L{home()}/lib64", "-lascendcl"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        self.output = None

    def wait(self):
        if self.output is None:
            self.output, _ = self.process.communicate()

    def library(self):
        self.wait()
        assert self.process.returncode == 0, f"{self.process.args}\n{self.output}"
        return Library(str(self.path))
