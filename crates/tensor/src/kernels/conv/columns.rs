//! Columns: what windows cover, for a few positions and a few taps at a time.

use super::{Axis, clear, is_aligned_f32, load_elements};
use crate::View;
use std::ops::Range;

/// Positions that are worked on together. Two lines of 56, four of 28, eight of 14; a row of it is an odd number of
/// cache lines, so that rows of a tile do not all fall into the same sets of a cache.
pub const TILE: usize = 112;

/// A run of positions along the last axis.
#[derive(Clone, Copy, Default)]
pub struct Run {
    /// The first position, counted from that of the tile.
    pub at: usize,
    /// How many.
    pub length: usize,
    /// The sample.
    pub sample: usize,
    /// The first position along each axis.
    pub position: [usize; 3],
}

/// The runs of a tile.
pub struct Runs {
    count: usize,
    runs: [Run; TILE],
}

impl Runs {
    /// The runs of the positions `range`, at most [`TILE`] of them, of this many samples and positions along each axis.
    pub fn new([_, depth, height, width]: [usize; 4], range: Range<usize>) -> Runs {
        assert!(range.len() <= TILE);
        let mut tile = Runs { count: 0, runs: [Run::default(); TILE] };
        let mut next = range.start;
        while next < range.end {
            let (line, x) = (next / width, next % width);
            let (plane, y) = (line / height, line % height);
            let (sample, z) = (plane / depth, plane % depth);
            let length = (width - x).min(range.end - next);
            let at = next - range.start;
            tile.runs[tile.count] = Run { at, length, sample, position: [z, y, x] };
            tile.count += 1;
            next += length;
        }
        tile
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs[..self.count].iter()
    }
}

/// What windows cover of a tensor by samples, groups, channels and three axes.
pub struct Columns<'a> {
    source: View<'a>,
    axes: [Axis; 3],
    is_aligned_f32: bool,
}

impl<'a> Columns<'a> {
    /// Of this tensor.
    pub fn new(source: View<'a>, axes: [Axis; 3]) -> Columns<'a> {
        Columns { source, axes, is_aligned_f32: is_aligned_f32(&source) }
    }

    /// Writes rows of columns, `stride` elements apart. Rows are counted by channel of the group, then by tap.
    pub fn fill(
        &self,
        group: usize,
        rows: Range<usize>,
        runs: &Runs,
        into: &mut [f32],
        stride: usize,
    ) {
        let [axis_d, axis_h, axis_w] = [0, 1, 2].map(|at| self.axes[at]);
        let mut tap = [
            rows.start / (axis_w.taps * axis_h.taps * axis_d.taps).max(1),
            rows.start / (axis_w.taps * axis_h.taps).max(1) % axis_d.taps.max(1),
            rows.start / axis_w.taps.max(1) % axis_h.taps.max(1),
            rows.start % axis_w.taps.max(1),
        ];
        for line in into.chunks_mut(stride).take(rows.len()) {
            self.row(group, tap, runs, line);
            for (at, count) in [(3, axis_w.taps), (2, axis_h.taps), (1, axis_d.taps)] {
                tap[at] += 1;
                if tap[at] < count {
                    break;
                }
                tap[at] = 0;
                if at == 1 {
                    tap[0] += 1;
                }
            }
        }
    }

    /// One row: a channel of the group, and a tap along each axis.
    #[inline(always)]
    fn row(&self, group: usize, [channel, z, y, x]: [usize; 4], runs: &Runs, line: &mut [f32]) {
        let strides = self.source.strides();
        let sizes = &self.source.dims()[3..];
        let [axis_d, axis_h, axis_w] = [0, 1, 2].map(|at| self.axes[at]);
        let channel_offset = group as isize * strides[1] + channel as isize * strides[2];
        for run in runs.iter() {
            let into = &mut line[run.at..run.at + run.length];
            let d = axis_d.at(run.position[0]) + z as isize * axis_d.tap_step;
            let h = axis_h.at(run.position[1]) + y as isize * axis_h.tap_step;
            if d < 0 || d >= sizes[0] as isize || h < 0 || h >= sizes[1] as isize {
                into.fill(0.0);
                continue;
            }
            let w = axis_w.at(run.position[2]) + x as isize * axis_w.tap_step;
            let (low, end) = axis_w.inside(w, sizes[2], run.length);
            clear(&mut into[..low]);
            clear(&mut into[end..]);
            if low == end {
                continue;
            }
            let offset = run.sample as isize * strides[0]
                + channel_offset
                + d * strides[3]
                + h * strides[4]
                + (w + low as isize * axis_w.step) * strides[5];
            // SAFETY: sample, group and channel are inside the source, and so is every position along the axes.
            unsafe {
                let into = &mut into[low..end];
                load_elements(
                    &self.source,
                    self.is_aligned_f32,
                    offset,
                    axis_w.step * strides[5],
                    into,
                );
            }
        }
    }
}
