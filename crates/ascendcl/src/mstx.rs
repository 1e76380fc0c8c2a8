//! Marks of a program for tools: moments, ranges, and the parts of its memory that it uses. They are emitted and nothing
//! else; a mark before the first call that starts the engine is lost.

use crate::abi::{MSTX_INVALID_ID, MSTX_MEM_REGION_REF_TYPE_POINTER};
use crate::abi::{
    mstxDomainHandle_t, mstxMemHeapDesc_t, mstxMemHeapHandle_t, mstxMemRegionsRegisterBatch_t,
    mstxMemRegionsUnregisterBatch_t, mstxMemVirtualRangeDesc_t, mstxRangeId,
};
use crate::door::{Handle, not_null, string, value_entry};
use crate::process;
use cairn_runtime::error::{Error, Result};
use cairn_runtime::record::{Change, Event, Kind};
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The most bytes of a domain's name; names are kept for the life of the process.
const MAX_NAME: usize = 256;

/// The most domains that a process may have.
const MAX_DOMAINS: usize = 1024;

/// Domains by name. A handle is the address of the name.
static DOMAINS: Mutex<BTreeMap<&'static str, usize>> = Mutex::new(BTreeMap::new());

/// The number of the last range.
static RANGES: AtomicU64 = AtomicU64::new(MSTX_INVALID_ID as u64);

/// The domain of a name, made when it is new.
fn domain(name: String) -> Result<usize> {
    let mut domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = domains.get(name.as_str()) {
        return Ok(*handle);
    }
    if name.len() > MAX_NAME {
        let bytes = name.len();
        return Err(Error::invalid(format!("name has {bytes} bytes: at most {MAX_NAME}")));
    }
    if domains.len() == MAX_DOMAINS {
        return Err(Error::invalid(format!("there are {MAX_DOMAINS} domains already")));
    }
    // A domain of an empty name needs an address too.
    let name: &'static str = Box::leak(format!("{name}\0").into_boxed_str());
    let (handle, name) = (name.as_ptr() as usize, name.trim_end_matches('\0'));
    domains.insert(name, handle);
    Ok(handle)
}

/// The name of a domain; null is the one without a name.
fn domain_name(handle: mstxDomainHandle_t) -> Result<&'static str> {
    if handle.is_null() {
        return Ok("");
    }
    let domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = domains.iter().find(|(_, known)| **known == handle as usize);
    let name = found.map(|(name, _)| *name);
    name.ok_or_else(|| {
        Error::invalid(format!("{handle:p} is not a domain: mstxDomainCreateA makes one"))
    })
}

/// Emits a mark, if somebody listens.
fn emit_mark(range: u64, text: &str, change: Change) {
    if let Some(runtime) = process::started() {
        runtime.shared.spine.emit(Kind::Mark, || Event::Mark { range, text, change });
    }
}

/// Marks this moment.
fn mark(domain: mstxDomainHandle_t, message: *const c_char) -> Result<()> {
    let name = domain_name(domain)?;
    // SAFETY: the user passes null or a string.
    let message = unsafe { string(message, "message") }?;
    emit_mark(0, &with_domain(name, message), Change::Created);
    Ok(())
}

/// Begins a range.
fn begin_range(domain: mstxDomainHandle_t, message: *const c_char) -> Result<mstxRangeId> {
    let name = domain_name(domain)?;
    // SAFETY: the user passes null or a string.
    let message = unsafe { string(message, "message") }?;
    let range = RANGES.fetch_add(1, Ordering::Relaxed) + 1;
    emit_mark(range, &with_domain(name, message), Change::Created);
    Ok(range)
}

/// Ends a range.
fn end_range(range: mstxRangeId) -> Result<()> {
    let last = RANGES.load(Ordering::Relaxed);
    if range == MSTX_INVALID_ID as u64 || range > last {
        return Err(Error::invalid(format!("{range} is not the id of a range that was begun")));
    }
    emit_mark(range, "", Change::Destroyed);
    Ok(())
}

fn with_domain(name: &str, message: String) -> String {
    if name.is_empty() { message } else { format!("{name}: {message}") }
}

/// Emits that regions begin.
///
/// # Safety
/// `batch` is null or describes that many regions.
unsafe fn register(
    domain: mstxDomainHandle_t,
    batch: *const mstxMemRegionsRegisterBatch_t,
) -> Result<()> {
    let domain = domain_name(domain)?;
    not_null(batch, "desc")?;
    // SAFETY: not null; the user passes this struct.
    let batch = unsafe { batch.read_unaligned() };
    let regions = batch.regionDescArray.cast::<mstxMemVirtualRangeDesc_t>();
    if batch.regionCount > 0 {
        not_null(regions, "desc->regionDescArray")?;
    }
    let Some(runtime) = process::started() else { return Ok(()) };
    for index in 0..batch.regionCount {
        // SAFETY: the user has that many.
        let region = unsafe { regions.add(index).read_unaligned() };
        let (device, address, bytes) = (region.deviceId, region.ptr as usize, region.size);
        runtime.shared.spine.emit(Kind::Region, || Event::Region {
            device,
            address,
            bytes,
            domain,
            change: Change::Created,
        });
    }
    Ok(())
}

/// Emits that regions end.
///
/// # Safety
/// `batch` is null or names that many regions.
unsafe fn unregister(
    domain: mstxDomainHandle_t,
    batch: *const mstxMemRegionsUnregisterBatch_t,
) -> Result<()> {
    let domain = domain_name(domain)?;
    not_null(batch, "desc")?;
    // SAFETY: not null; the user passes this struct.
    let batch = unsafe { batch.read_unaligned() };
    if batch.refCount > 0 {
        not_null(batch.refArray, "desc->refArray")?;
    }
    let Some(runtime) = process::started() else { return Ok(()) };
    for index in 0..batch.refCount {
        // SAFETY: the user has that many.
        let region = unsafe { batch.refArray.add(index).read_unaligned() };
        if region.refType != MSTX_MEM_REGION_REF_TYPE_POINTER {
            return Err(Error::invalid(format!(
                "desc->refArray[{index}].refType {}: expected MSTX_MEM_REGION_REF_TYPE_POINTER (0), regions have no handles here",
                region.refType
            )));
        }
        // SAFETY: the type says that it is a pointer.
        let address = unsafe { region.__bindgen_anon_1.pointer } as usize;
        runtime.shared.spine.emit(Kind::Region, || Event::Region {
            device: 0,
            address,
            bytes: 0,
            domain,
            change: Change::Destroyed,
        });
    }
    Ok(())
}

value_entry! {
    /// Marks this moment.
    fn mstxMarkA(message: *const c_char, _stream: Handle) -> (), else (), {
        mark(null_mut(), message)
    }

    /// Begins a range.
    fn mstxRangeStartA(message: *const c_char, _stream: Handle) -> mstxRangeId, else MSTX_INVALID_ID.into(), {
        begin_range(null_mut(), message)
    }

    /// Ends a range.
    fn mstxRangeEnd(id: mstxRangeId) -> (), else (), {
        end_range(id)
    }

    /// The domain of a name.
    fn mstxDomainCreateA(name: *const c_char) -> mstxDomainHandle_t, else null_mut(), {
        // SAFETY: the user passes null or a string.
        Ok(domain(unsafe { string(name, "name") }?)? as mstxDomainHandle_t)
    }

    /// A domain is no longer used. Its name is kept: another part of the program may have created it too.
    fn mstxDomainDestroy(handle: mstxDomainHandle_t) -> (), else (), {
        domain_name(handle).map(drop)
    }

    /// Marks this moment.
    fn mstxDomainMarkA(handle: mstxDomainHandle_t, message: *const c_char, _stream: Handle) -> (), else (), {
        mark(handle, message)
    }

    /// Begins a range.
    fn mstxDomainRangeStartA(handle: mstxDomainHandle_t, message: *const c_char, _stream: Handle) -> mstxRangeId, else MSTX_INVALID_ID.into(), {
        begin_range(handle, message)
    }

    /// Ends a range.
    fn mstxDomainRangeEnd(handle: mstxDomainHandle_t, id: mstxRangeId) -> (), else (), {
        domain_name(handle)?;
        end_range(id)
    }

    /// The program hands out parts of this memory. What the memory is, the engine knows already.
    fn mstxMemHeapRegister(domain: mstxDomainHandle_t, desc: *const mstxMemHeapDesc_t) -> mstxMemHeapHandle_t, else null_mut(), {
        domain_name(domain)?;
        not_null(desc, "desc")?;
        // SAFETY: not null; the user passes this struct.
        let range = unsafe { desc.read_unaligned() }.typeSpecificDesc.cast::<mstxMemVirtualRangeDesc_t>();
        not_null(range, "desc->typeSpecificDesc")?;
        // SAFETY: not null; the user passes this struct.
        Ok(unsafe { range.read_unaligned() }.ptr as mstxMemHeapHandle_t)
    }

    /// Ends that.
    fn mstxMemHeapUnregister(domain: mstxDomainHandle_t, _heap: mstxMemHeapHandle_t) -> (), else (), {
        domain_name(domain).map(drop)
    }

    /// The program begins to use these parts of its memory.
    fn mstxMemRegionsRegister(domain: mstxDomainHandle_t, desc: *const mstxMemRegionsRegisterBatch_t) -> (), else (), {
        // SAFETY: the user passes null or this struct.
        unsafe { register(domain, desc) }
    }

    /// It ceases to.
    fn mstxMemRegionsUnregister(domain: mstxDomainHandle_t, desc: *const mstxMemRegionsUnregisterBatch_t) -> (), else (), {
        // SAFETY: the user passes null or this struct.
        unsafe { unregister(domain, desc) }
    }
}
