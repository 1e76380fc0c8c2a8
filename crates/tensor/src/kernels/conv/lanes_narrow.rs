//! Convolutions whose vectors have output channels, over lines that are too short for a tile of sums each.

use super::lanes::{Address, Image, Lanes, Place};
use super::lanes_tile::{BLOCK, MOST, Target, Tile};
use super::{Task, spread};
use crate::parallel::Parallel;
use crate::{DType, Layout, ViewMut};

/// Makes the short lines of a few samples, which lie `apart` from each other in the image: a tile has positions of several lines.
pub fn narrow_band(
    parallel: &dyn Parallel,
    task: &Task<'_>,
    lanes: &Lanes,
    place: &Place,
    (image, samples, apart): (&Image, usize, isize),
    weights: Address,
) {
    let (width, depth, blocks) = (lanes.positions[3], lanes.depth(), lanes.blocks());
    let (lines, strides) = (place.lines.len(), task.out.strides());
    let count = samples * lines * width;
    let tiles = count.div_ceil(MOST);
    let start = place.group as isize * strides[1] + place.d as isize * strides[3];
    let workers = super::workers(tiles * blocks, lanes.work());
    let none = ViewMut::over(&[], Layout::contiguous(DType::Float, &[0]));
    let none = none.expect("no elements");
    spread(parallel, tiles * blocks, (workers, 0, 0), &none, |unit, _| {
        let (block, tile) = (unit / tiles, unit % tiles);
        let channel = block * BLOCK;
        let (mut from, mut to) = ([0; MOST], [0; MOST]);
        let range = count * tile / tiles..count * (tile + 1) / tiles;
        for (at, position) in range.clone().enumerate() {
            let (line, x) = (position / width, (position % width) as isize);
            let (sample, line) = ((line / lines) as isize, (line % lines) as isize);
            from[at] = sample * apart + line * image.line + x * lanes.axes[2].step;
            to[at] = (place.sample as isize + sample) * strides[0]
                + (place.lines.start as isize + line) * strides[4]
                + x * strides[5];
        }
        let tile = Tile {
            weights: weights.at((channel * depth) as isize),
            wide: lanes.wide(block),
            source: image.first.at(0),
            step: 1,
            inputs: lanes.inputs,
            channel: image.channel,
            offsets: &image.offsets[..image.count],
        };
        let bias = super::biases(task, place.group, channel);
        let channels = (lanes.outputs - channel).min(BLOCK);
        let offset = start + channel as isize * strides[2];
        let target = Target { out: &task.out, offset, channels, bias };
        // SAFETY: every tap of these positions is inside the image, the block has these weights, and the positions of its channels
        // belong to the output and to this unit alone.
        unsafe { tile.scattered(&from[..range.len()], &to[..range.len()], &target) };
    });
}
