//! What the windows of a few output lines cover, in an order in which each tap covers one long line.
//!
//! Elements are by input channel, tap along the first axis, remainder by the step of the second axis, remainder by that
//! of the third, then line and position. Borders are zeros. Windows at neighbouring positions are then side by side for
//! every tap, also from the end of one output line to the start of the next, where what is computed belongs to no
//! position and is dropped.

use super::{Axis, clear, is_aligned_f32, load_elements};
use crate::{Layout, View};
use std::ops::Range;

/// Taps of all input channels, at most.
pub const MAX_TAPS: usize = 256;
/// Elements that are copied at a time, unless one line takes more.
const BAND: usize = 32 * 1024;
/// Elements of one line, at most.
const MAX_LINE: usize = 1 << 20;

/// How planes are laid out.
#[derive(Clone, Copy)]
pub struct Planes {
    axes: [Axis; 3],
    inputs: usize,
    /// The least quotient that a tap has by the step, along the second and the third axis.
    least: [isize; 2],
    /// Output lines of a band.
    pub band: usize,
    /// Lines of a band, with those that its windows reach beyond it.
    lines: usize,
    /// The distance between lines.
    pub pitch: usize,
}

/// The least and the greatest quotient that a tap has by the step.
fn quotients(axis: &Axis) -> (isize, isize) {
    let last = axis.first + (axis.taps as isize - 1).max(0) * axis.tap_step;
    let (one, other) = (axis.first.div_euclid(axis.step), last.div_euclid(axis.step));
    (one.min(other), one.max(other))
}

impl Planes {
    /// For an output, or its gradient, and a source of these layouts; `None` where they would be too large.
    pub fn new(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Option<Planes> {
        let (height, width) = (out.dims()[4], out.dims()[5]);
        let ((low_y, high_y), (low_x, high_x)) = (quotients(&axes[1]), quotients(&axes[2]));
        let inputs = source.dims()[2];
        let planes = inputs
            .checked_mul(axes[0].taps)?
            .checked_mul(axes[1].step as usize)?
            .checked_mul(axes[2].step as usize)?;
        let pitch = width.checked_add((high_x - low_x) as usize)?.max(1);
        let extra_lines = (high_y - low_y) as usize;
        let line = planes.checked_mul(pitch)?;
        if inputs * super::taps(axes) > MAX_TAPS || line.checked_mul(extra_lines + 1)? > MAX_LINE {
            return None;
        }
        let band = (BAND / line.max(1)).saturating_sub(extra_lines).clamp(1, height.max(1));
        let least = [low_y, low_x];
        Some(Planes { axes: *axes, inputs, least, band, lines: band + extra_lines, pitch })
    }

    /// How many elements there are.
    pub fn count(&self) -> usize {
        self.inputs * self.axes[0].taps * self.plane_size()
    }

    /// Taps of all channels.
    pub fn taps(&self) -> usize {
        self.inputs * super::taps(&self.axes)
    }

    /// Elements for one channel and one tap along the first axis.
    fn plane_size(&self) -> usize {
        let remainders = (self.axes[1].step * self.axes[2].step) as usize;
        remainders * self.lines * self.pitch
    }

    /// Where each tap of each channel covers the first position of a band, in the order of weights; returns their number.
    pub fn offsets(&self, into: &mut [usize; MAX_TAPS]) -> usize {
        let [axis_d, axis_h, axis_w] = self.axes;
        let mut count = 0;
        for plane in 0..self.inputs * axis_d.taps {
            for y in 0..axis_h.taps as isize {
                let y = axis_h.first + y * axis_h.tap_step;
                let (line, remainder_y) = (y.div_euclid(axis_h.step), y.rem_euclid(axis_h.step));
                let line = (line - self.least[0]) as usize;
                for x in 0..axis_w.taps as isize {
                    let x = axis_w.first + x * axis_w.tap_step;
                    let (position, remainder_x) =
                        (x.div_euclid(axis_w.step), x.rem_euclid(axis_w.step));
                    let position = (position - self.least[1]) as usize;
                    let remainder = (remainder_y * axis_w.step + remainder_x) as usize;
                    into[count] = plane * self.plane_size()
                        + (remainder * self.lines + line) * self.pitch
                        + position;
                    count += 1;
                }
            }
        }
        count
    }

    /// Fills the planes of a sample and a group, at a position along the first axis and for output lines from `first` on.
    pub fn fill(
        &self,
        source: &View<'_>,
        (sample, group, depth, first): (usize, usize, usize, usize),
        into: &mut [f32],
    ) {
        let [axis_d, axis_h, axis_w] = self.axes;
        let (sizes, strides) = (&source.dims()[3..], source.strides());
        let (is_aligned_f32, step) = (is_aligned_f32(source), axis_w.step * strides[5]);
        let start = sample as isize * strides[0] + group as isize * strides[1];
        let mut lines = into.chunks_exact_mut(self.pitch);
        for input in 0..self.inputs {
            for z in 0..axis_d.taps {
                let d = axis_d.at(depth) + z as isize * axis_d.tap_step;
                let d_inside = (0..sizes[0] as isize).contains(&d);
                let start = start + input as isize * strides[2] + d * strides[3];
                for remainder in 0..axis_h.step * axis_w.step {
                    let (remainder_y, remainder_x) =
                        (remainder / axis_w.step, remainder % axis_w.step);
                    let x = self.least[1] * axis_w.step + remainder_x;
                    let (low, end) = axis_w.inside(x, sizes[2], self.pitch);
                    for line in 0..self.lines {
                        let into = lines.next().expect("a line for each");
                        let h = (first as isize + line as isize + self.least[0]) * axis_h.step
                            + remainder_y;
                        if !d_inside || h < 0 || h >= sizes[1] as isize || low == end {
                            into.fill(0.0);
                            continue;
                        }
                        clear(&mut into[..low]);
                        clear(&mut into[end..]);
                        let w = x + low as isize * axis_w.step;
                        let offset = start + h * strides[4] + w * strides[5];
                        // SAFETY: every position is inside the source, which nobody writes.
                        unsafe {
                            load_elements(source, is_aligned_f32, offset, step, &mut into[low..end])
                        };
                    }
                }
            }
        }
    }

    /// How many bands an output of this height has.
    pub fn bands(&self, height: usize) -> usize {
        height.div_ceil(self.band)
    }

    /// The output lines of a band.
    pub fn lines_of(&self, band: usize, height: usize) -> Range<usize> {
        band * self.band..((band + 1) * self.band).min(height)
    }
}
