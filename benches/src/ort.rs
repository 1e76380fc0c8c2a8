//! ONNX Runtime: `libonnxruntime.so` of its wheel, through its C interface.
//!
//! The library hands out one table of functions that only ever grows at its end, so an index in it is
//! part of the ABI; whoever calls a function names its index and its type.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// The version of the table that is asked for: the first with statistics of allocators.
const VERSION: u32 = 23;

/// Indices in the table.
mod function_index {
    pub const GET_ERROR_MESSAGE: usize = 2;
    pub const CREATE_ENV: usize = 3;
    pub const CREATE_CPU_MEMORY_INFO: usize = 69;
}

/// What a function of the library answers; null is success.
pub type Status = *mut c_void;
type CreateEnv = unsafe extern "C" fn(c_int, *const c_char, *mut *mut c_void) -> Status;
type CreateMemoryInfo = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> Status;
type Message = unsafe extern "C" fn(Status) -> *const c_char;

/// The loaded library with its environment; both stay to the end of the process.
pub struct Ort {
    functions: *const *const c_void,
    /// The environment that sessions are made in.
    pub environment: *mut c_void,
    /// The library's description of host memory, which values and allocators are created with.
    pub memory_info: *mut c_void,
    /// What the library calls itself.
    pub version: String,
}

// SAFETY: the table is constant, and the library's environment may be used by any thread.
unsafe impl Send for Ort {}
// SAFETY: as above.
unsafe impl Sync for Ort {}

impl Ort {
    /// Loads the library; the error says why not.
    pub fn load(path: &Path) -> Result<Arc<Ort>, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without NUL");
        // SAFETY: loading runs the library's initialisers, as any user of it does.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(format!("{} cannot be loaded", path.display()));
        }
        // SAFETY: the library documents this entry point, a pair of functions that it returns, and
        // the table that the first of them hands out; null is checked at each step.
        unsafe {
            let entry = libc::dlsym(library, c"OrtGetApiBase".as_ptr());
            if entry.is_null() {
                return Err(format!("{} has no OrtGetApiBase", path.display()));
            }
            let entry: unsafe extern "C" fn() -> *const Base = std::mem::transmute(entry);
            let base = entry();
            let version = CStr::from_ptr(((*base).version)()).to_string_lossy().into_owned();
            let functions = ((*base).table)(VERSION);
            if functions.is_null() {
                return Err(format!("version {version} lacks version {VERSION} of the interface"));
            }
            let mut ort =
                Ort { functions, environment: null_mut(), memory_info: null_mut(), version };
            const ERROR: c_int = 3;
            const ARENA: c_int = 1;
            let (mut environment, mut memory_info) = (null_mut(), null_mut());
            ort.check(ort.function::<CreateEnv>(function_index::CREATE_ENV)(
                ERROR,
                c"bench".as_ptr(),
                &mut environment,
            ))?;
            ort.check(ort.function::<CreateMemoryInfo>(function_index::CREATE_CPU_MEMORY_INFO)(
                ARENA,
                0,
                &mut memory_info,
            ))?;
            (ort.environment, ort.memory_info) = (environment, memory_info);
            Ok(Arc::new(ort))
        }
    }

    /// # Safety
    /// `F` is the type of the function at `index`.
    pub unsafe fn function<F>(&self, index: usize) -> F {
        // SAFETY: the table holds at least the places of `VERSION`, and a function pointer is as
        // large as any pointer.
        unsafe { std::mem::transmute_copy(&*self.functions.add(index)) }
    }

    /// What a status that is not null says.
    pub fn check(&self, status: Status) -> Result<(), String> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: a status that is not null has a text, which lives as long as it.
        let text = unsafe {
            CStr::from_ptr(self.function::<Message>(function_index::GET_ERROR_MESSAGE)(status))
        };
        Err(text.to_string_lossy().into_owned())
    }
}

/// What the entry point returns.
#[repr(C)]
struct Base {
    table: unsafe extern "C" fn(u32) -> *const *const c_void,
    version: unsafe extern "C" fn() -> *const c_char,
}
