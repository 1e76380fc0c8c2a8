//! Transforms of lines and of sliding windows, against plain sums.

use cairn_tensor::kernels::fourier::{
    Lines, Slides, buffer_length, sliding, table_length, transform_lines,
};
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
    #[test]
    fn lines_are_sums_of_turns(
        length in 1usize..30,
        samples in 1usize..30,
        width in 1usize..30,
        rows in 1usize..4,
        is_inverse in any::<bool>(),
        is_half in any::<bool>(),
        is_real in any::<bool>(),
        is_across in any::<bool>(),
        threads in 1usize..4,
        seed in any::<u32>(),
    ) {
        let number = |at: usize| f64::from((at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 20) / 2048.0 - 1.0;
        let width = width.min(length);
        // Lines of two planes, which lie across their memory where `is_across`.
        let laid = |dtype: DType, size: usize| match is_across {
            false => Layout::contiguous(dtype, &[2, rows, size]),
            true => Layout::contiguous(dtype, &[2, size, rows]).transposed(1, 2),
        };
        let values: Vec<f64> = (0..2 * rows * samples * 2).map(number).collect();
        let dtype = if is_real { DType::Double } else { DType::Complex128 };
        let (from, out) = (cells(&values), cells(&vec![f64::NAN; 2 * rows * width * 2]));
        let input = View::over(&from, laid(DType::Complex128, samples)).unwrap();
        let to = ViewMut::over(&out, laid(dtype, width)).unwrap();
        let (table, buffers) =
            (aligned(table_length(length).unwrap()), aligned(threads * buffer_length(length).unwrap()));
        let tables = Stack::new(as_bytes(&table), 1, table.len()).unwrap();
        let spaces = Stack::new(as_bytes(&buffers), threads, buffers.len() / threads).unwrap();
        let lines = Lines { length, is_inverse, is_half, scale: 0.5 };
        transform_lines(&Threads(threads), to, input, lines, &tables, &spaces);
        let have = numbers(&out);
        let place = |line: usize, k: usize, size: usize| match is_across {
            false => line * size + k,
            true => (line / rows * size + k) * rows + line % rows,
        };
        for line in 0..2 * rows {
            let read = |k: usize| match k < samples {
                true => {
                    let at = place(line, k, samples) * 2;
                    Complex::new(values[at], values[at + 1])
                }
                false => Complex::default(),
            };
            let element = |k: usize| if is_half && k > length / 2 { read(length - k).conj() } else { read(k) };
            let sign = if is_inverse { TAU } else { -TAU };
            for w in 0..width {
                let turn = |k: usize| Complex::cis(sign * (w * k) as f64 / length as f64);
                let want: Complex<f64> = (0..length).map(|k| element(k) * turn(k) * 0.5).sum();
                let at = place(line, w, width);
                let near = match is_real {
                    true => (have[at] - want.re).abs() < 1e-11,
                    false => (Complex::new(have[at * 2], have[at * 2 + 1]) - want).norm() < 1e-11,
                };
                prop_assert!(near, "line {line}, {w}: {want}");
            }
        }
    }
}
