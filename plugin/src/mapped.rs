//! Memory in one range of addresses: pages mapped on demand, for an ACL that can.
//!
//! ```text
//! base                                     mapped end                          base + reserved
//!  |###|###|###########|      |###########|- - - - - - - - - - - - - - - - - -|
//!   pages of 2 MiB, and of 16 for large requests; released ones leave gaps
//! ```
//!
//! The range is four times as large as the device's memory, or twice if ACL refuses that. New pages go after the highest one, so that
//! free memory is contiguous. Addresses that were unmapped come again only when all others were used: ACL may let a map there wait for
//! tasks that it was submitted after, also for some that have nothing to do with it.
//!
//! With stitching all pages are small. A page that moves is mapped at its new address too; the old mapping stays for tasks that were
//! submitted, until the pool vacates it. So an ACL must be able to map a page at two addresses: that is tried at the start.

use crate::acl::{self, Acl, Handle, Physical, acl};
use crate::visit::Visit;
use cairn_pool::{StitchRequest, Stitching};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::AtomicPtr;

/// The size of a large page.
const LARGE: u64 = 16 << 20;
/// The most pieces of a stitched range. Each page is a call of ACL anyway, so this only bounds how long one takes.
const MAX_PIECES: usize = 1024;
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
    /// Where pages still are mapped that are elsewhere, by address; with their sizes. What cannot be unmapped stays here.
    vacated: BTreeMap<u64, u64>,
    /// Pages can be mapped twice, and the pool may use that.
    stitches: bool,
    /// Up to here addresses were mapped and unmapped again.
    used: u64,
}

#[derive(Clone, Copy)]
struct Page {
    bytes: u64,
    handle: Handle,
}

// SAFETY: handles of ACL may be used by any thread.
unsafe impl Send for Page {}

impl MappedRange {
    /// Reserves a range for a device, which is current, and maps a page to see that it works; `None` if
    /// this ACL cannot. `stitches`: the pool moves pages, if they can be mapped twice.
    pub fn reserve(acl: &Acl, device: i32, stitches: bool) -> Option<MappedRange> {
        let (granularity, reserve) =
            (acl.aclrtMemGetAllocationGranularity?, acl.aclrtReserveMemAddress?);
        let _required =
            (acl.aclrtReleaseMemAddress?, acl.aclrtMallocPhysical?, acl.aclrtFreePhysical?);
        let _required = (acl.aclrtMapMem?, acl.aclrtUnmapMem?);
        let (mut page, mut free, mut total) = (0, 0, 0);
        // SAFETY: all results go to places of ours.
        let refused = unsafe {
            granularity(&physical(device), acl::RECOMMENDED, &mut page) != 0
                || page == 0
                || (acl.aclrtGetMemInfo)(acl::HBM, &mut free, &mut total) != 0
        };
        if refused {
            return None;
        }
        let range = [4, 2].into_iter().find_map(|times: usize| {
            let size = total.checked_mul(times)?.checked_next_multiple_of(page)?;
            let mut base = std::ptr::null_mut();
            // SAFETY: the address goes to a place of ours.
            let code = unsafe { reserve(&mut base, size, 0, std::ptr::null_mut(), RESERVE_HUGE) };
            (size > 0 && code == 0).then(|| base as u64..base as u64 + size as u64)
        })?;
        let (pages, vacated) = (BTreeMap::new(), BTreeMap::new());
        let (page, used) = (page as u64, range.start);
        let mapped = MappedRange { device, range, page, pages, vacated, stitches, used };
        mapped.check_mapping(acl)
    }

    /// Maps and unmaps a page, to see that it works; else releases the range. Where the pool is to stitch it
    /// is mapped at two addresses.
    fn check_mapping(mut self, acl: &Acl) -> Option<MappedRange> {
        // At the end of the range: what is unmapped is not used again soon.
        let at = self.range.end - self.page;
        if let Ok(page) = self.allocate(acl, at, self.page) {
            self.pages.insert(at, page);
            let second = at - self.page;
            let is_mapped =
                self.stitches && second >= self.range.start && map(acl, second, page).is_ok();
            self.stitches = is_mapped && unmap(acl, second);
            if self.unmap(acl, at..at + self.page).len() == 1 {
                self.used = self.range.start;
                if is_mapped && !self.stitches {
                    // The page is there for good.
                    self.range.end = second;
                }
                return Some(self);
            }
        }
        let start = self.range.start as *mut c_void;
        // SAFETY: the range is ours, and the pool has none of it.
        acl.aclrtReleaseMemAddress.map(|release| unsafe { release(start) });
        None
    }

    /// How pages are moved; `None` if they cannot be.
    pub fn stitching(&self) -> Option<Stitching> {
        self.stitches.then_some(Stitching {
            page: self.page,
            min_block: self.page,
            min_piece: self.page,
            max_pieces: MAX_PIECES,
            keeps_addresses: true,
            extends_end: true,
        })
    }

    /// Maps the pages of `pieces` side by side, and `fresh` bytes of new ones after them.
    pub fn stitch(
        &mut self,
        home: &AtomicPtr<c_void>,
        request: &StitchRequest<'_>,
    ) -> Result<Range<u64>, String> {
        let StitchRequest { pieces, fresh, after, .. } = *request;
        let acl = acl()?;
        let moved: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let start = self.find_place(moved + fresh).filter(|&at| after.is_none_or(|to| at == to));
        let start = start.ok_or("there is no place for the range")?;
        let _visit = Visit::to_home(acl, self.device, home)?;
        let olds = pieces.iter().flat_map(|piece| self.pages.range(piece.clone()));
        let olds: Vec<(u64, Page)> = olds.map(|(&at, &page)| (at, page)).collect();
        let mut at = start;
        let mut mapped = Ok(());
        for &(_, page) in &olds {
            mapped = map(acl, at, page);
            if mapped.is_err() {
                break;
            }
            at += page.bytes;
        }
        let mapped = mapped.and_then(|()| self.map_new(acl, at, start + moved + fresh, self.page));
        if let Err(reason) = mapped {
            for at in (start..at).step_by(self.page as usize) {
                if !unmap(acl, at) {
                    self.vacated.insert(at, self.page);
                }
            }
            return Err(reason);
        }
        let mut at = start;
        for (old, page) in olds {
            self.pages.remove(&old);
            self.vacated.insert(old, page.bytes);
            self.pages.insert(at, page);
            at += page.bytes;
        }
        Ok(start..start + moved + fresh)
    }

    /// Unmaps old addresses of pages that were moved.
    pub fn vacate(&mut self, home: &AtomicPtr<c_void>, range: Range<u64>) {
        let Ok(acl) = acl() else { return };
        let Ok(_visit) = Visit::to_home(acl, self.device, home) else { return };
        let inside: Vec<u64> = self.vacated.range(range).map(|(&at, _)| at).collect();
        for at in inside {
            if unmap(acl, at)
                && let Some(bytes) = self.vacated.remove(&at)
            {
                self.used = self.used.max(at + bytes);
            }
        }
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
        let is_large = need >= 2 * LARGE && !self.stitches;
        let page = if is_large { LARGE.next_multiple_of(self.page) } else { self.page };
        self.map_new(acl, start, start + need, page)?;
        Ok(start..start + need)
    }

    /// Maps new pages of this size; all, or none.
    fn map_new(&mut self, acl: &Acl, start: u64, end: u64, page: u64) -> Result<(), String> {
        let mut at = start;
        while at < end {
            let bytes = page.min(end - at);
            // One call may fail by chance, and a request has many: two in a row are a shortage.
            let made = self.allocate(acl, at, bytes).or_else(|_| self.allocate(acl, at, bytes));
            match made {
                Ok(page) => self.pages.insert(at, page),
                Err(reason) => {
                    self.unmap(acl, start..at);
                    return Err(reason);
                }
            };
            at += bytes;
        }
        Ok(())
    }

    /// Unmaps the pages that lie in the range.
    pub fn release(&mut self, home: &AtomicPtr<c_void>, range: Range<u64>) -> Vec<Range<u64>> {
        let Ok(acl) = acl() else { return Vec::new() };
        let Ok(_visit) = Visit::to_home(acl, self.device, home) else { return Vec::new() };
        self.unmap(acl, range)
    }

    /// An address for this many bytes of pages, where nothing is mapped.
    fn find_place(&self, need: u64) -> Option<u64> {
        let end_of = |(&at, bytes): (&u64, u64)| at + bytes;
        let last_page = self.pages.last_key_value().map(|(at, page)| end_of((at, page.bytes)));
        let last_vacated = self.vacated.last_key_value().map(|(at, &bytes)| end_of((at, bytes)));
        let end = last_page.max(last_vacated).unwrap_or(self.range.start).max(self.used);
        if need <= self.range.end - end {
            return Some(end);
        }
        let mut from = self.range.start;
        let mut vacated = self.vacated.iter().map(|(&at, &bytes)| (at, bytes)).peekable();
        let mut pages = self.pages.iter().map(|(&at, page)| (at, page.bytes)).peekable();
        loop {
            let page_is_next = match (pages.peek(), vacated.peek()) {
                (None, None) => return (need <= self.range.end - from).then_some(from),
                (Some(page), Some(old)) => page.0 < old.0,
                (page, _) => page.is_some(),
            };
            let (at, bytes) = if page_is_next { pages.next()? } else { vacated.next()? };
            if need <= at - from {
                return Some(from);
            }
            from = at + bytes;
        }
    }

    /// Makes new memory and maps it at an address.
    fn allocate(&self, acl: &Acl, at: u64, bytes: u64) -> Result<Page, String> {
        let (Some(allocate), Some(free)) = (acl.aclrtMallocPhysical, acl.aclrtFreePhysical) else {
            return Err("this ACL has no virtual memory".into());
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle goes to a place of ours.
        let code = unsafe { allocate(&mut handle, bytes as usize, &physical(self.device), 0) };
        if code != 0 {
            return Err(format!("aclrtMallocPhysical of {bytes} bytes returned {code}"));
        }
        let page = Page { bytes, handle };
        map(acl, at, page).map(|()| page).inspect_err(|_| {
            // SAFETY: the handle is ours and mapped nowhere.
            unsafe { free(handle) };
        })
    }

    /// Unmaps whole pages in the range; returns what was unmapped, as few ranges.
    fn unmap(&mut self, acl: &Acl, range: Range<u64>) -> Vec<Range<u64>> {
        let Some(free) = acl.aclrtFreePhysical else { return Vec::new() };
        let inside: Vec<u64> = self
            .pages
            .range(range.start..range.end)
            .filter(|(at, page)| *at + page.bytes <= range.end)
            .map(|(&at, _)| at)
            .collect();
        let mut unmapped: Vec<Range<u64>> = Vec::new();
        for at in inside {
            let Page { bytes, handle } = self.pages[&at];
            if !unmap(acl, at) {
                continue;
            }
            // SAFETY: the handle is ours, and nobody has any of its memory.
            unsafe { free(handle) };
            self.pages.remove(&at);
            self.used = self.used.max(at + bytes);
            match unmapped.last_mut() {
                Some(last) if last.end == at => last.end = at + bytes,
                _ => unmapped.push(at..at + bytes),
            }
        }
        unmapped
    }
}

/// Maps a page at an address.
fn map(acl: &Acl, at: u64, page: Page) -> Result<(), String> {
    let map = acl.aclrtMapMem.ok_or("this ACL has no virtual memory")?;
    // SAFETY: nothing is mapped there, in a range that is ours.
    match unsafe { map(at as *mut c_void, page.bytes as usize, 0, page.handle, 0) } {
        0 => Ok(()),
        code => Err(format!("aclrtMapMem of {} bytes at {at:#x} returned {code}", page.bytes)),
    }
}

/// Unmaps the page at an address, of which nobody has anything; true if that was done.
fn unmap(acl: &Acl, at: u64) -> bool {
    // SAFETY: a page is mapped there, in a range that is ours.
    acl.aclrtUnmapMem.is_some_and(|unmap| unsafe { unmap(at as *mut c_void) } == 0)
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
            vacated: BTreeMap::new(),
            stitches: false,
            used: 100,
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

    #[test]
    fn addresses_that_were_unmapped_come_again_last() {
        let mut range = mapped(&[(100, 10)]);
        range.used = 180;
        assert_eq!(range.find_place(20), Some(180));
        assert_eq!(range.find_place(30), Some(110));
    }

    #[test]
    fn old_addresses_are_in_the_way_until_they_are_vacated() {
        let mut range = mapped(&[(100, 10), (170, 20)]);
        range.vacated.extend([(110, 10), (140, 10), (190, 10)]);
        assert_eq!((range.find_place(20), range.find_place(30)), (Some(120), None));
        assert_eq!(range.find_place(10), Some(120), "not after the highest page");
        range.vacated.remove(&140);
        assert_eq!(range.find_place(50), Some(120));
        range.vacated.remove(&190);
        assert_eq!(range.find_place(10), Some(190));
    }
}
