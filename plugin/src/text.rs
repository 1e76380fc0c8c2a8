//! Messages of failures: kept for the calling thread, and written to ACL's log.

use crate::acl::acl;
use crate::process;
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_char};
use std::io::Write;

const TEXT_BYTES: usize = 2048;

/// The last message of a thread. Without a destructor, so that threads may end in any order.
struct LastError {
    unread: bool,
    bytes: [u8; TEXT_BYTES],
}

thread_local! {
    static LAST: UnsafeCell<LastError> =
        const { UnsafeCell::new(LastError { unread: false, bytes: [0; TEXT_BYTES] }) };
}

/// Keeps the message for the calling thread and logs it. One that is too long is truncated.
pub fn fail(function: &str, reason: &str) {
    let text = format!("{function}: {reason}");
    let mut length = text.len().min(TEXT_BYTES - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    LAST.with(|last| {
        // SAFETY: only this thread gets at it, and nothing below calls back.
        let last = unsafe { &mut *last.get() };
        last.bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        last.bytes[length] = 0;
        last.unread = true;
    });
    if process::may_call()
        && let (Ok(acl), Ok(text)) = (acl(), CString::new(text))
    {
        acl.log(&text);
    }
}

/// Reports something for which no call fails: on standard error, and in ACL's log.
pub fn warn(message: &str) {
    let _ = writeln!(std::io::stderr(), "libcairn_pool: {message}");
    if let (Ok(acl), Ok(text)) = (acl(), CString::new(message)) {
        acl.log(&text);
    }
}

/// The message of the last failure of this thread, null if it was taken before; the text stays until the next failure.
pub fn take() -> *const c_char {
    LAST.with(|last| {
        // SAFETY: only this thread gets at it.
        let last = unsafe { &mut *last.get() };
        match std::mem::take(&mut last.unread) {
            true => CStr::from_bytes_until_nul(&last.bytes).map_or(std::ptr::null(), CStr::as_ptr),
            false => std::ptr::null(),
        }
    })
}

/// Bytes in a readable unit, with at most one decimal.
pub fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| count >= *unit) {
        None => format!("{count} bytes"),
        Some((unit, name)) if count.is_multiple_of(*unit) => format!("{} {name}", count / unit),
        Some((unit, name)) => format!("{:.1} {name}", count as f64 / *unit as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> Option<String> {
        let text = take();
        // SAFETY: null or a string of this thread that ends with a NUL.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    #[test]
    fn a_text_is_read_once_and_by_its_own_thread() {
        fail("f", "first");
        fail("f", "second");
        assert_eq!(std::thread::spawn(taken).join().unwrap(), None);
        assert_eq!(taken().as_deref(), Some("f: second"));
        assert_eq!(taken(), None);
    }

    #[test]
    fn a_long_text_ends_between_characters() {
        fail("f", &"ü".repeat(TEXT_BYTES));
        let text = taken().unwrap();
        assert!((TEXT_BYTES - 3..TEXT_BYTES).contains(&text.len()) && text.ends_with('ü'));
    }

    #[test]
    fn bytes_are_shown_in_the_largest_unit() {
        let texts: Vec<_> =
            [0, 1023, 1024, 1536, 2 << 20, (3 << 30) + (1 << 29), 1 << 40].map(bytes).into();
        assert_eq!(
            texts,
            ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "2 MiB", "3.5 GiB", "1 TiB"]
        );
    }
}
