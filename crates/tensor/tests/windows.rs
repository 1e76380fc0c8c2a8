//! Weighted sums along a dimension, moves, and the greatest elements of windows, against plain loops over random sizes and
//! strides.

use cairn_tensor::kernels::pool::{Plane, Windows, max_pool, read_mask, write_mask};
use cairn_tensor::kernels::remap::remap;
use cairn_tensor::kernels::resample::resample;
use cairn_tensor::kernels::taps::{
    Alignment, Divisor, Edge, Rule, Scaling, Table, TableBuffers, Taps,
};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, View, ViewMut};
use half::f16;
use proptest::prelude::*;
use std::cell::Cell;

/// Four parts at once, on one thread, the last first.
struct ReverseOrder;

impl Parallel for ReverseOrder {
    fn width(&self) -> usize {
        4
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..parts).rev().for_each(body);
    }
}

/// Memory that is aligned for every type.
struct AlignedMemory(Vec<Cell<u64>>);

impl AlignedMemory {
    fn new(bytes: usize) -> AlignedMemory {
        AlignedMemory(vec![Cell::new(0); bytes.div_ceil(8) + 1])
    }

    fn bytes(&self) -> &[Cell<u8>] {
        // SAFETY: eight cells of a byte in place of each cell of eight, for as long.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 8) }
    }
}

/// Writes the `at`-th value.
fn put<const N: usize>(bytes: &[Cell<u8>], at: usize, value: [u8; N]) {
    value.iter().enumerate().for_each(|(i, byte)| bytes[at * N + i].set(*byte));
}

fn floats(bytes: &[Cell<u8>], count: usize) -> Vec<f32> {
    (0..count)
        .map(|at| f32::from_le_bytes(std::array::from_fn(|i| bytes[at * 4 + i].get())))
        .collect()
}

fn scaling() -> impl Strategy<Value = Scaling> {
    let alignment =
        prop_oneof![Just(Alignment::Corners), Just(Alignment::Centres), Just(Alignment::Origins)];
    let factor = prop_oneof![Just(None), (0.3f64..3.0).prop_map(Some)];
    (alignment, factor, any::<bool>()).prop_map(|(alignment, factor, is_double)| Scaling {
        alignment,
        factor,
        is_double,
    })
}

fn taps() -> impl Strategy<Value = Taps> {
    let windows = (1usize..5, 1usize..4, 0usize..3, (0usize..3, 1usize..4)).prop_map(
        |(kernel, stride, before, (after, dilation))| Rule::Windows {
            kernel,
            stride,
            before: before.min(kernel / 2),
            after,
            dilation,
            divisor: Divisor::Padded,
        },
    );
    let edge = prop_oneof![
        Just(Edge::Reflect),
        Just(Edge::Symmetric),
        Just(Edge::Replicate),
        Just(Edge::Circular)
    ];
    let rule = prop_oneof![
        windows,
        Just(Rule::Parts),
        scaling().prop_map(Rule::Nearest),
        scaling().prop_map(Rule::NearestCentre),
        scaling().prop_map(Rule::Linear),
        scaling().prop_map(|scaling| Rule::Cubic(scaling, -0.75)),
        scaling().prop_map(Rule::SmoothLinear),
        scaling().prop_map(Rule::SmoothCubic),
        (-2i64..4, edge).prop_map(|(before, edge)| Rule::Padding(before, edge)),
    ];
    (rule, 1usize..9, 1usize..12).prop_map(|(rule, input, output)| Taps { rule, input, output })
}

/// The map written out: a row for each output.
fn matrix(taps: &Taps) -> Vec<Vec<f64>> {
    (0..taps.output)
        .map(|output| {
            let mut row = vec![0.0; taps.input];
            let divisor = taps.divisor(output);
            taps.each(output, |source, weight| {
                row[source] += if divisor == 0.0 { 0.0 } else { weight / divisor };
            });
            row
        })
        .collect()
}

/// A layout with gaps of `step` whose dimensions are in this order in memory, and the elements of its storage.
fn strided(dims: &[usize], order: &[usize], step: usize, dtype: DType) -> (Layout, usize) {
    let mut strides = vec![0isize; dims.len()];
    let mut next = step;
    for at in order.iter().rev() {
        strides[*at] = next as isize;
        next *= dims[*at];
    }
    (Layout::strided(dtype, dims, &strides, 0), next)
}

fn offset(layout: &Layout, position: &[usize]) -> usize {
    position.iter().zip(layout.strides()).map(|(at, stride)| at * *stride as usize).sum()
}

/// Calls `visit` with every position, in order.
fn each(dims: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut position = vec![0; dims.len()];
    for number in 0..dims.iter().product() {
        let mut rest = number;
        for at in (0..dims.len()).rev() {
            position[at] = rest % dims[at];
            rest /= dims[at];
        }
        visit(&position);
    }
}

fn table_memory(taps: &Taps, results: usize) -> [AlignedMemory; 4] {
    let pairs = taps.count();
    [8 * (results + 2), 8 * pairs, 4 * pairs, 4 * results].map(AlignedMemory::new)
}

fn table<'a>(
    taps: &Taps,
    memory: &'a [AlignedMemory; 4],
    results: usize,
    backward: bool,
) -> Table<'a, f32> {
    let line = |memory: &'a AlignedMemory, dtype, count| {
        ViewMut::over(memory.bytes(), Layout::contiguous(dtype, &[count])).unwrap()
    };
    let pairs = taps.count();
    let buffers = TableBuffers {
        starts: line(&memory[0], DType::Int64, results + 2),
        sources: line(&memory[1], DType::Int64, pairs),
        weights: line(&memory[2], DType::Float, pairs),
        divisors: line(&memory[3], DType::Float, results),
    };
    match backward {
        true => Table::backward(taps, buffers),
        false => Table::forward(taps, buffers),
    }
}

/// Lines that are compared piece by piece.
#[test]
fn greatest_of_windows_in_long_lines() {
    for (width, kernel, stride, before) in
        [(2500, 3, 1, 1), (2501, 3, 2, 1), (3000, 7, 3, 0), (1100, 400, 5, 9)]
    {
        let outputs = (width + 2 * before - kernel) / stride + 1;
        let (layout, out_layout) = (
            Layout::contiguous(DType::Float, &[1, 1, 1, 1, width]),
            Layout::contiguous(DType::Float, &[1, 1, 1, 1, outputs]),
        );
        let (memory, out) =
            (AlignedMemory::new(layout.bytes()), AlignedMemory::new(out_layout.bytes()));
        let value = |at: usize| ((at * 7919) % 1009) as f32;
        (0..width).for_each(|at| put(memory.bytes(), at, value(at).to_le_bytes()));
        let one = Windows::Sliding { kernel: 1, stride: 1, before: 0, dilation: 1 };
        let windows = [one, one, Windows::Sliding { kernel, stride, before, dilation: 1 }];
        let target = ViewMut::over(out.bytes(), out_layout).unwrap();
        max_pool(&SingleThread, target, None, View::over(memory.bytes(), layout).unwrap(), windows);
        for (at, have) in floats(out.bytes(), outputs).into_iter().enumerate() {
            let start = (at * stride).saturating_sub(before);
            let end = (at * stride + kernel - before).min(width);
            let want = (start..end).map(value).fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(have, want, "{at} of {outputs}");
        }
    }
}

proptest! {
    #[test]
    fn sums_along_a_dimension(
        taps in taps(),
        others in (1usize..4, 1usize..6),
        dim in 0usize..3,
        order in Just(vec![0usize, 1, 2]).prop_shuffle(),
        step in 1usize..3,
        half in any::<bool>(),
        backward in any::<bool>(),
    ) {
        let (from, to) = if backward { (taps.output, taps.input) } else { (taps.input, taps.output) };
        let mut dims = vec![others.0, others.1];
        dims.insert(dim, from);
        let mut results = dims.clone();
        results[dim] = to;
        let dtype = if half { DType::Float16 } else { DType::Float };
        let (layout, length) = strided(&dims, &order, step, dtype);
        let memory = AlignedMemory::new(length * layout.item());
        let value = |number: usize| ((number * 7 + 3) % 19) as f32 - 9.0;
        let mut number = 0;
        let mut values = Vec::new();
        each(&dims, |position| {
            let at = offset(&layout, position);
            match half {
                true => put(memory.bytes(), at, f16::from_f32(value(number)).to_le_bytes()),
                false => put(memory.bytes(), at, value(number).to_le_bytes()),
            }
            values.push(value(number));
            number += 1;
        });
        let (out_layout, out_length) = strided(&results, &order, 1, DType::Float);
        let out = AlignedMemory::new(out_length * 4);
        let buffers = table_memory(&taps, to);
        let table = table(&taps, &buffers, to, backward);
        let a = View::over(memory.bytes(), layout).unwrap();
        let target = ViewMut::over(out.bytes(), out_layout).unwrap();
        resample(if step == 1 { &SingleThread as &dyn Parallel } else { &ReverseOrder }, target, a, dim, &table);
        let have = floats(out.bytes(), out_length);
        let matrix = matrix(&taps);
        let packed = Layout::contiguous(DType::Float, &dims);
        let weight = |to: usize, from: usize| match backward {
            true => matrix[from][to],
            false => matrix[to][from],
        };
        let mut wrong = None;
        each(&results, |position| {
            let mut want = 0.0;
            for source in 0..from {
                let mut source_position = position.to_vec();
                source_position[dim] = source;
                want += weight(position[dim], source) * f64::from(values[offset(&packed, &source_position)]);
            }
            let got = f64::from(have[offset(&out_layout, position)]);
            if (got - want).abs() > 1e-3 {
                wrong = Some((position.to_vec(), got, want));
            }
        });
        prop_assert_eq!(wrong, None);
    }

    #[test]
    fn weights_of_interpolation_are_one_in_all(taps in taps()) {
        // With a factor, an antialiased window may lie outside of the input and have no weights.
        let has_factor = |scaling: Scaling| scaling.factor.is_some();
        let may_be_empty = matches!(taps.rule, Rule::SmoothLinear(s) | Rule::SmoothCubic(s) if has_factor(s));
        if !may_be_empty && !matches!(taps.rule, Rule::Windows { .. }) {
            for row in matrix(&taps) {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{:?}", row);
            }
        }
    }

    #[test]
    fn moves(sizes in (1usize..5, 1usize..6), output in 1usize..9, order in Just(vec![0usize, 1]).prop_shuffle(), before in 0i64..4) {
        let taps = Taps { rule: Rule::Padding(before, Edge::Symmetric), input: sizes.1, output };
        let (layout, length) = strided(&[sizes.0, sizes.1], &order, 2, DType::Int16);
        let memory = AlignedMemory::new(length * 2);
        each(&[sizes.0, sizes.1], |at| put(memory.bytes(), offset(&layout, at), ((at[0] * 100 + at[1]) as i16).to_le_bytes()));
        let out_layout = Layout::contiguous(DType::Int16, &[sizes.0, output]);
        let (out, indices) = (AlignedMemory::new(out_layout.bytes()), AlignedMemory::new(output * 8));
        let map = taps.sources(ViewMut::over(indices.bytes(), Layout::contiguous(DType::Int64, &[output])).unwrap());
        remap(&ReverseOrder, ViewMut::over(out.bytes(), out_layout).unwrap(), View::over(memory.bytes(), layout).unwrap(), &[None, Some(map)]);
        each(&[sizes.0, output], |at| {
            let byte = offset(&out_layout, at) * 2;
            let have = i16::from_le_bytes([out.bytes()[byte].get(), out.bytes()[byte + 1].get()]);
            assert_eq!(have as usize, at[0] * 100 + taps.source(at[1]).unwrap());
        });
    }

    #[test]
    fn greatest_of_windows(
        planes in (1usize..3, 1usize..4),
        input in [1usize..4, 1usize..8, 1usize..8],
        kernel in [1usize..3, 1usize..4, 1usize..4],
        stride in [1usize..3, 1usize..3, 1usize..3],
        dilation in 1usize..3,
        order in Just(vec![0usize, 1, 2, 3, 4]).prop_shuffle(),
        seed in 0usize..50,
    ) {
        let mut outputs = [0; 3];
        let mut windows = [Windows::Parts(1); 3];
        let mut before = [0; 3];
        for i in 0..3 {
            before[i] = kernel[i] / 2;
            let span = dilation * (kernel[i] - 1) + 1;
            prop_assume!(input[i] + 2 * before[i] >= span);
            outputs[i] = (input[i] + 2 * before[i] - span) / stride[i] + 1;
            windows[i] = Windows::Sliding { kernel: kernel[i], stride: stride[i], before: before[i], dilation };
        }
        let dims = [planes.0, planes.1, input[0], input[1], input[2]];
        let (layout, length) = strided(&dims, &order, 1, DType::Float);
        let memory = AlignedMemory::new(length * 4);
        let value = |at: &[usize]| {
            let number = at.iter().fold(seed, |sum, one| sum * 31 + one * 17 + 5) % 23;
            if number == 22 { f32::NAN } else { number as f32 - 11.0 }
        };
        each(&dims, |at| put(memory.bytes(), offset(&layout, at), value(at).to_le_bytes()));
        let results = [planes.0, planes.1, outputs[0], outputs[1], outputs[2]];
        let out_layout = Layout::contiguous(DType::Float, &results);
        let (out, index) = (AlignedMemory::new(out_layout.bytes()), AlignedMemory::new(out_layout.count() * 8));
        let view = |memory, dtype| ViewMut::over(memory, out_layout.with_dtype(dtype)).unwrap();
        max_pool(&ReverseOrder, view(out.bytes(), DType::Float), Some(view(index.bytes(), DType::Int64)), View::over(memory.bytes(), layout).unwrap(), windows);
        let have = floats(out.bytes(), out_layout.count());
        let plain = AlignedMemory::new(out_layout.bytes());
        max_pool(&ReverseOrder, view(plain.bytes(), DType::Float), None, View::over(memory.bytes(), layout).unwrap(), windows);
        for (have, plain) in have.iter().zip(floats(plain.bytes(), out_layout.count())) {
            assert!(*have == plain || (have.is_nan() && plain.is_nan()), "{have} {plain} without indices");
        }
        each(&results, |at| {
            let mut best: Option<(f32, usize)> = None;
            for d in 0..kernel[0] {
                for h in 0..kernel[1] {
                    for w in 0..kernel[2] {
                        let tap: Vec<i64> = [d, h, w].iter().enumerate()
                            .map(|(i, k)| (at[2 + i] * stride[i] + k * dilation) as i64 - before[i] as i64).collect();
                        if (0..3).any(|i| tap[i] < 0 || tap[i] >= input[i] as i64) {
                            continue;
                        }
                        let tap: Vec<usize> = tap.iter().map(|one| *one as usize).collect();
                        let x = value(&[at[0], at[1], tap[0], tap[1], tap[2]]);
                        let number = (tap[0] * input[1] + tap[1]) * input[2] + tap[2];
                        if best.is_none_or(|(old, _)| x > old || x.is_nan()) {
                            best = Some((x, number));
                        }
                    }
                }
            }
            let number = offset(&out_layout, at);
            let (want, best_index) = best.unwrap_or((f32::NEG_INFINITY, 0));
            assert_eq!(have[number].to_bits(), want.to_bits());
            let found = i64::from_le_bytes(std::array::from_fn(|i| index.bytes()[number * 8 + i].get()));
            assert_eq!(found as usize, best_index);
        });
    }

    #[test]
    fn masks_are_read_as_they_were_written(
        planes in (1usize..3, 1usize..3),
        input in [1usize..9, 1usize..9],
        kernel in [1usize..4, 1usize..4],
        stride in [1usize..3, 1usize..3],
    ) {
        let before = [kernel[0] / 2, kernel[1] / 2];
        let mut outputs = [0; 2];
        for i in 0..2 {
            prop_assume!(input[i] + 2 * before[i] >= kernel[i]);
            outputs[i] = (input[i] + 2 * before[i] - kernel[i]) / stride[i] + 1;
        }
        let plane = Plane { input, kernel, stride, before };
        let dims = [planes.0, planes.1, outputs[0], outputs[1]];
        let index_layout = Layout::contiguous(DType::Int32, &dims);
        let (index, index_again) = (AlignedMemory::new(index_layout.bytes()), AlignedMemory::new(index_layout.bytes()));
        each(&dims, |at| {
            let first = |i: usize| (at[2 + i] * stride[i]).saturating_sub(before[i]).min(input[i] - 1);
            put(index.bytes(), offset(&index_layout, at), ((first(0) * input[1] + first(1)) as i32).to_le_bytes());
        });
        let width = ((outputs[0] * outputs[1]).div_ceil(16) + 1) * 32;
        let mask_layout = Layout::contiguous(DType::Int8, &[planes.0, planes.1, kernel[0] * kernel[1], width]);
        let mask = AlignedMemory::new(mask_layout.bytes());
        write_mask(&ReverseOrder, ViewMut::over(mask.bytes(), mask_layout).unwrap(), View::over(index.bytes(), index_layout).unwrap(), plane);
        let found = ViewMut::over(index_again.bytes(), index_layout).unwrap();
        prop_assert!(read_mask(&SingleThread, found, View::over(mask.bytes(), mask_layout).unwrap(), plane));
        let bytes = |memory: &AlignedMemory| memory.bytes().iter().map(Cell::get).collect::<Vec<u8>>();
        prop_assert_eq!(bytes(&index), bytes(&index_again));
    }
}
