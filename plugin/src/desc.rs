//! The pool as an allocator for `aclrtAllocatorRegister`. The handle of a block is its address; the allocator object is
//! the stream's id, which becomes invalid when the stream is destroyed.

use crate::acl::{Handle, acl};
use crate::blocks::{self, Caller};
use crate::devices::Device;
use crate::door::guarded;
use crate::streams::{self, FreePath};
use crate::{process, text};
use std::ffi::c_void;
use std::ptr::null_mut;

const ALLOC: Caller =
    Caller { function: "alloc of a pool's descriptor", free_path: Some(FreePath::Direct) };
const FREE: Caller =
    Caller { function: "free of a pool's descriptor", free_path: Some(FreePath::Direct) };

/// Creates a descriptor for a stream.
pub fn create(device: i32, stream: Handle) -> Result<Handle, String> {
    let acl = acl()?;
    let stream = Device::open(device)?.stream(stream)?;
    let missing = "this ACL has no aclrtAllocator functions";
    let (
        Some(create),
        Some(set_object),
        Some(set_alloc),
        Some(set_free),
        Some(set_advise),
        Some(set_get_address),
    ) = (
        acl.aclrtAllocatorCreateDesc,
        acl.aclrtAllocatorSetObjToDesc,
        acl.aclrtAllocatorSetAllocFuncToDesc,
        acl.aclrtAllocatorSetFreeFuncToDesc,
        acl.aclrtAllocatorSetAllocAdviseFuncToDesc,
        acl.aclrtAllocatorSetGetAddrFromBlockFuncToDesc,
    )
    else {
        return Err(missing.into());
    };
    // SAFETY: the descriptor is fresh, and the functions belong to a library that is never unloaded.
    let (desc, codes) = unsafe {
        let desc = create();
        if desc.is_null() {
            return Err("aclrtAllocatorCreateDesc gave no descriptor".into());
        }
        let codes = [
            set_object(desc, stream.id() as *mut c_void),
            set_alloc(desc, on_alloc),
            set_free(desc, on_free),
            set_advise(desc, on_advise),
            set_get_address(desc, on_address),
        ];
        (desc, codes)
    };
    match codes.iter().find(|&&code| code != 0) {
        None => Ok(desc),
        Some(code) => {
            let _ = destroy(desc);
            Err(format!("a new descriptor cannot be filled: {code}"))
        }
    }
}

/// Destroys a descriptor.
pub fn destroy(desc: Handle) -> Result<(), String> {
    let destroy =
        acl()?.aclrtAllocatorDestroyDesc.ok_or("this ACL has no aclrtAllocator functions")?;
    // SAFETY: ACL checks the handle as far as it can; the caller vouches for the rest.
    match unsafe { destroy(desc) } {
        0 => Ok(()),
        code => Err(format!("aclrtAllocatorDestroyDesc({desc:?}) returned {code}")),
    }
}

unsafe extern "C" fn on_alloc(object: *mut c_void, size: usize) -> *mut c_void {
    if process::forked() {
        return null_mut();
    }
    guarded(ALLOC.function, null_mut(), || match streams::find_by_id(object as usize) {
        Some(stream) => blocks::allocate(ALLOC, size as u64, stream.device(), stream.handle()),
        None => {
            text::fail(ALLOC.function, "the stream it was made for is gone: make a new one");
            null_mut()
        }
    })
}

unsafe extern "C" fn on_advise(object: *mut c_void, size: usize, _: *mut c_void) -> *mut c_void {
    // SAFETY: it makes no use of the object but as a number.
    unsafe { on_alloc(object, size) }
}

unsafe extern "C" fn on_free(object: *mut c_void, block: *mut c_void) {
    if process::forked() {
        return;
    }
    guarded(FREE.function, (), || match Device::holding(block as u64) {
        Some(device) => {
            let ended = || device.ended_owner(block as u64).filter(|s| s.id() == object as usize);
            let stream = streams::find_by_id(object as usize).or_else(ended);
            match (blocks::free_retired(FREE, block, None, device, stream), stream) {
                (Some(_), _) => {}
                (None, Some(_)) => _ = blocks::free_on(FREE, block, None, device, stream),
                (None, None) => text::fail(
                    FREE.function,
                    &format!(
                        "{block:?} stays: the stream of the descriptor is gone, and it was taken for another"
                    ),
                ),
            }
        }
        None if Device::all().any(|device| device.retired.remove(block as u64)) => {}
        None => text::fail(FREE.function, &format!("{block:?} is no block that is held")),
    });
}

unsafe extern "C" fn on_address(block: *mut c_void) -> *mut c_void {
    block
}
