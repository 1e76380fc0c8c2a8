//! Random numbers. They depend on the seed that the node names, or on its name: every run draws the same ones.

use super::Converters;
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("Bernoulli", bernoulli),
    ("Multinomial", multinomial),
    ("RandomNormal", random_normal),
    ("RandomNormalLike", random_normal_like),
    ("RandomUniform", random_uniform),
    ("RandomUniformLike", random_uniform_like),
];

type Converted = Result<Vec<Value>, String>;

/// A key of the generator: the seed, or a number that differs from node to node.
fn key(node: &mut Conversion<'_>) -> Result<Value, String> {
    let seed = match node.has("seed") {
        true => i64::from(node.float("seed", 0.0).to_bits()),
        false => {
            let bytes = node.label().bytes();
            bytes.fold(0x9e37, |hash: i64, byte| {
                hash.wrapping_mul(31).wrapping_add(byte.into()) & 0x7fff_ffff
            })
        }
    };
    Ok(node.uint_list(&[seed as u64]))
}

/// Numbers of a distribution, in `float`.
fn draw(node: &mut Conversion<'_>, sizes: &Value, kind: &str) -> Result<Value, String> {
    let key = key(node)?;
    let counter = node.uint_list(&[0, 0]);
    let algorithm = node.scalar(DType::Int32, 1.0)?;
    let float = attrs([("dtype", DType::Float.into())]);
    node.add(kind, &[sizes, &key, &counter, &algorithm], float)
}

fn scaled(
    node: &mut Conversion<'_>,
    x: &Value,
    factor: f32,
    offset: f32,
    dtype: DType,
) -> Result<Value, String> {
    let (factor, offset) =
        (node.scalar(DType::Float, factor.into())?, node.scalar(DType::Float, offset.into())?);
    let x = node.add("Mul", &[x, &factor], Attrs::new())?;
    let x = node.add("Add", &[&x, &offset], Attrs::new())?;
    node.cast(&x, dtype)
}

fn normal(node: &mut Conversion<'_>, sizes: &Value, dtype: DType) -> Converted {
    let numbers = draw(node, sizes, "StatelessRandomNormalV2")?;
    let (scale, mean) = (node.float("scale", 1.0), node.float("mean", 0.0));
    Ok(vec![scaled(node, &numbers, scale, mean, dtype)?])
}

fn uniform(node: &mut Conversion<'_>, sizes: &Value, dtype: DType) -> Converted {
    let numbers = draw(node, sizes, "StatelessRandomUniformV2")?;
    let (low, high) = (node.float("low", 0.0), node.float("high", 1.0));
    Ok(vec![scaled(node, &numbers, high - low, low, dtype)?])
}

fn named_sizes(node: &mut Conversion<'_>) -> Result<Value, String> {
    let sizes = node.ints("shape").ok_or("the attribute shape is missing")?;
    Ok(node.int_list(&sizes))
}

fn random_normal(node: &mut Conversion<'_>) -> Converted {
    let (sizes, dtype) = (named_sizes(node)?, node.dtype("dtype")?.unwrap_or(DType::Float));
    normal(node, &sizes, dtype)
}

fn random_uniform(node: &mut Conversion<'_>) -> Converted {
    let (sizes, dtype) = (named_sizes(node)?, node.dtype("dtype")?.unwrap_or(DType::Float));
    uniform(node, &sizes, dtype)
}

fn random_normal_like(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let dtype = node.dtype("dtype")?.unwrap_or(x.dtype());
    let sizes = node.sizes_of(&x)?;
    normal(node, &sizes, dtype)
}

fn random_uniform_like(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let dtype = node.dtype("dtype")?.unwrap_or(x.dtype());
    let sizes = node.sizes_of(&x)?;
    uniform(node, &sizes, dtype)
}

/// 1 with the probability that the input says.
fn bernoulli(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let dtype = node.dtype("dtype")?.unwrap_or(x.dtype());
    let sizes = node.sizes_of(&x)?;
    let numbers = draw(node, &sizes, "StatelessRandomUniformV2")?;
    let chance = node.cast(&x, DType::Float)?;
    let hits = node.add("Less", &[&numbers, &chance], Attrs::new())?;
    Ok(vec![node.cast(&hits, dtype)?])
}

/// Classes drawn by the logarithms of their chances: the greatest of each row after noise is added (Gumbel).
fn multinomial(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let dtype = node.dtype("dtype")?.unwrap_or(DType::Int32);
    let samples = node.int("sample_size", 1);
    let [batch, classes] = node.known_dims(&x, "its input")?[..] else {
        return Err("its input has not 2 dimensions".to_owned());
    };
    let sizes = node.int_list(&[batch, samples, classes]);
    let numbers = draw(node, &sizes, "StatelessRandomUniformV2")?;
    let tiny = node.scalar(DType::Float, 1e-20)?;
    let mut noise = numbers;
    for _ in 0..2 {
        noise = node.add("Maximum", &[&noise, &tiny], Attrs::new())?;
        noise = node.add("Log", &[&noise], Attrs::new())?;
        noise = node.add("Neg", &[&noise], Attrs::new())?;
    }
    let logs = node.cast(&x, DType::Float)?;
    let logs = node.add("Unsqueeze", &[&logs], attrs([("axes", vec![1i64].into())]))?;
    let scores = node.add("Add", &[&logs, &noise], Attrs::new())?;
    let last = node.int_list(&[2]);
    let int64 = attrs([("dtype", DType::Int64.into())]);
    let drawn = node.add("ArgMaxV2", &[&scores, &last], int64)?;
    Ok(vec![node.cast(&drawn, dtype)?])
}
