"""In a child process: cases that may break a device, each in a process of its own. torch is imported once for all of them.

    results = run([("name", function), ...])      before the first use of a device

A task that fails ends its stream, and torch_npu's queue, for good; so such a case cannot share a process with another.
"""

import ctypes
import os
import sys
import traceback

import torch
import torch_npu

from support import ACL


def run(cases):
    """Runs each function in a fork; fails if one of them does, with what it printed."""
    failed = []
    for name, function in cases:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                function()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status != 0:
            failed.append((name, status))
    assert not failed, failed


def error_of(call):
    """The text of the error that `call`, or waiting for it, raises."""
    try:
        call()
        torch.npu.synchronize()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("no error")


def copied_without_stream(tensor):
    """A contiguous tensor copied to the host without a stream: works after a stream has failed."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype)
    size, device_to_host = ctypes.c_size_t(host.nbytes), 2
    code = ACL.aclrtMemcpy(ctypes.c_void_p(host.data_ptr()), size, ctypes.c_void_p(tensor.data_ptr()), size, device_to_host)
    assert code == 0, code
    return host
