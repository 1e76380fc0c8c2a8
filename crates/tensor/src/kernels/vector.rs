//! Vectors of `f32` in registers, as wide as the processor has them: what is written over [`Vector`] is compiled for each.

/// A vector of `f32`.
///
/// # Safety
/// `COUNT` is how many it has. All functions are called only where the processor has such vectors, on memory that has
/// the elements; addresses need not be aligned.
pub unsafe trait Vector: Copy {
    const COUNT: usize;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// The same number everywhere.
    unsafe fn repeated(number: f32) -> Self;
    /// `self + a * b`.
    unsafe fn plus(self, a: Self, b: Self) -> Self;
}

/// A vector of `f32` whose lanes can be told apart, and compared.
///
/// # Safety
/// As of [`Vector`].
pub unsafe trait Lanes: Vector {
    /// Some neighbouring lanes.
    type Mask: Copy;
    unsafe fn add(self, other: Self) -> Self;
    /// Where it is greater than the other it, elsewhere the other.
    unsafe fn or_if_greater(self, other: Self) -> Self;
    /// Where it is less than the other it, elsewhere the other.
    unsafe fn or_if_less(self, other: Self) -> Self;
    /// The bits that at least one of them has.
    unsafe fn joined_bits(self, other: Self) -> Self;
    /// The lanes `low..high`.
    unsafe fn mask(low: usize, high: usize) -> Self::Mask;
    /// Zeros, but for the lanes of the mask; memory of other lanes is not touched.
    unsafe fn load_some(from: *const f32, mask: Self::Mask) -> Self;
    /// Stores the lanes of the mask alone.
    unsafe fn store_some(self, to: *mut f32, mask: Self::Mask);
    /// Of the elements of two vectors, taken as one, those at even places and those at odd ones.
    unsafe fn unzipped(first: Self, second: Self) -> (Self, Self);

    /// See [`Number::greatest`](super::number::Number::greatest).
    #[inline(always)]
    unsafe fn greatest(self, other: Self) -> Self {
        // SAFETY: as the caller guarantees.
        unsafe { self.or_if_greater(other).joined_bits(other.or_if_greater(self)) }
    }

    /// See [`Number::least`](super::number::Number::least).
    #[inline(always)]
    unsafe fn least(self, other: Self) -> Self {
        // SAFETY: as the caller guarantees.
        unsafe { self.or_if_less(other).joined_bits(other.or_if_less(self)) }
    }
}

/// Functions of an implementation of [`Vector`], each an expression.
macro_rules! functions {
    ($(fn $name:ident($($parameters:tt)*) $(-> $result:ty)? = $value:expr;)*) => {
        $(
            #[inline(always)]
            #[allow(unused_unsafe)]
            unsafe fn $name($($parameters)*) $(-> $result)? {
                // SAFETY: as the caller guarantees.
                unsafe { $value }
            }
        )*
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lanes, Vector};
    use std::arch::x86_64::*;

    // SAFETY: eight; the functions want AVX2 and FMA.
    unsafe impl Vector for __m256 {
        const COUNT: usize = 8;
        functions! {
            fn load(from: *const f32) -> Self = _mm256_loadu_ps(from);
            fn store(self, to: *mut f32) = _mm256_storeu_ps(to, self);
            fn repeated(number: f32) -> Self = _mm256_set1_ps(number);
            fn plus(self, a: Self, b: Self) -> Self = _mm256_fmadd_ps(a, b, self);
        }
    }

    // SAFETY: as above.
    unsafe impl Lanes for __m256 {
        type Mask = __m256i;
        functions! {
            fn add(self, other: Self) -> Self = _mm256_add_ps(self, other);
            fn or_if_greater(self, other: Self) -> Self = _mm256_max_ps(self, other);
            fn or_if_less(self, other: Self) -> Self = _mm256_min_ps(self, other);
            fn joined_bits(self, other: Self) -> Self = _mm256_or_ps(self, other);
            fn mask(low: usize, high: usize) -> __m256i = {
                let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let (low, high) = (_mm256_set1_epi32(low as i32), _mm256_set1_epi32(high as i32));
                _mm256_andnot_si256(_mm256_cmpgt_epi32(low, lanes), _mm256_cmpgt_epi32(high, lanes))
            };
            fn load_some(from: *const f32, mask: __m256i) -> Self = _mm256_maskload_ps(from, mask);
            fn store_some(self, to: *mut f32, mask: __m256i) = _mm256_maskstore_ps(to, mask, self);
            fn unzipped(first: Self, second: Self) -> (Self, Self) = {
                let even = _mm256_shuffle_ps::<0x88>(first, second);
                let odd = _mm256_shuffle_ps::<0xdd>(first, second);
                let ordered = |vector| {
                    _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(vector)))
                };
                (ordered(even), ordered(odd))
            };
        }
    }

    // SAFETY: sixteen; the functions want AVX-512.
    unsafe impl Vector for __m512 {
        const COUNT: usize = 16;
        functions! {
            fn load(from: *const f32) -> Self = _mm512_loadu_ps(from);
            fn store(self, to: *mut f32) = _mm512_storeu_ps(to, self);
            fn repeated(number: f32) -> Self = _mm512_set1_ps(number);
            fn plus(self, a: Self, b: Self) -> Self = _mm512_fmadd_ps(a, b, self);
        }
    }

    // SAFETY: as above.
    unsafe impl Lanes for __m512 {
        type Mask = __mmask16;
        functions! {
            fn add(self, other: Self) -> Self = _mm512_add_ps(self, other);
            fn or_if_greater(self, other: Self) -> Self = _mm512_max_ps(self, other);
            fn or_if_less(self, other: Self) -> Self = _mm512_min_ps(self, other);
            fn joined_bits(self, other: Self) -> Self = _mm512_castsi512_ps(
                _mm512_or_si512(_mm512_castps_si512(self), _mm512_castps_si512(other))
            );
            fn mask(low: usize, high: usize) -> __mmask16 = {
                (((1u32 << high) - 1) & !((1u32 << low) - 1)) as u16
            };
            fn load_some(from: *const f32, mask: __mmask16) -> Self = _mm512_maskz_loadu_ps(mask, from);
            fn store_some(self, to: *mut f32, mask: __mmask16) = _mm512_mask_storeu_ps(to, mask, self);
            fn unzipped(first: Self, second: Self) -> (Self, Self) = {
                let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
                (_mm512_permutex2var_ps(first, even, second), _mm512_permutex2var_ps(first, odd, second))
            };
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
// SAFETY: eight, on any processor.
unsafe impl Vector for [f32; 8] {
    const COUNT: usize = 8;
    functions! {
        fn load(from: *const f32) -> Self = from.cast::<Self>().read_unaligned();
        fn store(self, to: *mut f32) = to.cast::<Self>().write_unaligned(self);
        fn repeated(number: f32) -> Self = [number; 8];
        fn plus(self, a: Self, b: Self) -> Self = std::array::from_fn(|at| a[at].mul_add(b[at], self[at]));
    }
}

#[cfg(not(target_arch = "x86_64"))]
// SAFETY: as above.
unsafe impl Lanes for [f32; 8] {
    type Mask = (usize, usize);
    functions! {
        fn add(self, other: Self) -> Self = std::array::from_fn(|at| self[at] + other[at]);
        fn or_if_greater(self, other: Self) -> Self =
            std::array::from_fn(|at| if self[at] > other[at] { self[at] } else { other[at] });
        fn or_if_less(self, other: Self) -> Self =
            std::array::from_fn(|at| if self[at] < other[at] { self[at] } else { other[at] });
        fn joined_bits(self, other: Self) -> Self =
            std::array::from_fn(|at| f32::from_bits(self[at].to_bits() | other[at].to_bits()));
        fn mask(low: usize, high: usize) -> (usize, usize) = (low, high);
        fn load_some(from: *const f32, (low, high): (usize, usize)) -> Self = {
            let mut vector = [0.0; 8];
            for at in low..high {
                vector[at] = from.add(at).read_unaligned();
            }
            vector
        };
        fn store_some(self, to: *mut f32, (low, high): (usize, usize)) = {
            for at in low..high {
                to.add(at).write_unaligned(self[at]);
            }
        };
        fn unzipped(first: Self, second: Self) -> (Self, Self) = {
            let of = |at: usize| if at < 8 { first[at] } else { second[at - 8] };
            (std::array::from_fn(|at| of(2 * at)), std::array::from_fn(|at| of(2 * at + 1)))
        };
    }
}

/// Calls `function::<V, ..>(argument)`, compiled for the processor's vectors `V`: `with_vectors!(function::<..>(argument: Type))`. The function is
/// unsafe and `#[inline(always)]`; what the caller guarantees does not depend on `V`.
macro_rules! with_vectors {
    ($function:ident $(::<$($constant:literal),*>)? ($argument:ident: $type:ty)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f")]
            unsafe fn with_avx512($argument: $type) {
                // SAFETY: as the caller guarantees.
                unsafe { $function::<std::arch::x86_64::__m512 $($(, $constant)*)?>($argument) }
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn with_avx2($argument: $type) {
                // SAFETY: as the caller guarantees.
                unsafe { $function::<std::arch::x86_64::__m256 $($(, $constant)*)?>($argument) }
            }
            if $crate::kernels::strip::has_avx512() {
                with_avx512($argument)
            } else {
                assert!(
                    $crate::kernels::strip::runs_here(),
                    "this processor lacks AVX2, FMA or F16C"
                );
                with_avx2($argument)
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        $function::<[f32; 8] $($(, $constant)*)?>($argument)
    }};
}
pub(crate) use with_vectors;

#[cfg(test)]
mod tests {
    use super::Lanes;
    use crate::kernels::number::Number;

    #[inline(always)]
    unsafe fn check<V: Lanes>(numbers: &[f32]) {
        let special = [f32::NAN, -f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1.0, -1.0];
        let mut out = vec![0.0; V::COUNT];
        // SAFETY: the vectors have these elements; called for vectors of this processor.
        unsafe {
            for low in 0..=V::COUNT {
                for high in low..=V::COUNT {
                    let mask = V::mask(low, high);
                    V::load_some(numbers.as_ptr(), mask).store(out.as_mut_ptr());
                    for at in 0..V::COUNT {
                        let want = if (low..high).contains(&at) { numbers[at] } else { 0.0 };
                        assert_eq!(out[at], want);
                    }
                    out.fill(99.0);
                    V::load(numbers.as_ptr()).store_some(out.as_mut_ptr(), mask);
                    for at in 0..V::COUNT {
                        let want = if (low..high).contains(&at) { numbers[at] } else { 99.0 };
                        assert_eq!(out[at], want);
                    }
                }
            }
            let first = V::load(numbers.as_ptr());
            let (even, odd) = V::unzipped(first, V::load(numbers.as_ptr().add(V::COUNT)));
            for (vector, start) in [(even, 0), (odd, 1)] {
                vector.store(out.as_mut_ptr());
                let want: Vec<f32> = (0..V::COUNT).map(|at| numbers[start + 2 * at]).collect();
                assert_eq!(out, want);
            }
            for x in special {
                for y in special {
                    let (a, b) = (V::repeated(x), V::repeated(y));
                    for (vector, want) in [(a.greatest(b), x.greatest(y)), (a.least(b), x.least(y))]
                    {
                        vector.store(out.as_mut_ptr());
                        assert!(out.iter().all(|one| one.to_bits() == want.to_bits()), "{x} {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn functions_of_every_vector_of_this_processor() {
        let numbers: Vec<f32> = (0..32).map(|at| at as f32 - 7.0).collect();
        let numbers = &numbers[..];
        // SAFETY: as many numbers as two vectors have, of any processor.
        unsafe { with_vectors!(check(numbers: &[f32])) };
    }
}
