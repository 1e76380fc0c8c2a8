//! Gradients of weights of groups with few channels: products of gradients with the line of each tap, summed.

use super::planes::{Planes, TAPS};
use super::{Axis, is_here, spread, take, workers};
use crate::kernels::strip::store_one;
use crate::parallel::Parallel;
use crate::{Layout, View, ViewMut};

/// Output channels of a group, at most.
const OUTPUTS: usize = 4;
/// Products that are summed side by side; lines are read so far beyond their end.
const WIDTH: usize = 8;
/// Groups that give every thread work.
const GROUPS: usize = 4;

/// The planes for tensors laid out so; `None` where gradients are better made otherwise.
pub fn planes(out: &Layout, source: &Layout, grad: &Layout, axes: &[Axis; 3]) -> Option<Planes> {
    let (groups, outputs, inputs) = (out.dims()[0], out.dims()[1], out.dims()[2]);
    let few = groups >= GROUPS && outputs <= OUTPUTS && outputs * inputs <= 16;
    few.then(|| Planes::new(grad, source, axes)).flatten()
}

fn work(source: &Layout, grad: &Layout) -> usize {
    grad.count().saturating_mul(source.dims()[2])
}

/// Elements of the scratch of one worker: planes, and a band of gradients, each with room to read beyond its end.
fn worker_size(planes: &Planes, grad: &Layout) -> (usize, usize) {
    (planes.count() + WIDTH, planes.band * grad.dims()[5] + WIDTH)
}

/// Elements of scratch.
pub fn scratch_size(planes: &Planes, source: &Layout, grad: &Layout) -> usize {
    let (first, second) = worker_size(planes, grad);
    workers(grad.dims()[1], work(source, grad)) * (first + second)
}

/// See [`super::filter`].
pub fn product(
    parallel: &dyn Parallel,
    out: &ViewMut<'_>,
    source: &View<'_>,
    grad: &View<'_>,
    planes: &Planes,
    scratch: ViewMut<'_>,
) {
    let [samples, groups, outputs, depth, height, width] = *grad.dims() else {
        unreachable!("six dimensions")
    };
    let workers = workers(groups, work(source.layout(), grad.layout()));
    let (first, second) = worker_size(planes, grad.layout());
    let mut offsets = [0; TAPS];
    let count = planes.offsets(&mut offsets);
    let offsets = &offsets[..count];
    spread(parallel, groups, (workers, 0, first + second), &scratch, |group, worker_scratch| {
        let (buffer, lines) = worker_scratch.split_at_mut(first);
        buffer[first - WIDTH..].fill(0.0);
        lines[second - WIDTH..].fill(0.0);
        let mut sums = [[[0f32; WIDTH]; TAPS]; OUTPUTS];
        for unit in 0..samples * depth * planes.bands(height) {
            let (band, rest) = (unit % planes.bands(height), unit / planes.bands(height));
            let (d, sample) = (rest % depth, rest / depth);
            let band = planes.lines_of(band, height);
            planes.fill(source, (sample, group, d, band.start), &mut buffer[..first - WIDTH]);
            for (output, sums) in sums[..outputs].iter_mut().enumerate() {
                let position = [sample, group, output, d, band.start];
                load(grad, &position, band.len(), width, lines);
                let bands = Band { lines, buffer, pitch: planes.pitch, count: band.len(), width };
                bands.add_up(offsets, sums);
            }
        }
        for (output, sums) in sums[..outputs].iter().enumerate() {
            for (tap, sum) in sums[..count].iter().enumerate() {
                put(out, group, output, tap, sum.iter().sum());
            }
        }
    });
}

/// Loads the lines of a band of gradients, one after the other.
fn load(grad: &View<'_>, position: &[usize; 5], count: usize, width: usize, into: &mut [f32]) {
    let (strides, here) = (grad.strides(), is_here(grad));
    let start: isize =
        position.iter().zip(strides).map(|(position, stride)| *position as isize * stride).sum();
    for (line, into) in into.chunks_exact_mut(width.max(1)).take(count).enumerate() {
        let offset = start + line as isize * strides[4];
        // SAFETY: a line of the gradients, which nobody writes.
        unsafe { take(grad, here, offset, strides[5], into) };
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
    fn add_up(&self, offsets: &[usize], sums: &mut [[f32; WIDTH]; TAPS]) {
        let most = offsets.iter().max().copied().unwrap_or(0);
        let reach = (self.count - 1) * self.pitch + self.width + WIDTH;
        assert!(most + reach <= self.buffer.len() || offsets.is_empty());
        assert!(self.count * self.width + WIDTH <= self.lines.len());
        assert!(crate::kernels::strip::runs_here(), "this processor lacks AVX2, FMA or F16C");
        for (offset, sum) in offsets.iter().zip(sums) {
            // SAFETY: every line, and what is read beyond it, is inside; this processor has the features.
            unsafe { self.add(*offset, sum) };
        }
    }

    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn add(&self, offset: usize, sum: &mut [f32; WIDTH]) {
        let (whole, rest) = (self.width / WIDTH * WIDTH, self.width % WIDTH);
        let mut all = *sum;
        // SAFETY: as the caller guarantees.
        let eight =
            |line: &[f32], at: usize| unsafe { *line.as_ptr().add(at).cast::<[f32; WIDTH]>() };
        for line in 0..self.count {
            let (left, right) = (line * self.width, offset + line * self.pitch);
            for at in (0..whole).step_by(WIDTH) {
                let (a, b) = (eight(self.lines, left + at), eight(self.buffer, right + at));
                for lane in 0..WIDTH {
                    all[lane] = a[lane].mul_add(b[lane], all[lane]);
                }
            }
            if rest > 0 {
                let (a, b) = (eight(self.lines, left + whole), eight(self.buffer, right + whole));
                for lane in 0..WIDTH {
                    let inside = lane < rest;
                    let (a, b) = if inside { (a[lane], b[lane]) } else { (0.0, 0.0) };
                    all[lane] = a.mul_add(b, all[lane]);
                }
            }
        }
        *sum = all;
    }
}
