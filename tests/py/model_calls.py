"""A call of every function of `acl.mdl`, as test_functions.py makes them, and the objects that they take."""

import acl
from models import Model, Tensors, affine_of
from support import INVALID_HANDLE, INVALID_PARAM

mdl = acl.mdl
NOT_SUPPORTED, UNKNOWN_MODEL, NO_AIPP, UNKNOWN_BUNDLE, NO_FILE = 207000, 145003, 145015, 148053, 145002
NO_DIMS = {"name": "", "dimCount": 0, "dims": []}
GEAR = "ascend_mbatch_shape_data"


class Given:
    """Models and data sets for one call."""

    def __init__(self, folder, stream):
        self.folder, self.stream = folder, stream
        self.data = (folder / "affine.om").read_bytes()
        self.memory = acl.util.bytes_to_ptr(self.data), len(self.data)
        self.models, self.sets = {}, []
        self.config, self.run_config = mdl.create_config_handle(), mdl.create_exec_config_handle()
        self.aipp = mdl.create_aipp(2)

    def path(self, name="affine.om"):
        return str(self.folder / name)

    def model(self, name="affine.om"):
        if name not in self.models:
            self.models[name] = Model(self.folder / name)
        return self.models[name]

    def id(self, name="affine.om"):
        return self.model(name).id

    def desc(self, name="affine.om"):
        return self.model(name).desc

    def tensors(self, *sizes):
        self.sets.append(Tensors(*sizes))
        return self.sets[-1]

    def runs(self, execute, name="affine.om", rows=2):
        """Whether a call runs the model on its inputs and outputs."""
        inputs, outputs = self.tensors(12 * rows).put(None), self.tensors(12 * rows)
        assert execute(self.id(name), inputs.set, outputs.set) == 0
        assert acl.rt.synchronize_stream(self.stream) == 0
        return outputs.floats(3 * rows) == affine_of(rows)

    def loads(self, loaded):
        """Whether the model that was just loaded runs."""
        model, ret = loaded
        assert ret == 0, acl.get_recent_err_msg()
        works = self.runs(lambda _, inputs, outputs: mdl.execute(model, inputs, outputs))
        return works and mdl.unload(model) == 0

    def work_and_weights(self):
        sizes = mdl.query_size(self.path())
        assert sizes[-1] == 0
        return [item for size in sizes[:2] for item in (acl.rt.malloc(size, 0)[0], size)]

    def configured(self):
        assert mdl.set_config_opt(self.config, 1, 1) == 0
        assert mdl.set_config_opt(self.config, 2, self.path()) == 0
        return self.config

    def destroys(self, destroy, handle):
        return destroy(handle) == 0 and destroy(handle) == INVALID_HANDLE and destroy(0) == INVALID_PARAM

    def close(self):
        for item in [*self.sets, *self.models.values()]:
            item.close()
        mdl.destroy_config_handle(self.config)
        mdl.destroy_exec_config_handle(self.run_config)
        mdl.destroy_aipp(self.aipp)


def describes(describe):
    """Whether a call fills a description."""
    desc = mdl.create_desc()
    assert describe(desc) == 0
    found = mdl.get_input_dims(desc, 0)
    assert mdl.destroy_desc(desc) == 0
    return found == ({"name": "x", "dimCount": 2, "dims": [2, 3]}, 0)


def queues(result):
    return result == (0, NOT_SUPPORTED) and "queue" in acl.get_recent_err_msg()


def refuses(code, word, result):
    """Whether a call failed with this code and a text that has this word."""
    *values, ret = result if isinstance(result, tuple) else (result,)
    return ret == code and not any(values) and word in acl.get_recent_err_msg()


# Each entry calls the function and checks what it can see of the result.
MODEL_CALLS = {
    "acl.mdl.load_from_file": lambda g: g.loads(mdl.load_from_file(g.path()))
    and refuses(NO_FILE, "/nowhere", mdl.load_from_file("/nowhere")),
    "acl.mdl.load_from_mem": lambda g: g.loads(mdl.load_from_mem(*g.memory)) and mdl.load_from_mem(0, 5) == (0, INVALID_PARAM),
    "acl.mdl.load_from_file_with_mem": lambda g: g.loads(mdl.load_from_file_with_mem(g.path(), *g.work_and_weights()))
    and refuses(145000, "E13025", mdl.load_from_file_with_mem(g.path(), g.work_and_weights()[0], 1, 0, 0)),
    "acl.mdl.load_from_mem_with_mem": lambda g: g.loads(mdl.load_from_mem_with_mem(*g.memory, *g.work_and_weights())),
    "acl.mdl.load_from_file_with_q": lambda g: queues(mdl.load_from_file_with_q(g.path(), g.memory[0], 1, g.memory[0], 1)),
    "acl.mdl.load_from_mem_with_q": lambda g: queues(mdl.load_from_mem_with_q(*g.memory, g.memory[0], 1, g.memory[0], 1)),
    "acl.mdl.load_with_config": lambda g: refuses(INVALID_PARAM, "load type", mdl.load_with_config(g.config))
    and g.loads(mdl.load_with_config(g.configured())),
    "acl.mdl.unload": lambda g: mdl.unload(mdl.load_from_file(g.path())[0]) == 0 and mdl.unload(999999) == UNKNOWN_MODEL,
    "acl.mdl.create_config_handle": lambda g: mdl.create_config_handle() != 0,
    "acl.mdl.destroy_config_handle": lambda g: g.destroys(mdl.destroy_config_handle, mdl.create_config_handle()),
    "acl.mdl.set_config_opt": lambda g: mdl.set_config_opt(g.config, 0, 7) == 0
    and refuses(INVALID_PARAM, "8", mdl.set_config_opt(g.config, 0, 8)) and mdl.set_config_opt(g.config, 28, 1) == 0,
    "acl.mdl.query_size": lambda g: all(mdl.query_size(g.path())[:2]) and mdl.query_size("/nowhere") == (0, 0, NO_FILE),
    "acl.mdl.query_size_from_mem": lambda g: mdl.query_size_from_mem(*g.memory) == mdl.query_size(g.path()),
    "acl.mdl.create_desc": lambda g: mdl.create_desc() != 0,
    "acl.mdl.destroy_desc": lambda g: g.destroys(mdl.destroy_desc, mdl.create_desc()),
    "acl.mdl.get_desc": lambda g: describes(lambda desc: mdl.get_desc(desc, g.id()))
    and mdl.get_desc(g.desc(), 999999) == UNKNOWN_MODEL,
    "acl.mdl.get_desc_from_file": lambda g: describes(lambda desc: mdl.get_desc_from_file(desc, g.path())),
    "acl.mdl.get_desc_from_mem": lambda g: describes(lambda desc: mdl.get_desc_from_mem(desc, *g.memory)),
    "acl.mdl.get_num_inputs": lambda g: mdl.get_num_inputs(g.desc("dims.om")) == 3 and mdl.get_num_inputs(0) == 0,
    "acl.mdl.get_num_outputs": lambda g: mdl.get_num_outputs(g.desc()) == 1,
    "acl.mdl.get_input_size_by_index": lambda g: mdl.get_input_size_by_index(g.desc(), 0) == 24
    and mdl.get_input_size_by_index(g.desc(), 1) == 0,
    "acl.mdl.get_output_size_by_index": lambda g: mdl.get_output_size_by_index(g.desc("batch.om"), 0) == 48,
    "acl.mdl.get_input_dims": lambda g: mdl.get_input_dims(g.desc("batch.om"), 0)
    == ({"name": "x", "dimCount": 2, "dims": [-1, 3]}, 0) and mdl.get_input_dims(g.desc(), 1) == (NO_DIMS, INVALID_PARAM),
    "acl.mdl.get_input_dims_v2": lambda g: mdl.get_input_dims_v2(g.desc("image.om"), 0)
    == ({"name": "image", "dimCount": 4, "dims": [1, 1, -1, -1]}, 0),
    "acl.mdl.get_input_dims_range": lambda g: mdl.get_input_dims_range(g.desc("range.om"), 0)
    == ({"rangeCount": 2, "range": [[1, 8], [3, 3]]}, 0)
    and mdl.get_input_dims_range(g.desc(), 9) == ({"rangeCount": 0, "range": []}, INVALID_PARAM),
    "acl.mdl.get_output_dims": lambda g: mdl.get_output_dims(g.desc("batch.om"), 0)
    == ({"name": "relu:0:y", "dimCount": 2, "dims": [4, 3]}, 0),
    "acl.mdl.get_cur_output_dims": lambda g: mdl.get_cur_output_dims(g.desc(), 0)[0]["dims"] == [2, 3]
    and mdl.get_cur_output_dims(g.desc("range.om"), 0) == (NO_DIMS, 200001),
    "acl.mdl.get_input_name_by_index": lambda g: mdl.get_input_name_by_index(g.desc("batch.om"), 1) == GEAR
    and mdl.get_input_name_by_index(g.desc(), 1) == "",
    "acl.mdl.get_output_name_by_index": lambda g: mdl.get_output_name_by_index(g.desc(), 0) == "relu:0:y",
    "acl.mdl.get_input_format": lambda g: mdl.get_input_format(g.desc(), 0) == 2 and mdl.get_input_format(g.desc(), 1) == -1,
    "acl.mdl.get_output_format": lambda g: mdl.get_output_format(g.desc(), 0) == 2,
    "acl.mdl.get_input_data_type": lambda g: mdl.get_input_data_type(g.desc(), 0) == 0
    and mdl.get_input_data_type(g.desc(), 1) == -1,
    "acl.mdl.get_output_data_type": lambda g: mdl.get_output_data_type(g.desc("nonzero.onnx"), 0) == 9,
    "acl.mdl.get_input_index_by_name": lambda g: mdl.get_input_index_by_name(g.desc("dims.om"), GEAR) == (2, 0)
    and mdl.get_input_index_by_name(g.desc(), "z") == (0, INVALID_PARAM),
    "acl.mdl.get_output_index_by_name": lambda g: mdl.get_output_index_by_name(g.desc(), "relu:0:y") == (0, 0),
    "acl.mdl.get_tensor_real_name": lambda g: mdl.get_tensor_real_name(
        g.desc("long_name.onnx"), mdl.get_input_dims(g.desc("long_name.onnx"), 0)[0]["name"]) == "f" * 128
    and mdl.get_tensor_real_name(g.desc(), "x") == "x" and mdl.get_tensor_real_name(g.desc(), "z") is None,
    "acl.mdl.get_op_attr": lambda g: mdl.get_op_attr(g.desc(), "relu", "_datadump_original_op_names") is not None
    and mdl.get_op_attr(g.desc(), "relu", "other") is None,
    "acl.mdl.get_dynamic_batch": lambda g: mdl.get_dynamic_batch(g.desc("batch.om")) == ({"batchCount": 3, "batch": [1, 2, 4]}, 0),
    "acl.mdl.get_dynamic_hw": lambda g: mdl.get_dynamic_hw(g.desc("image.om"), -1)
    == ({"hwCount": 2, "hw": [[2, 2], [3, 5]]}, 0) == mdl.get_dynamic_hw(g.desc("image.om"), 0),
    "acl.mdl.get_input_dynamic_gear_count": lambda g: mdl.get_input_dynamic_gear_count(g.desc("dims.om"), -1) == (2, 0)
    and mdl.get_input_dynamic_gear_count(g.desc("dims.om"), 0) == (0, INVALID_PARAM),
    "acl.mdl.get_input_dynamic_dims": lambda g: mdl.get_input_dynamic_dims(g.desc("dims.om"), -1, 2) == (
        [{"name": "", "dimCount": 4, "dims": [1, 2, 2, 2]}, {"name": "", "dimCount": 4, "dims": [3, 2, 2, 4]}], 0),
    "acl.mdl.set_dynamic_batch_size": lambda g: mdl.set_dynamic_batch_size(
        g.id("batch.om"), g.tensors(48, 4).set, 1, 3) == 145013 and "3" in acl.get_recent_err_msg(),
    "acl.mdl.set_dynamic_hw_size": lambda g: mdl.set_dynamic_hw_size(g.id("image.om"), g.tensors(60, 8).set, 1, 3, 5) == 0,
    "acl.mdl.set_input_dynamic_dims": lambda g: mdl.set_input_dynamic_dims(
        g.id("dims.om"), g.tensors(24, 32, 8).set, 2, {"dimCount": 4, "dims": [3, 2, 2, 4]}) == 0,
    "acl.mdl.create_dataset": lambda g: mdl.create_dataset() != 0,
    "acl.mdl.destroy_dataset": lambda g: g.destroys(mdl.destroy_dataset, mdl.create_dataset()),
    "acl.mdl.add_dataset_buffer": lambda g: (lambda dataset: mdl.add_dataset_buffer(dataset, acl.create_data_buffer(0, 0))
                                             == (dataset, 0) and mdl.add_dataset_buffer(dataset, 0) == (dataset, INVALID_PARAM))(
        mdl.create_dataset()),
    "acl.mdl.get_dataset_num_buffers": lambda g: mdl.get_dataset_num_buffers(g.tensors(8, 8).set) == 2,
    "acl.mdl.get_dataset_buffer": lambda g: mdl.get_dataset_buffer(g.tensors(8, 8).set, 1) == g.sets[0].buffers[1]
    and mdl.get_dataset_buffer(g.sets[0].set, 2) == 0,
    "acl.mdl.set_dataset_tensor_desc": lambda g: g.tensors(8).set_shape(0, [2])
    and mdl.set_dataset_tensor_desc(g.sets[0].set, 0, 1) == (g.sets[0].set, INVALID_PARAM),
    "acl.mdl.get_dataset_tensor_desc": lambda g: g.tensors(8).set_shape(0, [2]).shape() == [2]
    and mdl.get_dataset_tensor_desc(g.sets[0].set, 1) == 0,
    "acl.mdl.execute": lambda g: g.runs(mdl.execute),
    "acl.mdl.execute_async": lambda g: g.runs(lambda *arguments: mdl.execute_async(*arguments, g.stream)),
    "acl.mdl.execute_v2": lambda g: g.runs(lambda *arguments: mdl.execute_v2(*arguments, g.stream, g.run_config)),
    "acl.mdl.create_exec_config_handle": lambda g: mdl.create_exec_config_handle() != 0,
    "acl.mdl.destroy_exec_config_handle": lambda g: g.destroys(mdl.destroy_exec_config_handle, mdl.create_exec_config_handle()),
    "acl.mdl.set_exec_config_opt": lambda g: mdl.set_exec_config_opt(g.run_config, 0, 1000) == 0
    == mdl.set_exec_config_opt(g.run_config, 1, -1) == mdl.set_exec_config_opt(g.run_config, 1, 0xFFFFFFFF)
    and refuses(INVALID_PARAM, "-2", mdl.set_exec_config_opt(g.run_config, 0, -2)),
    "acl.mdl.create_and_get_op_desc": lambda g: refuses(500002, "task 3", mdl.create_and_get_op_desc(0, 2, 3, 64))
    and mdl.create_and_get_op_desc(0, 2, 3, 4097) == ("", 0, 0, 0, 0, INVALID_PARAM)
    and refuses(INVALID_PARAM, "opNameLen = 0", mdl.create_and_get_op_desc(0, 2, 3, 0)),
    "acl.mdl.init_dump": lambda g: refuses(NOT_SUPPORTED, "aclmdlInitDump", mdl.init_dump()),
    "acl.mdl.set_dump": lambda g: refuses(NOT_SUPPORTED, "aclmdlSetDump", mdl.set_dump("dump.json"))
    and mdl.set_dump() == NOT_SUPPORTED,
    "acl.mdl.finalize_dump": lambda g: refuses(NOT_SUPPORTED, "aclmdlFinalizeDump", mdl.finalize_dump()),
    "acl.mdl.dump_reg_callback": lambda g: refuses(NOT_SUPPORTED, "acldumpRegCallback", mdl.dump_reg_callback(print, 0)),
    "acl.mdl.dump_unreg_callback": lambda g: mdl.dump_unreg_callback() is None
    and "acldumpUnregCallback" in acl.get_recent_err_msg(),
    "acl.mdl.bundle_load_from_file": lambda g: refuses(INVALID_PARAM, "one model", mdl.bundle_load_from_file(g.path())),
    "acl.mdl.bundle_load_from_mem": lambda g: refuses(INVALID_PARAM, "one model", mdl.bundle_load_from_mem(*g.memory)),
    "acl.mdl.bundle_unload": lambda g: refuses(UNKNOWN_BUNDLE, "bundleId = 5", mdl.bundle_unload(5)),
    "acl.mdl.bundle_get_model_num": lambda g: refuses(UNKNOWN_BUNDLE, "bundleId = 5", mdl.bundle_get_model_num(5)),
    "acl.mdl.bundle_get_model_id": lambda g: refuses(UNKNOWN_BUNDLE, "bundleId = 5", mdl.bundle_get_model_id(5, 0)),
    "acl.mdl.create_aipp": lambda g: mdl.create_aipp(1) != 0 and mdl.create_aipp(0) == 0,
    "acl.mdl.destroy_aipp": lambda g: g.destroys(mdl.destroy_aipp, mdl.create_aipp(1)),
    "acl.mdl.get_aipp_data_size": lambda g: mdl.get_aipp_data_size(2) == (64 + 2 * 96, 0)
    and mdl.get_aipp_data_size(0) == (0, INVALID_PARAM),
    "acl.mdl.get_aipp_type": lambda g: mdl.get_aipp_type(g.id(), 0) == (0, 0xFFFFFFFF, 0),
    "acl.mdl.get_first_aipp_info": lambda g: refuses(NO_AIPP, "input 0", mdl.get_first_aipp_info(g.id(), 0)),
    "acl.mdl.set_input_aipp": lambda g: refuses(NO_AIPP, "input 0", mdl.set_input_aipp(g.id(), g.tensors(24).set, 0, g.aipp)),
    "acl.mdl.set_aipp_by_input_index": lambda g: refuses(
        NO_AIPP, "input 0", mdl.set_aipp_by_input_index(g.id(), g.tensors(24).set, 0, g.aipp)),
    "acl.mdl.set_aipp_input_format": lambda g: mdl.set_aipp_input_format(g.aipp, 1) == 0
    and refuses(INVALID_PARAM, "inputFormat = 0", mdl.set_aipp_input_format(g.aipp, 0)),
    "acl.mdl.set_aipp_csc_params": lambda g: mdl.set_aipp_csc_params(
        g.aipp, 1, 298, 516, 0, 298, -100, -208, 298, 0, 409, 0, 0, 0, 16, 128, 128) == 0,
    "acl.mdl.set_aipp_rbuv_swap_switch": lambda g: mdl.set_aipp_rbuv_swap_switch(g.aipp, 1) == 0
    and refuses(INVALID_PARAM, "rbuvSwapSwitch = -1", mdl.set_aipp_rbuv_swap_switch(g.aipp, -1)),
    "acl.mdl.set_aipp_ax_swap_switch": lambda g: mdl.set_aipp_ax_swap_switch(g.aipp, 0) == 0
    and refuses(INVALID_PARAM, "axSwapSwitch = 3", mdl.set_aipp_ax_swap_switch(g.aipp, 3)),
    "acl.mdl.set_aipp_src_image_size": lambda g: mdl.set_aipp_src_image_size(g.aipp, 416, 414) == 0
    and refuses(INVALID_PARAM, "srcImageSizeW = 4098", mdl.set_aipp_src_image_size(g.aipp, 4098, 416)),
    "acl.mdl.set_aipp_scf_params": lambda g: mdl.set_aipp_scf_params(g.aipp, 1, 224, 225, 16, 17, 1) == 0
    and refuses(INVALID_PARAM, "scfOutputSizeW = 15", mdl.set_aipp_scf_params(g.aipp, 1, 224, 224, 15, 224, 0)),
    "acl.mdl.set_aipp_crop_params": lambda g: mdl.set_aipp_crop_params(g.aipp, 1, 0, 0, 1, 1, 0) == 0
    and refuses(INVALID_PARAM, "cropStartPosW = -1", mdl.set_aipp_crop_params(g.aipp, 1, -1, 0, 1, 1, 0)),
    "acl.mdl.set_aipp_padding_params": lambda g: mdl.set_aipp_padding_params(g.aipp, 1, 0, 1, 2, 3, 0) == 0
    and refuses(INVALID_PARAM, "paddingSizeBottom = -1", mdl.set_aipp_padding_params(g.aipp, 1, 0, -1, 2, 3, 0)),
    "acl.mdl.set_aipp_dtc_pixel_mean": lambda g: mdl.set_aipp_dtc_pixel_mean(g.aipp, 1, 2, 3, 4, 1) == 0
    and refuses(INVALID_PARAM, "batchIndex = 2", mdl.set_aipp_dtc_pixel_mean(g.aipp, 1, 2, 3, 4, 2)),
    "acl.mdl.set_aipp_dtc_pixel_min": lambda g: mdl.set_aipp_dtc_pixel_min(g.aipp, 1, 2.5, 3, 4, 1) == 0
    and refuses(INVALID_PARAM, "batchIndex = 9", mdl.set_aipp_dtc_pixel_min(g.aipp, 1, 2, 3, 4, 9)),
    "acl.mdl.set_aipp_pixel_var_reci": lambda g: mdl.set_aipp_pixel_var_reci(g.aipp, 1, 0.5, 3, 4, 1) == 0
    and refuses(INVALID_PARAM, "batchIndex = 1024", mdl.set_aipp_pixel_var_reci(g.aipp, 1, 2, 3, 4, 1024)),
}
