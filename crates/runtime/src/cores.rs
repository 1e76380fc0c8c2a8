//! The cores that threads run on.

use crate::sync;

/// The core that the calling thread runs on.
pub(crate) fn current() -> usize {
    rustix::thread::sched_getcpu()
}

/// Moves the calling thread off this core, if it is there and may run on others. True if it moved.
///
/// Linux may put a thread that it wakes on the core of the one that woke it, and leaves both there for some
/// milliseconds, though the next core is idle: two threads that share a kernel then take longer than one.
pub(crate) fn move_off(core: usize) -> bool {
    // Under shuttle all threads are one thread of the machine.
    if !sync::REAL_TIME || current() != core {
        return false;
    }
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return false };
    let mut others = allowed;
    others.unset(core);
    let moved = others.count() > 0 && rustix::thread::sched_setaffinity(None, &others).is_ok();
    if moved {
        // It may run on all of them again, but stays where it is now.
        let _ = rustix::thread::sched_setaffinity(None, &allowed);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_a_core_and_may_come_back() {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        // The scheduler may move the thread between the two calls; not every time.
        let moved = (0..1000).any(|_| move_off(current()));
        assert_eq!(moved, sync::REAL_TIME && before.count() > 1);
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
        assert!(!move_off(usize::MAX), "it is on another core");
    }
}
