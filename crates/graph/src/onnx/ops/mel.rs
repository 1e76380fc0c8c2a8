//! `MelWeightMatrix`: the weights that turn a spectrum into bands of equal width for the ear.

use super::Converters;
use super::expression::{
    Made, counting, int_scalar, plain, reshape, select, slice, unsqueeze, with_number,
};
use crate::onnx::builder::Value;
use crate::onnx::conversion::Conversion;
use cairn_tensor::DType;
use std::f64::consts::LN_10;

pub const CONVERTERS: Converters = &[("MelWeightMatrix", mel_weight_matrix)];

/// A frequency on the mel scale is SCALE * log10(1 + f / CORNER).
const SCALE: f64 = 2595.0;
const CORNER: f64 = 700.0;

/// A column for each band: it rises from the middle of the band before to its own, and falls to that of the next.
fn mel_weight_matrix(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let mut counts = Vec::new();
    for at in 0..3 {
        let value = node.input(at)?;
        counts.push(int_scalar(node, &value)?);
    }
    let mut edges = Vec::new();
    for at in 3..5 {
        let value = node.input(at)?;
        let value = node.cast(&value, DType::Double)?;
        let value = reshape(node, &value, &[])?;
        edges.push(to_mel(node, &value)?);
    }
    let dtype = node.dtype("output_datatype")?.unwrap_or(DType::Float);
    let [bands, length, rate] = &counts[..] else { return Err("three counts".to_owned()) };
    let points = with_number(node, "Add", bands, 2.0)?;
    let places = spectrum_places(node, &points, &edges, length, rate)?;
    let (low, middle, high) = (
        slice(node, &places, 0, 0, -2)?,
        slice(node, &places, 0, 1, -1)?,
        slice(node, &places, 0, 2, i64::MAX)?,
    );
    let half = with_number(node, "FloorDiv", length, 2.0)?;
    let lines = with_number(node, "Add", &half, 1.0)?;
    let lines = counting(node, &lines)?;
    let lines = node.cast(&lines, DType::Double)?;
    let lines = unsqueeze(node, &lines, &[1])?;
    let rise = plain(node, "Sub", &[&middle, &low])?;
    let fall = plain(node, "Sub", &[&high, &middle])?;
    let rising = ratio(node, [&lines, &low], &rise)?;
    let falling = ratio(node, [&high, &lines], &fall)?;
    let zero = node.scalar(DType::Double, 0.0)?;
    let one = node.scalar(DType::Double, 1.0)?;
    let from_low = plain(node, "GreaterEqual", &[&lines, &low])?;
    let to_middle = plain(node, "LessEqual", &[&lines, &middle])?;
    let in_rise = plain(node, "LogicalAnd", &[&from_low, &to_middle])?;
    let from_middle = plain(node, "GreaterEqual", &[&lines, &middle])?;
    let to_high = plain(node, "Less", &[&lines, &high])?;
    let in_fall = plain(node, "LogicalAnd", &[&from_middle, &to_high])?;
    // A band that rises within one line is 1 there.
    let is_steep = plain(node, "Equal", &[&rise, &zero])?;
    let rising = select(node, &is_steep, &one, &rising)?;
    let rising = select(node, &in_rise, &rising, &zero)?;
    let weights = select(node, &in_fall, &falling, &rising)?;
    Ok(vec![node.cast(&weights, dtype)?])
}

fn to_mel(node: &mut Conversion<'_>, frequency: &Value) -> Made {
    let ratio = with_number(node, "RealDiv", frequency, CORNER)?;
    let above = with_number(node, "Add", &ratio, 1.0)?;
    let log = plain(node, "Log", &[&above])?;
    with_number(node, "Mul", &log, SCALE / LN_10)
}

/// The lines of the spectrum at which bands begin and end.
fn spectrum_places(
    node: &mut Conversion<'_>,
    points: &Value,
    edges: &[Value],
    length: &Value,
    rate: &Value,
) -> Made {
    let numbers = counting(node, points)?;
    let numbers = node.cast(&numbers, DType::Double)?;
    let points = node.cast(points, DType::Double)?;
    let width = plain(node, "Sub", &[&edges[1], &edges[0]])?;
    let step = plain(node, "RealDiv", &[&width, &points])?;
    let mel = plain(node, "Mul", &[&numbers, &step])?;
    let mel = plain(node, "Add", &[&mel, &edges[0]])?;
    let exponent = with_number(node, "Mul", &mel, LN_10 / SCALE)?;
    let power = plain(node, "Exp", &[&exponent])?;
    let ratio = with_number(node, "Sub", &power, 1.0)?;
    let frequencies = with_number(node, "Mul", &ratio, CORNER)?;
    let length = with_number(node, "Add", length, 1.0)?;
    let (length, rate) = (node.cast(&length, DType::Double)?, node.cast(rate, DType::Double)?);
    let scaled = plain(node, "Mul", &[&frequencies, &length])?;
    let places = plain(node, "RealDiv", &[&scaled, &rate])?;
    plain(node, "Floor", &[&places])
}

/// (a - b) / width, where a width below 1 counts as 1.
fn ratio(node: &mut Conversion<'_>, [a, b]: [&Value; 2], width: &Value) -> Made {
    let distance = plain(node, "Sub", &[a, b])?;
    let width = with_number(node, "Maximum", width, 1.0)?;
    plain(node, "RealDiv", &[&distance, &width])
}
