//! Attention for inference: prompts, token by token, and both at once, to caches that may be paged.
//!
//! Workspace: what the kernel needs for the largest unit of work, for each worker.

mod arguments;
mod masks;
mod places;
mod rows;

pub use rows::{NODES, ROWS};

use super::check_scratch;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Plan};
use arguments::*;
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::attention::Slopes;
use cairn_tensor::kernels::attention::cache::{Blocks, Inference, Segment, Sequence, Work, infer};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Layout, Scalar};
use masks::{ScoreSizes, Shift, mask, shift};
use places::{StoreOperands, Table, prefix, stores};
use std::ops::Range;

/// A sequence: its batch, where its queries are, in which store its keys are, in which block (or batch) of it, and where
/// there. Of a paged one the blocks come from its table.
#[derive(Clone)]
struct Piece {
    batch: usize,
    queries: Range<usize>,
    store: usize,
    block: usize,
    keys: Range<usize>,
}

/// Lengths: one for all, or at least one for each of `count` sequences; `most` where there are none.
fn lengths(
    call: &Call<'_>,
    at: usize,
    count: usize,
    most: impl Fn(usize) -> usize,
) -> Result<Vec<usize>> {
    let given = if call.has(at) { call.ints(at)? } else { Vec::new() };
    let name = call.parameter(at);
    if given.len() > 1 && given.len() < count {
        return Err(Error::invalid(format!(
            "{name} = {given:?}: expected one length, or one for each of {count} sequences"
        )));
    }
    let one = |number: usize| {
        let most = most(number);
        let value = match given[..] {
            [] => return Ok(most),
            [value] => value,
            _ => given[number],
        };
        usize::try_from(value).ok().filter(|value| *value <= most).ok_or_else(|| {
            Error::invalid(format!("{name}[{number}] = {value} is outside 0 to {most}"))
        })
    };
    (0..count).map(one).collect()
}

/// The positions of each sequence, from where sequences end.
fn ranges(call: &Call<'_>, at: usize, tokens: usize) -> Result<Vec<Range<usize>>> {
    let (ends, name) = (call.ints(at)?, call.parameter(at));
    let mut start = 0;
    let mut all = Vec::with_capacity(ends.len());
    for end in &ends {
        let end = usize::try_from(*end).ok().filter(|end| (start..=tokens).contains(end));
        let end = end.ok_or_else(|| {
            Error::invalid(format!(
                "{name} = {ends:?} are no ends of sequences among {tokens} tokens"
            ))
        })?;
        all.push(start..end);
        start = end;
    }
    Ok(all)
}

/// All sequences.
fn pieces(
    call: &Call<'_>,
    query: &Layout,
    stores: &[StoreOperands],
    paged: bool,
) -> Result<Vec<Piece>> {
    let (positions, first) = (query.dims()[2], &stores[0]);
    let paged_most = || match call.layout(TABLE) {
        Ok(table) => table.dims().last().copied().unwrap_or(0).saturating_mul(first.positions()),
        Err(_) => 0,
    };
    if paged && !call.has(KEY_LENGTHS) {
        let (name, table) = (call.parameter(KEY_LENGTHS), call.parameter(TABLE));
        return Err(Error::Null(format!("{name} is null: {table} wants the lengths of keys")));
    }
    if forms(call)?.is_packed() {
        let queries = ranges(call, QUERY_LENGTHS, positions)?;
        let keys = match paged {
            true => {
                let lengths = lengths(call, KEY_LENGTHS, queries.len(), |_| paged_most())?;
                lengths.into_iter().map(|length| 0..length).collect()
            }
            false => ranges(call, KEY_LENGTHS, first.positions())?,
        };
        if keys.len() != queries.len() || stores.len() > 1 {
            let (a, b) = (call.parameter(QUERY_LENGTHS), call.parameter(KEY_LENGTHS));
            let (have, want, tensors) = (keys.len(), queries.len(), stores.len());
            return Err(Error::invalid(format!(
                "{a} has {want} sequences, {b} has {have}, with {tensors} tensors of keys: expected as many of both and one"
            )));
        }
        let both = queries.into_iter().zip(keys);
        return Ok(both
            .map(|(queries, keys)| Piece { batch: 0, queries, store: 0, block: 0, keys })
            .collect());
    }
    let batches = query.dims()[0];
    let by_sequence = stores.len() > 1;
    let fits = match by_sequence {
        _ if paged => true,
        true => stores.len() == batches && stores.iter().all(|store| store.blocks() == 1),
        false => first.blocks() == batches,
    };
    if !fits {
        let (a, b) = (call.parameter(QUERY), call.parameter(KEY));
        let have: usize = stores.iter().map(StoreOperands::blocks).sum();
        return Err(Error::invalid(format!("{a} has {batches} batches, {b} has {have}")));
    }
    let queries = match positions {
        1 => vec![1; batches],
        _ => lengths(call, QUERY_LENGTHS, batches, |_| positions)?,
    };
    let keys = lengths(call, KEY_LENGTHS, batches, |batch| match paged {
        true => paged_most(),
        false => stores[if by_sequence { batch } else { 0 }].positions(),
    })?;
    let piece = |(batch, (queries, keys))| {
        let (store, block) = if by_sequence { (batch, 0) } else { (0, batch) };
        Piece { batch, queries: 0..queries, store, block, keys: 0..keys }
    };
    Ok(queries.into_iter().zip(keys).enumerate().map(piece).collect())
}

/// How many positions after the tokens of a sequence belong to none: a number for all, or one for each.
#[derive(Clone, Copy)]
struct Padding {
    sizes: Operand,
    positions: usize,
}

impl Padding {
    fn new(
        call: &mut Call<'_>,
        at: usize,
        batches: usize,
        positions: usize,
    ) -> Result<Option<Padding>> {
        let Some(sizes) = given(call, at)? else { return Ok(None) };
        call.expect_dtype(at, &sizes, &[DType::Int64])?;
        let sizes = sizes.at_least_1d();
        if sizes.rank() != 1 || ![1, batches].contains(&sizes.count()) {
            let (name, have) = (call.parameter(at), sizes.dims());
            return Err(Error::invalid(format!("{name} has the sizes {have:?}: expected [1]")));
        }
        Ok(Some(Padding { sizes, positions }))
    }

    /// Where tokens are that would be at the front without padding; `None` where they would begin before it.
    fn moved(
        &self,
        memory: &Memory<'_>,
        batch: usize,
        range: Range<usize>,
    ) -> Option<Range<usize>> {
        let at = if self.sizes.count() == 1 { 0 } else { batch };
        let size = PositionAccess::new(memory.view(&self.sizes)).get::<i64>(&[at]);
        let end = self.positions.checked_sub(usize::try_from(size.max(0)).ok()?)?;
        Some(end.checked_sub(range.len())?..end)
    }
}

/// See [`arguments`].
fn attention(call: &mut Call<'_>) -> Result<Plan> {
    let query = call.tensor(QUERY)?;
    expect_not_quantised(call)?;
    let forms = forms(call)?;
    let packed = forms.is_packed();
    let [heads, groups] = heads(call)?;
    let precise = call.int_or(PRECISE, 0)?;
    if !(0..=3).contains(&precise) {
        let name = call.parameter(PRECISE);
        return Err(Error::invalid(format!("{name} = {precise}: 0 to 3 are known")));
    }
    call.expect_dtype(QUERY, &query, &[DType::Float, DType::Float16, DType::Bf16])?;
    let query = query.with_layout(by_heads(call, QUERY, &query, forms.query, heads)?);
    let out = call.output(OUT)?;
    let out = out.with_layout(by_heads(call, OUT, &out, forms.out, heads)?);
    let table = given(call, TABLE)?;
    if let (None, true) = (&table, call.has(TABLE))
        && let [sequences @ 1..=usize::MAX, 0] = *call.layout(TABLE)?.dims()
    {
        let name = call.parameter(TABLE);
        return Err(Error::invalid(format!(
            "{name} has the sizes [{sequences}, 0]: expected a block for each sequence at least"
        )));
    }
    let mut stores = stores(call, groups, table.is_some())?;
    let query_rope = match given(call, QUERY_ROPE)? {
        None => None,
        Some(rope) => {
            let rope = rope.with_layout(by_heads(call, QUERY_ROPE, &rope, forms.query, heads)?);
            call.expect_dtype(QUERY_ROPE, &rope, &[query.dtype])?;
            let mut dims = query.dims().to_vec();
            dims[3] = rope.dims()[3];
            call.expect_dims(QUERY_ROPE, &rope, &dims)?;
            Some(rope)
        }
    };
    let [features, width] = stores[0].features();
    let own = query.dims()[3] + query_rope.map_or(0, |rope| rope.dims()[3]);
    if own != features {
        let (a, b) = (call.parameter(QUERY), call.parameter(KEY));
        return Err(Error::invalid(format!("{a} has {own} features, {b} has {features}")));
    }
    let mut dims = query.dims().to_vec();
    dims[3] = width;
    call.expect_dims(OUT, &out, &dims)?;
    call.expect_number(OUT, &out)?;
    let pieces = pieces(call, &query, &stores, table.is_some())?;
    let key_lengths: Vec<usize> = pieces.iter().map(|piece| piece.keys.len()).collect();
    let table = match table {
        None => None,
        Some(table) => Some(Table::new(call, table, &stores[0], &key_lengths)?),
    };
    let (batches, positions) = (query.dims()[0], query.dims()[2]);
    if table.is_some() && given(call, KEY_PADDING)?.is_some() {
        let (padding, table) = (call.parameter(KEY_PADDING), call.parameter(TABLE));
        return Err(Error::invalid(format!(
            "{padding} together with {table}: expected one of them"
        )));
    }
    let may_pad = !packed && table.is_none() && stores.len() == 1;
    let query_padding = match may_pad && positions > 1 && call.has(QUERY_LENGTHS) {
        true => Padding::new(call, QUERY_PADDING, batches, positions)?,
        false => None,
    };
    let key_padding = match may_pad && call.has(KEY_LENGTHS) {
        true => Padding::new(call, KEY_PADDING, batches, stores[0].positions())?,
        false => None,
    };
    let is_padded = query_padding.is_some() || key_padding.is_some();
    let prefix = prefix(call, groups, &stores[0])?;
    if prefix.is_some() && (packed || is_padded || table.is_some() || stores.len() > 1) {
        let name = call.parameter(PREFIX_KEY);
        return Err(Error::invalid(format!(
            "{name}: neither sequences (TND, NTD) nor lists, blocks or padding are known with a prefix"
        )));
    }
    let prefix_length = prefix.map_or(0, |(_, length)| length);
    let most_keys = match is_padded {
        true => stores[0].positions(),
        false => key_lengths.iter().copied().max().unwrap_or(0),
    };
    let sizes = ScoreSizes {
        batches,
        heads,
        queries: positions,
        columns: prefix_length + most_keys,
        packed,
        has_rope: query_rope.is_some(),
        padded: is_padded,
    };
    let (mask, limit) = mask(call, sizes)?;
    let shift = shift(call, sizes)?;
    let sink = given(call, SINK)?;
    if let Some(sink) = &sink {
        call.expect_dtype(SINK, sink, &[DType::Bf16, DType::Float16, DType::Float])?;
        call.expect_dims(SINK, sink, &[heads])?;
        if prefix.is_some() || is_padded || !matches!(shift, Shift::None) {
            let name = call.parameter(SINK);
            return Err(Error::invalid(format!(
                "{name}: neither a prefix, padding nor a shift are known with sinks"
            )));
        }
    }
    let logarithms = logarithms(call, &query, packed, sink.is_some())?;
    if table.is_some() || is_padded || call.has(KEY_LENGTHS) {
        stores.iter().for_each(|store| store.touch_by_index(call));
    }
    let scale = call.float(SCALE)? as f32;
    let is_covered = !is_padded
        && pieces.iter().map(|piece| piece.queries.len()).sum::<usize>() == batches * positions;
    if !is_covered {
        call.touch_by_index(&query);
    }
    expect_apart(call, &stores, &prefix, [Some(query), query_rope], &out)?;
    let prefix_store = stores.len();
    stores.extend(prefix.map(|(store, _)| store));
    if width == 0 && logarithms.as_ref().is_some_and(|one| one.count() > 0) {
        let (value, wanted) = (call.parameter(VALUE), call.parameter(WANTS_LOGARITHMS));
        return Err(Error::invalid(format!("{value} has no features: {wanted} is not known then")));
    }
    if out.count() == 0 {
        return call.nothing();
    }
    let work = Work::new(
        [heads, groups],
        [features, width],
        pieces.iter().map(|piece| piece.queries.len()),
    );
    let scratch = call.scratch(DType::Float, &work.scratch());
    call.plan(move |memory| {
        let scratch = memory.scratch(&scratch);
        check_scratch(&scratch)?;
        if let Some(table) = &table {
            table.check(memory, &key_lengths)?;
        }
        if !is_covered {
            fill_scalar(memory.parallel, memory.out(&out), Scalar::from(0.0));
            if let Some(logarithms) = &logarithms {
                fill_scalar(memory.parallel, memory.out(logarithms), Scalar::from(f64::INFINITY));
            }
        }
        let sequence = |(number, piece): (usize, &Piece)| {
            let moved = |padding: &Option<Padding>, range: &Range<usize>| match padding {
                Some(padding) => padding.moved(memory, piece.batch, range.clone()),
                None => Some(range.clone()),
            };
            let queries = moved(&query_padding, &piece.queries)?;
            let keys = moved(&key_padding, &piece.keys)?;
            let blocks = match &table {
                Some(table) => Blocks::Paged(memory.view(&table.row(number))),
                None => Blocks::One(piece.block, keys.start),
            };
            let mut segments = Vec::with_capacity(2);
            if prefix_length > 0 {
                let blocks = Blocks::One(0, 0);
                segments.push(Segment { store: prefix_store, blocks, length: prefix_length });
            }
            segments.push(Segment { store: piece.store, blocks, length: keys.len() });
            Some(Sequence {
                batch: piece.batch,
                first_column: if key_padding.is_some() { keys.start } else { 0 },
                band: limit.band(queries.len(), prefix_length + keys.len()),
                queries,
                segments,
            })
        };
        let sequences: Vec<Sequence<'_>> = pieces.iter().enumerate().filter_map(sequence).collect();
        let stores: Vec<_> = stores.iter().map(|store| store.views(memory)).collect();
        let view = |one: &Operand| memory.view(one);
        let task = Inference {
            query: [Some(view(&query)), query_rope.as_ref().map(view)],
            stores: &stores,
            sequences: &sequences,
            shift: if let Shift::Plain(shift) = &shift { Some(view(shift)) } else { None },
            slopes: match &shift {
                Shift::Slopes(factors, rooted, lead) => {
                    Some(Slopes { factors: view(factors), rooted: *rooted, lead: *lead })
                }
                _ => None,
            },
            mask: mask.as_ref().map(view),
            sink: sink.as_ref().map(view),
            scale,
            out: memory.out(&out),
            logarithms: logarithms.map(|one| memory.out(&one)),
        };
        infer(memory.parallel, &task, &work, scratch);
        Ok(())
    })
}

/// The logarithms of sums, if they are wanted, as batches, heads, queries, 1.
fn logarithms(
    call: &mut Call<'_>,
    query: &Layout,
    packed: bool,
    has_sink: bool,
) -> Result<Option<Operand>> {
    if !call.flag_or(WANTS_LOGARITHMS, false)? {
        return Ok(None);
    }
    if has_sink {
        let (name, sink) = (call.parameter(WANTS_LOGARITHMS), call.parameter(SINK));
        return Err(Error::invalid(format!(
            "{name} with {sink}: the documentation does not say whether sinks are part of the sums"
        )));
    }
    let out = call.output(LOGARITHMS)?;
    call.expect_dtype(LOGARITHMS, &out, &[DType::Float])?;
    let [batches, heads, positions, _] = *query.dims() else { unreachable!("by heads") };
    let layout = match packed {
        true => {
            call.expect_dims(LOGARITHMS, &out, &[positions, heads, 1])?;
            out.permuted(&[1, 0, 2]).with(0)
        }
        false => {
            call.expect_dims(LOGARITHMS, &out, &[batches, heads, positions, 1])?;
            *out.layout()
        }
    };
    Ok(Some(out.with_layout(layout)))
}

/// Fails when the result shares memory with what is read.
fn expect_apart(
    call: &Call<'_>,
    stores: &[StoreOperands],
    prefix: &Option<(StoreOperands, usize)>,
    queries: [Option<Operand>; 2],
    out: &Operand,
) -> Result<()> {
    let prefix = prefix.iter().map(|(store, _)| store);
    let read = stores.iter().chain(prefix).flat_map(StoreOperands::operands);
    match read.chain(queries.into_iter().flatten()).find(|one| call.shares(one, out)) {
        None => Ok(()),
        Some(_) => {
            let name = call.parameter(OUT);
            Err(Error::invalid(format!("{name} shares memory with queries, keys or values")))
        }
    }
}

/// The result, and the logarithms of sums or nothing.
fn infer_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (forms, [heads, groups]) = (forms(call)?, heads(call)?);
    let query = call.layout(QUERY)?;
    let layout = by_heads(call, QUERY, &query, forms.query, heads)?;
    let value = match call.arg(VALUE) {
        Arg::Tensors(all) if !all.is_empty() => all[0].layout,
        Arg::Tensors(_) => {
            return Err(Error::Null(format!("{} has no tensors", call.parameter(VALUE))));
        }
        _ => call.layout(VALUE)?,
    };
    let is_paged = call.has(TABLE) && call.layout(TABLE)?.count() > 0;
    let width = match (value.rank(), is_paged) {
        (5, true) => value.dims()[2] * value.dims()[4],
        (3, _) if is_paged || forms.query == "BSH" => value.dims()[2] / groups,
        _ => value.dims().last().copied().unwrap_or(0),
    };
    let [batches, _, positions, _] = *layout.dims() else { unreachable!("by heads") };
    let dims = match forms.out {
        "BSH" => vec![batches, positions, heads * width],
        "BSND" => vec![batches, positions, heads, width],
        "BNSD" => vec![batches, heads, positions, width],
        "NBSD" => vec![heads, batches, positions, width],
        "TND" => vec![positions, heads, width],
        _ => vec![heads, positions, width],
    };
    let logarithms = match (call.flag_or(WANTS_LOGARITHMS, false)?, forms.is_packed()) {
        (false, _) => vec![0],
        (true, true) => vec![positions, heads, 1],
        (true, false) => vec![batches, heads, positions, 1],
    };
    Ok(vec![Layout::contiguous(query.dtype, &dims), Layout::contiguous(DType::Float, &logarithms)])
}

/// As [`infer_outputs`], without the logarithms.
fn infer_result(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(infer_outputs(call)?[..1].to_vec())
}
