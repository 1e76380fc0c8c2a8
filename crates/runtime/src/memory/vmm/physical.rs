//! Physical memory: bytes without an address, behind a handle with references.

use super::store::{FileRange, ForeignRange};
use super::window::PAGE;
use crate::handle::HandleObject;
use crate::memory::arena::Arena;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use rustix::fd::BorrowedFd;
use std::fmt;
use std::ops::Range;

const GIB: u64 = 1 << 30;

/// Where physical memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a device.
    Device(u32),
    /// On the host.
    Host,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Device(device) => write!(f, "device {device}"),
            Place::Host => write!(f, "the host"),
        }
    }
}

/// The pages of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary ones.
    Normal,
    /// 2 MiB.
    Huge,
    /// 1 GiB.
    Huge1G,
}

/// What physical memory is made as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalSpec {
    /// How many bytes, a multiple of [`PhysicalSpec::granularity`].
    pub bytes: u64,
    /// Where.
    pub place: Place,
    /// In which pages.
    pub pages: Pages,
}

impl PhysicalSpec {
    /// Sizes are multiples of this: the least one, or the one that is recommended.
    pub fn granularity(place: Place, pages: Pages, is_minimum: bool) -> u64 {
        match (place, pages) {
            (_, Pages::Huge1G) => GIB,
            (Place::Host, Pages::Normal) if is_minimum => rustix::param::page_size() as u64,
            _ => PAGE,
        }
    }
}

/// Where the bytes lie.
pub(super) enum Bytes {
    /// In a file of this process.
    Own(FileRange),
    /// In one of another, in parts that follow each other in memory.
    Foreign(Vec<ForeignRange>),
}

/// The bytes themselves. They live as long as anything refers to them: the handle, a mapped piece, or one that was
/// unmapped while tasks were queued.
pub(super) struct PhysicalBytes {
    pub bytes: Bytes,
    pub len: u64,
    /// Who accounts for them; nobody for those of other processes.
    pub arena: Option<Arc<Arena>>,
}

impl PhysicalBytes {
    /// The first `bytes` of them: files, offsets there, and sizes.
    pub fn parts(&self, mut bytes: u64) -> Vec<(BorrowedFd<'_>, u64, u64)> {
        match &self.bytes {
            Bytes::Own(range) => vec![(range.file(), range.offset(), bytes)],
            Bytes::Foreign(ranges) => {
                let mut parts = Vec::new();
                for range in ranges {
                    let len = range.bytes().min(bytes);
                    bytes -= len;
                    if len > 0 {
                        parts.push((range.file(), range.offset(), len));
                    }
                }
                parts
            }
        }
    }
}

impl PhysicalBytes {
    /// Those of a range: files, offsets there, and sizes.
    pub fn parts_between(&self, range: Range<u64>) -> Vec<(BorrowedFd<'_>, u64, u64)> {
        let mut skipped = range.start;
        let mut parts = self.parts(range.end);
        parts.retain_mut(|(_, offset, bytes)| {
            let skip = skipped.min(*bytes);
            skipped -= skip;
            (*offset, *bytes) = (*offset + skip, *bytes - skip);
            *bytes > 0
        });
        parts
    }

    /// Their owners are gone.
    pub fn retire(&self) {
        if let Some(arena) = &self.arena {
            arena.retire_physical(self.len);
        }
    }
}

impl Drop for PhysicalBytes {
    fn drop(&mut self) {
        if let Some(arena) = &self.arena {
            arena.release_physical(self.len);
        }
    }
}

/// What new physical memory is made of.
pub(in crate::memory) struct PhysicalParts {
    id: usize,
    pub(super) bytes: PhysicalBytes,
}

impl PhysicalParts {
    pub(super) fn new(
        id: usize,
        bytes: Bytes,
        len: u64,
        arena: Option<Arc<Arena>>,
    ) -> PhysicalParts {
        PhysicalParts { id, bytes: PhysicalBytes { bytes, len, arena } }
    }

    /// The number under which tables and layers know it.
    pub fn id(&self) -> usize {
        self.id
    }
}

/// Physical memory as its handle knows it. It has references ([`super::tables::PhysicalEntry`]): one of whoever made,
/// imported or retained it each, and one of each place where it is mapped. With the last one handle and memory end.
pub struct Physical {
    /// What it is.
    pub spec: PhysicalSpec,
    /// True if another process made it.
    pub is_imported: bool,
    /// True if the program may ask for `spec`; not of what was imported by a plain number.
    pub has_properties: bool,
    /// The name under which tables and layers know it; no address of anything.
    id: usize,
    handle: AtomicUsize,
}

impl HandleObject for Physical {
    const KIND: &'static str = "handle of physical memory";
}

impl Physical {
    pub(super) fn new(spec: PhysicalSpec, id: usize, is_imported: bool) -> Physical {
        Physical { spec, is_imported, has_properties: true, id, handle: AtomicUsize::new(0) }
    }

    pub(in crate::memory) fn id(&self) -> usize {
        self.id
    }

    /// The user's handle of it.
    pub fn handle(&self) -> usize {
        self.handle.load(Relaxed)
    }

    /// Keeps the user's handle, once it is known.
    pub fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Relaxed);
    }
}
