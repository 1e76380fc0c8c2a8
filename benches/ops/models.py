"""Whole networks for `cargo xtask bench ops`, in the sizes of their papers; the rest is in tests/torch/networks.py."""

import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/torch"))
import networks  # noqa: E402


def conv_unit(inputs, outputs, kernel, stride=1, groups=1, activation=nn.ReLU):
    """A convolution, batch norm and an activation."""
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([activation(inplace=True)] if activation else []))


class Bottleneck(nn.Module):
    """ResNet-50's block."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.layers = nn.Sequential(conv_unit(inputs, width, 1), conv_unit(width, width, 3, stride), conv_unit(width, 4 * width, 1, activation=None))
        same_shape = stride == 1 and inputs == 4 * width
        self.shortcut = nn.Identity() if same_shape else conv_unit(inputs, 4 * width, 1, stride, activation=None)

    def forward(self, x):
        return F.relu_(self.layers(x) + self.shortcut(x))


def resnet50(width=64, classes=1000):
    layers, inputs = [conv_unit(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)], width
    for stage, count in enumerate((3, 4, 6, 3)):
        for block in range(count):
            layers.append(Bottleneck(inputs, width << stage, 2 if stage and not block else 1))
            inputs = 4 * width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32 * width, classes))


class Inverted(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        width = inputs * expansion
        expand = [conv_unit(inputs, width, 1, activation=nn.ReLU6)] if expansion > 1 else []
        project = [conv_unit(width, width, 3, stride, width, nn.ReLU6), conv_unit(width, outputs, 1, activation=None)]
        self.layers = nn.Sequential(*expand, *project)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.layers(x) if self.has_shortcut else self.layers(x)


def mobilenet(part=1, classes=1000):
    """MobileNetV2 with every `part`-th of its channels."""
    layers, inputs = [conv_unit(3, 32 // part, 3, 2, activation=nn.ReLU6)], 32 // part
    # Expansion, outputs, how many blocks, the first one's stride.
    for expansion, outputs, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for block in range(count):
            layers.append(Inverted(inputs, outputs // part, 1 if block else stride, expansion))
            inputs = outputs // part
    last = 1280 // part
    return nn.Sequential(*layers, conv_unit(inputs, last, 1, activation=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, classes))


def forward(build, *size):
    """Work and inputs of a network's forward pass on images of this size."""

    def make(device):
        torch.manual_seed(0)
        return build().eval().to(device), torch.randn(size).to(device)

    return lambda model, x: model(x), make


def training(build, batch, optimiser):
    """Work and inputs of a step of training: forward, loss, backward, optimiser."""

    def make(device):
        torch.manual_seed(0)
        model = build().to(device)
        inputs, labels = batch()
        return model, optimiser(model.parameters()), inputs.to(device), labels.to(device)

    @torch.enable_grad()
    def step(model, optimiser, inputs, labels):
        optimiser.zero_grad()
        F.cross_entropy(model(inputs).flatten(0, -2), labels.flatten()).backward()
        optimiser.step()

    return step, make


def images(count, size, classes):
    return lambda: (torch.randn(count, 3, size, size), torch.arange(count) % classes)


def token_ids(count, length, vocabulary):
    return lambda: torch.randint(vocabulary, (2, count, length)).unbind(0)


def gpt2(depth=12):
    return networks.Gpt(768, 12, depth, 1024, 50_257)


ROWS = {
    "ResNet-50 forward, 1x224x224": forward(resnet50, 1, 3, 224, 224),
    "MobileNetV2 forward, 1x224x224": forward(mobilenet, 1, 3, 224, 224),
    "U-Net forward, 1x128x128, 64 wide": forward(lambda: networks.UNet(64), 1, 3, 128, 128),
    "ViT-B forward, 1x224x224": forward(lambda: networks.ViT(768, 12, 12, 1000, 224, 16), 1, 3, 224, 224),
    "ResNet-18 training step, 8x64x64": training(
        lambda: networks.ResNet18(64, 10), images(8, 64, 10), lambda weights: torch.optim.SGD(weights, 0.01, momentum=0.9)
    ),
    "GPT-2 training step, 1x128": training(gpt2, token_ids(1, 128, 50_257), lambda weights: torch.optim.AdamW(weights, 1e-4, fused=True)),
}
