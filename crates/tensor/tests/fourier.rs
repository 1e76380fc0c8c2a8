//! Transforms of sliding windows, against plain sums.

use cairn_tensor::kernels::fourier::{Slides, buffer_length, sliding, table_length};
use cairn_tensor::kernels::linalg::Stack;
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, View, ViewMut};
use num_complex::Complex;
use proptest::prelude::*;
use std::cell::Cell;
use std::f64::consts::TAU;

/// A thread for each part.
struct Threads(usize);

impl Parallel for Threads {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            (0..parts).for_each(|part| drop(scope.spawn(move || body(part))));
        });
    }
}

/// The bytes of the values, as views share them.
fn cells(values: &[f64]) -> Vec<Cell<u8>> {
    values.iter().flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect()
}

/// The numbers that the bytes hold.
fn numbers(cells: &[Cell<u8>]) -> Vec<f64> {
    let bytes: Vec<u8> = cells.iter().map(Cell::get).collect();
    bytes.chunks_exact(8).map(|eight| f64::from_ne_bytes(eight.try_into().unwrap())).collect()
}

/// Words that are aligned for complex numbers.
fn aligned(count: usize) -> Vec<Cell<u128>> {
    vec![Cell::new(u128::MAX); count]
}

/// The bytes of the words.
fn as_bytes(words: &[Cell<u128>]) -> &[Cell<u8>] {
    // SAFETY: cells of any type are cells of its bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 16) }
}

proptest! {
    #[test]
    fn windows_follow_the_definition(
        length in 1usize..40,
        more in 0usize..30,
        hop in 1usize..9,
        rows in 1usize..3,
        missing in 0usize..5,
        windowed in any::<bool>(),
        threads in 1usize..4,
        seed in any::<u32>(),
    ) {
        let number = |at: usize| f64::from((at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 20) / 2048.0 - 1.0;
        let samples = length + more;
        let signal: Vec<f64> = (0..rows * samples).map(number).collect();
        let size = length.saturating_sub(missing).max(1);
        let window: Vec<f64> = (0..size).map(|at| number(at + 7919)).collect();
        let frames = (samples - length) / hop + 1;
        let (from, factors) = (cells(&signal), cells(&window));
        let plain = |dims: &[usize]| Layout::contiguous(DType::Double, dims);
        let out = cells(&vec![f64::NAN; rows * length * frames * 2]);
        let (table, buffers) =
            (aligned(table_length(length).unwrap()), aligned(threads * buffer_length(length).unwrap()));
        let slides = Slides { length, hop, scale: 0.5 };
        let table_stack = Stack::new(as_bytes(&table), 1, table.len()).unwrap();
        let buffer_stack = Stack::new(as_bytes(&buffers), threads, buffers.len() / threads).unwrap();
        let to = ViewMut::over(&out, plain(&[rows, length, frames, 2])).unwrap();
        let signals = View::over(&from, plain(&[rows, samples])).unwrap();
        let window_view = windowed.then(|| View::over(&factors, plain(&[size])).unwrap());
        match threads {
            1 => sliding(&SingleThread, to, signals, window_view, slides, &table_stack, &buffer_stack),
            _ => sliding(&Threads(threads), to, signals, window_view, slides, &table_stack, &buffer_stack),
        }
        let have = numbers(&out);
        let start = (length - size) / 2;
        for row in 0..rows {
            for frequency in 0..length {
                for frame in 0..frames {
                    let want: Complex<f64> = (0..length).map(|k| {
                        let factor = match k.checked_sub(start) {
                            _ if !windowed => 1.0,
                            Some(k) if k < size => window[k],
                            _ => 0.0,
                        };
                        let root = Complex::cis(-TAU * (frequency * k) as f64 / length as f64);
                        root * signal[row * samples + frame * hop + k] * factor * 0.5
                    }).sum();
                    let at = ((row * length + frequency) * frames + frame) * 2;
                    let have = Complex::new(have[at], have[at + 1]);
                    prop_assert!((have - want).norm() < 1e-11, "{have} {want}");
                }
            }
        }
    }
}
