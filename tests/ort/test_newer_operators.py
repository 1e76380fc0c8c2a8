"""Operators that are newer than onnxruntime, or that it has for other types: by `acl.mdl`, against their formulas in numpy."""

import numpy as np
import pytest
from loaded import one_node, run
from support import compare, session


def numbers(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def check(kind, inputs, expected, attributes=None, constant=(), tolerance=1e-4, open_axes=()):
    data, fed = one_node(kind, inputs, len(expected), attributes, constant, opset=28, open_axes=open_axes)
    compare(run(data, fed), expected, tolerance)


@pytest.mark.parametrize("alpha", [None, 1.7])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_swiglu(dtype, alpha):
    gate, x = numbers(1, 2, 3, 4, dtype=dtype), numbers(2, 2, 3, 4, dtype=dtype)
    wide = gate.astype(np.float64)
    expected = (wide * sigmoid((alpha or 1) * wide) * x).astype(dtype)
    check("SwiGLU", [gate, x], [expected], {"alpha": alpha} if alpha else {})


def causal(x, weight, bias, past, is_activated):
    size = weight.shape[2]
    if past is None:
        past = np.zeros((*x.shape[:2], size - 1), x.dtype)
    padded = np.concatenate([past, x], 2)
    y = sum(padded[:, :, at : at + x.shape[2]] * weight[:, 0, at, None] for at in range(size))
    if bias is not None:
        y = y + bias[:, None]
    if is_activated:
        y = y * sigmoid(y)
    return [y.astype(x.dtype), padded[:, :, padded.shape[2] - (size - 1) :]]


@pytest.mark.parametrize("open_axes", [(), (0, 1, 2)], ids=["known", "open"])
@pytest.mark.parametrize("length", [1, 2, 9])
@pytest.mark.parametrize("size", [1, 4])
def test_causal_conv_with_state(size, length, open_axes):
    x, weight, bias, past = numbers(1, 2, 3, length), numbers(2, 3, 1, size), numbers(3, 3), numbers(4, 2, 3, size - 1)
    for given in ([x, weight], [x, weight, bias], [x, weight, None, past], [x, weight, bias, past]):
        for activation in ("none", "silu", "swish"):
            filled = [*given, None, None][:4]
            expected = causal(*filled, activation != "none")
            constant = [at for at in (1, 2) if at < len(given) and given[at] is not None]
            if open_axes and len(given) == 4 and size == 1:
                continue  # open sizes are at least 1
            check("CausalConvWithState", given, expected, {"activation": activation}, constant, open_axes=open_axes)


def linear_attention(query, key, value, past, decay, beta, rule, heads, key_heads, scale):
    (batch, steps, _), group = query.shape, heads // key_heads
    apart = lambda x, count: x.reshape(batch, steps, count, -1)
    q, k, v = apart(query, heads), apart(key, key_heads), apart(value, key_heads)
    state = np.zeros((batch, key_heads, k.shape[3], v.shape[3])) if past is None else past.astype(np.float64)
    scale = scale or 1 / np.sqrt(k.shape[3])
    shown = np.zeros((batch, steps, heads, v.shape[3]))
    for at in range(steps):
        row = v[:, at]
        if "gated" in rule:
            state = state * np.exp(apart(decay, key_heads)[:, at])[..., None]
        if "delta" in rule:
            row = apart(beta, beta.shape[2])[:, at] * (row - np.einsum("bhkv,bhk->bhv", state, k[:, at]))
        state = state + np.einsum("bhk,bhv->bhkv", k[:, at], row)
        shown[:, at] = scale * np.einsum("bhk,bhkv->bhv", q[:, at], np.repeat(state, group, 1))
    kind = query.dtype if past is None else past.dtype
    return [shown.reshape(batch, steps, -1).astype(query.dtype), state.astype(kind)]


@pytest.mark.parametrize("open_axes", [(), (0, 1)], ids=["known", "open"])
@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("heads, key_heads", [(2, 2), (6, 3), (4, 1)])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule, heads, key_heads, steps, open_axes):
    batch, keys, values = 2, 4, 3
    query, key = numbers(1, batch, steps, heads * keys), numbers(2, batch, steps, key_heads * keys) / 2
    value, past = numbers(3, batch, steps, key_heads * values), numbers(4, batch, key_heads, keys, values)
    for has_past, is_wide, is_shared, scale in [(False, False, False, 0.0), (True, True, True, 0.5)]:
        decay = -np.abs(numbers(5, batch, steps, key_heads * (keys if is_wide else 1))) if "gated" in rule else None
        beta = np.abs(numbers(6, batch, steps, 1 if is_shared else key_heads)) if "delta" in rule else None
        given = [query, key, value, past if has_past else None, decay, beta]
        expected = linear_attention(*given, rule, heads, key_heads, scale)
        while given[-1] is None:
            given.pop()
        attributes = {"update_rule": rule, "q_num_heads": heads, "kv_num_heads": key_heads, "scale": scale}
        check("LinearAttention", given, expected, attributes, open_axes=open_axes)


@pytest.mark.parametrize(
    "attributes, part",
    [
        ({"update_rule": "cubic", "q_num_heads": 2, "kv_num_heads": 2}, "cubic"),
        ({"update_rule": "linear", "q_num_heads": 3, "kv_num_heads": 2}, "q_num_heads is 3"),
        ({"update_rule": "gated", "q_num_heads": 2, "kv_num_heads": 2}, "needs decay"),
    ],
)
def test_linear_attention_that_cannot_be(attributes, part):
    given = [numbers(1, 1, 2, 8), numbers(2, 1, 2, 8), numbers(3, 1, 2, 6)]
    data, fed = one_node("LinearAttention", given, 2, attributes, opset=28)
    with pytest.raises(AssertionError, match=part):
        run(data, fed)


NGRAMS = {"ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("least, most, skipped", [(1, 1, 0), (2, 2, 0), (2, 2, 5), (1, 2, 3)])
@pytest.mark.parametrize("dims", [(12,), (2, 6)])
def test_tf_idf_is_that_of_onnxruntime(dims, least, most, skipped, mode, dtype):
    x = np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], dtype).reshape(dims)
    attributes = {"mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skipped, **NGRAMS}
    if mode != "TF":
        attributes["weights"] = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    data, fed = one_node("TfIdfVectorizer", [x], 1, attributes, opset=17)
    compare(run(data, fed), session(data).run(None, {"x0": x}))
