//! The one place that chooses threads, atomics and clocks of the machine: the real ones, or
//! shuttle's under the feature `shuttle`, where a scheduler tries many interleavings.

#[cfg(not(feature = "shuttle"))]
mod chosen {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic;
    pub use std::sync::{Arc, Weak};
    pub use std::thread;
    pub use std::thread_local;

    /// Spins before a waiter goes to sleep.
    pub const SPINS: u32 = 2000;
    /// False under shuttle, where timeouts never pass.
    pub const REAL_TIME: bool = true;
}

#[cfg(feature = "shuttle")]
mod chosen {
    pub use shuttle::sync::atomic;
    pub use shuttle::sync::{Arc, Weak};
    pub use shuttle::thread;
    pub use shuttle::thread_local;

    /// Lets another thread of the shuttle test run.
    pub fn spin_loop() {
        shuttle::thread::yield_now();
    }
    /// Few spins: each is a scheduling point.
    pub const SPINS: u32 = 2;
    /// False under shuttle, where timeouts never pass.
    pub const REAL_TIME: bool = false;
}

pub use chosen::*;

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
