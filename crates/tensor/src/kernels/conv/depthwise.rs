//! Convolutions of single channels with small square windows, read and written in place: vectors have neighbouring positions.
//!
//! A few vectors of an output line are summed while the lines of the source go by, each of which is loaded once for all output lines
//! that it belongs to. What is outside of the source is masked.

use super::{Axis, Task, for_each_unit, no_scratch};
use crate::kernels::epilogue::Clipped;
use crate::kernels::vector::{Lanes, with_vectors};
use crate::parallel::Parallel;
use crate::{DType, Layout};

/// Products that are worth a unit of work.
const UNIT: usize = 1 << 15;
/// Weights of a window, at most.
const MAX_WEIGHTS: usize = 49;

/// A convolution of single channels.
#[derive(Clone, Copy)]
pub struct Depthwise {
    /// Taps of a window along both axes: 3, 5 or 7.
    taps: usize,
    /// Between neighbouring windows along both axes: 1 or 2.
    step: usize,
    /// What the first window's first tap covers, along the second and the third axis.
    first: [isize; 2],
    /// Whether weights are in the opposite order, along each axis.
    is_flipped: [bool; 2],
}

impl Depthwise {
    /// For tensors of these layouts; `None` where the method cannot be used.
    pub fn new(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Option<Depthwise> {
        let [axis_d, axis_h, axis_w] = axes;
        let is_flat = (axis_d.taps, axis_d.step, axis_d.first) == (1, 1, 0)
            && out.dims()[3] == source.dims()[3];
        let is_direct = |layout: &Layout| layout.dtype == DType::Float && layout.strides()[5] == 1;
        let has_windows = |axis: &Axis| {
            [3, 5, 7].contains(&axis.taps) && axis.tap_step.abs() == 1 && axis.step <= 2
        };
        let is_square = axis_h.taps == axis_w.taps && axis_h.step == axis_w.step;
        let fits = is_flat
            && is_direct(out)
            && is_direct(source)
            && has_windows(axis_h)
            && has_windows(axis_w)
            && is_square
            && source.dims()[2] == 1;
        let taps = axis_h.taps;
        let first = |axis: &Axis| match axis.tap_step {
            1 => axis.first,
            _ => axis.first - (taps as isize - 1),
        };
        fits.then(|| Depthwise {
            taps,
            step: axis_h.step as usize,
            first: [first(axis_h), first(axis_w)],
            is_flipped: [axis_h.tap_step < 0, axis_w.tap_step < 0],
        })
    }

    /// See [`super::convolve`].
    pub fn convolve(&self, parallel: &dyn Parallel, task: &Task<'_>) {
        let [samples, groups, outputs, depth, height, width] = *task.out.dims() else {
            unreachable!("six dimensions")
        };
        let planes = samples * groups * outputs * depth;
        let products = height * width * self.taps * self.taps;
        let units = (planes.saturating_mul(products) / UNIT).clamp(1, planes);
        let clipped = task.clipped();
        let workers = super::workers(units, planes.saturating_mul(products));
        for_each_unit(parallel, units, (workers, 0, 0), &no_scratch(), |unit, _| {
            for plane in planes * unit / units..planes * (unit + 1) / units {
                let (d, rest) = (plane % depth, plane / depth);
                let (output, rest) = (rest % outputs, rest / outputs);
                let (group, sample) = (rest % groups, rest / groups);
                self.convolve_plane(task, clipped.as_ref(), [sample, group, output, d]);
            }
        });
    }

    /// The plane of one output channel.
    fn convolve_plane(&self, task: &Task<'_>, clipped: Option<&Clipped<'_>>, at: [usize; 4]) {
        let [sample, group, output, d] = at.map(|at| at as isize);
        let (to, from) = (task.out.strides(), task.source.strides());
        let offset = sample * to[0] + group * to[1] + output * to[2] + d * to[3];
        let source_offset = sample * from[0] + group * from[1] + d * from[3];
        let (dims, source_dims) = (task.out.dims(), task.source.dims());
        let plane = &Plane {
            out: task.out.first_mut().cast::<f32>().wrapping_offset(offset),
            out_line: to[4],
            out_sizes: [dims[4], dims[5]],
            source: task.source.first().cast::<f32>().wrapping_offset(source_offset),
            source_line: from[4],
            source_sizes: [source_dims[4], source_dims[5]],
            first: self.first,
            weights: self.weights(task, at[1], at[2]),
            bias: task.bias(at[1], at[2]),
            clipped: clipped.map(|clipped| (clipped, offset)),
        };
        // SAFETY: the plane of an output channel, which is of this unit alone, and that of the source.
        unsafe {
            match (self.taps, self.step) {
                (3, 1) => with_vectors!(slide::<3>(plane: &Plane<'_>)),
                (5, 1) => with_vectors!(slide::<5>(plane: &Plane<'_>)),
                (7, 1) => with_vectors!(slide::<7>(plane: &Plane<'_>)),
                (3, _) => with_vectors!(slide_by_two::<3, 2>(plane: &Plane<'_>)),
                (5, _) => with_vectors!(slide_by_two::<5, 3>(plane: &Plane<'_>)),
                (_, _) => with_vectors!(slide_by_two::<7, 4>(plane: &Plane<'_>)),
            }
            if clipped.is_none() && task.finish.epilogue.is_some() {
                match to[4] == dims[5] as isize {
                    true => task.apply_epilogue(offset, 1, dims[4] * dims[5]),
                    false => (0..dims[4] as isize).for_each(|line| {
                        task.apply_epilogue(offset + line * to[4], 1, dims[5]);
                    }),
                }
            }
        }
    }

    /// The weights of an output channel, by lines, in the order of positions.
    fn weights(&self, task: &Task<'_>, group: usize, output: usize) -> [f32; MAX_WEIGHTS] {
        let strides = task.weights.strides();
        let at = group as isize * strides[0] + output as isize * strides[1];
        let first = task.weights.first().cast::<f32>().wrapping_offset(at);
        let mut weights = [0.0; MAX_WEIGHTS];
        let place = |flips: bool, tap: usize| if flips { self.taps - 1 - tap } else { tap };
        for y in 0..self.taps {
            for x in 0..self.taps {
                let from = y * self.taps + x;
                let to = place(self.is_flipped[0], y) * self.taps + place(self.is_flipped[1], x);
                // SAFETY: the weights of a channel are contiguous, aligned or not.
                weights[to] = unsafe { first.add(from).read_unaligned() };
            }
        }
        weights
    }
}

/// One plane of the output, and the plane of the source that it is computed from.
struct Plane<'a> {
    out: *mut f32,
    out_line: isize,
    /// Lines, and positions of each.
    out_sizes: [usize; 2],
    source: *const f32,
    source_line: isize,
    source_sizes: [usize; 2],
    first: [isize; 2],
    weights: [f32; MAX_WEIGHTS],
    bias: f32,
    /// What is computed of results, and where the plane's first one lies in the output.
    clipped: Option<(&'a Clipped<'a>, isize)>,
}

impl Plane<'_> {
    /// The address of a position in a line of the source, which may be outside; `None` for a line that is.
    #[inline(always)]
    fn source_at(&self, line: isize, position: isize) -> Option<*const f32> {
        let is_inside = line >= 0 && line < self.source_sizes[0] as isize;
        is_inside.then(|| self.source.wrapping_offset(line * self.source_line + position))
    }

    /// The lanes of a vector that begins at this position of a source line that are inside.
    #[inline(always)]
    unsafe fn inside<V: Lanes>(&self, position: isize) -> V::Mask {
        let (lanes, end) = (V::COUNT as isize, self.source_sizes[1] as isize - position);
        let high = end.clamp(0, lanes);
        let low = (-position).clamp(0, high);
        // SAFETY: as the caller guarantees.
        unsafe { V::mask(low as usize, high as usize) }
    }

    /// Stores `N` vectors of sums; of the last one the lanes of the mask.
    #[inline(always)]
    unsafe fn store<V: Lanes, const N: usize>(
        &self,
        line: usize,
        position: usize,
        sums: [V; N],
        mask: V::Mask,
    ) {
        let place = line as isize * self.out_line + position as isize;
        for (at, mut sum) in sums.into_iter().enumerate() {
            let place = place + (at * V::COUNT) as isize;
            // SAFETY: as the caller guarantees: what is added is as long as the output.
            unsafe {
                if let Some((clipped, first)) = self.clipped {
                    if let Some(added) = clipped.added(first + place) {
                        sum = sum.add(V::load_some(added, mask));
                    }
                    sum = clipped.keep(sum);
                }
                let to = self.out.wrapping_offset(place);
                if N > 1 { sum.store(to) } else { sum.store_some(to, mask) }
            }
        }
    }
}

/// Windows side by side, of `K` taps along both axes.
#[inline(always)]
unsafe fn slide<V: Lanes, const K: usize>(plane: &Plane<'_>) {
    let (width, first) = (plane.out_sizes[1], plane.first[1]);
    // Positions whose windows are inside the source.
    let low = (-first).max(0) as usize;
    let high = plane.source_sizes[1] as isize - first - (K as isize - 1);
    let high = (high.max(0) as usize).min(width);
    let mut position = 0;
    while position < width {
        let is_inside = |end: usize| position >= low && end <= high;
        // SAFETY: as the caller guarantees.
        unsafe {
            if is_inside(position + 2 * V::COUNT) {
                slide_columns::<V, K, 2, false>(plane, position);
                position += 2 * V::COUNT;
            } else {
                match is_inside(position + V::COUNT) {
                    true => slide_columns::<V, K, 1, false>(plane, position),
                    false => slide_columns::<V, K, 1, true>(plane, position),
                }
                position += V::COUNT;
            }
        }
    }
}

/// `N` vectors of every output line, from `position` on.
#[inline(always)]
unsafe fn slide_columns<V: Lanes, const K: usize, const N: usize, const MASKED: bool>(
    plane: &Plane<'_>,
    position: usize,
) {
    let from = position as isize + plane.first[1];
    // SAFETY: as the caller guarantees: only positions inside the source are loaded.
    unsafe {
        let stored = V::mask(0, (plane.out_sizes[1] - position).min(V::COUNT));
        let mut masks = [V::mask(0, 0); K];
        if MASKED {
            for (tap, mask) in masks.iter_mut().enumerate() {
                *mask = plane.inside::<V>(from + tap as isize);
            }
        }
        let bias = V::repeated(plane.bias);
        // Those at `y` are of the output line whose tap `y` the source line is.
        let mut sums = [[bias; N]; K];
        for line in 0..plane.out_sizes[0] + K - 1 {
            if let Some(source) = plane.source_at(line as isize + plane.first[0], from) {
                for (x, mask) in masks.into_iter().enumerate() {
                    let mut vectors = [bias; N];
                    for (at, vector) in vectors.iter_mut().enumerate() {
                        let source = source.wrapping_add(x + at * V::COUNT);
                        *vector = match MASKED {
                            true => V::load_some(source, mask),
                            false => V::load(source),
                        };
                    }
                    for (y, sums) in sums.iter_mut().enumerate() {
                        let weight = V::repeated(plane.weights[y * K + x]);
                        for (sum, vector) in sums.iter_mut().zip(vectors) {
                            *sum = sum.plus(weight, vector);
                        }
                    }
                }
            }
            if let Some(line) = line.checked_sub(K - 1) {
                plane.store(line, position, sums[K - 1], stored);
            }
            for y in (1..K).rev() {
                sums[y] = sums[y - 1];
            }
            sums[0] = [bias; N];
        }
    }
}

/// Every second window, of `K` taps along both axes; `H` is half of them, rounded up.
#[inline(always)]
unsafe fn slide_by_two<V: Lanes, const K: usize, const H: usize>(plane: &Plane<'_>) {
    let width = plane.out_sizes[1];
    for position in (0..width).step_by(V::COUNT) {
        let from = 2 * position as isize + plane.first[1];
        let end = from + 2 * (H as isize - 1) + 2 * V::COUNT as isize;
        // SAFETY: as the caller guarantees.
        unsafe {
            match from >= 0 && end <= plane.source_sizes[1] as isize {
                true => slide_columns_by_two::<V, K, H, false>(plane, position),
                false => slide_columns_by_two::<V, K, H, true>(plane, position),
            }
        }
    }
}

/// One vector of every output line, from `position` on.
#[inline(always)]
unsafe fn slide_columns_by_two<V: Lanes, const K: usize, const H: usize, const MASKED: bool>(
    plane: &Plane<'_>,
    position: usize,
) {
    let from = 2 * position as isize + plane.first[1];
    // SAFETY: as the caller guarantees: only positions inside the source are loaded.
    unsafe {
        let stored = V::mask(0, (plane.out_sizes[1] - position).min(V::COUNT));
        let mut masks = [[V::mask(0, 0); 2]; H];
        if MASKED {
            for (pair, masks) in masks.iter_mut().enumerate() {
                let from = from + 2 * pair as isize;
                *masks = [plane.inside::<V>(from), plane.inside::<V>(from + V::COUNT as isize)];
            }
        }
        let bias = V::repeated(plane.bias);
        // Those at `y` are of the output line whose taps `2 y` and `2 y + 1` the two source lines are.
        let mut sums = [bias; H];
        for pair in 0..plane.out_sizes[0] + H - 1 {
            for odd in 0..2 {
                let line = (2 * pair + odd) as isize + plane.first[0];
                if let Some(source) = plane.source_at(line, from) {
                    for (half, [low, high]) in masks.into_iter().enumerate() {
                        let [first, second] =
                            [0, V::COUNT].map(|at| source.wrapping_add(2 * half + at));
                        let (first, second) = match MASKED {
                            true => (V::load_some(first, low), V::load_some(second, high)),
                            false => (V::load(first), V::load(second)),
                        };
                        let (even_taps, odd_taps) = V::unzipped(first, second);
                        for (y, sum) in sums.iter_mut().enumerate() {
                            let (y, x) = (2 * y + odd, 2 * half);
                            if y < K {
                                let weight = V::repeated(plane.weights[y * K + x]);
                                *sum = sum.plus(weight, even_taps);
                            }
                            if y < K && x + 1 < K {
                                let weight = V::repeated(plane.weights[y * K + x + 1]);
                                *sum = sum.plus(weight, odd_taps);
                            }
                        }
                    }
                }
                if odd == 0
                    && let Some(line) = pair.checked_sub(H - 1)
                {
                    plane.store(line, position, [sums[H - 1]], stored);
                }
            }
            for y in (1..H).rev() {
                sums[y] = sums[y - 1];
            }
            sums[0] = bias;
        }
    }
}
