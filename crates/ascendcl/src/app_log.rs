//! `aclAppLog`: lines of the user's program in the same log.

use crate::abi::Entry;
use crate::{door, process};
use cairn_runtime::logs::{self, Level};
use std::ffi::{CStr, c_char};

/// Logs a formatted line. Variadic, so it only jumps to the C++ side.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclAppLog() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("jmp {}", sym crate::trampoline::cairn_app_log_variadic);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("b {}", sym crate::trampoline::cairn_app_log_variadic);
}

/// Connects the C++ side. Called once, while the library is being loaded.
pub fn connect() {
    // SAFETY: no other thread can have entered the library yet.
    unsafe {
        crate::trampoline::cairn_app_log_enabled = Some(enabled);
        crate::trampoline::cairn_app_log = Some(write_line);
    }
}

extern "C" fn enabled(level: u32) -> bool {
    if process::forked() {
        return false;
    }
    logs::install();
    door::count(Entry::aclAppLog, 0);
    Level::from_number(i64::from(level)).is_some_and(logs::enabled)
}

/// # Safety
/// The strings are null or NUL-terminated.
unsafe extern "C" fn write_line(
    level: u32,
    func: *const c_char,
    file: *const c_char,
    number: u32,
    text: *const c_char,
) {
    let read = |p: *const c_char| match p.is_null() {
        true => "?".into(),
        // SAFETY: the caller vouches for the terminator.
        false => unsafe { CStr::from_ptr(p) }.to_string_lossy(),
    };
    if let Some(level) = Level::from_number(i64::from(level)) {
        let file = read(file);
        let file = file.rsplit('/').next().unwrap_or("?");
        logs::write(level, "APP", file, number, format_args!("{}: {}", read(func), read(text)));
    }
}
