"""Recurrent networks and their cells against PyTorch's CPU, forward and backward, and training with them."""

import copy

import pytest
import torch
import torch_npu
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import support
from against import assert_near, numbers
from depth import DEEP

# torch_npu computes anything but one layer with a bias by DynamicRNN, with a warning.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM fallback:UserWarning")

TOLERANCES = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6


def network(kind, dtype, seed=0, **settings):
    torch.manual_seed(seed)
    return getattr(nn, kind)(INPUTS, HIDDEN, **settings).to(dtype)


def compare(module, run, dtype, inputs, backward_count=None):
    """Compares the outputs of `run(module, *inputs)` on our device with those on the CPU, and all gradients of the sum of squares
    of the first `backward_count` outputs."""
    results = []
    for device in ("cpu", "npu"):
        moved = copy.deepcopy(module).to(device)
        leaves = [one.clone().to(device).requires_grad_() for one in inputs]
        outputs = run(moved, *leaves)
        sum((one.float() * one.float()).sum() for one in outputs[:backward_count]).backward()
        gradients = [one.grad for one in leaves] + [one.grad for one in moved.parameters()]
        results.append([one.detach().cpu() for one in [*outputs, *gradients]])
    assert_near(results[1], results[0], TOLERANCES[dtype])


def flat(result):
    """The output and the states in one list."""
    y, states = result
    return [y, *(states if isinstance(states, tuple) else [states])]


SETTINGS = [
    {},
    {"bias": False},
    {"batch_first": True},
    {"bidirectional": True},
    {"num_layers": 2},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
]
MORE = [{"num_layers": 3, "bias": False, "bidirectional": True}] if DEEP else []


@pytest.mark.parametrize("settings", SETTINGS + MORE, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_networks(kind, dtype, settings):
    x = numbers(-1, 1, dtype, (STEPS, BATCH, INPUTS))
    if settings.get("batch_first"):
        x = x.transpose(0, 1).contiguous()
    compare(network(kind, dtype, **settings), lambda module, x: flat(module(x)), dtype, [x])


def test_an_lstm_in_bf16():
    """By DynamicRNN and DynamicRNNGrad: the newer functions take no such type."""
    x = numbers(-1, 1, torch.bfloat16, (STEPS, BATCH, INPUTS))
    compare(network("LSTM", torch.bfloat16, bidirectional=True), lambda module, x: flat(module(x)), torch.bfloat16, [x])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_networks_with_a_first_state(kind):
    x, h = numbers(-1, 1, torch.float32, (STEPS, BATCH, INPUTS)), numbers(-1, 1, torch.float32, (2, BATCH, HIDDEN), 1)
    states = [h, numbers(-1, 1, torch.float32, (2, BATCH, HIDDEN), 2)] if kind == "LSTM" else [h]
    run = lambda module, x, *states: flat(module(x, tuple(states) if len(states) > 1 else states[0]))
    compare(network(kind, torch.float32, bidirectional=True), run, torch.float32, [x, *states])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_networks_that_are_not_trained(kind):
    module = network(kind, torch.float32, num_layers=2, dropout=0.5).eval()
    x = numbers(-1, 1, torch.float32, (STEPS, BATCH, INPUTS))
    with torch.no_grad():
        want = flat(module(x))
        have = flat(module.npu()(x.npu()))
    assert_near([one.cpu() for one in have], want, 2e-5)


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_packed_sequences(dtype, settings):
    """torch_npu pads packed sequences to the longest, so outputs are compared padded. It supports them in LSTMs alone; its
    gradient of the packed input is wrong and not compared. With two directions it loses the gradients of the last states."""
    x = numbers(-1, 1, dtype, (STEPS, BATCH, INPUTS))

    def run(module):
        data = x.to(next(module.parameters()).device)
        y, states = module(pack_padded_sequence(data, [5, 3, 2]))
        y, lengths = pad_packed_sequence(y)
        assert lengths.tolist() == [5, 3, 2]
        return [y, *states]

    compare(network("LSTM", dtype, **settings), run, dtype, [], backward_count=1 if "bidirectional" in settings else None)


@pytest.mark.parametrize("settings", [{}, {"num_layers": 2}, {"bidirectional": True}], ids=str)
def test_what_follows_the_end_of_a_sequence_reaches_nothing(settings):
    x = numbers(-1, 1, torch.float32, (STEPS, BATCH, INPUTS))
    x[3:, 1], x[2:, 2] = float("nan"), float("inf")

    def run(module):
        data = x.to(next(module.parameters()).device)
        return [pad_packed_sequence(module(pack_padded_sequence(data, [5, 3, 2]))[0])[0]]

    compare(network("LSTM", torch.float32, **settings), run, torch.float32, [])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("settings", [{}, {"nonlinearity": "relu"}, {"num_layers": 2, "bidirectional": True}], ids=str)
def test_plain_networks(settings, dtype):
    x = numbers(-1, 1, dtype, (STEPS, BATCH, INPUTS))
    compare(network("RNN", dtype, **settings), lambda module, x: flat(module(x)), dtype, [x])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(kind, bias, dtype):
    x, h = numbers(-1, 1, dtype, (BATCH, INPUTS)), numbers(-1, 1, dtype, (BATCH, HIDDEN), 1)
    states = [h, numbers(-1, 1, dtype, (BATCH, HIDDEN), 2)] if kind == "LSTMCell" else [h]

    def run(module, x, *states):
        for _ in range(2):
            result = module(x, tuple(states) if len(states) > 1 else states[0])
            states = result if isinstance(result, tuple) else (result,)
        return states

    compare(network(kind, dtype, bias=bias), run, dtype, [x, *states])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_fused_cell(dtype):
    """Blocks of gates are input, forget, candidate, output."""
    products = [numbers(-2, 2, dtype, (BATCH, 4 * HIDDEN), seed) for seed in (0, 1)]
    c, bias = numbers(-1, 1, dtype, (BATCH, HIDDEN), 2), [numbers(-1, 1, dtype, (4 * HIDDEN,), seed) for seed in (3, 4)]
    i, f, g, o = sum(one.float() for one in [*products, *bias]).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * c.float() + i * g
    want = [o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)]
    have = torch.ops.aten._thnn_fused_lstm_cell(*(one.npu() for one in [*products, c, *bias]))
    assert_near([one.cpu().float() for one in have], want, TOLERANCES[dtype])
    without_bias = torch.ops.aten._thnn_fused_lstm_cell(*(one.npu() for one in [*products, c]))
    assert not torch.equal(without_bias[0].cpu(), have[0].cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("absent", [None, 0, 1])
def test_the_gradients_of_the_fused_cell(absent, dtype):
    products, c = numbers(-2, 2, dtype, (BATCH, 4 * HIDDEN)), numbers(-1, 1, dtype, (BATCH, HIDDEN), 1)
    grads = [numbers(-1, 1, dtype, (BATCH, HIDDEN), seed) if at != absent else None for at, seed in enumerate((2, 3))]
    gates, cell = products.float().requires_grad_(), c.float().requires_grad_()
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cell + i * g
    hy = o * cy.tanh()
    sum((one * grad.float()).sum() for one, grad in zip((hy, cy), grads) if grad is not None).backward()
    storage = torch.cat([i, f, g, o], 1).detach().to(dtype)
    inputs = [*grads, c, cy.detach().to(dtype), storage]
    have = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(*(one if one is None else one.npu() for one in inputs), True)
    assert_near([one.cpu().float() for one in have], [gates.grad, cell.grad, gates.grad.sum(0)], TOLERANCES[dtype])


def fill_free_memory():
    """Leaves other numbers than 0 in the memory that the next tensors get."""
    sizes = [(24, 6), (24, 4), (24,), (18, 6), (18, 4), (18,), (16, 4), (16, 3), (16,)]
    junk = [torch.full(size, 7.0, device="npu") for size in sizes for _ in range(8)]
    torch.npu.synchronize()
    del junk


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_gradients_of_an_empty_batch_are_zeros(kind):
    module = network(kind, torch.float32).npu()
    y, _ = module(torch.zeros(STEPS, 0, INPUTS, device="npu", requires_grad=True))
    fill_free_memory()
    y.sum().backward()
    for name, one in module.named_parameters():
        assert one.grad.abs().sum().item() == 0.0, name


def test_the_gradients_of_a_cell_with_an_empty_batch_are_zeros():
    params = [numbers(-1, 1, torch.float32, size).npu().requires_grad_() for size in ((16, 3), (16, 4), (16,), (16,))]
    x, h, c = (torch.zeros(0, size, device="npu", requires_grad=True) for size in (3, 4, 4))
    h, c = torch._VF.lstm_cell(x, (h, c), *params)
    fill_free_memory()
    (h.sum() + c.sum()).backward()
    assert [one.grad.abs().sum().item() for one in params] == [0.0] * 4


def test_training_with_an_lstm():
    """Losses of 20 steps of Adam, each within 1e-4 of the CPU's."""
    losses = []
    for device in ("cpu", "npu"):
        torch.manual_seed(0)
        table, lstm, head = nn.Embedding(11, 8), nn.LSTM(8, 16, 2, batch_first=True), nn.Linear(16, 11)
        words = torch.randint(0, 11, (4, 9)).to(device)
        model = nn.ModuleList([table, lstm, head]).to(device)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(20):
            optimiser.zero_grad()
            scores = head(lstm(table(words[:, :-1]))[0])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
            loss.backward()
            optimiser.step()
            losses[-1].append(loss.item())
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-4)
    assert losses[1][-1] < losses[1][0] - 0.5
