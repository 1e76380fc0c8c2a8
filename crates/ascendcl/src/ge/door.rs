//! How a call of the C++ classes enters and leaves: guarded against panics and forks, its error message kept.

use super::abi::{CairnText, CairnTextCallback};
use cairn_graph::session::Engine;
use cairn_graph::{Failure, Result, Status};
use cairn_runtime::Runtime;
use cairn_runtime::error::Error;
use cairn_runtime::host::HostThread;
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::record::site;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

/// Defines functions that return a status. The body gives `Result<()>`. What the program called is the one function of
/// C++ that stands for the name or, where there are several, what the arguments say after `called`.
macro_rules! status {
    (@called $name:ident) => { const { $crate::ge::names::of(stringify!($name)) } };
    (@called $name:ident, $called:expr) => { $called };
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(called($called:expr))? $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::ge::abi::CairnStatus {
            let called = $crate::ge::door::status!(@called $name $(, $called)?);
            $crate::ge::door::answer(called, || -> cairn_graph::Result<()> { $body })
        }
        const _: $crate::ge::abi::signature::$name = $name;
    )*};
}

/// Defines functions that return a value. The body gives `Result<T>`; a failure leaves its text and returns
/// the value after `else`.
macro_rules! plain {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty, else $failed:expr,)? $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            const ENTRY: &str = $crate::ge::names::of(stringify!($name));
            $crate::ge::door::value(ENTRY, || -> cairn_graph::Result<_> { $body }, || { $($failed)? })
        }
        const _: $crate::ge::abi::signature::$name = $name;
    )*};
}

pub(crate) use {plain, status};

/// Texts of failures or warnings by thread, until they are read; the thread that failed last is the last. Of
/// failures only the last is kept: an older one that nobody read is about another call.
type Texts = Mutex<VecDeque<(u64, Vec<String>)>>;

static ERRORS: Texts = Mutex::new(Rank::Texts, VecDeque::new());
static WARNINGS: Texts = Mutex::new(Rank::Texts, VecDeque::new());

/// How many warnings are kept for a thread; the oldest is dropped for another.
const MAX_WARNINGS: usize = 16;

/// For how many threads texts are kept; the oldest are dropped for those of another.
const MAX_THREADS: usize = 1024;

/// The graph engine of this process.
pub fn engine() -> &'static Engine {
    static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::default);
    &ENGINE
}

/// The runtime of this process.
pub fn runtime() -> Result<&'static Runtime> {
    Ok(crate::process::runtime()?)
}

/// Takes this thread's texts out.
fn take_texts(texts: &Texts) -> Vec<String> {
    let thread = HostThread::current().number();
    let mut texts = texts.lock();
    let position = texts.iter().rposition(|(number, _)| *number == thread);
    position.and_then(|position| texts.remove(position)).map(|(_, kept)| kept).unwrap_or_default()
}

/// Adds a text to this thread's, of which `max` are kept.
fn keep(texts: &Texts, text: String, max: usize) {
    let mut kept = take_texts(texts);
    if kept.len() == max {
        kept.remove(0);
    }
    kept.push(text);
    let mut texts = texts.lock();
    if texts.len() == MAX_THREADS {
        texts.pop_front();
    }
    texts.push_back((HostThread::current().number(), kept));
}

/// Keeps the error message of a failure for this thread, and logs it.
pub fn fail(failure: &Failure) {
    log::error!("{} ({:#x})", failure.text, failure.status.number());
    keep_error(failure.text.clone());
}

/// For readers of the graph engine's messages, and of ACL's: `aclGetRecentErrMsg` must not answer with a message about
/// an earlier call.
fn keep_error(text: String) {
    crate::message::keep_text(&text);
    keep(&ERRORS, text, 1);
}

/// Keeps a warning for this thread, and logs it.
pub fn warn(text: String) {
    log::warn!("{text}");
    keep(&WARNINGS, text, MAX_WARNINGS);
}

/// Keeps a message that came with a code of its own.
pub fn fail_with(code: u32, text: String) {
    log::error!("{text} ({code:#x})");
    keep_error(text);
}

/// This thread's texts, joined; they are forgotten.
pub fn take(warnings: bool) -> String {
    let texts = if warnings { &WARNINGS } else { &ERRORS };
    take_texts(texts).join("\n")
}

/// Runs a body; a panic or a fork is a failure.
pub fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    if crate::process::forked() {
        return Err(Failure::failed(crate::door::FORKED.to_string_lossy()));
    }
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Failure::failed(Error::internal(&*panic).text)))
}

/// Runs the body of a function that returns a status; `entry` is what the program called.
pub fn answer(entry: &'static str, body: impl FnOnce() -> Result<()>) -> u32 {
    match site::enter(entry, || guarded(body)) {
        Ok(()) => 0,
        Err(failure) => {
            if !crate::process::forked() {
                fail(&failure);
            }
            failure.status.number()
        }
    }
}

/// Runs the body of a function that returns a value; `entry` is what the program called.
pub fn value<T>(
    entry: &'static str,
    body: impl FnOnce() -> Result<T>,
    failed: impl FnOnce() -> T,
) -> T {
    match site::enter(entry, || guarded(body)) {
        Ok(value) => value,
        Err(failure) => {
            if !crate::process::forked() {
                fail(&failure);
            }
            failed()
        }
    }
}

/// A string of the caller; bytes that are not UTF-8 are replaced.
///
/// # Safety
/// The text is borrowed by the caller for the call.
pub unsafe fn text(text: CairnText) -> String {
    if text.data.is_null() || text.size == 0 {
        return String::new();
    }
    // SAFETY: as the caller vouches.
    let bytes = unsafe { std::slice::from_raw_parts(text.data.cast::<u8>(), text.size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes as the interface carries them.
pub fn borrowed(bytes: &[u8]) -> CairnText {
    CairnText { data: bytes.as_ptr().cast(), size: bytes.len() }
}

/// Shows bytes to the caller.
///
/// # Safety
/// `callback` is a function of the caller that takes `context`.
pub unsafe fn show(callback: CairnTextCallback, context: *mut c_void, bytes: &[u8]) {
    if let Some(callback) = callback {
        // SAFETY: as the caller vouches; the bytes live until it returns.
        unsafe { callback(context, borrowed(bytes)) };
    }
}

/// A list of the caller; null is an empty one.
///
/// # Safety
/// `data` is null or points to `count` values that live for the call.
pub unsafe fn list<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller vouches.
    unsafe { std::slice::from_raw_parts(data, count) }
}

/// The object behind a handle.
///
/// # Safety
/// The handle is null or one that [`owned`] made and nobody released.
pub unsafe fn object<'a, T, H>(handle: *const H, what: &str) -> Result<&'a T> {
    // SAFETY: as the caller vouches.
    unsafe { handle.cast::<T>().as_ref() }
        .ok_or_else(|| Failure::new(Status::ParamInvalid, format!("the {what} is null")))
}

/// A handle that its holder releases.
pub fn owned<T, H>(object: T) -> *mut H {
    Box::into_raw(Box::new(object)).cast()
}

/// Destroys a handle.
///
/// # Safety
/// The handle is null or one that [`owned`] made for this type and nobody released.
pub unsafe fn release<T, H>(handle: *mut H) {
    if !handle.is_null() {
        // SAFETY: as the caller vouches.
        drop(unsafe { Box::from_raw(handle.cast::<T>()) });
    }
}
