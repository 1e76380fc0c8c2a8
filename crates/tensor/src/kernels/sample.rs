//! Grid sampling: elements interpolated at positions that another tensor gives.

use super::access::{OffsetAccess, OffsetAccessMut, Plain, offsets};
use super::element::Element;
use super::map::SMALL;
use super::strip::narrow;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};
use half::{bf16, f16};

/// How an element between others is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// From the neighbour on each side, weighted by distance.
    Linear,
    /// The nearest; of two the even one.
    Nearest,
    /// Cubic convolution, from the two neighbours on each side.
    Cubic,
}

/// How positions outside are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaddingMode {
    /// Zeros.
    Zeros,
    /// The outermost element.
    Border,
    /// The inside mirrored: at the outermost elements, or at their outer borders.
    Reflection,
}

/// A way to sample.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// How elements are made.
    pub interpolation: Interpolation,
    /// How positions outside are read.
    pub padding_mode: PaddingMode,
    /// -1 and 1 are the centres of the outermost elements; otherwise their outer borders.
    pub align_corners: bool,
}

/// An element of one dimension that a sample is made of.
#[derive(Clone, Copy, Default)]
struct Tap {
    /// Its index; `None` outside, where zeros are read.
    position: Option<usize>,
    /// Its weight in the sample.
    weight: f64,
    /// The derivative of the weight by the normalized coordinate.
    derivative: f64,
}

/// The elements of one dimension that a sample is made of, at most four.
#[derive(Clone, Copy)]
struct Axis {
    taps: [Tap; 4],
    count: usize,
}

impl Axis {
    fn taps(&self) -> &[Tap] {
        &self.taps[..self.count]
    }
}

/// Rounds to `f32`, unless coordinates are double.
fn round(is_double: bool, value: f64) -> f64 {
    if is_double { value } else { f64::from(value as f32) }
}

impl Sampling {
    /// A coordinate brought inside as the padding mode has it, and its derivative by the one before.
    fn pad(&self, coordinate: f64, size: usize, is_double: bool) -> (f64, f64) {
        let last = size as f64 - 1.0;
        let clip = |x: f64, derivative: f64| {
            if x <= 0.0 || x.is_nan() {
                (0.0, 0.0)
            } else if x >= last {
                (last, 0.0)
            } else {
                (x, derivative)
            }
        };
        match self.padding_mode {
            PaddingMode::Zeros => (coordinate, 1.0),
            PaddingMode::Border => clip(coordinate, 1.0),
            PaddingMode::Reflection => {
                let (low, span) = match self.align_corners {
                    true => (0.0, last),
                    false => (-0.5, size as f64),
                };
                if span == 0.0 {
                    return (0.0, 0.0);
                }
                let distance = round(is_double, coordinate - low);
                let sign = if distance < 0.0 { -1.0 } else { 1.0 };
                let distance = distance.abs();
                let remainder = distance % span;
                let reflections = round(is_double, distance / span).floor();
                match reflections % 2.0 == 0.0 {
                    true => clip(round(is_double, remainder + low), sign),
                    false => clip(round(is_double, span - remainder + low), -sign),
                }
            }
        }
    }

    /// The taps of a normalized coordinate, from -1 to 1, in a dimension of `size` elements.
    fn axis(&self, normalized: f64, size: usize, is_double: bool) -> Axis {
        let length = size as f64;
        let (coordinate, scale) = match self.align_corners {
            true => {
                let half = round(is_double, round(is_double, normalized + 1.0) / 2.0);
                (round(is_double, half * (length - 1.0)), (length - 1.0) / 2.0)
            }
            false => {
                let doubled = round(
                    is_double,
                    round(is_double, round(is_double, normalized + 1.0) * length) - 1.0,
                );
                (round(is_double, doubled / 2.0), length / 2.0)
            }
        };
        let inside =
            |position: f64| (position >= 0.0 && position < length).then_some(position as usize);
        let mut axis = Axis { taps: [Tap::default(); 4], count: 0 };
        match self.interpolation {
            Interpolation::Nearest => {
                let position = self.pad(coordinate, size, is_double).0.round_ties_even();
                axis.taps[0] = Tap { position: inside(position), weight: 1.0, derivative: 0.0 };
                axis.count = 1;
            }
            Interpolation::Linear => {
                let (position, derivative) = self.pad(coordinate, size, is_double);
                let first = position.floor();
                let fraction = round(is_double, position - first);
                let derivative = derivative * scale;
                axis.taps[0] = Tap {
                    position: inside(first),
                    weight: round(is_double, 1.0 - fraction),
                    derivative: -derivative,
                };
                axis.taps[1] = Tap { position: inside(first + 1.0), weight: fraction, derivative };
                axis.count = 2;
            }
            Interpolation::Cubic => {
                let first = coordinate.floor();
                let fraction = round(is_double, coordinate - first);
                for (i, tap) in axis.taps.iter_mut().enumerate() {
                    let tap_offset = i as f64 - 1.0;
                    let position = self.pad(first + tap_offset, size, is_double).0;
                    let (weight, derivative) = cubic_weight(fraction - tap_offset);
                    *tap =
                        Tap { position: inside(position), weight, derivative: derivative * scale };
                }
                axis.count = 4;
            }
        }
        axis
    }
}

/// The weight of cubic convolution at a distance, and its derivative there.
fn cubic_weight(distance: f64) -> (f64, f64) {
    const A: f64 = -0.75;
    let (x, sign) = (distance.abs(), distance.signum());
    if x < 1.0 {
        (
            ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            (3.0 * (A + 2.0) * x - 2.0 * (A + 3.0)) * x * sign,
        )
    } else if x < 2.0 {
        ((((x - 5.0) * x + 8.0) * x - 4.0) * A, ((3.0 * x - 10.0) * x + 8.0) * A * sign)
    } else {
        (0.0, 0.0)
    }
}

/// Calls `visit` with the offset of each element that a sample is made of, and its taps along depth, rows and columns.
#[inline(always)]
fn for_each_element(axes: &[Axis; 3], strides: &[isize], mut visit: impl FnMut(isize, [&Tap; 3])) {
    for depth_tap in axes[0].taps() {
        let Some(d) = depth_tap.position else { continue };
        for row_tap in axes[1].taps() {
            let Some(h) = row_tap.position else { continue };
            for column_tap in axes[2].taps() {
                let Some(w) = column_tap.position else { continue };
                let offset =
                    d as isize * strides[2] + h as isize * strides[3] + w as isize * strides[4];
                visit(offset, [depth_tap, row_tap, column_tap]);
            }
        }
    }
}

/// A tensor to sample and where: `a` is samples, channels, depth, rows, columns; `grid` is samples, depth, rows, columns
/// of the result, and the coordinates: columns, rows, and depth if there are three.
#[derive(Clone, Copy)]
pub struct Sampled<'a> {
    /// The tensor.
    pub a: View<'a>,
    /// The normalized coordinates.
    pub grid: View<'a>,
    /// How elements are made.
    pub sampling: Sampling,
}

/// Runs `$body` with `$T` standing for a type of real numbers in memory.
macro_rules! with_reals {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::Float => {
                type $T = f32;
                $body
            }
            DType::Double => {
                type $T = f64;
                $body
            }
            DType::Float16 => {
                type $T = f16;
                $body
            }
            DType::Bf16 => {
                type $T = bf16;
                $body
            }
            other => unreachable!("samples of type {other}"),
        }
    };
}

impl Sampled<'_> {
    /// How many points the grid has, in all samples.
    fn points(&self) -> usize {
        self.grid.dims()[..4].iter().product()
    }

    /// The elements that the result at a point is made of, by dimension.
    #[inline]
    fn axes<T: Element + Plain>(&self, grid: &OffsetAccess<'_, T>, point: usize) -> [Axis; 3] {
        let is_double = T::DTYPE == DType::Double;
        let [offset] = offsets(&self.grid.dims()[..4], [&self.grid.strides()[..4]], point);
        let (count, step) = (self.grid.dims()[4], self.grid.strides()[4]);
        let first_element =
            Axis { taps: [Tap { position: Some(0), weight: 1.0, derivative: 0.0 }; 4], count: 1 };
        let mut axes = [first_element; 3];
        for i in 0..count {
            let normalized = grid.get(offset + i as isize * step).to_f64();
            axes[2 - i] = self.sampling.axis(normalized, self.a.dims()[4 - i], is_double);
        }
        axes
    }

    /// `out`, of samples, channels, depth, rows and columns, becomes the samples. All have elements of one type; `out`
    /// shares no memory with the others.
    pub fn sample(&self, parallel: &dyn Parallel, out: ViewMut<'_>) {
        with_reals!(self.a.dtype(), T => self.sample_typed::<T>(parallel, out));
    }

    fn sample_typed<T: Element + Plain>(&self, parallel: &dyn Parallel, out: ViewMut<'_>) {
        let (from, grid, to) = (
            OffsetAccess::<T>::new(self.a),
            OffsetAccess::<T>::new(self.grid),
            OffsetAccessMut::<T>::new(out),
        );
        let (channels, strides) = (self.a.dims()[1], self.a.strides());
        split(parallel, self.points(), 1, (SMALL / 16).div_ceil(channels.max(1)), |range| {
            for point in range {
                let axes = self.axes(&grid, point);
                let [sample, offset] = self.starts(&out, point);
                for channel in 0..channels as isize {
                    let mut sum = 0.0;
                    let start = sample + channel * strides[1];
                    for_each_element(&axes, strides, |offset, [d, h, w]| {
                        sum += from.get(start + offset).to_f64() * d.weight * h.weight * w.weight;
                    });
                    to.set(offset + channel * out.strides()[1], narrow(sum));
                }
            }
        });
    }

    /// The offsets of the first channel of a point's sample in `a`, and of its position in a tensor of results.
    fn starts(&self, results: &View<'_>, point: usize) -> [isize; 2] {
        let dims = self.grid.dims();
        let inner: usize = dims[1..4].iter().product();
        let sample = (point / inner) as isize;
        let [offset] = offsets(&dims[1..4], [&results.strides()[2..]], point % inner);
        [sample * self.a.strides()[0], sample * results.strides()[0] + offset]
    }

    /// Adds the gradient of `a` to `da`, of the type computed in; `dy` is the gradient of the result.
    pub fn add_grad_of_elements(&self, parallel: &dyn Parallel, da: ViewMut<'_>, dy: View<'_>) {
        with_reals!(self.a.dtype(), T => match da.dtype() {
            DType::Double => self.add_grad_typed::<T, f64>(parallel, da, dy),
            _ => self.add_grad_typed::<T, f32>(parallel, da, dy),
        });
    }

    fn add_grad_typed<T: Element + Plain, C: Element + Plain>(
        &self,
        parallel: &dyn Parallel,
        da: ViewMut<'_>,
        dy: View<'_>,
    ) {
        let (grid, from, to) = (
            OffsetAccess::<T>::new(self.grid),
            OffsetAccess::<T>::new(dy),
            OffsetAccessMut::<C>::new(da),
        );
        let channels = self.a.dims()[1];
        let inner: usize = self.grid.dims()[1..4].iter().product();
        split(
            parallel,
            self.a.dims()[0] * channels,
            1,
            (SMALL / 16).div_ceil(inner.max(1)),
            |range| {
                for unit in range {
                    let (sample, channel) = (unit / channels, (unit % channels) as isize);
                    let start = sample as isize * da.strides()[0] + channel * da.strides()[1];
                    for point in sample * inner..(sample + 1) * inner {
                        let axes = self.axes(&grid, point);
                        let [_, offset] = self.starts(&dy, point);
                        let grad = from.get(offset + channel * dy.strides()[1]).to_f64();
                        for_each_element(&axes, da.strides(), |offset, [d, h, w]| {
                            let old = to.get(start + offset).to_f64();
                            to.set(
                                start + offset,
                                C::from_f64(old + grad * d.weight * h.weight * w.weight),
                            );
                        });
                    }
                }
            },
        );
    }

    /// Writes the gradient of the coordinates; `dy` is the gradient of the result.
    pub fn grad_of_grid(&self, parallel: &dyn Parallel, dgrid: ViewMut<'_>, dy: View<'_>) {
        with_reals!(self.a.dtype(), T => self.grad_of_grid_typed::<T>(parallel, dgrid, dy));
    }

    fn grad_of_grid_typed<T: Element + Plain>(
        &self,
        parallel: &dyn Parallel,
        dgrid: ViewMut<'_>,
        dy: View<'_>,
    ) {
        let (a, grid) = (OffsetAccess::<T>::new(self.a), OffsetAccess::<T>::new(self.grid));
        let (from, to) = (OffsetAccess::<T>::new(dy), OffsetAccessMut::<T>::new(dgrid));
        let (channels, strides) = (self.a.dims()[1], self.a.strides());
        split(parallel, self.points(), 1, (SMALL / 16).div_ceil(channels.max(1)), |range| {
            for point in range {
                let axes = self.axes(&grid, point);
                let [sample, dy_offset] = self.starts(&dy, point);
                let mut sums = [0.0; 3];
                for channel in 0..channels as isize {
                    let grad = from.get(dy_offset + channel * dy.strides()[1]).to_f64();
                    let start = sample + channel * strides[1];
                    for_each_element(&axes, strides, |offset, [d, h, w]| {
                        let value = a.get(start + offset).to_f64() * grad;
                        sums[0] += value * w.derivative * h.weight * d.weight;
                        sums[1] += value * h.derivative * w.weight * d.weight;
                        sums[2] += value * d.derivative * w.weight * h.weight;
                    });
                }
                let [offset] = offsets(&dgrid.dims()[..4], [&dgrid.strides()[..4]], point);
                for (i, sum) in sums.iter().take(dgrid.dims()[4]).enumerate() {
                    to.set(offset + i as isize * dgrid.strides()[4], narrow(*sum));
                }
            }
        });
    }
}

/// The coordinate of the `at`-th of `size` positions from -1 to 1.
fn coordinate(at: usize, size: usize, align_corners: bool) -> f64 {
    let aligned = if size <= 1 { 0.0 } else { 2.0 * at as f64 / (size as f64 - 1.0) - 1.0 };
    if align_corners { aligned } else { aligned * (size as f64 - 1.0) / size as f64 }
}

/// `out[n, .., :] = theta[n] * (coordinates of the position, 1)`: the coordinates are those of columns, rows and, for a
/// matrix of three rows, depth. `out` is samples, depth, rows, columns and coordinates.
pub fn affine_grid(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    theta: View<'_>,
    align_corners: bool,
) {
    with_reals!(out.dtype(), T => {
        let (from, to) = (OffsetAccess::<T>::new(theta), OffsetAccessMut::<T>::new(out));
        let (dims, count, strides) = (out.dims(), out.dims()[4], theta.strides());
        split(parallel, dims[..4].iter().product(), 1, SMALL / 16, |range| {
            for point in range {
                let [offset] = offsets(&dims[..4], [&out.strides()[..4]], point);
                let sample = point / (dims[1] * dims[2] * dims[3]);
                let positions = [point % dims[3], point / dims[3] % dims[2], point / dims[3] / dims[2] % dims[1]];
                for row in 0..count {
                    let start = sample as isize * strides[0] + row as isize * strides[1];
                    let mut sum = from.get(start + count as isize * strides[2]).to_f64();
                    for (i, position) in positions.iter().take(count).enumerate() {
                        let size = dims[3 - i];
                        sum += from.get(start + i as isize * strides[2]).to_f64() * coordinate(*position, size, align_corners);
                    }
                    to.set(offset + row as isize * out.strides()[4], narrow(sum));
                }
            }
        });
    });
}
