//! What a program may change of a stream at any time.

use super::StreamSpec;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Settings of a stream. They hold for what is scheduled from then on.
pub struct StreamSettings {
    priority: AtomicU32,
    tag: AtomicU32,
    keeps_op_info: AtomicBool,
}

impl StreamSettings {
    /// As the stream was made.
    pub fn new(spec: &StreamSpec) -> StreamSettings {
        StreamSettings {
            priority: AtomicU32::new(spec.priority),
            tag: AtomicU32::new(0),
            keeps_op_info: AtomicBool::new(false),
        }
    }

    /// When it is served: 0 first.
    pub fn priority(&self) -> u32 {
        self.priority.load(Relaxed)
    }

    /// Sets that.
    pub fn set_priority(&self, priority: u32) {
        self.priority.store(priority, Relaxed);
    }

    /// A number of the user.
    pub fn tag(&self) -> u32 {
        self.tag.load(Relaxed)
    }

    /// Sets that.
    pub fn set_tag(&self, tag: u32) {
        self.tag.store(tag, Relaxed);
    }

    /// Whether a profiler is to know operators that are captured.
    pub fn keeps_op_info(&self) -> bool {
        self.keeps_op_info.load(Relaxed)
    }

    /// Sets that.
    pub fn set_keeps_op_info(&self, keeps: bool) {
        self.keeps_op_info.store(keeps, Relaxed);
    }
}
