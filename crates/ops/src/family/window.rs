//! Windows that slide over the last dimensions of a tensor: what pooling operators have in common.

use crate::call::Call;
use crate::error::{Error, Result};
use cairn_tensor::kernels::pool::Windows;
use cairn_tensor::{Dims, Layout};

/// The largest size of a window: sums and products of several do not overflow.
const MAX_SIZE: i64 = i32::MAX as i64;

/// A layout as samples, channels, depth, rows and columns. It has `spatial` dimensions of positions (1 to 3), after one
/// of channels and perhaps one of samples; or before the channels, if they are `last`.
pub fn try_as_5d(layout: &Layout, spatial: usize, last: bool) -> Option<Layout> {
    let mut layout = match layout.rank().checked_sub(spatial)? {
        1 => layout.with(0),
        2 => *layout,
        _ => return None,
    };
    if last {
        let mut order: Dims = (0..layout.rank() - 1).collect();
        order.insert(1, layout.rank() - 1);
        layout = layout.permuted(&order);
    }
    for _ in spatial..3 {
        layout = layout.with(2);
    }
    Some(layout)
}

/// As [`try_as_5d`], where a tensor of another rank is an error.
pub fn as_5d(
    call: &Call<'_>,
    at: usize,
    layout: &Layout,
    spatial: usize,
    last: bool,
) -> Result<Layout> {
    try_as_5d(layout, spatial, last).ok_or_else(|| {
        let (name, dims) = (call.parameter(at), layout.dims());
        let (least, most) = (spatial + 1, spatial + 2);
        Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected {least} or {most} dimensions"
        ))
    })
}

/// The sizes of a tensor like `like` but for its last dimensions (those before the channels, if they are `last`).
pub fn with_spatial_sizes(like: &[usize], sizes: &[usize], last: bool) -> Dims {
    let mut dims = Dims::new(like);
    let end = like.len() - usize::from(last);
    dims[end - sizes.len()..end].copy_from_slice(sizes);
    dims
}

/// The spatial sizes of a tensor: its last dimensions, or those before the channels.
pub fn spatial_sizes(dims: &[usize], spatial: usize, last: bool) -> &[usize] {
    let end = dims.len() - usize::from(last);
    &dims[end - spatial..end]
}

/// Numbers for each spatial dimension, of which none is below `least`: a list of that many, or one for all.
pub fn numbers(call: &Call<'_>, at: usize, spatial: usize, least: i64) -> Result<Vec<usize>> {
    let values = call.ints(at)?;
    checked_numbers(call, at, &values, spatial, least)
}

/// The numbers of a list, checked and repeated as [`numbers`] says.
fn checked_numbers(
    call: &Call<'_>,
    at: usize,
    values: &[i64],
    spatial: usize,
    least: i64,
) -> Result<Vec<usize>> {
    let name = call.parameter(at);
    if values.len() != 1 && values.len() != spatial {
        return Err(Error::invalid(format!(
            "{name} = {values:?} has {} numbers: expected 1 or {spatial}",
            values.len()
        )));
    }
    if let Some(wrong) = values.iter().find(|value| !(least..=MAX_SIZE).contains(value)) {
        return Err(Error::invalid(format!(
            "{name} = {values:?}: {wrong} is outside {least} to {MAX_SIZE}"
        )));
    }
    Ok((0..spatial).map(|i| values[i % values.len()] as usize).collect())
}

/// As [`numbers`], or other numbers when the list is absent or empty.
pub fn numbers_or(
    call: &Call<'_>,
    at: usize,
    spatial: usize,
    least: i64,
    other: &[usize],
) -> Result<Vec<usize>> {
    if !call.has(at) || call.ints(at)?.is_empty() {
        return Ok(other.to_vec());
    }
    numbers(call, at, spatial, least)
}

/// As [`numbers`] from a list of a number for each dimension of the tensor too: samples, channels and positions in the order
/// of `format`, of which the first two are 1.
pub fn numbers_by_format(
    call: &Call<'_>,
    at: usize,
    spatial: usize,
    least: i64,
    last: bool,
) -> Result<Vec<usize>> {
    let values = call.ints(at)?;
    if values.len() != spatial + 2 {
        return checked_numbers(call, at, &values, spatial, least);
    }
    let (start, channels) = if last { (1, spatial + 1) } else { (2, 1) };
    if values[0] != 1 || values[channels] != 1 {
        let name = call.parameter(at);
        return Err(Error::invalid(format!(
            "{name} = {values:?} is not 1 for samples and channels"
        )));
    }
    checked_numbers(call, at, &values[start..start + spatial], spatial, least)
}

/// Whether a format has the channels last; an error for one without these dimensions.
pub fn channels_last(call: &Call<'_>, at: usize, spatial: usize) -> Result<bool> {
    let (first, last) = match spatial {
        2 => ("NCHW", "NHWC"),
        _ => ("NCDHW", "NDHWC"),
    };
    match call.text(at)? {
        format if format == first => Ok(false),
        format if format == last => Ok(true),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {other:?}: expected {first} or {last}")))
        }
    }
}

/// The windows of each spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Positions of a window.
    pub kernel: Vec<usize>,
    /// From the start of one window to the start of the next.
    pub stride: Vec<usize>,
    /// Positions in front of the input.
    pub before: Vec<usize>,
    /// Positions after the input.
    pub after: Vec<usize>,
    /// From one position of a window to the next.
    pub dilation: Vec<usize>,
    /// Whether a last window that leaves the input counts.
    pub ceil: bool,
}

impl PoolOptions {
    /// Windows as PyTorch's pooling has them. Arguments from `at` on: kernel, stride, padding (at most half a kernel).
    pub fn read(call: &Call<'_>, at: usize, spatial: usize) -> Result<PoolOptions> {
        let kernel = numbers(call, at, spatial, 1)?;
        let stride = numbers_or(call, at + 1, spatial, 1, &kernel)?;
        let padding = numbers_or(call, at + 2, spatial, 0, &vec![0; spatial])?;
        if padding.iter().zip(&kernel).any(|(padding, kernel)| *padding > kernel / 2) {
            let (name, kernel_name) = (call.parameter(at + 2), call.parameter(at));
            return Err(Error::invalid(format!(
                "{name} = {padding:?} is more than half of {kernel_name} = {kernel:?}"
            )));
        }
        let dilation = vec![1; spatial];
        Ok(PoolOptions {
            kernel,
            stride,
            before: padding.clone(),
            after: padding,
            dilation,
            ceil: false,
        })
    }

    /// How many windows each dimension of `input` has. `at` is the tensor, named where it has none.
    pub fn outputs(&self, call: &Call<'_>, at: usize, input: &[usize]) -> Result<Vec<usize>> {
        let mut outputs = Vec::with_capacity(input.len());
        for (i, size) in input.iter().enumerate() {
            let (kernel, stride) = (self.kernel[i] as i128, self.stride[i] as i128);
            let span = self.dilation[i] as i128 * (kernel - 1) + 1;
            let (before, after, size) =
                (self.before[i] as i128, self.after[i] as i128, *size as i128);
            let last_start = size + before + after - span;
            let last_start = if self.ceil { last_start + stride - 1 } else { last_start };
            let mut count = last_start.div_euclid(stride) + 1;
            if self.ceil && (count - 1) * stride >= size + before {
                count -= 1;
            }
            if count < 1 {
                let (name, kernel) = (call.parameter(at), &self.kernel);
                return Err(Error::invalid(format!(
                    "{name} has {input:?} positions, in which windows of {kernel:?} do not fit"
                )));
            }
            outputs.push(count as usize);
        }
        Ok(outputs)
    }

    /// The windows of the last three dimensions of a tensor that [`as_5d`] gave five.
    pub fn windows(&self) -> [Windows; 3] {
        let one = Windows::Sliding { kernel: 1, stride: 1, before: 0, dilation: 1 };
        let mut windows = [one; 3];
        let skipped = 3 - self.kernel.len();
        for i in 0..self.kernel.len() {
            windows[skipped + i] = Windows::Sliding {
                kernel: self.kernel[i],
                stride: self.stride[i],
                before: self.before[i],
                dilation: self.dilation[i],
            };
        }
        windows
    }

    /// With padding for one window for every `stride` positions or fewer at the end; the larger half lies after the input.
    pub fn same(mut self, input: &[usize]) -> PoolOptions {
        for (i, size) in input.iter().enumerate() {
            let (kernel, stride) = (self.kernel[i], self.stride[i]);
            let span = self.dilation[i] * (kernel - 1) + 1;
            let count = size.div_ceil(stride);
            let padding = (count.saturating_sub(1) * stride + span).saturating_sub(*size);
            (self.before[i], self.after[i]) = (padding / 2, padding - padding / 2);
        }
        self.ceil = false;
        self
    }

    /// One window over the whole input.
    pub fn global(mut self, input: &[usize]) -> PoolOptions {
        for (i, size) in input.iter().enumerate() {
            (self.kernel[i], self.stride[i], self.dilation[i]) = ((*size).max(1), 1, 1);
            (self.before[i], self.after[i]) = (0, 0);
        }
        self.ceil = false;
        self
    }

    /// Without padding.
    pub fn valid(mut self) -> PoolOptions {
        self.before.fill(0);
        self.after.fill(0);
        self.ceil = false;
        self
    }

    /// By the name of a padding mode: SAME, VALID, or CALCULATED by `pads`, a pair for each dimension.
    pub fn padded(
        self,
        call: &Call<'_>,
        mode_at: usize,
        pads_at: usize,
        input: &[usize],
    ) -> Result<PoolOptions> {
        match call.text(mode_at)? {
            "SAME" => Ok(self.same(input)),
            "VALID" => Ok(self.valid()),
            "CALCULATED" | "" => self.with_pairs(call, pads_at),
            other => {
                let name = call.parameter(mode_at);
                Err(Error::invalid(format!(
                    "{name} = {other:?}: expected SAME, VALID or CALCULATED"
                )))
            }
        }
    }

    /// Padded by a list of pairs, before and after each dimension, or of one number for both; by nothing where it is absent.
    pub fn with_pairs(mut self, call: &Call<'_>, at: usize) -> Result<PoolOptions> {
        let spatial = self.kernel.len();
        let both_sides = call.has(at) && call.ints(at)?.len() == spatial;
        let pairs = match both_sides {
            true => numbers(call, at, spatial, 0)?.into_iter().flat_map(|one| [one; 2]).collect(),
            false => numbers_or(call, at, 2 * spatial, 0, &vec![0; 2 * spatial])?,
        };
        for i in 0..spatial {
            (self.before[i], self.after[i]) = (pairs[2 * i], pairs[2 * i + 1]);
            let span = self.dilation[i] * (self.kernel[i] - 1) + 1;
            if self.before[i] >= span || self.after[i] >= span {
                let (name, kernel) = (call.parameter(at), &self.kernel);
                return Err(Error::invalid(format!(
                    "{name} = {pairs:?} is as large as the windows {kernel:?}"
                )));
            }
        }
        Ok(self)
    }
}
