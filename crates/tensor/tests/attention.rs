//! Attention and its gradients against plain sums in `f64`.

use cairn_tensor::kernels::attention::{
    Attention, Gradients, Sizes, backward, backward_scratch, forward, forward_scratch,
};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, View, ViewMut};
use proptest::prelude::*;
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

/// Bytes of zero.
fn bytes(count: usize) -> Vec<Cell<u8>> {
    vec![Cell::new(0); count]
}

/// A tensor in memory of its own.
struct StoredTensor {
    bytes: Vec<Cell<u8>>,
    layout: Layout,
}

impl StoredTensor {
    /// With positions before heads in memory when `transposed`.
    fn new(
        dtype: DType,
        dims: [usize; 4],
        transposed: bool,
        f: impl Fn(usize) -> f64,
    ) -> StoredTensor {
        let [b, n, s, d] = dims;
        let layout = match transposed {
            true => Layout::contiguous(dtype, &[b, s, n, d]).transposed(1, 2),
            false => Layout::contiguous(dtype, &dims),
        };
        let stored = StoredTensor { bytes: bytes(layout.bytes()), layout };
        let plain: Vec<Cell<u8>> =
            (0..layout.count()).flat_map(|at| f(at).to_ne_bytes()).map(Cell::new).collect();
        let from = View::over(&plain, Layout::contiguous(DType::Double, &dims)).unwrap();
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
        let plain = bytes(self.layout.count() * 8);
        let to = Layout::contiguous(DType::Double, self.layout.dims());
        copy(&SingleThread, ViewMut::over(&plain, to).unwrap(), self.view());
        let plain: Vec<u8> = plain.iter().map(Cell::get).collect();
        plain.chunks_exact(8).map(|one| f64::from_ne_bytes(one.try_into().unwrap())).collect()
    }
}

/// Numbers from -1 to 1 that look random.
fn noise(seed: usize, at: usize) -> f64 {
    let mixed = (at * 2_654_435_761 + seed * 40_503 + 7).wrapping_mul(2_246_822_519) >> 7;
    (mixed % 2001) as f64 / 1000.0 - 1.0
}

/// Attention by plain sums in `f64`.
struct Plain<'a> {
    sizes: Sizes,
    q: &'a [f64],
    k: &'a [f64],
    v: &'a [f64],
    /// For each score: its shift, and whether it counts.
    shift: &'a dyn Fn(usize) -> f64,
    counts: &'a dyn Fn(usize, usize, usize) -> bool,
    factor: &'a dyn Fn(usize) -> f64,
    scale: f64,
}

impl Plain<'_> {
    /// The weights of one query.
    fn row(&self, head: usize, query: usize) -> Vec<f64> {
        let Sizes { keys, features, queries, .. } = self.sizes;
        let group = self.group(head);
        let scores: Vec<f64> = (0..keys)
            .map(|key| {
                let dot: f64 = (0..features)
                    .map(|at| {
                        self.q[(head * queries + query) * features + at]
                            * self.k[(group * keys + key) * features + at]
                    })
                    .sum();
                let index = (head * queries + query) * keys + key;
                match (self.counts)(head, query, key) {
                    true => (dot + (self.shift)(index)) * self.scale,
                    false => f64::NEG_INFINITY,
                }
            })
            .collect();
        let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if greatest == f64::NEG_INFINITY {
            return vec![0.0; keys];
        }
        let exponentials: Vec<f64> = scores.iter().map(|score| (score - greatest).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        exponentials.iter().map(|one| one / sum).collect()
    }

    /// The head of keys and values that a head of queries uses.
    fn group(&self, head: usize) -> usize {
        let Sizes { heads, groups, .. } = self.sizes;
        head / heads * groups + head % heads / (heads / groups)
    }

    fn forward(&self) -> Vec<f64> {
        let Sizes { batches, heads, queries, keys, width, .. } = self.sizes;
        let mut out = Vec::new();
        for head in 0..batches * heads {
            for query in 0..queries {
                let row = self.row(head, query);
                for at in 0..width {
                    out.push(
                        (0..keys)
                            .map(|key| {
                                let drop = (self.factor)((head * queries + query) * keys + key);
                                row[key]
                                    * drop
                                    * self.v[(self.group(head) * keys + key) * width + at]
                            })
                            .sum(),
                    );
                }
            }
        }
        out
    }

    /// The gradients of query, key and value. Their terms may cancel, so each comes with the sum of the sizes of its terms.
    fn backward(&self, grad: &[f64]) -> [Vec<Sum>; 3] {
        let Sizes { batches, heads, queries, keys, width, features, .. } = self.sizes;
        let mut to = [self.q, self.k, self.v].map(|of| vec![Sum::default(); of.len()]);
        for head in 0..batches * heads {
            let group = self.group(head);
            for query in 0..queries {
                let row = self.row(head, query);
                let grad = &grad[(head * queries + query) * width..][..width];
                let drop = |key: usize| (self.factor)((head * queries + query) * keys + key);
                let weight_grads: Vec<Sum> = (0..keys)
                    .map(|key| {
                        let values = &self.v[(group * keys + key) * width..][..width];
                        let mut sum = Sum::default();
                        grad.iter().zip(values).for_each(|(x, y)| sum.add(drop(key) * x * y));
                        sum
                    })
                    .collect();
                let mut delta = Sum::default();
                row.iter().zip(&weight_grads).for_each(|(x, y)| delta.add_scaled(*x, *y));
                for key in 0..keys {
                    let mut score_grad = Sum::default();
                    score_grad.add_scaled(row[key] * self.scale, weight_grads[key]);
                    score_grad.add_scaled(-row[key] * self.scale, delta);
                    for at in 0..features {
                        let (q, k) = (
                            (head * queries + query) * features + at,
                            (group * keys + key) * features + at,
                        );
                        to[0][q].add_scaled(self.k[k], score_grad);
                        to[1][k].add_scaled(self.q[q], score_grad);
                    }
                    for at in 0..width {
                        to[2][(group * keys + key) * width + at]
                            .add(row[key] * drop(key) * grad[at]);
                    }
                }
            }
        }
        to
    }
}

/// A sum, and the sum of the absolute values of its terms, which rounding errors follow.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    terms: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        self.add_scaled(term, Sum { value: 1.0, terms: 1.0 });
    }

    fn add_scaled(&mut self, factor: f64, of: Sum) {
        self.value += factor * of.value;
        self.terms += factor.abs() * of.terms;
    }
}

fn close(have: &[f64], want: &[f64], tolerance: f64) {
    within(have, want, tolerance * largest(want));
}

/// The greatest absolute value, at least 0.1.
fn largest(values: &[f64]) -> f64 {
    values.iter().fold(1e-1, |greatest: f64, x| greatest.max(x.abs()))
}

fn within(have: &[f64], want: &[f64], tolerance: f64) {
    for (at, (have, want)) in have.iter().zip(want).enumerate() {
        assert!((have - want).abs() <= tolerance, "at {at}: {have} instead of {want}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn as_plain_sums(
        (batches, groups, heads_of_group) in (1usize..3, 1usize..3, 1usize..3),
        (queries, keys) in prop_oneof![(1usize..80, 1usize..70), (100usize..300, 90usize..220)],
        (features, width) in prop_oneof![(1usize..9, 1usize..9), (1usize..70, 1usize..40)],
        dtype in prop::sample::select(vec![DType::Float, DType::Bf16, DType::Float16]),
        (transposed, shifted, masked, banded, dropping, has_stats) in any::<(bool, bool, bool, bool, bool, bool)>(),
        (low, high) in prop_oneof![(-20isize..5, -3isize..20), (-300isize..5, -3isize..150)],
        prefix in prop_oneof![Just(0usize), 1usize..200],
        threads in 1usize..4,
    ) {
        let heads = groups * heads_of_group;
        let sizes = Sizes { batches, heads, groups, queries, keys, features, width };
        let q = StoredTensor::new(dtype, [batches, heads, queries, features], transposed, |at| noise(1, at));
        let k = StoredTensor::new(dtype, [batches, groups, keys, features], transposed, |at| noise(2, at));
        let v = StoredTensor::new(dtype, [batches, groups, keys, width], transposed, |at| noise(3, at));
        let grad = StoredTensor::new(DType::Float, [batches, heads, queries, width], transposed, |at| noise(4, at));
        let shift = StoredTensor::new(dtype, [1, heads, queries, keys], false, |at| noise(5, at));
        let mask = StoredTensor::new(DType::Bool, [1, 1, queries, keys], false, |at| f64::from(u8::from(at % 3 == 1)));
        let score_dims = [batches, heads, queries, keys];
        let bits: Vec<Cell<u8>> = (0..batches * heads * queries * keys / 8 + 1).map(|at| Cell::new((at * 37 + 11) as u8)).collect();
        let keep_bits = View::over(&bits, Layout::contiguous(DType::Uint8, &[bits.len()])).unwrap();
        let prefixes = vec![prefix; batches];
        let broadcast = |one: &StoredTensor| one.layout.broadcast_to(&score_dims).unwrap();
        let task = Attention {
            query: q.view(),
            key: k.view(),
            value: v.view(),
            shift: shifted.then(|| View::over(&shift.bytes, broadcast(&shift)).unwrap()),
            shift_last: false,
            shift_by_distance: false,
            slopes: None,
            sink: None,
            mask: masked.then(|| View::over(&mask.bytes, broadcast(&mask)).unwrap()),
            band: banded.then_some((low, high)),
            prefixes: &prefixes,
            kept: dropping.then_some(keep_bits),
            first_kept: 0,
            keep: 0.5,
            scale: 0.7,
        };
        let parallel = Threads(threads);
        let scratch = Layout::contiguous(DType::Float, &forward_scratch(&sizes));
        let scratch_bytes = bytes(scratch.bytes());
        let out = StoredTensor::new(DType::Float, [batches, heads, queries, width], transposed, |_| f64::NAN);
        let greatest = StoredTensor::new(DType::Float, [batches, heads, queries, 8], false, |_| f64::NAN);
        let sums = StoredTensor::new(DType::Float, [batches, heads, queries, 8], false, |_| f64::NAN);
        forward(&parallel, &task, out.out(), Some(greatest.out()), Some(sums.out()), ViewMut::over(&scratch_bytes, scratch).unwrap());

        let shifts = shift.values();
        let plain = Plain {
            sizes,
            q: &q.values(),
            k: &k.values(),
            v: &v.values(),
            shift: &|at| if shifted { shifts[at % shifts.len()] } else { 0.0 },
            counts: &|_, query, key| {
                let distance = key as isize - query as isize;
                !(masked && (query * keys + key) % 3 == 1) && !(banded && (distance < low || distance > high) && key >= prefix)
            },
            factor: &|at| match dropping {
                true => 2.0 * f64::from(bits[at / 8].get() >> (at % 8) & 1),
                false => 1.0,
            },
            scale: 0.7,
        };
        close(&out.values(), &plain.forward(), 1e-5);
        prop_assert!(greatest.values().iter().chain(&sums.values()).all(|x| x.is_finite()));

        let scratch = Layout::contiguous(DType::Float, &backward_scratch(&sizes));
        let scratch_bytes = bytes(scratch.bytes());
        let to = [(heads, queries, features), (groups, keys, features), (groups, keys, width)]
            .map(|(n, s, d)| StoredTensor::new(DType::Float, [batches, n, s, d], transposed, |_| f64::NAN));
        let gradients = Gradients {
            grad: grad.view(),
            result: has_stats.then(|| out.view()),
            softmax_stats: has_stats.then(|| (greatest.view(), sums.view())),
            query: to[0].out(),
            key: to[1].out(),
            value: to[2].out(),
            sink: None,
        };
        backward(&parallel, &task, &gradients, ViewMut::over(&scratch_bytes, scratch).unwrap());
        for (have, want) in to.iter().zip(plain.backward(&grad.values())) {
            let (values, terms): (Vec<f64>, Vec<f64>) = want.iter().map(|sum| (sum.value, sum.terms)).unzip();
            within(&have.values(), &values, 2e-6 * largest(&terms));
        }
    }
}
