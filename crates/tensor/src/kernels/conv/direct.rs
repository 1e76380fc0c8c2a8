//! Convolutions of groups with few channels: windows slide over lines of the source.

use super::{Axis, LEAST, Task, is_here, lanes, spread, take, taps};
use crate::kernels::strip::{load_one, store};
use crate::parallel::Parallel;
use crate::{Layout, ViewMut};

/// Lines that windows of one output line cover, at most.
const LINES: usize = 64;
/// Elements of an output line that are made at a time.
const STRIP: usize = 512;
/// Elements that are summed side by side.
const WIDTH: usize = 32;
/// The same, at the end of a line.
const NARROW: usize = 8;

/// Whether windows slide over tensors laid out so.
pub fn takes(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> bool {
    let (outputs, inputs) = (out.dims()[2], source.dims()[2]);
    let lines = inputs.saturating_mul(axes[0].taps).saturating_mul(axes[1].taps);
    outputs <= 4 && outputs * inputs <= 16 && lines <= LINES
}

/// Whether lines of the source can be read where they lie.
fn reads_lines(source: &Layout) -> bool {
    source.dtype == crate::DType::Float && source.strides()[5] == 1
}

/// Lines that windows of one output line cover.
fn lines(source: &Layout, axes: &[Axis; 3]) -> usize {
    source.dims()[2] * axes[0].taps * axes[1].taps
}

fn work(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> usize {
    out.count().saturating_mul(source.dims()[2]).saturating_mul(taps(axes))
}

/// Output lines of one unit.
fn share(out: &Layout) -> usize {
    (4 * STRIP / out.dims()[5].max(1)).max(1)
}

fn units(out: &Layout) -> usize {
    (out.count() / out.dims()[5].max(1)).div_ceil(share(out))
}

fn lane(source: &Layout, axes: &[Axis; 3]) -> usize {
    lines(source, axes) * source.dims()[5]
}

/// Elements of scratch.
pub fn room(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> usize {
    let lanes = lanes(units(out), work(out, source, axes));
    // Lines are read in place where they are on whole elements too, which only the memory shows.
    match reads_lines(source) {
        true => 0,
        false => lanes * lane(source, axes),
    }
}

/// See [`super::convolve`].
pub fn product(parallel: &dyn Parallel, task: &Task<'_>, scratch: ViewMut<'_>) {
    let (out, source) = (*task.out.layout(), *task.source.layout());
    let in_place = reads_lines(&source);
    let length = if in_place { 0 } else { lane(&source, &task.axes) };
    let all = out.count() / out.dims()[5];
    let lanes = lanes(units(&out), work(&out, &source, &task.axes));
    debug_assert!(lanes == 1 || work(&out, &source, &task.axes) >= LEAST);
    spread(parallel, units(&out), (lanes, 0, length), &scratch, |unit, room| {
        let first = unit * share(&out);
        let mut found = [Line { from: std::ptr::null(), weights: std::ptr::null() }; LINES];
        let mut made = [0f32; STRIP];
        for line in first..(first + share(&out)).min(all) {
            one(task, line, in_place, room, &mut found, &mut made);
        }
    });
}

/// A line that windows cover, and the first of its weights.
#[derive(Clone, Copy)]
struct Line {
    from: *const f32,
    weights: *const f32,
}

/// One line of the output.
fn one(
    task: &Task<'_>,
    line: usize,
    in_place: bool,
    room: &mut [f32],
    found: &mut [Line; LINES],
    made: &mut [f32; STRIP],
) {
    let [_, groups, outputs, depth, height, width] = *task.out.dims() else {
        unreachable!("six dimensions")
    };
    let (h, rest) = (line % height, line / height);
    let (d, rest) = (rest % depth, rest / depth);
    let (output, rest) = (rest % outputs, rest / outputs);
    let (group, sample) = (rest % groups, rest / groups);
    let [deep, high, wide] = [0, 1, 2].map(|at| task.axes[at]);
    let (sizes, strides) = (&task.source.dims()[3..], task.source.strides());
    let (of_out, of_weights) = (task.out.strides(), task.weights.strides());
    let is_here = is_here(&task.source);
    let mut count = 0;
    for input in 0..task.source.dims()[2] {
        for z in 0..deep.taps {
            for y in 0..high.taps {
                let at_d = deep.at(d) + z as isize * deep.tap_step;
                let at_h = high.at(h) + y as isize * high.tap_step;
                let inside = (0..sizes[0] as isize).contains(&at_d)
                    && (0..sizes[1] as isize).contains(&at_h);
                if !inside {
                    continue;
                }
                let offset = sample as isize * strides[0]
                    + group as isize * strides[1]
                    + input as isize * strides[2]
                    + at_d * strides[3]
                    + at_h * strides[4];
                let from = match in_place {
                    true => task.source.first().cast::<f32>().wrapping_offset(offset),
                    false => {
                        let into = &mut room[count * sizes[2]..(count + 1) * sizes[2]];
                        // SAFETY: a line of the source, which nobody writes.
                        unsafe { take(&task.source, is_here, offset, strides[5], into) };
                        into.as_ptr()
                    }
                };
                let tap = ((input * deep.taps + z) * high.taps + y) * wide.taps;
                let weights =
                    group as isize * of_weights[0] + output as isize * of_weights[1] + tap as isize;
                let weights = task.weights.first().cast::<f32>().wrapping_offset(weights);
                found[count] = Line { from, weights };
                count += 1;
            }
        }
    }
    let bias = task.bias.map_or(0.0, |bias| {
        let at = group as isize * bias.strides()[0] + output as isize * bias.strides()[1];
        // SAFETY: group and channel lie inside the bias.
        unsafe { load_one(bias.dtype(), bias.first().offset(at * bias.item() as isize)) }
    });
    let place = sample as isize * of_out[0]
        + group as isize * of_out[1]
        + output as isize * of_out[2]
        + d as isize * of_out[3]
        + h as isize * of_out[4];
    for start in (0..width).step_by(STRIP) {
        let made = &mut made[..(width - start).min(STRIP)];
        let slide = Slide { lines: &found[..count], axis: wide, size: sizes[2], bias };
        assert!(crate::kernels::strip::runs_here(), "this processor lacks AVX2, FMA or F16C");
        // SAFETY: the lines have `size` elements each and as many weights as the axis has taps; this processor has the
        // features.
        unsafe { slide.strip(start, made) };
        let offset = (place + start as isize * of_out[5]) * task.out.item() as isize;
        // SAFETY: the line belongs to the output, and to this unit alone.
        unsafe {
            let to = task.out.first_mut().offset(offset);
            store(task.out.dtype(), to, of_out[5], made);
        }
    }
}

/// Windows over lines of `size` elements.
struct Slide<'a> {
    lines: &'a [Line],
    axis: Axis,
    size: usize,
    bias: f32,
}

impl Slide<'_> {
    /// The sums at the places from `start` on.
    ///
    /// # Safety
    /// The lines have `size` elements each and as many weights as the axis has taps.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn strip(&self, start: usize, made: &mut [f32]) {
        let (mut low, mut high) = (0, made.len());
        for tap in 0..self.axis.taps {
            let first = self.axis.at(start) + tap as isize * self.axis.tap_step;
            let (from, to) = self.axis.inside(first, self.size, made.len());
            (low, high) = (low.max(from), high.min(to));
        }
        let (low, high) = if low < high { (low, high) } else { (made.len(), made.len()) };
        let (edge, rest) = made.split_at_mut(low);
        let (middle, end) = rest.split_at_mut(high - low);
        // SAFETY: every tap at the places in the middle lies inside the lines; the caller vouches for the rest.
        unsafe {
            for (part, first) in [(edge, 0), (end, high)] {
                for (at, sum) in part.iter_mut().enumerate() {
                    *sum = self.checked(start + first + at);
                }
            }
            match self.axis.step {
                1 => self.inner::<1>(start + low, middle),
                2 => self.inner::<2>(start + low, middle),
                _ => self.inner::<0>(start + low, middle),
            }
        }
    }

    /// One sum, where taps may lie outside.
    #[inline(always)]
    unsafe fn checked(&self, place: usize) -> f32 {
        let mut sum = self.bias;
        for line in self.lines {
            for tap in 0..self.axis.taps {
                let at = self.axis.at(place) + tap as isize * self.axis.tap_step;
                if at >= 0 && at < self.size as isize {
                    // SAFETY: inside the line; the caller vouches for the rest.
                    unsafe {
                        let weight = line.weights.add(tap).read_unaligned();
                        sum = weight.mul_add(line.from.offset(at).read_unaligned(), sum);
                    }
                }
            }
        }
        sum
    }

    /// Sums whose taps all lie inside; `STEP` is that of the axis, or 0 for any.
    #[inline(always)]
    unsafe fn inner<const STEP: isize>(&self, start: usize, made: &mut [f32]) {
        let whole = made.len() / WIDTH * WIDTH;
        let (wide, rest) = made.split_at_mut(whole);
        // SAFETY: as the caller vouches.
        unsafe {
            for (at, sums) in wide.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
                *sums = self.some::<WIDTH, STEP>(start + at * WIDTH);
            }
            if rest.is_empty() {
                return;
            }
            let place = start + whole;
            if rest.len() < NARROW {
                for (at, sum) in rest.iter_mut().enumerate() {
                    *sum = self.some::<1, STEP>(place + at)[0];
                }
                return;
            }
            // The last few are made twice where their number is no multiple.
            let last = rest.len() - NARROW;
            for at in (0..last).step_by(NARROW).chain([last]) {
                let sums = self.some::<NARROW, STEP>(place + at);
                rest[at..at + NARROW].copy_from_slice(&sums);
            }
        }
    }

    /// `N` sums side by side.
    #[inline(always)]
    unsafe fn some<const N: usize, const STEP: isize>(&self, place: usize) -> [f32; N] {
        let mut sums = [self.bias; N];
        let step = if STEP == 0 { self.axis.step } else { STEP };
        for line in self.lines {
            let mut at = self.axis.at(place);
            for tap in 0..self.axis.taps {
                // SAFETY: as the caller vouches.
                unsafe {
                    let weight = line.weights.add(tap).read_unaligned();
                    let from = line.from.offset(at);
                    for (next, sum) in sums.iter_mut().enumerate() {
                        let x = from.offset(next as isize * step).read_unaligned();
                        *sum = weight.mul_add(x, *sum);
                    }
                }
                at += self.axis.tap_step;
            }
        }
        sums
    }
}
