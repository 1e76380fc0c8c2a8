//! A task is a name, what it reads, what it writes, and a body.

use crate::clock::Epoch;
use crate::error::{Code, Error, Result};
use crate::event::{Capture, Waits};
use crate::memory::raw::{TaskMemory, Use};
use crate::record::{Access, Mode, Spine};
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::fmt;

/// Where the bytes of a [`Span`] have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory of this device, or of a peer it may reach.
    Device(u32),
    /// Memory of whichever device.
    AnyDevice,
    /// Pinned, registered or pageable memory of the host.
    Host,
    /// Wherever the address says.
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
    pub place: Place,
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
    /// The user's word for it: an operator, `aclrtMemcpyAsync`, ...
    pub name: &'static str,
    /// What it reads.
    pub reads: Spans,
    /// What it writes.
    pub writes: Spans,
    /// What it does.
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
    /// Something of our own, on whatever thread owns the stream.
    Work(Arc<dyn Work>),
    /// An operator, on whatever thread owns the stream. Its ranges are checked first.
    Kernel(Arc<dyn Kernel>),
    /// Calls a function of the user on a thread for host functions.
    Host(HostCall),
    /// Completes the capture of an event.
    Record(Arc<Capture>),
    /// Parks the stream until the capture is complete.
    Wait(Wait),
}

/// What a part of the runtime does in a stream. Short: it neither blocks nor calls the user. It answers
/// for the bytes it touches itself; the task's reads and writes only say which they are.
pub trait Work: Send + Sync {
    /// Does it, once. A failure surfaces at synchronize.
    fn run(&self) -> Result<()>;
}

/// What an operator does in a stream. Short, as [`Work`]; it touches the ranges of its task and nothing else.
pub trait Kernel: Send + Sync {
    /// The user's word for the range at a place of the task's reads, or writes.
    fn argument(&self, purpose: Use, place: usize) -> &str;

    /// Computes. Called for each time the task is submitted. A failure surfaces at synchronize.
    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()>;

    /// Tells every access of one run on these ranges, with sizes and strides where it knows them. Only called where
    /// somebody listens.
    fn each_access(&self, reads: &[Span], writes: &[Span], tell: &mut dyn FnMut(Access)) {
        ranges(reads, writes, tell);
    }

    /// It is about to be submitted as this task, on these ranges: what runs a plan of many steps tells so
    /// ([`crate::record::Event::Run`]). Only called where somebody listens, with the submit lock of the stream held.
    fn emit_run(&self, spine: &Spine, epoch: Epoch, reads: &[Span], writes: &[Span]) {
        let _ = (spine, epoch, reads, writes);
    }

    /// What it is a part of, in the user's words; stands before the text of every failure of the task.
    fn within(&self) -> Option<&str> {
        None
    }

    /// Called when the task is over, on the thread that ran it, with what becomes of it at synchronize. Not
    /// called for a task that was dropped without being run.
    fn ended(&self, result: &Result<()>) {
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

/// A function of the user and its argument. `call` invokes it and turns an exception into `false`:
/// the door provides it, so that nothing unwinds through this crate. A function that ends its thread
/// cannot be stopped from unwinding: then `call` calls `left(context)` and never returns.
#[derive(Clone, Copy)]
pub struct HostCall {
    /// Calls `function(argument)`.
    pub call: HostCaller,
    /// The user's function.
    pub function: *const c_void,
    /// The user's argument.
    pub argument: *mut c_void,
}

/// How the door calls a function of the user.
pub type HostCaller = unsafe extern "C" fn(
    function: *const c_void,
    argument: *mut c_void,
    left: unsafe extern "C" fn(context: *const c_void),
    context: *const c_void,
) -> bool;

// SAFETY: the user hands function and argument to another thread by asking for a host function;
// this crate only carries them there.
unsafe impl Send for HostCall {}

impl HostCall {
    /// Runs the user's function on this thread. If the function ends the thread, `left` is called in
    /// its place and this never returns.
    pub fn run(self, name: &str, left: &dyn Fn()) -> Result<()> {
        unsafe extern "C" fn forward(context: *const c_void) {
            // SAFETY: the context is the reference below, on a frame that is still there.
            (unsafe { &*context.cast::<&dyn Fn()>() })();
        }
        let context = std::ptr::from_ref(&left).cast();
        // SAFETY: `call` accepts any function and argument that came through the same door.
        match unsafe { (self.call)(self.function, self.argument, forward, context) } {
            true => Ok(()),
            false => Err(Error::new(
                Code::Internal,
                format!(
                    "{name}: the host function at {:p} threw a C++ exception (argument {:p})",
                    self.function, self.argument
                ),
            )),
        }
    }
}

/// Tells whole ranges.
fn ranges(reads: &[Span], writes: &[Span], tell: &mut dyn FnMut(Access)) {
    let mut each = |spans: &[Span], mode| {
        for span in spans {
            tell(Access::range(span.address, span.bytes as u64, mode));
        }
    };
    each(reads, Mode::Read);
    each(writes, Mode::Write);
}

impl Task {
    /// Tells what it touches.
    pub fn each_access(&self, tell: &mut dyn FnMut(Access)) {
        match &self.body {
            Body::Kernel(kernel) => kernel.each_access(&self.reads, &self.writes, tell),
            _ => ranges(&self.reads, &self.writes, tell),
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
