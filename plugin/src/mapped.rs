//! Memory in one range of addresses: pages mapped on demand, for an ACL that can.
//!
//! ```text
//! base                                     mapped end                          base + reserved
//!  |###|###|###########|      |###########|- - - - - - - - - - - - - - - - - -|
//!   pages of 2 MiB, and of 16 for large requests; released ones leave gaps
//! ```
//!
//! The range is twice as large as the device's memory. New pages go after the highest one, so that free memory is
//! contiguous; a gap is filled when there is no room after it.

use crate::acl::{self, Acl, Handle, Physical, acl};
use crate::visit::Visit;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::AtomicPtr;

/// The size of a large page.
const LARGE: u64 = 16 << 20;
/// The flag of `aclrtReserveMemAddress` for huge pages.
const RESERVE_HUGE: u64 = 1;

/// The range and what is mapped in it.
pub struct MappedRange {
    device: i32,
    range: Range<u64>,
    /// The size of a page.
    page: u64,
    /// By address.
    pages: BTreeMap<u64, Page>,
}

struct Page {
    bytes: u64,
    handle: Handle,
}

// SAFETY: handles of ACL may be used by any thread.
unsafe impl Send for Page {}

impl MappedRange {
    /// Reserves a range for a device, which is current, and maps a page to see that it works; `None` if
    /// this ACL cannot.
    pub fn reserve(acl: &Acl, device: i32) -> Option<MappedRange> {
        let (granularity, reserve) =
            (acl.aclrtMemGetAllocationGranularity?, acl.aclrtReserveMemAddress?);
        let _required =
            (acl.aclrtReleaseMemAddress?, acl.aclrtMallocPhysical?, acl.aclrtFreePhysical?);
        let _required = (acl.aclrtMapMem?, acl.aclrtUnmapMem?);
        let (mut page, mut free, mut total) = (0, 0, 0);
        let mut base = std::ptr::null_mut();
        // SAFETY: all results go to places of ours.
        unsafe {
            if granularity(&physical(device), acl::RECOMMENDED, &mut page) != 0
                || page == 0
                || (acl.aclrtGetMemInfo)(acl::HBM, &mut free, &mut total) != 0
            {
                return None;
            }
            let size = (2 * total).checked_next_multiple_of(page).filter(|&size| size > 0)?;
            if reserve(&mut base, size, 0, std::ptr::null_mut(), RESERVE_HUGE) != 0 {
                return None;
            }
            let start = base as u64;
            let range = start..start + size as u64;
            let mapped = MappedRange { device, range, page: page as u64, pages: BTreeMap::new() };
            mapped.check_mapping(acl)
        }
    }

    /// Maps and unmaps a page, to see that it works; else releases the range.
    fn check_mapping(mut self, acl: &Acl) -> Option<MappedRange> {
        let at = self.range.start;
        if let Ok(handle) = self.map(acl, at, self.page) {
            self.pages.insert(at, Page { bytes: self.page, handle });
            if self.unmap(acl, at..at + self.page).len() == 1 {
                return Some(self);
            }
        }
        // SAFETY: the range is ours, and the pool has none of it.
        acl.aclrtReleaseMemAddress.map(|release| unsafe { release(at as *mut c_void) });
        None
    }

    /// The ranges that are mapped.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.pages.iter().map(|(&at, page)| at..at + page.bytes).collect()
    }

    /// Maps at least `bytes` more, in one piece.
    pub fn extend(
        &mut self,
        home: &AtomicPtr<c_void>,
        bytes: u64,
        available: u64,
    ) -> Result<Range<u64>, String> {
        let acl = acl()?;
        let need = bytes.checked_next_multiple_of(self.page).unwrap_or(u64::MAX);
        if need > available {
            return Err(format!("{need} bytes in whole pages are over the budget of {available}"));
        }
        let start = self.find_place(need).ok_or_else(|| {
            let length = self.range.end - self.range.start;
            format!("no {need} bytes in a row are left of the {length} bytes of addresses")
        })?;
        let _visit = Visit::to_home(acl, self.device, home)?;
        let page = if need >= 2 * LARGE { LARGE.next_multiple_of(self.page) } else { self.page };
        let mut at = start;
        while at < start + need {
            let bytes = page.min(start + need - at);
            match self.map(acl, at, bytes) {
                Ok(handle) => self.pages.insert(at, Page { bytes, handle }),
                Err(reason) => {
                    self.unmap(acl, start..at);
                    return Err(reason);
                }
            };
            at += bytes;
        }
        Ok(start..at)
    }

    /// Unmaps the pages that lie in the range.
    pub fn release(&mut self, home: &AtomicPtr<c_void>, range: Range<u64>) -> Vec<Range<u64>> {
        let Ok(acl) = acl() else { return Vec::new() };
        let Ok(_visit) = Visit::to_home(acl, self.device, home) else { return Vec::new() };
        self.unmap(acl, range)
    }

    /// An address for this many bytes of new pages.
    fn find_place(&self, need: u64) -> Option<u64> {
        let end = self.pages.last_key_value().map_or(self.range.start, |(at, p)| at + p.bytes);
        if need <= self.range.end - end {
            return Some(end);
        }
        let mut from = self.range.start;
        for (&at, page) in &self.pages {
            if need <= at - from {
                return Some(from);
            }
            from = at + page.bytes;
        }
        None
    }

    /// Maps new memory at an address.
    fn map(&self, acl: &Acl, at: u64, bytes: u64) -> Result<Handle, String> {
        let (Some(allocate), Some(map), Some(free)) =
            (acl.aclrtMallocPhysical, acl.aclrtMapMem, acl.aclrtFreePhysical)
        else {
            return Err("this ACL has no virtual memory".into());
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle goes to a place of ours.
        let code = unsafe { allocate(&mut handle, bytes as usize, &physical(self.device), 0) };
        if code != 0 {
            return Err(format!("aclrtMallocPhysical of {bytes} bytes returned {code}"));
        }
        // SAFETY: nothing is mapped there, in a range that is ours.
        let code = unsafe { map(at as *mut c_void, bytes as usize, 0, handle, 0) };
        if code != 0 {
            // SAFETY: the handle is ours and mapped nowhere.
            unsafe { free(handle) };
            return Err(format!("aclrtMapMem of {bytes} bytes at {at:#x} returned {code}"));
        }
        Ok(handle)
    }

    /// Unmaps whole pages in the range; returns what was unmapped, as few ranges.
    fn unmap(&mut self, acl: &Acl, range: Range<u64>) -> Vec<Range<u64>> {
        let (Some(unmap), Some(free)) = (acl.aclrtUnmapMem, acl.aclrtFreePhysical) else {
            return Vec::new();
        };
        let inside: Vec<u64> = self
            .pages
            .range(range.start..range.end)
            .filter(|(at, page)| *at + page.bytes <= range.end)
            .map(|(&at, _)| at)
            .collect();
        let mut unmapped: Vec<Range<u64>> = Vec::new();
        for at in inside {
            let Page { bytes, handle } = self.pages[&at];
            // SAFETY: the page is mapped here, and nobody has any of it.
            if unsafe { unmap(at as *mut c_void) } != 0 {
                continue;
            }
            // SAFETY: the handle is ours and mapped nowhere now.
            unsafe { free(handle) };
            self.pages.remove(&at);
            match unmapped.last_mut() {
                Some(last) if last.end == at => last.end = at + bytes,
                _ => unmapped.push(at..at + bytes),
            }
        }
        unmapped
    }
}

/// The properties of memory to map.
fn physical(device: i32) -> Physical {
    Physical {
        handle_type: 0,
        allocation_type: 0,
        attribute: acl::HBM_HUGE,
        location: acl::Location { id: device as u32, kind: acl::ON_DEVICE },
        reserve: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(pages: &[(u64, u64)]) -> MappedRange {
        let page = |&(at, bytes)| (at, Page { bytes, handle: std::ptr::null_mut() });
        MappedRange {
            device: 0,
            range: 100..200,
            page: 10,
            pages: pages.iter().map(page).collect(),
        }
    }

    #[test]
    fn new_pages_go_after_the_highest_and_into_gaps_after_that() {
        assert_eq!(mapped(&[]).find_place(100), Some(100));
        assert_eq!(mapped(&[]).find_place(110), None);
        assert_eq!(mapped(&[(100, 10), (120, 20)]).find_place(60), Some(140));
        let full = mapped(&[(100, 10), (120, 20), (170, 20)]);
        assert_eq!(full.find_place(10), Some(190));
        assert_eq!(full.find_place(20), Some(140));
        assert_eq!(full.find_place(30), Some(140));
        assert_eq!(full.find_place(40), None);
        assert_eq!(mapped(&[(150, 50)]).find_place(50), Some(100));
    }
}
