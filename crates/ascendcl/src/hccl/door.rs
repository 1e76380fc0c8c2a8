//! How a call of HCCL enters and leaves the library: as those of ACL do, but with the codes of `HcclResult`.

use crate::abi::{Entry, HCCL_E_INTERNAL, HCCL_SUCCESS, HcclResult};
use crate::door::{EntryPoint, Handle};
use crate::{message, process};
use cairn_comm::{Code, Communicator, Error, Result};
use cairn_runtime::record::site;
use cairn_runtime::stream::Stream;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Defines functions that return `HcclResult`. The body gives `cairn_comm::Result<()>`; `?` works in it, also on results of
/// the runtime. Each is pinned to the signature that the headers declare.
macro_rules! entry {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::abi::HcclResult {
            $crate::hccl::door::status($crate::abi::Entry::$name, || -> cairn_comm::Result<()> { $body })
        }
        const _: $crate::abi::signature::$name = $name;
    )*};
}

pub(super) use entry;

/// Runs the body of a function that returns `HcclResult`.
pub fn status(entry: Entry, body: impl FnOnce() -> Result<()>) -> HcclResult {
    if process::forked() {
        return HCCL_E_INTERNAL;
    }
    let entry_point = EntryPoint::from(entry);
    let result = site::enter(entry_point.name, || {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
            Err(Error::new(Code::Internal, cairn_runtime::error::Error::internal(&*panic).text))
        })
    });
    if process::forked() {
        // A callback forked, and this is the child.
        return HCCL_E_INTERNAL;
    }
    match result {
        Ok(()) => {
            entry_point.counts[0].fetch_add(1, Ordering::Relaxed);
            HCCL_SUCCESS as HcclResult
        }
        Err(error) => {
            entry_point.counts[1].fetch_add(1, Ordering::Relaxed);
            let text = message::without_name(entry_point.name, &error.text);
            log::error!("{}: {text} ({})", entry_point.name, error.code as i32);
            message::keep(entry_point.name, error.code as i32, text);
            error.code as HcclResult
        }
    }
}

/// Fails for a null pointer.
pub fn not_null<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() { Err(Error::null(name)) } else { Ok(()) }
}

/// Writes through an out-pointer of the user.
///
/// # Safety
/// `out` is null or points to writable memory for a `T`.
pub unsafe fn write<T>(out: *mut T, name: &str, value: T) -> Result<()> {
    not_null(out, name)?;
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// A C string of the user, at most `limit` bytes without its zero.
///
/// # Safety
/// `text` is null or a NUL-terminated string.
pub unsafe fn string(text: *const c_char, name: &str, limit: usize) -> Result<String> {
    not_null(text, name)?;
    // SAFETY: not null, and the caller vouches for the terminator.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_bytes().len() {
        length if length > limit => {
            Err(Error::parameter(format!("{name} has {length} bytes: at most {limit}")))
        }
        _ => Ok(text.to_string_lossy().into_owned()),
    }
}

/// An array of the user, copied. The number of elements is the caller's, who says that they are there.
///
/// # Safety
/// `array` is null or points to `count` readable elements.
pub unsafe fn array<T: Copy>(array: *const T, count: usize, name: &str) -> Result<Vec<T>> {
    not_null(array, name)?;
    // SAFETY: not null, and the caller vouches for `count` elements; alignment is not needed.
    Ok((0..count).map(|i| unsafe { array.add(i).read_unaligned() }).collect())
}

/// The communicator behind a handle: null is code 2, an unknown or destroyed one code 1.
pub fn communicator(handle: Handle) -> Result<Arc<Communicator>> {
    not_null(handle, "comm")?;
    let found = crate::door::runtime()?.handles.get::<Communicator>(handle as usize);
    found.map_err(|error| Error::parameter(error.text).of("comm"))
}

/// A stream of any context; null is code 2: operators take no default stream.
pub fn stream(handle: Handle) -> Result<Arc<Stream>> {
    not_null(handle, "stream")?;
    let found = crate::door::runtime()?.handles.get::<Stream>(handle as usize);
    found.map_err(|error| Error::parameter(error.text).of("stream"))
}

/// The device of the calling thread.
pub fn current_device() -> Result<u32> {
    Ok(crate::door::runtime()?.current_device()?)
}
