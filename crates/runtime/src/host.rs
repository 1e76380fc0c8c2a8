//! What the runtime knows of a user thread: its current context, its `ordered` clock, how
//! many synchronizes it has begun and finished, and whether it is inside a callback.
//!
//! Thread-locals here have no destructors, because threads end after the library's statics at exit.
//! The record of a thread that ended is found again by [`HostThread::current`] of a later one.

use crate::clock::{Clock, Epoch};
use crate::lock::{Mutex, MutexGuard, Rank};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread_local;
use std::cell::Cell;

/// A count of synchronizes has this many bits; the bits above are the generation of the record, which changes when
/// another thread reuses it.
const COUNT_BITS: u32 = 40;

thread_local! {
    static CURRENT: Cell<Option<&'static HostThread>> = const { Cell::new(None) };
    static CONTEXT: Cell<usize> = const { Cell::new(0) };
    static IN_CALLBACK: Cell<u32> = const { Cell::new(0) };
    static HOST_FUNCTION_OF: Cell<u64> = const { Cell::new(0) };
    static TASK: Cell<Option<Epoch>> = const { Cell::new(None) };
}

/// Runs a task on this thread: what it touches of memory it sees as that task does ([`task`]).
pub fn in_task<T>(epoch: Epoch, run: impl FnOnce() -> T) -> T {
    struct Before(Option<Epoch>);
    impl Drop for Before {
        fn drop(&mut self) {
            TASK.with(|task| task.set(self.0));
        }
    }
    let _before = Before(TASK.with(|task| task.replace(Some(epoch))));
    run()
}

/// The task that this thread runs by [`in_task`].
pub fn task() -> Option<Epoch> {
    TASK.with(Cell::get)
}

/// A thread that calls the runtime. Lives as long as the process; reused after its thread ended.
pub struct HostThread {
    tid: AtomicU64,
    /// Changes whenever `ordered` does.
    version: AtomicU64,
    ordered: Mutex<Clock>,
    /// Synchronizes that it began, below its generation.
    begun: AtomicU64,
    /// The last of them that finished.
    done: AtomicU64,
    message: Mutex<Message>,
}

/// The error message of a thread.
#[derive(Default)]
pub struct Message {
    /// Not read yet.
    pub next: Option<String>,
    /// The text that was read last, as the reader got it; kept until the next read.
    pub read: Option<Box<[u8]>>,
}

/// Tells whether a thread has synchronized since some moment: see [`HostThread::ticket`].
#[derive(Clone, Copy)]
pub struct Ticket {
    thread: &'static HostThread,
    begun: u64,
}

impl Ticket {
    /// True once the thread has begun and finished a synchronize after the ticket was drawn.
    pub fn is_satisfied(&self) -> bool {
        let done = self.thread.done.load(Ordering::Acquire);
        done > self.begun && done >> COUNT_BITS == self.begun >> COUNT_BITS
    }
}

impl HostThread {
    /// The record of the calling thread.
    pub fn current() -> &'static HostThread {
        CURRENT.with(|cell| match cell.get() {
            Some(thread) => thread,
            None => {
                let thread = registry::take();
                cell.set(Some(thread));
                thread
            }
        })
    }

    fn new(tid: u64) -> HostThread {
        HostThread {
            tid: AtomicU64::new(tid),
            version: AtomicU64::new(1),
            ordered: Mutex::new(Rank::HostClock, Clock::new()),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            message: Mutex::new(Rank::HostClock, Message::default()),
        }
    }

    /// Resets the record for another thread; tickets of the last one stay unsatisfied.
    #[cfg_attr(feature = "shuttle", allow(dead_code))]
    fn renew(&self) {
        *self.ordered.lock() = Clock::new();
        *self.message.lock() = Message::default();
        self.version.fetch_add(1, Ordering::Release);
        let generation = (self.begun.load(Ordering::Acquire) >> COUNT_BITS) + 1;
        self.begun.store(generation << COUNT_BITS, Ordering::Release);
        self.done.store(generation << COUNT_BITS, Ordering::Release);
    }

    /// The kernel's thread id, for log lines.
    pub fn number(&self) -> u64 {
        self.tid.load(Ordering::Acquire)
    }

    /// The thread's error message.
    pub fn message(&self) -> MutexGuard<'_, Message> {
        self.message.lock()
    }

    /// Identifies this thread's clock and its version: equal if nothing was added meanwhile.
    pub fn clock_version(&self) -> (usize, u64) {
        (std::ptr::from_ref(self) as usize, self.version.load(Ordering::Acquire))
    }

    /// Adds what the thread is ordered after to `clock`.
    pub fn join_into(&self, clock: &mut Clock) {
        clock.join(&self.ordered.lock());
    }

    /// The thread is now ordered after all that `clock` knows.
    pub fn join_clock(&self, clock: &Clock) {
        self.ordered.lock().join(clock);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Runs a synchronize: counted as begun, and as finished if `wait` returns true, so did not time out.
    pub fn synchronize(&self, wait: impl FnOnce() -> bool) -> bool {
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let finished = wait();
        if finished {
            self.done.fetch_max(number, Ordering::AcqRel);
        }
        finished
    }

    /// A ticket that is satisfied by the thread's next synchronize.
    pub fn ticket(&'static self) -> Ticket {
        Ticket { thread: self, begun: self.begun.load(Ordering::Acquire) }
    }
}

/// The handle of the calling thread's current context; 0 when it has none.
pub fn context() -> usize {
    CONTEXT.with(Cell::get)
}

/// Makes a context current in the calling thread.
pub fn set_context(handle: usize) {
    CONTEXT.with(|c| c.set(handle));
}

/// Marks the calling thread as inside a user's allocator while `call` runs.
pub fn in_callback<T>(call: impl FnOnce() -> T) -> T {
    IN_CALLBACK.with(|c| c.set(c.get() + 1));
    let result = call();
    IN_CALLBACK.with(|c| c.set(c.get() - 1));
    result
}

/// True if the calling thread may run tasks of a stream it waits for.
pub fn may_help() -> bool {
    IN_CALLBACK.with(Cell::get) == 0
}

/// Marks the calling thread as running a host function of the stream with this key, in the stream's
/// context.
pub fn in_host_function<T>(stream: u64, context: usize, call: impl FnOnce() -> T) -> T {
    let outer = HOST_FUNCTION_OF.with(|c| c.replace(stream));
    set_context(context);
    let result = call();
    set_context(0);
    HOST_FUNCTION_OF.with(|c| c.set(outer));
    result
}

/// The key of the stream whose host function the calling thread runs; 0 for none.
pub fn host_function_of() -> u64 {
    HOST_FUNCTION_OF.with(Cell::get)
}

#[cfg(not(feature = "shuttle"))]
mod registry {
    use super::*;

    static THREADS: Mutex<Threads> =
        Mutex::new(Rank::HostClock, Threads { all: Vec::new(), free: Vec::new(), sweep_at: 64 });

    struct Threads {
        all: Vec<&'static HostThread>,
        free: Vec<&'static HostThread>,
        sweep_at: usize,
    }

    /// A record for a new thread: a new one, or that of a thread that ended. It has the new thread's id
    /// before the lock is released, so no other thread takes it for one that ended.
    pub fn take() -> &'static HostThread {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let mut threads = THREADS.lock();
        if threads.free.is_empty() && threads.all.len() >= threads.sweep_at {
            let ended = |t: &&HostThread| !is_alive(t.tid.load(Ordering::Acquire));
            threads.free = threads.all.iter().copied().filter(ended).collect();
            threads.sweep_at = (threads.all.len() - threads.free.len()) * 2 + 64;
        }
        let Some(thread) = threads.free.pop() else {
            let new: &'static HostThread = Box::leak(Box::new(HostThread::new(tid)));
            threads.all.push(new);
            return new;
        };
        thread.tid.store(tid, Ordering::Release);
        drop(threads);
        thread.renew();
        thread
    }

    /// True unless the kernel reports that the thread has ended.
    fn is_alive(tid: u64) -> bool {
        match std::fs::metadata(format!("/proc/self/task/{tid}")) {
            Ok(_) => true,
            Err(error) => {
                error.kind() != std::io::ErrorKind::NotFound
                    || !std::path::Path::new("/proc/self/task").exists()
            }
        }
    }
}

#[cfg(feature = "shuttle")]
mod registry {
    use super::*;

    pub fn take() -> &'static HostThread {
        Box::leak(Box::new(HostThread::new(0)))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_wants_a_synchronize_that_began_after_it() {
        let thread = HostThread::current();
        let mut drawn = None;
        thread.synchronize(|| {
            drawn = Some(thread.ticket());
            true
        });
        let ticket = drawn.unwrap();
        assert!(!ticket.is_satisfied(), "drawn inside a synchronize that had begun before");
        thread.synchronize(|| false);
        assert!(!ticket.is_satisfied(), "that one ran out of time");
        thread.synchronize(|| true);
        assert!(ticket.is_satisfied());
    }

    #[test]
    fn records_of_ended_threads_are_reused() {
        let mut records = std::collections::HashSet::new();
        for _ in 0..2000 {
            records.insert(
                std::thread::spawn(|| std::ptr::from_ref(HostThread::current()) as usize)
                    .join()
                    .unwrap(),
            );
        }
        assert!(records.len() < 500, "{} records for 2000 threads", records.len());
    }
}
