//! One thread allocates, another frees: blocks are handed over through a ring buffer.

use super::candidate::{Candidate, Visit};
use super::interleave::Entry;
use super::sequence::{CHURN_1K, Random};
use super::worker::{Job, SpinBarrier, Times, Worker, wait};
use rtrb::{Consumer, Producer, RingBuffer};
use std::rc::Rc;
use std::sync::Arc;

/// Blocks in a run.
const COUNT: usize = 2 << 10;

/// Blocks on their way at the most.
const RING: usize = 1024;

/// The entries of all candidates. A run is over when the last block is freed.
pub struct Entries {
    /// One of each candidate.
    pub entries: Vec<Entry>,
    worker: Rc<Worker>,
    sizes: Arc<[u32]>,
    free_stream: usize,
}

impl Entries {
    /// Blocks are allocated and freed on one and the same stream.
    pub fn new(worker: Rc<Worker>) -> Entries {
        let mut random = Random::new(5);
        let sizes = (0..COUNT).map(|_| random.size(CHURN_1K)).collect();
        Entries { entries: Vec::new(), worker, sizes, free_stream: 0 }
    }

    /// Blocks are freed on another stream than they were allocated on.
    pub fn across_streams(worker: Rc<Worker>) -> Entries {
        Entries { free_stream: 1, ..Entries::new(worker) }
    }
}

impl Visit for Entries {
    fn visit<C: Candidate + 'static>(&mut self, name: &'static str, candidate: C) {
        let candidate = Arc::new(candidate);
        let (mut send, mut receive) = RingBuffer::new(RING);
        let (freeing_candidate, free_stream, mut entered) =
            (candidate.clone(), self.free_stream, false);
        let job: Job = Box::new(move |barrier: &SpinBarrier| {
            if !std::mem::replace(&mut entered, true) {
                freeing_candidate.enter();
            }
            time_runs(barrier, || free_all(&*freeing_candidate, &mut receive, free_stream))
        });
        let (worker, sizes, mut job) = (self.worker.clone(), self.sizes.clone(), Some(job));
        self.entries.push(Entry {
            name,
            slice: Box::new(move || {
                worker.run_both(&mut job, |barrier| {
                    time_runs(barrier, || allocate_all(&*candidate, &mut send, &sizes))
                })
            }),
        });
    }
}

fn time_runs(barrier: &SpinBarrier, mut work: impl FnMut()) -> Times {
    std::array::from_fn(|_| {
        let start = barrier.begin();
        work();
        start.elapsed().as_nanos() as f64 / COUNT as f64
    })
}

fn allocate_all<C: Candidate>(candidate: &C, send: &mut Producer<(C::Block, u32)>, sizes: &[u32]) {
    for &bytes in sizes {
        let block = candidate.allocate(bytes as usize, 0);
        wait(|| send.slots() > 0);
        assert!(send.push((block, bytes)).is_ok(), "the ring has room");
    }
}

fn free_all<C: Candidate>(candidate: &C, receive: &mut Consumer<(C::Block, u32)>, stream: usize) {
    for _ in 0..COUNT {
        wait(|| receive.slots() > 0);
        let (block, bytes) = receive.pop().expect("the ring holds a block");
        candidate.free(block, bytes as usize, stream);
    }
}
