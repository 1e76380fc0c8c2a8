"""PyTorch's own samples of its operators, on `npu` and on `cpu`: what passes, fails, is absent, is refused by torch_npu.

    python op_db.py [NAME ...]        the operators of these names, or all; a line of JSON for each
"""

import json
import os
import sys
import types
import unittest
import warnings

# Without torch_npu's queue, an absent operator is an error of its own call and of no other.
os.environ["TASK_QUEUE_ENABLE"] = "0"

import depth  # noqa: E402
import torch  # noqa: E402
import torch_npu  # noqa: E402, F401

# The samples come with PyTorch's test suite, which wants this package for nothing but a base class.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest")).TestCase = unittest.TestCase
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

REAL = (torch.float32, torch.float16, torch.bfloat16)
ALSO = (torch.float16, torch.bfloat16, torch.int64, torch.bool)
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
# How many samples in float, and in each other type.
SAMPLES, SAMPLES_OF_OTHERS = (6 if depth.DEEP else 2), 3

# Only sizes and types can be compared: the values are random, or whatever memory held.
RANDOM = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "normal", "uniform",
    "cauchy", "exponential", "geometric", "log_normal", "bernoulli", "multinomial", "rand_like", "randn", "randn_like",
    "randint", "randint_like", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
}  # fmt: skip

# Which of several equal elements comes first is nobody's promise: places are not compared.
PLACES = {"topk": 1, "sort": 1, "argsort": 0}

# What the issue names: each has to pass.
REQUIRED = set("""
    zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full fill zero_ clone contiguous to float half
    bfloat16 long int bool arange cat stack slice narrow select transpose permute reshape view expand repeat where
    masked_fill tril triu index_select gather scatter scatter_add nn.functional.embedding __getitem__ add sub rsub mul
    div pow neg abs exp log sqrt rsqrt sigmoid tanh nn.functional.relu nn.functional.gelu nn.functional.silu clamp eq ne
    gt ge lt le logical_and logical_or logical_xor logical_not isfinite isnan sum mean max min amax amin any all argmax
    var mm matmul bmm addmm softmax log_softmax nn.functional.layer_norm nn.functional.nll_loss
    nn.functional.cross_entropy nn.functional.mse_loss nn.functional.dropout normal uniform topk sort cumsum
    nn.functional.linear
""".split())  # fmt: skip

# Sums of products are added in another order.
PRODUCTS = {"mm", "matmul", "bmm", "addmm", "nn.functional.linear"}

# Of a single element, the CPU's gradient is what rounding leaves of 0, some hundred times larger; ours is 0.
# aclnnGelu has the tangent's kind alone, which is that far from the exact one; its slope twice as far.
NOISE = {"nn.functional.layer_norm": 1e-4, "nn.functional.gelu": 1e-3}

# torch_npu's own words for what it does not do on any device.
REFUSED = "OPS feature not supported"
ABSENT = ("not in libopapi", "not found", "Could not run", "not supported", "not implemented", "no operator", "100024")


def some(samples, count):
    """At most `count` of the samples, spread evenly."""
    samples = list(samples)
    step = max(1, -(-len(samples) // count))
    return samples[::step]


def tensors(value):
    """The tensors in a value, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in tensors(one)]
    if isinstance(value, dict):
        return [tensor for one in value.values() for tensor in tensors(one)]
    return []


def moved(value):
    """The same on the device, also what asks for a device by name."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("npu").requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) or value == "cpu":
        return "npu"
    return value


def run(op, sample):
    """The results of one sample and the gradients of its inputs."""
    result = op(sample.input, *sample.args, **sample.kwargs)
    found = tensors(result)
    leaves = [leaf for leaf in tensors([sample.input, sample.args, sample.kwargs]) if leaf.requires_grad and leaf.is_leaf]
    outputs = [output for output in found if output.requires_grad]
    gradients = []
    if leaves and outputs:
        seeds = [torch.ones_like(output) for output in outputs]
        gradients = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
        gradients = [gradient for gradient in gradients if gradient is not None]
    return found + gradients, result


def tolerance(name, dtype, result):
    """How far a result may be from PyTorch's, relative to it."""
    rtol = max(TOLERANCE.get(dtype, 0), TOLERANCE.get(result.dtype, 0))
    return max(rtol, 1e-4) if rtol and (name in PRODUCTS or name not in REQUIRED) else rtol


def compare(op, dtype, expected, actual):
    """Fails where results differ by more than the tolerance."""
    torch.npu.synchronize()
    assert len(expected) == len(actual), f"{len(actual)} results, {len(expected)} on cpu"
    for at, (cpu, npu) in enumerate(zip(expected, actual)):
        if cpu.dtype == torch.float64 and npu.dtype == torch.float32:
            cpu = cpu.float()  # torch_npu makes doubles floats
        assert npu.dtype == cpu.dtype and npu.shape == cpu.shape, f"{npu.dtype}{list(npu.shape)}, {cpu.dtype}{list(cpu.shape)} on cpu"
        if op.name in RANDOM or PLACES.get(op.name) == at:
            continue
        rtol = tolerance(op.name, dtype, cpu)
        atol = max(rtol, NOISE.get(op.name, 0) if cpu.is_floating_point() else 0)
        torch.testing.assert_close(npu.cpu().detach(), cpu.detach(), rtol=rtol, atol=atol, equal_nan=True)


def check(op, dtype, counts, notes):
    """Runs samples of one operator in one type."""
    grad = dtype in REAL and op.supports_autograd and dtype == torch.float32
    try:
        samples = some(op.sample_inputs("cpu", dtype, requires_grad=grad), SAMPLES if dtype == torch.float32 else SAMPLES_OF_OTHERS)
    except Exception as error:  # PyTorch has no such samples
        notes.append(f"{op.name} {dtype}: no samples: {error}")
        return
    for sample in samples:
        try:
            expected, plain = run(op, sample)
        except Exception:
            continue
        try:
            actual, result = run(op, sample.transform(moved))
            compare(op, dtype, expected, actual)
            if not expected:
                assert plain == result, f"{result}, {plain} on cpu"
            counts["passed"] += 1
        except Exception as error:
            text = " ".join(str(error).split())
            kind = "refused" if REFUSED in text else "absent" if any(word in text for word in ABSENT) else "failed"
            counts[kind] += 1
            if len(notes) < 4:
                notes.append(f"{kind} {str(dtype)[6:]}: {text[:300]}")


def is_well():
    """Whether the device still works: an operator that failed in a task stops its stream for good."""
    try:
        torch.npu.synchronize()
        return torch.ones(1, device="npu").item() == 1
    except Exception:
        return False


def main():
    """Prints a line of JSON for each name; ends early with 3 when the device does not work any more."""
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or dict.fromkeys(op.name for op in op_db):
        entry = {"name": name, "passed": 0, "failed": 0, "absent": 0, "refused": 0, "notes": []}
        for op in op_db:
            if op.name == name:
                for dtype in [torch.float32] + (list(ALSO) if depth.DEEP and name in REQUIRED else []):
                    if dtype in op.supported_dtypes("cpu"):
                        check(op, dtype, entry, entry["notes"])
        print(json.dumps(entry), flush=True)
        if not is_well():
            raise SystemExit(3)


if __name__ == "__main__":
    main()
