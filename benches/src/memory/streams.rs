//! Workloads that only a pool with streams can run: a use recorded on a second stream, and blocks
//! that are freed on another stream than they were taken for.

use super::candidate::{Candidate, StreamOrdered, Visit};
use super::churn::{Work, time_turn};
use super::handed;
use super::interleave::{self, Entry, MinimumLength};
use super::pool::CairnPool;
use super::worker::Worker;
use crate::measure::Figure;
use serde_json::{Value, json};
use std::hint::black_box;
use std::rc::Rc;

/// How far the second stream is behind in the busy workload, in tasks.
const BEHIND: u64 = 32;

const BYTES: usize = 64 << 10;

/// What streams cost, in nanoseconds.
pub struct Streams {
    /// What a recorded use adds to a pair while all streams are idle.
    pub recorded: f64,
    /// What it adds while the second stream is [`BEHIND`] tasks behind.
    pub recorded_busy: f64,
    /// A block taken for one stream, handed to another thread and freed there on another stream.
    pub handed: Figure,
}

impl Streams {
    /// Measures our pool.
    pub fn measure(worker: Rc<Worker>, single: MinimumLength, paired: MinimumLength) -> Streams {
        let figures = interleave::run(
            vec![
                pair("idle", 0, false),
                pair("idle+", 0, true),
                pair("busy", BEHIND, false),
                pair("busy+", BEHIND, true),
            ],
            single,
        );
        let added = |plain: usize| figures[plain + 1].1.best - figures[plain].1.best;
        let mut entries = handed::Entries::across_streams(worker);
        entries.visit("pool", CairnPool::new());
        let handed = interleave::run(entries.entries, paired)[0].1;
        Streams { recorded: added(0), recorded_busy: added(2), handed }
    }

    /// For the file of figures.
    pub fn json(&self) -> Value {
        json!({
            "record_use_adds_ns": self.recorded, "record_use_adds_busy_ns": self.recorded_busy,
            "handed_to_another_stream_ns": self.handed.best,
        })
    }
}

fn pair(name: &'static str, lag: u64, record: bool) -> Entry {
    let pool = CairnPool::new();
    pool.streams.lag(lag);
    let mut work = RecordedUse { pool, record };
    Entry { name, slice: Box::new(move || time_turn(&mut work, 2000)) }
}

/// A pair on one stream with, or without, a use on the other, which gets a task each time.
struct RecordedUse {
    pool: CairnPool,
    record: bool,
}

impl Work for RecordedUse {
    fn run(&mut self, count: usize) {
        for _ in 0..count {
            let block = black_box(self.pool.allocate(black_box(BYTES), 0));
            self.pool.streams.submit(1);
            if self.record {
                self.pool.record_use(block, 1);
            }
            self.pool.free(block, BYTES, 0);
        }
    }
}
