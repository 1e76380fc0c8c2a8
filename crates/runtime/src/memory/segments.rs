//! The segments of one pool: what it has from the arena of its device.

use super::allocator::{Allocator, RawBlock};
use super::arena::{Arena, Attempt};
use super::funnel::Funnel;
use super::layer::Stack;
use super::purpose::{Owner, Purpose};
use super::request::Request;
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::record::Spine;
use crate::record::event::MemoryKind;
use crate::stream::Stream;
use crate::sync::Arc;
use cairn_pool::SegmentSource;
use std::ops::Range;

/// A pool takes multiples of this from its arena, if there is so much.
const STEP: u64 = 2 << 20;

/// The segments of one pool: ranges of an arena, never more than `max_bytes` bytes.
///
/// Once closed it makes none and takes none back: their memory belongs to the arena again, and another
/// pool may have the number.
pub(super) struct Segments {
    /// Whose memory it is.
    pub arena: Arc<Arena>,
    device: u32,
    pool: u32,
    stack: Stack,
    spine: Arc<Spine>,
    table: Mutex<SegmentTable>,
}

struct SegmentTable {
    bytes: u64,
    max_bytes: u64,
    closed: bool,
}

impl Segments {
    /// No segment yet, for the pool of this number.
    pub fn new(
        arena: Arc<Arena>,
        device: u32,
        pool: u32,
        max_bytes: u64,
        stack: Stack,
        spine: Arc<Spine>,
    ) -> Segments {
        let table = Mutex::new(Rank::Segments, SegmentTable { bytes: 0, max_bytes, closed: false });
        Segments { arena, device, pool, stack, spine, table }
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.table.lock().bytes
    }

    /// Changes the most that they may have.
    pub fn set_max_bytes(&self, max_bytes: u64) {
        self.table.lock().max_bytes = max_bytes;
    }

    /// Closes if there is no segment; true if it is closed now.
    pub fn close_if_idle(&self) -> bool {
        let mut table = self.table.lock();
        table.closed |= table.bytes == 0;
        table.closed
    }

    /// Closes and takes everything back, whoever uses it.
    pub fn close(&self) {
        let mut table = self.table.lock();
        if !std::mem::replace(&mut table.closed, true) {
            table.bytes = 0;
            self.arena
                .segments_of(self.pool)
                .into_iter()
                .for_each(|range| self.free_segment(range));
        }
    }

    fn make(&self, bytes: u64) -> Result<Range<u64>> {
        let request = Request::bytes(bytes).purpose(Purpose::PoolSegment, Owner::default());
        let block = Funnel::new(&self.stack, &Maker(self), &self.spine).allocate(&request)?;
        let start = self.arena.offset(block.address).expect("a segment is in its arena");
        Ok(start..start + block.bytes)
    }

    fn free_segment(&self, range: Range<u64>) {
        let address = self.arena.address(range.start);
        let block = RawBlock::new(address, range.end - range.start, 0);
        let freed = Funnel::new(&self.stack, &Maker(self), &self.spine).free(block, None);
        if let Err(error) = freed {
            log::error!("{}", error.text);
        }
    }
}

/// Makes segments. They may be freed in parts, and together with their neighbours.
struct Maker<'a>(&'a Segments);

impl Allocator for Maker<'_> {
    fn name(&self) -> String {
        format!("the segments of pool {}", self.0.pool)
    }

    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        let Segments { arena, pool, .. } = self.0;
        let range = arena.segment(request.bytes, *pool).map_err(|attempt| {
            let reason = match attempt {
                Attempt::Refused(reason) => reason,
                _ => format!("{} has no {} bytes left", arena.name, request.bytes),
            };
            Error::new(Code::MemoryAllocation, reason)
        })?;
        Ok(RawBlock::new(arena.address(range.start), range.end - range.start, 0))
    }

    fn free(&self, block: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
        let start = self.0.arena.offset(block.address).expect("a segment is in its arena");
        self.0.arena.end_segment(start..start + block.bytes);
        Ok(())
    }

    fn kind_of(&self, block: &RawBlock) -> Option<(MemoryKind, u64)> {
        let Segments { device, pool, .. } = *self.0;
        Some((MemoryKind::PoolSegment { device, pool }, block.bytes))
    }
}

impl SegmentSource for Segments {
    fn extend(&self, bytes: u64) -> std::result::Result<Range<u64>, String> {
        let mut table = self.table.lock();
        if table.closed {
            return Err("the pool has ended".into());
        }
        let available = table.max_bytes.saturating_sub(table.bytes);
        let rounded = bytes.checked_next_multiple_of(STEP).filter(|&more| more <= available);
        let rounded = rounded.filter(|&more| more > bytes).map(|more| self.make(more));
        let segment =
            rounded.and_then(std::result::Result::ok).map_or_else(|| self.make(bytes), Ok);
        let range = segment.map_err(|error| error.text)?;
        table.bytes += range.end - range.start;
        Ok(range)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut table = self.table.lock();
        if table.closed {
            return Vec::new();
        }
        table.bytes -= range.end - range.start;
        self.free_segment(range.clone());
        vec![range]
    }
}
