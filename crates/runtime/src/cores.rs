//! The cores that threads run on.

use crate::sync;

/// The core that the calling thread runs on.
pub(crate) fn current() -> usize {
    rustix::thread::sched_getcpu()
}

/// Moves the calling thread to another core, if it is on this one and may run on others.
///
/// Linux may put a thread that it wakes on the core of the one that woke it, and leaves both there for some
/// milliseconds, though the next core is idle: two threads that share a kernel then take longer than one.
pub(crate) fn leave(core: usize) {
    // Modelled threads are one thread of the machine.
    if !sync::REAL_TIME || current() != core {
        return;
    }
    let Ok(all) = rustix::thread::sched_getaffinity(None) else { return };
    let mut others = all;
    others.unset(core);
    if others.count() > 0 && rustix::thread::sched_setaffinity(None, &others).is_ok() {
        // It stays where it has come to.
        let _ = rustix::thread::sched_setaffinity(None, &all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_a_core_and_may_come_back() {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let core = current();
        leave(core);
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
        leave(usize::MAX);
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
    }
}
