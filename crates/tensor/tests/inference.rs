//! Attention to a cache against plain sums in `f64`.

use cairn_tensor::kernels::attention::Slopes;
use cairn_tensor::kernels::attention::cache::{
    Blocks, Inference, Segment, Sequence, Store, Work, infer,
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

    /// The elements of a view of it, in order.
    fn values(&self, layout: Layout) -> Vec<f64> {
        let bytes = vec![Cell::new(0u8); layout.count() * 8];
        let dims = layout.dims().to_vec();
        let to = ViewMut::over(&bytes, Layout::contiguous(DType::Double, &dims)).unwrap();
        copy(&SingleThread, to, View::over(&self.bytes, layout).unwrap());
        let bytes: Vec<u8> = bytes.iter().map(Cell::get).collect();
        bytes.as_chunks::<8>().0.iter().map(|one| f64::from_ne_bytes(*one)).collect()
    }
}

/// Numbers that look random.
fn noise(seed: usize) -> impl Fn(usize) -> f64 {
    move |at| {
        let mut x = (at as u64 ^ (seed as u64) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x ^= x >> 29;
        x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^= x >> 32;
        (x % 4001) as f64 / 1000.0 - 2.0
    }
}

#[derive(Clone, Debug)]
struct Case {
    dtype: DType,
    groups: usize,
    shared: usize,
    features: usize,
    more: usize,
    width: usize,
    /// Queries and keys of each sequence.
    lengths: Vec<(usize, usize)>,
    /// Positions of a block, where the cache has pages, and whether features are in chunks.
    block: Option<usize>,
    chunked: bool,
    prefix: usize,
    causal: bool,
    shifted: bool,
    masked: bool,
    sloped: bool,
    sink: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let dtype = prop_oneof![Just(DType::Float), Just(DType::Float16), Just(DType::Bf16)];
    let sizes = (1usize..4, 1usize..20, 1usize..5, prop_oneof![Just(0usize), Just(16)], 1usize..5);
    let lengths = prop::collection::vec((0usize..40, 0usize..300), 1..4);
    let lengths = prop_oneof![lengths, prop::collection::vec((1usize..2, 0usize..300), 1..4)];
    let block = prop_oneof![Just(None), (1usize..5).prop_map(|n| Some(16 * n)), Just(Some(128))];
    (dtype, sizes, lengths, block, 0usize..40, any::<[bool; 6]>()).prop_map(
        |(dtype, sizes, lengths, block, prefix, flags)| {
            let (groups, shared, features, more, width) = sizes;
            let [chunked, causal, shifted, masked, sloped, sink] = flags;
            let (features, width) = (16 * features, 16 * width);
            let prefix = if block.is_some() { 0 } else { prefix };
            let chunked = chunked && block.is_some();
            #[rustfmt::skip]
            let case = Case {
                dtype, groups, shared, features, more, width, lengths, block, chunked, prefix, causal, shifted,
                masked, sloped, sink,
            };
            case
        },
    )
}

/// A token of each sequence, as in decoding, with sizes that no vector divides.
fn decode() -> impl Strategy<Value = Case> {
    let lengths = prop::collection::vec((Just(1usize), 0usize..420), 1..4);
    (case(), lengths, 1usize..10, 1usize..90, 1usize..150).prop_map(
        |(case, lengths, shared, features, width)| {
            let (features, width) = match case.chunked {
                true => (case.features, case.width),
                false => (features, width),
            };
            Case { lengths, shared, features, width, ..case }
        },
    )
}

/// A tensor as blocks, heads, chunks, positions and features.
fn cached(one: &Stored) -> View<'_> {
    let layout = if one.layout.rank() == 5 { one.layout } else { one.layout.with(2) };
    one.view().with_layout(layout).unwrap()
}

fn check(case: &Case) {
    let (heads, width) = (case.groups * case.shared, case.width);
    let all = case.features + case.more;
    let batches = case.lengths.len();
    let most_queries = case.lengths.iter().map(|one| one.0).max().unwrap().max(1);
    let most_keys = case.lengths.iter().map(|one| one.1).max().unwrap().max(1);
    let columns = case.prefix + most_keys;
    let query_dims = |features| [batches, heads, most_queries, features];
    let query = Stored::new(case.dtype, &query_dims(case.features), noise(1));
    let query_more = Stored::new(case.dtype, &query_dims(case.more), noise(2));
    // Blocks are handed out backwards, those of no sequence have numbers that would show.
    let (blocks, size) = match case.block {
        Some(size) => (batches * most_keys.div_ceil(size), size),
        None => (batches, most_keys),
    };
    let stored = |features: usize, seed| match case.chunked && features > 0 {
        true => {
            Stored::new(case.dtype, &[blocks, case.groups, features / 16, size, 16], noise(seed))
        }
        false => Stored::new(case.dtype, &[blocks, case.groups, size, features], noise(seed)),
    };
    let (key, key_more, value) = (stored(case.features, 3), stored(case.more, 4), stored(width, 5));
    let prefix = |features, seed| {
        Stored::new(case.dtype, &[1, case.groups, case.prefix.max(1), features], noise(seed))
    };
    let (prefix_key, prefix_more, prefix_value) =
        (prefix(case.features, 6), prefix(case.more, 7), prefix(width, 8));
    let table_row = most_keys.div_ceil(size).max(1);
    let table = Stored::new(DType::Int32, &[batches, table_row], |at| (blocks - 1 - at) as f64);
    let scores = [batches, heads, most_queries, columns];
    let shift = Stored::new(case.dtype, &scores, noise(9));
    let mask = Stored::new(DType::Bool, &scores, |at| f64::from(noise(10)(at) > 1.0));
    let slopes = Stored::new(DType::Float, &[heads], |at| 0.01 * (at + 1) as f64);
    let sink = Stored::new(DType::Bf16, &[heads], noise(11));
    let out = Stored::new(case.dtype, &query_dims(width), |_| 7.0);
    let logarithms = Stored::new(DType::Float, &query_dims(1), |_| 7.0);
    let view = |one| Some(cached(one));
    let flat = cached;
    let with_more = case.more > 0;
    let stores = [
        Store {
            key: [view(&key), if with_more { view(&key_more) } else { None }],
            value: [view(&value), None],
        },
        Store {
            key: [Some(flat(&prefix_key)), with_more.then(|| flat(&prefix_more))],
            value: [Some(flat(&prefix_value)), None],
        },
    ];
    let sequences: Vec<Sequence<'_>> = (case.lengths.iter().enumerate())
        .map(|(batch, (queries, keys))| {
            let mut segments = Vec::new();
            if case.prefix > 0 {
                segments.push(Segment { store: 1, blocks: Blocks::One(0, 0), length: case.prefix });
            }
            let blocks = match case.block {
                Some(_) => {
                    let row = table.layout.at(0, batch);
                    Blocks::Paged(table.view().with_layout(row).unwrap())
                }
                None => Blocks::One(batch, most_keys - keys),
            };
            segments.push(Segment { store: 0, blocks, length: *keys });
            let lead = (case.prefix + keys) as isize - *queries as isize;
            Sequence {
                batch,
                queries: most_queries - queries..most_queries,
                segments,
                first_column: 0,
                band: case.causal.then_some((-100, lead)),
            }
        })
        .collect();
    let task = Inference {
        query: [Some(query.view()), with_more.then(|| query_more.view())],
        stores: &stores,
        sequences: &sequences,
        shift: case.shifted.then(|| shift.view()),
        slopes: case.sloped.then(|| Slopes {
            factors: slopes
                .view()
                .with_layout(slopes.layout.broadcast_to(&[batches, heads]).unwrap())
                .unwrap(),
            rooted: false,
            lead: 2,
        }),
        mask: case.masked.then(|| mask.view()),
        sink: case.sink.then(|| sink.view()),
        scale: 0.25,
        out: out.out(),
        logarithms: Some(logarithms.out()),
    };
    let work = Work::new([heads, case.groups], [all, width], case.lengths.iter().map(|one| one.0));
    let scratch = Stored::new(DType::Float, work.scratch().as_ref(), |_| f64::NAN);
    infer(&Threads(2), &task, &work, scratch.out());

    let feature = |at: usize, group: usize, key_at: usize, batch: usize, side: usize| -> f64 {
        // side 0: keys, 1: more of them, 2: values
        let (main, shared) = match side {
            0 => (&key, &prefix_key),
            1 => (&key_more, &prefix_more),
            _ => (&value, &prefix_value),
        };
        let keys = case.lengths[batch].1;
        if key_at < case.prefix {
            let layout = shared.layout.at(3, at).at(2, key_at).at(1, group).at(0, 0);
            return shared.values(layout)[0];
        }
        let key_at = key_at - case.prefix;
        let (block, position) = match case.block {
            Some(size) => (blocks - 1 - (batch * table_row + key_at / size), key_at % size),
            None => (batch, most_keys - keys + key_at),
        };
        let layout = match case.chunked {
            true => {
                main.layout.at(4, at % 16).at(3, position).at(2, at / 16).at(1, group).at(0, block)
            }
            false => main.layout.at(3, at).at(2, position).at(1, group).at(0, block),
        };
        main.values(layout)[0]
    };
    let tolerance = match case.dtype {
        DType::Float => 2e-4,
        DType::Float16 => 4e-3,
        _ => 3e-2,
    };
    let at4 = |one: &Stored, at: [usize; 4]| {
        one.values(one.layout.at(3, at[3]).at(2, at[2]).at(1, at[1]).at(0, at[0]))[0]
    };
    for batch in 0..batches {
        let (queries, keys) = case.lengths[batch];
        let total = case.prefix + keys;
        for head in [0, heads - 1] {
            let group = head / case.shared;
            for position in 0..most_queries {
                let results: Vec<f64> =
                    (0..width).map(|at| at4(&out, [batch, head, position, at])).collect();
                if position < most_queries - queries {
                    assert!(
                        results.iter().all(|one| *one == 7.0),
                        "a query of no sequence is written"
                    );
                    continue;
                }
                if (position + head + batch) % 3 != 0 && queries > 1 {
                    continue;
                }
                let number = position - (most_queries - queries);
                let mut weights: Vec<(f64, usize)> = Vec::new();
                for key_at in 0..total {
                    let lead = total as isize - queries as isize;
                    let distance = key_at as isize - number as isize;
                    let banned = case.causal && !(-100..=lead).contains(&distance);
                    let hidden = case.masked && at4(&mask, [batch, head, position, key_at]) != 0.0;
                    if banned || hidden {
                        continue;
                    }
                    let mut score: f64 = (0..case.features)
                        .map(|at| {
                            at4(&query, [batch, head, position, at])
                                * feature(at, group, key_at, batch, 0)
                        })
                        .sum();
                    score += (0..case.more)
                        .map(|at| {
                            at4(&query_more, [batch, head, position, at])
                                * feature(at, group, key_at, batch, 1)
                        })
                        .sum::<f64>();
                    score *= 0.25;
                    if case.shifted {
                        score += at4(&shift, [batch, head, position, key_at]);
                    }
                    if case.sloped {
                        score -= 0.01 * (head + 1) as f64 * (distance + 2).unsigned_abs() as f64;
                    }
                    weights.push((score, key_at));
                }
                let sink = sink.values(sink.layout.at(0, head))[0];
                let sink = if case.sink { sink } else { f64::NEG_INFINITY };
                let greatest = weights.iter().map(|one| one.0).fold(sink, f64::max);
                let sum: f64 = weights.iter().map(|one| (one.0 - greatest).exp()).sum::<f64>()
                    + if case.sink { (sink - greatest).exp() } else { 0.0 };
                let logarithm = at4(&logarithms, [batch, head, position, 0]);
                if greatest == f64::NEG_INFINITY {
                    assert_eq!(logarithm, f64::INFINITY);
                    assert!(results.iter().all(|one| *one == 0.0));
                    continue;
                }
                assert!(
                    (logarithm - (greatest + sum.ln())).abs() < 1e-2,
                    "{logarithm} {greatest} {sum}"
                );
                for at in [0, width / 2, width - 1] {
                    let expected: f64 = (weights.iter())
                        .map(|(score, key_at)| {
                            (score - greatest).exp() / sum * feature(at, group, *key_at, batch, 2)
                        })
                        .sum();
                    let have = results[at];
                    assert!(
                        (have - expected).abs() < tolerance * (1.0 + expected.abs()),
                        "{have} {expected}"
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn attention_to_a_cache_is_the_plain_sum(case in case()) {
        check(&case);
    }

    #[test]
    fn decoding_is_the_plain_sum(case in decode()) {
        check(&case);
    }
}
