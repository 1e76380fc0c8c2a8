//! The C functions of `cairn/pool.h`.

use crate::acl::Handle;
use crate::blocks::{self, Caller};
use crate::devices::Device;
use crate::report::Report;
use crate::streams::{self, FreePath};
use crate::{desc, events, json, process, text};
use cairn_pool::GRANULE;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

const MALLOC: Caller = Caller { function: "cairn_malloc", free_path: None };
const FREE: Caller = Caller { function: "cairn_free", free_path: None };
const POOL_MALLOC: Caller =
    Caller { function: "cairn_pool_malloc", free_path: Some(FreePath::Direct) };
const POOL_FREE: Caller = Caller { function: "cairn_pool_free", free_path: Some(FreePath::Direct) };

/// Runs the body of a C function; a panic is reported as an internal error, and `failed` returned.
#[inline]
pub fn guarded<T>(function: &str, failed: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        text::fail(function, "internal error of the pool, please report it");
        failed
    })
}

/// Runs the body of a function that returns 0 or -1.
fn status(function: &str, body: impl FnOnce() -> Result<(), String>) -> c_int {
    value(function, body).map_or(-1, |()| 0)
}

/// Runs the body of a function; `None` after a failure, which it reports.
fn value<T>(function: &str, body: impl FnOnce() -> Result<T, String>) -> Option<T> {
    if process::forked() {
        return None;
    }
    guarded(function, None, || body().map_err(|reason| text::fail(function, &reason)).ok())
}

/// `cairn_malloc` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_malloc(size: isize, device: c_int, stream: Handle) -> *mut c_void {
    guarded(MALLOC.function, null_mut(), || match u64::try_from(size) {
        Ok(size) => blocks::allocate(MALLOC, size, device, stream),
        Err(_) => {
            text::fail(MALLOC.function, &format!("a size of {size} bytes"));
            null_mut()
        }
    })
}

/// `cairn_free` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_free(block: *mut c_void, size: isize, device: c_int, stream: Handle) {
    guarded(FREE.function, false, || blocks::free(FREE, block, Some(size as u64), device, stream));
}

/// `cairn_pool_malloc` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_malloc(size: usize, device: c_int, stream: Handle) -> *mut c_void {
    guarded(POOL_MALLOC.function, null_mut(), || {
        blocks::allocate(POOL_MALLOC, size as u64, device, stream)
    })
}

/// `cairn_pool_free` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_free(block: *mut c_void, device: c_int, stream: Handle) -> c_int {
    let is_freed =
        guarded(POOL_FREE.function, false, || blocks::free(POOL_FREE, block, None, device, stream));
    if is_freed { 0 } else { -1 }
}

/// `cairn_pool_synchronized` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_synchronized(device: c_int) -> c_int {
    status("cairn_pool_synchronized", || {
        let device = Device::open(device)?;
        events::on_synchronize(device.id);
        device.sweep();
        Ok(())
    })
}

/// `cairn_pool_record_stream` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_record_stream(block: *mut c_void, stream: Handle) -> c_int {
    status("cairn_pool_record_stream", || {
        let not_held = || format!("{block:?} is no block that is held");
        let device = Device::holding(block as u64).ok_or_else(not_held)?;
        let (_, owner) = device.pool.find(block as u64).ok_or_else(not_held)?;
        let (_, free_path) = streams::by_index(owner);
        let user = match streams::find(stream) {
            Some(user) => user,
            None => device.stream(stream)?,
        };
        device.pool.record_use(block as u64, user.index(free_path)).map_err(|_| not_held())
    })
}

/// `cairn_pool_trim` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_trim(device: c_int, keep: usize) -> usize {
    let trimmed = value("cairn_pool_trim", || Ok(blocks::trim(Device::open(device)?, keep as u64)));
    trimmed.unwrap_or(0) as usize
}

/// `cairn_pool_empty_cache` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_empty_cache(_check_error: bool) {
    value("cairn_pool_empty_cache", || {
        Ok(Device::all().map(|device| blocks::trim(device, 0)).sum::<u64>())
    });
}

/// `cairn_pool_set_fraction` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_set_fraction(fraction: f64, device: c_int) -> c_int {
    status("cairn_pool_set_fraction", || {
        if !(fraction > 0.0 && fraction <= 1.0) {
            return Err(format!("a fraction of {fraction}: expected more than 0 and at most 1"));
        }
        let device = Device::open(device)?;
        let (total, _) = device.capacity()?;
        let budget = (total as f64 * fraction) as u64 / GRANULE * GRANULE;
        if budget == 0 {
            return Err(format!(
                "a fraction of {fraction}: that is less than one block of {GRANULE} bytes of the \
                 {total} that device {} has; the budget stays as it was",
                device.id
            ));
        }
        device.pool.source().set_limit(budget);
        device.pool.set_budget(budget);
        if device.pool.figures().reserved > budget {
            blocks::trim(device, 0);
        }
        Ok(())
    })
}

/// `cairn_pool_figures` of the header.
///
/// # Safety
/// `figures` is null or is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cairn_pool_figures(device: c_int, figures: *mut Report) -> c_int {
    // SAFETY: the caller vouches for it.
    status("cairn_pool_figures", || unsafe {
        write(figures, || Ok(Report::for_device(Device::open(device)?)))
    })
}

/// `cairn_pool_stream_figures` of the header.
///
/// # Safety
/// `figures` is null or is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cairn_pool_stream_figures(
    device: c_int,
    stream: Handle,
    figures: *mut Report,
) -> c_int {
    let read = || {
        let device = Device::open(device)?;
        let stream = device.find_stream(stream);
        Ok(stream.map_or_else(Report::default, |stream| Report::for_stream(device, stream)))
    };
    // SAFETY: the caller vouches for it.
    status("cairn_pool_stream_figures", || unsafe { write(figures, read) })
}

/// `cairn_pool_json` of the header.
///
/// # Safety
/// `text` is valid for writes of `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cairn_pool_json(
    device: c_int,
    text: *mut c_char,
    capacity: usize,
) -> usize {
    let json = value("cairn_pool_json", || Ok(json::describe(Device::open(device)?)));
    let json = json.unwrap_or_default();
    if !text.is_null() && capacity > 0 {
        let length = json.len().min(capacity - 1);
        // SAFETY: length and the NUL after it fit into the buffer that the caller vouches for.
        unsafe {
            std::ptr::copy_nonoverlapping(json.as_ptr(), text.cast(), length);
            text.add(length).write(0);
        }
    }
    json.len()
}

/// `cairn_pool_reset_peak` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_reset_peak(device: c_int) -> c_int {
    status("cairn_pool_reset_peak", || {
        Device::open(device)?.pool.reset_peak();
        Ok(())
    })
}

/// `cairn_pool_last_error` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_last_error() -> *const c_char {
    text::take()
}

/// `cairn_pool_create_desc` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_create_desc(device: c_int, stream: Handle) -> Handle {
    value("cairn_pool_create_desc", || desc::create(device, stream)).unwrap_or(null_mut())
}

/// `cairn_pool_destroy_desc` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cairn_pool_destroy_desc(desc: Handle) -> c_int {
    status("cairn_pool_destroy_desc", || desc::destroy(desc))
}

/// Writes what `read` returns to `out`.
///
/// # Safety
/// `out` is null or is valid for writes of a `T`.
unsafe fn write<T>(out: *mut T, read: impl FnOnce() -> Result<T, String>) -> Result<(), String> {
    if out.is_null() {
        return Err("the pointer to the figures is NULL".into());
    }
    let value = read()?;
    // SAFETY: not null, and the caller vouches for it.
    unsafe { out.write_unaligned(value) };
    Ok(())
}
