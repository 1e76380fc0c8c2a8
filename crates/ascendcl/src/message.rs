//! The text of the last failure: kept for the thread that failed, or with `err_msg_mode` 1 for the
//! process; reading it clears it.

use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static PER_PROCESS: AtomicBool = AtomicBool::new(false);
static OF_PROCESS: Mutex<Option<CString>> = Mutex::new(None);

/// A thread's texts: `next` was not read yet, `given` is what the last reader holds.
struct Texts {
    next: Option<CString>,
    given: Option<CString>,
}

thread_local! {
    // A leaked pointer: thread-locals of this library have no destructors.
    static TEXTS: Cell<*mut Texts> = const { Cell::new(std::ptr::null_mut()) };
}

fn with_texts<T>(body: impl FnOnce(&mut Texts) -> T) -> T {
    TEXTS.with(|cell| {
        if cell.get().is_null() {
            cell.set(Box::into_raw(Box::new(Texts { next: None, given: None })));
        }
        // SAFETY: made above by this thread, never freed, and only reached from here: `body` calls
        // nothing that comes back.
        body(unsafe { &mut *cell.get() })
    })
}

/// Chooses one text for the whole process, or one a thread.
pub fn set_per_process(on: bool) {
    PER_PROCESS.store(on, Ordering::Release);
}

/// Keeps the text of a failure.
pub fn keep(function: &str, code: i32, text: &str) {
    let line = format!("E{code}: {function}: {text}").replace('\0', " ");
    let line = CString::new(line).expect("no NUL is left");
    match PER_PROCESS.load(Ordering::Acquire) {
        true => *OF_PROCESS.lock().unwrap_or_else(|e| e.into_inner()) = Some(line),
        false => with_texts(|texts| texts.next = Some(line)),
    }
}

/// The text, or null if nothing failed since the last call. Valid until the thread calls again.
pub fn take() -> *const c_char {
    let of_process = match PER_PROCESS.load(Ordering::Acquire) {
        true => OF_PROCESS.lock().unwrap_or_else(|e| e.into_inner()).take(),
        false => None,
    };
    with_texts(|texts| {
        texts.given = of_process.or_else(|| texts.next.take());
        texts.given.as_ref().map_or(std::ptr::null(), |t| t.as_ptr())
    })
}
