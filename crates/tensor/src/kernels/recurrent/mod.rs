//! Recurrent networks, a layer and a direction at a time.
//!
//! The product of all inputs and their weights is computed before. These kernels walk over the steps: the product with
//! the hidden state, then the gates of all rows, in `f32`. Backward kernels go from the last step to the first and
//! leave the gradients of the gates, from which those of weights and inputs are products again.

mod gru;
mod lstm;

pub use gru::{Gru, GruGradients, gru, gru_gradients};
pub use lstm::{
    Cell, CellGradients, Lstm, LstmGradients, cell, cell_gradients, lstm, lstm_gradients,
};

use super::strip::{STRIP, load, store};
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};
use std::ops::Range;

/// Elements of gates that are worth another thread.
const LEAST: usize = 1 << 13;

/// The steps of one layer in one direction, over rows of a batch.
#[derive(Clone, Copy)]
pub struct Recurrence<'a> {
    /// How many steps; at least 1.
    pub steps: usize,
    /// How many rows.
    pub rows: usize,
    /// How many elements a hidden state has.
    pub hidden: usize,
    /// Whether the last step comes first.
    pub reversed: bool,
    /// Which rows take part in each step: `f32` by steps and rows, not 0 where they do. The others keep their state, and
    /// what they put out is 0. `None` where all do.
    pub active: Option<View<'a>>,
}

impl Recurrence<'_> {
    /// The steps in the order of time.
    fn order(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.steps).map(move |at| if self.reversed { self.steps - 1 - at } else { at })
    }

    /// The step before, in the order of time.
    fn before(self, step: usize) -> Option<usize> {
        match self.reversed {
            true => (step + 1 < self.steps).then_some(step + 1),
            false => step.checked_sub(1),
        }
    }

    /// Whether a row takes part in a step.
    fn is_active(&self, step: usize, row: usize) -> bool {
        let Some(active) = &self.active else {
            return true;
        };
        let mut flag = [0.0];
        fetch(active, &[step, row], &mut flag);
        flag[0] != 0.0
    }

    /// Calls `body` with rows, spread over the threads.
    fn each_row(&self, parallel: &dyn Parallel, gates: usize, body: impl Fn(usize) + Sync) {
        let least = (LEAST / (gates * self.hidden).max(1)).max(1);
        split(parallel, self.rows, 1, least, |rows| rows.for_each(&body));
    }
}

/// Marks in `active` (`f32`, steps by rows) the rows that take part in each step: the first `sizes[step]`. An error is the
/// step with a number that is below 1, above that of the step before, or above that of rows; or, first, not all rows.
pub fn mark_by_sizes(active: ViewMut<'_>, sizes: View<'_>) -> Result<(), (usize, i64)> {
    let (steps, rows) = (active.dims()[0], active.dims()[1]);
    let (flags, mut previous) = (floats(&active, 0, steps * rows), rows as i64);
    for (step, flags) in flags.chunks_exact_mut(rows.max(1)).enumerate() {
        let size = super::peek::first(part(&sizes, step)).map_or(-1, |size| size.as_i64());
        if size < 1 || size > previous || (step == 0 && size != previous) {
            return Err((step, size));
        }
        previous = size;
        for (row, flag) in flags.iter_mut().enumerate() {
            *flag = f32::from((row as i64) < size);
        }
    }
    Ok(())
}

/// As [`mark_by_sizes`], by how many steps each row takes part in, from the first on; an error is the row with a
/// number below 0 or above that of steps.
pub fn mark_by_lengths(active: ViewMut<'_>, lengths: View<'_>) -> Result<(), (usize, i64)> {
    let (steps, rows) = (active.dims()[0], active.dims()[1]);
    let flags = floats(&active, 0, steps * rows);
    for row in 0..rows {
        let length = super::peek::first(part(&lengths, row)).map_or(-1, |one| one.as_i64());
        if length < 0 || length > steps as i64 {
            return Err((row, length));
        }
        for step in 0..steps {
            flags[step * rows + row] = f32::from((step as i64) < length);
        }
    }
    Ok(())
}

/// Puts zeros into the rows of `rows` (steps by rows by elements) that take no part in a step, by `active` of
/// [`Recurrence`].
pub fn clear_inactive(parallel: &dyn Parallel, rows: ViewMut<'_>, active: View<'_>) {
    let [steps, count, length] = [0, 1, 2].map(|at| rows.dims()[at]);
    let least = (LEAST / length.max(1)).max(1);
    split(parallel, steps * count, 1, least, |range| {
        let zeros = [0.0; STRIP];
        for at in range {
            let (step, row, mut flag) = (at / count, at % count, [0.0]);
            fetch(&active, &[step, row], &mut flag);
            if flag[0] != 0.0 {
                continue;
            }
            for start in (0..length).step_by(STRIP) {
                put(&Some(rows), &[step, row, start], &zeros[..STRIP.min(length - start)]);
            }
        }
    });
}

/// The sums of the columns of `a` (`f32`, contiguous, rows by columns), into `out` (`f32`, contiguous).
pub fn column_sums(parallel: &dyn Parallel, out: ViewMut<'_>, a: View<'_>) {
    const BLOCK: usize = 64;
    let (rows, columns) = (a.dims()[0], a.dims()[1]);
    let least = ((1 << 16) / rows.max(1)).max(16);
    split(parallel, columns, 16, least, |part| {
        let sums = floats(&out, part.start, part.len());
        sums.fill(0.0);
        let mut buffer = [0.0f32; 256];
        for (at, sums) in sums.chunks_mut(256).enumerate() {
            let first = part.start + at * 256;
            for block in (0..rows).step_by(BLOCK) {
                let buffer = &mut buffer[..sums.len()];
                buffer.fill(0.0);
                for row in block..rows.min(block + BLOCK) {
                    let line = floats_to_read(&a, row * columns + first, sums.len());
                    buffer.iter_mut().zip(line).for_each(|(sum, one)| *sum += one);
                }
                sums.iter_mut().zip(buffer).for_each(|(sum, one)| *sum += *one);
            }
        }
    });
}

/// The bias of the gates, into `out` (`f32`, contiguous): the sum of these, and `extra` on the elements of a range.
pub fn gather_bias(
    out: ViewMut<'_>,
    parts: &[Option<View<'_>>],
    (range, extra): (Range<usize>, f32),
) {
    let sums = floats(&out, 0, out.count());
    sums.fill(0.0);
    let mut buffer = [0.0; STRIP];
    for part in parts.iter().flatten() {
        for (at, sums) in sums.chunks_mut(STRIP).enumerate() {
            fetch(part, &[at * STRIP], &mut buffer[..sums.len()]);
            sums.iter_mut().zip(&buffer).for_each(|(sum, one)| *sum += one);
        }
    }
    sums[range].iter_mut().for_each(|sum| *sum += extra);
}

/// Element `at` of a view with one dimension.
fn part<'a>(view: &View<'a>, at: usize) -> View<'a> {
    view.with_layout(view.layout().at(0, at)).expect("a part of it")
}

/// Loads elements from a position on, along the last dimension.
#[inline]
fn fetch(view: &View<'_>, position: &[usize], into: &mut [f32]) {
    let (offset, stride) = offset_and_stride(view, position, into.len());
    // SAFETY: `offset_and_stride` asserts that the elements are in the view.
    unsafe { load(view.dtype(), view.first().offset(offset), stride, into) };
}

/// Stores elements from a position on, along the last dimension, if they are requested.
#[inline]
fn put(view: &Option<ViewMut<'_>>, position: &[usize], from: &[f32]) {
    let Some(view) = view else { return };
    let (offset, stride) = offset_and_stride(view, position, from.len());
    // SAFETY: `offset_and_stride` asserts that the elements are in the view; rows belong to one thread each.
    unsafe { store(view.dtype(), view.first_mut().offset(offset), stride, from) };
}

/// The offset of a position in bytes, and the stride from there on; panics where `length` elements from there on leave
/// the view.
fn offset_and_stride(view: &View<'_>, position: &[usize], length: usize) -> (isize, isize) {
    let (dims, strides) = (view.dims(), view.strides());
    let last = dims.len() - 1;
    let inside = position.iter().zip(dims).all(|(at, size)| at < size);
    assert!(inside && position[last] + length <= dims[last], "{position:?} + {length} in {dims:?}");
    let offset: isize =
        position.iter().zip(strides).map(|(at, stride)| *at as isize * stride).sum();
    (offset * view.item() as isize, strides[last])
}

/// Elements of a contiguous `f32` view, which nobody else touches meanwhile: rows belong to one thread each.
#[allow(clippy::mut_from_ref)]
fn floats<'a>(view: &ViewMut<'a>, from: usize, length: usize) -> &'a mut [f32] {
    check(view, from, length);
    // SAFETY: as `check` asserts; threads keep to rows of their own.
    unsafe { std::slice::from_raw_parts_mut(view.first_mut().cast::<f32>().add(from), length) }
}

/// As [`floats`], to read.
fn floats_to_read<'a>(view: &View<'a>, from: usize, length: usize) -> &'a [f32] {
    check(view, from, length);
    // SAFETY: as `check` asserts; nobody writes it meanwhile.
    unsafe { std::slice::from_raw_parts(view.first().cast::<f32>().add(from), length) }
}

/// Asserts that the elements are in the view, which is `f32`, contiguous and aligned.
fn check(view: &View<'_>, from: usize, length: usize) {
    let is_contiguous_f32 = view.dtype() == DType::Float && view.is_contiguous();
    let aligned = view.address().is_multiple_of(align_of::<f32>());
    assert!(
        is_contiguous_f32 && aligned && from + length <= view.count(),
        "{from} + {length} of {}",
        view.layout()
    );
}
