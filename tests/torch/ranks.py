"""Programs of several ranks, each a process of its own, all forked from one that imported torch: see forks.py.

    run = ranks.run("parallel:train", 2, programs=["ddp"], backends=["hccl"])
    run.results()[0]          what the function returned on rank 0

The function gets its `Rank`, and the keywords. What it returns must be data: it travels in a file.
"""

import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
from typing import NamedTuple

import torch
from torch import distributed

PR_SET_PDEATHSIG = 1


class Run(NamedTuple):
    """How each rank ended, what it printed on either stream, and the file of what it returned."""

    codes: list
    texts: list
    answers: list

    def results(self):
        """What each rank's function returned. Any failed rank is a failure of the test, which shows what all ranks printed."""
        ends = [f"rank {rank} ended with {code}:\n{text}" for rank, (code, text) in enumerate(zip(self.codes, self.texts))]
        assert not any(self.codes), "\n".join(ends)
        return self.answers


def run(function, world, *, timeout=150, environment=None, **keywords):
    """Runs `module:function` on `world` ranks and waits for all of them; a rank that fails does not end the others. One that takes
    longer than `timeout` seconds prints its stacks and ends."""
    import support

    settings = {"CAIRN_DEVICES": str(max(world, 2))} | (environment or {})
    with tempfile.TemporaryDirectory() as folder:
        arguments = [function, str(world), folder, str(timeout), json.dumps(keywords)]
        support.run_script("import ranks; ranks.main()", arguments=arguments, timeout=timeout + 30, **settings)
        files = [pathlib.Path(folder) / str(rank) for rank in range(world)]
        codes = json.loads((pathlib.Path(folder) / "codes").read_text())
        texts = [file.with_suffix(".txt").read_text(errors="replace") for file in files]
        answers = [torch.load(file, weights_only=False) if file.exists() else None for file in files]
    return Run(codes, texts, answers)


class Rank:
    """One rank of a program: its number, how many there are, and while it is in a group, where its tensors belong."""

    def __init__(self, rank, world, listener):
        self.rank, self.world = rank, world
        self.groups = 0
        self.device = torch.device("cpu")
        master = {"is_master": True, "master_listen_fd": listener.fileno()} if rank == 0 else {"is_master": False}
        host, port = listener.getsockname()
        self.store = distributed.TCPStore(host, port, world, wait_for_workers=False, **master)

    @contextlib.contextmanager
    def group(self, backend):
        """The default process group on a backend: tensors are on this rank's own device for `hccl`, else on the CPU."""
        if backend == "hccl":
            self.device = torch.device("npu", self.rank)
            torch.npu.set_device(self.device)
        self.groups += 1
        store = distributed.PrefixStore(str(self.groups), self.store)
        distributed.init_process_group(backend, store=store, rank=self.rank, world_size=self.world)
        try:
            yield
        finally:
            distributed.destroy_process_group()
            self.device = torch.device("cpu")

    def synchronize(self):
        if self.device.type == "npu":
            torch.npu.synchronize()


def become(rank, world, folder, listener, timeout):
    """Makes this fork a rank: it prints into a file of its own and ends with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    file = os.open(os.path.join(folder, f"{rank}.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.dump_traceback_later(timeout, exit=True)
    host, port = listener.getsockname()
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    torch.set_num_threads(1)


def main():
    """In a fork of the process that imported torch: forks the ranks; each goes on to the end of the interpreter, as a script does."""
    name, world, folder, timeout, keywords = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", 0))
    os.set_inheritable(listener.fileno(), True)
    pids = []
    for rank in range(int(world)):
        pid = os.fork()
        if pid == 0:
            become(rank, int(world), folder, listener, float(timeout))
            module, _, function = name.partition(":")
            answer = getattr(importlib.import_module(module), function)(Rank(rank, int(world), listener), **json.loads(keywords))
            torch.save(answer, os.path.join(folder, str(rank)))
            return
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    pathlib.Path(folder, "codes").write_text(json.dumps(codes))
