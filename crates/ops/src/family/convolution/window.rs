//! How the windows of a convolution are placed: strides, padding, dilations and groups, read and checked.

use crate::call::Call;
use crate::error::{Error, Result};
use cairn_tensor::kernels::conv::{Axis, Class, classes};
use cairn_tensor::{DType, Layout};

/// The types that convolutions take.
pub const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];
/// The most groups that a call may have.
const MAX_GROUPS: i64 = 65535;

/// The windows of a convolution from its larger side (the input, or the output of a transposed one) to its smaller side, along
/// three axes. Where there are fewer, the first ones have a stride of 1 and no padding.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// How many axes there are.
    pub axes: usize,
    /// Between neighbouring windows.
    pub stride: [i64; 3],
    /// Between neighbouring taps.
    pub dilation: [i64; 3],
    /// The padding before and after the larger side.
    pub padding: [(i64, i64); 3],
    /// What the larger side has beyond the last window.
    pub output_padding: [i64; 3],
    /// Groups of channels.
    pub groups: usize,
}

/// Numbers for each axis, at least `least` and less than 2^31; `rest` for the axes that are not there.
fn numbers_of_axes(
    call: &Call<'_>,
    at: usize,
    values: &[i64],
    least: i64,
    rest: i64,
) -> Result<[i64; 3]> {
    if values.iter().any(|one| !(least..=i64::from(i32::MAX)).contains(one)) {
        let name = call.parameter(at);
        return Err(Error::invalid(format!(
            "{name} = {values:?}: expected numbers from {least} to 2147483647"
        )));
    }
    let mut all = [rest; 3];
    all[3 - values.len()..].copy_from_slice(values);
    Ok(all)
}

/// Fails unless a list has one of these lengths.
fn expect_length(call: &Call<'_>, at: usize, values: &[i64], allowed: &[usize]) -> Result<()> {
    if allowed.contains(&values.len()) {
        return Ok(());
    }
    let (name, have) = (call.parameter(at), values.len());
    Err(Error::invalid(format!("{name} = {values:?} has {have} numbers: expected {allowed:?}")))
}

/// A list with a number for each axis.
pub fn axis_numbers(
    call: &Call<'_>,
    at: usize,
    axes: usize,
    least: i64,
    rest: i64,
) -> Result<[i64; 3]> {
    let values = call.ints(at)?;
    expect_length(call, at, &values, &[axes])?;
    numbers_of_axes(call, at, &values, least, rest)
}

/// Reads the padding: one for each axis, or, where `pairs` is set, one before and one after each.
pub fn read_padding(
    call: &Call<'_>,
    at: usize,
    axes: usize,
    pairs: bool,
) -> Result<[(i64, i64); 3]> {
    let values = call.ints(at)?;
    let lengths = [axes, 2 * axes];
    expect_length(call, at, &values, &lengths[..1 + usize::from(pairs)])?;
    let (before, after): (Vec<i64>, Vec<i64>) = match values.len() == axes {
        true => (values.clone(), values),
        false => values.chunks(2).map(|two| (two[0], two[1])).unzip(),
    };
    let before = numbers_of_axes(call, at, &before, 0, 0)?;
    let after = numbers_of_axes(call, at, &after, 0, 0)?;
    Ok([0, 1, 2].map(|axis| (before[axis], after[axis])))
}

/// Reads the padding by name: one before and one after each axis.
pub fn padding_pairs(call: &Call<'_>, at: usize, axes: usize) -> Result<[(i64, i64); 3]> {
    let values = call.ints(at)?;
    expect_length(call, at, &values, &[2 * axes])?;
    read_padding(call, at, axes, true)
}

/// A list with a number for each dimension, as callers by name pass it; those of samples and channels are `rest`.
pub fn axis_numbers_of_dims(
    call: &Call<'_>,
    at: usize,
    axes: usize,
    format: DataFormat,
    (least, rest): (i64, i64),
) -> Result<[i64; 3]> {
    let values = call.ints(at)?;
    expect_length(call, at, &values, &[axes + 2])?;
    let (channels, first) = if format.channels_last { (axes + 1, 1) } else { (1, 2) };
    if values[0] != rest || values[channels] != rest {
        let name = call.parameter(at);
        return Err(Error::invalid(format!(
            "{name} = {values:?}: expected {rest} for samples and channels"
        )));
    }
    numbers_of_axes(call, at, &values[first..first + axes], least, rest)
}

/// How the dimensions of tensors by name are ordered.
#[derive(Clone, Copy, Debug)]
pub struct DataFormat {
    /// Channels come last, and those of weights before their outputs.
    pub channels_last: bool,
    /// Weights are rows, columns, channels of the larger side, and how many outputs each of these has, whatever the order of
    /// the other tensors.
    pub depthwise: bool,
}

impl DataFormat {
    /// From the attribute `data_format`.
    pub fn read(call: &Call<'_>, at: usize, axes: usize) -> Result<DataFormat> {
        let text = call.text(at)?;
        let [first, last] = if axes == 2 { ["NCHW", "NHWC"] } else { ["NCDHW", "NDHWC"] };
        match text {
            _ if text == first => Ok(DataFormat { channels_last: false, depthwise: false }),
            _ if text == last => Ok(DataFormat { channels_last: true, depthwise: false }),
            _ => {
                let name = call.parameter(at);
                Err(Error::invalid(format!("{name} = {text:?}: expected {first:?} or {last:?}")))
            }
        }
    }

    /// The dimensions of a tensor, samples and channels first.
    pub fn image(self, layout: Layout) -> Layout {
        match (self.channels_last, layout.rank()) {
            (true, 4) => layout.permuted(&[0, 3, 1, 2]),
            (true, 5) => layout.permuted(&[0, 4, 1, 2, 3]),
            _ => layout,
        }
    }

    /// The dimensions of weights, outputs and inputs first.
    pub fn weights(self, layout: Layout) -> Layout {
        if let (true, &[rows, columns, channels, outputs_per_channel]) =
            (self.depthwise, layout.dims())
        {
            let outputs = layout.permuted(&[2, 3, 0, 1]);
            let dims = [channels.saturating_mul(outputs_per_channel), 1, rows, columns];
            return outputs.reshaped(&dims).unwrap_or(layout);
        }
        match (self.channels_last, layout.rank()) {
            (true, 4) => layout.permuted(&[3, 2, 0, 1]),
            (true, 5) => layout.permuted(&[4, 3, 0, 1, 2]),
            _ => layout,
        }
    }

    /// Sizes of a tensor, samples and channels first, in this order.
    pub fn ordered(self, mut dims: Vec<usize>) -> Vec<usize> {
        if self.channels_last {
            dims[1..].rotate_left(1);
        }
        dims
    }
}

/// The number of groups.
pub fn groups(call: &Call<'_>, at: usize) -> Result<usize> {
    match call.int(at)? {
        groups @ 1..=MAX_GROUPS => Ok(groups as usize),
        groups => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {groups} is outside 1 to {MAX_GROUPS}")))
        }
    }
}

/// The three tensors of a convolution: both sides by samples, channels and axes, and the weights by channels of the smaller
/// side, channels of a group of the larger side, and taps. The index of each argument stands beside it.
pub struct ConvolutionTensors {
    /// The input; of a transposed convolution the output.
    pub large: (usize, Layout),
    /// The weights.
    pub weights: (usize, Layout),
    /// The output; of a transposed convolution the input.
    pub small: (usize, Layout),
}

impl Windows {
    /// With the groups that the channels of the larger side and of the weights imply, where one group was stated: callers
    /// by name need not state more.
    pub fn with_implied_groups(mut self, large: &Layout, weights: &Layout) -> Windows {
        if let (1, &[_, channels, ..], &[_, per_group, ..]) =
            (self.groups, large.dims(), weights.dims())
        {
            let groups = channels.checked_div(per_group).unwrap_or(1);
            let fits =
                groups * per_group == channels && (1..=MAX_GROUPS as usize).contains(&groups);
            self.groups = if fits { groups } else { 1 };
        }
        self
    }

    /// The size of the smaller side along an axis.
    fn small_size(&self, axis: usize, size: usize, taps: usize) -> Option<i64> {
        let (before, after) = self.padding[axis];
        let reach = (i64::try_from(taps).ok()? - 1).checked_mul(self.dilation[axis])?;
        let padded = i64::try_from(size).ok()?.checked_add(before + after)?;
        let last_start =
            padded.checked_sub(reach)?.checked_sub(1)?.checked_sub(self.output_padding[axis])?;
        (last_start >= 0).then(|| last_start / self.stride[axis] + 1)
    }

    /// The size of the larger side along an axis.
    fn large_size(&self, axis: usize, size: usize, taps: usize) -> Option<i64> {
        let (before, after) = self.padding[axis];
        let reach = (i64::try_from(taps).ok()? - 1).checked_mul(self.dilation[axis])?;
        let distance = (i64::try_from(size).ok()? - 1).checked_mul(self.stride[axis])?;
        distance.checked_add(reach)?.checked_add(self.output_padding[axis] + 1 - before - after)
    }

    /// The sizes of the side that is not known: samples, channels and axes.
    pub fn other_sizes(
        &self,
        call: &Call<'_>,
        (at, known): (usize, &Layout),
        (weights_at, weights): (usize, &Layout),
        transposed: bool,
    ) -> Result<Vec<usize>> {
        let rank = self.axes + 2;
        for (at, layout) in [(at, known), (weights_at, weights)] {
            if layout.rank() != rank {
                let (name, dims) = (call.parameter(at), layout.dims());
                return Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}: expected {rank} dimensions"
                )));
            }
        }
        self.expect_channels(call, (at, known), (weights_at, weights), transposed)?;
        let channels = match transposed {
            true => weights.dims()[1].saturating_mul(self.groups),
            false => weights.dims()[0],
        };
        let mut dims = vec![known.dims()[0], channels];
        for axis in 0..self.axes {
            let (size, taps) = (known.dims()[2 + axis], weights.dims()[2 + axis]);
            let dim = 3 - self.axes + axis;
            let other = match transposed {
                true => self.large_size(dim, size, taps),
                false => self.small_size(dim, size, taps),
            };
            let Some(other) = other.filter(|one| *one >= 0) else {
                let (name, other) = (call.parameter(at), call.parameter(weights_at));
                let (sizes, taps) = (known.dims(), weights.dims());
                let (padding, dilation) = (self.padding[dim], self.dilation[dim]);
                return Err(Error::invalid(format!(
                    "{name} {sizes:?} with padding {padding:?} has no room along axis {axis} for {other} {taps:?} with dilation {dilation}"
                )));
            };
            dims.push(other as usize);
        }
        Ok(dims)
    }

    /// Fails unless channels and groups fit.
    fn expect_channels(
        &self,
        call: &Call<'_>,
        (at, known): (usize, &Layout),
        (weights_at, weights): (usize, &Layout),
        transposed: bool,
    ) -> Result<()> {
        let (have, groups) = (known.dims()[1], self.groups);
        let (small, large) = (weights.dims()[0], weights.dims()[1].checked_mul(groups));
        let fits = if transposed { small == have } else { large == Some(have) };
        if fits && small.is_multiple_of(groups) {
            return Ok(());
        }
        let (name, other) = (call.parameter(at), call.parameter(weights_at));
        let (dims, weights) = (known.dims(), weights.dims());
        Err(Error::invalid(format!(
            "{name} {dims:?} and {other} {weights:?} do not fit with groups = {groups}"
        )))
    }

    /// Fails unless sizes and types of all three fit. `exactly` wants the larger side of a transposed convolution as
    /// large as its formula says; otherwise it may be as large as one that the smaller side follows from.
    pub fn check(
        &self,
        call: &Call<'_>,
        tensors: &ConvolutionTensors,
        exactly: bool,
    ) -> Result<()> {
        let ConvolutionTensors { large, weights, small } = tensors;
        for (at, layout) in [large, weights, small] {
            call.expect_dtype(*at, layout, TYPES)?;
        }
        let (known, expected) = if exactly { (small, large) } else { (large, small) };
        let dims = self.other_sizes(call, (known.0, &known.1), (weights.0, &weights.1), exactly)?;
        if expected.1.dims() == &dims[..] {
            return Ok(());
        }
        let (name, have) = (call.parameter(expected.0), expected.1.dims());
        Err(Error::invalid(format!(
            "{name} has the sizes {have:?} by samples, channels and axes: expected {dims:?}"
        )))
    }

    /// The axes of the smaller side's windows over the larger one.
    pub fn forward(&self, weights: &Layout) -> [Axis; 3] {
        [0, 1, 2].map(|at| Axis {
            step: self.stride[at] as isize,
            first: -(self.padding[at].0 as isize),
            tap_step: self.dilation[at] as isize,
            taps: weights.dims()[3 + at],
        })
    }

    /// The positions of the larger side along an axis, by their remainder modulo the stride: those that a tap reaches.
    pub fn classes(&self, at: usize, size: usize, taps: usize) -> Vec<Class> {
        classes(self.stride[at], self.dilation[at], self.padding[at].0, size, taps)
    }
}

/// With dimensions of size 1 for the axes that are not there.
pub fn with_three_axes(mut layout: Layout) -> Layout {
    while layout.rank() < 5 {
        layout = layout.with(2);
    }
    layout
}

/// One dimension of a tensor as two: groups, and the elements of a group.
pub fn grouped(layout: Layout, dim: usize, groups: usize) -> Layout {
    let mut layout = layout;
    let (size, stride) = (layout.dims()[dim], layout.strides()[dim]);
    let per_group = size / groups.max(1);
    let (mut dims, mut strides) = (layout.dims().to_vec(), layout.strides().to_vec());
    dims[dim] = per_group;
    dims.insert(dim, groups);
    strides.insert(dim, stride.saturating_mul(per_group as isize));
    layout = Layout::strided(layout.dtype, &dims, &strides, layout.offset);
    layout
}
