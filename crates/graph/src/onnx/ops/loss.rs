//! Losses of classes.

use super::Converters;
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};

pub const CONVERTERS: Converters = &[
    ("NegativeLogLikelihoodLoss", negative_log_likelihood_loss),
    ("SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss),
];

fn negative_log_likelihood_loss(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let x = node.input(0)?;
    Ok(vec![likelihood(node, &x)?])
}

/// The loss of the logarithms of softmax, which are the second output.
fn softmax_cross_entropy_loss(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let x = node.input(0)?;
    let logs = node.add("LogSoftmaxV2", &[&x], attrs([("axes", vec![1i64].into())]))?;
    let loss = likelihood(node, &logs)?;
    Ok(vec![loss, logs])
}

/// The negative logarithm of each element's class, weighted and reduced.
fn likelihood(node: &mut Conversion<'_>, logs: &Value) -> Result<Value, String> {
    let (target, weight) = (node.input(1)?, node.optional(2));
    let reduction = node.text("reduction", "mean");
    node.expect_text("reduction", &reduction, &["mean", "sum", "none"])?;
    let ignored = node.has("ignore_index").then(|| node.int("ignore_index", 0));
    let dtype = logs.dtype();
    let (zero, one) = (node.scalar(dtype, 0.0)?, node.scalar(dtype, 1.0)?);
    let mut class = target.clone();
    let mut is_ignored = None;
    if let Some(ignored) = ignored {
        let number = node.scalar(target.dtype(), ignored as f64)?;
        let is_equal = node.add("Equal", &[&target, &number], Attrs::new())?;
        let first = node.scalar(target.dtype(), 0.0)?;
        class = node.add("SelectV2", &[&is_equal, &first, &target], Attrs::new())?;
        is_ignored = Some(is_equal);
    }
    let column = node.add("Unsqueeze", &[&class], attrs([("axes", vec![1i64].into())]))?;
    let chosen = node.add("GatherElements", &[logs, &column], attrs([("dim", 1i64.into())]))?;
    let chosen = node.add("Squeeze", &[&chosen], attrs([("axis", vec![1i64].into())]))?;
    let mut loss = node.add("Neg", &[&chosen], Attrs::new())?;
    let mut weights = match weight {
        Some(weight) => {
            let first = node.int_list(&[0]);
            Some(node.add("GatherV2", &[&weight, &class, &first], Attrs::new())?)
        }
        None => None,
    };
    if let Some(is_ignored) = is_ignored {
        let own = weights.as_ref().unwrap_or(&one).clone();
        weights = Some(node.add("SelectV2", &[&is_ignored, &zero, &own], Attrs::new())?);
    }
    if let Some(weights) = &weights {
        loss = node.add("Mul", &[&loss, weights], Attrs::new())?;
    }
    if reduction == "none" {
        return Ok(loss);
    }
    let axes: Vec<i64> = (0..node.rank(&loss)? as i64).collect();
    let axes = node.int_list(&axes);
    match (reduction.as_str(), weights) {
        ("mean", None) => node.add("ReduceMean", &[&loss, &axes], Attrs::new()),
        ("mean", Some(weights)) => {
            let total = node.add("ReduceSum", &[&loss, &axes], Attrs::new())?;
            let count = node.add("ReduceSum", &[&weights, &axes], Attrs::new())?;
            node.add("RealDiv", &[&total, &count], Attrs::new())
        }
        _ => node.add("ReduceSum", &[&loss, &axes], Attrs::new()),
    }
}
