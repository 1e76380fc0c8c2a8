"""torch_npu's own functions for boxes of detectors, non-maximum suppression and GIoU, DIoU, CIoU, against plain references."""

import pytest
import torch
import torch_npu

import support
from references import iou_variant, iou_variant_gradients, non_max_suppression


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
