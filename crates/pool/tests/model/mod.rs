//! The stream-ordered pool beside a naive model of it: no overlap, no use of freed memory before its
//! time, no growth while free memory that may be used fits, and all of it comes back.
//!
//! The tests of the pool and the fuzz target of the project share it.

mod reference;
mod source;
mod streams;

pub use source::TestSource;
pub use streams::Streams;

use cairn_pool::clock::StreamIndex;
use cairn_pool::{BlockError, GRANULE, Outcome, Pool};
use reference::Reference;
use std::sync::Arc;

/// How many streams there are.
pub const STREAMS: usize = 8;

/// A pool over a source of segments, with streams whose work ends on demand, and what must be true of it.
pub struct PoolModel {
    /// The streams.
    pub streams: Arc<Streams>,
    /// The pool.
    pub pool: Pool<Arc<Streams>, TestSource>,
    /// Requests that found nothing.
    pub waits: u64,
    reference: Reference,
}

/// What may happen. Numbers that choose a block count modulo the blocks there are.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Take this many bytes at an alignment for a stream.
    Allocate(u64, u64, usize),
    /// Give a block back; one in four on a stream that the second number chooses, else on its own.
    Free(usize, usize),
    /// Use a block on a stream too.
    Use(usize, usize),
    /// Give a stream work.
    Submit(usize),
    /// Let this many quarters of a stream's open work end, as far as what it waits for is done.
    Finish(usize, u64),
    /// The first stream waits for the second.
    Order(usize, usize),
    /// Give free memory back until so much is left.
    Trim(u64),
    /// Let all work end.
    FinishAll,
}

impl PoolModel {
    /// An empty pool with this budget.
    pub fn new(budget: u64) -> PoolModel {
        let streams = Arc::new(Streams::default());
        PoolModel {
            pool: Pool::new(streams.clone(), TestSource::default(), budget),
            reference: Reference::new(streams.clone()),
            streams,
            waits: 0,
        }
    }

    /// Does one thing, and panics if what came of it cannot be.
    pub fn step(&mut self, op: Op) {
        let held = self.reference.blocks();
        match op {
            Op::Allocate(bytes, align, stream) => self.allocate(bytes, align, stream as u32),
            Op::Free(which, on) if held > 0 => self.free(which % held, on),
            Op::Use(which, stream) if held > 0 => {
                let offset = self.reference.record_use(which % held, stream as StreamIndex);
                self.pool.record_use(offset, stream as StreamIndex).unwrap();
            }
            Op::Free(..) | Op::Use(..) => {}
            Op::Submit(stream) => self.streams.submit(stream),
            Op::Finish(stream, share) => self.streams.finish(stream, share),
            Op::Order(on, of) if on != of => self.streams.order(on, of),
            Op::Order(..) => {}
            Op::Trim(keep) => {
                self.pool.trim(keep);
            }
            Op::FinishAll => self.streams.finish_all(),
        }
    }

    /// The same, and looks at everything afterwards: also that the pool did not grow for nothing.
    pub fn step_closely(&mut self, op: Op) {
        match op {
            Op::Allocate(bytes, align, stream) if self.streams.is_idle() => {
                let size = bytes.max(1).next_multiple_of(GRANULE);
                let source = self.pool.source();
                let room = self.reference.has_room(stream as StreamIndex, size, align, source);
                let before = source.end();
                self.step(op);
                let grown = self.pool.source().end() > before;
                assert!(!(room && grown), "grew by {size} though there was room");
            }
            _ => self.step(op),
        }
        self.agree();
    }

    fn allocate(&mut self, bytes: u64, align: u64, stream: StreamIndex) {
        match self.pool.allocate(bytes, align, stream) {
            Outcome::Ready { offset, size } => {
                assert_eq!(size, bytes.max(1).next_multiple_of(GRANULE));
                assert!(offset.is_multiple_of(align));
                assert_eq!(self.pool.find(offset), Some((size, stream)));
                self.reference.take(offset, size, stream);
            }
            Outcome::Wait(clock) => {
                assert!(!clock.epochs().is_empty());
                self.waits += 1;
            }
            Outcome::OverBudget => self.waits += 1,
            Outcome::Exhausted(reason) => panic!("{reason}"),
        }
    }

    fn free(&mut self, which: usize, on: usize) {
        let on = match on % 4 {
            0 => (on / 4 % STREAMS) as StreamIndex,
            _ => self.reference.stream_of(which),
        };
        let (offset, size) = self.reference.free(which, on);
        assert_eq!(self.pool.free(offset, on), Ok(size));
        assert_eq!(self.pool.free(offset, on), Err(BlockError::NotLive));
        assert_eq!(self.pool.free(offset + 8, on), Err(BlockError::Unknown));
    }

    /// Compares figures.
    pub fn agree(&self) {
        let figures = self.pool.figures();
        assert_eq!(figures.live, self.reference.live());
        assert_eq!(figures.blocks, self.reference.blocks() as u64);
        assert_eq!(figures.taken - figures.freed, figures.blocks);
        assert_eq!(figures.reserved, self.pool.source().held());
        assert!(figures.reserved <= self.pool.budget());
        assert!(figures.peak >= figures.live && figures.peak_reserved >= figures.reserved);
        let of: Vec<_> = (0..STREAMS as u32).filter_map(|s| self.pool.figures_of(s)).collect();
        assert_eq!(of.iter().map(|f| f.live).sum::<u64>(), figures.live);
    }

    /// Gives everything back, lets all work end, and sees whether it is one piece again.
    pub fn end(mut self) {
        while self.reference.blocks() > 0 {
            self.step(Op::Free(0, 1));
        }
        self.streams.finish_all();
        self.agree();
        let figures = self.pool.figures();
        assert_eq!((figures.live, figures.requested, figures.waiting), (0, 0, 0));
        let reserved = figures.reserved;
        assert_eq!(self.pool.trim(0), reserved);
        assert_eq!(self.pool.figures().reserved, 0);
        assert_eq!(self.pool.source().held(), 0);
    }
}
