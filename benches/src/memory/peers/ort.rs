//! ONNX Runtime's arena: `libonnxruntime.so` of its wheel, through its C interface.
//!
//! The library hands out one table of functions that only ever grows at its end, so a place in it is
//! part of the ABI; [`place`] lists those used here. An arena belongs to a session, and a session
//! needs a model: [`model`] writes one that copies its input.

use super::Address;
use crate::memory::contestant::Contestant;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The version of the table that is asked for: the first with [`place::GET_STATS`].
const VERSION: u32 = 23;

/// Places in the table.
mod place {
    pub const GET_ERROR_MESSAGE: usize = 2;
    pub const CREATE_ENV: usize = 3;
    pub const CREATE_SESSION_FROM_ARRAY: usize = 8;
    pub const CREATE_CPU_MEMORY_INFO: usize = 69;
    pub const RELEASE_SESSION: usize = 95;
    pub const CREATE_ALLOCATOR: usize = 131;
    pub const RELEASE_ALLOCATOR: usize = 132;
    pub const GET_KEY_VALUE: usize = 297;
    pub const RELEASE_KEY_VALUES: usize = 300;
    pub const GET_STATS: usize = 319;
}

/// The beginning of the public structure `OrtAllocator`.
#[repr(C)]
struct Table {
    version: u32,
    alloc: unsafe extern "C" fn(*mut Table, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut Table, *mut c_void),
}

type Status = *mut c_void;
type CreateEnv = unsafe extern "C" fn(c_int, *const c_char, *mut *mut c_void) -> Status;
type CreateSession = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *const c_void,
    *mut *mut c_void,
) -> Status;
type CreateMemoryInfo = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> Status;
type CreateAllocator = unsafe extern "C" fn(*mut c_void, *const c_void, *mut *mut Table) -> Status;
type GetStats = unsafe extern "C" fn(*const Table, *mut *mut c_void) -> Status;
type GetKeyValue = unsafe extern "C" fn(*const c_void, *const c_char) -> *const c_char;
type Release = unsafe extern "C" fn(*mut c_void);
type ReleaseAllocator = unsafe extern "C" fn(*mut Table);
type Message = unsafe extern "C" fn(Status) -> *const c_char;

/// The loaded library with its environment; both stay to the end of the process.
pub struct Ort {
    functions: *const *const c_void,
    environment: *mut c_void,
    memory_info: *mut c_void,
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
            ort.check(ort.function::<CreateEnv>(place::CREATE_ENV)(
                ERROR,
                c"bench".as_ptr(),
                &mut environment,
            ))?;
            ort.check(ort.function::<CreateMemoryInfo>(place::CREATE_CPU_MEMORY_INFO)(
                ARENA,
                0,
                &mut memory_info,
            ))?;
            (ort.environment, ort.memory_info) = (environment, memory_info);
            Ok(Arc::new(ort))
        }
    }

    /// A new arena with the settings that a session has by default.
    pub fn arena(self: &Arc<Ort>) -> Result<Arena, String> {
        let model = model();
        let (mut session, mut allocator) = (null_mut(), null_mut());
        // SAFETY: the arguments live through each call, and no options means the defaults.
        unsafe {
            self.check(self.function::<CreateSession>(place::CREATE_SESSION_FROM_ARRAY)(
                self.environment,
                model.as_ptr().cast(),
                model.len(),
                null(),
                &mut session,
            ))?;
            self.check(self.function::<CreateAllocator>(place::CREATE_ALLOCATOR)(
                session,
                self.memory_info,
                &mut allocator,
            ))?;
            let (alloc, free) = ((*allocator).alloc, (*allocator).free);
            Ok(Arena { ort: self.clone(), session, allocator, alloc, free })
        }
    }

    /// # Safety
    /// `F` is the type of the function at `place`.
    unsafe fn function<F>(&self, place: usize) -> F {
        // SAFETY: the table holds at least the places of `VERSION`, and a function pointer is as
        // large as any pointer.
        unsafe { std::mem::transmute_copy(&*self.functions.add(place)) }
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: a status that is not null has a text, which lives as long as it.
        let text =
            unsafe { CStr::from_ptr(self.function::<Message>(place::GET_ERROR_MESSAGE)(status)) };
        Err(text.to_string_lossy().into_owned())
    }
}

/// What the entry point returns.
#[repr(C)]
struct Base {
    table: unsafe extern "C" fn(u32) -> *const *const c_void,
    version: unsafe extern "C" fn() -> *const c_char,
}

/// One session's arena.
pub struct Arena {
    ort: Arc<Ort>,
    session: *mut c_void,
    allocator: *mut Table,
    alloc: unsafe extern "C" fn(*mut Table, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut Table, *mut c_void),
}

// SAFETY: the arena locks itself; sessions share it between threads.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// What the arena holds of the system's memory, by its own count. It never shrinks by itself.
    pub fn reserved(&self) -> u64 {
        let mut pairs = null_mut();
        // SAFETY: the allocator is live; the value is read before its owner is released.
        unsafe {
            let stats = self.ort.function::<GetStats>(place::GET_STATS);
            self.ort.check(stats(self.allocator, &mut pairs)).expect("statistics");
            let value = self.ort.function::<GetKeyValue>(place::GET_KEY_VALUE);
            let text = value(pairs, c"TotalAllocated".as_ptr());
            assert!(!text.is_null(), "the arena does not say how much it holds");
            let total = CStr::from_ptr(text).to_string_lossy().parse().expect("a number");
            self.ort.function::<Release>(place::RELEASE_KEY_VALUES)(pairs);
            total
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: both were made by `arena`, and are released once, the allocator first.
        unsafe {
            self.ort.function::<ReleaseAllocator>(place::RELEASE_ALLOCATOR)(self.allocator);
            self.ort.function::<Release>(place::RELEASE_SESSION)(self.session);
        }
    }
}

impl Contestant for Arena {
    type Block = Address;

    #[inline]
    fn allocate(&self, bytes: usize, _: usize) -> Address {
        // SAFETY: the allocator is live.
        Address::new(unsafe { (self.alloc)(self.allocator, bytes) }, "the arena", bytes)
    }

    #[inline]
    fn free(&self, block: Address, _: usize, _: usize) {
        // SAFETY: the address came from this allocator, and a workload frees each block once.
        unsafe { (self.free)(self.allocator, block.pointer()) }
    }
}

/// A model in ONNX's wire format: `y = Identity(x)` on one float.
fn model() -> Vec<u8> {
    let message = |number: u8, body: &[u8]| {
        let mut out = vec![number << 3 | 2, u8::try_from(body.len()).expect("a short message")];
        out.extend_from_slice(body);
        out
    };
    let number = |field: u8, value: u8| vec![field << 3, value];
    let shape = message(2, &message(1, &number(1, 1)));
    let tensor = message(2, &message(1, &[number(1, 1), shape].concat()));
    let value = |name: &[u8]| [message(1, name), tensor.clone()].concat();
    let node = [message(1, b"x"), message(2, b"y"), message(4, b"Identity")].concat();
    let graph = [
        message(1, &node),
        message(2, b"copy"),
        message(11, &value(b"x")),
        message(12, &value(b"y")),
    ]
    .concat();
    [number(1, 8), message(7, &graph), message(8, &number(2, 17))].concat()
}
