//! Threads of the program that write to device memory for it: they must take faults while an export moves pages
//! ([`super::relocation`]), also where the program blocked SIGSEGV.
//!
//! ```text
//!  before the first export    write:  count, write, uncount            (no system call)
//!  first export               exports are expected; waits until nobody is counted
//!  from then on               write:  unblock SIGSEGV, write, block it again
//! ```

use crate::signals;
use crate::sync::thread_local;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// True once this process has begun to export memory.
static EXPORTS: AtomicBool = AtomicBool::new(false);
/// How many threads write that may have SIGSEGV blocked. A thread counts in one of them, so that few meet.
static COUNTS: [Count; 16] = [const { Count(AtomicUsize::new(0)) }; 16];
static THREADS: AtomicUsize = AtomicUsize::new(0);

#[repr(align(64))]
struct Count(AtomicUsize);

thread_local! {
    /// This thread takes faults, or is counted.
    static IS_READY: Cell<bool> = const { Cell::new(false) };
    static COUNT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The calling thread never blocks SIGSEGV.
pub fn takes_faults() {
    IS_READY.with(|is_ready| is_ready.set(true));
}

/// Runs what writes to device memory on the calling thread, and ends soon: it waits for nobody but for other such threads.
#[inline]
pub fn write<T>(run: impl FnOnce() -> T) -> T {
    if IS_READY.with(Cell::get) {
        return run();
    }
    let _ready = Ready::begin();
    if EXPORTS.load(SeqCst) {
        return signals::with_faults(run);
    }
    let counted = Counted::begin();
    if EXPORTS.load(SeqCst) {
        drop(counted);
        return signals::with_faults(run);
    }
    run()
}

/// The same for what may take long, or waits for others.
pub fn write_long<T>(run: impl FnOnce() -> T) -> T {
    if IS_READY.with(Cell::get) {
        return run();
    }
    let _ready = Ready::begin();
    signals::with_faults(run)
}

/// Memory will be exported: returns when every thread that writes takes faults. The caller holds no lock.
pub fn expect_exports() {
    EXPORTS.store(true, SeqCst);
    wait_for_each(&COUNTS, || std::thread::sleep(Duration::from_micros(20)));
}

/// Returns when each count was zero once: whoever counts later finds that exports are expected.
fn wait_for_each(counts: &[Count], mut pause: impl FnMut()) {
    for count in counts {
        while count.0.load(SeqCst) > 0 {
            pause();
        }
    }
}

struct Ready;

impl Ready {
    fn begin() -> Ready {
        IS_READY.with(|is_ready| is_ready.set(true));
        Ready
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        IS_READY.with(|is_ready| is_ready.set(false));
    }
}

struct Counted(&'static AtomicUsize);

impl Counted {
    fn begin() -> Counted {
        let number = COUNT.with(|count| {
            let number = count.get().unwrap_or_else(|| THREADS.fetch_add(1, SeqCst));
            count.set(Some(number));
            number
        });
        let count = &COUNTS[number % COUNTS.len()].0;
        count.fetch_add(1, SeqCst);
        Counted(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn an_export_waits_once_for_each_count_and_for_none_that_comes_later() {
        let counts = [const { Count(AtomicUsize::new(0)) }; 4];
        let set = |number: usize, count| counts[number].0.store(count, SeqCst);
        set(1, 2);
        set(3, 1);
        let mut pauses = 0;
        wait_for_each(&counts, || {
            pauses += 1;
            match pauses {
                1 => set(1, 1),
                2 => {
                    set(1, 0);
                    set(0, 1);
                }
                // Another one counts in each that was zero.
                3 => {
                    set(3, 0);
                    set(1, 1);
                }
                _ => panic!("it waits for what was zero before"),
            }
        });
        assert_eq!(pauses, 3);
    }
}
