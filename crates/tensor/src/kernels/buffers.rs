//! Whole buffers: copied, and several of one length folded into one, element by element. Nothing here has a shape.

use super::halves::Half;
use super::number::Number;
use super::strip::runs_here;
use crate::Shared;
use crate::parallel::{Parallel, split};
use half::{bf16, f16};
use std::cell::Cell;
use std::ops::Range;

/// How two elements become one. Integers wrap, minimum and maximum pass NaN on, half types are computed in `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The greater.
    Greatest,
    /// The lesser.
    Least,
}

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BufferType {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl BufferType {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            BufferType::I8 | BufferType::U8 => 1,
            BufferType::I16 | BufferType::U16 | BufferType::F16 | BufferType::Bf16 => 2,
            BufferType::I32 | BufferType::U32 | BufferType::F32 => 4,
            BufferType::I64 | BufferType::U64 | BufferType::F64 => 8,
            BufferType::I128 => 16,
        }
    }
}

/// Elements that are folded at a time: few enough for the first-level cache.
const STRIP: usize = 256;
/// Inputs that need no allocation.
const FEW: usize = 16;
/// Bytes that are worth another thread.
const BYTES_A_THREAD: usize = 128 << 10;

/// What elements are computed in.
trait Computed: Copy + Default {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn greatest_of(self, other: Self) -> Self;
    fn least_of(self, other: Self) -> Self;
}

/// A type of elements in memory, at any address.
trait Stored: Copy + Send + Sync + 'static {
    type In: Computed;
    /// # Safety
    /// `into.len()` elements are readable, and [`runs_here`] holds.
    unsafe fn load(from: *const Self, into: &mut [Self::In]);
    /// # Safety
    /// `from.len()` elements are writable, and [`runs_here`] holds.
    unsafe fn store(from: &[Self::In], to: *mut Self);
}

macro_rules! stored {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            type In = $type;
            #[inline(always)]
            unsafe fn load(from: *const $type, into: &mut [$type]) {
                // SAFETY: as the caller guarantees; the two are apart, since `into` is borrowed mutably.
                unsafe {
                    std::ptr::copy_nonoverlapping(from.cast::<u8>(), into.as_mut_ptr().cast::<u8>(), size_of_val(into));
                }
            }
            #[inline(always)]
            unsafe fn store(from: &[$type], to: *mut $type) {
                // SAFETY: as the caller guarantees; the two are apart, since nobody writes `from`.
                unsafe {
                    std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to.cast::<u8>(), size_of_val(from));
                }
            }
        }
    )*};
}

stored!(i8, i16, i32, i64, i128, u8, u16, u32, u64, f32, f64);

macro_rules! stored_half {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            type In = f32;
            #[inline(always)]
            unsafe fn load(from: *const $type, into: &mut [f32]) {
                // SAFETY: as the caller guarantees.
                unsafe { <$type as Half>::widen_all(from, into) }
            }
            #[inline(always)]
            unsafe fn store(from: &[f32], to: *mut $type) {
                // SAFETY: as the caller guarantees.
                unsafe { <$type as Half>::narrow_all(from, to) }
            }
        }
    )*};
}

stored_half!(f16, bf16);

macro_rules! computed_integer {
    ($($type:ty),*) => {$(
        impl Computed for $type {
            #[inline(always)] fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)] fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)] fn greatest_of(self, other: Self) -> Self { if self > other { self } else { other } }
            #[inline(always)] fn least_of(self, other: Self) -> Self { if self < other { self } else { other } }
        }
    )*};
}

computed_integer!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

macro_rules! computed_real {
    ($($type:ty),*) => {$(
        impl Computed for $type {
            #[inline(always)] fn sum(self, other: Self) -> Self { self + other }
            #[inline(always)] fn product(self, other: Self) -> Self { self * other }
            #[inline(always)] fn greatest_of(self, other: Self) -> Self { Number::greatest(self, other) }
            #[inline(always)] fn least_of(self, other: Self) -> Self { Number::least(self, other) }
        }
    )*};
}

computed_real!(f32, f64);

/// Copies all of `from`. The two have the same length, and are the same or apart.
///
/// # Panics
/// If the lengths differ.
pub fn copy_bytes(parallel: &dyn Parallel, out: &[Cell<u8>], from: &[Cell<u8>]) {
    assert_eq!(out.len(), from.len(), "a copy between buffers of two lengths");
    if std::ptr::eq(out, from) {
        return;
    }
    let (out_bytes, from_bytes) = (Shared::new(out), Shared::new(from));
    split(parallel, out.len(), 4096, 4 * BYTES_A_THREAD, |range| {
        let to = out_bytes.part(range.start, range.len());
        let from = from_bytes.part(range.start, range.len());
        // SAFETY: two slices of cells of one length; plain bytes, which other threads may change.
        unsafe {
            std::ptr::copy(
                from.as_ptr().cast::<u8>(),
                to.as_ptr().cast::<u8>().cast_mut(),
                to.len(),
            )
        };
    });
}

/// `out = inputs[0] fold inputs[1] fold ..`, element by element and in that order; half types are rounded once, at the end.
/// All have the same length, a whole number of elements; `out` may be one of the inputs, and is apart from the others.
///
/// # Panics
/// If the lengths differ, there is no input, or the processor lacks what kernels need.
pub fn fold_buffers(
    parallel: &dyn Parallel,
    fold: Fold,
    buffer_type: BufferType,
    inputs: &[&[Cell<u8>]],
    out: &[Cell<u8>],
) {
    let item = buffer_type.bytes();
    assert!(!inputs.is_empty() && out.len().is_multiple_of(item), "whole elements of some input");
    assert!(inputs.iter().all(|input| input.len() == out.len()), "buffers of two lengths");
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    let mut few = [Shared::new(out); FEW];
    let many: Vec<Shared<'_>>;
    let inputs = if inputs.len() <= FEW {
        inputs.iter().zip(&mut few).for_each(|(input, slot)| *slot = Shared::new(input));
        &few[..inputs.len()]
    } else {
        many = inputs.iter().map(|input| Shared::new(input)).collect();
        &many
    };
    let out = Shared::new(out);
    split(parallel, out.len() / item, STRIP, BYTES_A_THREAD / item, |range| {
        // SAFETY: the processor has what is needed.
        unsafe { fold_range(fold, buffer_type, inputs, out, range) };
    });
}

/// # Safety
/// [`runs_here`] holds.
unsafe fn fold_range(
    fold: Fold,
    buffer_type: BufferType,
    inputs: &[Shared<'_>],
    out: Shared<'_>,
    range: Range<usize>,
) {
    macro_rules! by_type {
        ($($name:ident = $type:ty),*) => {
            match buffer_type {
                // SAFETY: as the caller guarantees.
                $(BufferType::$name => unsafe { fold_typed::<$type>(fold, inputs, out, range) },)*
            }
        };
    }
    by_type!(
        I8 = i8,
        I16 = i16,
        I32 = i32,
        I64 = i64,
        I128 = i128,
        U8 = u8,
        U16 = u16,
        U32 = u32,
        U64 = u64,
        F16 = f16,
        Bf16 = bf16,
        F32 = f32,
        F64 = f64
    );
}

/// # Safety
/// [`runs_here`] holds.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn fold_typed<T: Stored>(
    fold: Fold,
    inputs: &[Shared<'_>],
    out: Shared<'_>,
    range: Range<usize>,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match fold {
            Fold::Sum => fold_strips::<T>(inputs, out, range, <T::In as Computed>::sum),
            Fold::Product => fold_strips::<T>(inputs, out, range, <T::In as Computed>::product),
            Fold::Greatest => {
                fold_strips::<T>(inputs, out, range, <T::In as Computed>::greatest_of)
            }
            Fold::Least => fold_strips::<T>(inputs, out, range, <T::In as Computed>::least_of),
        }
    }
}

/// # Safety
/// [`runs_here`] holds.
#[inline(always)]
unsafe fn fold_strips<T: Stored>(
    inputs: &[Shared<'_>],
    out: Shared<'_>,
    range: Range<usize>,
    combine: impl Fn(T::In, T::In) -> T::In,
) {
    let item = size_of::<T>();
    let (mut folded, mut next) = ([T::In::default(); STRIP], [T::In::default(); STRIP]);
    for start in range.clone().step_by(STRIP) {
        let width = STRIP.min(range.end - start);
        let (folded, next) = (&mut folded[..width], &mut next[..width]);
        let elements =
            |bytes: &Shared<'_>| bytes.part(start * item, width * item).as_ptr().cast::<T>();
        // SAFETY: as many elements as the strips have, as `part` has checked.
        unsafe {
            T::load(elements(&inputs[0]), folded);
            for input in &inputs[1..] {
                T::load(elements(input), next);
                for (one, other) in folded.iter_mut().zip(&*next) {
                    *one = combine(*one, *other);
                }
            }
            T::store(folded, elements(&out).cast_mut());
        }
    }
}
