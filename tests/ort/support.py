"""What the tests share: models of a few nodes, sessions on both providers, comparisons, and the tasks that ran."""

import os
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import helper

PROVIDER = "CANNExecutionProvider"
LIBRARY = pathlib.Path(onnxruntime.__file__).parent / "capi/libonnxruntime_providers_cann.so"
GRAPH, SINGLE = "1", "0"
NO_OPERATORS = {"aclrtMemcpyAsync", "aclrtMemcpy", "aclrtMemsetAsync", "aclrtMemset", "aclrtRecordEvent", "graph order"}

onnxruntime.set_default_logger_severity(4)


def element_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def model(nodes, inputs, outputs, constants=None, opset=17, open_sizes=False, name="net"):
    """The bytes of a model. `inputs` has an example of each input; with `open_sizes` its first size is left open."""

    def sizes(array):
        dims = list(array.shape)
        return ["batch", *dims[1:]] if open_sizes and dims else dims

    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(key, element_type(array), sizes(array)) for key, array in inputs.items()],
        [helper.make_empty_tensor_value_info(key) for key in outputs],
        [onnx.numpy_helper.from_array(array, key) for key, array in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return made.SerializeToString()


def session(data, mode=None, level=None, options=None, **settings):
    """A session on the CANN provider in a mode, or without one on the CPU provider."""
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    if level is not None:
        made.graph_optimization_level = level
    for key, value in (options or {}).items():
        setattr(made, key, value)
    if mode is None:
        return onnxruntime.InferenceSession(data, made, providers=["CPUExecutionProvider"])
    settings = {"enable_cann_graph": mode, "dump_om_model": "0", **settings}
    found = onnxruntime.InferenceSession(data, made, providers=[(PROVIDER, settings), "CPUExecutionProvider"])
    # onnxruntime goes on without a provider that it cannot load.
    assert found.get_providers()[0] == PROVIDER
    return found


UNOPTIMIZED = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def compare(have, expected, tolerance=1e-4):
    """Types and sizes are equal, values within the tolerance, absolute and relative."""
    assert len(have) == len(expected)
    for one, other in zip(have, expected):
        assert one.dtype == other.dtype and one.shape == other.shape, (one.dtype, one.shape, other.dtype, other.shape)
        if one.dtype.kind == "f":
            if one.dtype == np.float16:
                tolerance = max(tolerance, 2e-3)
            one, other = one.astype(np.float64), other.astype(np.float64)
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(one, other)


class Trace:
    """The tasks that devices finished since it was made."""

    def __init__(self):
        self.path = pathlib.Path(os.environ["CAIRN_TRACE"])
        self.start = self.path.stat().st_size if self.path.exists() else 0

    def tasks(self):
        """The names of the tasks, without copies and events; a compiled model is a `graph`."""
        with self.path.open() as file:
            file.seek(self.start)
            names = [" ".join(line.split()[5:-2]) for line in file.read().splitlines()]
        return [name for name in names if name not in NO_OPERATORS]


def check(data, inputs, mode, level=None, tolerance=1e-4, **settings):
    """Runs a model on both providers, compares, and returns the names of the tasks that ran on the device."""
    expected = session(data, level=level).run(None, inputs)
    ours = session(data, mode, level, **settings)
    trace = Trace()
    compare(ours.run(None, inputs), expected, tolerance)
    return trace.tasks()
