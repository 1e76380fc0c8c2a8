"""The same allocator program in C and in Python is asked the same."""

import os
import pathlib
import subprocess

import acl
from support import Pool, Sort, register

HERE = pathlib.Path(__file__).parent


def test_c_and_python_are_asked_the_same(stream, tmp_path):
    home = os.environ["ASCEND_HOME_PATH"]
    built = tmp_path / "counts"
    subprocess.run(
        ["gcc", HERE / "counts.c", f"-I{home}/include", f"-L{home}/lib64", "-lascendcl", "-o", built], check=True
    )
    told = subprocess.run([built], check=True, capture_output=True, text=True, timeout=240).stdout
    pool, sort = Pool(), Sort()
    register(stream, pool)
    for _ in range(25):
        assert sort.run(stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert sort.right()
    assert told == f"{pool.allocs} {pool.addresses} {pool.frees} {sum(pool.sizes)}\n"
    assert pool.allocs >= 25
    sort.close()
    assert acl.rt.allocator_unregister(stream) == 0
    pool.close()
