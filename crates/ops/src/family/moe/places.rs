//! The places of slots: which row of an expanded tensor each slot of a token has.

use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::{DType, Layout};
use std::ops::Range;

/// A tensor of places: the row of each slot, in the order of slots or in that of the numbers of slots.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) read: UnaliasedInput,
    pub(super) tokens: usize,
    pub(super) each: usize,
    /// The first slot of every token, then the second, and so on.
    pub(super) by_column: bool,
    /// -1 is a slot without a row.
    pub(super) may_lack: bool,
    /// The places that there are.
    pub(super) limit: usize,
    /// The place of the first row that is there.
    pub(super) start: usize,
    pub(super) name: &'static str,
}

impl Places {
    /// Where the place of a slot is.
    fn at(&self, token: usize, slot: usize) -> usize {
        if self.by_column { slot * self.tokens + token } else { token * self.each + slot }
    }

    /// Fails for a place out of range.
    pub(super) fn check(&self, memory: &Memory<'_>) -> Outcome {
        let access = PositionAccess::new(self.read.view(memory));
        let low = if self.may_lack { -1 } else { 0 };
        for at in 0..self.tokens * self.each {
            let value: i64 = access.get(&[at]);
            if value < low || value >= self.limit as i64 {
                let (name, last) = (self.name, self.limit as i64 - 1);
                return Err(Fault(format!("{name}[{at}] = {value} is outside {low} to {last}")));
            }
        }
        Ok(())
    }

    /// The row of each slot, once they are checked; `rows` are there.
    pub(super) fn rows<'a>(
        &self,
        memory: &Memory<'a>,
        rows: usize,
    ) -> impl Fn(usize, usize) -> Option<usize> + Sync + use<'a> {
        let (access, places) = (PositionAccess::new(self.read.prepared(memory)), *self);
        move |token, slot| {
            let value: i64 = access.get(&[places.at(token, slot)]);
            let row = usize::try_from(value).ok()?.checked_sub(places.start)?;
            (row < rows).then_some(row)
        }
    }
}

/// An input of two dimensions with these sizes, of one of these types, if it is there.
pub(super) fn matrix(
    call: &mut Call<'_>,
    at: usize,
    dims: [usize; 2],
    types: &[DType],
    outs: &[&Operand],
) -> Result<Option<UnaliasedInput>> {
    if !call.has(at) {
        return Ok(None);
    }
    let read = call.read(at, outs)?;
    call.expect_dtype(at, &read, types)?;
    call.expect_dims(at, &read, &dims)?;
    Ok(Some(read))
}

/// A tensor of rows, as rows of two dimensions.
pub(super) fn as_rows(call: &Call<'_>, at: usize, layout: &Layout) -> Result<Layout> {
    let rows = match layout.dims() {
        [_, _] => Some(*layout),
        [experts, capacity, columns] => layout.reshaped(&[experts * capacity, *columns]),
        _ => None,
    };
    rows.ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} ({layout}): expected rows in two or three dimensions"))
    })
}

/// The places of `count` that a list of two numbers names, from one to below the other; `None` where it is absent or empty.
pub(super) fn place_range(
    call: &Call<'_>,
    at: usize,
    count: usize,
) -> Result<Option<Range<usize>>> {
    let values = if call.has(at) { call.ints(at)? } else { Vec::new() };
    match values[..] {
        [] => Ok(None),
        [start, end] if (0..=end).contains(&start) && end <= count as i64 => {
            Ok(Some(start as usize..end as usize))
        }
        _ => {
            let name = call.parameter(at);
            Err(Error::invalid(format!(
                "{name} = {values:?}: expected two numbers from 0 to {count}, the lesser first"
            )))
        }
    }
}

/// Whether a list of numbers is there and not empty.
pub(super) fn has_range(call: &Call<'_>, at: usize) -> bool {
    call.ints(at).is_ok_and(|values| !values.is_empty())
}

/// As [`place_range`], for a tensor that has a row for each of these places, and perhaps more.
pub(super) fn row_range(
    call: &Call<'_>,
    at: usize,
    (rows_at, rows): (usize, &Layout),
    count: usize,
) -> Result<Option<Range<usize>>> {
    let Some(range) = place_range(call, at, count)? else { return Ok(None) };
    if rows.dims()[0] < range.len() {
        let (name, have, want) = (call.parameter(rows_at), rows.dims()[0], range.len());
        return Err(Error::invalid(format!(
            "{name} has {have} rows: expected {want}, one for each place from {} to {}",
            range.start,
            range.end as i64 - 1
        )));
    }
    Ok(Some(range))
}

/// Checks experts against the number of biases.
pub(super) fn check_experts(
    name: &str,
    experts: &PositionAccess<'_>,
    dims: [usize; 2],
    count: usize,
) -> Outcome {
    for token in 0..dims[0] {
        for slot in 0..dims[1] {
            let value: i64 = experts.get(&[token, slot]);
            if !(0..count as i64).contains(&value) {
                let last = count as i64 - 1;
                return Err(Fault(format!(
                    "{name}[{token}, {slot}] = {value} is outside 0 to {last}"
                )));
            }
        }
    }
    Ok(())
}

/// Fails for a mode that the documentation calls not supported.
pub(super) fn refuse_padded(call: &Call<'_>, at: usize) -> Result<()> {
    if !call.flag_or(at, false)? {
        return Ok(());
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!("{name} = true: the function's documentation supports false only")))
}
