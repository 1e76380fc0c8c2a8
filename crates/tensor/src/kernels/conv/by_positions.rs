//! Gradients of weights as products of columns and gradients, summed over positions.

use super::block::{Block, WIDTH};
use super::columns::{Columns, Runs, TILE};
use super::{
    Axis, MAX_WORKERS, copy_transposed, elements, for_each_unit, is_aligned_f32, load_elements,
    positions, taps, workers,
};
use crate::parallel::{Parallel, split};
use crate::{Layout, View, ViewMut};
use std::ops::Range;

/// Rows of columns in one unit, at most.
const ROWS: usize = 384;
/// Output channels in one unit, at most.
const CHANNELS: usize = 256;

/// How the gradient of weights is split into units of work. Sums are by groups, input channels, taps and output
/// channels; there are as many of them as parts that the positions are cut into.
pub struct Tiling {
    groups: usize,
    /// Output channels of a group.
    channels: usize,
    /// Input channels of a group by taps.
    rows: usize,
    positions: [usize; 4],
    /// Rows of one unit.
    unit_rows: usize,
    /// Output channels of one unit.
    chunk: usize,
    parts: usize,
}

impl Tiling {
    /// For tensors of these layouts.
    pub fn new(out: &Layout, source: &Layout, grad: &Layout, axes: &[Axis; 3]) -> Tiling {
        let (groups, channels) = (grad.dims()[1], grad.dims()[2]);
        debug_assert_eq!(out.dims()[..2], [groups, channels]);
        let rows = source.dims()[2] * taps(axes);
        let unit_rows = rows.div_ceil(rows.div_ceil(ROWS).max(1)).next_multiple_of(6).min(rows);
        let chunk = channels
            .div_ceil(channels.div_ceil(CHANNELS).max(1))
            .next_multiple_of(WIDTH)
            .min(channels);
        let mut tiling = Tiling {
            groups,
            channels,
            rows,
            positions: positions(grad),
            unit_rows,
            chunk,
            parts: 1,
        };
        if tiling.work() >= super::MIN_WORK {
            let parts = MAX_WORKERS.div_ceil(tiling.blocks());
            tiling.parts = parts.min(tiling.tiles()).max(1);
        }
        tiling
    }

    /// Positions in all.
    fn count(&self) -> usize {
        self.positions.iter().product()
    }

    /// Tiles of positions.
    fn tiles(&self) -> usize {
        self.count().div_ceil(TILE)
    }

    /// Multiply-adds in all.
    fn work(&self) -> usize {
        let positions = self.count().saturating_mul(self.groups);
        positions.saturating_mul(self.channels).saturating_mul(self.rows)
    }

    /// Blocks of rows and output channels, in all groups.
    fn blocks(&self) -> usize {
        self.groups * self.rows.div_ceil(self.unit_rows) * self.channels.div_ceil(self.chunk)
    }

    /// Units of work.
    fn units(&self) -> usize {
        self.blocks() * self.parts
    }

    /// The distance between rows of sums.
    fn stride(&self) -> usize {
        self.channels.next_multiple_of(WIDTH)
    }

    /// Elements of the sums of one part.
    fn sums(&self) -> usize {
        self.groups * self.rows * self.stride()
    }

    /// The distance between positions of the transposed gradients: an odd number of cache lines.
    fn transposed_stride(&self) -> usize {
        let lines = self.chunk.div_ceil(WIDTH);
        (lines + usize::from(lines.is_multiple_of(2))) * WIDTH
    }

    /// Elements of the scratch of one worker: columns, then transposed gradients.
    fn worker_size(&self) -> (usize, usize) {
        (self.unit_rows * TILE, TILE * self.transposed_stride())
    }

    fn workers(&self) -> usize {
        workers(self.units(), self.work())
    }

    /// Elements of scratch.
    pub fn scratch_size(&self) -> usize {
        let (columns, transposed) = self.worker_size();
        self.sums() * self.parts + self.workers() * (columns + transposed)
    }
}

/// See [`super::weights_gradient`].
pub fn weights_gradient(
    parallel: &dyn Parallel,
    out: &ViewMut<'_>,
    source: &View<'_>,
    grad: &View<'_>,
    axes: &[Axis; 3],
    scratch: ViewMut<'_>,
) {
    let tiling = Tiling::new(out.layout(), source.layout(), grad.layout(), axes);
    let columns = Columns::new(*source, *axes);
    let (start, (columns_size, transposed_size)) =
        (tiling.sums() * tiling.parts, tiling.worker_size());
    let (sums, count) = elements(&scratch);
    assert!(start <= count, "{count} elements of scratch are too few");
    let sums = Sums(sums);
    let (row_blocks, channel_blocks) =
        (tiling.rows.div_ceil(tiling.unit_rows), tiling.channels.div_ceil(tiling.chunk));
    let workers = (tiling.workers(), start, columns_size + transposed_size);
    for_each_unit(parallel, tiling.units(), workers, &scratch, |unit, worker_scratch| {
        let (block, part) = (unit / tiling.parts, unit % tiling.parts);
        let (group, rest) =
            (block / (row_blocks * channel_blocks), block % (row_blocks * channel_blocks));
        let (row, channel) =
            (rest / channel_blocks * tiling.unit_rows, rest % channel_blocks * tiling.chunk);
        let rows = row..(row + tiling.unit_rows).min(tiling.rows);
        let channels = channel..(channel + tiling.chunk).min(tiling.channels);
        let tiles =
            tiling.tiles() * part / tiling.parts..tiling.tiles() * (part + 1) / tiling.parts;
        let (buffer, transposed) = worker_scratch.split_at_mut(columns_size);
        let at = part * tiling.sums() + (group * tiling.rows + row) * tiling.stride() + channel;
        // Rows of other channels are in between; each unit writes its own rows and channels.
        sum_unit(
            &tiling,
            (&columns, grad),
            (group, rows, channels, tiles),
            (buffer, transposed),
            sums.at(at),
        );
    });
    add_parts(parallel, &tiling, &scratch);
    copy_transposed(parallel, out, &scratch, [tiling.groups, tiling.rows, tiling.stride()]);
}

/// The first of the sums.
#[derive(Clone, Copy)]
struct Sums(*mut f32);

// SAFETY: an address; each unit keeps to its own elements.
unsafe impl Sync for Sums {}

impl Sums {
    fn at(&self, at: usize) -> *mut f32 {
        self.0.wrapping_add(at)
    }
}

/// A few rows and output channels of one group, summed over the positions of some tiles.
fn sum_unit(
    tiling: &Tiling,
    (columns, grad): (&Columns<'_>, &View<'_>),
    (group, rows, channels, tiles): (usize, Range<usize>, Range<usize>, Range<usize>),
    (buffer, transposed): (&mut [f32], &mut [f32]),
    sums: *mut f32,
) {
    let (stride, padded_channels) =
        (tiling.transposed_stride(), channels.len().next_multiple_of(WIDTH));
    debug_assert!(rows.len() * TILE <= buffer.len() && stride * TILE <= transposed.len());
    let mut block = Block {
        a: buffer.as_ptr(),
        lda: TILE,
        b: transposed.as_ptr(),
        ldb: stride,
        c: sums,
        ldc: tiling.stride(),
        rows: rows.len(),
        depth: 0,
        columns: padded_channels,
        adds: false,
    };
    if tiles.is_empty() {
        // SAFETY: the sums are those of this unit.
        return unsafe { block.multiply() };
    }
    for tile in tiles {
        let positions = tile * TILE..((tile + 1) * TILE).min(tiling.count());
        let runs = Runs::new(tiling.positions, positions.clone());
        columns.fill(group, rows.clone(), &runs, buffer, TILE);
        transpose(grad, group, channels.clone(), &runs, transposed, stride);
        block.depth = positions.len();
        // SAFETY: columns and transposed gradients have these rows; the sums are those of this unit.
        unsafe { block.multiply() };
        block.adds = true;
    }
}

/// Writes gradients by positions, the channels of each one after the other.
fn transpose(
    grad: &View<'_>,
    group: usize,
    channels: Range<usize>,
    runs: &Runs,
    transposed: &mut [f32],
    stride: usize,
) {
    let (strides, is_aligned_f32) = (grad.strides(), is_aligned_f32(grad));
    let mut line = [0f32; TILE];
    let (first, padded_channels) = (channels.start, channels.len().next_multiple_of(WIDTH));
    for channel in channels.start..channels.start + padded_channels {
        if channel < channels.end {
            let channel_offset = group as isize * strides[1] + channel as isize * strides[2];
            for run in runs.iter() {
                let [z, y, x] = run.position;
                let offset = run.sample as isize * strides[0]
                    + channel_offset
                    + z as isize * strides[3]
                    + y as isize * strides[4]
                    + x as isize * strides[5];
                let into = &mut line[run.at..run.at + run.length];
                // SAFETY: the run is inside the gradients, which nobody writes.
                unsafe { load_elements(grad, is_aligned_f32, offset, strides[5], into) };
            }
        } else {
            line.fill(0.0);
        }
        let column = &mut transposed[channel - first..];
        for (at, value) in line.iter().enumerate() {
            column[at * stride] = *value;
        }
    }
}

/// Adds the sums of all parts to those of the first.
fn add_parts(parallel: &dyn Parallel, tiling: &Tiling, scratch: &ViewMut<'_>) {
    if tiling.parts == 1 {
        return;
    }
    let (length, sums) = (tiling.sums(), Sums(elements(scratch).0));
    split(parallel, length, WIDTH, 1 << 15, |range| {
        // SAFETY: all parts are in the scratch; each range is of one call alone.
        let slice = |part: usize| unsafe {
            std::slice::from_raw_parts_mut(sums.at(part * length + range.start), range.len())
        };
        let first = slice(0);
        for part in 1..tiling.parts {
            first.iter_mut().zip(slice(part)).for_each(|(sum, value)| *sum += *value);
        }
    });
}
