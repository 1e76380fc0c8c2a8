//! Reductions: many elements of a tensor become one, by a [`Fold`].
//!
//! Where elements along the reduced dimensions are closest together in memory, they are taken as strips; where those
//! along the kept ones are, many results are made side by side. Both orders, and the parts that one long reduction is
//! cut into, follow from the layout alone, so results do not depend on the number of threads.

use super::element::{Compute, Element};
use super::halves::{Half, with_half};
use super::map::SMALL;
use super::strip::{STRIP, load, runs_here, store_one, vectorised};
use super::walk::Walk;
use crate::layout::{Dims, Strides};
use crate::parallel::{Parallel, share, split};
use crate::{DType, Layout, View, ViewMut};
use std::mem::{MaybeUninit, size_of};
use std::ops::Range;

/// What makes one value of many. `merge` is associative up to rounding, and `start` changes nothing.
pub trait Fold: Copy + Send + Sync + 'static {
    /// The type elements are loaded as.
    type In: Compute;
    /// The result of the elements so far.
    type Accumulator: Copy + Send + Sync;
    /// Whether the indices of elements matter.
    const INDEXED: bool = false;
    /// The accumulator before any element.
    fn start(&self) -> Self::Accumulator;
    /// One element more, at index `at` of the reduced dimensions.
    fn step(&self, acc: Self::Accumulator, value: Self::In, at: usize) -> Self::Accumulator;
    /// A strip of elements, the first at index `at`.
    fn strip(&self, values: &[Self::In], at: usize) -> Self::Accumulator;
    /// A strip of halves, which are elements loaded as `f32`; `None` for a fold that needs them loaded.
    fn halves<H: Half>(&self, _values: &[H]) -> Option<Self::Accumulator> {
        None
    }
    /// Both together.
    fn merge(&self, a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
}

/// A reduction is cut into parts of at least this many elements.
pub const CHUNK: usize = 32 * 1024;
/// The most parts of one reduction.
const MAX_PARTS: usize = 32;
/// A reduction with this many results needs no parts.
const ENOUGH_RESULTS: usize = 1024;
/// Elements of each result that are folded before they are merged with the total.
const BLOCK: usize = 64;
/// The longest strip that is borrowed from memory.
const MAX_BORROWED: usize = 4 * STRIP;

/// A layout split into the dimensions that are kept and those that are reduced.
#[derive(Clone, Copy)]
pub struct ReductionDims {
    kept: Layout,
    reduced: Layout,
}

impl ReductionDims {
    /// Splits a layout; `axes[i]` tells whether dimension i is reduced.
    pub fn new(layout: &Layout, axes: &[bool]) -> ReductionDims {
        let part = |is_reduced: bool| {
            let belongs = |at: &usize| axes[*at] == is_reduced;
            let dims: Dims =
                (0..layout.rank()).filter(belongs).map(|at| layout.dims()[at]).collect();
            let strides: Strides =
                (0..layout.rank()).filter(belongs).map(|at| layout.strides()[at]).collect();
            Layout::strided(layout.dtype, &dims, &strides, 0)
        };
        ReductionDims { kept: part(false), reduced: part(true) }
    }

    /// The sizes that are kept.
    pub fn kept(&self) -> &[usize] {
        self.kept.dims()
    }

    /// How many elements become one.
    pub fn count(&self) -> usize {
        self.reduced.count()
    }

    /// How many parts each result is made of: `min(32, ceil(1024 / kept), elements / 32768)`, at least 1,
    /// at most one for each element that is reduced.
    pub fn parts(&self) -> usize {
        let (kept, reduced) = (self.kept.count(), self.reduced.count());
        let parts = MAX_PARTS.min(ENOUGH_RESULTS.div_ceil(kept.max(1))).min(kept * reduced / CHUNK);
        parts.min(reduced).max(1)
    }

    /// Bytes for the parts: one accumulator for each part of each result; none when there is one part.
    pub fn partials<F: Fold>(&self) -> usize {
        match self.parts() {
            1 => 0,
            parts => parts * self.kept.count() * size_of::<F::Accumulator>(),
        }
    }
}

/// One reduction, with walks over the kept dimensions of the tensor and both outputs, and over the reduced ones.
struct Reducer<'v, F> {
    a: View<'v>,
    fold: F,
    kept: Walk<3>,
    reduced: Walk<1>,
    /// Whether neighbouring results are closer together in memory than the elements of one.
    columns: bool,
    /// The number of results, where the tensor is a contiguous matrix of few columns.
    narrow: Option<usize>,
}

/// Reduces `a`, which has the layout that `dims` was made of. Each result goes through `finalize` to the outputs,
/// which have the sizes that are kept. `partial` has [`ReductionDims::partials`] bytes.
pub fn reduce<F: Fold, R: Compute, S: Compute>(
    parallel: &dyn Parallel,
    a: View<'_>,
    dims: &ReductionDims,
    fold: F,
    partial: Option<ViewMut<'_>>,
    outs: (ViewMut<'_>, Option<ViewMut<'_>>),
    finalize: impl Fn(F::Accumulator) -> (R, S) + Sync,
) {
    let second = outs.1.unwrap_or(outs.0);
    let kept = Walk::new([&dims.kept, outs.0.layout(), second.layout()]);
    let reducer = Reducer::new(a, dims, fold, kept);
    reducer.run(parallel, dims.parts(), partial, &|[_, o, s], acc| {
        let (first, other) = finalize(acc);
        // SAFETY: walks stay inside their layouts, which the outputs have.
        unsafe {
            store_at(&outs.0, o, first);
            if let Some(second) = &outs.1 {
                store_at(second, s, other);
            }
        }
    });
}

/// Stores one element.
///
/// # Safety
/// The element at `offset` belongs to the view.
#[inline(never)]
unsafe fn store_at<R: Compute>(out: &ViewMut<'_>, offset: isize, value: R) {
    // SAFETY: as the caller guarantees.
    unsafe {
        let to = out.first_mut().offset(offset * out.item() as isize);
        if out.dtype() == R::DTYPE && R::DTYPE != DType::Bool {
            return to.cast::<R>().write_unaligned(value);
        }
        store_one(out.dtype(), to, value);
    }
}

/// Accumulators in a workspace; each is touched by one thread at a time.
struct Accumulators<Accumulator> {
    first: *mut Accumulator,
    count: usize,
}

// SAFETY: as the type's contract has it.
unsafe impl<Accumulator: Send> Sync for Accumulators<Accumulator> {}

impl<Accumulator: Copy> Accumulators<Accumulator> {
    fn new(bytes: &ViewMut<'_>, count: usize) -> Accumulators<Accumulator> {
        assert!(bytes.is_contiguous() && bytes.bytes() >= count * size_of::<Accumulator>());
        Accumulators { first: bytes.first_mut().cast(), count }
    }

    fn put(&self, at: usize, acc: Accumulator) {
        assert!(at < self.count);
        // SAFETY: inside the bytes.
        unsafe { self.first.add(at).write_unaligned(acc) }
    }

    fn get(&self, at: usize) -> Accumulator {
        assert!(at < self.count);
        // SAFETY: inside the bytes, and put before.
        unsafe { self.first.add(at).read_unaligned() }
    }
}

/// Pairwise summation: merges results of equal weight, so that rounding grows with the logarithm of their number.
struct PairwiseMerge<F: Fold> {
    fold: F,
    levels: [MaybeUninit<F::Accumulator>; 48],
    count: u64,
}

impl<F: Fold> PairwiseMerge<F> {
    #[inline(always)]
    fn new(fold: F) -> PairwiseMerge<F> {
        PairwiseMerge { fold, levels: [MaybeUninit::uninit(); 48], count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, mut acc: F::Accumulator) {
        let mut level = 0;
        while self.count >> level & 1 == 1 {
            // SAFETY: a bit of the count says that the level is set.
            acc = self.fold.merge(unsafe { self.levels[level].assume_init() }, acc);
            level += 1;
        }
        self.levels[level].write(acc);
        self.count += 1;
    }

    #[inline(always)]
    fn total(self) -> F::Accumulator {
        let mut total: Option<F::Accumulator> = None;
        for level in 0..48 {
            if self.count >> level == 0 {
                break;
            }
            if self.count >> level & 1 == 1 {
                // SAFETY: as above.
                let acc = unsafe { self.levels[level].assume_init() };
                total = Some(total.map_or(acc, |total| self.fold.merge(acc, total)));
            }
        }
        total.unwrap_or_else(|| self.fold.start())
    }
}

/// Loads a strip that cannot be borrowed; a function of its own, so that it is compiled once for each type.
#[inline(never)]
pub(super) unsafe fn fetch<C: Compute>(
    dtype: DType,
    from: *const u8,
    stride: isize,
    into: &mut [C],
) {
    // SAFETY: as the caller guarantees.
    vectorised(|| unsafe { load(dtype, from, stride, into) });
}

/// Elements of a view as a strip, borrowed where their type and stride allow it; at most [`STRIP`] of others.
///
/// # Safety
/// The elements belong to the view, and nobody writes them while the strip is used.
#[inline(never)]
pub(super) unsafe fn load_strip<'s, C: Compute>(
    view: &View<'_>,
    offset: isize,
    stride: isize,
    length: usize,
    buffer: &'s mut [MaybeUninit<C>; STRIP],
) -> &'s [C] {
    // SAFETY: as the caller guarantees.
    let from = unsafe { view.first().offset(offset * view.item() as isize) };
    if stride == 1
        && view.dtype() == C::DTYPE
        && C::DTYPE != DType::Bool
        && from.cast::<C>().is_aligned()
    {
        // SAFETY: same type, aligned, readable and unchanged as the caller guarantees.
        return unsafe { std::slice::from_raw_parts(from.cast(), length) };
    }
    let buffer = &mut buffer[..length];
    // SAFETY: compute types are plain numbers, and loading writes each before it is read.
    unsafe {
        std::ptr::write_bytes(
            buffer.as_mut_ptr(),
            0,
            if C::DTYPE == DType::Bool { length } else { 0 },
        );
        let buffer = &mut *(buffer as *mut [MaybeUninit<C>] as *mut [C]);
        fetch(view.dtype(), from, stride, buffer);
        buffer
    }
}

/// Offsets `i` steps on. A function of its own, so that it is compiled once and not for every fold.
#[inline(always)]
fn offsets_after(offsets: [isize; 3], steps: [isize; 3], i: isize) -> [isize; 3] {
    std::array::from_fn(|at| offsets[at] + i * steps[at])
}

/// Takes a result: its number, the offsets of its elements, what was made.
type Emit<'e, Accumulator> = &'e dyn Fn(usize, [isize; 3], Accumulator);

impl<'v, F: Fold> Reducer<'v, F> {
    /// Whether there is a loop for `f32`. A constant, so that nothing is compiled for folds of other types.
    const OF_SINGLES: bool = matches!(F::In::DTYPE, DType::Float);
    /// Whether [`Reducer::narrow_matrix`] serves this fold.
    const MAY_BE_NARROW: bool = Self::OF_SINGLES && !F::INDEXED;

    fn new(a: View<'v>, dims: &ReductionDims, fold: F, kept: Walk<3>) -> Reducer<'v, F> {
        let reduced = Walk::new([&dims.reduced]);
        let least = |layout: &Layout| {
            let sizes = layout.dims().iter().zip(layout.strides());
            sizes.filter(|(n, s)| **n > 1 && **s != 0).map(|(_, s)| s.abs()).min()
        };
        let columns = match (least(&dims.kept), least(&dims.reduced)) {
            (Some(kept), Some(reduced)) => kept < reduced,
            (Some(_), None) => true,
            _ => false,
        };
        let (width, [result_stride, ..]) = (kept.inner(), kept.inner_strides());
        let is_matrix =
            kept.count() == width && result_stride == 1 && reduced.inner() == reduced.count();
        let rows_adjacent = reduced.inner_strides() == [width as isize];
        let narrow = columns
            && Self::MAY_BE_NARROW
            && (1..=STRIP / 4).contains(&width)
            && is_matrix
            && rows_adjacent;
        Reducer { a, fold, kept, reduced, columns, narrow: narrow.then_some(width) }
    }

    fn run(
        &self,
        parallel: &dyn Parallel,
        parts: usize,
        partial: Option<ViewMut<'_>>,
        store: &(dyn Fn([isize; 3], F::Accumulator) + Sync),
    ) {
        let (results, reduced_count) = (self.kept.count(), self.reduced.count());
        if results == 0 {
            return;
        }
        if reduced_count == 0 {
            return split(parallel, results, 64, SMALL, |range| {
                self.each(range, |_, offsets| store(offsets, self.fold.start()));
            });
        }
        if let (2.., Some(partial)) = (parts, partial) {
            let partials = Accumulators::<F::Accumulator>::new(&partial, parts * results);
            parallel.run(parts, &|part| {
                let range = share(reduced_count, 16, parts, part);
                self.sweep(0..results, range, &|k, _, acc| partials.put(part * results + k, acc));
            });
            return self.each(0..results, |k, offsets| {
                let total = (1..parts).fold(partials.get(k), |acc, part| {
                    self.fold.merge(acc, partials.get(part * results + k))
                });
                store(offsets, total);
            });
        }
        let (grain, least) = match (self.narrow, self.columns) {
            (Some(width), _) => (width, results),
            (None, true) => (64, (SMALL / reduced_count.max(1)).max(64)),
            (None, false) => (1, SMALL / reduced_count.max(1)),
        };
        split(parallel, results, grain, least.max(1), |range| {
            self.sweep(range, 0..reduced_count, &|_, offsets, acc| store(offsets, acc));
        });
    }

    /// Calls `emit` with each result of `kept` over the elements of `reduced`.
    #[inline(never)]
    fn sweep(&self, kept: Range<usize>, reduced: Range<usize>, emit: Emit<'_, F::Accumulator>) {
        assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
        // SAFETY: this processor has the three features.
        #[allow(unused_unsafe)]
        unsafe {
            if const { Self::MAY_BE_NARROW }
                && let Some(width) = self.narrow
            {
                self.narrow_matrix(width, reduced, emit);
            } else if self.columns {
                self.side_by_side(kept, reduced, emit);
            } else {
                self.lines(kept, reduced, emit);
            }
        }
    }

    /// Whether elements this far apart can be borrowed from memory.
    fn can_borrow(&self, stride: isize) -> bool {
        let same_type = self.a.dtype() == F::In::DTYPE && F::In::DTYPE != DType::Bool;
        same_type && stride == 1 && self.a.address().is_multiple_of(align_of::<F::In>())
    }

    /// Calls `visit` with number and offsets of each result.
    #[inline(always)]
    fn each(&self, kept: Range<usize>, mut visit: impl FnMut(usize, [isize; 3])) {
        let steps = self.kept.inner_strides();
        let mut k = kept.start;
        for (offsets, length) in self.kept.steps(kept, usize::MAX) {
            for i in 0..length as isize {
                visit(k, offsets_after(offsets, steps, i));
                k += 1;
            }
        }
    }

    /// As [`Reducer::lines`], of halves that lie one after the other: they are folded as they are loaded. Returns `false`,
    /// with nothing done, for others.
    #[inline(always)]
    fn half_lines<H: Half>(
        &self,
        kept: Range<usize>,
        reduced: Range<usize>,
        emit: Emit<'_, F::Accumulator>,
    ) -> bool {
        if const { !Self::OF_SINGLES } {
            return false;
        }
        let [stride] = self.reduced.inner_strides();
        let aligned = self.a.address().is_multiple_of(align_of::<H>());
        if stride != 1 || !aligned || self.fold.halves::<H>(&[]).is_none() {
            return false;
        }
        self.each(kept, |k, offsets| {
            let mut pairs = PairwiseMerge::new(self.fold);
            for ([offset], length) in self.reduced.steps(reduced.clone(), MAX_BORROWED) {
                // SAFETY: aligned elements of this type, of which walks stay inside; results are written later.
                let values = unsafe {
                    let first = self.a.first().cast::<H>().offset(offsets[0] + offset);
                    std::slice::from_raw_parts(first, length)
                };
                pairs.push(self.fold.halves(values).unwrap_or(self.fold.start()));
            }
            emit(k, offsets, pairs.total());
        });
        true
    }

    /// Result by result, each from strips along the reduced dimensions.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    fn lines(&self, kept: Range<usize>, reduced: Range<usize>, emit: Emit<'_, F::Accumulator>) {
        with_half!(self.a.dtype(), H => {
            if self.half_lines::<H>(kept.clone(), reduced.clone(), emit) {
                return;
            }
        }, else {});
        let mut buffer = [MaybeUninit::uninit(); STRIP];
        let [stride] = self.reduced.inner_strides();
        let longest = if self.can_borrow(stride) { MAX_BORROWED } else { STRIP };
        let is_one_run = self.reduced.inner() == self.reduced.count();
        self.each(kept, |k, offsets| {
            let mut at = reduced.start;
            if is_one_run && reduced.len() <= longest {
                let start = offsets[0] + at as isize * stride;
                // SAFETY: walks stay inside their layouts; only results of this thread are written, later.
                let values =
                    unsafe { load_strip(&self.a, start, stride, reduced.len(), &mut buffer) };
                return emit(k, offsets, self.fold.strip(values, at));
            }
            let mut pairs = PairwiseMerge::new(self.fold);
            for ([offset], length) in self.reduced.steps(reduced.clone(), longest) {
                // SAFETY: as above.
                let values = unsafe {
                    load_strip(&self.a, offsets[0] + offset, stride, length, &mut buffer)
                };
                pairs.push(self.fold.strip(values, at));
                at += length;
            }
            emit(k, offsets, pairs.total());
        });
    }

    /// Many results at a time, each strip from one index of the reduced dimensions.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    fn side_by_side(
        &self,
        kept: Range<usize>,
        reduced: Range<usize>,
        emit: Emit<'_, F::Accumulator>,
    ) {
        let mut buffer = [MaybeUninit::uninit(); STRIP];
        let (mut block, mut totals) = ([self.fold.start(); STRIP], [self.fold.start(); STRIP]);
        let ([row_stride], steps) = (self.reduced.inner_strides(), self.kept.inner_strides());
        let mut k = kept.start;
        for (offsets, width) in self.kept.steps(kept, STRIP) {
            let (block, totals) = (&mut block[..width], &mut totals[..width]);
            block.fill(self.fold.start());
            totals.fill(self.fold.start());
            let (mut at, mut filled) = (reduced.start, 0);
            for ([offset], length) in self.reduced.steps(reduced.clone(), usize::MAX) {
                for row in 0..length as isize {
                    let start = offsets[0] + offset + row * row_stride;
                    // SAFETY: walks stay inside their layouts; results are written later.
                    let values =
                        unsafe { load_strip(&self.a, start, steps[0], width, &mut buffer) };
                    for (acc, value) in block.iter_mut().zip(values) {
                        *acc = self.fold.step(*acc, *value, at);
                    }
                    at += 1;
                    filled += 1;
                    if filled == BLOCK {
                        self.drain(block, totals);
                        filled = 0;
                    }
                }
            }
            self.drain(block, totals);
            for (i, total) in totals.iter().enumerate() {
                emit(k, offsets_after(offsets, steps, i as isize), *total);
                k += 1;
            }
        }
    }

    /// A contiguous matrix of few columns: several rows are taken as one.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    fn narrow_matrix(&self, width: usize, reduced: Range<usize>, emit: Emit<'_, F::Accumulator>) {
        let mut buffer = [MaybeUninit::uninit(); STRIP];
        let (mut block, mut totals) = ([self.fold.start(); STRIP], [self.fold.start(); STRIP]);
        let block_length = STRIP / width * width;
        let (mut at, end) = (reduced.start * width, reduced.end * width);
        let mut filled = 0;
        while at < end {
            let length = block_length.min(end - at);
            // SAFETY: the elements of these rows are contiguous; results are written later.
            let values = unsafe { load_strip(&self.a, at as isize, 1, length, &mut buffer) };
            for (acc, value) in block[..length].iter_mut().zip(values) {
                *acc = self.fold.step(*acc, *value, 0);
            }
            at += length;
            filled += 1;
            if filled == BLOCK {
                self.drain(&mut block, &mut totals);
                filled = 0;
            }
        }
        self.drain(&mut block, &mut totals);
        self.each(0..width, |k, offsets| {
            let of_column = totals[..block_length].iter().skip(k).step_by(width);
            let total = of_column.fold(self.fold.start(), |acc, one| self.fold.merge(acc, *one));
            emit(k, offsets, total);
        });
    }

    /// Merges the accumulators of a block into the totals, and starts them anew.
    #[inline(always)]
    fn drain(&self, block: &mut [F::Accumulator], totals: &mut [F::Accumulator]) {
        for (acc, total) in block.iter_mut().zip(totals) {
            *total = self.fold.merge(*total, *acc);
            *acc = self.fold.start();
        }
    }
}
