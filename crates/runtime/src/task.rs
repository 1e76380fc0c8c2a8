//! A task is a name, what it reads, what it writes, and a body.

use crate::clock::Epoch;
use crate::error::Result;
use crate::event::{Capture, Waits};
use crate::memory::raw::{TaskMemory, Use};
use crate::record::{Access, Mode, Spine};
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use smallvec::SmallVec;
use std::fmt;

/// Where the bytes of a [`Span`] have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Memory of this device, or of a peer that it has access to.
    Device(u32),
    /// Memory of whichever device.
    AnyDevice,
    /// Pinned, registered or pageable memory of the host.
    Host,
    /// Any memory.
    Any,
}

/// A range of bytes that a task touches. Checked on the worker, before the body runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub address: usize,
    /// How many.
    pub bytes: usize,
    /// Where they have to be.
    pub location: Location,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}+{}", self.address, self.bytes)
    }
}

/// The ranges a task reads or writes, inline for up to three.
pub type Spans = SmallVec<[Span; 3]>;

/// One unit of work on a stream. Owns what it needs; lies inline in the stream's queue.
pub struct Task {
    /// Its name for the user: an operator, `aclrtMemcpyAsync`, ...
    pub name: &'static str,
    /// What it reads.
    pub reads: Spans,
    /// What it writes.
    pub writes: Spans,
    /// The work.
    pub body: Body,
}

/// What a task does.
pub enum Body {
    /// Nothing: takes its place in the order.
    Nothing,
    /// Copies `reads[0]` to `writes[0]`.
    Copy,
    /// Sets every byte of `writes[0]`.
    Fill(u8),
    /// A function of the runtime itself, on whatever thread owns the stream.
    Work(Arc<dyn Work>),
    /// An operator, on whatever thread owns the stream. Its ranges are checked first.
    Kernel(Arc<dyn Kernel>),
    /// An operator that waits for other processes or devices: on a thread of its own while the stream is parked, or on a host
    /// thread that waits for the stream anyway. Its ranges are checked first, and it stays in the queue until it is done.
    Exchange(Arc<dyn Kernel>),
    /// Calls a user function on a thread for host functions.
    Host(Arc<dyn HostFunction>),
    /// Completes the capture of an event.
    Record(Arc<Capture>),
    /// Parks the stream until the capture is complete.
    Wait(Wait),
}

/// A function of the runtime that runs in a stream. Short: it neither blocks nor calls the user. It checks
/// the bytes that it touches itself; the task's reads and writes only name them.
pub trait Work: Send + Sync {
    /// Runs it, once. A failure surfaces at synchronize.
    fn run(&self) -> Result<()>;

    /// As [`Kernel::each_access`].
    fn each_access(&self, reads: &[Span], writes: &[Span], report: &mut dyn FnMut(Access)) {
        report_ranges(reads, writes, report);
    }
}

/// What an operator does in a stream. Short, as [`Work`], but for the body of an [`Body::Exchange`]; it touches the ranges of its
/// task and nothing else.
pub trait Kernel: Send + Sync {
    /// The name of the argument whose range this is, by its index in the task's reads or writes.
    fn argument(&self, purpose: Use, index: usize) -> &str;

    /// Computes. Called for each time the task is submitted. A failure surfaces at synchronize.
    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()>;

    /// Reports every access of one run on these ranges, with sizes and strides where it knows them. Only called where
    /// somebody listens.
    fn each_access(&self, reads: &[Span], writes: &[Span], report: &mut dyn FnMut(Access)) {
        report_ranges(reads, writes, report);
    }

    /// Called before it is submitted as this task, on these ranges: a kernel that runs a plan of many steps emits
    /// [`crate::record::Event::Run`], a collective [`crate::record::Event::Collective`]. Only called where somebody listens, with the submit lock of the stream held.
    fn emit_run(&self, spine: &Spine, epoch: Epoch, reads: &[Span], writes: &[Span]) {
        let _ = (spine, epoch, reads, writes);
    }

    /// The beginning of every failure message of the task: what the kernel is a part of.
    fn failure_prefix(&self) -> Option<&str> {
        None
    }

    /// Called when the task has ended, on the thread that ran it, with the result that synchronize reports. Not
    /// called for a task that was dropped without being run.
    fn on_end(&self, result: &Result<()>) {
        let _ = result;
    }
}

/// The wait of a stream for an event.
pub struct Wait {
    /// What it waits for.
    pub capture: Arc<Capture>,
    /// Nanoseconds it may wait; 0 is for ever.
    pub limit_ns: u64,
    /// Counts this wait among those of its event.
    pub waits: Arc<Waits>,
    /// When the stream reached it, if somebody wants to know; 0 until then.
    pub reached_ns: AtomicU64,
}

/// A user function that runs in a stream. The door makes it, and nothing unwinds out of it.
pub trait HostFunction: Send + Sync {
    /// Calls the user's function on this thread; fails after an exception. A function that ends its thread cannot be
    /// stopped from unwinding: then `on_exit` is called in its place and this never returns.
    fn call(&self, on_exit: &dyn Fn()) -> Result<()>;
}

/// Reports whole ranges.
fn report_ranges(reads: &[Span], writes: &[Span], report: &mut dyn FnMut(Access)) {
    let mut report_all = |spans: &[Span], mode| {
        for span in spans {
            report(Access::range(span.address, span.bytes as u64, mode));
        }
    };
    report_all(reads, Mode::Read);
    report_all(writes, Mode::Write);
}

impl Task {
    /// Reports what it touches.
    pub fn each_access(&self, report: &mut dyn FnMut(Access)) {
        match &self.body {
            Body::Kernel(kernel) | Body::Exchange(kernel) => {
                kernel.each_access(&self.reads, &self.writes, report)
            }
            Body::Work(work) => work.each_access(&self.reads, &self.writes, report),
            _ => report_ranges(&self.reads, &self.writes, report),
        }
    }

    /// A task that touches no memory.
    pub fn bare(name: &'static str, body: Body) -> Task {
        Task { name, reads: Spans::new(), writes: Spans::new(), body }
    }

    /// A copy between two ranges of the same length.
    pub fn copy(name: &'static str, from: Span, to: Span) -> Task {
        debug_assert_eq!(from.bytes, to.bytes);
        Task {
            name,
            reads: [from].into_iter().collect(),
            writes: [to].into_iter().collect(),
            body: Body::Copy,
        }
    }

    /// A fill of one range.
    pub fn fill(name: &'static str, to: Span, value: u8) -> Task {
        Task {
            name,
            reads: Spans::new(),
            writes: [to].into_iter().collect(),
            body: Body::Fill(value),
        }
    }
}
