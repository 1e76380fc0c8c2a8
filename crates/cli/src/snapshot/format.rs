//! The dictionaries of PyTorch's memory snapshots, as a pickle.

use std::{collections::BTreeMap, io::Write};

use serde_pickle::{HashableValue, SerOptions, Value};

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
    pub frames: Vec<Frame>,
    /// The pool's number; 0 for memory of no pool.
    pub pool: u32,
    pub blocks: Vec<Block>,
}

/// A part of a segment.
pub struct Block {
    pub address: u64,
    pub size: u64,
    pub state: State,
    pub frames: Vec<Frame>,
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
    pub frames: Vec<Frame>,
}

/// A line of a stack.
#[derive(Clone)]
pub struct Frame {
    pub name: String,
    pub filename: String,
    pub line: u32,
}

impl Snapshot {
    /// Writes the pickle. It has only plain numbers, texts, lists, tuples and dictionaries.
    pub fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let value = dictionary([
            ("segments", list(&self.segments, Segment::value)),
            ("device_traces", list(&self.device_traces, |trace| list(trace, TraceEntry::value))),
            ("allocator_settings", dictionary([])),
        ]);
        serde_pickle::value_to_writer(out, &value, SerOptions::new()).map_err(std::io::Error::other)
    }
}

impl Segment {
    fn value(&self) -> Value {
        dictionary([
            ("device", number(u64::from(self.device))),
            ("address", number(self.address)),
            ("total_size", number(self.total_size)),
            ("allocated_size", number(self.allocated_size)),
            ("active_size", number(self.active_size)),
            ("requested_size", number(self.requested_size)),
            ("stream", number(self.stream)),
            ("segment_type", text(if self.is_large { "large" } else { "small" })),
            ("segment_pool_id", Value::Tuple(vec![number(0), number(u64::from(self.pool))])),
            ("is_expandable", Value::Bool(false)),
            ("frames", list(&self.frames, Frame::value)),
            ("blocks", list(&self.blocks, Block::value)),
        ])
    }
}

impl Block {
    fn value(&self) -> Value {
        dictionary([
            ("address", number(self.address)),
            ("size", number(self.size)),
            ("requested_size", number(self.size)),
            ("state", text(self.state.name())),
            ("frames", list(&self.frames, Frame::value)),
        ])
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
    fn value(&self) -> Value {
        dictionary([
            ("action", text(self.action.name())),
            ("addr", number(self.addr)),
            ("size", number(self.size)),
            ("stream", number(self.stream)),
            ("time_us", number(self.time_us)),
            ("frames", list(&self.frames, Frame::value)),
        ])
    }
}

impl Frame {
    fn value(&self) -> Value {
        dictionary([
            ("name", text(&self.name)),
            ("filename", text(&self.filename)),
            ("line", number(u64::from(self.line))),
        ])
    }
}

fn number(value: u64) -> Value {
    Value::I64(i64::try_from(value).unwrap_or(i64::MAX))
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

fn list<T>(values: &[T], value: impl Fn(&T) -> Value) -> Value {
    Value::List(values.iter().map(value).collect())
}

fn dictionary<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.map(|(key, value)| (HashableValue::String(key.to_owned()), value));
    Value::Dict(BTreeMap::from(fields))
}
