//! Regions of images, each resampled to the same number of cells by bilinear interpolation (RoI align).

use super::access::{OffsetAccess, OffsetAccessMut, Plain, offsets};
use super::element::Element;
use super::map::SMALL;
use super::strip::narrow;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};
use half::f16;
use std::ops::Range;

/// What the corners of a region mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionBounds {
    /// Points between elements; a region is at least one element long.
    Open,
    /// The last one belongs to the region, which is one unit of its coordinates longer, and at least one element long.
    Closed,
    /// As `Closed`, where a region may be empty.
    ClosedOrEmpty,
    /// Corners of elements, not their centres: half an element less. A region may be smaller than an element.
    Corners,
}

/// How regions become cells.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    /// Elements of an image for each unit of a region's coordinates.
    pub scale: f64,
    /// Samples for each cell and dimension; 0 for as many as the region has elements there.
    pub samples: usize,
    /// What the corners mean.
    pub bounds: RegionBounds,
    /// A cell is the greatest of the weighted elements of its samples, as ONNX has it, not their average.
    pub takes_maximum: bool,
}

/// One region: the image, its first corner, the size of a cell and the samples in it; rows first.
struct Region {
    image: usize,
    start: [f64; 2],
    cell: [f64; 2],
    samples: [usize; 2],
}

/// The two elements that a sample is interpolated from in one dimension, and their weights.
fn neighbours(position: f64, size: usize) -> Option<[(usize, f64); 2]> {
    if position < -1.0 || position > size as f64 || position.is_nan() {
        return None;
    }
    let position = position.max(0.0);
    let first = position as usize;
    if first + 1 >= size {
        return Some([(size - 1, 1.0), (size - 1, 0.0)]);
    }
    let fraction = position - first as f64;
    Some([(first, 1.0 - fraction), (first + 1, fraction)])
}

/// The index of a region's image; the greatest number, which no image has, for a negative number or NaN.
pub(super) fn image_of(value: f64) -> usize {
    if value > -1.0 { value.max(0.0) as usize } else { usize::MAX }
}

impl Region {
    /// Samples of a cell along a dimension that may lie in the image: all that do, and a few more.
    fn samples_inside(&self, i: usize, cell: usize, size: usize) -> Range<usize> {
        let samples = self.samples[i];
        if self.cell[i] <= 0.0 {
            return 0..samples;
        }
        let sample_at = |position: f64| {
            samples as f64 * ((position - self.start[i]) / self.cell[i] - cell as f64) - 0.5
        };
        let first = (sample_at(-1.0).floor() - 1.0) as usize;
        let end = (sample_at(size as f64).ceil() + 2.0) as usize;
        first..end.min(samples)
    }

    /// How many samples a cell has.
    fn count(&self) -> f64 {
        (self.samples[0] as f64 * self.samples[1] as f64).max(1.0)
    }
}

impl Regions {
    /// The region of a number, from its row of `boxes`; rows and columns have these strides.
    fn region<T: Element + Plain>(
        &self,
        boxes: &OffsetAccess<'_, T>,
        [row, column]: [isize; 2],
        number: usize,
        image: Option<usize>,
        cells: [usize; 2],
    ) -> Region {
        let value = |at: isize| boxes.get(number as isize * row + at * column).to_f64();
        let (image, first) = match image {
            Some(image) => (image, 0),
            None => (image_of(value(0)), 1),
        };
        let shift = if self.bounds == RegionBounds::Corners { 0.5 } else { 0.0 };
        let extra = match self.bounds {
            RegionBounds::Closed | RegionBounds::ClosedOrEmpty => self.scale,
            RegionBounds::Open | RegionBounds::Corners => 0.0,
        };
        let corner = |at: isize| value(first + at) * self.scale - shift;
        let (low, high) = ([corner(1), corner(0)], [corner(3) + extra, corner(2) + extra]);
        let mut region = Region { image, start: low, cell: [0.0; 2], samples: [0; 2] };
        for i in 0..2 {
            let length = high[i] - low[i];
            let length = match self.bounds {
                RegionBounds::Open | RegionBounds::Closed => length.max(1.0),
                RegionBounds::ClosedOrEmpty => length.max(0.0),
                RegionBounds::Corners => length,
            };
            region.cell[i] = length / cells[i] as f64;
            region.samples[i] = match self.samples {
                0 => region.cell[i].ceil().clamp(0.0, 1e6) as usize,
                samples => samples,
            };
        }
        region
    }

    /// Calls `visit` with each sample of a cell that lies in the image, and perhaps with others: the four elements (row,
    /// column) and their weights. Samples outside of the image have none.
    fn for_each_sample(
        region: &Region,
        at: [usize; 2],
        image: [usize; 2],
        mut visit: impl FnMut(Option<[(usize, usize, f64); 4]>),
    ) {
        let sample_position = |i: usize, sample: usize| {
            let fraction = (sample as f64 + 0.5) / region.samples[i] as f64;
            region.start[i] + (at[i] as f64 + fraction) * region.cell[i]
        };
        let columns = region.samples_inside(1, at[1], image[1]);
        for row_sample in region.samples_inside(0, at[0], image[0]) {
            let rows = neighbours(sample_position(0, row_sample), image[0]);
            for column_sample in columns.clone() {
                let columns = neighbours(sample_position(1, column_sample), image[1]);
                visit(rows.zip(columns).map(|(rows, columns)| {
                    [(0, 0), (0, 1), (1, 0), (1, 1)]
                        .map(|(r, c)| (rows[r].0, columns[c].0, rows[r].1 * columns[c].1))
                }));
            }
        }
    }

    /// `out[k, c, ..]` becomes region `k` of `images[image, c, ..]`. `boxes` has a row for each region: x and y of both
    /// corners, after the number of the image unless `numbers` has these. Fails with the first region whose image is not
    /// there; its cells are left.
    pub fn align(
        &self,
        parallel: &dyn Parallel,
        out: ViewMut<'_>,
        images: View<'_>,
        boxes: View<'_>,
        numbers: Option<View<'_>>,
    ) -> Result<(), usize> {
        match images.dtype() {
            DType::Float16 => self.align_typed::<f16>(parallel, out, images, boxes, numbers),
            _ => self.align_typed::<f32>(parallel, out, images, boxes, numbers),
        }
    }

    fn align_typed<T: Element + Plain>(
        &self,
        parallel: &dyn Parallel,
        out: ViewMut<'_>,
        images: View<'_>,
        boxes: View<'_>,
        numbers: Option<View<'_>>,
    ) -> Result<(), usize> {
        let (from, to, rows) = (
            OffsetAccess::<T>::new(images),
            OffsetAccessMut::<T>::new(out),
            OffsetAccess::<T>::new(boxes),
        );
        let numbers = numbers.map(|view| (OffsetAccess::<i32>::new(view), view.strides()[0]));
        let (dims, strides) = (images.dims(), images.strides());
        let cells = [out.dims()[2], out.dims()[3]];
        let steps = [boxes.strides()[0], boxes.strides()[1]];
        let image = |number: usize| {
            numbers.map(|(indices, stride)| {
                usize::try_from(indices.get(number as isize * stride)).unwrap_or(usize::MAX)
            })
        };
        let region = |number: usize| self.region(&rows, steps, number, image(number), cells);
        if let Some(bad) = (0..out.dims()[0]).find(|number| region(*number).image >= dims[0]) {
            return Err(bad);
        }
        split(
            parallel,
            out.dims()[0] * dims[1],
            1,
            (SMALL / 32).div_ceil((cells[0] * cells[1]).max(1)),
            |range| {
                for unit in range {
                    let region = region(unit / dims[1]);
                    let start =
                        region.image as isize * strides[0] + (unit % dims[1]) as isize * strides[1];
                    let [target] = offsets(&out.dims()[..2], [&out.strides()[..2]], unit);
                    let count = region.count();
                    for row in 0..cells[0] {
                        for column in 0..cells[1] {
                            let (mut sum, mut greatest) = (0.0, f64::NEG_INFINITY);
                            let mut inside = 0.0;
                            Regions::for_each_sample(
                                &region,
                                [row, column],
                                [dims[2], dims[3]],
                                |sample| {
                                    inside += f64::from(u8::from(sample.is_some()));
                                    for (r, c, weight) in sample.iter().flatten() {
                                        let offset =
                                            *r as isize * strides[2] + *c as isize * strides[3];
                                        let part = from.get(start + offset).to_f64() * weight;
                                        sum += part;
                                        greatest = greatest.max(part);
                                    }
                                },
                            );
                            // Samples outside of the image are 0.
                            let greatest =
                                if inside < count { greatest.max(0.0) } else { greatest };
                            let value = if self.takes_maximum { greatest } else { sum / count };
                            let offset = target
                                + row as isize * out.strides()[2]
                                + column as isize * out.strides()[3];
                            to.set(offset, narrow(value));
                        }
                    }
                }
            },
        );
        Ok(())
    }

    /// Adds the gradients of averages of regions to `images`; all in `f32`. Fails as [`Regions::align`].
    pub fn backward(
        &self,
        parallel: &dyn Parallel,
        images: ViewMut<'_>,
        dy: View<'_>,
        boxes: View<'_>,
    ) -> Result<(), usize> {
        let (from, to, rows) = (
            OffsetAccess::<f32>::new(dy),
            OffsetAccessMut::<f32>::new(images),
            OffsetAccess::<f32>::new(boxes),
        );
        let (dims, strides) = (images.dims(), images.strides());
        let cells = [dy.dims()[2], dy.dims()[3]];
        let steps = [boxes.strides()[0], boxes.strides()[1]];
        let region = |number: usize| self.region(&rows, steps, number, None, cells);
        if let Some(bad) = (0..dy.dims()[0]).find(|number| region(*number).image >= dims[0]) {
            return Err(bad);
        }
        split(parallel, dims[1], 1, 1, |range| {
            for channel in range {
                for number in 0..dy.dims()[0] {
                    let region = region(number);
                    let start = region.image as isize * strides[0] + channel as isize * strides[1];
                    let source =
                        number as isize * dy.strides()[0] + channel as isize * dy.strides()[1];
                    let count = region.count();
                    for row in 0..cells[0] {
                        for column in 0..cells[1] {
                            let at =
                                row as isize * dy.strides()[2] + column as isize * dy.strides()[3];
                            let grad = from.get(source + at).to_f64() / count;
                            Regions::for_each_sample(
                                &region,
                                [row, column],
                                [dims[2], dims[3]],
                                |sample| {
                                    for (r, c, weight) in sample.iter().flatten() {
                                        let offset = start
                                            + *r as isize * strides[2]
                                            + *c as isize * strides[3];
                                        to.set(offset, to.get(offset) + (grad * weight) as f32);
                                    }
                                },
                            );
                        }
                    }
                }
            }
        });
        Ok(())
    }
}
