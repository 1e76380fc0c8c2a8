"""What several test files use."""

import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import torch
import torch_npu

import forks

HOST_FUNC = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
MIB = 1 << 20

ACL = ctypes.CDLL("libascendcl.so")
ACL.aclrtLaunchHostFunc.argtypes = [ctypes.c_void_p, HOST_FUNC, ctypes.c_void_p]


# Each holds hundreds of megabytes.
SERVERS_KEPT = 3
SERVERS = {}


def fork_server(settings):
    """The process that imported torch once for all scripts with these settings: torch_npu reads settings when it is imported."""
    if settings not in SERVERS:
        while len(SERVERS) >= SERVERS_KEPT:
            SERVERS.pop(next(iter(SERVERS))).close()
        SERVERS[settings] = forks.Server(dict(settings))
    return SERVERS[settings]


def settings_at_import(environment):
    """The settings that count when torch is imported: all but Cairn's own, which are read when a device is first used, and
    what pytest says of the test that runs."""
    later = ("CAIRN_", "PYTEST_")
    return frozenset((name, value) for name, value in environment.items() if not name.startswith(later))


def script_environment(more):
    """Our environment, in which scripts find the modules of this folder, and `more`."""
    path = os.pathsep.join(filter(None, [str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path} | more


def run_script(code, *, arguments=(), check=True, timeout=240, fresh=False, **env):
    """Runs Python code in a process of its own, with `env` added to our environment; returns the finished process.

    It may import the modules of this folder. With `check` a failure of the script is a failure of the test and shows all
    that it printed. torch was imported before; a `fresh` process imports it itself, which takes seconds: for scripts about
    the import, and for settings that are read then.
    """
    code, environment = textwrap.dedent(code), script_environment(env)
    if fresh:
        command = [sys.executable, "-c", code, *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    else:
        result = fork_server(settings_at_import(environment)).run(code, arguments, environment, timeout)
    if check:
        assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


@contextlib.contextmanager
def hold_stream(stream):
    """Blocks `stream` by a host function that waits: what is queued in the `with` block runs after it."""
    release = threading.Event()
    function = HOST_FUNC(lambda _: release.wait())
    with torch.npu.device(stream.device):
        torch.npu.current_stream().synchronize()
        assert ACL.aclrtLaunchHostFunc(stream.npu_stream, function, None) == 0
    try:
        yield release
    finally:
        release.set()
        stream.synchronize()


def pinned(*size, fill=0, dtype=torch.int32):
    """A page-locked tensor in which every element is `fill`."""
    return torch.full(size, fill, dtype=dtype).pin_memory()


def build_allocator(folder, name="pluggable.so"):
    """Compiles allocator.cpp against the toolkit; returns the library's path."""
    home = os.environ["ASCEND_HOME_PATH"]
    source = pathlib.Path(__file__).with_name("allocator.cpp")
    library = pathlib.Path(folder) / name
    subprocess.run(
        ["g++", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", library]
        + [f"-I{home}/include", f"-L{home}/lib64", "-lascendcl"],
        check=True,
    )
    return str(library)
