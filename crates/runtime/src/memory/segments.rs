//! The segments of one pool: what it has from the arena of its device.

use super::allocator::{Allocator, RawBlock};
use super::arena::{Arena, Attempt, page};
use super::funnel::Funnel;
use super::layer::Stack;
use super::moves::Moves;
use super::purpose::{Owner, Purpose};
use super::request::Request;
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::record::event::MemoryKind;
use crate::record::{Event, Kind, Spine};
use crate::stream::Stream;
use crate::sync::Arc;
use cairn_pool::{SegmentSource, StitchRequest, Stitching};
use std::ops::Range;

/// A pool takes multiples of this from its arena, if there is so much.
const STEP: u64 = 2 << 20;
/// A smaller block gets new memory rather than pages of holes: a piece costs the kernel some ten microseconds.
const MIN_STITCHED: u64 = 64 << 10;
/// Up to so many bytes a pool takes whole [`STEP`]s.
const FIRST_BYTES: u64 = 32 << 20;
/// A smaller piece stays where it is.
const MIN_PIECE: u64 = 16 << 10;
/// The most pieces of a block, which bounds how long one takes.
const MAX_PIECES: usize = 256;

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
    /// Pages that are on their way to a stitched segment.
    moves: Arc<Moves>,
    stitches: bool,
    table: Mutex<SegmentTable>,
}

struct SegmentTable {
    bytes: u64,
    max_bytes: u64,
    closed: bool,
    /// Old addresses of moved pages, which tasks may use.
    vacating: Vec<Range<u64>>,
}

impl Segments {
    /// No segment yet, for the pool of this number. `stitches`: pages of several may become one.
    pub fn new(
        arena: Arc<Arena>,
        device: u32,
        pool: u32,
        max_bytes: u64,
        stitches: bool,
        stack: Stack,
        spine: Arc<Spine>,
    ) -> Segments {
        let table = SegmentTable { bytes: 0, max_bytes, closed: false, vacating: Vec::new() };
        let moves = Arc::new(Moves::new(arena.clone()));
        Segments {
            arena,
            device,
            pool,
            stack,
            spine,
            moves,
            stitches,
            table: Mutex::new(Rank::Segments, table),
        }
    }

    /// Pages that are on their way to a stitched segment.
    pub fn moves(&self) -> &Arc<Moves> {
        &self.moves
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
            table.vacating.drain(..).for_each(|range| self.arena.vacate(range));
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

/// What the record says of stitched segments: the pages are gone from where they were, and a segment is there.
impl Segments {
    fn kind(&self) -> MemoryKind {
        MemoryKind::PoolSegment { device: self.device, pool: self.pool }
    }

    fn emit_moved(&self, piece: &Range<u64>) {
        self.spine.emit(Kind::Free, || Event::Free {
            kind: self.kind(),
            address: self.arena.address(piece.start),
            bytes: piece.end - piece.start,
            stream: None,
        });
    }

    fn emit_stitched(&self, range: &Range<u64>) {
        self.spine.emit(Kind::Alloc, || Event::Alloc {
            kind: self.kind(),
            address: self.arena.address(range.start),
            bytes: range.end - range.start,
            purpose: Purpose::PoolSegment,
            owner: Owner::default(),
            stream: None,
        });
    }
}

/// What a pool that stitches takes at a time: less than a hundredth of what it has, where that is much.
fn step(pooled: u64) -> u64 {
    match pooled {
        0..FIRST_BYTES => STEP,
        _ => (pooled / 128 / MIN_STITCHED * MIN_STITCHED).min(STEP),
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
        Some((self.0.kind(), block.bytes))
    }
}

impl SegmentSource for Segments {
    fn extend(&self, bytes: u64) -> std::result::Result<Range<u64>, String> {
        let mut table = self.table.lock();
        if table.closed {
            return Err("the pool has ended".into());
        }
        let available = table.max_bytes.saturating_sub(table.bytes);
        let step = if self.stitches { step(table.bytes) } else { STEP };
        let rounded = bytes.checked_next_multiple_of(step).filter(|&more| more <= available);
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

    /// Not under a layer: it would not see what moves.
    fn stitching(&self) -> Option<Stitching> {
        let is_bare = self.stack.layers().is_empty();
        (self.stitches && is_bare).then(|| Stitching {
            page: page(),
            min_block: MIN_STITCHED,
            min_piece: MIN_PIECE.max(page()),
            max_pieces: MAX_PIECES,
            keeps_addresses: true,
            extends_end: false,
        })
    }

    fn stitch(&self, request: &StitchRequest<'_>) -> std::result::Result<Range<u64>, String> {
        let StitchRequest { pieces, fresh, in_use, .. } = *request;
        let mut table = self.table.lock();
        if table.closed || fresh > table.max_bytes.saturating_sub(table.bytes) {
            return Err("the pool may take no more".into());
        }
        let moved: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let range = self.arena.stitched_segment(moved + fresh, fresh, self.pool);
        let range = range.map_err(|_| format!("{} has no room for it", self.arena.name))?;
        table.bytes += fresh;
        table.vacating.extend_from_slice(pieces);
        self.moves.start(pieces, range.start, in_use);
        drop(table);
        pieces.iter().for_each(|piece| self.emit_moved(piece));
        self.emit_stitched(&range);
        Ok(range)
    }

    fn vacate(&self, range: Range<u64>) {
        let mut table = self.table.lock();
        if let Some(at) = table.vacating.iter().position(|vacating| *vacating == range) {
            table.vacating.swap_remove(at);
            self.moves.settle(&range);
            self.arena.vacate(range);
        }
    }
}
