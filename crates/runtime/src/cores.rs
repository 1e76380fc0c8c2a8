//! The cores that threads run on.

use crate::sync;

/// The core that the calling thread runs on.
pub(crate) fn current() -> usize {
    rustix::thread::sched_getcpu()
}

/// Moves the calling thread to another core, if it is on this one and may run on others. Whether it moved.
///
/// Linux may put a thread that it wakes on the core of the one that woke it, and leaves both there for some
/// milliseconds, though the next core is idle: two threads that share a kernel then take longer than one.
pub(crate) fn leave(core: usize) -> bool {
    // Modelled threads are one thread of the machine.
    if !sync::REAL_TIME || current() != core {
        return false;
    }
    let Ok(all) = rustix::thread::sched_getaffinity(None) else { return false };
    let mut others = all;
    others.unset(core);
    let moved = others.count() > 0 && rustix::thread::sched_setaffinity(None, &others).is_ok();
    if moved {
        // It stays where it has come to.
        let _ = rustix::thread::sched_setaffinity(None, &all);
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
        let moved = (0..1000).any(|_| leave(current()));
        assert_eq!(moved, sync::REAL_TIME && before.count() > 1);
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
        assert!(!leave(usize::MAX), "it is on another core");
    }
}
