"""One rank on a host of its own, for test_hosts.py: torch's variables say where the others are, HCCL_IF_IP which address this one has.

Prints how many bytes the network brought during an all_reduce of 8 MiB, whose result it checks.
"""

import pathlib

import torch
from torch import distributed

BYTES = 8 << 20


def received():
    """Bytes that any interface of this host has received."""
    lines = pathlib.Path("/proc/self/net/dev").read_text().splitlines()[2:]
    return sum(int(line.partition(":")[2].split()[0]) for line in lines)


def main():
    torch.npu.set_device(0)
    distributed.init_process_group("hccl")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    tensor = torch.full((BYTES // 4,), float(rank + 1), device="npu")
    distributed.barrier()
    before = received()
    distributed.all_reduce(tensor)
    torch.npu.synchronize()
    print(f"rank {rank} received {received() - before} bytes", flush=True)
    assert tensor.eq(world * (world + 1) / 2).all()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
