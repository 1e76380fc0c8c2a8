//! Softmax, its logarithm, and their gradients.

use super::fold::{folded, shift};
use super::lines::{BUFFER, Buffer, Lines};
use super::math::Real;
use super::strip::vectorised_fn;
use crate::parallel::Parallel;
use crate::{View, ViewMut};

/// Neighbouring lines that are computed together.
const TILE: usize = 256;
/// Sums side by side.
const LANES: usize = 16;

/// `out = softmax(a)` along a dimension, or its logarithm. Sizes are equal; `a` is `out` itself or does not overlap it.
pub fn softmax<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    dim: usize,
    logarithm: bool,
) {
    let lines = Lines::new([out.view(), a], dim);
    lines.for_each_range(parallel, |range| match (lines.columns, logarithm) {
        (true, _) => columns::<C>(&lines, &out, range, logarithm),
        (false, true) => along::<C, true>(&lines, &out, range),
        (false, false) => along::<C, false>(&lines, &out, range),
    });
}

/// What is subtracted from exponents: the greatest. NaN for an infinite one, and so are all results.
#[inline(always)]
fn exponent_shift<C: Real>(greatest: C) -> C {
    greatest.sub(greatest).add(greatest)
}

/// Greatest and sum of exponentials of a strip.
#[inline(always)]
fn exponentials<C: Real>(values: &[C]) -> (C, C) {
    let greatest = folded(values, C::LEAST, |x| x, C::greatest);
    let shift_by = shift(greatest);
    (greatest, folded(values, C::ZERO, |x| x.sub(shift_by).exp_below(), C::add))
}

/// Writes the exponentials of the values less `subtracted`; returns their sum.
#[inline(always)]
fn exponentials_and_sum<C: Real>(values: &[C], subtracted: C, to: &mut [C]) -> C {
    let mut sums = [C::ZERO; LANES];
    let ((values, last), (to, last_to)) =
        (values.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
    for (values, to) in values.iter().zip(to) {
        for lane in 0..LANES {
            to[lane] = values[lane].sub(subtracted).exp_below();
            sums[lane] = sums[lane].add(to[lane]);
        }
    }
    for ((value, to), sum) in last.iter().zip(last_to).zip(&mut sums) {
        *to = value.sub(subtracted).exp_below();
        *sum = sum.add(*to);
    }
    folded(&sums, C::ZERO, |x| x, C::add)
}

/// Greatest and sum of exponentials of two parts together.
#[inline(always)]
fn merge<C: Real>(a: (C, C), b: (C, C)) -> (C, C) {
    let greatest = a.0.greatest(b.0);
    let shift_by = shift(greatest);
    let scaled = |part: (C, C)| {
        if part.1 == C::ZERO { C::ZERO } else { part.1.mul(shift(part.0).sub(shift_by).exp()) }
    };
    (greatest, scaled(a).add(scaled(b)))
}

vectorised_fn! {
    /// See [`softmax`]; line by line.
    fn along<C: Real, const LOG: bool>(
        lines: &Lines<'_, 2>,
        out: &ViewMut<'_>,
        range: std::ops::Range<usize>,
    ) {
        let [mut buffer, mut out_buffer] = [Buffer([C::ZERO; BUFFER]); 2];
        let (buffer, out_buffer) = (&mut buffer.0, &mut out_buffer.0);
        let length = lines.length();
        lines.each(range, |offsets| {
            if length <= BUFFER {
                let x = lines.line(1, offsets, 0, &mut buffer[..length]);
                let subtracted = exponent_shift(folded(x, C::LEAST, |x| x, C::greatest));
                return lines.write_line(out, 0, offsets, 0, &mut out_buffer[..length], |to| {
                    let sum = exponentials_and_sum(x, subtracted, to);
                    if LOG {
                        let log_sum = sum.ln();
                        to.iter_mut().zip(x).for_each(|(to, x)| *to = x.sub(subtracted).sub(log_sum));
                    } else {
                        let inverse_sum = C::ONE.div(sum);
                        to.iter_mut().for_each(|to| *to = to.mul(inverse_sum));
                    }
                });
            }
            let mut totals = (C::LEAST, C::ZERO);
            for from in (0..length).step_by(BUFFER) {
                let buffer = &mut buffer[..BUFFER.min(length - from)];
                lines.load(1, offsets, from, buffer);
                totals = merge(totals, exponentials::<C>(buffer));
            }
            let (subtracted, log_sum, inverse_sum) = (exponent_shift(totals.0), totals.1.ln(), C::ONE.div(totals.1));
            for from in (0..length).step_by(BUFFER) {
                let buffer = &mut buffer[..BUFFER.min(length - from)];
                lines.load(1, offsets, from, buffer);
                for value in buffer.iter_mut() {
                    let x = value.sub(subtracted);
                    *value = if LOG { x.sub(log_sum) } else { x.exp().mul(inverse_sum) };
                }
                lines.store(out, 0, offsets, from, buffer);
            }
        });
    }
}

vectorised_fn! {
    /// See [`softmax`]; many neighbouring lines at a time.
    fn columns<C: Real>(
        lines: &Lines<'_, 2>,
        out: &ViewMut<'_>,
        range: std::ops::Range<usize>,
        logarithm: bool,
    ) {
        let (mut row, mut subtracted, mut sums) = ([C::ZERO; TILE], [C::ZERO; TILE], [C::ZERO; TILE]);
        lines.groups(range, TILE, |offsets, width| {
            let (row, subtracted, sums) = (&mut row[..width], &mut subtracted[..width], &mut sums[..width]);
            subtracted.fill(C::LEAST);
            sums.fill(C::ZERO);
            for index in 0..lines.length() {
                lines.load_row(1, offsets, index, row);
                for (best, x) in subtracted.iter_mut().zip(row.iter()) {
                    *best = best.greatest(*x);
                }
            }
            subtracted.iter_mut().for_each(|best| *best = exponent_shift(*best));
            for index in 0..lines.length() {
                lines.load_row(1, offsets, index, row);
                for ((sum, x), shift_by) in sums.iter_mut().zip(row.iter()).zip(subtracted.iter()) {
                    *sum = sum.add(x.sub(*shift_by).exp());
                }
            }
            sums.iter_mut().for_each(|sum| *sum = if logarithm { sum.ln() } else { C::ONE.div(*sum) });
            for index in 0..lines.length() {
                lines.load_row(1, offsets, index, row);
                for ((x, sum), shift_by) in row.iter_mut().zip(sums.iter()).zip(subtracted.iter()) {
                    let shifted = x.sub(*shift_by);
                    *x = if logarithm { shifted.sub(*sum) } else { shifted.exp().mul(*sum) };
                }
                lines.store_row(out, 0, offsets, index, row);
            }
        });
    }
}

/// The gradient of [`softmax`] from that of its result `y`: `y * (grad - sum(grad * y))`, or
/// `grad - exp(y) * sum(grad)` for the logarithm. Inputs are `out` itself or do not overlap it.
pub fn softmax_backward<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    grad: View<'_>,
    y: View<'_>,
    dim: usize,
    logarithm: bool,
) {
    let lines = Lines::new([out.view(), grad, y], dim);
    lines.for_each_range(parallel, |range| match (lines.columns, logarithm) {
        (true, _) => columns_backward::<C>(&lines, &out, range, logarithm),
        (false, true) => along_backward::<C, true>(&lines, &out, range),
        (false, false) => along_backward::<C, false>(&lines, &out, range),
    });
}

/// The gradient of one element; `sum` is the one in [`softmax_backward`].
#[inline(always)]
fn gradient<C: Real>(grad: C, y: C, sum: C, logarithm: bool) -> C {
    match logarithm {
        true => grad.sub(y.exp().mul(sum)),
        false => y.mul(grad.sub(sum)),
    }
}

vectorised_fn! {
    /// See [`softmax_backward`]; line by line.
    fn along_backward<C: Real, const LOG: bool>(
        lines: &Lines<'_, 3>,
        out: &ViewMut<'_>,
        range: std::ops::Range<usize>,
    ) {
        let [mut grads, mut ys] = [Buffer([C::ZERO; BUFFER]); 2];
        let (grads, ys) = (&mut grads.0, &mut ys.0);
        let length = lines.length();
        lines.each(range, |offsets| {
            let mut sum = C::ZERO;
            for from in (0..length).step_by(BUFFER) {
                let piece_length = BUFFER.min(length - from);
                lines.load(1, offsets, from, &mut grads[..piece_length]);
                if LOG {
                    sum = sum.add(folded(&grads[..piece_length], C::ZERO, |x| x, C::add));
                    if length <= BUFFER {
                        lines.load(2, offsets, from, &mut ys[..piece_length]);
                    }
                } else {
                    lines.load(2, offsets, from, &mut ys[..piece_length]);
                    let mut products = [C::ZERO; 16];
                    let (grad_chunks, grad_rest) = grads[..piece_length].as_chunks::<16>();
                    let (y_chunks, y_rest) = ys[..piece_length].as_chunks::<16>();
                    for (g, y) in grad_chunks.iter().zip(y_chunks) {
                        for lane in 0..16 {
                            products[lane] = products[lane].add(g[lane].mul(y[lane]));
                        }
                    }
                    let last = grad_rest.iter().zip(y_rest).fold(C::ZERO, |sum, (g, y)| sum.add(g.mul(*y)));
                    sum = sum.add(folded(&products, C::ZERO, |x| x, C::add)).add(last);
                }
            }
            for from in (0..length).step_by(BUFFER) {
                let piece_length = BUFFER.min(length - from);
                if length > BUFFER {
                    lines.load(1, offsets, from, &mut grads[..piece_length]);
                    lines.load(2, offsets, from, &mut ys[..piece_length]);
                }
                for (g, y) in grads[..piece_length].iter_mut().zip(&ys[..piece_length]) {
                    *g = gradient(*g, *y, sum, LOG);
                }
                lines.store(out, 0, offsets, from, &grads[..piece_length]);
            }
        });
    }
}

vectorised_fn! {
    /// See [`softmax_backward`]; many neighbouring lines at a time.
    fn columns_backward<C: Real>(
        lines: &Lines<'_, 3>,
        out: &ViewMut<'_>,
        range: std::ops::Range<usize>,
        logarithm: bool,
    ) {
        let (mut grads, mut ys, mut sums) = ([C::ZERO; TILE], [C::ZERO; TILE], [C::ZERO; TILE]);
        lines.groups(range, TILE, |offsets, width| {
            let (grads, ys, sums) = (&mut grads[..width], &mut ys[..width], &mut sums[..width]);
            sums.fill(C::ZERO);
            for index in 0..lines.length() {
                lines.load_row(1, offsets, index, grads);
                if !logarithm {
                    lines.load_row(2, offsets, index, ys);
                }
                for ((sum, g), y) in sums.iter_mut().zip(grads.iter()).zip(ys.iter()) {
                    *sum = sum.add(if logarithm { *g } else { g.mul(*y) });
                }
            }
            for index in 0..lines.length() {
                lines.load_row(1, offsets, index, grads);
                lines.load_row(2, offsets, index, ys);
                for ((g, y), sum) in grads.iter_mut().zip(ys.iter()).zip(sums.iter()) {
                    *g = gradient(*g, *y, *sum, logarithm);
                }
                lines.store_row(out, 0, offsets, index, grads);
            }
        });
    }
}
