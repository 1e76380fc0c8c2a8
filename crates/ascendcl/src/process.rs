//! The one runtime of this process, and what happens to it at fork and exit.

use crate::abi::Entry;
use crate::door::COUNTS;
use crate::unsupported;
use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::error::Result;
use cairn_runtime::logs;
use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static RUNTIME: OnceLock<Result<Runtime>> = OnceLock::new();
/// Set before the runtime starts: a fork from then on leaves a child that cannot use it.
static STARTED: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);
/// Whether `main` has returned, or called `exit`.
static MAIN_ENDED: AtomicBool = AtomicBool::new(false);

/// The runtime, started on first use. Settings that cannot be used fail every call with their text.
pub fn runtime() -> Result<&'static Runtime> {
    let started = RUNTIME.get_or_init(|| {
        STARTED.store(true, Ordering::SeqCst);
        logs::install();
        crate::copies::warn();
        cairn_runtime::record::stack::set_unwinder(&crate::stacks::ThreadStack);
        cairn_runtime::memory::relocation::set_fault_watch(crate::signal_chain::install);
        let runtime = Config::from_env().and_then(Runtime::start)?;
        if runtime.shared.config.memory.is_protected() {
            crate::faults::watch();
        }
        // SAFETY: the handler is a plain function of a library that is never unloaded.
        unsafe { libc::atexit(at_exit) };
        if MAIN_ENDED.load(Ordering::SeqCst) {
            mute(&runtime);
        }
        Ok(runtime)
    });
    started.as_ref().map_err(Clone::clone)
}

/// The settings of this process, also before the runtime is started: what only asks for them starts
/// nothing, so that a fork afterwards leaves a child that can use devices.
pub fn config() -> Result<Cow<'static, Config>> {
    match RUNTIME.get() {
        Some(Ok(runtime)) => Ok(Cow::Borrowed(&runtime.shared.config)),
        Some(Err(error)) => Err(error.clone()),
        None => {
            logs::install();
            Config::from_env().map(Cow::Owned)
        }
    }
}

/// The runtime, if it was started.
pub fn started() -> Option<&'static Runtime> {
    RUNTIME.get()?.as_ref().ok()
}

/// True in a child of a process that had started the runtime: nothing here works any more.
pub fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Runs in a forked child.
extern "C" fn in_child() {
    if STARTED.load(Ordering::SeqCst) {
        FORKED.store(true, Ordering::Relaxed);
        // SAFETY: every call is refused from now on.
        unsafe { cairn_runtime::memory::process_file::close_in_child() };
    }
}

/// Whether the process ends: nothing of the user is called any more.
pub fn is_ending() -> bool {
    matches!(RUNTIME.get(), Some(Ok(runtime)) if runtime.shared.exiting())
}

/// `main` has returned, or called `exit`; static objects are still there.
extern "C" fn main_ends(_: *mut c_void) {
    MAIN_ENDED.store(true, Ordering::SeqCst);
    if let Some(Ok(runtime)) = RUNTIME.get()
        && !forked()
    {
        mute(runtime);
    }
}

/// From now on nothing of the user is called.
fn mute(runtime: &Runtime) {
    let was_exiting = runtime.shared.exiting();
    runtime.shared.set_exiting();
    runtime.stream_callbacks.disable();
    runtime.device_callbacks.disable();
    if !was_exiting {
        runtime.allocators.process_ends();
    }
}

/// Lets [`main_ends`] run before the first static object is destroyed, one of which may be the user's pool:
/// what a thread has of its own goes before those, and handlers of `atexit` that came earlier run after them.
/// A thread other than that of `main` may call `exit`, too: then it is [`at_exit`] that ends calls.
fn watch_main() {
    unsafe extern "C" {
        static __dso_handle: u8;
        fn __cxa_thread_atexit_impl(
            destructor: extern "C" fn(*mut c_void),
            object: *mut c_void,
            library: *const c_void,
        ) -> c_int;
    }
    // SAFETY: asks for two numbers.
    let is_main = unsafe { libc::gettid() == libc::getpid() };
    if is_main {
        // SAFETY: the handler is a plain function of a library that is never unloaded, and takes no object.
        unsafe {
            let library = (&raw const __dso_handle).cast();
            __cxa_thread_atexit_impl(main_ends, std::ptr::null_mut(), library);
        }
    }
}

extern "C" fn at_exit() {
    if forked() {
        return;
    }
    if let Some(Ok(runtime)) = RUNTIME.get() {
        mute(runtime);
        runtime.shared.remove_live_page();
        let _ = std::io::stderr().write_all(runtime.shared.memory.report().as_bytes());
    }
}

/// Runs when the library is loaded. Counters of the entry points are written at exit when
/// `CAIRN_COVERAGE` names a folder.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        crate::app_log::connect();
        watch_main();
        // SAFETY: the handler only touches atomics and closes descriptors, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if std::env::var_os("CAIRN_COVERAGE").is_some() {
            // SAFETY: the handler is a plain function of a library that is never unloaded.
            unsafe { libc::atexit(write_coverage) };
        }
    }
    at_load
};

extern "C" fn write_coverage() {
    let Some(folder) = std::env::var_os("CAIRN_COVERAGE") else { return };
    let mut text = String::new();
    for (name, [ok, failed]) in Entry::NAMES.iter().zip(&COUNTS) {
        let kind = match () {
            _ if unsupported::is_listed(name) => "unsupported",
            _ if CANNOT_FAIL.contains(name) => "cannot-fail",
            _ => "works",
        };
        let (ok, failed) = (ok.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
        let _ = writeln!(text, "{name} {kind} {ok} {failed}");
    }
    for operator in crate::aclnn::every_operator() {
        let (ok, failed) = operator.figures();
        let _ = writeln!(text, "{} operator {ok} {failed}", operator.name);
    }
    // What no header of ours declares yet, but clients link.
    for name in unsupported::NAMES.iter().filter(|name| !Entry::NAMES.contains(name)) {
        let _ = writeln!(text, "{name} unsupported 0 0");
    }
    let file = std::path::Path::new(&folder).join(format!("{}.txt", std::process::id()));
    let _ = std::fs::write(file, text);
}

/// Functions without a way to fail.
const CANNOT_FAIL: [&str; 18] = [
    "HcclGetCommConfigCapability",
    "HcclGetErrorString",
    "HcclGroupStart",
    "HcomFindGroup",
    "aclAppLog",
    "aclCreateDataBuffer",
    "aclDataTypeSize",
    "aclFloat16ToFloat",
    "aclFloatToFloat16",
    "aclGetRecentErrMsg",
    "aclmdlBundleCreateQueryInfo",
    "aclmdlCreateConfigHandle",
    "aclmdlCreateDataset",
    "aclmdlCreateDesc",
    "aclmdlCreateExecConfigHandle",
    "aclnnFinalize",
    "aclopCreateAttr",
    "aclrtCreateStreamConfigHandle",
];
