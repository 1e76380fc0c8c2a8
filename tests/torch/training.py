"""Trains the networks of networks.py with common optimizers, clipping and autocast; the same on every device."""

import contextlib
from typing import NamedTuple

import torch
from torch import nn

from networks import NETWORKS

OPTIMISERS = {
    "sgd": lambda weights, rate: torch.optim.SGD(weights, lr=rate, momentum=0.9, weight_decay=1e-4, foreach=False),
    "sgd foreach": lambda weights, rate: torch.optim.SGD(weights, lr=rate, momentum=0.9, nesterov=True, foreach=True),
    "sgd fused": lambda weights, rate: torch.optim.SGD(weights, lr=rate, momentum=0.9, fused=True),
    "adam": lambda weights, rate: torch.optim.Adam(weights, lr=rate / 10, foreach=False),
    "adam foreach": lambda weights, rate: torch.optim.Adam(weights, lr=rate / 10, amsgrad=True, foreach=True),
    "adam fused": lambda weights, rate: torch.optim.Adam(weights, lr=rate / 10, fused=True),
    "adamw": lambda weights, rate: torch.optim.AdamW(weights, lr=rate / 10, foreach=False),
    "adamw foreach": lambda weights, rate: torch.optim.AdamW(weights, lr=rate / 10, weight_decay=0.1, foreach=True),
    "adamw fused": lambda weights, rate: torch.optim.AdamW(weights, lr=rate / 10, weight_decay=0.1, fused=True),
}


class Recipe(NamedTuple):
    """How a network is trained."""

    optimiser: str = "sgd"
    clip: float | None = None  # maximum gradient norm
    autocast: torch.dtype | None = None  # with the gradient scaler, if it is float16
    options: dict = {}  # keyword arguments of the model


def train(name, device, recipe, steps, dtype=torch.float32):
    """The loss of each step; weights and inputs have the type `dtype`."""
    network = NETWORKS[name]
    model = network.model(**recipe.options).to(device, dtype)
    optimiser = OPTIMISERS[recipe.optimiser](model.parameters(), network.rate)
    is_float16 = recipe.autocast == torch.float16
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=7, enabled=is_float16)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 2 * steps)
    losses = []
    for step in range(steps):
        inputs, targets = network.batch(step, device)
        if inputs.is_floating_point():
            inputs = inputs.to(dtype)
        autocast = torch.autocast(device, recipe.autocast) if recipe.autocast else contextlib.nullcontext()
        with autocast:
            loss = network.loss(model, inputs, targets)
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        if recipe.clip:
            scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        scaler.step(optimiser)
        scaler.update()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().tolist()
