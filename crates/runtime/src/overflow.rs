//! What happens to results that are too large: infinities, or in saturation mode the largest finite numbers and a status.

use crate::soc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The overflow status of the process, and what nobody asks for.
#[derive(Default)]
pub struct OverflowStatus {
    raised: AtomicBool,
    ignored: AtomicBool,
}

impl OverflowStatus {
    /// Whether a result was too large, on a stream that saturates and checks, since the last reset.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Relaxed)
    }

    /// Forgets that.
    pub fn reset(&self) {
        self.raised.store(false, Relaxed);
    }

    /// The status itself, for operators that read and clear it.
    pub fn flag(&self) -> &AtomicBool {
        &self.raised
    }
}

/// How one stream treats overflow. Whether it saturates is decided when it is made, by the mode of the process then.
pub struct StreamOverflow {
    saturates: bool,
    checks: AtomicBool,
}

impl Default for StreamOverflow {
    fn default() -> StreamOverflow {
        let saturates = soc::overflow_mode() == soc::SATURATE;
        StreamOverflow { saturates, checks: AtomicBool::new(false) }
    }
}

impl StreamOverflow {
    /// Whether the stream raises the status.
    pub fn checks(&self) -> bool {
        self.checks.load(Relaxed)
    }

    /// Sets that.
    pub fn set_checks(&self, checks: bool) {
        self.checks.store(checks, Relaxed);
    }

    /// The flag that kernels of the stream set when they saturate a result; `None` if they do not.
    pub fn flag<'a>(&self, status: &'a OverflowStatus) -> Option<&'a AtomicBool> {
        match (self.saturates, self.checks()) {
            (false, _) => None,
            (true, true) => Some(&status.raised),
            (true, false) => Some(&status.ignored),
        }
    }
}
