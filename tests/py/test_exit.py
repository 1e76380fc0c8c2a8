"""The end of the interpreter while threads still work: they stop without a crash."""

import pytest

import support

HEAD = """
import threading, time
assert acl.init() == 0 and acl.rt.set_device(0) == 0
context = acl.rt.get_context()[0]
started = threading.Event()

def daemon(work):
    def run():
        assert acl.rt.set_context(context) == 0
        work()
    threading.Thread(target=run, daemon=True).start()

def allocator(alloc):
    stream, pool = acl.rt.create_stream()[0], Pool()
    assert acl.rt.allocator_register(stream, describe(id(pool), alloc, pool.free, pool.address)) == 0
    return stream, pool, Sort()

def busy(*arguments):
    started.set()
    while True:
        pass

def busy_with_acl(*arguments):
    started.set()
    while True:
        ptr, ret = acl.rt.malloc(64, 0)
        assert ret == 0 and acl.rt.free(ptr) == 0
"""

THREADS = {
    "a thread of acl.util": "acl.util.start_thread(busy, [])\n",
    "a thread of acl.util that calls acl": (
        "def work(args):\n"
        "    acl.rt.set_context(context)\n"
        "    busy_with_acl()\n"
        "for _ in range(4): acl.util.start_thread(work, [])\n"
    ),
    "a thread of acl.util that waits": (
        "stream, event = acl.rt.create_stream()[0], acl.rt.create_event()[0]\n"
        "assert acl.rt.stream_wait_event(stream, event) == 0\n"
        "def work(args):\n"
        "    started.set()\n"
        "    acl.rt.synchronize_stream(stream)\n"
        "acl.util.start_thread(work, [])\n"
    ),
    "a daemon that calls acl": "for _ in range(4): daemon(busy_with_acl)\n",
    "a daemon in a callback": "stream, pool, sort = allocator(busy)\ndaemon(lambda: sort.run(stream))\n",
    "a daemon in a callback that calls acl": (
        "stream, pool, sort = allocator(busy_with_acl)\ndaemon(lambda: sort.run(stream))\n"
    ),
    "a daemon in a callback that sleeps": (
        "def alloc(obj, size):\n"
        "    started.set()\n"
        "    while True: time.sleep(1e-4)\n"
        "stream, pool, sort = allocator(alloc)\n"
        "daemon(lambda: sort.run(stream))\n"
    ),
    "a daemon in a callback that drops a callable": (
        "class Alloc:\n"
        "    def __call__(self, obj, size): return pool.alloc(obj, size)\n"
        "    __del__ = busy\n"
        "def address(block):\n"
        "    assert acl.rt.allocator_unregister(stream) == 0\n"
        "    return pool.address(block)\n"
        "stream, pool, sort = acl.rt.create_stream()[0], Pool(), Sort()\n"
        "desc = describe(1, Alloc(), pool.free, address)\n"
        "assert acl.rt.allocator_register(stream, desc) == acl.rt.allocator_destroy_desc(desc) == 0\n"
        "daemon(lambda: sort.run_in_c(stream))\n"
    ),
    "daemons that run operators": (
        "def work():\n"
        "    pool, stream, sort = Pool(), acl.rt.create_stream()[0], Sort()\n"
        "    register(stream, pool)\n"
        "    while True:\n"
        "        assert sort.run(stream) == 0\n"
        "        started.set()\n"
        "for _ in range(4): daemon(work)\n"
    ),
}


@pytest.mark.parametrize("who", THREADS)
def test_threads_that_live_when_the_interpreter_ends(who):
    for _ in range(3):
        run = support.program(HEAD + THREADS[who] + "started.wait()\nprint('end')\n")
        assert (run.returncode, run.stdout, run.stderr) == (0, "end\n", "")


def test_a_callback_at_the_end_is_an_allocation_failure():
    """An object that outlives the modules runs an operator: the callables are not called, and the call fails."""
    run = support.program(
        HEAD + "import os\n"
        "calls = []\n"
        "def alloc(obj, size):\n"
        "    calls.append(size)\n"
        "stream, pool, sort = allocator(alloc)\n"
        "assert sort.run(stream) == GE_FAILURE and len(calls) == 1\n"
        "class Last:\n"
        "    def __del__(self, run=sort.run, stream=stream, calls=calls, write=os.write):\n"
        "        write(1, f'{run(stream)} {len(calls)}\\n'.encode())\n"
        "import builtins\n"
        "builtins.last = Last()\n"
    )
    assert (run.returncode, run.stdout) == (0, "500002 1\n"), run.stderr
