//! Elements at positions between others, which another tensor names.

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
    /// By distance, from the two on each side.
    Linear,
    /// The nearest; of two the even one.
    Nearest,
    /// A cubic curve through the two on each side.
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
    position: Option<usize>,
    weight: f64,
    slope: f64,
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

fn rounded(wide: bool, value: f64) -> f64 {
    if wide { value } else { f64::from(value as f32) }
}

impl Sampling {
    /// A coordinate brought inside, and by how much it moves with the one that was named.
    fn inside(&self, coordinate: f64, size: usize, wide: bool) -> (f64, f64) {
        let last = size as f64 - 1.0;
        let clip = |x: f64, slope: f64| {
            if x <= 0.0 || x.is_nan() {
                (0.0, 0.0)
            } else if x >= last {
                (last, 0.0)
            } else {
                (x, slope)
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
                let apart = rounded(wide, coordinate - low);
                let sign = if apart < 0.0 { -1.0 } else { 1.0 };
                let apart = apart.abs();
                let rest = apart % span;
                let reflections = rounded(wide, apart / span).floor();
                match reflections % 2.0 == 0.0 {
                    true => clip(rounded(wide, rest + low), sign),
                    false => clip(rounded(wide, span - rest + low), -sign),
                }
            }
        }
    }

    /// What a named coordinate from -1 to 1 leads to in a dimension of `size` elements.
    fn axis(&self, named: f64, size: usize, wide: bool) -> Axis {
        let length = size as f64;
        let (coordinate, step) = match self.align_corners {
            true => {
                let half = rounded(wide, rounded(wide, named + 1.0) / 2.0);
                (rounded(wide, half * (length - 1.0)), (length - 1.0) / 2.0)
            }
            false => {
                let whole = rounded(wide, rounded(wide, rounded(wide, named + 1.0) * length) - 1.0);
                (rounded(wide, whole / 2.0), length / 2.0)
            }
        };
        let within =
            |position: f64| (position >= 0.0 && position < length).then_some(position as usize);
        let mut axis = Axis { taps: [Tap::default(); 4], count: 0 };
        match self.interpolation {
            Interpolation::Nearest => {
                let position = self.inside(coordinate, size, wide).0.round_ties_even();
                axis.taps[0] = Tap { position: within(position), weight: 1.0, slope: 0.0 };
                axis.count = 1;
            }
            Interpolation::Linear => {
                let (position, slope) = self.inside(coordinate, size, wide);
                let first = position.floor();
                let second = rounded(wide, position - first);
                let slope = slope * step;
                axis.taps[0] = Tap {
                    position: within(first),
                    weight: rounded(wide, 1.0 - second),
                    slope: -slope,
                };
                axis.taps[1] = Tap { position: within(first + 1.0), weight: second, slope };
                axis.count = 2;
            }
            Interpolation::Cubic => {
                let first = coordinate.floor();
                let part = rounded(wide, coordinate - first);
                for (i, tap) in axis.taps.iter_mut().enumerate() {
                    let at = i as f64 - 1.0;
                    let position = self.inside(first + at, size, wide).0;
                    let (weight, slope) = curve(part - at);
                    *tap = Tap { position: within(position), weight, slope: slope * step };
                }
                axis.count = 4;
            }
        }
        axis
    }
}

/// The cubic curve at a distance, and its slope there.
fn curve(distance: f64) -> (f64, f64) {
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

/// Calls `visit` with the offset of each element that a sample is made of, and the three taps of it.
#[inline(always)]
fn each(axes: &[Axis; 3], strides: &[isize], mut visit: impl FnMut(isize, [&Tap; 3])) {
    for deep in axes[0].taps() {
        let Some(d) = deep.position else { continue };
        for high in axes[1].taps() {
            let Some(h) = high.position else { continue };
            for across in axes[2].taps() {
                let Some(w) = across.position else { continue };
                let offset =
                    d as isize * strides[2] + h as isize * strides[3] + w as isize * strides[4];
                visit(offset, [deep, high, across]);
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
    /// The coordinates.
    pub grid: View<'a>,
    /// How.
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
    fn points(&self) -> usize {
        self.grid.dims()[..4].iter().product()
    }

    /// The elements that the result at a point is made of, by dimension.
    #[inline]
    fn axes<T: Element + Plain>(&self, cells: &OffsetAccess<'_, T>, point: usize) -> [Axis; 3] {
        let wide = T::DTYPE == DType::Double;
        let [at] = offsets(&self.grid.dims()[..4], [&self.grid.strides()[..4]], point);
        let (count, step) = (self.grid.dims()[4], self.grid.strides()[4]);
        let still =
            Axis { taps: [Tap { position: Some(0), weight: 1.0, slope: 0.0 }; 4], count: 1 };
        let mut axes = [still; 3];
        for i in 0..count {
            let named = cells.get(at + i as isize * step).to_f64();
            axes[2 - i] = self.sampling.axis(named, self.a.dims()[4 - i], wide);
        }
        axes
    }

    /// `out`, of samples, channels, depth, rows and columns, becomes the samples. All have elements of one type; `out`
    /// shares no memory with the others.
    pub fn sample(&self, parallel: &dyn Parallel, out: ViewMut<'_>) {
        with_reals!(self.a.dtype(), T => self.sample_typed::<T>(parallel, out));
    }

    fn sample_typed<T: Element + Plain>(&self, parallel: &dyn Parallel, out: ViewMut<'_>) {
        let (from, named, to) = (
            OffsetAccess::<T>::new(self.a),
            OffsetAccess::<T>::new(self.grid),
            OffsetAccessMut::<T>::new(out),
        );
        let (channels, strides) = (self.a.dims()[1], self.a.strides());
        split(parallel, self.points(), 1, (SMALL / 16).div_ceil(channels.max(1)), |range| {
            for point in range {
                let axes = self.axes(&named, point);
                let [sample, offset] = self.starts(&out, point);
                for channel in 0..channels as isize {
                    let mut sum = 0.0;
                    let start = sample + channel * strides[1];
                    each(&axes, strides, |offset, [d, h, w]| {
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

    /// Adds the gradient to `da`, of the type computed in, from that of the result.
    pub fn back_to_elements(&self, parallel: &dyn Parallel, da: ViewMut<'_>, dy: View<'_>) {
        with_reals!(self.a.dtype(), T => match da.dtype() {
            DType::Double => self.elements_typed::<T, f64>(parallel, da, dy),
            _ => self.elements_typed::<T, f32>(parallel, da, dy),
        });
    }

    fn elements_typed<T: Element + Plain, C: Element + Plain>(
        &self,
        parallel: &dyn Parallel,
        da: ViewMut<'_>,
        dy: View<'_>,
    ) {
        let (named, from, to) = (
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
                        let axes = self.axes(&named, point);
                        let [_, offset] = self.starts(&dy, point);
                        let grad = from.get(offset + channel * dy.strides()[1]).to_f64();
                        each(&axes, da.strides(), |offset, [d, h, w]| {
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

    /// Writes the gradient of the coordinates, from that of the result.
    pub fn back_to_grid(&self, parallel: &dyn Parallel, dgrid: ViewMut<'_>, dy: View<'_>) {
        with_reals!(self.a.dtype(), T => self.grid_typed::<T>(parallel, dgrid, dy));
    }

    fn grid_typed<T: Element + Plain>(
        &self,
        parallel: &dyn Parallel,
        dgrid: ViewMut<'_>,
        dy: View<'_>,
    ) {
        let (a, named) = (OffsetAccess::<T>::new(self.a), OffsetAccess::<T>::new(self.grid));
        let (from, to) = (OffsetAccess::<T>::new(dy), OffsetAccessMut::<T>::new(dgrid));
        let (channels, strides) = (self.a.dims()[1], self.a.strides());
        split(parallel, self.points(), 1, (SMALL / 16).div_ceil(channels.max(1)), |range| {
            for point in range {
                let axes = self.axes(&named, point);
                let [sample, offset] = self.starts(&dy, point);
                let mut sums = [0.0; 3];
                for channel in 0..channels as isize {
                    let grad = from.get(offset + channel * dy.strides()[1]).to_f64();
                    let start = sample + channel * strides[1];
                    each(&axes, strides, |offset, [d, h, w]| {
                        let value = a.get(start + offset).to_f64() * grad;
                        sums[0] += value * w.slope * h.weight * d.weight;
                        sums[1] += value * h.slope * w.weight * d.weight;
                        sums[2] += value * d.slope * w.weight * h.weight;
                    });
                }
                let [at] = offsets(&dgrid.dims()[..4], [&dgrid.strides()[..4]], point);
                for (i, sum) in sums.iter().take(dgrid.dims()[4]).enumerate() {
                    to.set(at + i as isize * dgrid.strides()[4], narrow(*sum));
                }
            }
        });
    }
}

/// The coordinate of the `at`-th of `size` positions from -1 to 1.
fn coordinate(at: usize, size: usize, align_corners: bool) -> f64 {
    let even = if size <= 1 { 0.0 } else { 2.0 * at as f64 / (size as f64 - 1.0) - 1.0 };
    if align_corners { even } else { even * (size as f64 - 1.0) / size as f64 }
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
                let [to_at] = offsets(&dims[..4], [&out.strides()[..4]], point);
                let sample = point / (dims[1] * dims[2] * dims[3]);
                let positions = [point % dims[3], point / dims[3] % dims[2], point / dims[3] / dims[2] % dims[1]];
                for row in 0..count {
                    let start = sample as isize * strides[0] + row as isize * strides[1];
                    let mut sum = from.get(start + count as isize * strides[2]).to_f64();
                    for (i, position) in positions.iter().take(count).enumerate() {
                        let size = dims[3 - i];
                        sum += from.get(start + i as isize * strides[2]).to_f64() * coordinate(*position, size, align_corners);
                    }
                    to.set(to_at + row as isize * out.strides()[4], narrow(sum));
                }
            }
        });
    });
}
