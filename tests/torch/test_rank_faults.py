"""What goes wrong between ranks ends in an error that names the ranks, the operator and the reason; nobody hangs."""

import re

import pytest

import ranks
from depth import DEEP


def assert_failed(run, rank, *patterns):
    """A rank ended with an error, and printed something that matches each pattern."""
    text = run.texts[rank]
    assert run.codes[rank] != 0, text
    for pattern in patterns:
        assert re.search(pattern, text, re.IGNORECASE), f"rank {rank} ended with {run.codes[rank]} without {pattern!r}:\n{text}"


@pytest.mark.parametrize("world", [2, 4] if DEEP else [3])
def test_a_killed_rank_ends_all(world):
    run = ranks.run("rank_faults:killed_in_training", world, step=7)
    assert run.codes[1] == -9
    for rank in range(world):
        if rank != 1:
            assert_failed(run, rank, r"rank 1\b", "HcclAllReduce|AllReduce|all_?reduce")


DIFFERENCES = {
    "different_counts": (r"\b10\b", r"\b11\b"),
    "different_types": ("int32", "fp32|float32"),
    "different_operators": ("allreduce", "broadcast"),
    "different_roots": ("allreduce", "an operator before this one differed"),
}


@pytest.mark.parametrize("name", DIFFERENCES if DEEP else ["different_counts", "different_operators"])
def test_ranks_that_call_different_things(name):
    run = ranks.run(f"rank_faults:{name}", 2)
    for rank in range(2):
        assert_failed(run, rank, rf"rank {1 - rank}\b", *DIFFERENCES[name])


def test_a_rank_that_does_not_call():
    run = ranks.run("rank_faults:a_rank_that_does_not_call", 2, environment={"HCCL_EXEC_TIMEOUT": "2"})
    assert_failed(run, 0, r"rank 1\b", "time", "AllReduce")
    assert run.codes[1] == 0, run.texts[1]
