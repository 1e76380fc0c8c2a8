//! `guard`: finds writes beside a block, and overwrites memory that is given back.
//!
//! ```text
//!        front, a multiple of the alignment            back
//!  |···············| canary || the user's bytes || canary |
//!                            ^ address
//! ```

use super::Layer;
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::memory::allocator::{Allocator, RawBlock};
use crate::memory::raw::Extent;
use crate::memory::request::Request;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::task::{Body, Location, Span, Task, Work};
use std::collections::HashMap;

/// Bytes of a canary, on each side of a block.
pub const CANARY: usize = 512;
/// Freed memory is filled with this. As half precision it is not a number, as
/// single precision -4.2e37.
pub const POISON: u8 = 0xfd;
/// How many damaged bytes an error message shows.
const MAX_SHOWN: usize = 8;

/// Puts a canary before each block and one after it, checks them when the block is freed or
/// [`Layer::inspect`] is called, and requests that the memory be poisoned when it is released
/// ([`RawBlock::poison`]).
///
/// **Streams.** A block taken for a stream may still be used by earlier work of that stream. So there
/// canaries are written and checked by tasks in the stream, and what they find surfaces at its
/// synchronize. Without a stream the memory is idle when it is taken, and the calling thread does both.
///
/// **What it costs.** A table entry and, in memory, the alignment and [`CANARY`] bytes a block.
pub struct Guard {
    canaries: bool,
    blocks: Mutex<HashMap<usize, Arc<GuardedBlock>>>,
}

/// An outstanding block, and the canaries beside it.
struct GuardedBlock {
    address: usize,
    bytes: u64,
    front: Extent,
    back: Extent,
    /// True once the canaries are written; never, if the stream dropped the task.
    has_canaries: AtomicBool,
}

impl Guard {
    /// A guard that poisons and, if requested, puts canaries.
    pub fn new(canaries: bool) -> Guard {
        Guard { canaries, blocks: Mutex::new(Rank::Layer, HashMap::new()) }
    }

    /// Puts canaries around a block that `request` got from `below`.
    fn add_canaries(
        &self,
        request: &Request<'_>,
        block: &RawBlock,
        below: &dyn Allocator,
    ) -> Result<()> {
        let front = (block.address - request.front as usize).wrapping_sub(CANARY);
        let back = block.address + (block.bytes + request.back) as usize;
        let (Some(front), Some(back)) = (below.extent(front, CANARY), below.extent(back, CANARY))
        else {
            log::warn!("guard: {} leaves no padding beside its blocks; no canaries", below.name());
            return Ok(());
        };
        let guarded = Arc::new(GuardedBlock {
            address: block.address,
            bytes: block.bytes,
            front,
            back,
            has_canaries: AtomicBool::new(false),
        });
        match request.stream {
            None => guarded.write_canaries(),
            Some(stream) => {
                let [front, back] = guarded.spans();
                stream.submit(Task {
                    name: "guard_arm",
                    reads: Default::default(),
                    writes: [front, back].into_iter().collect(),
                    body: Body::Work(Arc::new(WriteCanaries(guarded.clone()))),
                })?;
            }
        }
        self.blocks.lock().insert(block.address, guarded);
        Ok(())
    }
}

impl Layer for Guard {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn allocate(&self, request: &Request<'_>, below: &dyn Allocator) -> Result<RawBlock> {
        if !self.canaries || request.bytes == 0 {
            return below.allocate(request);
        }
        let padded = Request {
            front: request.front.saturating_add(request.align.max(CANARY as u64)),
            back: request.back.saturating_add(CANARY as u64),
            ..*request
        };
        let block = below.allocate(&padded)?;
        match self.add_canaries(request, &block, below) {
            Ok(()) => Ok(block),
            Err(error) => {
                let _ = free_and_report(block, request.stream, below, Err(error.clone()));
                Err(error)
            }
        }
    }

    fn free(
        &self,
        mut block: RawBlock,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<()> {
        let guarded = self.blocks.lock().remove(&block.address);
        let checked = match (guarded, stream) {
            (None, _) => Ok(()),
            (Some(guarded), None) => guarded.check(),
            (Some(guarded), Some(stream)) => {
                let check = Task {
                    name: "guard_check",
                    reads: guarded.spans().into_iter().collect(),
                    writes: Default::default(),
                    body: Body::Work(Arc::new(CheckCanaries(guarded.clone()))),
                };
                // A stream that takes no more tasks has none that could still write there.
                stream.submit(check).map(drop).or_else(|_| guarded.check())
            }
        };
        block.poison = Some(POISON);
        free_and_report(block, stream, below, checked)
    }

    fn inspect(&self) -> Vec<String> {
        let guarded: Vec<_> = self.blocks.lock().values().cloned().collect();
        guarded.iter().filter_map(|block| block.check().err()).map(|error| error.text).collect()
    }

    fn inspect_before_release(&self, is_released: &dyn Fn(usize) -> bool) -> Vec<String> {
        let ended: Vec<_> = self
            .blocks
            .lock()
            .extract_if(|&address, _| is_released(address))
            .map(|(_, block)| block)
            .collect();
        ended.iter().filter_map(|block| block.check().err()).map(|error| error.text).collect()
    }
}

/// Frees a block and returns the first problem; a second one is logged.
fn free_and_report(
    block: RawBlock,
    stream: Option<&Arc<Stream>>,
    below: &dyn Allocator,
    problem: Result<()>,
) -> Result<()> {
    let freed = below.free(block, stream);
    if let (Err(_), Err(second)) = (&problem, &freed) {
        log::error!("{}: {}", below.name(), second.text);
    }
    problem.and(freed)
}

struct WriteCanaries(Arc<GuardedBlock>);
struct CheckCanaries(Arc<GuardedBlock>);

impl Work for WriteCanaries {
    fn run(&self) -> Result<()> {
        self.0.write_canaries();
        Ok(())
    }
}

impl Work for CheckCanaries {
    fn run(&self) -> Result<()> {
        self.0.check()
    }
}

impl GuardedBlock {
    fn spans(&self) -> [Span; 2] {
        [&self.front, &self.back].map(|extent| Span {
            address: extent.address(),
            bytes: extent.len(),
            location: Location::AnyDevice,
        })
    }

    fn write_canaries(&self) {
        for extent in [&self.front, &self.back] {
            extent.write(&canary(extent.address()));
        }
        self.has_canaries.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<()> {
        if !self.has_canaries.load(Ordering::Acquire) {
            return Ok(());
        }
        let damages: Vec<_> = [("before", &self.front), ("after", &self.back)]
            .into_iter()
            .filter_map(|(side, extent)| self.damage(side, extent))
            .collect();
        match damages.is_empty() {
            true => Ok(()),
            false => Err(Error::new(
                Code::MemoryFree,
                format!(
                    "guard: somebody wrote beside the block {:#x} of {} bytes: {}",
                    self.address,
                    self.bytes,
                    damages.join("; ")
                ),
            )),
        }
    }

    /// Describes the damage of one canary.
    fn damage(&self, side: &str, extent: &Extent) -> Option<String> {
        let (found, expected) = (extent.read(), canary(extent.address()));
        let is_damaged = |index: &usize| found[*index] != expected[*index];
        let first = (0..CANARY).find(is_damaged)?;
        let count = (0..CANARY).filter(is_damaged).count();
        let shown: Vec<_> =
            found[first..].iter().take(MAX_SHOWN).map(|byte| format!("{byte:02x}")).collect();
        let offset = (extent.address() + first) as i64 - self.address as i64;
        let bytes = if count == 1 { "byte" } else { "bytes" };
        Some(format!(
            "{count} {bytes} {side} it, the first at offset {offset}, where {} was found",
            shown.join(" ")
        ))
    }
}

/// The bytes of a canary at this address. They follow no pattern, and none is a byte that programs often write: the
/// highest bit is set, and 0xff is not among them.
fn canary(address: usize) -> [u8; CANARY] {
    std::array::from_fn(|index| {
        let word = ((address + index) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let byte = 0x80 | (word >> 56) as u8 & 0x7f;
        if byte == 0xff { 0x93 } else { byte }
    })
}
