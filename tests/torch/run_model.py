"""Runs a model by the module `acl`: the program of run_model.c in Python, with the same arguments and the same output."""

import pathlib
import sys

import acl

HUGE_FIRST, HOST_TO_DEVICE, DEVICE_TO_HOST, ND = 0, 1, 2, 2


def check(ret):
    if ret != 0:
        raise SystemExit(f"error {ret}: {acl.get_recent_err_msg()}")


def value(result, ret):
    check(ret)
    return result


def numbers(text):
    return [int(one) for one in text.split(",") if one]


def add_buffer(dataset, memory, size):
    check(acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(memory, size))[1])


def add_input(dataset, content, wanted):
    """A buffer of device memory with these bytes, at least as long as the model wants it."""
    size = max(len(content), wanted)
    memory = value(*acl.rt.malloc(max(size, 1), HUGE_FIRST))
    if content:
        check(acl.rt.memcpy(memory, size, acl.util.bytes_to_ptr(content), len(content), HOST_TO_DEVICE))
    add_buffer(dataset, memory, size)


def set_gear(model, desc, inputs, gear):
    kind, _, text = gear.partition(":")
    index = value(*acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data"))
    if kind == "batch":
        check(acl.mdl.set_dynamic_batch_size(model, inputs, index, int(text)))
    elif kind == "image":
        check(acl.mdl.set_dynamic_hw_size(model, inputs, index, *numbers(text)))
    else:
        dims = numbers(text)
        check(acl.mdl.set_input_dynamic_dims(model, inputs, index, {"dimCount": len(dims), "name": "", "dims": dims}))


def output_dims(desc, outputs, index, has_gear):
    tensor = acl.mdl.get_dataset_tensor_desc(outputs, index)
    if tensor:
        return [value(*acl.get_tensor_desc_dim_v2(tensor, at)) for at in range(acl.get_tensor_desc_num_dims(tensor))]
    if has_gear:
        return value(*acl.mdl.get_cur_output_dims(desc, index))["dims"]
    return value(*acl.mdl.get_output_dims(desc, index))["dims"]


def write_output(desc, outputs, index, has_gear, prefix):
    dims, kind = output_dims(desc, outputs, index, has_gear), acl.mdl.get_output_data_type(desc, index)
    count = acl.data_type_size(kind)
    for dim in dims:
        count *= dim
    content = b""
    if count:
        host = value(*acl.rt.malloc_host(count))
        address = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, index))
        check(acl.rt.memcpy(host, count, address, count, DEVICE_TO_HOST))
        content = acl.util.ptr_to_bytes(host, count)
        check(acl.rt.free_host(host))
    pathlib.Path(f"{prefix}.{index}").write_bytes(content)
    print(acl.mdl.get_output_name_by_index(desc, index), kind, ",".join(map(str, dims)))


def destroy(dataset):
    for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
        buffer = acl.mdl.get_dataset_buffer(dataset, index)
        address = acl.get_data_buffer_addr(buffer)
        if address:
            check(acl.rt.free(address))
        check(acl.destroy_data_buffer(buffer))
    check(acl.mdl.destroy_dataset(dataset))


def run(model, desc, prefix, gear, files):
    has_gear = gear != "-"
    inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for index in range(acl.mdl.get_num_inputs(desc)):
        wanted = acl.mdl.get_input_size_by_index(desc, index)
        if index >= len(files):  # the gear's own input
            add_input(inputs, b"", wanted)
            continue
        path, _, dims = files[index].rpartition(":")
        add_input(inputs, pathlib.Path(path).read_bytes(), wanted)
        if not has_gear:
            shape = acl.create_tensor_desc(acl.mdl.get_input_data_type(desc, index), numbers(dims), ND)
            check(acl.mdl.set_dataset_tensor_desc(inputs, shape, index)[1])
            acl.destroy_tensor_desc(shape)
    count = acl.mdl.get_num_outputs(desc)
    for _ in range(count):
        add_buffer(outputs, 0, 0)
    if has_gear:
        set_gear(model, desc, inputs, gear)
    check(acl.mdl.execute(model, inputs, outputs))
    for index in range(count):
        write_output(desc, outputs, index, has_gear, prefix)
    destroy(inputs)
    destroy(outputs)


def main(path, *words):
    check(acl.init())
    check(acl.rt.set_device(0))
    model = value(*acl.mdl.load_from_file(path))
    desc = acl.mdl.create_desc()
    check(acl.mdl.get_desc(desc, model))
    runs = [[]]
    for word in words:
        if word == "--":
            runs.append([])
        else:
            runs[-1].append(word)
    for prefix, gear, *files in runs:
        run(model, desc, prefix, gear, files)
    check(acl.mdl.unload(model))
    check(acl.mdl.destroy_desc(desc))
    check(acl.rt.reset_device(0))
    check(acl.finalize())


main(*sys.argv[1:])
