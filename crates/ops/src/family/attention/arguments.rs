//! The indices of the arguments of attention and of its gradients, and what single ones of them say.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Operand;
use cairn_tensor::kernels::attention::Sizes;
use cairn_tensor::{DType, Layout};

// Arguments that both directions have in common.
pub(super) const QUERY: usize = 0;
pub(super) const KEY: usize = 1;
pub(super) const VALUE: usize = 2;
/// What is added to scores (`pseShift`).
pub(super) const SHIFT: usize = 3;
/// The bits of the scores that dropout keeps.
pub(super) const DROP: usize = 4;
pub(super) const MASK: usize = 5;
pub(super) const SCALE: usize = 6;
/// The probability with which dropout keeps a score.
pub(super) const KEEP: usize = 7;
/// How many keys before the query's position count (`preTokens`).
const BEFORE: usize = 8;
/// How many keys after the query's position count (`nextTokens`).
const AFTER: usize = 9;
const HEADS: usize = 10;
/// The order of dimensions (`inputLayout`): BNSD, BSND, BSH, SBH or TND.
pub(super) const FORM: usize = 11;
/// How mask and band say which scores count (`sparseMode`).
pub(super) const SPARSE: usize = 12;
/// When the shift is added, or whether it is computed from slopes (`pseType`).
pub(super) const SHIFT_KIND: usize = 13;
/// How many of the first keys count for every query.
pub(super) const PREFIX: usize = 14;
/// The ends of sequences: of queries, then of keys.
pub(super) const ENDS: usize = 15;
/// Where the first query is among all, then the first key.
pub(super) const STARTS: usize = 17;
pub(super) const QUERY_ROPE: usize = 19;
pub(super) const KEY_ROPE: usize = 20;
pub(super) const SINK: usize = 21;
/// The order of dimensions of the greatest scores and sums of sequences (`softmaxOutLayout`).
pub(super) const STATS_FORM: usize = 22;
/// There when scores are dropped without a mask: by numbers drawn from it.
pub(super) const SEED: usize = 23;
// Forward. Of each query: its greatest score, and the sum of its exponentials.
pub(super) const GREATEST: usize = 24;
pub(super) const SUMS: usize = 25;
pub(super) const OUT: usize = 26;
/// Scales of tensors of 8 bits follow.
pub(super) const SCALES: usize = 27;
// Backward.
pub(super) const GRAD: usize = 24;
pub(super) const SAVED_GREATEST: usize = 25;
pub(super) const SAVED_SUMS: usize = 26;
pub(super) const RESULT: usize = 27;
// Gradients.
pub(super) const TO_QUERY: usize = 28;
pub(super) const TO_KEY: usize = 29;
pub(super) const TO_VALUE: usize = 30;
pub(super) const TO_SHIFT: usize = 31;
pub(super) const TO_QUERY_ROPE: usize = 32;
pub(super) const TO_KEY_ROPE: usize = 33;
pub(super) const TO_SINK: usize = 34;
/// As [`SCALES`].
pub(super) const BACKWARD_SCALES: usize = 35;

/// Whether sequences of different lengths are packed one after the other: tokens, heads, features.
pub(super) fn is_packed(call: &Call<'_>) -> Result<bool> {
    Ok(call.text(FORM)? == "TND")
}

/// A tensor in the caller's form as batches, heads, positions, features; of sequences as it is.
pub(super) fn by_heads(
    call: &Call<'_>,
    at: usize,
    layout: &Layout,
    heads: usize,
) -> Result<Layout> {
    let form = call.text(FORM)?;
    let wrong = || {
        let (name, heads_name, form_name) =
            (call.parameter(at), call.parameter(HEADS), call.parameter(FORM));
        Error::invalid(format!(
            "{name} ({layout}) does not fit {form_name} = {form:?} with {heads} heads ({heads_name})"
        ))
    };
    let order: [usize; 4] = match form {
        "TND" if layout.rank() == 3 && layout.dims()[1] == heads => return Ok(*layout),
        "TND" => return Err(wrong()),
        "BNSD" => [0, 1, 2, 3],
        "BSND" | "BSH" => [0, 2, 1, 3],
        "SBH" => [1, 2, 0, 3],
        _ => {
            let name = call.parameter(FORM);
            return Err(Error::invalid(format!(
                "{name} = {form:?}: BNSD, BSND, BSH, SBH and TND are known"
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

/// Heads of keys and values; `query` is by heads.
pub(super) fn group_count(call: &Call<'_>, query: &Layout, key: &Layout) -> Result<usize> {
    let size = |at: usize| key.dims().get(at).copied().unwrap_or(0);
    Ok(match call.text(FORM)? {
        "BNSD" | "TND" => size(1),
        "BSND" => size(2),
        _ => size(2) / query.dims().last().copied().unwrap_or(0).max(1),
    })
}

/// Integers of an argument that may be absent.
pub(super) fn optional_ints(call: &Call<'_>, at: usize) -> Result<Vec<i64>> {
    if call.has(at) { call.ints(at) } else { Ok(Vec::new()) }
}

/// The position of a piece of work among all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PiecePosition {
    /// It is all there is.
    Whole,
    /// A sequence: whether it is the first, and whether it is the last.
    Sequence(bool, bool),
}

/// Which scores count: whether the mask is taken as it is (else it is a band), the band, and whether prefixes
/// count.
pub(super) type ScoreMask = (bool, Option<(isize, isize)>, bool);

/// The scores that count in a mode.
pub(super) fn score_mask(
    call: &Call<'_>,
    sizes: &Sizes,
    position: PiecePosition,
) -> Result<ScoreMask> {
    let before = call.int_or(BEFORE, i64::from(i32::MAX))? as isize;
    let after = call.int_or(AFTER, i64::from(i32::MAX))? as isize;
    let end_offset = sizes.keys as isize - sizes.queries as isize;
    let unbounded = isize::MIN / 2;
    let causal = Some((unbounded, 0));
    let causal_from_end = Some((unbounded, end_offset));
    let band = Some((end_offset.saturating_sub(before), end_offset.saturating_add(after)));
    Ok(match (call.int_or(SPARSE, 0)?, position) {
        (0, _) => (true, Some((before.saturating_neg(), after)), false),
        (1, _) | (5, PiecePosition::Whole) => (true, None, false),
        (2, _) => (false, causal, false),
        (3, _) => (false, causal_from_end, false),
        (4, _) => (false, band, false),
        (6, _) => (false, causal_from_end, true),
        (7, PiecePosition::Sequence(_, true)) | (8, PiecePosition::Sequence(true, _)) => {
            (false, band, false)
        }
        (7, PiecePosition::Sequence(..)) => (false, causal_from_end, false),
        (8, PiecePosition::Sequence(..)) => (false, causal, false),
        (other, _) => {
            let (name, form) = (call.parameter(SPARSE), call.text(FORM)?);
            return Err(Error::invalid(format!(
                "{name} = {other}: 0 to 6 are known, of sequences (TND, here {form}) 0 to 4 and 6 to 8"
            )));
        }
    })
}

/// How many of the first keys count for every query of each batch.
pub(super) fn prefixes(
    call: &Call<'_>,
    batches: usize,
    sizes: impl Fn(usize) -> (usize, usize),
) -> Result<Vec<usize>> {
    let (values, name) = (optional_ints(call, PREFIX)?, call.parameter(PREFIX));
    if values.len() != batches {
        return Err(Error::invalid(format!(
            "{name} = {values:?}: expected a number for each of {batches} batches"
        )));
    }
    let one = |(at, value): (usize, &i64)| {
        let (queries, keys) = sizes(at);
        let least = keys.saturating_sub(queries);
        let prefix = usize::try_from(*value).ok().filter(|one| (least..=keys).contains(one));
        prefix.ok_or_else(|| {
            Error::invalid(format!("{name}[{at}] = {value} is outside {least} to {keys}"))
        })
    };
    values.iter().enumerate().map(one).collect()
}

/// A mask of booleans, or nothing.
pub(super) fn mask(call: &mut Call<'_>) -> Result<Option<Operand>> {
    let mask = call.optional(MASK)?.filter(|mask| mask.count() > 0);
    if let Some(mask) = &mask {
        call.expect_dtype(MASK, mask, &[DType::Bool, DType::Uint8, DType::Int8])?;
    }
    Ok(mask)
}
