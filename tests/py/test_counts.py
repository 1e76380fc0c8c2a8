"""The same allocator program in C and in Python: the same calls and the same texts."""

import os
import pathlib
import subprocess

import pytest

import acl
import support
from support import Pool, Sort, register

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def in_c(tmp_path_factory):
    """Runs the program in C; what it printed."""
    home = os.environ["ASCEND_HOME_PATH"]
    built = tmp_path_factory.mktemp("counts") / "counts"
    subprocess.run(
        ["gcc", HERE / "counts.c", f"-I{home}/include", f"-L{home}/lib64", "-lascendcl", "-o", built], check=True
    )
    return lambda *arguments: subprocess.run(
        [built, *arguments], check=True, capture_output=True, text=True, timeout=240).stdout


def test_c_and_python_are_asked_the_same(stream, in_c):
    reported = in_c()
    pool, sort = Pool(), Sort()
    register(stream, pool)
    for _ in range(25):
        assert sort.run(stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert sort.is_correct()
    assert reported == f"{pool.allocs} {pool.addresses} {pool.frees} {sum(pool.sizes)}\n"
    assert pool.allocs >= 25
    sort.close()
    assert acl.rt.allocator_unregister(stream) == 0
    pool.close()


def test_a_block_given_twice_is_the_same_in_c_and_python(in_c):
    """The allocator has one block for every request, and two are needed at once. The text has the user's object and block."""
    run = support.program(
        "assert acl.init() == 0 and acl.rt.set_device(0) == 0\n"
        "stream = acl.rt.create_stream()[0]\n"
        "class One(Pool):\n"
        "    def alloc(self, obj, size):\n"
        "        self.allocs += 1\n"
        "        self.sizes.append(size)\n"
        "        return 1\n"
        "    def free(self, obj, block):\n"
        "        self.frees += 1\n"
        "pool, sort = One(), Sort()\n"
        "register(stream, pool)\n"
        "floats = acl.create_tensor_desc(FLOAT, [COUNT], ND)\n"
        "assert acl.set_tensor_place_ment(floats, 1) == 0\n"
        "data = bytes(4 * COUNT)\n"
        "assert acl.update_data_buffer(sort.buffers[0], acl.util.bytes_to_ptr(data), len(data)) == 0\n"
        "ret = acl.op.execute_v2('Sort', [floats], sort.buffers[:1], [sort.floats, sort.indices], sort.buffers[1:],\n"
        "    sort.attr, stream)\n"
        "print(ret, acl.get_recent_err_msg().partition('allocated (')[0])\n"
        "print(pool.allocs, pool.addresses, pool.frees, sum(pool.sizes))\n"
    )
    reported = in_c("one")
    assert run.stdout == reported, run.stderr
    assert "of the allocator 0x1234" in reported and "gave the block 0x1, which is already " in reported
    assert reported.splitlines()[1].startswith("2 1 1 ")
