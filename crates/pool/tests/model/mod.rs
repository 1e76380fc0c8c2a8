//! The stream-ordered pool beside a naive model of it: no overlap, no reuse of freed memory while a stream
//! may still use it, no growth while free memory that may be used fits, and all memory is given back at the end.
//!
//! The tests of the pool and the fuzz target share it.

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

/// A pool over a source of segments, with streams whose tasks finish on demand, and a reference to check it against.
pub struct PoolModel {
    /// The streams.
    pub streams: Arc<Streams>,
    /// The pool.
    pub pool: Pool<Arc<Streams>, TestSource>,
    /// Requests that found nothing.
    pub failed_requests: u64,
    reference: Reference,
}

/// One step of a test. A number that chooses a block is taken modulo the number of blocks held.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Take this many bytes at an alignment for a stream.
    Allocate(u64, u64, usize),
    /// Free a block; if the second number is a multiple of 4, on a stream that it chooses, else on the block's own.
    Free(usize, usize),
    /// Use the block that the first number chooses on this stream too.
    Use(usize, usize),
    /// Submit a task to a stream.
    Submit(usize),
    /// Let this many quarters of a stream's unfinished tasks finish, up to the first that waits for another stream.
    Finish(usize, u64),
    /// Let the first stream wait for the second.
    Order(usize, usize),
    /// Give free memory back until so much is left.
    Trim(u64),
    /// Let all tasks finish.
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
            failed_requests: 0,
        }
    }

    /// Does one step, and panics if the result is wrong.
    pub fn step(&mut self, op: Op) {
        let held = self.reference.blocks();
        match op {
            Op::Allocate(bytes, align, stream) => self.allocate(bytes, align, stream as u32),
            Op::Free(block, choice) if held > 0 => self.free(block % held, choice),
            Op::Use(block, stream) if held > 0 => {
                let offset = self.reference.record_use(block % held, stream as StreamIndex);
                self.pool.record_use(offset, stream as StreamIndex).unwrap();
            }
            Op::Free(..) | Op::Use(..) => {}
            Op::Submit(stream) => self.streams.submit(stream),
            Op::Finish(stream, quarters) => self.streams.finish(stream, quarters),
            Op::Order(waiter, awaited) if waiter != awaited => {
                self.streams.order(waiter, awaited);
            }
            Op::Order(..) => {}
            Op::Trim(keep) => {
                self.pool.trim(keep);
            }
            Op::FinishAll => self.streams.finish_all(),
        }
    }

    /// The same, and then checks the figures, and that the pool did not grow while it had room.
    pub fn step_and_check(&mut self, op: Op) {
        match op {
            Op::Allocate(bytes, align, stream) if self.streams.is_idle() => {
                let size = bytes.max(1).next_multiple_of(GRANULE);
                let source = self.pool.source();
                let had_room = self.reference.has_room(stream as StreamIndex, size, align, source);
                let before = source.end();
                self.step(op);
                let grown = self.pool.source().end() > before;
                assert!(!(had_room && grown), "grew by {size} though there was room");
            }
            _ => self.step(op),
        }
        self.check_figures();
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
                self.failed_requests += 1;
            }
            Outcome::OverBudget => self.failed_requests += 1,
            Outcome::Exhausted(reason) => panic!("{reason}"),
        }
    }

    fn free(&mut self, block: usize, choice: usize) {
        let stream = match choice % 4 {
            0 => (choice / 4 % STREAMS) as StreamIndex,
            _ => self.reference.stream_of(block),
        };
        let (offset, size) = self.reference.free(block, stream);
        assert_eq!(self.pool.free(offset, stream), Ok(size));
        assert_eq!(self.pool.free(offset, stream), Err(BlockError::NotLive));
        assert_eq!(self.pool.free(offset + 8, stream), Err(BlockError::Unknown));
    }

    /// Checks the figures of the pool against the reference.
    pub fn check_figures(&self) {
        let figures = self.pool.figures();
        assert_eq!(figures.live, self.reference.live());
        assert_eq!(figures.blocks, self.reference.blocks() as u64);
        assert_eq!(figures.taken - figures.freed, figures.blocks);
        assert_eq!(figures.reserved, self.pool.source().backed_bytes());
        assert!(figures.reserved <= self.pool.budget());
        assert!(figures.peak >= figures.live && figures.peak_reserved >= figures.reserved);
        let by_stream: Vec<_> =
            (0..STREAMS as u32).filter_map(|s| self.pool.figures_of(s)).collect();
        assert_eq!(by_stream.iter().map(|f| f.live).sum::<u64>(), figures.live);
    }

    /// Frees every block, lets all tasks finish, and checks that all memory can be given back to the source.
    pub fn end(mut self) {
        while self.reference.blocks() > 0 {
            self.step(Op::Free(0, 1));
        }
        self.streams.finish_all();
        self.check_figures();
        let figures = self.pool.figures();
        assert_eq!((figures.live, figures.requested, figures.waiting), (0, 0, 0));
        let reserved = figures.reserved;
        assert_eq!(self.pool.trim(0), reserved);
        assert_eq!(self.pool.figures().reserved, 0);
        assert_eq!(self.pool.source().backed_bytes(), 0);
    }
}
