"""Small networks of the kinds that people train, built from PyTorch alone; the same weights and batches on every device.

    network = NETWORKS["resnet"]
    model = network.model()              # the same weights each time
    loss = network.loss(model, *network.batch(step, device))
"""

from typing import Callable, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

LETTERS = 23


class BasicBlock(nn.Module):
    """Two convolutions beside a shortcut: ResNet-18's block."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 with all of its layers; `width` is 64 in the network of the paper."""

    def __init__(self, width=8, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        stages = [
            nn.Sequential(BasicBlock(inputs, outputs, 1 if inputs == outputs else 2), BasicBlock(outputs, outputs, 1))
            for inputs, outputs in zip(widths, widths[1:])
        ]
        self.stages = nn.ModuleList(stages)
        self.pool, self.scores = nn.AdaptiveAvgPool2d(1), nn.Linear(widths[-1], classes)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.scores(self.pool(x).flatten(1))


class DoubleConv(nn.Sequential):
    """Two convolutions with group norm: U-Net's unit."""

    def __init__(self, inputs, outputs):
        layers = []
        for count in (inputs, outputs):
            layers += [nn.Conv2d(count, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.SiLU()]
        super().__init__(*layers)


class UNet(nn.Module):
    """Down with max pooling, up once with transposed convolution and once with upsampling; a mask for each pixel."""

    def __init__(self, width=8):
        super().__init__()
        self.down = nn.ModuleList([DoubleConv(3, width), DoubleConv(width, 2 * width), DoubleConv(2 * width, 4 * width)])
        self.up = nn.ModuleList([
            nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2),
            nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(2 * width, width, 1)),
        ])  # fmt: skip
        self.join = nn.ModuleList([DoubleConv(4 * width, 2 * width), DoubleConv(2 * width, width)])
        self.mask = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        x = self.down[2](F.max_pool2d(second, 2))
        x = self.join[0](torch.cat([self.up[0](x), second], 1))
        return self.mask(self.join[1](torch.cat([self.up[1](x), first], 1)))


class EncoderBlock(nn.Module):
    """PyTorch's attention and a feed-forward layer, the norms before them (ViT) or after them (BERT)."""

    def __init__(self, width, heads, norm_first):
        super().__init__()
        self.norm_first = norm_first
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def attend(self, x, padding):
        return self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]

    def forward(self, x, padding=None):
        if self.norm_first:
            x = x + self.attend(self.norm1(x), padding)
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x, padding))
        return self.norm2(x + self.feed(x))


class ViT(nn.Module):
    """Patches of a picture of `size` pixels as tokens, a class token before them."""

    def __init__(self, width=32, heads=4, depth=2, classes=5, size=32, patch=8):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (size // patch) ** 2, width))
        self.blocks = nn.ModuleList([EncoderBlock(width, heads, True) for _ in range(depth)])
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x)[:, 0])


class Lstm(nn.Module):
    """Two layers in both directions over letters; a class for each text."""

    def __init__(self, width=16, classes=5):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.layers = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(2 * width, classes)

    def forward(self, letters):
        return self.scores(self.layers(self.letters(letters))[0].mean(1))


class DecoderBlock(nn.Module):
    """GPT-2's block: causal attention and a feed-forward layer after layer norms."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


class Gpt(nn.Module):
    """A decoder in GPT-2's style; the output layer shares the weights of the embedding."""

    def __init__(self, width=32, heads=4, depth=2, max_length=24, vocabulary=LETTERS, checkpoints=False):
        super().__init__()
        self.checkpoints = checkpoints
        self.letters, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(max_length, width)
        self.blocks = nn.ModuleList([DecoderBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, letters):
        x = self.letters(letters) + self.positions(torch.arange(letters.shape[1], device=letters.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return F.linear(self.norm(x), self.letters.weight)


class LlamaBlock(nn.Module):
    """Rotary embeddings, keys and values shared by pairs of heads, RMS norms and a gated layer."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.shared = heads, heads // 2
        size = width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, self.shared * size, bias=False) for _ in range(2))
        self.gate, self.up, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    @staticmethod
    def rotate(x, cos, sin):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        inner = self.norm1(x)
        heads = lambda y, count: y.view(batch, length, count, -1).transpose(1, 2)
        query, key = heads(self.query(inner), self.heads), heads(self.key(inner), self.shared)
        query, key = self.rotate(query, cos, sin), self.rotate(key, cos, sin)
        key, value = (y.repeat_interleave(2, 1) for y in (key, heads(self.value(inner), self.shared)))
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        inner = self.norm2(x)
        return x + self.down(F.silu(self.gate(inner)) * self.up(inner))


class Llama(nn.Module):
    """A decoder in Llama's style."""

    def __init__(self, width=32, heads=4, depth=2):
        super().__init__()
        self.size = width // heads
        self.letters = nn.Embedding(LETTERS, width)
        self.blocks = nn.ModuleList([LlamaBlock(width, heads) for _ in range(depth)])
        self.norm, self.scores = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, LETTERS, bias=False)

    def forward(self, letters):
        x = self.letters(letters)
        rates = 10_000 ** (-torch.arange(0, self.size, 2, device=x.device) / self.size)
        angles = torch.outer(torch.arange(letters.shape[1], device=x.device), rates).repeat(1, 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.scores(self.norm(x))


class Bert(nn.Module):
    """An encoder in BERT's style that guesses hidden letters; the last letters of some texts are padding."""

    def __init__(self, width=32, heads=4, depth=2, max_length=24):
        super().__init__()
        self.letters, self.positions = nn.Embedding(LETTERS, width, padding_idx=0), nn.Embedding(max_length, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList([EncoderBlock(width, heads, False) for _ in range(depth)])
        self.guess = nn.Sequential(nn.Linear(width, width), nn.GELU(approximate="tanh"), nn.LayerNorm(width), nn.Linear(width, LETTERS))

    def forward(self, letters):
        x = self.norm(self.letters(letters) + self.positions(torch.arange(letters.shape[1], device=letters.device)))
        for block in self.blocks:
            x = block(x, letters == 0)
        return self.guess(x)


class Cnn(nn.Module):
    """Plain, depthwise and strided convolutions with batch norm, and average pooling."""

    def __init__(self, width=8, classes=5):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), nn.Conv2d(width, 2 * width, 1), nn.BatchNorm2d(2 * width), nn.Hardswish(),
            nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=2, dilation=2, groups=2), nn.LeakyReLU(0.1), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(2 * width * 16, classes),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


def pictures(step, size=32):
    """Pictures of five kinds: noise on a wave whose direction is the kind."""
    generator = torch.Generator().manual_seed(step)
    kinds = torch.randint(5, (8,), generator=generator)
    line = torch.linspace(0, 12, size)
    angle = kinds[:, None, None] * 0.6
    wave = (line[:, None] * angle.cos() + line[None, :] * angle.sin()).sin()[:, None]
    return wave + 0.3 * torch.randn(8, 3, size, size, generator=generator), kinds


def large_pictures(step):
    """For networks with batch norm after many strides: it needs more than one pixel a picture."""
    return pictures(step, 96)


def masks(step):
    """Noisy pictures with a bright rectangle, and the mask of it."""
    generator = torch.Generator().manual_seed(step)
    inside = torch.zeros(4, 1, 32, 32)
    for one, (top, left) in zip(inside, torch.randint(20, (4, 2), generator=generator).tolist()):
        one[:, top : top + 10, left : left + 12] = 1
    return inside + 0.4 * torch.randn(4, 3, 32, 32, generator=generator), inside


def texts(step, length=16):
    """Texts whose letters count upwards, each by a step of its own; a letter longer than what a model reads."""
    generator = torch.Generator().manual_seed(step)
    first, increment = torch.randint(1, 20, (2, 8, 1), generator=generator)
    return 1 + (first + increment * torch.arange(length + 1)) % (LETTERS - 1)


def next_letters(step):
    letters = texts(step)
    return letters[:, :-1].contiguous(), letters[:, 1:].contiguous()


def kinds_of_text(step):
    letters = texts(step)
    return letters, (letters[:, 1] - letters[:, 0]) % 5


def hidden_letters(step):
    """Letters with every fourth hidden (as the last letter) and the ends of some texts padded by 0; what is not to be guessed is -100."""
    letters = texts(step)[:, :16].clone()
    lengths = torch.tensor([16, 12, 9, 16, 14, 16, 10, 16])
    padding = torch.arange(16) >= lengths[:, None]
    hidden = ((torch.arange(16) + step) % 4 == 0) & ~padding
    answers = letters.masked_fill(~hidden, -100)
    return letters.masked_fill(hidden, LETTERS - 1).masked_fill(padding, 0), answers


def as_float32(output):
    """Half types as float32: losses are computed in no less."""
    return output.float() if output.dtype in (torch.float16, torch.bfloat16) else output


def class_loss(output, answers):
    return F.cross_entropy(as_float32(output).flatten(0, -2), answers.flatten())


def mask_loss(output, inside):
    """Cross entropy plus dice loss."""
    output = as_float32(output)
    probability = output.sigmoid()
    dice = (2 * (probability * inside).sum() + 1) / (probability.sum() + inside.sum() + 1)
    return F.binary_cross_entropy_with_logits(output, inside) + 1 - dice


class Network(NamedTuple):
    """How to build a model and what it learns from."""

    make: Callable
    data: Callable
    criterion: Callable = class_loss
    rate: float = 0.05  # of SGD; a tenth of it for Adam

    def model(self, **options):
        torch.manual_seed(0)
        return self.make(**options)

    def batch(self, step, device):
        return [tensor.to(device) for tensor in self.data(step)]

    def loss(self, model, inputs, answers):
        return self.criterion(model(inputs), answers)


NETWORKS = {
    "cnn": Network(Cnn, pictures),
    "resnet": Network(ResNet18, large_pictures, rate=0.01),
    "unet": Network(UNet, masks, mask_loss),
    "vit": Network(ViT, pictures, rate=0.01),
    "lstm": Network(Lstm, kinds_of_text, rate=0.2),
    "gpt": Network(Gpt, next_letters),
    "llama": Network(Llama, next_letters),
    "bert": Network(Bert, hidden_letters),
}
