//! Which blocks are held, and until when streams may use freed memory.

use super::{Streams, TestSource};
use cairn_pool::Progress;
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use std::collections::BTreeMap;
use std::sync::Arc;

struct LiveBlock {
    offset: u64,
    size: u64,
    stream: StreamIndex,
    uses: Vec<StreamIndex>,
}

/// The reference: blocks that are held, and for all freed memory the epochs that another user has to wait for.
pub struct Reference {
    streams: Arc<Streams>,
    held: Vec<LiveBlock>,
    /// Held ranges: start to end.
    live: BTreeMap<u64, u64>,
    /// Freed ranges: start to end, and the last uses.
    freed: BTreeMap<u64, (u64, Clock)>,
}

impl Reference {
    /// Nothing is held.
    pub fn new(streams: Arc<Streams>) -> Reference {
        let (held, live, freed) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Reference { streams, held, live, freed }
    }

    /// How many blocks are held.
    pub fn blocks(&self) -> usize {
        self.held.len()
    }

    /// How many bytes are held.
    pub fn live(&self) -> u64 {
        self.held.iter().map(|held| held.size).sum()
    }

    /// The stream that a block was taken for.
    pub fn stream_of(&self, index: usize) -> StreamIndex {
        self.held[index].stream
    }

    /// Records that a stream uses a block too; returns where the block begins.
    pub fn record_use(&mut self, index: usize, stream: StreamIndex) -> u64 {
        let held = &mut self.held[index];
        held.uses.push(stream);
        held.offset
    }

    /// Records that a stream got a block; panics if it may not have it.
    pub fn take(&mut self, offset: u64, size: u64, stream: StreamIndex) {
        let end = offset + size;
        let before = self.live.range(..end).next_back();
        assert!(before.is_none_or(|(_, &e)| e <= offset), "{offset}+{size} overlaps {before:?}");
        let overlapping: Vec<_> = self
            .freed
            .range(..end)
            .rev()
            .take_while(|(_, (e, _))| *e > offset)
            .map(|(&s, (e, clock))| (s, *e, clock.clone()))
            .collect();
        for (s, e, clock) in overlapping {
            assert!(
                self.streams.may_use(stream, &clock),
                "{offset}+{size} on stream {stream} is still used: {clock:?}"
            );
            self.freed.remove(&s);
            if s < offset {
                self.freed.insert(s, (offset, clock.clone()));
            }
            if e > end {
                self.freed.insert(end, (e, clock));
            }
        }
        self.live.insert(offset, end);
        self.held.push(LiveBlock { offset, size, stream, uses: Vec::new() });
    }

    /// Frees a block on a stream; returns where it began and its size.
    pub fn free(&mut self, index: usize, stream: StreamIndex) -> (u64, u64) {
        let held = self.held.swap_remove(index);
        self.live.remove(&held.offset);
        let mut clock = Clock::new();
        for stream in held.uses.iter().copied().chain([held.stream, stream]) {
            clock.raise(Epoch { stream, seq: self.streams.submitted(stream) });
        }
        self.freed.insert(held.offset, (held.offset + held.size, clock));
        (held.offset, held.size)
    }

    /// True if free memory that `stream` may have, in one piece, holds `size` bytes at `align`.
    pub fn has_room(
        &self,
        stream: StreamIndex,
        size: u64,
        align: u64,
        source: &TestSource,
    ) -> bool {
        let mut usable = source.backed();
        let unusable = self.freed.iter().filter(|(_, (_, c))| !self.streams.may_use(stream, c));
        let removed =
            unusable.map(|(&s, &(e, _))| (s, e)).chain(self.live.iter().map(|(&s, &e)| (s, e)));
        for (s, e) in removed.collect::<Vec<_>>() {
            let overlapping: Vec<_> = usable
                .range(..e)
                .rev()
                .take_while(|(_, end)| **end > s)
                .map(|(a, b)| (*a, *b))
                .collect();
            for (a, b) in overlapping {
                usable.remove(&a);
                if a < s {
                    usable.insert(a, s);
                }
                if b > e {
                    usable.insert(e, b);
                }
            }
        }
        let mut start = None;
        let mut end = 0;
        for (&a, &b) in usable.iter().chain([(&u64::MAX, &u64::MAX)]) {
            if a != end
                && let Some(from) = start.replace(a)
                && u64::next_multiple_of(from, align) + size <= end
            {
                return true;
            }
            start.get_or_insert(a);
            end = b;
        }
        false
    }
}
