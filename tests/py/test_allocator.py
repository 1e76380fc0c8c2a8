"""User allocators written in Python and registered on a stream, as in the manual of allocator_register."""

import ctypes
import gc
import weakref

import pytest

import acl
import support
from support import INVALID_HANDLE, INVALID_PARAM, GE_FAILURE, Pool, Sort, describe, register

rt = acl.rt


@pytest.fixture
def pool(device):
    pool = Pool()
    yield pool
    assert rt.synchronize_device() == 0
    pool.close()


def test_acl_reg_1_a_described_allocator_is_registered_and_used(stream, pool, sort):
    register(stream, pool)
    assert sort.run(stream) == 0
    assert rt.synchronize_stream(stream) == 0
    assert sort.is_correct()
    assert pool.allocs == pool.frees == pool.addresses > 0
    assert set(pool.objects) == {pool.obj}


def test_acl_reg_2_an_incomplete_descriptor_is_refused_and_nothing_changes(stream, pool, sort):
    register(stream, pool)
    before = rt.allocator_get_by_stream(stream)
    other = Pool()
    full = describe(other.obj, other.alloc, other.free, other.address)
    assert rt.allocator_register(0, full) == INVALID_PARAM
    assert rt.allocator_register(stream, 0) == INVALID_PARAM
    assert rt.allocator_register(stream + 1, full) == INVALID_HANDLE
    assert rt.allocator_set_obj_to_desc(full, 0) == INVALID_PARAM
    setters = {
        "its object": lambda desc: rt.allocator_set_obj_to_desc(desc, 1),
        "its alloc function": lambda desc: rt.allocator_set_alloc_func_to_desc(desc, other.alloc),
        "its free function": lambda desc: rt.allocator_set_free_func_to_desc(desc, other.free),
        "its get-address function":
            lambda desc: rt.allocator_set_get_addr_from_block_func_to_desc(desc, other.address),
    }
    for missing in setters:
        desc = rt.allocator_create_desc()
        assert all(setter(desc) == 0 for what, setter in setters.items() if what != missing)
        assert rt.allocator_register(stream, desc) == INVALID_PARAM
        assert missing in acl.get_recent_err_msg()
        assert rt.allocator_destroy_desc(desc) == 0
    assert rt.allocator_get_by_stream(stream) == before
    assert sort.run(stream) == 0
    assert pool.allocs == pool.frees == 1 and other.allocs == 0
    assert rt.allocator_unregister(stream) == 0
    assert rt.allocator_get_by_stream(stream)[-1] == INVALID_PARAM
    assert rt.allocator_unregister(stream) == 0
    assert rt.allocator_unregister(0) == INVALID_PARAM
    assert rt.allocator_destroy_desc(full) == 0
    assert rt.synchronize_stream(stream) == 0
    other.close()


def test_acl_reg_2_a_destroyed_descriptor_is_refused(stream, pool):
    desc = describe(pool.obj, pool.alloc, pool.free, pool.address)
    assert rt.allocator_destroy_desc(desc) == 0
    assert rt.allocator_destroy_desc(desc) == INVALID_HANDLE
    assert rt.allocator_register(stream, desc) == INVALID_HANDLE
    assert rt.allocator_set_obj_to_desc(desc, 1) == INVALID_HANDLE
    assert rt.allocator_set_alloc_func_to_desc(desc, pool.alloc) == INVALID_HANDLE


def test_acl_reg_3_the_descriptor_is_copied(stream, pool, sort):
    other = Pool()
    desc = describe(pool.obj, pool.alloc, pool.free, pool.address)
    assert rt.allocator_register(stream, desc) == 0
    assert rt.allocator_set_alloc_func_to_desc(desc, other.alloc) == 0
    assert rt.allocator_destroy_desc(desc) == 0
    assert sort.run(stream) == 0
    assert pool.allocs > 0 and other.allocs == 0
    other.close()


def test_acl_reg_4_the_last_registration_is_used(stream, pool, sort):
    other = Pool()
    register(stream, pool)
    assert sort.run(stream) == 0
    before = pool.allocs
    register(stream, other)
    assert sort.run(stream) == 0
    assert pool.allocs == before > 0 and other.allocs > 0
    assert rt.allocator_unregister(stream) == 0
    assert sort.run(stream) == 0
    assert other.allocs == other.frees == before
    assert rt.synchronize_stream(stream) == 0
    other.close()


def test_acl_reg_5_by_handle_too(stream, pool, sort):
    register(stream, pool)
    handle, ret = acl.op.create_handle("Sort", [sort.floats], [sort.floats, sort.indices], sort.attr)
    assert ret == 0
    assert acl.op.execute_with_handle(handle, sort.buffers[:1], sort.buffers[1:], stream) == 0
    assert rt.synchronize_stream(stream) == 0
    assert sort.is_correct() and pool.allocs == pool.frees > 0
    acl.op.destroy_handle(handle)


def test_acl_reg_6_one_allocator_on_two_streams(stream, pool, sort):
    second, ret = rt.create_stream()
    assert ret == 0
    for used in (stream, second):
        register(used, pool)
    for used in (stream, second) * 5:
        assert sort.run(used) == 0
        assert rt.synchronize_stream(used) == 0
    assert pool.allocs == pool.frees >= 10
    assert rt.destroy_stream(second) == 0
    assert rt.allocator_get_by_stream(stream)[-1] == 0


def test_acl_reg_7_blocks_are_freed_before_the_work_has_run(stream, pool, sort):
    register(stream, pool)
    event, ret = rt.create_event()
    assert ret == 0
    assert rt.stream_wait_event(stream, event) == 0
    assert sort.run(stream) == 0
    assert pool.frees == pool.allocs > 0
    assert rt.stream_query(stream) == (1, 0)
    other, ret = rt.create_stream()
    assert rt.record_event(event, other) == 0
    assert rt.synchronize_stream(stream) == 0
    assert sort.is_correct()
    assert rt.destroy_stream(other) == 0


def test_acl_reg_8_socs_without_allocators_return_not_supported():
    run = support.program(
        "assert acl.init() == 0 and acl.rt.set_device(0) == 0\n"
        "stream = acl.rt.create_stream()[0]\n"
        "f = lambda *a: 0\n"
        "rt = acl.rt\n"
        "assert rt.allocator_create_desc() == 0\n"
        "assert '310B' in acl.get_recent_err_msg()\n"
        "print({rt.allocator_destroy_desc(64), rt.allocator_set_obj_to_desc(64, 1),\n"
        "    rt.allocator_set_alloc_func_to_desc(64, f), rt.allocator_set_free_func_to_desc(64, f),\n"
        "    rt.allocator_set_alloc_advise_func_to_desc(64, f),\n"
        "    rt.allocator_set_get_addr_from_block_func_to_desc(64, f), rt.allocator_register(stream, 64),\n"
        "    rt.allocator_unregister(stream), rt.allocator_get_by_stream(stream)[-1]})\n",
        CAIRN_SOC="Ascend310B1",
    )
    assert run.stdout == "{207000}\n", run.stderr


def test_acl_reg_10_handles_are_ints_and_results_are_used(stream, pool, sort):
    big = (1 << 64) - 1
    calls = []

    def alloc(obj, size):
        calls.append((type(obj), type(size), obj))
        return pool.alloc(obj, size) + (1 << 63)

    desc = describe(big, alloc, lambda o, b: pool.free(o, b - (1 << 63)), lambda b: pool.address(b - (1 << 63)))
    assert type(desc) is int
    assert type(rt.allocator_register(stream, desc)) is int
    assert sort.run(stream) == 0
    assert set(calls) == {(int, int, big)}
    assert rt.synchronize_stream(stream) == 0
    assert sort.is_correct() and pool.frees == pool.allocs > 0


def test_sizes_have_64_bits(stream):
    sizes = []
    desc = describe(1, lambda obj, size: sizes.append(size), lambda o, b: None, lambda b: None)
    assert rt.allocator_register(stream, desc) == 0
    shape = [3 << 30]
    floats = acl.create_tensor_desc(support.FLOAT, shape, support.ND)
    indices = acl.create_tensor_desc(support.INT32, shape, support.ND)
    address, ret = rt.malloc(64, 0)
    assert ret == 0
    buffers = [acl.create_data_buffer(address, 12 << 30) for _ in range(3)]
    attr = acl.op.create_attr()
    ret = acl.op.execute_v2("Sort", [floats], buffers[:1], [floats, indices], buffers[1:], attr, stream)
    assert ret == GE_FAILURE
    assert len(sizes) == 1 and sizes[0] > 1 << 32
    assert rt.free(address) == 0


def test_get_by_stream_returns_what_was_set(stream, pool):
    desc = describe(pool.obj, pool.alloc, pool.free, pool.address, advise=print)
    assert rt.allocator_register(stream, desc) == 0
    assert rt.allocator_get_by_stream(stream) == (
        desc, pool.obj, pool.alloc, pool.free, print, pool.address, 0)
    assert rt.allocator_destroy_desc(desc) == 0


def test_advise_gets_the_object_the_size_and_the_address(stream, pool):
    """Single operators give no advice, so a probe does."""
    advised = []

    def advise(obj, size, hint):
        advised.append((obj, size, hint))
        return pool.alloc(obj, size)

    desc = describe(pool.obj, pool.alloc, pool.free, pool.address, advise=advise)
    assert rt.allocator_register(stream, desc) == 0
    assert rt.allocator_destroy_desc(desc) == 0
    probe = support.Probe(1 << 19, near=pool.base)
    assert probe.run(stream) == 0
    assert advised == [(pool.obj, 1 << 19, pool.base)] and pool.allocs == pool.addresses == 1
    assert probe.give_back() == 0
    assert pool.frees == 1 and set(pool.objects) == {pool.obj}


def test_more_than_1024_allocators_are_registered_at_once(sort):
    """Each has callables of its own, and all have one object."""
    pool, served = Pool(1), []

    def allocator(number):
        def alloc(obj, size):
            served.append(number)
            return pool.alloc(obj, size)
        return describe(1, alloc, lambda obj, block: pool.free(obj, block), lambda block: pool.address(block))

    streams = [rt.create_stream()[0] for _ in range(1500)]
    for number, stream in enumerate(streams):
        desc = allocator(number)
        assert rt.allocator_register(stream, desc) == rt.allocator_destroy_desc(desc) == 0
    for number in (0, 1023, 1024, 1499):
        assert sort.run(streams[number]) == rt.synchronize_stream(streams[number]) == 0
    assert served == [0, 1023, 1024, 1499] and pool.allocs == pool.frees == 4
    assert all(rt.destroy_stream(stream) == 0 for stream in streams)
    pool.close()


class Callback:
    def __call__(self, *arguments):
        return None


def registered_callback(stream):
    callback = Callback()
    desc = describe(1, callback, callback, callback)
    assert rt.allocator_register(stream, desc) == 0
    assert rt.allocator_destroy_desc(desc) == 0
    return weakref.ref(callback)


def test_callables_live_as_long_as_their_registration(stream):
    callback_ref = registered_callback(stream)
    gc.collect()
    assert callback_ref() is not None
    assert rt.allocator_unregister(stream) == 0
    assert callback_ref() is None


def test_callables_are_dropped_when_another_is_registered(stream, pool):
    callback_ref = registered_callback(stream)
    register(stream, pool)
    assert callback_ref() is None


@pytest.mark.parametrize("destroy", [rt.destroy_stream, rt.destroy_stream_force])
def test_callables_are_dropped_with_their_stream(device, destroy):
    stream, ret = rt.create_stream()
    assert ret == 0
    callback_ref = registered_callback(stream)
    assert destroy(stream) == 0
    assert callback_ref() is None


def test_callables_are_dropped_with_the_context_of_their_stream(device):
    acl.get_recent_err_msg()
    context, ret = rt.create_context(0)
    assert ret == 0
    stream, ret = rt.create_stream()
    assert ret == 0
    callback_ref = registered_callback(stream)
    assert rt.destroy_context(context) == 0
    assert rt.set_device(0) == 0
    assert callback_ref() is None
    assert acl.get_recent_err_msg() is None


def test_callables_are_dropped_with_a_stream_that_c_destroys(device):
    stream, ret = rt.create_stream()
    assert ret == 0
    callback_ref = registered_callback(stream)
    assert ctypes.CDLL("libascendcl.so").aclrtDestroyStream(ctypes.c_void_p(stream)) == 0
    assert callback_ref() is None


def test_callables_live_until_their_last_block_is_freed(stream, pool):
    class Alloc:
        def __call__(self, obj, size):
            return pool.alloc(obj, size)

    alloc = Alloc()
    callback_ref = weakref.ref(alloc)
    desc = describe(1, alloc, pool.free, pool.address)
    del alloc
    assert rt.allocator_register(stream, desc) == rt.allocator_destroy_desc(desc) == 0
    probes = support.Probe(64), support.Probe(64)
    assert [probe.run(stream) for probe in probes] == [0, 0]
    assert rt.allocator_unregister(stream) == 0
    for probe, frees in zip(probes, (1, 2)):
        assert callback_ref() is not None
        assert probe.give_back() == 0 and pool.frees == frees
    assert callback_ref() is None


def test_the_same_method_looked_up_twice_is_the_same_function(stream, pool):
    """Registered with the same methods, it is the same allocator, and the block is known to be allocated already."""
    second, ret = rt.create_stream()
    assert ret == 0
    register(stream, pool)
    register(second, pool)
    probe, again = support.Probe(64), support.Probe(64)
    assert probe.run(stream) == 0
    pool.free_slots.append(pool.free_slots[-1] + 1)
    assert again.run(second) == GE_FAILURE
    assert "which is already allocated" in acl.get_recent_err_msg()
    assert probe.give_back() == 0
    assert rt.destroy_stream(second) == 0


def test_callables_of_a_descriptor_are_dropped_with_it(device):
    callback = Callback()
    callback_ref = weakref.ref(callback)
    desc = describe(1, callback, callback, callback)
    del callback
    assert callback_ref() is not None
    assert rt.allocator_destroy_desc(desc) == 0
    assert callback_ref() is None


def test_acl_reg_4_callables_that_compare_equal_are_still_different_ones(stream):
    pool = Pool()

    class Alloc:
        def __init__(self):
            self.served = 0

        def __call__(self, obj, size):
            self.served += 1
            return pool.alloc(obj, size)

        def __eq__(self, other):
            return isinstance(other, Alloc)

        __hash__ = None

    first, second = Alloc(), Alloc()
    for callable_ in (first, second):
        assert rt.allocator_register(stream, describe(1, callable_, pool.free, pool.address)) == 0
        sort = Sort()
        assert sort.run(stream) == 0
        assert rt.synchronize_stream(stream) == 0
        sort.close()
    assert (first.served, second.served) == (1, 1)
    callback_ref = weakref.ref(second)
    del second, callable_
    gc.collect()
    assert callback_ref() is not None
    assert rt.allocator_unregister(stream) == 0
    pool.close()
