//! What a pool's memory is made of: mapped pages where ACL has virtual memory, pieces where not.

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
    home: AtomicPtr<c_void>,
    limit: AtomicU64,
    reservation: Mutex<Reservation>,
}

struct Reservation {
    bytes: u64,
    source: Source,
}

enum Source {
    Unknown,
    Mapped(MappedRange),
    Segments(Segments),
    /// The device was reset, and the pool still has to let go of what there was.
    Gone,
}

impl Memory {
    /// Nothing yet. How it is made is found out with the first request; `CAIRN_POOL_VMM=0` asks for
    /// pieces.
    pub fn new(device: i32) -> Memory {
        let reservation = Reservation { bytes: 0, source: Source::Unknown };
        Memory {
            device,
            home: AtomicPtr::new(null_mut()),
            limit: AtomicU64::new(u64::MAX),
            reservation: Mutex::new(Rank::Arena, reservation),
        }
    }

    /// Where visits of this device go.
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

    /// The device was reset: all memory is gone. Nothing is asked of ACL until [`Memory::begin`].
    /// Returns what there was.
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

    /// The pool has let go of everything: it may have memory again.
    pub fn begin(&self) {
        self.reservation.lock().source = Source::Unknown;
    }

    fn choose(&self) -> Result<Source, String> {
        let acl = acl()?;
        let _visit = Visit::to_home(acl, self.device, &self.home)?;
        let wanted = settings::get().maps_pages;
        Ok(match wanted.then(|| MappedRange::reserve(acl, self.device)).flatten() {
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
        let gone = match &mut reservation.source {
            Source::Gone => return vec![range],
            _ if !process::may_call() => return Vec::new(),
            Source::Mapped(mapped) => mapped.release(&self.home, range),
            Source::Segments(segments) => segments.release(self.device, &self.home, range),
            Source::Unknown => Vec::new(),
        };
        reservation.bytes -= gone.iter().map(|range| range.end - range.start).sum::<u64>();
        gone
    }

    fn is_contiguous(&self) -> bool {
        matches!(self.reservation.lock().source, Source::Mapped(_))
    }
}
