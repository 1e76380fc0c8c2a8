"""Linear algebra and Fourier transforms on `npu` against PyTorch on the CPU."""

import pytest
import torch
import torch_npu  # noqa: F401

# torch_npu warns of functions that PyTorch will drop, and of outputs that it resizes itself.
pytestmark = pytest.mark.filterwarnings("ignore")

TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-9, torch.complex64: 1e-4, torch.complex128: 1e-9}
TYPES = list(TOLERANCES)


def numbers(*size, dtype=torch.float32, seed=0):
    return torch.randn(size, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def assert_near(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    tolerance = TOLERANCES.get(want.dtype, 1e-4)
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=tolerance, atol=tolerance)


def well_conditioned(*size, dtype, seed=0):
    """Matrices that are far from singular."""
    n = size[-1]
    return numbers(*size, dtype=dtype, seed=seed) + 2 * n * torch.eye(n, dtype=dtype)


@pytest.mark.parametrize("dtype", TYPES[:2], ids=str)
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 3, 7, 7), (0, 3, 3)], ids=str)
def test_inverse(size, dtype):
    x = well_conditioned(*size, dtype=dtype)
    assert_near(torch.inverse(x.npu()), torch.inverse(x))
    assert_near(torch.inverse(x.mT.npu()), torch.inverse(x.mT))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("size", [(3, 3), (5, 3), (2, 3, 5), (2, 2, 7, 4), (1, 4), (4, 1)], ids=str)
def test_qr(size, mode, dtype):
    x = numbers(*size, dtype=dtype)
    q, r = torch.linalg.qr(x.npu(), mode=mode)
    want_q, want_r = torch.linalg.qr(x, mode=mode)
    assert_near(r, want_r)
    assert_near(q @ r, x)
    assert q.shape == want_q.shape
    assert_near((q.mH @ q).cpu(), torch.eye(q.shape[-1], dtype=dtype).expand(*size[:-2], -1, -1))


# torch_npu takes `float` alone.
@pytest.mark.parametrize("dtype", TYPES[:1], ids=str)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("size", [(3, 3), (5, 3), (2, 3, 5), (2, 2, 7, 4), (1, 4), (30, 20)], ids=str)
def test_svd(size, full, dtype):
    x = numbers(*size, dtype=dtype)
    u, s, vh = torch.linalg.svd(x.npu(), full_matrices=full)
    want = torch.linalg.svd(x, full_matrices=full)
    assert_near(s, want[1])
    assert u.shape == want[0].shape and vh.shape == want[2].shape
    u, s, vh = u.cpu(), s.cpu(), vh.cpu()
    k = s.shape[-1]
    assert_near((u[..., :k] * s.unsqueeze(-2).to(dtype)) @ vh[..., :k, :], x)
    assert_near(u.mH @ u, torch.eye(u.shape[-1], dtype=dtype).expand(*size[:-2], -1, -1))
    assert_near(vh @ vh.mH, torch.eye(vh.shape[-2], dtype=dtype).expand(*size[:-2], -1, -1))
    assert_near(torch.linalg.svdvals(x.npu()), want[1])


def test_svd_of_a_matrix_of_rank_one():
    x = torch.outer(numbers(5), numbers(4, seed=1))
    u, s, vh = torch.linalg.svd(x.npu())
    assert_near((u[:, :4] * s) @ vh, x)
    assert_near((u.mH @ u).cpu(), torch.eye(5))
    assert torch.linalg.matrix_rank(x.npu()).item() == 1
    assert_near(torch.linalg.pinv(x.npu()), torch.linalg.pinv(x))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("sizes", [((3, 3), (3, 2)), ((2, 4, 4), (2, 4, 1)), ((4, 4), (2, 4, 3))], ids=str)
def test_triangular_systems(sizes, unit, upper, dtype):
    a, b = well_conditioned(*sizes[0], dtype=dtype), numbers(*sizes[1], dtype=dtype, seed=1)
    want = torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
    assert_near(torch.linalg.solve_triangular(a.npu(), b.npu(), upper=upper, unitriangular=unit), want)
    if len(sizes[0]) == len(sizes[1]):
        want = torch.triangular_solve(b, a, upper=upper, transpose=True, unitriangular=unit)
        got = torch.triangular_solve(b.npu(), a.npu(), upper=upper, transpose=True, unitriangular=unit)
        assert_near(got[0], want[0])


@pytest.mark.parametrize("dtype", TYPES[:2], ids=str)
def test_determinants(dtype):
    x = numbers(2, 3, 5, 5, dtype=dtype)
    x[0, 0] = 0
    got, want = torch.slogdet(x.npu()), torch.slogdet(x)
    assert_near(got[0], want[0])
    assert_near(got[1], want[1])


def test_gradients():
    for function in (torch.inverse, lambda x: torch.linalg.qr(x)[1], torch.linalg.svdvals):
        results = []
        for device in ("cpu", "npu"):
            x = well_conditioned(4, 4, dtype=torch.float32).to(device).requires_grad_()
            results.append(torch.autograd.grad(function(x).sum(), x)[0])
        assert_near(results[1], results[0])


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "hfft", "ihfft"])
def test_fourier(name):
    real = name in ("rfft", "rfft2", "ihfft")
    function = getattr(torch.fft, name)
    for size in [(8,), (3, 7), (2, 6, 5)]:
        if name.endswith("2") and len(size) < 2:
            continue
        x = numbers(*size, dtype=torch.float32 if real else torch.complex64)
        assert_near(function(x.npu()), function(x))
