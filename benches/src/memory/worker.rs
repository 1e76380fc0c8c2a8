//! A second thread that works beside the first, started together with it each time.

use super::churn::Work;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Timed runs in one slice (one turn of a candidate, see [`super::interleave`]): the two threads are awake and side by side only once they have met.
pub const RUNS: usize = 8;

/// Nanoseconds per operation of each run.
pub type Times = [f64; RUNS];

/// What the worker does.
pub type Job = Box<dyn FnMut(&SpinBarrier) -> Times + Send>;

/// Where the two meet, by spinning: a wake-up costs as much as a whole run.
pub struct SpinBarrier {
    created: Instant,
    arrived: AtomicUsize,
    starts: AtomicUsize,
    start: AtomicU64,
    finished: AtomicUsize,
}

impl SpinBarrier {
    fn new() -> SpinBarrier {
        let zero = || AtomicUsize::new(0);
        let (arrived, starts, finished) = (zero(), zero(), zero());
        SpinBarrier { created: Instant::now(), arrived, starts, start: AtomicU64::new(0), finished }
    }

    /// Waits for the other. The result is when the later one came, for both: whoever loses its core
    /// right after has that in its time, so a run in which the two did not run side by side is
    /// never the best.
    pub fn begin(&self) -> Instant {
        let previous = self.arrived.fetch_add(1, Ordering::AcqRel);
        if previous % 2 == 1 {
            self.start.store(self.created.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.starts.fetch_add(1, Ordering::AcqRel);
        }
        wait(|| self.starts.load(Ordering::Acquire) > previous / 2);
        self.created + Duration::from_nanos(self.start.load(Ordering::Relaxed))
    }

    /// Times runs of `count` operations, and goes on after each until the other has done its own, so
    /// that neither ever measures an idle neighbour.
    pub fn timed(&self, work: &mut impl Work, count: usize) -> Times {
        work.run(count / 4);
        std::array::from_fn(|_| {
            let start = self.begin();
            work.run(count);
            let time = start.elapsed().as_nanos() as f64 / count as f64;
            let previous = self.finished.fetch_add(1, Ordering::AcqRel);
            while self.finished.load(Ordering::Acquire) < (previous & !1) + 2 {
                work.run(64);
            }
            time
        })
    }
}

/// Spins until `ready`, and lets others run after a while, should there be one core only.
pub fn wait(ready: impl Fn() -> bool) {
    let mut turns = 0u32;
    while !ready() {
        turns += 1;
        if turns.is_multiple_of(1 << 18) {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// The second thread. Jobs travel to it and back, so that whoever owns a job keeps its state.
pub struct Worker {
    jobs: Option<Sender<Job>>,
    results: Receiver<(Job, Times)>,
    thread: Option<JoinHandle<()>>,
    barrier: Arc<SpinBarrier>,
}

impl Worker {
    /// Starts the thread.
    pub fn start() -> Worker {
        let (jobs, incoming_jobs) = bounded::<Job>(1);
        let (send_result, results) = bounded(1);
        let barrier = Arc::new(SpinBarrier::new());
        let shared = barrier.clone();
        let thread = std::thread::spawn(move || {
            for mut job in incoming_jobs {
                let times = job(&shared);
                let _ = send_result.send((job, times));
            }
        });
        Worker { jobs: Some(jobs), results, thread: Some(thread), barrier }
    }

    /// Runs both sides; the result is the best run, each as slow as its slower side.
    pub fn run_both(
        &self,
        worker_job: &mut Option<Job>,
        own_job: impl FnOnce(&SpinBarrier) -> Times,
    ) -> f64 {
        let job = worker_job.take().expect("a job comes back from every run");
        self.jobs
            .as_ref()
            .expect("the channel is open until drop")
            .send(job)
            .expect("the worker is alive");
        let own_times = own_job(&self.barrier);
        let (job, their_times) = self.results.recv().expect("the worker is alive");
        *worker_job = Some(job);
        own_times.into_iter().zip(their_times).map(|(a, b)| a.max(b)).fold(f64::MAX, f64::min)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
