//! Keys: integers that order as the elements do, with the index that each came from.

use super::element::{BoolByte, Element};
use crate::{DType, Layout, ViewMut};
use half::{bf16, f16};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An element whose values have an order. NaN comes after all others and equals itself; the two zeros are
/// equal.
pub trait Ordered: Element {
    /// Unsigned keys order as the values; of types of at most four bytes they fit 32 bits.
    fn key(self) -> u64;
    /// Not a number.
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! integer {
    ($($type:ty, $bits:ty, $sign:expr;)*) => {$(
        impl Ordered for $type {
            #[inline(always)]
            fn key(self) -> u64 {
                u64::from(self as $bits ^ $sign)
            }
        }
    )*};
}

integer! {
    i8, u8, 1 << 7;
    u8, u8, 0;
    u16, u16, 0;
    u32, u32, 0;
    u64, u64, 0;
    i16, u16, 1 << 15;
    i32, u32, 1 << 31;
    i64, u64, 1 << 63;
}

impl Ordered for BoolByte {
    #[inline(always)]
    fn key(self) -> u64 {
        u64::from(self.0 != 0)
    }
}

macro_rules! real {
    ($($type:ty, $float:ty, $bits:ty, |$value:ident| $widen:expr;)*) => {$(
        impl Ordered for $type {
            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let $value = self;
                let float: $float = $widen;
                let bits = (float + 0.0).to_bits();
                let flipped = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                u64::from(if float.is_nan() { <$bits>::MAX } else { flipped })
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                let $value = self;
                let float: $float = $widen;
                float.is_nan()
            }
        }
    )*};
}

real! {
    f32, f32, u32, |value| value;
    f16, f32, u32, |value| value.to_f32();
    bf16, f32, u32, |value| Element::to_f32(value);
    f64, f64, u64, |value| value;
}

/// A key and an index, ordered by both; it needs no alignment.
pub trait Entry: Copy + Ord + Send + Sync {
    /// Puts the two together.
    fn new(key: u64, index: usize) -> Self;
    /// The key.
    fn key(self) -> u64;
    /// The index.
    fn index(self) -> usize;
}

/// A key and an index of 32 bits each.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Narrow([u8; 8]);

/// A key and an index of 64 bits each.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Wide([u8; 16]);

macro_rules! entry {
    ($type:ident, $bits:ty, $half:ty) => {
        impl Entry for $type {
            #[inline(always)]
            fn new(key: u64, index: usize) -> Self {
                let both = <$bits>::from(key as $half) << <$half>::BITS | index as $half as $bits;
                $type(both.to_ne_bytes())
            }
            #[inline(always)]
            fn key(self) -> u64 {
                (<$bits>::from_ne_bytes(self.0) >> <$half>::BITS) as u64
            }
            #[inline(always)]
            fn index(self) -> usize {
                <$bits>::from_ne_bytes(self.0) as $half as usize
            }
        }

        impl Ord for $type {
            #[inline(always)]
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                <$bits>::from_ne_bytes(self.0).cmp(&<$bits>::from_ne_bytes(other.0))
            }
        }

        impl PartialOrd for $type {
            #[inline(always)]
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
            #[inline(always)]
            fn lt(&self, other: &Self) -> bool {
                <$bits>::from_ne_bytes(self.0) < <$bits>::from_ne_bytes(other.0)
            }
        }
    };
}

entry!(Narrow, u64, u32);
entry!(Wide, u128, u64);

/// Bytes of one entry for elements of a type in lines of a length: 8 where elements have at most four bytes and lines
/// fewer than 2^32 elements, else 16.
pub fn entry_bytes(dtype: DType, line: usize) -> usize {
    let small = dtype.size_in_bytes().is_some_and(|bytes| bytes <= 4);
    if small && u32::try_from(line).is_ok() { 8 } else { 16 }
}

/// Runs `$body` with `$T` standing for an ordered type and `$E` for its entries in lines of `$line`.
macro_rules! with_ordered {
    ($dtype:expr, $line:expr, $T:ident, $E:ident => $body:expr) => {{
        macro_rules! with_entries {
            ($element:ty) => {{
                type $T = $element;
                if $crate::kernels::order::entry_bytes($dtype, $line) == 8 {
                    type $E = $crate::kernels::order::Narrow;
                    $body
                } else {
                    type $E = $crate::kernels::order::Wide;
                    $body
                }
            }};
        }
        match $dtype {
            $crate::DType::Float => with_entries!(f32),
            $crate::DType::Double => with_entries!(f64),
            $crate::DType::Float16 => with_entries!(half::f16),
            $crate::DType::Bf16 => with_entries!(half::bf16),
            $crate::DType::Int8 => with_entries!(i8),
            $crate::DType::Uint8 => with_entries!(u8),
            $crate::DType::Int16 => with_entries!(i16),
            $crate::DType::Int32 => with_entries!(i32),
            $crate::DType::Int64 => with_entries!(i64),
            $crate::DType::Uint16 => with_entries!(u16),
            $crate::DType::Uint32 => with_entries!(u32),
            $crate::DType::Uint64 => with_entries!(u64),
            $crate::DType::Bool => with_entries!($crate::kernels::element::BoolByte),
            other => unreachable!("elements of type {other} have no order"),
        }
    }};
}
pub(crate) use with_ordered;

/// The workspace was written by something else while a kernel sorted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten;

/// Runs a sort of entries. They lie in the user's memory, and where others write them meanwhile the sort may find no
/// order and panic, which is the user's error and not ours.
pub(crate) fn sort_entries<R>(sort: impl FnOnce() -> R) -> Result<R, Overwritten> {
    catch_unwind(AssertUnwindSafe(sort)).map_err(|_| Overwritten)
}

/// The entries in a part of a workspace.
///
/// # Safety
/// Nobody else uses these entries while they are borrowed, and they are inside `scratch`.
pub(crate) unsafe fn entries<'r, E: Entry>(
    scratch: &ViewMut<'r>,
    start: usize,
    count: usize,
) -> &'r mut [E] {
    let end = start.checked_add(count).and_then(|end| end.checked_mul(size_of::<E>()));
    assert!(end.is_some_and(|end| end <= scratch.bytes()) && scratch.is_contiguous());
    // SAFETY: bytes of the scratch, any of which make an entry; the caller guarantees that they are its alone.
    unsafe { std::slice::from_raw_parts_mut(scratch.first_mut().cast::<E>().add(start), count) }
}

/// Fills entries from a line of elements, `stride` apart. In descending order keys are complemented.
///
/// # Safety
/// The line has as many elements as there are entries.
#[inline(always)]
pub(crate) unsafe fn fill_entries<T: Ordered, E: Entry>(
    entries: &mut [E],
    line: *const T,
    stride: isize,
    descending: bool,
) {
    let mask = if descending { u64::MAX } else { 0 };
    for (index, entry) in entries.iter_mut().enumerate() {
        // SAFETY: as the caller guarantees.
        let value = unsafe { line.offset(index as isize * stride).read_unaligned() };
        *entry = E::new(value.key() ^ mask, index);
    }
}

/// The offset of the k-th element in the order of positions, as a function of k.
pub(crate) fn offset_of_nth(layout: &Layout) -> impl Fn(usize) -> isize + use<> {
    let layout = *layout;
    let is_contiguous = layout.is_contiguous();
    move |at| {
        if is_contiguous {
            return at as isize;
        }
        let (mut rest, mut offset) = (at, 0);
        for dim in (0..layout.rank()).rev() {
            let size = layout.dims()[dim];
            offset += (rest % size) as isize * layout.strides()[dim];
            rest /= size;
        }
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    #[test]
    fn a_sort_without_an_order_is_reported() {
        let mut calls = 0u32;
        let mut entries: Vec<Narrow> = (0..512).map(|at| Narrow::new(at * 7 % 512, 0)).collect();
        let result = sort_entries(|| {
            entries.sort_unstable_by(|_, _| {
                calls = calls.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if calls >> 31 == 0 { Ordering::Less } else { Ordering::Greater }
            });
        });
        assert_eq!(result, Err(Overwritten));
        assert_eq!(sort_entries(|| entries.sort_unstable()), Ok(()));
        assert!(entries.is_sorted());
    }
}
