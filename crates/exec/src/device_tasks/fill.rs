//! Fills with numbers of four bytes.

use super::bytes::{work, write_bytes};
use cairn_runtime::error::Result;
use cairn_runtime::memory::Memory;
use cairn_runtime::task::{Location, Span, Spans, Task};
use std::sync::Arc;

/// Bytes that are written at a time.
const CHUNK: usize = 64 << 10;

/// `count` times the same number, side by side; they fit into the address space.
#[derive(Clone, Copy)]
pub struct Fill {
    /// Where they begin.
    pub address: usize,
    /// The number.
    pub value: u32,
    /// How many.
    pub count: usize,
    /// Where the memory has to be.
    pub location: Location,
}

/// Sets them, at once.
pub fn set_numbers(name: &'static str, memory: &Memory, fill: Fill) -> Result<()> {
    let pattern: Vec<u8> = fill.value.to_le_bytes().repeat(fill.count.min(CHUNK / 4));
    let (mut at, mut left) = (fill.address, 4 * fill.count);
    while left > 0 {
        let len = left.min(pattern.len());
        write_bytes(name, memory, (at, fill.location), &pattern[..len])?;
        (at, left) = (at + len, left - len);
    }
    Ok(())
}

impl Fill {
    /// The task that sets them.
    pub fn task(self, name: &'static str, memory: &Arc<Memory>) -> Task {
        let memory = memory.clone();
        let span = Span { address: self.address, bytes: 4 * self.count, location: self.location };
        let body = work(move || set_numbers(name, &memory, self));
        Task { name, reads: Spans::new(), writes: [span].into_iter().collect(), body }
    }
}
