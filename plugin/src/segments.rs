//! Memory in segments from `aclrtMallocAlign32`, for an ACL without virtual memory.
//!
//! A segment is a multiple of 2 MiB, the size of a huge page: as much as is needed, or a sixteenth of
//! what the pool has if that is more, but not over 128 MiB and not over the pool's budget. So small
//! requests do not end in thousands of segments, and at most a sixteenth is taken before it is needed. A block never
//! reaches from one segment into the next: where they touch, a granule between them is left out.

use crate::acl::{self, Acl, acl};
use crate::visit::Visit;
use cairn_pool::GRANULE;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::AtomicPtr;

/// The size of a huge page.
pub const PAGE: u64 = 2 << 20;
/// The largest segment that is not needed for one block.
const LARGEST: u64 = 128 << 20;

/// The segments of a device, by the first byte that the pool may use.
#[derive(Default)]
pub struct Segments {
    segments: BTreeMap<u64, Segment>,
    total: u64,
}

/// One allocation of ACL, and where the part ends that the pool may use.
struct Segment {
    address: u64,
    bytes: u64,
    end: u64,
}

impl Segments {
    /// The ranges that the pool may use.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.segments.iter().map(|(&start, segment)| start..segment.end).collect()
    }

    /// A new segment with room for `bytes`; `available` is what the budget leaves.
    pub fn extend(
        &mut self,
        device: i32,
        home: &AtomicPtr<c_void>,
        bytes: u64,
        available: u64,
    ) -> Result<Range<u64>, String> {
        let acl = acl()?;
        let _visit = Visit::to_home(acl, device, home)?;
        let mut refusal = String::new();
        for size in sizes(bytes, self.total, available) {
            match self.take(acl, bytes, size, available) {
                Ok(range) => return Ok(range),
                Err(reason) => refusal = reason,
            }
        }
        Err(refusal)
    }

    /// Gives the segments that lie in the range back to ACL.
    pub fn release(
        &mut self,
        device: i32,
        home: &AtomicPtr<c_void>,
        range: Range<u64>,
    ) -> Vec<Range<u64>> {
        let inside: Vec<u64> = self
            .segments
            .range(range.start..range.end)
            .filter(|(_, segment)| segment.end <= range.end)
            .map(|(&start, _)| start)
            .collect();
        let Ok(acl) = acl() else { return Vec::new() };
        if inside.is_empty() {
            return Vec::new();
        }
        let Ok(_visit) = Visit::to_home(acl, device, home) else { return Vec::new() };
        let mut released = Vec::new();
        for start in inside {
            let segment = &self.segments[&start];
            // SAFETY: it came from ACL, and nobody has any of it.
            if unsafe { (acl.aclrtFree)(segment.address as *mut c_void) } == 0 {
                released.push(start..segment.end);
                self.total -= segment.bytes;
                self.segments.remove(&start);
            }
        }
        released
    }

    /// Takes a segment of `size` bytes of which at least `bytes` can be used; a larger one if it is badly aligned or touches
    /// another, but the pool never gets more than `available` of it.
    fn take(
        &mut self,
        acl: &Acl,
        bytes: u64,
        size: u64,
        available: u64,
    ) -> Result<Range<u64>, String> {
        let address = malloc(acl, size)?;
        let usable = self.usable(address, size);
        if usable.end.saturating_sub(usable.start) >= bytes {
            return Ok(self.add(address, size, usable));
        }
        let padded = bytes + 3 * GRANULE;
        let pages = Some(padded.next_multiple_of(PAGE)).filter(|&pages| pages <= available);
        let larger = pages.unwrap_or(padded);
        // SAFETY: it was just given, and nobody has seen it. Before the next is asked for: there may not be
        // room for both.
        unsafe { (acl.aclrtFree)(address as *mut c_void) };
        let address = malloc(acl, larger)?;
        let Range { start, end } = self.usable(address, larger);
        let max_usable = available.max(bytes) / GRANULE * GRANULE;
        Ok(self.add(address, larger, start..end.min(start.saturating_add(max_usable))))
    }

    /// The part of an allocation that the pool may use: whole granules that touch no other segment.
    fn usable(&self, address: u64, size: u64) -> Range<u64> {
        let mut start = address.next_multiple_of(GRANULE);
        let mut end = (address + size) / GRANULE * GRANULE;
        if self.segments.range(..start).next_back().is_some_and(|(_, segment)| segment.end == start)
        {
            start += GRANULE;
        }
        if self.segments.contains_key(&end) {
            end -= GRANULE;
        }
        start..end
    }

    /// Adds a segment.
    fn add(&mut self, address: u64, bytes: u64, usable: Range<u64>) -> Range<u64> {
        self.segments.insert(usable.start, Segment { address, bytes, end: usable.end });
        self.total += bytes;
        usable
    }
}

/// The sizes of a segment to try, the best first.
fn sizes(bytes: u64, total: u64, available: u64) -> impl Iterator<Item = u64> {
    let need = bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes);
    let preferred = need.max((total / 16).min(LARGEST) / PAGE * PAGE);
    let minimum = bytes.next_multiple_of(GRANULE);
    let candidates =
        [Some(preferred), (need < preferred).then_some(need), (minimum < need).then_some(minimum)];
    candidates.into_iter().flatten().filter(move |&size| size <= available.max(minimum))
}

fn malloc(acl: &Acl, size: u64) -> Result<u64, String> {
    let mut address = std::ptr::null_mut();
    // SAFETY: the address goes to a place of ours.
    let code = unsafe { (acl.aclrtMallocAlign32)(&mut address, size as usize, acl::HUGE_FIRST) };
    match code {
        0 if !address.is_null() => Ok(address as u64),
        code => Err(format!("aclrtMallocAlign32 of {size} bytes returned {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate_sizes(bytes: u64, total: u64, available: u64) -> Vec<u64> {
        sizes(bytes, total, available).collect()
    }

    #[test]
    fn segments_grow_with_the_pool_but_not_much() {
        let gib = 1 << 30;
        assert_eq!(candidate_sizes(512, 0, u64::MAX), [PAGE, 512]);
        assert_eq!(candidate_sizes(3 * PAGE, 0, u64::MAX), [3 * PAGE]);
        assert_eq!(candidate_sizes(3 * PAGE - 512, 0, u64::MAX), [3 * PAGE, 3 * PAGE - 512]);
        assert_eq!(candidate_sizes(512, gib, u64::MAX), [gib / 16, PAGE, 512]);
        assert_eq!(candidate_sizes(512, 64 * gib, u64::MAX), [LARGEST, PAGE, 512]);
        assert_eq!(candidate_sizes(gib, 8 * gib, u64::MAX), [gib]);
        for total in [0, gib, 64 * gib] {
            let first = candidate_sizes(512, total, u64::MAX)[0];
            assert!(first <= PAGE.max(total / 16));
        }
    }

    #[test]
    fn a_budget_bounds_every_try() {
        assert_eq!(candidate_sizes(512, 0, 1 << 20), [512]);
        assert_eq!(candidate_sizes(512, 1 << 30, 3 * PAGE), [PAGE, 512]);
        assert_eq!(candidate_sizes(PAGE, 0, PAGE), [PAGE]);
    }

    #[test]
    fn segments_that_touch_are_kept_apart() {
        let mut segments = Segments::default();
        let first = segments.usable(PAGE, PAGE);
        assert_eq!(first, PAGE..2 * PAGE);
        segments.add(PAGE, PAGE, first);
        assert_eq!(segments.usable(2 * PAGE, PAGE), 2 * PAGE + GRANULE..3 * PAGE);
        assert_eq!(segments.usable(0, PAGE), 0..PAGE - GRANULE);
        assert_eq!(segments.usable(5 * PAGE + 64, PAGE), 5 * PAGE + GRANULE..6 * PAGE);
    }
}
