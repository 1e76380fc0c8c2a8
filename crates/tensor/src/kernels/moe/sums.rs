//! Weighted sums of rows, and their gradients.

use crate::kernels::access::{PositionAccess, PositionAccessMut};
use crate::kernels::lines::BUFFER;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// A thread takes at least this many elements.
const LEAST: usize = 1 << 14;

/// Rows that are worth another thread, of rows of this many elements each of which is touched `times` times.
fn least_rows(columns: usize, times: usize) -> usize {
    LEAST / (columns * times.max(1)).max(1) + 1
}

/// Fills each row of `out`, of two dimensions, with a sum of `terms` terms. `start` fills a strip of the row (row, first column,
/// elements) with what the sum begins with; `term` fills a strip with a term (row, term, first column, elements) and returns
/// its weight, or `None` for no term. Sums are computed in `f32` and rounded once.
pub fn combine(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    terms: usize,
    start: impl Fn(usize, usize, &mut [f32]) + Sync,
    term: impl Fn(usize, usize, usize, &mut [f32]) -> Option<f32> + Sync,
) {
    let (rows, columns) = (out.dims()[0], out.dims()[1]);
    let to = PositionAccessMut::new(out);
    split(parallel, rows, 1, least_rows(columns, terms + 1), |range| {
        let (mut sums, mut strip) = ([0f32; BUFFER], [0f32; BUFFER]);
        for row in range {
            for first in (0..columns).step_by(BUFFER) {
                let length = BUFFER.min(columns - first);
                let (sums, strip) = (&mut sums[..length], &mut strip[..length]);
                sums.fill(0.0);
                start(row, first, sums);
                for at in 0..terms {
                    if let Some(weight) = term(row, at, first, strip) {
                        sums.iter_mut().zip(&*strip).for_each(|(sum, x)| *sum += weight * x);
                    }
                }
                to.put_line(&[row, first], sums);
            }
        }
    });
}

/// Adds a row of a tensor of two dimensions to a strip that begins at column `first`.
pub fn add_row(rows: &PositionAccess<'_>, row: usize, first: usize, strip: &mut [f32]) {
    let mut other = [0f32; 256];
    for (at, part) in strip.chunks_mut(other.len()).enumerate() {
        let other = &mut other[..part.len()];
        rows.line(&[row, first + at * 256], other);
        part.iter_mut().zip(&*other).for_each(|(x, y)| *x += y);
    }
}

/// Fills each row of `out` with a row of `from` times a weight, both as `source` says, or with zeros.
pub fn scale(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    from: View<'_>,
    source: impl Fn(usize) -> Option<(usize, f32)> + Sync,
) {
    let from = PositionAccess::new(from);
    combine(
        parallel,
        out,
        1,
        |_, _, _| {},
        |row, _, first, strip| {
            let (row, weight) = source(row)?;
            from.line(&[row, first], strip);
            Some(weight)
        },
    );
}

/// For each number below `count` the sum of products of two rows of `columns` elements, which `fill` puts into strips (number,
/// first column, left, right) unless there are none; `put` takes it.
pub fn dots(
    parallel: &dyn Parallel,
    count: usize,
    columns: usize,
    fill: impl Fn(usize, usize, &mut [f32], &mut [f32]) -> bool + Sync,
    put: impl Fn(usize, f32) + Sync,
) {
    split(parallel, count, 1, least_rows(columns, 2), |range| {
        let (mut left, mut right) = ([0f32; BUFFER], [0f32; BUFFER]);
        for at in range {
            let mut sum = 0f64;
            for first in (0..columns).step_by(BUFFER) {
                let length = BUFFER.min(columns - first);
                let (left, right) = (&mut left[..length], &mut right[..length]);
                if fill(at, first, left, right) {
                    sum += f64::from(crate::kernels::matmul::dot_strips(left, right));
                }
            }
            put(at, sum as f32);
        }
    });
}
