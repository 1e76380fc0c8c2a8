//! Convolutions along up to three axes, and the gradients of their weights.
//!
//! Tensors have the dimensions samples, groups, channels of a group, and three axes; one that has fewer axes has sizes of 1 in
//! front. [`convolve`] is a convolution and, with other axes, the gradient of its input ([`Axis`]); [`weights_gradient`] is the
//! gradient of the weights. Elements are multiplied in `f32`, whatever their type, and widened a tile at a time.
//!
//! A convolution is a product of matrices: weights by columns, where a column has what a window covers. Columns are made
//! for a tile of positions and a block of rows at a time, into a worker's part of the workspace ([`columns`]), and multiplied from there
//! ([`block`], [`blocked`], [`by_positions`]). Where windows are single positions, these are the columns ([`pointwise`]). With AVX-512 and enough output channels, vectors have channels and no columns are made
//! ([`by_channels`], [`by_channels_filter`]). Where a group has few channels, a line for each tap
//! is multiplied with its weight ([`planes`], [`direct`], [`direct_filter`]), with small windows of single channels in place ([`depthwise`]). Every element is summed in an order that follows from
//! the sizes alone, so results depend neither on the number of threads nor on who computes what.

mod block;
mod blocked;
mod by_channels;
mod by_channels_filter;
mod by_channels_filter_tile;
mod by_channels_short;
mod by_channels_tile;
mod by_positions;
mod classes;
mod columns;
mod depthwise;
mod direct;
mod direct_filter;
mod finish;
mod planes;
mod pointwise;

pub use classes::{Class, classes};
pub use finish::Finish;

use super::copy::copy;
use super::strip::load;
use crate::parallel::Parallel;
use crate::{DType, Layout, View, ViewMut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Multiply-adds that are worth another thread, at least.
const MIN_WORK: usize = 1 << 18;
/// Threads that have scratch of their own, at most.
const MAX_WORKERS: usize = 8;

/// How windows are placed along one axis: tap `t` of the window at position `p` covers `p * step + first + t * tap_step` of the
/// source. What is outside of the source counts as zero.
///
/// For a convolution, `step` is its stride, `first` its padding below zero, `tap_step` its dilation. For the gradient of its
/// input, positions are those of the input with the same remainder by the stride: `step` is 1, and `tap_step` negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Between neighbouring positions; at least 1.
    pub step: isize,
    /// What the first tap at the first position covers.
    pub first: isize,
    /// Between neighbouring taps.
    pub tap_step: isize,
    /// How many taps a window has.
    pub taps: usize,
}

impl Axis {
    /// An axis without windows: each position covers the same position of the source.
    pub const NONE: Axis = Axis { step: 1, first: 0, tap_step: 1, taps: 1 };

    /// Where the first tap at a position is.
    fn at(&self, position: usize) -> isize {
        position as isize * self.step + self.first
    }

    /// Which of `length` positions, that begin at `start` and lie `step` apart, are inside `0..size`.
    #[inline(always)]
    fn inside(&self, start: isize, size: usize, length: usize) -> (usize, usize) {
        let (size, length) = (size as isize, length as isize);
        let (low, high) = match self.step {
            1 => (-start, size - start),
            step => {
                let low = if start < 0 { (step - 1 - start) / step } else { 0 };
                let high = if start < size { (size - 1 - start) / step + 1 } else { 0 };
                (low, high)
            }
        };
        let low = low.clamp(0, length);
        (low as usize, high.clamp(low, length) as usize)
    }
}

/// Whether [`convolve`] takes weights of this layout, for tensors of these layouts: `f32`, each output channel's one
/// after the other, or, where vectors have output channels, the taps of each pair of channels.
pub fn takes_weights(weights: &Layout, out: &Layout, source: &Layout, axes: &[Axis; 3]) -> bool {
    if weights.dtype != DType::Float || weights.strides()[1] < 0 {
        return false;
    }
    let packs_other_rows = || {
        let (out, source, axes) = with_flat_axes(*out, *source, *axes);
        match Method::new(&out, &source, &axes) {
            Method::Pointwise(_) => true,
            Method::ByChannels(_) => is_contiguous_from(weights, 3),
            _ => false,
        }
    };
    has_contiguous_rows(weights) || packs_other_rows()
}

/// Whether the weights of each output channel lie one after the other.
fn has_contiguous_rows(weights: &Layout) -> bool {
    is_contiguous_from(weights, 2)
}

/// Whether dimensions from `dim` on lie one after the other.
fn is_contiguous_from(weights: &Layout, dim: usize) -> bool {
    let (dims, strides) = (&weights.dims()[dim..], &weights.strides()[dim..]);
    Layout::strided(weights.dtype, dims, strides, 0).is_contiguous()
}

/// One convolution.
#[derive(Clone, Copy)]
struct Task<'a> {
    out: ViewMut<'a>,
    source: View<'a>,
    weights: View<'a>,
    finish: Finish<'a>,
    axes: [Axis; 3],
}

/// How a convolution is computed.
enum Method {
    /// Single channels with small windows, in place.
    Depthwise(depthwise::Depthwise),
    /// A line for each tap of few channels.
    Direct(planes::Planes),
    /// Vectors have positions, and windows are single ones.
    Pointwise(pointwise::Tiling),
    /// Vectors have output channels.
    ByChannels(by_channels::Tiling),
    /// Columns are made and multiplied.
    Blocked(blocked::Tiling),
}

impl Method {
    /// For tensors of these layouts, with [`with_flat_axes`].
    fn new(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Method {
        if let Some(depthwise) = depthwise::Depthwise::new(out, source, axes) {
            return Method::Depthwise(depthwise);
        }
        if let Some(planes) = direct::planes(out, source, axes) {
            return Method::Direct(planes);
        }
        let pointwise = pointwise::Tiling::new(out, source, axes);
        match (pointwise, by_channels::Tiling::new(out, source, axes)) {
            (Some(tiling), None) => Method::Pointwise(tiling),
            (Some(tiling), Some(other)) if tiling.is_faster_than(&other) => {
                Method::Pointwise(tiling)
            }
            (_, Some(tiling)) => Method::ByChannels(tiling),
            (None, None) => Method::Blocked(blocked::Tiling::new(out, source, axes)),
        }
    }
}

/// How many elements of `f32` [`convolve`] needs as scratch, for tensors of these layouts.
pub fn scratch_size(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> usize {
    if out.count() == 0 {
        return 0;
    }
    let (out, source, axes) = with_flat_axes(*out, *source, *axes);
    match Method::new(&out, &source, &axes) {
        Method::Depthwise(_) => 0,
        Method::Direct(planes) => direct::scratch_size(&planes, &out, &source, &axes),
        Method::Pointwise(tiling) => tiling.packed_size(),
        Method::ByChannels(tiling) => tiling.scratch_size(),
        Method::Blocked(tiling) => tiling.scratch_size(),
    }
}

/// `out = source * weights + bias`, window by window, and what else [`Finish`] says.
///
/// `out` is by samples, groups, channels, and positions along three axes; `source` by samples, groups, channels and three axes;
/// `weights`, which [`takes_weights`], by groups, output channels, input channels and taps.
/// `out` overlaps none of the others. `scratch` has [`scratch_size`] elements.
pub fn convolve(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    source: View<'_>,
    weights: View<'_>,
    finish: Finish<'_>,
    axes: &[Axis; 3],
    scratch: ViewMut<'_>,
) {
    if out.count() == 0 {
        return;
    }
    let message = "the same elements";
    let (out_layout, source_layout, axes) = with_flat_axes(*out.layout(), *source.layout(), *axes);
    let out = out.with_layout(out_layout).expect(message);
    let source = source.with_layout(source_layout).expect(message);
    let task = Task { out, source, weights, finish, axes };
    match Method::new(&out_layout, &source_layout, &axes) {
        Method::Depthwise(depthwise) => depthwise.convolve(parallel, &task),
        Method::Direct(planes) => direct::convolve(parallel, &task, &planes, scratch),
        Method::Pointwise(tiling) => {
            tiling.pack(parallel, &weights, &scratch);
            tiling.convolve(parallel, &task, elements(&scratch).0);
        }
        Method::ByChannels(tiling) => by_channels::convolve(parallel, &task, &tiling, scratch),
        Method::Blocked(tiling) => blocked::convolve(parallel, &task, &tiling, scratch),
    }
}

/// A convolution whose weights can be packed before: see [`convolve`].
#[derive(Clone, Copy)]
pub struct PackedConvolution {
    out: Layout,
    source: Layout,
    axes: [Axis; 3],
    method: PackedMethod,
}

/// The methods that pack weights.
#[derive(Clone, Copy)]
enum PackedMethod {
    Pointwise(pointwise::Tiling),
    ByChannels(by_channels::Tiling),
}

impl PackedConvolution {
    /// The convolution of tensors of these layouts, if its kernel packs weights; [`takes_weights`] holds for them.
    pub fn new(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Option<PackedConvolution> {
        if out.count() == 0 {
            return None;
        }
        let (out, source, axes) = with_flat_axes(*out, *source, *axes);
        let method = match Method::new(&out, &source, &axes) {
            Method::Pointwise(tiling) => PackedMethod::Pointwise(tiling),
            Method::ByChannels(tiling) => PackedMethod::ByChannels(tiling),
            _ => return None,
        };
        Some(PackedConvolution { out, source, axes, method })
    }

    /// Elements of the packed weights.
    pub fn packed_size(&self) -> usize {
        match &self.method {
            PackedMethod::Pointwise(tiling) => tiling.packed_size(),
            PackedMethod::ByChannels(tiling) => tiling.packed_size(),
        }
    }

    /// The order that weights are packed in: equal texts mean equal orders.
    pub fn order(&self) -> String {
        match &self.method {
            PackedMethod::Pointwise(tiling) => format!("pointwise {}", tiling.order()),
            PackedMethod::ByChannels(_) => "by channels".into(),
        }
    }

    /// How many elements of `f32` [`PackedConvolution::convolve`] needs as scratch.
    pub fn scratch_size(&self) -> usize {
        match &self.method {
            PackedMethod::Pointwise(_) => 0,
            PackedMethod::ByChannels(tiling) => tiling.bands_size(),
        }
    }

    /// Packs weights, aligned to whole elements, into [`PackedConvolution::packed_size`] elements.
    pub fn pack(&self, parallel: &dyn Parallel, weights: View<'_>, into: ViewMut<'_>) {
        let have = elements(&into).1;
        assert!(self.packed_size() <= have, "{have} elements are too few for the weights");
        assert!(is_aligned_f32(&weights), "weights of f32");
        match &self.method {
            PackedMethod::Pointwise(tiling) => tiling.pack(parallel, &weights, &into),
            PackedMethod::ByChannels(tiling) => {
                by_channels::pack_weights(parallel, &weights, tiling, &into);
            }
        }
    }

    /// As [`convolve`], with packed weights.
    pub fn convolve(
        &self,
        parallel: &dyn Parallel,
        out: ViewMut<'_>,
        (source, packed): (View<'_>, View<'_>),
        finish: Finish<'_>,
        scratch: ViewMut<'_>,
    ) {
        let message = "the same elements";
        // A workspace without bytes has no address.
        let (bands, room) = match scratch.count() {
            0 => (std::ptr::null_mut(), 0),
            _ => elements(&scratch),
        };
        let is_packed = is_aligned_f32(&packed) && packed.is_contiguous();
        assert!(is_packed && self.packed_size() <= packed.count(), "packed weights");
        assert!(self.scratch_size() <= room, "{room} elements of scratch are too few");
        let out = out.with_layout(self.out.from_offset(0)).expect(message);
        let source = source.with_layout(self.source.from_offset(0)).expect(message);
        let task = Task { out, source, weights: source, finish, axes: self.axes };
        let packed = packed.first().cast::<f32>().cast_mut();
        match &self.method {
            PackedMethod::Pointwise(tiling) => tiling.convolve(parallel, &task, packed),
            PackedMethod::ByChannels(tiling) => {
                by_channels::convolve_packed(parallel, &task, tiling, packed, bands);
            }
        }
    }
}

/// How many elements of `f32` [`weights_gradient`] needs as scratch, for tensors of these layouts.
pub fn weights_gradient_scratch_size(
    out: &Layout,
    source: &Layout,
    grad: &Layout,
    axes: &[Axis; 3],
) -> usize {
    if out.count() == 0 {
        return 0;
    }
    let (grad, source, axes) = with_flat_axes(*grad, *source, *axes);
    match direct_filter::planes(out, &source, &grad, &axes) {
        Some(planes) => direct_filter::scratch_size(&planes, &source, &grad),
        None => match by_channels_filter::Filter::new(&source, &grad, &axes) {
            Some(filter) => filter.scratch_size(),
            None => by_positions::Tiling::new(out, &source, &grad, &axes).scratch_size(),
        },
    }
}

/// The gradient of weights: `out` is by groups, output channels, input channels and taps; `source` as in [`convolve`], and
/// `grad` as its output. `scratch` has [`weights_gradient_scratch_size`] elements; `out` overlaps none of the others.
pub fn weights_gradient(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    source: View<'_>,
    grad: View<'_>,
    axes: &[Axis; 3],
    scratch: ViewMut<'_>,
) {
    if out.count() == 0 {
        return;
    }
    let message = "the same elements";
    let (grad_layout, source_layout, axes) =
        with_flat_axes(*grad.layout(), *source.layout(), *axes);
    let source = source.with_layout(source_layout).expect(message);
    let grad = grad.with_layout(grad_layout).expect(message);
    match direct_filter::planes(out.layout(), &source_layout, &grad_layout, &axes) {
        Some(planes) => {
            direct_filter::weights_gradient(parallel, &out, &source, &grad, &planes, scratch)
        }
        None => match by_channels_filter::Filter::new(&source_layout, &grad_layout, &axes) {
            Some(plan) => {
                by_channels_filter::weights_gradient(parallel, &out, &source, &grad, &plan, scratch)
            }
            None => by_positions::weights_gradient(parallel, &out, &source, &grad, &axes, scratch),
        },
    }
}

/// Weights of any type and strides, for [`convolve`]: copied to `into`, elements of `f32` one after the other.
pub fn pack_weights<'a>(parallel: &dyn Parallel, into: ViewMut<'a>, weights: View<'_>) -> View<'a> {
    copy(parallel, into, weights);
    into.view()
}

/// Of a pointwise convolution (one tap, step 1) the three axes as one, where both layouts allow that; else as they are.
fn with_flat_axes(out: Layout, source: Layout, axes: [Axis; 3]) -> (Layout, Layout, [Axis; 3]) {
    let is_pointwise = |at: usize| {
        let Axis { step, first, taps, .. } = axes[at];
        (step, first, taps) == (1, 0, 1) && out.dims()[3 + at] == source.dims()[3 + at]
    };
    if !(0..3).all(is_pointwise) {
        return (out, source, axes);
    }
    let line = |layout: &Layout| {
        let dims = layout.dims();
        layout.reshaped(&[dims[0], dims[1], dims[2], 1, 1, dims[3..].iter().product()])
    };
    match (line(&out), line(&source)) {
        (Some(out), Some(source)) => (out, source, [Axis::NONE; 3]),
        _ => (out, source, axes),
    }
}

/// The positions of a tensor: samples, and those along each axis.
fn positions(layout: &Layout) -> [usize; 4] {
    let dims = layout.dims();
    [dims[0], dims[3], dims[4], dims[5]]
}

/// How many taps a window has in all.
fn taps(axes: &[Axis; 3]) -> usize {
    axes.iter().map(|axis| axis.taps).product()
}

/// How many workers get scratch of their own.
fn workers(units: usize, work: usize) -> usize {
    if work < MIN_WORK { 1 } else { units.clamp(1, MAX_WORKERS) }
}

/// Calls `body` once for each unit, in parallel, with scratch of the worker that runs it: `length` elements for each of
/// `workers` workers, from element `start` of the scratch on.
fn for_each_unit(
    parallel: &dyn Parallel,
    units: usize,
    (workers, start, length): (usize, usize, usize),
    scratch: &ViewMut<'_>,
    body: impl Fn(usize, &mut [f32]) + Sync,
) {
    let workers = workers.min(parallel.width()).min(units).max(1);
    let have = scratch.count();
    assert!(start + workers * length <= have, "{have} elements of scratch are too few");
    let next = AtomicUsize::new(0);
    let worker = |worker: usize| {
        let worker_scratch = match length {
            0 => &mut [],
            // SAFETY: inside the scratch, as just checked; each worker is of one call alone.
            _ => unsafe {
                let first = elements(scratch).0.add(start + worker * length);
                std::slice::from_raw_parts_mut(first, length)
            },
        };
        loop {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            if unit >= units {
                break;
            }
            body(unit, worker_scratch);
        }
    };
    match workers {
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

/// An address that threads share.
#[derive(Clone, Copy)]
struct Address(*mut f32);

// SAFETY: an address; each thread writes only elements of its own.
unsafe impl Sync for Address {}

impl Address {
    /// The address `offset` elements on.
    fn at(&self, offset: isize) -> *mut f32 {
        self.0.wrapping_offset(offset)
    }
}

/// For [`for_each_unit`], where a unit needs no scratch.
fn no_scratch() -> ViewMut<'static> {
    ViewMut::over(&[], Layout::contiguous(DType::Float, &[0])).expect("no elements")
}

/// Copies the gradient of the weights out of the scratch that begins with it: groups, then rows of inputs and taps, `stride`
/// elements apart, with an element for each output channel.
fn copy_transposed(
    parallel: &dyn Parallel,
    out: &ViewMut<'_>,
    scratch: &ViewMut<'_>,
    [groups, rows, stride]: [usize; 3],
) {
    let sums = Layout::contiguous(DType::Float, &[groups, rows, stride]);
    let transposed = sums
        .sliced(2, 0, out.dims()[1], 1)
        .transposed(1, 2)
        .reshaped(out.dims())
        .expect("rows are the same distance apart");
    copy(parallel, *out, scratch.view().with_layout(transposed).expect("a part of the scratch"));
}

/// The first element of a scratch, and how many there are.
fn elements(scratch: &ViewMut<'_>) -> (*mut f32, usize) {
    assert!(scratch.dtype() == DType::Float && scratch.is_contiguous(), "scratch of f32");
    assert!(scratch.address().is_multiple_of(size_of::<f32>()), "scratch on whole elements");
    (scratch.first_mut().cast(), scratch.count())
}

/// Whether the elements of a view are `f32` at aligned addresses, which need no conversion.
fn is_aligned_f32(view: &View<'_>) -> bool {
    view.dtype() == DType::Float && view.address().is_multiple_of(size_of::<f32>())
}

/// Writes zeros, which are often too few to be worth a call.
#[inline(always)]
fn clear(line: &mut [f32]) {
    const FEW: usize = 8;
    if line.len() > FEW {
        return line.fill(0.0);
    }
    for slot in line {
        // SAFETY: an element of a slice; volatile, so that the loop stays one.
        unsafe { std::ptr::from_mut(slot).write_volatile(0.0) };
    }
}

/// Copies a line, which is often too short to be worth a call.
///
/// # Safety
/// `from` has as many elements, and nobody writes them.
#[inline(always)]
unsafe fn copy_line(from: *const f32, into: &mut [f32]) {
    const FEW: usize = 8;
    let (length, to) = (into.len(), into.as_mut_ptr());
    // SAFETY: as the caller guarantees; every piece is inside both.
    unsafe {
        if length > 8 * FEW {
            return std::ptr::copy_nonoverlapping(from, to, length);
        }
        if length < FEW {
            for at in 0..length {
                *to.add(at) = *from.add(at);
            }
            return;
        }
        let piece = |at: usize| {
            to.add(at).cast::<[f32; FEW]>().write(from.add(at).cast::<[f32; FEW]>().read());
        };
        // The last piece overlaps the one before where the length is no multiple.
        (0..length - FEW).step_by(FEW).for_each(piece);
        piece(length - FEW);
    }
}

/// Loads elements of a view from `offset` on, `stride` apart.
///
/// # Safety
/// They belong to the view, and nobody writes them.
#[inline(always)]
unsafe fn load_elements(
    view: &View<'_>,
    is_aligned_f32: bool,
    offset: isize,
    stride: isize,
    into: &mut [f32],
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        if !is_aligned_f32 {
            let from = view.first().offset(offset * view.item() as isize);
            return load(view.dtype(), from, stride, into);
        }
        let from = view.first().cast::<f32>().offset(offset);
        match stride {
            1 => copy_line(from, into),
            2 => {
                for (at, slot) in into.iter_mut().enumerate() {
                    *slot = *from.add(2 * at);
                }
            }
            _ => {
                for (at, slot) in into.iter_mut().enumerate() {
                    *slot = *from.offset(at as isize * stride);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_inside() {
        let axis = |step| Axis { step, ..Axis::NONE };
        for step in 1..4 {
            for start in -7..7isize {
                for size in 0..6usize {
                    let inside = |at: usize| {
                        let position = start + at as isize * step;
                        position >= 0 && position < size as isize
                    };
                    let (low, high) = axis(step).inside(start, size, 5);
                    let have: Vec<usize> = (low..high).collect();
                    let want: Vec<usize> = (0..5).filter(|at| inside(*at)).collect();
                    assert_eq!(have, want, "{start} {step} {size}");
                }
            }
        }
    }
}
