//! How a call enters and leaves the library: counted, known as the site of what happens inside, guarded against
//! panics and forks, its error message kept for the calling thread.

use crate::abi::Entry;
use crate::code::{AclError, aclError};
use cairn_runtime::Runtime;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::record::site;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Defines functions that return `aclError`. The body gives `Result<()>`; `?` works in it. Each is
/// pinned to the signature that the headers declare.
macro_rules! entry {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::code::aclError {
            $crate::door::status($crate::abi::Entry::$name, || -> cairn_runtime::error::Result<()> { $body })
        }
        const _: $crate::abi::signature::$name = $name;
    )*};
}

/// Defines functions that return `aclError` and give a handle or address through their first argument,
/// whose name in the headers is the string. The body gives `Result<usize>`; after any failure
/// the argument points to null.
macro_rules! out_entry {
    ($($(#[$meta:meta])* fn $name:ident($out:ident = $text:literal $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($out: *mut $crate::door::Handle $(, $arg: $ty)*) -> $crate::code::aclError {
            // SAFETY: the user passes null or a pointer to the handle.
            unsafe {
                $crate::door::give($crate::abi::Entry::$name, $out, $text, || -> cairn_runtime::error::Result<usize> { $body })
            }
        }
        const _: $crate::abi::signature::$name = $name;
    )*};
}

/// Defines functions that return a value. The body gives `Result<T>`; an error leaves its text and
/// returns the value after `else`.
macro_rules! value_entry {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, else $failed:expr, $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            match $crate::door::value($crate::abi::Entry::$name, || -> cairn_runtime::error::Result<$ret> { $body }) {
                Some(value) => value,
                None => $failed,
            }
        }
        const _: $crate::abi::signature::$name = $name;
    )*};
}

pub(crate) use {entry, out_entry, value_entry};

/// How often each entry point succeeded and failed; written out when `CAIRN_COVERAGE` asks for it.
pub static COUNTS: [[AtomicU64; 2]; Entry::COUNT] =
    [const { [const { AtomicU64::new(0) }; 2] }; Entry::COUNT];

/// A function that the program called: the name for messages, and how often it succeeded and failed.
#[derive(Clone, Copy)]
pub struct EntryPoint {
    /// The function's name.
    pub name: &'static str,
    /// Successes, failures.
    pub counts: &'static [AtomicU64; 2],
}

impl From<Entry> for EntryPoint {
    fn from(entry: Entry) -> EntryPoint {
        EntryPoint { name: Entry::NAMES[entry as usize], counts: &COUNTS[entry as usize] }
    }
}

/// What a child process gets from every call after a fork of an initialised parent.
pub const FORKED: &CStr = c"this process was forked from one that uses devices; device memory and \
streams are not inherited. Start a new process instead (spawn, not fork)";

thread_local! {
    static LAST_CODE: Cell<i32> = const { Cell::new(0) };
}

/// The runtime of this process, started on first use.
pub fn runtime() -> Result<&'static Runtime> {
    crate::process::runtime()
}

/// Runs the body of a function that returns `aclError`.
pub fn status(entry_point: impl Into<EntryPoint>, body: impl FnOnce() -> Result<()>) -> aclError {
    if crate::process::forked() {
        return Err(Code::RtInternal.into());
    }
    let entry_point = entry_point.into();
    let result = site::enter(entry_point.name, || guarded(body));
    if crate::process::forked() {
        // A callback forked, and this is the child.
        return Err(Code::RtInternal.into());
    }
    match result {
        Ok(()) => {
            entry_point.counts[0].fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(report(entry_point, error)),
    }
}

/// Runs the body of a function that gives a handle or address.
///
/// # Safety
/// `out` is null or points to writable memory for a handle.
pub unsafe fn give(
    entry: Entry,
    out: *mut Handle,
    name: &str,
    body: impl FnOnce() -> Result<usize>,
) -> aclError {
    if !out.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { out.write_unaligned(std::ptr::null_mut()) };
    }
    status(entry, || {
        not_null(out, name)?;
        let created = body()?;
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { write(out, name, created as Handle) }
    })
}

/// Runs the body of a function that returns a value; `None` after a failure.
pub fn value<T>(entry: Entry, body: impl FnOnce() -> Result<T>) -> Option<T> {
    if crate::process::forked() {
        return None;
    }
    match site::enter(EntryPoint::from(entry).name, || guarded(body)) {
        Ok(value) => {
            count(entry, 0);
            Some(value)
        }
        Err(error) => {
            report(entry.into(), error);
            None
        }
    }
}

/// Counts a call: outcome 0 is success, 1 failure.
pub fn count(entry: Entry, outcome: usize) {
    COUNTS[entry as usize][outcome].fetch_add(1, Ordering::Relaxed);
}

/// Runs a body; a panic is an error.
fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(Error::internal(&*panic)))
}

/// Counts a failure, logs it and keeps its message for the thread.
fn report(entry_point: EntryPoint, error: Error) -> AclError {
    entry_point.counts[1].fetch_add(1, Ordering::Relaxed);
    let name = entry_point.name;
    let code = AclError::from(error.code);
    set_last_code(code.number());
    let text = crate::message::without_name(name, &error.text);
    log::error!("{name}: {text} ({})", code.number());
    crate::message::keep(name, code.number(), text);
    code
}

/// Keeps the code of a failure for this thread.
pub fn set_last_code(code: i32) {
    LAST_CODE.with(|c| c.set(code));
}

/// The code of this thread's last failure; `take` clears it.
pub fn last_code(take: bool) -> i32 {
    LAST_CODE.with(|c| if take { c.replace(0) } else { c.get() })
}

/// Writes through an out-pointer of the user.
///
/// # Safety
/// `out` is null or points to writable memory for a `T`.
pub unsafe fn write<T>(out: *mut T, name: &str, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Error::null(name));
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Fails for a null pointer.
pub fn not_null<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() { Err(Error::null(name)) } else { Ok(()) }
}

/// A C string of the user.
///
/// # Safety
/// `text` is null or a NUL-terminated string.
pub unsafe fn string(text: *const c_char, name: &str) -> Result<String> {
    not_null(text, name)?;
    // SAFETY: not null, and the caller vouches for the terminator.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A handle as the C interface carries it.
pub type Handle = *mut c_void;
