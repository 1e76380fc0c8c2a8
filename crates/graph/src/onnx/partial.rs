//! Small tensors of which some elements are known: the sizes that a model computes with while some sizes are open.
//!
//! A model that reshapes to (batch, 12, 64) joins an open size with two numbers. Which of the results are known is found
//! as in `compile/shapes.rs`: the operator computes with several numbers in the open places, and what comes out the same
//! each time is known. What is found decides sizes and ranks, never values of the graph.

use super::builder::Value;
use super::conversion::element;
use crate::compile::operation::{KnownTensor, Operation};
use crate::compile::shapes::{ValueInfo, merge_descs};
use crate::ir::Desc;
use bytes::Bytes;
use cairn_tensor::Layout;
use std::rc::Rc;

/// Larger tensors are no lists of sizes.
const MAX_ELEMENTS: usize = 64;

/// The elements of a tensor, each with whether it is known.
#[derive(Debug)]
pub struct Elements {
    /// All bytes; those of an unknown element mean nothing.
    bytes: Vec<u8>,
    known: Vec<bool>,
}

/// The numbers in the places of unknown sizes and elements: the n-th of a trial.
#[derive(Clone, Copy)]
enum Trial {
    /// The same everywhere: sizes have to fit each other.
    Same(i64),
    /// Each another: what depends on their difference is not taken for known.
    Counted { first: i64, step: i64 },
}

impl Trial {
    fn number(self, at: &mut i64) -> i64 {
        *at += 1;
        match self {
            Trial::Same(number) => number,
            Trial::Counted { first, step } => first + step * (*at - 1),
        }
    }
}

const COUNTED: [Trial; 3] = [
    Trial::Counted { first: 3, step: 2 },
    Trial::Counted { first: 101, step: 7 },
    Trial::Counted { first: 90, step: -1 },
];

const SAME: [Trial; 5] =
    [Trial::Same(2), Trial::Same(3), Trial::Same(1), Trial::Same(7), Trial::Same(96)];

impl Elements {
    /// The elements that are integers, `None` for those that are not known.
    pub fn ints(&self, value: &Value) -> Option<Vec<Option<i64>>> {
        let info = ValueInfo {
            desc: value.info.desc.clone(),
            bytes: Some(Bytes::copy_from_slice(&self.bytes)),
        };
        let all = Value { source: value.source, info, elements: None }.ints()?;
        Some(all.iter().zip(&self.known).map(|(number, known)| known.then_some(*number)).collect())
    }
}

/// An input in one trial; `None` if it cannot have any.
fn input(value: &Value, trial: Trial, at: &mut i64) -> Option<KnownTensor> {
    let mut desc = value.info.desc.clone();
    if !desc.has_rank() {
        return None;
    }
    desc.dims.iter_mut().filter(|dim| **dim < 0).for_each(|dim| *dim = trial.number(at));
    let layout = desc.layout()?;
    let bytes = match (&value.info.bytes, &value.elements) {
        (Some(bytes), _) => Some(bytes.clone()),
        (None, None) => None,
        (None, Some(elements)) => {
            let mut bytes = elements.bytes.clone();
            let item = bytes.len() / elements.known.len().max(1);
            for (place, known) in bytes.chunks_mut(item.max(1)).zip(&elements.known) {
                if !known {
                    place.copy_from_slice(&element(desc.dtype, trial.number(at) as f64)?);
                }
            }
            Some(bytes.into())
        }
    };
    Some(KnownTensor { layout, bytes })
}

fn inputs(values: &[Option<&Value>], trial: Trial) -> Option<Vec<Option<KnownTensor>>> {
    let mut at = 0;
    (values.iter())
        .map(|value| value.map(|value| input(value, trial, &mut at).ok_or(())).transpose().ok())
        .collect()
}

/// The sizes of the outputs of a node that reads lists of sizes; `None` if they cannot be told.
pub fn infer(operation: &Operation, values: &[Option<&Value>]) -> Option<Vec<Desc>> {
    if !values.iter().flatten().any(|value| value.elements.is_some()) {
        return None;
    }
    let mut found: Option<Vec<Desc>> = None;
    let mut answers = 0;
    for trial in SAME.into_iter().chain(COUNTED) {
        let Ok(layouts) = operation.infer(&inputs(values, trial)?) else { continue };
        answers += 1;
        let descs: Vec<Desc> = layouts.iter().map(Desc::from_layout).collect();
        found = Some(match found {
            None => descs,
            Some(previous) => merge_descs(previous, descs)?,
        });
    }
    found.filter(|_| answers > 1)
}

/// What is known of the elements of each output of a node, if they follow from sizes and lists of sizes.
pub fn elements(operation: &Operation, values: &[Option<&Value>]) -> Vec<Option<Rc<Elements>>> {
    let marks = operation.row.marks;
    let is_list = |value: &&Value| value.info.bytes.is_some() || value.elements.is_some();
    let from_lists = values.iter().flatten().any(|value| value.elements.is_some())
        && values.iter().flatten().all(is_list);
    if marks.runs_each_time() || marks.sized_by_values || !(from_lists || marks.from_shapes) {
        return Vec::new();
    }
    compute(operation, values).unwrap_or_default()
}

fn compute(operation: &Operation, values: &[Option<&Value>]) -> Option<Vec<Option<Rc<Elements>>>> {
    let mut found: Option<Vec<(Layout, Elements)>> = None;
    for trial in COUNTED {
        let tensors = inputs(values, trial)?;
        let layouts = operation.infer(&tensors).ok()?;
        if layouts.iter().any(|layout| layout.bytes() > MAX_ELEMENTS * size_of::<i64>()) {
            return None;
        }
        let results = operation.compute(&tensors, &layouts).ok()??;
        let Some(found) = &mut found else {
            let first = layouts.into_iter().zip(results).map(|(layout, bytes)| {
                let count = Desc::from_layout(&layout).dims.iter().product::<i64>();
                let known = vec![true; usize::try_from(count).unwrap_or_default()];
                (layout, Elements { bytes: bytes.to_vec(), known })
            });
            found = Some(first.collect());
            continue;
        };
        if found.len() != layouts.len() {
            return None;
        }
        for ((layout, elements), (other, bytes)) in
            found.iter_mut().zip(layouts.iter().zip(&results))
        {
            if Desc::from_layout(layout).dims != Desc::from_layout(other).dims {
                return None;
            }
            let item = (bytes.len() / elements.known.len().max(1)).max(1);
            let places = elements.bytes.chunks(item).zip(bytes.chunks(item));
            for (known, (before, now)) in elements.known.iter_mut().zip(places) {
                *known &= before == now;
            }
        }
    }
    Some(found?.into_iter().map(|(_, elements)| Some(Rc::new(elements))).collect())
}
