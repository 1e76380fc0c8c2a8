"""Runs an ONNX model by onnxruntime's CANN provider: the arguments and the output are those of run_model.c, the model is the `.onnx`
file, and sizes are those of the inputs, whatever the gear."""

import pathlib
import sys

import numpy
import onnxruntime

# Names of types in onnxruntime, with their numbers in aclDataType.
TYPES = {"tensor(float)": (numpy.float32, 0), "tensor(int64)": (numpy.int64, 9), "tensor(int32)": (numpy.int32, 3), "tensor(bool)": (numpy.bool_, 12)}


def run(session, prefix, _gear, files):
    inputs = {}
    for port, word in zip(session.get_inputs(), files):
        path, _, dims = word.rpartition(":")
        values = numpy.frombuffer(pathlib.Path(path).read_bytes(), TYPES[port.type][0])
        inputs[port.name] = values.reshape([int(dim) for dim in dims.split(",") if dim])
    for index, (port, output) in enumerate(zip(session.get_outputs(), session.run(None, inputs))):
        pathlib.Path(f"{prefix}.{index}").write_bytes(output.tobytes())
        print(port.name, TYPES[port.type][1], ",".join(map(str, output.shape)))


def main(path, *words):
    onnxruntime.set_default_logger_severity(4)
    settings = {"enable_cann_graph": "1", "dump_om_model": "0"}
    session = onnxruntime.InferenceSession(path, providers=[("CANNExecutionProvider", settings), "CPUExecutionProvider"])
    # onnxruntime goes on without a provider that it cannot load.
    assert session.get_providers()[0] == "CANNExecutionProvider"
    runs = [[]]
    for word in words:
        if word == "--":
            runs.append([])
        else:
            runs[-1].append(word)
    for prefix, gear, *files in runs:
        run(session, prefix, gear, files)


main(*sys.argv[1:])
