//! Convolutions of groups with few channels: each tap is multiplied with one long line.

use super::planes::{MAX_TAPS, Planes};
use super::{Axis, Task, for_each_unit, is_aligned_f32, taps, workers};
use crate::kernels::strip::store;
use crate::parallel::Parallel;
use crate::{Layout, ViewMut};

/// The planes of a convolution of tensors of these layouts; `None` where another method is faster.
pub fn planes(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Option<Planes> {
    let (outputs, inputs) = (out.dims()[2], source.dims()[2]);
    let has_few_channels = outputs <= 4 && outputs * inputs <= 16;
    has_few_channels.then(|| Planes::new(out, source, axes)).flatten()
}

/// Multiply-adds in all.
fn work(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> usize {
    out.count().saturating_mul(source.dims()[2]).saturating_mul(taps(axes))
}

/// Units of work: bands of all samples, groups and positions along the first axis.
fn units(planes: &Planes, out: &Layout) -> usize {
    let dims = out.dims();
    dims[0] * dims[1] * dims[3] * planes.bands(dims[4])
}

/// Elements of the scratch of one worker: planes, then a line of sums.
fn worker_size(planes: &Planes) -> (usize, usize) {
    (planes.count(), planes.band * planes.pitch)
}

/// Elements of scratch.
pub fn scratch_size(planes: &Planes, out: &Layout, source: &Layout, axes: &[Axis; 3]) -> usize {
    let (first, second) = worker_size(planes);
    workers(units(planes, out), work(out, source, axes)) * (first + second)
}

/// See [`super::convolve`].
pub fn convolve(parallel: &dyn Parallel, task: &Task<'_>, planes: &Planes, scratch: ViewMut<'_>) {
    let (out, source) = (*task.out.layout(), *task.source.layout());
    let units = units(planes, &out);
    let workers = workers(units, work(&out, &source, &task.axes));
    let (planes_size, sums_size) = worker_size(planes);
    let [_, groups, outputs, depth, height, width] = *out.dims() else {
        unreachable!("six dimensions")
    };
    let mut offsets = [0; MAX_TAPS];
    let count = planes.offsets(&mut offsets);
    let offsets = &offsets[..count];
    let bands = planes.bands(height);
    for_each_unit(
        parallel,
        units,
        (workers, 0, planes_size + sums_size),
        &scratch,
        |unit, worker_scratch| {
            let (band, rest) = (unit % bands, unit / bands);
            let (d, rest) = (rest % depth, rest / depth);
            let (group, sample) = (rest % groups, rest / groups);
            let lines = planes.lines_of(band, height);
            let (buffer, sums) = worker_scratch.split_at_mut(planes_size);
            planes.fill(&task.source, (sample, group, d, lines.start), buffer);
            let sums = &mut sums[..(lines.len() - 1) * planes.pitch + width];
            for output in 0..outputs {
                let mut weights = [0f32; MAX_TAPS];
                let bias = coefficients(task, group, output, &mut weights[..count]);
                slide(buffer, (offsets, &weights[..count]), bias, sums);
                let positions = [sample, group, output, d, lines.start];
                for (line, sums) in sums.chunks(planes.pitch).enumerate() {
                    put(task, &positions, line, &sums[..width]);
                }
            }
        },
    );
}

/// Loads the weights of an output channel; returns its bias.
fn coefficients(task: &Task<'_>, group: usize, output: usize, weights: &mut [f32]) -> f32 {
    let strides = task.weights.strides();
    let at = group as isize * strides[0] + output as isize * strides[1];
    let first = task.weights.first().cast::<f32>().wrapping_offset(at);
    for (tap, weight) in weights.iter_mut().enumerate() {
        // SAFETY: the weights of a channel are contiguous, aligned or not.
        *weight = unsafe { first.add(tap).read_unaligned() };
    }
    task.bias(group, output)
}

/// Writes a line of the output, counted from the one at these positions.
fn put(task: &Task<'_>, positions: &[usize; 5], line: usize, sums: &[f32]) {
    let (out, strides) = (&task.out, task.out.strides());
    let start: isize =
        positions.iter().zip(strides).map(|(position, stride)| *position as isize * stride).sum();
    let offset = start + line as isize * strides[4];
    // SAFETY: the line belongs to the output, and to this unit alone.
    unsafe {
        let to = out.first_mut().offset(offset * out.item() as isize);
        match is_aligned_f32(out) && strides[5] == 1 {
            true => super::copy_line(
                sums.as_ptr(),
                std::slice::from_raw_parts_mut(to.cast::<f32>(), sums.len()),
            ),
            false => store(out.dtype(), to, strides[5], sums),
        }
        task.apply_epilogue(offset, 1, sums.len());
    }
}

/// `sums = bias + weights * planes`, where the line of each tap begins at its offset.
fn slide(planes: &[f32], (offsets, weights): (&[usize], &[f32]), bias: f32, sums: &mut [f32]) {
    let max_offset = offsets.iter().max().copied().unwrap_or(0);
    assert!(max_offset + sums.len() <= planes.len() || offsets.is_empty());
    assert!(crate::kernels::strip::runs_here(), "this processor lacks AVX2, FMA or F16C");
    // SAFETY: every line is inside the planes; this processor has the features.
    unsafe { slide_with_avx2(planes, offsets, weights, bias, sums) };
}

/// See [`slide`].
///
/// # Safety
/// Every line is inside the planes; this processor has the features.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn slide_with_avx2(
    planes: &[f32],
    offsets: &[usize],
    weights: &[f32],
    bias: f32,
    sums: &mut [f32],
) {
    let (from, length) = (planes.as_ptr(), sums.len());
    let to = sums.as_mut_ptr();
    // As many sums at a time as there are, up to four times eight; the last ones are computed twice where their number is no
    // multiple.
    let width = [32, 16, 8].into_iter().find(|width| *width <= length).unwrap_or(1);
    let mut at = 0;
    while at < length {
        let position = at.min(length - width);
        // SAFETY: as the caller guarantees; the sums from `position` on are as many as are made.
        unsafe {
            let (from, to) = (from.add(position), to.add(position));
            match width {
                32 => eights::<4>(from, offsets, weights, bias, to),
                16 => eights::<2>(from, offsets, weights, bias, to),
                8 => eights::<1>(from, offsets, weights, bias, to),
                _ => {
                    let mut sum = bias;
                    for (offset, weight) in offsets.iter().zip(weights) {
                        sum = weight.mul_add(*from.add(*offset), sum);
                    }
                    *to = sum;
                }
            }
        }
        at += width;
    }
}

/// `N` times eight sums, in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn eights<const N: usize>(
    from: *const f32,
    offsets: &[usize],
    weights: &[f32],
    bias: f32,
    to: *mut f32,
) {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps};
    let mut sums = [_mm256_set1_ps(bias); N];
    // SAFETY: as the caller of `slide_with_avx2` guarantees.
    unsafe {
        for (offset, weight) in offsets.iter().zip(weights) {
            let (line, weight) = (from.add(*offset), _mm256_set1_ps(*weight));
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum = _mm256_fmadd_ps(weight, _mm256_loadu_ps(line.add(8 * at)), *sum);
            }
        }
        for (at, sum) in sums.iter().enumerate() {
            _mm256_storeu_ps(to.add(8 * at), *sum);
        }
    }
}

/// `N` times eight sums.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn eights<const N: usize>(
    from: *const f32,
    offsets: &[usize],
    weights: &[f32],
    bias: f32,
    to: *mut f32,
) {
    let mut sums = [[bias; 8]; N];
    // SAFETY: as the caller of `slide_with_avx2` guarantees.
    unsafe {
        for (offset, weight) in offsets.iter().zip(weights) {
            for (at, sums) in sums.iter_mut().enumerate() {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    *sum = weight.mul_add(*from.add(offset + 8 * at + lane), *sum);
                }
            }
        }
        for (at, sums) in sums.iter().enumerate() {
            to.add(8 * at).cast::<[f32; 8]>().write(*sums);
        }
    }
}
