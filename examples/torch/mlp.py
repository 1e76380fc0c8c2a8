"""Trains a small network to tell three spiral arms apart, and draws its loss.

    python mlp.py [--device npu|cpu] [--steps N] [--out loss.png]
"""

import argparse
import math

import torch
from torch import nn

import curve


def spirals(count, arms=3, seed=0):
    """Points on `arms` spirals with a little noise, and which arm each is on."""
    generator = torch.Generator().manual_seed(seed)
    arm = torch.randint(arms, (count,), generator=generator)
    radius = torch.rand(count, generator=generator)
    angle = 2 * math.pi * (arm / arms + radius) + 0.1 * torch.randn(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), arm


def network(seed=0):
    """The network, with the same weights for the same seed on every device."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(2, 64), nn.GELU(approximate="tanh"), nn.LayerNorm(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)
    )


def train(device, steps, batch=256):
    """Trains for this many steps; returns the network and the loss of each step."""
    points, arms = (tensor.to(device) for tensor in spirals(4096))
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        indices = torch.arange(step * batch, (step + 1) * batch, device=device) % len(points)
        loss = nn.functional.cross_entropy(model(points[indices]), arms[indices])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return model, torch.stack(losses).cpu().tolist()


def accuracy(model, device):
    """The share of new points that the network puts on the right arm."""
    points, arms = (tensor.to(device) for tensor in spirals(2048, seed=1))
    with torch.no_grad():
        return (model(points).argmax(dim=1) == arms).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu", choices=["npu", "cpu"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", default="mlp_loss.png")
    options = parser.parse_args()
    if options.device == "npu":
        import torch_npu  # noqa: F401
    model, losses = train(options.device, options.steps)
    curve.draw(options.out, losses)
    share = accuracy(model, options.device)
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {options.steps} steps; {share:.1%} of new points right")
    print(f"curve: {options.out}")


if __name__ == "__main__":
    main()
