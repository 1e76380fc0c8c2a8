//! The frames of C and C++, by the unwinder of the compiler's runtime and the loader's list of files.

use super::python;
use cairn_record::Name;
use cairn_record::entry::Frame;
use cairn_runtime::record::stack::{MAX_FRAMES, Words};
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;

/// Appends the addresses of the calling thread's calls, innermost first. In the handler of a fault (`is_fault`) the first is that of
/// the instruction that faulted.
pub(super) fn walk(is_fault: bool, words: &mut Words) {
    let begin = words.len();
    let mut walk = Walk { words, begin, is_fault };
    // SAFETY: the callback gets the pointer to `walk`, which lives until the call returns.
    unsafe { _Unwind_Backtrace(add_frame, (&raw mut walk).cast()) };
}

/// What lies at these addresses, without those that belong to the toolkit's own libraries (below a callback there are such too) and,
/// where the frames of Python stand for them, without those of the interpreter and of what started it.
pub(super) fn describe(addresses: &[usize], has_python: bool) -> Vec<Frame> {
    let own = module_of(add_frame as *const () as usize);
    let modules: Vec<_> = addresses.iter().map(|address| module_of(*address)).collect();
    let is_own = |module: &Option<Module>| module.as_ref().is_some_and(|it| it.is_of_toolkit(&own));
    let mut frames: Vec<_> =
        addresses.iter().zip(modules).filter(|(_, module)| !is_own(module)).collect();
    if let Some(interpreter) = python::module().filter(|_| has_python) {
        let is_interpreter =
            |module: &Option<Module>| module.as_ref().is_some_and(|it| it.base == interpreter);
        let outer = frames.iter().rposition(|(_, module)| is_interpreter(module));
        let outer = outer.map_or(frames.len(), |last| last + 1);
        if frames.get(outer).is_some_and(|(_, module)| is_c_library(module)) {
            frames.truncate(outer);
        }
        frames.retain(|(_, module)| !is_interpreter(module));
    }
    frames.into_iter().map(|(address, module)| frame(*address, module)).collect()
}

/// Whether it is the C library, which starts programs and threads.
fn is_c_library(module: &Option<Module>) -> bool {
    let name = module.as_ref().and_then(|module| Path::new(&module.path).file_name());
    name.is_some_and(|name| name.to_string_lossy().starts_with("libc."))
}

/// A file that was loaded.
struct Module {
    base: usize,
    path: String,
}

impl Module {
    /// Whether it is this library, one that lies beside it, or the module `acl` of Python. The pool by itself counts as the program's.
    fn is_of_toolkit(&self, own: &Option<Module>) -> bool {
        let Some(own) = own else { return false };
        let (path, own_path) = (Path::new(&self.path), Path::new(&own.path));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.base == own.base
            || name == "acl.abi3.so"
            || (path.parent() == own_path.parent() && name.starts_with("libge_"))
            || (path.parent() == own_path.parent() && name.starts_with("libgraph"))
    }
}

fn frame(address: usize, module: Option<Module>) -> Frame {
    match module {
        None => Frame::Native { module: Name::NONE, offset: address as u64 },
        Some(Module { base, path }) => {
            Frame::Native { module: full_path(path).into(), offset: (address - base) as u64 }
        }
    }
}

/// The program itself may be known by the name it was called with.
fn full_path(file: String) -> String {
    if file.starts_with('/') {
        return file;
    }
    let program = std::env::current_exe();
    program.map_or(file, |program| program.to_string_lossy().into_owned())
}

/// Where the file that an address lies in was loaded.
pub(super) fn module_base(address: usize) -> Option<usize> {
    module_of(address).map(|module| module.base)
}

fn module_of(address: usize) -> Option<Module> {
    // SAFETY: plain numbers and pointers; all zeros are valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: it only compares the address, and fills in the structure.
    let is_found = unsafe { libc::dladdr(address as *const c_void, &mut found) } != 0;
    if !is_found || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own text.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Module { base: found.dli_fbase as usize, path: file.to_string_lossy().into_owned() })
}

struct Walk<'a> {
    words: &'a mut Words,
    begin: usize,
    is_fault: bool,
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIPInfo(context: *mut c_void, is_before: *mut c_int) -> usize;
}

/// Notes a frame: an address inside of the call, so that it belongs to the line that called.
extern "C" fn add_frame(context: *mut c_void, walk: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const STOP: c_int = 5;
    // SAFETY: `walk` of the unwinder passed a pointer to its own.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    let mut is_before = 0;
    // SAFETY: the context that the unwinder passed.
    let address = unsafe { _Unwind_GetIPInfo(context, &mut is_before) };
    if is_before != 0 && walk.is_fault {
        // The frames so far are those of the handler.
        walk.words.truncate(walk.begin);
        walk.is_fault = false;
    }
    if address == 0 || walk.words.len() - walk.begin == MAX_FRAMES {
        return STOP;
    }
    walk.words.push(address - usize::from(is_before == 0));
    GO_ON
}
