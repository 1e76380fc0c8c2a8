"""Ranks on two hosts: two network namespaces with a cable between them; and two addresses of the loopback, which needs no rights."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest

import builds
import host_rank

PORT = 29511


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


@contextlib.contextmanager
def namespaces():
    """Two network namespaces, connected; yields the name and address of each, or skips."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the program ip (iproute2)")
    hosts = [(f"cairn-{os.getpid()}-{number}", f"10.213.77.{number}") for number in (1, 2)]
    links = [f"cairn{os.getpid() % 100_000}{end}" for end in "ab"]
    commands = [
        *(f"netns add {name}" for name, _ in hosts),
        f"link add {links[0]} netns {hosts[0][0]} type veth peer name {links[1]} netns {hosts[1][0]}",
        *(f"-n {name} address add {address}/24 dev {link}" for (name, address), link in zip(hosts, links)),
        *(f"-n {name} link set {link} up" for (name, _), link in zip(hosts, links)),
        *(f"-n {name} link set lo up" for name, _ in hosts),
    ]
    try:
        for command in commands:
            done = ip(*command.split())
            if done.returncode:
                pytest.skip(f"this system has no network namespaces for us: ip {command}: {done.stderr.strip()}")
        yield hosts
    finally:
        for name, _ in hosts:
            ip("netns", "delete", name)


def run_ranks(commands, master, port, addresses, **more):
    """Runs a rank by each command; returns how many bytes each received."""
    processes = []
    for rank, (command, address) in enumerate(zip(commands, addresses)):
        settings = {"RANK": str(rank), "WORLD_SIZE": str(len(commands)), "LOCAL_RANK": "0", "MASTER_ADDR": master, "MASTER_PORT": str(port)}
        environment = os.environ | settings | {"HCCL_IF_IP": address} | more
        program = [*command, sys.executable, str(builds.HERE / "host_rank.py")]
        processes.append(subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        texts = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(texts)
    return [int(re.search(rf"rank {rank} received (\d+) bytes", text)[1]) for rank, text in enumerate(texts)]


def test_two_hosts():
    """What the ranks exchange goes through the network: half of the sum, and half of the other rank's tensor, come from it."""
    with namespaces() as hosts:
        commands = [["ip", "netns", "exec", name] for name, _ in hosts]
        addresses = [address for _, address in hosts]
        counts = run_ranks(commands, addresses[0], PORT, addresses)
    for count in counts:
        assert host_rank.BYTES <= count < 1.5 * host_rank.BYTES, counts


@pytest.mark.parametrize("transport", ["tcp", "shared"])
def test_two_addresses(transport):
    """Ranks with addresses of their own on one host: the network brings their data only if they are told not to share memory."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    counts = run_ranks([[], []], "127.0.0.1", port, ["127.0.0.1", "127.0.0.2"], CAIRN_COMM_TRANSPORT=transport)
    for count in counts:
        assert (count >= host_rank.BYTES) == (transport == "tcp"), counts
