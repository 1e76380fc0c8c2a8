//! Ranges of addresses that a program names for operators without copies. Operators here use a program's memory in any case, so
//! the ranges are only kept: a program that names them wrongly learns it as on an NPU.

use super::door::{communicator, entry, not_null};
use crate::abi::{HcclComm, aclrtDrvMemHandle};
use cairn_comm::{Communicator, Error, Result};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A range of one communicator, with the parts that have memory.
struct MemoryRange {
    communicator: u64,
    base: usize,
    bytes: usize,
    active: Vec<(usize, usize)>,
}

static RANGES: Mutex<Vec<MemoryRange>> = Mutex::new(Vec::new());

fn ranges() -> MutexGuard<'static, Vec<MemoryRange>> {
    RANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn overlap(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1)
}

/// Fails for a range that no program has.
fn check_size(address: usize, bytes: usize) -> Result<()> {
    match bytes == 0 || address.checked_add(bytes).is_none() {
        true => Err(Error::parameter(format!("{bytes} bytes at {address:#x} are no range"))),
        false => Ok(()),
    }
}

fn check_zero(value: u64, name: &str) -> Result<()> {
    if value == 0 {
        Ok(())
    } else {
        Err(Error::parameter(format!("{name} is {value:#x}: expected 0")))
    }
}

/// Drops the ranges of a communicator that ended.
pub fn forget(communicator: &Communicator) {
    ranges().retain(|range| range.communicator != communicator.id());
}

entry! {
    /// Names a range.
    fn HcclCommSetMemoryRange(comm: HcclComm, base: *mut c_void, bytes: usize, alignment: usize, flags: u64) {
        let communicator = communicator(comm)?.id();
        not_null(base, "baseVirPtr")?;
        let base = base as usize;
        check_size(base, bytes)?;
        check_zero(alignment as u64, "alignment")?;
        check_zero(flags, "flags")?;
        let mut ranges = ranges();
        let others = ranges.iter().filter(|range| range.communicator == communicator);
        if let Some(other) = others.into_iter().find(|range| overlap((range.base, range.bytes), (base, bytes))) {
            return Err(Error::parameter(format!(
                "{bytes} bytes at {base:#x} overlap the range of {} bytes at {:#x}", other.bytes, other.base
            )));
        }
        ranges.push(MemoryRange { communicator, base, bytes, active: Vec::new() });
        Ok(())
    }

    /// Ends a range, of which no part is active.
    fn HcclCommUnsetMemoryRange(comm: HcclComm, base: *mut c_void) {
        let communicator = communicator(comm)?.id();
        not_null(base, "baseVirPtr")?;
        let mut ranges = ranges();
        let found = ranges.iter().position(|range| range.communicator == communicator && range.base == base as usize);
        let index = found.ok_or_else(|| Error::parameter(format!("no range begins at {base:p}")))?;
        if let Some((part, _)) = ranges[index].active.first() {
            return Err(Error::parameter(format!("the range at {base:p} is active at {part:#x}: call HcclCommDeactivateCommMemory first")));
        }
        ranges.remove(index);
        Ok(())
    }

    /// Names a part of a range that has memory.
    fn HcclCommActivateCommMemory(
        comm: HcclComm,
        part: *mut c_void,
        bytes: usize,
        offset: usize,
        handle: aclrtDrvMemHandle,
        flags: u64,
    ) {
        let communicator = communicator(comm)?.id();
        not_null(part, "virPtr")?;
        not_null(handle, "handle")?;
        let part = part as usize;
        check_size(part, bytes)?;
        check_zero(offset as u64, "offset")?;
        check_zero(flags, "flags")?;
        let mut ranges = ranges();
        let around = ranges.iter_mut().find(|range| {
            range.communicator == communicator && range.base <= part && part + bytes <= range.base + range.bytes
        });
        let range = around.ok_or_else(|| {
            Error::parameter(format!("{bytes} bytes at {part:#x} are in no range: call HcclCommSetMemoryRange first"))
        })?;
        if let Some((other, length)) = range.active.iter().find(|active| overlap(**active, (part, bytes))) {
            return Err(Error::parameter(format!(
                "{bytes} bytes at {part:#x} overlap the {length} active bytes at {other:#x}"
            )));
        }
        range.active.push((part, bytes));
        Ok(())
    }

    /// Ends a part.
    fn HcclCommDeactivateCommMemory(comm: HcclComm, part: *mut c_void) {
        let communicator = communicator(comm)?.id();
        not_null(part, "virPtr")?;
        let mut ranges = ranges();
        for range in ranges.iter_mut().filter(|range| range.communicator == communicator) {
            if let Some(index) = range.active.iter().position(|active| active.0 == part as usize) {
                range.active.remove(index);
                return Ok(());
            }
        }
        Err(Error::parameter(format!("no active memory begins at {part:p}")))
    }
}
