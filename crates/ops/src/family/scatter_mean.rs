//! The average of values that are scattered to the same element.
//!
//! Workspace: how many values each element has.

use super::scattering::at_least_1d;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::map::{fill_scalar, map2};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::scatter::{ScatterMode, scatter};
use cairn_tensor::{DType, Scalar, View, ViewMut, with_complex, with_real};

/// The number by which callers ask for averages.
const MEAN: i64 = 5;

/// Divides sums by the number of their terms.
pub(super) struct Average {
    counts: Scratch,
    /// Whether the initial value of an element is a term.
    includes_initial: bool,
}

impl Average {
    /// Present where the caller asks for averages. Indices: how values are combined, whether initial values take part.
    pub(super) fn read(
        call: &mut Call<'_>,
        [mode_at, initial_at]: [usize; 2],
        out: &Operand,
    ) -> Result<Option<Average>> {
        if !call.has(initial_at) || !matches!(call.arg(mode_at), Arg::Int(MEAN)) {
            return Ok(None);
        }
        if out.dtype == DType::Bool {
            let name = call.parameter(mode_at);
            return Err(Error::invalid(format!("{name} = {MEAN}: booleans have no average")));
        }
        let counts = call.scratch(DType::Int64, out.dims());
        Ok(Some(Average { counts, includes_initial: call.flag(initial_at)? }))
    }

    /// Divides the sums in `tensor`, whose terms were scattered by `index` along a dimension. Integers are rounded down.
    pub(super) fn divide(
        &self,
        memory: &Memory<'_>,
        tensor: ViewMut<'_>,
        dim: usize,
        index: View<'_>,
    ) {
        let counts = at_least_1d(memory.scratch(&self.counts));
        fill_scalar(memory.parallel, counts, Scalar::from(i64::from(self.includes_initial)));
        let one = Constant::of(Scalar::from(1), DType::Int64);
        let targets = IndexedView::along(counts.view(), dim, index, false);
        let one = one.view(index.dims());
        // Indices out of range were found when the values were scattered.
        let _ = scatter(memory.parallel, counts, &targets, one, ScatterMode::Add, index);
        let (sums, counts) = (tensor.view(), counts.view());
        match tensor.dtype() {
            dtype if dtype.is_complex() => with_complex!(dtype, C => {
                map2(memory.parallel, tensor, sums, counts, |sum: C, count: C| {
                    if count.re > 1.0 { sum / count.re } else { sum }
                });
            }),
            dtype if dtype.is_floating() => with_real!(dtype, C => {
                map2(memory.parallel, tensor, sums, counts, |sum: C, count: C| {
                    if count > C::ONE { sum.div(count) } else { sum }
                });
            }),
            _ => map2(memory.parallel, tensor, sums, counts, |sum: i64, count: i64| {
                if count > 1 { Number::div_floor(sum, count) } else { sum }
            }),
        }
    }
}
