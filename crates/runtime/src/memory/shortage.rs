//! The error for a request that found no memory: why, and what to do.

use super::Memory;
use super::arena::{Arena, Usage};
use super::request::Request;
use crate::error::{Code, Error};

/// Why a request failed.
pub(super) enum Cause {
    /// The arena has not so much.
    Full,
    /// The maker or the kernel refused, for this reason.
    Refused(String),
    /// The pool that was asked may take no more than this; `u64::MAX` if it has no limit of its own.
    OverLimit(u64),
}

impl Memory {
    /// The error of a request for memory of an arena, with the figures that explain it and what to do.
    pub(super) fn out_of_memory(
        &self,
        arena: &Arena,
        request: &Request<'_>,
        cause: &Cause,
    ) -> Error {
        let usage = arena.usage();
        let free = arena.free_bytes();
        let padding = match request.front.saturating_add(request.back) {
            0 => String::new(),
            padding => format!(" and {padding} for layers"),
        };
        let owners = match self.owners(arena) {
            owners if owners.is_empty() => "nobody".into(),
            owners => owners,
        };
        let reason = match cause {
            Cause::Full => String::new(),
            Cause::Refused(reason) => format!("; {reason}"),
            Cause::OverLimit(u64::MAX) => "; the pool has no limit of its own".into(),
            Cause::OverLimit(limit) => format!("; the pool may take at most {limit} bytes"),
        };
        let text = format!(
            "out of memory on {}: asked {}{padding}, free {free}, capacity {}, live {}, freed but still waiting for a stream {}, largest hole {}, largest owners: {owners}{reason}. What to do: {}",
            arena.name,
            format_bytes(request.bytes),
            arena.capacity,
            usage.live,
            usage.waiting,
            usage.largest_hole,
            self.advice(arena, request, cause, &usage, free)
        );
        Error::new(Code::MemoryAllocation, text)
    }

    /// What to do, for the message.
    fn advice(
        &self,
        arena: &Arena,
        request: &Request<'_>,
        cause: &Cause,
        usage: &Usage,
        free: u64,
    ) -> &'static str {
        let bytes = request.padded_bytes().unwrap_or(u64::MAX);
        let of_device = !std::ptr::eq(arena, &*self.host);
        match cause {
            _ if bytes > arena.capacity && of_device => {
                "ask for less; a device has as much as CAIRN_DEVICE_MEMORY says, and the machine can give"
            }
            _ if bytes > arena.capacity => "ask for less; that is all the machine can give",
            Cause::OverLimit(limit) if *limit < u64::MAX => {
                "give blocks of the pool back, or make it with a larger maxSize"
            }
            _ if free < bytes && bytes <= arena.capacity - usage.live => {
                "free memory of other devices, pinned memory, or memory of other processes: they share what the machine, or the control group, can give"
            }
            _ if free < bytes && of_device => {
                "free memory, use smaller batches, or set CAIRN_DEVICE_MEMORY higher"
            }
            _ if free < bytes => "free pinned memory",
            Cause::Refused(_) => {
                "free memory, or see to it that the system gives this process more"
            }
            _ if usage.waiting > 0 => {
                "synchronize the streams that may still use freed memory, and try again"
            }
            _ if usage.live == 0 => {
                "try again: other processes take and give back the memory that all share"
            }
            _ => {
                "the free memory is in pieces: free some of what lies between, and take large blocks first"
            }
        }
    }
}

/// A number of bytes as it was requested; one that is probably a negative number is shown as that too.
fn format_bytes(bytes: u64) -> String {
    match i64::try_from(bytes) {
        Ok(bytes) => format!("{bytes} bytes"),
        Err(_) => format!("{bytes} bytes ({} as a signed number)", bytes as i64),
    }
}
