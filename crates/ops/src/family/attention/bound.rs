//! The operands of attention, checked, and the pieces of work that they make.

use super::arguments::*;
use super::features::Features;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::attention::{Attention, Sizes, Slopes};
use cairn_tensor::{DType, Layout, ViewMut};
use std::ops::Range;

/// A shift with so many rows, fewer than queries, depends on the distance between key and query alone.
const SHORT_SHIFT_ROWS: usize = 1024;

/// A piece of work: all batches, which have the same lengths, or one of several sequences.
pub(super) struct Piece {
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
    pub(super) sizes: Sizes,
    shift: Option<Operand>,
    mask: Option<Operand>,
    band: Option<(isize, isize)>,
    prefixes: Vec<usize>,
    /// Its first bit in the mask of dropout.
    first_bit: usize,
    /// In place of a shift: the factor of the distance between key and query, for each head (ALiBi).
    slopes: Option<Operand>,
}

impl Piece {
    fn new(queries: Range<usize>, keys: Range<usize>, sizes: Sizes) -> Piece {
        Piece {
            queries,
            keys,
            sizes,
            shift: None,
            mask: None,
            band: None,
            prefixes: Vec::new(),
            first_bit: 0,
            slopes: None,
        }
    }

    /// Whether there is nothing to attend to.
    pub(super) fn is_empty(&self) -> bool {
        self.sizes.queries == 0 || self.sizes.keys == 0
    }
}

/// The operands of both directions, checked.
pub(super) struct Bound {
    pub(super) query: Features,
    pub(super) key: Features,
    pub(super) value: Operand,
    pub(super) heads: usize,
    pub(super) groups: usize,
    pub(super) pieces: Vec<Piece>,
    pub(super) packed: bool,
    pub(super) sink: Option<Operand>,
    /// The shift is added after scaling.
    shift_last: bool,
    /// The shift has [`SHORT_SHIFT_ROWS`].
    by_distance: bool,
    /// Slopes multiply the roots of distances.
    rooted: bool,
    /// How far the first key lies after the first query.
    lead: isize,
    /// The bits of the scores that dropout keeps, and its probability.
    keep_mask: Option<Operand>,
    keep: f32,
    scale: f32,
}

/// The tokens of each sequence, from the positions where sequences end.
fn ranges(call: &Call<'_>, at: usize, tokens: usize) -> Result<Vec<Range<usize>>> {
    let ends = call.ints(at)?;
    let mut start = 0;
    let mut all = Vec::with_capacity(ends.len());
    for end in &ends {
        match usize::try_from(*end).ok().filter(|end| (start..=tokens).contains(end)) {
            Some(end) => all.push(start..end),
            None => {
                let name = call.parameter(at);
                return Err(Error::invalid(format!(
                    "{name} = {ends:?} are no ends of sequences among {tokens} tokens"
                )));
            }
        }
        start = all.last().map_or(0, |range| range.end);
    }
    Ok(all)
}

/// Queries or keys, with the features that argument `at` adds, if it is there.
fn features(call: &mut Call<'_>, plain: Operand, at: usize, heads: usize) -> Result<Features> {
    match call.optional(at)?.filter(|one| one.count() > 0) {
        None => Ok(Features::alone(plain)),
        Some(second) => {
            let second = second.with_layout(by_heads(call, at, &second, heads)?);
            Features::both(call, plain, at, second)
        }
    }
}

impl Bound {
    pub(super) fn new(call: &mut Call<'_>) -> Result<Bound> {
        let (heads, packed) = (head_count(call)?, is_packed(call)?);
        let [query, key, value] = [call.tensor(QUERY)?, call.tensor(KEY)?, call.tensor(VALUE)?];
        const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];
        for (at, operand) in [(QUERY, &query), (KEY, &key), (VALUE, &value)] {
            call.expect_dtype(at, operand, TYPES)?;
        }
        let query = query.with_layout(by_heads(call, QUERY, &query, heads)?);
        let groups = group_count(call, &query, &key)?;
        let key = key.with_layout(by_heads(call, KEY, &key, groups)?);
        let value = value.with_layout(by_heads(call, VALUE, &value, groups)?);
        let query = features(call, query, QUERY_ROPE, heads)?;
        let key = features(call, key, KEY_ROPE, groups)?;
        let (all_queries, all_keys) = (query.layout(), key.layout());
        let (q, k, v) = (all_queries.dims(), all_keys.dims(), value.dims());
        let last = q.len() - 1;
        let same_batches = packed || q[0] == k[0];
        if !same_batches
            || q[last] != k[last]
            || !heads.is_multiple_of(groups)
            || k[..last] != v[..last]
        {
            let names = [QUERY, KEY, VALUE].map(|at| call.parameter(at)).join(", ");
            let order = if packed { "tokens, heads" } else { "batches, heads, positions" };
            return Err(Error::invalid(format!(
                "{names} have the sizes {q:?}, {k:?}, {v:?} ({order}, features), which do not fit"
            )));
        }
        let sizes = |batches: usize, queries: usize, keys: usize| Sizes {
            batches,
            heads,
            groups,
            queries,
            keys,
            features: q[last],
            width: v[last],
        };
        let pieces = if packed {
            let queries = ranges(call, ENDS, q[0])?;
            let keys = ranges(call, ENDS + 1, k[0])?;
            if queries.len() != keys.len() {
                let (a, b) = (call.parameter(ENDS), call.parameter(ENDS + 1));
                let (have, want) = (keys.len(), queries.len());
                return Err(Error::invalid(format!("{a} has {want} sequences, {b} has {have}")));
            }
            let both = queries.into_iter().zip(keys);
            both.map(|(q, k)| Piece::new(q.clone(), k.clone(), sizes(1, q.len(), k.len())))
                .collect()
        } else {
            vec![Piece::new(0..q[2], 0..k[2], sizes(q[0], q[2], k[2]))]
        };
        let keep = if call.has(KEEP) { call.float(KEEP)? } else { 1.0 };
        if !(keep > 0.0 && keep <= 1.0) {
            let name = call.parameter(KEEP);
            return Err(Error::invalid(format!("{name} = {keep} is outside (0, 1]")));
        }
        let mut bound = Bound {
            query,
            key,
            value,
            heads,
            groups,
            pieces,
            packed,
            sink: None,
            shift_last: false,
            by_distance: false,
            rooted: false,
            lead: 0,
            keep_mask: None,
            keep: keep as f32,
            scale: call.float(SCALE)? as f32,
        };
        bound.take_shift(call)?;
        bound.take_masks(call)?;
        bound.take_dropout(call)?;
        bound.take_sink(call)?;
        bound.expect_no_rope_features(call)?;
        Ok(bound)
    }

    /// Batches, or sequences.
    pub(super) fn batches(&self) -> usize {
        if self.packed { self.pieces.len() } else { self.pieces[0].sizes.batches }
    }

    /// Reads and checks the shift.
    fn take_shift(&mut self, call: &mut Call<'_>) -> Result<()> {
        let Some(shift) = call.optional(SHIFT)?.filter(|shift| shift.count() > 0) else {
            return Ok(());
        };
        call.expect_number(SHIFT, &shift)?;
        let kind = call.int_or(SHIFT_KIND, 1)?;
        if !(0..=3).contains(&kind) {
            let name = call.parameter(SHIFT_KIND);
            return Err(Error::invalid(format!("{name} = {kind}: 0 to 3 are known")));
        }
        if kind >= 2 {
            return self.take_slopes(call, shift, kind == 3);
        }
        self.shift_last = kind == 0;
        let (batches, heads, packed) = (self.batches(), self.heads, self.packed);
        let wrong = |expected: &str| {
            let (name, have) = (call.parameter(SHIFT), shift.dims());
            Error::invalid(format!("{name} has the sizes {have:?}: expected {expected}"))
        };
        let is_longer = |one: &Piece| one.sizes.queries > SHORT_SHIFT_ROWS;
        self.by_distance = shift.rank() == 4
            && shift.dims()[2] == SHORT_SHIFT_ROWS
            && self.pieces.iter().any(is_longer);
        for (at, piece) in self.pieces.iter_mut().enumerate() {
            let Sizes { queries, keys, .. } = piece.sizes;
            let mut layout = *shift.layout();
            if packed {
                let fits = layout.rank() == 4
                    && [1, batches].contains(&layout.dims()[0])
                    && [1, heads].contains(&layout.dims()[1]);
                if !fits {
                    return Err(wrong("batches, heads, queries and keys"));
                }
                let batch = if layout.dims()[0] == 1 { 0 } else { at };
                layout = layout.sliced(0, batch, 1, 1);
            }
            let rows = if self.by_distance { SHORT_SHIFT_ROWS } else { queries };
            let columns = if self.by_distance { layout.dims()[3] } else { keys };
            if self.by_distance && (queries != keys || columns < keys) {
                return Err(wrong("as many queries as keys, where a shift is shortened"));
            }
            let dims = [piece.sizes.batches, heads, rows, columns];
            let Some(layout) = layout.broadcast_to(&dims) else {
                return Err(wrong(&format!("what repeats to {dims:?}")));
            };
            piece.shift = Some(shift.with_layout(layout));
        }
        Ok(())
    }

    /// Slopes in place of a shift: a number for each head, or for each head of each batch.
    fn take_slopes(&mut self, call: &Call<'_>, slopes: Operand, rooted: bool) -> Result<()> {
        call.expect_dtype(SHIFT, &slopes, &[DType::Float])?;
        let (batches, heads) = (self.batches(), self.heads);
        let Some(by_batch) = slopes.broadcast_to(&[batches, heads]).filter(|_| slopes.rank() <= 2)
        else {
            let (name, have) = (call.parameter(SHIFT), slopes.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected [{heads}] or [{batches}, {heads}]"
            )));
        };
        let first =
            |at: usize| Ok::<i64, Error>(optional_ints(call, at)?.first().copied().unwrap_or(0));
        self.lead = first(STARTS + 1)?.saturating_sub(first(STARTS)?) as isize;
        self.rooted = rooted;
        for (at, piece) in self.pieces.iter_mut().enumerate() {
            let layout = if self.packed { by_batch.sliced(0, at, 1, 1) } else { by_batch };
            piece.slopes = Some(slopes.with_layout(layout));
        }
        Ok(())
    }

    /// Reads and checks the mask, and the band and prefixes of each piece.
    fn take_masks(&mut self, call: &mut Call<'_>) -> Result<()> {
        let Some(mask) = mask(call)? else {
            return Ok(());
        };
        let lengths: Vec<(usize, usize)> =
            self.pieces.iter().map(|one| (one.sizes.queries, one.sizes.keys)).collect();
        let has_scores = |one: &(usize, usize)| one.0 > 0 && one.1 > 0;
        let (first, last) =
            (lengths.iter().position(has_scores), lengths.iter().rposition(has_scores));
        let batches = self.batches();
        for (at, piece) in self.pieces.iter_mut().enumerate() {
            let position = match self.packed {
                true => PiecePosition::Sequence(Some(at) == first, Some(at) == last),
                false => PiecePosition::Whole,
            };
            let (plain, band, prefixed) = score_mask(call, &piece.sizes, position)?;
            piece.band = band;
            if prefixed {
                let all =
                    prefixes(call, batches, |batch| lengths[if self.packed { batch } else { 0 }])?;
                piece.prefixes = if self.packed { vec![all[at]] } else { all };
            }
            if plain {
                let batch = self.packed.then_some((at, batches));
                piece.mask = Some(broadcast_mask(call, mask, &piece.sizes, batch)?);
            }
        }
        Ok(())
    }

    /// Reads and checks the mask of dropout.
    fn take_dropout(&mut self, call: &mut Call<'_>) -> Result<()> {
        let keep_mask = call.optional(DROP)?.filter(|one| one.count() > 0);
        let keep = self.keep;
        if keep >= 1.0 {
            return Ok(());
        }
        let Some(keep_mask) = keep_mask else {
            if call.has(SEED) {
                let (name, mask) = (call.parameter(KEEP), call.parameter(DROP));
                return Err(Error::invalid(format!(
                    "{name} = {keep} without {mask}: none is drawn here"
                )));
            }
            return Ok(());
        };
        let mut bits = 0usize;
        for piece in &mut self.pieces {
            piece.first_bit = bits;
            let Sizes { batches, heads, queries, keys, .. } = piece.sizes;
            let count = batches.saturating_mul(heads).saturating_mul(queries).saturating_mul(keys);
            bits = bits.saturating_add(count);
        }
        if keep_mask.item() != 1
            || !keep_mask.is_contiguous()
            || keep_mask.count().saturating_mul(8) < bits
        {
            let (name, layout) = (call.parameter(DROP), keep_mask.layout());
            return Err(Error::invalid(format!("{name} ({layout}) is no mask of {bits} bits")));
        }
        self.keep_mask = Some(keep_mask);
        Ok(())
    }

    /// Reads and checks the sinks: scores without a key, one for each head.
    fn take_sink(&mut self, call: &mut Call<'_>) -> Result<()> {
        self.sink = call.optional(SINK)?.filter(|one| one.count() > 0);
        if let Some(sink) = &self.sink {
            call.expect_dtype(SINK, sink, &[DType::Float])?;
            call.expect_dims(SINK, sink, &[self.heads])?;
        }
        Ok(())
    }

    /// Fails where features in a second tensor come with a shift or with dropout.
    fn expect_no_rope_features(&self, call: &Call<'_>) -> Result<()> {
        let has_rope = call.has(QUERY_ROPE) && call.layout(QUERY_ROPE)?.count() > 0;
        let shifted = self.pieces.iter().any(|one| one.shift.is_some() || one.slopes.is_some());
        let other = match (shifted, &self.keep_mask) {
            (true, _) => SHIFT,
            (_, Some(_)) => DROP,
            _ => return Ok(()),
        };
        if !has_rope {
            return Ok(());
        }
        let (name, other) = (call.parameter(QUERY_ROPE), call.parameter(other));
        Err(Error::invalid(format!("{name} with {other}: one of both alone is known")))
    }

    /// The part of a tensor that belongs to some tokens, as batches, heads, positions, features.
    pub(super) fn part_of(&self, layout: &Layout, range: &Range<usize>) -> Layout {
        match self.packed {
            false => *layout,
            true => layout.sliced(0, range.start, range.len(), 1).permuted(&[1, 0, 2]).with(0),
        }
    }

    /// The operands of one piece as the kernels take them.
    pub(super) fn task<'a>(&'a self, memory: &Memory<'a>, piece: &'a Piece) -> Attention<'a> {
        let view = |one: Option<Operand>| one.map(|one| memory.view(&one));
        let (queries, keys) = (&piece.queries, &piece.keys);
        Attention {
            query: self.query.view(memory, self.part_of(&self.query.layout(), queries)),
            key: self.key.view(memory, self.part_of(&self.key.layout(), keys)),
            value: memory.view(&self.value.with_layout(self.part_of(&self.value, keys))),
            shift: view(piece.shift),
            shift_last: self.shift_last,
            shift_by_distance: self.by_distance,
            slopes: piece.slopes.map(|one| Slopes {
                factors: memory.view(&one),
                rooted: self.rooted,
                lead: self.lead,
            }),
            sink: view(self.sink),
            mask: view(piece.mask),
            band: piece.band,
            prefixes: &piece.prefixes,
            kept: view(self.keep_mask),
            first_kept: piece.first_bit,
            keep: self.keep,
            scale: self.scale,
        }
    }

    /// Fails when an output shares memory with what is read.
    pub(super) fn expect_apart(&self, call: &mut Call<'_>, at: usize, out: &Operand) -> Result<()> {
        for from in [QUERY, KEY, VALUE, QUERY_ROPE, KEY_ROPE] {
            let Some(input) = call.optional(from)? else { continue };
            if call.shares(&input, out) {
                let (to, from) = (call.parameter(at), call.parameter(from));
                return Err(Error::invalid(format!("{to} shares memory with {from}")));
            }
        }
        Ok(())
    }

    /// Scratch for the largest piece.
    pub(super) fn scratch(
        &self,
        call: &mut Call<'_>,
        of: impl Fn(&Sizes) -> cairn_tensor::Dims,
    ) -> Scratch {
        let times = |all: usize, size: &usize| all.checked_mul(*size);
        let count = |one: &Piece| of(&one.sizes).iter().try_fold(1, times).unwrap_or(usize::MAX);
        let largest = self.pieces.iter().map(count).max().unwrap_or(0);
        call.scratch(DType::Float, &[largest])
    }
}

/// The part of the scratch that one piece needs.
pub(super) fn resized<'m>(scratch: ViewMut<'m>, dims: &[usize]) -> ViewMut<'m> {
    scratch.with_layout(Layout::contiguous(DType::Float, dims)).expect("room for the largest")
}

/// A mask that is taken as it is. Of a sequence, which is one of several, it may have more rows and columns.
fn broadcast_mask(
    call: &Call<'_>,
    mask: Operand,
    sizes: &Sizes,
    sequence: Option<(usize, usize)>,
) -> Result<Operand> {
    let mut layout = *mask.layout();
    let rank = layout.rank();
    if let Some((at, count)) = sequence.filter(|_| rank >= 2) {
        if rank == 4 && layout.dims()[0] == count {
            layout = layout.sliced(0, at, 1, 1);
        }
        let (rows, columns) = (layout.dims()[rank - 2], layout.dims()[rank - 1]);
        if rows >= sizes.queries && columns >= sizes.keys {
            layout = layout.sliced(rank - 2, 0, sizes.queries, 1);
            layout = layout.sliced(rank - 1, 0, sizes.keys, 1);
        }
    }
    let dims = [sizes.batches, sizes.heads, sizes.queries, sizes.keys];
    match layout.broadcast_to(&dims) {
        Some(layout) => Ok(mask.with_layout(layout)),
        None => {
            let (name, have, mode) = (call.parameter(MASK), mask.dims(), call.parameter(SPARSE));
            Err(Error::invalid(format!(
                "{name} {have:?} does not repeat to {dims:?} (batches, heads, queries, keys), as {mode} wants"
            )))
        }
    }
}
