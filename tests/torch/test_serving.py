"""Decoders of torch_npu's operators, as people serve them, write the texts of their twins in plain PyTorch on the CPU: greedy and sampled,
with dense and paged caches, one sequence and many of unequal length, with every allocator, in a graph, and under the checker.

decoders.py has the decoders, serving.py the caches and the comparison.
"""

import importlib.util
import json

import pytest
import torch

import builds
import serving
import support
import test_check
from decoders import Sizes
from depth import DEEP

MODELS, CACHES = list(serving.MODELS), list(serving.CACHES)
INTERLEAVED = Sizes(features=64, heads=2, shared_heads=1, depth=1, is_interleaved=True)


def assert_same(*arguments, **options):
    difference = serving.check(*arguments, **options)
    assert not difference, difference


@pytest.mark.parametrize("choice", serving.CHOICES)
@pytest.mark.parametrize("batch", serving.PROMPTS if DEEP else ["several"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("model", MODELS)
def test_texts(model, cache, batch, choice):
    assert_same(model, cache, batch, choice)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("batch", serving.PROMPTS if DEEP else ["several"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("model", MODELS)
def test_half_types(model, cache, batch, dtype):
    assert_same(model, cache, batch, "greedy", dtype)


@pytest.mark.parametrize("choice", serving.CHOICES if DEEP else ["sampled"])
@pytest.mark.parametrize("model", MODELS)
def test_continuous_batching(model, choice):
    difference = serving.check_queue(model, choice)
    assert not difference, difference


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rope", ["apply", "mul", "positions", "interleave"])
def test_rotary_embeddings(rope, dtype):
    assert_same(INTERLEAVED if rope == "interleave" else "llama", "paged", "several", "greedy", dtype, rope=rope)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("cache", ["dense", "paged"])
def test_the_first_routing(cache, dtype):
    assert_same("mixture", cache, "several", "greedy", dtype, routing=1)


# What is written with each allocator and under the checker.
SAMPLE = [(model, cache, "several", choice) for model in MODELS for cache, choice in [("dense", "greedy"), ("padded", "sampled"), ("paged", "sampled")]]
EVERYTHING = [(model, cache, batch, choice) for model in MODELS for cache in CACHES for batch in serving.PROMPTS for choice in serving.CHOICES]

ALLOCATORS = {
    "torch_npu's": ("", ""),
    "a user's": (
        """
        import ctypes
        torch.npu.change_current_allocator(torch_npu.npu.memory.NPUPluggableAllocator({library!r}, "my_malloc", "my_free"))
        """,
        """
        counts = ctypes.CDLL({library!r})
        assert counts.failure_count() == 0 and counts.allocation_count() >= counts.release_count() > 1000
        """,
    ),
    "libcairn_pool.so": (
        """
        import pool
        torch.npu.change_current_allocator(pool.plug())
        """,
        """
        assert pool.last_error() is None and pool.figures().failed == 0 and pool.figures().freed > 1000, pool.report()
        """,
    ),
}

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import torch, torch_npu
{before}
import serving
for one in {cases!r}:
    difference = serving.check(*one)
    assert not difference, (one, difference)
{after}
"""


def script(allocator, cases, folder):
    """A script that writes texts with an allocator and compares them with the twin's."""
    library = support.build_allocator(folder) if allocator == "a user's" else None
    builds.cairn()
    before, after = (support.textwrap.dedent(part).format(library=library) for part in ALLOCATORS[allocator])
    return SCRIPT.format(folder=str(builds.HERE), before=before, after=after, cases=cases)


# torch_npu's own allocator serves the tests above.
@pytest.mark.parametrize("queue", ["0", "1", "2"] if DEEP else ["1"])
@pytest.mark.parametrize("allocator", list(ALLOCATORS)[1:])
def test_allocators(tmp_path, allocator, queue):
    support.run_script(script(allocator, EVERYTHING if DEEP else SAMPLE, tmp_path), TASK_QUEUE_ENABLE=queue)


@pytest.mark.parametrize("allocator", ALLOCATORS if DEEP else list(ALLOCATORS)[:1])
def test_the_checker_finds_nothing(tmp_path, allocator):
    done, findings = test_check.check(tmp_path, script(allocator, SAMPLE if DEEP else SAMPLE[2::3], tmp_path), "1")
    if allocator == "a user's":
        # It keeps nothing, and torch_npu frees what queued operators still read: a note, because Cairn's aclrtFree keeps it intact for them.
        assert {(finding["rule"], finding["severity"]) for finding in findings} == {("freed-while-pending", "note")}
        findings = []
    assert (done.returncode, findings) == (0, []), done.stdout + done.stderr + json.dumps(findings, indent=1)


GRAPHS = """
import warnings
warnings.filterwarnings("ignore")
import torch, torch_npu, torchair
import serving

# Else torch compiles C++ for the conditions under which a graph holds, for half a minute.
torch._dynamo.config.enable_cpp_symbolic_shape_guards = False
# A prompt in chunks is a graph for each size, where sizes are known.
torch._dynamo.config.recompile_limit = 32
backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
for model, cache, dynamic, dtype, options in {cases!r}:
    torch._dynamo.reset()
    difference = serving.check(
        model, cache, "several", "greedy", getattr(torch, dtype), lambda cache: cache.compile(backend=backend, dynamic=dynamic), **options
    )
    assert not difference, (model, cache, dynamic, dtype, options, difference)
"""
GRAPH_CASES = [(model, cache, "float32", {"rope": "mul"}) for model in MODELS for cache in CACHES if cache != "dense"] + [
    ("llama", "padded", "float16", {"rope": "mul"}), ("mixture", "padded", "bfloat16", {"rope": "mul"}),
    ("llama", "padded", "float32", {"rope": "apply"}), ("llama", "paged", "float32", {"rope": "positions"}),
    ("mixture", "paged", "float32", {"rope": "mul", "routing": 1}),
]  # fmt: skip
GRAPH_CASES = [(model, cache, dynamic, *others) for model, cache, *others in GRAPH_CASES for dynamic in (False, True)]
FAST_GRAPH_CASES = [("llama", "paged", True, "float32", {"rope": "mul"}), ("mixture", "padded", False, "float32", {"rope": "apply"})]


@pytest.mark.skipif(importlib.util.find_spec("google.protobuf") is None, reason="torchair wants protobuf")
def test_graphs():
    support.run_script(GRAPHS.format(cases=GRAPH_CASES if DEEP else FAST_GRAPH_CASES), timeout=900)
