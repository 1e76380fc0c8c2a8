"""Counts what of PyTorch's own samples works on `npu`: what op_db.py and module_db.py share.

A script prints a line of JSON for each entry: how many of its samples passed, had a wrong value, met an operator that is absent,
were refused by torch_npu itself, or failed otherwise; what torch_npu answered on the CPU; and the first reasons. `entries` starts
the script again after an entry that ends it.
"""

import contextlib
import faulthandler
import json
import os
import re
import sys
import tempfile
import warnings

import torch
import torch_npu  # noqa: F401

KINDS = ("passed", "wrong", "failed", "absent", "refused")
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
TOLERANCE |= {torch.complex64: 1e-5, torch.complex128: 1e-5}

# Seconds that one entry may take.
LIMIT = 120

# Texts of torch_npu for what it refuses on every device, and for operators that are absent.
REFUSED = ("OPS feature not supported",)
ABSENT = ("not in libopapi", "not found", "Could not run", "not supported", "not implemented", "no operator", "100024")

# The prefix of torch_npu's errors: time, process and code.
ERROR_PREFIX = r"\[ERROR\] \S+ \(PID.*?\) (ERR\d+ )?"


def new_entry(name):
    """An entry whose counts are all 0."""
    return {"name": name} | dict.fromkeys(KINDS, 0) | {"cpu": [], "notes": []}


def passes(entry):
    """Whether every sample passed."""
    return bool(entry["passed"]) and not any(entry[kind] for kind in KINDS[1:])


def passes_but_for_torch_npu(entry):
    """Whether every sample passed but those that torch_npu itself refuses, or answers in another form than PyTorch."""
    return bool(entry["passed"]) and not any(entry[kind] for kind in ("wrong", "failed", "absent"))


def tensors(value):
    """The tensors in a value, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in tensors(one)]
    if isinstance(value, dict):
        return [tensor for one in value.values() for tensor in tensors(one)]
    return []


def compare(npu, cpu, rtol, atol=0, values=True):
    """Fails where a result differs by more than the tolerance."""
    if npu.dtype == torch.float32 and cpu.dtype == torch.float64:
        cpu = cpu.float()  # torch_npu makes doubles floats
    if npu.dtype == torch.complex64 and cpu.dtype == torch.complex128:
        cpu = cpu.to(torch.complex64)
    assert npu.dtype == cpu.dtype and npu.shape == cpu.shape, f"{npu.dtype}{list(npu.shape)}, {cpu.dtype}{list(cpu.shape)} on cpu"
    if values:
        torch.testing.assert_close(npu.cpu().detach(), cpu.detach(), rtol=rtol, atol=max(rtol, atol), equal_nan=True)


def moved(value, device):
    """A copy of a value on a device: tensors with the same strides, as new leaves; names of devices are replaced."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_contiguous():
            return value.detach().to(device, copy=True).requires_grad_(value.requires_grad)
        storage = torch.empty(0, dtype=value.dtype).set_(value.detach().untyped_storage()).to(device, copy=True)
        strided = storage.as_strided(value.shape, value.stride(), value.storage_offset())
        return strided.detach().requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) or value in ("cpu", "cpu:0"):
        return device
    if type(value) in (list, tuple):
        return type(value)(moved(one, device) for one in value)
    if isinstance(value, dict):
        return {key: moved(one, device) for key, one in value.items()}
    return value


def note(entry, where, error, torch_npu_texts=()):
    """Counts a sample that did not pass; `torch_npu_texts` are error texts where torch_npu differs from PyTorch by itself."""
    text = " ".join(str(error).split())
    if any(word in text for word in (*REFUSED, *torch_npu_texts)):
        kind = "refused"
    elif isinstance(error, AssertionError):
        kind = "wrong"
    else:
        kind = "absent" if any(word in text for word in ABSENT) else "failed"
    entry[kind] += 1
    text = f"{kind} {where}: {re.sub(ERROR_PREFIX, '', text)[:500]}"
    if len(entry["notes"]) < 6 and text not in entry["notes"]:
        entry["notes"].append(text)


def device_works():
    """Whether the device still works: an operator that failed in a task stops its stream for good."""
    try:
        torch.npu.synchronize()
        return torch.ones(1, device="npu").item() == 1
    except Exception:
        return False


@contextlib.contextmanager
def answered_on_cpu(entry):
    """Captures what the libraries write to the standard error, and finds in it the operators that torch_npu computes on the CPU."""
    with tempfile.TemporaryFile() as file:
        original = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(original, 2)
            os.close(original)
            file.seek(0)
            text = file.read().decode(errors="replace")
            entry["cpu"] = sorted(set(re.findall(r"The operator '(\S+)' is not currently supported on the NPU backend", text)))


def main(check, all_names):
    """Prints a line for each name on the command line, else for all; ends early with 3 when the device does not work any more."""
    warnings.simplefilter("ignore")
    torch.set_warn_always(True)
    standard_error = os.fdopen(os.dup(2), "w")
    for name in sys.argv[1:] or all_names:
        fallbacks = {}
        faulthandler.dump_traceback_later(LIMIT, exit=True, file=standard_error)
        with answered_on_cpu(fallbacks):
            entry = check(name)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(entry | fallbacks), flush=True)
        if not device_works():
            raise SystemExit(3)


def entries(start, names):
    """What a script says of each name. `start` runs it with names; where it ends early, it begins again after that name."""
    report, remaining = {}, list(names)
    while remaining:
        run = start(remaining)
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        report |= {entry["name"]: entry for entry in lines}
        remaining = [name for name in remaining if name not in report]
        if run.returncode == 0:
            break
        if run.returncode != 3 and remaining:
            cause = "hang" if "Timeout (" in run.stderr else f"crash ({run.returncode})"
            report[remaining[0]] = new_entry(remaining[0]) | {"failed": 1, "notes": [f"{cause}: {run.stderr[-1500:]}"]}
            remaining.pop(0)
    return report
