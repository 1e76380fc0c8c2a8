"""`cargo xtask bench ops`: the time of operators on `npu` beside PyTorch's on `cpu`, in one process.

Started once for each number of threads: CAIRN_WORKERS says how many. Both sides run the same calls in turns, round after
round, and the best round of each counts. With --tiny, only the tiny addition is timed: bench ops starts that a second time with
operators that do nothing, to know the share of the runtime. With --only TEXT, rows whose names contain the text are timed; with
--processor-time, the processor time of the process counts, which other programs on the machine disturb less. The other calls run
with TASK_QUEUE_ENABLE=0: a thread of torch_npu's own spins beside its queue, on a core that both sides want.
"""

import argparse
import ctypes
import json
import os
import sys
import time

import torch
import torch_npu  # noqa: F401
from torch.nn import functional as F

import models
import decoding

THREADS = int(os.environ["CAIRN_WORKERS"])
torch.set_num_threads(THREADS)
now = time.perf_counter


def best(run, finish, seconds=0.05, rounds=1):
    """The best time of one call over rounds of as many calls as fill `seconds`."""
    run(1), finish()
    count, elapsed = 1, 0.0
    while True:
        start = now()
        run(count), finish()
        elapsed = now() - start
        if elapsed > seconds / 4:
            break
        count *= 2
    shortest = elapsed / count
    count = max(1, int(count * seconds / elapsed))
    for _ in range(rounds):
        start = now()
        run(count), finish()
        shortest = min(shortest, (now() - start) / count)
    return shortest, count


def runner(call, arguments, finish):
    def run(count):
        with torch.no_grad():
            for _ in range(count):
                call.work(*arguments)

    return run, finish


class Call:
    """What is measured. With a tolerance, the results of both sides are compared first; they may be apart by so much of the greatest."""

    def __init__(self, name, goal, work, make, tolerance=None):
        self.name, self.goal, self.work, self.make, self.tolerance = name, goal, work, make, tolerance


def tensors(*sizes, dtype=torch.float32):
    return lambda device: [torch.linspace(-1, 1, torch.Size(size).numel()).reshape(size).to(dtype).to(device) for size in sizes]


def block(x, qkv_weight, out_weight, up, down, w1, b1, w2, b2):
    """A transformer's block at sequence 128: attention of 8 heads over 512, then a layer of 2,048."""
    batch, length, width = x.shape
    normalised = F.layer_norm(x, (width,), w1, b1)
    query, key, value = (normalised @ qkv_weight).view(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4)
    weights = (query @ key.transpose(-2, -1) * 0.125).softmax(-1)
    x = x + (weights @ value).transpose(1, 2).reshape(batch, length, width) @ out_weight
    return x + F.gelu(F.layer_norm(x, (width,), w2, b2) @ up) @ down


def convolution(batch, inputs, size, outputs, kernel, stride=1, groups=1):
    """Sizes of a convolution's input and weight, and how it is called."""
    shapes = (batch, inputs, size, size), (outputs, inputs // groups, kernel, kernel)
    return shapes, dict(stride=stride, padding=kernel // 2, groups=groups)


def convolve(*conv):
    """Work and inputs of a convolution."""
    shapes, options = convolution(*conv)
    return lambda x, w: F.conv2d(x, w, **options), tensors(*shapes)


def convolve_backward(*conv):
    """Work and inputs of the gradients of a convolution's input and weight."""
    shapes, options = convolution(*conv)
    window = [options["stride"]] * 2, [options["padding"]] * 2, [1, 1], False, [0, 0], options["groups"]

    def make(device):
        x, w = tensors(*shapes)(device)
        return F.conv2d(x, w, **options), x, w

    return lambda grad, x, w: torch.ops.aten.convolution_backward(grad, x, w, None, *window, [True, True, False]), make


# The shapes of ResNet-50, one of a kind: samples, inputs, size, outputs, kernel, stride.
RESNET = [
    (1, 3, 224, 64, 7, 2), (1, 64, 56, 64, 1), (1, 64, 56, 64, 3), (1, 64, 56, 256, 1), (1, 256, 56, 128, 1), (1, 128, 56, 128, 3, 2), (1, 256, 56, 512, 1, 2),
    (1, 128, 28, 128, 3), (1, 512, 28, 128, 1), (1, 256, 14, 256, 3), (1, 1024, 14, 256, 1), (1, 512, 7, 512, 3), (1, 2048, 7, 512, 1), (1, 512, 7, 2048, 1),
]  # fmt: skip
DEPTHWISE = [(1, 144, 56, 144, 3, 1, 144), (1, 144, 56, 144, 3, 2, 144), (1, 576, 14, 576, 3, 1, 576)]
TRAINED = [(8, 64, 56, 64, 3), (8, 128, 28, 128, 3), (8, 512, 28, 128, 1), (8, 256, 14, 256, 3), (8, 512, 7, 512, 3), (8, 144, 28, 144, 3, 1, 144)]


def recurrent(kind, steps, rows, inputs, hidden):
    """Work and inputs of one layer of a recurrent network."""
    blocks = {"lstm": 4, "gru": 3}[kind] * hidden

    def run(x, first, *weights):
        states = [first, first] if kind == "lstm" else first
        return getattr(torch, kind)(x, states, weights, True, 1, 0.0, False, False, False)[0]

    return run, tensors((steps, rows, inputs), (1, rows, hidden), (blocks, inputs), (blocks, hidden), (blocks,), (blocks,))


def attention(length, dtype=torch.float32):
    """Work and inputs of attention by 12 heads of 64, each position to those before it."""
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), tensors(*3 * [(1, 12, length, 64)], dtype=dtype)


def attention_backward(length, dtype=torch.float32):
    """Work and inputs of the gradients of such attention, without the forward pass."""

    def make(device):
        inputs = [one.requires_grad_() for one in tensors(*3 * [(1, 12, length, 64)], dtype=dtype)(device)]
        with torch.enable_grad():
            out = F.scaled_dot_product_attention(*inputs, is_causal=True)
        return out, inputs, torch.ones_like(out)

    return lambda out, inputs, grad: torch.autograd.grad(out, inputs, grad, retain_graph=True), make


def with_indices(work, size, count, below):
    """Work and inputs of a function of a table and indices into it."""

    def make(device):
        indices = torch.randint(below, (count,), generator=torch.Generator().manual_seed(0))
        return [*tensors(size)(device), indices.to(device)]

    return work, make


def embedding_backward(count, rows, width):
    def make(device):
        indices = torch.randint(rows, (count,), generator=torch.Generator().manual_seed(0))
        return [*tensors((count, width))(device), indices.to(device)]

    return lambda grad, at: torch.ops.aten.embedding_dense_backward(grad, at, rows, -1, False), make


def shuffled(*size):
    """Numbers in no order."""
    return lambda device: [torch.rand(size, generator=torch.Generator().manual_seed(0)).to(device)]


def conv_name(conv):
    batch, inputs, size, outputs, kernel, stride, groups = (*conv, 1, 1)[:7] if len(conv) < 7 else conv
    return f"{batch}x{inputs}x{size}x{size} to {outputs}, {kernel}x{kernel}" + (f" by {stride}" if stride > 1 else "") + (" depthwise" if groups > 1 else "")


BIG = 4 << 20  # floats: 16 MiB
CALLS = [
    Call("matmul 256", 1.03, torch.mm, tensors((256, 256), (256, 256))),
    Call("matmul 1024", 1.03, torch.mm, tensors((1024, 1024), (1024, 1024))),
    Call("matmul 256 bf16", None, torch.mm, tensors((256, 256), (256, 256), dtype=torch.bfloat16)),
    Call("matmul 1024 bf16", None, torch.mm, tensors((1024, 1024), (1024, 1024), dtype=torch.bfloat16)),
    Call("add 16 MiB", 1.0, lambda a, b, out: torch.add(a, b, out=out), tensors((BIG,), (BIG,), (BIG,))),
    Call("mul by a number 16 MiB", 1.0, lambda a, out: torch.mul(a, 3.0, out=out), tensors((BIG,), (BIG,))),
    Call("exp 16 MiB", 1.0, lambda a, out: torch.exp(a, out=out), tensors((BIG,), (BIG,))),
    Call("gelu 16 MiB", 1.0, F.gelu, tensors((BIG,))),
    Call("f16 add 16 MiB", 1.0, lambda a, b, out: torch.add(a, b, out=out), tensors((2 * BIG,), (2 * BIG,), (2 * BIG,), dtype=torch.float16)),
    Call("transpose copy 16 MiB", 1.0, lambda a: a.t().contiguous(), tensors((2048, 2048))),
    Call("sum 16 MiB", 1.0, torch.sum, tensors((BIG,))),
    Call("sum over rows 16 MiB", 1.0, lambda a: a.sum(1), tensors((2048, 2048))),
    Call("sum over columns 16 MiB", 1.0, lambda a: a.sum(0), tensors((2048, 2048))),
    Call("max over rows 16 MiB", 1.0, lambda a: a.amax(1), tensors((2048, 2048))),
    Call("softmax 2048x2048", 1.0, lambda a: a.softmax(-1), tensors((2048, 2048))),
    Call("layer norm 2048x1024", 1.0, lambda a, w, b: F.layer_norm(a, (1024,), w, b), tensors((2048, 1024), (1024,), (1024,))),
    Call("transformer block, sequence 128", 1.0, block, tensors((1, 128, 512), (512, 1536), (512, 512), (512, 2048), (2048, 512), (512,), (512,), (512,), (512,))),
]  # fmt: skip
HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}
for short, dtype in HALVES.items():
    CALLS += [
        Call(f"{short} mul by a number 16 MiB", 1.0, lambda a, out: torch.mul(a, 3.0, out=out), tensors((2 * BIG,), (2 * BIG,), dtype=dtype)),
        Call(f"{short} exp 16 MiB", 1.0, lambda a, out: torch.exp(a, out=out), tensors((2 * BIG,), (2 * BIG,), dtype=dtype)),
        Call(f"{short} sum over rows 16 MiB", 1.0, lambda a: a.sum(1), tensors((2048, 4096), dtype=dtype)),
        Call(f"{short} softmax 2048x2048", 1.0, lambda a: a.softmax(-1), tensors((2048, 2048), dtype=dtype)),
        Call(f"{short} layer norm 2048x1024", 1.0, lambda a, w, b: F.layer_norm(a, (1024,), w, b), tensors((2048, 1024), (1024,), (1024,), dtype=dtype)),
    ]
CALLS += [
    Call("bf16 add 16 MiB", 1.0, lambda a, b, out: torch.add(a, b, out=out), tensors((2 * BIG,), (2 * BIG,), (2 * BIG,), dtype=torch.bfloat16)),
    Call("RMS norm 2048x1024", 1.0, lambda a, w: F.rms_norm(a, (1024,), w, 1e-6), tensors((2048, 1024), (1024,))),
    Call("sort 1,048,576", 1.0, lambda a: a.sort(), shuffled(1 << 20)),
    Call("sort 1024 rows of 1024", 1.0, lambda a: a.sort(-1), shuffled(1024, 1024)),
    Call("top 8 of 1024 rows of 1024", 1.0, lambda a: a.topk(8), shuffled(1024, 1024)),
    Call("index 65,536 rows of 64", 1.0, *with_indices(lambda a, at: a[at], (65_536, 64), 65_536, 65_536)),
    Call("index_select 65,536 rows of 64", 1.0, *with_indices(lambda a, at: a.index_select(0, at), (65_536, 64), 65_536, 65_536)),
    Call("scatter add 1,048,576", 1.0, *with_indices(lambda a, at: a.scatter_add(0, at, a), (1 << 20,), 1 << 20, 1 << 20)),
    Call("index add 65,536 rows of 64", 1.0, *with_indices(lambda a, at: a.index_add(0, at, a), (65_536, 64), 65_536, 65_536)),
    Call("embedding 4,096 of 50,257x768", 1.0, *with_indices(lambda a, at: F.embedding(at, a), (50_257, 768), 4096, 50_257)),
    Call("embedding back 4,096 of 50,257x768", 1.0, *embedding_backward(4096, 50_257, 768)),
]  # fmt: skip
CALLS += [Call(f"attention, sequence {length}", 1.0, *attention(length)) for length in (128, 1024, 4096)]
CALLS += [Call(f"{short} attention, sequence {length}", 1.0, *attention(length, dtype)) for short, dtype in HALVES.items() for length in (128, 1024)]
CALLS += [Call(f"attention back, sequence {length}", 1.0, *attention_backward(length)) for length in (128, 1024)]
CALLS += [Call(f"{short} attention back, sequence 1024", 1.0, *attention_backward(1024, dtype)) for short, dtype in HALVES.items()]
CALLS += [Call(f"{kind} 64 steps of 32x256 to 256", 1.0, *recurrent(kind, 64, 32, 256, 256)) for kind in ("lstm", "gru")]
CALLS += [Call(f"conv {conv_name(conv)}", 1.0, *convolve(*conv)) for conv in RESNET + DEPTHWISE]
CALLS += [Call(f"conv back {conv_name(conv)}", 1.0, *convolve_backward(*conv)) for conv in TRAINED]
CALLS += [Call(name, 1.0, *work_and_inputs) for name, work_and_inputs in models.ROWS.items()]
CALLS += [Call(name, goal, *work_and_inputs, tolerance) for name, goal, work_and_inputs, tolerance in decoding.ROWS]


def compare(call, rounds):
    on_npu, on_cpu = call.make("npu"), call.make("cpu")
    if call.tolerance is not None:
        with torch.no_grad():
            have, want = (call.work(*arguments).cpu().double().flatten() for arguments in (on_npu, on_cpu))
        apart, greatest = (have - want).abs().max().item(), want.abs().max().item()
        assert apart <= call.tolerance * greatest, f"{call.name}: results are {apart} apart, of {greatest}"
    # Some peers are on npu too.
    npu, cpu = runner(call, on_npu, torch.npu.synchronize), runner(call, on_cpu, torch.npu.synchronize)
    npu_time = cpu_time = float("inf")
    for _ in range(rounds):
        npu_time = min(npu_time, best(*npu)[0])
        cpu_time = min(cpu_time, best(*cpu)[0])
    return npu_time, cpu_time


def tiny(rounds=8):
    """Nanoseconds of `x + y` on 16 floats, from Python, the queue kept busy."""
    x, y = (torch.ones(16, device="npu") for _ in range(2))

    def run(count):
        for _ in range(count):
            x + y

    return min(best(run, torch.npu.synchronize, seconds=0.1)[0] for _ in range(rounds)) * 1e9


def products_in_c(rounds):
    """Seconds of a product of 64x64 at the C door, and of torch.mm on the CPU."""
    library = ctypes.CDLL(os.environ["CAIRN_BENCH_DOOR"])
    library.products.restype = ctypes.c_double
    a, b, c = (torch.ones(64, 64, device="npu") for _ in range(3))
    torch.npu.synchronize()
    addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (a, b, c)]
    stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
    x, y, out = (torch.ones(64, 64) for _ in range(3))

    def multiply_on_cpu(count):
        with torch.no_grad():
            for _ in range(count):
                torch.mm(x, y, out=out)

    npu_time = cpu_time = float("inf")
    for _ in range(rounds):
        elapsed = library.products(stream, 64, 2000, *addresses)
        assert elapsed > 0, "the C door failed"
        npu_time = min(npu_time, elapsed / 2000)
        cpu_time = min(cpu_time, best(multiply_on_cpu, lambda: None)[0])
    assert c.cpu().eq(64).all()
    return npu_time, cpu_time


def main():
    global now
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--processor-time", action="store_true")
    options = parser.parse_args()
    if options.processor_time:
        now = time.process_time
    if options.tiny:
        print(json.dumps({"tiny_ns": tiny()}))
        return
    rounds = int(os.environ.get("CAIRN_BENCH_ROUNDS", "6"))
    rows = []

    def add(name, goal, npu_time, cpu_time):
        print(f"{name}: {npu_time / cpu_time:.2f}", file=sys.stderr, flush=True)
        rows.append({"name": name, "npu_us": npu_time * 1e6, "cpu_us": cpu_time * 1e6, "ratio": npu_time / cpu_time, "goal": goal})

    for call in CALLS:
        if options.only in call.name:
            add(call.name, call.goal, *compare(call, rounds))
    product = "matmul 64, C door"
    # It times itself, by elapsed time.
    if options.only in product and not options.processor_time:
        add(product, 0.8, *products_in_c(rounds))
    print(json.dumps({"threads": THREADS, "rows": rows}))


if __name__ == "__main__":
    main()
