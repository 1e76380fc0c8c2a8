//! Attention: `softmax(mask(scale * (q @ k^T + shift))) @ v`, head by head, and its way back.
//!
//! Each worker has a part of the workspace to itself: keys and values of one head in `f32`, and the scores of a few
//! queries with all keys. How many workers there are does not depend on the number of threads.

mod backward;
mod forward;

pub use backward::{Gradients, backward, backward_scratch};
pub use forward::{forward, forward_scratch};

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
    /// Scores that do not count, where it is not 0. Sizes as those of `shift`.
    pub mask: Option<View<'a>>,
    /// A key counts for a query only when its position minus the query's lies in here.
    pub band: Option<(isize, isize)>,
    /// Bits of the scores that stay, in the order of batches, heads, queries, keys.
    pub kept: Option<View<'a>>,
    /// The probability with which they stay.
    pub keep: f32,
    /// What scores are multiplied by.
    pub scale: f32,
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

    /// The keys in the band of a query.
    fn in_band(&self, query: usize, keys: usize) -> Range<usize> {
        let Some((low, high)) = self.band else {
            return 0..keys;
        };
        let position = query as isize;
        let start = position.saturating_add(low).clamp(0, keys as isize) as usize;
        let end = position.saturating_add(high).saturating_add(1).clamp(0, keys as isize) as usize;
        start..end.max(start)
    }

    /// Turns plain products of a query with all keys into scores; those that do not count become minus infinity.
    #[inline(always)]
    fn score(&self, at: [usize; 3], row: &mut [f32]) {
        let counts = self.in_band(at[2], row.len());
        let mut room = [0f32; STRIP];
        let mut booleans = [false; STRIP];
        let offset = |view: &View<'_>, start: usize| -> isize {
            let indices = [at[0], at[1], at[2], start];
            indices.iter().zip(view.strides()).map(|(index, stride)| *index as isize * stride).sum()
        };
        row[..counts.start].fill(f32::NEG_INFINITY);
        row[counts.end..].fill(f32::NEG_INFINITY);
        for start in counts.clone().step_by(STRIP) {
            let length = (counts.end - start).min(STRIP);
            let part = &mut row[start..start + length];
            let before = if self.shift_last { self.scale } else { 1.0 };
            let after = if self.shift_last { 1.0 } else { self.scale };
            if let Some(shift) = &self.shift {
                // SAFETY: the strip lies inside the view, which nobody writes.
                let shift = unsafe {
                    strip(shift, offset(shift, start), shift.strides()[3], length, true, &mut room)
                };
                for (score, shift) in part.iter_mut().zip(shift) {
                    *score = (*score * before + shift) * after;
                }
            } else {
                part.iter_mut().for_each(|score| *score *= self.scale);
            }
            if let Some(mask) = &self.mask {
                // SAFETY: as above.
                let mask = unsafe {
                    strip(
                        mask,
                        offset(mask, start),
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

    /// Takes the dropped ones out of a row of numbers for each key of a query, and scales the others.
    #[inline(always)]
    fn dropped(&self, at: [usize; 3], row: &mut [f32]) {
        let Some(kept) = &self.kept else {
            return;
        };
        let sizes = self.sizes();
        let first = ((at[0] * sizes.heads + at[1]) * sizes.queries + at[2]) * sizes.keys;
        let factor = 1.0 / self.keep;
        for (at, value) in row.iter_mut().enumerate() {
            let bit = first + at;
            // SAFETY: the mask has a bit for each score.
            let byte = unsafe { kept.first().add(bit / 8).read() };
            *value = if byte >> (bit % 8) & 1 != 0 { *value * factor } else { 0.0 };
        }
    }
}

/// A matrix of `f32`: where it lies, and the strides of rows and columns.
#[derive(Clone, Copy)]
struct Wide {
    first: *const f32,
    strides: (isize, isize),
}

impl Wide {
    /// Some rows of the matrix of one head, as they lie when they are `f32`, else loaded into `room`.
    ///
    /// # Safety
    /// Batch, head and rows lie inside the view, `room` holds them, and both outlive the matrix.
    unsafe fn of(
        view: &View<'_>,
        batch: usize,
        head: usize,
        rows: Range<usize>,
        room: &mut [f32],
    ) -> Wide {
        let strides = view.strides();
        let start = batch as isize * strides[0]
            + head as isize * strides[1]
            + rows.start as isize * strides[2];
        let item = view.item() as isize;
        // SAFETY: as the caller vouches.
        let from = unsafe { view.first().offset(start * item) };
        if view.dtype() == DType::Float && from.cast::<f32>().is_aligned() {
            return Wide { first: from.cast(), strides: (strides[2], strides[3]) };
        }
        let columns = view.dims()[3];
        for (at, line) in room.chunks_exact_mut(columns.max(1)).take(rows.len()).enumerate() {
            // SAFETY: as the caller vouches.
            unsafe {
                load(view.dtype(), from.offset(at as isize * strides[2] * item), strides[3], line);
            }
        }
        Wide::packed(room, columns)
    }

    fn packed(room: &[f32], columns: usize) -> Wide {
        Wide { first: room.as_ptr(), strides: (columns as isize, 1) }
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
    // SAFETY: as the caller vouches.
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
fn cut<const N: usize>(mut room: &mut [f32], lengths: [usize; N]) -> [&mut [f32]; N] {
    lengths.map(|length| {
        let (head, tail) = std::mem::take(&mut room).split_at_mut(length);
        room = tail;
        head
    })
}

/// The offset of a position of one head.
fn offset_of(view: &View<'_>, at: [usize; 3]) -> isize {
    at.iter().zip(view.strides()).map(|(index, stride)| *index as isize * stride).sum()
}
