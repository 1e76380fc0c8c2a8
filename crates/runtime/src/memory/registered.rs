//! Ranges of ordinary host memory that the user registered.

use super::purpose::{Owner, Purpose};
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::record::event::MemoryKind;
use crate::record::{Event, Kind, Spine};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;

/// The registered ranges. Lookups cost nothing while there are none.
pub struct RegisteredRanges {
    ranges: Mutex<BTreeMap<usize, usize>>,
    count: AtomicUsize,
    spine: Arc<Spine>,
}

impl RegisteredRanges {
    /// An empty table.
    pub fn new(spine: Arc<Spine>) -> RegisteredRanges {
        let ranges = Mutex::new(Rank::Registered, BTreeMap::new());
        RegisteredRanges { ranges, count: AtomicUsize::new(0), spine }
    }

    /// Adds a range; it must not overlap another.
    pub fn insert(&self, start: usize, bytes: usize) -> Result<()> {
        let end = start.checked_add(bytes).ok_or_else(|| {
            Error::refused(format!(
                "the range {start:#x} of {bytes} bytes does not fit the address space"
            ))
        })?;
        let mut ranges = self.ranges.lock();
        if let Some((&other, &len)) = ranges.range(..end).next_back()
            && other + len > start
        {
            return Err(Error::new(
                Code::HostAlreadyRegistered,
                format!(
                    "the range {start:#x} of {bytes} bytes overlaps {other:#x} of {len} bytes, which is registered"
                ),
            ));
        }
        ranges.insert(start, bytes);
        self.count.store(ranges.len(), Ordering::Release);
        drop(ranges);
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
        let bytes = *ranges.get(&start).ok_or_else(|| {
            Error::new(
                Code::HostNotRegistered,
                format!("{start:#x} is not the start of a registered host range"),
            )
        })? as u64;
        let (kind, address, stream) = (MemoryKind::Registered, start, None);
        self.spine.emit(Kind::Free, || Event::Free { kind, address, bytes, stream });
        ranges.remove(&start);
        self.count.store(ranges.len(), Ordering::Release);
        Ok(())
    }

    /// The range that contains an address.
    pub fn find(&self, address: usize) -> Option<(usize, usize)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let ranges = self.ranges.lock();
        let (&start, &bytes) = ranges.range(..=address).next_back()?;
        (address - start < bytes).then_some((start, bytes))
    }
}
