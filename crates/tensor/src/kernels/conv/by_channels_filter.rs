//! Gradients of weights, vectorised over output channels, for groups with many of them; the source is read in place.
//!
//! Gradients of the output are packed by blocks of channels, then positions. A tile of sums has a few weights of one
//! block of channels, in registers over all positions of a region; tiles are added up over regions of positions, in an
//! order that follows from the sizes alone.

use super::by_channels::{Image, OutputBand, Tiling, copy_band};
use super::by_channels_filter_tile::FilterTile;
use super::by_channels_tile::{BLOCK, WIDTH, pack};
use super::{
    Address, Axis, copy_transposed, elements, for_each_unit, is_aligned_f32, load_elements,
    no_scratch, positions, taps,
};
use crate::parallel::{Parallel, split};
use crate::{Layout, View, ViewMut};
use std::ops::Range;

/// Positions of a region, at most, unless one line has more.
const REGION: usize = 1024;
/// Positions along a line in one region, at most.
const SEGMENT: usize = 1024;
/// Elements of the copies of a region's source, at most, unless one line takes more.
const COPIES: usize = 512 * 1024;
/// Positions that repay the packing, at least.
const MIN_POSITIONS: usize = 16;

/// How the gradient of weights is split into regions.
#[derive(Clone, Copy)]
pub struct Filter {
    tiling: Tiling,
    /// Samples of a region, and lines of each.
    samples: usize,
    lines: usize,
    /// Positions along a line of a region, at most.
    segment: usize,
}

impl Filter {
    /// For tensors of these layouts; `None` where the processor lacks AVX-512, or another method is faster.
    pub fn new(source: &Layout, grad: &Layout, axes: &[Axis; 3]) -> Option<Filter> {
        let [samples, depth, height, width] = positions(grad);
        if samples * depth * height * width < MIN_POSITIONS {
            return None;
        }
        let tiling = Tiling::over(grad, source, axes)?;
        let segment = width.div_ceil(width.div_ceil(SEGMENT));
        let mut lines = (REGION / segment).clamp(1, height);
        while lines > 1 && tiling.copy_size(lines) > COPIES {
            lines -= 1;
        }
        let lines = height.div_ceil(height.div_ceil(lines));
        let takes_whole_samples = depth == 1 && lines == height && segment == width;
        let samples_that_fit =
            (REGION / (lines * segment)).min(COPIES / tiling.copy_size(lines).max(1));
        let samples = if takes_whole_samples { samples_that_fit.clamp(1, samples) } else { 1 };
        Some(Filter { tiling, samples, lines, segment })
    }

    /// Taps of all input channels of a group: each has a row of sums.
    fn input_taps(&self) -> usize {
        self.tiling.inputs * taps(&self.tiling.axes)
    }

    /// The distance between two rows of sums.
    fn stride(&self) -> usize {
        self.tiling.outputs.next_multiple_of(BLOCK)
    }

    /// How many sums there are.
    fn sums(&self) -> usize {
        self.tiling.groups * self.input_taps() * self.stride()
    }

    /// Elements of the packed gradients of a region.
    fn packed_size(&self) -> usize {
        self.tiling.outputs.next_multiple_of(WIDTH) * self.samples * self.lines * self.segment
    }

    /// Elements of scratch: sums, packed gradients, copies of the source.
    pub fn scratch_size(&self) -> usize {
        self.sums() + self.packed_size() + self.samples * self.tiling.copy_size(self.lines)
    }
}

/// Positions whose products are summed together.
struct Region {
    samples: Range<usize>,
    group: usize,
    d: usize,
    lines: Range<usize>,
    /// Positions along each line.
    columns: Range<usize>,
}

impl Region {
    /// How many positions it has.
    fn count(&self) -> usize {
        self.samples.len() * self.lines.len() * self.columns.len()
    }
}

/// See [`super::weights_gradient`].
pub fn weights_gradient(
    parallel: &dyn Parallel,
    out: &ViewMut<'_>,
    source: &View<'_>,
    grad: &View<'_>,
    filter: &Filter,
    scratch: ViewMut<'_>,
) {
    let (sums, have) = elements(&scratch);
    assert!(filter.scratch_size() <= have, "{have} elements of scratch are too few");
    let tiling = &filter.tiling;
    let [samples, depth, height, width] = tiling.positions;
    let packed = Address(sums.wrapping_add(filter.sums()));
    let copies = packed.at(filter.packed_size() as isize);
    for group in 0..tiling.groups {
        let mut adds = false;
        for first in (0..samples).step_by(filter.samples) {
            let samples = first..(first + filter.samples).min(samples);
            for d in 0..depth {
                for line in (0..height).step_by(filter.lines) {
                    let lines = line..(line + filter.lines).min(height);
                    let image =
                        image(parallel, source, filter, (&samples, group, d, &lines), copies);
                    for column in (0..width).step_by(filter.segment) {
                        let columns = column..(column + filter.segment).min(width);
                        let (samples, lines) = (samples.clone(), lines.clone());
                        let region = Region { samples, group, d, lines, columns };
                        pack_gradients(parallel, grad, filter, &region, packed);
                        let to = Address(
                            sums.wrapping_add(group * filter.input_taps() * filter.stride()),
                        );
                        add_region(parallel, filter, &region, &image, packed, to, adds);
                        adds = true;
                    }
                }
            }
        }
    }
    copy_transposed(parallel, out, &scratch, [tiling.groups, filter.input_taps(), filter.stride()]);
}

/// What the windows of these samples and lines cover: the image of the first sample, and the distance to the next one.
fn image(
    parallel: &dyn Parallel,
    source: &View<'_>,
    filter: &Filter,
    (samples, group, d, lines): (&Range<usize>, usize, usize, &Range<usize>),
    copies: *mut f32,
) -> (Image, isize) {
    let tiling = &filter.tiling;
    let output_band = |sample| OutputBand { sample, group, d, lines: lines.clone() };
    if tiling.band.is_none() {
        let image = Image::in_place(source, tiling, &output_band(samples.start));
        return (image, source.strides()[0]);
    }
    let size = tiling.copy_size(lines.len());
    let mut images = samples.clone().map(|sample| {
        let into = copies.wrapping_add((sample - samples.start) * size);
        copy_band(parallel, source, tiling, &output_band(sample), Address(into))
    });
    let first = images.next().expect("a sample");
    images.for_each(drop);
    (first, size as isize)
}

/// Packs the gradients of a region: blocks of channels, then positions.
fn pack_gradients(
    parallel: &dyn Parallel,
    grad: &View<'_>,
    filter: &Filter,
    region: &Region,
    into: Address,
) {
    let (strides, tiling, is_aligned_f32) = (grad.strides(), &filter.tiling, is_aligned_f32(grad));
    let (count, width) = (region.count(), region.columns.len());
    let lines = region.samples.len() * region.lines.len();
    let least = ((1 << 14) / (BLOCK * count)).max(1);
    split(parallel, tiling.blocks(), 1, least, |blocks| {
        for block in blocks {
            let channel = block * BLOCK;
            let (channels, padded_channels) =
                ((tiling.outputs - channel).min(BLOCK), tiling.padded_channels(block));
            for line in 0..lines {
                let (sample, at) = (line / region.lines.len(), line % region.lines.len());
                let offset = (region.samples.start + sample) as isize * strides[0]
                    + region.group as isize * strides[1]
                    + channel as isize * strides[2]
                    + region.d as isize * strides[3]
                    + (region.lines.start + at) as isize * strides[4]
                    + region.columns.start as isize * strides[5];
                let to = into.at((channel * count + line * width * padded_channels) as isize);
                if is_aligned_f32 && strides[5] == 1 {
                    let from = grad.first().cast::<f32>().wrapping_offset(offset);
                    // SAFETY: lines of the gradients, which nobody writes; the block is of this call alone.
                    unsafe { pack(from, strides[2], channels, width, to, padded_channels) };
                    continue;
                }
                let mut lines_of_block = [[0f32; WIDTH]; BLOCK];
                for start in (0..width).step_by(WIDTH) {
                    let length = (width - start).min(WIDTH);
                    for (row, lines_of_block) in
                        lines_of_block.iter_mut().enumerate().take(channels)
                    {
                        let offset =
                            offset + row as isize * strides[2] + start as isize * strides[5];
                        // SAFETY: a part of a line of the gradients, which nobody writes.
                        unsafe {
                            load_elements(
                                grad,
                                is_aligned_f32,
                                offset,
                                strides[5],
                                &mut lines_of_block[..length],
                            )
                        };
                    }
                    let from = lines_of_block.as_ptr().cast::<f32>();
                    // SAFETY: the lines just loaded; the block is of this call alone.
                    unsafe {
                        pack(
                            from,
                            WIDTH as isize,
                            channels,
                            length,
                            to.add(start * padded_channels),
                            padded_channels,
                        );
                    }
                }
            }
        }
    });
}

/// Adds the products of a region to the sums of a group.
fn add_region(
    parallel: &dyn Parallel,
    filter: &Filter,
    region: &Region,
    (image, sample): &(Image, isize),
    packed: Address,
    sums: Address,
    adds: bool,
) {
    let (tiling, input_taps) = (&filter.tiling, filter.input_taps());
    let tiles = input_taps.div_ceil(FilterTile::MAX_TAPS);
    let units = tiles * tiling.blocks();
    let work = region.count().saturating_mul(input_taps).saturating_mul(tiling.outputs);
    let step = tiling.axes[2].step;
    let workers = (super::workers(units, work), 0, 0);
    for_each_unit(parallel, units, workers, &no_scratch(), |unit, _| {
        let (block, tile) = (unit / tiles, unit % tiles);
        let taps_of_tile = input_taps * tile / tiles..input_taps * (tile + 1) / tiles;
        let mut offsets = [0; FilterTile::MAX_TAPS];
        for (input_tap, offset) in taps_of_tile.clone().zip(&mut offsets) {
            let (input, tap) = (input_tap / image.count, input_tap % image.count);
            *offset = input as isize * image.channel + image.offsets[tap];
        }
        let channel = block * BLOCK;
        let tile = FilterTile {
            grads: packed.at((channel * region.count()) as isize),
            padded_channels: tiling.padded_channels(block),
            source: image.first.at(region.columns.start as isize * step),
            taps: &offsets[..taps_of_tile.len()],
            samples: (region.samples.len(), *sample),
            lines: (region.lines.len(), image.line),
            positions: (region.columns.len(), step),
            sums: sums.at((taps_of_tile.start * filter.stride() + channel) as isize),
            stride: filter.stride(),
            adds,
        };
        // SAFETY: every tap of these positions is inside the image, the block has these gradients, and the sums are those of this
        // unit alone.
        unsafe { tile.sum() };
    });
}
