//! The thread that watches for what other processes do.

use crate::error::{Code, Error, Result};
use crate::event::Capture;
use crate::lock::{Condvar, Mutex, Rank};
use crate::sync::{Arc, Weak};
use crate::worker::spawn_helper;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

    /// Nobody watches for it any more: whoever waits for it ends with this error.
    fn fail(&self, error: Error);
}

/// Captures that are complete when something happens in another process. One thread for all of them, which ends when there
/// are none.
///
/// **Locks.** Signals and captures are asked, completed and dropped without the lock: they may end what takes others.
#[derive(Default)]
pub struct Watcher {
    state: State,
    changed: Condvar,
}

struct State(Mutex<Watched>);

/// A capture, and what completes it.
struct Entry {
    capture: Weak<Capture>,
    signal: Arc<dyn Signal>,
}

#[derive(Default)]
struct Watched {
    /// What the thread has not taken yet.
    added: Vec<Entry>,
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
        watched.added.push(Entry { capture: Arc::downgrade(capture), signal });
        if !std::mem::replace(&mut watched.is_running, true) {
            let watcher = self.clone();
            let started = spawn_helper("cairn-watch", move || watcher.run());
            if let Err(error) = started {
                watched.is_running = false;
                let unwatched = std::mem::take(&mut watched.added);
                drop(watched);
                drop(unwatched);
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

    /// The thread. A panic ends no watch: what it was about is asked again.
    fn run(&self) {
        let mut entries = Vec::new();
        while catch_unwind(AssertUnwindSafe(|| self.watch_all(&mut entries))).is_err() {
            log::error!("internal error (please report): the thread that watches panicked");
        }
    }

    fn watch_all(&self, entries: &mut Vec<Entry>) {
        let mut pause = SHORTEST;
        let mut asked = Instant::now();
        while self.take_added(entries) {
            let asks_process = asked.elapsed() >= LIVENESS;
            if asks_process {
                asked = Instant::now();
            }
            let before = entries.len();
            entries.retain(|entry| !entry.ends(asks_process));
            pause = if entries.len() == before { (pause * 2).min(LONGEST) } else { SHORTEST };
            let mut watched = self.state.0.lock();
            if !std::mem::take(&mut watched.is_poked) {
                self.changed.wait_for(&mut watched, pause);
                if std::mem::take(&mut watched.is_poked) {
                    pause = SHORTEST;
                }
            }
        }
    }

    /// Takes what was added. False when there is nothing to watch, and the thread ends.
    fn take_added(&self, entries: &mut Vec<Entry>) -> bool {
        let mut watched = self.state.0.lock();
        entries.append(&mut watched.added);
        watched.is_running = !entries.is_empty();
        watched.is_running
    }
}

impl Entry {
    /// True if there is nothing to watch for any more: the capture is complete, or nobody waits for it. One whose signal
    /// panics fails, and takes no other with it.
    fn ends(&self, asks_process: bool) -> bool {
        let Some(capture) = self.capture.upgrade() else { return true };
        let look = || {
            let has_come = self.signal.poll(asks_process);
            if has_come {
                capture.complete();
            }
            has_come
        };
        catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| {
            log::error!("internal error (please report): a look at another process panicked");
            let text = "internal error (please report): the wait for another process panicked";
            self.signal.fail(Error::new(Code::RtInternal, text));
            capture.complete();
            true
        })
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;

    /// Comes at the second look; its end takes a lock of an earlier rank.
    struct Locking {
        looks: AtomicUsize,
        store: Mutex<()>,
        ended: mpsc::Sender<&'static str>,
    }

    impl Signal for Locking {
        fn poll(&self, _: bool) -> bool {
            self.looks.fetch_add(1, SeqCst) > 0
        }

        fn fail(&self, _: Error) {
            let _ = self.ended.send("failed");
        }
    }

    impl Drop for Locking {
        fn drop(&mut self) {
            let locked = catch_unwind(AssertUnwindSafe(|| drop(self.store.lock())));
            let _ = self.ended.send(if locked.is_ok() { "ended" } else { "not the rank" });
        }
    }

    fn locking(ended: &mpsc::Sender<&'static str>) -> Arc<Locking> {
        let store = Mutex::new(Rank::Store, ());
        Arc::new(Locking { looks: AtomicUsize::new(0), store, ended: ended.clone() })
    }

    /// Panics at the second look.
    struct Panicking {
        looks: AtomicUsize,
        ended: mpsc::Sender<&'static str>,
    }

    impl Signal for Panicking {
        fn poll(&self, _: bool) -> bool {
            assert!(self.looks.fetch_add(1, SeqCst) == 0, "a look that panics, as the test wants");
            false
        }

        fn fail(&self, error: Error) {
            assert!(error.text.contains("please report"), "{}", error.text);
            let _ = self.ended.send("failed");
        }
    }

    #[test]
    fn the_last_one_to_know_a_signal_may_take_locks() {
        let (watcher, (sender, ended)) = (Arc::<Watcher>::default(), mpsc::channel());
        for _ in 0..3 {
            let capture = Arc::<Capture>::default();
            watcher.watch(&capture, locking(&sender)).unwrap();
            assert_eq!(ended.recv(), Ok("ended"));
            assert!(capture.is_done());
            // Nobody waits for this one any more.
            watcher.watch(&Arc::default(), locking(&sender)).unwrap();
            assert_eq!(ended.recv(), Ok("ended"));
        }
    }

    /// Has come at the second look, and panics at its end.
    struct PanickingEnd(AtomicUsize);

    impl Signal for PanickingEnd {
        fn poll(&self, _: bool) -> bool {
            self.0.fetch_add(1, SeqCst) > 0
        }

        fn fail(&self, _: Error) {}
    }

    impl Drop for PanickingEnd {
        fn drop(&mut self) {
            panic!("an end that panics, as the test wants");
        }
    }

    #[test]
    fn a_panic_fails_the_signal_that_it_is_of_and_the_others_come() {
        let (watcher, (sender, ended)) = (Arc::<Watcher>::default(), mpsc::channel());
        for _ in 0..3 {
            let captures = [(); 4].map(|()| Arc::<Capture>::default());
            let panicking = Panicking { looks: AtomicUsize::new(0), ended: sender.clone() };
            watcher.watch(&captures[0], locking(&sender)).unwrap();
            watcher.watch(&captures[1], Arc::new(panicking)).unwrap();
            watcher.watch(&captures[2], Arc::new(PanickingEnd(AtomicUsize::new(0)))).unwrap();
            watcher.watch(&captures[3], locking(&sender)).unwrap();
            let mut reports = [(); 3].map(|()| ended.recv().unwrap());
            reports.sort_unstable();
            assert_eq!(reports, ["ended", "ended", "failed"]);
            // The signal fails before its capture is complete.
            while !captures.iter().all(|capture| capture.is_done()) {
                std::thread::yield_now();
            }
        }
    }
}
