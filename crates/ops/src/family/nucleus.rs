//! Sampling from the scores of a vocabulary.
//!
//! Workspace: a key with its index for each score.

use super::sorting::overwritten_workspace;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::ArgSource::{A, B, I, No};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::nucleus::{Draw, Rule, SCORE_BYTES, draw, filter};
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// The greatest k of a draw; a greater one keeps all scores.
const MOST_K: i64 = 1024;

/// The sizes of scores: rows and vocabulary.
fn score_dims(call: &Call<'_>, at: usize, logits: &Layout) -> Result<[usize; 2]> {
    match logits.dims() {
        [rows, count] => Ok([*rows, *count]),
        dims => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2 dimensions")))
        }
    }
}

/// Arguments: logits, p, k, out.
fn apply(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let logits = call.read(0, &[&out])?;
    call.expect_dtype(0, &logits, TYPES)?;
    call.expect_same(3, &out, 0, &logits)?;
    call.expect_dims(3, &out, logits.dims())?;
    let [rows, count] = score_dims(call, 0, &logits)?;
    if !call.has(1) && !call.has(2) {
        let (p, k) = (call.parameter(1), call.parameter(2));
        return Err(Error::Null(format!("{p} and {k} are null: expected one of them at least")));
    }
    let p = match call.has(1) {
        true => {
            let read = call.read(1, &[&out])?;
            call.expect_same(1, &read, 0, &logits)?;
            call.expect_dims(1, &read, &[rows])?;
            Some(read)
        }
        false => None,
    };
    let k = match call.has(2) {
        true => {
            let read = call.read(2, &[&out])?;
            call.expect_dtype(2, &read, &[DType::Int32])?;
            call.expect_dims(2, &read, &[rows])?;
            Some(read)
        }
        false => None,
    };
    if logits.count() == 0 {
        return call.nothing();
    }
    let scratch = call.scratch(DType::Uint8, &[rows.saturating_mul(count), SCORE_BYTES]);
    call.plan(move |memory| {
        let (p, k) = (p.map(|read| read.view(memory)), k.map(|read| read.view(memory)));
        let (to, scratch) = (memory.out(&out), memory.scratch(&scratch));
        filter(memory.parallel, to, logits.view(memory), p, k, scratch)
            .map_err(overwritten_workspace)
    })
}

/// Arguments: logits, k, p, noise, share of the greatest, epsilon, whether the kept scores are wanted, guess (not read), the
/// greatest k, whether scores are no probabilities, whether the kept ones rather than one of them are wanted, number of the one,
/// kept scores, numbers of the kept, their probabilities.
fn sample(call: &mut Call<'_>) -> Result<Plan> {
    let wants_packed = call.flag(10)?;
    let index = if wants_packed { None } else { Some(call.output(11)?) };
    let kept = match call.flag(6)? {
        true => Some(call.output(12)?),
        false => None,
    };
    let packed = match wants_packed {
        true => Some((call.output(13)?, call.output(14)?)),
        false => None,
    };
    let mut outs: Vec<_> = index.iter().chain(&kept).collect();
    outs.extend(packed.iter().flat_map(|(a, b)| [a, b]));
    let logits = call.read(0, &outs)?;
    call.expect_dtype(0, &logits, TYPES)?;
    let [rows, count] = score_dims(call, 0, &logits)?;
    if rows == 0 || count == 0 || count > 1 << 20 {
        let (name, dims) = (call.parameter(0), logits.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected 1 to 2^20 scores a row")));
    }
    let (top_k, top_p) = (call.read(1, &outs)?, call.read(2, &outs)?);
    call.expect_dtype(1, &top_k, &[DType::Int32])?;
    call.expect_same(2, &top_p, 0, &logits)?;
    let numbers = |call: &Call<'_>, at: usize, layout: &Layout| -> Result<Layout> {
        match layout.dims() {
            [have] if *have == rows => Ok(*layout),
            [have, 1] if *have == rows => Ok(layout.without(1)),
            _ => {
                call.expect_dims(at, layout, &[rows])?;
                Ok(*layout)
            }
        }
    };
    let (k_layout, p_layout) = (numbers(call, 1, &top_k)?, numbers(call, 2, &top_p)?);
    let (top_k, top_p) = (top_k.with_layout(k_layout), top_p.with_layout(p_layout));
    let noise = match call.has(3) {
        true => {
            let read = call.read(3, &outs)?;
            call.expect_dtype(3, &read, &[DType::Float])?;
            call.expect_dims(3, &read, &[rows, count])?;
            Some(read)
        }
        false => None,
    };
    let min_p = match call.has(4) {
        true => {
            let read = call.read(4, &outs)?;
            call.expect_same(4, &read, 0, &logits)?;
            let layout = numbers(call, 4, &read)?;
            Some(read.with_layout(layout))
        }
        false => None,
    };
    let most = call.int(8)?;
    if !(1..=MOST_K).contains(&most) {
        let name = call.parameter(8);
        return Err(Error::invalid(format!("{name} = {most} is outside 1 to {MOST_K}")));
    }
    if let Some(out) = &index {
        call.expect_dims(11, out, &[rows])?;
        call.expect_dtype(11, out, &[DType::Int64])?;
    }
    if let Some(out) = &kept {
        call.expect_dims(12, out, &[rows, count])?;
        call.expect_dtype(12, out, &[DType::Float])?;
    }
    if let Some((numbers, chances)) = &packed {
        call.expect_dims(13, numbers, &[rows, count])?;
        call.expect_dtype(13, numbers, &[DType::Int64])?;
        call.expect_dims(14, chances, &[rows, count])?;
        call.expect_dtype(14, chances, &[DType::Float])?;
    }
    let rule = Rule {
        most: (most as usize).next_multiple_of(8).min(MOST_K as usize),
        are_logits: call.flag(9)?,
        epsilon: call.float(5)? as f32,
    };
    let scratch = call.scratch(DType::Uint8, &[rows.saturating_mul(count), SCORE_BYTES]);
    call.plan(move |memory| {
        let tensors = Draw {
            logits: logits.view(memory),
            top_k: top_k.view(memory),
            top_p: top_p.view(memory),
            min_p: min_p.map(|read| read.view(memory)),
            noise: noise.map(|read| read.view(memory)),
            scratch: memory.scratch(&scratch),
            index: index.map(|out| memory.out(&out)),
            kept: kept.map(|out| memory.out(&out)),
            packed: packed.map(|(a, b)| (memory.out(&a), memory.out(&b))),
        };
        draw(memory.parallel, &rule, &tensors).map_err(overwritten_workspace)
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("ApplyTopKTopP", apply),
    aclnn("TopKTopPSample", sample).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        No,
        A(4),
        A(5),
        A(6),
        I(MOST_K),
        B(true),
        B(false),
        A(7),
        A(8),
        No,
        No,
    ]),
    aclnn("TopKTopPSampleV2", sample),
];
