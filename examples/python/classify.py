"""Classifies pictures with a model that atc has converted: the classic program on ACL, in Python.

    python classify.py digits.om 0.pgm 1.pgm ..

It loads the model, asks it for its inputs and outputs, makes data sets of device memory, and runs it once for each
picture. `sh examples/classify.sh` makes such a model and pictures, and runs this program and the same one in C.
"""

import pathlib
import re
import struct
import sys

import acl

TOP, FLOAT, HUGE_FIRST, HOST_TO_DEVICE, DEVICE_TO_HOST = 3, 0, 0, 1, 2


def check(ret):
    if ret != 0:
        raise SystemExit(f"error {ret}: {acl.get_recent_err_msg()}")


def value(*results):
    """The first of the results of a call, whose last one is the code."""
    check(results[-1])
    return results[0]


def create_dataset(size):
    """A data set of one buffer with its own device memory."""
    dataset = acl.mdl.create_dataset()
    memory = value(*acl.rt.malloc(size, HUGE_FIRST))
    check(acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(memory, size))[1])
    return dataset


def destroy_dataset(dataset):
    for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
        buffer = acl.mdl.get_dataset_buffer(dataset, index)
        check(acl.rt.free(acl.get_data_buffer_addr(buffer)))
        check(acl.destroy_data_buffer(buffer))
    check(acl.mdl.destroy_dataset(dataset))


class Model:
    """A loaded model with one input, a gray picture, and one output, a number for each class."""

    def __init__(self, path):
        self.id = value(*acl.mdl.load_from_file(path))
        desc = acl.mdl.create_desc()
        check(acl.mdl.get_desc(desc, self.id))
        if (acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)) != (1, 1):
            raise SystemExit(f"{path}: it must have one input and one output")
        image, scores = value(*acl.mdl.get_input_dims(desc, 0)), value(*acl.mdl.get_output_dims(desc, 0))
        sizes = acl.mdl.get_input_size_by_index(desc, 0), acl.mdl.get_output_size_by_index(desc, 0)
        for what, dims, size in zip(("input", "output"), (image, scores), sizes):
            print(f"{what} {dims['name']}: {dims['dims']}, {size} bytes")
        types = acl.mdl.get_input_data_type(desc, 0), acl.mdl.get_output_data_type(desc, 0)
        if image["dimCount"] != 4 or image["dims"][:2] != [1, 1] or types != (FLOAT, FLOAT):
            raise SystemExit(f"{path}: its input must be one gray picture, and all of it floats")
        self.height, self.width = image["dims"][2:]
        self.classes = sizes[1] // 4
        self.input, self.output = create_dataset(sizes[0]), create_dataset(sizes[1])
        self.host = value(*acl.rt.malloc_host(sizes[1]))
        check(acl.mdl.destroy_desc(desc))

    def run(self, picture):
        """The number of each class for one picture."""
        data, size = struct.pack(f"{len(picture)}f", *picture), 4 * self.classes
        source, result = (acl.mdl.get_dataset_buffer(dataset, 0) for dataset in (self.input, self.output))
        room = acl.get_data_buffer_size_v2(source)
        check(acl.rt.memcpy(acl.get_data_buffer_addr(source), room, acl.util.bytes_to_ptr(data), len(data), HOST_TO_DEVICE))
        check(acl.mdl.execute(self.id, self.input, self.output))
        check(acl.rt.memcpy(self.host, size, acl.get_data_buffer_addr(result), size, DEVICE_TO_HOST))
        return struct.unpack(f"{self.classes}f", acl.util.ptr_to_bytes(self.host, size))

    def close(self):
        check(acl.rt.free_host(self.host))
        for dataset in (self.input, self.output):
            destroy_dataset(dataset)
        check(acl.mdl.unload(self.id))


def read_picture(path, model):
    """A picture in the format PGM as numbers from 0 to 1."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise SystemExit(f"{path}: cannot be read: {error.strerror}")
    head = re.match(rb"P5\s+(\d+)\s+(\d+)\s+255\s", data)
    if head is None:
        raise SystemExit(f"{path}: is no picture in PGM")
    if tuple(map(int, head.groups())) != (model.width, model.height):
        raise SystemExit(f"{path}: does not have the size of the model's input")
    pixels = data[head.end():head.end() + model.width * model.height]
    if len(pixels) != model.width * model.height:
        raise SystemExit(f"{path}: is too short")
    return [pixel / 255 for pixel in pixels]


def main(path, pictures):
    check(acl.init())
    check(acl.rt.set_device(0))
    model = Model(path)
    for picture in pictures:
        scores = model.run(read_picture(picture, model))
        best = sorted(range(model.classes), key=lambda kind: -scores[kind])[:TOP]
        places = [f"{kind} ({100 * scores[kind]:.1f} %)" for kind in best]
        print(f"{pathlib.Path(picture).name}: {', '.join(places)}")
    model.close()
    check(acl.rt.reset_device(0))
    check(acl.finalize())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit("usage: python classify.py MODEL.om PICTURE.pgm ..")
    main(sys.argv[1], sys.argv[2:])
