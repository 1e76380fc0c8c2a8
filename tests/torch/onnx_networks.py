"""Networks that are exported to ONNX, with random weights: small ones, and the sizes of their papers.

    network = NETWORKS["resnet50"]
    network.export("net.onnx", full=False)          # sizes that vary have names in the file
    inputs = network.inputs({"batch": 2, ...})      # name -> tensor, the same in every run
    expected = network.outputs(inputs, full=False)  # what PyTorch computes on the CPU
"""

import dataclasses
import functools
import pathlib
import sys
import warnings
import zlib
from typing import Callable, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.onnx._internal.torchscript_exporter import onnx_proto_utils

import networks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benches/ops"))
import models  # noqa: E402

# It only adds functions of the package onnxscript to the model, and these networks have none; it needs the package onnx.
onnx_proto_utils._add_onnxscript_fn = lambda model, opsets: model
# PyTorch's own kernel of a whole attention layer, which has no form in ONNX.
torch.backends.mha.set_fastpath_enabled(False)


class ConvUnit(nn.Sequential):
    """A convolution, batch norm, SiLU."""

    def __init__(self, inputs, outputs, kernel=1, stride=1):
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs, eps=1e-3), nn.SiLU())


class PartialStage(nn.Module):
    """Half of the channels pass through bottlenecks, whose outputs are all kept."""

    def __init__(self, inputs, outputs, count):
        super().__init__()
        half = outputs // 2
        self.first = ConvUnit(inputs, outputs)
        self.blocks = nn.ModuleList([nn.Sequential(ConvUnit(half, half, 3), ConvUnit(half, half, 3)) for _ in range(count)])
        self.last = ConvUnit((2 + count) * half, outputs)

    def forward(self, x):
        kept = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            kept.append(kept[-1] + block(kept[-1]))
        return self.last(torch.cat(kept, 1))


class PyramidPooling(nn.Module):
    """Three max pools, one after the other."""

    def __init__(self, width):
        super().__init__()
        self.first, self.last = ConvUnit(width, width // 2), ConvUnit(2 * width, width)

    def forward(self, x):
        kept = [self.first(x)]
        for _ in range(3):
            kept.append(F.max_pool2d(kept[-1], 5, 1, 2))
        return self.last(torch.cat(kept, 1))


class Yolo(nn.Module):
    """A detector: features at strides 8, 16 and 32, joined upwards, and a head that gives boxes and scores of each cell."""

    BINS = 16

    def __init__(self, width=8, classes=4, blocks=1):
        super().__init__()
        w = width
        self.stem = nn.Sequential(ConvUnit(3, w, 3, 2), ConvUnit(w, 2 * w, 3, 2), PartialStage(2 * w, 2 * w, blocks))
        self.to8 = nn.Sequential(ConvUnit(2 * w, 4 * w, 3, 2), PartialStage(4 * w, 4 * w, blocks))
        self.to16 = nn.Sequential(ConvUnit(4 * w, 8 * w, 3, 2), PartialStage(8 * w, 8 * w, blocks))
        self.to32 = nn.Sequential(ConvUnit(8 * w, 8 * w, 3, 2), PyramidPooling(8 * w))
        self.join16, self.join8 = PartialStage(16 * w, 8 * w, blocks), PartialStage(12 * w, 4 * w, blocks)
        widths = (4 * w, 8 * w, 8 * w)
        self.boxes = nn.ModuleList([nn.Sequential(ConvUnit(one, 4 * w, 3), nn.Conv2d(4 * w, 4 * self.BINS, 1)) for one in widths])
        self.scores = nn.ModuleList([nn.Sequential(ConvUnit(one, 4 * w, 3), nn.Conv2d(4 * w, classes, 1)) for one in widths])
        self.register_buffer("bins", torch.arange(self.BINS, dtype=torch.float32))
        # Weights that keep the spread of values through all layers: else the scores of all cells are equal.
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x):
        at8 = self.to8(self.stem(x))
        at16 = self.to16(at8)
        at32 = self.to32(at16)
        at16 = self.join16(torch.cat([F.interpolate(at32, scale_factor=2.0, mode="nearest"), at16], 1))
        at8 = self.join8(torch.cat([F.interpolate(at16, scale_factor=2.0, mode="nearest"), at8], 1))
        corners, scores = [], []
        for stride, features, boxes, score in zip((8, 16, 32), (at8, at16, at32), self.boxes, self.scores):
            height, width = features.shape[2:]
            rows = (torch.arange(height) + 0.5)[:, None].expand(height, width).flatten()
            columns = (torch.arange(width) + 0.5)[None, :].expand(height, width).flatten()
            distances = boxes(features).flatten(2).unflatten(1, (4, self.BINS)).softmax(2)
            left, top, right, bottom = (distances * self.bins[:, None]).sum(2).unbind(1)
            corners.append(stride * torch.stack([columns - left, rows - top, columns + right, rows + bottom], 1))
            scores.append(score(features).flatten(2).sigmoid())
        return torch.cat(corners, 2), torch.cat(scores, 2)


class Detections(nn.Module):
    """The detector with the choice of the best cells: which ones is decided by the scores."""

    def __init__(self, detector, count):
        super().__init__()
        self.detector, self.count = detector, count

    def forward(self, x):
        boxes, scores = self.detector(x)
        best, classes = scores.max(1)
        best, cells = best.topk(self.count, 1)
        return boxes.gather(2, cells[:, None].expand(-1, 4, -1)), best, classes.gather(1, cells)


class BertBlock(nn.Module):
    """Attention written out, with a mask that is added to the scores."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        weights = (query @ key.transpose(-1, -2) / query.size(-1) ** 0.5 + mask).softmax(-1)
        x = self.norm1(x + self.out((weights @ value).permute(0, 2, 1, 3).flatten(2)))
        return self.norm2(x + self.feed(x))


class Bert(nn.Module):
    """BERT with token types and a mask; gives the states and the pooled first one."""

    def __init__(self, width=32, heads=4, depth=2, vocabulary=50, max_length=64):
        super().__init__()
        self.words, self.kinds, self.positions = (nn.Embedding(count, width) for count in (vocabulary, 2, max_length))
        self.register_buffer("numbers", torch.arange(max_length)[None])
        self.norm, self.pool = nn.LayerNorm(width, eps=1e-12), nn.Linear(width, width)
        self.blocks = nn.ModuleList([BertBlock(width, heads) for _ in range(depth)])

    def forward(self, ids, mask, kinds):
        x = self.norm(self.words(ids) + self.kinds(kinds) + self.positions(self.numbers[:, : ids.size(1)]))
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for block in self.blocks:
            x = block(x, hidden)
        return x, self.pool(x[:, 0]).tanh()


class GptStep(nn.Module):
    """GPT-2 with the keys and values of the tokens before: (layers, 2, batch, heads, past, size)."""

    def __init__(self, width=32, heads=4, depth=2, vocabulary=50, max_length=64):
        super().__init__()
        self.gpt, self.heads = networks.Gpt(width, heads, depth, max_length, vocabulary), heads

    def forward(self, ids, past):
        batch, length = ids.shape
        before = past.size(4)
        positions = torch.arange(before, before + length)
        x = self.gpt.letters(ids) + self.gpt.positions(positions)
        visible = torch.arange(before + length)[None, :] <= positions[:, None]
        kept = []
        for block, (past_key, past_value) in zip(self.gpt.blocks, past.unbind(0)):
            parts = block.qkv(block.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            query, key, value = parts.unbind(0)
            key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
            kept.append(torch.stack([key, value]))
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
            x = x + block.out(attended.transpose(1, 2).reshape(batch, length, -1))
            x = x + block.feed(block.norm2(x))
        return F.linear(self.gpt.norm(x[:, -1]), self.gpt.letters.weight), torch.stack(kept)


@torch.jit.script
def states_to_read(use_past: torch.Tensor, past: torch.Tensor, states: torch.Tensor, key: torch.Tensor, value: torch.Tensor):
    """Keys and values of the encoder's states: those of the first step, or computed from the states; an `If` in ONNX."""
    if bool(use_past):
        result = past
    else:
        result = torch.stack([states @ key, states @ value])
    return result


class Whisper(nn.Module):
    """A speech network: convolutions and a transformer over sound, and a decoder that reads its states; both in one graph, in
    which the decoder's first step computes what later steps are given."""

    def __init__(self, width=32, heads=4, depth=2, vocabulary=50, bands=16, frames=24, max_length=32):
        super().__init__()
        self.heads = heads
        self.conv1, self.conv2 = nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.register_buffer("waves", torch.randn(frames, width) / 4)
        self.encoder = nn.ModuleList([networks.DecoderBlock(width, heads) for _ in range(depth)])
        self.encoder_norm = nn.LayerNorm(width)
        self.letters, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(max_length, width)
        self.decoder = nn.ModuleList([networks.DecoderBlock(width, heads) for _ in range(depth)])
        self.read_norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.read_queries, self.read_outs = (nn.ModuleList([nn.Linear(width, width) for _ in range(depth)]) for _ in range(2))
        self.read_keys, self.read_values = (nn.ParameterList([torch.randn(width, width) / width**0.5 for _ in range(depth)]) for _ in range(2))
        self.norm = nn.LayerNorm(width)

    def split(self, x):
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, sound, ids, use_past, past):
        x = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).transpose(1, 2)
        x = x + self.waves[: x.size(1)]
        for block in self.encoder:
            query, key, value = (self.split(one) for one in block.qkv(block.norm1(x)).chunk(3, 2))
            x = x + block.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
            x = x + block.feed(block.norm2(x))
        states = self.encoder_norm(x)
        x = self.letters(ids) + self.positions(torch.arange(ids.size(1)))
        read = []
        for at, block in enumerate(self.decoder):
            x = x + (block(x) - x)
            query = self.split(self.read_queries[at](self.read_norms[at](x)))
            both = states_to_read(use_past, past[at], states, self.read_keys[at], self.read_values[at])
            read.append(both)
            key, value = self.split(both[0]), self.split(both[1])
            x = x + self.read_outs[at](F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return F.linear(self.norm(x), self.letters.weight), torch.stack(read)


class Tensor(NamedTuple):
    """An input: its sizes, where a name is a size that varies, and the number that its integers stay below."""

    dims: tuple
    below: int = 0
    dtype: torch.dtype = torch.float32


@dataclasses.dataclass(eq=False)
class Network:
    """What is exported: how to build it small and full, inputs of both, and the sizes that its runs have."""

    small: Callable
    full: Callable
    tensors: dict  # name -> Tensor
    full_tensors: dict
    sizes: dict  # of the static model: name -> number
    full_sizes: dict
    # How sizes vary: the flag of atc, the names that vary, and the gears.
    gears: tuple = ()
    ranges: dict = dataclasses.field(default_factory=dict)  # name -> (least, most)
    runs: tuple = ()  # the sizes of runs of the model with ranges
    opset: int = 17
    outputs: tuple = ("y",)
    choices: tuple = ({},)  # values of inputs that are flags: each run is done with each of them
    tolerance: float = 1e-4

    @functools.cache
    def model(self, full):
        torch.manual_seed(1)
        model = (self.full if full else self.small)().eval()
        for module in model.modules():
            # Statistics as after training: otherwise batch norm does nothing.
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
        return model

    def described(self, full):
        return self.full_tensors if full else self.tensors

    def dims(self, full, sizes):
        """The sizes of each input; names that `sizes` does not have stay."""
        return {name: [sizes.get(dim, dim) for dim in tensor.dims] for name, tensor in self.described(full).items()}

    def inputs(self, full, sizes):
        generator = torch.Generator().manual_seed(zlib.crc32(repr(sorted(sizes.items())).encode()))
        result = {}
        for (name, dims), tensor in zip(self.dims(full, sizes).items(), self.described(full).values()):
            if tensor.dtype == torch.bool:
                result[name] = torch.full(dims, bool(sizes.get(name, 0)))
            elif tensor.dtype == torch.float32:
                result[name] = torch.randn(dims, generator=generator)
            else:
                result[name] = torch.randint(tensor.below, dims, generator=generator).to(tensor.dtype)
        return result

    @torch.no_grad()
    def expected(self, full, inputs):
        result = self.model(full)(*inputs.values())
        return list(result) if isinstance(result, tuple) else [result]

    @torch.no_grad()
    def export(self, path, full):
        sizes = self.full_sizes if full else self.sizes
        axes = {name: {at: dim for at, dim in enumerate(tensor.dims) if isinstance(dim, str)} for name, tensor in self.described(full).items()}
        inputs = self.inputs(full, sizes)
        with warnings.catch_warnings():
            # The exporter warns of itself, and of sizes that tracing makes constant.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                self.model(full), tuple(inputs.values()), path, dynamo=False, opset_version=self.opset, dynamic_axes=axes,
                input_names=list(inputs), output_names=list(self.outputs),
            )  # fmt: skip


def picture(*dims):
    return {"x": Tensor(dims or ("batch", 3, "height", "width"))}


def words(vocabulary):
    ids = Tensor(("batch", "length"), vocabulary, torch.int64)
    return {"ids": ids, "mask": ids._replace(below=2), "kinds": ids._replace(below=2)}


def step(vocabulary, heads, depth, size):
    return {"ids": Tensor(("batch", "length"), vocabulary, torch.int64), "past": Tensor((depth, 2, "batch", heads, "past", size))}


def speech(vocabulary, bands, frames, depth, width):
    return {
        "sound": Tensor(("batch", bands, 2 * frames)),
        "ids": Tensor(("batch", "length"), vocabulary, torch.int64),
        "use_past": Tensor((), dtype=torch.bool),
        "past": Tensor((depth, 2, "batch", "past", width)),
    }


def square(size, batch=1):
    return {"batch": batch, "height": size, "width": size}


NETWORKS = {
    "resnet50": Network(
        lambda: models.resnet50(8, 10), models.resnet50, picture(), picture(), square(64, 2), square(224),
        gears=("dynamic_batch_size", ("batch",), ({"batch": 1}, {"batch": 3})),
        ranges={"batch": (1, 4), "height": (32, 320), "width": (32, 320)}, runs=(square(64, 1), {"batch": 3, "height": 96, "width": 33}),
    ),
    "mobilenetv2": Network(
        lambda: models.mobilenet(4, 10), models.mobilenet, picture(), picture(), square(64, 2), square(224), opset=13,
        gears=("dynamic_batch_size", ("batch",), ({"batch": 2}, {"batch": 1}, {"batch": 4})),
        ranges={"batch": (1, 4)}, runs=({"batch": 1}, {"batch": 4}),
    ),
    "yolo": Network(
        Yolo, lambda: Yolo(16, 80), picture(), picture(), {"batch": 2, "height": 64, "width": 96}, square(640), outputs=("boxes", "scores"),
        gears=("dynamic_image_size", ("height", "width"), ({"height": 64, "width": 64}, {"height": 96, "width": 128})),
        ranges={"batch": (1, 2), "height": (32, 640), "width": (32, 640)}, runs=(square(32), {"batch": 2, "height": 96, "width": 64}), opset=16,
    ),
    "detections": Network(
        lambda: Detections(Yolo(), 8), lambda: Detections(Yolo(16, 80), 20), picture(), picture(), square(64, 2), square(320),
        outputs=("boxes", "scores", "classes"), opset=13,
        gears=("dynamic_batch_size", ("batch",), ({"batch": 1}, {"batch": 2})),
        ranges={"batch": (1, 2), "height": (32, 640), "width": (32, 640)}, runs=(square(64), {"batch": 2, "height": 96, "width": 64}),
    ),
    "unet": Network(
        networks.UNet, lambda: networks.UNet(64), picture(), picture(), square(32, 2), square(128), opset=18,
        gears=("dynamic_image_size", ("height", "width"), ({"height": 32, "width": 32}, {"height": 48, "width": 64})),
        ranges={"batch": (1, 3), "height": (16, 256), "width": (16, 256)}, runs=(square(64), {"batch": 3, "height": 32, "width": 48}),
    ),
    "vit": Network(
        networks.ViT, lambda: networks.ViT(768, 12, 12, 1000, 224, 16), picture("batch", 3, 32, 32), picture("batch", 3, 224, 224), {"batch": 2}, {"batch": 1},
        gears=("dynamic_dims", ("batch",), ({"batch": 1}, {"batch": 4})),
        ranges={"batch": (1, 4)}, runs=({"batch": 1}, {"batch": 3}),
    ),
    "bert": Network(
        Bert, lambda: Bert(768, 12, 12, 30_522, 512), words(50), words(30_522), {"batch": 2, "length": 12}, {"batch": 1, "length": 128},
        gears=("dynamic_dims", ("batch", "length"), ({"batch": 1, "length": 8}, {"batch": 2, "length": 17})),
        ranges={"batch": (1, 4), "length": (1, 64)}, runs=({"batch": 1, "length": 64}, {"batch": 3, "length": 5}), outputs=("states", "pooled"),
    ),
    "gpt2": Network(
        lambda: networks.Gpt(32, 4, 2, 64, 50), models.gpt2, {"ids": Tensor(("batch", "length"), 50, torch.int64)},
        {"ids": Tensor(("batch", "length"), 50_257, torch.int64)}, {"batch": 2, "length": 9}, {"batch": 1, "length": 64},
        gears=("dynamic_dims", ("batch", "length"), ({"batch": 1, "length": 4}, {"batch": 2, "length": 8})),
        ranges={"batch": (1, 4), "length": (1, 64)}, runs=({"batch": 1, "length": 64}, {"batch": 3, "length": 1}), opset=14,
    ),
    "gpt2_step": Network(
        GptStep, lambda: GptStep(768, 12, 12, 50_257, 1024), step(50, 4, 2, 8), step(50_257, 12, 12, 64),
        {"batch": 2, "length": 1, "past": 7}, {"batch": 1, "length": 1, "past": 128}, outputs=("scores", "now"),
        gears=("dynamic_dims", ("batch", "length", "past"), ({"batch": 1, "length": 1, "past": 8}, {"batch": 1, "length": 4, "past": 16})),
        ranges={"batch": (1, 4), "length": (1, 16), "past": (0, 512)}, runs=({"batch": 1, "length": 5, "past": 0}, {"batch": 2, "length": 1, "past": 11}),
    ),
    "whisper": Network(
        Whisper, lambda: Whisper(384, 6, 4, 51_865, 80, 1500, 448), speech(50, 16, 24, 2, 32), speech(51_865, 80, 1500, 4, 384),
        {"batch": 2, "length": 5, "past": 24}, {"batch": 1, "length": 4, "past": 1500}, outputs=("scores", "read"),
        gears=("dynamic_dims", ("batch", "length"), ({"batch": 1, "length": 1}, {"batch": 2, "length": 4})),
        ranges={"batch": (1, 2), "length": (1, 32), "past": (0, 1500)}, runs=({"batch": 1, "length": 1, "past": 24}, {"batch": 2, "length": 3, "past": 9}),
        choices=({"use_past": 0}, {"use_past": 1}),
    ),
    "lstm": Network(
        networks.Lstm, lambda: networks.Lstm(128, 100), {"ids": Tensor(("batch", "length"), networks.LETTERS, torch.int64)},
        {"ids": Tensor(("batch", "length"), networks.LETTERS, torch.int64)}, {"batch": 2, "length": 6}, {"batch": 2, "length": 50},
        gears=("dynamic_dims", ("batch", "length"), ({"batch": 1, "length": 3}, {"batch": 2, "length": 7})),
        ranges={"batch": (1, 4), "length": (1, 64)}, runs=({"batch": 1, "length": 9}, {"batch": 3, "length": 1}),
    ),
}  # fmt: skip
