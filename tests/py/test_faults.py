"""Wrong arguments, and callbacks that fail or return wrong values."""

import re
import sys

import numpy
import pytest

import acl
import support
from support import GE_FAILURE, NoReusePool, Pool, Sort, describe, in_threads

rt = acl.rt


def attribute(attr, value):
    return rt.malloc_with_cfg(64, 0, {"numAttrs": 1, "attrs": [{"attr": attr, "value": value}]})


@pytest.mark.parametrize(
    "call, parameter",
    [
        (lambda: rt.malloc("1", 0), "size"),
        (lambda: rt.malloc(1, 0.5), "policy"),
        (lambda: rt.malloc(-1, 0), "size"),
        (lambda: rt.malloc(1 << 64, 0), "size"),
        (lambda: rt.malloc(1, 1 << 31), "policy"),
        (lambda: rt.malloc(1), "policy"),
        (lambda: rt.malloc(None, 0), "size"),
        (lambda: acl.init(3), "config_path"),
        (lambda: acl.init("a\0b"), "config_path"),
        (lambda: acl.create_tensor_desc(0, 3, 2), "shape"),
        (lambda: acl.create_tensor_desc(0, [1, "2"], 2), "shape.*item 1"),
        (lambda: acl.set_tensor_shape_range(1, [[1, 2, 3]]), "dims_range.*item 0"),
        (lambda: acl.op.execute_v2(b"Sort", [], [], [], [], 0, 0), "op_type"),
        (lambda: acl.op.set_attr_list_string(1, "a", ["x", 1]), "values.*item 1"),
        (lambda: rt.allocator_register("s", 1), "stream"),
        (lambda: rt.allocator_register(1, []), "desc"),
        (lambda: rt.allocator_set_alloc_func_to_desc(1, 5), "func"),
        (lambda: rt.set_stream_attribute(1, 1, []), "value"),
        (lambda: rt.set_stream_attribute(1, 1, {}), "failureMode"),
        (lambda: rt.malloc_with_cfg(1, 0, {"numAttrs": 2, "attrs": []}), "cfg.*numAttrs.* is 2"),
        (lambda: rt.malloc_with_cfg(1, 0, {"numAttrs": "1", "attrs": []}), "cfg.*numAttrs.*int, not str"),
        (lambda: rt.malloc_with_cfg(1, 0, {"numAttrs": 1, "attrs": 5}), "cfg.*attrs.*list, not int"),
        (lambda: rt.malloc_with_cfg(1, 0, {"numAttrs": 1, "attrs": [5]}), "cfg.*attrs.*item 0 must be a dict"),
        (lambda: rt.malloc_with_cfg(1, 0, {"numAttrs": 0, "attrs": [], "rest": 1}), "cfg.*'rest'"),
        (lambda: attribute(1.0, {"moduleId": 1}), "cfg.*item 0, 'attr'.*not float"),
        (lambda: attribute(1, 3), "cfg.*item 0, 'value' must be a dict"),
        (lambda: attribute(1, {}), "cfg.*moduleId"),
        (lambda: attribute(1, {"moduleId": 1 << 16}), "cfg.*moduleId.* from 0 to 65535, not 65536"),
        (lambda: attribute(2, {"deviceId": 1 << 32}), "cfg.*deviceId.*not 4294967296"),
        (lambda: attribute(1, {"deviceId": 1}), "cfg.*the key 'deviceId', and may have 'moduleId'"),
        (lambda: attribute(1, {"moduleId": 1, "colour": 2}), "cfg.*'colour'"),
        (lambda: rt.malloc_host_with_cfg(1, {"attrs": []}), "cfg.*numAttrs"),
        (lambda: rt.set_stream_attribute(1, 1, {"failureMode": "a"}), "value.*failureMode.*not str"),
        (lambda: rt.set_stream_attribute(1, 2, {"overflowSwitch": 1 << 32}), "value.*overflowSwitch.*not 4294967296"),
        (lambda: rt.set_stream_attribute(1, 2, {"overflowSwitch": 1, "more": 1}), "value.*'more'"),
        (lambda: acl.set_tensor_shape_range(1, [[1, 2], [3, "4"]]), "dims_range.*item 1, item 1.*not str"),
        (lambda: acl.set_tensor_shape_range(1, [[1, 2], 3]), "dims_range.*item 1 must be a list, not int"),
        (lambda: acl.op.set_attr_list_list_int(1, "a", [[1], [2, None]]), "values.*item 1, item 1.*not NoneType"),
        (lambda: acl.op.set_attr_list_list_int(1, "a", [[1], "23"]), "values.*item 1 must be a list, not str"),
        (lambda: acl.create_tensor_desc(0, {1: 2}, 2), "shape.*list, not dict"),
        (lambda: acl.create_tensor_desc(0, b"12", 2), "shape.*list, not bytes"),
        (lambda: rt.malloc(10 ** 5000, 0), "size.*one of 16610 bits"),
        (lambda: rt.malloc(-(1 << 70), 0), "size.*not -1180591620717411303424"),
        (lambda: acl.op.set_attr_float(1, "a", 10 ** 400), "value.*too large"),
        (lambda: acl.op.set_attr_float(1, "a", "1.5"), "value.*float, not str"),
        (lambda: acl.op.set_attr_list_float(1, "a", [1, 10 ** 400]), "values.*item 1.*too large"),
        (lambda: acl.op.set_attr_float(1, "a", 1e300), "value.*32 bits, and 1e300 is too large"),
        (lambda: acl.op.set_attr_list_float(1, "a", [1, -1e39]), "values.*item 1.*-1e39 is too large"),
        (lambda: acl.init("\udcff"), "config_path.*surrogates"),
        (lambda: acl.util.bytes_to_ptr("text"), "data"),
        (lambda: acl.util.start_thread(1, []), "func"),
    ],
)
def test_wrong_types_name_the_parameter(call, parameter):
    with pytest.raises(TypeError, match=parameter):
        call()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("interface", [3, {}, {"data": 5}, {"data": ("place", 0)}, {"data": (64, False)}])
def test_what_only_looks_like_an_array_is_refused(interface):
    like = type("Like", (), {"__array_interface__": interface})()
    with pytest.raises(TypeError, match="argument 'array': it must be a numpy array"):
        acl.util.numpy_to_ptr(like)


class Index:
    """An object with `__index__`."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


def test_whatever_has_index_is_an_int(device):
    for size in (numpy.int64(64), numpy.uint8(64), Index(64)):
        ptr, ret = rt.malloc(size, numpy.int32(0))
        assert ret == 0 and rt.free(numpy.uint64(ptr)) == 0
    for shape in (numpy.array([2, 3]), (numpy.int32(2), Index(3)), range(2, 4)):
        desc = acl.create_tensor_desc(0, shape, 2)
        assert acl.get_tensor_desc_num_dims(desc) == 2 and acl.get_tensor_desc_element_count(desc) == 6
        assert acl.set_tensor_shape_range(desc, numpy.array([[1, 2], [3, 4]])) == 0
        assert acl.get_tensor_desc_dim_range(desc, 1, 2) == ([3, 4], 0)
        acl.destroy_tensor_desc(desc)
    attr = acl.op.create_attr()
    assert acl.op.set_attr_float(attr, "a", numpy.float32(0.5)) == 0
    assert acl.op.set_attr_list_float(attr, "a", numpy.array([0.5, 1], dtype=numpy.float16)) == 0
    acl.op.destroy_attr(attr)
    for wrong in (numpy.float64(1), numpy.array([1, 2]), Index("1")):
        with pytest.raises(TypeError, match="size"):
            rt.malloc(wrong, 0)
    with pytest.raises(TypeError, match="shape.*item 0"):
        acl.create_tensor_desc(0, numpy.array([1.5]), 2)


def test_a_shape_names_what_is_wrong(device):
    kind = numpy.dtype("float32").num
    with pytest.raises(TypeError, match="shape.*item 1.*not str"):
        acl.util.ptr_to_numpy(64, (2, "3"), kind)
    with pytest.raises(TypeError, match="shape.*list, not int"):
        acl.util.ptr_to_numpy(64, 2, kind)


def test_a_block_may_be_a_number_of_numpy(stream):
    pool, sort = Pool(), Sort()
    desc = describe(
        numpy.uint64(7), lambda o, s: numpy.uint64(pool.alloc(o, s)), pool.free, lambda b: Index(pool.address(b)))
    assert rt.allocator_register(stream, desc) == 0
    assert sort.run(stream) == 0 and rt.synchronize_stream(stream) == 0
    assert sort.is_correct() and pool.allocs == pool.frees == 1 and set(pool.objects) == {7}
    assert rt.allocator_unregister(stream) == 0
    sort.close()
    pool.close()


def test_wrong_counts():
    with pytest.raises(TypeError, match="malloc"):
        rt.malloc(1, 2, 3)
    with pytest.raises(TypeError, match="get_device"):
        rt.get_device(1)
    with pytest.raises(ValueError, match="in_buf has 1 items and in_desc has 0"):
        acl.op.execute_v2("Sort", [], [1], [], [], 0, 0)
    with pytest.raises(ValueError, match="num_out is 2"):
        acl.op.infer_shape("Relu", [], [], 2, [1], 0)
    with pytest.raises(ValueError, match="4096"):
        acl.get_tensor_desc_dim_range(1, 0, 4097)
    with pytest.raises(ValueError, match="no 8 bytes"):
        acl.util.ptr_to_bytes(0, 8)


def test_foreign_handles_are_codes(device):
    for call in (rt.synchronize_stream, rt.destroy_stream, rt.destroy_event, rt.destroy_context, rt.free):
        assert call(0xDEAD000) != 0
    assert acl.op.set_attr_int(0xDEAD000, "a", 1) != 0


@pytest.fixture
def shown(monkeypatch):
    """The errors of callbacks that were passed to sys.unraisablehook."""
    errors = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: errors.append((what.exc_value, what.exc_traceback)))
    return errors


def raising(*arguments):
    raise RuntimeError("no memory today")


BAD_BLOCKS = {
    "raises": (raising, "no memory today"),
    "none": (lambda o, s: None, None),
    "zero": (lambda o, s: 0, None),
    "float": (lambda o, s: 1.5, "must be an int, not float"),
    "text": (lambda o, s: "block", "must be an int, not str"),
    "negative": (lambda o, s: -1, "not -1"),
    "huge": (lambda o, s: 1 << 64, "not 18446744073709551616"),
    "very huge": (lambda o, s: 10 ** 5000, "not one of 16610 bits"),
    "too few parameters": (lambda o: 1, "positional argument"),
    "system exit": (lambda o, s: sys.exit(3), "3"),
}


@pytest.mark.parametrize("case", BAD_BLOCKS)
def test_a_bad_block_is_an_allocation_failure_shown_once(case, stream, shown):
    alloc, text = BAD_BLOCKS[case]
    freed = []
    desc = describe(1, alloc, lambda o, b: freed.append(b), lambda b: b)
    assert rt.allocator_register(stream, desc) == 0
    sort = Sort()
    for _ in range(3):
        assert sort.run(stream) == GE_FAILURE
    assert freed == []
    if text is None:
        assert shown == []
    else:
        assert len(shown) == 1 and re.search(re.escape(text), str(shown[0][0]))
    assert rt.allocator_unregister(stream) == 0
    assert sort.run(stream) == 0
    assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
    sort.close()


def test_each_callable_shows_one_error_whatever_its_text(stream, shown):
    requests = []

    def alloc(obj, size):
        requests.append(size)
        raise RuntimeError(f"no room for request {len(requests)}")

    for registration in (1, 2):
        assert rt.allocator_register(stream, describe(1, alloc, raising, raising)) == 0
        sort = Sort()
        for _ in range(3):
            assert sort.run(stream) == GE_FAILURE
        sort.close()
        assert len(shown) == registration
        assert rt.allocator_unregister(stream) == 0
    assert [str(error) for error, _ in shown] == ["no room for request 1", "no room for request 4"]


BAD_ADDRESSES = {
    "raises": (raising, "no memory today"),
    "none": (lambda b: None, None),
    "float": (lambda b: 1.5, "the address of a block must be an int, not float"),
    "negative": (lambda b: -1, "not -1"),
    "huge": (lambda b: 1 << 70, "not 1180591620717411303424"),
    "very huge": (lambda b: -10 ** 5000, "not one of 16610 bits"),
    "no memory": (lambda b: 4096, None),
}


@pytest.mark.parametrize("case", BAD_ADDRESSES)
def test_a_bad_address_is_an_allocation_failure_and_the_block_is_freed(case, stream, shown):
    address, text = BAD_ADDRESSES[case]
    freed = []
    desc = describe(1, lambda o, s: 77, lambda o, b: freed.append(b), address)
    assert rt.allocator_register(stream, desc) == 0
    sort = Sort()
    for times in (1, 2):
        assert sort.run(stream) == GE_FAILURE
        assert freed == [77] * times
    assert [text in str(error) for error, _ in shown] == ([] if text is None else [True])
    sort.close()


def test_a_free_that_raises_fails_the_execution_and_the_work_is_done(stream, shown):
    pool = Pool()
    desc = describe(1, pool.alloc, raising, pool.address)
    assert rt.allocator_register(stream, desc) == 0
    sort = Sort()
    for times in (1, 2):
        assert sort.run(stream) == GE_FAILURE
        assert re.search(r"free\(0x[0-9a-f]+\) of the allocator 0x1 .*RuntimeError: no memory today", acl.get_recent_err_msg())
        assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
        assert pool.allocs == pool.addresses == times and pool.frees == 0
    assert [str(error) for error, _ in shown] == ["no memory today"]
    sort.close()
    pool.close()


@pytest.mark.parametrize("callables", [(raising, print, print), (lambda o, s: 77, lambda o, b: None, raising)])
def test_the_code_comes_with_the_text_of_the_exception(callables, stream, shown):
    assert rt.allocator_register(stream, describe(1, *callables)) == 0
    sort = Sort()
    for _ in range(2):
        assert sort.run(stream) == GE_FAILURE
        assert "threw an exception: RuntimeError: no memory today" in acl.get_recent_err_msg()
    sort.close()


def test_an_exception_whose_text_raises_is_reported_by_name(stream, shown):
    class Silent(Exception):
        def __str__(self):
            raise ValueError("no text")

    def alloc(obj, size):
        raise Silent

    assert rt.allocator_register(stream, describe(1, alloc, print, print)) == 0
    sort = Sort()
    assert sort.run(stream) == GE_FAILURE
    assert acl.get_recent_err_msg().rstrip().endswith("threw an exception: Silent")
    assert [type(error) for error, _ in shown] == [Silent]
    sort.close()


def test_a_callback_may_register_itself_anew(stream):
    pool = Pool()

    def alloc(obj, size):
        desc = describe(1, alloc, pool.free, pool.address)
        assert rt.allocator_register(stream, desc) == 0
        assert rt.allocator_destroy_desc(desc) == 0
        return pool.alloc(obj, size)

    assert rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0
    sort = Sort()
    for times in (1, 2, 3):
        assert sort.run(stream) == 0
        assert pool.allocs == pool.frees == pool.addresses == times
    assert rt.allocator_get_by_stream(stream)[2] is alloc
    assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
    sort.close()


def test_a_callback_may_register_another(stream):
    pool, other = Pool(), Pool()

    def alloc(obj, size):
        support.register(stream, other)
        return pool.alloc(obj, size)

    desc = describe(1, alloc, pool.free, pool.address)
    assert rt.allocator_register(stream, desc) == 0
    sort = Sort()
    assert sort.run(stream) == 0
    assert pool.allocs == pool.frees == 1 and other.allocs == 0
    assert sort.run(stream) == 0
    assert pool.allocs == 1 and other.allocs == other.frees == 1
    assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
    sort.close()


def test_a_callback_may_unregister_and_call_acl(stream):
    pool = Pool()

    def alloc(obj, size):
        assert rt.allocator_unregister(stream) == 0
        assert rt.synchronize_stream(stream) == 0
        return pool.alloc(obj, size)

    assert rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0
    sort = Sort()
    assert sort.run(stream) == 0 and sort.run(stream) == 0
    assert pool.allocs == pool.frees == 1
    assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
    sort.close()


def test_a_callable_that_unregisters_itself_lives_until_its_block_is_freed(stream):
    import weakref

    class Alloc:
        def __call__(self, obj, size):
            assert rt.allocator_unregister(stream) == 0
            return pool.alloc(obj, size)

    pool, alloc, sort = Pool(), Alloc(), Sort()
    alloc_ref, alive = weakref.ref(alloc), []

    def free(obj, block):
        alive.append(alloc_ref() is not None)
        pool.free(obj, block)

    assert rt.allocator_register(stream, describe(1, alloc, free, pool.address)) == 0
    assert rt.allocator_destroy_desc(rt.allocator_get_by_stream(stream)[0]) == 0
    del alloc
    assert sort.run(stream) == 0
    assert alive == [True] and alloc_ref() is None
    assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
    sort.close()
    pool.close()


@pytest.fixture
def in_c():
    """The library as C sees it; descriptors are addresses there."""
    import ctypes

    library = ctypes.CDLL("libascendcl.so")
    library.aclrtAllocatorCreateDesc.restype = ctypes.c_void_p
    return library


def test_callables_in_a_descriptor_that_c_registers_are_called(stream, in_c):
    import ctypes

    pool, sort = Pool(), Sort()
    desc = describe(1, pool.alloc, pool.free, pool.address)
    assert in_c.aclrtAllocatorRegister(ctypes.c_void_p(stream), ctypes.c_void_p(desc)) == 0
    assert rt.allocator_destroy_desc(desc) == 0
    assert sort.run(stream) == 0 and pool.allocs == pool.addresses == pool.frees == 1
    assert rt.allocator_get_by_stream(stream)[2:6] == (pool.alloc, pool.free, None, pool.address)
    assert in_c.aclrtAllocatorUnregister(ctypes.c_void_p(stream)) == 0
    assert sort.run(stream) == 0 and pool.allocs == 1
    assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
    sort.close()


def test_a_descriptor_may_have_functions_of_c_and_of_python(stream, in_c):
    import ctypes

    pool, sort, freed = Pool(), Sort(), []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    free_in_c = kind(lambda obj, block: freed.append((obj, block)))
    made_in_c = in_c.aclrtAllocatorCreateDesc()
    for times, desc in enumerate((rt.allocator_create_desc(), made_in_c), 1):
        assert rt.allocator_set_obj_to_desc(desc, 1) == 0
        assert rt.allocator_set_alloc_func_to_desc(desc, pool.alloc) == 0
        assert rt.allocator_set_get_addr_from_block_func_to_desc(desc, pool.address) == 0
        assert rt.allocator_register(stream, desc) == support.INVALID_PARAM
        assert "its free function" in acl.get_recent_err_msg()
        assert in_c.aclrtAllocatorSetFreeFuncToDesc(ctypes.c_void_p(desc), free_in_c) == 0
        assert rt.allocator_register(stream, desc) == 0
        address = ctypes.cast(free_in_c, ctypes.c_void_p).value
        assert rt.allocator_get_by_stream(stream) == (desc, 1, pool.alloc, address, None, pool.address, 0)
        assert sort.run(stream) == 0 and len(freed) == pool.allocs == times
        assert rt.allocator_unregister(stream) == rt.allocator_destroy_desc(desc) == 0
    assert freed == [(1, pool.SLOTS), (1, pool.SLOTS - 1)]
    assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
    sort.close()
    pool.close()


def test_an_allocator_is_entered_by_one_thread_at_a_time(device):
    """The first thread is in the callback when the second calls, and yields to it many times."""
    import threading
    import time

    pool, threads = NoReusePool(), []
    entered, second_started = threading.Event(), threading.Event()

    def alloc(obj, size):
        thread_id = threading.get_ident()
        threads.append(thread_id)
        if len(threads) == 1:
            entered.set()
            second_started.wait()
            for _ in range(2000):
                time.sleep(0)
            assert threads == [thread_id]
        return pool.alloc(obj, size)

    streams, sorts = [rt.create_stream()[0] for _ in range(2)], [Sort(), Sort()]
    for stream in streams:
        assert rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0

    def first():
        assert sorts[0].run(streams[0]) == 0

    def second():
        entered.wait()
        second_started.set()
        assert sorts[1].run(streams[1]) == 0

    in_threads(first, second)
    assert len(set(threads)) == len(threads) == 2
    for stream, sort in zip(streams, sorts):
        assert rt.synchronize_stream(stream) == 0 and sort.is_correct()
        assert rt.destroy_stream(stream) == 0
        sort.close()
    pool.close()


def test_threads_share_an_allocator(device):
    pool = NoReusePool()

    def work():
        stream, ret = rt.create_stream()
        assert ret == 0
        assert rt.allocator_register(stream, describe(1, pool.alloc, pool.free, pool.address)) == 0
        sort = Sort()
        for _ in range(20):
            assert sort.run(stream) == 0
            assert rt.synchronize_stream(stream) == 0
        assert sort.is_correct()
        sort.close()
        assert rt.destroy_stream(stream) == 0

    in_threads(*[work] * 4)
    assert pool.allocs == pool.frees == pool.addresses == 80
    pool.close()


HEAD = """
assert acl.init() == 0 and acl.rt.set_device(0) == 0
stream = acl.rt.create_stream()[0]
pool = Pool()
sort = Sort()
register(stream, pool)
assert sort.run(stream) == 0
"""


def test_the_traceback_names_the_line():
    run = support.program(
        HEAD + "def alloc(obj, size):\n    raise ValueError('nothing left')\n"
        "assert acl.rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0\n"
        "for _ in range(5): assert sort.run(stream) == GE_FAILURE\n"
        "print('end')\n"
    )
    assert run.stdout == "end\n", run.stderr
    assert run.stderr.count("Traceback") == 1
    assert "in alloc" in run.stderr and "ValueError: nothing left" in run.stderr


def test_a_child_gets_codes():
    run = support.program(
        HEAD + "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    fine = sort.run(stream) == 507000 and acl.rt.malloc(64, 0) == (0, 507000)\n"
        "    fine = fine and acl.rt.allocator_unregister(stream) == 507000\n"
        "    os._exit(7 if fine else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "assert sort.run(stream) == 0\n"
        "print('end')\n"
    )
    assert run.stdout == "end\n", run.stderr


def test_a_child_has_no_threads_of_its_parent():
    run = support.program(
        "import os, threading\n"
        "released = threading.Event()\n"
        "thread, ret = acl.util.start_thread(lambda args: released.wait(), [])\n"
        "assert ret == 0\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    fine = acl.util.stop_thread(thread) == INVALID_PARAM\n"
        "    own, ret = acl.util.start_thread(lambda args: None, [])\n"
        "    fine = fine and ret == 0 and acl.util.stop_thread(own) == 0\n"
        "    os._exit(7 if fine else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "released.set()\n"
        "print(acl.util.stop_thread(thread))\n"
    )
    assert run.stdout == "0\n", run.stderr


def test_a_child_that_a_callback_forked_gets_a_code():
    run = support.program(
        HEAD + "import os\n"
        "child = None\n"
        "def alloc(obj, size):\n"
        "    global child\n"
        "    child = os.fork()\n"
        "    return pool.alloc(obj, size)\n"
        "assert acl.rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0\n"
        "ret = sort.run(stream)\n"
        "if child == 0:\n"
        "    os._exit(7 if ret == sort.run(stream) == 507000 else 1)\n"
        "print(ret, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "assert acl.rt.synchronize_stream(stream) == 0 and sort.is_correct()\n"
    )
    assert (run.stdout, run.stderr) == ("0 7\n", "")
