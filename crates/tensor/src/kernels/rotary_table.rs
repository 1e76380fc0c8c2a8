//! Rotary position embedding with cosines and sines from a table: a row for each position, cosines first.

use super::strip::{load, runs_here, store};
use crate::parallel::Parallel;
use crate::{Dims, View, ViewMut};

/// Workers at the same time, at most.
const WORKERS: usize = 8;

/// How the first features of each head are rotated; what follows them stays as it is.
pub struct TableRotation<'a> {
    /// Positions, features that are rotated.
    pub table: View<'a>,
    /// Pairs are half of the rotated features apart; otherwise they are neighbours.
    pub halves: bool,
    /// The row of the table for a token and a pair.
    pub row: &'a (dyn Fn(usize, usize) -> usize + Sync),
}

/// The sizes of the `f32` scratch that [`rotate_tokens`] needs for `tokens` with heads of so many features.
pub fn table_scratch(tokens: usize, features: usize) -> Dims {
    Dims::new(&[tokens.min(WORKERS), 2 * features])
}

/// Rotates every head of every token: tokens, heads, features. All rows are inside the table, whose rows are no longer than
/// the features.
pub fn rotate_tokens(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    x: View<'_>,
    rotation: &TableRotation<'_>,
    scratch: ViewMut<'_>,
) {
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    let [tokens, heads, features] = *x.dims() else { unreachable!("three dimensions") };
    let table = &rotation.table;
    let pairs = table.dims()[1] / 2;
    assert!(2 * pairs <= features, "rows of the table fit heads");
    let (workers, size) = (scratch.dims()[0], scratch.dims()[1]);
    let worker = |worker: usize| {
        // SAFETY: each worker has a row of the scratch of its own, which is aligned.
        let mine = unsafe {
            let first = scratch.first_mut().cast::<f32>().add(worker * size);
            std::slice::from_raw_parts_mut(first, size)
        };
        let (line, mine) = mine.split_at_mut(features);
        let (cos, sin) = mine[..2 * pairs].split_at_mut(pairs);
        for token in (worker..tokens).step_by(workers) {
            load_factors(rotation, token, cos, sin);
            for head in 0..heads {
                let offset = |view: &View<'_>| {
                    let strides = view.strides();
                    (token as isize * strides[0] + head as isize * strides[1])
                        * view.item() as isize
                };
                // SAFETY: the head is inside both views, and of the result nobody else writes it.
                unsafe {
                    load(x.dtype(), x.first().offset(offset(&x)), x.strides()[2], line);
                    rotate(&mut line[..2 * pairs], cos, sin, rotation.halves);
                    store(
                        out.dtype(),
                        out.first_mut().offset(offset(&out)),
                        out.strides()[2],
                        line,
                    );
                }
            }
        }
    };
    match workers {
        0 => (),
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

/// The cosines and sines of a token: neighbouring pairs with the same row are loaded at once.
fn load_factors(rotation: &TableRotation<'_>, token: usize, cos: &mut [f32], sin: &mut [f32]) {
    let table = &rotation.table;
    let (strides, item) = (table.strides(), table.item() as isize);
    let pairs = cos.len();
    let mut pair = 0;
    while pair < pairs {
        let row = (rotation.row)(token, pair);
        let same = (pair..pairs).take_while(|next| (rotation.row)(token, *next) == row).count();
        for (line, first) in [(&mut *cos, 0), (&mut *sin, pairs)] {
            let offset = row as isize * strides[0] + (first + pair) as isize * strides[1];
            // SAFETY: the row is inside the table.
            unsafe {
                let from = table.first().offset(offset * item);
                load(table.dtype(), from, strides[1], &mut line[pair..pair + same]);
            }
        }
        pair += same;
    }
}

/// Rotates the pairs of a line.
fn rotate(line: &mut [f32], cos: &[f32], sin: &[f32], halves: bool) {
    match halves {
        true => {
            let (first, second) = line.split_at_mut(cos.len());
            for at in 0..cos.len() {
                let (a, b) = (first[at], second[at]);
                first[at] = a * cos[at] - b * sin[at];
                second[at] = b * cos[at] + a * sin[at];
            }
        }
        false => {
            for (pair, (cos, sin)) in
                line.as_chunks_mut::<2>().0.iter_mut().zip(cos.iter().zip(sin))
            {
                let [a, b] = *pair;
                *pair = [a * cos - b * sin, b * cos + a * sin];
            }
        }
    }
}
