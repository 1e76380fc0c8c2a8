"""What communicators of many ranks cost: the figures of docs/scale.md.

    cairn run -- python mesh.py 2 16 64 128
    CAIRN_COMM_TRANSPORT=tcp cairn run -- python mesh.py 2 16 64

For each number of ranks: seconds to meet and connect, open files and resident bytes of a rank, and the time of an allreduce. A process has up to 16
ranks, as threads with a device each. Needs no torch.
"""

import ctypes
import os
import pathlib
import resource
import sys
import threading
import time

SUM, FLOAT32 = 0, 4
ROOT_INFO_BYTES = 4108
RANKS_OF_A_PROCESS = 16
COUNTS = [1, 1 << 18]
REPEATS = 5


class Library:
    """The functions of ACL and HCCL; a code other than 0 ends the process with its text."""

    def __init__(self):
        self.library = ctypes.CDLL("libascendcl.so")
        self.library.aclGetRecentErrMsg.restype = ctypes.c_char_p

    def __getattr__(self, name):
        def call(*arguments):
            code = getattr(self.library, name)(*arguments)
            if code:
                text = (self.library.aclGetRecentErrMsg() or b"").decode()
                print(f"{name} returned {code}: {text}", file=sys.stderr, flush=True)
                os._exit(1)

        return call


def held():
    """Open files, and resident bytes of the process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE")


def run_rank(acl, device, rank, size, info, barrier, times):
    """One rank; appends to `times` how long it took to meet, and the best time of an allreduce of each count."""
    acl.aclrtSetDevice(device)
    stream, memory, communicator = (ctypes.c_void_p() for _ in range(3))
    most = ctypes.c_size_t(4 * max(COUNTS))
    acl.aclrtCreateStream(ctypes.byref(stream))
    acl.aclrtMalloc(ctypes.byref(memory), most, 0)
    acl.aclrtMemset(memory, most, 0, most)
    barrier.wait()
    barrier.wait()
    start = time.perf_counter()
    acl.HcclCommInitRootInfo(size, info, rank, ctypes.byref(communicator))
    measured = [time.perf_counter() - start]
    for count in COUNTS:
        best = float("inf")
        for _ in range(REPEATS):
            start = time.perf_counter()
            acl.HcclAllReduce(memory, memory, ctypes.c_uint64(count), FLOAT32, SUM, communicator, stream)
            acl.aclrtSynchronizeStream(stream)
            best = min(best, time.perf_counter() - start)
        measured.append(best)
    times.append(measured)
    barrier.wait()
    barrier.wait()
    acl.HcclCommDestroy(communicator)


def run_process(first, count, size, take_info, give_info, report):
    """Some ranks as threads; writes a line of figures to the file `report`: the slowest rank's times, and what all hold."""
    acl = Library()
    acl.aclInit(None)
    info = ctypes.create_string_buffer(ROOT_INFO_BYTES)
    if first == 0:
        acl.aclrtSetDevice(0)
        acl.HcclGetRootInfo(info)
        give_info(info.raw)
    else:
        info.raw = take_info()
    times, barrier = [], threading.Barrier(count + 1)
    ranks = [threading.Thread(target=run_rank, args=(acl, at, first + at, size, info, barrier, times)) for at in range(count)]
    for rank in ranks:
        rank.start()
    barrier.wait()
    before = held()
    barrier.wait()
    barrier.wait()
    after = held()
    barrier.wait()
    for rank in ranks:
        rank.join()
    figures = [max(column) for column in zip(*times)] + [now - then for now, then in zip(after, before)]
    os.write(report, (" ".join(map(str, figures)) + "\n").encode())


def measure(size):
    """Runs `size` ranks; returns the slowest rank's times, and files and bytes of one rank."""
    starts = range(0, size, RANKS_OF_A_PROCESS)
    pipes = [os.pipe() for _ in starts]
    read, report = os.pipe()

    def give_info(raw):
        for _, write in pipes[1:]:
            os.write(write, raw)

    pids = []
    for number, first in enumerate(starts):
        pid = os.fork()
        if pid == 0:
            take_info = lambda: os.read(pipes[number][0], ROOT_INFO_BYTES)
            run_process(first, min(RANKS_OF_A_PROCESS, size - first), size, take_info, give_info, report)
            os._exit(0)
        pids.append(pid)
    os.close(report)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    if any(codes):
        raise SystemExit(f"processes ended with {codes}")
    lines = [list(map(float, line.split())) for line in os.fdopen(read).read().splitlines()]
    columns = list(zip(*lines))
    for pipe in pipes:
        for end in pipe:
            os.close(end)
    return [max(column) for column in columns[:-2]], [sum(column) / size for column in columns[-2:]]


def main():
    os.environ["CAIRN_DEVICES"] = str(RANKS_OF_A_PROCESS)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"{'ranks':>5} {'to meet':>11} {'files':>7} {'resident':>12} {'4 B':>11} {'1 MiB':>11}     files and bytes of a rank")
    for size in map(int, sys.argv[1:]):
        (met, small, large), (files, resident) = measure(size)
        print(f"{size:5} {met * 1e3:8.1f} ms {files:7.1f} {resident / 1024:8.0f} KiB {small * 1e3:8.2f} ms {large * 1e3:8.2f} ms", flush=True)


if __name__ == "__main__":
    main()
