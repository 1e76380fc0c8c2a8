//! Convolutions as products of weights and columns, tile by tile.

use super::block::{Block, WIDTH};
use super::columns::{Columns, Runs, TILE};
use super::{Axis, Task, for_each_unit, positions, taps, workers};
use crate::kernels::strip::store;
use crate::parallel::Parallel;
use crate::{DType, Layout, ViewMut};
use std::ops::Range;

/// Rows of columns that are made at a time, at most: what is multiplied then stays in the caches.
const DEPTH: usize = 288;
/// Output channels that are summed before they are stored, where all rows of a column are there at once.
const CHANNELS: usize = 96;
/// The same, where sums are complete only after further rows.
const PARTIAL_CHANNELS: usize = 768;
/// Units of work that let every thread have some. Each makes its own columns, so more of them cost time.
const UNITS: usize = 4;

/// How a convolution is split into units of work.
pub struct Tiling {
    groups: usize,
    /// Output channels of a group.
    channels: usize,
    /// Rows of a column.
    rows: usize,
    positions: [usize; 4],
    /// Rows that are made at a time.
    depth: usize,
    /// Output channels of one unit.
    chunk: usize,
}

impl Tiling {
    /// For tensors of these layouts.
    pub fn new(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Tiling {
        let (groups, channels) = (out.dims()[1], out.dims()[2]);
        let rows = source.dims()[2] * taps(axes);
        let blocks = rows.div_ceil(DEPTH).max(1);
        let mut tiling = Tiling {
            groups,
            channels,
            rows,
            positions: positions(out),
            depth: rows.div_ceil(blocks),
            chunk: if blocks == 1 { channels } else { channels.min(PARTIAL_CHANNELS) },
        };
        while tiling.work() >= super::MIN_WORK && tiling.units() < UNITS && tiling.chunk > 48 {
            tiling.chunk = tiling.chunk.div_ceil(2).next_multiple_of(6);
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

    /// Chunks of output channels.
    fn chunks(&self) -> usize {
        self.channels.div_ceil(self.chunk)
    }

    /// Units of work.
    fn units(&self) -> usize {
        self.groups * self.tiles() * self.chunks()
    }

    /// Multiply-adds in all.
    fn work(&self) -> usize {
        let positions = self.count().saturating_mul(self.groups);
        positions.saturating_mul(self.channels).saturating_mul(self.rows)
    }

    /// Whether all rows of a column are made at once.
    fn is_one_block(&self) -> bool {
        self.depth == self.rows
    }

    /// Elements of the scratch of one worker: columns, then sums.
    fn worker_size(&self) -> (usize, usize) {
        let sums = if self.is_one_block() { self.chunk.min(CHANNELS) } else { self.chunk };
        (self.depth * TILE, sums * TILE)
    }

    fn workers(&self) -> usize {
        workers(self.units(), self.work())
    }

    /// Elements of scratch.
    pub fn scratch_size(&self) -> usize {
        let (columns, sums) = self.worker_size();
        self.workers() * (columns + sums)
    }
}

/// See [`super::convolve`].
pub fn convolve(parallel: &dyn Parallel, task: &Task<'_>, tiling: &Tiling, scratch: ViewMut<'_>) {
    let columns = Columns::new(task.source, task.axes);
    let (columns_size, sums_size) = tiling.worker_size();
    for_each_unit(
        parallel,
        tiling.units(),
        (tiling.workers(), 0, columns_size + sums_size),
        &scratch,
        |unit, worker_scratch| {
            let (group, rest) = (
                unit / (tiling.tiles() * tiling.chunks()),
                unit % (tiling.tiles() * tiling.chunks()),
            );
            let (tile, chunk) = (rest / tiling.chunks(), rest % tiling.chunks());
            let positions = tile * TILE..((tile + 1) * TILE).min(tiling.count());
            let channels = chunk * tiling.chunk..((chunk + 1) * tiling.chunk).min(tiling.channels);
            let (buffer, sums) = worker_scratch.split_at_mut(columns_size);
            convolve_tile(task, tiling, &columns, (group, positions, channels), buffer, sums);
        },
    );
}

/// A few output channels of one group at the positions of a tile.
fn convolve_tile(
    task: &Task<'_>,
    tiling: &Tiling,
    columns: &Columns<'_>,
    (group, positions, channels): (usize, Range<usize>, Range<usize>),
    buffer: &mut [f32],
    sums: &mut [f32],
) {
    let padded = positions.len().next_multiple_of(WIDTH);
    let runs = Runs::new(tiling.positions, positions.clone());
    let targets = Targets::new(task, &runs);
    let max_channels = sums.len() / TILE;
    let mut start = 0;
    loop {
        let rows = start..(start + tiling.depth).min(tiling.rows);
        columns.fill(group, rows.clone(), &runs, buffer, TILE);
        if padded > positions.len() {
            buffer.chunks_mut(TILE).for_each(|line| line[positions.len()..padded].fill(0.0));
        }
        for first in channels.clone().step_by(max_channels) {
            let channels = first..(first + max_channels).min(channels.end);
            debug_assert!(rows.len() * TILE <= buffer.len() && channels.len() * TILE <= sums.len());
            let block = Block {
                a: weights(task, tiling, group, &channels, &rows),
                lda: task.weights.strides()[1].unsigned_abs(),
                b: buffer.as_ptr(),
                ldb: TILE,
                c: sums.as_mut_ptr(),
                ldc: TILE,
                rows: channels.len(),
                depth: rows.len(),
                columns: padded,
                adds: start > 0,
            };
            // SAFETY: columns and sums have `TILE` elements a row, and as many rows; weights are those of the view.
            unsafe { block.multiply() };
            if rows.end == tiling.rows {
                targets.store(task, group, channels, sums);
            }
        }
        start = rows.end;
        if start >= tiling.rows {
            break;
        }
    }
}

/// The first weight of these output channels and rows of columns.
fn weights(
    task: &Task<'_>,
    tiling: &Tiling,
    group: usize,
    channels: &Range<usize>,
    rows: &Range<usize>,
) -> *const f32 {
    let (dims, strides) = (task.weights.dims(), task.weights.strides());
    if rows.is_empty() {
        return std::ptr::null();
    }
    assert!(super::has_contiguous_rows(task.weights.layout()));
    assert!(group < dims[0] && channels.end <= dims[1] && rows.end <= tiling.rows);
    let offset =
        group as isize * strides[0] + channels.start as isize * strides[1] + rows.start as isize;
    task.weights.first().cast::<f32>().wrapping_offset(offset)
}

/// Where the positions of a tile are in the output: pieces that are written in one go.
struct Targets {
    count: usize,
    /// The first position of each, counted from that of the tile; how many; and the offset in the output.
    pieces: [(usize, usize, isize); TILE],
}

impl Targets {
    fn new(task: &Task<'_>, runs: &Runs) -> Targets {
        let strides = task.out.strides();
        let mut targets = Targets { count: 0, pieces: [(0, 0, 0); TILE] };
        for run in runs.iter() {
            let [z, y, x] = run.position;
            let offset = run.sample as isize * strides[0]
                + z as isize * strides[3]
                + y as isize * strides[4]
                + x as isize * strides[5];
            if let Some((_, length, start)) = targets.pieces[..targets.count].last_mut()
                && *start + *length as isize * strides[5] == offset
            {
                *length += run.length;
                continue;
            }
            targets.pieces[targets.count] = (run.at, run.length, offset);
            targets.count += 1;
        }
        targets
    }

    /// Adds the bias to sums and stores them.
    fn store(&self, task: &Task<'_>, group: usize, channels: Range<usize>, sums: &mut [f32]) {
        let strides = task.out.strides();
        let (dtype, item) = (task.out.dtype(), task.out.item() as isize);
        let stores_directly = super::is_aligned_f32(&task.out) && strides[5] == 1;
        for (channel, line) in channels.zip(sums.chunks_mut(TILE)) {
            if task.finish.bias.is_some() {
                let bias = task.bias(group, channel);
                line.iter_mut().for_each(|sum| *sum += bias);
            }
            let channel_offset = group as isize * strides[1] + channel as isize * strides[2];
            for (at, length, offset) in &self.pieces[..self.count] {
                let line = &line[*at..at + length];
                // SAFETY: the elements belong to the output, and to this unit alone.
                unsafe {
                    let to = task.out.first_mut().offset((channel_offset + offset) * item);
                    match stores_directly && dtype == DType::Float {
                        true => std::ptr::copy_nonoverlapping(line.as_ptr(), to.cast(), *length),
                        false => store(dtype, to, strides[5], line),
                    }
                    task.apply_epilogue(channel_offset + offset, 1, *length);
                }
            }
        }
    }
}
