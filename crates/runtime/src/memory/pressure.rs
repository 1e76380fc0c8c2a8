//! What to do when an allocation finds only freed memory that still waits in a quarantine.

use crate::clock::Progress;
use crate::sync::{self, thread};
use std::time::{Duration, Instant};

/// Nothing submitted and every stream idle for this long, and no thread of the program wants to run: foreign
/// queues are empty.
const QUIET: Duration = Duration::from_millis(4);
/// The same while one does: it may be the one that empties such a queue, and get no core.
const STARVED: Duration = Duration::from_secs(1);
/// A user function has held all work up for this long: waiting does not help.
const STALLED: Duration = Duration::from_secs(1);
/// After this long, what waited in a foreign queue at a free has reached us.
const LATE: Duration = Duration::from_secs(2);
/// Nobody waits longer.
const LONGEST: Duration = Duration::from_secs(60);

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Work goes on: wait.
    Moving,
    /// All is idle: the weaker proof holds, and nothing more will come by waiting.
    Quiet,
    /// Work goes on, and has for so long, while no thread waited for any of it, that the weaker proof
    /// holds: use it, and wait.
    Late,
    /// Work is queued, but nothing runs and nothing moves: a user function holds it up, and no
    /// thread waits for it. What no queued task touches may go.
    Blocked,
    /// Waiting does not help.
    Stalled,
}

/// Watches whether anything is submitted or finished anywhere.
pub struct ProgressMonitor<'a> {
    progress: &'a Progress,
    began: Instant,
    totals: (u64, u64),
    since: Instant,
}

impl<'a> ProgressMonitor<'a> {
    /// Begins now.
    pub fn new(progress: &'a Progress) -> ProgressMonitor<'a> {
        let now = Instant::now();
        ProgressMonitor { progress, began: now, totals: progress.totals(), since: now }
    }

    /// Waits a moment and says how things stand.
    pub fn verdict(&mut self) -> Verdict {
        if sync::REAL_TIME {
            thread::sleep(Duration::from_millis(1));
        } else {
            thread::yield_now();
        }
        let totals = self.progress.totals();
        if totals != self.totals || self.progress.is_running() {
            self.totals = totals;
            self.since = Instant::now();
        }
        let (idle, still) = (totals.0 == totals.1, self.since.elapsed());
        if !sync::REAL_TIME {
            return if idle { Verdict::Quiet } else { Verdict::Moving };
        }
        match self.began.elapsed() {
            _ if idle && still >= STARVED => Verdict::Quiet,
            _ if idle && still >= QUIET && !others_want_to_run() => Verdict::Quiet,
            _ if !idle && still >= STALLED => Verdict::Stalled,
            waited if waited >= LONGEST => Verdict::Stalled,
            _ if self.progress.has_waiting_thread() => Verdict::Moving,
            _ if !idle && still >= QUIET => Verdict::Blocked,
            waited if waited >= LATE => Verdict::Late,
            _ => Verdict::Moving,
        }
    }
}

/// Whether a thread that is neither this one nor one of ours runs, or would if it had a core.
fn others_want_to_run() -> bool {
    let own = std::fs::read_link("/proc/thread-self").ok();
    let own = own.as_deref().and_then(std::path::Path::file_name);
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    tasks.flatten().filter(|task| Some(task.file_name().as_os_str()) != own).any(|task| {
        std::fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| wants_to_run(&stat))
    })
}

/// Reads a line of the kernel's about a thread: number, name in brackets, state.
fn wants_to_run(stat: &str) -> bool {
    let name = stat.split_once('(').map_or("", |(_, rest)| rest);
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    state.starts_with(['R', 'D']) && !name.starts_with("cairn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_spins_wants_to_run() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while !others_want_to_run() {
                std::thread::yield_now();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(wants_to_run("7 (acl_thread) R 1 7"));
        assert!(wants_to_run("7 (a) b) D 1 7"));
        assert!(!wants_to_run("7 (acl_thread) S 1 7"));
        assert!(!wants_to_run("7 (cairn-worker) R 1 7"));
    }
}
