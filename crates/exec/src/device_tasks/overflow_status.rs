//! The overflow status of the process, in stream order.

use super::bytes::{read_bytes, work, write_bytes};
use cairn_runtime::shared::Shared;
use cairn_runtime::task::{Location, Span, Spans, Task};
use std::sync::Arc;

/// Bytes of the status in device memory.
pub const STATUS_BYTES: usize = 64;

/// The task that writes the status to an address on a device, or to the address that is there: 1 in its first four bytes if a
/// result was too large on a stream that saturates and checks.
pub fn write_status(
    name: &'static str,
    shared: &Arc<Shared>,
    (address, location): (usize, Location),
    is_behind_a_pointer: bool,
) -> Task {
    let bytes = if is_behind_a_pointer { size_of::<usize>() } else { STATUS_BYTES };
    let [mut reads, mut writes] = [Spans::default(), Spans::default()];
    let touched = if is_behind_a_pointer { &mut reads } else { &mut writes };
    touched.push(Span { address, bytes, location });
    let shared = shared.clone();
    let body = work(move || {
        let at = match is_behind_a_pointer {
            true => usize::from_le_bytes(read_bytes(name, &shared.memory, address)?),
            false => address,
        };
        let mut status = [0u8; STATUS_BYTES];
        status[0] = u8::from(shared.overflow.is_raised());
        write_bytes(name, &shared.memory, (at, location), &status)
    });
    Task { name, reads, writes, body }
}

/// The task that clears the status.
pub fn clear_status(name: &'static str, shared: &Arc<Shared>) -> Task {
    let shared = shared.clone();
    let body = work(move || {
        shared.overflow.reset();
        Ok(())
    });
    Task::bare(name, body)
}
