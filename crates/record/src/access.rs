//! Which bytes something touches: an address, sizes and strides, and how it touches them.

use smallvec::SmallVec;

/// How bytes are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only read.
    Read,
    /// Only written, all of them.
    Write,
    /// Read and written, or written in parts.
    ReadWrite,
}

impl Mode {
    /// True if it writes.
    pub fn writes(self) -> bool {
        self != Mode::Read
    }

    /// True if it reads.
    pub fn reads(self) -> bool {
        self != Mode::Write
    }
}

/// One dimension: (size, stride in bytes).
pub type Dim = (u64, i64);

/// The elements that something touches.
///
/// Element `(i, j, ..)` is the `element` bytes at `address + i * stride 0 + j * stride 1 + ..`. Without dimensions it
/// is one element. An `indexed` access depends on values that are known only when the task runs: it *may* touch any of these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte of the element at the origin.
    pub address: usize,
    /// Bytes of an element.
    pub element: u64,
    /// The dimensions, outermost first.
    pub dims: SmallVec<[Dim; 4]>,
    /// How it touches them.
    pub mode: Mode,
    /// It may touch any of them, and need not touch all.
    pub indexed: bool,
}

/// Whether two accesses share a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// None.
    No,
    /// At least one.
    Yes,
    /// Not decided within the search limit.
    Unknown,
}

/// The terms of a sum: (stride in bytes, largest factor).
type Terms = SmallVec<[(u64, u64); 10]>;

/// How many combinations of factors are tried before the answer is [`Overlap::Unknown`].
const MAX_COMBINATIONS: u32 = 20_000;

impl Access {
    /// A range of bytes.
    pub fn range(address: usize, bytes: u64, mode: Mode) -> Access {
        Access { address, element: bytes, dims: SmallVec::new(), mode, indexed: false }
    }

    /// First and one past the last byte; equal when it touches none.
    pub fn bounds(&self) -> (u64, u64) {
        let origin = self.address as u64;
        if self.element == 0 || self.dims.iter().any(|(size, _)| *size == 0) {
            return (origin, origin);
        }
        let (mut low, mut high) = (0i128, 0i128);
        for (size, stride) in &self.dims {
            let extent = i128::from(*size - 1) * i128::from(*stride);
            if extent < 0 { low += extent } else { high += extent }
        }
        let address_at =
            |distance: i128| (i128::from(origin) + distance).clamp(0, i128::from(u64::MAX)) as u64;
        (address_at(low), address_at(high + i128::from(self.element)))
    }

    /// True if every byte between its bounds is touched.
    pub fn is_dense(&self) -> bool {
        let mut dims: SmallVec<[(u64, u64); 4]> = (self.dims.iter())
            .filter(|(size, _)| *size != 1)
            .map(|(size, stride)| (stride.unsigned_abs(), *size))
            .collect();
        dims.sort_unstable();
        let mut dense_bytes = self.element;
        dims.iter().all(|(stride, size)| {
            let is_joined = *stride <= dense_bytes;
            let extent = stride.saturating_mul(size.saturating_sub(1));
            dense_bytes = dense_bytes.max(extent.saturating_add(dense_bytes));
            is_joined
        })
    }

    /// Whether the two share a byte, by exact arithmetic on sizes and strides. An indexed access counts as
    /// touching every byte it may touch.
    pub fn overlap(&self, other: &Access) -> Overlap {
        let ((a, a_end), (b, b_end)) = (self.bounds(), other.bounds());
        if a == a_end || b == b_end || a_end <= b || b_end <= a {
            return Overlap::No;
        }
        if self.is_dense() && other.is_dense() {
            return Overlap::Yes;
        }
        // From the lowest byte of each upwards all strides are positive. They overlap where
        // a + sum(x * stride) + p == b + sum(y * stride) + q; with y counted from the other end it is one sum.
        let mut terms = Terms::new();
        let mut distance = i128::from(b) - i128::from(a);
        for (size, stride) in &self.dims {
            terms.push((stride.unsigned_abs(), size - 1));
        }
        for (size, stride) in &other.dims {
            terms.push((stride.unsigned_abs(), size - 1));
            distance += i128::from(stride.unsigned_abs()) * i128::from(size - 1);
        }
        terms.push((1, self.element - 1));
        terms.push((1, other.element - 1));
        distance += i128::from(other.element) - 1;
        Search::new(&merge_terms(terms)).search(distance)
    }
}

/// Merges terms: a stride that is a multiple of a shorter one, and whose gaps the shorter one fills, is added to that
/// one's count. The longest stride comes first.
fn merge_terms(mut terms: Terms) -> Terms {
    terms.retain(|(stride, max)| *stride > 0 && *max > 0);
    terms.sort_unstable();
    let mut merged = Terms::new();
    for (stride, max) in terms {
        match merged.last_mut() {
            Some((short, count))
                if stride % *short == 0 && stride / *short <= count.saturating_add(1) =>
            {
                *count = count.saturating_add(max.saturating_mul(stride / *short));
            }
            _ => merged.push((stride, max)),
        }
    }
    merged.reverse();
    merged
}

/// Decides whether some choice of factors makes the sum of the terms a given distance.
struct Search<'a> {
    terms: &'a [(u64, u64)],
    /// For each suffix of `terms`: the largest sum it reaches, and the gcd of its strides.
    suffixes: SmallVec<[(i128, i128); 9]>,
    budget: u32,
}

impl<'a> Search<'a> {
    fn new(terms: &'a [(u64, u64)]) -> Search<'a> {
        let mut suffixes: SmallVec<[(i128, i128); 9]> =
            SmallVec::from_elem((0, 0), terms.len() + 1);
        for term in (0..terms.len()).rev() {
            let (stride, max) = (i128::from(terms[term].0), i128::from(terms[term].1));
            let (reach, divisor) = suffixes[term + 1];
            suffixes[term] = (reach + stride * max, gcd(divisor, stride));
        }
        Search { terms, suffixes, budget: MAX_COMBINATIONS }
    }

    fn search(&mut self, distance: i128) -> Overlap {
        self.search_from(0, distance)
    }

    fn search_from(&mut self, term: usize, distance: i128) -> Overlap {
        let (reach, divisor) = self.suffixes[term];
        if distance < 0 || distance > reach {
            return Overlap::No;
        }
        if distance == 0 {
            return Overlap::Yes;
        }
        if distance % divisor != 0 {
            return Overlap::No;
        }
        let (stride, max) = (i128::from(self.terms[term].0), i128::from(self.terms[term].1));
        let rest = self.suffixes[term + 1].0;
        let min = ((distance - rest).max(0) + stride - 1) / stride;
        let mut overlap = Overlap::No;
        let mut count = max.min(distance / stride);
        while count >= min {
            match self.budget.checked_sub(1) {
                Some(left) => self.budget = left,
                None => return Overlap::Unknown,
            }
            match self.search_from(term + 1, distance - stride * count) {
                Overlap::Yes => return Overlap::Yes,
                Overlap::Unknown => overlap = Overlap::Unknown,
                Overlap::No => {}
            }
            count -= 1;
        }
        overlap
    }
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn strided(address: usize, element: u64, dims: &[Dim]) -> Access {
        let dims = dims.iter().copied().collect();
        Access { address, element, dims, mode: Mode::Write, indexed: false }
    }

    #[test]
    fn interleaved_columns_do_not_overlap() {
        let even = strided(1000, 4, &[(100, 32), (4, 8)]);
        let odd = strided(1004, 4, &[(100, 32), (4, 8)]);
        assert_eq!(even.overlap(&odd), Overlap::No);
        assert_eq!(even.overlap(&even), Overlap::Yes);
        assert_eq!(even.overlap(&strided(1002, 4, &[(100, 32), (4, 8)])), Overlap::Yes);
    }

    #[test]
    fn large_tensors_are_decided_without_enumeration() {
        let columns = |first: usize| strided(first, 4, &[(1 << 20, 1 << 14), (1 << 11, 4)]);
        assert_eq!(columns(0).overlap(&columns(1 << 13)), Overlap::No);
        assert_eq!(columns(0).overlap(&columns((1 << 13) - 4)), Overlap::Yes);
    }

    #[test]
    fn empty_accesses_never_overlap() {
        let all = Access::range(0, 1000, Mode::Write);
        assert_eq!(all.overlap(&strided(10, 4, &[(0, 4)])), Overlap::No);
        assert_eq!(all.overlap(&Access::range(10, 0, Mode::Read)), Overlap::No);
        assert_eq!(all.overlap(&Access::range(999, 1, Mode::Read)), Overlap::Yes);
        assert_eq!(all.overlap(&Access::range(1000, 1, Mode::Read)), Overlap::No);
    }

    fn bytes(access: &Access) -> HashSet<i64> {
        let mut addresses = vec![access.address as i64];
        for (size, stride) in &access.dims {
            addresses = addresses
                .iter()
                .flat_map(|a| (0..*size as i64).map(move |i| a + i * stride))
                .collect();
        }
        addresses.iter().flat_map(|a| (0..access.element as i64).map(move |p| a + p)).collect()
    }

    fn any_access() -> impl Strategy<Value = Access> {
        let dims = prop::collection::vec((0u64..5, -25i64..25), 0..4);
        (300usize..400, 1u64..9, dims).prop_map(|(at, element, dims)| strided(at, element, &dims))
    }

    proptest! {
        #[test]
        fn agrees_with_enumeration(a in any_access(), b in any_access()) {
            let shared = !bytes(&a).is_disjoint(&bytes(&b));
            prop_assert_eq!(a.overlap(&b), if shared { Overlap::Yes } else { Overlap::No });
            let (low, high) = a.bounds();
            let touched = bytes(&a);
            prop_assert_eq!(touched.is_empty(), low == high);
            if let (Some(first), Some(last)) = (touched.iter().min(), touched.iter().max()) {
                prop_assert_eq!((low as i64, high as i64), (*first, *last + 1));
                let dense = touched.len() as u64 == high - low;
                prop_assert!(!a.is_dense() || dense, "{:?} is not dense", a);
            }
        }
    }
}
