//! Whether to wait, when an allocation finds only freed memory that is still in a quarantine.

use crate::clock::Progress;
use crate::sync::{self, thread};
use std::time::{Duration, Instant};

/// Nothing was submitted and every stream was idle for this long, and no thread of the program is runnable: task queues
/// of the program (torch_npu has one) are empty.
const QUIET: Duration = Duration::from_millis(4);
/// The same while one is: it may be the one that empties such a queue, and get no core.
const STARVED: Duration = Duration::from_secs(1);
/// A user function has blocked all work for this long: waiting does not help.
const STALLED: Duration = Duration::from_secs(1);
/// After this long, what was in a queue of the program at a free has been submitted.
const LATE: Duration = Duration::from_secs(2);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// What the streams of the process are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressState {
    /// Tasks run: wait.
    Running,
    /// All is idle: freed memory may be reused on the weaker condition, and waiting does not help.
    Quiet,
    /// Tasks have run for so long, while no thread waited for any of them, that the weaker condition
    /// suffices: use it, and wait.
    Late,
    /// Tasks are queued, but none runs or finishes: a user function blocks them, and no
    /// thread waits for them. What no queued task touches may be reused.
    Blocked,
    /// Waiting does not help.
    Stalled,
}

/// Watches whether anything is submitted or finished anywhere.
pub struct ProgressMonitor<'a> {
    progress: &'a Progress,
    began: Instant,
    totals: (u64, u64),
    /// When `totals` changed last, or a task ran.
    changed: Instant,
}

impl<'a> ProgressMonitor<'a> {
    /// Begins now.
    pub fn new(progress: &'a Progress) -> ProgressMonitor<'a> {
        let now = Instant::now();
        ProgressMonitor { progress, began: now, totals: progress.totals(), changed: now }
    }

    /// Waits a moment and tells what streams are doing.
    pub fn wait_and_check(&mut self) -> ProgressState {
        if sync::REAL_TIME {
            thread::sleep(Duration::from_millis(1));
        } else {
            thread::yield_now();
        }
        let totals = self.progress.totals();
        if totals != self.totals || self.progress.is_running() {
            self.totals = totals;
            self.changed = Instant::now();
        }
        let (idle, unchanged) = (totals.0 == totals.1, self.changed.elapsed());
        if !sync::REAL_TIME {
            return if idle { ProgressState::Quiet } else { ProgressState::Running };
        }
        match self.began.elapsed() {
            _ if idle && unchanged >= STARVED => ProgressState::Quiet,
            _ if idle && unchanged >= QUIET && !others_are_runnable() => ProgressState::Quiet,
            _ if !idle && unchanged >= STALLED => ProgressState::Stalled,
            waited if waited >= LONGEST => ProgressState::Stalled,
            _ if self.progress.has_waiting_thread() => ProgressState::Running,
            _ if !idle && unchanged >= QUIET => ProgressState::Blocked,
            waited if waited >= LATE => ProgressState::Late,
            _ => ProgressState::Running,
        }
    }
}

/// Whether a thread other than this one and Cairn's own is running or runnable.
fn others_are_runnable() -> bool {
    let own_task = std::fs::read_link("/proc/thread-self").ok();
    let own_task = own_task.as_deref().and_then(std::path::Path::file_name);
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    tasks.flatten().filter(|task| Some(task.file_name().as_os_str()) != own_task).any(|task| {
        std::fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| is_runnable(&stat))
    })
}

/// Whether a thread is runnable and not Cairn's, by its line in `stat`: id, name in brackets, state.
fn is_runnable(stat: &str) -> bool {
    let name = stat.split_once('(').map_or("", |(_, rest)| rest);
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    state.starts_with(['R', 'D']) && !name.starts_with("cairn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_spins_is_runnable() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while !others_are_runnable() {
                std::thread::yield_now();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(is_runnable("7 (acl_thread) R 1 7"));
        assert!(is_runnable("7 (a) b) D 1 7"));
        assert!(!is_runnable("7 (acl_thread) S 1 7"));
        assert!(!is_runnable("7 (cairn-worker) R 1 7"));
    }
}
