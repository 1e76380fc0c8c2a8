"""Callables of allocators: registered anew or interrupted while C calls them, and how long they live."""

import ctypes
import signal
import sys
import threading
import weakref

import pytest

import acl
import support
from support import GE_FAILURE, Pool, Sort, describe, register

rt = acl.rt


@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_allocator_unregistered_during_a_call_gets_its_block_back(is_replaced, stream, sort):
    pool, other = Pool(), Pool(99)

    def alloc(obj, size):
        assert rt.allocator_unregister(stream) == 0
        if is_replaced:
            register(stream, other)
        return pool.alloc(obj, size)

    assert rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0
    assert sort.run_in_c(stream) == 0
    assert pool.allocs == pool.addresses == pool.frees == 1
    assert other.allocs == other.addresses == other.frees == 0
    assert rt.synchronize_stream(stream) == 0 and sort.is_correct()


def test_an_allocator_during_a_call_is_not_mixed_up_with_another(stream, sort):
    first, second = Pool(0xA), Pool(0xB)
    entered, may_return, codes = threading.Event(), threading.Event(), []
    context, other = rt.get_context()[0], rt.create_stream()[0]

    def alloc(obj, size):
        entered.set()
        may_return.wait()
        return first.alloc(obj, size)

    def execute():
        assert rt.set_context(context) == 0
        codes.append(sort.run_in_c(stream))

    assert rt.allocator_register(stream, describe(0xA, alloc, first.free, first.address)) == 0
    thread = threading.Thread(target=execute)
    thread.start()
    entered.wait()
    assert rt.allocator_unregister(stream) == 0
    register(other, second)
    may_return.set()
    thread.join()
    assert codes == [0]
    assert first.allocs == first.addresses == first.frees == 1 and set(first.objects) == {0xA}
    assert second.allocs == second.addresses == second.frees == 0
    assert rt.destroy_stream(other) == 0


def test_c_gets_functions_that_return_null_in_place_of_callables(stream, device):
    """A callable has no address; C that calls the function it got gets no memory, and the callable is not called."""
    pool, fields = Pool(1), [ctypes.c_void_p() for _ in range(6)]
    register(stream, pool)
    get_by_stream = ctypes.CDLL("libascendcl.so").aclrtAllocatorGetByStream
    assert get_by_stream(ctypes.c_void_p(stream), *map(ctypes.byref, fields)) == 0
    assert fields[1].value == 1 and fields[4].value is None
    pointer = ctypes.c_void_p
    assert ctypes.CFUNCTYPE(pointer, pointer, ctypes.c_size_t)(fields[2].value)(1, 64) is None
    assert ctypes.CFUNCTYPE(pointer, pointer)(fields[5].value)(7) is None
    ctypes.CFUNCTYPE(None, pointer, pointer)(fields[3].value)(1, 7)
    assert pool.allocs == pool.addresses == pool.frees == 0


def test_many_registrations_on_another_stream_during_a_call():
    run = support.program(
        "assert acl.init() == 0 and acl.rt.set_device(0) == 0\n"
        "pool, sort = Pool(), Sort()\n"
        "stream, other = [acl.rt.create_stream()[0] for _ in range(2)]\n"
        "def alloc(obj, size):\n"
        "    for _ in range(3000):\n"
        "        desc = describe(7, lambda o, s: None, lambda o, b: None, lambda b: None)\n"
        "        assert acl.rt.allocator_register(other, desc) == 0 == acl.rt.allocator_destroy_desc(desc)\n"
        "        assert acl.rt.allocator_unregister(other) == 0\n"
        "    return pool.alloc(obj, size)\n"
        "assert acl.rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0\n"
        "print(sort.run(stream), pool.allocs, pool.frees)\n"
    )
    assert (run.stdout, run.stderr) == ("0 1 1\n", "")


def test_a_dropped_callable_may_register(stream, sort):
    """Its finalizer runs inside the registration that replaces it, and its own registration is the last."""
    first, second = Pool(1), Pool(2)

    class Callback:
        def __call__(self, *arguments):
            return None

        def __del__(self):
            register(stream, second)

    callback = Callback()
    desc = describe(3, callback, callback, callback)
    del callback
    assert rt.allocator_register(stream, desc) == rt.allocator_destroy_desc(desc) == 0
    register(stream, first)
    assert rt.allocator_get_by_stream(stream)[1] == 2
    assert sort.run(stream) == 0
    assert (first.allocs, second.allocs, second.frees) == (0, 1, 1)


def test_a_dropped_callable_may_change_the_descriptor_that_had_it():
    run = support.program(
        "import faulthandler\n"
        "faulthandler.dump_traceback_later(60, exit=True)\n"
        "assert acl.init() == 0 and acl.rt.set_device(0) == 0\n"
        "desc, stream = acl.rt.allocator_create_desc(), acl.rt.create_stream()[0]\n"
        "class Callback:\n"
        "    def __call__(self, *arguments): return None\n"
        "    def __del__(self):\n"
        "        assert acl.rt.allocator_set_alloc_func_to_desc(desc, print) == 0\n"
        "        print('gone')\n"
        "assert acl.rt.allocator_set_alloc_func_to_desc(desc, Callback()) == 0\n"
        "assert acl.rt.allocator_set_alloc_func_to_desc(desc, len) == 0\n"
        "assert acl.rt.allocator_set_obj_to_desc(desc, 1) == 0\n"
        "assert acl.rt.allocator_set_free_func_to_desc(desc, len) == 0\n"
        "assert acl.rt.allocator_set_get_addr_from_block_func_to_desc(desc, len) == 0\n"
        "assert acl.rt.allocator_register(stream, desc) == 0\n"
        "print(acl.rt.allocator_get_by_stream(stream)[2])\n"
    )
    assert (run.stdout, run.stderr) == ("gone\n<built-in function print>\n", "")


def test_an_object_with_the_attributes_of_a_method_is_no_method(stream, sort):
    class Proxy:
        def __init__(self, method):
            self.method, self.calls = method, 0

        def __getattr__(self, name):
            return getattr(self.method, name)

        def __call__(self, *arguments):
            self.calls += 1
            return self.method(*arguments)

    pool = Pool()
    proxies = Proxy(pool.alloc), Proxy(pool.alloc)
    for proxy in proxies:
        assert rt.allocator_register(stream, describe(1, proxy, pool.free, pool.address)) == 0
        assert sort.run(stream) == 0
        assert rt.allocator_get_by_stream(stream)[2] is proxy
    assert [proxy.calls for proxy in proxies] == [1, 1]


@pytest.fixture
def interrupts():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("execute", [Sort.run, Sort.run_in_c])
@pytest.mark.parametrize("where", ["alloc", "address", "free"])
def test_an_interrupt_comes_after_the_call_and_loses_no_block(where, execute, stream, sort):
    pool = Pool()

    def interrupted(name):
        def call(*arguments):
            result = getattr(pool, name)(*arguments) if name != "alloc" else None
            if where == name:
                signal.raise_signal(signal.SIGINT)
            return result if name != "alloc" else pool.alloc(*arguments)
        return call

    desc = describe(1, *map(interrupted, ("alloc", "free", "address")))
    assert rt.allocator_register(stream, desc) == 0
    interrupted_in = []
    try:
        execute(sort, stream)
        for _ in range(1000):
            pass
    except KeyboardInterrupt:
        interrupted_in.append(where)
    assert interrupted_in == [where] and pool.allocs == pool.frees == (0 if where == "alloc" else 1)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_is_not_lost_in_the_finalizer_of_a_callable_that_leaves(stream, sort, monkeypatch):
    pool, happened, shown = Pool(), [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: shown.append(what.exc_value))

    class Free:
        def __call__(self, obj, block):
            pool.free(obj, block)
            assert rt.allocator_unregister(stream) == 0
            signal.raise_signal(signal.SIGINT)

        def __del__(self):
            for _ in range(1000):
                pass
            happened.append("dropped")

    desc = describe(1, pool.alloc, Free(), pool.address)
    assert rt.allocator_register(stream, desc) == rt.allocator_destroy_desc(desc) == 0
    try:
        sort.run(stream)
        for _ in range(1000):
            pass
    except KeyboardInterrupt:
        happened.append("interrupt")
    assert happened == ["dropped", "interrupt"] and shown == [] and pool.allocs == pool.frees == 1


@pytest.mark.usefixtures("interrupts")
def test_a_signal_between_callbacks_does_not_keep_free_from_running(stream, sort):
    """The get-address function is C's `raise` here, whose signal the next Python code handles. The
    block is the number of the signal, and its address 0, which is none."""
    freed, interrupts = [], []
    address = ctypes.CDLL(None)["raise"]
    desc = describe(1, lambda obj, size: int(signal.SIGINT), lambda obj, block: freed.append(block), address)
    assert rt.allocator_register(stream, desc) == 0
    try:
        sort.run(stream)
        for _ in range(1000):
            pass
    except KeyboardInterrupt:
        interrupts.append(True)
    assert interrupts == [True] and freed == [signal.SIGINT]


def test_an_interrupt_that_python_does_not_handle_is_shown(stream, sort, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: shown.append(repr(what.exc_value)))

    def alloc(obj, size):
        raise KeyboardInterrupt("nobody waits for it")

    desc = describe(1, alloc, lambda o, b: None, lambda b: b)
    assert rt.allocator_register(stream, desc) == 0
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert sort.run(stream) == GE_FAILURE
    finally:
        signal.signal(signal.SIGINT, before)
    assert shown == ["KeyboardInterrupt('nobody waits for it')"]
