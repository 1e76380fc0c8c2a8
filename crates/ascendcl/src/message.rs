//! The message of the last failure: kept for the thread that failed, or with `err_msg_mode` 1 for the
//! process; reading it clears it.

use cairn_runtime::host::HostThread;
use std::ffi::c_char;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static PER_PROCESS: AtomicBool = AtomicBool::new(false);
/// The message where there is one for the process.
static OF_PROCESS: Mutex<Option<String>> = Mutex::new(None);

/// Chooses one message for the whole process, or one per thread.
pub fn set_per_process(is_per_process: bool) {
    PER_PROCESS.store(is_per_process, Ordering::Release);
}

/// Keeps the error message of a failure. That of a function which Cairn does not have begins with saying so.
pub fn keep(function: &str, code: i32, text: &str) {
    if !crate::unsupported::is_absent(function, code) {
        return keep_text(&format!("E{code}: {function}: {text}"));
    }
    // Of an operator's two functions that which computes is the one that people know.
    let name = function.strip_suffix("GetWorkspaceSize").unwrap_or(function);
    match function.starts_with("Hc") {
        false => keep_text(&format!("Cairn lacks {name}: {text} (E{code})")),
        true => keep_text(&format!("Cairn lacks {name}: {text} (HCCL_E_NOT_SUPPORT, 5)")),
    }
}

/// Keeps a message as it is.
pub fn keep_text(text: &str) {
    let line = text.replace('\0', " ");
    match PER_PROCESS.load(Ordering::Acquire) {
        true => *OF_PROCESS.lock().unwrap_or_else(|e| e.into_inner()) = Some(line),
        false => HostThread::current().message().next = Some(line),
    }
}

/// A message without the function name in front of it, which is added anyway: that of the function
/// itself, or of the operator whose first phase it is.
pub fn without_name<'a>(function: &str, text: &'a str) -> &'a str {
    let operator = function.strip_suffix("GetWorkspaceSize").unwrap_or(function);
    let rest = |name: &str| text.strip_prefix(name)?.strip_prefix(": ");
    rest(function).or_else(|| rest(operator)).unwrap_or(text)
}

/// The text, or null if nothing failed since the last call. Valid until the thread calls again.
pub fn take() -> *const c_char {
    let of_process = match PER_PROCESS.load(Ordering::Acquire) {
        true => OF_PROCESS.lock().unwrap_or_else(|e| e.into_inner()).take(),
        false => None,
    };
    let mut message = HostThread::current().message();
    let text = of_process.or_else(|| message.next.take());
    message.read = text.map(|text| (text + "\0").into_bytes().into());
    message.read.as_ref().map_or(std::ptr::null(), |text| text.as_ptr().cast())
}
