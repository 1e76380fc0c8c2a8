//! Reductions against a plain loop, over random sizes, strides and types.

use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::reduce::{Fold, ReductionDims, reduce};
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

/// Bytes that views can share.
fn cells(bytes: Vec<u8>) -> Vec<Cell<u8>> {
    bytes.into_iter().map(Cell::new).collect()
}

/// The numbers that the bytes hold.
fn numbers<const N: usize, T>(cells: &[Cell<u8>], from_bytes: fn([u8; N]) -> T) -> Vec<T> {
    let bytes: Vec<u8> = cells.iter().map(Cell::get).collect();
    bytes.chunks_exact(N).map(|bytes| from_bytes(bytes.try_into().unwrap())).collect()
}

/// Sizes, the order of dimensions in memory, the smallest stride, and which dimensions are reduced.
fn shape() -> impl Strategy<Value = (Vec<usize>, Vec<usize>, usize, Vec<bool>)> {
    (0usize..5).prop_flat_map(|rank| {
        let order = Just((0..rank).collect::<Vec<usize>>()).prop_shuffle();
        let sizes = prop::collection::vec(prop_oneof![9 => 1usize..7, 1 => 0usize..40], rank);
        (sizes, order, 1usize..3, prop::collection::vec(any::<bool>(), rank))
    })
}

/// The layout, and the elements that its storage has.
fn strided(sizes: &[usize], order: &[usize], step: usize, dtype: DType) -> (Layout, usize) {
    let mut strides = vec![0isize; sizes.len()];
    let mut next = step;
    for at in order.iter().rev() {
        strides[*at] = next as isize;
        next *= sizes[*at].max(1);
    }
    (Layout::strided(dtype, sizes, &strides, 0), next)
}

/// For each result, the offsets of the elements that are reduced to it, in order of positions.
fn groups(layout: &Layout, axes: &[bool]) -> Vec<Vec<usize>> {
    let rank = layout.rank();
    let dims = layout.dims();
    let results: usize = (0..rank).filter(|at| !axes[*at]).map(|at| dims[at]).product();
    let mut groups = vec![Vec::new(); results];
    for position in 0..layout.count() {
        let (mut rest, mut offset, mut group, mut scale) = (position, 0isize, 0, 1);
        for at in (0..rank).rev() {
            let index = rest % dims[at];
            rest /= dims[at];
            offset += index as isize * layout.strides()[at];
            if !axes[at] {
                group += index * scale;
                scale *= dims[at];
            }
        }
        groups[group].push(offset as usize);
    }
    groups
}

/// Reduces `a`, with partial results in memory of its own where there are any; the bytes of both outputs.
fn run<F: Fold, R: cairn_tensor::kernels::element::Compute>(
    parallel: &dyn Parallel,
    a: View<'_>,
    axes: &[bool],
    fold: F,
    finalize: impl Fn(F::Accumulator) -> (R, i64) + Sync,
    dtypes: (DType, DType),
) -> (Vec<Cell<u8>>, Vec<Cell<u8>>) {
    let dims = ReductionDims::new(a.layout(), axes);
    let layouts = [dtypes.0, dtypes.1].map(|dtype| Layout::contiguous(dtype, dims.kept()));
    let outputs = layouts.map(|layout| cells(vec![0xee; layout.bytes()]));
    let views = [0, 1].map(|at| ViewMut::over(&outputs[at], layouts[at]).unwrap());
    let partials = cells(vec![0xdd; dims.partials::<F>()]);
    let layout = Layout::contiguous(DType::Uint8, &[partials.len()]);
    let scratch = (!partials.is_empty()).then(|| ViewMut::over(&partials, layout).unwrap());
    reduce(parallel, a, &dims, fold, scratch, (views[0], Some(views[1])), finalize);
    let [first, second] = outputs;
    (first, second)
}

fn close(have: f64, want: f64, tolerance: f64) -> bool {
    have == want
        || (have.is_nan() && want.is_nan())
        || (have - want).abs() <= tolerance * want.abs().max(1.0)
}

proptest! {
    #[test]
    fn sums_and_variances((sizes, order, step, axes) in shape(), seed in any::<u64>()) {
        let (layout, count) = strided(&sizes, &order, step, DType::Float);
        let values: Vec<f32> =
            (0..count as u64).map(|i| (i.wrapping_mul(seed | 1) >> 40) as f32 / 1e6 - 8.0).collect();
        let bytes = cells(values.iter().flat_map(|x| x.to_ne_bytes()).collect());
        let a = View::over(&bytes, layout).unwrap();
        let groups = groups(&layout, &axes);
        for parallel in [&SingleThread as &dyn Parallel, &ReverseOrder] {
            let (sums, _) = run(parallel, a, &axes, fold::sum::<f32>(), |x| (x, 0), (DType::Float, DType::Int64));
            let (variance, _) = run(parallel, a, &axes, fold::moments::<f32>(), |m| (m.squares / m.count, 0), (DType::Double, DType::Int64));
            for ((group, sum), variance) in groups.iter().zip(numbers(&sums, f32::from_ne_bytes)).zip(numbers(&variance, f64::from_ne_bytes)) {
                let want: f64 = group.iter().map(|at| f64::from(values[*at])).sum();
                let magnitudes: f64 = group.iter().map(|at| f64::from(values[*at]).abs()).sum();
                prop_assert!((f64::from(sum) - want).abs() <= 1e-6 * magnitudes.max(1.0), "{} {}", sum, want);
                let mean = want / group.len() as f64;
                let squares: f64 = group.iter().map(|at| (f64::from(values[*at]) - mean).powi(2)).sum();
                prop_assert!(close(variance, squares / group.len() as f64, 1e-5), "{} {}", variance, squares);
            }
        }
    }

    #[test]
    fn extremes_and_indices((sizes, order, step, axes) in shape(), seed in any::<u64>(), with_nans in any::<bool>()) {
        let (layout, count) = strided(&sizes, &order, step, DType::Float16);
        let value = |i: u64| (i.wrapping_mul(seed | 1) >> 60) as f32 - 8.0;
        let values: Vec<f16> = (0..count as u64)
            .map(|i| if with_nans && i % 11 == 10 { f16::NAN } else { f16::from_f32(value(i)) })
            .collect();
        let bytes = cells(values.iter().flat_map(|x| x.to_bits().to_ne_bytes()).collect());
        let a = View::over(&bytes, layout).unwrap();
        let reduces_one_dim = axes.iter().filter(|axis| **axis).count() == 1;
        for greatest in [true, false] {
            let identity = |(value, at): (f32, i64)| (value, at);
            let (best, indices) = match greatest {
                true => run(&ReverseOrder, a, &axes, fold::arg_max::<f32>(), identity, (DType::Float16, DType::Int64)),
                false => run(&ReverseOrder, a, &axes, fold::arg_min::<f32>(), identity, (DType::Float16, DType::Int64)),
            };
            let best = numbers(&best, |b| f16::from_bits(u16::from_ne_bytes(b)).to_f32());
            let indices = numbers(&indices, i64::from_ne_bytes);
            for ((members, best), index) in groups(&layout, &axes).iter().zip(best).zip(indices) {
                if members.is_empty() {
                    prop_assert_eq!(index, -1);
                    continue;
                }
                let all: Vec<f32> = members.iter().map(|at| values[*at].to_f32()).collect();
                let beats = |x: f32, y: f32| (if greatest { x > y } else { x < y }) || (x.is_nan() && !y.is_nan());
                let mut first = 0;
                for (at, x) in all.iter().enumerate() {
                    if beats(*x, all[first]) {
                        first = at;
                    }
                }
                prop_assert!(best == all[first] || (best.is_nan() && all[first].is_nan()));
                if reduces_one_dim {
                    prop_assert_eq!(index, first as i64);
                }
            }
        }
    }

    #[test]
    fn booleans((sizes, order, step, axes) in shape(), seed in any::<u64>()) {
        let (layout, count) = strided(&sizes, &order, step, DType::Bool);
        let values: Vec<u8> = (0..count as u64).map(|i| u8::from(i.wrapping_mul(seed | 1) >> 62 == 0)).collect();
        let bytes = cells(values.clone());
        let a = View::over(&bytes, layout).unwrap();
        let any = fold::mapped(false, |x: bool| x, |a, b| a | b);
        let (any_set, _) = run(&SingleThread, a, &axes, any, |x| (x, 0), (DType::Bool, DType::Int64));
        let (sums, _) = run(&SingleThread, a, &axes, fold::sum::<i64>(), |x| (x, 0), (DType::Int64, DType::Int64));
        let sums = numbers(&sums, i64::from_ne_bytes);
        for ((group, any), sum) in groups(&layout, &axes).iter().zip(numbers(&any_set, u8::from_ne_bytes)).zip(sums) {
            let want: i64 = group.iter().map(|at| i64::from(values[*at])).sum();
            prop_assert_eq!(sum, want);
            prop_assert_eq!(any, u8::from(want > 0));
        }
    }
}

#[test]
fn long_sums_have_parts_and_stay_exact() {
    for dims in [vec![300_000], vec![40_000, 7], vec![700, 300], vec![3, 100_000]] {
        for axes in
            [vec![true; dims.len()], (0..dims.len()).map(|at| at == 0).collect::<Vec<bool>>()]
        {
            let layout = Layout::contiguous(DType::Float, &dims);
            let values: Vec<f32> = (0..layout.count()).map(|i| 0.1 + (i % 7) as f32).collect();
            let bytes = cells(values.iter().flat_map(|x| x.to_ne_bytes()).collect());
            let a = View::over(&bytes, layout).unwrap();
            let types = (DType::Float, DType::Int64);
            let (alone, _) = run(&SingleThread, a, &axes, fold::sum::<f32>(), |x| (x, 0), types);
            let (parallel, _) = run(&ReverseOrder, a, &axes, fold::sum::<f32>(), |x| (x, 0), types);
            assert_eq!(alone, parallel);
            for (group, sum) in
                groups(&layout, &axes).iter().zip(numbers(&alone, f32::from_ne_bytes))
            {
                let want: f64 = group.iter().map(|at| f64::from(values[*at])).sum();
                assert!(close(f64::from(sum), want, 3e-6), "{dims:?} {axes:?}: {sum} {want}");
            }
        }
    }
}

#[test]
fn nothing_is_read_of_an_expanded_tensor_without_elements() {
    for (dims, axes) in [
        (vec![0], vec![true]),
        (vec![0, 3], vec![true, true]),
        (vec![2, 0], vec![false, true]),
        (vec![0, 3], vec![true, false]),
    ] {
        let layout = Layout::strided(DType::Float, &dims, &vec![0; dims.len()], 0);
        let a = View::over(&[], layout).unwrap();
        let types = (DType::Float, DType::Int64);
        let (sums, _) = run(&SingleThread, a, &axes, fold::sum::<f32>(), |x| (x, 0), types);
        assert!(numbers(&sums, f32::from_ne_bytes).iter().all(|sum| *sum == 0.0));
        let (sums, _) = run(&SingleThread, a, &axes, fold::sum::<f64>(), |x| (x, 0), types);
        assert!(numbers(&sums, f32::from_ne_bytes).iter().all(|sum| *sum == 0.0));
    }
}

#[test]
fn parts_follow_the_documented_formula() {
    let split = |dims: &[usize], axes: &[bool]| {
        ReductionDims::new(&Layout::contiguous(DType::Float, dims), axes)
    };
    let sum = |split: ReductionDims| {
        fn bytes<F: Fold>(split: ReductionDims, _fold: F) -> usize {
            split.partials::<F>()
        }
        bytes(split, fold::sum::<f32>())
    };
    assert_eq!(sum(split(&[1 << 22], &[true])), 32 * 4);
    assert_eq!(sum(split(&[100_000], &[true])), 3 * 4);
    assert_eq!(sum(split(&[60_000], &[true])), 0);
    assert_eq!(sum(split(&[512, 8192], &[false, true])), 2 * 512 * 4);
    assert_eq!(sum(split(&[4096, 1024], &[true, false])), 0);
}
