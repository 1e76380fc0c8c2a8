//! Allocators that derive from `ge::Allocator`.

use super::abi::*;
use super::door::{engine, status};
use crate::trampoline::call_user;
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::memory::external::{
    BlockInfo, CallbackException, Identity, UserAllocator, UserCall,
};
use std::ffi::c_void;

/// A user allocator, with the C++ side's functions to call it. Owns the user's share of it.
struct GeAllocator(CairnAllocator);

// SAFETY: the C++ side vouches that its functions may be called on any thread, one at a time.
unsafe impl Send for GeAllocator {}
// SAFETY: likewise; the callback lock of the allocator lets one thread in at a time.
unsafe impl Sync for GeAllocator {}

impl Drop for GeAllocator {
    /// At the end of the process the object stays: its destructor is the user's, and what it needs may be gone.
    fn drop(&mut self) {
        if crate::process::is_ending() {
            ABANDONED.lock().push(self.0.owner as usize);
            return;
        }
        if let Some(drop) = self.0.drop {
            // SAFETY: the owner is released once, here.
            unsafe { drop(self.0.owner) };
        }
    }
}

/// Owners that nobody releases any more; kept, so that no leak is seen in them.
static ABANDONED: Mutex<Vec<usize>> = Mutex::new(Rank::Abandoned, Vec::new());

impl UserAllocator for GeAllocator {
    fn identity(&self) -> Identity {
        Identity { object: self.0.object as usize, functions: [[0; 2]; 4] }
    }

    fn takes_advice(&self) -> bool {
        true
    }

    fn block_info(&self, block: usize) -> Option<BlockInfo> {
        let (mut bytes, mut reference_count, mut object) = (0, 0, std::ptr::null());
        let block = block as *const c_void;
        // SAFETY: the C++ side gave this function for blocks that it gave.
        unsafe { (self.0.block_info?)(block, &mut bytes, &mut reference_count, &mut object) };
        Some(BlockInfo { bytes, reference_count, object: object as usize })
    }

    fn call(&self, request: UserCall, on_exit: &dyn Fn()) -> Result<usize, CallbackException> {
        let object = self.0.object;
        let mut returned = std::ptr::null_mut();
        call_user(on_exit, |call_context| {
            // SAFETY: the C++ side gave these functions for this object, and for blocks that they gave.
            let has_returned = unsafe {
                match request {
                    UserCall::Alloc(bytes) => {
                        self.0.alloc.map(|call| call(object, bytes, &mut returned, call_context))
                    }
                    UserCall::Advise(bytes, near) => {
                        let near = near as *mut c_void;
                        self.0
                            .advise
                            .map(|call| call(object, bytes, near, &mut returned, call_context))
                    }
                    UserCall::Address(block) => self
                        .0
                        .address
                        .map(|call| call(block as *mut c_void, &mut returned, call_context)),
                    UserCall::Free(block) => {
                        self.0.free.map(|call| call(object, block as *mut c_void, call_context))
                    }
                }
            };
            has_returned == Some(true)
        })?;
        Ok(returned as usize)
    }
}

status! {
    /// Registers an allocator on a stream.
    fn CairnSessionRegister(session: u64, stream: *const c_void, allocator: *const CairnAllocator) {
        // SAFETY: the caller passes null or an allocator whose owner passes to us.
        let user = unsafe { allocator.as_ref() }.map(|one| Box::new(GeAllocator(*one)));
        let user = user.filter(|user| !user.0.object.is_null());
        engine().register(session, stream as usize, user.map(|user| user as Box<dyn UserAllocator>))
    }

    /// Ends what is registered on a stream.
    fn CairnSessionUnregister(session: u64, stream: *const c_void) {
        engine().unregister(session, stream as usize)
    }
}
