"""Trains a small transformer to write sums, character by character, and draws its loss.

    python char_transformer.py [--device npu|cpu] [--steps N] [--out loss.png] [--save weights.pt]
"""

import argparse

import torch
from torch import nn

import curve

ALPHABET = "0123456789+=\n"
CODE = {letter: number for number, letter in enumerate(ALPHABET)}


def text(lines, seed=0):
    """Sums such as `7+5=12`, a line each, as indices of characters."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(20, (lines, 2), generator=generator).tolist()
    return torch.tensor([CODE[letter] for a, b in pairs for letter in f"{a}+{b}={a + b}\n"])


class Block(nn.Module):
    """Causal attention, then an MLP for each character."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def attend(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(future, float("-inf")).softmax(dim=-1))
        return self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.dropout(self.attend(self.norm_1(x)))
        return x + self.dropout(self.mlp(self.norm_2(x)))


class Writer(nn.Module):
    """Predicts the next character at every position of a text."""

    def __init__(self, width=64, heads=4, blocks=2, max_length=48, dropout=0.0):
        super().__init__()
        self.max_length = max_length
        self.letters = nn.Embedding(len(ALPHABET), width)
        self.positions = nn.Embedding(max_length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, letters):
        positions = torch.arange(letters.shape[1], device=letters.device)
        return self.head(self.norm(self.blocks(self.letters(letters) + self.positions(positions))))


def train(device, steps, batch=16, dropout=0.0):
    """Trains for this many steps; returns the model and the loss of each step."""
    torch.manual_seed(0)
    model = Writer(dropout=dropout).to(device)
    letters = text(4000).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(1)
    offsets = torch.arange(model.max_length + 1, device=device)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(letters) - model.max_length - 1, (batch, 1), generator=generator).to(device)
        window = letters[starts + offsets]
        guesses = model(window[:, :-1])
        loss = nn.functional.cross_entropy(guesses.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return model, torch.stack(losses).cpu().tolist()


@torch.no_grad()
def answer(model, question, device):
    """What the model writes after a question, up to the end of the line."""
    letters = [CODE[letter] for letter in "\n" + question]
    while len(letters) < model.max_length:
        guess = model(torch.tensor([letters], device=device))[0, -1].argmax().item()
        if ALPHABET[guess] == "\n":
            break
        letters.append(guess)
    return "".join(ALPHABET[number] for number in letters[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu", choices=["npu", "cpu"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", default="char_transformer_loss.png")
    parser.add_argument("--save", help="where to write the weights, for generate.py")
    options = parser.parse_args()
    if options.device == "npu":
        import torch_npu  # noqa: F401
    model, losses = train(options.device, options.steps, dropout=0.05)
    curve.draw(options.out, losses)
    if options.save:
        torch.save(model.state_dict(), options.save)
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {options.steps} steps")
    model.eval()
    for question in ("3+4=", "12+9=", "19+19="):
        print("  " + answer(model, question, options.device))
    print(f"curve: {options.out}")


if __name__ == "__main__":
    main()
