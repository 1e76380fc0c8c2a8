//! Products with a vector: what takes the time is reading the matrix once.

use super::plain::finish;
use super::{Matrix, Task};
use crate::kernels::number::Number;
use crate::kernels::strip::{STRIP, strip, vectorised};
use crate::parallel::{Parallel, share};
use crate::{DType, View};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums that run side by side.
const LANES: usize = 32;
/// Rows of a matrix that are summed in one go.
const ROWS: usize = 64;
/// Strips whose sums are added before they join the total, so that long sums stay exact.
const CASCADE: usize = 64;
/// Elements of a matrix that are worth another thread.
const LEAST: usize = 1 << 16;
/// The most parts of one dot product.
const PARTS: usize = 16;

/// See [`super::matmul`], with one row or one column.
pub fn product<C: Number>(parallel: &dyn Parallel, task: &Task<'_, C>) {
    let transposed = task.n != 1;
    let rows = if transposed { task.n } else { task.m };
    let batches = task.batches();
    if rows == 1 {
        return (0..batches).for_each(|batch| {
            let [out, a, b] = task.matrices(batch);
            let lines = [(&task.a, a.offset, a.column), (&task.b, b.offset, b.row)];
            let mut sum = [dot_in_parallel::<C>(parallel, lines, task.k)];
            finish(task, out.offset, 0, &mut sum);
        });
    }
    let parts = (rows * task.k / LEAST).clamp(1, parallel.width());
    let by_batch = batches >= parts * 4;
    let multiply_rows = |batch: usize, rows: Range<usize>| {
        let [out, a, b] = task.matrices(batch);
        let (out, matrix, vector) = match transposed {
            true => (out.transposed(), (&task.b, b.transposed()), (&task.a, a.transposed())),
            false => (out, (&task.a, a), (&task.b, b)),
        };
        vectorised(|| {
            if task.k > 0 && matrix.1.column.abs() > matrix.1.row.abs() {
                by_columns(task, out, matrix, vector, rows);
            } else {
                by_rows(task, out, matrix, vector, rows);
            }
        });
    };
    let units = if by_batch { batches } else { batches * parts };
    let work = rows.saturating_mul(task.k).saturating_mul(batches);
    let body = |unit: usize| match by_batch {
        true => multiply_rows(unit, 0..rows),
        false => multiply_rows(unit / parts, share(rows, 16, parts, unit % parts)),
    };
    match (work / LEAST).clamp(1, parallel.width()) {
        1 => (0..units).for_each(body),
        width => parallel.run(width, &|part| share(units, 1, width, part).for_each(body)),
    }
}

/// The sum of products along two lines of `length` elements, computed in parallel.
fn dot_in_parallel<C: Number>(
    parallel: &dyn Parallel,
    lines: [(&View<'_>, isize, isize); 2],
    length: usize,
) -> C {
    let parts = (length / LEAST).clamp(1, parallel.width().min(PARTS));
    let partial = [const { AtomicU64::new(0) }; PARTS];
    let part = |at: usize| {
        let sum = vectorised(|| dot_lines::<C>(lines, share(length, STRIP, parts, at)));
        partial[at].store(to_bits(sum), Ordering::Relaxed);
    };
    match parts {
        1 => part(0),
        _ => parallel.run(parts, &part),
    }
    let sums = partial[..parts].iter().map(|bits| from_bits::<C>(bits.load(Ordering::Relaxed)));
    sums.fold(C::ZERO, C::add)
}

/// The dot product of two vectors of any strides.
pub fn dot<C: Number>(parallel: &dyn Parallel, a: View<'_>, b: View<'_>) -> C {
    let length = a.count();
    if length == 0 {
        return C::ZERO;
    }
    dot_in_parallel(parallel, [(&a, 0, a.strides()[0]), (&b, 0, b.strides()[0])], length)
}

/// A number in 64 bits, for an atomic.
fn to_bits<C: Number>(value: C) -> u64 {
    match C::DTYPE {
        DType::Int64 => value.to_i64() as u64,
        _ => value.to_f64().to_bits(),
    }
}

/// The opposite of [`to_bits`].
fn from_bits<C: Number>(bits: u64) -> C {
    match C::DTYPE {
        DType::Int64 => C::from_i64(bits as i64),
        _ => C::from_f64(f64::from_bits(bits)),
    }
}

/// The sum of products along a range of two lines.
#[inline(always)]
fn dot_lines<C: Number>(lines: [(&View<'_>, isize, isize); 2], range: Range<usize>) -> C {
    let (mut left, mut right) = ([C::ZERO; STRIP], [C::ZERO; STRIP]);
    let (mut total, mut partial) = (C::ZERO, C::ZERO);
    for (count, start) in range.clone().step_by(STRIP).enumerate() {
        let length = (range.end - start).min(STRIP);
        let [(a, a_first, a_stride), (b, b_first, b_stride)] = lines;
        // SAFETY: the range is inside both lines, which nobody writes.
        let (x, y) = unsafe {
            (
                strip(a, a_first + start as isize * a_stride, a_stride, length, true, &mut left),
                strip(b, b_first + start as isize * b_stride, b_stride, length, true, &mut right),
            )
        };
        partial = partial.add(dot_strips(x, y));
        if count % CASCADE == CASCADE - 1 {
            total = total.add(partial);
            partial = C::ZERO;
        }
    }
    total.add(partial)
}

/// The sum of products of two strips.
#[inline(always)]
pub fn dot_strips<C: Number>(x: &[C], y: &[C]) -> C {
    let mut sums = [C::ZERO; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest =
        (xs.remainder().iter().zip(ys.remainder())).fold(C::ZERO, |sum, (x, y)| sum.add(x.mul(*y)));
    for (x, y) in xs.zip(ys) {
        for at in 0..LANES {
            sums[at] = sums[at].add(x[at].mul(y[at]));
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for at in 0..width {
            sums[at] = sums[at].add(sums[at + width]);
        }
        width /= 2;
    }
    sums[0].add(rest)
}

/// A matrix whose rows are contiguous: a sum along each.
#[inline(always)]
fn by_rows<C: Number>(
    task: &Task<'_, C>,
    out: Matrix,
    (view, matrix): (&View<'_>, Matrix),
    (vector, strides): (&View<'_>, Matrix),
    rows: Range<usize>,
) {
    let (mut left, mut right) = ([C::ZERO; STRIP], [C::ZERO; STRIP]);
    for first in rows.clone().step_by(ROWS) {
        let rows_at_once = first..(first + ROWS).min(rows.end);
        let mut sums = [C::ZERO; ROWS];
        for start in (0..task.k).step_by(STRIP) {
            let length = (task.k - start).min(STRIP);
            // SAFETY: rows and columns are inside matrix and vector, which nobody writes.
            unsafe {
                let y = strip(vector, strides.at(start, 0), strides.row, length, true, &mut right);
                for (row, total) in rows_at_once.clone().zip(&mut sums) {
                    let at = matrix.at(row, start);
                    let x = strip(view, at, matrix.column, length, true, &mut left);
                    *total = total.add(dot_strips(x, y));
                }
            }
        }
        finish(task, out.at(first, 0), out.row, &mut sums[..rows_at_once.len()]);
    }
}

/// A matrix whose columns are contiguous: their weighted sum.
#[inline(always)]
fn by_columns<C: Number>(
    task: &Task<'_, C>,
    out: Matrix,
    (view, matrix): (&View<'_>, Matrix),
    (vector, strides): (&View<'_>, Matrix),
    rows: Range<usize>,
) {
    let (mut left, mut right) = ([C::ZERO; STRIP], [C::ZERO; STRIP]);
    for first in rows.clone().step_by(STRIP) {
        let length = (rows.end - first).min(STRIP);
        let (mut total, mut partial) = ([C::ZERO; STRIP], [C::ZERO; STRIP]);
        for start in (0..task.k).step_by(STRIP) {
            let count = (task.k - start).min(STRIP);
            // SAFETY: rows and columns are inside matrix and vector, which nobody writes.
            unsafe {
                let weights =
                    strip(vector, strides.at(start, 0), strides.row, count, true, &mut right);
                for (at, weight) in weights.iter().enumerate() {
                    let from = matrix.at(first, start + at);
                    let x = strip(view, from, matrix.row, length, true, &mut left);
                    for (sum, x) in partial[..length].iter_mut().zip(x) {
                        *sum = sum.add(weight.mul(*x));
                    }
                }
            }
            for (total, partial) in total.iter_mut().zip(&mut partial) {
                *total = total.add(*partial);
                *partial = C::ZERO;
            }
        }
        finish(task, out.at(first, 0), out.row, &mut total[..length]);
    }
}
