//! What a pool's memory is made of: mapped pages where ACL has virtual memory, pieces where not.

use crate::acl::acl;
use crate::mapped::Mapped;
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
    taken: Mutex<Taken>,
}

struct Taken {
    bytes: u64,
    by: Kind,
}

enum Kind {
    Unknown,
    Mapped(Mapped),
    Segments(Segments),
    /// The device was reset, and the pool still has to let go of what there was.
    Gone,
}

impl Memory {
    /// Nothing yet. How it is made is found out with the first request; `CAIRN_POOL_VMM=0` asks for
    /// pieces.
    pub fn new(device: i32) -> Memory {
        let taken = Taken { bytes: 0, by: Kind::Unknown };
        Memory {
            device,
            home: AtomicPtr::new(null_mut()),
            limit: AtomicU64::new(u64::MAX),
            taken: Mutex::new(Rank::Arena, taken),
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
        match self.taken.lock().by {
            Kind::Unknown | Kind::Gone => "none",
            Kind::Mapped(_) => "mapped",
            Kind::Segments(_) => "segments",
        }
    }

    /// The device was reset: all memory is gone. Nothing is asked of ACL until [`Memory::begin`].
    /// Returns what there was.
    pub fn end(&self) -> Vec<Range<u64>> {
        let mut taken = self.taken.lock();
        taken.bytes = 0;
        self.home.store(null_mut(), Ordering::Release);
        self.set_limit(u64::MAX);
        match std::mem::replace(&mut taken.by, Kind::Gone) {
            Kind::Mapped(mapped) => mapped.ranges(),
            Kind::Segments(segments) => segments.ranges(),
            Kind::Unknown | Kind::Gone => Vec::new(),
        }
    }

    /// The pool has let go of everything: it may have memory again.
    pub fn begin(&self) {
        self.taken.lock().by = Kind::Unknown;
    }

    fn choose(&self) -> Result<Kind, String> {
        let acl = acl()?;
        let _visit = Visit::to_home(acl, self.device, &self.home)?;
        let wanted = settings::get().maps_pages;
        Ok(match wanted.then(|| Mapped::reserve(acl, self.device)).flatten() {
            Some(mapped) => Kind::Mapped(mapped),
            None => Kind::Segments(Segments::default()),
        })
    }
}

impl SegmentSource for Memory {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        if !process::may_call() {
            return Err("the process is ending".into());
        }
        let mut taken = self.taken.lock();
        if matches!(taken.by, Kind::Unknown) {
            taken.by = self.choose()?;
        }
        let available = self.limit.load(Ordering::Relaxed).saturating_sub(taken.bytes);
        let range = match &mut taken.by {
            Kind::Mapped(mapped) => mapped.extend(&self.home, bytes, available)?,
            Kind::Segments(segments) => {
                segments.extend(self.device, &self.home, bytes, available)?
            }
            Kind::Unknown | Kind::Gone => {
                return Err(format!("device {} is being reset", self.device));
            }
        };
        taken.bytes += range.end - range.start;
        Ok(range)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut taken = self.taken.lock();
        let gone = match &mut taken.by {
            Kind::Gone => return vec![range],
            _ if !process::may_call() => return Vec::new(),
            Kind::Mapped(mapped) => mapped.release(&self.home, range),
            Kind::Segments(segments) => segments.release(self.device, &self.home, range),
            Kind::Unknown => Vec::new(),
        };
        taken.bytes -= gone.iter().map(|range| range.end - range.start).sum::<u64>();
        gone
    }

    fn is_contiguous(&self) -> bool {
        matches!(self.taken.lock().by, Kind::Mapped(_))
    }
}
