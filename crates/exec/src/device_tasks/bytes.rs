//! Bytes of devices that a task of the runtime reads and writes itself.

use cairn_runtime::error::Result;
use cairn_runtime::memory::Memory;
use cairn_runtime::task::{Body, Location, Span, Task, Work};
use std::sync::Arc;

/// Reads device memory; fails if the bytes are not on a device.
pub fn read_bytes<const N: usize>(
    name: &'static str,
    memory: &Memory,
    address: usize,
) -> Result<[u8; N]> {
    let mut bytes = [0u8; N];
    let from = Span { address, bytes: N, location: Location::AnyDevice };
    let to = Span { address: bytes.as_mut_ptr() as usize, bytes: N, location: Location::Any };
    memory.perform(&Task::copy(name, from, to))?;
    Ok(bytes)
}

/// Writes memory at a place; fails if it is not there.
pub fn write_bytes(
    name: &'static str,
    memory: &Memory,
    (address, location): (usize, Location),
    bytes: &[u8],
) -> Result<()> {
    let from =
        Span { address: bytes.as_ptr() as usize, bytes: bytes.len(), location: Location::Any };
    memory.perform(&Task::copy(name, from, Span { address, bytes: bytes.len(), location }))
}

/// A function as the work of a task.
struct Closure<F>(F);

impl<F: Fn() -> Result<()> + Send + Sync> Work for Closure<F> {
    fn run(&self) -> Result<()> {
        (self.0)()
    }
}

/// The body of a task that runs a function.
pub fn work(run: impl Fn() -> Result<()> + Send + Sync + 'static) -> Body {
    Body::Work(Arc::new(Closure(run)))
}
