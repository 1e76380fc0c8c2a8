"""Writes the models of `cargo xtask bench models` as ONNX, with random weights: `export.py FOLDER`.

Each is NAME.onnx, beside it NAME.json: inputs (name, type, sizes, how to fill it) and outputs (name, bytes). Files that are
there already are kept.
"""

import json
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.onnx._internal.torchscript_exporter import onnx_proto_utils

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ops"))
import models  # noqa: E402

# The exporter wants the package `onnx` for functions of users alone, of which these models have none.
onnx_proto_utils._add_onnxscript_fn = lambda model, _: model

WIDTH = 768
HEADS = 12
LAYERS = 12
WORDS = 128
VOCABULARY = {"bert": 30_522, "gpt2": 50_257}


def split(x):
    return x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)


def attend(q, k, v):
    scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        q, k, v = (split(one(x)) for one in (self.q, self.k, self.v))
        x = self.norm_1(self.out(attend(q, k, v)) + x)
        return self.norm_2(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    """BERT-base: words to hidden states."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY["bert"], WIDTH)
        self.positions = nn.Parameter(torch.randn(WORDS, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(BertLayer() for _ in range(LAYERS))

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.positions)
        for layer in self.layers:
            x = layer(x)
        return x


class GptLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, past):
        q, k, v = (split(one) for one in self.qkv(self.norm_1(x)).chunk(3, -1))
        present = torch.stack((k, v))
        k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        x = x + self.out(attend(q, k, v))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh")), present


class Gpt(nn.Module):
    """GPT-2's step of decoding: one word after 127, whose keys and values are given."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY["gpt2"], WIDTH)
        self.position = nn.Parameter(torch.randn(1, WIDTH))
        self.layers = nn.ModuleList(GptLayer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, past):
        x, presents = self.words(ids) + self.position, []
        for layer, of_layer in zip(self.layers, past.unbind(0)):
            x, present = layer(x, of_layer)
            presents.append(present)
        return F.linear(self.norm(x), self.words.weight), torch.stack(presents)


def image():
    return {"image": torch.randn(1, 3, 224, 224)}


NETS = {
    "resnet50": (models.resnet50, image, ["scores"]),
    "mobilenetv2": (models.mobilenet, image, ["scores"]),
    "bert": (Bert, lambda: {"ids": torch.randint(VOCABULARY["bert"], (1, WORDS))}, ["hidden"]),
    "gpt2": (
        Gpt,
        lambda: {
            "ids": torch.randint(VOCABULARY["gpt2"], (1, 1)),
            "past": torch.randn(LAYERS, 2, 1, HEADS, WORDS - 1, WIDTH // HEADS),
        },
        ["logits", "present"],
    ),
}


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (build, inputs, outputs) in NETS.items():
        path = folder / f"{name}.onnx"
        if path.with_suffix(".json").exists():
            continue
        torch.manual_seed(0)
        model, tensors = build().eval(), inputs()
        with torch.inference_mode():
            expected = model(*tensors.values())
            torch.onnx.export(
                model, tuple(tensors.values()), str(path), input_names=list(tensors), output_names=outputs, opset_version=17, dynamo=False
            )
        for key, tensor in tensors.items():
            tensor.numpy().tofile(folder / f"{name}.{key}.bin")
        expected = expected if isinstance(expected, tuple) else (expected,)
        for key, tensor in zip(outputs, expected):
            tensor.contiguous().numpy().tofile(folder / f"{name}.{key}.bin")
        described = {
            "inputs": [{"name": key, "type": str(one.dtype).removeprefix("torch."), "dims": list(one.shape)} for key, one in tensors.items()],
            "outputs": [{"name": key, "dims": list(one.shape)} for key, one in zip(outputs, expected)],
        }
        path.with_suffix(".json").write_text(json.dumps(described))
        print(f"wrote {path.name}, {path.stat().st_size >> 20} MiB", flush=True)


main(pathlib.Path(sys.argv[1]))
