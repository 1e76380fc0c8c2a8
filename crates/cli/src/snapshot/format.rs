//! The dictionaries of PyTorch's memory snapshots, as a pickle.

use std::{
    io::{self, Write},
    rc::Rc,
};

use super::pickle::Pickle;

/// A snapshot.
pub struct Snapshot {
    pub segments: Vec<Segment>,
    /// By device.
    pub device_traces: Vec<Vec<TraceEntry>>,
}

/// What was taken from a device in one piece.
pub struct Segment {
    pub device: u32,
    pub address: u64,
    pub total_size: u64,
    pub allocated_size: u64,
    pub active_size: u64,
    pub requested_size: u64,
    pub stream: u64,
    pub is_large: bool,
    pub frames: Stack,
    /// The pool's number; 0 for memory of no pool.
    pub pool: u32,
    pub blocks: Vec<Block>,
}

/// A part of a segment.
pub struct Block {
    pub address: u64,
    pub size: u64,
    pub state: State,
    pub frames: Stack,
}

/// Whether a block can be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its owner has it.
    Allocated,
    /// Freed, but tasks may touch it.
    PendingFree,
    /// Free.
    Free,
}

/// What happened to a block or a segment; those of one moment in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    FreeRequested,
    FreeCompleted,
    SegmentFree,
    SegmentAlloc,
    Alloc,
}

/// An event of the trace.
#[derive(Clone)]
pub struct TraceEntry {
    pub action: Action,
    pub addr: u64,
    pub size: u64,
    pub stream: u64,
    /// For the order; not written.
    pub time_ns: u64,
    pub time_us: u64,
    pub frames: Stack,
}

/// The frames of a stack, innermost first. Equal ones are one object, so that the file has them once.
pub type Stack = Rc<[Frame]>;

/// A line of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    pub name: String,
    pub filename: String,
    pub line: u32,
}

impl Snapshot {
    /// Writes the pickle. It has only plain numbers, texts, lists, tuples and dictionaries.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut pickle = Pickle::begin(out)?;
        pickle.dictionary(|pickle| {
            pickle.text("segments")?;
            pickle.list(&self.segments, |pickle, segment| segment.write(pickle))?;
            pickle.text("device_traces")?;
            pickle.list(&self.device_traces, |pickle, trace| {
                pickle.list(trace, |pickle, entry| entry.write(pickle))
            })?;
            pickle.text("allocator_settings")?;
            pickle.dictionary(|_| Ok(()))
        })?;
        pickle.end()
    }
}

impl Segment {
    fn write(&self, pickle: &mut Pickle<impl Write>) -> io::Result<()> {
        pickle.dictionary(|pickle| {
            pickle.numbers(&[
                ("device", u64::from(self.device)),
                ("address", self.address),
                ("total_size", self.total_size),
                ("allocated_size", self.allocated_size),
                ("active_size", self.active_size),
                ("requested_size", self.requested_size),
                ("stream", self.stream),
            ])?;
            pickle.text("segment_type")?;
            pickle.text(if self.is_large { "large" } else { "small" })?;
            pickle.text("segment_pool_id")?;
            pickle.pair(0, u64::from(self.pool))?;
            pickle.text("is_expandable")?;
            pickle.no()?;
            write_stack(&self.frames, pickle)?;
            pickle.text("blocks")?;
            pickle.list(&self.blocks, |pickle, block| block.write(pickle))
        })
    }
}

impl Block {
    fn write(&self, pickle: &mut Pickle<impl Write>) -> io::Result<()> {
        pickle.dictionary(|pickle| {
            pickle.numbers(&[
                ("address", self.address),
                ("size", self.size),
                ("requested_size", self.size),
            ])?;
            pickle.text("state")?;
            pickle.text(self.state.name())?;
            write_stack(&self.frames, pickle)
        })
    }
}

impl State {
    /// As the viewer's code has it.
    fn name(self) -> &'static str {
        match self {
            State::Allocated => "active_allocated",
            State::PendingFree => "active_pending_free",
            State::Free => "inactive",
        }
    }
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Action::Alloc => "alloc",
            Action::FreeRequested => "free_requested",
            Action::FreeCompleted => "free_completed",
            Action::SegmentAlloc => "segment_alloc",
            Action::SegmentFree => "segment_free",
        }
    }
}

impl TraceEntry {
    fn write(&self, pickle: &mut Pickle<impl Write>) -> io::Result<()> {
        pickle.dictionary(|pickle| {
            pickle.text("action")?;
            pickle.text(self.action.name())?;
            pickle.numbers(&[
                ("addr", self.addr),
                ("size", self.size),
                ("stream", self.stream),
                ("time_us", self.time_us),
            ])?;
            write_stack(&self.frames, pickle)
        })
    }
}

/// The entry `frames` of a dictionary.
fn write_stack(stack: &Stack, pickle: &mut Pickle<impl Write>) -> io::Result<()> {
    pickle.text("frames")?;
    pickle.once(Rc::as_ptr(stack).cast::<u8>() as usize, |pickle| {
        pickle.list(stack, |pickle, frame| {
            pickle.dictionary(|pickle| {
                pickle.text("name")?;
                pickle.text(&frame.name)?;
                pickle.text("filename")?;
                pickle.text(&frame.filename)?;
                pickle.numbers(&[("line", u64::from(frame.line))])
            })
        })
    })
}
