//! Fourier transforms and windows. A transform is a product with a table of its angles, which is computed once.

use super::Converters;
use super::expression::int_scalar;
use super::transform::{TransformByRun, exchange_axes, frames};
use crate::ir::{Attrs, Constant, Desc};
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs, axis, element};
use cairn_tensor::DType;
use std::f64::consts::PI;

pub const CONVERTERS: Converters = &[
    ("BlackmanWindow", blackman_window),
    ("DFT", dft),
    ("HammingWindow", hamming_window),
    ("HannWindow", hann_window),
    ("STFT", stft),
];

type Converted = Result<Vec<Value>, String>;

/// A sum of cosines over the size of the window: each factor with how often its cosine turns.
fn cosine_window(node: &mut Conversion<'_>, terms: &[(f64, f64)]) -> Converted {
    let size = node.input(0)?;
    let dtype = node.dtype("output_datatype")?.unwrap_or(DType::Float);
    let is_periodic = node.int("periodic", 1) != 0;
    let none = node.int_list(&[]);
    let size = node.add("Reshape", &[&size, &none], Attrs::new())?;
    let (zero, one) = (node.scalar(size.dtype(), 0.0)?, node.scalar(size.dtype(), 1.0)?);
    let steps = node.add("Range", &[&zero, &size, &one], Attrs::new())?;
    let steps = node.cast(&steps, DType::Float)?;
    let length = match is_periodic {
        true => size,
        false => node.add("Sub", &[&size, &one], Attrs::new())?,
    };
    let length = node.cast(&length, DType::Float)?;
    let turns = node.add("RealDiv", &[&steps, &length], Attrs::new())?;
    let mut sum: Option<Value> = None;
    for (factor, frequency) in terms {
        let angle = node.scalar(DType::Float, 2.0 * PI * frequency)?;
        let angles = node.add("Mul", &[&turns, &angle], Attrs::new())?;
        let cosine = node.add("Cos", &[&angles], Attrs::new())?;
        let factor = node.scalar(DType::Float, *factor)?;
        let term = node.add("Mul", &[&cosine, &factor], Attrs::new())?;
        sum = Some(match sum {
            None => term,
            Some(sum) => node.add("Add", &[&sum, &term], Attrs::new())?,
        });
    }
    let sum = sum.ok_or("a window has terms")?;
    Ok(vec![node.cast(&sum, dtype)?])
}

fn hann_window(node: &mut Conversion<'_>) -> Converted {
    cosine_window(node, &[(0.5, 0.0), (-0.5, 1.0)])
}

fn hamming_window(node: &mut Conversion<'_>) -> Converted {
    cosine_window(node, &[(25.0 / 46.0, 0.0), (-21.0 / 46.0, 1.0)])
}

fn blackman_window(node: &mut Conversion<'_>) -> Converted {
    cosine_window(node, &[(0.42, 0.0), (-0.5, 1.0), (0.08, 2.0)])
}

/// What a transform does.
struct Transform {
    length: i64,
    is_inverse: bool,
    is_onesided: bool,
}

impl Transform {
    /// How many frequencies, or samples, come out.
    fn outputs(&self) -> i64 {
        if self.is_onesided && !self.is_inverse { self.length / 2 + 1 } else { self.length }
    }

    /// The table that the real and imaginary parts of `inputs` elements are multiplied with: [2 * inputs, 2 * outputs].
    fn table(&self, inputs: i64, dtype: DType) -> Option<Constant> {
        let (length, outputs) = (self.length, self.outputs());
        let sign = if self.is_inverse { 1.0 } else { -1.0 };
        let scale = if self.is_inverse { 1.0 / length as f64 } else { 1.0 };
        let cells = (2 * inputs).checked_mul(2 * outputs).filter(|cells| *cells <= 1 << 26)?;
        let mut bytes = Vec::with_capacity(cells as usize * dtype.size_in_bytes()?);
        for n in 0..inputs {
            let folds = self.is_onesided && self.is_inverse && n > 0 && 2 * n < length;
            let scale = if folds { 2.0 * scale } else { scale };
            for part in 0..2 {
                for k in 0..outputs {
                    let angle = sign * 2.0 * PI * ((n * k) % length) as f64 / length as f64;
                    let (sin, cos) = angle.sin_cos();
                    let pair = if part == 0 { [cos, sin] } else { [-sin, cos] };
                    for value in pair {
                        bytes.extend(element(dtype, scale * value)?);
                    }
                }
            }
        }
        Some(Constant { desc: Desc::new(dtype, &[2 * inputs, 2 * outputs]), bytes: bytes.into() })
    }

    /// Transforms the last but one axis of x, whose last has real and imaginary parts.
    fn apply(&self, node: &mut Conversion<'_>, x: &Value) -> Result<Value, String> {
        let mut dims = node.known_dims(x, "its input")?;
        let [.., have, parts] = dims[..] else {
            return Err(format!("its input has the sizes {dims:?}"));
        };
        let rank = dims.len();
        let mut x = x.clone();
        let expected = match self.is_onesided && self.is_inverse {
            true => self.length / 2 + 1,
            false => self.length,
        };
        let mut pads = vec![0; 2 * rank];
        pads[2 * rank - 1] = 2 - parts;
        pads[2 * rank - 2] = (expected - have).max(0);
        if have > expected {
            let (starts, ends) = (node.int_list(&[0]), node.int_list(&[expected]));
            let axes = node.int_list(&[rank as i64 - 2]);
            let inputs = [Some(&x), Some(&starts), Some(&ends), Some(&axes)];
            x = node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1)?.remove(0);
        }
        if pads.iter().any(|pad| *pad != 0) {
            let (pads, zero) = (node.int_list(&pads), node.scalar(x.dtype(), 0.0)?);
            let constant =
                attrs([("mode", "constant".into()), ("paddings_contiguous", false.into())]);
            x = node.add("PadV3", &[&x, &pads, &zero], constant)?;
        }
        let cells = expected.saturating_mul(4).saturating_mul(self.outputs());
        node.reserve(cells, x.dtype().size_in_bytes().unwrap_or(1))?;
        let table = self.table(expected, x.dtype()).ok_or_else(|| {
            format!("a transform of length {} in {} is not supported", self.length, x.dtype())
        })?;
        let table = node.constant(table);
        let rows: i64 = dims[..rank - 2].iter().product();
        let flat = node.int_list(&[rows, 2 * expected]);
        let flat = node.add("Reshape", &[&x, &flat], Attrs::new())?;
        let made = node.add("MatMulV2", &[&flat, &table], Attrs::new())?;
        (dims[rank - 2], dims[rank - 1]) = (self.outputs(), 2);
        let sizes = node.int_list(&dims);
        let made = node.add("Reshape", &[&made, &sizes], Attrs::new())?;
        if !(self.is_onesided && self.is_inverse) {
            return Ok(made);
        }
        let (starts, ends) = (node.int_list(&[0]), node.int_list(&[1]));
        let axes = node.int_list(&[rank as i64 - 1]);
        let inputs = [Some(&made), Some(&starts), Some(&ends), Some(&axes)];
        Ok(node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1)?.remove(0))
    }
}

/// The axis is an attribute before version 20, then an input.
fn dft(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let rank = node.rank(&x)?;
    let is_known = |at: usize| node.optional(at).is_none_or(|value| value.ints().is_some());
    if !is_known(1) || !is_known(2) || node.known_dims(&x, "its input").is_err() {
        return dft_by_run(node, &x);
    }
    let along = match (node.opset < 20, node.optional(2)) {
        (true, _) => node.int("axis", 1),
        (false, None) => -2,
        (false, Some(_)) => *node.known_ints(2, "axis")?.first().ok_or("the axis is empty")?,
    };
    let along = axis(along, rank)?;
    let is_onesided = node.int("onesided", 0) != 0;
    let is_inverse = node.int("inverse", 0) != 0;
    let have = node.known_dims_at(&x, along)?;
    let length = match node.optional(1) {
        Some(_) => *node.known_ints(1, "dft_length")?.first().ok_or("the length is empty")?,
        None if is_onesided && is_inverse => 2 * (have - 1),
        None => have,
    };
    if length <= 0 {
        return Err(format!("a transform has the length {length}"));
    }
    let transform = Transform { length, is_inverse, is_onesided };
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(along, rank - 2);
    let is_last = along == rank - 2;
    let turn = |node: &mut Conversion<'_>, x: &Value| match is_last {
        true => Ok(x.clone()),
        false => {
            let order = node.int_list(&order);
            node.add("Transpose", &[x, &order], Attrs::new())
        }
    };
    let turned = turn(node, &x)?;
    let made = transform.apply(node, &turned)?;
    Ok(vec![turn(node, &made)?])
}

/// The same where a run brings the axis, the length or sizes.
fn dft_by_run(node: &mut Conversion<'_>, x: &Value) -> Converted {
    let transform = TransformByRun {
        length: match node.optional(1) {
            Some(length) => Some(int_scalar(node, &length)?),
            None => None,
        },
        is_inverse: node.int("inverse", 0) != 0,
        is_onesided: node.int("onesided", 0) != 0,
    };
    let along = match (node.opset < 20, node.optional(2)) {
        (true, _) => node.int_list(&[node.int("axis", 1)]),
        (false, None) => node.int_list(&[-2]),
        (false, Some(along)) => along,
    };
    let turned = exchange_axes(node, x, &along)?;
    let made = transform.apply(node, &turned)?;
    Ok(vec![exchange_axes(node, &made, &along)?])
}

/// Frames whose step, length or signal's sizes a run brings.
fn stft_by_run(node: &mut Conversion<'_>, x: &Value) -> Converted {
    let (step, window) = (node.input(1)?, node.optional(2));
    let step = int_scalar(node, &step)?;
    let length = match (node.optional(3), &window) {
        (Some(length), _) => int_scalar(node, &length)?,
        (None, Some(window)) => super::expression::size_at(node, window, 0)?,
        (None, None) => return Err("neither a window nor a frame_length is there".to_owned()),
    };
    let cut = frames(node, x, &step, &length, window.as_ref())?;
    let is_onesided = node.int("onesided", 1) != 0;
    let transform = TransformByRun { length: Some(length), is_inverse: false, is_onesided };
    Ok(vec![transform.apply(node, &cut)?])
}

/// Transforms of frames that overlap, each weighted by a window.
fn stft(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let is_known = |at: usize| node.optional(at).is_none_or(|value| value.ints().is_some());
    if !is_known(1) || !is_known(3) || node.known_dims(&x, "its signal").is_err() {
        return stft_by_run(node, &x);
    }
    let step = *node.known_ints(1, "frame_step")?.first().ok_or("the frame step is empty")?;
    let window = node.optional(2);
    let length = match (node.optional(3), &window) {
        (Some(_), _) => *node.known_ints(3, "frame_length")?.first().ok_or("it is empty")?,
        (None, Some(window)) => node.known_dims_at(window, 0)?,
        (None, None) => return Err("neither a window nor a frame_length is there".to_owned()),
    };
    let dims = node.known_dims(&x, "its signal")?;
    let [batch, samples, parts] = dims[..] else {
        return Err(format!("its signal has the sizes {dims:?}: expected 3"));
    };
    if step <= 0 || length <= 0 || samples < length {
        return Err(format!("frames of {length} samples every {step} of {samples}"));
    }
    let frames = 1 + (samples - length) / step;
    node.reserve(frames.saturating_mul(length), size_of::<i64>())?;
    let indices: Vec<i64> =
        (0..frames).flat_map(|frame| (0..length).map(move |at| frame * step + at)).collect();
    let indices = node.int_list(&indices);
    let along = node.int_list(&[1]);
    let gathered = node.add("GatherV2", &[&x, &indices, &along], Attrs::new())?;
    let sizes = node.int_list(&[batch, frames, length, parts]);
    let mut cut = node.add("Reshape", &[&gathered, &sizes], Attrs::new())?;
    if let Some(window) = window {
        let own = node.known_dims_at(&window, 0)?;
        if own != length {
            return Err(format!("its window has {own} elements, its frames {length}"));
        }
        let column = node.int_list(&[length, 1]);
        let window = node.add("Reshape", &[&window, &column], Attrs::new())?;
        cut = node.add("Mul", &[&cut, &window], Attrs::new())?;
    }
    let is_onesided = node.int("onesided", 1) != 0;
    let transform = Transform { length, is_inverse: false, is_onesided };
    Ok(vec![transform.apply(node, &cut)?])
}
