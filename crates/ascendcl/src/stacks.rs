//! Walks the stacks of calls for the recorder, by the unwinder of the compiler's runtime and the loader's list of files.

use cairn_record::Name;
use cairn_record::entry::Frame;
use cairn_runtime::record::stack::{MAX_FRAMES, Unwinder};
use std::ffi::{CStr, c_int, c_void};

/// The native stack of the calling thread.
pub struct NativeUnwinder;

impl Unwinder for NativeUnwinder {
    fn walk(&self, addresses: &mut [usize; MAX_FRAMES]) -> usize {
        let mut walk = Walk { addresses, count: 0 };
        // SAFETY: the callback gets the pointer to `walk`, which lives until the call returns.
        unsafe { _Unwind_Backtrace(add_frame, (&raw mut walk).cast()) };
        walk.count
    }

    fn describe(&self, addresses: &[usize]) -> Box<[Frame]> {
        let own = module_of(add_frame as *const () as usize).map(|(base, _)| base);
        let is_own = |address: &&usize| own.is_some() && module_of(**address).map(|m| m.0) == own;
        let inner = addresses.iter().take_while(is_own).count();
        addresses[inner..].iter().map(|address| frame(*address)).collect()
    }
}

fn frame(address: usize) -> Frame {
    match module_of(address) {
        None => Frame::Native { module: Name::NONE, offset: address as u64 },
        Some((base, file)) => {
            Frame::Native { module: full_path(file).into(), offset: (address - base) as u64 }
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

/// Where the file that an address lies in was loaded, and its name.
fn module_of(address: usize) -> Option<(usize, String)> {
    // SAFETY: plain numbers and pointers; all zeros are valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: it only compares the address, and fills in the structure.
    let is_found = unsafe { libc::dladdr(address as *const c_void, &mut found) } != 0;
    if !is_found || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own text.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    Some((found.dli_fbase as usize, file.to_string_lossy().into_owned()))
}

struct Walk<'a> {
    addresses: &'a mut [usize; MAX_FRAMES],
    count: usize,
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
    if address == 0 || walk.count == MAX_FRAMES {
        return STOP;
    }
    walk.addresses[walk.count] = address - usize::from(is_before == 0);
    walk.count += 1;
    GO_ON
}
