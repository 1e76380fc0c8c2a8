//! Convolutions of groups with few channels: windows slide over lines of the source.

use super::{Axis, Task, is_here, lanes, spread, take, taps};
use crate::kernels::strip::{load_one, store};
use crate::parallel::Parallel;
use crate::{Layout, ViewMut};

/// Lines that windows of one output line cover, at most.
const LINES: usize = 64;
/// Elements of an output line that are made at a time.
const STRIP: usize = 512;

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
    let length = if reads_lines(&source) { 0 } else { lane(&source, &task.axes) };
    let all = out.count() / out.dims()[5];
    let lanes = lanes(units(&out), work(&out, &source, &task.axes));
    let height = out.dims()[4];
    spread(parallel, units(&out), (lanes, 0, length), &scratch, |unit, room| {
        let mut sheet = Sheet::new(task);
        let first = unit * share(&out);
        for line in first..(first + share(&out)).min(all) {
            if line == first || line % height == 0 {
                sheet.place(line / height);
            }
            sheet.line(line % height, room);
        }
    });
}

/// A line that windows cover, and the first of its weights.
#[derive(Clone, Copy)]
struct Line {
    from: *const f32,
    weights: *const f32,
}

/// One output channel of one sample, at one place along the first axis: lines of the output.
struct Sheet<'t, 'a> {
    task: &'t Task<'a>,
    in_place: bool,
    source_here: bool,
    out_here: bool,
    /// The places whose taps all lie inside, of the first strip.
    inner: (usize, usize),
    depth: usize,
    bias: f32,
    /// Offsets of the sample and group in the source, of the channel in the weights, of the first line in the output.
    source: isize,
    weights: isize,
    out: isize,
    found: [Line; LINES],
    made: [f32; STRIP],
}

impl<'t, 'a> Sheet<'t, 'a> {
    fn new(task: &'t Task<'a>) -> Sheet<'t, 'a> {
        let width = task.out.dims()[5].min(STRIP);
        Sheet {
            task,
            in_place: reads_lines(task.source.layout()),
            source_here: is_here(&task.source),
            out_here: is_here(&task.out) && task.out.strides()[5] == 1,
            inner: inner(&task.axes[2], 0, task.source.dims()[5], width),
            depth: 0,
            bias: 0.0,
            source: 0,
            weights: 0,
            out: 0,
            found: [Line { from: std::ptr::null(), weights: std::ptr::null() }; LINES],
            made: [0.0; STRIP],
        }
    }

    /// Goes to another sheet, counted by samples, groups, channels and places along the first axis.
    fn place(&mut self, sheet: usize) {
        let [_, groups, outputs, depth, ..] = *self.task.out.dims() else {
            unreachable!("six dimensions")
        };
        let (d, rest) = (sheet % depth, sheet / depth);
        let (output, rest) = (rest % outputs, rest / outputs);
        let (group, sample) = (rest % groups, rest / groups);
        let at = |strides: &[isize], places: &[usize]| -> isize {
            places.iter().zip(strides).map(|(place, stride)| *place as isize * stride).sum()
        };
        self.depth = d;
        self.source = at(self.task.source.strides(), &[sample, group]);
        self.weights = at(self.task.weights.strides(), &[group, output]);
        self.out = at(self.task.out.strides(), &[sample, group, output, d]);
        self.bias = self.task.bias.map_or(0.0, |bias| {
            let at = at(bias.strides(), &[group, output]);
            // SAFETY: group and channel lie inside the bias.
            unsafe { load_one(bias.dtype(), bias.first().offset(at * bias.item() as isize)) }
        });
    }

    /// Finds the lines that the windows of an output line cover; gives their number.
    fn find(&mut self, h: usize, room: &mut [f32]) -> usize {
        let [deep, high, wide] = [0, 1, 2].map(|at| self.task.axes[at]);
        let (dims, strides) = (self.task.source.dims(), self.task.source.strides());
        let sizes = &dims[3..];
        let mut count = 0;
        for input in 0..dims[2] {
            for z in 0..deep.taps {
                let at_d = deep.at(self.depth) + z as isize * deep.tap_step;
                if at_d < 0 || at_d >= sizes[0] as isize {
                    continue;
                }
                for y in 0..high.taps {
                    let at_h = high.at(h) + y as isize * high.tap_step;
                    if at_h < 0 || at_h >= sizes[1] as isize {
                        continue;
                    }
                    let offset = self.source
                        + input as isize * strides[2]
                        + at_d * strides[3]
                        + at_h * strides[4];
                    let from = match self.in_place {
                        true => self.task.source.first().cast::<f32>().wrapping_offset(offset),
                        false => {
                            let into = &mut room[count * sizes[2]..(count + 1) * sizes[2]];
                            let (view, here) = (&self.task.source, self.source_here);
                            // SAFETY: a line of the source, which nobody writes.
                            unsafe { take(view, here, offset, strides[5], into) };
                            into.as_ptr()
                        }
                    };
                    let tap = ((input * deep.taps + z) * high.taps + y) * wide.taps;
                    let weights = self.weights + tap as isize;
                    let weights = self.task.weights.first().cast::<f32>().wrapping_offset(weights);
                    self.found[count] = Line { from, weights };
                    count += 1;
                }
            }
        }
        count
    }

    /// One line of the output.
    fn line(&mut self, h: usize, room: &mut [f32]) {
        let count = self.find(h, room);
        let (out, axis) = (&self.task.out, self.task.axes[2]);
        let (size, width, strides) = (self.task.source.dims()[5], out.dims()[5], out.strides());
        assert!(crate::kernels::strip::runs_here(), "this processor lacks AVX2, FMA or F16C");
        for start in (0..width).step_by(STRIP) {
            let length = (width - start).min(STRIP);
            let range = if start == 0 { self.inner } else { inner(&axis, start, size, length) };
            let slide = Slide { lines: &self.found[..count], axis, size, bias: self.bias };
            let offset = self.out + h as isize * strides[4] + start as isize * strides[5];
            // SAFETY: the strip belongs to the output, and to this unit alone. The lines have `size` elements each and as many
            // weights as the axis has taps; this processor has the features.
            unsafe {
                let to = out.first_mut().offset(offset * out.item() as isize);
                if self.out_here {
                    let made = std::slice::from_raw_parts_mut(to.cast::<f32>(), length);
                    slide.strip(start, range, made);
                } else {
                    let made = &mut self.made[..length];
                    slide.strip(start, range, made);
                    store(out.dtype(), to, strides[5], made);
                }
            }
        }
    }
}

/// Which of the `length` places from `start` on have all their taps inside of a line of `size` elements.
fn inner(axis: &Axis, start: usize, size: usize, length: usize) -> (usize, usize) {
    let (mut low, mut high) = (0, length);
    for tap in 0..axis.taps {
        let first = axis.at(start) + tap as isize * axis.tap_step;
        let (from, to) = axis.inside(first, size, length);
        (low, high) = (low.max(from), high.min(to));
    }
    if low < high { (low, high) } else { (length, length) }
}

/// Windows over lines of `size` elements.
struct Slide<'a> {
    lines: &'a [Line],
    axis: Axis,
    size: usize,
    bias: f32,
}

impl Slide<'_> {
    /// The sums at the places from `start` on, of which those from `low` to `high` have all taps inside.
    ///
    /// # Safety
    /// The lines have `size` elements each and as many weights as the axis has taps.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn strip(&self, start: usize, (low, high): (usize, usize), made: &mut [f32]) {
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
        // SAFETY: as the caller vouches.
        unsafe {
            match made.len() {
                0..8 => self.blocks::<1, STEP>(start, made),
                8..16 => self.blocks::<8, STEP>(start, made),
                16..32 => self.blocks::<16, STEP>(start, made),
                _ => self.blocks::<32, STEP>(start, made),
            }
        }
    }

    /// The same, `N` at a time. The last ones are made twice where their number is no multiple.
    #[inline(always)]
    unsafe fn blocks<const N: usize, const STEP: isize>(&self, start: usize, made: &mut [f32]) {
        let Some(last) = made.len().checked_sub(N) else { return };
        for at in (0..last).step_by(N).chain([last]) {
            // SAFETY: as the caller vouches.
            let sums = unsafe { self.some::<N, STEP>(start + at) };
            made[at..at + N].copy_from_slice(&sums);
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
