//! Fourier transforms whose lengths or axes come with a run: the table of angles is computed in the run.

use super::expression::{
    Made, counting, int_scalar, join, list, plain, reshape, select, size_at, slice, slice_by,
    unsqueeze, with_number,
};
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;
use std::f64::consts::PI;

/// What a transform does.
pub struct TransformByRun {
    /// An int64 without dimensions; `None` for that of the input.
    pub length: Option<Value>,
    pub is_inverse: bool,
    pub is_onesided: bool,
}

impl TransformByRun {
    /// Transforms the last but one axis of x, whose last has real and perhaps imaginary parts.
    pub fn apply(&self, node: &mut Conversion<'_>, x: &Value) -> Made {
        let rank = node.rank(x)? as i64;
        let parts = node.known_dims_at(x, rank as usize - 1)?;
        let folds = self.is_onesided && self.is_inverse;
        let have = size_at(node, x, rank - 2)?;
        let length = match &self.length {
            Some(length) => length.clone(),
            None if folds => {
                let less = with_number(node, "Sub", &have, 1.0)?;
                with_number(node, "Mul", &less, 2.0)?
            }
            None => have,
        };
        let half = with_number(node, "FloorDiv", &length, 2.0)?;
        let half = with_number(node, "Add", &half, 1.0)?;
        let inputs = if folds { &half } else { &length };
        let outputs = if self.is_onesided && !self.is_inverse { &half } else { &length };
        let x = with_length(node, x, inputs)?;
        let (cos, sin) = self.table(node, inputs, outputs, &length, x.dtype())?;
        let part = |node: &mut Conversion<'_>, at: i64| -> Made {
            let part = slice(node, &x, rank - 1, at, at + 1)?;
            let mut part =
                node.add("Squeeze", &[&part], attrs([("axis", vec![rank - 1].into())]))?;
            node.learn_dims(&mut part, &vec![-1; rank as usize - 1]);
            Ok(part)
        };
        let real = part(node, 0)?;
        let mut made_real = plain(node, "BatchMatMulV2", &[&real, &cos])?;
        let mut made_imaginary = plain(node, "BatchMatMulV2", &[&real, &sin])?;
        if parts == 2 {
            let imaginary = part(node, 1)?;
            let crossed = plain(node, "BatchMatMulV2", &[&imaginary, &sin])?;
            made_real = plain(node, "Sub", &[&made_real, &crossed])?;
            let straight = plain(node, "BatchMatMulV2", &[&imaginary, &cos])?;
            made_imaginary = plain(node, "Add", &[&made_imaginary, &straight])?;
        }
        let made_real = unsqueeze(node, &made_real, &[rank - 1])?;
        if folds {
            return Ok(made_real);
        }
        let made_imaginary = unsqueeze(node, &made_imaginary, &[rank - 1])?;
        let mut made = join(node, &[made_real, made_imaginary], rank - 1)?;
        let mut dims = vec![-1; rank as usize];
        dims[rank as usize - 1] = 2;
        node.learn_dims(&mut made, &dims);
        Ok(made)
    }

    /// Cosines and sines, [inputs, outputs], with the scale of an inverse transform.
    fn table(
        &self,
        node: &mut Conversion<'_>,
        inputs: &Value,
        outputs: &Value,
        length: &Value,
        dtype: DType,
    ) -> Result<(Value, Value), String> {
        let (rows, columns) = (counting(node, inputs)?, counting(node, outputs)?);
        let rows = unsqueeze(node, &rows, &[1])?;
        let turns = plain(node, "Mul", &[&rows, &columns])?;
        let turns = plain(node, "FloorMod", &[&turns, length])?;
        let turns = node.cast(&turns, DType::Double)?;
        let whole = node.cast(length, DType::Double)?;
        let turns = plain(node, "RealDiv", &[&turns, &whole])?;
        let sign = if self.is_inverse { 1.0 } else { -1.0 };
        let angles = with_number(node, "Mul", &turns, sign * 2.0 * PI)?;
        let (mut cos, mut sin) = (plain(node, "Cos", &[&angles])?, plain(node, "Sin", &[&angles])?);
        if self.is_inverse {
            cos = plain(node, "RealDiv", &[&cos, &whole])?;
            sin = plain(node, "RealDiv", &[&sin, &whole])?;
        }
        if self.is_inverse && self.is_onesided {
            // Frequencies between the first and the middle stand for their mirror images too.
            let doubled = with_number(node, "Mul", &rows, 2.0)?;
            let is_before = plain(node, "Less", &[&doubled, length])?;
            let is_after = with_number(node, "Greater", &rows, 0.0)?;
            let is_between = plain(node, "LogicalAnd", &[&is_before, &is_after])?;
            let (two, one) = (node.scalar(DType::Double, 2.0)?, node.scalar(DType::Double, 1.0)?);
            let factor = select(node, &is_between, &two, &one)?;
            cos = plain(node, "Mul", &[&cos, &factor])?;
            sin = plain(node, "Mul", &[&sin, &factor])?;
        }
        Ok((node.cast(&cos, dtype)?, node.cast(&sin, dtype)?))
    }
}

/// The last but one axis cut, or filled up with zeros, to a length.
fn with_length(node: &mut Conversion<'_>, x: &Value, length: &Value) -> Made {
    let rank = node.rank(x)? as i64;
    let have = size_at(node, x, rank - 2)?;
    let missing = plain(node, "Sub", &[length, &have])?;
    let missing = with_number(node, "Maximum", &missing, 0.0)?;
    let zero = node.scalar(DType::Int64, 0.0)?;
    let mut pads = vec![zero; 2 * rank as usize];
    pads[2 * rank as usize - 2] = missing;
    let pads = list(node, &pads)?;
    let number = node.scalar(x.dtype(), 0.0)?;
    let constant = attrs([("mode", "constant".into()), ("paddings_contiguous", false.into())]);
    let padded = node.add("PadV3", &[x, &pads, &number], constant)?;
    let (from, to) = (node.int_list(&[0]), reshape(node, length, &[1])?);
    let mut cut = slice_by(node, &padded, rank - 2, [&from, &to])?;
    let mut dims = x.dims().unwrap_or_default().to_vec();
    dims[rank as usize - 2] = -1;
    node.learn_dims(&mut cut, &dims);
    Ok(cut)
}

/// The last but one axis of x, and one that a run names, in each other's place: twice is x again.
pub fn exchange_axes(node: &mut Conversion<'_>, x: &Value, axis: &Value) -> Made {
    let rank = node.rank(x)? as i64;
    let axis = int_scalar(node, axis)?;
    let axis = with_number(node, "FloorMod", &axis, rank as f64)?;
    let (numbers, last) = (node.counting(0..rank)?, node.scalar(DType::Int64, (rank - 2) as f64)?);
    let is_axis = plain(node, "Equal", &[&numbers, &axis])?;
    let is_last = plain(node, "Equal", &[&numbers, &last])?;
    let order = select(node, &is_last, &axis, &numbers)?;
    let order = select(node, &is_axis, &last, &order)?;
    let mut turned = plain(node, "Transpose", &[x, &order])?;
    let mut dims = vec![-1; rank as usize];
    dims[rank as usize - 1] = x.dims().map_or(-1, |dims| dims[rank as usize - 1]);
    node.learn_dims(&mut turned, &dims);
    Ok(turned)
}

/// Frames of a signal [batch, samples, parts], as [batch, frames, length, parts], each multiplied by a window.
pub fn frames(
    node: &mut Conversion<'_>,
    x: &Value,
    step: &Value,
    length: &Value,
    window: Option<&Value>,
) -> Made {
    let samples = size_at(node, x, 1)?;
    let free = plain(node, "Sub", &[&samples, length])?;
    let count = plain(node, "FloorDiv", &[&free, step])?;
    let count = with_number(node, "Add", &count, 1.0)?;
    let (starts, offsets) = (counting(node, &count)?, counting(node, length)?);
    let starts = plain(node, "Mul", &[&starts, step])?;
    let starts = unsqueeze(node, &starts, &[1])?;
    let indices = plain(node, "Add", &[&starts, &offsets])?;
    let along = node.int_list(&[1]);
    let cut = plain(node, "GatherV2", &[x, &indices, &along])?;
    match window {
        None => Ok(cut),
        Some(window) => {
            let window = unsqueeze(node, window, &[1])?;
            plain(node, "Mul", &[&cut, &window])
        }
    }
}
