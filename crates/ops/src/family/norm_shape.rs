//! The shape of a tensor in batch norm and group norm: samples, groups, channels and positions.

use super::reduction_plan::Axes;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Operand;
use cairn_tensor::{Layout, View, ViewMut};

/// The shape of a tensor as samples, groups, channels of a group, and positions. Batch norm has one group for each channel
/// and takes its statistics over the samples too.
#[derive(Clone, Copy)]
pub struct NormShape {
    /// The sizes of the four.
    pub dims: [usize; 4],
    /// Statistics are taken over the samples too.
    pub batch: bool,
}

impl NormShape {
    /// The dimensions that statistics are taken over.
    pub fn axes(&self) -> Axes {
        Axes::new(&[self.batch, false, true, true])
    }

    /// Sizes of the statistics, with the dimensions that are reduced.
    pub fn statistics(&self) -> [usize; 4] {
        [if self.batch { 1 } else { self.dims[0] }, self.dims[1], 1, 1]
    }

    /// Sizes of weights and biases.
    pub fn channels(&self) -> [usize; 4] {
        [1, self.dims[1], self.dims[2], 1]
    }

    /// Sizes of scales and shifts.
    pub fn scales(&self) -> [usize; 4] {
        let [samples, groups, channels, _] = self.dims;
        [if self.batch { 1 } else { samples }, groups, channels, 1]
    }

    /// How many elements each statistic is computed from.
    pub fn count(&self) -> usize {
        self.dims
            .iter()
            .zip(self.axes().iter())
            .filter(|(_, axis)| **axis)
            .map(|(n, _)| n)
            .product()
    }
}

/// Reads a [`NormShape`]. Arguments from `at` on: samples, channels, positions, groups; only the groups, the others
/// being absent; or -1 as the first, for batch norm.
pub fn norm_shape(call: &Call<'_>, at: usize, x: (usize, &Layout)) -> Result<NormShape> {
    let dims = x.1.dims();
    let wrong =
        |why: String| Err(Error::invalid(format!("{} {dims:?} {why}", call.parameter(x.0))));
    let mut numbers = [0usize; 4];
    if !call.has(at) || call.int(at)? < 0 {
        let [samples, channels, positions @ ..] = dims else {
            return wrong("has no dimension of channels".into());
        };
        let positions = positions.iter().product();
        if call.has(at) {
            return Ok(NormShape { dims: [*samples, *channels, 1, positions], batch: true });
        }
        numbers = [*samples, *channels, positions, 0];
    }
    let range = if call.has(at) { 0..4 } else { 3..4 };
    for i in range {
        numbers[i] = usize::try_from(call.int(at + i)?).unwrap_or(usize::MAX);
    }
    let [samples, channels, positions, groups] = numbers;
    let product = samples.checked_mul(channels).and_then(|n| n.checked_mul(positions));
    if product != Some(x.1.count()) {
        return wrong(format!(
            "is not {samples} samples of {channels} channels of {positions} positions"
        ));
    }
    let sizes = [samples, groups, positions].map(|size| size.max(1));
    let fits = sizes.into_iter().try_fold(1, usize::checked_mul).is_some();
    if groups == 0 || !fits || channels % groups != 0 {
        return wrong(format!("has {channels} channels, which {groups} groups cannot share"));
    }
    Ok(NormShape { dims: [samples, groups, channels / groups, positions], batch: false })
}

/// A tensor reshaped to these sizes; fails where that needs a copy, or the numbers of elements differ.
pub fn reshaped(call: &Call<'_>, at: usize, operand: Operand, dims: &[usize]) -> Result<Operand> {
    operand.reshaped(dims).map(|layout| operand.with_layout(layout)).ok_or_else(|| {
        let (name, layout) = (call.parameter(at), *operand.layout());
        let (strides, count) = (layout.strides(), dims.iter().product::<usize>());
        Error::invalid(format!(
            "{name} ({layout}, strides {strides:?}) is no row of {count} numbers"
        ))
    })
}

/// An input of these sizes, if it is there.
pub fn optional(call: &mut Call<'_>, at: usize, dims: &[usize]) -> Result<Option<Operand>> {
    call.optional(at)?.map(|one| reshaped(call, at, one, dims)).transpose()
}

/// An output of these sizes, if it is there and has elements.
pub fn optional_output(call: &mut Call<'_>, at: usize, dims: &[usize]) -> Result<Option<Operand>> {
    let out = call.optional_output(at)?.filter(|one| one.count() > 0);
    out.map(|one| reshaped(call, at, one, dims)).transpose()
}

/// A view broadcast to these sizes.
pub fn broadcast_to<'v>(view: View<'v>, dims: &[usize; 4]) -> View<'v> {
    view.with_layout(view.broadcast_to(dims).expect("sizes were checked"))
        .expect("the same elements")
}

/// A view without the dimensions that were reduced, whose size is 1.
pub fn squeeze_reduced<'v>(view: ViewMut<'v>, axes: &Axes) -> ViewMut<'v> {
    let mut layout = *view.layout();
    for at in (0..axes.len()).rev().filter(|at| axes[*at]) {
        layout = layout.without(at);
    }
    view.with_layout(layout).expect("the same elements")
}
