//! Resampling by weighted sums, one dimension after the other: averages of windows, interpolation, and their gradients.
//!
//! Workspace: for each dimension the table of its weights, and the results of all dimensions but the last, in the type
//! computed in.

use crate::call::Call;
use crate::plan::{Memory, Scratch};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::remap::remap;
use cairn_tensor::kernels::resample::resample;
use cairn_tensor::kernels::taps::{Table, TableBuffers, Taps};
use cairn_tensor::{DType, Dims, Layout, Scalar, View, ViewMut, with_real};
use smallvec::SmallVec;

/// The resampling of one dimension: its table, and where its results go unless they are the last.
#[derive(Clone, Copy)]
struct DimStep {
    dim: usize,
    taps: Taps,
    starts: Scratch,
    sources: Scratch,
    weights: Scratch,
    divisors: Scratch,
    results: Option<Scratch>,
}

/// A planned resampling of some dimensions of a tensor.
pub struct Resampling {
    dim_steps: SmallVec<[DimStep; 3]>,
    dtype: DType,
    backward: bool,
    is_empty: bool,
}

/// A planned copy in which each position of some dimensions is one position of another tensor.
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
            return Resampling { dim_steps: SmallVec::new(), dtype, backward, is_empty };
        }
        let ratio = |taps: &Taps| sizes(taps).1 as f64 / sizes(taps).0 as f64;
        steps.sort_by(|a, b| ratio(&a.1).total_cmp(&ratio(&b.1)));
        let (mut dims, last) = (Dims::new(from.dims()), steps.len());
        let mut dim_steps = SmallVec::new();
        for (number, (dim, taps)) in steps.into_iter().enumerate() {
            let (results, pairs) = (sizes(&taps).1, taps.count());
            dims[dim] = results;
            dim_steps.push(DimStep {
                dim,
                taps,
                starts: self.scratch(DType::Int64, &[results.saturating_add(2)]),
                sources: self.scratch(DType::Int64, &[pairs]),
                weights: self.scratch(dtype, &[pairs]),
                divisors: self.scratch(dtype, &[results]),
                results: (number + 1 < last).then(|| self.scratch(dtype, &dims)),
            });
        }
        Resampling { dim_steps, dtype, backward, is_empty }
    }

    /// Plans copies of single elements along the dimensions of `steps`.
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
        if self.dim_steps.is_empty() {
            return copy(memory.parallel, out, a);
        }
        with_real!(self.dtype, C => {
            let mut from = a;
            for step in &self.dim_steps {
                let [starts, sources, weights, divisors] =
                    [step.starts, step.sources, step.weights, step.divisors].map(|one| memory.scratch(&one));
                let buffers = TableBuffers { starts, sources, weights, divisors };
                let table = match self.backward {
                    true => Table::<C>::backward(&step.taps, buffers),
                    false => Table::<C>::forward(&step.taps, buffers),
                };
                let target = step.results.map_or(out, |scratch| memory.scratch(&scratch));
                resample(memory.parallel, target, from, step.dim, &table);
                from = target.view();
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
