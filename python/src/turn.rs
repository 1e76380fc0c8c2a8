//! Who may change what is registered.

use crate::interpreter::{lives, waiting};
use pyo3::prelude::*;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// The process whose thread has the turn, or 0. A child of fork does not wait for a thread of its parent.
static HOLDER: AtomicU32 = AtomicU32::new(0);

/// One thread at a time tells C what is registered and notes it: the interpreter's lock is let go in between. Nothing
/// that may run Python is done in a turn: it could want one, too.
pub(crate) struct Turn(());

impl Turn {
    /// Waits for the turn. There is none when the interpreter ends: who has it may never come back.
    pub fn take(py: Python<'_>) -> Option<Turn> {
        let own = std::process::id();
        while lives() {
            let holder = HOLDER.load(Ordering::Relaxed);
            let is_free = holder != own;
            let take = || {
                HOLDER.compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
            };
            if is_free && take() {
                return Some(Turn(()));
            }
            waiting(py, || std::thread::sleep(Duration::from_micros(50)));
        }
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HOLDER.store(0, Ordering::Release);
    }
}
