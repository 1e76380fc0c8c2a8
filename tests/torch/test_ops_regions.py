"""torch_npu's own RoiAlign and deformable convolutions, against plain references."""

import re

import pytest
import torch
import torch_npu  # noqa: F401
from depth import DEEP
from references import deformable_conv2d, roi_align, roi_align_gradient
from support import run_script

TOLERANCES = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 4e-2}
REGIONS = torch.tensor([[0, 1, 1, 9, 12], [1, 0, 2, 10, 5], [1, 3, 3, 3, 3], [0, -4, -4, 40, 40], [0, 30, 30, 31, 31]])


def assert_near(actual, expected, dtype):
    torch.testing.assert_close(actual.cpu().float(), expected.float(), rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_roi_align(dtype, samples, mode):
    images = torch.randn(2, 3, 10, 8).to(dtype)
    regions = REGIONS.to(dtype)
    actual = torch_npu.npu_roi_align(images.npu(), regions.npu(), 0.5, 3, 2, samples, mode)
    assert_near(actual, roi_align(images, regions, 0.5, 3, 2, samples, mode), dtype)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_roi_align_backward(mode):
    grad, regions = torch.randn(5, 3, 3, 2), REGIONS.float()
    actual = torch_npu.npu_roi_alignbk(grad.npu(), regions.npu(), [2, 3, 10, 8], 2, 3, 0.5, 2, mode)
    assert_near(actual, roi_align_gradient(grad, regions, (2, 3, 10, 8), 0.5, 2, mode), torch.float32)


# Channels, outputs, groups, deformable groups, kernel, stride, padding (top, bottom, left, right), dilation.
SHAPES = [
    (4, 6, 1, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (4, 6, 2, 2, (3, 2), (2, 1), (1, 0, 2, 1), (1, 2)),
    (4, 4, 4, 1, (1, 1), (1, 2), (0, 0, 0, 0), (1, 1)),
    (6, 3, 3, 2, (2, 3), (1, 1), (3, 3, 3, 3), (2, 1)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16] if DEEP else [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("biased", [True, False])
def test_deformable_convolution(dtype, shape, biased):
    channels, outputs, groups, deformable_groups, kernel, stride, padding, dilation = shape
    rows, columns = ((7 + padding[2 * i] + padding[2 * i + 1] - (kernel[i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in (0, 1))
    torch.manual_seed(1)
    x = torch.randn(2, channels, 7, 7).to(dtype)
    weight = torch.randn(outputs, channels // groups, *kernel).to(dtype)
    offset = torch.randn(2, 3 * deformable_groups * kernel[0] * kernel[1], rows, columns).to(dtype)
    bias = torch.randn(outputs).to(dtype) if biased else None
    settings = (kernel, (1, 1, *stride), padding, (1, 1, *dilation), groups, deformable_groups, True)
    result, samples = torch_npu.npu_deformable_conv2d(
        x.npu(), weight.npu(), offset.npu(), bias.npu() if biased else None, *settings[:1], stride=settings[1], padding=settings[2],
        dilation=settings[3], groups=groups, deformable_groups=deformable_groups, modulated=True,
    )  # fmt: skip
    inputs = [one.double().requires_grad_() for one in (x, weight, offset)]
    bias_double = bias.double().requires_grad_() if biased else None
    expected, expected_samples = deformable_conv2d(*inputs, bias_double, stride, padding[::2], dilation, groups, deformable_groups)
    assert_near(samples, expected_samples, dtype)
    tolerance = TOLERANCES[dtype] * 4
    torch.testing.assert_close(result.cpu().double(), expected, rtol=tolerance, atol=tolerance)
    grad = torch.randn(expected.shape).to(dtype)
    gradients = torch_npu.npu_deformable_conv2dbk(
        x.npu(), grad.npu(), samples, weight.npu(), offset.npu(), kernel, settings[1], padding, settings[3], groups, deformable_groups, True
    )
    expected_gradients = torch.autograd.grad(expected, inputs, grad.double())
    for at, (actual, one) in enumerate(zip(gradients, (*expected_gradients, grad.double().sum((0, 2, 3))))):
        # The gradient by an offset jumps where a sample lies exactly on an element, as many do in half types.
        if at == 2 and dtype != torch.float32:
            continue
        torch.testing.assert_close(actual.cpu().double(), one, rtol=tolerance, atol=tolerance * max(1.0, one.abs().max().item()))


@pytest.mark.parametrize(
    "change, text",
    [
        ({"kernel": (9, 9)}, r"ksize = \[9, 9\]"),
        ({"groups": 3}, "fit with groups = 3"),
        ({"deformable_groups": 3}, "deformable_groups = 3 does not divide"),
        ({"stride": (2, 1, 1, 1)}, "strides = .*expected 1 for samples"),
        ({"padding": (-1, 0, 0, 0)}, "pads = "),
        ({"modulated": False}, "modulated = false"),
    ],
)
def test_what_a_deformable_convolution_refuses(change, text):
    settings = {
        "kernel": (3, 3), "stride": (1, 1, 1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1, 1, 1), "groups": 1, "deformable_groups": 1,
        "modulated": True,
    } | change  # fmt: skip
    # A process for each: torch_npu drops what follows a failure in its queue.
    script = """
        import ast, sys, torch, torch_npu
        n = ast.literal_eval(sys.argv[1])
        x, weight, offset = torch.ones(1, 4, 5, 5), torch.ones(4, 4, 3, 3), torch.ones(1, 27, 5, 5)
        try:
            torch_npu.npu_deformable_conv2d(
                x.npu(), weight.npu(), offset.npu(), None, n["kernel"], stride=n["stride"], padding=n["padding"],
                dilation=n["dilation"], groups=n["groups"], deformable_groups=n["deformable_groups"], modulated=n["modulated"],
            )
            torch.npu.synchronize()
        except RuntimeError as error:
            print("refused:", error)
    """
    result = run_script(script, arguments=[repr(settings)], ASCEND_LAUNCH_BLOCKING="1")
    assert "refused:" in result.stdout, result.stdout + result.stderr
    assert re.search(text, result.stdout), result.stdout


def test_the_gradient_of_a_silu_by_name():
    x = torch.linspace(-4, 4, 9)
    on_npu, on_cpu = x.npu().requires_grad_(), x.clone().requires_grad_()
    torch_npu.npu_silu(on_npu).sum().backward()
    torch.nn.functional.silu(on_cpu).sum().backward()
    torch.testing.assert_close(on_npu.grad.cpu(), on_cpu.grad)
