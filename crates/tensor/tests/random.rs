//! Random tensors: their statistics at fixed seeds, and that seed, offset and position alone decide.

use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::multinomial::{multinomial, tree_size};
use cairn_tensor::kernels::philox::Philox;
use cairn_tensor::kernels::{dropout, random};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, View, ViewMut};
use std::cell::Cell;

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

const COUNT: usize = 200_000;

/// Bytes of zero.
fn bytes(count: usize) -> Vec<Cell<u8>> {
    vec![Cell::new(0); count]
}

/// The elements as `f64`.
fn numbers(view: View<'_>) -> Vec<f64> {
    let plain = bytes(view.count() * 8);
    let layout = Layout::contiguous(DType::Double, view.dims());
    copy(&SingleThread, ViewMut::over(&plain, layout).unwrap(), view);
    let plain: Vec<u8> = plain.iter().map(Cell::get).collect();
    plain.chunks_exact(8).map(|one| f64::from_ne_bytes(one.try_into().unwrap())).collect()
}

/// What `fill` writes to a tensor of this layout.
fn drawn(layout: Layout, fill: impl Fn(ViewMut<'_>)) -> Vec<f64> {
    let memory = bytes(layout.extent().unwrap().end as usize * layout.item());
    let out = ViewMut::over(&memory, layout).unwrap();
    fill(out);
    numbers(out.view())
}

/// One dimension of `COUNT` elements.
fn line(dtype: DType) -> Layout {
    Layout::contiguous(dtype, &[COUNT])
}

/// Mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
}

/// The largest distance between the distribution of the values and that expected, times the root of their
/// count: above 1.95 once in a thousand times.
fn kolmogorov_smirnov(mut values: Vec<f64>, expected: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let distance = values.iter().enumerate().map(|(at, x)| {
        let want = expected(*x);
        (want - at as f64 / count).abs().max((want - (at + 1) as f64 / count).abs())
    });
    distance.fold(0.0, f64::max) * count.sqrt()
}

/// The normal distribution function, by Simpson's rule from the middle: exact far beyond what the test can see.
fn normal_below(x: f64) -> f64 {
    let x = x.clamp(-9.0, 9.0);
    let steps = 200;
    let width = x / f64::from(steps);
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let inner: f64 = (1..steps)
        .map(|at| density(f64::from(at) * width) * if at % 2 == 1 { 4.0 } else { 2.0 })
        .sum();
    0.5 + (density(0.0) + inner + density(x)) * width / 3.0
}

#[test]
fn exponential_numbers() {
    for dtype in [DType::Float, DType::Float16, DType::Bf16] {
        let values = drawn(line(dtype), |out| {
            random::exponential(&Threads(2), out, Philox::new(7, 1), 2.0);
        });
        let (mean, variance) = moments(&values);
        assert!((mean - 0.5).abs() < 0.005 && (variance - 0.25).abs() < 0.01, "{mean} {variance}");
        assert!(values.iter().all(|x| *x >= 0.0 && x.is_finite()));
        if dtype == DType::Float {
            let sample = values.iter().step_by(10).copied().collect();
            let distance = kolmogorov_smirnov(sample, |x| 1.0 - (-2.0 * x).exp());
            assert!(distance < 1.95, "{distance}");
        }
    }
}

#[test]
fn normal_numbers() {
    for dtype in [DType::Float, DType::Double] {
        let values =
            drawn(line(dtype), |out| random::normal(&Threads(2), out, Philox::new(7, 1), 3.0, 2.0));
        let (mean, variance) = moments(&values);
        assert!((mean - 3.0).abs() < 0.02 && (variance - 4.0).abs() < 0.06, "{mean} {variance}");
        let plain: Vec<f64> = values.iter().map(|x| (x - 3.0) / 2.0).collect();
        assert!(plain.iter().any(|x| x.abs() > 4.0));
        let distance =
            kolmogorov_smirnov(plain.iter().step_by(10).copied().collect(), normal_below);
        assert!(distance < 1.95, "{dtype} {distance}");
        let products: f64 = plain.windows(2).map(|pair| pair[0] * pair[1]).sum();
        assert!((products / COUNT as f64).abs() < 0.01, "neighbours are alike: {products}");
    }
}

#[test]
fn uniform_numbers() {
    for dtype in [DType::Float, DType::Double, DType::Float16, DType::Bf16] {
        let values = drawn(line(dtype), |out| {
            random::uniform(&Threads(2), out, Philox::new(9, 0), 0.0, 1.0)
        });
        assert!(values.iter().all(|x| (0.0..1.0).contains(x)), "{dtype}");
        let (mean, variance) = moments(&values);
        assert!((mean - 0.5).abs() < 0.004 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean}");
        // Half types have too few values between 0 and 1 for this test.
        if matches!(dtype, DType::Float | DType::Double) {
            let distance = kolmogorov_smirnov(values, |x| x);
            assert!(distance < 1.95, "{dtype} {distance}");
        }
    }
    let values = drawn(line(DType::Float), |out| {
        random::uniform(&SingleThread, out, Philox::new(9, 0), -3.0, 5.0);
    });
    assert!((moments(&values).0 - 1.0).abs() < 0.02);
}

#[test]
fn integers() {
    let dice = |out: ViewMut<'_>| random::integers(&Threads(2), out, Philox::new(5, 5), -2, 6);
    let values = drawn(line(DType::Int64), dice);
    for face in -2..4 {
        let count = values.iter().filter(|x| **x == f64::from(face)).count() as f64;
        assert!((count / COUNT as f64 - 1.0 / 6.0).abs() < 0.004, "{face}: {count}");
    }
    let low = i64::MIN / 2;
    let many =
        |out: ViewMut<'_>| random::integers(&SingleThread, out, Philox::new(5, 5), low, 1 << 63);
    let values = drawn(line(DType::Int64), many);
    let unit = values.into_iter().map(|x| (x - low as f64) / 2f64.powi(63)).collect();
    assert!(kolmogorov_smirnov(unit, |x| x) < 1.95);
    let full_range =
        |out: ViewMut<'_>| random::integers(&SingleThread, out, Philox::new(5, 5), i64::MIN, 0);
    assert!(moments(&drawn(line(DType::Int64), full_range)).0.abs() < 1e17);
}

#[test]
fn probabilities() {
    for p in [0.0, 0.3, 1.0] {
        let fill = |out: ViewMut<'_>| random::bernoulli(&Threads(2), out, Philox::new(1, 2), p);
        let (mean, _) = moments(&drawn(line(DType::Bool), fill));
        assert!((mean - p).abs() < 0.005 * f64::from(u8::from(p != p.round())) + 1e-12);
    }
    let rising = bytes(COUNT * 4);
    for (at, four) in rising.chunks_exact(4).enumerate() {
        let value = (at as f32 / COUNT as f32).to_ne_bytes();
        four.iter().zip(value).for_each(|(cell, byte)| cell.set(byte));
    }
    let probabilities = View::over(&rising, line(DType::Float)).unwrap();
    let each = |out: ViewMut<'_>| {
        random::bernoulli_each(&Threads(2), out, Philox::new(1, 2), probabilities)
    };
    let values = drawn(line(DType::Float), each);
    for (at, part) in values.chunks(COUNT / 10).enumerate() {
        assert!((moments(part).0 - (at as f64 * 0.1 + 0.05)).abs() < 0.02);
    }
}

#[test]
fn seed_offset_and_position_decide() {
    let dims = [37, 50, 11];
    let plain = Layout::contiguous(DType::Float, &dims);
    let permuted =
        Layout::contiguous(DType::Float, &[11, 100, 37]).permuted(&[2, 1, 0]).sliced(1, 1, 50, 2);
    for draw in [
        (|parallel, out, philox| random::normal(parallel, out, philox, 0.0, 1.0))
            as fn(&dyn Parallel, ViewMut<'_>, Philox),
        |parallel, out, philox| random::uniform(parallel, out, philox, 0.0, 1.0),
        |parallel, out, philox| random::integers(parallel, out, philox, 0, 1000),
        |parallel, out, philox| random::bernoulli(parallel, out, philox, 0.5),
    ] {
        let values_of = |parallel: &dyn Parallel, layout, seed, offset| {
            drawn(layout, |out| draw(parallel, out, Philox::new(seed, offset)))
        };
        let first = values_of(&SingleThread, plain, 3, 40);
        assert_eq!(first, values_of(&Threads(3), plain, 3, 40));
        assert_eq!(first, values_of(&Threads(2), permuted, 3, 40));
        for other in [
            values_of(&SingleThread, plain, 4, 40),
            values_of(&SingleThread, plain, 3, 41),
            values_of(&SingleThread, plain, 3, 44),
        ] {
            let same = first.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < first.len() * 11 / 20, "{same} of {}", first.len());
        }
    }
}

#[test]
fn permutations() {
    let mut counts = [0usize; 10];
    for seed in 0..2000 {
        let values = drawn(Layout::contiguous(DType::Int64, &[10]), |out| {
            random::permutation(out, Philox::new(seed, 0))
        });
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, (0..10).map(f64::from).collect::<Vec<_>>());
        counts[values.iter().position(|x| *x == 3.0).unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| (140..260).contains(count)), "{counts:?}");
    let large = drawn(line(DType::Int64), |out| random::permutation(out, Philox::new(1, 1)));
    let fixed_points = large.iter().enumerate().filter(|(at, x)| *at as f64 == **x).count();
    assert!(fixed_points < 10, "{fixed_points}");
}

#[test]
fn masks_and_what_they_keep() {
    for (dims, keep) in
        [(vec![1000usize], 0.7), (vec![3, 333], 0.5), (vec![5], 1.0), (vec![130], 0.0)]
    {
        let count: usize = dims.iter().product();
        let mask_bytes = bytes(dropout::mask_bytes(count));
        assert_eq!(mask_bytes.len() % 16, 0);
        let mask =
            ViewMut::over(&mask_bytes, Layout::contiguous(DType::Uint8, &[mask_bytes.len()]))
                .unwrap();
        dropout::draw(&Threads(2), mask, count, Philox::new(11, 0), keep);
        let set: u32 = mask_bytes.iter().map(|byte| byte.get().count_ones()).sum();
        assert!((f64::from(set) / count as f64 - keep).abs() < 0.06);
        assert!(
            (count..mask_bytes.len() * 8)
                .all(|bit| mask_bytes[bit / 8].get() >> (bit % 8) & 1 == 0)
        );
        let twos: Vec<Cell<u8>> =
            (0..count).flat_map(|_| 2f32.to_ne_bytes()).map(Cell::new).collect();
        let permuted: Vec<usize> = dims.iter().rev().copied().collect();
        let order: Vec<usize> = (0..dims.len()).rev().collect();
        let x = View::over(&twos, Layout::contiguous(DType::Float, &permuted).permuted(&order))
            .unwrap();
        let outputs = drawn(Layout::contiguous(DType::Float16, &dims), |out| {
            dropout::apply::<f32>(&Threads(2), out, x, mask.view(), 1.5, false);
        });
        for (at, value) in outputs.iter().enumerate() {
            let bit = mask_bytes[at / 8].get() >> (at % 8) & 1;
            assert_eq!(*value, 3.0 * f64::from(bit));
        }
    }
}

/// Categories drawn from the same weights in each row.
fn sampled(
    weights: &[f64],
    rows: usize,
    samples: usize,
    replacement: bool,
    seed: u64,
) -> Result<Vec<f64>, String> {
    let count = weights.len();
    let weight_bytes: Vec<Cell<u8>> =
        (0..rows).flat_map(|_| weights).flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect();
    let weights =
        View::over(&weight_bytes, Layout::contiguous(DType::Double, &[rows, count])).unwrap();
    let workspace = bytes(rows * tree_size(count) * 8);
    let trees =
        ViewMut::over(&workspace, Layout::contiguous(DType::Double, &[rows, tree_size(count)]))
            .unwrap();
    let memory = bytes(rows * samples * 8);
    let out = ViewMut::over(&memory, Layout::contiguous(DType::Int64, &[rows, samples])).unwrap();
    multinomial(&Threads(2), out, weights, trees, replacement, Philox::new(seed, 0))?;
    Ok(numbers(out.view()))
}

#[test]
fn categories() {
    let weights = [1.0, 0.0, 2.0, 5.0];
    let values = sampled(&weights, 40, 1000, true, 1).unwrap();
    for (category, weight) in weights.iter().enumerate() {
        let count = values.iter().filter(|x| **x == category as f64).count() as f64;
        assert!((count / 40_000.0 - weight / 8.0).abs() < 0.01, "{category}: {count}");
    }
    let mut first = [0; 4];
    for row in sampled(&weights, 4000, 3, false, 2).unwrap().chunks(3) {
        let mut sorted = row.to_vec();
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, [0.0, 2.0, 3.0]);
        first[row[0] as usize] += 1;
    }
    assert!((2350..2650).contains(&first[3]), "{first:?}");
    assert!(sampled(&weights, 1, 4, false, 3).unwrap_err().contains("sample 3"));
    assert!(
        sampled(&[1.0, -1.0], 1, 1, true, 3).unwrap_err().contains("category 1 in row 0 is -1")
    );
    assert!(sampled(&[f64::NAN], 1, 1, true, 3).is_err());
}
