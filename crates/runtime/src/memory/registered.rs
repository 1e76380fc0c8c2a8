//! Ranges of host memory that the user registered, so that devices can touch them: ordinary memory, or pinned memory.

use super::purpose::{Owner, Purpose};
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::record::event::MemoryKind;
use crate::record::{Event, Kind, Spine};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::ops::Range;

/// The registered ranges. Lookups cost nothing while there are none.
pub struct RegisteredRanges {
    ranges: Mutex<BTreeMap<usize, Registered>>,
    count: AtomicUsize,
    spine: Arc<Spine>,
}

struct Registered {
    bytes: usize,
    /// It lies in pinned memory, which others know already: it is not emitted.
    is_pinned: bool,
}

impl RegisteredRanges {
    /// An empty table.
    pub fn new(spine: Arc<Spine>) -> RegisteredRanges {
        let ranges = Mutex::new(Rank::Registered, BTreeMap::new());
        RegisteredRanges { ranges, count: AtomicUsize::new(0), spine }
    }

    /// Adds a range; it must not overlap another. `is_pinned`: it lies in pinned memory.
    pub fn insert(&self, start: usize, bytes: usize, is_pinned: bool) -> Result<()> {
        let end = start.checked_add(bytes).ok_or_else(|| {
            Error::refused(format!(
                "the range {start:#x} of {bytes} bytes does not fit the address space"
            ))
        })?;
        let mut ranges = self.ranges.lock();
        if let Some((&other, &Registered { bytes: len, .. })) = ranges.range(..end).next_back()
            && other + len > start
        {
            return Err(Error::new(
                Code::HostAlreadyRegistered,
                format!(
                    "the range {start:#x} of {bytes} bytes overlaps {other:#x} of {len} bytes, which is registered"
                ),
            ));
        }
        ranges.insert(start, Registered { bytes, is_pinned });
        self.count.store(ranges.len(), Ordering::Release);
        drop(ranges);
        if is_pinned {
            return Ok(());
        }
        self.spine.emit(Kind::Alloc, || Event::Alloc {
            kind: MemoryKind::Registered,
            address: start,
            bytes: bytes as u64,
            purpose: Purpose::User,
            owner: Owner::default(),
            stream: None,
        });
        Ok(())
    }

    /// Removes a range.
    pub fn remove(&self, start: usize) -> Result<()> {
        let mut ranges = self.ranges.lock();
        let range = ranges.remove(&start).ok_or_else(|| {
            Error::new(
                Code::HostNotRegistered,
                format!("{start:#x} is not the start of a registered host range"),
            )
        })?;
        if !range.is_pinned {
            let (kind, address, stream) = (MemoryKind::Registered, start, None);
            let bytes = range.bytes as u64;
            self.spine.emit(Kind::Free, || Event::Free { kind, address, bytes, stream });
        }
        self.count.store(ranges.len(), Ordering::Release);
        Ok(())
    }

    /// Removes the ranges that begin inside a block of pinned memory, which is freed.
    pub fn remove_inside(&self, block: Range<usize>) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut ranges = self.ranges.lock();
            ranges.retain(|start, _| !block.contains(start));
            self.count.store(ranges.len(), Ordering::Release);
        }
    }

    /// The range that contains an address.
    pub fn find(&self, address: usize) -> Option<(usize, usize)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let ranges = self.ranges.lock();
        let (&start, range) = ranges.range(..=address).next_back()?;
        (address - start < range.bytes).then_some((start, range.bytes))
    }
}
