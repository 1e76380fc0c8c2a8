//! Where a pool's memory comes from: pages that it maps where ACL has virtual memory, else segments.

use crate::acl::acl;
use crate::mapped::MappedRange;
use crate::process;
use crate::segments::Segments;
use crate::settings;
use crate::visit::Visit;
use cairn_pool::SegmentSource;
use cairn_sync::lock::{Mutex, Rank};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The memory of one device. Offsets are addresses.
pub struct Memory {
    device: i32,
    /// The device's own context, once it is known; see [`Visit`].
    home: AtomicPtr<c_void>,
    limit: AtomicU64,
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
        let maps_pages = settings::get().maps_pages;
        Ok(match maps_pages.then(|| MappedRange::reserve(acl, self.device)).flatten() {
            Some(mapped) => Source::Mapped(mapped),
            None => Source::Segments(Segments::default()),
        })
    }
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
}
