//! The thread that runs graphs which were asked for without a stream, one behind the other.

use cairn_graph::{Failure, Result};
use cairn_runtime::lock::{Condvar, Mutex, Rank};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One run.
pub type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is the one that runs them.
pub fn is_here() -> bool {
    IS_HERE.get()
}

struct Queue {
    state: Mutex<State>,
    grown: Condvar,
    drained: Condvar,
}

struct State {
    waiting: VecDeque<Work>,
    is_served: bool,
    /// How many were put in, and how many are over.
    pushed: u64,
    over: u64,
}

static QUEUE: Queue = Queue {
    state: Mutex::new(
        Rank::Queue,
        State { waiting: VecDeque::new(), is_served: false, pushed: 0, over: 0 },
    ),
    grown: Condvar::new(),
    drained: Condvar::new(),
};

/// Puts a run behind those that wait. The thread is started at the first one.
pub fn push(work: Work) -> Result<()> {
    let mut state = QUEUE.state.lock();
    if !state.is_served {
        start()?;
        state.is_served = true;
    }
    state.waiting.push_back(work);
    state.pushed += 1;
    drop(state);
    QUEUE.grown.notify_one();
    Ok(())
}

/// Waits until all that was pushed before is over, callbacks included; not on the queue's own thread, and not when the
/// process ends.
pub fn drain() {
    if is_here() || crate::process::ends() {
        return;
    }
    let mut state = QUEUE.state.lock();
    let before = state.pushed;
    while state.over < before && state.is_served {
        QUEUE.drained.wait(&mut state);
    }
}

fn end_one() {
    QUEUE.state.lock().over += 1;
    QUEUE.drained.notify_all();
}

/// The thread that calls this, the one of the queue, is lost: a callback ended it. Another one goes on.
pub fn replace() {
    log::error!(
        "the callback of RunGraphAsync ended its thread; another one runs the graphs behind it"
    );
    let started = start();
    QUEUE.state.lock().is_served = started.is_ok();
    end_one();
    if let Err(failure) = started {
        log::error!("{}; graphs that wait go on at the next RunGraphAsync", failure.text);
    }
}

fn start() -> Result<()> {
    let started = std::thread::Builder::new().name("cairn-graphs".into()).spawn(serve);
    started.map(drop).map_err(|error| {
        Failure::failed(format!(
            "cannot start a thread for graphs: {error}; is `ulimit -u` reached?"
        ))
    })
}

fn serve() {
    IS_HERE.set(true);
    loop {
        let work = {
            let mut state = QUEUE.state.lock();
            loop {
                match state.waiting.pop_front() {
                    Some(work) => break work,
                    None => QUEUE.grown.wait(&mut state),
                }
            }
        };
        let _ = catch_unwind(AssertUnwindSafe(work));
        end_one();
    }
}
