//! Samples of images at positions that offsets move, as a deformable convolution takes them, and their gradients.
//!
//! All tensors are contiguous `f32`: images by samples, channels, rows and columns; offsets by samples, three kinds
//! (x offset, y offset, modulation: the factor of the sample), groups of channels, taps, rows and columns of the output;
//! samples as images whose rows and columns hold the taps of each position beside each other.

use super::access::{OffsetAccess, OffsetAccessMut};
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Where the taps of a window are before offsets move them; rows first.
#[derive(Clone, Copy, Debug)]
pub struct DeformableWindows {
    /// Rows and columns of a window.
    pub taps: [usize; 2],
    /// Between neighbouring windows.
    pub stride: [usize; 2],
    /// Between neighbouring taps.
    pub dilation: [usize; 2],
    /// The padding before the first row and column.
    pub padding: [usize; 2],
    /// Groups of channels with offsets of their own.
    pub groups: usize,
    /// Rows and columns of the images.
    pub image: [usize; 2],
    /// Rows and columns of the output.
    pub positions: [usize; 2],
}

/// One sample: its modulation, and the first (row, column) of the four elements around it with the distance from that.
struct Sample {
    modulation: f32,
    inside: bool,
    first: [isize; 2],
    fraction: [f32; 2],
}

impl DeformableWindows {
    /// How many positions the output has.
    fn count(&self) -> usize {
        self.positions[0] * self.positions[1]
    }

    /// How many taps a window has.
    fn all_taps(&self) -> usize {
        self.taps[0] * self.taps[1]
    }

    /// Where the number of a kind (0 x offset, 1 y offset, 2 modulation) is for a group, a tap and a position.
    fn offset(
        &self,
        sample: usize,
        kind: usize,
        group: usize,
        tap: usize,
        position: usize,
    ) -> isize {
        let channel = (kind * self.groups + group) * self.all_taps() + tap;
        let channels = 3 * self.groups * self.all_taps();
        ((sample * channels + channel) * self.count() + position) as isize
    }

    /// The sample of a tap and a position in an image, for a group of channels.
    fn sample(
        &self,
        offsets: &OffsetAccess<'_, f32>,
        (image, group): (usize, usize),
        tap: usize,
        position: usize,
    ) -> Sample {
        let value = |kind| offsets.get(self.offset(image, kind, group, tap, position));
        let at = [position / self.positions[1], position % self.positions[1]];
        let taps = [tap / self.taps[1], tap % self.taps[1]];
        let (mut first, mut fraction, mut inside) = ([0; 2], [0.0; 2], true);
        for i in 0..2 {
            let base = (at[i] * self.stride[i] + taps[i] * self.dilation[i]) as f64;
            let coordinate = base - self.padding[i] as f64 + f64::from(value(1 - i));
            inside &= coordinate > -1.0 && coordinate < self.image[i] as f64;
            first[i] = coordinate.floor() as isize;
            fraction[i] = (coordinate - coordinate.floor()) as f32;
        }
        Sample { modulation: value(2), inside, first, fraction }
    }

    /// The four elements around a sample, first row first; 0 outside of the image.
    fn corners(&self, images: &OffsetAccess<'_, f32>, plane: usize, sample: &Sample) -> [f32; 4] {
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(row_offset, column_offset)| {
            let position = self
                .position(plane, [sample.first[0] + row_offset, sample.first[1] + column_offset]);
            position.map_or(0.0, |position| images.get(position))
        })
    }

    /// The offset of an element of a plane; `None` outside of the image.
    fn position(&self, plane: usize, at: [isize; 2]) -> Option<isize> {
        let [rows, columns] = self.image.map(|size| size as isize);
        let inside = (0..rows).contains(&at[0]) && (0..columns).contains(&at[1]);
        inside.then(|| (plane as isize * rows + at[0]) * columns + at[1])
    }

    /// Where the sample of a tap and a position is among all.
    fn target(&self, plane: usize, tap: usize, position: usize) -> isize {
        let at = [position / self.positions[1], position % self.positions[1]];
        let taps = [tap / self.taps[1], tap % self.taps[1]];
        let [row, column] = [0, 1].map(|i| at[i] * self.taps[i] + taps[i]);
        let rows = self.positions[0] * self.taps[0];
        ((plane * rows + row) * self.positions[1] * self.taps[1] + column) as isize
    }

    /// `out` becomes the samples, each times its modulation.
    pub fn forward(
        &self,
        parallel: &dyn Parallel,
        out: ViewMut<'_>,
        images: View<'_>,
        offsets: View<'_>,
    ) {
        let channels = images.dims()[1];
        let planes = images.dims()[0] * channels;
        let (to, from, offsets) = (
            OffsetAccessMut::<f32>::new(out),
            OffsetAccess::<f32>::new(images),
            OffsetAccess::<f32>::new(offsets),
        );
        split(parallel, planes, 1, 1, |range| {
            for plane in range {
                let image_and_group =
                    (plane / channels, plane % channels / (channels / self.groups));
                for tap in 0..self.all_taps() {
                    for position in 0..self.count() {
                        let sample = self.sample(&offsets, image_and_group, tap, position);
                        let mut value = 0.0;
                        if sample.inside {
                            let corners = self.corners(&from, plane, &sample);
                            value = sample.modulation * sample.value(corners);
                        }
                        to.set(self.target(plane, tap, position), value);
                    }
                }
            }
        });
    }

    /// Adds the gradients of images to `images`, from those of the samples.
    pub fn add_grad_of_images(
        &self,
        parallel: &dyn Parallel,
        images: ViewMut<'_>,
        grads: View<'_>,
        offsets: View<'_>,
    ) {
        let channels = images.dims()[1];
        let planes = images.dims()[0] * channels;
        let (to, from, offsets) = (
            OffsetAccessMut::<f32>::new(images),
            OffsetAccess::<f32>::new(grads),
            OffsetAccess::<f32>::new(offsets),
        );
        split(parallel, planes, 1, 1, |range| {
            for plane in range {
                let image_and_group =
                    (plane / channels, plane % channels / (channels / self.groups));
                for tap in 0..self.all_taps() {
                    for position in 0..self.count() {
                        let sample = self.sample(&offsets, image_and_group, tap, position);
                        if !sample.inside {
                            continue;
                        }
                        let grad = from.get(self.target(plane, tap, position)) * sample.modulation;
                        let weights = sample.weights();
                        for (at, weight) in weights.iter().enumerate() {
                            let (row_offset, column_offset) =
                                ((at / 2) as isize, (at % 2) as isize);
                            let at =
                                [sample.first[0] + row_offset, sample.first[1] + column_offset];
                            if let Some(position) = self.position(plane, at) {
                                to.set(position, to.get(position) + grad * weight);
                            }
                        }
                    }
                }
            }
        });
    }

    /// `out` becomes the gradients of the offsets and modulations.
    pub fn grad_of_offsets(
        &self,
        parallel: &dyn Parallel,
        out: ViewMut<'_>,
        grads: View<'_>,
        (images, offsets): (View<'_>, View<'_>),
    ) {
        let channels = images.dims()[1];
        let of_group = channels / self.groups;
        let (to, grads) = (OffsetAccessMut::<f32>::new(out), OffsetAccess::<f32>::new(grads));
        let (image_elements, offsets) =
            (OffsetAccess::<f32>::new(images), OffsetAccess::<f32>::new(offsets));
        split(parallel, images.dims()[0] * self.groups, 1, 1, |range| {
            for unit in range {
                let image_and_group = (unit / self.groups, unit % self.groups);
                for tap in 0..self.all_taps() {
                    for position in 0..self.count() {
                        let sample = self.sample(&offsets, image_and_group, tap, position);
                        let mut sums = [0.0f32; 3];
                        if sample.inside {
                            for channel in 0..of_group {
                                let plane = image_and_group.0 * channels
                                    + image_and_group.1 * of_group
                                    + channel;
                                let corners = self.corners(&image_elements, plane, &sample);
                                let grad = grads.get(self.target(plane, tap, position));
                                let [by_row, by_column] = sample.derivatives(corners);
                                sums[0] += grad * sample.modulation * by_column;
                                sums[1] += grad * sample.modulation * by_row;
                                sums[2] += grad * sample.value(corners);
                            }
                        }
                        for (kind, sum) in sums.iter().enumerate() {
                            to.set(
                                self.offset(
                                    image_and_group.0,
                                    kind,
                                    image_and_group.1,
                                    tap,
                                    position,
                                ),
                                *sum,
                            );
                        }
                    }
                }
            }
        });
    }

    /// Writes the gradients of the samples to `out`: those of a convolution whose windows do not overlap. `grads` has
    /// samples, channels and positions of the output, `weights` its channels, the channels of a group, and taps.
    pub fn sample_gradients(
        &self,
        parallel: &dyn Parallel,
        out: ViewMut<'_>,
        grads: View<'_>,
        weights: View<'_>,
    ) {
        let (channels, outputs, of_group) = (out.dims()[1], grads.dims()[1], weights.dims()[1]);
        let by_group = outputs / (channels / of_group).max(1);
        let (to, from, weights) = (
            OffsetAccessMut::<f32>::new(out),
            OffsetAccess::<f32>::new(grads),
            OffsetAccess::<f32>::new(weights),
        );
        split(parallel, out.dims()[0] * channels, 1, 1, |range| {
            for plane in range {
                let (sample, channel) = (plane / channels, plane % channels);
                let first = channel / of_group * by_group;
                for tap in 0..self.all_taps() {
                    for position in 0..self.count() {
                        let mut sum = 0.0;
                        for output in first..first + by_group {
                            let at = (output * of_group + channel % of_group) * self.all_taps();
                            let grad = (sample * outputs + output) * self.count() + position;
                            sum += weights.get((at + tap) as isize) * from.get(grad as isize);
                        }
                        to.set(self.target(plane, tap, position), sum);
                    }
                }
            }
        });
    }
}

impl Sample {
    /// The weights of the four elements around it.
    fn weights(&self) -> [f32; 4] {
        let [row, column] = self.fraction;
        let (before_row, before_column) = (1.0 - row, 1.0 - column);
        [before_row * before_column, before_row * column, row * before_column, row * column]
    }

    /// The interpolated value.
    fn value(&self, corners: [f32; 4]) -> f32 {
        self.weights().iter().zip(corners).map(|(weight, one)| weight * one).sum()
    }

    /// The derivatives of the value by row and by column.
    fn derivatives(&self, [a, b, c, d]: [f32; 4]) -> [f32; 2] {
        let [row, column] = self.fraction;
        [(1.0 - column) * (c - a) + column * (d - b), (1.0 - row) * (b - a) + row * (d - c)]
    }
}
