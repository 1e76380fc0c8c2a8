"""Operators that Cairn does not have: what a torch user reads."""

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


def test_absent_operators_are_named():
    support.run_script(ABSENT)
