"""Operators and functions that Cairn does not have: what a torch user reads."""

import support

ABSENT = """
import os, re
import torch, torch_npu
import cases

# torch_npu finds no aclnn function for these and asks for an operator by its name, which fails with a text.
CASES = {
    "SignBitsPack": lambda x: torch_npu.npu_sign_bits_pack(x.flatten(), 2),
}

# The aclnn functions that the text names, where torch_npu looks for one first.
FUNCTIONS = {}

def case(name, mode):
    os.environ["TASK_QUEUE_ENABLE"] = mode
    text = cases.error_of(lambda: CASES[name](torch.ones(4, 4, device="npu")))
    assert re.search(rf"E100024: .*Cairn has no operator {name}\\b.*docs/operators.md", text), text
    functions = FUNCTIONS.get(name, [])
    assert all(re.search(rf"nor .*{function}\\b.*torch_npu", text) for function in functions), text

cases.run([(f"{name} {mode}", lambda name=name, mode=mode: case(name, mode)) for name in CASES for mode in "012"])
"""

REFUSED = """
import torch, torch_npu
import cases

numbers = lambda *sizes: torch.zeros(*sizes, dtype=torch.long).npu()
call = lambda: torch_npu.npu_advance_step_flashattn(*(numbers(2), numbers(2, 1), numbers(2), numbers(2), numbers(2), numbers(2, 4)), 2, 2, 16)
text = cases.error_of(call)
assert "Cairn refuses this function: its documents have no usable formula" in text, text
"""

FUNCTIONS = """
import os, pathlib, sys
import torch, torch_npu
import cases

x = torch.ones(4, device="npu")

def capture():
    with torch.npu.graph(torch.npu.NPUGraph()):
        x + 1

LACKING = {
    "aclmdlRICaptureBegin": capture,
    "aclrtGetDeviceUtilizationRate": torch.npu.utilization,
    "aclrtSubscribeReport": lambda: torch_npu.npu._subscribe_report(torch.npu.current_stream()),
}
for name, call in LACKING.items():
    text = cases.error_of(call)
    assert f"\\nCairn lacks {name}: " in text, text
half = torch.ones(4, 64, dtype=torch.float16, device="npu")
text = cases.error_of(lambda: torch_npu.npu_dynamic_quant(half))
assert "Cairn lacks aclnnDynamicQuant: " in text, text
assert not torch.npu.is_current_stream_capturing()
assert torch.equal((x + 1).cpu(), torch.full((4,), 2.0))

# The profiler also makes a folder where it is.
os.chdir(sys.argv[1])
handler = torch_npu.profiler.tensorboard_trace_handler(sys.argv[1])
with torch_npu.profiler.profile(on_trace_ready=handler):
    x + 1
assert list(pathlib.Path(sys.argv[1]).glob("*/ASCEND_PROFILER_OUTPUT/trace_view.json"))
"""


def test_functions_that_are_not_there_say_so_in_the_first_line(tmp_path):
    support.run_script(FUNCTIONS, arguments=[str(tmp_path)])


def test_functions_without_usable_documentation_say_so():
    support.run_script(REFUSED)


def test_absent_operators_are_named():
    support.run_script(ABSENT)
