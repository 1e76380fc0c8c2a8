//! ONNX Runtime's arena. An arena belongs to a session, and a session needs a model: [`model`] writes one
//! that copies its input.

use super::Address;
use crate::memory::candidate::Candidate;
use crate::ort::{Ort, Status};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Indices in the library's table.
mod function_index {
    pub const CREATE_SESSION_FROM_ARRAY: usize = 8;
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

type CreateSession = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *const c_void,
    *mut *mut c_void,
) -> Status;
type CreateAllocator = unsafe extern "C" fn(*mut c_void, *const c_void, *mut *mut Table) -> Status;
type GetStats = unsafe extern "C" fn(*const Table, *mut *mut c_void) -> Status;
type GetKeyValue = unsafe extern "C" fn(*const c_void, *const c_char) -> *const c_char;
type Release = unsafe extern "C" fn(*mut c_void);
type ReleaseAllocator = unsafe extern "C" fn(*mut Table);

impl Ort {
    /// A new arena with the settings that a session has by default.
    pub fn arena(self: &Arc<Ort>) -> Result<Arena, String> {
        let model = model();
        let (mut session, mut allocator) = (null_mut(), null_mut());
        // SAFETY: the arguments live through each call, and no options means the defaults.
        unsafe {
            self.check(self.function::<CreateSession>(function_index::CREATE_SESSION_FROM_ARRAY)(
                self.environment,
                model.as_ptr().cast(),
                model.len(),
                null(),
                &mut session,
            ))?;
            self.check(self.function::<CreateAllocator>(function_index::CREATE_ALLOCATOR)(
                session,
                self.memory_info,
                &mut allocator,
            ))?;
            let (alloc, free) = ((*allocator).alloc, (*allocator).free);
            Ok(Arena { ort: self.clone(), session, allocator, alloc, free })
        }
    }
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
            let stats = self.ort.function::<GetStats>(function_index::GET_STATS);
            self.ort
                .check(stats(self.allocator, &mut pairs))
                .expect("the allocator has statistics");
            let value = self.ort.function::<GetKeyValue>(function_index::GET_KEY_VALUE);
            let text = value(pairs, c"TotalAllocated".as_ptr());
            assert!(!text.is_null(), "the arena does not say how much it holds");
            let total =
                CStr::from_ptr(text).to_string_lossy().parse().expect("the value is a number");
            self.ort.function::<Release>(function_index::RELEASE_KEY_VALUES)(pairs);
            total
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: both were made by `arena`, and are released once, the allocator first.
        unsafe {
            self.ort.function::<ReleaseAllocator>(function_index::RELEASE_ALLOCATOR)(
                self.allocator,
            );
            self.ort.function::<Release>(function_index::RELEASE_SESSION)(self.session);
        }
    }
}

impl Candidate for Arena {
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
