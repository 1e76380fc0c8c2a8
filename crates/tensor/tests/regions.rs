//! Regions: averages, of which huge ones take no longer than the image, greatest elements, and images that are not there.

use cairn_tensor::kernels::region::{RegionBounds, Regions};
use cairn_tensor::kernels::region_max::pool_regions;
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout, View, ViewMut};
use std::cell::Cell;

/// The bytes of the values, as views share them.
fn cells(values: &[f32]) -> Vec<Cell<u8>> {
    values.iter().flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect()
}

/// One cell of one region of two images of 4 by 4 elements, which are all 1 and all 2.
fn align(samples: usize, roi: [f32; 5]) -> Result<f32, usize> {
    let images: Vec<f32> = (0..32).map(|at| if at < 16 { 1.0 } else { 2.0 }).collect();
    let (images, boxes, out) = (cells(&images), cells(&roi), cells(&[9.0]));
    let view = |dims: &[usize]| Layout::contiguous(DType::Float, dims);
    let regions = Regions { scale: 1.0, samples, bounds: RegionBounds::Open, takes_maximum: false };
    regions.align(
        &SingleThread,
        ViewMut::over(&out, view(&[1, 1, 1, 1])).unwrap(),
        View::over(&images, view(&[2, 1, 4, 4])).unwrap(),
        View::over(&boxes, view(&[1, 5])).unwrap(),
        None,
    )?;
    let bytes: Vec<u8> = out.iter().map(Cell::get).collect();
    Ok(f32::from_ne_bytes(bytes.try_into().unwrap()))
}

#[test]
fn a_huge_region_takes_no_longer_than_its_image() {
    // Of the samples, 10,000 in each direction, those up to 4 count.
    assert!((align(0, [1.0, 0.0, 0.0, 1e4, 1e4]).unwrap() - 2.0 * 16e-8).abs() < 1e-9);
    assert_eq!(align(0, [0.0, -1e4, -1e4, -9e3, -9e3]), Ok(0.0));
    for edge in [1e9, 1e30, f32::INFINITY] {
        assert!(align(0, [0.0, 0.0, 0.0, edge, edge]).unwrap() < 1e-9);
        assert!(align(0, [0.0, -edge, -edge, edge, edge]).unwrap() < 1e-9);
    }
    assert_eq!(align(0, [0.0, f32::NAN, 0.0, 1.0, 1.0]), Ok(0.0));
}

#[test]
fn samples_are_those_of_a_loop_over_all() {
    for (low, high) in [(-3.0f32, 9.0), (0.5, 2.5), (-1.0, 4.0), (3.0, 40.0), (-50.0, 1.0)] {
        for samples in [0, 1, 3, 64] {
            let have = align(samples, [0.0, low, low, high, high]).unwrap();
            let cell = f64::from(high - low).max(1.0);
            let count = if samples == 0 { cell.ceil() as usize } else { samples };
            let inside = (0..count).filter(|at| {
                let middle = f64::from(low) + (*at as f64 + 0.5) / count as f64 * cell;
                (-1.0..=4.0).contains(&middle)
            });
            let fraction = inside.count() as f64 / count as f64;
            assert!(
                (f64::from(have) - fraction * fraction).abs() < 1e-6,
                "{low} to {high}: {have}"
            );
        }
    }
}

#[test]
fn an_image_that_is_not_there_is_reported() {
    assert_eq!(align(2, [1.0, 0.0, 0.0, 2.0, 2.0]), Ok(2.0));
    for image in [-3.0, f32::NAN, 2.0, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(align(2, [image, 0.0, 0.0, 2.0, 2.0]), Err(0), "{image}");
    }
}

/// The greatest elements of regions of strided images, against a loop over every element.
#[test]
fn greatest_elements_are_those_of_a_loop_over_all() {
    let (images, channels, height, width) = (2usize, 2usize, 5usize, 7usize);
    let values: Vec<f32> =
        (0..images * channels * height * width).map(|at| (at * 37 % 101) as f32 - 50.0).collect();
    let from = cells(&values);
    let corners = [-3.0f32, 0.0, 0.5, 1.49, 2.5, 6.0, 40.0];
    let mut rows = Vec::new();
    for (at, x) in corners.iter().enumerate() {
        for y in corners {
            rows.extend([(at % 2) as f32, *x, y, corners[(at * 3 + 2) % 7], y + 3.0]);
        }
    }
    let count = rows.len() / 5;
    let boxes = cells(&rows);
    for (cells_of, scales) in [([1, 1], [1.0, 1.0]), ([2, 3], [0.5, 1.0]), ([4, 9], [1.0, 0.25])] {
        let [high, across] = cells_of;
        let out = cells(&vec![9.0; count * channels * high * across]);
        let stored = |dims: &[usize]| Layout::contiguous(DType::Float, dims);
        // Channels lie last.
        let layout = stored(&[images, height, width, channels]).permuted(&[0, 3, 1, 2]);
        pool_regions(
            &SingleThread,
            ViewMut::over(&out, stored(&[count, channels, high, across])).unwrap(),
            View::over(&from, layout).unwrap(),
            View::over(&boxes, stored(&[count, 5])).unwrap(),
            scales,
        )
        .unwrap();
        let bytes: Vec<u8> = out.iter().map(Cell::get).collect();
        let mut have =
            bytes.chunks_exact(4).map(|four| f32::from_ne_bytes(four.try_into().unwrap()));
        for region in rows.chunks_exact(5) {
            let bounds = |low: f32, high: f32, scale: f32| {
                let (low, high) = ((low * scale).round() as i64, (high * scale).round() as i64);
                (low, (high - low + 1).max(1))
            };
            let (top, tall) = bounds(region[2], region[4], scales[0]);
            let (left, wide) = bounds(region[1], region[3], scales[1]);
            for channel in 0..channels {
                for (row, column) in (0..high).flat_map(|r| (0..across).map(move |c| (r, c))) {
                    let within = |at: usize, first: i64, length: i64, cell: usize, cells: usize| {
                        let each = length as f32 / cells as f32;
                        let at = at as i64 - first;
                        at >= (cell as f32 * each).floor() as i64
                            && at < ((cell + 1) as f32 * each).ceil() as i64
                    };
                    let mut want: Option<f32> = None;
                    for y in (0..height).filter(|y| within(*y, top, tall, row, high)) {
                        for x in (0..width).filter(|x| within(*x, left, wide, column, across)) {
                            let image = region[0] as usize;
                            let one =
                                values[((image * height + y) * width + x) * channels + channel];
                            want = Some(want.map_or(one, |most| most.max(one)));
                        }
                    }
                    assert_eq!(have.next(), Some(want.unwrap_or(0.0)), "{region:?}");
                }
            }
        }
    }
    let wrong = cells(&[2.0, 0.0, 0.0, 1.0, 1.0]);
    let (plain, out) = (|dims: &[usize]| Layout::contiguous(DType::Float, dims), cells(&[9.0; 2]));
    let result = pool_regions(
        &SingleThread,
        ViewMut::over(&out, plain(&[1, 2, 1, 1])).unwrap(),
        View::over(&from, plain(&[2, 2, 5, 7])).unwrap(),
        View::over(&wrong, plain(&[1, 5])).unwrap(),
        [1.0, 1.0],
    );
    assert_eq!(result, Err(0));
}
