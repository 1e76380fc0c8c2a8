//! The half types, `f16` and `bf16`, in pieces: widened, computed on in `f32` and narrowed while they are in registers and the
//! first-level cache, so that memory is read and written without a pause.

use super::element::{Compute, Element};
use super::map::SMALL;
use super::strip::{STRIP, load_one, runs_here};
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};
use half::{bf16, f16};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m256i};
use std::ops::Range;

/// Elements of a piece: few enough that a processor begins to load the next while it computes on one.
pub(super) const PIECE: usize = 64;

/// A piece in `f32`. No vector of it lies across two cache lines, which would cost more than the conversion.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Piece(pub [f32; PIECE]);

/// A half type.
pub trait Half: Element {
    /// To `f32`.
    ///
    /// # Safety
    /// `into.len()` elements are readable, and [`runs_here`] holds.
    unsafe fn widen_all(from: *const Self, into: &mut [f32]);

    /// From `f32`, rounded to nearest even.
    ///
    /// # Safety
    /// `from.len()` elements are writable, and [`runs_here`] holds.
    unsafe fn narrow_all(from: &[f32], to: *mut Self);
}

impl Half for f16 {
    #[inline(always)]
    unsafe fn widen_all(from: *const f16, into: &mut [f32]) {
        let (chunks, rest) = into.as_chunks_mut::<8>();
        let start_of_rest = chunks.len() * 8;
        for (at, slot) in chunks.iter_mut().enumerate() {
            // SAFETY: eight elements on either side, as the caller guarantees.
            unsafe {
                let from = from.add(at * 8);
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
                    let floats = _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
                    _mm256_storeu_ps(slot.as_mut_ptr(), floats);
                }
                #[cfg(not(target_arch = "x86_64"))]
                for (at, slot) in slot.iter_mut().enumerate() {
                    *slot = from.add(at).read_unaligned().to_f32();
                }
            }
        }
        for (at, slot) in rest.iter_mut().enumerate() {
            // SAFETY: as the caller guarantees.
            *slot = unsafe { from.add(start_of_rest + at).read_unaligned() }.to_f32();
        }
    }

    #[inline(always)]
    unsafe fn narrow_all(from: &[f32], to: *mut f16) {
        let (chunks, rest) = from.as_chunks::<8>();
        let start_of_rest = chunks.len() * 8;
        for (at, eight) in chunks.iter().enumerate() {
            // SAFETY: eight elements on either side, as the caller guarantees.
            unsafe {
                let to = to.add(at * 8);
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{
                        _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph,
                        _mm256_loadu_ps,
                    };
                    let floats = _mm256_loadu_ps(eight.as_ptr());
                    let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(floats);
                    _mm_storeu_si128(to.cast(), halves);
                }
                #[cfg(not(target_arch = "x86_64"))]
                for (at, one) in eight.iter().enumerate() {
                    to.add(at).write_unaligned(f16::from_f32(*one));
                }
            }
        }
        for (at, one) in rest.iter().enumerate() {
            // SAFETY: as the caller guarantees.
            unsafe { to.add(start_of_rest + at).write_unaligned(f16::from_f32(*one)) };
        }
    }
}

impl Half for bf16 {
    #[inline(always)]
    unsafe fn widen_all(from: *const bf16, into: &mut [f32]) {
        for (at, slot) in into.iter_mut().enumerate() {
            // SAFETY: as the caller guarantees.
            *slot = Element::to_f32(unsafe { from.add(at).read_unaligned() });
        }
    }

    #[inline(always)]
    unsafe fn narrow_all(from: &[f32], to: *mut bf16) {
        let (chunks, rest) = from.as_chunks::<16>();
        let start_of_rest = chunks.len() * 16;
        for (at, sixteen) in chunks.iter().enumerate() {
            // SAFETY: sixteen elements on either side, as the caller guarantees.
            unsafe {
                let to = to.add(at * 16);
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{_mm256_loadu_ps, _mm256_storeu_si256};
                    let first = _mm256_loadu_ps(sixteen.as_ptr());
                    let second = _mm256_loadu_ps(sixteen.as_ptr().add(8));
                    _mm256_storeu_si256(to.cast(), narrow_sixteen(first, second));
                }
                #[cfg(not(target_arch = "x86_64"))]
                for (at, one) in sixteen.iter().enumerate() {
                    to.add(at).write_unaligned(Element::from_f32(*one));
                }
            }
        }
        for (at, one) in rest.iter().enumerate() {
            // SAFETY: as the caller guarantees.
            unsafe { to.add(start_of_rest + at).write_unaligned(Element::from_f32(*one)) };
        }
    }
}

/// Numbers of two vectors as `bf16`, as [`Element::from_f32`] has it.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn narrow_sixteen(first: __m256, second: __m256) -> __m256i {
    use std::arch::x86_64::*;
    #[inline]
    #[target_feature(enable = "avx2")]
    fn upper_halves(x: __m256) -> __m256i {
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
        let nan = _mm256_set1_ps(f32::from_bits(0x7fc0_0000));
        let rounded = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), nan, is_nan);
        _mm256_srli_epi32::<16>(_mm256_castps_si256(rounded))
    }
    // Packing puts the lower lanes of both before the upper ones.
    let packed = _mm256_packus_epi32(upper_halves(first), upper_halves(second));
    _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
}

/// Runs `$body` with `$H` standing for the half type `$dtype`; `$other` for another type.
macro_rules! with_half {
    ($dtype:expr, $H:ident => $body:expr, else $other:expr) => {
        match $dtype {
            $crate::DType::Float16 => {
                type $H = half::f16;
                $body
            }
            $crate::DType::Bf16 => {
                type $H = half::bf16;
                $body
            }
            _ => $other,
        }
    };
}
pub(super) use with_half;

/// A function of the elements at a position. It is compiled into each loop that calls it, one for each half type among
/// them: so it is no closure, of which the compiler makes a function, without vectors, where it has more than one caller.
pub trait Pointwise<C: Compute, R: Compute, const N: usize>: Copy + Sync {
    /// The result. To be marked `#[inline(always)]`.
    fn at(self, x: [C; N]) -> R;
}

/// Whether functions of these types are ones that [`one_pass`] serves. A constant: loops of others are not compiled.
pub(super) const fn has_one_pass<C: Compute, R: Compute>() -> bool {
    matches!((C::DTYPE, R::DTYPE), (DType::Float, DType::Float))
}

/// `out = f(inputs)` in one pass, where both are of one half type and lie packed along the innermost dimension of `walk`; an
/// input may also be one number along it, of any type. Returns `false`, with nothing done, for others.
///
/// The walk is over `out` and the inputs, so `M` is `N + 1`. An input is the output itself or does not overlap it.
pub(super) fn one_pass<C: Compute, R: Compute, const N: usize, const M: usize>(
    parallel: &dyn Parallel,
    walk: &Walk<M>,
    out: ViewMut<'_>,
    inputs: [View<'_>; N],
    f: impl Pointwise<C, R, N>,
) -> bool {
    debug_assert!(M == N + 1);
    if const { !has_one_pass::<C, R>() } {
        return false;
    }
    let strides = walk.inner_strides();
    let fits = |at: usize| match strides[at + 1] {
        0 => !inputs[at].dtype().is_complex(),
        stride => stride == 1 && inputs[at].dtype() == out.dtype(),
    };
    if strides[0] != 1 || walk.inner() < PIECE || !(0..N).all(fits) {
        return false;
    }
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    with_half!(out.dtype(), H => split(parallel, walk.count(), STRIP, SMALL, |range| {
        // SAFETY: this processor has the three features; types and strides are as just checked.
        unsafe { pass_over_range::<H, C, R, N, M>(walk, range, &out, &inputs, f) }
    }), else return false);
    true
}

/// The numbers at a position of the pieces. A function of its own, so that it is not compiled for every `f`.
#[inline(always)]
fn numbers_at<C: Compute, const N: usize>(pieces: &[Piece; N], at: usize) -> [C; N] {
    std::array::from_fn(|one| C::from_f32(pieces[one].0[at]))
}

/// A part of [`one_pass`], of one type.
///
/// # Safety
/// Types and strides are as `one_pass` needs them, the walk is of these tensors, and [`runs_here`] holds.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn pass_over_range<H: Half, C: Compute, R: Compute, const N: usize, const M: usize>(
    walk: &Walk<M>,
    range: Range<usize>,
    out: &ViewMut<'_>,
    inputs: &[View<'_>; N],
    f: impl Pointwise<C, R, N>,
) {
    let strides = walk.inner_strides();
    let mut x = [Piece([0.0; PIECE]); N];
    let mut results = Piece([0.0; PIECE]);
    let mut tail = [H::from_f32(0.0); PIECE];
    for (offsets, length) in walk.steps(range, usize::MAX) {
        let mut from = [std::ptr::null::<H>(); N];
        for at in 0..N {
            let view = &inputs[at];
            // SAFETY: the first element of a run, as the caller guarantees.
            let first = unsafe { view.first().offset(offsets[at + 1] * view.item() as isize) };
            from[at] = first.cast();
            if strides[at + 1] == 0 {
                // SAFETY: as above.
                x[at].0.fill(unsafe { load_one(view.dtype(), first) });
            }
        }
        // SAFETY: the first element of a run, as the caller guarantees.
        let to = unsafe { out.first_mut().cast::<H>().offset(offsets[0]) };
        let mut start = 0;
        while start < length {
            let count = PIECE.min(length - start);
            for at in 0..N {
                if strides[at + 1] == 0 {
                    continue;
                }
                // SAFETY: elements of the run; `tail` is a piece.
                unsafe {
                    let mut next = from[at].add(start);
                    if count < PIECE {
                        std::ptr::copy_nonoverlapping(next, tail.as_mut_ptr(), count);
                        next = tail.as_ptr();
                    }
                    H::widen_all(next, &mut x[at].0);
                }
            }
            for at in 0..PIECE {
                results.0[at] = f.at(numbers_at(&x, at)).to_f32();
            }
            // SAFETY: elements of the run, whose inputs were read; `tail` is a piece.
            unsafe {
                let next = to.add(start);
                if count < PIECE {
                    H::narrow_all(&results.0, tail.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(tail.as_ptr(), next, count);
                } else {
                    H::narrow_all(&results.0, next);
                }
            }
            start += count;
        }
    }
}

/// Elements of the compute type `C` as the `f32` that they are.
///
/// # Panics
/// If they are of another type.
#[inline(always)]
pub(super) fn singles<C: Compute>(values: &[C]) -> &[f32] {
    assert!(C::DTYPE == DType::Float);
    // SAFETY: `f32` is the one compute type of that name.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

/// As [`singles`], to write.
#[inline(always)]
pub(super) fn singles_mut<C: Compute>(values: &mut [C]) -> &mut [f32] {
    assert!(C::DTYPE == DType::Float);
    // SAFETY: `f32` is the one compute type of that name.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), values.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use crate::kernels::elementwise::ElementwiseArgs;
    use crate::parallel::SingleThread;
    use std::cell::Cell;

    fn bits<H: Half>(values: &[H]) -> Vec<u16> {
        // SAFETY: half types have two bytes, of any values.
        values.iter().map(|one| unsafe { std::mem::transmute_copy::<H, u16>(one) }).collect()
    }

    /// Numbers of every exponent, ties between halves, infinities and NaN.
    fn numbers() -> Vec<f32> {
        let around = |bits: u32| [bits.wrapping_sub(1), bits, bits.wrapping_add(1)];
        (0..=u32::MAX).step_by(0x1000 * 7).flat_map(around).map(f32::from_bits).collect()
    }

    fn converts_as_single_elements<H: Half>() {
        let all = numbers();
        for from in [all.len() - 21, 0] {
            let values = &all[from..];
            let mut narrow = vec![H::from_f32(0.0); values.len()];
            // SAFETY: as many elements; tests run where kernels do.
            unsafe { H::narrow_all(values, narrow.as_mut_ptr()) };
            let expected: Vec<H> = values.iter().map(|one| H::from_f32(*one)).collect();
            assert_eq!(bits(&narrow), bits(&expected));
            let mut floats = vec![0f32; values.len()];
            // SAFETY: as above.
            unsafe { H::widen_all(narrow.as_ptr(), &mut floats) };
            let same = |(have, half): (&f32, &H)| have.to_bits() == half.to_f32().to_bits();
            assert!(floats.iter().zip(&narrow).all(same));
        }
    }

    #[test]
    fn conversions_are_those_of_single_elements() {
        converts_as_single_elements::<f16>();
        converts_as_single_elements::<bf16>();
    }

    #[derive(Clone, Copy)]
    struct Scaled(f32);

    impl Pointwise<f32, f32, 2> for Scaled {
        #[inline(always)]
        fn at(self, [x, y]: [f32; 2]) -> f32 {
            x + self.0 * y
        }
    }

    #[test]
    fn one_pass_is_the_formula_at_each_position() {
        for dtype in [DType::Float16, DType::Bf16] {
            for (rows, columns) in [(1, 63), (1, 64), (1, 65), (3, 100), (5, 1000)] {
                let count = rows * columns;
                let memory: Vec<Cell<u64>> = (0..3 * count as u64)
                    .map(|at| {
                        Cell::new(0x3c00_3e00_4000_4200 ^ at.wrapping_mul(0x0101_0011_0201_0003))
                    })
                    .collect();
                // SAFETY: the same bytes, of any values.
                let bytes = unsafe {
                    std::slice::from_raw_parts(memory.as_ptr().cast::<Cell<u8>>(), memory.len() * 8)
                };
                let part = |at: usize| &bytes[at * count * 2..(at + 1) * count * 2];
                let contiguous = Layout::contiguous(dtype, &[rows, columns]);
                let column = Layout::strided(dtype, &[rows, columns], &[1, 0], 0);
                let x = View::over(part(0), contiguous).unwrap();
                for layout in [contiguous, column] {
                    let y = View::over(part(1), layout).unwrap();
                    let outs = [2, 3].map(|at| ViewMut::over(part(at), contiguous).unwrap());
                    ElementwiseArgs::Tensors(&SingleThread, outs[0], [x, y])
                        .apply::<f32, f32>(Scaled(0.5));
                    ElementwiseArgs::Tensors(&SingleThread, outs[1], [x, y])
                        .map::<f32, f32, f32>(|x, y| x + 0.5 * y);
                    let [a, b] =
                        [part(2), part(3)].map(|one| one.iter().map(Cell::get).collect::<Vec<_>>());
                    assert_eq!(a, b, "{dtype} {rows} {columns}");
                }
                let in_place = ViewMut::over(part(0), contiguous).unwrap();
                let y = View::over(part(1), contiguous).unwrap();
                let expected = ViewMut::over(part(2), contiguous).unwrap();
                ElementwiseArgs::Tensors(&SingleThread, expected, [x, y])
                    .map::<f32, f32, f32>(|x, y| x - y);
                ElementwiseArgs::Tensors(&SingleThread, in_place, [x, y])
                    .apply::<f32, f32>(Scaled(-1.0));
                let [a, b] =
                    [part(0), part(2)].map(|one| one.iter().map(Cell::get).collect::<Vec<_>>());
                assert_eq!(a, b, "in place: {dtype} {rows} {columns}");
            }
        }
    }
}
