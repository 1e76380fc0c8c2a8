//! Sixteen `f32` side by side, in as many registers as the processor needs: sums over them are the same on every processor.
//!
//! What is written over [`Sixteen`] has no closures: the compiler may make functions of them, and those have no vectors.

use half::{bf16, f16};

/// Sixteen numbers.
///
/// # Safety
/// All functions are called only where the processor has the vectors that it is made of, on memory that has the elements;
/// addresses need not be aligned.
pub unsafe trait Sixteen: Copy {
    /// Whether one register holds them: then there are 32 such registers, else eight.
    const IS_ONE_REGISTER: bool;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn load_f16(from: *const f16) -> Self;
    unsafe fn load_bf16(from: *const bf16) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// The same number everywhere.
    unsafe fn repeated(number: f32) -> Self;
    unsafe fn times(self, other: Self) -> Self;
    /// `self + a * b`.
    unsafe fn plus(self, a: Self, b: Self) -> Self;
    /// The sum of all: of halves, then of halves of that sum, down to one.
    unsafe fn sum(self) -> f32;
    /// The sum of each.
    unsafe fn sums(vectors: [Self; 16]) -> Self;
}

/// Elements that are multiplied as `f32`.
pub trait Narrow: Copy + Default {
    /// # Safety
    /// As of [`Sixteen`].
    unsafe fn load<S: Sixteen>(from: *const Self) -> S;

    /// The first `count` elements, and zeros after them.
    ///
    /// # Safety
    /// As of [`Sixteen`]; only these elements need be there.
    #[inline(always)]
    unsafe fn load_some<S: Sixteen>(from: *const Self, count: usize) -> S {
        let mut padded = [Self::default(); 16];
        // SAFETY: as the caller guarantees, and `padded` has sixteen.
        unsafe {
            let (from, to) = (from.cast::<u8>(), padded.as_mut_ptr().cast::<u8>());
            std::ptr::copy_nonoverlapping(from, to, count.min(16) * size_of::<Self>());
            Self::load(padded.as_ptr())
        }
    }
}

impl Narrow for f32 {
    #[inline(always)]
    unsafe fn load<S: Sixteen>(from: *const f32) -> S {
        // SAFETY: as the caller guarantees.
        unsafe { S::load(from) }
    }
}

impl Narrow for f16 {
    #[inline(always)]
    unsafe fn load<S: Sixteen>(from: *const f16) -> S {
        // SAFETY: as the caller guarantees.
        unsafe { S::load_f16(from) }
    }
}

impl Narrow for bf16 {
    #[inline(always)]
    unsafe fn load<S: Sixteen>(from: *const bf16) -> S {
        // SAFETY: as the caller guarantees.
        unsafe { S::load_bf16(from) }
    }
}

/// The sum of sixteen, in the order of [`Sixteen::sum`].
#[inline(always)]
fn fold(mut numbers: [f32; 16]) -> f32 {
    let mut half = 8;
    while half > 0 {
        for at in 0..half {
            numbers[at] += numbers[at + half];
        }
        half /= 2;
    }
    numbers[0]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Sixteen, fold};
    use half::{bf16, f16};
    use std::arch::x86_64::*;

    // SAFETY: what it is made of takes AVX-512.
    unsafe impl Sixteen for __m512 {
        const IS_ONE_REGISTER: bool = true;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const f16) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
        }
        #[inline(always)]
        unsafe fn load_bf16(from: *const bf16) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe {
                let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as the caller guarantees.
            unsafe { _mm512_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn repeated(number: f32) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { _mm512_set1_ps(number) }
        }
        #[inline(always)]
        unsafe fn times(self, other: Self) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { _mm512_mul_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn plus(self, a: Self, b: Self) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { _mm512_fmadd_ps(a, b, self) }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            let mut numbers = [0.0; 16];
            // SAFETY: as the caller guarantees.
            unsafe { Sixteen::store(self, numbers.as_mut_ptr()) };
            fold(numbers)
        }
        #[inline(always)]
        unsafe fn sums(v: [Self; 16]) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe {
                let low = pairs(four(v[0], v[1], v[2], v[3]), four(v[4], v[5], v[6], v[7]));
                let high = pairs(four(v[8], v[9], v[10], v[11]), four(v[12], v[13], v[14], v[15]));
                let all = _mm512_add_ps(
                    _mm512_shuffle_ps::<0b10_00_10_00>(low, high),
                    _mm512_shuffle_ps::<0b11_01_11_01>(low, high),
                );
                let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
                _mm512_permutexvar_ps(order, all)
            }
        }
    }

    /// The sums of the halves of two vectors, one after the other.
    #[inline(always)]
    unsafe fn halves(a: __m512, b: __m512) -> __m512 {
        // SAFETY: as the caller guarantees.
        unsafe {
            _mm512_add_ps(
                _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b),
                _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b),
            )
        }
    }

    /// The sums of the quarters of four vectors, one after the other.
    #[inline(always)]
    unsafe fn four(a: __m512, b: __m512, c: __m512, d: __m512) -> __m512 {
        // SAFETY: as the caller guarantees.
        unsafe {
            let (a, b) = (halves(a, b), halves(c, d));
            _mm512_add_ps(
                _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b),
                _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b),
            )
        }
    }

    /// The sums of the halves of each quarter of two vectors, in turns.
    #[inline(always)]
    unsafe fn pairs(a: __m512, b: __m512) -> __m512 {
        // SAFETY: as the caller guarantees.
        unsafe {
            let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
            _mm512_add_ps(
                _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)),
            )
        }
    }

    /// Two vectors of eight.
    #[derive(Clone, Copy)]
    pub struct Eights(__m256, __m256);

    // SAFETY: what it is made of takes AVX2, FMA and F16C.
    unsafe impl Sixteen for Eights {
        const IS_ONE_REGISTER: bool = false;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { Eights(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const f16) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe {
                let low = _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
                Eights(low, _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())))
            }
        }
        #[inline(always)]
        unsafe fn load_bf16(from: *const bf16) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe {
                let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(8).cast()));
                let low = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(low));
                Eights(low, _mm256_castsi256_ps(_mm256_slli_epi32::<16>(high)))
            }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as the caller guarantees.
            unsafe {
                _mm256_storeu_ps(to, self.0);
                _mm256_storeu_ps(to.add(8), self.1);
            }
        }
        #[inline(always)]
        unsafe fn repeated(number: f32) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { Eights(_mm256_set1_ps(number), _mm256_set1_ps(number)) }
        }
        #[inline(always)]
        unsafe fn times(self, other: Self) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { Eights(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn plus(self, a: Self, b: Self) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe { Eights(_mm256_fmadd_ps(a.0, b.0, self.0), _mm256_fmadd_ps(a.1, b.1, self.1)) }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: as the caller guarantees.
            unsafe {
                let eight = _mm256_add_ps(self.0, self.1);
                let four =
                    _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
            }
        }
        #[inline(always)]
        unsafe fn sums(vectors: [Self; 16]) -> Self {
            // SAFETY: as the caller guarantees.
            unsafe {
                let mut sums = [0f32; 16];
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = vector.sum();
                }
                Self::load(sums.as_ptr())
            }
        }
    }
}
#[cfg(target_arch = "x86_64")]
pub use x86::Eights;

#[cfg(not(target_arch = "x86_64"))]
// SAFETY: it is made of numbers.
unsafe impl Sixteen for [f32; 16] {
    const IS_ONE_REGISTER: bool = false;
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller guarantees.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: as the caller guarantees.
        unsafe { from.cast::<[f16; 16]>().read_unaligned() }.map(f16::to_f32)
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: as the caller guarantees.
        unsafe { from.cast::<[bf16; 16]>().read_unaligned() }.map(bf16::to_f32)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the caller guarantees.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn repeated(number: f32) -> Self {
        [number; 16]
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        std::array::from_fn(|at| self[at] * other[at])
    }
    #[inline(always)]
    unsafe fn plus(self, a: Self, b: Self) -> Self {
        std::array::from_fn(|at| a[at].mul_add(b[at], self[at]))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        fold(self)
    }
    #[inline(always)]
    unsafe fn sums(vectors: [Self; 16]) -> Self {
        vectors.map(fold)
    }
}

/// Calls `function::<S, ..>(argument)`, compiled for the processor's [`Sixteen`]: `with_sixteen!(function::<types>(argument: Type))`. The function
/// is unsafe and `#[inline(always)]`; what the caller guarantees does not depend on `S`.
macro_rules! with_sixteen {
    ($function:ident $(::<$T:ty>)? ($argument:ident: $type:ty)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f")]
            unsafe fn with_avx512($argument: $type) {
                // SAFETY: as the caller guarantees.
                unsafe { $function::<std::arch::x86_64::__m512 $(, $T)?>($argument) }
            }
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn with_avx2($argument: $type) {
                // SAFETY: as the caller guarantees.
                unsafe { $function::<$crate::kernels::sixteen::Eights $(, $T)?>($argument) }
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
        $function::<[f32; 16] $(, $T)?>($argument)
    }};
}
pub(crate) use with_sixteen;

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(always)]
    unsafe fn check<S: Sixteen, T: Narrow>(numbers: &[f32; 256]) {
        // SAFETY: there are sixteen times sixteen numbers.
        unsafe {
            let vectors: [S; 16] = std::array::from_fn(|at| S::load(numbers[16 * at..].as_ptr()));
            let mut sums = [0f32; 16];
            S::sums(vectors).store(sums.as_mut_ptr());
            for (at, numbers) in numbers.as_chunks::<16>().0.iter().enumerate() {
                assert_eq!(sums[at].to_bits(), fold(*numbers).to_bits(), "{at}");
                assert_eq!(vectors[at].sum().to_bits(), fold(*numbers).to_bits(), "{at}");
            }
            let (halves, others) = (numbers.map(f16::from_f32), numbers.map(bf16::from_f32));
            for count in 0..=16 {
                let mut have = [[9f32; 16]; 3];
                f32::load_some::<S>(numbers.as_ptr(), count).store(have[0].as_mut_ptr());
                f16::load_some::<S>(halves.as_ptr(), count).store(have[1].as_mut_ptr());
                bf16::load_some::<S>(others.as_ptr(), count).store(have[2].as_mut_ptr());
                for at in 0..16 {
                    let want = [numbers[at], halves[at].to_f32(), others[at].to_f32()];
                    let want = if at < count { want } else { [0.0; 3] };
                    assert_eq!([have[0][at], have[1][at], have[2][at]], want);
                }
            }
        }
    }

    #[test]
    fn sums_and_loads_are_the_same_on_every_processor() {
        let numbers: &[f32; 256] = &std::array::from_fn(|at| 1.0 / (at as f32 - 100.3));
        // SAFETY: the checks are the same for every processor.
        unsafe { with_sixteen!(check::<f32>(numbers: &[f32; 256])) };
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every processor that has AVX-512 has AVX2, and the tests run nowhere else.
        unsafe {
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn by_eights(numbers: &[f32; 256]) {
                // SAFETY: as the caller guarantees.
                unsafe { check::<Eights, f32>(numbers) }
            }
            by_eights(numbers);
        }
    }
}
