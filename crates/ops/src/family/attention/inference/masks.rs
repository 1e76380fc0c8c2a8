//! Which scores of inference count, and what is added to them.

use super::arguments::*;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Operand;
use cairn_tensor::{DType, Layout};

/// The side of a mask that stands for a triangle of any size.
const TRIANGLE: usize = 2048;

/// The sizes that masks and shifts have to do with.
#[derive(Clone, Copy)]
pub(super) struct ScoreSizes {
    pub batches: usize,
    pub heads: usize,
    /// Positions of the queries.
    pub queries: usize,
    /// Columns that are read.
    pub columns: usize,
    pub packed: bool,
    pub has_rope: bool,
    pub padded: bool,
}

/// What limits the scores of a sequence.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// Nothing.
    None,
    /// The distance between key and query, both counted from their first.
    FromStart(isize, isize),
    /// The same, both counted from their last.
    FromEnd(isize, isize),
}

impl Limit {
    /// As a band of a sequence with these lengths, both counted from their first.
    pub(super) fn band(self, queries: usize, keys: usize) -> Option<(isize, isize)> {
        let lead = keys as isize - queries as isize;
        match self {
            Limit::None => None,
            Limit::FromStart(low, high) => Some((low, high)),
            Limit::FromEnd(low, high) => {
                Some((low.saturating_add(lead), high.saturating_add(lead)))
            }
        }
    }
}

/// Whether a mask has the sizes of one that stands for a triangle of any size.
fn is_triangle(mask: &Layout) -> bool {
    let dims = mask.dims();
    let (outer, sides) = dims.split_at(dims.len().saturating_sub(2));
    sides == [TRIANGLE, TRIANGLE] && outer.iter().all(|size| *size == 1) && outer.len() <= 2
}

/// The mask that is read, and the limit.
pub(super) fn mask(call: &mut Call<'_>, sizes: ScoreSizes) -> Result<(Option<Operand>, Limit)> {
    let mode = call.int_or(SPARSE, 0)?;
    let (mode_name, name) = (call.parameter(SPARSE), call.parameter(MASK));
    let mask = given(call, MASK)?;
    if let Some(mask) = &mask {
        call.expect_dtype(MASK, mask, &[DType::Bool, DType::Uint8, DType::Int8])?;
    }
    let is_single = sizes.queries == 1 && !sizes.packed && !sizes.has_rope;
    if is_single {
        // One query of each sequence: neither the mode nor the band counts.
        let mask = mask.filter(|mask| !(matches!(mode, 2..=4) && is_triangle(mask)));
        return Ok((mask.map(|mask| by_keys(call, mask, sizes)).transpose()?, Limit::None));
    }
    let unbounded = isize::MIN / 2;
    let tokens = |at: usize| Ok::<isize, Error>(call.int_or(at, i64::from(i32::MAX))? as isize);
    let band = (tokens(BEFORE)?.saturating_neg(), tokens(AFTER)?);
    let limit = match mode {
        0 if mask.is_none() => return Ok((None, Limit::None)),
        0 if sizes.padded => Limit::None,
        0 => Limit::FromStart(band.0, band.1),
        1 => Limit::None,
        2 => Limit::FromStart(unbounded, 0),
        3 => Limit::FromEnd(unbounded, 0),
        4 => Limit::FromEnd(band.0, band.1),
        _ => {
            return Err(Error::invalid(format!("{mode_name} = {mode}: 0 to 4 are known")));
        }
    };
    let Some(mask) = mask else {
        return Err(Error::Null(format!("{name} is null: {mode_name} = {mode} wants a mask")));
    };
    if mode >= 2 {
        if !is_triangle(&mask) {
            let have = mask.dims();
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: {mode_name} = {mode} wants [{TRIANGLE}, {TRIANGLE}]"
            )));
        }
        // Its elements say what the mode says: none of them is read.
        call.touch_by_index(&mask);
        return Ok((None, limit));
    }
    if sizes.packed {
        let form = call.parameter(FORM);
        return Err(Error::invalid(format!(
            "{name} with {mode_name} = {mode}: sequences ({form}) have no mask, or that of the modes 2 to 4"
        )));
    }
    Ok((Some(by_queries(call, mask, sizes)?), limit))
}

/// A mask of one query for each sequence: batches (or 1), any number of 1, keys.
fn by_keys(call: &Call<'_>, mask: Operand, sizes: ScoreSizes) -> Result<Operand> {
    let dims = mask.dims();
    let fits = match dims {
        [batches, middle @ .., columns] => {
            [1, sizes.batches].contains(batches)
                && middle.len() <= 2
                && middle.iter().all(|size| *size == 1)
                && *columns >= sizes.columns
        }
        _ => false,
    };
    if !fits {
        return Err(wrong_mask(call, &mask, sizes));
    }
    let mut layout = *mask.layout();
    while layout.rank() < 4 {
        layout = layout.with(1);
    }
    Ok(mask.with_layout(cut(layout, sizes).expect("the sizes fit")))
}

/// A mask of queries and keys, perhaps with batches in front.
fn by_queries(call: &Call<'_>, mask: Operand, sizes: ScoreSizes) -> Result<Operand> {
    let dims = mask.dims();
    let fits = match *dims {
        [_, _] => true,
        [batches, _, _] | [batches, 1, _, _] => [1, sizes.batches].contains(&batches),
        _ => false,
    };
    let mut layout = *mask.layout();
    if layout.rank() == 3 {
        layout = layout.with(1);
    }
    while layout.rank() < 4 {
        layout = layout.with(0);
    }
    match cut(layout, sizes).filter(|_| fits) {
        Some(layout) => Ok(mask.with_layout(layout)),
        None => Err(wrong_mask(call, &mask, sizes)),
    }
}

fn wrong_mask(call: &Call<'_>, mask: &Layout, sizes: ScoreSizes) -> Error {
    let (name, have) = (call.parameter(MASK), mask.dims());
    let ScoreSizes { batches, queries, columns, .. } = sizes;
    Error::invalid(format!(
        "{name} has the sizes {have:?}: expected at least {queries} queries and {columns} keys, of 1 or {batches} batches"
    ))
}

/// The queries and columns that are read, for all batches and heads; `None` where there are fewer.
fn cut(layout: Layout, sizes: ScoreSizes) -> Option<Layout> {
    let ScoreSizes { batches, heads, queries, columns, .. } = sizes;
    if layout.dims()[2] < queries || layout.dims()[3] < columns {
        return None;
    }
    let layout = layout.sliced(2, 0, queries, 1).sliced(3, 0, columns, 1);
    layout.broadcast_to(&[batches, heads, queries, columns])
}

/// What is added to scores.
pub(super) enum Shift {
    /// Nothing.
    None,
    /// A number for each score.
    Plain(Operand),
    /// A multiple of the distance between key and query, or of its root; and how far the first key is after the first query.
    Slopes(Operand, bool, isize),
}

/// Reads and checks the shift.
pub(super) fn shift(call: &mut Call<'_>, sizes: ScoreSizes) -> Result<Shift> {
    let (kind, kind_name) = (call.int_or(SHIFT_KIND, 0)?, call.parameter(SHIFT_KIND));
    if !matches!(kind, 0 | 2 | 3) {
        return Err(Error::invalid(format!("{kind_name} = {kind}: 0, 2 and 3 are known")));
    }
    let Some(shift) = given(call, SHIFT)? else { return Ok(Shift::None) };
    let (name, have) = (call.parameter(SHIFT), shift.dims());
    let ScoreSizes { batches, heads, queries, columns, .. } = sizes;
    if kind != 0 {
        call.expect_dtype(SHIFT, &shift, &[DType::Float])?;
        call.expect_dims(SHIFT, &shift, &[heads])?;
        if sizes.has_rope || sizes.padded {
            return Err(Error::invalid(format!(
                "{name} with {kind_name} = {kind}: neither features apart nor padding are known with it"
            )));
        }
        let first = |at: usize| {
            let all = if call.has(at) { call.ints(at)? } else { Vec::new() };
            Ok::<i64, Error>(all.first().copied().unwrap_or(0))
        };
        let lead = first(STARTS + 1)?.saturating_sub(first(STARTS)?);
        let layout = shift.broadcast_to(&[batches, heads]).expect("a number for each head");
        return Ok(Shift::Slopes(shift.with_layout(layout), kind == 3, lead as isize));
    }
    call.expect_number(SHIFT, &shift)?;
    let fits =
        matches!(*have, [batch, count, _, _] if [1, batches].contains(&batch) && count == heads);
    let layout = if fits && !sizes.packed { cut(*shift.layout(), sizes) } else { None };
    match layout {
        Some(layout) => Ok(Shift::Plain(shift.with_layout(layout))),
        None => Err(Error::invalid(format!(
            "{name} has the sizes {have:?}: expected 1 or {batches} batches, {heads} heads, at least {queries} queries and \
             {columns} keys, and no sequences (TND, NTD)"
        ))),
    }
}
