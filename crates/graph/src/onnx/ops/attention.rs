//! Attention, and positions as rotations.

use super::Converters;
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters =
    &[("Attention", attention), ("RotaryEmbedding", rotary_embedding)];

type Converted = Result<Vec<Value>, String>;

fn transpose(node: &mut Conversion<'_>, x: &Value, order: &[i64]) -> Result<Value, String> {
    let order = node.int_list(order);
    node.add("Transpose", &[x, &order], Attrs::new())
}

fn reshape(node: &mut Conversion<'_>, x: &Value, dims: &[i64]) -> Result<Value, String> {
    let sizes = node.int_list(dims);
    node.add("Reshape", &[x, &sizes], Attrs::new())
}

/// [batch, positions, heads * features] as [batch, heads, positions, features].
fn split_heads(node: &mut Conversion<'_>, x: &Value, heads: i64) -> Result<Value, String> {
    if heads <= 0 {
        return Err(format!("an input has 3 dimensions, and the number of its heads is {heads}"));
    }
    let dims = node.known_dims(x, "an input")?;
    let parts = reshape(node, x, &[dims[0], dims[1], heads, dims[2] / heads])?;
    transpose(node, &parts, &[0, 2, 1, 3])
}

/// The scores that a mask changes: 0 where a position counts, minus infinity where it does not.
fn additive(node: &mut Conversion<'_>, mask: &Value, dtype: DType) -> Result<Value, String> {
    if mask.dtype() != DType::Bool {
        return node.cast(mask, dtype);
    }
    let (zero, never) = (node.scalar(dtype, 0.0)?, node.scalar(dtype, f64::NEG_INFINITY)?);
    node.add("SelectV2", &[mask, &zero, &never], Attrs::new())
}

fn attention(node: &mut Conversion<'_>) -> Converted {
    let (mut query, mut key, mut value) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (mask, past_key, past_value) = (node.optional(3), node.optional(4), node.optional(5));
    let lengths = node.optional(6);
    let dtype = query.dtype();
    let is_flat = node.rank(&query)? == 3;
    if is_flat {
        let (heads, key_heads) = (node.int("q_num_heads", 0), node.int("kv_num_heads", 0));
        query = split_heads(node, &query, heads)?;
        key = split_heads(node, &key, key_heads)?;
        value = split_heads(node, &value, key_heads)?;
    }
    let join = || attrs([("concat_dim", 2i64.into()), ("N", 2i64.into())]);
    let past = past_key.as_ref().map(|past| node.known_dims_at(past, 2)).transpose()?.unwrap_or(0);
    if let Some(before) = past_key {
        key = node.add("ConcatD", &[&before, &key], join())?;
    }
    if let Some(before) = past_value {
        value = node.add("ConcatD", &[&before, &value], join())?;
    }
    let (present_key, present_value) = (key.clone(), value.clone());
    let [_, heads, queries, features] = node.known_dims(&query, "its query")?[..] else {
        return Err("its query has not 3 or 4 dimensions".to_owned());
    };
    let [batch, key_heads, keys, _] = node.known_dims(&key, "its key")?[..] else {
        return Err("its key has not 3 or 4 dimensions".to_owned());
    };
    if key_heads <= 0 || heads % key_heads != 0 {
        return Err(format!(
            "{heads} heads of the query are no multiple of {key_heads} of the key"
        ));
    }
    let scale = f64::from(node.float("scale", 1.0 / (features as f32).sqrt())).sqrt();
    let repeats = heads / key_heads;
    let mut shared = |x: &Value| -> Result<Value, String> {
        if repeats == 1 {
            return Ok(x.clone());
        }
        let dims = node.known_dims(x, "its key or value")?;
        let apart = reshape(node, x, &[dims[0], dims[1], 1, dims[2], dims[3]])?;
        let sizes = node.int_list(&[dims[0], dims[1], repeats, dims[2], dims[3]]);
        let repeated = node.add("BroadcastTo", &[&apart, &sizes], Attrs::new())?;
        reshape(node, &repeated, &[dims[0], heads, dims[2], dims[3]])
    };
    let (key, value) = (shared(&key)?, shared(&value)?);
    let factor = node.scalar(dtype, scale)?;
    let query = node.add("Mul", &[&query, &factor], Attrs::new())?;
    let key = node.add("Mul", &[&key, &factor], Attrs::new())?;
    let mut scores =
        node.add("BatchMatMulV2", &[&query, &key], attrs([("adj_x2", true.into())]))?;
    let mode = node.int("qk_matmul_output_mode", 0);
    let mut shown = scores.clone();
    let mut bias: Vec<Value> = Vec::new();
    if let Some(mask) = mask {
        let mut mask = additive(node, &mask, dtype)?;
        let have = *node.known_dims(&mask, "its mask")?.last().unwrap_or(&keys);
        if have < keys {
            let rank = node.rank(&mask)?;
            let mut pads = vec![0; 2 * rank];
            pads[2 * rank - 1] = keys - have;
            let pads = node.int_list(&pads);
            let never = node.scalar(dtype, f64::NEG_INFINITY)?;
            let attrs = attrs([("mode", "constant".into()), ("paddings_contiguous", false.into())]);
            mask = node.add("PadV3", &[&mask, &pads, &never], attrs)?;
        }
        bias.push(mask);
    }
    if node.int("is_causal", 0) != 0 {
        let rows = node.counting(past..past.saturating_add(queries))?;
        let rows = node.add("Unsqueeze", &[&rows], attrs([("axes", vec![1i64].into())]))?;
        let columns = node.counting(0..keys)?;
        let counts = node.add("GreaterEqual", &[&rows, &columns], Attrs::new())?;
        bias.push(additive(node, &counts, dtype)?);
    }
    if let Some(lengths) = lengths {
        let lengths = node.cast(&lengths, DType::Int64)?;
        let lengths = reshape(node, &lengths, &[batch, 1, 1, 1])?;
        let columns = node.counting(0..keys)?;
        let counts = node.add("Less", &[&columns, &lengths], Attrs::new())?;
        bias.push(additive(node, &counts, dtype)?);
    }
    for bias in &bias {
        scores = node.add("Add", &[&scores, bias], Attrs::new())?;
    }
    if mode == 1 {
        shown = scores.clone();
    }
    let softcap = node.float("softcap", 0.0);
    if softcap > 0.0 {
        let cap = node.scalar(dtype, softcap.into())?;
        let ratio = node.add("RealDiv", &[&scores, &cap], Attrs::new())?;
        let bent = node.add("Tanh", &[&ratio], Attrs::new())?;
        scores = node.add("Mul", &[&bent, &cap], Attrs::new())?;
    }
    if mode == 2 {
        shown = scores.clone();
    }
    let precision = node.dtype("softmax_precision")?.unwrap_or(dtype);
    let scores = node.cast(&scores, precision)?;
    let weights = node.add("SoftmaxV2", &[&scores], attrs([("axes", vec![-1i64].into())]))?;
    let weights = node.cast(&weights, dtype)?;
    if mode == 3 {
        shown = weights.clone();
    }
    let mut y = node.add("BatchMatMulV2", &[&weights, &value], Attrs::new())?;
    if is_flat {
        let dims = node.known_dims(&y, "its result")?;
        let turned = transpose(node, &y, &[0, 2, 1, 3])?;
        y = reshape(node, &turned, &[dims[0], dims[2], dims[1] * dims[3]])?;
    }
    Ok(vec![y, present_key, present_value, shown])
}

/// Pairs of features turn by an angle that depends on the position.
fn rotary_embedding(node: &mut Conversion<'_>) -> Converted {
    let (x, mut cos, mut sin) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let is_flat = node.rank(&x)? == 3;
    let heads = match is_flat {
        true => {
            let heads = node.int("num_heads", 0);
            split_heads(node, &x, heads)?
        }
        false => x.clone(),
    };
    let [batch, count, positions, features] = node.known_dims(&heads, "its input")?[..] else {
        return Err("its input has not 3 or 4 dimensions".to_owned());
    };
    let turned = match node.int("rotary_embedding_dim", 0) {
        0 => features,
        turned => turned,
    };
    if let Some(ids) = node.optional(3) {
        let first = node.int_list(&[0]);
        cos = node.add("GatherV2", &[&cos, &ids, &first], Attrs::new())?;
        sin = node.add("GatherV2", &[&sin, &ids, &first], Attrs::new())?;
    }
    let over_heads = |node: &mut Conversion<'_>, x: &Value| {
        node.add("Unsqueeze", &[x], attrs([("axes", vec![1i64].into())]))
    };
    let (cos, sin) = (over_heads(node, &cos)?, over_heads(node, &sin)?);
    let part = |node: &mut Conversion<'_>, from: i64, to: i64, step: i64| {
        let (starts, ends) = (node.int_list(&[from]), node.int_list(&[to]));
        let (axes, steps) = (node.int_list(&[3]), node.int_list(&[step]));
        let inputs = [Some(&heads), Some(&starts), Some(&ends), Some(&axes), Some(&steps)];
        Ok::<_, String>(node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1)?.remove(0))
    };
    let is_interleaved = node.int("interleaved", 0) != 0;
    let (first, second) = match is_interleaved {
        true => (part(node, 0, turned, 2)?, part(node, 1, turned, 2)?),
        false => (part(node, 0, turned / 2, 1)?, part(node, turned / 2, turned, 1)?),
    };
    let mut combine = |a: &Value, b: &Value, kind: &str| {
        let left = node.add("Mul", &[&first, a], Attrs::new())?;
        let right = node.add("Mul", &[&second, b], Attrs::new())?;
        node.add(kind, &[&left, &right], Attrs::new())
    };
    let (real, imaginary) = (combine(&cos, &sin, "Sub")?, combine(&sin, &cos, "Add")?);
    let join = |axis: i64| attrs([("concat_dim", axis.into()), ("N", 2i64.into())]);
    let mut y = match is_interleaved {
        false => node.add("ConcatD", &[&real, &imaginary], join(3))?,
        true => {
            let last = |node: &mut Conversion<'_>, x: &Value| {
                node.add("Unsqueeze", &[x], attrs([("axes", vec![4i64].into())]))
            };
            let (real, imaginary) = (last(node, &real)?, last(node, &imaginary)?);
            let pairs = node.add("ConcatD", &[&real, &imaginary], join(4))?;
            reshape(node, &pairs, &[batch, count, positions, turned])?
        }
    };
    if turned < features {
        let rest = part(node, turned, features, 1)?;
        y = node.add("ConcatD", &[&y, &rest], join(3))?;
    }
    if is_flat {
        let back = transpose(node, &y, &[0, 2, 1, 3])?;
        y = reshape(node, &back, &[batch, positions, count * features])?;
    }
    Ok(vec![y])
}
