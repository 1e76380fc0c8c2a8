"""Records what PyTorch takes and frees on a CPU, by the memory events of its profiler.

    TORCH_DEVICE_BACKEND_AUTOLOAD=0 $(cargo xtask venv) benches/traces/record.py

    gpt_train.trc    training of a small GPT: AdamW, four steps of four sequence lengths
    gpt_infer.trc    the same GPT answers two prompts, a token at a time, with caches that grow

Blocks below 64 bytes and those that were taken before the recording began are left out.
"""

from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        if length > 1:
            scores = scores.masked_fill(torch.ones(length, k.shape[2], dtype=torch.bool).triu(1), -1e9)
        attended = (scores.softmax(3) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(attended)
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x)))), (k, v)


class Decoder(nn.Module):
    def __init__(self, vocabulary=4096, width=512, heads=8, layers=6):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, caches=None):
        start = 0 if caches is None else caches[0][0].shape[2]
        x = self.embedding(ids) + self.positions(torch.arange(start, start + ids.shape[1]))
        new_caches = []
        for at, block in enumerate(self.blocks):
            x, cache = block(x, None if caches is None else caches[at])
            new_caches.append(cache)
        return self.head(x), new_caches


def train():
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters())
    for length in (128, 320, 192, 256):
        ids = torch.randint(0, 4096, (4, length))
        logits, _ = model(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


@torch.inference_mode()
def infer():
    model = Decoder().eval()
    for length in (192, 77):
        ids, caches = torch.randint(0, 4096, (2, length)), None
        for _ in range(24):
            logits, caches = model(ids, caches)
            ids = logits[:, -1:].argmax(2)


def record(program, name):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True) as run:
        program()
    events, stack = [], list(run.profiler.kineto_results.experimental_event_tree())
    while stack:
        event = stack.pop()
        stack.extend(event.children)
        if event.tag.name == "Allocation":
            events.append((event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size))
    lines, live, count = [], {}, 0
    for _, address, size in sorted(events, key=lambda event: event[0]):
        if size >= 64:
            live[address] = count
            lines.append(f"a {count} {size}")
            count += 1
        elif size < 0 and address in live:
            lines.append(f"f {live.pop(address)}")
    Path(__file__).with_name(name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    record(train, "gpt_train.trc")
    record(infer, "gpt_infer.trc")
