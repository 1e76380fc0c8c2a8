//! Scans: the cumulative result at each index of a line.

use super::element::Compute;
use super::lines::{BUFFER, Lines};
use super::number::Number;
use crate::parallel::Parallel;
use crate::{View, ViewMut};
use std::ops::Range;

/// Neighbouring lines that are scanned together.
const TILE: usize = 256;

/// `out[i] = merge(start, a[0], .., a[i])` along a dimension, in `C`; without `a[i]` itself if `exclusive`.
/// Sizes are equal; `a` is `out` itself or does not overlap it.
pub fn scan<C: Compute>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    dim: usize,
    exclusive: bool,
    start: C,
    merge: impl Fn(C, C) -> C + Sync,
) {
    let lines = Lines::new([out.view(), a], dim);
    lines.for_each_range(parallel, |range| match lines.columns {
        true => {
            let (mut row, mut accumulators) = ([start; TILE], [start; TILE]);
            lines.groups(range, TILE, |offsets, width| {
                let (row, accumulators) = (&mut row[..width], &mut accumulators[..width]);
                accumulators.fill(start);
                for index in 0..lines.length() {
                    lines.load_row(1, offsets, index, row);
                    for (accumulator, x) in accumulators.iter_mut().zip(row.iter_mut()) {
                        let next = merge(*accumulator, *x);
                        *x = if exclusive { *accumulator } else { next };
                        *accumulator = next;
                    }
                    lines.store_row(&out, 0, offsets, index, row);
                }
            });
        }
        false => {
            let mut buffer = [start; BUFFER];
            lines.each(range, |offsets| {
                let mut accumulator = start;
                for from in (0..lines.length()).step_by(BUFFER) {
                    let buffer = &mut buffer[..BUFFER.min(lines.length() - from)];
                    lines.load(1, offsets, from, buffer);
                    for x in buffer.iter_mut() {
                        let next = merge(accumulator, *x);
                        *x = if exclusive { accumulator } else { next };
                        accumulator = next;
                    }
                    lines.store(&out, 0, offsets, from, buffer);
                }
            });
        }
    });
}

/// The greatest (or least) so far and its last index, along a dimension. Once there was a NaN, it stays. Sizes are
/// equal; `a` may be `values` itself.
pub fn extremes<C: Number>(
    parallel: &dyn Parallel,
    values: ViewMut<'_>,
    indices: ViewMut<'_>,
    a: View<'_>,
    dim: usize,
    greatest: bool,
) {
    let lines = Lines::new([values.view(), indices.view(), a], dim);
    let length = lines.length();
    lines.for_each_range(parallel, |range: Range<usize>| {
        let (mut buffer, mut best_indices) = ([C::ZERO; BUFFER], [0i64; BUFFER]);
        lines.each(range, |offsets| {
            let mut best: Option<(C, i64)> = None;
            for from in (0..length).step_by(BUFFER) {
                let count = BUFFER.min(length - from);
                lines.load(2, offsets, from, &mut buffer[..count]);
                for (i, (x, index)) in
                    buffer.iter_mut().zip(&mut best_indices).take(count).enumerate()
                {
                    let replaces = match best {
                        None => true,
                        Some((old, _)) => {
                            x.is_nan()
                                || (!old.is_nan() && if greatest { *x >= old } else { *x <= old })
                        }
                    };
                    let current =
                        if replaces { (*x, (from + i) as i64) } else { best.unwrap_or((*x, 0)) };
                    best = Some(current);
                    (*x, *index) = current;
                }
                lines.store(&values, 0, offsets, from, &buffer[..count]);
                lines.store(&indices, 1, offsets, from, &best_indices[..count]);
            }
        });
    });
}
