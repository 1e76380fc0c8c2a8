//! The two ways a workload uses an allocator on one thread: one pair again and again, and random
//! replacement among many live blocks.

use super::candidate::Candidate;
use super::sequence::{Random, Shape, Step};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Work that can be done in any amount.
pub trait Work {
    /// Does `count` operations.
    fn run(&mut self, count: usize);
}

/// One turn of a candidate ([`super::interleave`]): times `count` operations, after a quarter as many that only warm the caches,
/// because other candidates ran since its last turn.
pub fn time_turn(work: &mut impl Work, count: usize) -> f64 {
    work.run(count / 4);
    let start = Instant::now();
    work.run(count);
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Allocates a block and frees it at once; an operation is one such pair.
pub struct Hot<C> {
    /// The allocator.
    pub candidate: C,
    /// How large.
    pub bytes: usize,
}

impl<C: Candidate> Work for Hot<C> {
    fn run(&mut self, count: usize) {
        for _ in 0..count {
            let bytes = black_box(self.bytes);
            let block = black_box(self.candidate.allocate(bytes, 0));
            self.candidate.free(block, bytes, 0);
        }
    }
}

/// Replaces live blocks on one stream; an operation is one free and one allocation.
pub struct Churn<C: Candidate> {
    candidate: Arc<C>,
    stream: usize,
    live: Vec<(C::Block, u32)>,
    steps: Arc<[Step]>,
    next: usize,
}

impl<C: Candidate> Churn<C> {
    /// Allocates the first blocks. `steps` must fit `shape`.
    pub fn new(candidate: Arc<C>, stream: usize, shape: Shape, steps: Arc<[Step]>) -> Churn<C> {
        let mut random = Random::new(7);
        let live = (0..shape.live)
            .map(|_| {
                let bytes = random.size(shape);
                (candidate.allocate(bytes as usize, stream), bytes)
            })
            .collect();
        Churn { candidate, stream, live, steps, next: 0 }
    }
}

impl<C: Candidate> Work for Churn<C> {
    fn run(&mut self, count: usize) {
        for _ in 0..count {
            let step = self.steps[self.next];
            self.next = if self.next + 1 == self.steps.len() { 0 } else { self.next + 1 };
            let (block, bytes) = self.live[step.slot as usize];
            self.candidate.free(block, bytes as usize, self.stream);
            let block = black_box(self.candidate.allocate(step.bytes as usize, self.stream));
            self.live[step.slot as usize] = (block, step.bytes);
        }
    }
}

impl<C: Candidate> Drop for Churn<C> {
    fn drop(&mut self) {
        for (block, bytes) in self.live.drain(..) {
            self.candidate.free(block, bytes as usize, self.stream);
        }
    }
}
