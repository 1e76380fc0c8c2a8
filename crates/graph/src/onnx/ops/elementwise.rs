//! Operators that compute each element from those at its position.

use super::Converters;
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

/// Operators that are one node of the graph engine without attributes: name in ONNX, name there.
const SAME: &[(&str, &str)] = &[
    ("Abs", "Abs"),
    ("Acos", "Acos"),
    ("Acosh", "Acosh"),
    ("Add", "Add"),
    ("And", "LogicalAnd"),
    ("Asin", "Asin"),
    ("Asinh", "Asinh"),
    ("Atan", "Atan"),
    ("Atanh", "Atanh"),
    ("BitwiseAnd", "BitwiseAnd"),
    ("BitwiseNot", "Invert"),
    ("BitwiseOr", "BitwiseOr"),
    ("BitwiseXor", "BitwiseXor"),
    ("Ceil", "Ceil"),
    ("Cos", "Cos"),
    ("Cosh", "Cosh"),
    ("Equal", "Equal"),
    ("Erf", "Erf"),
    ("Exp", "Exp"),
    ("Floor", "Floor"),
    ("Greater", "Greater"),
    ("GreaterOrEqual", "GreaterEqual"),
    ("HardSwish", "HardSwish"),
    ("IsNaN", "IsNan"),
    ("Less", "Less"),
    ("LessOrEqual", "LessEqual"),
    ("Log", "Log"),
    ("Mish", "Mish"),
    ("Mul", "Mul"),
    ("Neg", "Neg"),
    ("Not", "LogicalNot"),
    ("Or", "LogicalOr"),
    ("Reciprocal", "Reciprocal"),
    ("Relu", "Relu"),
    ("Round", "Round"),
    ("Sigmoid", "Sigmoid"),
    ("Sign", "Sign"),
    ("Sin", "Sin"),
    ("Sinh", "Sinh"),
    ("Softplus", "Softplus"),
    ("Softsign", "Softsign"),
    ("Sqrt", "Sqrt"),
    ("Sub", "Sub"),
    ("Tan", "Tan"),
    ("Tanh", "Tanh"),
    ("Where", "SelectV2"),
    ("Xor", "LogicalXor"),
];

pub const CONVERTERS: Converters = &[
    ("Abs", same),
    ("Acos", same),
    ("Acosh", same),
    ("Add", same),
    ("And", same),
    ("Asin", same),
    ("Asinh", same),
    ("Atan", same),
    ("Atanh", same),
    ("BitShift", bit_shift),
    ("BitwiseAnd", same),
    ("BitwiseNot", same),
    ("BitwiseOr", same),
    ("BitwiseXor", same),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Ceil", same),
    ("Celu", celu),
    ("Clip", clip),
    ("Cos", same),
    ("Cosh", same),
    ("Div", div),
    ("Elu", elu),
    ("Equal", same),
    ("Erf", same),
    ("Exp", same),
    ("Floor", same),
    ("Gelu", gelu),
    ("Greater", same),
    ("GreaterOrEqual", same),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", same),
    ("Identity", identity),
    ("IsInf", is_inf),
    ("IsNaN", same),
    ("LeakyRelu", leaky_relu),
    ("Less", same),
    ("LessOrEqual", same),
    ("Log", same),
    ("Max", max),
    ("Mean", mean),
    ("Min", min),
    ("Mish", same),
    ("Mod", modulus),
    ("Mul", same),
    ("Neg", same),
    ("Not", same),
    ("Or", same),
    ("PRelu", prelu),
    ("Pow", pow),
    ("Reciprocal", same),
    ("Relu", same),
    ("Round", same),
    ("Selu", selu),
    ("Shrink", shrink),
    ("Sigmoid", same),
    ("Sign", same),
    ("Sin", same),
    ("Sinh", same),
    ("Softplus", same),
    ("Softsign", same),
    ("Sqrt", same),
    ("Sub", same),
    ("Sum", sum),
    ("SwiGLU", swiglu),
    ("Swish", swish),
    ("Tan", same),
    ("Tanh", same),
    ("ThresholdedRelu", thresholded_relu),
    ("Where", same),
    ("Xor", same),
];

type Converted = Result<Vec<Value>, String>;

fn no_attrs() -> Attrs {
    Attrs::new()
}

/// One node of the graph engine with the same inputs.
fn same(node: &mut Conversion<'_>) -> Converted {
    let operator = node.operator();
    let (_, kind) = SAME.iter().find(|(name, _)| *name == operator).expect("an entry of SAME");
    let inputs = node.inputs_from(0)?;
    let inputs: Vec<&Value> = inputs.iter().collect();
    Ok(vec![node.add(kind, &inputs, no_attrs())?])
}

fn identity(node: &mut Conversion<'_>) -> Converted {
    Ok(vec![node.input(0)?])
}

fn bit_shift(node: &mut Conversion<'_>) -> Converted {
    let (x, y) = (node.input(0)?, node.input(1)?);
    let direction = node.text("direction", "");
    node.expect_text("direction", &direction, &["LEFT", "RIGHT"])?;
    let kind = if direction == "LEFT" { "LeftShift" } else { "RightShift" };
    Ok(vec![node.add(kind, &[&x, &y], no_attrs())?])
}

fn cast(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let to = node.dtype("to")?.ok_or("the attribute to is missing")?;
    Ok(vec![node.cast(&x, to)?])
}

fn cast_like(node: &mut Conversion<'_>) -> Converted {
    let (x, like) = (node.input(0)?, node.input(1)?);
    Ok(vec![node.cast(&x, like.dtype())?])
}

/// max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0).
fn celu(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let alpha = f64::from(node.float("alpha", 1.0));
    let factor = node.scalar(x.dtype(), alpha)?;
    let zero = node.scalar(x.dtype(), 0.0)?;
    let scaled = node.add("RealDiv", &[&x, &factor], no_attrs())?;
    let exponential = node.add("Expm1", &[&scaled], no_attrs())?;
    let exponential = node.add("Mul", &[&exponential, &factor], no_attrs())?;
    let below = node.add("Minimum", &[&exponential, &zero], no_attrs())?;
    let above = node.add("Maximum", &[&x, &zero], no_attrs())?;
    Ok(vec![node.add("Add", &[&above, &below], no_attrs())?])
}

/// Bounds are attributes up to version 10, and inputs that may be left out from 11 on.
fn clip(node: &mut Conversion<'_>) -> Converted {
    let mut x = node.input(0)?;
    let bound = |node: &mut Conversion<'_>, at: usize, name: &str| match node.opset < 11 {
        true if !node.has(name) => Ok(None),
        true => {
            let value = f64::from(node.float(name, 0.0));
            node.scalar(x.dtype(), value).map(Some)
        }
        false => Ok::<_, String>(node.optional(at)),
    };
    let (low, high) = (bound(node, 1, "min")?, bound(node, 2, "max")?);
    if let Some(low) = low {
        x = node.add("Maximum", &[&x, &low], no_attrs())?;
    }
    if let Some(high) = high {
        x = node.add("Minimum", &[&x, &high], no_attrs())?;
    }
    Ok(vec![x])
}

/// Division of integers drops the fraction.
fn div(node: &mut Conversion<'_>) -> Converted {
    let (x, y) = (node.input(0)?, node.input(1)?);
    let kind = if x.dtype().is_integer() { "TruncateDiv" } else { "RealDiv" };
    Ok(vec![node.add(kind, &[&x, &y], no_attrs())?])
}

fn elu(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let alpha = node.float("alpha", 1.0);
    Ok(vec![node.add("Elu", &[&x], attrs([("alpha", alpha.into())]))?])
}

fn gelu(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let approximate = node.text("approximate", "none");
    node.expect_text("approximate", &approximate, &["none", "tanh"])?;
    let attrs = attrs([("approximate", approximate.as_str().into())]);
    Ok(vec![node.add("GeluV2", &[&x], attrs)?])
}

fn hard_sigmoid(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let (alpha, beta) = (node.float("alpha", 0.2), node.float("beta", 0.5));
    let attrs = attrs([("alpha", alpha.into()), ("beta", beta.into())]);
    Ok(vec![node.add("HardSigmoid", &[&x], attrs)?])
}

/// Infinities of the signs that count.
fn is_inf(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let (negative, positive) = (node.int("detect_negative", 1), node.int("detect_positive", 1));
    let infinite = node.add("IsInf", &[&x], no_attrs())?;
    let zero = node.scalar(x.dtype(), 0.0)?;
    let has_sign = match (negative != 0, positive != 0) {
        (true, true) => return Ok(vec![infinite]),
        (true, false) => node.add("Less", &[&x, &zero], no_attrs())?,
        (false, true) => node.add("Greater", &[&x, &zero], no_attrs())?,
        (false, false) => node.add("NotEqual", &[&zero, &zero], no_attrs())?,
    };
    Ok(vec![node.add("LogicalAnd", &[&infinite, &has_sign], no_attrs())?])
}

fn leaky_relu(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let slope = node.float("alpha", 0.01);
    Ok(vec![node.add("LeakyRelu", &[&x], attrs([("negative_slope", slope.into())]))?])
}

/// Combines all inputs from the first to the last.
fn combine(node: &mut Conversion<'_>, kind: &str) -> Result<Value, String> {
    let mut inputs = node.inputs_from(0)?.into_iter();
    let mut combined = inputs.next().ok_or("it has no inputs")?;
    for input in inputs {
        combined = node.add(kind, &[&combined, &input], no_attrs())?;
    }
    Ok(combined)
}

fn max(node: &mut Conversion<'_>) -> Converted {
    Ok(vec![combine(node, "Maximum")?])
}

fn min(node: &mut Conversion<'_>) -> Converted {
    Ok(vec![combine(node, "Minimum")?])
}

fn sum(node: &mut Conversion<'_>) -> Converted {
    Ok(vec![combine(node, "Add")?])
}

fn mean(node: &mut Conversion<'_>) -> Converted {
    let total = combine(node, "Add")?;
    let count = node.input_count();
    if count == 1 {
        return Ok(vec![total]);
    }
    let count = node.scalar(total.dtype(), count as f64)?;
    Ok(vec![node.add("RealDiv", &[&total, &count], no_attrs())?])
}

/// With `fmod` the sign is the dividend's, else the divisor's.
fn modulus(node: &mut Conversion<'_>) -> Converted {
    let (x, y) = (node.input(0)?, node.input(1)?);
    let kind = if node.int("fmod", 0) != 0 { "Mod" } else { "FloorMod" };
    Ok(vec![node.add(kind, &[&x, &y], no_attrs())?])
}

/// x where it is positive, else x times a slope that broadcasts as in a product.
fn prelu(node: &mut Conversion<'_>) -> Converted {
    let (x, slope) = (node.input(0)?, node.input(1)?);
    let zero = node.scalar(x.dtype(), 0.0)?;
    let is_negative = node.add("Less", &[&x, &zero], no_attrs())?;
    let scaled = node.add("Mul", &[&x, &slope], no_attrs())?;
    Ok(vec![node.add("SelectV2", &[&is_negative, &scaled, &x], no_attrs())?])
}

/// The result has the type of the base; a power of another type is computed in `double`, or in `float` where that holds
/// both.
fn pow(node: &mut Conversion<'_>) -> Converted {
    let (x, y) = (node.input(0)?, node.input(1)?);
    if x.dtype() == y.dtype() {
        return Ok(vec![node.add("Pow", &[&x, &y], no_attrs())?]);
    }
    let is_small = |dtype| {
        matches!(dtype, DType::Float | DType::Float16 | DType::Bf16 | DType::Int8 | DType::Int16)
    };
    let are_small = is_small(x.dtype()) && is_small(y.dtype());
    let compute_type = if are_small { DType::Float } else { DType::Double };
    let (base, exponent) = (node.cast(&x, compute_type)?, node.cast(&y, compute_type)?);
    let power = node.add("Pow", &[&base, &exponent], no_attrs())?;
    Ok(vec![node.cast(&power, x.dtype())?])
}

/// gamma * (alpha * exp(x) - alpha) below 0, gamma * x above. The graph engine's `Selu` has the default constants only.
fn selu(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let alpha = node.float("alpha", 1.673_263_2);
    let gamma = node.float("gamma", 1.050_701);
    let attrs = attrs([("alpha", alpha.into()), ("scale", gamma.into())]);
    Ok(vec![node.add("Elu", &[&x], attrs)?])
}

/// x + bias below -lambd, x - bias above lambd, else 0.
fn shrink(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let (bias, lambd) = (f64::from(node.float("bias", 0.0)), f64::from(node.float("lambd", 0.5)));
    let compute_type = if x.dtype().is_integer() { DType::Float } else { x.dtype() };
    let value = node.cast(&x, compute_type)?;
    let shift = node.scalar(compute_type, bias)?;
    let (low, high) = (node.scalar(compute_type, -lambd)?, node.scalar(compute_type, lambd)?);
    let zero = node.scalar(compute_type, 0.0)?;
    let is_below = node.add("Less", &[&value, &low], no_attrs())?;
    let is_above = node.add("Greater", &[&value, &high], no_attrs())?;
    let raised = node.add("Add", &[&value, &shift], no_attrs())?;
    let lowered = node.add("Sub", &[&value, &shift], no_attrs())?;
    let above = node.add("SelectV2", &[&is_above, &lowered, &zero], no_attrs())?;
    let result = node.add("SelectV2", &[&is_below, &raised, &above], no_attrs())?;
    Ok(vec![node.cast(&result, x.dtype())?])
}

fn swish(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let scale = node.float("alpha", 1.0);
    Ok(vec![node.add("Swish", &[&x], attrs([("scale", scale.into())]))?])
}

fn swiglu(node: &mut Conversion<'_>) -> Converted {
    let (gate, x) = (swish(node)?.remove(0), node.input(1)?);
    Ok(vec![node.add("Mul", &[&gate, &x], no_attrs())?])
}

fn thresholded_relu(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let threshold = f64::from(node.float("alpha", 1.0));
    let threshold = node.scalar(x.dtype(), threshold)?;
    let zero = node.scalar(x.dtype(), 0.0)?;
    let is_above = node.add("Greater", &[&x, &threshold], no_attrs())?;
    Ok(vec![node.add("SelectV2", &[&is_above, &x, &zero], no_attrs())?])
}
