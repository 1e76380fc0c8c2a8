"""Trains the network of cnn.py on batches that other processes make on the device, and draws its loss.

    python workers.py [--workers N] [--steps N] [--out loss.png]

The workers return npu tensors: their memory is not copied, this process maps what they exported. All allocate in expandable
segments (PYTORCH_NPU_ALLOC_CONF, set below), so that what is free at the end goes back to the device.
"""

import argparse
import os

os.environ.setdefault("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True")

import torch
import torch_npu  # noqa: F401
from torch.utils.data import DataLoader, Dataset

import cnn
import curve


class Pictures(Dataset):
    """Batch `i` of the pictures that cnn.py trains with, made on the device by whoever asks for it."""

    def __init__(self, steps, batch=32):
        self.steps, self.batch = steps, batch

    def __len__(self):
        return self.steps

    def __getitem__(self, step):
        images, kinds = cnn.pictures(self.batch, seed=step)
        return images.npu(), kinds.npu()


def train(steps, workers):
    """Trains for this many steps; returns the loss of each."""
    context = "spawn" if workers else None
    batches = DataLoader(Pictures(steps), batch_size=None, num_workers=workers, multiprocessing_context=context)
    model = cnn.Classifier().npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for images, kinds in batches:
        loss = torch.nn.functional.cross_entropy(model(images), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", default="workers_loss.png")
    options = parser.parse_args()
    losses = train(options.steps, options.workers)
    curve.draw(options.out, losses)
    used = torch.npu.max_memory_reserved() >> 20
    torch.npu.empty_cache()
    left = torch.npu.memory_reserved() >> 20
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {options.steps} steps, batches by {options.workers} processes")
    print(f"memory of this process: {used} MiB at most, {left} MiB at the end")
    print(f"curve: {options.out}")


if __name__ == "__main__":
    main()
