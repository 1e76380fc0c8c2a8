"""TORCH-6: the execution of every operator refuses a tensor with a null address, with a code; GetWorkspaceSize needs no address.

torch_npu itself refuses to make such a tensor, so this calls the operators as torch_npu does: each function that the toolkit's
headers declare, in C types, by name.
"""

import ctypes
import re

import builds
from support import ACL

FLOAT, INT64, BOOL, ND = 0, 9, 12, 2
NULL_POINTER, INVALID = 161001, 161002

DECLARATION = re.compile(r"aclnnStatus (aclnn\w+)GetWorkspaceSize\(\s*([^;]*?)\s*uint64_t \*workspaceSize,\s+aclOpExecutor", re.S)
NUMBERS = {
    "int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "int": ctypes.c_int32, "aclDataType": ctypes.c_int32, "int8_t": ctypes.c_int8, "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64, "double": ctypes.c_double, "float": ctypes.c_float, "bool": ctypes.c_bool,
}  # fmt: skip


def declared_operators():
    """Each operator with the C types of its arguments."""
    found = {}
    for header in sorted((builds.home() / "include/aclnnop").glob("*.h")):
        for name, arguments in DECLARATION.findall(header.read_text()):
            kinds = [" ".join(one.split()[:-1]).replace("const ", "") + "*" * ("*" in one) for one in arguments.split(",") if one.strip()]
            found[name] = kinds
    return found


def create(function, *arguments):
    maker = getattr(ACL, function)
    maker.restype = ctypes.c_void_p
    handle = maker(*arguments)
    assert handle, function
    return ctypes.c_void_p(handle)


def tensor(sizes, dtype):
    """A tensor without memory."""
    dims = (ctypes.c_int64 * len(sizes))(*sizes)
    strides = (ctypes.c_int64 * len(sizes))(*(0 for _ in sizes))
    step = 1
    for at in reversed(range(len(sizes))):
        strides[at], step = step, step * sizes[at]
    count = ctypes.c_uint64(len(sizes))
    return create("aclCreateTensor", dims, count, dtype, strides, ctypes.c_int64(0), ND, dims, count, None)


def argument(kind, dims, dtype):
    """A value of a C type, and how to destroy it."""
    kind = kind.replace(" ", "")
    if kind in NUMBERS:
        return NUMBERS[kind](0), None
    if kind == "aclTensor*":
        return tensor(dims, dtype), "aclDestroyTensor"
    if kind == "aclTensorList*":
        members = (ctypes.c_void_p * 2)(*(tensor(dims, dtype) for _ in range(2)))
        return create("aclCreateTensorList", members, ctypes.c_uint64(2)), "aclDestroyTensorList"
    if kind == "aclScalar*":
        return create("aclCreateScalar", ctypes.byref(ctypes.c_float(1)), FLOAT), "aclDestroyScalar"
    if kind == "aclScalarList*":
        members = (ctypes.c_void_p * 2)(*(create("aclCreateScalar", ctypes.byref(ctypes.c_float(1)), FLOAT) for _ in range(2)))
        return create("aclCreateScalarList", members, ctypes.c_uint64(2)), "aclDestroyScalarList"
    if kind in ("aclIntArray*", "aclFloatArray*", "aclBoolArray*"):
        element = {"aclIntArray*": ctypes.c_int64, "aclFloatArray*": ctypes.c_float, "aclBoolArray*": ctypes.c_bool}[kind]
        return create("aclCreate" + kind[3:-1], (element * 1)(0), ctypes.c_uint64(1)), "aclDestroy" + kind[3:-1]
    assert kind == "char*", kind
    return ctypes.c_char_p(b"none"), None


ACL.aclGetRecentErrMsg.restype = ctypes.c_char_p


def both_phases(name, kinds, dims, dtype):
    """The codes of the two phases with tensors of these sizes and type alone, and the last text; the second code is None after a
    failure of the first."""
    values = [argument(kind, dims, dtype) for kind in kinds]
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    function = getattr(ACL, name + "GetWorkspaceSize")
    codes = [function(*(value for value, _ in values), ctypes.byref(size), ctypes.byref(executor)), None]
    assert (codes[0] == 0) == (executor.value is not None), (name, codes)
    if codes[0] == 0:
        # The address of the workspace does not matter: those of the tensors are checked first.
        codes[1] = getattr(ACL, name)(ctypes.c_void_p(1 << 20), size, executor, None)
    text = (ACL.aclGetRecentErrMsg() or b"").decode()
    for value, destroy in values:
        if destroy:
            getattr(ACL, destroy)(value)
    return codes, text


def test_torch_6_null_addresses_are_refused_by_every_operator():
    assert ACL.aclrtSetDevice(0) == 0
    operators = {name: kinds for name, kinds in declared_operators().items() if any("aclTensor" in kind for kind in kinds)}
    assert len(operators) > 400 and "aclnnAdd" in operators
    refused_for_address = set()
    for name, kinds in operators.items():
        for dims in ((4, 4), (4,), (2, 4, 4), (2, 4, 4, 4)):
            for dtype in (FLOAT, INT64, BOOL):
                codes, text = both_phases(name, kinds, dims, dtype)
                assert codes in ([INVALID, None], [0, NULL_POINTER]), (name, dims, dtype, codes, text)
                assert name in text, (name, text)
                if codes[0] == 0:
                    assert re.search(r"the address of \w+ is null", text), (name, text)
                    refused_for_address.add(name)
    # Most accept one of these tensors but for its address; others refuse sizes first.
    assert len(refused_for_address) > 0.5 * len(operators), sorted(operators.keys() - refused_for_address)


def test_torch_6_null_tensors_are_refused():
    """A null tensor is refused where one is required; unless another argument is refused before."""
    codes = {}
    for name, kinds in declared_operators().items():
        size, executor = ctypes.c_uint64(), ctypes.c_void_p(1)
        null_arguments = [NUMBERS[kind](0) if (kind := one.replace(" ", "")) in NUMBERS else None for one in kinds]
        if any("aclTensor" in kind for kind in kinds):
            code = getattr(ACL, name + "GetWorkspaceSize")(*null_arguments, ctypes.byref(size), ctypes.byref(executor))
            assert code in (NULL_POINTER, INVALID) and executor.value is None, (name, code)
            if "Cairn refuses this function" not in (ACL.aclGetRecentErrMsg() or b"").decode():
                codes[name] = code
    others = sorted(name for name, code in codes.items() if code == INVALID)
    assert len(others) < 0.05 * len(codes), others
