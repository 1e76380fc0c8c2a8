"""Operators that torch_npu calls by their IR names: those that have no aclnn function, and everything when kernels are compiled."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu

import support
from against import agree, assert_near, numbers
from references import (
    adamw_by_powers, answering_anchors, bert_adam, classic_adam, decoded_boxes, decoded_rotated, encoded_boxes, encoded_rotated,
    encoded_yolo,
)  # fmt: skip


def boxes(count, seed, dtype=torch.float32):
    """From corner to corner."""
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(count, 2, generator=generator) * 20
    return torch.cat((corners, corners + torch.rand(count, 2, generator=generator) * 9 + 1), 1).to(dtype)


NEAR = {torch.float32: 1e-4, torch.float16: 2e-2}


@pytest.mark.parametrize("dtype", NEAR)
def test_boxes_as_differences(dtype):
    anchors, targets = boxes(40, 1, dtype), boxes(40, 2, dtype)
    options = [0.1, 0.0, -0.1, 0.2, 0.1, 0.1, 0.2, 0.2]
    means, deviations = (torch.tensor(one, dtype=torch.float64) for one in (options[:4], options[4:]))
    found = torch_npu.npu_bounding_box_encode(anchors.npu(), targets.npu(), *options)
    expected = encoded_boxes(anchors.double(), targets.double(), means, deviations)
    torch.testing.assert_close(found.cpu().double(), expected, rtol=NEAR[dtype], atol=NEAR[dtype])
    deltas = (expected * 0.1).to(dtype)
    found = torch_npu.npu_bounding_box_decode(anchors.npu(), deltas.npu(), *options, (25, 18), 0.5)
    expected = decoded_boxes(anchors.double(), deltas.double(), 25, 18, 0.5, means, deviations)
    torch.testing.assert_close(found.cpu().double(), expected, rtol=NEAR[dtype], atol=NEAR[dtype])


def test_boxes_of_the_documentation():
    anchors, targets = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]]), torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 6]])
    found = torch_npu.npu_bounding_box_encode(anchors.npu(), targets.npu(), 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2)
    expected = torch.tensor([[13.3333, 13.3333, 0, 0], [13.3333, 6.6667, 0, torch.nan]])
    # A box whose sides are the wrong way round by one has no size, and the logarithm of nothing.
    found, expected = found.cpu()[:, :3], expected[:, :3]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    found = torch_npu.npu_bounding_box_decode(anchors.npu(), targets.npu(), 0, 0, 0, 0, 1, 1, 1, 1, (10, 10), 0.1)
    torch.testing.assert_close(found.cpu(), torch.tensor([[2.5, 6.5, 9, 9], [9, 9, 9, 9]]))


@pytest.mark.parametrize("dtype", NEAR)
def test_yolo_boxes(dtype):
    anchors, targets, strides = boxes(30, 3, dtype), boxes(30, 4, dtype), torch.arange(1, 31, dtype=torch.int32)
    found = torch_npu.npu_yolo_boxes_encode(anchors.npu(), targets.npu(), strides.npu(), dtype == torch.float16)
    expected = encoded_yolo(anchors.double(), targets.double(), strides)
    torch.testing.assert_close(found.cpu().double(), expected, rtol=NEAR[dtype], atol=NEAR[dtype])


def rotated(*numbers):
    return torch.tensor(numbers, dtype=torch.float16).reshape(1, 5, 1)


def test_rotated_boxes():
    ones = torch.ones(5, dtype=torch.float16).npu()
    found = torch_npu.npu_rotated_box_encode(
        rotated(30.69, 32.6, 45.94, 59.88, -44.53).npu(), rotated(30.44, 18.72, 33.22, 45.56, 8.5).npu(), ones
    )
    assert_near(found.cpu(), rotated(-0.4253, -0.5166, -1.7021, -0.0162, 1.1328), 2e-3)
    found = torch_npu.npu_rotated_box_decode(
        rotated(4.137, 33.72, 29.4, 54.06, 41.28).npu(), rotated(0.0244, -1.992, 0.2109, 0.315, -37.25).npu(), ones
    )
    assert_near(found.cpu(), rotated(1.7861, -10.5781, 33.0, 17.2969, -88.4375), 2e-3)
    first, second = (torch.cat((boxes(8, seed), torch.linspace(-80, 80, 8)[:, None]), 1).t()[None].contiguous() for seed in (5, 6))
    deltas = torch_npu.npu_rotated_box_encode(first.npu(), second.npu(), ones.float())
    torch.testing.assert_close(deltas.cpu(), encoded_rotated(first, second), rtol=1e-4, atol=1e-4)
    back = torch_npu.npu_rotated_box_decode(first.npu(), deltas, ones.float())
    torch.testing.assert_close(back.cpu(), decoded_rotated(first, deltas.cpu()), rtol=1e-3, atol=1e-3)


def test_anchors_that_answer():
    found = torch_npu.npu_anchor_response_flags(boxes(50, 7).npu(), [6, 5], [4, 3], 9)
    assert_near(found.cpu(), answering_anchors(boxes(50, 7), [6, 5], [4, 3], 9))


def test_float_status():
    status = torch_npu.npu_alloc_float_status(torch.ones(3).npu())
    assert status.tolist() == [0.0] * 8
    torch.full((4,), 6e4).npu().half().mul_(2)
    assert torch_npu.npu_get_float_status(status).tolist() == [0] * 8
    assert torch_npu.npu_clear_float_status(status).shape == (8,)
    torch.npu.synchronize()


SCALED = """
import sys
import torch, torch_npu

net = torch.nn.Linear(4, 4).npu()
with torch.no_grad():
    net.weight.fill_(0.5)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch_npu.npu.amp.GradScaler(init_scale=2.0**40)
before, scales = net.weight.detach().cpu(), [scaler.get_scale()]
for _ in range(3):
    with torch.autocast("npu", dtype=torch.float16):
        loss = net(torch.ones(2, 4, device="npu")).sum() * 100
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
assert scales == [2.0**40, 2.0**39, 2.0**38, 2.0**37], scales
assert torch.equal(net.weight.detach().cpu(), before)

huge = torch.full((4,), 6e4, dtype=torch.float16, device="npu")
torch_npu.npu.utils.clear_npu_overflow_flag()
assert not torch_npu.npu.utils.get_npu_overflow_flag()
assert (huge + huge).tolist() == [65504.0] * 4
assert torch_npu.npu.utils.get_npu_overflow_flag()
status = torch_npu.npu_get_float_status(torch.zeros(8).npu())
assert status.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
assert torch_npu.npu.utils.get_npu_overflow_flag()
torch_npu.npu.utils.clear_npu_overflow_flag()
assert not torch_npu.npu.utils.get_npu_overflow_flag()
"""


@pytest.mark.parametrize("queue", ["0", "1"])
@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910A"])
def test_a_scaler_learns_of_overflow_in_saturation_mode(soc, queue):
    support.run_script(SCALED, fresh=True, INF_NAN_MODE_FORCE_DISABLE="1", CAIRN_SOC=soc, TASK_QUEUE_ENABLE=queue)


def test_one_hot_sort_transpose_scatter():
    index = torch.tensor([2, 0, 3], dtype=torch.int32)
    found = torch_npu.npu_one_hot(index.npu(), -1, 5, 2, -1)
    assert_near(found.cpu(), torch.where(F.one_hot(index.long(), 5) == 1, 2.0, -1.0))
    x = numbers(-3, 3, torch.float32, (3, 9))
    assert_near(torch_npu.npu_sort_v2(x.npu(), -1, True).cpu(), x.sort(-1, True).values)
    x = numbers(-3, 3, torch.float32, (2, 3, 4))
    assert_near(torch_npu.npu_confusion_transpose(x.npu(), (0, 2, 1), (2, 12), True).cpu(), x.transpose(1, 2).reshape(2, 12))
    assert_near(torch_npu.npu_confusion_transpose(x.npu(), (1, 0), (6, 4), False).cpu(), x.reshape(6, 4).t())
    index, updates = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([-1.25, -1.5])
    found = torch_npu.npu_scatter(torch.ones(2, 2).npu(), index.npu(), updates.npu(), 0)
    assert_near(found.cpu(), torch.tensor([[-1.25, 1], [1, -1.5]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_layer_norm_eval(dtype):
    x, weight, bias = (numbers(-2, 2, dtype, size, seed) for seed, size in enumerate([(5, 3, 8), (3, 8), (3, 8)]))
    found = torch_npu.npu_layer_norm_eval(x.npu(), (3, 8), weight.npu(), bias.npu(), 1e-5)
    assert_near(found.cpu(), F.layer_norm(x, (3, 8), weight, bias, 1e-5))


def test_adam():
    state = [numbers(low, 2, torch.float32, (7, 5), seed) for seed, low in enumerate((-2, -2, 0))]
    grad = numbers(-2, 2, torch.float32, (7, 5), 9)
    options = (0.9, 0.99, 0.1, 0.9, 0.99, 1e-3)
    found = [one.npu() for one in state]
    torch_npu.npu_apply_adam(*options, grad.npu(), False, False, out=tuple(found))
    tensors = [torch.tensor(one, dtype=torch.float64) for one in options]
    expected = classic_adam(*[one.double() for one in state], *tensors, grad.double(), False)
    assert_near([one.cpu() for one in found], [one.float() for one in expected])
    found = [one.npu() for one in state]
    torch_npu.npu_apply_adam_w(0.81, 0.98, 0.1, 0.01, 0.9, 0.99, 1e-3, grad.npu(), None, False, True, out=tuple(found))
    expected = adamw_by_powers(*state, 0.81, 0.98, 0.1, 0.01, 0.9, 0.99, 1e-3, -grad)
    assert_near([one.cpu() for one in found], list(expected))
    found = [one.npu() for one in state]
    torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.99, 1e-3, grad.npu(), 1.0, 4.0, 0.01, out=tuple(found))
    assert_near([one.cpu() for one in found], list(bert_adam(*state, 0.1, 0.9, 0.99, 1e-3, grad / 4, 0.01)))


def test_dropout_with_bytes():
    torch.manual_seed(3)
    x = torch.ones(64, 65).npu()
    (first, mask), (second, _) = (torch.ops.npu._dropout_with_byte_mask(x, 0.25) for _ in range(2))
    assert mask.dtype == torch.uint8 and mask.shape == x.shape and set(mask.unique().tolist()) == {0, 1}
    torch.testing.assert_close(first.cpu(), mask.cpu() / 0.75)
    assert 0.7 < mask.float().mean().item() < 0.8 and not torch.equal(first, second)


def test_dropout_with_add_softmax():
    torch.manual_seed(4)
    x, shift = (numbers(-2, 2, torch.float32, (2, 16, 128, 128), seed) for seed in (0, 1))
    leaf = x.npu().requires_grad_()
    mask, shares, left = torch_npu.npu_dropout_with_add_softmax(leaf, shift.npu(), 0.5, 0.25, -1)
    plain = x.clone().requires_grad_()
    expected = (shift + plain * 0.5).softmax(-1)
    kept = mask.cpu()[: x.numel()].reshape(x.shape).float()
    assert 0.7 < kept.mean().item() < 0.8
    assert_near(shares.cpu(), expected.detach())
    assert_near(left.detach().cpu(), (expected * kept / 0.75).detach())
    left.sum().backward()
    (expected * kept / 0.75).sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), plain.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, torch.inf])
def test_cdist(p):
    agree(lambda a, b: torch.cdist(a, b, p), numbers(-2, 2, torch.float32, (2, 3, 4)), numbers(-2, 2, torch.float32, (5, 4), 1))


def test_logspace():
    assert_near(torch.logspace(-1, 2, 7, device="npu").cpu(), torch.logspace(-1, 2, 7))
