"""The torch calls that Cairn's operators have to serve, each as a function of a device: see required.py.

`ALL` lists them; those from `gradients` on also run the backward pass.
"""

import torch
from torch import nn
from torch.nn import functional as F


def numbers(*size, device, dtype=torch.float32, grad=False):
    """Numbers between -1 and 1 that are the same everywhere."""
    count = max(1, int(torch.Size(size).numel()))
    values = torch.linspace(-1, 1, count)[: torch.Size(size).numel()].reshape(size).to(dtype)
    return values.to(device).requires_grad_(grad)


def creation(d):
    torch.zeros(3, device=d), torch.ones(3, device=d), torch.full((3,), 2.0, device=d), torch.empty(3, device=d)
    x = numbers(2, 3, device=d)
    torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3), x.new_zeros(2), x.new_full((2,), 1), x.fill_(1), x.zero_()
    x.fill_(torch.tensor(2.0, device=d)), torch.eye(3, device=d), torch.linspace(0, 1, 5, device=d)
    torch.arange(5, device=d), torch.arange(1.0, 2.0, 0.25, device=d), torch.tensor([1, 2], device=d)


def copying(d):
    x = numbers(4, 6, device=d)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool):
        x.to(dtype).to(torch.float32)
    x.t().contiguous(), x[:, ::2].clone(), x.expand(2, 4, 6).contiguous(), x.t().cpu(), x.cpu()
    x[1:].copy_(x[:-1].clone()), x.copy_(numbers(6, device=d)), x[:, 1].copy_(torch.zeros(4))


def joining(d):
    x = numbers(2, 3, 4, device=d)
    torch.cat([x, x], 1), torch.stack([x, x]), torch.cat([x, x.half()]), x.repeat(2, 1, 2), x.flip(0), x.roll(1, 2)
    x.reshape(6, 4), x.permute(2, 0, 1).reshape(-1), x.split(1, 2), x.chunk(2, 0), x.repeat_interleave(2, 1), x.tril(), x.triu(1)
    F.pad(x, (1, 2)), torch.tril(torch.ones(3, 3, dtype=torch.bool, device=d))


def indexing(d):
    x, i = numbers(5, 4, device=d), torch.tensor([0, 2, 4], device=d)
    x.index_select(0, i), x[i], x[i, i - 1], x[x > 0], x.masked_select(x > 0), (x > 0).nonzero(), x.take(i)
    x.gather(1, torch.zeros(5, 2, dtype=torch.int64, device=d)), x.index_add(0, i, x[:3]), x.index_fill(0, i, 1.0)
    x.scatter(1, torch.zeros(5, 1, dtype=torch.int64, device=d), 2.0), x.scatter_add(1, torch.zeros(5, 1, dtype=torch.int64, device=d), x)
    x.scatter(1, torch.zeros(5, 1, dtype=torch.int64, device=d), x), x.masked_fill(x > 0, 1.0), x.masked_fill_(x > 0, torch.tensor(2.0, device=d))
    x[i] = 1.0
    x[x > 1] = 0.0
    x.index_put_((i,), x[:3].clone(), accumulate=True), x.index_copy_(0, i, x[:3].clone()), torch.where(x > 0, x, -x), torch.where(x > 0, 1.0, x)
    F.one_hot(i), F.embedding(i, x), x[1], x[-1, 2], x[None, :, 1:3]


def arithmetic(d):
    x, y, n = numbers(3, 4, device=d), numbers(4, device=d) + 2, torch.arange(1, 13, device=d).reshape(3, 4)
    x + y, x + 1, 1 + x, x - y, x - 1, 1 - x, torch.rsub(x, y), x * y, x * 2, x / y, x / 2, 2 / y, n // 2, n // n, n % 2, n % n, x % y, 2 % y
    torch.add(x, y, alpha=2), torch.sub(x, y, alpha=2), torch.div(x, y, rounding_mode="floor"), torch.div(x, 2, rounding_mode="trunc")
    torch.fmod(x, y), torch.fmod(x, 2), n + n, n * 2, n / 2, n / n, (n > 3) + n, (n > 3) & (n < 6), (n > 3) | (n < 2), (n > 3) ^ (n > 2), ~(n > 3), ~n
    n & 3, n | n, n ^ 1, x.add_(y), x.add_(1), x.sub_(y), x.sub_(1), x.mul_(y), x.mul_(2), x.div_(y), x.div_(2), n.floor_divide_(2)
    x.clamp(-1, 1), x.clamp(min=0), x.clamp(max=0), x.clamp_(0, 1), x.clamp(y, y), torch.maximum(x, y), torch.minimum(x, y)
    y**2, y**0.5, y**y, 2**y, y.pow_(2), y.square(), x.lerp(y, 0.5), torch.addcmul(x, x, x, value=2), torch.addcdiv(x, x, x + 2, value=2)
    x.remainder_(2), x.logical_and(x), x.logical_or(x), x.logical_xor(x), x.logical_not()


def functions(d):
    x = numbers(3, 4, device=d).abs() + 0.5
    for name in "neg abs exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan tanh sigmoid erf erfc floor ceil round trunc frac sign relu".split():
        getattr(torch, name)(x)
    for name in "neg_ abs_ exp_ log_ sqrt_ rsqrt_ reciprocal_ sin_ cos_ tanh_ sigmoid_ floor_ ceil_ round_ trunc_ relu_".split():
        getattr(x.clone(), name)()
    F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.leaky_relu(x), F.softplus(x), F.elu(x), F.mish(x), F.hardswish(x)
    F.hardsigmoid(x), F.hardtanh(x), F.logsigmoid(x), F.relu6(x), F.silu(x, inplace=True)


def comparing(d):
    x, y = numbers(3, 4, device=d), numbers(4, device=d)
    for name in "eq ne gt ge lt le".split():
        getattr(torch, name)(x, y), getattr(torch, name)(x, 0), getattr(x.clone(), name + "_")(0), getattr(x.clone(), name + "_")(y)
    x.isfinite(), x.isnan(), x.isinf(), torch.equal(x, x), torch.allclose(x, x), torch.isclose(x, x)


def reducing(d):
    x = numbers(3, 4, device=d)
    x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), (x > 0).sum(), x.mean(), x.mean(1), x.max(), x.min(), x.max(1), x.min(0), x.amax(1), x.amin((0, 1))
    x.argmax(), x.argmax(1), x.argmin(0), (x > 0).any(), (x > 0).all(), (x > 0).any(1), (x > 0).all(0), x.var(), x.var(1), x.std(1), x.std(), torch.var_mean(x, 1)
    x.prod(), x.prod(1), x.norm(), x.norm(dim=1), x.norm(1), x.logsumexp(1), x.cumsum(1), x.cumprod(0), x.half().sum(1), x.softmax(-1), x.log_softmax(0), x.half().softmax(-1)
    x.count_nonzero(), torch.aminmax(x), torch.std_mean(x)


def sorting(d):
    x = numbers(3, 5, device=d)
    x.sort(), x.sort(0, descending=True), x.argsort(), x.topk(2), x.topk(2, 0, largest=False), torch.randperm(10, device=d)
    torch.sort(x, stable=True), x.half().sort(), torch.arange(9, device=d).topk(3), x.msort(), x.median(), x.median(1), x.kthvalue(2)


def products(d):
    a, b, c = numbers(4, 6, device=d), numbers(6, 5, device=d), numbers(2, 4, 6, device=d)
    a @ b, a.mm(b), a @ b[:, 0], b[:, 0] @ b[:, 1], c @ b, c.bmm(c.mT), c @ c.mT, torch.addmm(numbers(5, device=d), a, b), torch.addmm(a @ b, a, b, beta=2, alpha=3)
    torch.baddbmm(c @ c.mT, c, c.mT), a.half() @ b.half(), torch.outer(b[:, 0], b[:, 1]), a.mv(b[:, 0]), torch.einsum("ij,kj->ik", a, a), (a @ b).addmm_(a, b)
    torch.addmv(numbers(4, device=d), a, b[:, 0]), torch.addbmm(numbers(4, 4, device=d), c, c.mT)
    F.linear(c, b.t(), numbers(5, device=d)), F.linear(c, b.t()), F.linear(c[0, 0], b.t(), numbers(5, device=d))


def randomness(d):
    torch.randn(9, device=d), torch.rand(9, device=d), torch.randint(5, (9,), device=d), torch.empty(9, device=d).normal_(1, 2)
    torch.empty(9, device=d).uniform_(-1, 1), torch.empty(9, device=d).random_(0, 9), torch.bernoulli(torch.full((9,), 0.5, device=d))
    torch.empty(9, device=d).bernoulli_(0.3), F.dropout(numbers(9, device=d), 0.5, True), torch.multinomial(torch.ones(4, device=d), 2)
    torch.normal(numbers(4, device=d), numbers(4, device=d).abs()), torch.randn_like(numbers(3, device=d)), torch.rand_like(numbers(3, device=d)), torch.randint_like(numbers(3, device=d), 4)
    torch.empty(9, device=d).exponential_(), torch.normal(0.0, 1.0, (3,), device=d)


def printing(d):
    for tensor in (numbers(3, 4, device=d), torch.arange(5, device=d), numbers(3, device=d) > 0, numbers(3, device=d).half(), torch.tensor(1.5, device=d)):
        str(tensor)
    str(numbers(2000, device=d)), str(torch.tensor([1e-9, 1e9, float("nan"), float("inf")], device=d)), str(torch.empty(0, device=d))
    numbers(3, device=d).tolist(), numbers(1, device=d).item(), bool(numbers(1, device=d) > 5), len(numbers(3, device=d))


def gradients(d):
    """Every differentiable call, summed, with its backward pass."""
    i, target = torch.tensor([0, 2, 1], device=d), torch.tensor([0, 1, 3], device=d)

    def backward(function, *sizes, dtype=torch.float32):
        inputs = [numbers(*size, device=d, dtype=dtype, grad=True) for size in sizes]
        (function(*inputs) * 1.0).sum().backward()

    for function in (
        torch.neg, torch.abs, torch.exp, torch.tanh, torch.sigmoid, torch.relu, F.gelu, F.silu, torch.sin, torch.cos, torch.erf, torch.floor,
        lambda x: (x + 2).log(), lambda x: (x + 2).sqrt(), lambda x: (x + 2).rsqrt(), lambda x: (x + 2).reciprocal(), lambda x: (x + 2).log1p(),
        lambda x: F.gelu(x, approximate="tanh"), F.leaky_relu, F.softplus, F.elu, F.mish, F.hardswish, F.logsigmoid, F.hardtanh, F.hardsigmoid,
        lambda x: x**2, lambda x: (x + 2) ** 1.5, lambda x: 2**x, lambda x: x.clamp(-0.5, 0.5), lambda x: x.clamp(min=0), lambda x: x * 2 + 1 - x / 3,
        lambda x: x.sum(0), lambda x: x.mean(1), lambda x: x.mean(), lambda x: x.max(), lambda x: x.max(1)[0], lambda x: x.min(1)[0], lambda x: x.amax(1), lambda x: x.min(),
        lambda x: x.var(1), lambda x: x.std(), lambda x: x.norm(), lambda x: (x + 2).prod(), lambda x: x.logsumexp(1), lambda x: x.cumsum(1), lambda x: x.softmax(-1), lambda x: x.log_softmax(-1),
        lambda x: x.sort()[0], lambda x: x.topk(2)[0], lambda x: x.gather(1, i[:, None]), lambda x: x[i], lambda x: x.index_select(0, i), lambda x: x.flip(0), lambda x: x.roll(1, 0),
        lambda x: x.masked_fill(x > 0, 0.0), lambda x: torch.where(x > 0, x, 2 * x), lambda x: x.tril(), lambda x: x.triu(), lambda x: x.repeat(2, 2), lambda x: x.expand(2, 3, 4),
        lambda x: x.t().contiguous(), lambda x: x.reshape(-1)[2:7], lambda x: torch.cat([x, x]), lambda x: torch.stack([x, x]), lambda x: x.half().float(), lambda x: x.repeat_interleave(2, 0),
        lambda x: x.scatter(1, i[:, None], 2.0), lambda x: x.scatter_add(1, i[:, None], x[:, :1]), lambda x: F.nll_loss(x, target), lambda x: F.cross_entropy(x, target), lambda x: x[x > 0],
        lambda x: F.nll_loss(x, target, reduction="none"), lambda x: F.cross_entropy(x, target, label_smoothing=0.1), lambda x: F.dropout(x, 0.5, True), lambda x: F.pad(x, (1, 1)), lambda x: x.chunk(2)[0], lambda x: x.masked_select(x > 0),
    ):  # fmt: skip
        backward(function, (3, 4))
    for function in (
        torch.add, torch.sub, torch.mul, lambda x, y: x / (y + 2), lambda x, y: (x + 2) ** y, torch.maximum, torch.minimum, F.mse_loss, F.l1_loss, F.smooth_l1_loss,
        lambda x, y: F.mse_loss(x, y, reduction="none"), lambda x, y: x.lerp(y, 0.3), lambda x, y: torch.addcmul(x, y, y), F.binary_cross_entropy_with_logits,
    ):  # fmt: skip
        backward(function, (3, 4), (3, 4))
        backward(function, (3, 4), (1, 4)) if function not in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.binary_cross_entropy_with_logits) else None
    backward(torch.mm, (3, 4), (4, 5)), backward(torch.matmul, (2, 3, 4), (4, 5)), backward(torch.bmm, (2, 3, 4), (2, 4, 5)), backward(torch.matmul, (3, 4), (4,))
    backward(torch.addmm, (5,), (3, 4), (4, 5)), backward(torch.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5)), backward(F.linear, (2, 3, 4), (5, 4), (5,)), backward(F.linear, (2, 3, 4), (5, 4))
    backward(torch.dot, (4,), (4,)), backward(lambda x, w, b: F.layer_norm(x, (4,), w, b), (3, 4), (4,), (4,)), backward(lambda x: F.layer_norm(x, (4,)), (3, 4)), backward(lambda w: F.embedding(i, w), (5, 3))
    backward(torch.mm, (3, 4), (4, 5), dtype=torch.float16), backward(lambda x: x.softmax(-1), (3, 4), dtype=torch.bfloat16)


def convolutions(d):
    def backward(function, *sizes, dtype=torch.float32, **options):
        inputs = [numbers(*size, device=d, dtype=dtype, grad=True) for size in sizes]
        function(*inputs, **options).sum().backward()

    backward(F.conv1d, (2, 3, 9), (4, 3, 3), (4,)), backward(F.conv2d, (2, 3, 9, 8), (4, 3, 3, 3), (4,), padding=1), backward(F.conv3d, (1, 2, 4, 5, 6), (3, 2, 2, 3, 3))
    backward(F.conv2d, (2, 4, 9, 8), (4, 1, 3, 3), (4,), groups=4), backward(F.conv2d, (2, 4, 9, 8), (6, 2, 3, 3), groups=2, stride=2, dtype=torch.float16)
    backward(F.conv_transpose1d, (2, 3, 9), (3, 4, 3)), backward(F.conv_transpose2d, (2, 3, 5, 6), (3, 4, 3, 3), (4,), stride=2), backward(F.conv_transpose3d, (1, 2, 3, 4, 5), (2, 3, 2, 2, 2))
    backward(F.unfold, (2, 3, 6, 7), kernel_size=3), backward(F.fold, (2, 18, 15), output_size=(4, 7), kernel_size=(2, 3))
    backward(lambda x: x.unfold(1, 3, 2), (2, 9))


def recurrent(d):
    """Recurrent networks and cells, for which torch_npu has separate functions."""
    x = numbers(3, 2, 4, device=d)
    for module in (nn.LSTM(4, 5), nn.GRU(4, 5)):
        module.to(d)(x)[0].sum().backward()
    sum(nn.LSTMCell(4, 5).to(d)(x[0])).sum().backward()


def training(d):
    """The optimisers, plain, with a momentum, decay, and many at a time."""
    makers = [
        lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False), lambda p: torch.optim.Adam(p), lambda p: torch.optim.Adam(p, weight_decay=0.1, amsgrad=True),
        lambda p: torch.optim.Adam(p, foreach=False), lambda p: torch.optim.AdamW(p), lambda p: torch.optim.AdamW(p, foreach=False), lambda p: torch.optim.SGD(p, lr=0.1, maximize=True),
    ]  # fmt: skip
    for make in makers:
        model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2)).to(d)
        optimiser = make(model.parameters())
        for _ in range(2):
            optimiser.zero_grad()
            F.cross_entropy(model(numbers(3, 4, device=d)), torch.tensor([0, 1, 0], device=d)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        optimiser.zero_grad(set_to_none=False)


ALL = [creation, copying, joining, indexing, arithmetic, functions, comparing, reducing, sorting, products, randomness, printing, gradients, convolutions, recurrent, training]
