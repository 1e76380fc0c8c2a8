//! How a stream is made, and how it may fail.

use super::ContextFailure;
use crate::sync::Arc;

/// Stream flags of CANN.
pub mod flag {
    /// Accepted; every stream here launches fast.
    pub const FAST_LAUNCH: u32 = 1;
    /// Accepted; every stream here synchronizes fast.
    pub const FAST_SYNC: u32 = 2;
    /// Not waited for by synchronize.
    pub const PERSISTENT: u32 = 4;
    /// Accepted; every stream here holds any number of tasks.
    pub const HUGE: u32 = 8;
    /// Not waited for by synchronize.
    pub const CPU_SCHEDULE: u32 = 16;
    /// Not waited for by synchronize.
    pub const DEVICE_USE_ONLY: u32 = 32;
    /// Every flag there is.
    pub const ALL: u32 = 63;
    /// The flags with which synchronize returns at once.
    pub const NOT_WAITED_FOR: u32 = PERSISTENT | CPU_SCHEDULE | DEVICE_USE_ONLY;
}

/// What happens to later tasks when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureMode {
    /// They run; the next synchronize reports the first failure.
    Continue = 0,
    /// They are dropped, and so is everything in the context.
    Stop = 1,
}

/// How a stream is made.
#[derive(Clone)]
pub struct StreamSpec {
    /// The device it runs on.
    pub device: u32,
    /// The handle of its context.
    pub context: u64,
    /// The failure that it shares with the other streams of its context.
    pub context_failure: Arc<ContextFailure>,
    /// 0 is served first, 7 last.
    pub priority: u32,
    /// CANN's flags.
    pub flags: u32,
}
