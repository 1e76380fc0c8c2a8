//! Operators that one node of the graph engine computes.

use super::Converters;
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("Det", determinant),
    ("LRN", local_norm),
    ("ReverseSequence", reverse_sequence),
    ("Unique", unique),
];

type Converted = Result<Vec<Value>, String>;

fn determinant(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let dtype = x.dtype();
    if !matches!(dtype, DType::Float16 | DType::Bf16) {
        return Ok(vec![node.add("MatrixDeterminant", &[&x], Attrs::new())?]);
    }
    let wide = node.cast(&x, DType::Float)?;
    let results = node.add("MatrixDeterminant", &[&wide], Attrs::new())?;
    Ok(vec![node.cast(&results, dtype)?])
}

/// The factor of ONNX is that of an average, the node's that of a sum.
fn local_norm(node: &mut Conversion<'_>) -> Converted {
    let (x, size) = (node.input(0)?, node.int("size", 0));
    if size < 1 {
        return Err(format!("size is {size}: expected at least 1"));
    }
    let attrs = attrs([
        ("depth_radius", ((size - 1) / 2).into()),
        ("size", size.into()),
        ("alpha", (node.float("alpha", 0.0001) / size as f32).into()),
        ("beta", node.float("beta", 0.75).into()),
        ("bias", node.float("bias", 1.0).into()),
    ]);
    Ok(vec![node.add("LRN", &[&x], attrs)?])
}

fn reverse_sequence(node: &mut Conversion<'_>) -> Converted {
    let (x, lengths) = (node.input(0)?, node.input(1)?);
    let attrs = attrs([
        ("seq_dim", node.int("time_axis", 0).into()),
        ("batch_dim", node.int("batch_axis", 1).into()),
    ]);
    Ok(vec![node.add("ReverseSequence", &[&x, &lengths], attrs)?])
}

fn unique(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let mut attrs = attrs([
        ("return_inverse", node.wants_output(2).into()),
        ("return_counts", node.wants_output(3).into()),
        ("sorted", (node.int("sorted", 1) != 0).into()),
    ]);
    let whole = !node.has("axis");
    if !whole {
        attrs.insert("axis".into(), node.int("axis", 0).into());
    }
    let made = node.add_several("UniqueWithCountsAndSorting", &[Some(&x)], attrs, 4)?;
    let [values, inverse, counts, firsts] = &made[..] else {
        return Err("UniqueWithCountsAndSorting has not four outputs".to_owned());
    };
    let inverse = match whole && node.wants_output(2) && x.rank() != Some(1) {
        true => {
            let line = node.int_list(&[-1]);
            node.add("Reshape", &[inverse, &line], Attrs::new())?
        }
        false => inverse.clone(),
    };
    Ok(vec![values.clone(), firsts.clone(), inverse, counts.clone()])
}
