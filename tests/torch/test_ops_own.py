"""Functions of torch_npu's own, against what their documentation says."""

import pytest
import torch
import torch_npu

from references import causal_conv, scattered_list


@pytest.mark.parametrize("axis", [-2, -1])
def test_a_list_of_updates(axis):
    generator = torch.Generator().manual_seed(1)
    tensors = [torch.randn(2, 5, 4, generator=generator) for _ in range(3)]
    updates = torch.randn(3, 2, *((2, 4) if axis == -2 else (5, 2)), generator=generator)
    index, mask = torch.tensor([0, 2, 1]), torch.tensor([1, 0, 1], dtype=torch.uint8)
    for cpu_mask in (None, mask):
        want = scattered_list(tensors, index, updates, cpu_mask, axis)
        npu_tensors = [one.npu() for one in tensors]
        npu_mask = None if cpu_mask is None else cpu_mask.npu()
        have = torch_npu.npu_scatter_list(npu_tensors, index.npu(), updates.npu(), npu_mask, reduce="update", axis=axis)
        torch_npu.npu_scatter_list_(npu_tensors, index.npu(), updates.npu(), npu_mask, reduce="update", axis=axis)
        for a, b, c in zip(want, have, npu_tensors, strict=True):
            assert torch.equal(b.cpu(), a) and torch.equal(c.cpu(), a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_exponential_numbers(dtype):
    torch.manual_seed(3)
    x = torch.empty(200, 100, dtype=dtype, device="npu")
    torch_npu.npu_sim_exponential_(x, lambd=2.0)
    x = x.float().cpu()
    assert x.min() >= 0 and abs(x.mean() - 0.5) < 0.02 and abs(x.std() - 0.5) < 0.02
    again = torch.empty(200, 100, dtype=dtype, device="npu")
    torch.manual_seed(3)
    torch_npu.npu_sim_exponential_(again, lambd=2.0)
    assert torch.equal(again.float().cpu(), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_causal_convolution(dtype, masked):
    generator = torch.Generator().manual_seed(2)
    x, weight = torch.randn(9, 3, 70, generator=generator).to(dtype), torch.randn(3, 70, generator=generator).to(dtype)
    grad, mask = torch.randn(9, 3, 70, generator=generator), torch.rand(3, 9, generator=generator) > 0.3
    results = []
    for device in ("cpu", "npu"):
        leaves = [one.clone().to(device).requires_grad_() for one in (x, weight)]
        flags = mask.to(device) if masked else None
        run = torch_npu.npu_masked_causal_conv1d if device == "npu" else causal_conv
        out = run(*leaves, mask=flags)
        out.backward(grad.to(device, dtype))
        results.append([out, *(leaf.grad for leaf in leaves)])
    tolerance = 2e-3 if dtype == torch.float16 else 2e-2
    for have, want in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(have.float().cpu(), want.float(), rtol=tolerance, atol=5 * tolerance)


@pytest.mark.parametrize("function", ["", "relu", "add", "mul", "gelu_erf", "gelu_tanh", "16cast32"])
def test_products_with_a_function(function):
    generator = torch.Generator().manual_seed(4)
    a, b, bias, other = (torch.randn(size, generator=generator).half() for size in ((8, 16), (16, 4), (4,), (8, 4)))
    options = {} if function.startswith("gelu") else {"bias": bias.npu()}
    if function in ("add", "mul"):
        options["x3"] = other.npu()
    have = torch_npu.npu_fused_matmul(a.npu(), b.npu(), fused_op_type=function, **options).cpu()
    want = a.float() @ b.float() + (bias if "bias" in options else 0)
    want = {
        "relu": lambda: want.relu(), "add": lambda: want + other, "mul": lambda: want * other,
        "gelu_erf": lambda: torch.nn.functional.gelu(want), "gelu_tanh": lambda: torch.nn.functional.gelu(want, approximate="tanh"),
    }.get(function, lambda: want)()  # fmt: skip
    assert have.dtype == (torch.float32 if function == "16cast32" else torch.float16)
    torch.testing.assert_close(have.float(), want, rtol=2e-3, atol=2e-3)


def test_products_of_f32_ask_for_hf32():
    with pytest.raises(RuntimeError, match="cubeMathType"):
        torch_npu.npu_fused_matmul(torch.ones(2, 3).npu(), torch.ones(3, 2).npu(), fused_op_type="relu")
