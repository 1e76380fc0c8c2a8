//! The sizes and types of a node's outputs, also where those of its inputs are not known.
//!
//! The operator table infers from sizes that are known. Where some are not, it is asked with several numbers
//! in their place: what comes out the same each time is known, what changes is not. So every operator that
//! infers at all infers with unknown sizes too.

use super::operation::{KnownTensor, Operation};
use crate::failure::{Failure, Result};
use crate::ir::{Desc, UNKNOWN};
use bytes::Bytes;
use cairn_ops::Error;
use cairn_tensor::{DType, Layout};

/// What is known of a value while a graph is compiled.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// Type and sizes.
    pub desc: Desc,
    /// The bytes of a constant.
    pub bytes: Option<Bytes>,
}

impl ValueInfo {
    /// What the operator sees of it; `None` while sizes are unknown.
    pub fn known_tensor(&self) -> Option<KnownTensor> {
        Some(KnownTensor { layout: self.desc.layout()?, bytes: self.bytes.clone() })
    }
}

/// What is known of a node's outputs.
#[derive(Debug)]
pub enum Inference {
    /// All of it.
    Known(Vec<Layout>),
    /// Some of it; no value of theirs is known.
    Partly(Vec<Desc>),
}

/// The numbers that stand in for unknown sizes.
const SAMPLES: [i64; 7] = [2, 3, 1, 5, 7, 64, 97];

/// How many outputs a node has when inference cannot tell, and their types.
pub struct DeclaredOutputs<'a> {
    /// Descriptions of the outputs in the graph; they often have a type and no sizes.
    pub outputs: &'a [Desc],
}

/// Infers the outputs of a node. Fails on sizes that no call can have.
pub fn infer(
    operation: &Operation,
    inputs: &[Option<ValueInfo>],
    declared: &DeclaredOutputs<'_>,
) -> Result<Inference> {
    let tensors: Option<Vec<Option<KnownTensor>>> = (inputs.iter())
        .map(|info| match info {
            None => Some(None),
            Some(info) => info.known_tensor().map(Some),
        })
        .collect();
    if let Some(tensors) = tensors {
        return match operation.infer(&tensors) {
            Ok(layouts) => Ok(Inference::Known(layouts)),
            Err(Error::NeedsValues(_)) => {
                Ok(Inference::Partly(types_only(operation, inputs, declared)))
            }
            Err(error) => Err(conflict(operation, inputs, error.text())),
        };
    }
    let sampled = infer_by_samples(operation, inputs);
    Ok(Inference::Partly(sampled.unwrap_or_else(|| types_only(operation, inputs, declared))))
}

/// The failure of a node whose inputs do not fit.
fn conflict(operation: &Operation, inputs: &[Option<ValueInfo>], text: &str) -> Failure {
    let fed: Vec<String> = inputs
        .iter()
        .map(|info| info.as_ref().map_or("nothing".into(), |info| info.desc.to_string()))
        .collect();
    let (name, kind) = (&operation.name, operation.row.name);
    Failure::failed(format!("the node {name} ({kind}) is fed {}: {text}", fed.join(", ")))
}

/// Nothing but types: those of the operator, which decides them when it runs; else of the graph where it has them, else
/// of the first input.
fn types_only(
    operation: &Operation,
    inputs: &[Option<ValueInfo>],
    declared: &DeclaredOutputs<'_>,
) -> Vec<Desc> {
    let first = inputs.iter().flatten().next().map_or(DType::Float, |info| info.desc.dtype);
    let inferred = types_of_stand_ins(operation, inputs);
    let count = declared.outputs.len().max(operation.row.outputs.len());
    let dtype = |at: usize| {
        let declared = declared.outputs.get(at).map(|desc| desc.dtype);
        let declared = declared.filter(|dtype| *dtype != DType::Undefined);
        inferred.get(at).copied().or(declared).unwrap_or(first)
    };
    (0..count).map(|at| Desc::unknown(dtype(at))).collect()
}

/// Inputs of more elements get no values that stand in for theirs: none of them is a list of sizes.
const STAND_IN_ELEMENTS: usize = 256;

/// The types of the outputs if each input that is not known had one element, and values of 1 or 0; none if that cannot be.
fn types_of_stand_ins(operation: &Operation, inputs: &[Option<ValueInfo>]) -> Vec<DType> {
    let types = |layouts: Vec<Layout>| layouts.iter().map(|layout| layout.dtype).collect();
    for single in [false, true] {
        for rank in 0..=4 {
            for value in [None, Some(1), Some(0)] {
                let tensors: Vec<Option<KnownTensor>> = (inputs.iter())
                    .map(|info| stand_in(info.as_ref()?, rank, single, value))
                    .collect();
                match operation.infer(&tensors) {
                    Ok(layouts) => return types(layouts),
                    Err(Error::NeedsValues(_)) => {}
                    Err(_) if value.is_none() => break,
                    Err(_) => {}
                }
            }
        }
    }
    Vec::new()
}

/// An input with sizes of 1 for those that are not known, or for all if it is to be `single`, and this value.
fn stand_in(info: &ValueInfo, rank: usize, single: bool, value: Option<u8>) -> Option<KnownTensor> {
    let mut info = info.clone();
    if !info.desc.has_rank() {
        info.desc.dims = vec![1; rank];
    }
    let all = single && info.bytes.is_none();
    info.desc.dims.iter_mut().filter(|dim| all || **dim < 0).for_each(|dim| *dim = 1);
    let mut tensor = info.known_tensor()?;
    if let (Some(value), None) = (value, &tensor.bytes)
        && tensor.layout.count() <= STAND_IN_ELEMENTS
    {
        tensor.bytes = Some(stand_in_bytes(&tensor.layout, value));
    }
    Some(tensor)
}

/// The elements of a tensor that are all 1, or all 0.
fn stand_in_bytes(layout: &Layout, value: u8) -> Bytes {
    let item = layout.item();
    let element = match layout.dtype {
        DType::Float => f32::from(value).to_le_bytes().to_vec(),
        DType::Double => f64::from(value).to_le_bytes().to_vec(),
        _ => (0..item).map(|at| if at == 0 { value } else { 0 }).collect(),
    };
    element.repeat(layout.count()).into()
}

/// What inference gives for every one of the [`SAMPLES`]; `None` if it cannot tell.
fn infer_by_samples(operation: &Operation, inputs: &[Option<ValueInfo>]) -> Option<Vec<Desc>> {
    let infos = || inputs.iter().flatten();
    if infos().any(|info| !info.desc.has_rank()) {
        return None;
    }
    let known = infos().flat_map(|info| info.desc.dims.iter().copied()).filter(|dim| *dim > 0);
    let mut numbers: Vec<i64> = SAMPLES.into_iter().chain(known.take(8)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut found: Option<Vec<Desc>> = None;
    let mut answers = Vec::new();
    for number in numbers {
        let with_number = |info: &ValueInfo| {
            let mut info = info.clone();
            info.desc.dims.iter_mut().filter(|dim| **dim < 0).for_each(|dim| *dim = number);
            info.known_tensor()
        };
        let tensors: Vec<Option<KnownTensor>> =
            inputs.iter().map(|info| info.as_ref().and_then(with_number)).collect();
        let Ok(layouts) = operation.infer(&tensors) else { continue };
        answers.push(number);
        let descs: Vec<Desc> = layouts.iter().map(Desc::from_layout).collect();
        found = Some(match found {
            None => descs,
            Some(previous) => merge_descs(previous, descs)?,
        });
    }
    match answers[..] {
        // A single size of 1 may be one that operators leave out.
        [] | [1] => None,
        [_] => Some(found?.iter().map(without_sizes).collect()),
        _ => found,
    }
}

/// Type and number of dimensions alone.
fn without_sizes(desc: &Desc) -> Desc {
    Desc::new(desc.dtype, &vec![UNKNOWN; desc.dims.len()])
}

/// What two answers have in common; `None` if they have not even the number of outputs.
pub fn merge_descs(a: Vec<Desc>, b: Vec<Desc>) -> Option<Vec<Desc>> {
    if a.len() != b.len() {
        return None;
    }
    let both = a.into_iter().zip(b).map(|(a, b)| {
        if !a.has_rank() || a.dims.len() != b.dims.len() {
            return Desc::unknown(a.dtype);
        }
        let dims: Vec<i64> =
            (a.dims.iter().zip(&b.dims)).map(|(a, b)| if a == b { *a } else { UNKNOWN }).collect();
        Desc::new(a.dtype, &dims)
    });
    Some(both.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, Node};

    fn info(dims: &[i64]) -> Option<ValueInfo> {
        Some(ValueInfo { desc: Desc::new(DType::Float, dims), bytes: None })
    }

    fn outputs(kind: &str, inputs: &[Option<ValueInfo>], attrs: &[(&str, Attr)]) -> Vec<Vec<i64>> {
        let attrs = attrs.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        let node = Node { name: "n".into(), kind: kind.into(), attrs, ..Node::default() };
        let operation = Operation::of(&node).unwrap();
        match infer(&operation, inputs, &DeclaredOutputs { outputs: &[] }).unwrap() {
            Inference::Known(layouts) => {
                layouts.iter().map(|one| Desc::from_layout(one).dims).collect()
            }
            Inference::Partly(descs) => descs.into_iter().map(|desc| desc.dims).collect(),
        }
    }

    #[test]
    fn unknown_sizes_pass_through() {
        assert_eq!(outputs("Add", &[info(&[-1, 8]), info(&[8])], &[]), [[-1, 8]]);
        assert_eq!(outputs("Add", &[info(&[-1]), info(&[8])], &[]), [[8]]);
        assert_eq!(outputs("MatMul", &[info(&[-1, 6]), info(&[6, -1])], &[]), [[-1, -1]]);
        assert_eq!(outputs("Relu", &[info(&[3, -1, 5])], &[]), [[3, -1, 5]]);
    }

    #[test]
    fn unknown_ranks_stay_unknown() {
        assert_eq!(outputs("Add", &[info(&[-2]), info(&[8])], &[]), [[-2]]);
    }

    #[test]
    fn a_size_that_only_one_number_fits_stays_unknown() {
        assert_eq!(outputs("MatMul", &[info(&[-1, -1]), info(&[11, 13])], &[]), [[-1, -1]]);
    }

    #[test]
    fn types_are_those_of_the_operator() {
        let node = Node { name: "n".into(), kind: "SelectV2".into(), ..Node::default() };
        let operation = Operation::of(&node).unwrap();
        let unknown = |dtype| Some(ValueInfo { desc: Desc::unknown(dtype), bytes: None });
        let inputs = [unknown(DType::Bool), unknown(DType::Int64), unknown(DType::Int64)];
        match infer(&operation, &inputs, &DeclaredOutputs { outputs: &[] }).unwrap() {
            Inference::Partly(descs) => assert_eq!(descs[0].dtype, DType::Int64),
            Inference::Known(layouts) => panic!("{layouts:?}"),
        }
    }

    #[test]
    fn types_are_those_of_the_operator_where_sizes_are_values() {
        let types = |kind: &str, inputs: &[(DType, &[i64])]| {
            let node = Node { name: "n".into(), kind: kind.into(), ..Node::default() };
            let operation = Operation::of(&node).unwrap();
            let inputs: Vec<Option<ValueInfo>> = (inputs.iter())
                .map(|(dtype, dims)| Some(ValueInfo { desc: Desc::new(*dtype, dims), bytes: None }))
                .collect();
            match infer(&operation, &inputs, &DeclaredOutputs { outputs: &[] }).unwrap() {
                Inference::Partly(descs) => descs.iter().map(|desc| desc.dtype).collect::<Vec<_>>(),
                Inference::Known(layouts) => layouts.iter().map(|one| one.dtype).collect(),
            }
        };
        use DType::{Bool, Float, Int32, Int64};
        for dims in [&[2i64][..], &[-1], &[-2]] {
            assert_eq!(types("Fill", &[(Int64, dims), (Float, &[])]), [Float]);
            assert_eq!(types("Fill", &[(Int64, dims), (Bool, &[])]), [Bool]);
            let one_hot = [(Int64, dims), (Int64, &[]), (Float, &[1]), (Float, &[1])];
            assert_eq!(types("OneHot", &one_hot), [Float]);
            let range = [(Float, &[][..]), (Float, &[]), (Float, &[])];
            assert_eq!(types("Range", &range), [Float]);
            assert_eq!(types("TopKV2", &[(Float, &[3, 4]), (Int32, &[])]), [Float, Int32]);
            assert_eq!(types("ArgMaxV2", &[(Float, dims), (Int64, &[])]), [Int64]);
            assert_eq!(types("Reshape", &[(Float, &[3, 4]), (Int64, dims)]), [Float]);
            assert_eq!(types("BroadcastTo", &[(Float, &[3, 4]), (Int64, dims)]), [Float]);
        }
    }

    #[test]
    fn a_conflict_names_the_node() {
        let node = Node { name: "sum".into(), kind: "Add".into(), ..Node::default() };
        let operation = Operation::of(&node).unwrap();
        let inputs = [info(&[3]), info(&[4])];
        let failure = infer(&operation, &inputs, &DeclaredOutputs { outputs: &[] }).unwrap_err();
        assert!(failure.text.contains("sum (Add)"), "{}", failure.text);
        assert!(failure.text.contains("[3]") && failure.text.contains("[4]"), "{}", failure.text);
    }
}
