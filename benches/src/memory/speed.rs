//! The workloads: which operations, on how many threads, for how long.

use super::available::AvailablePeers;
use super::candidate::{Candidate, Visit};
use super::churn::{Churn, Hot, time_turn};
use super::handed;
use super::interleave::{self, Entry, MinimumLength};
use super::sequence::{CHURN_1K, CHURN_64L, Shape, Step, replacements};
use super::table::{Table, bytes as size_text};
use super::worker::{Job, SpinBarrier, Worker};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Steps of a sequence before it starts over.
const STEPS: usize = 16 << 10;

/// Sizes of the hot pairs.
pub const HOT: [usize; 5] = [512, 4 << 10, 64 << 10, 1 << 20, 32 << 20];

/// The columns beside the hot pairs.
pub mod column {
    pub const CHURN_1K: &str = "churn1k";
    pub const CHURN_64L: &str = "churn64L";
    pub const ONE_THREAD: &str = "1 thread";
    pub const TWO_THREADS: &str = "2 threads";
    pub const HANDED: &str = "handed over";
}

/// How long each workload of one thread goes on.
pub const LENGTH: MinimumLength = MinimumLength { rounds: 24, time: Duration::from_secs(4) };

/// How long each workload of two threads goes on: they must find both cores free.
pub const PAIRED: MinimumLength = MinimumLength { rounds: 40, time: Duration::from_secs(8) };

/// Runs every workload; the table fills column by column.
pub fn run(available: &AvailablePeers, worker: &Rc<Worker>, table: &mut Table) {
    for bytes in HOT {
        let count = if bytes < 1 << 20 { 2000 } else { 500 };
        let mut hot = HotPairs { entries: Vec::new(), bytes, count };
        available.each_and_floor(&mut hot);
        table.add(&size_text(bytes), interleave::run(hot.entries, LENGTH));
    }
    for (name, shape) in [(column::CHURN_1K, CHURN_1K), (column::CHURN_64L, CHURN_64L)] {
        let steps = replacements(shape, STEPS, 1).into();
        let mut churns = Churns { entries: Vec::new(), shape, steps };
        available.each_and_floor(&mut churns);
        table.add(name, interleave::run(churns.entries, LENGTH));
    }
    let steps = [1, 2].map(|seed| replacements(CHURN_1K, STEPS, seed).into());
    let mut pairs =
        Pairs { one_thread: Vec::new(), two_threads: Vec::new(), worker: worker.clone(), steps };
    available.each_and_floor(&mut pairs);
    let one_thread = pairs.one_thread.len();
    pairs.one_thread.extend(pairs.two_threads);
    let mut figures = interleave::run(pairs.one_thread, PAIRED);
    let two_threads = figures.split_off(one_thread);
    table.add(column::ONE_THREAD, figures);
    table.add(column::TWO_THREADS, two_threads);

    let mut handed = handed::Entries::new(worker.clone());
    available.each(&mut handed);
    table.add(column::HANDED, interleave::run(handed.entries, PAIRED));
}

struct HotPairs {
    entries: Vec<Entry>,
    bytes: usize,
    count: usize,
}

impl Visit for HotPairs {
    fn visit<C: Candidate + 'static>(&mut self, name: &'static str, candidate: C) {
        let (mut hot, count) = (Hot { candidate, bytes: self.bytes }, self.count);
        self.entries.push(Entry { name, slice: Box::new(move || time_turn(&mut hot, count)) });
    }
}

struct Churns {
    entries: Vec<Entry>,
    shape: Shape,
    steps: Arc<[Step]>,
}

impl Visit for Churns {
    fn visit<C: Candidate + 'static>(&mut self, name: &'static str, candidate: C) {
        let mut churn = Churn::new(Arc::new(candidate), 0, self.shape, self.steps.clone());
        let count = 4096;
        self.entries.push(Entry { name, slice: Box::new(move || time_turn(&mut churn, count)) });
    }
}

/// Each thread churns on a stream of its own; both entries of a candidate, one thread and two, share
/// its state, so that they differ in nothing else.
struct Pairs {
    one_thread: Vec<Entry>,
    two_threads: Vec<Entry>,
    worker: Rc<Worker>,
    steps: [Arc<[Step]>; 2],
}

impl Visit for Pairs {
    fn visit<C: Candidate + 'static>(&mut self, name: &'static str, candidate: C) {
        const COUNT: usize = 2048;
        let candidate = Arc::new(candidate);
        let [first_steps, second_steps] = self.steps.clone();
        let first = Rc::new(RefCell::new(Churn::new(candidate.clone(), 0, CHURN_1K, first_steps)));
        let single = first.clone();
        self.one_thread.push(Entry {
            name,
            slice: Box::new(move || time_turn(&mut *single.borrow_mut(), COUNT)),
        });

        let mut churn = None;
        let second_job: Job = Box::new(move |barrier: &SpinBarrier| {
            let churn = churn.get_or_insert_with(|| {
                candidate.enter();
                Churn::new(candidate.clone(), 1, CHURN_1K, second_steps.clone())
            });
            barrier.timed(churn, COUNT)
        });
        let (worker, mut second_job) = (self.worker.clone(), Some(second_job));
        self.two_threads.push(Entry {
            name,
            slice: Box::new(move || {
                worker.run_both(&mut second_job, |barrier| {
                    barrier.timed(&mut *first.borrow_mut(), COUNT)
                })
            }),
        });
    }
}
