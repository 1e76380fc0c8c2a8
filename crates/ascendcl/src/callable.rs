//! Functions of an allocator's descriptor that carry a context. The Python module `acl` sets callables so; C has no
//! other way to tell one from another, since the get-address function gets nothing but a block.

use crate::abi::Entry;
use crate::allocator::{self, AclAllocator};
use crate::door::{Handle, not_null, status, write};
use crate::ge::abi::*;
use crate::trampoline::call_user;
use cairn_runtime::error::Error;
use cairn_runtime::memory::external::CallbackException;
use std::ffi::c_void;
use std::sync::Arc;

/// How many functions an allocator has.
pub const COUNT: usize = CAIRN_FUNCTIONS as usize;

/// A function with its context, which is released with the last descriptor or registration that has it.
pub struct Callable(CairnCallable);

// SAFETY: whoever set it vouches that its functions may be called on any thread.
unsafe impl Send for Callable {}
// SAFETY: likewise.
unsafe impl Sync for Callable {}

impl Drop for Callable {
    /// At the end of the process the context stays: what it needs may be gone.
    fn drop(&mut self) {
        if let Some(drop) = self.0.drop
            && !crate::process::is_ending()
        {
            // SAFETY: the context is released once, here.
            unsafe { drop(self.0.context) };
        }
    }
}

impl Callable {
    /// What distinguishes it from other functions while it exists.
    pub fn identity(&self) -> [usize; 2] {
        self.0.identity
    }

    /// Calls it with the arguments that the C function in its place would get.
    pub fn call(
        &self,
        arguments: &[usize],
        on_exit: &dyn Fn(),
    ) -> std::result::Result<usize, CallbackException> {
        let mut result = 0;
        call_user(on_exit, |call_context| {
            let (first, count) = (arguments.as_ptr(), arguments.len());
            // SAFETY: whoever set the function gave it for this context; the rest is there for the call.
            let called = |call: Call| unsafe {
                call(self.0.context, first, count, &mut result, call_context)
            };
            self.0.call.is_some_and(called)
        })?;
        Ok(result)
    }
}

type Call = unsafe extern "C" fn(
    *mut c_void,
    *const usize,
    usize,
    *mut usize,
    *const CairnCallContext,
) -> bool;

/// A function of an allocator.
#[derive(Clone)]
pub enum Function {
    /// The address of a function of C.
    C(usize),
    /// A function with a context.
    Callable(Arc<Callable>),
}

impl Function {
    /// What distinguishes it from other functions while it exists.
    pub fn identity(&self) -> [usize; 2] {
        match self {
            Function::C(address) => [*address, 0],
            Function::Callable(callable) => callable.identity(),
        }
    }

    /// What C may call as this function. A function with a context has no address; the one given instead fails, and
    /// logs why.
    pub fn address(&self, index: usize) -> usize {
        match self {
            Function::C(address) => *address,
            Function::Callable(_) => failing_functions()[index],
        }
    }
}

/// Functions of C that log an error and do nothing, by index.
fn failing_functions() -> [usize; COUNT] {
    fn refuse(what: &str) {
        log::error!(
            "C called the {what} function of an allocator that was written in Python: it has no address, and only operators reach it"
        );
    }
    extern "C" fn alloc(_: Handle, _: usize) -> Handle {
        refuse("alloc");
        std::ptr::null_mut()
    }
    extern "C" fn free(_: Handle, _: Handle) {
        refuse("free");
    }
    extern "C" fn advise(_: Handle, _: usize, _: Handle) -> Handle {
        refuse("alloc-advise");
        std::ptr::null_mut()
    }
    extern "C" fn address(_: Handle) -> Handle {
        refuse("get-address");
        std::ptr::null_mut()
    }
    [alloc as *const (), free as *const (), advise as *const (), address as *const ()]
        .map(|function| function as usize)
}

/// Sets a function with a context. After a failure the context is still the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CairnAllocatorSetCallable(
    desc: Handle,
    which: CairnFunction,
    callable: *const CairnCallable,
) -> i32 {
    let index = which as usize;
    let entry = match which {
        CAIRN_FUNCTION_ALLOC => Entry::aclrtAllocatorSetAllocFuncToDesc,
        CAIRN_FUNCTION_FREE => Entry::aclrtAllocatorSetFreeFuncToDesc,
        CAIRN_FUNCTION_ADVISE => Entry::aclrtAllocatorSetAllocAdviseFuncToDesc,
        _ => Entry::aclrtAllocatorSetGetAddrFromBlockFuncToDesc,
    };
    status_number(status(entry, || {
        let descriptor = allocator::descriptor(desc)?;
        // SAFETY: the caller passes null or a callable whose context passes to us.
        let callable = unsafe { callable.as_ref() }.ok_or_else(|| Error::null("func"))?;
        if index >= COUNT {
            return Err(Error::invalid(format!("an allocator has no function {index}")));
        }
        descriptor.set(index, Function::Callable(Arc::new(Callable(*callable))));
        Ok(())
    }))
}
const _: signature::CairnAllocatorSetCallable = CairnAllocatorSetCallable;

/// Tells what is registered on a stream, and shows the contexts of its functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CairnAllocatorGetByStream(
    stream: Handle,
    registered: *mut CairnRegistration,
    receiver: *mut c_void,
    callback: CairnContextCallback,
) -> i32 {
    status_number(status(Entry::aclrtAllocatorGetByStream, || {
        not_null(registered, "allocatorDesc")?;
        let found = allocator::registered(stream)?;
        let user = allocator::allocator_of(&found);
        let functions = user.functions();
        // SAFETY: the caller passes null or a pointer to it.
        unsafe {
            write(
                registered,
                "allocatorDesc",
                CairnRegistration {
                    desc: found.descriptor as Handle,
                    object: user.object as Handle,
                    functions: functions.map(|function| match function {
                        Some(Function::C(address)) => *address,
                        _ => 0,
                    }),
                },
            )?;
        }
        show_contexts(user, receiver, callback);
        Ok(())
    }))
}
const _: signature::CairnAllocatorGetByStream = CairnAllocatorGetByStream;

/// Shows the context of each function that has one.
fn show_contexts(user: &AclAllocator, receiver: *mut c_void, callback: CairnContextCallback) {
    let Some(callback) = callback else { return };
    for (which, function) in user.functions().iter().enumerate() {
        if let Some(Function::Callable(callable)) = function {
            // SAFETY: the caller gave the function for its receiver; the registration keeps the context.
            unsafe { callback(receiver, which as CairnFunction, callable.0.context) };
        }
    }
}

/// The number of a status.
fn status_number(status: crate::code::aclError) -> i32 {
    status.err().map_or(0, |error| error.number())
}
