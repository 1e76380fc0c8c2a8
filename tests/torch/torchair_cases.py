"""A script: networks and single functions through torchair's backend, which torch_npu brings, against the CPU.

    python torchair_cases.py [name ..]        all of them without a name; "mlp" in all modes, or "mlp dynamic training"

A line for each, `name mode: ok` or what differs; exits with 1 when one is not ok.
"""

import sys
import warnings

import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401
from torch import nn

warnings.filterwarnings("ignore")
import torchair  # noqa: E402

import networks  # noqa: E402
import references  # noqa: E402


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    """Attention by plain operators."""
    assert dropout_p == 0.0
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], device=scores.device, dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1) @ value


def fused_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    """Attention by the operator that `scaled_dot_product_attention` is on the device, for which torchair compiles C++: an operator of its own
    in the graph. Two things differ from `scaled_dot_product_attention`, which fails in torchair on an NPU as here. `sync`: without it the operator
    records an event of torch_npu, which torch_npu refuses on the stream of a graph (`External NPU stream is not supported in NPUEvent::record`).
    `pse`, here zeros: without one its gradient is no tensor, and what torchair compiled takes it for one (`Unsupported Torch data type`)."""
    if query.device.type == "cpu" or (attn_mask is not None and attn_mask.dtype != torch.bool):
        return attention(query, key, value, attn_mask, dropout_p, is_causal)
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], device=query.device, dtype=torch.bool).tril()
    masked = None if attn_mask is None else ~attn_mask
    pse = None
    if torch.is_grad_enabled() and query.requires_grad:
        pse = query.new_zeros((*query.shape[:3], key.shape[-2]))
    return torch.ops.npu.npu_fusion_attention_v3(
        query, key, value, query.shape[1], "BNSD", pse=pse, atten_mask=masked, scale=query.shape[-1] ** -0.5, sync=True
    )[0]


torch_attention = F.scaled_dot_product_attention
F.scaled_dot_product_attention = fused_attention
# torchair has no converter for the fused fast path of MultiheadAttention in evaluation.
torch.backends.mha.set_fastpath_enabled(False)

TOLERANCE = 1e-3


class Block(nn.Module):
    """A block of a decoder."""

    def __init__(self, attention=fused_attention):
        super().__init__()
        self.attention = attention
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.feed = nn.Sequential(nn.Linear(16, 32), nn.GELU(approximate="tanh"), nn.Linear(32, 16))

    def forward(self, x):
        batch, length, size = x.shape
        parts = self.qkv(self.norm1(x)).split(size, dim=-1)
        query, key, value = (one.view(batch, length, 2, 8).transpose(1, 2) for one in parts)
        x = x + self.out(self.attention(query, key, value, is_causal=True).transpose(1, 2).reshape(batch, length, size))
        return x + self.feed(self.norm2(x))


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


# Name: the network, sizes of an input, and of another one for graphs of unknown sizes.
NETWORKS = {
    "mlp": (mlp, (5, 8), (7, 8)),
    "convolutions": (cnn, (2, 3, 16, 16), (3, 3, 16, 16)),
    "block": (Block, (2, 6, 16), (3, 6, 16)),
    "block of plain operators": (lambda: Block(attention), (2, 6, 16), (3, 6, 16)),
    "rms norm": (lambda: nn.Sequential(nn.Linear(6, 8), nn.RMSNorm(8), nn.Linear(8, 2)), (5, 6), (7, 6)),
    "batch norm": (lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), (5, 6), (7, 6)),
    "batch norm 2d": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU()), (2, 3, 6, 6), (3, 3, 6, 6)),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4), nn.SiLU()), (2, 3, 6, 6), (3, 3, 6, 6)),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.ReLU()), (2, 2, 9), (3, 2, 9)),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(2, 4, 3), nn.ReLU()), (2, 2, 5, 5, 5), (3, 2, 5, 5, 5)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3, stride=2), nn.ReLU()), (2, 3, 6, 6), (3, 3, 6, 6)),
    "pools": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.AvgPool2d(2), nn.Upsample(scale_factor=2)), (2, 3, 10, 10), None),
}

# The networks of networks.py.
FROM_NETWORKS_PY = list(networks.NETWORKS)

def updated(x):
    """An update at a place of its own in each batch."""
    index, updates = torch.tensor([1, 2], device=x.device), x[:, :1] + 1
    if x.device.type != "cpu":
        return torch_npu.scatter_update(x, index, updates, -2)
    return references.updated_batches(x, index, updates, -2)


def updated_list(x):
    """The same of a list of tensors."""
    tensors, index, updates = [x[0] + 1, x[1] + 2], torch.tensor([0, 2], device=x.device), x[:, :1] + 1
    mask = torch.tensor([0, 1], dtype=torch.uint8, device=x.device)
    if x.device.type != "cpu":
        return torch_npu.npu_scatter_list(tensors, index, updates, mask, reduce="update", axis=-2)
    return references.scattered_list(tensors, index, updates, mask, -2)


# What torchair makes of single functions; only forward.
def served(x):
    """Attention of one token for each of two sequences to a paged cache."""
    cache = torch.linspace(-1, 1, 3 * 3 * 16 * 4, device=x.device).reshape(3, 3, 16, 4)
    table = torch.tensor([[2, 0], [1, 0]], dtype=torch.int32, device=x.device)
    if x.device.type == "cpu":
        return references.inference(x[:, :, None], cache, -cache, 0.5, [20, 9], table=table)[0]
    return torch_npu.npu_fused_infer_attention_score(
        x[:, :, None], cache, -cache, num_heads=3, scale=0.5, input_layout="BNSD", block_table=table, block_size=16,
        actual_seq_lengths_kv=[20, 9],
    )[0]  # fmt: skip


def put_into_cache(x):
    """Two tokens in the slots of a paged cache."""
    keys, values = torch.zeros(2, 16, 3, 4, device=x.device), torch.ones(2, 16, 3, 4, device=x.device)
    slots = torch.tensor([5, 20], dtype=torch.int32, device=x.device)
    if x.device.type == "cpu":
        return references.put_into_slots(keys, slots, x) + 2 * references.put_into_slots(values, slots, -x)
    torch_npu.npu_scatter_pa_kv_cache(x, -x, keys, values, slots, cache_mode="Norm")
    return keys + 2 * values


FUNCTIONS = {
    "rsub": lambda x: 2 - x,
    "std": lambda x: x.std(2),
    "std of all but one": lambda x: x.std((0, 2), keepdim=True, correction=0),
    "index": lambda x: x[torch.tensor([1, 0, -1], device=x.device)],
    "index twice": lambda x: x[torch.tensor([1, 0], device=x.device), :, torch.tensor([2, 3], device=x.device)],
    "as_strided": lambda x: x.as_strided((2, 3), (4, 1), 2) + 1,
    "as_strided_scatter": lambda x: torch.as_strided_scatter(x, x.flatten()[:6].reshape(2, 3) + 1, (2, 3), (4, 1), 2),
    "view of bytes": lambda x: (x + 1).view(torch.int32),
    "select backward": lambda x: torch.ops.aten.select_backward(x[0], (2, 3, 4), 0, 1)[1],
    "linspace": lambda x: torch.linspace(0, 9, 4, device=x.device) + x,
    "replicate": lambda x: F.pad(x, (1, 2), mode="replicate"),
    "reflect": lambda x: F.pad(x[None], (1, 2, 1, 0), mode="reflect"),
    "views alone": lambda x: x[:, 1:].transpose(0, 1),
    "split": lambda x: x.split(2, dim=-1),
    "upsample": lambda x: F.interpolate(x[None], size=(6, 8), mode="nearest"),
    "cumsum": lambda x: x.cumsum(-1),
    "topk": lambda x: x.topk(2, -1)[0],
    "attention with a float mask": lambda x: torch_attention(x[None], x[None], x[None], attn_mask=torch.zeros(3, 3, device=x.device)),
    "where": lambda x: torch.where(x > 0, x, -x).sqrt(),
    "scatter update": updated,
    "scatter list": updated_list,
    "attention to a paged cache": served,
    "slots of a paged cache": put_into_cache,
    "fft": lambda x: torch.fft.fft(torch.complex(x, x + 1), dim=1, norm="ortho"),
    "fft2": lambda x: torch.fft.fft2(torch.complex(x, x + 1)),
}


def backend():
    return torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())


def difference(actual, expected):
    """How two results differ; an empty text when they are close."""
    if isinstance(expected, (tuple, list)):
        return "; ".join(filter(None, (difference(a, e) for a, e in zip(actual, expected, strict=True))))
    actual, expected = actual.detach().cpu(), expected.detach()
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype} {tuple(actual.shape)}: expected {expected.dtype} {tuple(expected.shape)}"
    if expected.is_complex():
        actual, expected = torch.view_as_real(actual), torch.view_as_real(expected)
    if torch.allclose(actual.double(), expected.double(), rtol=TOLERANCE, atol=TOLERANCE):
        return ""
    return f"differs by {(actual.double() - expected.double()).abs().max():g}"


def inputs_of(name):
    """How to build a network, and inputs of two sizes for it."""
    if name in networks.NETWORKS:
        network = networks.NETWORKS[name]
        inputs = network.batch(0, "cpu")[0]
        return network.model, [inputs, inputs[:5].clone()]
    make, *sizes = NETWORKS[name]
    return make, [torch.randn(size) for size in sizes if size]


def check_network(name, dynamic, train):
    """How a compiled network differs from the CPU; an empty text when it does not."""
    torch.manual_seed(0)
    make, inputs = inputs_of(name)
    expected, actual = make(), make()
    actual.load_state_dict(expected.state_dict())
    actual = actual.npu()
    for one in expected, actual:
        one.train(train)
    compiled = torch.compile(actual, backend=backend(), dynamic=dynamic)
    for x in inputs if dynamic else inputs[:1] * 2:
        needs_grad = train and x.is_floating_point()
        inputs = x.clone().requires_grad_(needs_grad), x.npu().requires_grad_(needs_grad)
        with torch.set_grad_enabled(train):
            results = expected(inputs[0]), compiled(inputs[1])
        differences = [("result", difference(results[1], results[0]))]
        if train:
            weight = torch.randn(results[0].shape)
            (results[0] * weight).sum().backward()
            (results[1] * weight.npu()).sum().backward()
            if needs_grad:
                differences.append(("gradient of the input", difference(inputs[1].grad, inputs[0].grad)))
            pairs = zip(expected.named_parameters(), actual.parameters())
            differences += [(f"gradient of {key}", difference(other.grad, one.grad)) for (key, one), other in pairs]
            differences += [(key, difference(other, one)) for (key, one), other in zip(expected.named_buffers(), actual.buffers())]
            expected.zero_grad(), actual.zero_grad()
        differences = [f"{what} {how}" for what, how in differences if how]
        if differences:
            return ", ".join(differences)
    return ""


def check_function(name, dynamic):
    compiled = torch.compile(FUNCTIONS[name], backend=backend(), dynamic=dynamic)
    for length in (4, 6) if dynamic else (4, 4):
        x = torch.randn(2, 3, length)
        differences = difference(compiled(x.npu()), FUNCTIONS[name](x))
        if differences:
            return differences
    return ""


# What torchair itself cannot do: (name, whether sizes are unknown, whether it trains). It has no gradient of nearest upsampling
# with unknown sizes, and none of bilinear upsampling. In training it takes the running mean and variance that the IR declares as the second and third output of BatchNormV3
# for those of the batch, and vice versa.
NOT_IN_TORCHAIR = {("pools", True, True), ("unet", False, True), ("unet", True, True)}
NOT_IN_TORCHAIR |= {(name, dynamic, True) for name in ("batch norm", "batch norm 2d", "cnn", "resnet") for dynamic in (False, True)}
# Llama repeats heads with `repeat_interleave`. On meta tensors torch_npu reports that its gradient has the strides of the input; in truth it is contiguous.
# Because of that torchair leaves a transposition out, and `aot_eager` fails.
NOT_IN_TORCHAIR |= {("llama", dynamic, True) for dynamic in (False, True)}


def cases(names):
    for name in [*NETWORKS, *FROM_NETWORKS_PY]:
        for dynamic in (False, True):
            for train in (False, True):
                mode = f"{'dynamic' if dynamic else 'static'} {'training' if train else 'inference'}"
                if {name, f"{name} {mode}"} & set(names) and (name, dynamic, train) not in NOT_IN_TORCHAIR:
                    yield name, mode, lambda: check_network(name, dynamic, train)  # noqa: B023
    for name in FUNCTIONS:
        if name in names:
            yield name, "static", lambda: check_function(name, False)  # noqa: B023


def main(names):
    bad = 0
    for name, mode, run in cases(names or [*NETWORKS, *FROM_NETWORKS_PY, *FUNCTIONS]):
        torch._dynamo.reset()
        try:
            differences = run()
        except Exception as error:  # noqa: BLE001
            differences = " ".join(str(error).split())[-1500:]
        bad += bool(differences)
        print(f"{name} {mode}: {differences or 'ok'}", flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
