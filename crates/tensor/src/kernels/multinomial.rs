//! Drawing from categories by their weights.

use super::philox::Philox;
use super::strip::{STRIP, load, store_one};
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Elements of a tree over this many weights.
pub fn tree_size(categories: usize) -> usize {
    2 * categories.next_power_of_two()
}

/// For each row of `weights` as many categories as a row of `out` has. `trees` is `f64` of rows by
/// [`tree_size`]. Without `replacement` no category comes twice. Rows are the first of two dimensions.
///
/// Fails with a sentence when weights are negative or not finite, or too few are above zero; `out` is then
/// undefined.
pub fn multinomial(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    weights: View<'_>,
    trees: ViewMut<'_>,
    replacement: bool,
    philox: Philox,
) -> Result<(), String> {
    let (rows, samples) = (out.dims()[0], out.dims()[1]);
    if rows > 0 && !trees.address().is_multiple_of(align_of::<f64>()) {
        return Err(format!("the workspace at {:#x} is not aligned", trees.address()));
    }
    let error = std::sync::Mutex::new(None);
    let least = (1 << 14) / trees.dims()[1].max(1) + 1;
    split(parallel, rows, 1, least, |range| {
        for row in range {
            // SAFETY: each row has a tree of its own, of the size that its weights need.
            let tree = unsafe {
                let size = trees.dims()[1];
                let first = trees.first_mut().cast::<f64>().add(row * size);
                std::slice::from_raw_parts_mut(first, size)
            };
            let result = build_tree(tree, &weights, row).and_then(|()| {
                let mut source = UniformSource::new(philox, (row * samples) as u64);
                for at in 0..samples {
                    let category =
                        pick(tree, source.next_unit(), replacement).ok_or_else(|| {
                            format!("row {row} has no weight above zero left for sample {at}")
                        })?;
                    let offset = row as isize * out.strides()[0] + at as isize * out.strides()[1];
                    // SAFETY: row and sample are inside `out`.
                    unsafe {
                        let to = out.first_mut().offset(offset * out.item() as isize);
                        store_one(out.dtype(), to, category as i64);
                    }
                }
                Ok(())
            });
            if let Err(text) = result {
                error.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(text);
            }
        }
    });
    error.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).map_or(Ok(()), Err)
}

/// Puts the weights of a row at the leaves; each node is the sum of its two children.
fn build_tree(tree: &mut [f64], weights: &View<'_>, row: usize) -> Result<(), String> {
    let (count, leaves) = (weights.dims()[1], tree.len() / 2);
    let strides = weights.strides();
    for (at, chunk) in tree[leaves..leaves + count].chunks_mut(STRIP).enumerate() {
        let offset = row as isize * strides[0] + (at * STRIP) as isize * strides[1];
        // SAFETY: the row has this many weights.
        unsafe {
            let from = weights.first().offset(offset * weights.item() as isize);
            load(weights.dtype(), from, strides[1], chunk);
        }
    }
    let bad_weight =
        tree[leaves..leaves + count].iter().position(|one| !(*one >= 0.0 && one.is_finite()));
    if let Some(at) = bad_weight {
        let value = tree[leaves + at];
        return Err(format!("the weight of category {at} in row {row} is {value}"));
    }
    tree[leaves + count..].fill(0.0);
    (1..leaves).rev().for_each(|at| tree[at] = tree[2 * at] + tree[2 * at + 1]);
    Ok(())
}

/// The category at this fraction of the total weight; without `replacement` it loses its weight.
fn pick(tree: &mut [f64], fraction: f64, replacement: bool) -> Option<usize> {
    if tree[1] <= 0.0 {
        return None;
    }
    let (leaves, mut at, mut rest) = (tree.len() / 2, 1, fraction * tree[1]);
    while at < leaves {
        at *= 2;
        if (rest >= tree[at] && tree[at + 1] > 0.0) || tree[at] <= 0.0 {
            rest -= tree[at];
            at += 1;
        }
    }
    let category = at - leaves;
    if !replacement {
        tree[at] = 0.0;
        while at > 1 {
            at /= 2;
            tree[at] = tree[2 * at] + tree[2 * at + 1];
        }
    }
    Some(category)
}

/// Random words that are generated at once.
const WORDS: usize = 64;

/// Numbers from 0 to below 1, one after the other.
struct UniformSource {
    philox: Philox,
    next: u64,
    words: [u32; WORDS],
}

impl UniformSource {
    fn new(philox: Philox, first: u64) -> UniformSource {
        let mut source = UniformSource { philox, next: first, words: [0; WORDS] };
        source.refill();
        source
    }

    /// Generates the words that the next number is in.
    fn refill(&mut self) {
        let word = self.next * 2;
        self.philox.fill(word - word % WORDS as u64, &mut self.words);
    }

    /// The next number.
    fn next_unit(&mut self) -> f64 {
        let at = self.next as usize * 2 % WORDS;
        if at == 0 {
            self.refill();
        }
        self.next += 1;
        let word = u64::from(self.words[at]) << 32 | u64::from(self.words[at + 1]);
        (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}
