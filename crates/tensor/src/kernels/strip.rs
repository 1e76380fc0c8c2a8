//! Strips: short runs of elements that kernels load, compute on and store, whatever their type and stride.

use super::element::{Compute, Element};
use super::halves::{Half, singles, singles_mut, with_half};
use crate::with_any_element;
use crate::{DType, View};

/// The most elements of a strip. Three of them in `f64` fit a first-level cache with room to spare.
pub const STRIP: usize = 512;

/// Whether this processor has what kernels are compiled for: AVX2, FMA and F16C on x86_64.
pub fn runs_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Whether this processor has AVX-512 besides. Some kernels have a wider form for it.
#[cfg(target_arch = "x86_64")]
pub fn has_avx512() -> bool {
    !cfg!(feature = "without_avx512") && is_x86_feature_detected!("avx512f") && runs_here()
}

/// Runs `work` compiled for the vectors that kernels ask of a processor.
///
/// There is one call of `work`: with a second one, for processors without such vectors, the compiler
/// would make it a function of its own, without vectors. It may do that to a long one anyway: what matters is
/// defined with `vectorised_fn!`.
///
/// # Panics
/// Where kernels do not run: see [`runs_here`].
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
        // SAFETY: this processor has the three features.
        unsafe { with_avx2(work) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    work()
}

/// Defines a function that is compiled, with every closure in it, for the vectors that kernels ask of a processor.
/// Unlike `vectorised` it leaves nothing to the compiler's choice. It panics where kernels do not run.
macro_rules! vectorised_fn {
    ($(#[$meta:meta])* $visible:vis fn $name:ident<$C:ident: $bound:path $(, const $K:ident: $kind:ty)?>($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $visible fn $name<$C: $bound $(, const $K: $kind)?>($($arg: $type),*) $(-> $result)? {
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
            fn with_avx2<$C: $bound $(, const $K: $kind)?>($($arg: $type),*) $(-> $result)? $body
            assert!($crate::kernels::strip::runs_here(), "this processor lacks AVX2, FMA or F16C");
            // SAFETY: this processor has the three features.
            #[allow(unused_unsafe)]
            unsafe { with_avx2::<$C $(, $K)?>($($arg),*) }
        }
    };
}
pub(crate) use vectorised_fn;

/// Loads `into.len()` elements of type `dtype` from `from` on, `stride` elements apart.
///
/// # Safety
/// They are all readable.
#[inline(never)]
pub unsafe fn load<C: Compute>(dtype: DType, from: *const u8, stride: isize, into: &mut [C]) {
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn with_avx2<C: Compute>(dtype: DType, from: *const u8, stride: isize, into: &mut [C]) {
        // SAFETY: as the caller guarantees.
        with_any_element!(dtype, T => unsafe { load_typed::<T, C>(from.cast(), stride, into) }, else unreachable!("{dtype}"))
    }
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    // SAFETY: this processor has the three features; for the elements the caller guarantees.
    unsafe { with_avx2(dtype, from, stride, into) }
}

/// As [`load`], of one type.
///
/// # Safety
/// The elements are all readable.
#[inline(always)]
unsafe fn load_typed<T: Element, C: Compute>(from: *const T, stride: isize, into: &mut [C]) {
    match stride {
        // A strip without elements may be at an address where nothing is.
        _ if into.is_empty() => {}
        0 => {
            // SAFETY: there is at least one element, which the caller guarantees for.
            into.fill(unsafe { from.read_unaligned() }.widen());
        }
        1 => {
            if C::DTYPE == DType::Float {
                let into = singles_mut(into);
                // SAFETY: types as just checked; the caller guarantees for the elements.
                with_half!(T::DTYPE, H => return unsafe { H::widen_all(from.cast(), into) }, else {});
            }
            for (at, slot) in into.iter_mut().enumerate() {
                // SAFETY: as the caller guarantees.
                *slot = unsafe { from.add(at).read_unaligned() }.widen();
            }
        }
        _ => {
            for (at, slot) in into.iter_mut().enumerate() {
                // SAFETY: as the caller guarantees.
                *slot = unsafe { from.offset(at as isize * stride).read_unaligned() }.widen();
            }
        }
    }
}

/// Stores a strip as elements of type `dtype`, `stride` elements apart.
///
/// # Safety
/// They are all writable.
#[inline(never)]
pub unsafe fn store<C: Compute>(dtype: DType, to: *mut u8, stride: isize, from: &[C]) {
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn with_avx2<C: Compute>(dtype: DType, to: *mut u8, stride: isize, from: &[C]) {
        // SAFETY: as the caller guarantees.
        with_any_element!(dtype, T => unsafe { store_typed::<T, C>(to.cast(), stride, from) }, else unreachable!("{dtype}"))
    }
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    // SAFETY: this processor has the three features; for the elements the caller guarantees.
    unsafe { with_avx2(dtype, to, stride, from) }
}

/// As [`store`], of one type.
///
/// # Safety
/// The elements are all writable.
#[inline(always)]
unsafe fn store_typed<T: Element, C: Compute>(to: *mut T, stride: isize, from: &[C]) {
    if stride == 1 {
        if C::DTYPE == DType::Float {
            let from = singles(from);
            // SAFETY: types as just checked; the caller guarantees for the elements.
            with_half!(T::DTYPE, H => return unsafe { H::narrow_all(from, to.cast()) }, else {});
        }
        for (at, value) in from.iter().enumerate() {
            // SAFETY: as the caller guarantees.
            unsafe { to.add(at).write_unaligned(narrow(*value)) };
        }
        return;
    }
    for (at, value) in from.iter().enumerate() {
        // SAFETY: as the caller guarantees.
        unsafe { to.offset(at as isize * stride).write_unaligned(narrow(*value)) };
    }
}

/// From a compute type to a type in memory.
#[inline(always)]
pub fn narrow<T: Element, C: Compute>(value: C) -> T {
    match C::DTYPE {
        DType::Float => T::from_f32(value.to_f32()),
        DType::Double => T::from_f64(value.to_f64()),
        DType::Int64 => T::from_i64(value.to_i64()),
        DType::Uint64 if T::DTYPE.is_floating() || T::DTYPE.is_complex() => {
            T::from_f64(value.to_f64())
        }
        DType::Uint64 => T::from_i64(value.to_i64()),
        DType::Complex64 | DType::Complex128 => T::from_complex(value.to_complex()),
        _ => T::from_bool(value.to_bool()),
    }
}

/// One element, whatever its type.
///
/// # Safety
/// It is readable.
#[inline(always)]
pub unsafe fn load_one<C: Compute>(dtype: DType, from: *const u8) -> C {
    // SAFETY: as the caller guarantees.
    with_any_element!(dtype, T => unsafe { from.cast::<T>().read_unaligned() }.widen(), else unreachable!("{dtype}"))
}

/// Stores one element, whatever its type.
///
/// # Safety
/// It is writable.
#[inline(always)]
pub unsafe fn store_one<C: Compute>(dtype: DType, to: *mut u8, value: C) {
    // SAFETY: as the caller guarantees.
    with_any_element!(dtype, T => unsafe { to.cast::<T>().write_unaligned(narrow(value)) }, else unreachable!("{dtype}"))
}

/// A strip of an input: borrowed from memory where its type and stride allow it, else loaded into `buffer`.
///
/// # Safety
/// `length` elements from `offset` on, `stride` apart, belong to the view; nobody writes them while the strip is used, if
/// `borrow`.
#[inline(always)]
pub unsafe fn strip<'s, C: Compute>(
    view: &View<'_>,
    offset: isize,
    stride: isize,
    length: usize,
    borrow: bool,
    buffer: &'s mut [C],
) -> &'s [C] {
    let item = view.item() as isize;
    // SAFETY: as the caller guarantees.
    let from = unsafe { view.first().offset(offset * item) };
    if borrow && stride == 1 && view.dtype() == C::DTYPE && C::DTYPE != DType::Bool {
        let typed = from.cast::<C>();
        if typed.is_aligned() {
            // SAFETY: same type, aligned, readable and unchanged as the caller guarantees.
            return unsafe { std::slice::from_raw_parts(typed, length) };
        }
    }
    // SAFETY: as the caller guarantees.
    unsafe { load(view.dtype(), from, stride, &mut buffer[..length]) };
    &buffer[..length]
}
