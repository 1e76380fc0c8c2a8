"""torch.distributed on `hccl`, with the unmodified wheels: each collective against plain arithmetic, and the losses of each way to train in parallel
against those of the same program on `gloo` and the CPU.

The ranks of all cases are forked once: see ranks.py. `cargo xtask deep` has 4 ranks too, and checks the cases themselves on `gloo`.
"""

import functools
import json

import pytest

import collectives
import parallel
import ranks
import support
from depth import DEEP
from networks import NETWORKS
from test_models import TOLERANCE, assert_same_losses

WORLDS = [2, 4] if DEEP else [2]
# bfloat16 is rounded differently by the two devices' kernels.
TOLERANCES = {"fsdp2_in_bfloat16": 2e-2, "ddp_of_a_network_with_buffers": 1e-2}


@functools.cache
def outcomes(world, backend):
    return ranks.run("collectives:check_all", world, backend=backend, deep=DEEP).results()


@functools.cache
def losses(world):
    names = parallel.names(world)
    return ranks.run("parallel:train", world, programs=names, backends=["gloo", "hccl"], timeout=280).results()


BACKENDS = ["hccl", "gloo"] if DEEP else ["hccl"]


@pytest.mark.parametrize(
    "world, backend, name",
    [(world, backend, name) for world in WORLDS for backend in BACKENDS for name in collectives.selected(backend, DEEP)],
)
def test_collective(world, backend, name):
    for rank, results in enumerate(outcomes(world, backend)):
        assert results[name] is None, f"rank {rank}: {results[name]}"


@pytest.mark.parametrize("world, name", [(world, name) for world in WORLDS for name in parallel.names(world)])
def test_losses_are_those_of_gloo(world, name):
    for rank, results in enumerate(losses(world)):
        expected, actual = results["gloo"][name], results["hccl"][name]
        assert not isinstance(expected, str), f"rank {rank} on gloo: {expected}"
        assert not isinstance(actual, str), f"rank {rank} on hccl: {actual}"
        assert len(actual) == parallel.STEPS
        if any(expected):
            assert sum(expected[-5:]) < sum(expected[:5]), expected
            assert_same_losses(actual, expected, TOLERANCES.get(name, TOLERANCE))
        else:
            assert not any(actual), "only the last rank of a pipeline has a loss"


@pytest.mark.parametrize("world", WORLDS)
def test_parts_of_matrices_make_the_whole(world):
    """Tensor parallel training is training: its losses are those of one device."""
    network, model = NETWORKS["llama"], parallel.wide_llama()
    alone = parallel.learn(model, parallel.adamw(model.parameters()), lambda step: network.batch(step, "cpu"), network.loss)
    for results in losses(world):
        assert_same_losses(results["hccl"]["tensor_parallel"], alone, TOLERANCE)


# What torch_npu defines for DataParallel, the build of torch for CUDA (which is what PyPI has) defines too, and its own comes first.
DATA_PARALLEL = """
import json, torch
for name in ("_broadcast", "_broadcast_out", "_broadcast_coalesced", "_scatter", "_scatter_out", "_gather", "_gather_out"):
    if hasattr(torch._C, name):
        delattr(torch._C, name)
import torch_npu, parallel
print(json.dumps([parallel.data_parallel(device) for device in ("cpu", "npu")]))
"""


def test_data_parallel():
    """One process with two devices."""
    # With its queues on, torch_npu may destroy an event before the queue of the other device has waited for it.
    script = support.run_script(DATA_PARALLEL, fresh=True, TORCH_DEVICE_BACKEND_AUTOLOAD="0", TASK_QUEUE_ENABLE="0")
    expected, actual = json.loads(script.stdout)
    assert sum(expected[-5:]) < sum(expected[:5]), expected
    assert_same_losses(actual, expected, TOLERANCE)
