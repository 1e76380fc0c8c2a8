"""PyTorch's own samples of its operators, on `npu` and on `cpu`: what passes, fails, is absent, is refused by torch_npu.

    python op_db.py [NAME ...]        the entries of these names, or all; a line of JSON for each

An entry is an operator or a variant of one: `max.binary`, `max.reduction_no_dim`. Each is asked in `float32` with gradients, and with
CAIRN_TESTS=deep in a half and in an integer type too, and with samples whose strides have gaps.
"""

import os
import pathlib
import sys
import types
import unittest

# Without torch_npu's queue, an absent operator is an error of its own call and of no other.
os.environ["TASK_QUEUE_ENABLE"] = "0"

import census  # noqa: E402
import depth  # noqa: E402
import torch  # noqa: E402

# The samples come with PyTorch's test suite, which wants this package for nothing but a base class.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest")).TestCase = unittest.TestCase
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

OTHER_TYPES = (torch.float16, torch.int64)
OTHER_TYPES_OF_REQUIRED = (torch.float16, torch.bfloat16, torch.int64, torch.bool)
# How many samples in float, and in each other type.
SAMPLES, SAMPLES_OF_OTHER_TYPES = (8 if depth.DEEP else 2), 4

# Only sizes and types can be compared: the values are random, or whatever memory held.
RANDOM = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "normal", "uniform",
    "cauchy", "exponential", "geometric", "log_normal", "bernoulli", "multinomial", "rand_like", "randn", "randn_like",
    "randint", "randint_like", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "pca_lowrank", "svd_lowrank",
}  # fmt: skip

# Which of several equal elements comes first is not specified: this output, the indices, is not compared.
INDEX_OUTPUTS = {"topk": 1, "sort": 1, "argsort": 0, "kthvalue": 1}

# Singular vectors are defined up to their sign: compared is what PyTorch's own tests compute from the results, which does not depend on it.
SIGN_FREE = {"svd", "linalg.svd"}

# Where torch_npu answers in another form than PyTorch, whatever the device computes: parts of the error's text.
OWN_MASK = "torch.int8["  # positions of the maxima, as bits
OWN_INDEX = "torch.int32["
OWN_STATISTICS = "torch.float32["  # mean and variance, in other sizes, and in float32 for half inputs
TORCH_NPU_TEXTS = {
    "nn.functional.max_pool1d": [OWN_MASK, "same number of values"],
    "nn.functional.max_pool2d": [OWN_MASK],
    "nn.functional.max_pool3d": [OWN_INDEX],
    "nn.functional.adaptive_max_pool3d": [OWN_INDEX],
    "native_batch_norm": [OWN_STATISTICS],
    "_native_batch_norm_legit": [OWN_STATISTICS],
    "native_layer_norm": [OWN_STATISTICS],
    # No gradient of the target.
    "nn.functional.binary_cross_entropy_with_logits": ["2 results, 3 on cpu"],
    "tensor_split": ["to be on cpu"],
    "matmul": ["the unspecified dimension size -1"],
    "linalg.pinv": ["the unspecified dimension size -1"],
    "__rmatmul__": ["the unspecified dimension size -1"],
    "stft": ["not differentiable with respect to argument 'window'"],
    # Its mask is one of bits.
    "native_dropout_backward": ["not close", "torch.int64["],
}

# What has to pass in every type.
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

# The gradient of a layer norm of one element is 0; the CPU's is a rounding error, ours is 0.
# aclnnGelu has the tanh form alone, which is that far from the exact one; its derivative twice as far.
ATOL = {"nn.functional.layer_norm": 1e-4, "nn.functional.gelu": 1e-3}


def entry_name(op):
    """The name of an entry, with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def subset(samples, count):
    """At most `count` of the samples, spread evenly."""
    samples = list(samples)
    step = max(1, -(-len(samples) // count))
    return samples[::step]


def run(op, sample):
    """The results of one sample and the gradients of its inputs."""
    torch.manual_seed(0)
    result = op(sample.input, *sample.args, **sample.kwargs)
    outputs = census.tensors(sample.output_process_fn_grad(result))
    found = outputs if op.name in SIGN_FREE else census.tensors(result)
    leaves = census.tensors([sample.input, sample.args, sample.kwargs])
    leaves = [leaf for leaf in leaves if leaf.requires_grad and leaf.is_leaf]
    outputs = [output for output in outputs if output.requires_grad]
    gradients = []
    if leaves and outputs:
        output_grads = [torch.ones_like(output) for output in outputs]
        gradients = torch.autograd.grad(outputs, leaves, output_grads, allow_unused=True)
        gradients = [gradient for gradient in gradients if gradient is not None]
    return found + gradients, result


def tolerance(name, dtype, result):
    """How far a result may be from PyTorch's, relative to it."""
    rtol = max(census.TOLERANCE.get(dtype, 0), census.TOLERANCE.get(result.dtype, 0))
    return max(rtol, 1e-4) if rtol and (name in PRODUCTS or name not in REQUIRED) else rtol


def is_random(op, sample):
    """Whether the results of a sample are random."""
    dropout = sample.kwargs.get("dropout_p", 0)
    if op.name == "nn.functional.multi_head_attention_forward":
        dropout = sample.args[9]
    return op.name in RANDOM or dropout > 0


def compare(op, sample, dtype, expected, actual):
    """Fails where results differ by more than the tolerance; differences by torch_npu's own forms are reported last."""
    torch.npu.synchronize()
    assert len(expected) == len(actual), f"{len(actual)} results, {len(expected)} on cpu"
    errors = []
    for at, (cpu, npu) in enumerate(zip(expected, actual)):
        values = not is_random(op, sample) and INDEX_OUTPUTS.get(op.name) != at
        atol = ATOL.get(op.name, 0) if cpu.is_floating_point() else 0
        try:
            census.compare(npu, cpu, tolerance(op.name, dtype, cpu), atol, values)
        except AssertionError as error:
            errors.append(error)
    own_texts = TORCH_NPU_TEXTS.get(op.name, ())
    errors.sort(key=lambda error: any(word in str(error) for word in own_texts))
    if errors:
        raise errors[0]


def widened(value):
    """Halves as floats."""
    if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16):
        return value.detach().float().requires_grad_(value.requires_grad)
    return torch.float32 if value in (torch.float16, torch.bfloat16) else value


def compare_halves(op, sample, dtype, expected, actual):
    """As `compare`; where the CPU's half arithmetic is less exact, its float32 results decide."""
    try:
        compare(op, sample, dtype, expected, actual)
    except AssertionError:
        if dtype not in (torch.float16, torch.bfloat16):
            raise
        exact, _ = run(op, sample.transform(widened))
        exact = [one.to(like.dtype) for one, like in zip(exact, expected)]
        compare(op, sample, dtype, exact, actual)


def samples_of(op, dtype, notes):
    """The samples of one entry in one type; with CAIRN_TESTS=deep some of them also with gaps between their elements."""
    grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex) and dtype.itemsize > 2
    torch.manual_seed(0)
    try:
        samples = subset(op.sample_inputs("cpu", dtype, requires_grad=grad), SAMPLES if dtype == torch.float32 else SAMPLES_OF_OTHER_TYPES)
    except Exception as error:  # PyTorch has no such samples
        notes.append(f"{dtype}: no samples: {error}")
        return []
    try:
        strided = [sample.noncontiguous() for sample in subset(samples, 2)] if depth.DEEP and dtype != torch.int64 else []
    except Exception:  # sparse ones have no strides
        strided = []
    return samples + strided


def check(op, dtype, entry):
    """Runs samples of one entry in one type."""
    for sample in samples_of(op, dtype, entry["notes"]):
        try:
            expected, cpu_result = run(op, sample.transform(lambda value: census.moved(value, "cpu")))
        except Exception:
            continue
        try:
            actual, result = run(op, sample.transform(lambda value: census.moved(value, "npu")))
            compare_halves(op, sample, dtype, expected, actual)
            if not expected:
                assert cpu_result == result, f"{result}, {cpu_result} on cpu"
            entry["passed"] += 1
        except Exception as error:
            census.note(entry, str(dtype)[6:], error, TORCH_NPU_TEXTS.get(op.name, ()))


def listed():
    """The entries that are known not to pass."""
    lines = pathlib.Path(__file__).with_name("op_db.txt").read_text().splitlines()
    return {line.split("; ")[0] for line in lines}


def entry(name):
    """Runs the samples of one entry, or of all variants of an operator but those known not to pass, and counts."""
    found, known = census.new_entry(name), listed()
    for op in op_db:
        if name == entry_name(op) or (name == op.name and entry_name(op) not in known):
            others = (OTHER_TYPES_OF_REQUIRED if op.name in REQUIRED else OTHER_TYPES) if depth.DEEP else ()
            for dtype in (torch.float32, *others):
                if dtype in op.supported_dtypes("cpu"):
                    check(op, dtype, found)
            supported = op.supported_dtypes("cpu")
            if torch.float32 not in supported:
                for dtype in {torch.complex64, torch.int64} & set(supported) - set(others):
                    check(op, dtype, found)
    return found


def names():
    """The names of all entries."""
    return [entry_name(op) for op in op_db]


def main():
    census.main(entry, names())


if __name__ == "__main__":
    main()
