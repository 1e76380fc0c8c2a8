//! Attention as one operator, and its gradients.

use super::attention_packed;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::Pick::{A, Attr, No, O};
use crate::table::{Default, Node, Pick, Row, aclnn, node};
use cairn_tensor::kernels::attention::{
    Attention, Gradients, Sizes, backward, backward_scratch, forward, forward_scratch,
};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Layout, Scalar, ViewMut};

// Arguments that both directions have in common.
pub(super) const QUERY: usize = 0;
pub(super) const KEY: usize = 1;
pub(super) const VALUE: usize = 2;
pub(super) const SHIFT: usize = 3;
pub(super) const DROP: usize = 4;
pub(super) const MASK: usize = 5;
pub(super) const SCALE: usize = 6;
pub(super) const KEEP: usize = 7;
const BEFORE: usize = 8;
const AFTER: usize = 9;
const HEADS: usize = 10;
pub(super) const FORM: usize = 11;
pub(super) const SPARSE: usize = 12;
const SHIFT_KIND: usize = 13;
// Forward: then greatest scores, sums, result.
pub(super) const GREATEST: usize = 14;
pub(super) const SUMS: usize = 15;
pub(super) const OUT: usize = 16;
// Backward: then the gradient of the result, greatest scores, sums, result, and four gradients.
pub(super) const GRAD: usize = 14;
pub(super) const NOTED_GREATEST: usize = 15;
pub(super) const NOTED_SUMS: usize = 16;
pub(super) const RESULT: usize = 17;
pub(super) const TO_QUERY: usize = 18;
pub(super) const TO_KEY: usize = 19;
pub(super) const TO_VALUE: usize = 20;
pub(super) const TO_SHIFT: usize = 21;

/// A tensor in the caller's form as batches, heads, positions, features.
fn by_heads(call: &Call<'_>, at: usize, layout: &Layout, heads: usize) -> Result<Layout> {
    let form = call.text(FORM)?;
    let wrong = || {
        let (name, heads_name, form_name) =
            (call.parameter(at), call.parameter(HEADS), call.parameter(FORM));
        Error::invalid(format!(
            "{name} ({layout}) does not fit {form_name} = {form:?} with {heads} heads ({heads_name})"
        ))
    };
    let order: [usize; 4] = match form {
        "BNSD" => [0, 1, 2, 3],
        "BSND" | "BSH" => [0, 2, 1, 3],
        "SBH" => [1, 2, 0, 3],
        _ => {
            let name = call.parameter(FORM);
            return Err(Error::invalid(format!(
                "{name} = {form:?}: BNSD, BSND, BSH and SBH are known"
            )));
        }
    };
    let flat = form.ends_with('H');
    if layout.rank() != if flat { 3 } else { 4 } || heads == 0 {
        return Err(wrong());
    }
    if !flat {
        let layout = layout.permuted(&order);
        return if layout.dims()[1] == heads { Ok(layout) } else { Err(wrong()) };
    }
    let (dims, strides) = (layout.dims(), layout.strides());
    let features = dims[2] / heads;
    if features * heads != dims[2] {
        return Err(wrong());
    }
    let dims = [dims[0], dims[1], heads, features];
    let strides = [strides[0], strides[1], features as isize * strides[2], strides[2]];
    Ok(Layout::strided(layout.dtype, &dims, &strides, layout.offset).permuted(&order))
}

pub(super) fn head_count(call: &Call<'_>) -> Result<usize> {
    let count = call.int(HEADS)?;
    usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
        Error::invalid(format!("{} = {count} is no number of heads", call.parameter(HEADS)))
    })
}

/// Heads of keys and values.
fn group_count(call: &Call<'_>, query: &Layout, key: &Layout) -> Result<usize> {
    Ok(match call.text(FORM)? {
        "BNSD" => key.dims().get(1).copied().unwrap_or(0),
        "BSND" => key.dims().get(2).copied().unwrap_or(0),
        _ => key.dims().get(2).copied().unwrap_or(0) / query.dims()[3].max(1),
    })
}

/// The operands of both directions, checked.
#[derive(Clone, Copy)]
struct Bound {
    query: Operand,
    key: Operand,
    value: Operand,
    shift: Option<Operand>,
    shift_last: bool,
    mask: Option<Operand>,
    band: Option<(isize, isize)>,
    kept: Option<Operand>,
    keep: f32,
    scale: f32,
    sizes: Sizes,
}

impl Bound {
    fn new(call: &mut Call<'_>) -> Result<Bound> {
        let heads = head_count(call)?;
        let [query, key, value] = [call.tensor(QUERY)?, call.tensor(KEY)?, call.tensor(VALUE)?];
        const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];
        for (at, operand) in [(QUERY, &query), (KEY, &key), (VALUE, &value)] {
            call.expect_dtype(at, operand, TYPES)?;
        }
        let query = query.with_layout(by_heads(call, QUERY, &query, heads)?);
        let groups = group_count(call, &query, &key)?;
        let key = key.with_layout(by_heads(call, KEY, &key, groups)?);
        let value = value.with_layout(by_heads(call, VALUE, &value, groups)?);
        let (q, k, v) = (query.dims(), key.dims(), value.dims());
        if q[0] != k[0] || q[3] != k[3] || heads % groups != 0 || k[..3] != v[..3] {
            let names = [QUERY, KEY, VALUE].map(|at| call.parameter(at)).join(", ");
            return Err(Error::invalid(format!(
                "{names} have the sizes {q:?}, {k:?}, {v:?} (batches, heads, positions, features), which do not fit"
            )));
        }
        let sizes = Sizes {
            batches: q[0],
            heads,
            groups,
            queries: q[2],
            keys: k[2],
            features: q[3],
            width: v[3],
        };
        let (shift, shift_last) = shift(call, &sizes)?;
        let (mask, band) = masking(call, &sizes)?;
        let keep = if call.has(KEEP) { call.float(KEEP)? } else { 1.0 };
        let kept = match call.optional(DROP)? {
            Some(kept) if keep < 1.0 => Some(kept),
            _ => None,
        };
        if let Some(kept) = &kept {
            let bits = sizes.batches * sizes.heads * sizes.queries * sizes.keys;
            if kept.item() != 1 || !kept.is_contiguous() || kept.count() * 8 < bits {
                let (name, layout) = (call.parameter(DROP), kept.layout());
                return Err(Error::invalid(format!("{name} ({layout}) is no mask of {bits} bits")));
            }
        }
        let (keep, scale) = (keep as f32, call.float(SCALE)? as f32);
        Ok(Bound { query, key, value, shift, shift_last, mask, band, kept, keep, scale, sizes })
    }

    fn task<'a>(&self, memory: &Memory<'a>) -> Attention<'a> {
        Attention {
            query: memory.view(&self.query),
            key: memory.view(&self.key),
            value: memory.view(&self.value),
            shift: self.shift.map(|one| memory.view(&one)),
            shift_last: self.shift_last,
            mask: self.mask.map(|one| memory.view(&one)),
            band: self.band,
            kept: self.kept.map(|one| memory.view(&one)),
            keep: self.keep,
            scale: self.scale,
        }
    }

    /// Fails when an output shares memory with what is read.
    fn expect_apart(&self, call: &Call<'_>, outputs: &[(usize, Operand)]) -> Result<()> {
        for (at, out) in outputs {
            for (from, input) in [(QUERY, self.query), (KEY, self.key), (VALUE, self.value)] {
                let same = input.address == out.address && input.count() > 0 && out.count() > 0;
                if same || call.is_entangled(&input, out) {
                    let (to, from) = (call.parameter(*at), call.parameter(from));
                    return Err(Error::invalid(format!("{to} shares memory with {from}")));
                }
            }
        }
        Ok(())
    }
}

fn wide(call: &Call<'_>, at: usize, operand: Operand, sizes: &Sizes) -> Result<Operand> {
    let dims = [sizes.batches, sizes.heads, sizes.queries, sizes.keys];
    match operand.broadcast_to(&dims) {
        Some(layout) => Ok(operand.with_layout(layout)),
        None => {
            let (name, have) = (call.parameter(at), operand.dims());
            Err(Error::invalid(format!("{name} {have:?} does not broadcast to {dims:?}")))
        }
    }
}

fn shift(call: &mut Call<'_>, sizes: &Sizes) -> Result<(Option<Operand>, bool)> {
    let shift = call.optional(SHIFT)?.filter(|shift| shift.count() > 0);
    let Some(shift) = shift else {
        return Ok((None, false));
    };
    call.expect_number(SHIFT, &shift)?;
    match call.int_or(SHIFT_KIND, 1)? {
        kind @ (0 | 1) => Ok((Some(wide(call, SHIFT, shift, sizes)?), kind == 0)),
        other => Err(Error::invalid(format!(
            "{} = {other}: 0 and 1 are known",
            call.parameter(SHIFT_KIND)
        ))),
    }
}

/// Which scores count: a mask, a band of distances between key and query, or both. A band counts only beside a
/// mask, and stands for one that is compressed.
pub(super) type Masking = (Option<Operand>, Option<(isize, isize)>);

fn masking(call: &mut Call<'_>, sizes: &Sizes) -> Result<Masking> {
    let mask = call.optional(MASK)?.filter(|mask| mask.count() > 0);
    let Some(mask) = mask else {
        return Ok((None, None));
    };
    call.expect_dtype(MASK, &mask, &[DType::Bool, DType::Uint8, DType::Int8])?;
    let (plain, band) = band(call, sizes)?;
    Ok((if plain { Some(wide(call, MASK, mask, sizes)?) } else { None }, band))
}

/// Whether a mask is taken as it is, or stands for a band; and the band.
pub(super) fn band(call: &Call<'_>, sizes: &Sizes) -> Result<(bool, Option<(isize, isize)>)> {
    let before = call.int_or(BEFORE, i64::from(i32::MAX))? as isize;
    let after = call.int_or(AFTER, i64::from(i32::MAX))? as isize;
    let last = sizes.keys as isize - sizes.queries as isize;
    let far = isize::MIN / 2;
    Ok(match call.int_or(SPARSE, 0)? {
        0 => (true, Some((before.saturating_neg(), after))),
        1 | 5 => (true, None),
        2 => (false, Some((far, 0))),
        3 => (false, Some((far, last))),
        4 => (false, Some((last.saturating_sub(before), last.saturating_add(after)))),
        other => {
            let name = call.parameter(SPARSE);
            return Err(Error::invalid(format!("{name} = {other}: 0 to 5 are known")));
        }
    })
}

/// The greatest scores or the sums: batches, heads, queries, any.
fn noted(
    call: &Call<'_>,
    at: usize,
    operand: Option<Operand>,
    sizes: &Sizes,
) -> Result<Option<Operand>> {
    let Some(operand) = operand.filter(|one| one.count() > 0) else {
        return Ok(None);
    };
    let fits =
        operand.rank() == 4 && operand.dims()[..3] == [sizes.batches, sizes.heads, sizes.queries];
    if fits && operand.dtype == DType::Float {
        return Ok(Some(operand));
    }
    let (name, layout) = (call.parameter(at), operand.layout());
    let (b, n, s) = (sizes.batches, sizes.heads, sizes.queries);
    Err(Error::invalid(format!("{name} is {layout}: expected float[{b}, {n}, {s}, 8]")))
}

/// Scratch of `f32` can be used when it lies on whole elements.
pub(super) fn check_scratch(scratch: &ViewMut<'_>) -> Outcome {
    match scratch.address().is_multiple_of(align_of::<f32>()) {
        true => Ok(()),
        false => Err(Fault(format!("the workspace at {:#x} is not aligned", scratch.address()))),
    }
}

/// See the arguments above.
fn attention(call: &mut Call<'_>) -> Result<Plan> {
    let bound = Bound::new(call)?;
    let sizes = bound.sizes;
    let out = call.output(OUT)?;
    let out = out.with_layout(by_heads(call, OUT, &out, sizes.heads)?);
    call.expect_dims(OUT, &out, &[sizes.batches, sizes.heads, sizes.queries, sizes.width])?;
    call.expect_number(OUT, &out)?;
    let (greatest, sums) = (call.optional_output(GREATEST)?, call.optional_output(SUMS)?);
    let greatest = noted(call, GREATEST, greatest, &sizes)?;
    let sums = noted(call, SUMS, sums, &sizes)?;
    bound.expect_apart(call, &[(OUT, out)])?;
    if out.count() == 0 {
        return call.nothing();
    }
    let scratch = call.scratch(DType::Float, &forward_scratch(&sizes));
    call.plan(move |memory| {
        let scratch = memory.scratch(&scratch);
        check_scratch(&scratch)?;
        let written = |one: Option<Operand>| one.map(|one| memory.out(&one));
        let out = memory.out(&out);
        let task = bound.task(memory);
        forward(memory.parallel, &task, out, written(greatest), written(sums), scratch);
        Ok(())
    })
}

/// See the arguments above.
fn gradients(call: &mut Call<'_>) -> Result<Plan> {
    let bound = Bound::new(call)?;
    let sizes = bound.sizes;
    let by_result = [sizes.batches, sizes.heads, sizes.queries, sizes.width];
    let grad = call.tensor(GRAD)?;
    let grad = grad.with_layout(by_heads(call, GRAD, &grad, sizes.heads)?);
    call.expect_dims(GRAD, &grad, &by_result)?;
    call.expect_number(GRAD, &grad)?;
    let result = match call.optional(RESULT)?.filter(|one| one.count() > 0) {
        None => None,
        Some(result) => {
            let result = result.with_layout(by_heads(call, RESULT, &result, sizes.heads)?);
            call.expect_dims(RESULT, &result, &by_result)?;
            call.expect_number(RESULT, &result)?;
            Some(result)
        }
    };
    let (greatest, sums) = (call.optional(NOTED_GREATEST)?, call.optional(NOTED_SUMS)?);
    let greatest = noted(call, NOTED_GREATEST, greatest, &sizes)?;
    let notes = greatest.zip(noted(call, NOTED_SUMS, sums, &sizes)?);
    let mut outputs = [bound.query; 3];
    for (slot, (at, like, heads)) in outputs.iter_mut().zip([
        (TO_QUERY, bound.query, sizes.heads),
        (TO_KEY, bound.key, sizes.groups),
        (TO_VALUE, bound.value, sizes.groups),
    ]) {
        let out = call.output(at)?;
        *slot = out.with_layout(by_heads(call, at, &out, heads)?);
        call.expect_dims(at, slot, like.dims())?;
        call.expect_number(at, slot)?;
        bound.expect_apart(call, &[(at, *slot)])?;
    }
    let to_shift = call.optional_output(TO_SHIFT)?.filter(|one| one.count() > 0);
    let scratch = call.scratch(DType::Float, &backward_scratch(&sizes));
    call.plan(move |memory| {
        let scratch = memory.scratch(&scratch);
        check_scratch(&scratch)?;
        let [query, key, value] = outputs.map(|one| memory.out(&one));
        let gradients = Gradients {
            grad: memory.view(&grad),
            result: result.map(|one| memory.view(&one)),
            noted: notes.map(|(most, sum)| (memory.view(&most), memory.view(&sum))),
            query,
            key,
            value,
        };
        backward(memory.parallel, &bound.task(memory), &gradients, scratch);
        if let Some(to_shift) = to_shift {
            fill_scalar(memory.parallel, memory.out(&to_shift), Scalar::from(0.0));
        }
        Ok(())
    })
}

fn inferred(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (query, key, value) = (call.layout(QUERY)?, call.layout(KEY)?, call.layout(VALUE)?);
    let heads = head_count(call)?;
    let by = by_heads(call, QUERY, &query, heads)?;
    let groups = group_count(call, &by, &key)?;
    let width = by_heads(call, VALUE, &value, groups)?.dims()[3];
    let notes = Layout::contiguous(DType::Float, &[by.dims()[0], heads, by.dims()[2], 8]);
    let mut dims = query.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = if query.rank() == 3 { width * heads } else { width };
    }
    let none = Layout::contiguous(query.dtype, &[0]);
    Ok(vec![notes, notes, none, Layout::contiguous(query.dtype, &dims)])
}

fn inferred_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let mut layouts: Vec<Layout> =
        [QUERY, KEY, VALUE].iter().map(|at| call.layout(*at)).collect::<Result<_>>()?;
    layouts.push(match call.has(SHIFT) {
        true => call.layout(SHIFT)?,
        false => Layout::contiguous(layouts[0].dtype, &[0]),
    });
    Ok(layouts.iter().map(Layout::packed).collect())
}

/// The rows of this family.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    aclnn("FlashAttentionScore", attention).picks(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(8), A(9), A(10), A(11), A(12), A(13), A(15), No,
        A(16), A(17), A(19),
    ]),
    aclnn("FlashAttentionScoreV2", attention).picks(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(10), A(11), A(12), A(13), A(14), A(15), A(17), A(18),
        A(19), A(20), A(22),
    ]),
    aclnn("FlashAttentionVarLenScore", attention_packed::attention).picks(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(10), A(11), A(12), A(13), A(14), A(15), A(17), No,
        A(18), A(19), A(21), A(8), A(9),
    ]),
    aclnn("FlashAttentionVarLenScoreV2", attention_packed::attention).picks(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(12), A(13), A(14), A(15), A(16), A(17), A(19), No,
        A(21), A(22), A(24), A(8), A(9),
    ]),
    aclnn("FlashAttentionVarLenScoreV4", attention_packed::attention).picks(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(10), A(11), A(12), A(13), A(14), A(15), A(17), No,
        A(19), A(20), A(22), A(8), A(9),
    ]),
    aclnn("FlashAttentionUnpaddingScoreGrad", attention_packed::gradients).picks(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(15), A(16), A(17), A(18), A(19), A(20), A(22), No,
        A(3), A(8), A(9), A(11), A(23), A(24), A(25), A(26), A(13), A(14),
    ]),
    aclnn("FlashAttentionUnpaddingScoreGradV2", attention_packed::gradients).picks(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(17), A(18), A(19), A(20), A(21), A(22), A(24), No,
        A(3), A(8), A(9), A(11), A(26), A(27), A(28), A(29), A(13), A(14),
    ]),
    aclnn("FlashAttentionUnpaddingScoreGradV4", attention_packed::gradients).picks(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(15), A(16), A(17), A(18), A(19), A(20), A(22), No,
        A(3), A(8), A(9), A(11), A(23), A(24), A(25), A(26), A(13), A(14),
    ]),
    aclnn("FlashAttentionScoreGrad", gradients).picks(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(13), A(14), A(15), A(16), A(17), A(18), A(20), No,
        A(3), A(8), A(9), A(11), A(21), A(22), A(23), A(24),
    ]),
    aclnn("FlashAttentionScoreGradV2", gradients).picks(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(15), A(16), A(17), A(18), A(19), A(20), A(22), A(23),
        A(3), A(8), A(9), A(11), A(24), A(25), A(26), A(27),
    ]),
];

const SCALE_VALUE: Pick = Attr("scale_value", Default::Float(1.0));
const KEEP_PROB: Pick = Attr("keep_prob", Default::Float(1.0));
const HEAD_NUM: Pick = Attr("head_num", Default::Required);
const INPUT_LAYOUT: Pick = Attr("input_layout", Default::Required);
const SPARSE_MODE: Pick = Attr("sparse_mode", Default::Int(0));
const PRE: [Pick; 2] =
    [Attr("pre_tockens", Default::Int(2_147_483_647)), Attr("pre_tockens", Default::Int(65_536))];
const NEXT: [Pick; 2] =
    [Attr("next_tockens", Default::Int(2_147_483_647)), Attr("next_tockens", Default::Int(65_536))];

/// The operators of this family by IR name.
#[rustfmt::skip]
pub const NODES: &[Node] = &[
    node(
        "FlashAttentionScore",
        &["query", "key", "value", "real_shift?", "drop_mask?", "padding_mask?", "atten_mask?"],
        &["softmax_max", "softmax_sum", "softmax_out", "attention_out"],
        Infer::By(inferred),
        attention,
        &[
            A(0), A(1), A(2), A(3), A(4), A(6), SCALE_VALUE, KEEP_PROB, PRE[0], NEXT[0],
            HEAD_NUM, INPUT_LAYOUT, SPARSE_MODE, No, O(0), O(1), O(3),
        ],
    ),
    node(
        "FlashAttentionScoreGrad",
        &[
            "query", "key", "value", "dy", "pse_shift?", "drop_mask?", "padding_mask?",
            "atten_mask?", "softmax_max?", "softmax_sum?", "softmax_in?", "attention_in?",
        ],
        &["dq", "dk", "dv", "dpse"],
        Infer::By(inferred_gradients),
        gradients,
        &[
            A(0), A(1), A(2), A(4), A(5), A(7), SCALE_VALUE, KEEP_PROB, PRE[1], NEXT[1],
            HEAD_NUM, INPUT_LAYOUT, SPARSE_MODE, No, A(3), A(8), A(9), A(11),
            O(0), O(1), O(2), O(3),
        ],
    ),
];
