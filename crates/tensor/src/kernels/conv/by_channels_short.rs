//! Convolutions vectorised over output channels, for output lines too short to fill a register tile each.

use super::by_channels::{Image, OutputBand, Tiling};
use super::by_channels_tile::{Ahead, BLOCK, MAX_POSITIONS, Sums, Target, Tile, WIDTH};
use super::{Address, Task, for_each_unit, no_scratch};
use crate::parallel::Parallel;

/// Lines of a tile, at most.
const MAX_LINES: usize = 6;
/// Tiles whose sums one unit of work keeps (a group of tiles): they share the weights while those are in the cache.
const TILES: usize = 12;
/// Weights that are multiplied with every tile before the next ones.
const CHUNK: usize = 8 * 1024;

/// Computes the short output lines of a few samples, which are `sample_stride` apart in the image: a tile has positions of
/// several lines.
pub fn convolve_short_lines(
    parallel: &dyn Parallel,
    task: &Task<'_>,
    tiling: &Tiling,
    output_band: &OutputBand,
    (image, samples, sample_stride): (&Image, usize, isize),
    weights: Address,
) {
    let (width, depth, blocks) = (tiling.positions[3], tiling.depth(), tiling.blocks());
    let (lines, strides) = (output_band.lines.len(), task.out.strides());
    let (all_lines, lines_of_tile) = (samples * lines, (MAX_POSITIONS / width).min(MAX_LINES));
    let tiles = all_lines.div_ceil(lines_of_tile);
    let tile_groups = tiles.div_ceil(TILES);
    let start = output_band.group as isize * strides[1] + output_band.d as isize * strides[3];
    let workers = super::workers(tile_groups * blocks, tiling.work());
    let inputs_of_chunk = (CHUNK / (image.count * BLOCK)).max(1);
    for_each_unit(parallel, tile_groups * blocks, (workers, 0, 0), &no_scratch(), |unit, _| {
        let (block, tile_group) = (unit / tile_groups, unit % tile_groups);
        let (channel, padded_channels) = (block * BLOCK, tiling.padded_channels(block));
        let tiles_of_group =
            tiles * tile_group / tile_groups..tiles * (tile_group + 1) / tile_groups;
        let lines_of = |tile: usize| all_lines * tile / tiles..all_lines * (tile + 1) / tiles;
        let (mut from, mut to) = ([[0; MAX_LINES]; TILES], [[0; MAX_POSITIONS]; TILES]);
        for (number, tile) in tiles_of_group.clone().enumerate() {
            for (at, line) in lines_of(tile).enumerate() {
                let (sample, line) = ((line / lines) as isize, (line % lines) as isize);
                from[number][at] = sample * sample_stride + line * image.line;
                for x in 0..width {
                    to[number][at * width + x] = (output_band.sample as isize + sample)
                        * strides[0]
                        + (output_band.lines.start as isize + line) * strides[4]
                        + x as isize * strides[5];
                }
            }
        }
        let mut sums: [Sums; TILES] = [[[0.0; BLOCK]; WIDTH]; TILES];
        for first in (0..tiling.inputs).step_by(inputs_of_chunk) {
            let first_weight = channel * depth + first * image.count * padded_channels;
            let inputs = inputs_of_chunk.min(tiling.inputs - first);
            let length = inputs * image.count * padded_channels;
            let next = weights.at((first_weight + length) as isize);
            let tile = Tile {
                weights: weights.at(first_weight as isize),
                padded_channels,
                source: image.first.at(first as isize * image.channel),
                step: tiling.axes[2].step as usize,
                inputs,
                channel: image.channel,
                offsets: &image.offsets[..image.count],
                ahead: Ahead { first: next, count: length },
            };
            for (number, tile_index) in tiles_of_group.clone().enumerate() {
                let from = &from[number][..lines_of(tile_index).len()];
                // SAFETY: every tap of these positions is inside the image, and the block has these weights.
                unsafe { tile.add_lines(width, from, &mut sums[number], number) };
            }
        }
        let bias = task.biases(output_band.group, channel);
        let channels = (tiling.outputs - channel).min(BLOCK);
        let offset = start + channel as isize * strides[2];
        let target = Target { out: &task.out, offset, channels, bias, clipped: None };
        for (number, tile_index) in tiles_of_group.enumerate() {
            let to = &to[number][..lines_of(tile_index).len() * width];
            // SAFETY: the positions of these channels belong to the output and to this unit alone.
            unsafe {
                target.store_scattered(&sums[number], to);
                for line in to.chunks(width) {
                    task.apply_epilogue(offset + line[0], channels, width);
                }
            }
        }
    });
}
