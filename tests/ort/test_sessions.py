"""Sessions: several, on threads, with bound memory, with the provider's options, and what they say when they fail."""

import pathlib
import subprocess
import sys
import threading

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import networks
import operators
import support
from operators import f32
from test_networks import BOTH, made
from test_operators import single_node


def test_provider_is_available_and_shows_its_options():
    assert onnxruntime.get_available_providers()[0] == support.PROVIDER
    data, _ = made(networks.perceptron)
    ours = support.session(data, support.SINGLE, device_id="1", npu_mem_limit=str(1 << 30), arena_extend_strategy="kSameAsRequested")
    options = ours.get_provider_options()[support.PROVIDER]
    assert options["device_id"] == "1" and options["npu_mem_limit"] == str(1 << 30)
    assert options["arena_extend_strategy"] == "kSameAsRequested" and options["enable_cann_graph"] == "0"


@BOTH
def test_sessions_side_by_side(mode):
    pairs = []
    for build in networks.ALL:
        data, x = made(build)
        pairs.append((support.session(data, mode), support.session(data).run(None, {"x": x}), {"x": x}))
    for _ in range(3):
        for ours, expected, feed in pairs:
            support.compare(ours.run(None, feed), expected)


@BOTH
def test_sessions_that_come_and_go(mode):
    data, x = made(networks.residual)
    expected = support.session(data).run(None, {"x": x})
    for _ in range(4):
        support.compare(support.session(data, mode).run(None, {"x": x}), expected)


def run_on_threads(count, work):
    failures = []

    def run(at):
        try:
            work(at)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@BOTH
def test_a_session_for_each_thread(mode):
    data, x = made(networks.residual)
    expected = support.session(data).run(None, {"x": x})

    def work(at):
        ours = support.session(data, mode, device_id=str(at % 2))
        for _ in range(5):
            support.compare(ours.run(None, {"x": x}), expected)

    run_on_threads(3, work)


def test_one_session_on_two_threads():
    data, x = made(networks.residual)
    feeds = [{"x": x}, {"x": x * 2}]
    cpu, ours = support.session(data), support.session(data, support.SINGLE)
    expected = [cpu.run(None, feed) for feed in feeds]

    def work(at):
        for _ in range(10):
            support.compare(ours.run(None, feeds[at]), expected[at])

    run_on_threads(2, work)


@BOTH
def test_bound_memory(mode):
    data, x = made(networks.residual)
    [expected] = support.session(data).run(None, {"x": x})
    ours = support.session(data, mode)
    binding = ours.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output(ours.get_outputs()[0].name)
    for _ in range(2):
        ours.run_with_iobinding(binding)
        support.compare(binding.copy_outputs_to_cpu(), [expected])


@BOTH
def test_memory_on_the_device(mode):
    """Inputs and outputs that stay in device memory between runs."""
    data, x = made(networks.perceptron)
    [expected] = support.session(data).run(None, {"x": x})
    ours = support.session(data, mode)
    given = onnxruntime.OrtValue.ortvalue_from_numpy(x, "cann", 0)
    assert given.device_name() == "cann"
    binding = ours.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_output(ours.get_outputs()[0].name, "cann", 0)
    ours.run_with_iobinding(binding)
    [result] = binding.get_outputs()
    assert result.device_name() == "cann"
    support.compare(binding.copy_outputs_to_cpu(), [expected])


def test_models_are_dumped_and_loaded_again(folder):
    data, x = made(networks.perceptron)
    expected = support.session(data).run(None, {"x": x})
    support.compare(support.session(data, support.GRAPH, dump_om_model="1").run(None, {"x": x}), expected)
    [dumped] = folder.glob("*.om")
    assert dumped.read_bytes()[:4] == b"IMOD"
    again = support.session(data, support.GRAPH, dump_om_model="1")
    before = dumped.stat()
    support.compare(again.run(None, {"x": x}), expected)
    assert dumped.stat().st_mtime_ns == before.st_mtime_ns and list(folder.glob("*.om")) == [dumped]
    # Loaded it was indeed: a file that is no model is refused.
    dumped.write_bytes(b"no model" * 64)
    with pytest.raises(Exception, match="aclmdlLoadFromFile"):
        support.session(data, support.GRAPH, dump_om_model="1").run(None, {"x": x})


def test_graphs_are_dumped(folder):
    data, x = made(networks.perceptron)
    support.session(data, support.GRAPH, dump_graphs="1").run(None, {"x": x})
    assert len(list(folder.glob("*.onnx"))) == 1


@pytest.mark.parametrize("options", [{"precision_mode": "allow_fp32_to_fp16"}, {"op_select_impl_mode": "high_precision"}], ids=str)
def test_precision_options_compute_in_full(options):
    data, x = made(networks.residual)
    support.check(data, {"x": x}, support.GRAPH, **options)


@BOTH
def test_limited_memory(mode):
    data, x = made(networks.residual)
    assert support.check(data, {"x": x}, mode, npu_mem_limit=str(64 << 20), arena_extend_strategy="kSameAsRequested")
    with pytest.raises(Exception, match="(?i)memory|alloc"):
        large = np.zeros((1, 3, 2048, 2048), np.float32)
        net, output, _ = networks.residual()
        wide = support.model(net.nodes, {"x": large}, [output], net.weights, opset=13)
        support.session(wide, mode, npu_mem_limit=str(1 << 20)).run(None, {"x": large})
    # What failed leaves the rest as it was.
    assert support.check(data, {"x": x}, mode)


def test_an_operator_outside_of_the_list_stays_on_the_cpu_with_subgraphs():
    """Trilu is none of the operators that the provider puts into graphs."""
    x = f32(4, 4)
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Trilu", ["a"], ["b"]), helper.make_node("Sqrt", ["b"], ["y"])]
    data = support.model(nodes, {"x": x}, ["y"])
    tasks = support.check(data, {"x": x}, support.GRAPH, support.UNOPTIMIZED, enable_cann_subgraph="1")
    assert tasks.count("graph") == 2
    # Without them the provider takes the whole graph.
    assert support.check(data, {"x": x}, support.GRAPH, support.UNOPTIMIZED).count("graph") == 1


@pytest.mark.parametrize("case", operators.REFUSED, ids=str)
def test_an_operator_that_is_not_supported_fails(case):
    data, inputs = single_node(case)
    ours = support.session(data, support.GRAPH, support.UNOPTIMIZED)
    with pytest.raises(Exception, match="aclgrphParseONNXFromMem"):
        ours.run(None, inputs)
    # The failure stays with its session.
    data, x = made(networks.perceptron)
    assert support.check(data, {"x": x}, support.GRAPH)


@pytest.mark.parametrize("options, text", [
    ({"device_id": "99"}, "Invalid device ID: 99"),
    ({"no_such_option": "1"}, "no_such_option"),
    ({"arena_extend_strategy": "none"}, "none"),
], ids=str)
def test_wrong_options_are_refused(options, text, capfd):
    data, x = made(networks.perceptron)
    with pytest.raises(Exception, match=text):
        onnxruntime.InferenceSession(data, providers=[(support.PROVIDER, options)], enable_fallback=0)
    # By itself onnxruntime prints the error, and goes on with the CPU alone.
    found = onnxruntime.InferenceSession(data, providers=[(support.PROVIDER, options), "CPUExecutionProvider"])
    assert found.get_providers() == ["CPUExecutionProvider"] and text in capfd.readouterr().out


def test_doctor_finds_every_symbol(cairn):
    text = cairn("doctor", str(support.LIBRARY))
    [line] = [line for line in text.splitlines() if support.LIBRARY.name in line]
    assert line.startswith("ok") and "0 refuse, 0 are absent" in line, line
    assert pathlib.Path(support.LIBRARY).exists()


def test_a_process_ends_cleanly_with_open_sessions(tmp_path):
    data, x = made(networks.residual)
    (tmp_path / "net.onnx").write_bytes(data)
    np.save(tmp_path / "x.npy", x)
    script = f"""
import numpy, onnxruntime
onnxruntime.set_default_logger_severity(3)
sessions = [
    onnxruntime.InferenceSession("net.onnx", providers=[({support.PROVIDER!r}, {{"enable_cann_graph": mode}})])
    for mode in "01"
]
print([one.run(None, {{"x": numpy.load("x.npy")}})[0].shape for one in sessions])
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[(2, 10), (2, 10)]\n", "")
