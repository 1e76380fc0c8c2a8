"""`cargo xtask bench comm`: collectives on `npu` tensors by hccl beside the same on CPU tensors by torch.distributed's gloo, in the same processes.

Started once for each number of ranks, by torchrun. Both sides make the same calls in turns, round after round; a call on `npu` ends with a synchronize.
A round's time is that of its slowest rank. Rank 0 writes the figures to the file named by --out.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import torch
import torch_npu  # noqa: F401
from torch import distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ops"))

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PLACES = {"hccl": torch.device("npu", int(os.environ["LOCAL_RANK"])), "gloo": torch.device("cpu")}
MIB = 1 << 20
SIZES = [4, 1 << 10, 16 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
FEW_SIZES = [4, MIB, 16 * MIB]


def all_reduce(count, place):
    tensor = torch.zeros(count, device=place)
    return lambda: dist.all_reduce(tensor)


def all_gather(count, place):
    output = torch.zeros(count, device=place)
    part = torch.zeros(count // WORLD, device=place)
    return lambda: dist.all_gather_into_tensor(output, part)


def reduce_scatter(count, place):
    output = torch.zeros(count // WORLD, device=place)
    whole = torch.zeros(count, device=place)
    return lambda: dist.reduce_scatter_tensor(output, whole)


def all_to_all(count, place):
    output, whole = (torch.zeros(count, device=place) for _ in range(2))
    return lambda: dist.all_to_all_single(output, whole)


COLLECTIVES = {"allreduce": all_reduce, "allgather": all_gather, "reduce-scatter": reduce_scatter, "alltoall": all_to_all}


def finish(side):
    if side == "hccl":
        torch.npu.synchronize()


def timed(side, call, calls):
    """Seconds for each of some calls, on this rank; every rank starts when all are there."""
    dist.all_reduce(torch.zeros(1))
    start = time.perf_counter()
    for _ in range(calls):
        call()
        finish(side)
    return (time.perf_counter() - start) / calls


def slowest(times):
    """For each round the time of the slowest rank."""
    everyone = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(everyone, dist.ReduceOp.MAX)
    return everyone.tolist()


def agreed(number):
    """What rank 0 says."""
    tensor = torch.tensor([number])
    dist.broadcast(tensor, 0)
    return tensor.item()


def compare(makers, seconds, rounds):
    """Rounds of calls on both sides in turns, for about this long and at least `rounds[0]`, at most `rounds[1]` times; seconds per call of each round."""
    calls = {side: make(PLACES[side]) for side, make in makers.items()}
    first = {}
    for side, call in calls.items():
        timed(side, call, 1)
        first[side] = timed(side, call, 2)
    count = agreed(max(1, min(200, int(seconds / 10 / max(sum(first.values()), 1e-6)))))
    turns = agreed(max(rounds[0], min(rounds[1], int(seconds / count / max(sum(first.values()), 1e-6)))))
    times = {side: [] for side in calls}
    for turn in range(turns):
        order = list(calls.items())
        for side, call in order if turn % 2 else reversed(order):
            times[side].append(timed(side, call, count))
    return {side: slowest(one) for side, one in times.items()}


def figures(times):
    """Medians, bests and their ratios."""
    ours, theirs = times["hccl"], times["gloo"]
    median, best = statistics.median, min
    return {
        "hccl_us": median(ours) * 1e6, "gloo_us": median(theirs) * 1e6, "ratio": median(ours) / median(theirs),
        "hccl_best_us": best(ours) * 1e6, "gloo_best_us": best(theirs) * 1e6, "best_ratio": best(ours) / best(theirs),
        "rounds": len(ours),
    }  # fmt: skip


def memcpy(count):
    """Seconds to copy so many floats, on rank 0 while the others wait: best and median of nine."""
    dist.all_reduce(torch.zeros(1))
    times = []
    if RANK == 0:
        source, target = (torch.zeros(count) for _ in range(2))
        for _ in range(9):
            start = time.perf_counter()
            target.copy_(source)
            times.append(time.perf_counter() - start)
    dist.all_reduce(torch.zeros(1))
    return (min(times), statistics.median(times)) if times else (float("nan"),) * 2


def collective_rows(sizes, seconds):
    rows = []
    for size in sizes:
        copy_best, copy_median = memcpy(max(size // 4, 1))
        for name, make in COLLECTIVES.items():
            count = max(size // 4 // WORLD * WORLD, 1 if name == "allreduce" else WORLD)
            times = compare({side: lambda place: make(count, place) for side in PLACES}, seconds, (3, 40))
            row = {"name": name, "bytes": count * 4, **figures(times)}
            row |= {"memcpy_us": copy_median * 1e6, "by_memcpy": row["hccl_best_us"] / (copy_best * 1e6)}
            rows.append(row)
            tell(f"{name:14} {size_name(row['bytes']):>8}", row, f"{row['by_memcpy']:6.1f} memcpy")
    return rows


def size_name(size):
    for unit, scale in (("MiB", MIB), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size // scale} {unit}"
    return f"{size} B"


def tell(name, row, more=""):
    if RANK == 0:
        times = f"hccl {row['hccl_us']:11.1f} us  gloo {row['gloo_us']:11.1f} us"
        print(f"{WORLD} ranks  {name}  {times}  {row['ratio']:5.2f}x  best {row['best_ratio']:5.2f}x {more}", flush=True)


def step_row(depth):
    """A step of DDP: GPT-2's width and vocabulary, one text of 128 tokens on each rank."""
    import models
    from torch.nn.parallel import DistributedDataParallel

    def make(place):
        def build():
            model = models.gpt2(depth).to(place)
            return DistributedDataParallel(model, device_ids=[place.index] if place.type == "npu" else None, gradient_as_bucket_view=True)

        step, inputs = models.training(build, models.token_ids(1, 128, 50_257), lambda weights: torch.optim.AdamW(weights, 1e-4, fused=True))
        arguments = inputs(place)
        return lambda: step(*arguments)

    row = {"name": f"DDP step of GPT-2, {depth} blocks", "bytes": None, **figures(compare({side: make for side in PLACES}, 20, (5, 12)))}
    tell(row["name"], row)
    return row


def meeting():
    """Seconds to make a group and to run its first collective, in which the ranks meet and connect; the slowest rank, for each side."""
    seconds = {}
    for side, place in PLACES.items():
        times = []
        for _ in range(5):
            dist.all_reduce(torch.zeros(1))
            start = time.perf_counter()
            group = dist.new_group(backend=side)
            dist.all_reduce(torch.zeros(1, device=place), group=group)
            finish(side)
            times.append(time.perf_counter() - start)
            dist.destroy_process_group(group)
        seconds[side] = statistics.median(slowest(times))
    return seconds


def held():
    """Open files and resident bytes of this process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE")


def footprint():
    """What one more communicator of all ranks costs this rank: open files, and resident bytes after an allreduce of 4 bytes and one of 16 MiB."""
    small, large = (torch.zeros(count, device=PLACES["hccl"]) for count in (1, 4 * MIB))
    group = dist.new_group(backend="hccl")
    files, before = held()
    costs = {}
    for name, tensor in (("small", small), ("large", large)):
        dist.all_reduce(tensor, group=group)
        torch.npu.synchronize()
        files_now, bytes_now = held()
        costs[name] = {"files": files_now - files, "bytes": bytes_now - before}
    dist.destroy_process_group(group)
    return costs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--few", action="store_true", help="a few sizes, and what a communicator costs")
    parser.add_argument("--steps-of", type=int, default=0, metavar="BLOCKS", help="also steps of DDP on GPT-2 with so many blocks")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.npu.set_device(PLACES["hccl"])
    dist.init_process_group("cpu:gloo,npu:hccl")
    report = {"ranks": WORLD, "queue": os.environ.get("TASK_QUEUE_ENABLE", "1")}
    report["rows"] = collective_rows(FEW_SIZES if options.few else SIZES, options.seconds)
    if options.steps_of:
        report["rows"].append(step_row(options.steps_of))
    report["communicator"] = footprint()
    report["meeting_seconds"] = meeting()
    if RANK == 0:
        print(f"{WORLD} ranks  meeting: hccl {report['meeting_seconds']['hccl'] * 1e3:.1f} ms, gloo {report['meeting_seconds']['gloo'] * 1e3:.1f} ms", flush=True)
        pathlib.Path(options.out).write_text(json.dumps(report))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
