"""Compares the calls that programs made with PyTorch on the CPU, where references.txt has the function."""

import json
import keyword
from pathlib import Path

import torch

import formulas
from formulas import TYPES

HERE = Path(__file__).resolve().parent
CLOSE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-9, torch.complex64: 1e-4, torch.complex128: 1e-9, torch.complex32: 4e-3}


class NotNoted(Exception):
    """The recorder wrote no values: the tensor is too large, or its memory too small."""


def tensor(noted, exact=False):
    """A tensor as noted; real and complex ones in the widest type, unless `exact`."""
    dtype = TYPES[noted["tensor"]]
    if 0 in noted["sizes"]:
        made = torch.empty(noted["sizes"], dtype=dtype)
    elif noted["data"] is None:
        raise NotNoted
    else:
        made = torch.frombuffer(bytearray.fromhex(noted["data"]), dtype=dtype).as_strided(noted["sizes"], noted["strides"])
    if exact:
        return made
    return made.double() if dtype.is_floating_point else made.to(torch.complex128) if dtype.is_complex else made.clone()


def value(noted):
    if isinstance(noted, dict) and "scalar" in noted:
        one = torch.frombuffer(bytearray.fromhex(noted["data"]), dtype=TYPES[noted["scalar"]])[0]
        return one.item()
    if isinstance(noted, dict):
        return tensor(noted)
    if isinstance(noted, list):
        return [value(one) for one in noted]
    if isinstance(noted, str):
        try:
            return float(noted)
        except ValueError:
            return noted
    return noted


def table():
    rows = {}
    for line in (HERE / "references.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, outputs, expression = (part.strip() for part in line.split(";", 2))
            rows[name] = (outputs, compile(expression, name, "eval"))
    return rows


def output_names(function, signature, said, arguments):
    if said:
        named = [next((one for one in name.split("|") if one in arguments), None) for name in map(str.strip, said.split(","))]
        if None not in named:
            return named
    names = [name for kind, name in signature if kind.strip() in ("aclTensor *", "aclTensorList *")]
    if function.startswith("aclnnForeach") and not names:
        names = [name for _, name in signature if name == "out"] or [signature[0][1]]
    if not names:
        names = [name for _, name in signature if name.endswith("Ref")] or [signature[0][1]]
    return names


def differs(found, expected):
    """How an output differs from what it should be; nothing when it does not."""
    dtype = found.dtype
    if expected is None:
        return None
    expected = torch.as_tensor(expected).detach()
    if list(found.shape) != list(expected.shape):
        if found.numel() != expected.numel():
            return f"sizes {list(found.shape)}, expected {list(expected.shape)}"
        expected = expected.reshape(found.shape)
    if dtype in CLOSE:
        wanted = expected.to(torch.complex128 if dtype.is_complex else torch.float64)
        if dtype == torch.float16:
            wanted = torch.where(wanted.abs() > 65519, wanted.sign() * torch.inf, wanted)
        have = found.to(wanted.dtype)
        far = ~torch.isclose(have, wanted, rtol=CLOSE[dtype], atol=CLOSE[dtype], equal_nan=True)
        return f"{far.sum()} of {far.numel()}: {have[far][:4].tolist()}, expected {wanted[far][:4].tolist()}" if far.any() else None
    wanted = expected.to(dtype)
    far = found != wanted
    return f"{far.sum()} of {far.numel()}: {found[far][:4].tolist()}, expected {wanted[far][:4].tolist()}" if far.any() else None


def check_call(function, before, after, signatures, rows):
    """`verified`, `no reference`, or what is wrong."""
    signature, name = signatures[function], function.removeprefix("aclnn")
    base = name.removeprefix("Inplace") if name not in rows else name
    if not name.startswith("Foreach") and base not in rows:
        return "no reference"
    arguments = {f"{argument}_" if keyword.iskeyword(argument) else argument: value(noted) for (_, argument), noted in zip(signature, before)}
    if base != name:
        for (_, argument) in signature:
            if argument.endswith("Ref"):
                arguments[argument.removesuffix("Ref")] = arguments[argument]
    if name.startswith("Foreach"):
        said, expected = "", formulas.foreach(name.removeprefix("Foreach"), arguments)
        expected = None if expected is None else (expected,)
    else:
        said, expression = rows[base]
        space = vars(formulas) | arguments | {"after": {argument: value(noted) for (_, argument), noted in zip(signature, after)}}
        expected = eval(expression, space)  # noqa: S307
    if expected is None:
        return "no reference"
    if isinstance(expected, bool):
        return "verified" if expected else "the outputs are not what they should be"
    names = output_names(function, signature, said, dict.fromkeys(argument for _, argument in signature))
    if torch.is_tensor(expected) or isinstance(expected, list):
        expected = (expected,)
    positions = {argument: i for i, (_, argument) in enumerate(signature)}
    wrong = []
    for output, one in zip(names, expected):
        noted = after[positions[output]]
        if noted is None or one is None:
            continue
        pairs = zip(noted, one) if isinstance(noted, list) else [(noted, one)]
        for got, want in pairs:
            said = differs(tensor(got, exact=True), want)
            if said:
                wrong.append(f"{output}: {said}")
    return "; ".join(wrong) or "verified"


def check_program(calls, signatures, rows):
    """What each call of a program came to, by function."""
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
            except NotNoted:
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
