//! Operators that make tensors from numbers and sizes.

use super::Converters;
use super::expression::diagonals;
use crate::ir::{Attrs, Constant, Desc};
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("EyeLike", eye_like),
    ("Range", range),
    ("Shape", shape),
    ("Size", size),
];

fn constant(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    for name in ["value", "sparse_value"] {
        if let Some(constant) = node.tensor(name)? {
            return Ok(vec![node.constant(constant)]);
        }
    }
    if node.has("value_float") {
        let value = f64::from(node.float("value_float", 0.0));
        return Ok(vec![node.scalar(DType::Float, value)?]);
    }
    if node.has("value_int") {
        let bytes = node.int("value_int", 0).to_le_bytes().to_vec().into();
        let desc = Desc::new(DType::Int64, &[]);
        return Ok(vec![node.constant(Constant { desc, bytes })]);
    }
    if let Some(values) = node.floats("value_floats") {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let desc = Desc::new(DType::Float, &[values.len() as i64]);
        return Ok(vec![node.constant(Constant { desc, bytes: bytes.into() })]);
    }
    if let Some(values) = node.ints("value_ints") {
        return Ok(vec![node.int_list(&values)]);
    }
    Err("strings are not supported".to_owned())
}

/// A tensor of the sizes of its input, filled with one element; 0 in `float` where nothing else is said.
fn constant_of_shape(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let dims = node.input(0)?;
    let element = match node.tensor("value")? {
        Some(constant) => {
            let item = constant.desc.dtype.size_in_bytes().unwrap_or(1);
            if constant.bytes.len() != item {
                return Err(format!(
                    "its value has the sizes {:?}, not one element",
                    constant.desc.dims
                ));
            }
            let desc = Desc::new(constant.desc.dtype, &[]);
            node.constant(Constant { desc, ..constant })
        }
        None => node.scalar(DType::Float, 0.0)?,
    };
    let mut filled = node.add("Fill", &[&dims, &element], Attrs::new())?;
    if let Some(&[count]) = dims.dims()
        && let Ok(count) = usize::try_from(count)
    {
        node.learn_dims(&mut filled, &vec![-1; count]);
    }
    Ok(vec![filled])
}

/// Ones on a diagonal: row and column numbers are compared.
fn eye_like(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let x = node.input(0)?;
    let dtype = node.dtype("dtype")?.unwrap_or(x.dtype());
    match node.rank(&x)? {
        2 => {}
        rank => return Err(format!("its input has {rank} dimensions, not 2")),
    }
    let (diagonals, k) = (diagonals(node, &x)?, node.int_list(&[node.int("k", 0)]));
    let ones = node.add("Equal", &[&diagonals, &k], Attrs::new())?;
    Ok(vec![node.cast(&ones, dtype)?])
}

fn range(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (start, limit, delta) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let mut numbers = node.add("Range", &[&start, &limit, &delta], Attrs::new())?;
    node.learn_dims(&mut numbers, &[-1]);
    Ok(vec![numbers])
}

/// Sizes, all or from `start` to before `end`, which may count from the last.
fn shape(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let x = node.input(0)?;
    let int64 = DType::Int64 as i64;
    let sizes = node.add("Shape", &[&x], attrs([("dtype", int64.into())]))?;
    if !node.has("start") && !node.has("end") {
        return Ok(vec![sizes]);
    }
    let rank = node.rank(&x)? as i64;
    let clamp = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank);
    let (start, end) = (clamp(node.int("start", 0)), clamp(node.int("end", rank)));
    let (start, length) = (node.int_list(&[start]), node.int_list(&[(end - start).max(0)]));
    Ok(vec![node.add("Slice", &[&sizes, &start, &length], Attrs::new())?])
}

fn size(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let x = node.input(0)?;
    let int64 = DType::Int64 as i64;
    Ok(vec![node.add("Size", &[&x], attrs([("dtype", int64.into())]))?])
}
