//! Being on another device, or in another context, for a moment.

use crate::acl::{Acl, Code, Handle};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The calling thread is where it was asked to be; dropping this brings it back to where it was. A
/// thread that was nowhere stays: ACL has no way back from that.
pub struct Visit<'a> {
    acl: &'a Acl,
    back: Option<Handle>,
    /// No other way led here but aclrtSetDevice.
    pub is_first: bool,
}

impl<'a> Visit<'a> {
    /// In a context; the code if ACL does not let us.
    pub fn to_context(acl: &'a Acl, context: Handle) -> Result<Visit<'a>, Code> {
        let here = current(acl);
        if here == Some(context) {
            return Ok(Visit { acl, back: None, is_first: false });
        }
        // SAFETY: ACL checks the handle.
        let code = unsafe { (acl.aclrtSetCurrentContext)(context) };
        match code {
            0 => Ok(Visit { acl, back: here, is_first: false }),
            code => Err(code),
        }
    }

    /// On a device: in the current context if it is of that device, else in the device's own, which
    /// `home` remembers. The first time that takes an aclrtSetDevice, which is never undone: older
    /// versions of aclrtResetDevice do not count. It may call user functions, so no lock is held.
    pub fn to_device(
        acl: &'a Acl,
        device: i32,
        home: &AtomicPtr<c_void>,
    ) -> Result<Visit<'a>, String> {
        if let Ok(visit) = Visit::to_home(acl, device, home) {
            return Ok(visit);
        }
        let back = device_of(acl).and_then(|_| current(acl));
        // SAFETY: a number is all it takes.
        let code = unsafe { (acl.aclrtSetDevice)(device) };
        if code != 0 {
            return Err(format!("aclrtSetDevice({device}) returned {code}"));
        }
        let visit = Visit { acl, back, is_first: true };
        home.store(current(acl).unwrap_or(std::ptr::null_mut()), Ordering::Release);
        Ok(visit)
    }
}

impl<'a> Visit<'a> {
    /// The same under the pool's locks: never by aclrtSetDevice, so it fails if the thread is elsewhere
    /// and no home is known. Whoever calls the pool has been to the device before.
    pub fn to_home(
        acl: &'a Acl,
        device: i32,
        home: &AtomicPtr<c_void>,
    ) -> Result<Visit<'a>, String> {
        if device_of(acl) == Some(device) {
            return Ok(Visit { acl, back: None, is_first: false });
        }
        let known = home.load(Ordering::Acquire);
        let elsewhere = || format!("the calling thread is not on device {device}");
        match known.is_null() {
            true => Err(elsewhere()),
            false => Visit::to_context(acl, known).map_err(|_| elsewhere()),
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if let Some(context) = self.back {
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
