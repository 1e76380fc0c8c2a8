//! `cairn snapshot`: a record as a memory snapshot of PyTorch, for any program; PyTorch's viewer opens it.
//!
//! What was taken from a device is a segment, what lies inside of it are its blocks; a piece of memory that nobody divided is
//! a segment with one block. The trace has everything that led to the moment of the snapshot, so that the viewer can
//! draw memory over time.

mod format;
mod pickle;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
    rc::Rc,
};

use anyhow::{Context, Result};
use cairn_record::entry::MemoryKind;
use format::{Action, Block, Frame, Segment, Snapshot, Stack, State, TraceEntry};

use crate::{
    history::{BlockLife, History},
    moment::Moment,
    output,
    progress::Progress,
    symbols::Stacks,
};

/// What `cairn snapshot` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The record
    file: PathBuf,
    /// The snapshot; RECORD.pickle when not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// When: end, peak (of device 0), or a time such as 1.5s
    #[arg(long, value_name = "MOMENT", default_value = "end")]
    at: Moment,
}

/// Writes the snapshot and says where it is.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let progress = Progress::of_files(std::slice::from_ref(&arguments.file));
    let history = History::open(&arguments.file, &progress)?;
    drop(progress);
    let output =
        arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("pickle"));
    let first = history.devices.keys().next().copied();
    let snapshot = take(&history, arguments.at.time_ns(&history, first));
    let name = || format!("cannot write {}", output.display());
    let mut file = BufWriter::new(output::create(&output, std::slice::from_ref(&arguments.file))?);
    snapshot.write(&mut file).with_context(name)?;
    file.flush().with_context(name)?;
    if history.lives.blocks().iter().all(|block| block.device().is_none()) {
        eprintln!(
            "cairn snapshot: the program took no memory of a device, so there is nothing in it"
        );
    }
    println!(
        "{}: {} segments, {} events; open it in https://pytorch.org/memory_viz",
        output.display(),
        snapshot.segments.len(),
        snapshot.device_traces.iter().map(Vec::len).sum::<usize>()
    );
    Ok(ExitCode::SUCCESS)
}

/// The snapshot at a time.
pub fn take(history: &History, time_ns: u64) -> Snapshot {
    let mut frames = Frames { history, stacks: Stacks::new(&history.stacks), made: HashMap::new() };
    Snapshot {
        segments: segments(history, time_ns, &mut frames),
        device_traces: traces(history, time_ns, &mut frames),
    }
}

struct Frames<'a> {
    history: &'a History,
    stacks: Stacks<'a>,
    /// By the names above a stack, and its number.
    made: HashMap<(Vec<String>, u32), Stack>,
}

impl Frames<'_> {
    /// The stack of a block, innermost first, below the operator and the call that it is for.
    fn of(&mut self, block: &BlockLife) -> Stack {
        let owner = self.history.owner_name(&block.owner);
        let names = [block.purpose.name().to_owned(), owner, block.call.to_string()];
        let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let stacks = &mut self.stacks;
        let made = self.made.entry((names, block.stack)).or_insert_with_key(|(names, stack)| {
            let cairn =
                |name: &String| Frame { name: name.clone(), filename: "cairn".into(), line: 0 };
            let lines = stacks.lines(*stack).iter().map(|line| Frame {
                name: line.function.clone(),
                filename: line.file.clone(),
                line: line.line.unwrap_or(0),
            });
            names.iter().map(cairn).chain(lines).collect()
        });
        made.clone()
    }
}

/// A number for the stream, as PyTorch has addresses of streams.
fn stream_of(block: &BlockLife) -> u64 {
    block.stream.map_or(0, u64::from)
}

fn segments(history: &History, time_ns: u64, frames: &mut Frames<'_>) -> Vec<Segment> {
    let blocks = history.lives.blocks();
    let mut inside: BTreeMap<usize, Vec<&BlockLife>> = BTreeMap::new();
    for block in blocks {
        let is_there = block.made_ns <= time_ns
            && block.reusable_ns.or(block.freed_ns).is_none_or(|end| end > time_ns);
        if let Some(parent) = block.parent.filter(|_| is_there) {
            inside.entry(parent).or_default().push(block);
        }
    }
    let mut segments = Vec::new();
    for (index, outer) in blocks.iter().enumerate() {
        let Some(device) = outer.device().filter(|_| outer.is_outer() && outer.is_live_at(time_ns))
        else {
            continue;
        };
        let inner = inside.remove(&index).unwrap_or_default();
        let blocks = match outer.is_divided {
            true => divide(outer, inner, time_ns, frames),
            false => vec![active(outer, frames)],
        };
        let sum = |is: fn(State) -> bool| {
            blocks.iter().filter(|block| is(block.state)).map(|block| block.size).sum()
        };
        segments.push(Segment {
            device,
            address: outer.address as u64,
            total_size: outer.bytes,
            allocated_size: sum(|state| state == State::Allocated),
            active_size: sum(|state| state != State::Free),
            requested_size: sum(|state| state == State::Allocated),
            stream: stream_of(outer),
            is_large: outer.bytes > 1 << 20,
            frames: frames.of(outer),
            pool: match outer.kind {
                MemoryKind::PoolSegment { pool, .. } => pool,
                _ => 0,
            },
            blocks,
        });
    }
    segments
}

fn active(block: &BlockLife, frames: &mut Frames<'_>) -> Block {
    Block {
        address: block.address as u64,
        size: block.bytes,
        state: State::Allocated,
        frames: frames.of(block),
    }
}

/// The blocks of a segment from its first byte to its last. Where a freed block waits for its stream and a live one has
/// the bytes already, the live one counts.
fn divide(
    outer: &BlockLife,
    mut inner: Vec<&BlockLife>,
    time_ns: u64,
    frames: &mut Frames<'_>,
) -> Vec<Block> {
    let is_live = |block: &BlockLife| block.is_live_at(time_ns);
    inner.sort_by_key(|block| (block.address, !is_live(block)));
    let (mut blocks, mut at) = (Vec::new(), outer.address as u64);
    let end = at + outer.bytes;
    let gap = |from: u64, to: u64| Block {
        address: from,
        size: to - from,
        state: State::Free,
        frames: Rc::new([]),
    };
    let taken: BTreeSet<usize> =
        inner.iter().filter(|block| is_live(block)).map(|block| block.address).collect();
    for block in inner {
        let first = block.address as u64;
        let mut last = (first + block.bytes).min(end);
        if !is_live(block) {
            let next = taken.range(block.address..).next().map_or(end, |next| *next as u64);
            last = last.min(next);
        }
        if first < at || first >= last {
            continue;
        }
        if first > at {
            blocks.push(gap(at, first));
        }
        let state = if is_live(block) { State::Allocated } else { State::PendingFree };
        blocks.push(Block { address: first, size: last - first, state, frames: frames.of(block) });
        at = last;
    }
    if at < end {
        blocks.push(gap(at, end));
    }
    blocks
}

/// What happened to memory up to a time, for each device.
fn traces(history: &History, time_ns: u64, frames: &mut Frames<'_>) -> Vec<Vec<TraceEntry>> {
    let devices = history.devices.keys().max().map_or(0, |device| *device as usize + 1);
    let mut traces: Vec<Vec<TraceEntry>> = vec![Vec::new(); devices];
    for block in history.lives.blocks() {
        let Some(trace) = block.device().and_then(|device| traces.get_mut(device as usize)) else {
            continue;
        };
        let of_block = frames.of(block);
        let mut put = |action: Action, at: Option<u64>| {
            if let Some(at) = at.filter(|at| *at <= time_ns) {
                trace.push(TraceEntry {
                    action,
                    addr: block.address as u64,
                    size: block.bytes,
                    stream: stream_of(block),
                    time_ns: at,
                    time_us: (history.header.start_unix_ns + at) / 1000,
                    frames: of_block.clone(),
                });
            }
        };
        if block.is_outer() {
            put(Action::SegmentAlloc, Some(block.made_ns));
            put(Action::SegmentFree, block.freed_ns);
        }
        if !(block.is_outer() && block.is_divided) {
            put(Action::Alloc, Some(block.made_ns));
            put(Action::FreeRequested, block.freed_ns);
            put(Action::FreeCompleted, block.freed_ns.and(block.reusable_ns.or(block.freed_ns)));
        }
    }
    for trace in &mut traces {
        trace.sort_by_key(|entry| (entry.time_ns, entry.action));
    }
    traces
}
