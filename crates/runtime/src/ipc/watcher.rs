//! The thread that watches for what other processes do.

use crate::error::{Code, Error, Result};
use crate::event::Capture;
use crate::lock::{Condvar, Mutex, Rank};
use crate::sync::{Arc, Weak};
use crate::worker::spawn_helper;
use std::time::{Duration, Instant};

/// The longest pause between two looks.
const LONGEST: Duration = Duration::from_millis(1);
/// The shortest.
const SHORTEST: Duration = Duration::from_micros(20);
/// How often it is asked whether other processes are alive.
const LIVENESS: Duration = Duration::from_millis(20);

/// Something that another process, or another stream, does.
pub trait Signal: Send + Sync {
    /// True once it has happened, or cannot happen any more. With `asks_process` it finds out whether the other process is
    /// alive, which costs a system call.
    fn poll(&self, asks_process: bool) -> bool;
}

/// Captures that are complete when something happens in another process. One thread for all of them, which ends when there
/// are none.
#[derive(Default)]
pub struct Watcher {
    state: State,
    changed: Condvar,
}

struct State(Mutex<Watched>);

#[derive(Default)]
struct Watched {
    entries: Vec<(Weak<Capture>, Arc<dyn Signal>)>,
    is_running: bool,
    is_poked: bool,
}

impl Default for State {
    fn default() -> State {
        State(Mutex::new(Rank::Watch, Watched::default()))
    }
}

impl Watcher {
    /// Completes the capture when the signal has come; forgets it when nobody waits for it any more. If no thread can be
    /// had the capture is complete at once, as nobody may wait for ever, and this fails: the wait must, too.
    pub fn watch(
        self: &Arc<Watcher>,
        capture: &Arc<Capture>,
        signal: Arc<dyn Signal>,
    ) -> Result<()> {
        if signal.poll(false) {
            capture.complete();
            return Ok(());
        }
        let mut watched = self.state.0.lock();
        watched.entries.push((Arc::downgrade(capture), signal));
        if !std::mem::replace(&mut watched.is_running, true) {
            let watcher = self.clone();
            let started = spawn_helper("cairn-watch", move || watcher.run());
            if let Err(error) = started {
                watched.is_running = false;
                watched.entries.clear();
                drop(watched);
                capture.complete();
                return Err(Error::new(
                    Code::MemoryAllocation,
                    format!(
                        "no thread can be had to watch for other processes: {error}; is `ulimit -u` or `ulimit -v` reached?"
                    ),
                ));
            }
        }
        drop(watched);
        self.poke();
        Ok(())
    }

    /// Something happened in this process that a signal may be about.
    pub fn poke(&self) {
        let mut watched = self.state.0.lock();
        watched.is_poked = true;
        drop(watched);
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut pause = SHORTEST;
        let mut asked = Instant::now();
        loop {
            let asks_process = asked.elapsed() >= LIVENESS;
            if asks_process {
                asked = Instant::now();
            }
            let Some(done) = self.take_done(asks_process) else { return };
            pause = if done.is_empty() { (pause * 2).min(LONGEST) } else { SHORTEST };
            done.iter().for_each(|capture| capture.complete());
            let mut watched = self.state.0.lock();
            if !std::mem::take(&mut watched.is_poked) {
                self.changed.wait_for(&mut watched, pause);
                if std::mem::take(&mut watched.is_poked) {
                    pause = SHORTEST;
                }
            }
        }
    }

    /// The captures whose signals have come; `None` when there is nothing left to watch, and the thread ends.
    fn take_done(&self, asks_process: bool) -> Option<Vec<Arc<Capture>>> {
        let mut watched = self.state.0.lock();
        let mut done = Vec::new();
        watched.entries.retain(|(capture, signal)| match capture.upgrade() {
            None => false,
            Some(capture) if signal.poll(asks_process) => {
                done.push(capture);
                false
            }
            Some(_) => true,
        });
        if watched.entries.is_empty() && done.is_empty() {
            watched.is_running = false;
            return None;
        }
        Some(done)
    }
}
