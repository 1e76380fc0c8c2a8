//! Where a pool's memory comes from: pages that it maps where ACL has virtual memory, else segments.

use crate::acl::acl;
use crate::mapped::MappedRange;
use crate::process;
use crate::segments::Segments;
use crate::settings;
use crate::text;
use crate::visit::Visit;
use cairn_pool::{SegmentSource, StitchRequest, Stitching};
use cairn_sync::lock::{Mutex, Rank};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// The memory of one device. Offsets are addresses.
pub struct Memory {
    device: i32,
    /// The device's own context, once it is known; see [`Visit`].
    home: AtomicPtr<c_void>,
    limit: AtomicU64,
    /// Whether holes are stitched, once the source is chosen.
    stitches: AtomicBool,
    reservation: Mutex<Reservation>,
}

/// What the pool has from ACL.
struct Reservation {
    bytes: u64,
    source: Source,
}

enum Source {
    /// Chosen at the first request.
    Unknown,
    Mapped(MappedRange),
    Segments(Segments),
    /// The device was reset, and the pool has not released the memory that is gone yet.
    Gone,
}

impl Memory {
    /// No memory yet. The source is chosen at the first request; `CAIRN_POOL_VMM=0` asks for
    /// segments.
    pub fn new(device: i32) -> Memory {
        let reservation = Reservation { bytes: 0, source: Source::Unknown };
        Memory {
            device,
            home: AtomicPtr::new(null_mut()),
            limit: AtomicU64::new(u64::MAX),
            stitches: AtomicBool::new(false),
            reservation: Mutex::new(Rank::Arena, reservation),
        }
    }

    /// The device's own context, once it is known.
    pub fn home(&self) -> &AtomicPtr<c_void> {
        &self.home
    }

    /// Nothing is taken ahead of need beyond this many bytes.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// `mapped`, `segments`, or `none` before the first request.
    pub fn kind(&self) -> &'static str {
        match self.reservation.lock().source {
            Source::Unknown | Source::Gone => "none",
            Source::Mapped(_) => "mapped",
            Source::Segments(_) => "segments",
        }
    }

    /// The device was reset: all memory is gone. Nothing is asked of ACL until [`Memory::restart`].
    /// Returns the ranges that the pool had.
    pub fn forget_all(&self) -> Vec<Range<u64>> {
        let mut reservation = self.reservation.lock();
        reservation.bytes = 0;
        self.stitches.store(false, Ordering::Release);
        self.home.store(null_mut(), Ordering::Release);
        self.set_limit(u64::MAX);
        match std::mem::replace(&mut reservation.source, Source::Gone) {
            Source::Mapped(mapped) => mapped.ranges(),
            Source::Segments(segments) => segments.ranges(),
            Source::Unknown | Source::Gone => Vec::new(),
        }
    }

    /// The pool has released everything: it may take memory again.
    pub fn restart(&self) {
        self.reservation.lock().source = Source::Unknown;
    }

    /// The source for this ACL.
    fn choose(&self) -> Result<Source, String> {
        let acl = acl()?;
        let _visit = Visit::to_home(acl, self.device, &self.home)?;
        let settings = settings::get();
        let reserve = || MappedRange::reserve(acl, self.device, settings.stitches);
        let mapped = settings.maps_pages.then(reserve).flatten();
        let stitches = mapped.as_ref().is_some_and(|mapped| mapped.stitching().is_some());
        if settings.maps_pages && settings.stitches && !stitches {
            report_no_stitching(mapped.is_some());
        }
        self.stitches.store(stitches, Ordering::Release);
        Ok(mapped.map_or_else(|| Source::Segments(Segments::default()), Source::Mapped))
    }
}

/// Says once that holes are not stitched, and why.
fn report_no_stitching(has_virtual_memory: bool) {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        let reason = match has_virtual_memory {
            true => "this ACL does not map memory at two addresses",
            false => "this ACL has no virtual memory",
        };
        text::warn(&format!(
            "{reason}, so free memory in pieces serves no large block (CAIRN_POOL_STITCH=0 turns this message off)"
        ));
    });
}

impl SegmentSource for Memory {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        if !process::may_call() {
            return Err("the process is ending".into());
        }
        let mut reservation = self.reservation.lock();
        if matches!(reservation.source, Source::Unknown) {
            reservation.source = self.choose()?;
        }
        let available = self.limit.load(Ordering::Relaxed).saturating_sub(reservation.bytes);
        let range = match &mut reservation.source {
            Source::Mapped(mapped) => mapped.extend(&self.home, bytes, available)?,
            Source::Segments(segments) => {
                segments.extend(self.device, &self.home, bytes, available)?
            }
            Source::Unknown | Source::Gone => {
                return Err(format!("device {} is being reset", self.device));
            }
        };
        reservation.bytes += range.end - range.start;
        Ok(range)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut reservation = self.reservation.lock();
        let released = match &mut reservation.source {
            Source::Gone => return vec![range],
            _ if !process::may_call() => return Vec::new(),
            Source::Mapped(mapped) => mapped.release(&self.home, range),
            Source::Segments(segments) => segments.release(self.device, &self.home, range),
            Source::Unknown => Vec::new(),
        };
        reservation.bytes -= released.iter().map(|range| range.end - range.start).sum::<u64>();
        released
    }

    fn is_contiguous(&self) -> bool {
        matches!(self.reservation.lock().source, Source::Mapped(_))
    }

    fn stitching(&self) -> Option<Stitching> {
        if !self.stitches.load(Ordering::Acquire) || !process::may_call() {
            return None;
        }
        match &self.reservation.lock().source {
            Source::Mapped(mapped) => mapped.stitching(),
            _ => None,
        }
    }

    fn stitch(&self, request: &StitchRequest<'_>) -> Result<Range<u64>, String> {
        let fresh = request.fresh;
        let mut reservation = self.reservation.lock();
        let available = self.limit.load(Ordering::Relaxed).saturating_sub(reservation.bytes);
        if fresh > available {
            return Err(format!("{fresh} bytes are over the budget of {available}"));
        }
        let Source::Mapped(mapped) = &mut reservation.source else {
            return Err(format!("device {} is being reset", self.device));
        };
        let range = mapped.stitch(&self.home, request)?;
        reservation.bytes += fresh;
        Ok(range)
    }

    fn vacate(&self, range: Range<u64>) {
        if process::may_call()
            && let Source::Mapped(mapped) = &mut self.reservation.lock().source
        {
            mapped.vacate(&self.home, range);
        }
    }
}
