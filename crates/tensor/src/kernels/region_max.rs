//! Regions of images, each brought to the same number of cells by the greatest element of each cell.

use super::access::{OffsetAccess, OffsetAccessMut, Plain, offsets};
use super::element::Element;
use super::map::SMALL;
use super::region::image_of;
use super::strip::narrow;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};
use half::f16;
use std::ops::Range;

/// A region along one dimension: its first element and how many there are, in elements of the image.
#[derive(Clone, Copy)]
struct Extent {
    start: i64,
    length: i64,
}

/// Coordinates are cut to this, so that sums of them are no more than numbers can hold.
const FARTHEST: f32 = 1e12;

impl Extent {
    /// Between two coordinates, which are rounded to whole elements, halves away from 0, and both belong to it. It is at
    /// least one element long.
    fn new(low: f32, high: f32, scale: f32) -> Extent {
        let whole = |value: f32| (value * scale).round().clamp(-FARTHEST, FARTHEST) as i64;
        let (start, end) = (whole(low), whole(high));
        Extent { start, length: (end - start + 1).max(1) }
    }

    /// The elements of one of `cells` cells that lie in an image of this size.
    fn cell(&self, at: usize, cells: usize, size: usize) -> Range<usize> {
        let each = self.length as f32 / cells as f32;
        let inside = |offset: f32| (offset as i64 + self.start).clamp(0, size as i64) as usize;
        inside((at as f32 * each).floor())..inside(((at + 1) as f32 * each).ceil())
    }
}

/// `out[k, c, ..]` becomes region `k` of `images[image, c, ..]`: the greatest element of each cell, 0 where a cell has none.
/// `boxes` has a row for each region: the number of the image, x and y of both corners. `scales` are elements of an image
/// for each unit of coordinates: rows first. Answers the first region whose image is not there; then nothing is written.
pub fn pool_regions(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    images: View<'_>,
    boxes: View<'_>,
    scales: [f32; 2],
) -> Result<(), usize> {
    match images.dtype() {
        DType::Float16 => pool_typed::<f16>(parallel, out, images, boxes, scales),
        _ => pool_typed::<f32>(parallel, out, images, boxes, scales),
    }
}

fn pool_typed<T: Element + Plain>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    images: View<'_>,
    boxes: View<'_>,
    scales: [f32; 2],
) -> Result<(), usize> {
    let (from, to, rows) = (
        OffsetAccess::<T>::new(images),
        OffsetAccessMut::<T>::new(out),
        OffsetAccess::<T>::new(boxes),
    );
    let (dims, strides) = (images.dims(), images.strides());
    let cells = [out.dims()[2], out.dims()[3]];
    let value = |region: usize, at: isize| {
        rows.get(region as isize * boxes.strides()[0] + at * boxes.strides()[1]).to_f64()
    };
    let image = |region: usize| image_of(value(region, 0));
    if let Some(bad) = (0..out.dims()[0]).find(|region| image(*region) >= dims[0]) {
        return Err(bad);
    }
    let least = (SMALL / 32).div_ceil((cells[0] * cells[1]).max(1));
    split(parallel, out.dims()[0] * dims[1], 1, least, |range| {
        for unit in range {
            let (region, channel) = (unit / dims[1], unit % dims[1]);
            let start = image(region) as isize * strides[0] + channel as isize * strides[1];
            let [target] = offsets(&out.dims()[..2], [&out.strides()[..2]], unit);
            let corner = |at: isize| value(region, at) as f32;
            let extents = [
                Extent::new(corner(2), corner(4), scales[0]),
                Extent::new(corner(1), corner(3), scales[1]),
            ];
            for high in 0..cells[0] {
                let lines = extents[0].cell(high, cells[0], dims[2]);
                for across in 0..cells[1] {
                    let columns = extents[1].cell(across, cells[1], dims[3]);
                    let mut most = f64::NEG_INFINITY;
                    for row in lines.clone() {
                        for column in columns.clone() {
                            let offset = row as isize * strides[2] + column as isize * strides[3];
                            most = most.max(from.get(start + offset).to_f64());
                        }
                    }
                    let is_empty = lines.is_empty() || columns.is_empty();
                    let offset = target
                        + high as isize * out.strides()[2]
                        + across as isize * out.strides()[3];
                    to.set(offset, narrow(if is_empty { 0.0 } else { most }));
                }
            }
        }
    });
    Ok(())
}
