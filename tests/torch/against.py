"""Operators on our devices against the same ones on PyTorch's CPU."""

import torch

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
REALS = [torch.float32, torch.float16, torch.bfloat16]

# Views of a tensor of sizes (4, 6), each with other strides or sizes.
LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.t(),
    "sliced": lambda x: x[1:, ::2],
    "expanded": lambda x: x[:, :1].expand(4, 5),
    "empty": lambda x: x[:0],
    "single": lambda x: x[0, 0],
}


def gelu(x):
    """GELU as aclnnGelu computes it, in the tanh form, whichever torch_npu was asked for; on the CPU the same form."""
    return torch.nn.functional.gelu(x, approximate="tanh" if x.is_cpu else "none")


def numbers(low, high, dtype, size=(4, 6), seed=0):
    """Numbers between two bounds, the same at every call; each is exact in every floating-point type."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(size, generator=generator) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(int(low), int(high) + 1, size, generator=generator).to(dtype)
    return (torch.rand(size, generator=generator) * (high - low) + low).bfloat16().to(dtype)


def assert_near(have, want, tolerance=None):
    """Fails unless type and sizes are the same, and values within the tolerance of the type."""
    if isinstance(want, (tuple, list)):
        assert len(have) == len(want)
        for one, other in zip(have, want):
            assert_near(one, other, tolerance)
        return
    if not isinstance(want, torch.Tensor):
        assert have == want
        return
    assert have.dtype == want.dtype and have.shape == want.shape, (have.dtype, have.shape, want.dtype, want.shape)
    tolerance = tolerance or TOLERANCES.get(want.dtype, 0)
    torch.testing.assert_close(have.cpu(), want, rtol=tolerance, atol=tolerance, equal_nan=True)


def agree(function, *inputs, view=None, backward=False, tolerance=None):
    """Calls `function` on our device and on the CPU with the same inputs, and compares results and gradients.

    `view` is applied to every tensor on its device, so that strides are what it makes them.
    """

    def run(device):
        leaves = [x.detach().to(device, copy=True) if isinstance(x, torch.Tensor) else x for x in inputs]
        if backward:
            leaves = [x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in leaves]
        viewed = [view(x) if view and isinstance(x, torch.Tensor) else x for x in leaves]
        result = function(*viewed)
        grads = []
        if backward:
            results = result if isinstance(result, (tuple, list)) else [result]
            output_grads = [torch.linspace(0.5, 1.5, max(1, r.numel()))[: r.numel()].reshape(r.shape).to(r.dtype).to(device) for r in results]
            torch.autograd.backward(results, output_grads)
            grads = [x.grad for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
        return result, grads

    (want, want_grads), (have, have_grads) = run("cpu"), run("npu")
    assert_near(have, want if not backward else detached(want), tolerance)
    assert_near(have_grads, want_grads, tolerance)


def detached(result):
    """Without autograd history."""
    return [one.detach() for one in result] if isinstance(result, (tuple, list)) else result.detach()
