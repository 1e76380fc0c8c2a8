//! Fourier transforms of lines, and of windows that slide along them.
//!
//! Lengths that are powers of two are transformed by a radix-2 FFT; any other length as a convolution of such a length
//! (Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970). Everything is
//! computed in `f64`.

use super::access::{PositionAccess, PositionAccessMut};
use super::linalg::Stack;
use crate::parallel::{Parallel, share};
use crate::{MAX_DIMS, View, ViewMut};
use num_complex::Complex;
use std::f64::consts::PI;

type Number = Complex<f64>;

/// The length of the radix-2 transforms that a transform of `length` is made of. `None` where it is too long.
fn padded(length: usize) -> Option<usize> {
    match length.is_power_of_two() {
        true => Some(length),
        false => length.checked_mul(2)?.checked_next_power_of_two(),
    }
}

/// Complex numbers of the table of a transform of this length. `None` where it is too long.
pub fn table_length(length: usize) -> Option<usize> {
    let padded = padded(length)?;
    let chirp_and_response = if padded == length { 0 } else { length.checked_add(padded)? };
    padded.div_ceil(2).checked_add(chirp_and_response)
}

/// Complex numbers that a thread computes a transform of this length in. `None` where it is too long.
pub fn buffer_length(length: usize) -> Option<usize> {
    padded(length)
}

/// A transform of one length: `X[w]` is the sum of `x[k] exp(-2 pi i w k / length)`.
struct Transform<'a> {
    length: usize,
    /// `exp(-2 pi i k / padded)`, for the first half of a circle.
    roots: &'a [Number],
    /// Of a length that is no power of two: `exp(-pi i k^2 / length)`.
    chirp: &'a [Number],
    /// The transform of the chirp's conjugate, by the padded length.
    response: &'a [Number],
}

impl<'a> Transform<'a> {
    /// Fills `table`, which has [`table_length`] numbers.
    fn new(length: usize, table: &'a mut [Number]) -> Transform<'a> {
        let padded = padded(length).expect("a table of it fits");
        let (roots, rest) = table.split_at_mut(padded.div_ceil(2));
        for (k, root) in roots.iter_mut().enumerate() {
            *root = Complex::cis(-2.0 * PI * k as f64 / padded as f64);
        }
        if padded == length {
            return Transform { length, roots, chirp: &[], response: &[] };
        }
        let (chirp, response) = rest.split_at_mut(length);
        for (k, factor) in chirp.iter_mut().enumerate() {
            // k^2 counts modulo twice the length, a whole turn.
            let turn = (k as u128 * k as u128 % (2 * length as u128)) as f64;
            *factor = Complex::cis(-PI * turn / length as f64);
        }
        response.fill(Complex::new(0.0, 0.0));
        let scale = 1.0 / padded as f64;
        for (k, factor) in chirp.iter().enumerate() {
            response[k] = factor.conj() * scale;
            response[(padded - k) % padded] = factor.conj() * scale;
        }
        radix_2(roots, response);
        Transform { length, roots, chirp, response }
    }

    /// Transforms the first `length` numbers of `data`, which has [`buffer_length`].
    fn run(&self, data: &mut [Number]) {
        if self.chirp.is_empty() {
            return radix_2(self.roots, data);
        }
        let (values, rest) = data.split_at_mut(self.length);
        values.iter_mut().zip(self.chirp).for_each(|(value, factor)| *value *= factor);
        rest.fill(Complex::new(0.0, 0.0));
        radix_2(self.roots, data);
        // The inverse transform is the forward one of the conjugates.
        data.iter_mut()
            .zip(self.response)
            .for_each(|(value, factor)| *value = (*value * factor).conj());
        radix_2(self.roots, data);
        let values = data.iter_mut().zip(self.chirp);
        values.for_each(|(value, factor)| *value = value.conj() * factor);
    }
}

/// Transforms numbers in place, whose count is a power of two; `roots` are [`Transform::roots`].
fn radix_2(roots: &[Number], data: &mut [Number]) {
    let length = data.len();
    if length < 2 {
        return;
    }
    let unused = usize::BITS - length.trailing_zeros();
    for at in 0..length {
        let other = at.reverse_bits() >> unused;
        if at < other {
            data.swap(at, other);
        }
    }
    let mut half = 1;
    while half < length {
        let root_step = length / (2 * half);
        for pair in data.chunks_exact_mut(2 * half) {
            let (first, second) = pair.split_at_mut(half);
            for (at, (a, b)) in first.iter_mut().zip(second).enumerate() {
                let twiddled = *b * roots[at * root_step];
                (*a, *b) = (*a + twiddled, *a - twiddled);
            }
        }
        half *= 2;
    }
}

/// How windows slide along a line, and what is computed of each.
#[derive(Clone, Copy, Debug)]
pub struct Slides {
    /// Elements of a transform.
    pub length: usize,
    /// From the start of one window to that of the next.
    pub hop: usize,
    /// Results are multiplied by it.
    pub scale: f64,
}

/// The transform of every window. `signals` has rows of elements, and `out` the sizes rows, frequencies and windows: complex
/// numbers, or real ones with a last dimension for the two parts. `window` has up to [`Slides::length`] factors, which are
/// in the middle of a transform (with 0 around them); without it all are 1. `table` is of one matrix with [`table_length`]
/// numbers, `buffers` of one with [`buffer_length`] for each part that may run at once.
pub fn sliding(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    signals: View<'_>,
    window: Option<View<'_>>,
    slides: Slides,
    table: &Stack<'_, Number>,
    buffers: &Stack<'_, Number>,
) {
    let [rows, frequencies, frames] = [0, 1, 2].map(|at| out.dims()[at]);
    let Slides { length, hop, scale } = slides;
    // SAFETY: nothing else has the table.
    let transform = Transform::new(length, unsafe { table.matrix(0) });
    let is_split = out.rank() == 4;
    let (to, from) = (PositionAccessMut::new(out), PositionAccess::new(signals));
    let factors = window.map(|window| {
        let size = window.dims()[0];
        ((length - size) / 2, size, PositionAccess::new(window))
    });
    let parts = buffers.count().min(rows * frames);
    let body = |part: usize| {
        // SAFETY: a buffer for each part.
        let data = unsafe { buffers.matrix(part) };
        for at in share(rows * frames, 1, parts, part) {
            let (row, frame) = (at / frames, at % frames);
            let line = &mut data[..length];
            from.line(&[row, frame * hop], line);
            if let Some((start, size, factors)) = &factors {
                let (before, rest) = line.split_at_mut(*start);
                let (inside, after) = rest.split_at_mut(*size);
                before.fill(Number::default());
                after.fill(Number::default());
                for (k, value) in inside.iter_mut().enumerate() {
                    *value *= factors.get::<Number>(&[k]);
                }
            }
            transform.run(data);
            for (frequency, value) in data[..frequencies].iter().enumerate() {
                let value = value * scale;
                match is_split {
                    true => to.put_line(&[row, frequency, frame, 0], &[value.re, value.im]),
                    false => to.set(&[row, frequency, frame], value),
                }
            }
        }
    };
    match parts {
        0 => (),
        1 => body(0),
        _ => parallel.run(parts, &body),
    }
}

/// How each line of a tensor is transformed.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Elements of a transform. A longer line is cut, a shorter one is followed by zeros.
    pub length: usize,
    /// Whether turns go the other way: `exp(2 pi i w k / length)`.
    pub is_inverse: bool,
    /// Whether a line has the first half of what a real signal transforms to; the other half are the conjugates.
    pub is_half: bool,
    /// Results are multiplied by it.
    pub scale: f64,
}

/// Transforms lines along the last dimension: those of `out` become the first elements of the transforms of those of
/// `input`, which has the same other dimensions; real ones take the real parts. `out` may be `input`. `table` is of one
/// matrix with [`table_length`] numbers, `buffers` of one with [`buffer_length`] for each part that may run at once.
pub fn transform_lines(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    input: View<'_>,
    lines: Lines,
    table: &Stack<'_, Number>,
    buffers: &Stack<'_, Number>,
) {
    let outer = out.rank() - 1;
    let (dims, width) = (out.dims(), out.dims()[outer]);
    let count: usize = dims[..outer].iter().product();
    let Lines { length, is_inverse, is_half, scale } = lines;
    // SAFETY: nothing else has the table.
    let transform = Transform::new(length, unsafe { table.matrix(0) });
    let known = if is_half { length / 2 + 1 } else { length };
    let have = input.dims()[outer].min(known);
    let (to, from) = (PositionAccessMut::new(out), PositionAccess::new(input));
    let is_complex = out.dtype().is_complex();
    let parts = buffers.count().min(count);
    let body = |part: usize| {
        // SAFETY: a buffer for each part.
        let data = unsafe { buffers.matrix(part) };
        let mut position = [0; MAX_DIMS];
        for line in share(count, 1, parts, part) {
            let mut left = line;
            for at in (0..outer).rev() {
                position[at] = left % dims[at];
                left /= dims[at];
            }
            position[outer] = 0;
            let position = &mut position[..=outer];
            from.line(position, &mut data[..have]);
            data[have..length].fill(Number::default());
            (known..length).for_each(|w| data[w] = data[length - w].conj());
            let flip = |data: &mut [Number]| {
                if is_inverse {
                    data[..length].iter_mut().for_each(|value| *value = value.conj());
                }
            };
            // The way back is the way forth of the conjugates.
            flip(data);
            transform.run(data);
            flip(data);
            data[..width].iter_mut().for_each(|value| *value *= scale);
            if is_complex {
                to.put_line(position, &data[..width]);
                continue;
            }
            for (at, value) in data[..width].iter().enumerate() {
                position[outer] = at;
                to.set(position, value.re);
            }
        }
    };
    match parts {
        0 => (),
        1 => body(0),
        _ => parallel.run(parts, &body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_of_any_length_follow_the_definition() {
        for length in [1usize, 2, 3, 4, 5, 7, 8, 12, 16, 25, 31, 64, 100] {
            let mut table = vec![Complex::default(); table_length(length).unwrap()];
            let mut data = vec![Complex::new(9.0, 9.0); buffer_length(length).unwrap()];
            let values: Vec<Number> = (0..length)
                .map(|k| Complex::new((k * 7 % 5) as f64 - 1.5, (k * 3 % 4) as f64))
                .collect();
            data[..length].copy_from_slice(&values);
            Transform::new(length, &mut table).run(&mut data);
            for (w, have) in data[..length].iter().enumerate() {
                let turn = |k: usize| Complex::cis(-2.0 * PI * (w * k) as f64 / length as f64);
                let want: Number = (0..length).map(|k| values[k] * turn(k)).sum();
                assert!((have - want).norm() < 1e-10, "{length}: {w}: {have} {want}");
            }
        }
    }

    #[test]
    fn lengths_that_no_memory_holds_have_no_table() {
        assert_eq!(table_length(usize::MAX - 1), None);
        assert_eq!(table_length(usize::MAX / 2), None);
        assert_eq!(buffer_length(usize::MAX), None);
    }
}
