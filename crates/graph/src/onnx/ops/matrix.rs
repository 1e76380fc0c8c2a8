//! Products of matrices.

use super::Converters;
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};

pub const CONVERTERS: Converters = &[("Gemm", gemm), ("MatMul", matmul)];

/// alpha * A * B + beta * C.
fn gemm(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let (alpha, beta) = (node.float("alpha", 1.0), node.float("beta", 1.0));
    let (left, right) = (node.int("transA", 0) != 0, node.int("transB", 0) != 0);
    let transposed = attrs([("transpose_x1", left.into()), ("transpose_x2", right.into())]);
    let mut product = node.add("MatMulV2", &[&a, &b], transposed)?;
    if alpha != 1.0 {
        let factor = node.scalar(product.dtype(), alpha.into())?;
        product = node.add("Mul", &[&product, &factor], Attrs::new())?;
    }
    let Some(mut c) = node.optional(2) else { return Ok(vec![product]) };
    if beta != 1.0 {
        let factor = node.scalar(c.dtype(), beta.into())?;
        c = node.add("Mul", &[&c, &factor], Attrs::new())?;
    }
    Ok(vec![node.add("Add", &[&product, &c], Attrs::new())?])
}

/// As numpy's: vectors get a dimension that goes afterwards.
fn matmul(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let (rows, columns) = (a.rank(), b.rank());
    if rows != Some(1) && columns != Some(1) {
        return Ok(vec![node.add("BatchMatMulV2", &[&a, &b], Attrs::new())?]);
    }
    let unsqueeze = |node: &mut Conversion<'_>, value: &Value, axis: i64| {
        node.add("Unsqueeze", &[value], attrs([("axes", vec![axis].into())]))
    };
    let a = if rows == Some(1) { unsqueeze(node, &a, 0)? } else { a };
    let b = if columns == Some(1) { unsqueeze(node, &b, 1)? } else { b };
    let product = node.add("BatchMatMulV2", &[&a, &b], Attrs::new())?;
    let rank = node.rank(&product)? as i64;
    let mut axes = Vec::new();
    if rows == Some(1) {
        axes.push(rank - 2);
    }
    if columns == Some(1) {
        axes.push(rank - 1);
    }
    Ok(vec![node.add("Squeeze", &[&product], attrs([("axis", axes.into())]))?])
}
