//! Attention: `softmax(mask(scale * (q @ k^T + shift))) @ v`, head by head, and its backward.
//!
//! Queries are taken by panels of [`LANES`], keys by tiles of [`KEYS`]: the scores of a panel with a tile are stored
//! key by key, a lane for each query, so that greatest scores and sums run down the lanes ([`panel`]), and both
//! products read keys and values as they lie in memory ([`super::small_product`]). The softmax is computed on the way,
//! tile by tile; tiles without keys that count are left out.
//!
//! Each worker has a part of the workspace to itself. How many workers there are does not depend on the number of
//! threads.

mod backward;
pub mod cache;
mod forward;
mod panel;
mod scores;

pub use backward::{Gradients, backward, backward_scratch};
pub use forward::{forward, forward_scratch};

use super::small_product::Rows;
use super::strip::{load, store};
use crate::{DType, View, ViewMut};
use std::ops::Range;

/// Queries of a panel.
const LANES: usize = 32;
/// Panels that share a tile of keys and values once it is loaded.
const PANELS: usize = 4;
/// Keys of a tile.
const KEYS: usize = 96;
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
    /// The attention sink: a score for each head that takes part in the softmax and has no value.
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

/// The linear biases of ALiBi: minus the distance between key and query (or its root), times a number for each batch and head.
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
    /// Panels of one piece of work: fewer where there would be too few pieces.
    fn panels(&self) -> usize {
        let (heads, all) = (self.batches * self.heads, self.queries.div_ceil(LANES));
        let mut panels = all.clamp(1, PANELS);
        while panels > 1 && heads * all.div_ceil(panels) < WORKERS {
            panels /= 2;
        }
        panels
    }

    /// Keys of a tile.
    fn tile(&self) -> usize {
        self.keys.min(KEYS)
    }

    /// Heads of queries that share a head of keys and values.
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
}

/// Some rows of one head: as they are when they are `f32` without gaps, else loaded into `buffer`, one after the other.
///
/// # Safety
/// Batch, head and rows are inside the view, `buffer` holds them, and both outlive the result.
unsafe fn rows_of(
    view: &View<'_>,
    [batch, head]: [usize; 2],
    rows: Range<usize>,
    buffer: &mut [f32],
) -> Rows<*const f32> {
    let (strides, item, columns) = (view.strides(), view.item() as isize, view.dims()[3]);
    let start = offset_of(view, [batch, head, rows.start]) * item;
    // SAFETY: as the caller guarantees.
    let from = unsafe { view.first().offset(start) };
    let is_aligned_f32 = view.dtype() == DType::Float && from.cast::<f32>().is_aligned();
    if is_aligned_f32 && strides[2] > 0 && (strides[3] == 1 || columns == 1) {
        return Rows { first: from.cast(), pitch: strides[2] as usize };
    }
    for (at, line) in buffer.chunks_exact_mut(columns.max(1)).take(rows.len()).enumerate() {
        // SAFETY: as the caller guarantees.
        unsafe {
            load(view.dtype(), from.offset(at as isize * strides[2] * item), strides[3], line);
        }
    }
    Rows { first: buffer.as_ptr(), pitch: columns }
}

/// Stores rows that are `pitch` apart in `from`.
fn put(
    view: &ViewMut<'_>,
    at: [usize; 3],
    (from, pitch): (&[f32], usize),
    rows: usize,
    columns: usize,
) {
    for (row, line) in from.chunks(pitch.max(1)).take(rows).enumerate() {
        let offset = offset_of(view, [at[0], at[1], at[2] + row]) * view.item() as isize;
        // SAFETY: the rows are inside the view, and belong to the calling unit alone.
        unsafe {
            store(
                view.dtype(),
                view.first_mut().offset(offset),
                view.strides()[3],
                &line[..columns],
            );
        }
    }
}

/// Splits a worker's part of the workspace into parts of these lengths, one after the other.
fn split_scratch<const N: usize>(mut buffer: &mut [f32], lengths: [usize; N]) -> [&mut [f32]; N] {
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
