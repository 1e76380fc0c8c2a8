//! Lists that say how many rows each group has.

use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand};
use cairn_tensor::DType;
use cairn_tensor::kernels::access::PositionAccess;
use std::ops::Range;

/// What the numbers of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    /// Where each group ends.
    Ends,
    /// How long each group is.
    Lengths,
    /// Pairs: a group, and its length.
    Pairs,
}

impl ListKind {
    /// The kind with this number.
    pub(super) fn read(call: &Call<'_>, at: usize) -> Result<ListKind> {
        match call.int_or(at, 0)? {
            0 => Ok(ListKind::Ends),
            1 => Ok(ListKind::Lengths),
            2 => Ok(ListKind::Pairs),
            other => {
                let name = call.parameter(at);
                Err(Error::invalid(format!("{name} = {other}: expected 0, 1 or 2")))
            }
        }
    }
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one for each call")]
enum List {
    Known(Vec<i64>),
    Read(Box<UnaliasedInput>),
}

/// The rows of each group, by a list of the caller.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    list: List,
    kind: ListKind,
    name: &'static str,
    entries: usize,
    /// How many groups there are.
    count: usize,
}

impl Groups {
    /// Reads the list at `at`, a tensor or numbers, of `count` groups.
    pub(super) fn read(
        call: &mut Call<'_>,
        at: usize,
        kind: ListKind,
        count: usize,
        outs: &[&Operand],
    ) -> Result<Groups> {
        let name = call.parameter(at);
        let (list, entries) = match call.arg(at) {
            Arg::Ints(values) => (List::Known(values.clone()), values.len()),
            _ => {
                let read = call.read(at, outs)?;
                call.expect_dtype(at, &read, &[DType::Int64])?;
                let rank = if kind == ListKind::Pairs { 2 } else { 1 };
                if read.rank() != rank || (rank == 2 && read.dims()[1] != 2) {
                    let dims = read.dims();
                    let want = if rank == 2 { "pairs" } else { "one dimension" };
                    return Err(Error::invalid(format!("{name} {dims:?}: expected {want}")));
                }
                let entries = read.dims()[0];
                (List::Read(Box::new(read)), entries)
            }
        };
        let fits = if kind == ListKind::Pairs { entries <= count } else { entries == count };
        if !fits {
            return Err(Error::invalid(format!(
                "{name} has {entries} numbers, but there are {count} groups"
            )));
        }
        Ok(Groups { list, kind, name, entries, count })
    }

    /// Calls `visit` with each group that the list names, in its order, and its rows; all of them are below `limit`. Where the
    /// list is wrong nothing is visited.
    pub(super) fn visit(
        &self,
        memory: &Memory<'_>,
        limit: usize,
        mut visit: impl FnMut(usize, Range<usize>) -> Outcome,
    ) -> Outcome {
        let access = match &self.list {
            List::Known(_) => None,
            List::Read(read) => Some(PositionAccess::new(read.view(memory))),
        };
        let number = |at: usize, column: usize| match (&access, &self.list, self.kind) {
            (Some(access), _, ListKind::Pairs) => access.get(&[at, column]),
            (Some(access), ..) => access.get(&[at]),
            (None, List::Known(values), _) => values[at],
            (None, List::Read(_), _) => 0,
        };
        for checked in [false, true] {
            let mut end = 0usize;
            for at in 0..self.entries {
                let value = number(at, 1);
                let group = match self.kind {
                    ListKind::Pairs => number(at, 0),
                    _ => at as i64,
                };
                let length = match self.kind {
                    ListKind::Ends => value - end as i64,
                    _ => value,
                };
                let (name, count) = (self.name, self.count);
                let Some(group) = usize::try_from(group).ok().filter(|group| *group < count) else {
                    return Err(Fault(format!(
                        "{name}[{at}][0] = {group} is outside 0 to {}",
                        count as i64 - 1
                    )));
                };
                let Ok(length) = usize::try_from(length) else {
                    return Err(Fault(match self.kind {
                        ListKind::Ends => {
                            format!(
                                "{name}[{at}] = {value} is less than {end}, where the group begins"
                            )
                        }
                        _ => format!("{name}[{at}] = {value} is negative"),
                    }));
                };
                let start = end;
                end = end.saturating_add(length);
                if end > limit {
                    return Err(Fault(format!(
                        "{name}[{at}] = {value}: its group ends at {end}, but there are {limit}"
                    )));
                }
                if checked && length > 0 {
                    visit(group, start..end)?;
                }
            }
        }
        Ok(())
    }
}
