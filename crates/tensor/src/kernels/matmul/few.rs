//! Products of a matrix with few vectors, as in a step of decoding: what takes the time is reading the matrix, which is read
//! once, where it is, for all of the vectors.
//!
//! Every sum is over sixteen numbers side by side, whatever the processor and however rows are split between threads.

#![allow(
    clippy::needless_range_loop,
    reason = "indices of registers are constants, and iterators of arrays are closures"
)]

use super::plain::finish;
use super::{Matrix, Task};
use crate::kernels::prefetch::prefetch_line;
use crate::kernels::sixteen::{Narrow, Sixteen, with_sixteen};
use crate::kernels::strip::{STRIP, load};
use crate::parallel::{Parallel, share};
use crate::{DType, View};
use std::ops::Range;

/// As many vectors at most.
const FEW: usize = 8;
/// Terms that are summed before the sum joins the total, so that long sums stay exact.
const DEPTH: usize = 1024;
/// Rows of the matrix for which the vectors are loaded once.
const ROWS: usize = 256;
/// Elements of a matrix that are worth another part.
const LEAST: usize = 1 << 16;
/// Parts for each thread, so that none waits long for another.
const PARTS: usize = 4;

/// How many rows ahead are prefetched.
const AHEAD: isize = 8;
/// Elements from a vector to the next, and from sums of one to those of the next: not a power of two, so that their lines do not
/// displace each other from the cache.
const PITCH: usize = DEPTH + 16;
const SUMS: usize = STRIP + 16;

/// Some numbers of each vector.
type Vectors = [[f32; PITCH]; FEW];

/// Whether the right side is the matrix, and the rows of the left one the vectors.
fn is_right_matrix(task: &Task<'_, f32>) -> bool {
    task.m <= task.n
}

/// Whether one side has few vectors, and the other is a matrix without gaps along rows or columns.
pub fn takes(task: &Task<'_, f32>) -> bool {
    let (view, count, rows) = match is_right_matrix(task) {
        true => (&task.b, task.m, task.n),
        false => (&task.a, task.n, task.m),
    };
    let rank = view.rank();
    let strides = &view.strides()[rank - 2..];
    count <= FEW
        && rows > 1
        && task.k > 0
        && (strides[0] == 1 || strides[1] == 1)
        && matches!(view.dtype(), DType::Float | DType::Float16 | DType::Bf16)
}

/// See [`super::matmul`]; for what [`takes`] allows.
pub fn product(parallel: &dyn Parallel, task: &Task<'_, f32>) {
    let rows = task.m.max(task.n);
    let batches = task.batches();
    let work = rows.saturating_mul(task.k).saturating_mul(batches);
    let parts = match parallel.width() {
        1 => 1,
        width => (work / LEAST).clamp(1, PARTS * width),
    };
    let parts_of_batch = parts.div_ceil(batches);
    let units = batches * parts_of_batch;
    let multiply = |unit: usize| {
        let (batch, part) = (unit / parts_of_batch, unit % parts_of_batch);
        let part = &Part::new(task, batch, share(rows, 16, parts_of_batch, part));
        // SAFETY: the rows are inside the matrices, which nobody writes, and those of the result are this part's alone.
        unsafe {
            match part.view.dtype() {
                DType::Float => with_sixteen!(multiply::<f32>(part: &Part<'_>)),
                DType::Float16 => with_sixteen!(multiply::<half::f16>(part: &Part<'_>)),
                _ => with_sixteen!(multiply::<half::bf16>(part: &Part<'_>)),
            }
        }
    };
    match parts {
        1 => (0..units).for_each(multiply),
        _ => parallel.run(parts, &|part| share(units, 1, parts, part).for_each(multiply)),
    }
}

/// Some rows of the matrix of one batch, and all of its vectors.
struct Part<'t> {
    task: &'t Task<'t, f32>,
    /// Rows as those of the matrix, a column for each vector.
    out: Matrix,
    view: &'t View<'t>,
    matrix: Matrix,
    vectors: (&'t View<'t>, Matrix),
    count: usize,
    rows: Range<usize>,
}

impl<'t> Part<'t> {
    fn new(task: &'t Task<'t, f32>, batch: usize, rows: Range<usize>) -> Part<'t> {
        let [out, a, b] = task.matrices(batch);
        match is_right_matrix(task) {
            true => Part {
                task,
                out: out.transposed(),
                view: &task.b,
                matrix: b.transposed(),
                vectors: (&task.a, a.transposed()),
                count: task.m,
                rows,
            },
            false => {
                let (view, vectors) = (&task.a, (&task.b, b));
                Part { task, out, view, matrix: a, vectors, count: task.n, rows }
            }
        }
    }

    /// Loads some numbers of each vector, with zeros up to a multiple of sixteen.
    fn load(&self, terms: &Range<usize>, into: &mut Vectors) {
        let (view, matrix) = self.vectors;
        for (vector, into) in into[..self.count].iter_mut().enumerate() {
            let offset = matrix.at(terms.start, vector) * view.item() as isize;
            let (numbers, rest) = into.split_at_mut(terms.len());
            // SAFETY: the terms are inside the vectors.
            unsafe { load(view.dtype(), view.first().offset(offset), matrix.row, numbers) };
            let padding = terms.len().next_multiple_of(16) - terms.len();
            rest[..padding].fill(0.0);
        }
    }

    /// The address of an element of the matrix.
    ///
    /// # Safety
    /// It is inside.
    #[inline(always)]
    unsafe fn at<T>(&self, row: usize, term: usize) -> *const T {
        // SAFETY: as the caller guarantees.
        unsafe { self.view.first().cast::<T>().offset(self.matrix.at(row, term)) }
    }

    /// Stores the totals of rows from `first` on, for each vector.
    fn finish<const N: usize>(&self, first: usize, rows: usize, totals: &mut [[f32; N]; FEW]) {
        for (vector, totals) in totals[..self.count].iter_mut().enumerate() {
            finish(self.task, self.out.at(first, vector), self.out.row, &mut totals[..rows]);
        }
    }
}

/// The terms of all sums, so many at a time.
fn depths(terms: usize) -> impl Iterator<Item = Range<usize>> {
    (0..terms).step_by(DEPTH).map(move |start| start..(start + DEPTH).min(terms))
}

/// See [`product`].
#[inline(always)]
unsafe fn multiply<S: Sixteen, T: Narrow>(part: &Part<'_>) {
    let mut vectors = [[0f32; PITCH]; FEW];
    // SAFETY: as the caller guarantees.
    unsafe {
        match (part.matrix.column == 1, part.count) {
            (true, _) => by_rows::<S, T>(part, &mut vectors),
            (false, 1) => by_columns::<S, T, 8, 1>(part, &mut vectors),
            (false, 2) => by_columns::<S, T, 4, 2>(part, &mut vectors),
            (false, 3..=4) => by_columns::<S, T, 4, 4>(part, &mut vectors),
            (false, _) => by_columns::<S, T, 2, 8>(part, &mut vectors),
        }
    }
}

/// A matrix whose rows are contiguous: a sum along each.
#[inline(always)]
unsafe fn by_rows<S: Sixteen, T: Narrow>(part: &Part<'_>, vectors: &mut Vectors) {
    for first in part.rows.clone().step_by(ROWS) {
        let rows = (part.rows.end - first).min(ROWS);
        let mut totals = [[0f32; ROWS]; FEW];
        for terms in depths(part.task.k) {
            // One load serves all rows where it has all terms.
            if part.task.k > DEPTH || first == part.rows.start {
                part.load(&terms, vectors);
            }
            // SAFETY: as the caller guarantees.
            unsafe {
                let lines = Lines::<T> {
                    first: part.at(first, terms.start),
                    pitch: part.matrix.row,
                    terms: terms.len(),
                };
                let all = 0..rows;
                // As many sums at once as registers hold.
                match (S::IS_ONE_REGISTER, part.count) {
                    (true, 1) => sum_rows::<S, T, 8, 1>(lines, all, vectors, 0, &mut totals),
                    (true, 2) => sum_rows::<S, T, 8, 2>(lines, all, vectors, 0, &mut totals),
                    (true, 3..=4) => sum_rows::<S, T, 4, 4>(lines, all, vectors, 0, &mut totals),
                    (true, _) => sum_rows::<S, T, 2, 8>(lines, all, vectors, 0, &mut totals),
                    (false, 1) => sum_rows::<S, T, 4, 1>(lines, all, vectors, 0, &mut totals),
                    (false, 2) => sum_rows::<S, T, 2, 2>(lines, all, vectors, 0, &mut totals),
                    (false, count) => {
                        for row in all {
                            let row = row..row + 1;
                            for at in (0..count).step_by(4) {
                                let row = row.clone();
                                sum_rows::<S, T, 1, 4>(lines, row, vectors, at, &mut totals);
                            }
                        }
                    }
                }
            }
        }
        part.finish(first, rows, &mut totals);
    }
}

/// Rows of so many terms.
#[derive(Clone, Copy)]
struct Lines<T> {
    first: *const T,
    pitch: isize,
    terms: usize,
}

/// Adds the sums of some rows with `M` vectors, from vector `vector` on, to the totals; `R` rows at a time.
#[inline(always)]
unsafe fn sum_rows<S: Sixteen, T: Narrow, const R: usize, const M: usize>(
    lines: Lines<T>,
    rows: Range<usize>,
    vectors: &Vectors,
    vector: usize,
    totals: &mut [[f32; ROWS]; FEW],
) {
    let whole = rows.start + rows.len() / R * R;
    // SAFETY: as the caller guarantees.
    unsafe {
        for row in (rows.start..whole).step_by(R) {
            let sums = sums_of::<S, T, R, M>(lines, row, vectors, vector);
            for (at, sums) in sums.iter().enumerate() {
                for (vector, sum) in (vector..).zip(sums) {
                    totals[vector][row + at] += sum;
                }
            }
        }
        for row in whole..rows.end {
            let [sums] = sums_of::<S, T, 1, M>(lines, row, vectors, vector);
            for (vector, sum) in (vector..).zip(sums) {
                totals[vector][row] += sum;
            }
        }
    }
}

/// The sums of `R` rows with `M` vectors.
#[inline(always)]
unsafe fn sums_of<S: Sixteen, T: Narrow, const R: usize, const M: usize>(
    Lines { first, pitch, terms }: Lines<T>,
    row: usize,
    vectors: &Vectors,
    vector: usize,
) -> [[f32; M]; R] {
    let whole = terms / 16 * 16;
    // SAFETY: as the caller guarantees; what is prefetched need not be there.
    unsafe {
        let first = first.offset(row as isize * pitch);
        let numbers = vectors[vector].as_ptr();
        let mut sums = [[S::repeated(0.0); M]; R];
        for at in (0..whole).step_by(16) {
            let mut terms = [S::repeated(0.0); M];
            for m in 0..M {
                terms[m] = S::load(numbers.add(m * PITCH + at));
            }
            for row in 0..R {
                let from = first.offset(row as isize * pitch).add(at);
                prefetch_line(from.wrapping_offset(AHEAD * pitch).cast());
                let elements = T::load::<S>(from);
                for m in 0..M {
                    sums[row][m] = sums[row][m].plus(elements, terms[m]);
                }
            }
        }
        if whole < terms {
            for (row, sums) in sums.iter_mut().enumerate() {
                let from = first.offset(row as isize * pitch).add(whole);
                let elements = T::load_some::<S>(from, terms - whole);
                for (m, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.plus(elements, S::load(numbers.add(m * PITCH + whole)));
                }
            }
        }
        let mut results = [[0f32; M]; R];
        if R * M > 4 {
            let mut all = [S::repeated(0.0); 16];
            for at in 0..R * M {
                all[at] = sums[at / M][at % M];
            }
            let mut numbers = [0f32; 16];
            S::sums(all).store(numbers.as_mut_ptr());
            results.as_flattened_mut().copy_from_slice(&numbers[..R * M]);
        } else {
            for row in 0..R {
                for m in 0..M {
                    results[row][m] = sums[row][m].sum();
                }
            }
        }
        results
    }
}

/// A matrix whose columns are contiguous: their weighted sums, `K` columns at a time, for `M` vectors.
#[inline(always)]
unsafe fn by_columns<S: Sixteen, T: Narrow, const K: usize, const M: usize>(
    part: &Part<'_>,
    vectors: &mut Vectors,
) {
    for first in part.rows.clone().step_by(STRIP) {
        let rows = (part.rows.end - first).min(STRIP);
        let mut totals = [[0f32; SUMS]; FEW];
        for (block, terms) in depths(part.task.k).enumerate() {
            if part.task.k > DEPTH || first == part.rows.start {
                part.load(&terms, vectors);
            }
            let mut partial = [[0f32; SUMS]; M];
            // The first sums are the total.
            let sums = match block {
                0 => <&mut [[f32; SUMS]; M]>::try_from(&mut totals[..M]).expect("as many"),
                _ => &mut partial,
            };
            let whole = terms.len() / K * K;
            // SAFETY: as the caller guarantees.
            unsafe {
                for at in (0..whole).step_by(K) {
                    let from = part.at(first, terms.start + at);
                    add_columns::<S, T, K, M>(from, part.matrix.column, rows, vectors, at, sums);
                }
                for at in whole..terms.len() {
                    let from = part.at(first, terms.start + at);
                    add_columns::<S, T, 1, M>(from, part.matrix.column, rows, vectors, at, sums);
                }
            }
            if block > 0 {
                for (totals, partial) in totals.iter_mut().zip(&partial) {
                    for (total, partial) in totals.iter_mut().zip(partial) {
                        *total += partial;
                    }
                }
            }
        }
        part.finish(first, rows, &mut totals);
    }
}

/// Adds `K` columns, each times its number of a vector, to the sums of `M` vectors.
#[inline(always)]
unsafe fn add_columns<S: Sixteen, T: Narrow, const K: usize, const M: usize>(
    first: *const T,
    pitch: isize,
    rows: usize,
    vectors: &Vectors,
    term: usize,
    sums: &mut [[f32; SUMS]; M],
) {
    // SAFETY: as the caller guarantees; sums have room for whole vectors, and what is prefetched need not be there.
    unsafe {
        let whole = rows / 16 * 16;
        for at in (0..rows).step_by(16) {
            let mut columns = [S::repeated(0.0); K];
            for column in 0..K {
                let from = first.offset(column as isize * pitch).add(at);
                if at < whole {
                    prefetch_line(from.wrapping_offset(K as isize * pitch).cast());
                    columns[column] = T::load::<S>(from);
                } else {
                    columns[column] = T::load_some::<S>(from, rows - whole);
                }
            }
            for vector in 0..M {
                let to = sums[vector].as_mut_ptr().add(at);
                let mut sum = S::load(to);
                for column in 0..K {
                    let number = S::repeated(vectors[vector][term + column]);
                    sum = sum.plus(columns[column], number);
                }
                sum.store(to);
            }
        }
    }
}
