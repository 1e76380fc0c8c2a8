"""Recurrent networks with everything that ONNX allows, by `acl.mdl` and by onnxruntime's CPU provider: written out and as loops."""

import numpy as np
import pytest
from loaded import one_node, run
from support import compare, session

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
HIDDEN, FEATURES, BATCH = 5, 3, 4


def numbers(seed, *shape):
    return np.random.default_rng(seed).uniform(-0.7, 0.7, shape).astype(np.float32)


def inputs_of(kind, steps, directions, bias=True, lengths=False, states=False, peepholes=False):
    wide = GATES[kind] * HIDDEN
    made = [numbers(1, steps, BATCH, FEATURES), numbers(2, directions, wide, FEATURES), numbers(3, directions, wide, HIDDEN)]
    made.append(numbers(4, directions, 2 * wide) if bias else None)
    counts = [steps, 1, max(1, steps // 2), max(1, steps - 1)]
    made.append(np.array(counts, np.int32) if lengths else None)
    made.append(numbers(5, directions, BATCH, HIDDEN) if states else None)
    if kind == "LSTM":
        made.append(numbers(6, directions, BATCH, HIDDEN) if states else None)
        made.append(numbers(7, directions, 3 * HIDDEN) if peepholes else None)
    while made[-1] is None:
        made.pop()
    return made


def check(kind, inputs, attributes, open_sizes, tolerance=1e-4):
    """Both give the same, the weights as constants."""
    attributes = {"hidden_size": HIDDEN, **attributes}
    constant = [at for at in (1, 2, 3, 7) if at < len(inputs) and inputs[at] is not None]
    outputs = 3 if kind == "LSTM" else 2
    data, fed = one_node(kind, inputs, outputs, attributes, constant)
    names = [one.name for one in session(data).get_inputs()]
    expected = session(data).run(None, dict(zip(names, fed)))
    if open_sizes:
        data, fed = one_node(kind, inputs, outputs, attributes, constant, open_axes=range(3))
    compare(run(data, fed), expected, tolerance)


# 5 steps are written out, 70 become a loop, and so does an open number.
@pytest.mark.parametrize("steps, open_sizes", [(5, False), (70, False), (5, True)], ids=["written", "loop", "open"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
class TestNetworks:
    def test_plain(self, kind, direction, steps, open_sizes):
        directions = 2 if direction == "bidirectional" else 1
        check(kind, inputs_of(kind, steps, directions, bias=False), {"direction": direction}, open_sizes)

    def test_all_inputs(self, kind, direction, steps, open_sizes):
        directions = 2 if direction == "bidirectional" else 1
        inputs = inputs_of(kind, steps, directions, lengths=True, states=True, peepholes=True)
        check(kind, inputs, {"direction": direction}, open_sizes)

    def test_clipped(self, kind, direction, steps, open_sizes):
        directions = 2 if direction == "bidirectional" else 1
        check(kind, inputs_of(kind, steps, directions, states=True), {"direction": direction, "clip": 0.3}, open_sizes)


@pytest.mark.parametrize("steps, after", [(5, 0), (5, 1), (70, 0), (70, 1)])
def test_reset_before_and_after_the_product(steps, after):
    check("GRU", inputs_of("GRU", steps, 2, lengths=True, states=True),
          {"direction": "bidirectional", "linear_before_reset": after}, False)


@pytest.mark.parametrize("steps", [5, 70])
def test_coupled_gates(steps):
    check("LSTM", inputs_of("LSTM", steps, 1, states=True, peepholes=True), {"input_forget": 1}, False)


@pytest.mark.parametrize("steps", [5, 70])
@pytest.mark.parametrize(
    "kind, names, numbers",
    [
        ("RNN", ["Relu", "Softsign"], {}),
        ("RNN", ["Affine", "Affine"], {"activation_alpha": [0.7, 0.6], "activation_beta": [0.1, 0.2]}),
        ("RNN", ["ScaledTanh", "ScaledTanh"], {"activation_alpha": [0.2, 0.9], "activation_beta": [0.8, 0.7]}),
        ("RNN", ["LeakyRelu", "LeakyRelu"], {"activation_alpha": [0.2, 0.9]}),
        ("GRU", ["HardSigmoid", "Softsign"] * 2, {"activation_alpha": [0.3, 0.25], "activation_beta": [0.4, 0.6]}),
        ("LSTM", ["Sigmoid", "Elu", "Softplus", "HardSigmoid", "Tanh", "Tanh"], {"activation_alpha": [0.5, 0.2], "activation_beta": [0.5]}),
    ],
    ids=["plain", "affine", "scaled", "leaky", "hard", "soft"],
)
def test_activations(kind, names, numbers, steps):
    attributes = {"direction": "bidirectional", "activations": names, **numbers}
    check(kind, inputs_of(kind, steps, 2, states=True), attributes, False)


def test_unknown_activation_is_named():
    data, fed = one_node("RNN", inputs_of("RNN", 3, 1), 2, {"hidden_size": HIDDEN, "activations": ["Wobble"]})
    with pytest.raises(AssertionError, match="Wobble"):
        run(data, fed)
