"""Embedding bags, and losses that take labels: torch on the device against torch on the CPU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from test_ops_linear import TOLERANCE, tensor

FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def compare(function, inputs, dtype=torch.float32, grads=1):
    """Results and gradients of the first `grads` inputs on the device, against those in float32 on the CPU."""
    found = []
    for device in ("cpu", "npu"):
        converted = [one.float() if device == "cpu" and one.is_floating_point() else one for one in inputs]
        leaves = [one.to(device).clone() for one in converted]
        for one in leaves[:grads]:
            one.requires_grad_()
        result = function(*leaves)
        result.backward(tensor(tuple(result.shape), 5).to(device=device, dtype=result.dtype))
        found.append([result, *(one.grad for one in leaves[:grads])])
    for want, have in zip(*found):
        torch.testing.assert_close(have.float().cpu(), want.float(), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("end", [False, True])
def test_bags(mode, padding, end, dtype):
    table, index = tensor((7, 5), 1, dtype), torch.tensor([1, 2, 0, 5, 2, 2, 6, 1])
    starts = torch.tensor([0, 3, 3, 4, *([8] if end else [])])
    compare(lambda table: F.embedding_bag(index.to(table.device), table, starts.to(table.device), mode=mode, padding_idx=padding, include_last_offset=end), [table], dtype)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_the_last_bag_goes_on_to_the_last_index(mode):
    """In CANN and PyTorch alike, but for `sum` on the CPU: there it ends at the last offset."""
    table, index = tensor((7, 5), 1), torch.tensor([1, 2, 0, 5, 2, 2, 6, 1])
    want = F.embedding_bag(index, table, torch.tensor([0, 3, 8]), mode=mode, include_last_offset=True)
    offsets = torch.tensor([0, 3, 5]).npu()
    have = F.embedding_bag(index.npu(), table.npu(), offsets, mode=mode, include_last_offset=True)
    torch.testing.assert_close(have.cpu(), want)


@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
def test_bags_with_weights(index):
    table, weights = tensor((7, 600), 1), tensor((8,), 2)
    rows, starts = torch.tensor([1, 2, 0, 5, 2, 2, 6, 1], dtype=index), torch.tensor([0, 3, 3, 4], dtype=index)

    def bag(table, weights):
        return F.embedding_bag(rows.to(table.device), table, starts.to(table.device), mode="sum", per_sample_weights=weights)

    compare(bag, [table, weights], grads=2)


def test_bags_of_rows():
    rows = torch.tensor([[1, 2, 0], [5, 5, 6]])
    compare(lambda table: F.embedding_bag(rows.to(table.device), table, mode="mean"), [tensor((7, 5), 1)])


@pytest.mark.parametrize("dtype", FLOATS[::2], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_of_images(reduction, weighted, dtype):
    target = torch.randint(0, 4, (2, 3, 5), generator=torch.Generator().manual_seed(2))
    target[0, 1, 2] = -100
    scores, weight = tensor((2, 4, 3, 5), 1).log_softmax(1).to(dtype), tensor((4,), 3).abs() + 0.1

    def loss(scores):
        class_weight = weight.to(device=scores.device, dtype=scores.dtype) if weighted else None
        return F.nll_loss(scores, target.to(scores.device), class_weight, reduction=reduction)

    compare(loss, [scores], dtype)


@pytest.mark.parametrize("zero", [False, True])
def test_a_ctc_loss_keeps_nan(zero):
    scores = tensor((12, 2, 6), 1)
    scores[3, 0] = float("nan")
    labels, lengths, counts = torch.tensor([[1, 2, 2, 3], [4, 1, 4, 1]]), torch.tensor([12, 12]), torch.tensor([4, 4])
    scores = scores.npu().requires_grad_()
    losses = F.ctc_loss(scores, labels.npu(), lengths, counts, reduction="none", zero_infinity=zero)
    losses.sum().backward()
    assert losses.isnan().tolist() == [True, False]
    assert scores.grad[:, 0].isnan().any() and not scores.grad[:, 1].isnan().any()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero", [False, True])
def test_ctc_gradient(reduction, zero):
    scores, labels = tensor((12, 3, 6), 1), torch.tensor([[1, 2, 2, 3], [4, 4, 4, 4], [5, 1, 0, 0]])
    lengths, counts = torch.tensor([12, 7, 9]), torch.tensor([4, 4, 2])

    def loss(scores):
        return F.ctc_loss(scores.log_softmax(-1), labels.to(scores.device), lengths, counts, reduction=reduction, zero_infinity=zero)

    compare(loss, [scores])
