//! Normalisation of lines: to mean 0 and variance 1, or to a mean square of 1; and the gradients.

use super::element::Compute;
use super::fold::{Moments, folded};
use super::lines::{BUFFER, Buffer, Lines, put};
use super::math::Real;
use super::reduce::{CHUNK, fetch};
use super::strip::vectorised_fn;
use crate::parallel::{Parallel, share};
use crate::{View, ViewMut};

/// How lines are normalised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Norm {
    /// Their mean is subtracted, and they are divided by the root of their variance.
    Layer,
    /// They are divided by the root of their mean square.
    RootMeanSquare,
}

/// Weight and bias of the elements of a line, of one dimension; 1 and 0 when absent.
#[derive(Clone, Copy)]
pub struct Affine<'v> {
    /// What each element is multiplied by.
    pub weight: Option<View<'v>>,
    /// What is added to it.
    pub bias: Option<View<'v>>,
}

/// Loads a piece of weight or bias.
#[inline(always)]
fn load_piece<C: Compute>(view: &Option<View<'_>>, from: usize, default: C, into: &mut [C]) {
    let Some(view) = view else {
        return into.fill(default);
    };
    assert!(view.rank() == 1 && from + into.len() <= view.count());
    let offset = from as isize * view.strides()[0] * view.item() as isize;
    // SAFETY: inside the one dimension of the view.
    unsafe { fetch(view.dtype(), view.first().offset(offset), view.strides()[0], into) };
}

vectorised_fn! {
    /// `y = normalised(x) * weight + bias` of the rows of two dimensions. `mean` and `rstd` (1 over the standard deviation) get
    /// one number for each row, and have the sizes of `x`, repeated along the row. `y` is `x` itself or does not overlap it.
    pub fn normalise<C: Real>(
        parallel: &dyn Parallel,
        norm: Norm,
        y: ViewMut<'_>,
        x: View<'_>,
        affine: Affine<'_>,
        mean: Option<ViewMut<'_>>,
        rstd: Option<ViewMut<'_>>,
        epsilon: f64,
    ) {
        let (means, rstds) = (mean.unwrap_or(y), rstd.unwrap_or(y));
        let lines = Lines::new([y.view(), x, means.view(), rstds.view()], 1);
        let length = lines.length();
        lines.for_each_range(parallel, |range| {
            let [mut buffer, mut out_buffer, mut biases] = [Buffer([C::ZERO; BUFFER]); 3];
            let (buffer, out_buffer, biases) = (&mut buffer.0, &mut out_buffer.0, &mut biases.0);
            let Buffer(weights) = &mut Buffer([C::ONE; BUFFER]);
            let fits = length <= BUFFER;
            if fits {
                load_piece(&affine.weight, 0, C::ONE, &mut weights[..length]);
                load_piece(&affine.bias, 0, C::ZERO, &mut biases[..length]);
            }
            lines.each(range, |offsets| {
                let mut moments = Moments::default();
                let mut squares = 0.0;
                for from in (0..length).step_by(BUFFER) {
                    let x = lines.line(1, offsets, from, &mut buffer[..BUFFER.min(length - from)]);
                    match norm {
                        Norm::Layer => moments = moments.with(Moments::of(x)),
                        Norm::RootMeanSquare => {
                            squares += folded(x, C::ZERO, |x| x.mul(x), C::add).to_f64();
                        }
                    }
                }
                let square_sum = if norm == Norm::Layer { moments.squares } else { squares };
                let (row_mean, row_rstd) =
                    (C::of(moments.mean), C::of(1.0 / (square_sum / length as f64 + epsilon).sqrt()));
                if let Some(mean) = &mean {
                    lines.store(mean, 2, offsets, 0, &[row_mean]);
                }
                if let Some(rstd) = &rstd {
                    lines.store(rstd, 3, offsets, 0, &[row_rstd]);
                }
                for from in (0..length).step_by(BUFFER) {
                    let piece_length = BUFFER.min(length - from);
                    if !fits {
                        load_piece(&affine.weight, from, C::ONE, &mut weights[..piece_length]);
                        load_piece(&affine.bias, from, C::ZERO, &mut biases[..piece_length]);
                    }
                    let x = lines.line(1, offsets, from, &mut buffer[..piece_length]);
                    let (weights, biases) = (&weights[..piece_length], &biases[..piece_length]);
                    lines.write_line(&y, 0, offsets, from, &mut out_buffer[..piece_length], |to| {
                        for (((to, x), weight), bias) in to.iter_mut().zip(x).zip(weights).zip(biases) {
                            *to = x.sub(row_mean).mul(row_rstd).mul(*weight).add(*bias);
                        }
                    });
                }
            });
        });
    }
}

vectorised_fn! {
    /// The variance of each row of `x`, which has two dimensions, around its own mean. `variance` has the sizes of `x`, repeated along
    /// the row, and does not overlap it.
    pub fn variances<C: Real>(parallel: &dyn Parallel, variance: ViewMut<'_>, x: View<'_>) {
        let lines = Lines::new([variance.view(), x], 1);
        let length = lines.length();
        lines.for_each_range(parallel, |range| {
            let Buffer(buffer) = &mut Buffer([C::ZERO; BUFFER]);
            lines.each(range, |offsets| {
                let mut all = Moments::default();
                for from in (0..length).step_by(BUFFER) {
                    let x = lines.line(1, offsets, from, &mut buffer[..BUFFER.min(length - from)]);
                    all = all.with(Moments::of(x));
                }
                lines.store(&variance, 0, offsets, 0, &[C::of(all.squares / length as f64)]);
            });
        });
    }
}

/// Into how many parts the rows are cut for the gradients of weight and bias:
/// `min(32, rows, elements / 32768)`, at least 1.
pub fn parts(rows: usize, length: usize) -> usize {
    32.min(rows).min(rows * length / CHUNK).max(1)
}

vectorised_fn! {
    /// The gradients of [`normalise`]. `sums` has the sizes `[2, parts, length]` of `C`: what each part of the rows
    /// gives to the gradients of weight and of bias. `mean` and `rstd` have the sizes of `x`, repeated.
    pub fn normalise_backward<C: Real>(
        parallel: &dyn Parallel,
        norm: Norm,
        dx: Option<ViewMut<'_>>,
        dy: View<'_>,
        x: View<'_>,
        mean: Option<View<'_>>,
        rstd: View<'_>,
        weight: Option<View<'_>>,
        sums: ViewMut<'_>,
    ) {
        let out = dx.map_or(dy, |dx| dx.view());
        let lines = Lines::new([out, dy, x, mean.unwrap_or(rstd), rstd], 1);
        let (rows, length) = (x.dims()[0], lines.length());
        let count = sums.dims()[1];
        assert!(sums.is_contiguous() && sums.dtype() == C::DTYPE && sums.dims() == [2, count, length]);
        let sums_at = |which: usize, part: usize, from: usize| {
            let at = ((which * count + part) * length + from) * sums.item();
            // SAFETY: inside the sums.
            unsafe { sums.first_mut().add(at) }
        };
        parallel.run(count, &|part| {
            let (mut grads, mut buffer, mut weights) =
                ([C::ZERO; BUFFER], [C::ZERO; BUFFER], [C::ONE; BUFFER]);
            let (mut weight_grads, mut bias_grads) = ([C::ZERO; BUFFER], [C::ZERO; BUFFER]);
            let fits = length <= BUFFER;
            for from in (0..length).step_by(BUFFER) {
                let piece_length = BUFFER.min(length - from);
                // SAFETY: inside the sums, which nobody else writes for this part.
                unsafe {
                    put(C::DTYPE, sums_at(0, part, from), 1, &weight_grads[..piece_length]);
                    put(C::DTYPE, sums_at(1, part, from), 1, &bias_grads[..piece_length]);
                }
            }
            if fits {
                load_piece(&weight, 0, C::ONE, &mut weights[..length]);
            }
            lines.each(share(rows, 1, count, part), |offsets| {
                let (mut row_mean, mut row_rstd) = ([C::ZERO], [C::ZERO]);
                if norm == Norm::Layer {
                    lines.load(3, offsets, 0, &mut row_mean);
                }
                lines.load(4, offsets, 0, &mut row_rstd);
                let ([row_mean], [row_rstd]) = (row_mean, row_rstd);
                let (mut total, mut product) = (C::ZERO, C::ZERO);
                for from in (0..length).step_by(BUFFER) {
                    let piece_length = BUFFER.min(length - from);
                    let (grads, buffer) = (&mut grads[..piece_length], &mut buffer[..piece_length]);
                    let (weight_grads, bias_grads) = (&mut weight_grads[..piece_length], &mut bias_grads[..piece_length]);
                    lines.load(1, offsets, from, grads);
                    lines.load(2, offsets, from, buffer);
                    if !fits {
                        load_piece(&weight, from, C::ONE, &mut weights[..piece_length]);
                        // SAFETY: as above.
                        unsafe {
                            fetch(C::DTYPE, sums_at(0, part, from), 1, weight_grads);
                            fetch(C::DTYPE, sums_at(1, part, from), 1, bias_grads);
                        }
                    }
                    buffer.iter_mut().for_each(|x| *x = x.sub(row_mean).mul(row_rstd));
                    for ((sum, g), x) in weight_grads.iter_mut().zip(grads.iter()).zip(buffer.iter()) {
                        *sum = sum.add(g.mul(*x));
                    }
                    for (sum, g) in bias_grads.iter_mut().zip(grads.iter()) {
                        *sum = sum.add(*g);
                    }
                    for (g, weight) in grads.iter_mut().zip(&weights) {
                        *g = g.mul(*weight);
                    }
                    total = total.add(folded(grads, C::ZERO, |g| g, C::add));
                    product = product.add(dot(grads, buffer));
                    if !fits {
                        // SAFETY: as above.
                        unsafe {
                            put(C::DTYPE, sums_at(0, part, from), 1, weight_grads);
                            put(C::DTYPE, sums_at(1, part, from), 1, bias_grads);
                        }
                    }
                }
                let Some(dx) = &dx else {
                    return;
                };
                let inverse_length = C::ONE.div(C::of(length as f64));
                let (total, product) = (total.mul(inverse_length), product.mul(inverse_length));
                let total = if norm == Norm::Layer { total } else { C::ZERO };
                for from in (0..length).step_by(BUFFER) {
                    let piece_length = BUFFER.min(length - from);
                    let (grads, buffer) = (&mut grads[..piece_length], &mut buffer[..piece_length]);
                    if !fits {
                        lines.load(1, offsets, from, grads);
                        lines.load(2, offsets, from, buffer);
                        load_piece(&weight, from, C::ONE, &mut weights[..piece_length]);
                        for ((g, x), weight) in grads.iter_mut().zip(buffer.iter_mut()).zip(&weights)
                        {
                            *x = x.sub(row_mean).mul(row_rstd);
                            *g = g.mul(*weight);
                        }
                    }
                    for (g, x) in grads.iter_mut().zip(buffer.iter()) {
                        *g = g.sub(total).sub(x.mul(product)).mul(row_rstd);
                    }
                    lines.store(dx, 0, offsets, from, grads);
                }
            });
            if fits {
                // SAFETY: as above.
                unsafe {
                    put(C::DTYPE, sums_at(0, part, 0), 1, &weight_grads[..length]);
                    put(C::DTYPE, sums_at(1, part, 0), 1, &bias_grads[..length]);
                }
            }
        });
    }
}

/// The sum of products of two strips.
#[inline(always)]
fn dot<C: Real>(a: &[C], b: &[C]) -> C {
    let mut lanes = [C::ZERO; 16];
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..16 {
            lanes[lane] = lanes[lane].add(a[lane].mul(b[lane]));
        }
    }
    let rest = rest_a.iter().zip(rest_b).fold(C::ZERO, |sum, (a, b)| sum.add(a.mul(*b)));
    folded(&lanes, C::ZERO, |x| x, C::add).add(rest)
}
