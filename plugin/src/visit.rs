//! Being on another device, or in another context, for a moment.

use crate::acl::{Acl, Code, Handle};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The calling thread is where it was asked to be; dropping this brings it back to where it was. A
/// thread that was nowhere stays: ACL has no way back from that.
pub struct Visit<'a> {
    acl: &'a Acl,
    back: Option<Handle>,
}

impl<'a> Visit<'a> {
    /// In a context; the code if ACL does not let us.
    pub fn to_context(acl: &'a Acl, context: Handle) -> Result<Visit<'a>, Code> {
        let here = current(acl);
        if here == Some(context) {
            return Ok(Visit { acl, back: None });
        }
        // SAFETY: ACL checks the handle.
        let code = unsafe { (acl.aclrtSetCurrentContext)(context) };
        match code {
            0 => Ok(Visit { acl, back: here }),
            code => Err(code),
        }
    }

    /// On a device: in the current context if it is of that device, else in the device's own, which
    /// `home` remembers. The first time that takes an aclrtSetDevice, which is never undone: older
    /// versions of aclrtResetDevice do not count.
    pub fn to_device(
        acl: &'a Acl,
        device: i32,
        home: &AtomicPtr<std::ffi::c_void>,
    ) -> Result<Visit<'a>, String> {
        let mut now = -1;
        // SAFETY: the number is written to a place of ours.
        let placed = unsafe { (acl.aclrtGetDevice)(&mut now) } == 0;
        if placed && now == device {
            return Ok(Visit { acl, back: None });
        }
        let known = home.load(Ordering::Acquire);
        if !known.is_null()
            && let Ok(visit) = Visit::to_context(acl, known)
        {
            return Ok(visit);
        }
        let back = placed.then(|| current(acl)).flatten();
        // SAFETY: a number is all it takes.
        let code = unsafe { (acl.aclrtSetDevice)(device) };
        if code != 0 {
            return Err(format!("aclrtSetDevice({device}) returned {code}"));
        }
        let visit = Visit { acl, back };
        home.store(current(acl).unwrap_or(std::ptr::null_mut()), Ordering::Release);
        Ok(visit)
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

/// The context of the calling thread.
pub fn current(acl: &Acl) -> Option<Handle> {
    let mut context = std::ptr::null_mut();
    // SAFETY: the handle is written to a place of ours.
    let code = unsafe { (acl.aclrtGetCurrentContext)(&mut context) };
    (code == 0 && !context.is_null()).then_some(context)
}
