//! No operator writes what its output's type cannot hold: a real result to integers, a number to booleans. Every
//! case of `tests/walk/cases.txt` is planned with outputs of a lower kind.

#[path = "common/cases.rs"]
mod cases;

use cairn_tensor::{DType, Layout};
use cases::{Case, cases};
use std::collections::BTreeSet;

/// Operators whose caller chooses the output's type, whatever a cast loses; and attention, which does not write all of its
/// outputs.
const TYPE_CHOSEN_BY_CALLER: &[&str] = &[
    "Cast",
    "DropOutGenMaskV3",
    "Eye",
    "FlashAttentionScore",
    "ForeachCopy",
    "FusedInferAttentionScore",
    "LinSpace",
    "LogSpaceD",
    "MlaPrologV3",
    "NPUAllocFloatStatus",
    "NPUClearFloatStatus",
    "NPUGetFloatStatus",
    "OnesLike",
    "Range",
    "ReduceProd",
    "ReduceProdD",
    "ReduceSum",
    "ReduceSumD",
    "StatelessBernoulli",
    "StatelessDropOutGenMask",
    "ZerosLike",
];

/// The kind of a type: 0 for booleans, 1 for integers, 2 for real numbers.
fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        dtype if dtype.is_integer() => 1,
        _ => 2,
    }
}

fn with_output(case: &Case, at: usize, dtype: DType) -> Case {
    let mut outputs = case.outputs.clone();
    outputs[at] = Layout::contiguous(dtype, outputs[at].dims());
    Case { outputs, ..case.reseeded(0) }
}

#[test]
fn casts_that_lose_are_refused() {
    let mut accepted = BTreeSet::new();
    for case in cases() {
        for at in 0..case.outputs.len() {
            for lower in [DType::Int32, DType::Bool] {
                let loses = kind(lower) < kind(case.outputs[at].dtype);
                if loses && with_output(&case, at, lower).plan().is_ok() {
                    accepted.insert(case.node.name);
                }
            }
        }
    }
    for name in TYPE_CHOSEN_BY_CALLER {
        accepted.remove(name);
    }
    assert!(accepted.is_empty(), "these write to a type of a lower kind: {accepted:?}");
}
