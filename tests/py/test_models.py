"""Models from Python: runs, gears, ranges, options of loads, wrong arguments."""

import struct

import pytest

import acl
from models import Model, Tensors, affine_of, floats_at, run_while_a_thread_records
from support import INVALID_HANDLE, INVALID_PARAM

mdl, rt = acl.mdl, acl.rt
NOT_A_GEAR, WRONG_DIMS, UNKNOWN_MODEL = 145013, 145012, 145003


def test_a_static_model_runs(load, tensors):
    model, inputs, outputs = load("affine.om"), tensors(24).put(None), tensors(24)
    for _ in range(3):
        outputs.clear()
        assert mdl.execute(model.id, inputs.set, outputs.set) == 0
        assert outputs.floats(6) == affine_of(2)
    assert mdl.execute(model.id, inputs.set, tensors(24, 24).set) == 145000
    assert "E13025" in acl.get_recent_err_msg()
    assert mdl.execute(model.id, 0, outputs.set) == INVALID_PARAM
    assert mdl.execute(model.id, inputs.set + 1, outputs.set) == INVALID_HANDLE
    assert mdl.execute(999999, inputs.set, outputs.set) == UNKNOWN_MODEL


def test_a_data_set_may_go_once_an_asynchronous_run_is_submitted(load, stream):
    model, inputs, outputs = load("affine.om"), Tensors(24).put(None), Tensors(24)
    event, other = rt.create_event()[0], rt.create_stream()[0]
    outputs.clear()
    assert rt.stream_wait_event(stream, event) == 0
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    for one in (inputs, outputs):
        assert mdl.destroy_dataset(one.set) == 0
        assert acl.destroy_data_buffer(one.buffers[0]) == 0
    assert floats_at(outputs.memory[0], 6) == [0] * 6
    assert rt.record_event(event, other) == 0
    assert rt.synchronize_stream(stream) == 0
    assert floats_at(outputs.memory[0], 6) == affine_of(2)
    for address in (*inputs.memory, *outputs.memory):
        assert rt.free(address) == 0
    assert rt.destroy_stream(other) == 0


def test_batch_gears(load, tensors):
    model, inputs, outputs = load("batch.om"), tensors(48, 4).put(None), tensors(48)
    index, ret = mdl.get_input_index_by_name(model.desc, "ascend_mbatch_shape_data")
    assert (index, ret) == (1, 0)
    for rows in (1, 2, 4):
        outputs.clear()
        assert mdl.set_dynamic_batch_size(model.id, inputs.set, index, rows) == 0
        assert mdl.get_cur_output_dims(model.desc, 0)[0]["dims"] == [rows, 3]
        assert mdl.execute(model.id, inputs.set, outputs.set) == 0
        assert outputs.floats(12) == affine_of(rows) + [0] * (12 - 3 * rows)
    assert mdl.set_dynamic_batch_size(model.id, inputs.set, index, 3) == NOT_A_GEAR
    assert mdl.set_dynamic_batch_size(model.id, inputs.set, index, 0) == INVALID_PARAM
    assert mdl.set_dynamic_batch_size(model.id, inputs.set, 5, 1) == INVALID_PARAM


def test_image_gears(load, tensors):
    model, inputs, outputs = load("image.om"), tensors(60, 8), tensors(60)
    inputs.put(struct.pack("15f", *(i * (-1) ** i for i in range(15))))
    rectified = [float(max(i * (-1) ** i, 0)) for i in range(15)]
    for height, width in mdl.get_dynamic_hw(model.desc, -1)[0]["hw"]:
        outputs.clear()
        assert mdl.set_dynamic_hw_size(model.id, inputs.set, 1, height, width) == 0
        assert mdl.get_cur_output_dims(model.desc, 0)[0]["dims"] == [1, 1, height, width]
        assert mdl.execute(model.id, inputs.set, outputs.set) == 0
        assert outputs.floats(height * width) == rectified[:height * width]
    assert mdl.set_dynamic_hw_size(model.id, inputs.set, 1, 5, 3) == NOT_A_GEAR


def test_dims_gears(load, tensors):
    model, inputs, outputs = load("dims.om"), tensors(24, 32, 8).put(None, None), tensors(48)
    gears, ret = mdl.get_input_dynamic_dims(model.desc, -1, 2)
    assert ret == 0 and len(gears) == 2
    for gear, (rows, columns) in zip(gears, [(1, 2), (3, 4)]):
        assert mdl.set_input_dynamic_dims(model.id, inputs.set, 2, gear) == 0
        assert mdl.execute(model.id, inputs.set, outputs.set) == 0
        left = [(2 * row + 1, 2 * row + 2) for row in range(rows)]
        product = [a * (column + 1) + b * (columns + column + 1) for a, b in left for column in range(columns)]
        assert outputs.floats(rows * columns) == product
    wrong = {WRONG_DIMS: [3, 3, 2, 4], NOT_A_GEAR: [3, 2, 2, 2]}
    for code, dims in wrong.items():
        assert mdl.set_input_dynamic_dims(model.id, inputs.set, 2, {"dimCount": 4, "dims": dims}) == code
    assert mdl.set_input_dynamic_dims(model.id, inputs.set, 2, {"dimCount": 0, "dims": []}) == INVALID_PARAM
    assert mdl.get_input_dynamic_dims(model.desc, -1, 1) == (None, INVALID_PARAM)
    assert mdl.get_input_dynamic_dims(model.desc, -1, 4097) == (None, INVALID_PARAM)
    assert len(mdl.get_input_dynamic_dims(model.desc, -1, 4096)[0]) == 2


@pytest.mark.parametrize("name", ["range.om", "open.onnx"])
def test_a_model_with_a_range_runs_with_every_size(name, load, tensors, stream):
    model, inputs, outputs = load(name), tensors(96).put(None), tensors(96)
    config = mdl.create_exec_config_handle()
    for rows in range(1, 9):
        inputs.set_shape(0, [rows, 3])
        for run in (lambda *sets: mdl.execute(model.id, *sets),
                    lambda *sets: mdl.execute_async(model.id, *sets, stream),
                    lambda *sets: mdl.execute_v2(model.id, *sets, stream, config)):
            outputs.clear()
            assert run(inputs.set, outputs.set) == 0
            assert outputs.shape() == [rows, 3]
            assert rt.synchronize_stream(stream) == 0
            assert outputs.floats(24) == affine_of(rows) + [0] * (24 - 3 * rows)
    inputs.set_shape(0, [2, 4])
    assert mdl.execute(model.id, inputs.set, outputs.set) == INVALID_PARAM
    assert "[2, 4]" in acl.get_recent_err_msg()
    assert mdl.destroy_exec_config_handle(config) == 0


def test_an_output_without_memory_is_allocated_by_execute_alone(load, tensors, stream):
    model, inputs, outputs = load("range.om"), tensors(96).put(None).set_shape(0, [5, 3]), tensors(0)
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == INVALID_PARAM
    assert "output 0" in acl.get_recent_err_msg()
    assert mdl.execute(model.id, inputs.set, outputs.set) == 0
    buffer = mdl.get_dataset_buffer(outputs.set, 0)
    assert acl.get_data_buffer_size_v2(buffer) == 60
    assert outputs.floats(15) == affine_of(5) and outputs.shape() == [5, 3]
    assert rt.free(acl.get_data_buffer_addr(buffer)) == 0
    assert acl.update_data_buffer(buffer, 0, 0) == 0


def test_a_shape_that_depends_on_values(load, tensors):
    model, inputs, outputs = load("nonzero.onnx"), tensors(24), tensors(0)
    inputs.put(struct.pack("6f", 0, 5, 0, 7, 8, 0))
    assert mdl.execute(model.id, inputs.set, outputs.set) == 0
    address = acl.get_data_buffer_addr(outputs.buffers[0])
    assert outputs.shape() == [1, 3] and acl.get_data_buffer_size_v2(outputs.buffers[0]) == 24
    assert struct.unpack("3q", struct.pack("6f", *floats_at(address, 6))) == (1, 3, 4)
    assert rt.free(address) == 0


def test_the_interpreter_lock_is_released_while_execute_waits(load, tensors, stream):
    """A run of the same model is queued behind the event, and runs of one model are in order."""
    model, inputs, outputs = load("affine.om"), tensors(24).put(None), tensors(24)
    event, ret = rt.create_event()
    assert ret == 0 == rt.stream_wait_event(stream, event)
    assert mdl.execute_async(model.id, inputs.set, outputs.set, stream) == 0
    assert run_while_a_thread_records(event, lambda: mdl.execute(model.id, inputs.set, outputs.set)) == 0
    assert rt.synchronize_stream(stream) == 0 and outputs.floats(6) == affine_of(2)


@pytest.mark.parametrize("options", [
    lambda path, data: {1: 1, 2: path},
    lambda path, data: {1: 3, 3: acl.util.bytes_to_ptr(data), 4: len(data), 14: path, 0: 3, 13: 1, 28: 1},
])
def test_options_of_a_load(options, models, tensors):
    path = str(models / "affine.om")
    data = (models / "affine.om").read_bytes()
    config, inputs, outputs = mdl.create_config_handle(), tensors(24).put(None), tensors(24)
    for attr, value in options(path, data).items():
        assert mdl.set_config_opt(config, attr, value) == 0
    model, ret = mdl.load_with_config(config)
    assert ret == 0 == mdl.execute(model, inputs.set, outputs.set) and outputs.floats(6) == affine_of(2)
    assert mdl.unload(model) == 0 == mdl.destroy_config_handle(config)


def test_options_into_memory_of_the_caller(models, tensors):
    config, (work, weights, ret) = mdl.create_config_handle(), mdl.query_size(str(models / "affine.om"))
    assert ret == 0
    memory = {7: rt.malloc(work, 0)[0], 5: rt.malloc(weights, 0)[0]}
    for attr, value in {1: 2, 2: str(models / "affine.om"), 8: work, 6: weights, **memory}.items():
        assert mdl.set_config_opt(config, attr, value) == 0
    model, ret = mdl.load_with_config(config)
    inputs, outputs = tensors(24).put(None), tensors(24)
    assert ret == 0 == mdl.execute(model, inputs.set, outputs.set) and outputs.floats(6) == affine_of(2)
    assert mdl.unload(model) == 0 == mdl.destroy_config_handle(config)
    assert [rt.free(address) for address in memory.values()] == [0, 0]


def test_codes_of_options(device):
    config, run_config = mdl.create_config_handle(), mdl.create_exec_config_handle()
    wrong = {0: 8, 1: 7, 3: 0, 13: 2, 28: 2, 99: 1}
    assert [mdl.set_config_opt(config, *option) for option in wrong.items()] == [INVALID_PARAM] * len(wrong)
    assert mdl.set_config_opt(config, 15, 1) == 207000
    assert mdl.set_config_opt(0, 0, 1) == INVALID_PARAM and mdl.set_config_opt(1, 0, 1) == INVALID_HANDLE
    assert mdl.set_exec_config_opt(run_config, 2, 1) == INVALID_PARAM
    assert mdl.destroy_config_handle(config) == 0 == mdl.destroy_exec_config_handle(run_config)


def test_a_description_stays_readable_after_unload(models):
    model = Model(models / "affine.om")
    assert mdl.unload(model.id) == 0 and mdl.unload(model.id) == UNKNOWN_MODEL
    assert mdl.get_input_dims(model.desc, 0) == ({"name": "x", "dimCount": 2, "dims": [2, 3]}, 0)
    assert mdl.destroy_desc(model.desc) == 0


GOOD = {"dimCount": 1, "dims": [1]}


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: mdl.load_from_file(3), "path.*must be a str, not int"),
        (lambda: mdl.load_from_file("a\0b"), "path.*NUL"),
        (lambda: mdl.load_from_mem("data", 4), "ptr.*int, not str"),
        (lambda: mdl.load_from_mem(1, -4), "size.*not -4"),
        (lambda: mdl.unload(-1), "model_id.*from 0 to 4294967295, not -1"),
        (lambda: mdl.unload(1 << 32), "model_id.*not 4294967296"),
        (lambda: mdl.execute(1, 2), "output"),
        (lambda: mdl.execute_async(1, 2, 3, None), "stream.*int, not NoneType"),
        (lambda: mdl.get_input_dims(1, -1), "index.*not -1"),
        (lambda: mdl.get_input_dynamic_gear_count(1, -2), "index.*not -2"),
        (lambda: mdl.get_input_dynamic_dims(1, "a", 1), "index.*int, not str"),
        (lambda: mdl.get_input_index_by_name(1, b"x"), "name.*str, not bytes"),
        (lambda: mdl.set_dynamic_batch_size(1, 1, 1, 1.5), "batch.*int, not float"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, [1, 2]), "dims.*must be a dict"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {"dims": [1]}), "dimCount"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {"dimCount": 1}), "^argument 'dims': the dict needs 'dims'$"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {"dimCount": 2, "dims": [1]}), "'dimCount' is 2 and 'dims' has 1"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {"dimCount": "1", "dims": [1]}), "'dimCount'.*int, not str"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {"dimCount": 1, "dims": 1}), "'dims' must be a list, not int"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {"dimCount": 1, "dims": [None]}), "'dims', item 0.*not NoneType"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {"dimCount": 129, "dims": [1] * 129}), "129 items: at most 128"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {**GOOD, "name": 5}), "'name'.*str, not int"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {**GOOD, "name": "n" * 128}), "'name' has 128 bytes: at most 127"),
        (lambda: mdl.set_input_dynamic_dims(1, 1, 1, {**GOOD, "rank": 1}), "the key 'rank'"),
        (lambda: mdl.set_config_opt(1, 2, 5), "value.*str, not int"),
        (lambda: mdl.set_config_opt(1, 4, "5"), "value.*int, not str"),
        (lambda: mdl.set_config_opt(1, 0, 1 << 31), "value.*not 2147483648"),
        (lambda: mdl.set_config_opt(1, 14, 1.0), "value.*int, not float"),
        (lambda: mdl.set_exec_config_opt(1, 0, 1 << 32), "value.*to 4294967295, not 4294967296"),
        (lambda: mdl.set_exec_config_opt(1, 0, "1"), "value.*int, not str"),
        (lambda: mdl.create_and_get_op_desc(0, 0, 0, -1), "op_name_len.*not -1"),
        (lambda: mdl.dump_reg_callback(5, 0), "func.*callable"),
        (lambda: mdl.set_aipp_rbuv_swap_switch(1, 128), "switch.*from -128 to 127, not 128"),
        (lambda: mdl.set_aipp_dtc_pixel_mean(1, 0, 0, 0, 40000, 0), "mean3.*from -32768 to 32767, not 40000"),
        (lambda: mdl.set_aipp_csc_params(1, 1, *[0] * 9, 256, *[0] * 5), "output_bias_r0.*from 0 to 255, not 256"),
        (lambda: mdl.set_aipp_pixel_var_reci(1, 0, 0, 0, "1", 0), "factor3.*float, not str"),
    ],
)
def test_wrong_types_name_the_parameter(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_foreign_and_null_handles_are_codes(device, models):
    path, buffer = str(models / "affine.om"), acl.create_data_buffer(0, 0)
    for handle, code in ((0, INVALID_PARAM), (buffer, INVALID_HANDLE), (1, INVALID_HANDLE)):
        assert mdl.destroy_dataset(handle) == mdl.destroy_desc(handle) == mdl.destroy_aipp(handle) == code
        assert mdl.get_desc_from_file(handle, path) == code
        assert mdl.add_dataset_buffer(handle, buffer) == (handle, code)
        assert mdl.get_dataset_num_buffers(handle) == mdl.get_dataset_buffer(handle, 0) == 0
        assert mdl.get_num_inputs(handle) == mdl.get_num_outputs(handle) == 0
        assert mdl.load_with_config(handle) == (0, code)
    assert acl.destroy_data_buffer(buffer) == 0


def test_files_that_are_no_models(tmp_path, models):
    data = (models / "affine.om").read_bytes()
    for name, content in {"empty.om": b"", "short.om": data[:200], "cut.om": data[:-7], "text.om": b"no model " * 99}.items():
        path = tmp_path / name
        path.write_bytes(content)
        model, ret = mdl.load_from_file(str(path))
        assert model == 0 and ret in (145000, 145002, 145006), (name, ret)
        assert acl.get_recent_err_msg()
