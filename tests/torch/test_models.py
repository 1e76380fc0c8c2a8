"""Networks of the kinds that people train, on the unmodified wheels: the losses of 20 steps (50 in `cargo xtask deep`) are those of the CPU.

Every batch is a new one, so the first and the last five losses show that a network learns.
"""

import math

import pytest
import torch

import support
from depth import DEEP
from networks import NETWORKS
from training import OPTIMISERS, Recipe, train

STEPS = 50 if DEEP else 20

# How far a loss may be from the CPU's, relative to the first loss.
TOLERANCE = 1e-3
# Batch norm makes rounding differences grow from step to step, on the CPU too, and by leaps where they change which element is a maximum, or a sign: from the
# fourth step on these networks have this tolerance, plus four times the greatest difference so far between the CPU's losses in float32 and in float64.
TOLERANCE_OF_BATCH_NORM = 5e-2
BATCH_NORM_NETWORKS = {"cnn", "resnet"}
# Autocast on `cpu` and on `npu` chooses different operators for half precision, so losses are only roughly the same.
TOLERANCE_OF_AUTOCAST = 0.1
# PyTorch has no LSTM in float16 on the CPU: there it is computed in float32.
NO_FLOAT16_ON_CPU = {"lstm"}

# In `cargo xtask test` each network with one recipe and each recipe with one network; `deep` has all of them.
FEW = [
    ("cnn", Recipe("sgd foreach")),
    ("resnet", Recipe("sgd")),
    ("unet", Recipe("adam foreach")),
    ("vit", Recipe("adamw foreach", clip=1.0)),
    ("vit", Recipe("adamw fused", autocast=torch.bfloat16)),
    ("lstm", Recipe("adam", clip=0.5)),
    ("gpt", Recipe("adamw fused", clip=0.5, options={"checkpoints": True})),
    ("llama", Recipe("adamw")),
    ("bert", Recipe("adam fused")),
    ("bert", Recipe("sgd fused", clip=1.0, autocast=torch.float16)),
]
ALL = [
    *((name, Recipe(optimiser)) for name in NETWORKS for optimiser in OPTIMISERS),
    *((name, Recipe("adamw foreach", clip=clip, autocast=dtype)) for name in NETWORKS for clip in (None, 0.5) for dtype in (torch.float16, torch.bfloat16)),
    *((name, Recipe("adam fused", autocast=torch.float16)) for name in NETWORKS),
]


def assert_same_losses(actual, expected, tolerance, exact=None):
    """Each loss is within `tolerance` times the first one; with the losses in float64 (`exact`), also within the CPU's own rounding."""
    assert len(actual) == len(expected) and all(map(math.isfinite, actual)), actual
    cpu_error = 0.0
    for step, (loss, other) in enumerate(zip(actual, expected)):
        cpu_error = max(cpu_error, abs(other - exact[step]) if exact else 0.0)
        allowed = (TOLERANCE_OF_BATCH_NORM if exact and step >= 3 else tolerance) * expected[0] + 4 * cpu_error
        assert abs(loss - other) <= allowed, f"step {step}: {loss}, on the CPU {other}, allowed {allowed}\n{actual}\n{expected}"


def case_id(value):
    if isinstance(value, str):
        return value
    parts = [value.optimiser, value.clip and f"clip {value.clip}", value.autocast and str(value.autocast).removeprefix("torch.")]
    return ", ".join(filter(None, parts + [value.options and "checkpoints"]))


@pytest.mark.filterwarnings("ignore:LSTM fallback")
@pytest.mark.parametrize("name, recipe", FEW + ALL if DEEP else FEW, ids=case_id)
def test_losses_are_those_of_the_cpu(name, recipe):
    no_autocast = name in NO_FLOAT16_ON_CPU and recipe.autocast == torch.float16
    expected = train(name, "cpu", recipe._replace(autocast=None) if no_autocast else recipe, STEPS)
    actual = train(name, "npu", recipe, STEPS)
    assert sum(expected[-5:]) < sum(expected[:5]), expected
    if recipe.autocast:
        assert_same_losses(actual, expected, TOLERANCE_OF_AUTOCAST)
    else:
        exact = train(name, "cpu", recipe, STEPS, torch.float64) if name in BATCH_NORM_NETWORKS else None
        assert_same_losses(actual, expected, TOLERANCE, exact)


UNDER_AN_ALLOCATOR = """
import torch, torch_npu
from journal import Journal
from networks import NETWORKS
from test_models import TOLERANCE, assert_same_losses
from training import Recipe, train

journal = Journal.from_arguments()
journal.make_current()
for name in NETWORKS:
    recipe = Recipe("adamw foreach", clip=1.0)
    before = journal.mallocs
    expected, actual = (train(name, device, recipe, 3) for device in ("cpu", "npu"))
    assert_same_losses(actual, expected, 10 * TOLERANCE)
    torch.npu.synchronize()
    assert len(journal.live()) <= 1, (name, journal.live())  # in mode 2 torch_npu keeps the workspace of operators
    assert journal.mallocs - before > 300 and journal.failures == 0, (name, journal.mallocs - before)
    print(name, journal.mallocs - before, "blocks")
"""


def test_under_an_allocator_of_the_users(library, recorder):
    """The vendor's example and libcairn_pool.so give the memory of every network, and get all of it back."""
    support.run_script(UNDER_AN_ALLOCATOR, arguments=[recorder, library.path, library.malloc, library.free], CAIRN_DEVICE_MEMORY="1gib")
