//! Attention: `softmax(mask(scale * (q @ k^T + shift))) @ v`, head by head, and its way back.
//!
//! Each worker has a part of the workspace to itself: keys and values of one head in `f32`, and the scores of a few
//! queries with all keys. How many workers there are does not depend on the number of threads.

mod backward;
mod forward;

pub use backward::{Gradients, backward, backward_scratch};
pub use forward::{forward, forward_scratch};

use super::access::PositionAccess;
use super::strip::{STRIP, load, strip};
use crate::{DType, View};
use std::ops::Range;

/// Queries whose scores are computed at a time.
const QUERIES: usize = 64;
/// Workers at the same time, at most.
const WORKERS: usize = 8;

/// What is attended to, and how. Sizes: batches, heads, positions, features.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Queries.
    pub query: View<'a>,
    /// Keys; their heads divide the queries'.
    pub key: View<'a>,
    /// Values.
    pub value: View<'a>,
    /// Added to each score before it is scaled: batches, heads, queries, keys (broadcast).
    pub shift: Option<View<'a>>,
    /// The shift is added after scaling instead.
    pub shift_last: bool,
    /// The shift depends on the distance between key and query alone, and has only the last rows of a square that is
    /// as wide as it is: what is above them is read along the diagonals.
    pub shift_by_distance: bool,
    /// A shift that is a multiple of the distance between key and query, added after scaling.
    pub slopes: Option<Slopes<'a>>,
    /// A score of no key for each head: a weight is lost to it, and no value comes with it.
    pub sink: Option<View<'a>>,
    /// Scores that do not count, where it is not 0. Sizes as those of `shift`.
    pub mask: Option<View<'a>>,
    /// A key counts for a query only when its position minus the query's is in here.
    pub band: Option<(isize, isize)>,
    /// How many of the first keys count for each query of a batch, wherever they are; none where it is empty.
    pub prefixes: &'a [usize],
    /// Bits of the scores that stay, in the order of batches, heads, queries, keys.
    pub kept: Option<View<'a>>,
    /// The first of those bits.
    pub first_kept: usize,
    /// The probability with which they stay.
    pub keep: f32,
    /// What scores are multiplied by.
    pub scale: f32,
}

/// Minus the distance between key and query (or its root), times a number for each batch and head.
#[derive(Clone, Copy)]
pub struct Slopes<'a> {
    /// The numbers: batches, heads (broadcast).
    pub factors: View<'a>,
    /// Roots of distances are taken.
    pub rooted: bool,
    /// How far the first key lies after the first query.
    pub lead: isize,
}

/// Sizes of one call.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Batches.
    pub batches: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub groups: usize,
    /// Positions of the queries.
    pub queries: usize,
    /// Positions of keys and values.
    pub keys: usize,
    /// Features of queries and keys.
    pub features: usize,
    /// Features of the values.
    pub width: usize,
}

impl Sizes {
    fn tile(&self) -> usize {
        self.queries.min(QUERIES)
    }

    fn heads_of_group(&self) -> usize {
        self.heads / self.groups.max(1)
    }
}

impl Attention<'_> {
    /// The sizes.
    pub fn sizes(&self) -> Sizes {
        let (query, key) = (self.query.dims(), self.key.dims());
        Sizes {
            batches: query[0],
            heads: query[1],
            groups: key[1],
            queries: query[2],
            keys: key[2],
            features: query[3],
            width: self.value.dims()[3],
        }
    }

    /// The keys that count for a query, as far as band and prefix say: those before the first number, and a range.
    fn counted_keys(&self, batch: usize, query: usize, keys: usize) -> (usize, Range<usize>) {
        let Some((low, high)) = self.band else {
            return (0, 0..keys);
        };
        let prefix = self.prefixes.get(batch).map_or(0, |prefix| (*prefix).min(keys));
        let position = query as isize;
        let start = position.saturating_add(low).clamp(0, keys as isize) as usize;
        let end = position.saturating_add(high).saturating_add(1).clamp(0, keys as isize) as usize;
        match start.max(prefix) {
            start if start < end => (prefix, start..end),
            _ => (0, 0..prefix),
        }
    }

    /// Turns plain products of a query with all keys into scores; those that do not count become minus infinity.
    #[inline(always)]
    fn score(&self, at: [usize; 3], row: &mut [f32]) {
        let (prefix, counts) = self.counted_keys(at[0], at[2], row.len());
        row[prefix..counts.start.max(prefix)].fill(f32::NEG_INFINITY);
        row[counts.end.max(prefix)..].fill(f32::NEG_INFINITY);
        self.score_some(at, row, 0..prefix);
        self.score_some(at, row, counts);
    }

    /// As [`Attention::score`], of a few keys that count.
    #[inline(always)]
    fn score_some(&self, at: [usize; 3], row: &mut [f32], counts: Range<usize>) {
        let mut buffer = [0f32; STRIP];
        let mut booleans = [false; STRIP];
        let offset = |view: &View<'_>, at: [usize; 4]| -> isize {
            at.iter()
                .zip(view.strides())
                .map(|(position, stride)| *position as isize * stride)
                .sum()
        };
        for start in counts.clone().step_by(STRIP) {
            let length = (counts.end - start).min(STRIP);
            let part = &mut row[start..start + length];
            let position = [at[0], at[1], at[2], start];
            let before = if self.shift_last { self.scale } else { 1.0 };
            let after = if self.shift_last { 1.0 } else { self.scale };
            if let Some(shift) = &self.shift {
                let position = match self.shift_by_distance {
                    true => on_diagonal(shift, position),
                    false => position,
                };
                let stride = shift.strides()[3];
                let there = match self.shift_by_distance {
                    true => length.min(shift.dims()[3].saturating_sub(position[3])),
                    false => length,
                };
                buffer[there..length].fill(0.0);
                // SAFETY: the strip is inside the view, which nobody writes.
                unsafe {
                    let from =
                        shift.first().offset(offset(shift, position) * shift.item() as isize);
                    load(shift.dtype(), from, stride, &mut buffer[..there]);
                }
                for (score, shift) in part.iter_mut().zip(&buffer) {
                    *score = (*score * before + shift) * after;
                }
            } else {
                part.iter_mut().for_each(|score| *score *= self.scale);
            }
            if let Some(slopes) = &self.slopes {
                slopes.add(position, part);
            }
            if let Some(mask) = &self.mask {
                // SAFETY: as above.
                let mask = unsafe {
                    strip(
                        mask,
                        offset(mask, position),
                        mask.strides()[3],
                        length,
                        false,
                        &mut booleans,
                    )
                };
                for (score, masked) in part.iter_mut().zip(mask) {
                    *score = if *masked { f32::NEG_INFINITY } else { *score };
                }
            }
        }
    }

    /// The score of no key for a head; minus infinity without one.
    fn sink_score(&self, head: usize) -> f32 {
        self.sink.map_or(f32::NEG_INFINITY, |sink| PositionAccess::new(sink).get(&[head]))
    }

    /// Takes the dropped ones out of a row of numbers for each key of a query, and scales the others.
    #[inline(always)]
    fn dropped(&self, at: [usize; 3], row: &mut [f32]) {
        let Some(kept) = &self.kept else {
            return;
        };
        let sizes = self.sizes();
        let row_number = (at[0] * sizes.heads + at[1]) * sizes.queries + at[2];
        let first = self.first_kept + row_number * sizes.keys;
        let factor = 1.0 / self.keep;
        for (at, value) in row.iter_mut().enumerate() {
            let bit = first + at;
            // SAFETY: the mask has a bit for each score.
            let byte = unsafe { kept.first().add(bit / 8).read() };
            *value = if byte >> (bit % 8) & 1 != 0 { *value * factor } else { 0.0 };
        }
    }
}

impl Slopes<'_> {
    /// Adds to the scores of a few keys.
    #[inline(always)]
    fn add(&self, at: [usize; 4], scores: &mut [f32]) {
        let factor = -PositionAccess::new(self.factors).get::<f32>(&[at[0], at[1]]);
        let first = at[3] as isize + self.lead - at[2] as isize;
        for (position, score) in scores.iter_mut().enumerate() {
            let distance = (first + position as isize).unsigned_abs() as f32;
            *score += factor * if self.rooted { distance.sqrt() } else { distance };
        }
    }
}

/// The position in the last rows of a square with the same distance between key and query.
fn on_diagonal(shift: &View<'_>, at: [usize; 4]) -> [usize; 4] {
    let missing = shift.dims()[3].saturating_sub(shift.dims()[2]);
    match at[2] < missing {
        true => [at[0], at[1], 0, at[3] + missing - at[2]],
        false => [at[0], at[1], at[2] - missing, at[3]],
    }
}

/// A matrix of `f32`: where it is, and the strides of rows and columns.
#[derive(Clone, Copy)]
struct Wide {
    first: *const f32,
    strides: (isize, isize),
}

impl Wide {
    /// Some rows of the matrix of one head, as they are when they are `f32`, else loaded into `buffer`.
    ///
    /// # Safety
    /// Batch, head and rows are inside the view, `buffer` holds them, and both outlive the matrix.
    unsafe fn of(
        view: &View<'_>,
        batch: usize,
        head: usize,
        rows: Range<usize>,
        buffer: &mut [f32],
    ) -> Wide {
        let strides = view.strides();
        let start = batch as isize * strides[0]
            + head as isize * strides[1]
            + rows.start as isize * strides[2];
        let item = view.item() as isize;
        // SAFETY: as the caller guarantees.
        let from = unsafe { view.first().offset(start * item) };
        if view.dtype() == DType::Float && from.cast::<f32>().is_aligned() {
            return Wide { first: from.cast(), strides: (strides[2], strides[3]) };
        }
        let columns = view.dims()[3];
        for (at, line) in buffer.chunks_exact_mut(columns.max(1)).take(rows.len()).enumerate() {
            // SAFETY: as the caller guarantees.
            unsafe {
                load(view.dtype(), from.offset(at as isize * strides[2] * item), strides[3], line);
            }
        }
        Wide::packed(buffer, columns)
    }

    fn packed(buffer: &[f32], columns: usize) -> Wide {
        Wide { first: buffer.as_ptr(), strides: (columns as isize, 1) }
    }

    fn transposed(self) -> Wide {
        Wide { strides: (self.strides.1, self.strides.0), ..self }
    }
}

/// `out = alpha * (a @ b)`, or added to it; `out` is rows one after the other.
///
/// # Safety
/// The matrices have these sizes.
unsafe fn product(
    (rows, columns, depth): (usize, usize, usize),
    out: &mut [f32],
    a: Wide,
    b: Wide,
    add: bool,
) {
    debug_assert!(out.len() >= rows * columns);
    let beta = if add { 1.0 } else { 0.0 };
    // SAFETY: as the caller guarantees.
    unsafe {
        super::matmul::multiply(
            (rows, columns, depth),
            out.as_mut_ptr(),
            (columns as isize, 1),
            a.first,
            a.strides,
            b.first,
            b.strides,
            1.0,
            beta,
        );
    }
}

/// Cuts a worker's part of the workspace into `lengths`, one after the other.
fn cut<const N: usize>(mut buffer: &mut [f32], lengths: [usize; N]) -> [&mut [f32]; N] {
    lengths.map(|length| {
        let (head, tail) = std::mem::take(&mut buffer).split_at_mut(length);
        buffer = tail;
        head
    })
}

/// The offset of a position of one head.
fn offset_of(view: &View<'_>, at: [usize; 3]) -> isize {
    at.iter().zip(view.strides()).map(|(index, stride)| *index as isize * stride).sum()
}
