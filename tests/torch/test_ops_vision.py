"""Pooling, interpolation, padding, shuffling and grid sampling: torch on the device against torch on the CPU."""

import pytest
import support
import torch
import torch.nn.functional as F
from against import REALS, agree, numbers

# Layouts of a tensor: the same values with other strides.
LAYOUTS = {
    "plain": lambda x: x,
    "channels last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1) if x.dim() > 2 else x,
    "with gaps": lambda x: torch.stack([x, x], -1)[..., 0],
}

IMAGE, VOLUME, LINE = (2, 3, 9, 7), (1, 2, 5, 6, 7), (2, 3, 11)

OPERATORS = {
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "max_pool2d ceil": (lambda x: F.max_pool2d(x, (3, 2), 2, ceil_mode=True), IMAGE),
    "max_pool2d overlapping": (lambda x: F.max_pool2d(x, 3, 1, 1), IMAGE),
    "max_pool2d unbatched": (lambda x: F.max_pool2d(x, 2), IMAGE[1:]),
    "max_pool2d indices": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], IMAGE),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2, 2, 1), VOLUME),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "avg_pool2d inside": (lambda x: F.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True, count_include_pad=False), IMAGE),
    "avg_pool2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, 2, 1), VOLUME),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (4, 3)), IMAGE),
    "adaptive_avg_pool2d one": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), VOLUME),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (4, 3)), IMAGE),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 4)), VOLUME),
    "nearest 1d": (lambda x: F.interpolate(x, 17), LINE),
    "nearest 2d": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "nearest 2d smaller": (lambda x: F.interpolate(x, (4, 5)), IMAGE),
    "nearest 3d": (lambda x: F.interpolate(x, (7, 4, 9)), VOLUME),
    "exact 1d": (lambda x: F.interpolate(x, 17, mode="nearest-exact"), LINE),
    "exact 2d": (lambda x: F.interpolate(x, (13, 5), mode="nearest-exact"), IMAGE),
    "linear 1d": (lambda x: F.interpolate(x, 17, mode="linear"), LINE),
    "bilinear": (lambda x: F.interpolate(x, (13, 5), mode="bilinear"), IMAGE),
    "bilinear aligned": (lambda x: F.interpolate(x, (13, 15), mode="bilinear", align_corners=True), IMAGE),
    "bilinear scale": (lambda x: F.interpolate(x, scale_factor=1.6, mode="bilinear"), IMAGE),
    "bicubic": (lambda x: F.interpolate(x, (13, 5), mode="bicubic"), IMAGE),
    "trilinear": (lambda x: F.interpolate(x, (7, 4, 9), mode="trilinear"), VOLUME),
    "bilinear antialias": (lambda x: F.interpolate(x, (4, 11), mode="bilinear", antialias=True), IMAGE),
    "bicubic antialias": (lambda x: F.interpolate(x, (4, 11), mode="bicubic", antialias=True), IMAGE),
    "area": (lambda x: F.interpolate(x, (4, 3), mode="area"), IMAGE),
    "reflect 1d": (lambda x: F.pad(x, (2, 3), mode="reflect"), LINE),
    "reflect 2d": (lambda x: F.pad(x, (2, 3, 1, 4), mode="reflect"), IMAGE),
    "replicate 1d": (lambda x: F.pad(x, (2, 3), mode="replicate"), LINE),
    "replicate 2d": (lambda x: F.pad(x, (2, 3, 1, 4), mode="replicate"), IMAGE),
    "replicate 3d": (lambda x: F.pad(x, (2, 3, 1, 4, 2, 0), mode="replicate"), VOLUME),
    "circular 2d": (lambda x: F.pad(x, (2, 3, 1, 4), mode="circular"), IMAGE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 8, 3, 4)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (2, 3, 6, 4)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (2, 6, 3, 4)),
}


TOLERANCES = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", OPERATORS)
def test_vision(name, dtype, layout):
    """The function and its gradient on the device, against f32 on the CPU of the same values."""
    function, shape = OPERATORS[name]
    # For max pooling, numbers that differ in every type: every window has one maximum.
    distinct = torch.arange(torch.Size(shape).numel()).reshape(shape) * 37 % 251 / 64.0 - 2
    x = (distinct if "max" in name else numbers(-2, 2, torch.float32, shape, seed=len(name))).to(dtype)
    leaf = x.npu().requires_grad_()
    want_leaf = x.float().requires_grad_()
    have, want = function(LAYOUTS[layout](leaf)), function(want_leaf)
    assert have.dtype == dtype and have.shape == want.shape
    assert_near = lambda have, want: torch.testing.assert_close(have.detach().float().cpu(), want, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    assert_near(have, want.detach())
    grad = (torch.arange(want.numel()).reshape(want.shape) % 13 / 8.0 - 0.5).to(dtype)
    have.backward(grad.npu())
    want.backward(grad.float())
    assert_near(leaf.grad, want_leaf.grad)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [False, True])
def test_grid_sample(mode, padding, aligned):
    x, grid = numbers(-2, 2, torch.float32, IMAGE), numbers(-1.4, 1.4, torch.float32, (2, 4, 5, 2), seed=3)
    sample = lambda x, grid: F.grid_sample(x, grid, mode, padding, aligned)
    agree(sample, x, grid, backward=True, tolerance=1e-4)


def test_affine_grid():
    theta = numbers(-1, 1, torch.float32, (2, 2, 3))
    for aligned in (False, True):
        agree(lambda x: F.affine_grid(x, [2, 3, 5, 4], aligned), theta, tolerance=1e-5)


@pytest.mark.parametrize("dtype", REALS)
def test_unpool(dtype):
    x = numbers(-2, 2, dtype, (2, 3, 4, 3))
    index = F.max_pool2d(torch.rand(2, 3, 8, 6, generator=torch.Generator().manual_seed(1)), 2, return_indices=True)[1]
    agree(lambda x, index: F.max_unpool2d(x, index, 2), x, index, tolerance=1e-6)


OUT_OF_RANGE = """
import torch, torch_npu
from torch.nn import functional as F
import cases

x, index = torch.ones(1, 1, 2, 2).npu(), torch.tensor([[[[0, 1], [2, 99]]]]).npu()
text = cases.error_of(lambda: F.max_unpool2d(x, index, 2))
assert "indices[0, 0, 1, 1] = 99 is outside 0 to 15" in text, text
"""


def test_indices_out_of_range_are_reported():
    support.run_script(OUT_OF_RANGE)


@pytest.mark.parametrize("wrong", [dict(kernel_size=0), dict(kernel_size=2, stride=0), dict(kernel_size=2, padding=2), dict(kernel_size=99)])
def test_windows_that_do_not_fit_are_refused(wrong):
    with pytest.raises((RuntimeError, ValueError)):
        F.avg_pool2d(torch.ones(1, 1, 4, 4).npu(), **wrong)
        torch.npu.synchronize()
