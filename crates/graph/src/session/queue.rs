//! Runs that were asked for without a stream: one after the other, on a thread of the engine.

use super::engine::{Engine, Session};
use super::output::SessionOutput;
use super::running::RunMode;
use super::variables::PendingRun;
use crate::executable::RunTensor;
use crate::failure::{Failure, Result};
use cairn_runtime::error::Error;
use cairn_runtime::lock::{Condvar, Mutex, Rank};
use cairn_runtime::record::site;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// One run with its callback.
type QueuedRun = Box<dyn FnOnce() + Send>;

thread_local! {
    static IS_QUEUE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one that runs queued graphs.
pub(super) fn is_queue_thread() -> bool {
    IS_QUEUE_THREAD.get()
}

/// The queue of an engine. Its thread is started by the first run and stays.
#[derive(Clone)]
pub(super) struct RunQueue(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    not_empty: Condvar,
    drained: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<QueuedRun>,
    /// Whether a thread runs them.
    has_thread: bool,
    /// How many were put in, and how many are finished.
    pushed: u64,
    finished: u64,
}

impl Default for RunQueue {
    fn default() -> RunQueue {
        let state = Mutex::new(Rank::Queue, State::default());
        RunQueue(Arc::new(Shared { state, not_empty: Condvar::new(), drained: Condvar::new() }))
    }
}

impl RunQueue {
    /// Puts a run after those that wait.
    fn push(&self, run: QueuedRun) -> Result<()> {
        let mut state = self.0.state.lock();
        if !state.has_thread {
            self.start()?;
            state.has_thread = true;
        }
        state.waiting.push_back(run);
        state.pushed += 1;
        drop(state);
        self.0.not_empty.notify_one();
        Ok(())
    }

    /// Waits until all that was pushed before is over, callbacks included; not on the queue's own thread.
    pub(super) fn drain(&self) {
        if is_queue_thread() {
            return;
        }
        let mut state = self.0.state.lock();
        let pushed = state.pushed;
        while state.finished < pushed && state.has_thread {
            self.0.drained.wait(&mut state);
        }
    }

    /// Counts a run as finished.
    fn finish_one(&self) {
        self.0.state.lock().finished += 1;
        self.0.drained.notify_all();
    }

    fn start(&self) -> Result<()> {
        let queue = self.clone();
        let serve = move || queue.serve();
        let started = std::thread::Builder::new().name("cairn-graphs".into()).spawn(serve);
        started.map(drop).map_err(|error| {
            Failure::failed(format!(
                "cannot start a thread for graphs: {error}; is `ulimit -u` reached?"
            ))
        })
    }

    /// Runs what is queued, forever.
    fn serve(&self) {
        IS_QUEUE_THREAD.set(true);
        loop {
            let run = {
                let mut state = self.0.state.lock();
                loop {
                    match state.waiting.pop_front() {
                        Some(run) => break run,
                        None => self.0.not_empty.wait(&mut state),
                    }
                }
            };
            let _ = catch_unwind(AssertUnwindSafe(run));
            self.finish_one();
        }
    }
}

impl Engine {
    /// Runs a graph on the engine's own thread, with tensors of the host, after the runs that were asked for before.
    /// Its events have the site of this call. `callback` gets the outputs or the
    /// failure there, once; it is not called when the process is exiting.
    pub fn run_async(
        &self,
        session: &Arc<Session>,
        id: u32,
        mode: RunMode,
        inputs: Vec<RunTensor>,
        callback: impl FnOnce(Result<Vec<SessionOutput>>) + Send + 'static,
    ) -> Result<()> {
        session.graph(id)?;
        let (session, pending, site) = (session.clone(), PendingRun::new(session), site::keep());
        self.queue.push(Box::new(move || {
            let run = || site::with_site(site, || session.run(id, mode, 0, &inputs, &[]));
            let results = catch_unwind(AssertUnwindSafe(run))
                .unwrap_or_else(|panic| Err(Error::internal(&*panic).into()));
            drop(pending);
            if !session.runtime.shared.exiting() {
                callback(results);
            }
        }))
    }

    /// The thread that calls this, the one of the queue, is lost: a callback ended it. Another one goes on.
    pub fn replace_queue_thread(&self) {
        log::error!(
            "the callback of RunGraphAsync ended its thread; another one runs the graphs after it"
        );
        let started = self.queue.start();
        self.queue.0.state.lock().has_thread = started.is_ok();
        self.queue.finish_one();
        if let Err(failure) = started {
            log::error!("{}; graphs that wait go on at the next RunGraphAsync", failure.text);
        }
    }
}
