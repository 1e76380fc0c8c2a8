//! Where in the program a call came from.
//!
//! A door sets the site once, where it counts the call; whatever happens inside the call carries it. An operator
//! of two calls (`aclnnXxxGetWorkspaceSize`, `aclnnXxx`) carries the site of the first: there the program decided
//! on it, the second may come from a queue on another thread.

use super::stack;
use crate::host::HostThread;
use crate::sync::thread_local;
use std::cell::Cell;

/// A call of the program: which function, on which thread, and its stack where one was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The function that the program called; empty outside of calls.
    pub entry: &'static str,
    /// The kernel's number of the thread. 0 while the call lasts: it is looked up when a sink asks.
    pub thread: u64,
    /// The recorder's number of the stack; 0 where none was taken.
    pub stack: u32,
    /// Set where the call only prepared what another one does.
    pub preparation: Option<Preparation>,
}

/// A call that prepared a task, which another one submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// When it was.
    pub prepared_ns: u64,
    /// How many of the task's first accesses it decided.
    pub accesses: u32,
}

impl Preparation {
    /// By the call that this thread is inside of; of no accesses yet.
    pub fn now() -> Preparation {
        Preparation { prepared_ns: crate::sync::now_ns(), accesses: 0 }
    }
}

impl Site {
    /// Outside of any call of the program.
    pub const NONE: Site = Site { entry: "", thread: 0, stack: 0, preparation: None };

    /// The same with the number of the calling thread, unless it is outside of calls or has one.
    pub fn resolved(self) -> Site {
        match self.entry.is_empty() || self.thread != 0 {
            true => self,
            false => Site { thread: HostThread::current().number(), ..self },
        }
    }
}

thread_local! {
    static CURRENT: Cell<Site> = const { Cell::new(Site::NONE) };
}

/// The site of the call that this thread is inside of.
pub fn current() -> Site {
    CURRENT.with(Cell::get)
}

/// The same with its thread looked up and its stack taken, if stacks are, to be kept for later. The stack of a call is taken
/// once.
pub fn keep() -> Site {
    CURRENT.with(|cell| {
        let mut site = cell.get().resolved();
        if site.stack == 0 && !site.entry.is_empty() {
            site.stack = stack::take();
            if site.stack != 0 {
                cell.set(site);
            }
        }
        site
    })
}

/// Runs `body` as a call of the program to the function `entry`.
#[inline]
pub fn enter<T>(entry: &'static str, body: impl FnOnce() -> T) -> T {
    with_site(Site { entry, ..Site::NONE }, body)
}

/// Runs `body` as a part of the call at `site`; calls inside of it have sites of their own meanwhile.
#[inline]
pub fn with_site<T>(site: Site, body: impl FnOnce() -> T) -> T {
    struct Restore<'a>(&'a Cell<Site>, Site);
    impl Drop for Restore<'_> {
        #[inline]
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    // One look-up of the thread-local for setting and restoring.
    CURRENT.with(|cell| {
        let _restore = Restore(cell, cell.replace(site));
        body()
    })
}
