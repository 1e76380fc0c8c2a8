//! Why there is no memory, and what to do.

use super::Memory;
use super::arena::{Arena, Usage};
use super::request::Request;
use crate::error::{Code, Error};

/// What stood in the way of a request.
pub(super) enum Cause {
    /// There is not so much.
    Full,
    /// Somebody below refused, for this reason.
    Refused(String),
    /// The pool that was asked may take no more than this; `u64::MAX` if it has no limit of its own.
    OverLimit(u64),
}

impl Memory {
    /// The error of a request for memory of an arena, with the figures that explain it and a way out.
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
            Cause::OverLimit(most) => format!("; the pool may take at most {most} bytes"),
        };
        let text = format!(
            "out of memory on {}: asked {}{padding}, free {free}, capacity {}, live {}, freed but still waiting for a stream {}, largest hole {}, largest owners: {owners}{reason}. What to do: {}",
            arena.name,
            asked(request.bytes),
            arena.capacity,
            usage.live,
            usage.waiting,
            usage.largest_hole,
            self.way_out(arena, request, cause, &usage, free)
        );
        Error::new(Code::MemoryAllocation, text)
    }

    fn way_out(
        &self,
        arena: &Arena,
        request: &Request<'_>,
        cause: &Cause,
        usage: &Usage,
        free: u64,
    ) -> &'static str {
        let whole = request.whole().unwrap_or(u64::MAX);
        let of_device = !std::ptr::eq(arena, &*self.host);
        match cause {
            _ if whole > arena.capacity && of_device => {
                "ask for less; a device has as much as CAIRN_DEVICE_MEMORY says, and the machine can give"
            }
            _ if whole > arena.capacity => "ask for less; that is all the machine can give",
            Cause::OverLimit(most) if *most < u64::MAX => {
                "give blocks of the pool back, or make it with a larger maxSize"
            }
            _ if free < whole && whole <= arena.capacity - usage.live => {
                "free memory of other devices, pinned memory, or memory of other processes: they share what the machine, or the control group, can give"
            }
            _ if free < whole && of_device => {
                "free memory, use smaller batches, or set CAIRN_DEVICE_MEMORY higher"
            }
            _ if free < whole => "free pinned memory",
            Cause::Refused(_) => {
                "free memory, or see to it that the system gives this process more"
            }
            _ if usage.waiting > 0 => {
                "synchronize the streams that may still use freed memory, and try again"
            }
            _ => {
                "the free memory is in pieces: free some of what lies between, and take large blocks first"
            }
        }
    }
}

/// A number of bytes as it was asked for; one that can only be a negative number is shown as that too.
fn asked(bytes: u64) -> String {
    match i64::try_from(bytes) {
        Ok(bytes) => format!("{bytes} bytes"),
        Err(_) => format!("{bytes} bytes, {} as a signed number,", bytes as i64),
    }
}
