//! Rows of tokens in paged caches, against plain loops.

use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::pages::{
    PlaceOf, RowSteps, RowTargets, make_rows, put_rows, row_scratch, take_rows,
};
use cairn_tensor::kernels::rotary::Rotation;
use cairn_tensor::kernels::rotary_table::{TableRotation, rotate_tokens, table_scratch};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;

/// A thread for each part.
struct Threads;

impl Parallel for Threads {
    fn width(&self) -> usize {
        3
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            (0..parts).for_each(|part| drop(scope.spawn(move || body(part))));
        });
    }
}

/// A tensor in memory of its own.
struct Stored {
    bytes: Vec<Cell<u8>>,
    layout: Layout,
}

impl Stored {
    fn new(dtype: DType, dims: &[usize], f: impl Fn(usize) -> f64) -> Stored {
        let layout = Layout::contiguous(dtype, dims);
        let stored = Stored { bytes: vec![Cell::new(0); layout.bytes().max(1)], layout };
        let plain: Vec<Cell<u8>> =
            (0..layout.count()).flat_map(|at| f(at).to_ne_bytes()).map(Cell::new).collect();
        let from = View::over(&plain, Layout::contiguous(DType::Double, dims)).unwrap();
        copy(&SingleThread, stored.out(), from);
        stored
    }

    fn view(&self) -> View<'_> {
        View::over(&self.bytes, self.layout).unwrap()
    }

    fn out(&self) -> ViewMut<'_> {
        ViewMut::over(&self.bytes, self.layout).unwrap()
    }

    fn values(&self) -> Vec<f64> {
        let bytes = vec![Cell::new(0u8); self.layout.count() * 8];
        let dims = self.layout.dims().to_vec();
        let to = ViewMut::over(&bytes, Layout::contiguous(DType::Double, &dims)).unwrap();
        copy(&SingleThread, to, self.view());
        let bytes: Vec<u8> = bytes.iter().map(Cell::get).collect();
        bytes.as_chunks::<8>().0.iter().map(|one| f64::from_ne_bytes(*one)).collect()
    }
}

/// Numbers that look random.
fn noise(seed: usize) -> impl Fn(usize) -> f64 {
    move |at| ((at * 7919 + seed * 104_729 + 13) % 997) as f64 / 250.0 - 2.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_go_to_their_slots_and_back(
        (tokens, heads, chunks) in (1usize..40, 1usize..4, 1usize..4),
        (blocks, size) in (1usize..5, 1usize..9),
        chunked in any::<bool>(),
        dtype in prop_oneof![Just(DType::Float), Just(DType::Float16), Just(DType::Int8)],
    ) {
        let (inner, slots) = (4, blocks * size);
        let features = chunks * inner;
        let rows = Stored::new(dtype, &[1, tokens, heads, features], noise(1));
        let pages = match chunked {
            true => Stored::new(dtype, &[blocks, heads, chunks, size, inner], noise(2)),
            false => Stored::new(dtype, &[blocks, size, heads, features], noise(2)),
        };
        let layout = match chunked {
            true => pages.layout,
            false => pages.layout.permuted(&[0, 2, 1, 3]).with(2),
        };
        // Every third token has no place, and no two have the same.
        let slot = |token: usize| (token % 3 != 2 && token < slots).then(|| slots - 1 - token);
        let place: &PlaceOf<'_> = &|_, token| slot(token).map(|slot| (slot / size, slot % size));
        let before = pages.values();
        put_rows(&Threads, pages.out().with_layout(layout).unwrap(), rows.view(), place);
        let (have, given) = (pages.values(), rows.values());
        for at in 0..slots {
            for head in 0..heads {
                for feature in 0..features {
                    let (block, position) = (at / size, at % size);
                    let offset = match chunked {
                        true => ((((block * heads + head) * chunks + feature / inner) * size) + position) * inner + feature % inner,
                        false => ((block * size + position) * heads + head) * features + feature,
                    };
                    let token = slots - 1 - at;
                    let want = match token < tokens && slot(token).is_some() {
                        true => given[(token * heads + head) * features + feature],
                        false => before[offset],
                    };
                    prop_assert_eq!(have[offset], want);
                }
            }
        }
        let back = Stored::new(dtype, &[1, tokens, heads, features], |_| 0.0);
        take_rows(&Threads, back.out(), pages.view().with_layout(layout).unwrap(), place);
        for (at, (have, want)) in back.values().iter().zip(&given).enumerate() {
            let has_place = slot(at / (heads * features)).is_some();
            prop_assert_eq!(*have, if has_place { *want } else { 0.0 });
        }
    }

    #[test]
    fn rows_are_normalised_and_rotated(
        (batches, positions, heads, pairs) in (1usize..3, 1usize..20, 1usize..4, 1usize..9),
        (has_norm, has_rotation, halves) in any::<(bool, bool, bool)>(),
    ) {
        let features = 2 * pairs;
        let dims = [batches, positions, heads, features];
        let rows = Stored::new(DType::Float, &dims, noise(1));
        let gamma = Stored::new(DType::Float16, &[features], noise(2));
        let cos = Stored::new(DType::Float, &[batches, positions, features], noise(3));
        let sin = Stored::new(DType::Float, &[batches, positions, features], noise(4));
        let out = Stored::new(DType::Float, &dims, |_| 0.0);
        let kind = if halves { Rotation::Half } else { Rotation::InterleaveHalf };
        let steps = RowSteps {
            norm: has_norm.then(|| (gamma.view(), 0.5)),
            factor: 1.5,
            rotation: has_rotation.then(|| (kind, cos.view(), sin.view())),
        };
        let scratch = Stored::new(DType::Float, row_scratch(&dims).as_ref(), |_| f64::NAN);
        let targets = RowTargets { plain: Some(out.out()), pages: None };
        make_rows(&Threads, rows.view(), &steps, &targets, scratch.out());
        let (given, have) = (rows.values(), out.values());
        let (gamma, cos, sin) = (gamma.values(), cos.values(), sin.values());
        for row in 0..batches * positions * heads {
            let mut line: Vec<f64> = given[row * features..][..features].to_vec();
            if has_norm {
                let mean = line.iter().map(|x| x * x).sum::<f64>() / features as f64;
                line.iter_mut().zip(&gamma).for_each(|(x, g)| *x *= g / (mean + 0.5).sqrt());
            }
            line.iter_mut().for_each(|x| *x *= 1.5);
            if has_rotation {
                let line_at = |at: usize| match halves {
                    true => line[at],
                    false if at < pairs => line[2 * at],
                    false => line[2 * (at - pairs) + 1],
                };
                let first = row / heads * features;
                line = (0..features)
                    .map(|at| {
                        let partner = if at < pairs { -line_at(at + pairs) } else { line_at(at - pairs) };
                        line_at(at) * cos[first + at] + partner * sin[first + at]
                    })
                    .collect();
            }
            for (have, want) in have[row * features..].iter().zip(&line) {
                prop_assert!((have - want).abs() < 1e-4 * (1.0 + want.abs()), "{} {}", have, want);
            }
        }
    }

    #[test]
    fn tokens_are_rotated_by_a_table(
        (tokens, heads, pairs, more) in (1usize..20, 1usize..4, 1usize..9, 0usize..5),
        halves in any::<bool>(),
    ) {
        let features = 2 * pairs + more;
        let x = Stored::new(DType::Float, &[tokens, heads, features], noise(1));
        let table = Stored::new(DType::Float, &[11, 2 * pairs], noise(2));
        let out = Stored::new(DType::Float, &[tokens, heads, features], |_| 0.0);
        let row = |token: usize, pair: usize| (token * 5 + pair / 3) % 11;
        let rotation = TableRotation { table: table.view(), halves, row: &row };
        let scratch = Stored::new(DType::Float, table_scratch(tokens, features).as_ref(), |_| f64::NAN);
        rotate_tokens(&Threads, out.out(), x.view(), &rotation, scratch.out());
        let (given, have, table) = (x.values(), out.values(), table.values());
        for token in 0..tokens {
            for head in 0..heads {
                let first = (token * heads + head) * features;
                for pair in 0..pairs {
                    let row = row(token, pair) * 2 * pairs;
                    let (cos, sin) = (table[row + pair], table[row + pairs + pair]);
                    let (a, b) = if halves { (pair, pair + pairs) } else { (2 * pair, 2 * pair + 1) };
                    let (x, y) = (given[first + a], given[first + b]);
                    prop_assert!((have[first + a] - (x * cos - y * sin)).abs() < 1e-5);
                    prop_assert!((have[first + b] - (y * cos + x * sin)).abs() < 1e-5);
                }
                for at in 2 * pairs..features {
                    prop_assert_eq!(have[first + at], given[first + at]);
                }
            }
        }
    }
}
