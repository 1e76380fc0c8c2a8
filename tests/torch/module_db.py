"""PyTorch's own samples of its modules and of its optimisers, on `npu` and on `cpu`: see census.py.

    python module_db.py [NAME ...]        the entries of these names, or all; a line of JSON for each

A module is built on the CPU and copied: results, gradients of inputs and of parameters are compared, in training and in
evaluation. An optimiser makes some steps with each of its settings, plain, foreach and fused, and parameters are compared.
"""

import copy
import os
import sys
import types
import unittest

os.environ["TASK_QUEUE_ENABLE"] = "0"

import census  # noqa: E402
import depth  # noqa: E402
import torch  # noqa: E402

sys.modules.setdefault("expecttest", types.ModuleType("expecttest")).TestCase = unittest.TestCase
from torch.testing._internal.common_modules import module_db  # noqa: E402
from torch.testing._internal.common_optimizers import optim_db  # noqa: E402

SAMPLES = 8 if depth.DEEP else 2
STEPS = 4

# Their results in training are random.
RANDOM = ("Dropout", "RReLU", "FractionalMaxPool")
# Modules with dropout inside; its random numbers differ by device, so it is turned off.
WITH_INNER_DROPOUT = ("Transformer", "MultiheadAttention")
# Absolute tolerances above RTOL. aclnnGelu computes the tanh form: see docs/operators.md.
ATOL = {"nn.GELU": 1e-3}
RTOL = 1e-4
# Error texts where torch_npu differs from PyTorch by itself: see op_db.py.
TORCH_NPU_TEXTS = {
    "nn.MaxPool1d": ["torch.int8["],
    "nn.MaxPool2d": ["torch.int8["],
    "nn.MaxPool3d": ["torch.int32["],
    "optim.SGD": ["momentum must be positive"],
}


def subset(samples):
    """At most `SAMPLES` of the samples, spread evenly."""
    samples = list(samples)
    return samples[:: max(1, -(-len(samples) // SAMPLES))]


def forward_and_backward(module, args, kwargs):
    """Results, gradients of the inputs, gradients of the parameters, and buffers."""
    torch.manual_seed(0)
    results = census.tensors(module(*args, **kwargs))
    leaves = [leaf for leaf in census.tensors([args, kwargs]) if leaf.requires_grad and leaf.is_leaf]
    leaves += [parameter for parameter in module.parameters() if parameter.requires_grad]
    outputs = [result for result in results if result.requires_grad]
    gradients = []
    if leaves and outputs:
        gradients = torch.autograd.grad(outputs, leaves, [torch.ones_like(output) for output in outputs], allow_unused=True)
    return results + [gradient for gradient in gradients if gradient is not None] + list(module.buffers())


def turn_dropout_off(module, name):
    """Turns dropout off inside a module."""
    if any(word in name for word in WITH_INNER_DROPOUT):
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
            if isinstance(part, torch.nn.MultiheadAttention):
                part.dropout = 0.0


def check_module(info, name, entry):
    """Runs samples of one module."""
    for training in (True, False):
        torch.manual_seed(0)
        samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        for sample in subset(samples):
            build, forward = sample.constructor_input, sample.forward_input
            try:
                torch.manual_seed(0)
                # PyTorch makes the positions of FractionalMaxPool in double, and wants them as the input is.
                settings = {key: value.float() if key == "_random_samples" else value for key, value in build.kwargs.items()}
                module = info.module_cls(*build.args, **settings).train(training)
                turn_dropout_off(module, name)
                args, kwargs = forward.args, forward.kwargs
                if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin):
                    module(*args, **kwargs)  # makes its parameters
                other = copy.deepcopy(module)
                expected = forward_and_backward(module, census.moved(args, "cpu"), census.moved(kwargs, "cpu"))
            except Exception:
                continue
            try:
                actual = forward_and_backward(other.to("npu"), census.moved(args, "npu"), census.moved(kwargs, "npu"))
                torch.npu.synchronize()
                assert len(actual) == len(expected), f"{len(actual)} results, {len(expected)} on cpu"
                random = training and any(word in name for word in RANDOM) or "FractionalMaxPool" in name
                for npu, cpu in zip(actual, expected):
                    rtol = RTOL if cpu.is_floating_point() or cpu.is_complex() else 0
                    census.compare(npu, cpu, rtol, ATOL.get(name, 0), not random)
                entry["passed"] += 1
            except Exception as error:
                census.note(entry, "training" if training else "evaluation", error, TORCH_NPU_TEXTS.get(name, ()))


def steps(info, settings, device):
    """The parameters after `STEPS` steps."""
    generator = torch.Generator().manual_seed(0)
    sizes = [(6, 5), (5, 3)] if info.optim_cls.__name__ == "Muon" else [(6, 5), (6,), (1,)]
    weights = [torch.randn(size, generator=generator).to(device).requires_grad_() for size in sizes]
    targets = [torch.randn(size, generator=generator).to(device) for size in sizes]
    settings = {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in settings.items()}
    optimiser = info.optim_cls(weights, **settings)

    def loss():
        optimiser.zero_grad()
        value = sum((weight - target).square().mean() for weight, target in zip(weights, targets))
        value.backward()
        if info.only_supports_sparse_grads:
            for weight in weights:
                weight.grad = weight.grad.to_sparse()
        return value

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimiser.step(loss)
        else:
            loss()
            optimiser.step()
    return [weight.detach() for weight in weights]


def check_optimiser(info, entry):
    """Runs each setting of one optimiser in each of its implementations."""
    for sample in subset(info.optim_inputs_func(device="cpu")):
        for kind in ({}, {"foreach": True}, {"foreach": False}, {"fused": True}):
            if not all(name in info.supported_impls for name in kind):
                continue
            settings = sample.kwargs | kind
            try:
                expected = steps(info, settings, "cpu")
            except Exception:
                continue
            try:
                actual = steps(info, settings, "npu")
                torch.npu.synchronize()
                for npu, cpu in zip(actual, expected):
                    census.compare(npu, cpu, RTOL)
                entry["passed"] += 1
            except Exception as error:
                census.note(entry, f"{sample.desc} {kind}", error, TORCH_NPU_TEXTS.get(entry["name"], ()))


def names():
    """The names of all modules and optimisers."""
    return [info.name for info in module_db] + [f"optim.{info.optim_cls.__name__}" for info in optim_db]


def entry(name):
    """Runs the samples of one module or optimiser and counts."""
    found = census.new_entry(name)
    for info in module_db:
        if info.name == name:
            check_module(info, name, found)
    for info in optim_db:
        if f"optim.{info.optim_cls.__name__}" == name:
            check_optimiser(info, found)
    return found


def main():
    census.main(entry, names())


if __name__ == "__main__":
    main()
