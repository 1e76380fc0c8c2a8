//! Entering another device or context, and going back.

use crate::acl::{Acl, Code, Handle};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// While this exists the calling thread is in a given context; then it goes back to the one it was in. A
/// thread that had no context stays: ACL has no way to leave one.
pub struct Visit<'a> {
    acl: &'a Acl,
    /// The context to go back to.
    previous: Option<Handle>,
    /// It took an aclrtSetDevice.
    pub set_device: bool,
}

impl<'a> Visit<'a> {
    /// Enters a context; the code if ACL refuses.
    pub fn to_context(acl: &'a Acl, context: Handle) -> Result<Visit<'a>, Code> {
        let current_context = current(acl);
        if current_context == Some(context) {
            return Ok(Visit { acl, previous: None, set_device: false });
        }
        // SAFETY: ACL checks the handle.
        let code = unsafe { (acl.aclrtSetCurrentContext)(context) };
        match code {
            0 => Ok(Visit { acl, previous: current_context, set_device: false }),
            code => Err(code),
        }
    }

    /// Enters a device: stays in the current context if it is of that device, else enters the device's own, which
    /// is stored in `home`. The first time that takes an aclrtSetDevice, which is never undone: older
    /// versions of aclrtResetDevice do not count references. It may call user functions, so no lock is held.
    pub fn to_device(
        acl: &'a Acl,
        device: i32,
        home: &AtomicPtr<c_void>,
    ) -> Result<Visit<'a>, String> {
        if let Ok(visit) = Visit::to_home(acl, device, home) {
            return Ok(visit);
        }
        let previous = device_of(acl).and_then(|_| current(acl));
        // SAFETY: a number is all it takes.
        let code = unsafe { (acl.aclrtSetDevice)(device) };
        if code != 0 {
            return Err(format!("aclrtSetDevice({device}) returned {code}"));
        }
        let visit = Visit { acl, previous, set_device: true };
        home.store(current(acl).unwrap_or(std::ptr::null_mut()), Ordering::Release);
        Ok(visit)
    }
}

impl<'a> Visit<'a> {
    /// The same under the pool's locks, never by aclrtSetDevice: so it fails if the thread is on another device
    /// and `home` is null. Callers of the pool's slow paths have entered the device before.
    pub fn to_home(
        acl: &'a Acl,
        device: i32,
        home: &AtomicPtr<c_void>,
    ) -> Result<Visit<'a>, String> {
        if device_of(acl) == Some(device) {
            return Ok(Visit { acl, previous: None, set_device: false });
        }
        let context = home.load(Ordering::Acquire);
        let refusal = || format!("the calling thread is not on device {device}");
        match context.is_null() {
            true => Err(refusal()),
            false => Visit::to_context(acl, context).map_err(|_| refusal()),
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if let Some(context) = self.previous {
            // SAFETY: it was current a moment ago.
            unsafe { (self.acl.aclrtSetCurrentContext)(context) };
        }
    }
}

/// The device of the calling thread.
fn device_of(acl: &Acl) -> Option<i32> {
    let mut device = -1;
    // SAFETY: the number is written to a place of ours.
    let code = unsafe { (acl.aclrtGetDevice)(&mut device) };
    (code == 0).then_some(device)
}

/// The context of the calling thread.
pub fn current(acl: &Acl) -> Option<Handle> {
    let mut context = std::ptr::null_mut();
    // SAFETY: the handle is written to a place of ours.
    let code = unsafe { (acl.aclrtGetCurrentContext)(&mut context) };
    (code == 0 && !context.is_null()).then_some(context)
}
