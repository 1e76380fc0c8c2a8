//! Attention to keys that indices select, the gradients of that, and the choice of the keys that matter most.

use super::sorting::overwritten_workspace;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand, Plan};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::order::entry_bytes;
use cairn_tensor::kernels::selected_attention::{
    MOST_FEATURES, Selected, SelectedGradients, attend, gradients, importance,
};
use cairn_tensor::kernels::sort::{Ranked, Selection, ordered};
use cairn_tensor::{DType, Layout, Scalar};

const TYPES: &[DType] = &[DType::Float16, DType::Bf16];

/// Queries that keys are chosen for together.
const CHUNK: usize = 64;

/// The sizes of a tensor of rows, heads and features.
fn three(call: &Call<'_>, at: usize, dims: &[usize]) -> Result<[usize; 3]> {
    <[usize; 3]>::try_from(dims).map_err(|_| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} has the sizes {dims:?}: expected 3"))
    })
}

/// Fails for a number that is not the one there is.
fn expect_only(call: &Call<'_>, at: usize, allowed: &[i64]) -> Result<i64> {
    let value = call.int(at)?;
    if allowed.contains(&value) {
        return Ok(value);
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!("{name} = {value}: expected one of {allowed:?}")))
}

/// Ends of sequences that the host knows: the first and last row of the sequence of each row.
fn ends(call: &Call<'_>, at: usize, rows: usize) -> Result<Vec<usize>> {
    let (values, name) = (call.ints(at)?, call.parameter(at));
    let mut before = 0;
    for value in &values {
        match usize::try_from(*value).ok().filter(|end| (before..=rows).contains(end)) {
            Some(end) => before = end,
            None => {
                return Err(Error::invalid(format!(
                    "{name} = {values:?}: {value} is outside {before} to {rows}"
                )));
            }
        }
    }
    if before != rows {
        return Err(Error::invalid(format!(
            "{name} = {values:?} ends at {before}: expected {rows}"
        )));
    }
    Ok(values.iter().map(|one| *one as usize).collect())
}

/// What forward and backward of the attention to blocks have in common.
#[derive(Clone)]
struct Blocks {
    query: UnaliasedInput,
    key: UnaliasedInput,
    value: UnaliasedInput,
    chosen: UnaliasedInput,
    mask: Option<UnaliasedInput>,
    is_causal: bool,
    query_ends: Vec<usize>,
    key_ends: Vec<usize>,
    size: usize,
    count: usize,
    scale: f32,
    name: &'static str,
}

/// Where the arguments of the attention to blocks are.
struct BlockArguments {
    chosen: usize,
    mask: usize,
    query_ends: usize,
    key_ends: usize,
    scale: usize,
    heads: usize,
    layout: usize,
    mode: usize,
    size: usize,
    count: usize,
}

impl Blocks {
    fn read(call: &mut Call<'_>, at: &BlockArguments, outs: &[&Operand]) -> Result<Blocks> {
        let layout = call.text(at.layout)?;
        if layout != "TND" {
            let name = call.parameter(at.layout);
            return Err(Error::invalid(format!("{name} = {layout:?}: expected TND")));
        }
        let (query, key, value) = (call.read(0, outs)?, call.read(1, outs)?, call.read(2, outs)?);
        call.expect_dtype(0, &query, TYPES)?;
        call.expect_same(1, &key, 0, &query)?;
        call.expect_same(2, &value, 0, &query)?;
        let [queries, heads, features] = three(call, 0, query.dims())?;
        let [rows, key_heads, _] = three(call, 1, key.dims())?;
        let [_, _, width] = three(call, 2, value.dims())?;
        call.expect_dims(1, &key, &[rows, key_heads, features])?;
        call.expect_dims(2, &value, &[rows, key_heads, width])?;
        let named = call.int(at.heads)?;
        if key_heads == 0 || !heads.is_multiple_of(key_heads) || named != heads as i64 {
            let name = call.parameter(at.heads);
            return Err(Error::invalid(format!(
                "{name} = {named}, but queries have {heads} heads and keys {key_heads}"
            )));
        }
        if features > MOST_FEATURES || width > MOST_FEATURES {
            return Err(Error::invalid(format!(
                "{features} features: expected at most {MOST_FEATURES}"
            )));
        }
        let query_ends = ends(call, at.query_ends, queries)?;
        let key_ends = ends(call, at.key_ends, rows)?;
        if query_ends.len() != key_ends.len() {
            let (a, b) = (call.parameter(at.query_ends), call.parameter(at.key_ends));
            return Err(Error::invalid(format!("{a} and {b} have different lengths")));
        }
        let (size, count) = (call.int(at.size)?, call.int(at.count)?);
        let (Some(size), Some(count)) =
            (usize::try_from(size).ok().filter(|one| *one > 0), usize::try_from(count).ok())
        else {
            let name = call.parameter(at.size);
            return Err(Error::invalid(format!("{name} = {size}: expected a number above 0")));
        };
        let chosen = call.read(at.chosen, outs)?;
        call.expect_dtype(at.chosen, &chosen, &[DType::Int32])?;
        call.expect_dims(at.chosen, &chosen, &[queries, key_heads, count])?;
        let mode = expect_only(call, at.mode, &[0, 2])?;
        let has_mask = call.has(at.mask);
        let mask = match has_mask && mode == 0 {
            true => {
                let read = call.read(at.mask, outs)?;
                call.expect_dtype(at.mask, &read, &[DType::Bool, DType::Uint8])?;
                let longest = |ends: &[usize]| {
                    let starts = std::iter::once(0).chain(ends.iter().copied());
                    starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0)
                };
                let (s1, s2) = (longest(&query_ends), longest(&key_ends));
                if read.rank() != 2 || read.dims()[0] < s1 || read.dims()[1] < s2 {
                    let (name, dims) = (call.parameter(at.mask), read.dims());
                    return Err(Error::invalid(format!(
                        "{name} has the sizes {dims:?}: expected at least {:?}",
                        [s1, s2]
                    )));
                }
                Some(read)
            }
            false => None,
        };
        key.touch_by_index(call);
        value.touch_by_index(call);
        Ok(Blocks {
            query,
            key,
            value,
            chosen,
            mask,
            is_causal: has_mask && mode == 2,
            query_ends,
            key_ends,
            size,
            count,
            scale: call.float(at.scale)? as f32,
            name: call.parameter(at.chosen),
        })
    }

    /// The first query and the keys of the sequence that a query belongs to.
    fn sequence(&self, query: usize) -> (usize, std::ops::Range<usize>) {
        let at = self.query_ends.partition_point(|end| *end <= query);
        let start = |ends: &[usize]| if at == 0 { 0 } else { ends[at - 1] };
        (start(&self.query_ends), start(&self.key_ends)..self.key_ends[at])
    }

    fn check(&self, memory: &Memory<'_>) -> Outcome {
        let chosen = PositionAccess::new(self.chosen.view(memory));
        for query in 0..self.query.dims()[0] {
            let blocks = self.sequence(query).1.len().div_ceil(self.size);
            for head in 0..self.key.dims()[1] {
                for at in 0..self.count {
                    let value: i64 = chosen.get(&[query, head, at]);
                    if !(0..blocks as i64).contains(&value) {
                        let (name, last) = (self.name, blocks as i64 - 1);
                        return Err(Fault(format!(
                            "{name}[{query}, {head}, {at}] = {value} is outside 0 to {last}"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of the chosen keys of a query, as the kernels want them.
    fn rows<'a>(
        &'a self,
        memory: &Memory<'a>,
    ) -> impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync + 'a {
        let chosen = PositionAccess::new(self.chosen.prepared(memory));
        let mask = self.mask.map(|read| PositionAccess::new(read.view(memory)));
        move |query, head, number| {
            let (block, at) = (number / self.size, number % self.size);
            if block >= self.count {
                return None;
            }
            let (first, keys) = self.sequence(query);
            let place = chosen.get::<i64>(&[query, head, block]).max(0) as usize * self.size + at;
            let step = query - first;
            let hidden = place >= keys.len()
                || (self.is_causal && place > step)
                || mask.as_ref().is_some_and(|mask| mask.get::<bool>(&[step, place]));
            Some((!hidden).then_some(keys.start + place))
        }
    }

    fn tensors<'a>(&self, memory: &Memory<'a>) -> Selected<'a> {
        Selected {
            query: self.query.view(memory),
            key: self.key.view(memory),
            value: self.value.view(memory),
            rotary: None,
            scale: self.scale,
        }
    }
}

/// Arguments: query, key, value, chosen blocks, mask, ends of queries, ends of keys, scale, heads, layout, mode, size of a block,
/// number of blocks, greatest products, sums, out.
fn to_blocks(call: &mut Call<'_>) -> Result<Plan> {
    let (greatest, sums, out) = (call.output(13)?, call.output(14)?, call.output(15)?);
    let at = BlockArguments {
        chosen: 3,
        mask: 4,
        query_ends: 5,
        key_ends: 6,
        scale: 7,
        heads: 8,
        layout: 9,
        mode: 10,
        size: 11,
        count: 12,
    };
    let blocks = Blocks::read(call, &at, &[&greatest, &sums, &out])?;
    let (queries, heads) = (blocks.query.dims()[0], blocks.query.dims()[1]);
    call.expect_dims(15, &out, &[queries, heads, blocks.value.dims()[2]])?;
    call.expect_same(15, &out, 0, &blocks.query)?;
    for (at, one) in [(13, &greatest), (14, &sums)] {
        call.expect_dims(at, one, &[queries, heads, 8])?;
        call.expect_dtype(at, one, &[DType::Float])?;
    }
    call.plan(move |memory| {
        blocks.check(memory)?;
        let stats = [greatest, sums].map(|one| PositionAccessMut::new(memory.out(&one)));
        let put = |query: usize, head: usize, most: f32, sum: f32| {
            stats[0].put_line(&[query, head, 0], &[most; 8]);
            stats[1].put_line(&[query, head, 0], &[sum; 8]);
        };
        let rows = blocks.rows(memory);
        attend(memory.parallel, memory.out(&out), &blocks.tensors(memory), rows, put);
        Ok(())
    })
}

/// Arguments: query, key, value, out, gradient, greatest products, sums, chosen blocks, ends of queries, ends of keys, mask,
/// scale, size of a block, number of blocks, heads, layout, mode, out of query, out of key, out of value.
fn to_blocks_gradients(call: &mut Call<'_>) -> Result<Plan> {
    let targets = [call.output(17)?, call.output(18)?, call.output(19)?];
    let outs = [&targets[0], &targets[1], &targets[2]];
    let at = BlockArguments {
        chosen: 7,
        mask: 10,
        query_ends: 8,
        key_ends: 9,
        scale: 11,
        heads: 14,
        layout: 15,
        mode: 16,
        size: 12,
        count: 13,
    };
    let blocks = Blocks::read(call, &at, &outs)?;
    let (queries, heads) = (blocks.query.dims()[0], blocks.query.dims()[1]);
    let (out, grad) = (call.read(3, &outs)?, call.read(4, &outs)?);
    for (at, one) in [(3, &out), (4, &grad)] {
        call.expect_dims(at, one, &[queries, heads, blocks.value.dims()[2]])?;
        call.expect_same(at, one, 0, &blocks.query)?;
    }
    let (greatest, sums) = (call.read(5, &outs)?, call.read(6, &outs)?);
    for (at, one) in [(5, &greatest), (6, &sums)] {
        call.expect_dims(at, one, &[queries, heads, 8])?;
        call.expect_dtype(at, one, &[DType::Float])?;
    }
    let sources = [&blocks.query, &blocks.key, &blocks.value];
    for ((at, one), source) in [17, 18, 19].into_iter().zip(&targets).zip(sources) {
        call.expect_dims(at, one, source.dims())?;
        call.expect_dtype(at, one, &[blocks.query.dtype, DType::Float])?;
    }
    let scratch = targets.map(|one| call.scratch(DType::Float, one.dims()));
    call.plan(move |memory| {
        blocks.check(memory)?;
        let parallel = memory.parallel;
        let [query, key, value] = scratch.map(|one| memory.scratch(&one));
        [key, value].iter().for_each(|one| fill_scalar(parallel, *one, Scalar::from(0)));
        let given = SelectedGradients {
            out: out.view(memory),
            grad: grad.view(memory),
            greatest: greatest.view(memory),
            sums: sums.view(memory),
            query,
            key,
            value,
        };
        gradients(parallel, &blocks.tensors(memory), &given, blocks.rows(memory));
        for (target, sums) in targets.iter().zip([query, key, value]) {
            copy(parallel, memory.out(target), sums.view());
        }
        Ok(())
    })
}

/// How rows of queries or keys belong to sequences.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// A row of as many steps for each sequence.
    Batches,
    /// One sequence after the other.
    Packed,
    /// In blocks that a table names.
    Paged,
}

/// Queries and keys in sequences whose lengths the device knows.
#[derive(Clone, Copy)]
struct Sequences {
    count: usize,
    query: Arrangement,
    key: Arrangement,
    /// Steps of queries and of keys in each sequence, or in a block, or in all.
    query_steps: usize,
    key_steps: usize,
    key_rows: usize,
    query_lengths: Option<UnaliasedInput>,
    key_lengths: Option<UnaliasedInput>,
    table: Option<UnaliasedInput>,
    is_causal: bool,
    names: [&'static str; 3],
}

/// The sequences, in memory.
struct LocatedSequences<'a> {
    all: Sequences,
    query_lengths: Option<PositionAccess<'a>>,
    key_lengths: Option<PositionAccess<'a>>,
    table: Option<PositionAccess<'a>>,
}

/// Where the arguments of sequences are.
struct SequenceArguments {
    lengths: [usize; 2],
    table: usize,
    layouts: [usize; 2],
    mode: usize,
    windows: [usize; 2],
}

impl Sequences {
    /// Reads them for queries and keys of these layouts; returns these with their rows in one dimension.
    fn read(
        call: &mut Call<'_>,
        at: &SequenceArguments,
        query: &Layout,
        key: &Layout,
        outs: &[&Operand],
    ) -> Result<Sequences> {
        let arrangement = |call: &Call<'_>, at: usize| match call.text(at)? {
            "" | "BSND" => Ok(Arrangement::Batches),
            "TND" => Ok(Arrangement::Packed),
            "PA_BSND" => Ok(Arrangement::Paged),
            other => {
                let name = call.parameter(at);
                Err(Error::invalid(format!("{name} = {other:?}: expected BSND, TND or PA_BSND")))
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
        for at in at.windows {
            if call.int(at)? != i64::MAX {
                let (name, value) = (call.parameter(at), call.int(at)?);
                return Err(Error::invalid(format!("{name} = {value}: expected 2^63 - 1")));
            }
        }
        let lengths = |call: &mut Call<'_>, at: usize, needed: bool| {
            if !call.has(at) {
                let name = call.parameter(at);
                return if needed { Err(Error::Null(format!("{name} is null"))) } else { Ok(None) };
            }
            let read = call.read(at, outs)?;
            call.expect_dtype(at, &read, &[DType::Int32])?;
            Ok(Some(read))
        };
        let query_lengths = lengths(call, at.lengths[0], query_kind == Arrangement::Packed)?;
        let key_lengths = lengths(call, at.lengths[1], key_kind != Arrangement::Batches)?;
        let count = match query_kind {
            Arrangement::Packed => query_lengths.map_or(0, |read| read.count()),
            _ => batches,
        };
        for (at, one) in at.lengths.into_iter().zip([&query_lengths, &key_lengths]) {
            if let Some(one) = one {
                call.expect_dims(at, one, &[count])?;
            }
        }
        if key_kind == Arrangement::Batches && key_count != count {
            let name = call.parameter(1);
            return Err(Error::invalid(format!(
                "{name} has {key_count} sequences: expected {count}"
            )));
        }
        let table = match key_kind {
            Arrangement::Paged => {
                let read = call.read(at.table, outs)?;
                call.expect_dtype(at.table, &read, &[DType::Int32])?;
                let width = read.dims().get(1).copied().unwrap_or(0);
                call.expect_dims(at.table, &read, &[count, width])?;
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
            names: [at.lengths[0], at.lengths[1], at.table].map(|at| call.parameter(at)),
        })
    }

    fn locate<'a>(&self, memory: &Memory<'a>) -> LocatedSequences<'a> {
        let access = |read: UnaliasedInput| PositionAccess::new(read.view(memory));
        LocatedSequences {
            all: *self,
            query_lengths: self.query_lengths.map(access),
            key_lengths: self.key_lengths.map(access),
            table: self.table.map(access),
        }
    }

    /// The most keys of a sequence.
    fn most_keys(&self) -> usize {
        match self.key {
            Arrangement::Paged => self.table.map_or(0, |read| read.dims()[1]) * self.key_steps,
            _ => self.key_steps,
        }
    }
}

impl LocatedSequences<'_> {
    /// The start and the end that a list of lengths gives a sequence.
    fn range(
        lengths: &Option<PositionAccess<'_>>,
        kind: Arrangement,
        steps: usize,
        at: usize,
    ) -> (i64, i64) {
        let number = |at: usize| lengths.as_ref().map(|one| one.get::<i64>(&[at]));
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

    fn keys(&self, at: usize) -> (i64, i64) {
        LocatedSequences::range(&self.key_lengths, self.all.key, self.all.key_steps, at)
    }

    /// Fails where a length or a block leads out of the tensors.
    fn check(&self) -> Outcome {
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
    fn visible(&self, query: usize) -> Option<(usize, usize)> {
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
    fn row(&self, at: usize, key: usize) -> usize {
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

/// Rows, heads and features of a tensor whose first dimensions are rows.
fn as_rows(call: &Call<'_>, at: usize, layout: &Layout) -> Result<Layout> {
    let rank = layout.rank();
    let dims = layout.dims();
    let rows = (rank >= 3).then(|| dims[..rank - 2].iter().product());
    let flat = rows.and_then(|rows| layout.reshaped(&[rows, dims[rank - 2], dims[rank - 1]]));
    flat.ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} ({layout}) has no rows in order"))
    })
}

/// Arguments: query, key, value, chosen, table, lengths of queries, lengths of keys, rotary queries, rotary keys, scale, size of a
/// block, layouts of queries and keys, mode, two windows, attention's mode, whether statistics are wanted, out, greatest
/// products, sums.
fn sparse_flash(call: &mut Call<'_>) -> Result<Plan> {
    expect_only(call, 16, &[2])?;
    let out = call.output(18)?;
    let stats = match call.flag(17)? {
        true => Some([call.output(19)?, call.output(20)?]),
        false => None,
    };
    let mut outs = vec![&out];
    outs.extend(stats.iter().flatten());
    let (query, key, value) = (call.read(0, &outs)?, call.read(1, &outs)?, call.read(2, &outs)?);
    call.expect_dtype(0, &query, TYPES)?;
    for (at, one) in [(1, &key), (2, &value)] {
        call.expect_same(at, one, 0, &query)?;
    }
    call.expect_dims(2, &value, key.dims())?;
    call.expect_same(18, &out, 0, &query)?;
    call.expect_dims(18, &out, query.dims())?;
    let at = SequenceArguments {
        lengths: [5, 6],
        table: 4,
        layouts: [11, 12],
        mode: 13,
        windows: [14, 15],
    };
    let sequences = Sequences::read(call, &at, &query, &key, &outs)?;
    let (query_rows, key_rows) = (as_rows(call, 0, &query)?, as_rows(call, 1, &key)?);
    let value_rows = as_rows(call, 2, &value)?;
    let [queries, heads, features] = three(call, 0, query_rows.dims())?;
    let [_, key_heads, key_features] = three(call, 1, key_rows.dims())?;
    if key_heads == 0 || !heads.is_multiple_of(key_heads) || key_features != features {
        let (a, b) = (call.parameter(0), call.parameter(1));
        return Err(Error::invalid(format!(
            "{a} has {heads} heads of {features}, {b} {key_heads} of {key_features}"
        )));
    }
    let (rotary_query, rotary_key) = (call.read(7, &outs)?, call.read(8, &outs)?);
    call.expect_same(7, &rotary_query, 0, &query)?;
    call.expect_same(8, &rotary_key, 0, &query)?;
    let rotary = [as_rows(call, 7, &rotary_query)?, as_rows(call, 8, &rotary_key)?];
    let more = rotary[0].dims()[2];
    call.expect_dims(7, &rotary[0], &[queries, heads, more])?;
    call.expect_dims(8, &rotary[1], &[sequences.key_rows, key_heads, more])?;
    if features + more > MOST_FEATURES {
        return Err(Error::invalid(format!(
            "{features} and {more} features: expected at most {MOST_FEATURES}"
        )));
    }
    let chosen = call.read(3, &outs)?;
    call.expect_dtype(3, &chosen, &[DType::Int32])?;
    let chosen_rows = as_rows(call, 3, &chosen)?;
    let count = chosen_rows.dims()[2];
    call.expect_dims(3, &chosen_rows, &[queries, key_heads, count])?;
    let size = call.int(10)?;
    let Some(size) = usize::try_from(size).ok().filter(|size| *size > 0) else {
        let name = call.parameter(10);
        return Err(Error::invalid(format!("{name} = {size}: expected a number above 0")));
    };
    let group = heads / key_heads;
    let mut stat_layouts = [*query; 2];
    if let Some(stats) = &stats {
        for ((at, one), layout) in [19, 20].into_iter().zip(stats).zip(&mut stat_layouts) {
            call.expect_dtype(at, one, &[DType::Float])?;
            // Heads of keys before queries: as queries, key heads, group.
            *layout = match sequences.query {
                Arrangement::Packed => {
                    call.expect_dims(at, one, &[key_heads, queries, group])?;
                    one.layout().transposed(0, 1)
                }
                _ => {
                    let (count, steps) = (sequences.count, sequences.query_steps);
                    call.expect_dims(at, one, &[count, key_heads, steps, group])?;
                    one.layout().transposed(1, 2)
                }
            };
        }
    }
    for one in [&key, &value, &rotary_key] {
        one.touch_by_index(call);
    }
    let scale = call.float(9)? as f32;
    let out_rows = as_rows(call, 18, out.layout())?;
    let out = out.with_layout(out_rows);
    let name = call.parameter(3);
    let steps = sequences.query_steps.max(1);
    let is_packed = sequences.query == Arrangement::Packed;
    call.plan(move |memory| {
        let located = sequences.locate(memory);
        located.check()?;
        let chosen = PositionAccess::new(chosen.with_layout(chosen_rows).view(memory));
        for query in 0..queries {
            let Some((at, seen)) = located.visible(query) else { continue };
            let (first, last) = located.keys(at);
            let blocks = ((last - first) as usize).div_ceil(size);
            for head in 0..key_heads {
                for at in 0..count.min(seen.div_ceil(size)) {
                    let value: i64 = chosen.get(&[query, head, at]);
                    if value < -1 || value >= blocks as i64 {
                        let last = blocks as i64 - 1;
                        return Err(Fault(format!(
                            "{name}[{query}, {head}, {at}] = {value} is outside -1 to {last}"
                        )));
                    }
                }
            }
        }
        let rows = |query: usize, head: usize, number: usize| {
            let (at, seen) = located.visible(query)?;
            let block = number / size;
            if block >= count.min(seen.div_ceil(size)) {
                return None;
            }
            let place = usize::try_from(chosen.get::<i64>(&[query, head, block])).ok()?;
            let key = place * size + number % size;
            Some((key < seen).then(|| located.row(at, key)))
        };
        let tensors = Selected {
            query: query.with_layout(query_rows).view(memory),
            key: key.with_layout(key_rows).view(memory),
            value: value.with_layout(value_rows).view(memory),
            rotary: Some((
                rotary_query.with_layout(rotary[0]).view(memory),
                rotary_key.with_layout(rotary[1]).view(memory),
            )),
            scale,
        };
        let targets = stats.map(|stats| {
            let [a, b] = stats;
            [(a, stat_layouts[0]), (b, stat_layouts[1])]
                .map(|(one, layout)| PositionAccessMut::new(memory.out(&one.with_layout(layout))))
        });
        let put = |query: usize, head: usize, most: f32, sum: f32| {
            let Some([greatest, sums]) = &targets else { return };
            let (key_head, member) = (head / group, head % group);
            if is_packed {
                greatest.set(&[query, key_head, member], most);
                sums.set(&[query, key_head, member], sum);
            } else {
                let at = [query / steps, query % steps, key_head, member];
                greatest.set(&at, most);
                sums.set(&at, sum);
            }
        };
        attend(memory.parallel, memory.out(&out), &tensors, rows, put);
        Ok(())
    })
}

/// Arguments: query, key, weights, lengths of queries, lengths of keys, table, layouts of queries and keys, how many are chosen,
/// mode, two windows, whether values are wanted, numbers, values.
fn indexer(call: &mut Call<'_>) -> Result<Plan> {
    let numbers = call.output(13)?;
    let values = match call.flag(12)? {
        true => Some(call.output(14)?),
        false => None,
    };
    let mut outs = vec![&numbers];
    outs.extend(&values);
    let (query, key, weights) = (call.read(0, &outs)?, call.read(1, &outs)?, call.read(2, &outs)?);
    call.expect_dtype(0, &query, TYPES)?;
    call.expect_same(1, &key, 0, &query)?;
    call.expect_dtype(2, &weights, &[query.dtype, DType::Float])?;
    let at = SequenceArguments {
        lengths: [3, 4],
        table: 5,
        layouts: [6, 7],
        mode: 9,
        windows: [10, 11],
    };
    let sequences = Sequences::read(call, &at, &query, &key, &outs)?;
    let (query_rows, key_rows) = (as_rows(call, 0, &query)?, as_rows(call, 1, &key)?);
    let [queries, heads, features] = three(call, 0, query_rows.dims())?;
    let [_, key_heads, key_features] = three(call, 1, key_rows.dims())?;
    if key_heads == 0
        || !heads.is_multiple_of(key_heads)
        || key_features != features
        || features > MOST_FEATURES
    {
        let (a, b) = (call.parameter(0), call.parameter(1));
        return Err(Error::invalid(format!(
            "{a} has {heads} heads of {features}, {b} {key_heads} of {key_features}"
        )));
    }
    call.expect_dims(2, &weights, &query.dims()[..query.rank() - 1])?;
    let Some(weight_rows) = weights.reshaped(&[queries, heads]) else {
        let name = call.parameter(2);
        return Err(Error::invalid(format!("{name} ({}) has no rows in order", *weights)));
    };
    let count = call.int(8)?;
    let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
        let name = call.parameter(8);
        return Err(Error::invalid(format!("{name} = {count}: expected a number above 0")));
    };
    let mut dims = cairn_tensor::Dims::new(&query.dims()[..query.rank() - 2]);
    dims.push(key_heads);
    dims.push(count);
    call.expect_dims(13, &numbers, &dims)?;
    call.expect_dtype(13, &numbers, &[DType::Int32])?;
    let number_rows = as_rows(call, 13, numbers.layout())?;
    let value_rows = match &values {
        Some(values) => {
            call.expect_dims(14, values, &dims)?;
            call.expect_same(14, values, 0, &query)?;
            Some(as_rows(call, 14, values.layout())?)
        }
        None => None,
    };
    key.touch_by_index(call);
    let most = sequences.most_keys();
    let (chunk, kept) = (queries.min(CHUNK), count.min(most));
    let scores = call.scratch(DType::Float, &[chunk, key_heads, most]);
    let best = call.scratch(DType::Float, &[chunk, key_heads, kept]);
    let best_numbers = call.scratch(DType::Int32, &[chunk, key_heads, kept]);
    let bytes = chunk * key_heads * most * entry_bytes(DType::Float, most);
    let entries = call.scratch(DType::Uint8, &[bytes]);
    call.plan(move |memory| {
        let located = sequences.locate(memory);
        located.check()?;
        let parallel = memory.parallel;
        let query = query.with_layout(query_rows).view(memory);
        let key = key.with_layout(key_rows).view(memory);
        let weights = weights.with_layout(weight_rows).view(memory);
        let to = PositionAccessMut::new(memory.out(&numbers.with_layout(number_rows)));
        let to_values = values
            .zip(value_rows)
            .map(|(one, rows)| PositionAccessMut::new(memory.out(&one.with_layout(rows))));
        for first in (0..queries).step_by(CHUNK) {
            let length = CHUNK.min(queries - first);
            let part = |scratch| {
                let view: cairn_tensor::ViewMut<'_> = memory.scratch(scratch);
                let layout = view.layout().sliced(0, 0, length, 1);
                view.with_layout(layout).expect("no more than a chunk")
            };
            let (scores, best, best_numbers) = (part(&scores), part(&best), part(&best_numbers));
            let slice = |view: &cairn_tensor::View<'_>| view.layout().sliced(0, first, length, 1);
            let (queries, factors) = (
                query.with_layout(slice(&query)).expect("queries"),
                weights.with_layout(slice(&weights)).expect("weights"),
            );
            let rows = |at: usize, _: usize, number: usize| {
                let (sequence, seen) = located.visible(first + at)?;
                (number < seen).then(|| Some(located.row(sequence, number)))
            };
            importance(parallel, scores, queries, key, factors, rows);
            let ranked = Ranked {
                values: Some(best),
                indices: Some(best_numbers),
                scratch: memory.scratch(&entries),
            };
            ordered(parallel, scores.view(), 2, true, Selection::First(kept), &ranked)
                .map_err(overwritten_workspace)?;
            let (best, best_numbers) =
                (PositionAccess::new(best.view()), PositionAccess::new(best_numbers.view()));
            for at in 0..length {
                let seen = located.visible(first + at).map_or(0, |(_, seen)| seen);
                for head in 0..key_heads {
                    for place in 0..count {
                        let position = [first + at, head, place];
                        let is_there = place < kept.min(seen);
                        let number = match is_there {
                            true => best_numbers.get::<i64>(&[at, head, place]),
                            false => -1,
                        };
                        to.set(&position, number);
                        if let Some(values) = &to_values {
                            let value = match is_there {
                                true => best.get::<f32>(&[at, head, place]),
                                false => f32::NEG_INFINITY,
                            };
                            values.set(&position, value);
                        }
                    }
                }
            }
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("NsaSelectedAttention", to_blocks),
    aclnn("NsaSelectedAttentionGrad", to_blocks_gradients),
    aclnn("SparseFlashAttention", sparse_flash),
    aclnn("LightningIndexer", indexer),
];
