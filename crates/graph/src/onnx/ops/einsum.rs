//! Sums of products by the names of indices.

use super::Converters;
use crate::ir::{Attrs, Constant, Desc};
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[("Einsum", einsum)];

/// The index that stands for the dimensions under an ellipsis, the first of them.
const ELLIPSIS: u32 = 0x1_0000;

/// A tensor whose dimensions have names.
struct Named {
    value: Value,
    labels: Vec<u32>,
}

fn einsum(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let equation: String =
        node.text("equation", "").chars().filter(|c| !c.is_whitespace()).collect();
    let wrong = |text: &str| format!("equation '{equation}': {text}");
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let inputs = node.inputs_from(0)?;
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != inputs.len() {
        return Err(wrong(&format!("it has {} terms for {} inputs", terms.len(), inputs.len())));
    }
    let mut operands = Vec::new();
    let mut dots = 0;
    for (term, input) in terms.iter().zip(&inputs) {
        let rank = node.rank(input)?;
        let named = term.chars().filter(|c| c.is_ascii_alphabetic()).count();
        let own_dots =
            rank.checked_sub(named).ok_or_else(|| wrong("a term has too many indices"))?;
        if own_dots > 0 && !term.contains("...") {
            return Err(wrong(&format!("'{term}' names {named} of {rank} dimensions")));
        }
        dots = dots.max(own_dots);
        operands.push((*term, input.clone(), own_dots));
    }
    let labels = |term: &str, own_dots: usize| -> Vec<u32> {
        let mut labels = Vec::new();
        let mut rest = term;
        while let Some(first) = rest.chars().next() {
            match rest.strip_prefix("...") {
                Some(after) => {
                    labels.extend((dots - own_dots..dots).map(|at| ELLIPSIS + at as u32));
                    rest = after;
                }
                None => {
                    labels.push(first as u32);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        labels
    };
    let mut tensors = Vec::new();
    for (term, value, own_dots) in operands {
        let labels = labels(term, own_dots);
        tensors.push(diagonal(node, Named { value, labels })?);
    }
    let out: Vec<u32> = match right {
        Some(right) => labels(right, dots),
        None => {
            let all: Vec<u32> = tensors.iter().flat_map(|one| one.labels.iter().copied()).collect();
            let count = |label: u32| all.iter().filter(|one| **one == label).count();
            let mut single: Vec<u32> = all.clone();
            single.sort_unstable();
            single.dedup();
            let (dotted, mut plain): (Vec<u32>, Vec<u32>) =
                single.into_iter().partition(|label| *label >= ELLIPSIS);
            plain.retain(|label| count(*label) == 1);
            dotted.into_iter().chain(plain).collect()
        }
    };
    let mut tensors = tensors.into_iter();
    let mut result = tensors.next().ok_or_else(|| wrong("it has no terms"))?;
    let mut rest: Vec<Named> = tensors.collect();
    while !rest.is_empty() {
        let next = rest.remove(0);
        let needed: Vec<u32> = rest
            .iter()
            .flat_map(|one| one.labels.iter().copied())
            .chain(out.iter().copied())
            .collect();
        result = contract(node, result, next, &needed)?;
    }
    let result = sum_unused(node, result, &out)?;
    if let Some(label) = out.iter().find(|label| !result.labels.contains(label)) {
        let name = char::from_u32(*label).unwrap_or('.');
        return Err(wrong(&format!("no term has the index '{name}'")));
    }
    let value = arrange(node, &result, &out)?;
    Ok(vec![value])
}

/// A tensor whose indices are all different: of equal ones the elements where they agree stay.
fn diagonal(node: &mut Conversion<'_>, mut named: Named) -> Result<Named, String> {
    while let Some((first, second)) = repeated(&named.labels) {
        let dims = node.known_dims(&named.value, "its input")?;
        let size = dims[first];
        let mut eye = vec![0u8; node.reserve(size.saturating_mul(size), 1)?];
        (0..size as usize).for_each(|at| eye[at * size as usize + at] = 1);
        let mut sizes = vec![1; dims.len()];
        (sizes[first], sizes[second]) = (size, size);
        let desc = Desc::new(DType::Bool, &sizes);
        let eye = node.constant(Constant { desc, bytes: eye.into() });
        let zero = node.scalar(named.value.dtype(), 0.0)?;
        let kept = node.add("SelectV2", &[&eye, &named.value, &zero], Attrs::new())?;
        let axes = node.int_list(&[second as i64]);
        named.value = node.add("ReduceSum", &[&kept, &axes], Attrs::new())?;
        named.labels.remove(second);
    }
    Ok(named)
}

fn repeated(labels: &[u32]) -> Option<(usize, usize)> {
    labels.iter().enumerate().find_map(|(second, label)| {
        labels[..second].iter().position(|one| one == label).map(|first| (first, second))
    })
}

/// Sums the indices that nobody needs.
fn sum_unused(node: &mut Conversion<'_>, named: Named, needed: &[u32]) -> Result<Named, String> {
    let axes: Vec<i64> = (named.labels.iter().enumerate())
        .filter(|(_, label)| !needed.contains(label))
        .map(|(at, _)| at as i64)
        .collect();
    if axes.is_empty() {
        return Ok(named);
    }
    let axes = node.int_list(&axes);
    let value = node.add("ReduceSum", &[&named.value, &axes], Attrs::new())?;
    let labels = named.labels.into_iter().filter(|label| needed.contains(label)).collect();
    Ok(Named { value, labels })
}

/// The tensor with its indices in this order.
fn arrange(node: &mut Conversion<'_>, named: &Named, order: &[u32]) -> Result<Value, String> {
    if named.labels == order {
        return Ok(named.value.clone());
    }
    let find = |label: &u32| named.labels.iter().position(|one| one == label).unwrap_or(0) as i64;
    let order: Vec<i64> = order.iter().map(find).collect();
    let order = node.int_list(&order);
    node.add("Transpose", &[&named.value, &order], Attrs::new())
}

/// The product of two tensors, summed over what both have and nobody needs.
fn contract(
    node: &mut Conversion<'_>,
    a: Named,
    b: Named,
    needed: &[u32],
) -> Result<Named, String> {
    let with = |needed: &[u32], other: &[u32]| -> Vec<u32> {
        needed.iter().chain(other).copied().collect()
    };
    let (keep_a, keep_b) = (with(needed, &b.labels), with(needed, &a.labels));
    let (a, b) = (sum_unused(node, a, &keep_a)?, sum_unused(node, b, &keep_b)?);
    let both = |label: &&u32| b.labels.contains(label);
    let shared: Vec<u32> =
        a.labels.iter().filter(both).filter(|label| needed.contains(label)).copied().collect();
    let summed: Vec<u32> =
        a.labels.iter().filter(both).filter(|label| !needed.contains(label)).copied().collect();
    let only_a: Vec<u32> = a.labels.iter().filter(|one| !b.labels.contains(one)).copied().collect();
    let only_b: Vec<u32> = b.labels.iter().filter(|one| !a.labels.contains(one)).copied().collect();
    let size = |node: &Conversion<'_>, named: &Named, labels: &[u32]| -> Result<Vec<i64>, String> {
        let dims = node.known_dims(&named.value, "its input")?;
        let at = |label: &u32| named.labels.iter().position(|one| one == label).unwrap_or(0);
        Ok(labels.iter().map(|label| dims[at(label)]).collect())
    };
    let merge = |one: &[u32], two: &[u32], three: &[u32]| -> Vec<u32> {
        one.iter().chain(two).chain(three).copied().collect()
    };
    let (dims_a, dims_b) = (size(node, &a, &shared)?, size(node, &b, &shared)?);
    let batch: Vec<i64> = dims_a.iter().zip(&dims_b).map(|(a, b)| *a.max(b)).collect();
    let rows = size(node, &a, &only_a)?;
    let columns = size(node, &b, &only_b)?;
    let inner = size(node, &a, &summed)?;
    let left = arrange(node, &a, &merge(&shared, &only_a, &summed))?;
    let right = arrange(node, &b, &merge(&shared, &summed, &only_b))?;
    let product = |dims: &[i64]| dims.iter().product::<i64>();
    let flatten = |node: &mut Conversion<'_>, value: &Value, batch: &[i64], last: [i64; 2]| {
        let sizes: Vec<i64> = batch.iter().chain(&last).copied().collect();
        let sizes = node.int_list(&sizes);
        node.add("Reshape", &[value, &sizes], Attrs::new())
    };
    let left = flatten(node, &left, &dims_a, [product(&rows), product(&inner)])?;
    let right = flatten(node, &right, &dims_b, [product(&inner), product(&columns)])?;
    let made = match inner.is_empty() {
        true => node.add("Mul", &[&left, &right], Attrs::new())?,
        false => node.add("BatchMatMulV2", &[&left, &right], attrs([("adj_x1", false.into())]))?,
    };
    let sizes: Vec<i64> = batch.iter().chain(&rows).chain(&columns).copied().collect();
    let sizes = node.int_list(&sizes);
    let value = node.add("Reshape", &[&made, &sizes], Attrs::new())?;
    Ok(Named { value, labels: merge(&shared, &only_a, &only_b) })
}
