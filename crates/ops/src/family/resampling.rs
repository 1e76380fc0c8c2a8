//! Dimensions made of others by weighted sums, one after the other: averages of windows, interpolation, and their
//! gradients.
//!
//! Workspace: for each dimension its sources and weights, and between two dimensions what the first has made, in the
//! type computed in.

use crate::call::Call;
use crate::plan::{Memory, Scratch};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::remap::remap;
use cairn_tensor::kernels::resample::resample;
use cairn_tensor::kernels::taps::{Table, TableBuffers, Taps};
use cairn_tensor::{DType, Dims, Layout, Scalar, View, ViewMut, with_real};
use smallvec::SmallVec;

/// One dimension: where its table is, and where its results go unless they are the last.
#[derive(Clone, Copy)]
struct Pass {
    dim: usize,
    taps: Taps,
    starts: Scratch,
    sources: Scratch,
    weights: Scratch,
    divisors: Scratch,
    results: Option<Scratch>,
}

/// Some dimensions of a tensor, made of others.
pub struct Resampling {
    passes: SmallVec<[Pass; 3]>,
    dtype: DType,
    backward: bool,
    is_empty: bool,
}

/// Some dimensions of a tensor, each of whose positions is one of another tensor.
pub struct Remapping {
    maps: SmallVec<[(usize, Taps, Scratch); 3]>,
}

impl Call<'_> {
    /// Plans weighted sums over a tensor of type and sizes `from`, along the dimensions of `steps`. `backward` is the
    /// gradient: it goes from outputs to inputs.
    pub fn resampling(
        &mut self,
        from: &Layout,
        steps: &[(usize, Taps)],
        backward: bool,
    ) -> Resampling {
        let dtype = if from.dtype == DType::Double { DType::Double } else { DType::Float };
        let sizes = |taps: &Taps| match backward {
            true => (taps.output, taps.input),
            false => (taps.input, taps.output),
        };
        let mut steps: SmallVec<[(usize, Taps); 3]> =
            { steps.iter() }.filter(|(_, taps)| !taps.is_identity()).copied().collect();
        let is_empty = from.count() == 0 || steps.iter().any(|(_, taps)| sizes(taps).1 == 0);
        if is_empty {
            return Resampling { passes: SmallVec::new(), dtype, backward, is_empty };
        }
        let ratio = |taps: &Taps| sizes(taps).1 as f64 / sizes(taps).0 as f64;
        steps.sort_by(|a, b| ratio(&a.1).total_cmp(&ratio(&b.1)));
        let (mut dims, last) = (Dims::new(from.dims()), steps.len());
        let mut passes = SmallVec::new();
        for (number, (dim, taps)) in steps.into_iter().enumerate() {
            let (results, pairs) = (sizes(&taps).1, taps.count());
            dims[dim] = results;
            passes.push(Pass {
                dim,
                taps,
                starts: self.scratch(DType::Int64, &[results.saturating_add(2)]),
                sources: self.scratch(DType::Int64, &[pairs]),
                weights: self.scratch(dtype, &[pairs]),
                divisors: self.scratch(dtype, &[results]),
                results: (number + 1 < last).then(|| self.scratch(dtype, &dims)),
            });
        }
        Resampling { passes, dtype, backward, is_empty }
    }

    /// Plans the moves of single elements along the dimensions of `steps`.
    pub fn remapping(&mut self, steps: &[(usize, Taps)]) -> Remapping {
        let mut maps = SmallVec::new();
        for (dim, taps) in steps.iter().filter(|(_, taps)| !taps.is_identity()) {
            maps.push((*dim, *taps, self.scratch(DType::Int64, &[taps.output])));
        }
        Remapping { maps }
    }
}

impl Resampling {
    /// Runs it from `a` to `out`, which share no memory.
    pub fn run(&self, memory: &Memory<'_>, out: ViewMut<'_>, a: View<'_>) {
        if self.is_empty {
            return fill_scalar(memory.parallel, out, Scalar::from(0));
        }
        if self.passes.is_empty() {
            return copy(memory.parallel, out, a);
        }
        with_real!(self.dtype, C => {
            let mut from = a;
            for pass in &self.passes {
                let [starts, sources, weights, divisors] =
                    [pass.starts, pass.sources, pass.weights, pass.divisors].map(|one| memory.scratch(&one));
                let buffers = TableBuffers { starts, sources, weights, divisors };
                let table = match self.backward {
                    true => Table::<C>::backward(&pass.taps, buffers),
                    false => Table::<C>::forward(&pass.taps, buffers),
                };
                let to = pass.results.map_or(out, |scratch| memory.scratch(&scratch));
                resample(memory.parallel, to, from, pass.dim, &table);
                from = to.view();
            }
        });
    }
}

impl Remapping {
    /// Runs it from `a` to `out`, which share no memory.
    pub fn run(&self, memory: &Memory<'_>, out: ViewMut<'_>, a: View<'_>) {
        if out.count() == 0 {
            return;
        }
        let mut maps: [Option<&[i64]>; cairn_tensor::MAX_DIMS] = [None; cairn_tensor::MAX_DIMS];
        for (dim, taps, scratch) in &self.maps {
            maps[*dim] = Some(taps.sources(memory.scratch(scratch)));
        }
        remap(memory.parallel, out, a, &maps[..a.rank()]);
    }
}
