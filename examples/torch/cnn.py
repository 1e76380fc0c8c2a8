"""Trains a small convolutional network to tell shapes in noisy pictures apart, and draws its loss.

    python cnn.py [--device npu|cpu] [--steps N] [--out loss.png]
"""

import argparse

import torch
from torch import nn

import curve

SIZE = 24


def pictures(count, seed=0):
    """Noisy pictures of a disc, a ring, a square or a cross, anywhere and of any size, and which of them each one shows."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(4, (count,), generator=generator)
    radius = 4 + 4 * torch.rand(count, 1, 1, generator=generator)
    center = radius + (SIZE - 2 * radius) * torch.rand(2, count, 1, 1, generator=generator)
    coordinates = torch.arange(SIZE) + 0.5
    dy, dx = (coordinates[:, None] - center[0]).abs(), (coordinates[None, :] - center[1]).abs()
    distance = (dy**2 + dx**2).sqrt()
    shapes = [distance < radius, (distance < radius) & (distance > 0.6 * radius), torch.maximum(dy, dx) < 0.8 * radius]
    shapes.append((torch.minimum(dy, dx) < 0.25 * radius) & (torch.maximum(dy, dx) < radius))
    image = torch.stack(shapes)[kind, torch.arange(count)].float()
    return (image + 0.3 * torch.randn(image.shape, generator=generator))[:, None], kind


class Block(nn.Module):
    """Two convolutions beside a shortcut, as residual networks have them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride)

    def forward(self, x):
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(inner)) + self.shortcut(x))


def network(seed=0):
    """The network, with the same weights for the same seed on every device."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), Block(16, 32, 2), Block(32, 64, 2))


class Classifier(nn.Module):
    """Features of a picture, averaged over its positions, and a score for each kind."""

    def __init__(self):
        super().__init__()
        self.features = network()
        self.scores = nn.Linear(64, 4)

    def forward(self, x):
        return self.scores(self.features(x).mean((2, 3)))


def train(device, steps, batch=32):
    """Trains for this many steps; returns the network and the loss of each step."""
    images, kinds = (tensor.to(device) for tensor in pictures(1024))
    model = Classifier().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        indices = torch.arange(step * batch, (step + 1) * batch, device=device) % len(images)
        loss = nn.functional.cross_entropy(model(images[indices]), kinds[indices])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return model, torch.stack(losses).cpu().tolist()


def accuracy(model, device):
    """The share of new pictures that the network names."""
    images, kinds = (tensor.to(device) for tensor in pictures(512, seed=1))
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(dim=1) == kinds).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu", choices=["npu", "cpu"])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", default="cnn_loss.png")
    options = parser.parse_args()
    if options.device == "npu":
        import torch_npu  # noqa: F401
    model, losses = train(options.device, options.steps)
    curve.draw(options.out, losses)
    share = accuracy(model, options.device)
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {options.steps} steps; {share:.1%} of new pictures right")
    print(f"curve: {options.out}")


if __name__ == "__main__":
    main()
