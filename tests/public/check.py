"""Checks recorded aclnn calls against PyTorch on the CPU, where references.txt has the function."""

import json
import keyword
from pathlib import Path

import torch

import formulas
from formulas import TYPES

HERE = Path(__file__).resolve().parent
TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-9, torch.complex64: 1e-4, torch.complex128: 1e-9, torch.complex32: 4e-3}


class NotRecorded(Exception):
    """The recorder wrote no values: the tensor is too large, or its memory too small."""


def tensor(recorded, exact=False):
    """A recorded tensor; real and complex ones as float64 and complex128, unless `exact`."""
    dtype = TYPES[recorded["tensor"]]
    if 0 in recorded["sizes"]:
        result = torch.empty(recorded["sizes"], dtype=dtype)
    elif recorded["data"] is None:
        raise NotRecorded
    else:
        result = torch.frombuffer(bytearray.fromhex(recorded["data"]), dtype=dtype).as_strided(recorded["sizes"], recorded["strides"])
    if exact:
        return result
    return result.double() if dtype.is_floating_point else result.to(torch.complex128) if dtype.is_complex else result.clone()


def value(recorded):
    if isinstance(recorded, dict) and "scalar" in recorded:
        one = torch.frombuffer(bytearray.fromhex(recorded["data"]), dtype=TYPES[recorded["scalar"]])[0]
        return one.item()
    if isinstance(recorded, dict):
        return tensor(recorded)
    if isinstance(recorded, list):
        return [value(one) for one in recorded]
    if isinstance(recorded, str):
        try:
            return float(recorded)
        except ValueError:
            return recorded
    return recorded


def reference_table():
    rows = {}
    for line in (HERE / "references.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, outputs, expression = (part.strip() for part in line.split(";", 2))
            rows[name] = (outputs, compile(expression, name, "eval"))
    return rows


def output_names(function, signature, declared_outputs, arguments):
    if declared_outputs:
        named = [next((one for one in name.split("|") if one in arguments), None) for name in map(str.strip, declared_outputs.split(","))]
        if None not in named:
            return named
    names = [name for kind, name in signature if kind.strip() in ("aclTensor *", "aclTensorList *")]
    if function.startswith("aclnnForeach") and not names:
        names = [name for _, name in signature if name == "out"] or [signature[0][1]]
    if not names:
        names = [name for _, name in signature if name.endswith("Ref")] or [signature[0][1]]
    return names


def difference_of(actual, expected):
    """How an output differs from the expected one; None when it does not."""
    dtype = actual.dtype
    if expected is None:
        return None
    expected = torch.as_tensor(expected).detach()
    if list(actual.shape) != list(expected.shape):
        if actual.numel() != expected.numel():
            return f"sizes {list(actual.shape)}, expected {list(expected.shape)}"
        expected = expected.reshape(actual.shape)
    if dtype in TOLERANCE:
        expected = expected.to(torch.complex128 if dtype.is_complex else torch.float64)
        if dtype == torch.float16:
            expected = torch.where(expected.abs() > 65519, expected.sign() * torch.inf, expected)
        actual = actual.to(expected.dtype)
        mismatch = ~torch.isclose(actual, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], equal_nan=True)
        return f"{mismatch.sum()} of {mismatch.numel()}: {actual[mismatch][:4].tolist()}, expected {expected[mismatch][:4].tolist()}" if mismatch.any() else None
    expected = expected.to(dtype)
    mismatch = actual != expected
    return f"{mismatch.sum()} of {mismatch.numel()}: {actual[mismatch][:4].tolist()}, expected {expected[mismatch][:4].tolist()}" if mismatch.any() else None


def check_call(function, before, after, signatures, rows):
    """`verified`, `no reference`, or how the outputs of one call differ."""
    signature, name = signatures[function], function.removeprefix("aclnn")
    base = name.removeprefix("Inplace") if name not in rows else name
    if not name.startswith("Foreach") and base not in rows:
        return "no reference"
    arguments = {f"{argument}_" if keyword.iskeyword(argument) else argument: value(recorded) for (_, argument), recorded in zip(signature, before)}
    if base != name:
        for (_, argument) in signature:
            if argument.endswith("Ref"):
                arguments[argument.removesuffix("Ref")] = arguments[argument]
    if name.startswith("Foreach"):
        declared_outputs, expected = "", formulas.foreach(name.removeprefix("Foreach"), arguments)
        expected = None if expected is None else (expected,)
    else:
        declared_outputs, expression = rows[base]
        namespace = vars(formulas) | arguments | {"after": {argument: value(recorded) for (_, argument), recorded in zip(signature, after)}}
        expected = eval(expression, namespace)  # noqa: S307
    if expected is None:
        return "no reference"
    if isinstance(expected, bool):
        return "verified" if expected else "the outputs do not meet the condition"
    names = output_names(function, signature, declared_outputs, dict.fromkeys(argument for _, argument in signature))
    if torch.is_tensor(expected) or isinstance(expected, list):
        expected = (expected,)
    positions = {argument: i for i, (_, argument) in enumerate(signature)}
    differences = []
    for output, one in zip(names, expected):
        recorded = after[positions[output]]
        if recorded is None or one is None:
            continue
        pairs = zip(recorded, one) if isinstance(recorded, list) else [(recorded, one)]
        for actual, expected_one in pairs:
            difference = difference_of(tensor(actual, exact=True), expected_one)
            if difference:
                differences.append(f"{output}: {difference}")
    return "; ".join(differences) or "verified"


def check_program(calls, signatures, rows):
    """The result of `check_call` for each call of a program, with its function."""
    planned, results = {}, []
    for call in calls:
        function = call["function"]
        if call["code"]:
            continue
        if call["event"] == "planned":
            planned[function] = call["values"]
        elif function in planned:
            try:
                result = check_call(function, planned[function], call["values"], signatures, rows)
            except NotRecorded:
                result = "no reference"
            except Exception as failure:  # noqa: BLE001
                result = f"the reference failed: {type(failure).__name__}: {str(failure)[:300]}"
            results.append((function, result))
    return results


def calls_of(folder):
    path = folder / "calls.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(errors="replace").splitlines() if line.endswith("}")]
