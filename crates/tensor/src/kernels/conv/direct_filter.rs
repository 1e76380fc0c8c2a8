//! Gradients of weights of groups with few channels: products of gradients with the line of each tap, summed.

use super::planes::{MAX_TAPS, Planes};
use super::{Axis, for_each_unit, is_aligned_f32, load_elements, workers};
use crate::kernels::strip::store_one;
use crate::parallel::Parallel;
use crate::{Layout, View, ViewMut};

/// Output channels of a group, at most.
const MAX_OUTPUTS: usize = 4;
/// Products that are summed side by side; lines may be read up to this far past their end.
const WIDTH: usize = 8;
/// Taps that are summed in one pass over the lines, at most.
const MAX_TAPS_PER_PASS: usize = 9;
/// Groups that give every thread work, at least.
const MIN_GROUPS: usize = 4;

/// The planes for tensors of these layouts; `None` where another method is faster.
pub fn planes(out: &Layout, source: &Layout, grad: &Layout, axes: &[Axis; 3]) -> Option<Planes> {
    let (groups, outputs, inputs) = (out.dims()[0], out.dims()[1], out.dims()[2]);
    let has_few_channels = groups >= MIN_GROUPS && outputs <= MAX_OUTPUTS && outputs * inputs <= 16;
    has_few_channels.then(|| Planes::new(grad, source, axes)).flatten()
}

/// About how many multiply-adds there are.
fn work(source: &Layout, grad: &Layout) -> usize {
    grad.count().saturating_mul(source.dims()[2])
}

/// Elements of the scratch of one worker: planes, and a band of gradients, each with room to read beyond its end; sums.
fn worker_size(planes: &Planes, grad: &Layout) -> (usize, usize, usize) {
    let sums = grad.dims()[2] * planes.taps() * WIDTH;
    (planes.count() + WIDTH, planes.band * grad.dims()[5] + WIDTH, sums)
}

/// Elements of scratch.
pub fn scratch_size(planes: &Planes, source: &Layout, grad: &Layout) -> usize {
    let (first, second, third) = worker_size(planes, grad);
    workers(grad.dims()[1], work(source, grad)) * (first + second + third)
}

/// See [`super::weights_gradient`].
pub fn weights_gradient(
    parallel: &dyn Parallel,
    out: &ViewMut<'_>,
    source: &View<'_>,
    grad: &View<'_>,
    planes: &Planes,
    scratch: ViewMut<'_>,
) {
    let [samples, groups, _, depth, height, width] = *grad.dims() else {
        unreachable!("six dimensions")
    };
    let workers = workers(groups, work(source.layout(), grad.layout()));
    let (planes_size, band_size, sums_size) = worker_size(planes, grad.layout());
    let worker_size = planes_size + band_size + sums_size;
    let mut offsets = [0; MAX_TAPS];
    let count = planes.offsets(&mut offsets);
    let offsets = &offsets[..count];
    for_each_unit(
        parallel,
        groups,
        (workers, 0, worker_size),
        &scratch,
        |group, worker_scratch| {
            let (buffer, rest) = worker_scratch.split_at_mut(planes_size);
            let (lines, sums) = rest.split_at_mut(band_size);
            let sums = sums.as_chunks_mut::<WIDTH>().0;
            sums.fill([0.0; WIDTH]);
            buffer[planes_size - WIDTH..].fill(0.0);
            lines[band_size - WIDTH..].fill(0.0);
            for unit in 0..samples * depth * planes.bands(height) {
                let (band, rest) = (unit % planes.bands(height), unit / planes.bands(height));
                let (d, sample) = (rest % depth, rest / depth);
                let band = planes.lines_of(band, height);
                planes.fill(
                    source,
                    (sample, group, d, band.start),
                    &mut buffer[..planes_size - WIDTH],
                );
                for (output, sums) in sums.chunks_exact_mut(count.max(1)).enumerate() {
                    let position = [sample, group, output, d, band.start];
                    load(grad, &position, band.len(), width, lines);
                    let bands =
                        Band { lines, buffer, pitch: planes.pitch, count: band.len(), width };
                    bands.add_up(offsets, sums);
                }
            }
            for (output, sums) in sums.chunks_exact(count.max(1)).enumerate() {
                for (tap, sum) in sums.iter().enumerate() {
                    put(out, group, output, tap, sum.iter().sum());
                }
            }
        },
    );
}

/// Loads the lines of a band of gradients, one after the other.
fn load(grad: &View<'_>, position: &[usize; 5], count: usize, width: usize, into: &mut [f32]) {
    let (strides, is_aligned_f32) = (grad.strides(), is_aligned_f32(grad));
    let start: isize =
        position.iter().zip(strides).map(|(position, stride)| *position as isize * stride).sum();
    for (line, into) in into.chunks_exact_mut(width.max(1)).take(count).enumerate() {
        let offset = start + line as isize * strides[4];
        // SAFETY: a line of the gradients, which nobody writes.
        unsafe { load_elements(grad, is_aligned_f32, offset, strides[5], into) };
    }
}

/// Writes the gradient of one weight; taps are counted by input channel first.
fn put(out: &ViewMut<'_>, group: usize, output: usize, tap: usize, sum: f32) {
    let (dims, strides) = (out.dims(), out.strides());
    let mut offset = group as isize * strides[0] + output as isize * strides[1];
    let mut rest = tap;
    for dim in (2..6).rev() {
        offset += (rest % dims[dim]) as isize * strides[dim];
        rest /= dims[dim];
    }
    // SAFETY: the element belongs to the output, and to this unit alone.
    unsafe {
        let to = out.first_mut().offset(offset * out.item() as isize);
        store_one(out.dtype(), to, sum);
    }
}

/// Lines of gradients and the planes that their windows cover.
struct Band<'a> {
    lines: &'a [f32],
    buffer: &'a [f32],
    pitch: usize,
    count: usize,
    width: usize,
}

impl Band<'_> {
    /// Adds products to the sums of each tap.
    fn add_up(&self, offsets: &[usize], sums: &mut [[f32; WIDTH]]) {
        let max_offset = offsets.iter().max().copied().unwrap_or(0);
        let reach = (self.count - 1) * self.pitch + self.width + WIDTH;
        assert!(max_offset + reach <= self.buffer.len() || offsets.is_empty());
        assert!(self.count * self.width + WIDTH <= self.lines.len());
        assert!(crate::kernels::strip::runs_here(), "this processor lacks AVX2, FMA or F16C");
        // As many taps side by side as keep their sums in registers, so that none waits for the sum before.
        let groups = offsets.len().div_ceil(MAX_TAPS_PER_PASS);
        for group in 0..groups {
            let range = offsets.len() * group / groups..offsets.len() * (group + 1) / groups;
            let (offsets, sums) = (&offsets[range.clone()], &mut sums[range]);
            // SAFETY: every line, and what is read beyond it, is inside; this processor has the features.
            unsafe {
                match offsets.len() {
                    1 => self.add::<1>(offsets, sums),
                    2 => self.add::<2>(offsets, sums),
                    3 => self.add::<3>(offsets, sums),
                    4 => self.add::<4>(offsets, sums),
                    5 => self.add::<5>(offsets, sums),
                    6 => self.add::<6>(offsets, sums),
                    7 => self.add::<7>(offsets, sums),
                    8 => self.add::<8>(offsets, sums),
                    _ => self.add::<MAX_TAPS_PER_PASS>(offsets, sums),
                }
            }
        }
    }

    /// As [`Band::add_up`], of `N` taps.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn add<const N: usize>(&self, offsets: &[usize], sums: &mut [[f32; WIDTH]]) {
        let (full_vectors, rest) = (self.width / WIDTH * WIDTH, self.width % WIDTH);
        let tail_mask: [u32; WIDTH] = std::array::from_fn(|lane| if lane < rest { !0 } else { 0 });
        let offsets: [usize; N] = offsets.try_into().expect("as many taps as the tile has");
        let mut totals: [[f32; WIDTH]; N] =
            (&*sums).try_into().expect("as many taps as the tile has");
        // SAFETY: as the caller guarantees.
        let load_vector =
            |line: &[f32], at: usize| unsafe { *line.as_ptr().add(at).cast::<[f32; WIDTH]>() };
        // What is past the end of a line must not be multiplied: it may be NaN.
        let mask_tail = |mut line: [f32; WIDTH]| {
            for lane in 0..WIDTH {
                line[lane] = f32::from_bits(line[lane].to_bits() & tail_mask[lane]);
            }
            line
        };
        for line in 0..self.count {
            let (grad_start, plane_start) = (line * self.width, line * self.pitch);
            for at in (0..full_vectors).step_by(WIDTH) {
                let a = load_vector(self.lines, grad_start + at);
                for (offset, totals) in offsets.iter().zip(&mut totals) {
                    let b = load_vector(self.buffer, offset + plane_start + at);
                    for lane in 0..WIDTH {
                        totals[lane] = a[lane].mul_add(b[lane], totals[lane]);
                    }
                }
            }
            if rest > 0 {
                let a = mask_tail(load_vector(self.lines, grad_start + full_vectors));
                for (offset, totals) in offsets.iter().zip(&mut totals) {
                    let b =
                        mask_tail(load_vector(self.buffer, offset + plane_start + full_vectors));
                    for lane in 0..WIDTH {
                        totals[lane] = a[lane].mul_add(b[lane], totals[lane]);
                    }
                }
            }
        }
        sums.copy_from_slice(&totals);
    }
}
