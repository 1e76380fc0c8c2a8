"""What communicators of many ranks cost, all ranks in one process: the figures of docs/scale.md.

    CAIRN_DEVICES=128 cairn run -- python mesh.py 2 8 32 128
    CAIRN_COMM_TRANSPORT=tcp CAIRN_DEVICES=64 cairn run -- python mesh.py 2 8 32 64

For each number of ranks: seconds to meet and connect, open files, resident bytes, and the time of allreduces that all ranks have issued, each on a
stream of its own. Needs no torch.
"""

import ctypes
import os
import pathlib
import sys
import time

ACL = ctypes.CDLL("libascendcl.so")
SUM, FLOAT32 = 0, 4


def call(name, *arguments):
    code = getattr(ACL, name)(*arguments)
    if code:
        ACL.aclGetRecentErrMsg.restype = ctypes.c_char_p
        raise SystemExit(f"{name} returned {code}: {(ACL.aclGetRecentErrMsg() or b'').decode()}")


def held():
    """Open files, and resident bytes of the process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE")


class Rank:
    """A device, a stream on it and memory for the largest allreduce."""

    def __init__(self, device, count):
        self.device = device
        self.stream, self.memory = ctypes.c_void_p(), ctypes.c_void_p()
        call("aclrtSetDevice", device)
        call("aclrtCreateStream", ctypes.byref(self.stream))
        call("aclrtMalloc", ctypes.byref(self.memory), ctypes.c_size_t(4 * count), 0)
        call("aclrtMemset", self.memory, ctypes.c_size_t(4 * count), 0, ctypes.c_size_t(4 * count))

    def all_reduce(self, communicator, count):
        call("aclrtSetDevice", self.device)
        call("HcclAllReduce", self.memory, self.memory, ctypes.c_uint64(count), FLOAT32, SUM, communicator, self.stream)

    def finish(self):
        call("aclrtSetDevice", self.device)
        call("aclrtSynchronizeStream", self.stream)


def all_reduce_seconds(ranks, communicators, count, repeats):
    """The best time of an allreduce, from the first rank's call to the last one's end."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for rank, communicator in zip(ranks, communicators):
            rank.all_reduce(communicator, count)
        for rank in ranks:
            rank.finish()
        best = min(best, time.perf_counter() - start)
    return best


def measure(ranks, counts):
    size = len(ranks)
    devices = (ctypes.c_int32 * size)(*range(size))
    communicators = (ctypes.c_void_p * size)()
    files, resident = held()
    start = time.perf_counter()
    call("HcclCommInitAll", size, devices, communicators)
    met = time.perf_counter() - start
    communicators = [ctypes.c_void_p(one) for one in communicators]
    times = [all_reduce_seconds(ranks, communicators, count, 5) for count in counts]
    files_now, resident_now = held()
    for communicator in communicators:
        call("HcclCommDestroy", communicator)
    return met, (files_now - files) / size, (resident_now - resident) / size, times


def main():
    sizes = [int(argument) for argument in sys.argv[1:]]
    counts = [1, 1 << 18]
    call("aclInit", None)
    ranks = [Rank(device, max(counts)) for device in range(max(sizes))]
    print(f"{'ranks':>5} {'to meet':>10} {'files':>6} {'resident':>12} {'4 B':>10} {'1 MiB':>10}   files and bytes of a rank")
    for size in sizes:
        met, files, resident, times = measure(ranks[:size], counts)
        print(f"{size:5} {met * 1e3:7.1f} ms {files:6.1f} {resident / 1024:8.0f} KiB " + " ".join(f"{one * 1e3:7.2f} ms" for one in times), flush=True)


if __name__ == "__main__":
    main()
