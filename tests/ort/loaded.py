"""Models of ONNX by `acl.mdl`, from their bytes: no provider in between."""

import acl
import numpy as np
import onnx
from onnx import helper

HUGE_FIRST, HOST_TO_DEVICE, DEVICE_TO_HOST, ND = 0, 1, 2, 2
REPEATED_INIT = 100002
# The types of elements by their numbers in ACL.
TYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 4: np.uint8, 9: np.int64, 12: np.bool_, 11: np.float64}


def check(ret):
    assert ret == 0, f"error {ret}: {acl.get_recent_err_msg()}"


def value(result, ret):
    check(ret)
    return result


def start():
    """ACL may run already: onnxruntime's provider starts it."""
    ret = acl.init()
    assert ret in (0, REPEATED_INIT), ret
    check(acl.rt.set_device(0))


def add_buffer(dataset, memory, size):
    check(acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(memory, size))[1])


def output_of(outputs, index):
    """An output, which the run allocated, as an array."""
    desc = acl.mdl.get_dataset_tensor_desc(outputs, index)
    dims = [value(*acl.get_tensor_desc_dim_v2(desc, at)) for at in range(acl.get_tensor_desc_num_dims(desc))]
    made = np.zeros(dims, TYPES[acl.get_tensor_desc_type(desc)])
    buffer = acl.mdl.get_dataset_buffer(outputs, index)
    address = acl.get_data_buffer_addr(buffer)
    if made.nbytes:
        check(acl.rt.memcpy(made.ctypes.data, made.nbytes, address, made.nbytes, DEVICE_TO_HOST))
    return made


def run(data, inputs):
    """The outputs of a model whose sizes are open, for these inputs in the model's order."""
    start()
    model = value(*acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data)))
    desc = acl.mdl.create_desc()
    check(acl.mdl.get_desc(desc, model))
    given, made = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    owned = []
    for index, array in enumerate(inputs):
        array = np.array(array, order="C")
        memory = value(*acl.rt.malloc(max(array.nbytes, 1), HUGE_FIRST))
        owned.append(memory)
        if array.nbytes:
            check(acl.rt.memcpy(memory, array.nbytes, array.ctypes.data, array.nbytes, HOST_TO_DEVICE))
        add_buffer(given, memory, array.nbytes)
        shape = acl.create_tensor_desc(acl.mdl.get_input_data_type(desc, index), list(array.shape), ND)
        check(acl.mdl.set_dataset_tensor_desc(given, shape, index)[1])
        acl.destroy_tensor_desc(shape)
    count = acl.mdl.get_num_outputs(desc)
    for _ in range(count):
        add_buffer(made, 0, 0)
    check(acl.mdl.execute(model, given, made))
    outputs = []
    for index in range(count):
        is_open = acl.mdl.get_dataset_tensor_desc(made, index)
        outputs.append(output_of(made, index) if is_open else known_output(desc, made, index))
        owned.append(acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(made, index)))
    for memory in owned:
        if memory:
            check(acl.rt.free(memory))
    for dataset in (given, made):
        for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
            check(acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index)))
        check(acl.mdl.destroy_dataset(dataset))
    check(acl.mdl.unload(model))
    check(acl.mdl.destroy_desc(desc))
    return outputs


def known_output(desc, outputs, index):
    """An output of a model whose sizes are all known."""
    dims = value(*acl.mdl.get_output_dims(desc, index))["dims"]
    made = np.zeros(dims, TYPES[acl.mdl.get_output_data_type(desc, index)])
    address = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, index))
    if made.nbytes:
        check(acl.rt.memcpy(made.ctypes.data, made.nbytes, address, made.nbytes, DEVICE_TO_HOST))
    return made


def one_node(kind, inputs, outputs, attributes=None, constant=(), opset=22, open_axes=()):
    """The bytes of a model of one node, and the arrays that are its inputs. `inputs` may have None for one that is left out;
    those with an index in `constant` are initializers. The sizes of the open axes are left open."""
    names = [f"x{at}" if array is not None else "" for at, array in enumerate(inputs)]
    node = helper.make_node(kind, names, [f"y{at}" for at in range(outputs)], name="node", **(attributes or {}))
    fed = [(at, array) for at, array in enumerate(inputs) if array is not None and at not in constant]

    def info(at, array):
        dims = [f"d{at}_{axis}" if axis in open_axes else size for axis, size in enumerate(array.shape)]
        return helper.make_tensor_value_info(names[at], helper.np_dtype_to_tensor_dtype(array.dtype), dims)

    graph = helper.make_graph(
        [node],
        "net",
        [info(at, array) for at, array in fed],
        [helper.make_empty_tensor_value_info(f"y{at}") for at in range(outputs)],
        [onnx.numpy_helper.from_array(inputs[at], names[at]) for at in constant],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return made.SerializeToString(), [array for _, array in fed]
