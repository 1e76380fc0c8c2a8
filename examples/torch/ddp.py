"""Trains the small transformer of char_transformer.py on several devices at once, each on its own part of every batch, and draws its loss.

    cairn run --ranks 2 -- python ddp.py [--device npu|cpu] [--steps N] [--out loss.png]
    torchrun --nproc-per-node 2 ddp.py ...
    python ddp.py ...                                 one rank

Whatever starts it sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. On `npu` the gradients travel by HCCL, on `cpu` by Gloo.
"""

import argparse
import os

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import char_transformer
import curve

# Rows of all ranks in a step: the number of ranks changes how fast it learns, not what.
BATCH = 16


def join(device):
    """Enters the group of all ranks; returns this rank's device."""
    for name, alone in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0")):
        os.environ.setdefault(name, alone)
    if device == "npu":
        import torch_npu  # noqa: F401

        place = torch.device("npu", int(os.environ["LOCAL_RANK"]))
        torch.npu.set_device(place)
    else:
        place = torch.device("cpu")
    distributed.init_process_group("hccl" if device == "npu" else "gloo")
    return place


def train(place, steps, report=lambda step, loss: None):
    """Trains for this many steps; returns the model and the mean loss of all ranks in each step."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)
    model = char_transformer.Writer().to(place)
    parallel = DistributedDataParallel(model, device_ids=[place.index] if place.type == "npu" else None)
    letters = char_transformer.text(4000).to(place)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(1)
    offsets = torch.arange(model.max_length + 1, device=place)
    losses = []
    for step in range(steps):
        starts = torch.randint(len(letters) - model.max_length - 1, (BATCH, 1), generator=generator)
        window = letters[starts.tensor_split(ranks)[rank].to(place) + offsets]
        guesses = parallel(window[:, :-1])
        loss = nn.functional.cross_entropy(guesses.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / ranks
        distributed.all_reduce(mean)
        losses.append(mean)
        if step % 50 == 0:
            report(step, mean)
    return model, torch.stack(losses).cpu().tolist()


def weights_are_equal(model):
    """Whether every rank has the same weights, bit for bit."""
    weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    first = weights.clone()
    distributed.broadcast(first, 0)
    differences = (weights != first).sum()
    distributed.all_reduce(differences)
    return differences.item() == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu", choices=["npu", "cpu"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", default="ddp_loss.png")
    options = parser.parse_args()
    place = join(options.device)
    first, ranks = distributed.get_rank() == 0, distributed.get_world_size()

    def report(step, loss):
        if first:
            print(f"step {step:4}: loss {loss.item():.4f}", flush=True)

    model, losses = train(place, options.steps, report)
    equal = weights_are_equal(model)
    if first:
        curve.draw(options.out, losses)
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {options.steps} steps on {ranks} ranks")
        print(f"weights {'are the same' if equal else 'DIFFER'} on all ranks")
        model.eval()
        for question in ("3+4=", "12+9=", "19+19="):
            print("  " + char_transformer.answer(model, question, place))
        print(f"curve: {options.out}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
