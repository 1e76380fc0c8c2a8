//! `LinearAttention`: attention by a state that every step decays, corrects and reads.

use super::Converters;
use super::expression::{Made, plain, reshape, reshape_by, size_at, unsqueeze, with_number};
use crate::onnx::builder::Value;
use crate::onnx::conversion::Conversion;
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[("LinearAttention", linear_attention)];

/// What all steps read, each with the steps as its first dimension, then batch and heads of keys.
struct Inputs {
    /// By group and key, times the scale.
    query: Value,
    /// As columns.
    key: Value,
    /// As rows.
    value: Value,
    /// By key or alone, as columns; what the state is multiplied with.
    decay: Option<Value>,
    /// One number.
    rate: Option<Value>,
}

impl Inputs {
    fn values(&self) -> Vec<Value> {
        let fixed = [&self.query, &self.key, &self.value].into_iter();
        fixed.chain(&self.decay).chain(&self.rate).cloned().collect()
    }

    /// The same inputs as a loop sees them.
    fn with(&self, values: &[Value]) -> Result<Inputs, String> {
        let mut values = values.iter().cloned();
        let mut next = || values.next().ok_or_else(|| "a loop reads less".to_owned());
        Ok(Inputs {
            query: next()?,
            key: next()?,
            value: next()?,
            decay: self.decay.as_ref().map(|_| next()).transpose()?,
            rate: self.rate.as_ref().map(|_| next()).transpose()?,
        })
    }

    /// One step: what it reads of the state, and the state after it.
    fn step(
        &self,
        node: &mut Conversion<'_>,
        at: &Value,
        state: &Value,
    ) -> Result<(Value, Value), String> {
        let first = node.int_list(&[0]);
        let now = |node: &mut Conversion<'_>, x: &Value| plain(node, "GatherV2", &[x, at, &first]);
        let (query, key) = (now(node, &self.query)?, now(node, &self.key)?);
        let mut value = now(node, &self.value)?;
        let mut state = state.clone();
        if let Some(decay) = &self.decay {
            let decay = now(node, decay)?;
            state = plain(node, "Mul", &[&state, &decay])?;
        }
        if let Some(rate) = &self.rate {
            let rate = now(node, rate)?;
            let swapped = node.int_list(&[0, 1, 3, 2]);
            let row = plain(node, "Transpose", &[&key, &swapped])?;
            let stored = plain(node, "BatchMatMulV2", &[&row, &state])?;
            let missing = plain(node, "Sub", &[&value, &stored])?;
            value = plain(node, "Mul", &[&rate, &missing])?;
        }
        let product = plain(node, "Mul", &[&key, &value])?;
        let state = plain(node, "Add", &[&state, &product])?;
        Ok((plain(node, "BatchMatMulV2", &[&query, &state])?, state))
    }
}

fn linear_attention(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let query = node.input(0)?;
    let rule = node.text("update_rule", "gated_delta");
    node.expect_text("update_rule", &rule, &["linear", "gated", "delta", "gated_delta"])?;
    let (heads, key_heads) = (node.int("q_num_heads", 0), node.int("kv_num_heads", 0));
    if heads <= 0 || key_heads <= 0 || heads % key_heads != 0 {
        return Err(format!("q_num_heads is {heads}, kv_num_heads is {key_heads}"));
    }
    let group = heads / key_heads;
    let size = |node: &Conversion<'_>, at: usize, parts: i64, what: &str| -> Result<i64, String> {
        let x = node.input(at)?;
        let size = match node.rank(&x)? {
            3 => node.known_dims_at(&x, 2)?,
            rank => return Err(format!("its {what} has {rank} dimensions, not 3")),
        };
        match size % parts {
            0 => Ok(size / parts),
            _ => Err(format!("the {size} numbers of its {what} are not those of {parts} heads")),
        }
    };
    let keys = size(node, 0, heads, "query")?;
    if size(node, 1, key_heads, "key")? != keys {
        return Err("its query and key differ in the size of a head".to_owned());
    }
    let values = size(node, 2, key_heads, "value")?;
    let scale = match node.float("scale", 0.0) {
        0.0 => 1.0 / (keys as f64).sqrt(),
        scale => scale.into(),
    };
    let (batch, steps) = (size_at(node, &query, 0)?, size_at(node, &query, 1)?);
    let by_step = |node: &mut Conversion<'_>, at: usize, dims: [i64; 3]| -> Made {
        let x = node.input(at)?;
        let x = node.cast(&x, DType::Float)?;
        let mut sizes = vec![batch.clone(), steps.clone()];
        for dim in dims {
            sizes.push(node.scalar(DType::Int64, dim as f64)?);
        }
        let mut apart = reshape_by(node, &x, &sizes)?;
        node.learn_dims(&mut apart, &[-1, -1, dims[0], dims[1], dims[2]]);
        let order = node.int_list(&[1, 0, 2, 3, 4]);
        plain(node, "Transpose", &[&apart, &order])
    };
    let scaled = by_step(node, 0, [key_heads, group, keys])?;
    let is_gated = rule.starts_with("gated");
    let is_corrected = rule.ends_with("delta");
    for (at, is_wanted, what) in [(4, is_gated, "decay"), (5, is_corrected, "beta")] {
        if node.optional(at).is_some() != is_wanted {
            let verb = if is_wanted { "needs" } else { "takes no" };
            return Err(format!("the rule '{rule}' {verb} {what}"));
        }
    }
    let inputs = Inputs {
        query: with_number(node, "Mul", &scaled, scale)?,
        key: by_step(node, 1, [key_heads, keys, 1])?,
        value: by_step(node, 2, [key_heads, 1, values])?,
        decay: match is_gated {
            false => None,
            true => {
                let each = size(node, 4, key_heads, "decay")?;
                if each != 1 && each != keys {
                    return Err(format!("its decay has {each} numbers for a head of {keys}"));
                }
                let decay = by_step(node, 4, [key_heads, each, 1])?;
                Some(plain(node, "Exp", &[&decay])?)
            }
        },
        rate: match is_corrected {
            false => None,
            true => {
                let count = size(node, 5, 1, "beta")?;
                if count != 1 && count != key_heads {
                    return Err(format!("its beta has {count} numbers for {key_heads} heads"));
                }
                Some(by_step(node, 5, [count, 1, 1])?)
            }
        },
    };
    let filled = |node: &mut Conversion<'_>, sizes: &[Value], dims: &[i64]| -> Made {
        let list = super::expression::list(node, sizes)?;
        let zero = node.scalar(DType::Float, 0.0)?;
        let mut zeros = plain(node, "Fill", &[&list, &zero])?;
        node.learn_dims(&mut zeros, dims);
        Ok(zeros)
    };
    let number = |node: &mut Conversion<'_>, value: i64| node.scalar(DType::Int64, value as f64);
    let (heads_value, keys_value) = (number(node, key_heads)?, number(node, keys)?);
    let (group_value, values_value) = (number(node, group)?, number(node, values)?);
    let past = node.optional(3);
    let state_type = past.as_ref().map_or(query.dtype(), Value::dtype);
    let state = match &past {
        Some(past) => node.cast(past, DType::Float)?,
        None => {
            let sizes = [batch.clone(), heads_value.clone(), keys_value, values_value.clone()];
            filled(node, &sizes, &[-1, key_heads, keys, values])?
        }
    };
    let (read, state) = match node.known_dims_at(&query, 1) {
        Ok(1) => {
            let zero = node.scalar(DType::Int64, 0.0)?;
            let (read, state) = inputs.step(node, &zero, &state)?;
            (unsqueeze(node, &read, &[0])?, state)
        }
        _ => {
            let sizes = [steps.clone(), batch.clone(), heads_value, group_value, values_value];
            let outputs = filled(node, &sizes, &[-1, -1, key_heads, group, values])?;
            let first = [state, outputs];
            let made = node.repeat(&steps, &first, &inputs.values(), |node, at, state, read| {
                let (shown, next) = inputs.with(read)?.step(node, at, &state[0])?;
                let copy = plain(node, "TensorMove", &[&state[1]])?;
                let index = reshape(node, at, &[1, 1])?;
                let shown = unsqueeze(node, &shown, &[0])?;
                Ok(vec![next, plain(node, "ScatterNdUpdate", &[&copy, &index, &shown])?])
            })?;
            (made[1].clone(), made[0].clone())
        }
    };
    let order = node.int_list(&[1, 0, 2, 3, 4]);
    let read = plain(node, "Transpose", &[&read, &order])?;
    let width = number(node, heads * values)?;
    let mut output = reshape_by(node, &read, &[batch, steps, width])?;
    node.learn_dims(&mut output, &[-1, -1, heads * values]);
    Ok(vec![node.cast(&output, query.dtype())?, node.cast(&state, state_type)?])
}
