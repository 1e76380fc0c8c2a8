//! Queries and keys in sequences whose lengths the device knows, and keys in blocks that a table names.

use super::expect_only;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::{DType, Layout};

/// How rows of queries or keys belong to sequences.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// A row of as many steps for each sequence.
    Batches,
    /// One sequence after the other.
    Packed,
    /// In blocks that a table names.
    Paged,
}

/// The lengths of sequences, or where they end.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "two for each call")]
enum Lengths {
    /// The host knows them.
    Known(Vec<i64>),
    /// The device does.
    Read(UnaliasedInput),
    /// The device knows where they begin and the last one ends.
    Bounds(UnaliasedInput),
}

impl Lengths {
    fn count(&self) -> usize {
        match self {
            Lengths::Known(values) => values.len(),
            Lengths::Read(read) => read.count(),
            Lengths::Bounds(read) => read.count().saturating_sub(1),
        }
    }

    fn locate<'a>(&self, memory: &Memory<'a>) -> Vec<i64> {
        match self {
            Lengths::Known(values) => values.clone(),
            Lengths::Read(read) | Lengths::Bounds(read) => {
                let access = PositionAccess::new(read.view(memory));
                let first = usize::from(matches!(self, Lengths::Bounds(_)));
                (first..read.count()).map(|at| access.get(&[at])).collect()
            }
        }
    }

    /// What should be 0: where the first sequence begins.
    fn begin(&self, memory: &Memory<'_>) -> i64 {
        match self {
            Lengths::Bounds(read) if read.count() > 0 => {
                PositionAccess::new(read.view(memory)).get(&[0])
            }
            _ => 0,
        }
    }
}

/// Queries and keys in sequences, whose lengths the host or the device knows.
#[derive(Clone)]
pub(super) struct Sequences {
    pub(super) count: usize,
    pub(super) query: Arrangement,
    key: Arrangement,
    /// Steps of queries and of keys in each sequence, or in a block, or in all.
    pub(super) query_steps: usize,
    key_steps: usize,
    pub(super) key_rows: usize,
    query_lengths: Option<Lengths>,
    key_lengths: Option<Lengths>,
    table: Option<UnaliasedInput>,
    is_causal: bool,
    names: [&'static str; 3],
}

/// The sequences, in memory.
pub(super) struct LocatedSequences<'a> {
    all: &'a Sequences,
    query_lengths: Option<Vec<i64>>,
    key_lengths: Option<Vec<i64>>,
    begins: [i64; 2],
    table: Option<PositionAccess<'a>>,
}

/// Where the arguments of sequences are.
pub(super) struct SequenceArguments {
    pub(super) lengths: [usize; 2],
    /// The table of blocks, where there may be one.
    pub(super) table: Option<usize>,
    pub(super) layouts: [usize; 2],
    /// What the layout of keys in blocks is called.
    pub(super) paged: &'static str,
    /// Lists of packed sequences begin with a 0.
    pub(super) bounds: bool,
    pub(super) mode: usize,
    pub(super) windows: [usize; 2],
    /// What the windows may be: they do not count in the modes there are.
    pub(super) widths: &'static [i64],
}

impl Sequences {
    /// Reads them for queries and keys of these layouts; returns these with their rows in one dimension.
    pub(super) fn read(
        call: &mut Call<'_>,
        at: &SequenceArguments,
        query: &Layout,
        key: &Layout,
        outs: &[&Operand],
    ) -> Result<Sequences> {
        let (table, paged) = (at.table, at.paged);
        let arrangement = |call: &Call<'_>, at: usize| match call.text(at)? {
            "" | "BSND" => Ok(Arrangement::Batches),
            "TND" => Ok(Arrangement::Packed),
            other if table.is_some() && other == paged => Ok(Arrangement::Paged),
            other => {
                let name = call.parameter(at);
                let more = if table.is_some() { format!(" or {paged}") } else { String::new() };
                Err(Error::invalid(format!("{name} = {other:?}: expected BSND, TND{more}")))
            }
        };
        let (query_kind, key_kind) =
            (arrangement(call, at.layouts[0])?, arrangement(call, at.layouts[1])?);
        let steps = |call: &Call<'_>, at: usize, layout: &Layout, kind: Arrangement| match (
            layout.dims(),
            kind,
        ) {
            ([rows, _, _], Arrangement::Packed) => Ok((1, *rows)),
            ([count, steps, _, _], Arrangement::Batches | Arrangement::Paged) => {
                Ok((*count, *steps))
            }
            (dims, _) => {
                let name = call.parameter(at);
                Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}, which are not its layout's"
                )))
            }
        };
        if query_kind == Arrangement::Paged {
            let name = call.parameter(at.layouts[0]);
            return Err(Error::invalid(format!("{name}: expected BSND or TND")));
        }
        let (batches, query_steps) = steps(call, 0, query, query_kind)?;
        let (key_count, key_steps) = steps(call, 1, key, key_kind)?;
        for window in at.windows {
            expect_only(call, window, at.widths)?;
        }
        let lengths = |call: &mut Call<'_>, at: usize, needed: bool, bounds: bool| {
            if !call.has(at) {
                let name = call.parameter(at);
                return if needed { Err(Error::Null(format!("{name} is null"))) } else { Ok(None) };
            }
            if let Arg::Ints(values) = call.arg(at) {
                return Ok(Some(Lengths::Known(values.clone())));
            }
            let read = call.read(at, outs)?;
            call.expect_dtype(at, &read, &[DType::Int32])?;
            call.expect_dims(at, &read, &[read.count()])?;
            Ok(Some(if bounds { Lengths::Bounds(read) } else { Lengths::Read(read) }))
        };
        let [query_bounds, key_bounds] =
            [query_kind, key_kind].map(|kind| at.bounds && kind == Arrangement::Packed);
        let is_packed = query_kind == Arrangement::Packed;
        let query_lengths = lengths(call, at.lengths[0], is_packed, query_bounds)?;
        let needs_keys = key_kind != Arrangement::Batches;
        let key_lengths = lengths(call, at.lengths[1], needs_keys, key_bounds)?;
        let count = match query_kind {
            Arrangement::Packed => query_lengths.as_ref().map_or(0, Lengths::count),
            _ => batches,
        };
        for (at, one) in at.lengths.into_iter().zip([&query_lengths, &key_lengths]) {
            if let Some(have) = one.as_ref().map(Lengths::count).filter(|have| *have != count) {
                let name = call.parameter(at);
                return Err(Error::invalid(format!(
                    "{name} is for {have} sequences: expected {count}"
                )));
            }
        }
        if key_kind == Arrangement::Batches && key_count != count {
            let name = call.parameter(1);
            return Err(Error::invalid(format!(
                "{name} has {key_count} sequences: expected {count}"
            )));
        }
        let table = match (key_kind, at.table) {
            (Arrangement::Paged, Some(table)) => {
                let read = call.read(table, outs)?;
                call.expect_dtype(table, &read, &[DType::Int32])?;
                let width = read.dims().get(1).copied().unwrap_or(0);
                call.expect_dims(table, &read, &[count, width])?;
                Some(read)
            }
            _ => None,
        };
        let rows = |layout: &Layout| layout.dims()[..layout.rank() - 2].iter().product();
        Ok(Sequences {
            count,
            query: query_kind,
            key: key_kind,
            query_steps,
            key_steps,
            key_rows: rows(key),
            query_lengths,
            key_lengths,
            table,
            is_causal: expect_only(call, at.mode, &[0, 3])? == 3,
            names: [at.lengths[0], at.lengths[1], at.table.unwrap_or(usize::MAX)]
                .map(|at| call.parameter(at)),
        })
    }

    pub(super) fn locate<'a>(&'a self, memory: &Memory<'a>) -> LocatedSequences<'a> {
        let numbers = |lengths: &Option<Lengths>| lengths.as_ref().map(|one| one.locate(memory));
        let begin = |lengths: &Option<Lengths>| lengths.as_ref().map_or(0, |one| one.begin(memory));
        LocatedSequences {
            all: self,
            begins: [begin(&self.query_lengths), begin(&self.key_lengths)],
            query_lengths: numbers(&self.query_lengths),
            key_lengths: numbers(&self.key_lengths),
            table: self.table.map(|read| PositionAccess::new(read.view(memory))),
        }
    }

    /// The most keys of a sequence.
    pub(super) fn most_keys(&self) -> usize {
        match self.key {
            Arrangement::Paged => self.table.map_or(0, |read| read.dims()[1]) * self.key_steps,
            _ => self.key_steps,
        }
    }
}

impl LocatedSequences<'_> {
    /// The start and the end that a list of lengths gives a sequence.
    fn range(lengths: &Option<Vec<i64>>, kind: Arrangement, steps: usize, at: usize) -> (i64, i64) {
        let number = |at: usize| lengths.as_ref().map(|one| one[at]);
        match kind {
            Arrangement::Packed => {
                let start = if at == 0 { Some(0) } else { number(at - 1) };
                (start.unwrap_or(0), number(at).unwrap_or(0))
            }
            Arrangement::Batches => {
                let start = (at * steps) as i64;
                (start, start + number(at).unwrap_or(steps as i64))
            }
            Arrangement::Paged => (0, number(at).unwrap_or(0)),
        }
    }

    fn queries(&self, at: usize) -> (i64, i64) {
        LocatedSequences::range(&self.query_lengths, self.all.query, self.all.query_steps, at)
    }

    pub(super) fn keys(&self, at: usize) -> (i64, i64) {
        LocatedSequences::range(&self.key_lengths, self.all.key, self.all.key_steps, at)
    }

    /// Fails where a length or a block leads out of the tensors.
    pub(super) fn check(&self) -> Outcome {
        if let Some(which) = self.begins.iter().position(|begin| *begin != 0) {
            let (name, value) = (self.all.names[which], self.begins[which]);
            return Err(Fault(format!("{name}[0] = {value}: expected 0")));
        }
        for at in 0..self.all.count {
            let most_keys = self.all.most_keys() as i64;
            let checks = [
                (self.queries(at), self.all.query, self.all.query_steps as i64, 0),
                (self.keys(at), self.all.key, most_keys, 1),
            ];
            for ((start, end), kind, steps, name) in checks {
                let limit = if kind == Arrangement::Packed { steps } else { start + steps };
                if end < start || end > limit || start < 0 {
                    let (name, value) = (
                        self.all.names[name],
                        end - if kind == Arrangement::Packed { 0 } else { start },
                    );
                    return Err(Fault(format!("{name}[{at}] = {value} is outside 0 to {steps}")));
                }
            }
            if let Some(table) = &self.table {
                let blocks = self.all.key_rows / self.all.key_steps.max(1);
                let used = (self.keys(at).1 as usize).div_ceil(self.all.key_steps.max(1));
                for block in 0..used {
                    let value: i64 = table.get(&[at, block]);
                    if !(0..blocks as i64).contains(&value) {
                        let (name, last) = (self.all.names[2], blocks as i64 - 1);
                        return Err(Fault(format!(
                            "{name}[{at}, {block}] = {value} is outside 0 to {last}"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// The sequence of a query and how many of its keys the query may see; `None` for a row that is no query.
    pub(super) fn visible(&self, query: usize) -> Option<(usize, usize)> {
        let at = match self.all.query {
            Arrangement::Packed => {
                (0..self.all.count).find(|at| (query as i64) < self.queries(*at).1)?
            }
            _ => query / self.all.query_steps.max(1),
        };
        let (start, end) = self.queries(at);
        let (first, last) = self.keys(at);
        let (step, keys) = (query as i64 - start, last - first);
        if step < 0 || query as i64 >= end {
            return None;
        }
        let seen = if self.all.is_causal { keys - (end - start) + step + 1 } else { keys };
        Some((at, seen.clamp(0, keys) as usize))
    }

    /// The row of a key of a sequence.
    pub(super) fn row(&self, at: usize, key: usize) -> usize {
        let row = match &self.table {
            Some(table) => {
                let steps = self.all.key_steps.max(1);
                let block = table.get::<i64>(&[at, key / steps]).max(0) as usize;
                block * steps + key % steps
            }
            None => self.keys(at).0.max(0) as usize + key,
        };
        row.min(self.all.key_rows.saturating_sub(1))
    }
}
