//! The mapped parts of a record: the end of its header, and the segments that threads write into. What was stored is in the file,
//! whatever becomes of the process.

use crate::sync::Arc;
use cairn_record::encode::Output;
use cairn_record::layout::*;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a piece, by which the file grows.
pub const PIECE_BYTES: usize = PIECE_SEGMENTS * SEGMENT_BYTES;

/// A part of the file, mapped until it is dropped.
struct Mapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer is to a shared mapping that lives as long as this; who writes where is the affair of the two types below.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, offset: u64, bytes: usize) -> io::Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses. Others may cut the file off, which is their affair.
        let base =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, offset)? };
        Ok(Mapping { base: base.cast(), bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nobody has an address of it any more.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

/// The header of the file, for what the process that writes and the one that reads say to each other.
pub struct HeaderPage(Mapping);

impl HeaderPage {
    /// Maps the header, which was written.
    pub fn map(file: &File) -> io::Result<HeaderPage> {
        Mapping::new(file, 0, HEADER_BYTES).map(HeaderPage)
    }

    /// The record ends before the process.
    pub fn mark_cut_short(&self) {
        // SAFETY: aligned, inside of the mapping; every access of it is atomic.
        let flag = unsafe { AtomicU32::from_ptr(self.0.base.add(CUT_SHORT_OFFSET).cast()) };
        flag.store(1, Ordering::Release);
    }

    /// The process that reads while this one writes; 0 for none.
    pub fn reader(&self) -> u32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.0.base.add(READER_OFFSET).cast()) }
            .load(Ordering::Relaxed)
    }

    /// How many segments that process is done with.
    pub fn consumed(&self) -> u64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.0.base.add(CONSUMED_OFFSET).cast()) }
            .load(Ordering::Relaxed)
    }
}

/// A segment that nobody has begun.
pub struct EmptySegment(SegmentWriter);

/// A segment that one thread writes into. The piece of the file that it lies in is mapped until the last of its segments is dropped.
pub struct SegmentWriter {
    _piece: Arc<Mapping>,
    base: *mut u8,
    used: usize,
}

// SAFETY: the pointer is to a part of the mapping that this value alone writes.
unsafe impl Send for SegmentWriter {}

impl EmptySegment {
    /// The segments of the piece at an offset of the file, whose disk space is there.
    pub fn map_piece(file: &File, offset: u64) -> io::Result<[EmptySegment; PIECE_SEGMENTS]> {
        let piece = Mapping::new(file, offset, PIECE_BYTES)?;
        // A page fault for each page costs more; where the kernel cannot do it, they come one by one.
        // SAFETY: it changes no byte.
        let _ = unsafe { madvise(piece.base.cast(), PIECE_BYTES, Advice::LinuxPopulateWrite) };
        let piece = Arc::new(piece);
        Ok(std::array::from_fn(|number| {
            // SAFETY: inside of the piece; each number is given out once.
            let base = unsafe { piece.base.add(number * SEGMENT_BYTES) };
            EmptySegment(SegmentWriter { _piece: piece.clone(), base, used: 0 })
        }))
    }

    /// Begins the segment: from now on it is seen. With `is_busy` its thread makes an entry.
    pub fn begin(self, header: Segment, is_busy: bool) -> SegmentWriter {
        let mut bytes = header.encode();
        if is_busy {
            bytes[USED_OFFSET..USED_OFFSET + 4].copy_from_slice(&BUSY.to_le_bytes());
        }
        let segment = self.0;
        // SAFETY: nobody else has this segment. The magic, which makes it count, is stored last.
        unsafe {
            segment.base.add(4).copy_from_nonoverlapping(bytes[4..].as_ptr(), bytes.len() - 4);
            AtomicU32::from_ptr(segment.base.cast())
                .store(SEGMENT_MAGIC.to_le(), Ordering::Release);
        }
        segment
    }
}

impl SegmentWriter {
    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        PAYLOAD_BYTES - self.used
    }

    /// The thread begins to make an entry: before it reads the clock.
    #[inline]
    pub fn set_busy(&self) {
        self.state().store(self.used as u32 | BUSY, Ordering::Relaxed);
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// Stores bytes that fit. They count once [`SegmentWriter::publish`] was called.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "{} bytes for {}", bytes.len(), self.room());
        // SAFETY: they fit into the segment, which this thread alone writes.
        unsafe {
            let to = self.base.add(SEGMENT_HEADER_BYTES + self.used);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.used += bytes.len();
    }

    /// Goes back to a length that it had: what was written since is not wanted.
    pub fn truncate(&mut self, used: usize) {
        self.used = self.used.min(used);
    }

    /// Bytes that were written.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Takes bytes as they are made; what does not fit goes to `rest`.
    #[inline]
    pub fn output<'a>(&'a mut self, rest: &'a mut Vec<u8>) -> SegmentOutput<'a> {
        SegmentOutput { segment: self, rest }
    }

    /// Makes what was written count; the entry is made.
    #[inline]
    pub fn publish(&self) {
        self.state().store(self.used as u32, Ordering::Release);
    }

    fn state(&self) -> &AtomicU32 {
        // SAFETY: four bytes of the header, aligned, inside of the mapping; others only read them.
        unsafe { AtomicU32::from_ptr(self.base.add(USED_OFFSET).cast()) }
    }
}

/// Where an entry is encoded to: a segment, and what does not fit into it.
pub struct SegmentOutput<'a> {
    segment: &'a mut SegmentWriter,
    rest: &'a mut Vec<u8>,
}

impl Output for SegmentOutput<'_> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        let used = self.segment.used;
        if used < PAYLOAD_BYTES {
            // SAFETY: inside of the segment, which this thread alone writes.
            unsafe { self.segment.base.add(SEGMENT_HEADER_BYTES + used).write(byte) };
            self.segment.used = used + 1;
        } else {
            self.rest.push(byte);
        }
    }

    #[inline]
    fn low_bytes(&mut self, number: u64, count: usize) {
        let used = self.segment.used;
        if used + 8 <= PAYLOAD_BYTES {
            // SAFETY: as above. Bytes beyond those that count are written later.
            unsafe {
                let to = self.segment.base.add(SEGMENT_HEADER_BYTES + used);
                to.cast::<[u8; 8]>().write(number.to_le_bytes());
            }
            self.segment.used = used + count;
        } else {
            self.bytes(&number.to_le_bytes()[..count]);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.segment.room()));
        self.segment.write(first);
        self.rest.extend_from_slice(rest);
    }
}
