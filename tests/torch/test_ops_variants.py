"""Variants of functions for which torch_npu calls separate aclnn functions: in place, with tensors as bounds, with two results."""

import pytest
import torch
import torch_npu  # noqa: F401

from against import agree, numbers

X, Y = numbers(-3, 3, torch.float32), numbers(-3, 3, torch.float32, seed=1)
N, M = numbers(0, 9, torch.int32), numbers(0, 9, torch.int32, seed=1)
ROWS = torch.tensor([2, 0])
COLUMNS = torch.tensor([[0, 3, 5], [1, 1, 2]])

VARIANTS = {
    "clamp by a greatest tensor": (lambda x, y: torch.clamp(x, max=y), X, Y),
    "clamp by a least tensor": (lambda x, y: torch.clamp(x, min=y), X, Y),
    "bitwise and in place": (lambda x, y: x.bitwise_and_(y), N, M),
    "logical not in place": (lambda x: x.logical_not_(), X.round()),
    "index copy in place": (lambda x, at, y: x.index_copy_(0, at, y[:2]), X, ROWS, Y),
    "scatter a number in place": (lambda x, at: x.scatter_(1, at, 7.5), X, COLUMNS),
    "lower triangle in place": (lambda x: x.tril_(-1), X),
    "upper triangle in place": (lambda x: x.triu_(1), X),
    "logarithm of a sum of powers of 2": (torch.logaddexp2, X, Y),
    "round to decimals": (lambda x: torch.round(x, decimals=1), X),
    "variance and mean": (lambda x: torch.var_mean(x, 1, correction=0), X),
    "least and greatest of rows": (lambda x: torch.aminmax(x, dim=1), X),
    "least and greatest": (torch.aminmax, X),
    "unique": (torch.unique, N),
    "unique with inverse": (lambda x: torch.unique(x, return_inverse=True), N),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name):
    function, *inputs = VARIANTS[name]
    agree(function, *inputs)


def test_gradients_of_the_greatest_distance():
    """torch_npu passes -1 for infinity to the gradient of `cdist`."""
    first, second = (torch.randn(2, n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 5))
    results = []
    for device in ("cpu", "npu"):
        x, y = (one.detach().to(device).requires_grad_() for one in (first, second))
        torch.cdist(x, y, p=float("inf")).square().sum().backward()
        results.append((x.grad.cpu(), y.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])
