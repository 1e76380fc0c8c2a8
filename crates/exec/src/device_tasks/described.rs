//! Copies whose addresses are in device memory when they run.

use super::bytes::{read_bytes, work};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::Memory;
use cairn_runtime::record::{Access, Mode};
use cairn_runtime::task::{Body, Location, Span, Spans, Task, Work};
use std::sync::Arc;

/// Bytes of a description in device memory: source, destination, size, and room.
pub const DESCRIPTION_BYTES: usize = 64;

/// A copy inside of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Where it reads.
    pub src: usize,
    /// Where it writes.
    pub dst: usize,
    /// How many bytes.
    pub bytes: usize,
}

impl Description {
    /// As it lies in device memory.
    pub fn encode(self) -> [u8; DESCRIPTION_BYTES] {
        let mut encoded = [0u8; DESCRIPTION_BYTES];
        for (at, number) in [self.src, self.dst, self.bytes].into_iter().enumerate() {
            encoded[8 * at..8 * at + 8].copy_from_slice(&number.to_le_bytes());
        }
        encoded
    }

    fn read(name: &'static str, memory: &Memory, address: usize) -> Result<Description> {
        let encoded: [u8; DESCRIPTION_BYTES] = read_bytes(name, memory, address)?;
        let numbers = encoded.as_chunks().0;
        let [src, dst, bytes] = std::array::from_fn(|at| usize::from_le_bytes(numbers[at]));
        Ok(Description { src, dst, bytes })
    }

    fn spans(self) -> [Span; 2] {
        let span = |address| Span { address, bytes: self.bytes, location: Location::AnyDevice };
        [span(self.src), span(self.dst)]
    }

    fn perform(self, name: &'static str, memory: &Memory) -> Result<()> {
        let [from, to] = self.spans();
        if self.src.abs_diff(self.dst) < self.bytes && self.src != self.dst {
            return Err(Error::refused(format!(
                "{name}: source {from} and destination {to} overlap"
            )));
        }
        memory.perform(&Task::copy(name, from, to))
    }
}

/// The work of a copy that device memory describes.
struct CopyDescribed {
    name: &'static str,
    memory: Arc<Memory>,
    address: usize,
    /// What the description says when the task is submitted, if somebody wants to know.
    expected: Option<Description>,
}

impl Work for CopyDescribed {
    fn run(&self) -> Result<()> {
        Description::read(self.name, &self.memory, self.address)?.perform(self.name, &self.memory)
    }

    fn each_access(&self, reads: &[Span], _: &[Span], report: &mut dyn FnMut(Access)) {
        for span in reads {
            report(Access::range(span.address, span.bytes as u64, Mode::Read));
        }
        if let Some(Description { src, dst, bytes }) = self.expected {
            report(Access::range(src, bytes as u64, Mode::Read));
            report(Access::range(dst, bytes as u64, Mode::Write));
        }
    }
}

/// A copy that device memory describes when the task runs. With `is_watched` the task tells those who listen what the description
/// says now: a task that is still queued could change it, which programs do not do, as only ACL knows the format.
pub fn copy_described(
    name: &'static str,
    memory: &Arc<Memory>,
    address: usize,
    is_watched: bool,
) -> Task {
    let expected = is_watched.then(|| Description::read(name, memory, address).ok()).flatten();
    let memory = memory.clone();
    let span = Span { address, bytes: DESCRIPTION_BYTES, location: Location::AnyDevice };
    Task {
        name,
        reads: [span].into_iter().collect(),
        writes: Spans::new(),
        body: Body::Work(Arc::new(CopyDescribed { name, memory, address, expected })),
    }
}

/// A copy of `bytes` between the addresses that are at `from` and `to` when the task runs, each with an offset. Those who listen
/// see that it reads these two addresses, not what it copies.
pub fn copy_with_offsets(
    name: &'static str,
    memory: &Arc<Memory>,
    from: (usize, usize),
    to: (usize, usize),
    bytes: usize,
) -> Task {
    let pointer = |address| Span { address, bytes: 8, location: Location::AnyDevice };
    let reads = [pointer(from.0), pointer(to.0)].into_iter().collect();
    let memory = memory.clone();
    let body = work(move || {
        let at = |(address, offset): (usize, usize)| -> Result<usize> {
            let start = usize::from_le_bytes(read_bytes(name, &memory, address)?);
            start.checked_add(offset).ok_or_else(|| {
                Error::refused(format!("{name}: {start:#x} + {offset} is no address"))
            })
        };
        Description { src: at(from)?, dst: at(to)?, bytes }.perform(name, &memory)
    });
    Task { name, reads, writes: Spans::new(), body }
}
