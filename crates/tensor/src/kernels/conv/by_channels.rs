//! Convolutions vectorised over output channels, for groups with many of them; the source is read in place.
//!
//! Weights are packed by blocks of output channels, then input channels and taps, so that each is read once in order. A tile of sums
//! has a few positions along the last axis and one block of channels, in registers from the first product to the last. Where windows reach
//! beyond the source, or its elements are not `f32`, a band of it is copied first, with zeros around it.

use super::by_channels_short::convolve_short_lines;
use super::by_channels_tile::{Ahead, BLOCK, MAX_POSITIONS, Target, Tile, WIDTH, pack};
use super::{
    Address, Axis, Task, clear, elements, for_each_unit, is_aligned_f32, load_elements, no_scratch,
    positions, taps,
};
use crate::parallel::{Parallel, split};
use crate::{Layout, View, ViewMut};
use std::ops::Range;

/// Elements of a band of the source, at most, unless one line takes more; beyond that, all channels of a few positions are
/// computed before the next positions.
const BAND: usize = 160 * 1024;
/// Positions that repay the packing of weights, at least.
const MIN_POSITIONS: usize = 32;
/// Positions along a line in one unit of work.
const SEGMENT: usize = 112;
/// Positions of a line that fills tiles of its own, at least.
const MIN_LINE: usize = 12;
/// Taps of a window, at most.
const MAX_TAPS: usize = 128;

/// How a convolution is split into tiles.
#[derive(Clone, Copy)]
pub struct Tiling {
    pub groups: usize,
    /// Output channels of a group.
    pub outputs: usize,
    /// Input channels of a group.
    pub inputs: usize,
    pub axes: [Axis; 3],
    pub positions: [usize; 4],
    /// Output lines that are computed from one copy of the source; `None` where it is read in place.
    pub band: Option<usize>,
    /// Samples that are computed together: more than one where each has few positions.
    samples_at_once: usize,
}

/// The smallest offset of a tap from the first one, and how many positions of the source the taps span.
fn reach(axis: &Axis) -> (isize, usize) {
    let last = (axis.taps as isize - 1) * axis.tap_step;
    (last.min(0), last.unsigned_abs() + 1)
}

/// Positions of the source that `count` windows span.
fn spanned(axis: &Axis, count: usize) -> usize {
    (count - 1) * axis.step as usize + reach(axis).1
}

impl Tiling {
    /// For tensors of these layouts; `None` where the processor lacks AVX-512, or another method is faster.
    pub fn new(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Option<Tiling> {
        let is_worth_packing =
            positions(out).iter().product::<usize>() >= MIN_POSITIONS && axes[2].step <= 2;
        is_worth_packing.then(|| Tiling::over(out, source, axes)).flatten()
    }

    /// For an output, or its gradient, and a source of these layouts, however few positions there are.
    pub fn over(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Option<Tiling> {
        let (groups, outputs, inputs) = (out.dims()[1], out.dims()[2], source.dims()[2]);
        let positions = positions(out);
        let fits = outputs >= WIDTH / 2 && inputs > 0 && (1..=MAX_TAPS).contains(&taps(axes));
        if !fits || positions.contains(&0) || !super::by_channels_tile::runs_here() {
            return None;
        }
        let inside = (0..3).all(|at| {
            let (axis, size) = (&axes[at], source.dims()[3 + at]);
            let first = axis.first + reach(axis).0;
            first >= 0 && first as usize + spanned(axis, positions[1 + at]) <= size
        });
        let lines = |band: usize| {
            (inputs * axes[0].taps)
                .checked_mul(spanned(&axes[1], band))?
                .checked_mul(spanned(&axes[2], positions[3]))
        };
        lines(positions[2])?;
        let in_place = inside && source.dtype == crate::DType::Float && source.strides()[5] == 1;
        let band = match in_place {
            true => None,
            false => {
                let mut band = positions[2];
                while band > 1 && lines(band)? > BAND {
                    band -= 1;
                }
                // Bands of about the same size.
                Some(positions[2].div_ceil(positions[2].div_ceil(band)))
            }
        };
        let mut tiling =
            Tiling { groups, outputs, inputs, axes: *axes, positions, band, samples_at_once: 1 };
        if tiling.has_short_lines() && band.is_none_or(|band| band == positions[2]) {
            let samples_that_fit =
                BAND / tiling.copy_size(positions[2]).max(inputs * positions[2]).max(1);
            tiling.samples_at_once = samples_that_fit.clamp(1, positions[0]);
        }
        Some(tiling)
    }

    /// Whether output lines are too short to fill a tile of sums each.
    fn has_short_lines(&self) -> bool {
        self.positions[3] < MIN_LINE
    }

    /// Products that are summed for one element.
    pub fn depth(&self) -> usize {
        self.inputs * taps(&self.axes)
    }

    /// Blocks of output channels.
    pub fn blocks(&self) -> usize {
        self.outputs.div_ceil(BLOCK)
    }

    /// Channels of a block, rounded up to whole vectors.
    pub fn padded_channels(&self, block: usize) -> usize {
        (self.outputs - block * BLOCK).min(BLOCK).next_multiple_of(WIDTH)
    }

    /// The packed weights that follow those of a block: the next one's.
    fn ahead(&self, block: usize, weights: Address) -> Ahead {
        let end = ((block + 1) * BLOCK).min(self.outputs.next_multiple_of(WIDTH));
        let next = if end < self.outputs { self.padded_channels(block + 1) } else { 0 };
        let first = weights.at((end * self.depth()) as isize);
        Ahead { first, count: next * self.depth() }
    }

    /// Elements of the packed weights of one group.
    fn group_size(&self) -> usize {
        self.outputs.next_multiple_of(WIDTH) * self.depth()
    }

    /// Elements of all packed weights.
    pub fn packed_size(&self) -> usize {
        self.groups * self.group_size()
    }

    /// Lines of a copy, and positions of each.
    fn copy_shape(&self, band: usize) -> (usize, usize) {
        (spanned(&self.axes[1], band), spanned(&self.axes[2], self.positions[3]))
    }

    /// Elements of the copy for this many output lines.
    pub fn copy_size(&self, lines: usize) -> usize {
        let (lines, pitch) = self.copy_shape(lines);
        if self.band.is_some() { self.inputs * self.axes[0].taps * lines * pitch } else { 0 }
    }

    /// Elements of scratch: packed weights, then a band of the source.
    pub fn scratch_size(&self) -> usize {
        self.packed_size() + self.bands_size()
    }

    /// Elements of the bands of the source that are copied at a time.
    pub fn bands_size(&self) -> usize {
        self.samples_at_once * self.copy_size(self.band.unwrap_or(1))
    }

    /// About how many cycles a sample takes: products, and storing them, which are by position and have to be transposed.
    pub fn cost(&self) -> usize {
        const STORE: usize = 20;
        let vectors = self.outputs.div_ceil(WIDTH);
        self.positions[1..].iter().product::<usize>() * vectors * (self.depth() + STORE)
    }

    /// Multiply-adds in all.
    pub fn work(&self) -> usize {
        let positions = self.positions.iter().product::<usize>().saturating_mul(self.groups);
        positions.saturating_mul(self.outputs).saturating_mul(self.depth())
    }
}

/// See [`super::convolve`].
pub fn convolve(parallel: &dyn Parallel, task: &Task<'_>, tiling: &Tiling, scratch: ViewMut<'_>) {
    let (packed, have) = elements(&scratch);
    assert!(tiling.scratch_size() <= have, "{have} elements of scratch are too few");
    pack_weights(parallel, &task.weights, tiling, &scratch);
    convolve_packed(parallel, task, tiling, packed, packed.wrapping_add(tiling.packed_size()));
}

/// As [`convolve`], with weights that were packed before, and room for [`Tiling::bands_size`] elements.
pub fn convolve_packed(
    parallel: &dyn Parallel,
    task: &Task<'_>,
    tiling: &Tiling,
    packed: *mut f32,
    bands: *mut f32,
) {
    let [samples, depth, height, _] = tiling.positions;
    let band = tiling.band.unwrap_or(height);
    // In place, taps have the source's strides; a copy is by input channel, tap along the first axis, line and position.
    let in_place = tiling.band.is_none();
    let copy = Address(bands);
    let sample_chunks = samples.div_ceil(tiling.samples_at_once);
    for unit in 0..sample_chunks * tiling.groups * depth * height.div_ceil(band) {
        let (start, rest) = (unit % height.div_ceil(band) * band, unit / height.div_ceil(band));
        let (d, rest) = (rest % depth, rest / depth);
        let (group, sample) = (rest % tiling.groups, rest / tiling.groups * tiling.samples_at_once);
        let lines = start..(start + band).min(height);
        let count = tiling.samples_at_once.min(samples - sample);
        let output_band = OutputBand { sample, group, d, lines };
        let (image, sample_stride) = match in_place {
            true => (Image::in_place(&task.source, tiling, &output_band), task.source.strides()[0]),
            false => {
                let size = tiling.copy_size(output_band.lines.len());
                let image = copy_band(parallel, &task.source, tiling, &output_band, copy);
                for next in 1..count {
                    let output_band = OutputBand {
                        sample: sample + next,
                        lines: output_band.lines.clone(),
                        ..output_band
                    };
                    let copy = Address(copy.at((next * size) as isize));
                    copy_band(parallel, &task.source, tiling, &output_band, copy);
                }
                (image, size as isize)
            }
        };
        let weights = Address(packed.wrapping_add(group * tiling.group_size()));
        match tiling.has_short_lines() {
            true => {
                convolve_short_lines(
                    parallel,
                    task,
                    tiling,
                    &output_band,
                    (&image, count, sample_stride),
                    weights,
                );
            }
            false => convolve_band(parallel, task, tiling, &output_band, &image, weights),
        }
    }
}

/// Lines of the output that are computed together.
pub struct OutputBand {
    pub sample: usize,
    pub group: usize,
    /// The position along the first axis.
    pub d: usize,
    pub lines: Range<usize>,
}

/// The elements that windows cover.
pub struct Image {
    /// The element that a tap of offset 0 covers at the first position.
    pub first: Address,
    /// The distance between input channels.
    pub channel: isize,
    /// The distance between neighbouring output lines.
    pub line: isize,
    /// How many taps there are.
    pub count: usize,
    /// The offset of each tap.
    pub offsets: [isize; MAX_TAPS],
}

impl Image {
    /// An image whose taps are `tap_strides` elements apart along each axis.
    fn new(
        first: *mut f32,
        channel: isize,
        line: isize,
        axes: &[Axis; 3],
        tap_strides: [isize; 3],
    ) -> Image {
        let (mut offsets, mut count) = ([0; MAX_TAPS], 0);
        for z in 0..axes[0].taps as isize {
            for y in 0..axes[1].taps as isize {
                for x in 0..axes[2].taps as isize {
                    offsets[count] = z * tap_strides[0] + y * tap_strides[1] + x * tap_strides[2];
                    count += 1;
                }
            }
        }
        Image { first: Address(first), channel, line, count, offsets }
    }

    /// Windows over a source that is read in place.
    pub fn in_place(source: &View<'_>, tiling: &Tiling, output_band: &OutputBand) -> Image {
        let strides = source.strides();
        let [axis_d, axis_h, axis_w] = tiling.axes;
        let offset = output_band.sample as isize * strides[0]
            + output_band.group as isize * strides[1]
            + axis_d.at(output_band.d) * strides[3]
            + axis_h.at(output_band.lines.start) * strides[4]
            + axis_w.at(0) * strides[5];
        let first = source.first().cast::<f32>().wrapping_offset(offset).cast_mut();
        let tap_strides = [0, 1, 2].map(|at| tiling.axes[at].tap_step * strides[3 + at]);
        Image::new(first, strides[2], axis_h.step * strides[4], &tiling.axes, tap_strides)
    }
}

/// Copies what the windows of a band cover to `into`, with zeros for what is outside.
pub fn copy_band(
    parallel: &dyn Parallel,
    source: &View<'_>,
    tiling: &Tiling,
    output_band: &OutputBand,
    into: Address,
) -> Image {
    let [axis_d, axis_h, axis_w] = tiling.axes;
    let (lines, pitch) = tiling.copy_shape(output_band.lines.len());
    let planes = tiling.inputs * axis_d.taps;
    let low = [1, 2].map(|at| reach(&tiling.axes[at]).0);
    let top = axis_h.at(output_band.lines.start) + low[0];
    let least = (1 << 15) / (lines * pitch).max(1);
    split(parallel, planes, 1, least.max(1), |planes| {
        for plane in planes {
            // SAFETY: the copy has these elements, and each plane is of one call alone.
            let into = unsafe {
                let first = into.at((plane * lines * pitch) as isize);
                std::slice::from_raw_parts_mut(first, lines * pitch)
            };
            let (input, z) = (plane / axis_d.taps, plane % axis_d.taps);
            let d = axis_d.at(output_band.d) + z as isize * axis_d.tap_step;
            copy_plane(
                source,
                [output_band.sample as isize, output_band.group as isize, input as isize, d],
                (top, axis_w.first + low[1]),
                into,
                pitch,
            );
        }
    });
    let line = pitch as isize;
    let first = into.at(-low[0] * line - low[1]);
    let tap_strides = [(lines * pitch) as isize, axis_h.tap_step * line, axis_w.tap_step];
    let channel = (axis_d.taps * lines * pitch) as isize;
    Image::new(first, channel, axis_h.step * line, &tiling.axes, tap_strides)
}

/// Copies lines of one plane of the source from line `top` and position `left` on, which may be outside.
fn copy_plane(
    source: &View<'_>,
    position: [isize; 4],
    (top, left): (isize, isize),
    into: &mut [f32],
    pitch: usize,
) {
    let (sizes, strides, is_aligned_f32) =
        (&source.dims()[3..], source.strides(), is_aligned_f32(source));
    let start: isize = position.iter().zip(strides).map(|(index, stride)| index * stride).sum();
    if position[3] < 0 || position[3] >= sizes[0] as isize {
        return into.fill(0.0);
    }
    let (low, end) = Axis::NONE.inside(left, sizes[2], pitch);
    for (h, line) in (top..).zip(into.chunks_exact_mut(pitch)) {
        if h < 0 || h >= sizes[1] as isize || low == end {
            line.fill(0.0);
            continue;
        }
        clear(&mut line[..low]);
        clear(&mut line[end..]);
        let offset = start + h * strides[4] + (left + low as isize) * strides[5];
        // SAFETY: every position is inside the source, which nobody writes.
        unsafe { load_elements(source, is_aligned_f32, offset, strides[5], &mut line[low..end]) };
    }
}

/// Packs the weights of all groups.
pub fn pack_weights(
    parallel: &dyn Parallel,
    weights: &View<'_>,
    tiling: &Tiling,
    scratch: &ViewMut<'_>,
) {
    let into = Address(elements(scratch).0);
    let (strides, depth, taps) = (weights.strides(), tiling.depth(), taps(&tiling.axes));
    // One line of weights for each output channel, or one for each pair of channels.
    let (lines, length) = match strides[2] == taps as isize || tiling.inputs == 1 {
        true => (1, depth),
        false => (tiling.inputs, taps),
    };
    let blocks = tiling.groups * tiling.blocks();
    split(parallel, blocks, 1, ((1 << 15) / (BLOCK * depth)).max(1), |blocks| {
        for at in blocks {
            let (group, block) = (at / tiling.blocks(), at % tiling.blocks());
            let channel = block * BLOCK;
            let offset = group as isize * strides[0] + channel as isize * strides[1];
            let from = weights.first().cast::<f32>().wrapping_offset(offset);
            let to = into.at((group * tiling.group_size() + channel * depth) as isize);
            let (channels, padded_channels) =
                ((tiling.outputs - channel).min(BLOCK), tiling.padded_channels(block));
            for line in 0..lines {
                let from = from.wrapping_offset(line as isize * strides[2]);
                // SAFETY: the weights of these channels, `length` in a line; the packed block is of this call alone.
                unsafe {
                    let to = to.add(line * length * padded_channels);
                    match length == 1 && strides[1] == 1 {
                        true => {
                            let (from, bytes) = (from.cast::<u8>(), channels * size_of::<f32>());
                            std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), bytes);
                            std::slice::from_raw_parts_mut(
                                to.add(channels),
                                padded_channels - channels,
                            )
                            .fill(0.0);
                        }
                        false => pack(from, strides[1], channels, length, to, padded_channels),
                    }
                }
            }
        }
    });
}

/// Computes the lines of a band from its image and the packed weights of its group.
fn convolve_band(
    parallel: &dyn Parallel,
    task: &Task<'_>,
    tiling: &Tiling,
    output_band: &OutputBand,
    image: &Image,
    weights: Address,
) {
    let (width, depth, blocks) = (tiling.positions[3], tiling.depth(), tiling.blocks());
    let segments = width.div_ceil(SEGMENT);
    let chunks = output_band.lines.len() * segments;
    let is_large = tiling.inputs * chunks * width.div_ceil(segments) > BAND;
    let strides = task.out.strides();
    let start = output_band.sample as isize * strides[0]
        + output_band.group as isize * strides[1]
        + output_band.d as isize * strides[3];
    let workers = super::workers(chunks * blocks, tiling.work());
    let clipped = task.clipped();
    for_each_unit(parallel, chunks * blocks, (workers, 0, 0), &no_scratch(), |unit, _| {
        let (chunk, block) = match is_large {
            true => (unit / blocks, unit % blocks),
            false => (unit % chunks, unit / chunks),
        };
        let (line, segment) = (chunk / segments, chunk % segments);
        let (from, end) = (width * segment / segments, width * (segment + 1) / segments);
        let channel = block * BLOCK;
        let offset = start
            + channel as isize * strides[2]
            + (output_band.lines.start + line) as isize * strides[4]
            + from as isize * strides[5];
        let step = tiling.axes[2].step;
        let source = image.first.at(line as isize * image.line + from as isize * step);
        let tile = Tile {
            weights: weights.at((channel * depth) as isize),
            padded_channels: tiling.padded_channels(block),
            source,
            step: step as usize,
            inputs: tiling.inputs,
            channel: image.channel,
            offsets: &image.offsets[..image.count],
            ahead: tiling.ahead(block, weights),
        };
        let bias = task.biases(output_band.group, channel);
        let channels = (tiling.outputs - channel).min(BLOCK);
        let target = Target { out: &task.out, offset, channels, bias, clipped };
        // SAFETY: every tap of these positions is inside the image, the block has these weights, and the positions of its channels
        // belong to the output and to this unit alone.
        unsafe {
            let tiles = width.div_ceil(segments).div_ceil(MAX_POSITIONS);
            tile.convolve_line(end - from, &target, chunk * tiles);
            if clipped.is_none() {
                task.apply_epilogue(offset, channels, end - from);
            }
        }
    });
}
