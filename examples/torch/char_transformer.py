"""Trains a small transformer to write sums, character by character, and draws its loss.

    python char_transformer.py [--device npu|cpu] [--steps N] [--out loss.png]
"""

import argparse

import torch
from torch import nn

import curve

ALPHABET = "0123456789+=\n"
CODE = {letter: number for number, letter in enumerate(ALPHABET)}


def text(lines, seed=0):
    """Sums such as `7+5=12`, a line each, as numbers of characters."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(20, (lines, 2), generator=generator).tolist()
    return torch.tensor([CODE[letter] for a, b in pairs for letter in f"{a}+{b}={a + b}\n"])


class Block(nn.Module):
    """Attention to what came before, then a layer of its own for each character."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.before_layer = nn.LayerNorm(width)
        self.layer = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def attend(self, x):
        batch, length, width = x.shape
        parts = self.mix(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(later, float("-inf")).softmax(dim=-1))
        return self.join((weights @ value).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.dropout(self.attend(self.before_attention(x)))
        return x + self.dropout(self.layer(self.before_layer(x)))


class Writer(nn.Module):
    """Guesses the next character at every place of a text."""

    def __init__(self, width=64, heads=4, blocks=2, longest=48, dropout=0.0):
        super().__init__()
        self.longest = longest
        self.letters = nn.Embedding(len(ALPHABET), width)
        self.places = nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(blocks)))
        self.after = nn.LayerNorm(width)
        self.guess = nn.Linear(width, len(ALPHABET))

    def forward(self, letters):
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.guess(self.after(self.blocks(self.letters(letters) + self.places(places))))


def train(device, steps, batch=16, dropout=0.0):
    """Trains for this many steps; returns the model and the loss of each step."""
    torch.manual_seed(0)
    model = Writer(dropout=dropout).to(device)
    letters = text(4000).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    chooser = torch.Generator().manual_seed(1)
    ahead = torch.arange(model.longest + 1, device=device)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(letters) - model.longest - 1, (batch, 1), generator=chooser).to(device)
        window = letters[starts + ahead]
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
    while len(letters) < model.longest:
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
    options = parser.parse_args()
    if options.device == "npu":
        import torch_npu  # noqa: F401
    model, losses = train(options.device, options.steps, dropout=0.05)
    curve.draw(options.out, losses)
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {options.steps} steps")
    model.eval()
    for question in ("3+4=", "12+9=", "19+19="):
        print("  " + answer(model, question, options.device))
    print(f"curve: {options.out}")


if __name__ == "__main__":
    main()
