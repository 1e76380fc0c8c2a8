"""Which runs of models call an allocator in Python, and how often."""

import signal
import struct
import sys

import pytest

import acl
import support
from models import Model, Tensors, affine_of, counted, run_while_a_thread_records
from support import GE_FAILURE, NoReusePool, Pool, describe, in_threads, register

mdl, rt = acl.mdl, acl.rt
# Blocks of one run of `range`: the product and the sum. With an input in host memory: a copy of what was computed there.
BLOCKS, HOST_BLOCKS = 2, 1
# Blocks of one run of `positive`: the positive numbers, and their indices.
VALUE_BLOCKS = 2


@pytest.fixture
def pool(device):
    pool = Pool()
    yield pool
    assert rt.synchronize_device() == 0
    pool.close()


@pytest.fixture
def shown(monkeypatch):
    """What `sys.unraisablehook` was called with."""
    calls = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: calls.append(info.exc_value))
    return calls


def counts(pool):
    return pool.allocs, pool.addresses, pool.frees


def test_acl_reg_5_a_dynamic_shape_model_takes_its_memory_from_the_callables(load, tensors, stream, pool):
    model, inputs, outputs = load("range.om"), tensors(96).put(None).set_shape(0, [4, 3]), tensors(96)
    register(stream, pool)
    for run in range(1, 4):
        outputs.clear()
        assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
        assert counts(pool) == (run * BLOCKS,) * 3
        assert rt.synchronize_stream(stream) == 0
        assert outputs.floats(12) == affine_of(4)
    assert counts(pool) == (3 * BLOCKS,) * 3 and set(pool.objects) == {pool.obj}
    assert all(size >= 48 for size in pool.sizes)
    data = counted(12)
    assert acl.update_data_buffer(inputs.buffers[0], acl.util.bytes_to_ptr(data), 48) == 0
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    assert counts(pool) == (3 * BLOCKS + HOST_BLOCKS,) * 3
    assert rt.synchronize_stream(stream) == 0


def test_acl_reg_5_blocks_go_back_inside_the_call_before_the_work_has_run(load, tensors, stream, pool):
    model, inputs, outputs = load("open.onnx"), tensors(96).put(None).set_shape(0, [4, 3]), tensors(96)
    event, other = rt.create_event()[0], rt.create_stream()[0]
    register(stream, pool)
    outputs.clear()
    assert rt.stream_wait_event(stream, event) == 0
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    assert counts(pool) == (BLOCKS,) * 3
    assert outputs.floats(12) == [0] * 12
    assert rt.record_event(event, other) == 0
    assert rt.synchronize_stream(stream) == 0
    assert outputs.floats(12) == affine_of(4)
    assert rt.destroy_stream(other) == 0


def test_acl_reg_4_the_allocator_is_looked_up_at_every_run(load, tensors, stream, pool):
    model, inputs, outputs = load("range.om"), tensors(96).put(None).set_shape(0, [4, 3]), tensors(96)
    other = Pool()
    register(stream, pool)
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    register(stream, other)
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    assert counts(pool) == counts(other) == (BLOCKS,) * 3
    assert rt.allocator_unregister(stream) == 0
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    assert counts(pool) == counts(other) == (BLOCKS,) * 3
    assert rt.synchronize_stream(stream) == 0
    other.close()


def test_acl_reg_9_other_runs_and_loads_never_call_it(load, tensors, stream, pool):
    model, inputs, outputs = load("range.om"), tensors(96).put(None).set_shape(0, [4, 3]), tensors(96)
    second, config = rt.create_stream()[0], mdl.create_exec_config_handle()
    register(stream, pool)
    runs = {
        "another stream": lambda: mdl.execute_async(model.id, inputs.set, outputs.set, second),
        "the null stream": lambda: mdl.execute_async(model.id, inputs.set, outputs.set, 0),
        "execute": lambda: mdl.execute(model.id, inputs.set, outputs.set),
        "execute_v2": lambda: mdl.execute_v2(model.id, inputs.set, outputs.set, stream, config),
    }
    for what, run in runs.items():
        outputs.clear()
        assert run() == 0, what
        assert rt.synchronize_stream(second) == 0 == rt.synchronize_stream(0)
        assert outputs.floats(12) == affine_of(4), what
        assert counts(pool) == (0, 0, 0), what
    load("range.om")
    assert counts(pool) == (0, 0, 0)
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    assert counts(pool) == (BLOCKS,) * 3
    assert rt.synchronize_stream(stream) == 0
    assert mdl.destroy_exec_config_handle(config) == 0 == rt.destroy_stream(second)


def test_acl_reg_9_static_models_and_gears_never_call_it(load, tensors, stream, pool):
    static, geared = load("affine.om"), load("batch.om")
    plain, with_gear, outputs = tensors(24).put(None), tensors(48, 4).put(None), tensors(48)
    register(stream, pool)
    assert mdl.execute_async(static.id, plain.set, outputs.set, stream) == 0
    assert rt.synchronize_stream(stream) == 0 and outputs.floats(6) == affine_of(2)
    assert mdl.set_dynamic_batch_size(geared.id, with_gear.set, 1, 4) == 0
    assert mdl.execute_async(geared.id, with_gear.set, outputs.set, stream) == 0
    assert rt.synchronize_stream(stream) == 0 and outputs.floats(12) == affine_of(4)
    assert counts(pool) == (0, 0, 0)


def test_an_allocator_that_raises_fails_the_run_and_the_next_one_works(load, tensors, stream, pool, shown):
    model, inputs, outputs = load("range.om"), tensors(96).put(None).set_shape(0, [4, 3]), tensors(96)
    requests = []

    def alloc(obj, size):
        requests.append(size)
        if len(requests) == BLOCKS:
            raise MemoryError("the second block is missing")
        return pool.alloc(obj, size)

    assert rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == GE_FAILURE
    assert "MemoryError: the second block is missing" in acl.get_recent_err_msg()
    assert counts(pool) == (BLOCKS - 1,) * 3
    assert [str(error) for error in shown] == ["the second block is missing"]
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    assert rt.synchronize_stream(stream) == 0 and outputs.floats(12) == affine_of(4)
    assert counts(pool) == (2 * BLOCKS - 1,) * 3


def test_a_callback_may_ask_for_the_model_and_run_another(load, tensors, stream, pool):
    model, static = load("range.om"), load("affine.om")
    inputs, outputs = tensors(96).put(None).set_shape(0, [4, 3]), tensors(96)
    plain, results, codes = tensors(24).put(None), tensors(24), []

    def alloc(obj, size):
        codes.append(mdl.get_num_inputs(model.desc))
        codes.append(mdl.execute(static.id, plain.set, results.set))
        return pool.alloc(obj, size)

    assert rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    assert codes == [1, 0] * BLOCKS
    assert rt.synchronize_stream(stream) == 0
    assert outputs.floats(12) == affine_of(4) and results.floats(6) == affine_of(2)


def test_acl_reg_5_the_callables_are_called_in_a_call_that_waits_for_values(load, tensors, stream, pool):
    model, inputs, outputs = load("positive.onnx"), tensors(24).put(None), tensors(48)
    event, ret = rt.create_event()
    register(stream, pool)
    assert ret == 0 == rt.stream_wait_event(stream, event)
    run = lambda: mdl.execute_async(model.id, inputs.set, outputs.set, stream)
    assert run_while_a_thread_records(event, run) == 0
    assert outputs.shape() == [1, 6]
    assert rt.synchronize_stream(stream) == 0
    assert struct.unpack("6q", struct.pack("12f", *outputs.floats(12))) == (0, 1, 2, 3, 4, 5)
    assert counts(pool) == (VALUE_BLOCKS,) * 3


@pytest.mark.parametrize("where", ["alloc", "address", "free"])
def test_an_interrupt_comes_after_the_run_and_loses_no_block(where, load, tensors, stream, pool):
    model, inputs, outputs = load("range.om"), tensors(96).put(None).set_shape(0, [4, 3]), tensors(96)
    calls = []

    def interrupted(name):
        def call(*arguments):
            result = getattr(pool, name)(*arguments)
            if name == where and not calls:
                calls.append(name)
                signal.raise_signal(signal.SIGINT)
            return result
        return call

    before = signal.signal(signal.SIGINT, lambda *_: calls.append("handled"))
    try:
        assert rt.allocator_register(stream, describe(1, *map(interrupted, ("alloc", "free", "address")))) == 0
        assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [where, "handled"] and counts(pool) == (BLOCKS,) * 3
    assert rt.synchronize_stream(stream) == 0 and outputs.floats(12) == affine_of(4)


def test_acl_reg_6_threads_run_models_with_one_allocator(models, device):
    pool, runs = NoReusePool(), 32

    def work():
        stream, model = rt.create_stream()[0], Model(models / "range.om")
        inputs, outputs = Tensors(96).put(None), Tensors(96)
        register(stream, pool)
        for run in range(runs):
            rows = run % 8 + 1
            inputs.set_shape(0, [rows, 3])
            assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
            assert rt.synchronize_stream(stream) == 0 and outputs.floats(3 * rows) == affine_of(rows)
        for one in (inputs, outputs, model):
            one.close()
        assert rt.destroy_stream(stream) == 0

    in_threads(*[work] * 3)
    assert counts(pool) == (3 * runs * BLOCKS,) * 3
    pool.close()


def test_a_child_that_a_callback_forked_gets_a_code(models):
    run = support.program(
        "import os\n"
        "from models import *\n"
        "assert acl.init() == 0 and acl.rt.set_device(0) == 0\n"
        "stream, pool, child = acl.rt.create_stream()[0], Pool(), None\n"
        f"model = Model({str(models / 'range.om')!r})\n"
        "inputs, outputs = Tensors(96).put(None).set_shape(0, [4, 3]), Tensors(96)\n"
        "def alloc(obj, size):\n"
        "    global child\n"
        "    if child is None: child = os.fork()\n"
        "    return pool.alloc(obj, size)\n"
        "assert acl.rt.allocator_register(stream, describe(1, alloc, pool.free, pool.address)) == 0\n"
        "ret = mdl.execute_async(model.id, inputs.set, outputs.set, stream)\n"
        "if child == 0:\n"
        "    os._exit(7 if ret == mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 507000 else 1)\n"
        "print(ret, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "assert acl.rt.synchronize_stream(stream) == 0 and outputs.floats(12) == affine_of(4)\n"
    )
    assert (run.stdout, run.stderr) == ("0 7\n", "")
