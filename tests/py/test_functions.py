"""Every function of the table is called, and its result has the form that the table states."""

import ctypes
import importlib
import sys
import threading

import numpy
import pytest

import acl
import model_calls
import support
from model_calls import MODEL_CALLS
from support import DEVICE_TO_HOST, FLOAT, HOST_TO_DEVICE, INVALID_PARAM, ND

rt, op, util = acl.rt, acl.op, acl.util


class Fixture:
    """Objects that functions take, created for one test."""

    def __init__(self, stream):
        self.stream = stream
        self.ptr, self.other = rt.malloc(4096, 0)[0], rt.malloc(4096, 0)[0]
        self.host = rt.malloc_host(4096)[0]
        self.desc = acl.create_tensor_desc(FLOAT, [2, 3], ND)
        self.half = acl.create_tensor_desc(1, [2, 3], ND)
        self.buffer = acl.create_data_buffer(self.ptr, 24)
        self.second = acl.create_data_buffer(self.other, 24)
        self.attr = op.create_attr()
        self.event = rt.create_event()[0]
        self.host_memory = ctypes.create_string_buffer(8192)
        self.page = (ctypes.addressof(self.host_memory) + 4095) & ~4095
        self.arguments = []
        self.allocator = rt.allocator_create_desc()
        assert rt.record_event(self.event, stream) == 0
        assert rt.synchronize_stream(stream) == 0

    @property
    def array(self):
        self._array = getattr(self, "_array", numpy.arange(6, dtype=numpy.float32).reshape(2, 3))
        return self._array

    def bytes(self, count):
        """The first bytes of the device memory."""
        assert rt.memcpy(self.host, 4096, self.ptr, count, DEVICE_TO_HOST) == 0
        return util.ptr_to_bytes(self.host, count)

    def fresh_stream(self):
        return rt.create_stream()[0]

    def relu(self):
        return "Relu", [self.desc], [self.buffer], [self.desc], [self.second]

    def handle(self):
        handle, ret = op.create_handle("Relu", [self.desc], [self.desc], self.attr)
        assert ret == 0
        return handle

    def complete(self):
        return support.describe(7, lambda o, s: None, lambda o, b: None, lambda b: None)


@pytest.fixture
def given(stream):
    fixture = Fixture(stream)
    yield fixture
    assert rt.synchronize_stream(stream) == 0
    for ptr in (fixture.ptr, fixture.other):
        assert rt.free(ptr) == 0
    assert rt.free_host(fixture.host) == 0


def check(ret):
    assert ret == 0


def value(result):
    """The first of the results of a call that succeeded."""
    assert isinstance(result, tuple) and result[-1] == 0, result
    return result[0]


def peers():
    """Whether there is a second device."""
    return value(rt.get_device_count()) > 1


def not_supported(function, result):
    """Whether the C function returned "not supported" with a text that has its name, and wrote nothing."""
    *values, ret = result if isinstance(result, tuple) else (result,)
    return ret == NOT_SUPPORTED and not any(values) and f" {function}: " in acl.get_recent_err_msg()


ATTRIBUTE = {"numAttrs": 1, "attrs": [{"attr": 1, "value": {"moduleId": 3}}]}
PHYSICAL = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}, "reserve": 0}
NOT_SUPPORTED = 207000
RT_PARAM_INVALID, RT_INVALID_HANDLE, DRIVER = 107000, 107017, 507899


def mapped():
    """Maps and unmaps physical memory; the code of the last call."""
    start, handle = value(rt.reserve_mem_address(2 << 20, 0, 0, 0)), value(rt.malloc_physical(2 << 20, PHYSICAL, 0))
    check(rt.map_mem(start, 2 << 20, 0, handle, 0))
    check(rt.unmap_mem(start))
    check(rt.free_physical(handle))
    return rt.release_mem_address(start)


def default_context():
    return value(rt.get_context())


# Each entry calls the function and checks what it can see of the result.
CALLS = {
    "acl.get_version": lambda g: value(acl.get_version()) >= 1,
    "acl.get_soc_name": lambda g: acl.get_soc_name().startswith("Ascend"),
    "acl.get_cann_version": lambda g: set(value(acl.get_cann_version(0))) == {
        "version", "major_version", "minor_version", "release_version", "patch_version", "reserved"},
    "acl.get_version_str": lambda g: value(acl.get_version_str("runtime"))[0].isdigit()
    and acl.get_version_str("nothing") == ("", INVALID_PARAM),
    "acl.get_cann_attribute_list": lambda g: acl.get_cann_attribute_list() == ([0, 1, 2], 3, 0),
    "acl.get_cann_attribute": lambda g: value(acl.get_cann_attribute(1)) in (0, 1),
    "acl.get_device_capability": lambda g: value(acl.get_device_capability(0, 0)) > 0
    and acl.get_device_capability(0, 99) == (0, INVALID_PARAM),
    "acl.get_recent_err_msg": lambda g: rt.free(1) != 0 and "0x1" in acl.get_recent_err_msg()
    and acl.get_recent_err_msg() is None,
    "acl.app_log": lambda g: acl.app_log(1, "100 % of a line") is None,
    "acl.float16_to_float": lambda g: acl.float16_to_float(0x3C00) == 1.0,
    "acl.float_to_float16": lambda g: acl.float_to_float16(1.0) == 0x3C00,
    "acl.data_type_size": lambda g: acl.data_type_size(FLOAT) == 4,
    "acl.create_data_buffer": lambda g: acl.create_data_buffer(g.ptr, 8) != 0,
    "acl.destroy_data_buffer": lambda g: acl.destroy_data_buffer(g.buffer) == 0 and acl.destroy_data_buffer(g.buffer) != 0,
    "acl.get_data_buffer_addr": lambda g: acl.get_data_buffer_addr(g.buffer) == g.ptr,
    "acl.get_data_buffer_size": lambda g: acl.get_data_buffer_size(g.buffer) == 24,
    "acl.get_data_buffer_size_v2": lambda g: acl.get_data_buffer_size_v2(g.buffer) == 24,
    "acl.update_data_buffer": lambda g: acl.update_data_buffer(g.buffer, g.other, 1 << 40) == 0
    and acl.get_data_buffer_size_v2(g.buffer) == 1 << 40,
    "acl.create_tensor_desc": lambda g: acl.create_tensor_desc(FLOAT, [], ND) != 0,
    "acl.destroy_tensor_desc": lambda g: acl.destroy_tensor_desc(g.half) is None,
    "acl.get_tensor_desc_type": lambda g: acl.get_tensor_desc_type(g.half) == 1,
    "acl.get_tensor_desc_format": lambda g: acl.get_tensor_desc_format(g.desc) == ND,
    "acl.get_tensor_desc_size": lambda g: acl.get_tensor_desc_size(g.desc) == 24,
    "acl.get_tensor_desc_element_count": lambda g: acl.get_tensor_desc_element_count(g.desc) == 6,
    "acl.get_tensor_desc_num_dims": lambda g: acl.get_tensor_desc_num_dims(g.desc) == 2,
    "acl.get_tensor_desc_dim": lambda g: acl.get_tensor_desc_dim(g.desc, 1) == 3,
    "acl.get_tensor_desc_dim_v2": lambda g: acl.get_tensor_desc_dim_v2(g.desc, 1) == (3, 0),
    "acl.get_tensor_desc_dim_range": lambda g: acl.set_tensor_shape_range(g.desc, [[1, 2], [3, 4]]) == 0
    and acl.get_tensor_desc_dim_range(g.desc, 1, 2) == ([3, 4], 0),
    "acl.get_tensor_desc_name": lambda g: acl.set_tensor_desc_name(g.desc, "x") is None
    and acl.get_tensor_desc_name(g.desc) == "x",
    "acl.set_tensor_desc_name": lambda g: acl.set_tensor_desc_name(g.desc, "x") is None,
    "acl.trans_tensor_desc_format": lambda g: acl.get_tensor_desc_format(value(acl.trans_tensor_desc_format(g.desc, 0))) == 0,
    "acl.set_tensor_storage_format": lambda g: acl.set_tensor_storage_format(g.desc, ND) == 0,
    "acl.set_tensor_storage_shape": lambda g: acl.set_tensor_storage_shape(g.desc, [2, 3]) == 0,
    "acl.set_tensor_format": lambda g: acl.set_tensor_format(g.desc, ND) == 0,
    "acl.set_tensor_shape": lambda g: acl.set_tensor_shape(g.desc, [6, 1]) == 0,
    "acl.set_tensor_origin_format": lambda g: acl.set_tensor_origin_format(g.desc, ND) == 0,
    "acl.set_tensor_origin_shape": lambda g: acl.set_tensor_origin_shape(g.desc, [2, 3]) == 0,
    "acl.set_tensor_dynamic_input": lambda g: acl.set_tensor_dynamic_input(g.desc, "x") == 0,
    "acl.set_tensor_shape_range": lambda g: acl.set_tensor_shape_range(g.desc, [[1, 2], (3, 4)]) == 0,
    "acl.set_tensor_value_range": lambda g: acl.set_tensor_value_range(g.desc, [[1, 2]]) == 0,
    "acl.set_tensor_const": lambda g: acl.set_tensor_const(g.desc, g.host, 24) == 0,
    "acl.set_tensor_place_ment": lambda g: acl.set_tensor_place_ment(g.desc, 0) == 0,
    "acl.get_tensor_desc_address": lambda g: acl.get_tensor_desc_address(g.desc) == 0,
    "acl.get_tensor_desc_by_index": lambda g: acl.get_tensor_desc_by_index(g.desc, 0) == g.desc,
    "acl.rt.allocator_create_desc": lambda g: rt.allocator_create_desc() != 0,
    "acl.rt.allocator_destroy_desc": lambda g: rt.allocator_destroy_desc(g.allocator) == 0,
    "acl.rt.allocator_set_obj_to_desc": lambda g: rt.allocator_set_obj_to_desc(g.allocator, 5) == 0,
    "acl.rt.allocator_set_alloc_func_to_desc": lambda g: rt.allocator_set_alloc_func_to_desc(g.allocator, print) == 0,
    "acl.rt.allocator_set_free_func_to_desc": lambda g: rt.allocator_set_free_func_to_desc(g.allocator, print) == 0,
    "acl.rt.allocator_set_alloc_advise_func_to_desc": lambda g: rt.allocator_set_alloc_advise_func_to_desc(
        g.allocator, print) == 0,
    "acl.rt.allocator_set_get_addr_from_block_func_to_desc":
        lambda g: rt.allocator_set_get_addr_from_block_func_to_desc(g.allocator, print) == 0,
    "acl.rt.allocator_register": lambda g: rt.allocator_register(g.stream, g.complete()) == 0,
    "acl.rt.allocator_unregister": lambda g: rt.allocator_unregister(g.stream) == 0,
    "acl.rt.allocator_get_by_stream": lambda g: rt.allocator_get_by_stream(g.stream) == (
        0, 0, None, None, None, None, INVALID_PARAM),
    "acl.rt.set_device": lambda g: rt.set_device(0) == 0,
    "acl.rt.get_device": lambda g: rt.get_device() == (0, 0),
    "acl.rt.set_device_sat_mode": lambda g: rt.set_device_sat_mode(value(rt.get_device_sat_mode())) == 0,
    "acl.rt.get_device_sat_mode": lambda g: value(rt.get_device_sat_mode()) in (0, 1),
    "acl.rt.get_run_mode": lambda g: value(rt.get_run_mode()) in (0, 1),
    "acl.rt.get_device_count": lambda g: value(rt.get_device_count()) >= 1,
    "acl.rt.query_device_status": lambda g: rt.query_device_status(0) == (0, 0) and rt.query_device_status(99)[1] == 107001,
    "acl.rt.get_device_info": lambda g: value(rt.get_device_info(0, 1)) > 0 and rt.get_device_info(0, 0) == (0, 107000),
    "acl.rt.device_get_stream_priority_range": lambda g: rt.device_get_stream_priority_range() == (7, 0, 0),
    "acl.rt.get_device_capability": lambda g: rt.get_device_capability(0, 1) == (0, 0)
    and rt.get_device_capability(0, 99) == (0, 107000),
    "acl.rt.get_logic_dev_id_by_user_dev_id": lambda g: rt.get_logic_dev_id_by_user_dev_id(0) == (0, 0),
    "acl.rt.get_user_dev_id_by_logic_dev_id": lambda g: rt.get_user_dev_id_by_logic_dev_id(0) == (0, 0),
    "acl.rt.get_logic_dev_id_by_phy_dev_id": lambda g: rt.get_logic_dev_id_by_phy_dev_id(0) == (0, 0),
    "acl.rt.get_phy_dev_id_by_logic_dev_id": lambda g: rt.get_phy_dev_id_by_logic_dev_id(0) == (0, 0),
    "acl.rt.device_peer_access_status": lambda g: peers() and rt.device_peer_access_status(0, 1) == (0, 0),
    "acl.rt.device_can_access_peer": lambda g: peers() and rt.device_can_access_peer(0, 1) == (1, 0)
    and rt.device_can_access_peer(0, 0) == (0, INVALID_PARAM),
    "acl.rt.device_enable_peer_access": lambda g: peers() and rt.device_enable_peer_access(1, 0) == 0
    and rt.device_peer_access_status(0, 1) == (1, 0) and rt.device_disable_peer_access(1) == 0,
    "acl.rt.device_disable_peer_access": lambda g: peers() and rt.device_enable_peer_access(1, 0) == 0
    and rt.device_disable_peer_access(1) == 0 and rt.device_peer_access_status(0, 1) == (0, 0),
    "acl.rt.device_get_bare_tgid": lambda g: value(rt.device_get_bare_tgid()) == __import__("os").getpid(),
    "acl.rt.get_context": lambda g: default_context() != 0,
    "acl.rt.set_context": lambda g: rt.set_context(default_context()) == 0,
    "acl.rt.ctx_set_sys_param_opt": lambda g: rt.ctx_set_sys_param_opt(0, 1) == 0,
    "acl.rt.ctx_get_sys_param_opt": lambda g: rt.ctx_set_sys_param_opt(0, 1) == 0
    and rt.ctx_get_sys_param_opt(0) == (1, 0),
    "acl.rt.set_sys_param_opt": lambda g: rt.set_sys_param_opt(0, 1) == 0,
    "acl.rt.get_sys_param_opt": lambda g: rt.set_sys_param_opt(0, 1) == 0 and rt.get_sys_param_opt(0) == (1, 0),
    "acl.rt.ctx_get_current_default_stream": lambda g: value(rt.ctx_get_current_default_stream()) != 0,
    "acl.rt.get_primary_ctx_state": lambda g: rt.get_primary_ctx_state(0) == (1, 0, 0),
    "acl.rt.create_stream": lambda g: value(rt.create_stream()) != 0,
    "acl.rt.create_stream_with_config": lambda g: value(rt.create_stream_with_config(0, 1)) != 0,
    "acl.rt.destroy_stream": lambda g: rt.destroy_stream(g.fresh_stream()) == 0,
    "acl.rt.destroy_stream_force": lambda g: rt.destroy_stream_force(g.fresh_stream()) == 0,
    "acl.rt.set_stream_failure_mode": lambda g: rt.set_stream_failure_mode(g.stream, 1) == 0,
    "acl.rt.stream_query": lambda g: rt.stream_query(g.stream) == (0, 0),
    "acl.rt.stream_abort": lambda g: (lambda new: rt.stream_abort(new) == rt.destroy_stream_force(new) == 0)(g.fresh_stream()),
    "acl.rt.stream_get_id": lambda g: value(rt.stream_get_id(g.stream)) >= 0,
    "acl.rt.get_stream_available_num": lambda g: value(rt.get_stream_available_num()) > 0,
    "acl.rt.set_stream_attribute": lambda g: rt.set_stream_attribute(g.stream, 1, {"failureMode": 1}) == 0,
    "acl.rt.get_stream_attribute": lambda g: rt.set_stream_attribute(g.stream, 1, {"failureMode": 1}) == 0
    and rt.get_stream_attribute(g.stream, 1) == ({"failureMode": 1}, 0),
    "acl.rt.synchronize_stream": lambda g: rt.synchronize_stream(g.stream) == 0,
    "acl.rt.synchronize_stream_with_timeout": lambda g: rt.synchronize_stream_with_timeout(g.stream, -1) == 0,
    "acl.rt.synchronize_device": lambda g: rt.synchronize_device() == 0,
    "acl.rt.synchronize_device_with_timeout": lambda g: rt.synchronize_device_with_timeout(-1) == 0,
    "acl.rt.create_event": lambda g: value(rt.create_event()) != 0,
    "acl.rt.create_event_with_flag": lambda g: value(rt.create_event_with_flag(1)) != 0,
    "acl.rt.create_event_ex_with_flag": lambda g: value(rt.create_event_ex_with_flag(1)) != 0,
    "acl.rt.destroy_event": lambda g: rt.destroy_event(g.event) == 0,
    "acl.rt.record_event": lambda g: rt.record_event(g.event, g.stream) == 0,
    "acl.rt.reset_event": lambda g: rt.reset_event(g.event, g.stream) == 0,
    "acl.rt.query_event": lambda g: rt.query_event(g.event) == (0, 0),
    "acl.rt.query_event_status": lambda g: rt.query_event_status(g.event) == (1, 0),
    "acl.rt.query_event_wait_status": lambda g: rt.query_event_wait_status(g.event) == (0, 0)
    and rt.query_event_wait_status(0)[1] != 0,
    "acl.rt.synchronize_event": lambda g: rt.synchronize_event(g.event) == 0,
    "acl.rt.synchronize_event_with_timeout": lambda g: rt.synchronize_event_with_timeout(g.event, -1) == 0,
    "acl.rt.event_elapsed_time": lambda g: rt.event_elapsed_time(g.event, g.event) == (0.0, 0)
    and rt.event_elapsed_time(g.event, 0)[1] != 0,
    "acl.rt.event_get_timestamp": lambda g: value(rt.event_get_timestamp(g.event)) > 0,
    "acl.rt.get_event_id": lambda g: value(rt.get_event_id(g.event)) != value(rt.get_event_id(value(rt.create_event()))),
    "acl.rt.get_event_avail_num": lambda g: value(rt.get_event_avail_num()) > 0,
    "acl.rt.stream_wait_event": lambda g: rt.stream_wait_event(g.stream, g.event) == 0,
    "acl.rt.set_op_wait_timeout": lambda g: rt.set_op_wait_timeout(10) == 0,
    "acl.rt.set_op_execute_timeout": lambda g: rt.set_op_execute_timeout(10) == 0,
    "acl.rt.peek_at_last_error": lambda g: rt.free(1) == rt.peek_at_last_error(0) == rt.peek_at_last_error(0) != 0,
    "acl.rt.get_last_error": lambda g: rt.free(1) == rt.get_last_error(0) != 0 and rt.get_last_error(0) == 0,
    "acl.rt.malloc": lambda g: value(rt.malloc(64, 0)) % 32 == 0,
    "acl.rt.malloc_align32": lambda g: value(rt.malloc_align32(64, 0)) % 32 == 0,
    "acl.rt.malloc_cached": lambda g: value(rt.malloc_cached(64, 0)) != 0,
    "acl.rt.malloc_with_cfg": lambda g: value(rt.malloc_with_cfg(64, 0, {})) != 0
    and value(rt.malloc_with_cfg(64, 0, ATTRIBUTE)) != 0,
    "acl.rt.malloc_host_with_cfg": lambda g: value(rt.malloc_host_with_cfg(64, {})) != 0
    and value(rt.malloc_host_with_cfg(64, ATTRIBUTE)) != 0,
    "acl.rt.free": lambda g: rt.free(value(rt.malloc(64, 0))) == 0,
    "acl.rt.malloc_host": lambda g: value(rt.malloc_host(64)) != 0,
    "acl.rt.free_host": lambda g: rt.free_host(value(rt.malloc_host(64))) == 0,
    "acl.rt.memset": lambda g: rt.memset(g.host, 4096, 65, 3) == 0 and util.ptr_to_bytes(g.host, 3) == b"AAA",
    "acl.rt.memset_async": lambda g: rt.memset_async(g.ptr, 4096, 67, 3, g.stream) == 0
    and rt.synchronize_stream(g.stream) == 0 and g.bytes(3) == b"CCC",
    "acl.rt.memcpy": lambda g: rt.memset(g.ptr, 4096, 66, 4) == 0
    and rt.memcpy(g.host, 4096, g.ptr, 4, DEVICE_TO_HOST) == 0 and util.ptr_to_bytes(g.host, 4) == b"BBBB",
    "acl.rt.memcpy_async": lambda g: rt.memset(g.host, 4096, 68, 4) == 0
    and rt.memcpy_async(g.ptr, 4096, g.host, 4096, HOST_TO_DEVICE, g.stream) == 0
    and rt.synchronize_stream(g.stream) == 0 and g.bytes(4) == b"DDDD",
    "acl.rt.get_mem_info": lambda g: rt.get_mem_info(1)[2] == 0 and 0 < rt.get_mem_info(1)[0] <= rt.get_mem_info(1)[1],
    "acl.rt.pointer_get_attributes": lambda g: value(rt.pointer_get_attributes(g.ptr))["location"] == {"id": 0, "type": 1},
    "acl.rt.host_register": lambda g: rt.host_register(g.page, 4096, 0) == (g.page, 0) and rt.host_unregister(g.page) == 0,
    "acl.rt.host_unregister": lambda g: rt.host_register(g.page, 4096, 0)[1] == 0
    and rt.host_unregister(g.page) == 0 and rt.host_unregister(g.page) == 507911,
    "acl.rt.host_register_v2": lambda g: rt.host_register_v2(g.page, 4096, 0) == 107000
    and rt.host_register_v2(g.page, 4096, 2) == 0 and rt.host_unregister(g.page) == 0,
    "acl.rt.host_get_device_pointer": lambda g: rt.host_get_device_pointer(g.host, 0) == (g.host, 0),
    "acl.op.set_model_dir": lambda g: op.set_model_dir(str(support.ROOT)) == 0
    and op.set_model_dir(str(support.ROOT / "no such folder")) == INVALID_PARAM,
    "acl.op.load": lambda g: op.load(g.host, 64) == 0 and op.load(0, 64) == INVALID_PARAM,
    "acl.op.execute": lambda g: op.execute(*g.relu(), g.attr, g.stream) == 0,
    "acl.op.execute_v2": lambda g: op.execute_v2(*g.relu(), g.attr, g.stream) == 0,
    "acl.op.execute_with_handle": lambda g: op.execute_with_handle(g.handle(), [g.buffer], [g.second], g.stream) == 0,
    "acl.op.create_handle": lambda g: g.handle() != 0,
    "acl.op.destroy_handle": lambda g: op.destroy_handle(g.handle()) is None,
    "acl.op.cast": lambda g: op.cast(g.desc, g.buffer, g.half, g.second, 0, g.stream) == 0,
    "acl.op.create_handle_for_cast": lambda g: value(op.create_handle_for_cast(g.desc, g.half, 0)) != 0,
    "acl.op.create_attr": lambda g: op.create_attr() != 0,
    "acl.op.destroy_attr": lambda g: op.destroy_attr(op.create_attr()) is None,
    "acl.op.set_attr_bool": lambda g: op.set_attr_bool(g.attr, "a", True) == 0,
    "acl.op.set_attr_int": lambda g: op.set_attr_int(g.attr, "a", -(1 << 63)) == 0,
    "acl.op.set_attr_float": lambda g: op.set_attr_float(g.attr, "a", 0.5) == 0,
    "acl.op.set_attr_string": lambda g: op.set_attr_string(g.attr, "a", "text") == 0,
    "acl.op.set_attr_list_bool": lambda g: op.set_attr_list_bool(g.attr, "a", [True, False]) == 0,
    "acl.op.set_attr_list_int": lambda g: op.set_attr_list_int(g.attr, "a", [1, -2]) == 0,
    "acl.op.set_attr_list_float": lambda g: op.set_attr_list_float(g.attr, "a", [1, 0.5]) == 0,
    "acl.op.set_attr_list_string": lambda g: op.set_attr_list_string(g.attr, "a", ["x", "y"]) == 0,
    "acl.op.set_attr_list_list_int": lambda g: op.set_attr_list_list_int(g.attr, "a", [[1], [2, 3], []]) == 0,
    "acl.op.set_attr_data_type": lambda g: op.set_attr_data_type(g.attr, "a", FLOAT) == (g.attr, 0),
    "acl.op.set_attr_list_data_type": lambda g: op.set_attr_list_data_type(g.attr, "a", [FLOAT, 1]) == (g.attr, 0),
    "acl.op.infer_shape": lambda g: op.infer_shape("Relu", [g.desc], [g.buffer], 1, [g.half], g.attr) == 0,
    "acl.op.set_max_op_queue_num": lambda g: op.set_max_op_queue_num(100) == 0,
    "acl.util.bytes_to_ptr": lambda g: util.ptr_to_bytes(util.bytes_to_ptr(b"abc"), 3) == b"abc",
    "acl.util.ptr_to_bytes": lambda g: util.ptr_to_bytes(0, 0) == b"" and util.ptr_to_bytes(
        util.bytes_to_ptr(b"\0abc"), 2) == b"\0a",
    "acl.util.numpy_to_ptr": lambda g: with_warning(util.numpy_to_ptr, g.array) == g.array.ctypes.data,
    "acl.util.numpy_contiguous_to_ptr": lambda g: with_warning(util.numpy_contiguous_to_ptr, g.array)[0] == g.array.ctypes.data,
    "acl.util.ptr_to_numpy": lambda g: with_warning(
        util.ptr_to_numpy, g.array.ctypes.data, (3, 2), g.array.dtype.num).tolist() == [[0, 1], [2, 3], [4, 5]],
    "acl.util.start_thread": lambda g: util.stop_thread(value(util.start_thread(g.arguments.extend, [1, 2]))) == 0
    and g.arguments == [1, 2],
    "acl.util.stop_thread": lambda g: util.stop_thread(1) == INVALID_PARAM,
    "acl.rt.process_report": lambda g: not_supported("aclrtProcessReport", rt.process_report(1)),
    "acl.rt.reserve_mem_address": lambda g: rt.release_mem_address(value(rt.reserve_mem_address(2 << 20, 0, 0, 0))) == 0,
    "acl.rt.release_mem_address": lambda g: rt.release_mem_address(4096) == RT_PARAM_INVALID,
    "acl.rt.malloc_physical": lambda g: rt.free_physical(value(rt.malloc_physical(2 << 20, PHYSICAL, 0))) == 0,
    "acl.rt.free_physical": lambda g: rt.free_physical(4096) == RT_INVALID_HANDLE,
    "acl.rt.map_mem": lambda g: mapped() == 0,
    "acl.rt.unmap_mem": lambda g: rt.unmap_mem(4096) == RT_PARAM_INVALID,
    "acl.rt.mem_export_to_shareable_handle": lambda g: rt.mem_export_to_shareable_handle(4096, 0, 0)[1] == RT_INVALID_HANDLE,
    "acl.rt.mem_set_pid_to_shareable_handle": lambda g: rt.mem_set_pid_to_shareable_handle(1, [1, 2]) == DRIVER,
    "acl.rt.mem_import_from_shareable_handle": lambda g: rt.mem_import_from_shareable_handle(1, 0)[1] == RT_PARAM_INVALID,
    "acl.rt.binary_load_from_data": lambda g: not_supported("aclrtBinaryLoadFromData", rt.binary_load_from_data(g.host, 64, 0)),
    "acl.rt.binary_get_function": lambda g: not_supported("aclrtBinaryGetFunction", rt.binary_get_function(4096, "kernel")),
    "acl.rt.get_function_addr": lambda g: not_supported("aclrtGetFunctionAddr", rt.get_function_addr(4096)),
    "acl.op.update_params": lambda g: not_supported("aclopUpdateParams", op.update_params("Relu", [g.desc], [g.desc], g.attr)),
    "acl.op.register_compile_func": lambda g: not_supported("aclopRegisterCompileFunc", op.register_compile_func("Relu", print)),
    "acl.op.unregister_compile_func": lambda g: not_supported("aclopUnregisterCompileFunc", op.unregister_compile_func("Relu")),
    "acl.op.create_kernel": lambda g: not_supported("aclopCreateKernel", op.create_kernel("A", "b", "c", g.host, 64, 0, 0)),
    "acl.op.set_kernel_args": lambda g: not_supported("aclopSetKernelArgs", op.set_kernel_args(4096, "b", 1, g.host, 64)),
    "acl.op.set_kernel_workspace_sizes": lambda g: not_supported(
        "aclopSetKernelWorkspaceSizes", op.set_kernel_workspace_sizes(4096, 1, g.host)),
    "acl.op.start_dump_args": lambda g: not_supported("aclopStartDumpArgs", op.start_dump_args(1, "folder")),
    "acl.op.stop_dump_args": lambda g: not_supported("aclopStopDumpArgs", op.stop_dump_args(1)),
}

# Expressions for functions that start or end ACL, devices and contexts: each in a process of its own, after its device was set.
PROGRAMS = {
    "acl.init": "acl.init() == acl.init('') == 100002 and acl.init(3 * 'x') == 100002",
    "acl.finalize": "acl.finalize() == 0 and acl.finalize() == 100037",
    "acl.finalize_reference": "acl.init() == 100002 and acl.finalize_reference() == (1, 0) == (1, acl.finalize())"
    " and acl.finalize() == 100037",
    "acl.rt.reset_device": "rt.reset_device(0) == 0 and rt.get_device()[1] != 0 and rt.reset_device(99) == 107001",
    "acl.rt.reset_device_force": "rt.reset_device_force(0) == 0 and rt.get_device()[1] != 0",
    "acl.rt.create_context": "(lambda created: created[1] == 0 and created == rt.get_context())(rt.create_context(0))"
    " and rt.create_context(99) == (0, 107001)",
    "acl.rt.destroy_context": "(lambda context: rt.destroy_context(context) == 0 and rt.destroy_context(context) != 0)"
    "(rt.create_context(0)[0])",
}


def with_warning(call, *arguments):
    with pytest.warns(DeprecationWarning):
        return call(*arguments)


def test_every_function_of_the_table_is_called():
    names = support.table()
    assert len(names) == len(set(names)) > 150
    assert sorted([*CALLS, *MODEL_CALLS, *PROGRAMS]) == sorted(names)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    assert f"{name.replace('acl.rt.', 'rt.')}(" in PROGRAMS[name]
    run = support.program(
        "rt = acl.rt\n"
        "assert acl.init() == 0 and rt.set_device(0) == 0\n"
        f"print({PROGRAMS[name]})\n"
    )
    assert run.stdout == "True\n", run.stderr


@pytest.mark.parametrize("name", CALLS)
def test_function(name, given):
    module, _, function_name = name.rpartition(".")
    function = getattr(importlib.import_module(module), function_name)
    assert (function.__module__, function.__name__) == (module, function_name)
    assert CALLS[name](given)


@pytest.mark.parametrize("name", MODEL_CALLS)
def test_function_of_models(name, models, stream):
    given = model_calls.Given(models, stream)
    assert getattr(acl.mdl, name.rpartition(".")[2]).__module__ == "acl.mdl"
    assert MODEL_CALLS[name](given)
    given.close()


def test_numpy(device):
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    with pytest.warns(DeprecationWarning):
        ptr = util.numpy_to_ptr(array)
    assert ptr == array.ctypes.data
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="numpy_contiguous_to_ptr"):
        util.numpy_to_ptr(array.T)
    with pytest.warns(DeprecationWarning):
        ptr, contiguous = util.numpy_contiguous_to_ptr(array.T)
    assert ptr == contiguous.ctypes.data and (contiguous == array.T).all()
    with pytest.warns(DeprecationWarning):
        view = util.ptr_to_numpy(array.ctypes.data, (3, 2), array.dtype.num)
    view[0, 0] = 9
    assert array[0, 0] == 9
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError):
        util.ptr_to_numpy(0, (3, 2), array.dtype.num)


def test_threads():
    calls = []
    threads = [util.start_thread(lambda args: calls.append(args[0]), [index]) for index in range(4)]
    assert all(ret == 0 for _, ret in threads)
    assert [util.stop_thread(thread) for thread, _ in threads] == [0] * 4
    assert sorted(calls) == [0, 1, 2, 3]
    assert util.stop_thread(threads[0][0]) == INVALID_PARAM


def test_a_thread_does_not_wait_for_itself():
    released, codes = threading.Event(), []

    def work(args):
        released.wait()
        codes.append(util.stop_thread(args[0]))

    args = []
    thread, ret = util.start_thread(work, args)
    assert ret == 0
    args.append(thread)
    released.set()
    assert util.stop_thread(thread) == 0
    assert codes == [INVALID_PARAM]


def test_the_interpreter_lock_is_released_while_waiting(stream):
    """A stream waits for an event that another Python thread records once this one is inside the call: it gets the
    interpreter lock only if the call releases it, because the switch interval makes no thread yield."""
    event, other = value(rt.create_event()), value(rt.create_stream())
    context, entered = default_context(), threading.Event()
    check(rt.stream_wait_event(stream, event))

    def record():
        entered.wait()
        check(rt.set_context(context))
        check(rt.record_event(event, other))

    thread = threading.Thread(target=record)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        entered.set()
        check(rt.synchronize_stream_with_timeout(stream, 20000))
    finally:
        sys.setswitchinterval(interval)
        thread.join()
        check(rt.synchronize_stream(stream))
    check(rt.destroy_stream(other))


LOGGING_CALLS = {
    "acl.app_log": 'acl.app_log(3, "x" * 200)',
    "acl.get_tensor_desc_type": "acl.get_tensor_desc_type(1)",
    "acl.mdl.create_and_get_op_desc": "acl.mdl.create_and_get_op_desc(0, 1, 2, 64)",
    "acl.mdl.execute_async": "acl.mdl.execute_async(1, 1, 1, stream)",
    "acl.mdl.get_first_aipp_info": "acl.mdl.get_first_aipp_info(1, 0)",
    "acl.mdl.get_input_dims": "acl.mdl.get_input_dims(1, 0)",
    "acl.mdl.get_input_dynamic_dims": "acl.mdl.get_input_dynamic_dims(1, -1, 1)",
    "acl.mdl.set_config_opt": 'acl.mdl.set_config_opt(1, 2, "path")',
    "acl.mdl.set_exec_config_opt": "acl.mdl.set_exec_config_opt(1, 0, 1)",
    "acl.op.set_attr_list_string": 'acl.op.set_attr_list_string(1, "a", ["x"])',
    "acl.rt.allocator_register": "rt.allocator_register(stream, 0)",
    "acl.rt.allocator_set_alloc_func_to_desc": "rt.allocator_set_alloc_func_to_desc(1, print)",
    "acl.rt.allocator_unregister": "rt.allocator_unregister(0)",
    "acl.rt.destroy_event": "rt.destroy_event(1)",
    "acl.rt.get_stream_attribute": "rt.get_stream_attribute(1, 1)",
    "acl.rt.pointer_get_attributes": "rt.pointer_get_attributes(0)",
    "acl.rt.stream_query": "rt.stream_query(1)",
}


@pytest.mark.parametrize("name", LOGGING_CALLS)
def test_the_interpreter_lock_is_released_while_a_line_is_logged(name):
    """The log goes to a pipe that another Python thread reads, and is longer than the pipe."""
    assert f"{name.replace('acl.rt.', 'rt.')}(" in LOGGING_CALLS[name] and name in support.table()
    run = support.program(
        "import faulthandler, os, threading\n"
        "faulthandler.dump_traceback_later(60, exit=True)\n"
        "rt, (source, sink), out = acl.rt, os.pipe(), os.dup(1)\n"
        "os.dup2(sink, 1)\n"
        "read = 0\n"
        "def reader():\n"
        "    global read\n"
        "    while True: read += len(os.read(source, 4096))\n"
        "assert acl.init() == 0 and rt.set_device(0) == 0\n"
        "stream = rt.create_stream()[0]\n"
        "threading.Thread(target=reader, daemon=True).start()\n"
        f"while read < 1 << 18: {LOGGING_CALLS[name]}\n"
        "os.write(out, b'end\\n')\n"
        "os._exit(0)\n",
        ASCEND_SLOG_PRINT_TO_STDOUT="1",
    )
    assert run.stdout == "end\n", run.stderr


def test_the_interpreter_lock_is_released_while_memory_is_copied():
    """The switch interval makes no thread yield, so the other one runs only if the copy releases the interpreter lock."""
    size = 16 << 20
    started, calls, data = threading.Event(), [], bytes(size)

    def watch():
        started.wait()
        calls.append(True)

    thread = threading.Thread(target=watch)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        started.set()
        for _ in range(500):
            copy = util.ptr_to_bytes(util.bytes_to_ptr(data), size)
            if calls:
                break
        assert calls == [True]
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert copy == data
