"""torch_npu's own functions for boxes of detectors, non-maximum suppression and GIoU, DIoU, CIoU, against plain references."""

import pytest
import torch
import torch_npu

import support
from references import class_suppressed, iou_variant, iou_variant_gradients, non_max_suppression, rotated_suppressed, suppression_mask


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("max_count, min_score", [(20, 0.3), (100, 0.8), (5, 2.0), (0, 0.0)])
def test_nms_v4(max_count, min_score, dtype, padded):
    generator = torch.Generator().manual_seed(max_count)
    boxes = (torch.rand(60, 4, generator=generator) * 100).to(dtype)
    scores = (torch.randperm(60, generator=generator) / 64).to(dtype)
    limits = [torch.tensor(one).npu() for one in (0.25, min_score)]
    selected, count = torch_npu.npu_nms_v4(boxes.npu(), scores.npu(), max_count, *limits, pad_to_max_output_size=padded)
    expected = non_max_suppression(boxes.double(), scores.double(), max_count, 0.25, limits[1].item())
    assert count.dtype == selected.dtype == torch.int32 and count.dim() == 0 and count.item() == len(expected)
    assert selected.tolist() == expected + [0] * (max_count - len(expected))


def corners(count, seed):
    """Of boxes that have an area."""
    generator = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, generator=generator) * 80
    return torch.cat([low, low + 1 + torch.rand(count, 2, generator=generator) * 30], 1), generator


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("count", [1, 60])
def test_nms_with_mask(count, dtype):
    boxes, generator = corners(count, count)
    scores = torch.randperm(count, generator=generator) / 64
    rows = torch.cat([boxes, scores[:, None]], 1).to(dtype)
    found = torch_npu.npu_nms_with_mask(rows.npu(), 0.25)
    for have, want in zip(found, suppression_mask(rows, 0.25), strict=True):
        assert have.dtype == want.dtype and torch.equal(have.cpu(), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("own, transposed", [(False, False), (True, False), (True, True)])
def test_batch_nms(own, transposed, dtype):
    batches, count, classes = 2, 30, 3
    boxes, generator = corners(batches * count * (classes if own else 1), 7)
    boxes = boxes.reshape(batches, count, -1, 4).to(dtype)
    scores = (torch.randperm(batches * count * classes, generator=generator) / 256).reshape(batches, count, classes).to(dtype)
    mine = boxes.permute(0, 2, 3, 1).contiguous() if transposed else boxes
    found = torch_npu.npu_batch_nms(mine.npu(), scores.npu(), 0.1, 0.25, 8, 20, False, transposed)
    for have, want in zip(found, class_suppressed(boxes, scores, 0.1, 0.25, 8, 20), strict=True):
        assert have.dtype == want.dtype and torch.equal(have.cpu(), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("least, most", [(0.0, -1), (0.3, 6)])
def test_nms_rotated(least, most, dtype):
    generator = torch.Generator().manual_seed(5)
    boxes = (torch.rand(40, 5, generator=generator) * torch.tensor([60, 60, 40, 40, 360.0])).to(dtype)
    scores = (torch.randperm(40, generator=generator) / 64).to(dtype)
    kept, count = torch_npu.npu_nms_rotated(boxes.npu(), scores.npu(), 0.2, least, most, 0)
    expected = rotated_suppressed(boxes, scores, 0.2, least, most)
    assert kept.dtype == torch.int32 and kept.tolist() == expected and count.tolist() == [len(expected)]


def test_what_is_not_known_of_rotated_boxes_is_refused():
    with pytest.raises(RuntimeError, match="mode = 1: only 0"):
        torch_npu.npu_nms_rotated(torch.rand(4, 5).npu(), torch.rand(4).npu(), 0.2, 0, -1, 1)
        torch.npu.synchronize()


def boxes(count, seed, dtype=torch.float32):
    """Random boxes by centre and size."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(4, count, generator=generator) * 10 + 1).to(dtype)


FUNCTIONS = {
    "GIoU": lambda a, b, **options: torch_npu.npu_giou(a, b, **options).t(),
    "DIoU": lambda a, b, **options: torch_npu.npu_diou(a, b, **options),
    "CIoU": lambda a, b, **options: torch_npu.npu_ciou(a, b, **options),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("count", [1, 6, 100, 3000])
@pytest.mark.parametrize("which", FUNCTIONS)
def test_iou_variants(which, count, dtype):
    a, b = boxes(count, 1, dtype), boxes(count, 2, dtype)
    leaves = [one.npu().requires_grad_() for one in (a, b)]
    found = FUNCTIONS[which](*leaves, trans=True, is_cross=False)
    expected, _ = iou_variant(which, a.double(), b.double(), True)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-3
    assert found.dtype == dtype and found.shape == expected.shape == (1, count)
    torch.testing.assert_close(found.detach().cpu().double(), expected, rtol=tolerance, atol=tolerance)
    grad = torch.linspace(-1, 1, count)[None].to(dtype)
    found.backward(grad.npu())
    for leaf, gradient in zip(leaves, iou_variant_gradients(which, grad, a.double(), b.double(), True)):
        # In float16 sides may coincide, where the gradient jumps: each then gets half of it, as in torch.
        torch.testing.assert_close(leaf.grad.cpu().double(), gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("which", ["DIoU", "CIoU"])
def test_iou_variants_of_all_pairs(which, centred, mode):
    a, b = boxes(7, 3), boxes(4, 4)
    if not centred:
        a[2:] += a[:2]
        b[2:] += b[:2]
    found = FUNCTIONS[which](a.npu(), b.npu(), trans=centred, is_cross=True, mode=mode)
    expected, _ = iou_variant(which, a.double(), b.double(), centred, True, ["iou", "iof"][mode])
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-5, atol=1e-5)


REFUSED = """
import torch, torch_npu
first, second = (torch.ones(4, count).npu() for count in (3, 4))
try:
    torch_npu.npu_diou(first, second, True, False, 0)
    torch.npu.synchronize()
except RuntimeError as error:
    print("refused:", error)
"""


def test_iou_of_different_numbers_of_boxes_is_refused():
    output = support.run_script(REFUSED, ASCEND_LAUNCH_BLOCKING="1").stdout
    assert "refused:" in output and "gtboxes" in output, output
