//! Complex elements: every operator computes with them or refuses them by name, and none panics.

#[path = "common/cases.rs"]
mod cases;

use cairn_tensor::DType;
use cases::{Case, Input, cases};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The case with complex elements instead of those of `f32`, in the inputs and outputs that `chooses` names
/// (inputs count first).
fn complex(case: &Case, chooses: impl Fn(usize) -> bool) -> Case {
    let is_f32 = |dtype: DType| dtype == DType::Float;
    let input = |(at, input): (usize, &Option<Input>)| {
        let input = input.as_ref()?;
        let changes = is_f32(input.layout.dtype) && chooses(at);
        Some(if changes { input.with_dtype(DType::Complex64) } else { input.clone() })
    };
    let output = |(at, layout): (usize, &cairn_tensor::Layout)| {
        let changes = is_f32(layout.dtype) && chooses(case.inputs.len() + at);
        if changes { layout.with_dtype(DType::Complex64) } else { *layout }
    };
    Case {
        node: case.node,
        line: case.line.clone(),
        inputs: case.inputs.iter().enumerate().map(input).collect(),
        attributes: case.attributes.clone(),
        outputs: case.outputs.iter().enumerate().map(output).collect(),
    }
}

#[test]
fn complex_elements_are_computed_with_or_refused() {
    let mut panicked = Vec::new();
    for case in cases() {
        let (first, count) = (case.inputs.len(), case.inputs.len() + case.outputs.len());
        let mut variants = vec![complex(&case, |_| true), complex(&case, |at| at < first)];
        variants.extend((0..count).map(|one| complex(&case, move |at| at == one)));
        for case in variants {
            if catch_unwind(AssertUnwindSafe(|| case.run(0))).is_err() {
                panicked.push(case.line.clone());
            }
        }
    }
    panicked.dedup();
    assert!(panicked.is_empty(), "{panicked:#?}");
}
