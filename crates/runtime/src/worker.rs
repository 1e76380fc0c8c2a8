//! The threads that run streams, and those for work that may block: the user's host functions, and exchanges with other
//! processes.
//!
//! Workers are few, never run user code and never wait for anybody. What may block has, while it is in progress, a thread of
//! its own, kept for a while for the next one.

use crate::event::Capture;
use crate::lock::{Condvar, Mutex, Rank};
use crate::parallel::Parallel;
use crate::stream::{Blocking, Stream};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{self, Arc, Weak, now_ns, thread};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// Priorities of streams, 0 first.
pub const PRIORITIES: usize = 8;

/// How often as long as usual a worker looks for work while somebody offers parts again and again: about a millisecond.
const LONG_SPINS: u32 = if sync::REAL_TIME { 40 } else { 1 };

/// Ready streams and the workers that take them. A submit to a running stream never reaches the scheduler;
/// one that makes a stream ready wakes a worker only if no awake one can take it.
pub struct Scheduler {
    queue: Mutex<RunQueue>,
    wake: Condvar,
    /// `length` of the queue, to read without its lock.
    ready: AtomicUsize,
    /// Workers that look for work without sleeping.
    spinning: AtomicUsize,
    /// Threads that keep a core busy.
    active: AtomicUsize,
    /// Tasks in progress that offer parts of one kernel after the other.
    sharing: AtomicUsize,
    stopping: AtomicBool,
    cores: usize,
    workers: AtomicUsize,
    /// `sleeping` of the queue, to read without its lock.
    sleeping_hint: AtomicUsize,
    parallel: Parallel,
}

/// Ready streams by priority, and timers.
#[derive(Default)]
struct RunQueue {
    ready: [VecDeque<Arc<Stream>>; PRIORITIES],
    /// How many streams are ready.
    length: usize,
    /// How many workers sleep.
    sleeping: usize,
    timers: BinaryHeap<Reverse<Timer>>,
}

struct Timer {
    at: u64,
    action: TimerAction,
}

/// What a timer does.
enum TimerAction {
    /// Lets the stream's wait `seq` for the capture time out.
    Wait { stream: Weak<Stream>, seq: u64, capture: Weak<Capture> },
    /// A short internal function, on whichever worker is free.
    Call(Box<dyn FnOnce() + Send>),
}

impl Timer {
    /// True if the wait has already ended.
    fn is_over(&self) -> bool {
        match &self.action {
            TimerAction::Wait { stream, seq, .. } => {
                stream.upgrade().is_none_or(|stream| stream.has_finished(*seq))
            }
            TimerAction::Call(_) => false,
        }
    }

    fn fire(self) {
        match self.action {
            TimerAction::Wait { stream, seq, capture } => {
                if let (Some(stream), Some(capture)) = (stream.upgrade(), capture.upgrade()) {
                    stream.wait_expired(seq, &capture);
                }
            }
            TimerAction::Call(call) => call(),
        }
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Timer) -> bool {
        self.at == other.at
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Timer) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    fn cmp(&self, other: &Timer) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl Default for Scheduler {
    fn default() -> Scheduler {
        Scheduler {
            queue: Mutex::new(Rank::RunQueue, RunQueue::default()),
            wake: Condvar::new(),
            ready: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            sharing: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            workers: AtomicUsize::new(0),
            sleeping_hint: AtomicUsize::new(0),
            parallel: Parallel::default(),
        }
    }
}

impl Scheduler {
    /// Starts the workers. They block every signal: a user's handler runs on the user's threads.
    pub fn start(self: &Arc<Scheduler>, workers: usize) -> std::io::Result<()> {
        for number in 0..workers {
            let scheduler = self.clone();
            spawn_worker(format!("cairn-worker-{number}"), move || scheduler.work())?;
            self.workers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Stops the workers once no stream is ready. For tests: a process keeps its workers.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        drop(self.queue.lock());
        self.wake.notify_all();
    }

    /// How many threads a kernel may spread over.
    pub fn threads(&self) -> usize {
        self.workers.load(Ordering::Relaxed).max(1)
    }

    /// Calls `body` once for each number below `parts`, on this thread and on workers that have nothing else
    /// to do. Returns when all are done.
    pub fn parallel_for(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        self.parallel.run(parts, self.threads() - 1, body, || {
            if self.sleeping_hint.load(Ordering::SeqCst) > 0
                && self.spinning.load(Ordering::Relaxed) == 0
            {
                // A worker that found no work and is about to sleep does so before this lock is free.
                drop(self.queue.lock());
                self.wake.notify_one();
            }
        });
    }

    /// Runs a task that offers parts of one kernel after the other ([`Scheduler::parallel_for`]): workers that helped look for the
    /// next ones longer than usual before they sleep.
    pub fn sharing<T>(&self, run: impl FnOnce() -> T) -> T {
        struct Ended<'a>(&'a AtomicUsize);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.sharing.fetch_add(1, Ordering::Relaxed);
        let _ended = Ended(&self.sharing);
        run()
    }

    /// Queues a stream that has just become ready.
    pub(crate) fn push(&self, stream: Arc<Stream>) {
        let mut queue = self.queue.lock();
        if stream.queued.swap(true, Ordering::Relaxed) {
            // It is still queued from before a waiting thread claimed it.
            drop(queue);
            return;
        }
        let priority = (stream.settings.priority() as usize).min(PRIORITIES - 1);
        queue.ready[priority].push_back(stream);
        queue.length += 1;
        self.ready.store(queue.length, Ordering::SeqCst);
        let wake = queue.sleeping > 0 && queue.length > self.spinning.load(Ordering::SeqCst);
        drop(queue);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Ends the stream's wait `seq` for the capture at this time.
    pub(crate) fn expire_wait_at(
        &self,
        deadline: u64,
        stream: Arc<Stream>,
        seq: u64,
        capture: Arc<Capture>,
    ) {
        let (stream, capture) = (Arc::downgrade(&stream), Arc::downgrade(&capture));
        self.add_timer(Timer { at: deadline, action: TimerAction::Wait { stream, seq, capture } });
    }

    /// Calls `call` on a worker at this time, or soon after when all are busy. It may neither block
    /// nor run user code.
    pub(crate) fn call_at(&self, at: u64, call: impl FnOnce() + Send + 'static) {
        self.add_timer(Timer { at, action: TimerAction::Call(Box::new(call)) });
    }

    /// Adds a timer; those whose waits have ended are removed before the heap grows.
    fn add_timer(&self, timer: Timer) {
        let old = {
            let mut queue = self.queue.lock();
            let is_full = queue.timers.len() == queue.timers.capacity();
            let old = if is_full { std::mem::take(&mut queue.timers) } else { BinaryHeap::new() };
            queue.timers.push(Reverse(timer));
            old
        };
        let remaining: Vec<_> = old.into_iter().filter(|t| !t.0.is_over()).collect();
        self.queue.lock().timers.extend(remaining);
        self.wake.notify_one();
    }

    /// True if a stream waits for a worker.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) > 0
    }

    /// Counts the calling thread as one that keeps a core busy while `run` runs.
    pub(crate) fn as_active<T>(&self, run: impl FnOnce() -> T) -> T {
        self.active.fetch_add(1, Ordering::Relaxed);
        let result = run();
        self.active.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Waits a short, bounded time for `ready` without sleeping; not at all when busy threads fill
    /// the cores. True if it became ready.
    pub(crate) fn spin(&self, ready: impl Fn() -> bool) -> bool {
        if self.active.fetch_add(1, Ordering::Relaxed) >= self.cores {
            self.active.fetch_sub(1, Ordering::Relaxed);
            return ready();
        }
        let mut is_ready = false;
        for round in 1..=sync::SPINS {
            if ready() {
                is_ready = true;
                break;
            }
            if round % 512 == 0 {
                thread::yield_now();
            }
            sync::spin_loop();
        }
        self.active.fetch_sub(1, Ordering::Relaxed);
        is_ready
    }

    /// What a worker does: runs ready streams.
    fn work(&self) {
        while let Some(stream) = self.next() {
            if stream.claim() {
                self.as_active(|| stream.run(None, Blocking::Parks));
            }
        }
    }

    /// The next ready stream; until there is one, the worker helps kernels, fires timers or sleeps. `None` when it stops.
    fn next(&self) -> Option<Arc<Stream>> {
        loop {
            if !self.has_ready() {
                self.spinning.fetch_add(1, Ordering::SeqCst);
                let has_work = || self.ready.load(Ordering::SeqCst) > 0 || self.parallel.has_work();
                let is_kept_awake = || self.sharing.load(Ordering::Relaxed) > 0;
                (0..LONG_SPINS).find(|_| self.spin(has_work) || !is_kept_awake());
                self.spinning.fetch_sub(1, Ordering::SeqCst);
            }
            if self.parallel.has_work() && self.as_active(|| self.parallel.help()) {
                continue;
            }
            let mut queue = self.queue.lock();
            loop {
                if let Some(timer) = queue.take_due() {
                    drop(queue);
                    timer.fire();
                    break;
                }
                if let Some(stream) = queue.pop() {
                    self.ready.store(queue.length, Ordering::SeqCst);
                    let watch_timers = queue.sleeping > 0 && !queue.timers.is_empty();
                    drop(queue);
                    if watch_timers {
                        self.wake.notify_one();
                    }
                    return Some(stream);
                }
                if self.stopping.load(Ordering::SeqCst) {
                    return None;
                }
                let sleep = queue.timers.peek().map(|t| t.0.at.saturating_sub(now_ns()));
                queue.sleeping += 1;
                self.sleeping_hint.store(queue.sleeping, Ordering::SeqCst);
                // A kernel either sees the hint, or has offered its parts before this check.
                if !self.parallel.has_work() {
                    match sleep {
                        None => self.wake.wait(&mut queue),
                        Some(ns) => {
                            self.wake.wait_for(&mut queue, Duration::from_nanos(ns.max(1000)));
                        }
                    }
                }
                queue.sleeping -= 1;
                self.sleeping_hint.store(queue.sleeping, Ordering::SeqCst);
                if self.parallel.has_work() {
                    break;
                }
            }
        }
    }
}

impl RunQueue {
    fn pop(&mut self) -> Option<Arc<Stream>> {
        let stream = self.ready.iter_mut().find_map(VecDeque::pop_front)?;
        self.length -= 1;
        stream.queued.store(false, Ordering::Relaxed);
        Some(stream)
    }

    /// Removes the first timer if its time has come.
    fn take_due(&mut self) -> Option<Timer> {
        let first = self.timers.peek()?.0.at;
        (!sync::REAL_TIME || first <= now_ns())
            .then(|| self.timers.pop().expect("there is a first timer").0)
    }
}

/// Threads for work that may block: one for each in progress, idle ones kept ten seconds.
pub struct BlockingThreads {
    work: BlockingWork,
    queue: Mutex<BlockingQueue>,
    wake: Condvar,
}

/// What runs on [`BlockingThreads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingWork {
    /// Functions of the user, with the stack and the signals that a thread of the user has.
    HostFunctions,
    /// Exchanges of the engine with other processes; signals are blocked.
    Exchanges,
}

/// Called with true on a thread of its own, or with false if none could be started.
type Job = Box<dyn FnOnce(bool) + Send>;

#[derive(Default)]
struct BlockingQueue {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
    threads: usize,
    stopping: bool,
}

impl BlockingThreads {
    /// Threads for one kind of work; none is started before it is needed.
    pub fn new(work: BlockingWork) -> Arc<BlockingThreads> {
        Arc::new(BlockingThreads {
            work,
            queue: Mutex::new(Rank::BlockingThreads, BlockingQueue::default()),
            wake: Condvar::new(),
        })
    }

    /// Runs `job` on a thread of its own. If none can be started, the job waits for an existing one; if there is
    /// none, it is called with `false` at once.
    pub(crate) fn run(self: &Arc<BlockingThreads>, job: impl FnOnce(bool) + Send + 'static) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(Box::new(job));
        if queue.jobs.len() <= queue.idle {
            drop(queue);
            self.wake.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let threads = self.clone();
        let started = match self.work {
            BlockingWork::HostFunctions => {
                spawn_for_user("cairn-host-func".into(), move || threads.serve())
            }
            BlockingWork::Exchanges => {
                spawn_worker("cairn-exchange".into(), move || threads.serve())
            }
        };
        if let Err(error) = started {
            log::error!("no thread for {:?}: {error}", self.work);
            let mut queue = self.queue.lock();
            queue.threads -= 1;
            let failed_job = if queue.threads == 0 { queue.jobs.pop_back() } else { None };
            drop(queue);
            if let Some(job) = failed_job {
                job(false);
            }
        }
    }

    /// Lets idle threads end. For tests.
    pub fn stop(&self) {
        self.queue.lock().stopping = true;
        self.wake.notify_all();
    }

    /// What such a thread does: runs jobs until it has been idle for ten seconds.
    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job(true);
                queue = self.queue.lock();
                continue;
            }
            if queue.stopping {
                queue.threads -= 1;
                return;
            }
            queue.idle += 1;
            let in_time = self.wake.wait_for(&mut queue, Duration::from_secs(10));
            queue.idle -= 1;
            if !in_time && queue.jobs.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}

/// Starts a worker: it blocks signals, which belong to the user's threads.
#[cfg(not(feature = "shuttle"))]
fn spawn_worker(name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let run = move || {
        crate::memory::writers::takes_faults();
        body();
    };
    crate::signals::with_blocked_signals(|| thread::Builder::new().name(name).spawn(run).map(drop))
}

/// Starts a thread that needs little stack and blocks signals.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn spawn_helper(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let builder = thread::Builder::new().name(name.into()).stack_size(256 << 10);
    crate::signals::with_blocked_signals(|| builder.spawn(body).map(drop))
}

/// Starts a thread for host functions: with the stack and the signals that a user thread has.
#[cfg(not(feature = "shuttle"))]
fn spawn_for_user(name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    let stack = limit.unwrap_or(8 << 20).clamp(2 << 20, 1 << 30) as usize;
    let run = move || {
        crate::signals::allow_all();
        body();
    };
    thread::Builder::new().name(name).stack_size(stack).spawn(run).map(drop)
}

#[cfg(feature = "shuttle")]
use spawn_worker as spawn_for_user;

#[cfg(feature = "shuttle")]
pub(crate) fn spawn_helper(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    spawn_worker(name.into(), body)
}

#[cfg(feature = "shuttle")]
fn spawn_worker(_name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    drop(thread::spawn(body));
    Ok(())
}
