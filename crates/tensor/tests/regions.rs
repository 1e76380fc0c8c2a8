//! Averages of regions: huge ones take no longer than the image, and images that are not there are reported.

use cairn_tensor::kernels::region::{RegionBounds, Regions};
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
    let regions = Regions { scale: 1.0, samples, bounds: RegionBounds::Open };
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
