"""Convolutions, transposed ones, and windows as columns: torch on the device against torch on the CPU, forward and backward."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def plain(x):
    return x


def channels_last(x):
    """The same values, the channels of a pixel adjacent in memory."""
    last = x.dim() - 1
    return x.movedim(1, last).contiguous().movedim(last, 1) if x.dim() > 2 else x


def with_gaps(x):
    """The same values, every second element of a larger tensor."""
    return torch.stack([x, x], -1)[..., 0]


def tensor(shape, seed, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def assert_near(have, want, dtype, factor=1.0):
    have = have.detach().cpu()
    assert have.shape == want.shape
    if have.numel() == 0:
        return
    assert torch.isfinite(have).all()
    bound = TOLERANCE[dtype] * factor * max(1.0, want.abs().max().item())
    assert (have.double() - want.double()).abs().max().item() <= bound


def compare(function, shapes, dtype, layout=plain):
    """The function and its gradients on the device, against sums in f64 on the CPU of the same values."""
    values = [tensor(shape, seed, dtype) for seed, shape in enumerate(shapes)]
    cpu = [value.double().requires_grad_() for value in values]
    npu = [layout(value.npu()).detach().requires_grad_() for value in values]
    want, have = function(*cpu), function(*npu)
    assert have.dtype == dtype
    assert_near(have, want.detach(), dtype)
    weight = tensor(want.shape, 99, dtype)
    want.backward(weight.double())
    have.backward(weight.npu())
    for x, y in zip(npu, cpu):
        assert_near(x.grad, y.grad, dtype)


def case(function, *shapes, **options):
    return functools.partial(function, **options), shapes


CASES = {
    "1d": case(F.conv1d, (2, 5, 20), (7, 5, 3), (7,)),
    "1d strided, dilated, padded": case(F.conv1d, (2, 4, 31), (6, 2, 5), (6,), stride=3, padding=4, dilation=2, groups=2),
    "1d of one element": case(F.conv1d, (3, 8, 1), (5, 8, 1), (5,)),
    "1d same": case(F.conv1d, (2, 3, 11), (4, 3, 5), padding="same"),
    "2d": case(F.conv2d, (2, 3, 9, 11), (4, 3, 3, 3), (4,)),
    "2d without bias": case(F.conv2d, (1, 3, 9, 11), (4, 3, 3, 3)),
    "2d padded": case(F.conv2d, (2, 3, 9, 11), (4, 3, 3, 3), (4,), padding=1),
    "2d padded beyond the input": case(F.conv2d, (1, 2, 3, 2), (3, 2, 2, 2), (3,), padding=(4, 3), stride=2),
    "2d strided": case(F.conv2d, (2, 3, 9, 11), (4, 3, 3, 3), (4,), stride=(2, 3), padding=1),
    "2d stride beyond the window": case(F.conv2d, (2, 3, 9, 11), (4, 3, 2, 1), (4,), stride=(3, 4)),
    "2d dilated": case(F.conv2d, (2, 3, 9, 11), (4, 3, 3, 2), (4,), dilation=(2, 3), padding=2),
    "2d strided and dilated": case(F.conv2d, (2, 3, 13, 15), (4, 3, 3, 3), (4,), dilation=(2, 3), padding=2, stride=(2, 2)),
    "2d groups": case(F.conv2d, (2, 6, 9, 8), (9, 2, 3, 3), (9,), groups=3, padding=1),
    "2d many groups": case(F.conv2d, (2, 32, 7, 8), (64, 2, 3, 3), (64,), groups=16, padding=1),
    "2d depthwise": case(F.conv2d, (2, 6, 9, 40), (6, 1, 3, 3), (6,), groups=6, padding=1),
    "2d depthwise strided": case(F.conv2d, (2, 6, 9, 41), (6, 1, 3, 3), (6,), groups=6, padding=1, stride=2),
    "2d depthwise wide": case(F.conv2d, (1, 4, 20, 20), (4, 1, 7, 7), (4,), groups=4, padding=9, dilation=3),
    "2d depthwise, more outputs": case(F.conv2d, (2, 5, 9, 10), (15, 1, 3, 3), (15,), groups=5, padding=1),
    "2d one by one": case(F.conv2d, (3, 40, 7, 7), (70, 40, 1, 1), (70,)),
    "2d one by one strided": case(F.conv2d, (3, 20, 9, 8), (30, 20, 1, 1), stride=2),
    "2d deep": case(F.conv2d, (2, 64, 7, 7), (48, 64, 3, 3), (48,), padding=1),
    "2d stem": case(F.conv2d, (1, 3, 33, 35), (16, 3, 7, 7), stride=2, padding=3),
    "2d same": case(F.conv2d, (1, 3, 9, 8), (4, 3, 5, 3), padding="same"),
    "2d as large as the input": case(F.conv2d, (4, 3, 6, 5), (7, 3, 6, 5), (7,)),
    "2d unbatched": case(F.conv2d, (3, 9, 11), (4, 3, 3, 3), (4,)),
    "3d": case(F.conv3d, (2, 3, 5, 6, 7), (4, 3, 2, 3, 3), (4,)),
    "3d all": case(F.conv3d, (1, 4, 6, 7, 8), (6, 2, 3, 2, 3), (6,), stride=(2, 1, 2), padding=(1, 2, 1), dilation=(1, 2, 1), groups=2),
    "3d depthwise": case(F.conv3d, (1, 3, 5, 6, 12), (3, 1, 3, 3, 3), (3,), groups=3, padding=1),
    "transposed 1d": case(F.conv_transpose1d, (2, 5, 9), (5, 4, 3), (4,), stride=2, padding=1, output_padding=1),
    "transposed 2d": case(F.conv_transpose2d, (2, 3, 5, 6), (3, 4, 3, 3), (4,)),
    "transposed 2d strided": case(F.conv_transpose2d, (2, 3, 5, 6), (3, 4, 3, 2), (4,), stride=(2, 3), padding=1, output_padding=(1, 2)),
    "transposed 2d, gaps": case(F.conv_transpose2d, (2, 3, 5, 6), (3, 4, 2, 2), (4,), stride=3),
    "transposed 2d dilated": case(F.conv_transpose2d, (2, 4, 5, 6), (4, 3, 3, 3), (6,), stride=2, dilation=2, padding=2, output_padding=1, groups=2),
    "transposed 2d doubling": case(F.conv_transpose2d, (2, 16, 7, 9), (16, 8, 2, 2), (8,), stride=2),
    "transposed 2d depthwise": case(F.conv_transpose2d, (2, 6, 7, 9), (6, 1, 3, 3), (6,), stride=2, padding=1, groups=6),
    "transposed 3d": case(F.conv_transpose3d, (1, 3, 3, 4, 5), (3, 2, 2, 3, 3), (2,), stride=2, padding=(0, 1, 1), output_padding=(0, 1, 0)),
    "unfold": case(F.unfold, (2, 3, 8, 9), kernel_size=(2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)),
    "unfold unbatched": case(F.unfold, (3, 8, 9), kernel_size=3),
    "fold": case(F.fold, (2, 18, 12), output_size=(6, 7), kernel_size=(2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)),
    "slices": (lambda x: x.unfold(2, 3, 2) * 1, [(2, 3, 9)]),
    "slices of the last but one": (lambda x: x.unfold(1, 4, 1) * 1, [(2, 9, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("layout", [plain, channels_last, with_gaps])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name, dtype, layout):
    function, shapes = CASES[name]
    compare(function, shapes, dtype, layout)


@pytest.mark.parametrize("which", [(True, False, False), (False, True, False), (False, False, True), (False, True, True)])
def test_some_gradients(which):
    shapes = [(2, 3, 9, 8), (4, 3, 3, 3), (4,)]
    cpu = [tensor(shape, seed).requires_grad_(needs_grad) for seed, (shape, needs_grad) in enumerate(zip(shapes, which))]
    npu = [one.detach().npu().requires_grad_(one.requires_grad) for one in cpu]
    for x, weight, bias in (cpu, npu):
        F.conv2d(x, weight, bias, stride=2, padding=1).sum().backward()
    for one, other in zip(npu, cpu):
        assert (one.grad is None) == (other.grad is None)
        if other.grad is not None:
            assert_near(one.grad, other.grad, torch.float32)


def test_nothing_to_convolve():
    weight, bias = tensor((4, 3, 3, 3), 1), tensor((4,), 2)
    out = F.conv2d(torch.empty(0, 3, 9, 8).npu(), weight.npu(), bias.npu(), padding=1)
    assert out.shape == (0, 4, 9, 8)


def test_the_same_in_every_run():
    x, weight = tensor((4, 16, 20, 20), 1).npu(), tensor((24, 16, 3, 3), 2).npu().requires_grad_()
    results = []
    for _ in range(3):
        weight.grad = None
        out = F.conv2d(x, weight, padding=1)
        out.square().sum().backward()
        results.append((out.detach().cpu(), weight.grad.cpu()))
    assert all(torch.equal(one[0], results[0][0]) and torch.equal(one[1], results[0][1]) for one in results)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w: F.conv2d(x, w[:, :2]),
        lambda x, w: F.conv2d(x, w, groups=2),
        lambda x, w: F.conv2d(x[:, :, :2], w),
        lambda x, w: F.conv2d(x, w, stride=0),
        lambda x, w: F.conv2d(x, w, padding=-1),
        lambda x, w: F.conv2d(x, w, dilation=9),
        lambda x, w: F.conv_transpose2d(x, w),
        lambda x, w: F.conv2d(x, w, w[0, 0, 0]),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(RuntimeError):
        call(tensor((2, 3, 9, 8), 1).npu(), tensor((4, 3, 3, 3), 2).npu())
        torch.npu.synchronize()
    assert_near(F.conv2d(torch.ones(1, 1, 3, 3).npu(), torch.ones(1, 1, 2, 2).npu()), torch.full((1, 1, 2, 2), 4.0), torch.float32)


class Residual(nn.Module):
    """A block of ResNet-18 between a stem and a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False)
        self.first, self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(16, 32, 1, stride=2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(count) for count in (16, 32, 32, 32))
        self.scores = nn.Linear(32, 5)

    def forward(self, x):
        x = torch.relu(self.norms[0](self.stem(x)))
        inner = self.norms[2](self.second(torch.relu(self.norms[1](self.first(x)))))
        return self.scores(torch.relu(inner + self.norms[3](self.shortcut(x))).mean((2, 3)))


def trained(device, optimizer, steps=6):
    """The losses of a few steps, and the weights after them."""
    torch.manual_seed(1)
    model = Residual().to(device)
    update = optimizer(model.parameters(), lr=2e-2)
    images, kinds = tensor((8, 3, 32, 32), 3).to(device), (torch.arange(8) % 5).to(device)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(images), kinds)
        update.zero_grad()
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses, [weight.detach().cpu() for weight in model.parameters()]


@pytest.mark.parametrize("optimizer", [functools.partial(torch.optim.SGD, momentum=0.9), torch.optim.AdamW], ids=["sgd", "adamw"])
def test_a_residual_block_learns(optimizer):
    (want, weights), (have, others) = trained("cpu", optimizer), trained("npu", optimizer)
    assert want[-1] < 0.9 * want[0]
    assert have == pytest.approx(want, rel=2e-3)
    if optimizer is not torch.optim.AdamW:  # it divides by roots of values that may be near 0, which magnifies rounding
        for one, other in zip(others, weights):
            torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-4)
