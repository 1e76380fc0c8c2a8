"""Errors inside of operators, as a torch user sees them: indices out of range, and out of memory in the middle of training."""

import pytest

import support

INDICES = """
import os, re
import torch, torch_npu
from torch.nn import functional as F
import cases

os.environ["TASK_QUEUE_ENABLE"] = MODE
THIRD = 12

# Each gets the middle third of one block as a 4 x 3 matrix, and indices of which one is out of range.
CASES = {
    "gather": ("aclnnGather", 7, lambda x, at: x.gather(0, at)),
    "index_select": ("aclnnIndexSelect", 4, lambda x, at: x.index_select(0, at[0])),
    "x[i]": ("aclnnIndex", -5, lambda x, at: x[at[0]]),
    "embedding": ("aclnnEmbedding", 9, lambda x, at: F.embedding(at, x)),
    "x[i] = v": ("aclnnIndexPutImpl", 4, lambda x, at: x.__setitem__(at[0], 5.0)),
    "x[:, i] = v": ("aclnnIndexPutImpl", 3, lambda x, at: x.__setitem__((slice(None), at[0]), 5.0)),
    "index_put_": ("aclnnIndexPutImpl", -5, lambda x, at: x.index_put_((at[0],), x[:3] + 1, accumulate=True)),
    "scatter_": ("aclnnInplaceScatterValue", 4, lambda x, at: x.scatter_(0, at, 5.0)),
    "scatter_add_": ("aclnnScatterAdd", 5, lambda x, at: x.scatter_add_(0, at, x + 1)),
    "index_add_": ("aclnnIndexAdd", 4, lambda x, at: x.index_add_(0, at[0], x[:3] + 1)),
    "index_fill_": ("aclnnInplaceIndexFill", 4, lambda x, at: x.index_fill_(0, at[0], 5.0)),
    "npu_scatter_list_": (
        "aclnnScatterList", 4,
        lambda x, at: torch_npu.npu_scatter_list_([x], at[0][2:], x.new_ones(1, 1, 3), None, reduce="update", axis=-2),
    ),
    "nll_loss": ("aclnnNLLLoss", 3, lambda x, at: F.nll_loss(x[:3], at[0])),
    "cross_entropy": ("aclnnNLLLoss", -1, lambda x, at: F.cross_entropy(x[:3], at[0])),
}

def case(name):
    operator, bad, function = CASES[name]
    block = torch.arange(3.0 * THIRD, device="npu")
    x = block[THIRD : 2 * THIRD].view(4, 3)
    at = torch.tensor([[0, 1, 2], [1, 2, 0], [0, 2, bad]]).flip(0).contiguous().npu()
    text = cases.error_of(lambda: function(x, at))
    assert re.search(rf"{operator}: .*(=|class) {bad}\\b.* outside -?\\d+ to \\d+", text), text
    after = cases.copied_without_stream(block)
    expected = torch.arange(3.0 * THIRD)
    assert torch.equal(after[:THIRD], expected[:THIRD]) and torch.equal(after[2 * THIRD :], expected[2 * THIRD :]), after
    # The stream reports the same error again.
    assert operator in cases.error_of(lambda: None)

cases.run([(name, lambda name=name: case(name)) for name in CASES])
"""


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_indices_out_of_range(mode):
    support.run_script(INDICES.replace("MODE", repr(mode)))


OUT_OF_MEMORY = """
import re
import torch, torch_npu
import cases

def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))

def data(batch):
    generator = torch.Generator().manual_seed(batch)
    return torch.randn(batch, 64, generator=generator)

# The large batches do not fit: the first fails when it is copied to the device, others in the forward
# pass, the rest in the backward pass.
SMALL, LARGE = (100, 200), (600_000, 100_000, 26_000, 18_000, 12_000)

def train(device, batches, failed=None):
    model = network().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for batch in batches:
        optimiser.zero_grad()
        stage = "copy"
        try:
            x = data(batch).to(device)
            stage = "forward"
            loss = (model(x) - x).square().mean()
            stage = "backward"
            loss.backward()
        except RuntimeError as error:
            assert failed is not None and re.search(OUT_OF_MEMORY, str(error)), error
            failed[batch] = stage
            x = loss = None
            optimiser.zero_grad()
            EMPTY_CACHE()
            continue
        optimiser.step()
        losses.append(loss.item())
    return losses

def case(kind):
    global OUT_OF_MEMORY, EMPTY_CACHE
    OUT_OF_MEMORY, EMPTY_CACHE = "NPU out of memory", torch.npu.empty_cache
    if kind == "cairn":
        import pool
        torch.npu.change_current_allocator(pool.plug())
        OUT_OF_MEMORY = r"Get \\w+ failed"
        EMPTY_CACHE = lambda: (pool.synchronized(), torch.npu.empty_cache())
    sequence = [batch for large in LARGE for batch in (*SMALL, large)] + [*SMALL]
    failed = {}
    losses = train("npu", sequence, failed)
    assert {"copy", "forward", "backward"} <= set(failed.values()), failed
    fitting = [batch for batch in sequence if batch not in failed]
    expected = train("cpu", fitting)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-4, atol=0)
    assert losses[-1] < losses[0]

cases.run([(kind, lambda kind=kind: case(kind)) for kind in ("torch_npu", "cairn")])
"""


@pytest.mark.parametrize("mode", ["0", "1", "2"])
def test_out_of_memory_in_the_middle_of_training(mode):
    support.run_script(OUT_OF_MEMORY, TASK_QUEUE_ENABLE=mode, CAIRN_DEVICE_MEMORY="128mib")
