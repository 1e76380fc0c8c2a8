//! Users' allocators: described by a handle, registered on a stream.

use crate::abi;
use crate::door::{self, Handle, entry, not_null, runtime, value_entry, write};
use crate::trampoline::{
    Guard, cairn_call_allocator_address, cairn_call_allocator_advise, cairn_call_allocator_alloc,
    cairn_call_allocator_free,
};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::Handled;
use cairn_runtime::memory::external::{Identity, Request, Thrown, UserAllocator};
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::stream::Stream;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a descriptor says so far.
#[derive(Clone, Copy, Default)]
struct Fields {
    object: usize,
    alloc: abi::aclrtAllocatorAllocFunc,
    free: abi::aclrtAllocatorFreeFunc,
    advise: abi::aclrtAllocatorAllocAdviseFunc,
    address: abi::aclrtAllocatorGetAddrFromBlockFunc,
}

/// What a descriptor's handle names.
struct Descriptor(Mutex<Fields>);

impl Handled for Descriptor {
    const KIND: &'static str = "allocator descriptor";
}

impl Descriptor {
    fn fields(&self) -> MutexGuard<'_, Fields> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A complete descriptor, copied when it was registered.
#[derive(Clone, Copy)]
struct AclAllocator {
    object: usize,
    alloc: unsafe extern "C" fn(abi::aclrtAllocator, usize) -> *mut c_void,
    free: unsafe extern "C" fn(abi::aclrtAllocator, abi::aclrtAllocatorBlock),
    advise: abi::aclrtAllocatorAllocAdviseFunc,
    address: unsafe extern "C" fn(abi::aclrtAllocatorBlock) -> *mut c_void,
}

impl AclAllocator {
    fn new(fields: &Fields) -> Result<AclAllocator> {
        let missing = |what: &str| {
            Error::invalid(format!(
                "the argument allocatorDesc lacks {what}: set it before the registration"
            ))
        };
        if fields.object == 0 {
            return Err(missing("its object (aclrtAllocatorSetObjToDesc)"));
        }
        Ok(AclAllocator {
            object: fields.object,
            alloc: fields
                .alloc
                .ok_or_else(|| missing("its alloc function (aclrtAllocatorSetAllocFuncToDesc)"))?,
            free: fields
                .free
                .ok_or_else(|| missing("its free function (aclrtAllocatorSetFreeFuncToDesc)"))?,
            advise: fields.advise,
            address: fields.address.ok_or_else(|| {
                missing("its get-address function (aclrtAllocatorSetGetAddrFromBlockFuncToDesc)")
            })?,
        })
    }
}

impl UserAllocator for AclAllocator {
    fn identity(&self) -> Identity {
        let advise = self.advise.map_or(0, |function| function as usize);
        Identity {
            object: self.object,
            functions: [self.alloc as usize, self.free as usize, advise, self.address as usize],
        }
    }

    fn takes_advice(&self) -> bool {
        self.advise.is_some()
    }

    fn call(&self, request: Request, left: &dyn Fn()) -> std::result::Result<usize, Thrown> {
        unsafe extern "C" fn forward(context: *const c_void) {
            // SAFETY: the context is the reference below, on a frame that is still there.
            (unsafe { &*context.cast::<&dyn Fn()>() })();
        }
        let mut said = [0 as c_char; 256];
        let guard = Guard {
            left: forward,
            context: std::ptr::from_ref(&left).cast(),
            said: said.as_mut_ptr(),
            room: said.len(),
        };
        let object = self.object as *mut c_void;
        let mut given = null_mut();
        // SAFETY: the functions are of the types that the headers give them; the user registered
        // them to be called with this object and with blocks that they gave.
        let fine = unsafe {
            match request {
                Request::Advise(bytes, near) if let Some(advise) = self.advise => {
                    cairn_call_allocator_advise(
                        advise as *const c_void,
                        object,
                        bytes,
                        near as *mut c_void,
                        &mut given,
                        &guard,
                    )
                }
                Request::Alloc(bytes) | Request::Advise(bytes, _) => cairn_call_allocator_alloc(
                    self.alloc as *const c_void,
                    object,
                    bytes,
                    &mut given,
                    &guard,
                ),
                Request::Address(block) => cairn_call_allocator_address(
                    self.address as *const c_void,
                    block as *mut c_void,
                    &mut given,
                    &guard,
                ),
                Request::Free(block) => cairn_call_allocator_free(
                    self.free as *const c_void,
                    object,
                    block as *mut c_void,
                    &guard,
                ),
            }
        };
        if fine {
            return Ok(given as usize);
        }
        // SAFETY: the trampoline ends what it writes with a NUL, and nothing written is an empty text.
        let text = unsafe { CStr::from_ptr(said.as_ptr()) };
        Err(Thrown(text.to_string_lossy().into_owned()))
    }
}

/// Fails on parts that do not have allocators of the user.
fn supported() -> Result<()> {
    let soc = &runtime()?.shared.config.soc;
    match soc.starts_with("Ascend310B") {
        false => Ok(()),
        true => Err(Error::new(
            Code::FeatureNotSupport,
            format!(
                "{soc} does not take allocators of the user (Atlas 200I/500 A2 inference products do not)"
            ),
        )),
    }
}

/// The descriptor behind a handle of the user.
fn descriptor(handle: Handle) -> Result<Arc<Descriptor>> {
    supported()?;
    not_null(handle, "allocatorDesc")?;
    runtime()?.handles.get(handle as usize)
}

/// Sets a function of a descriptor; null is not taken.
fn set<F>(
    handle: Handle,
    function: Option<F>,
    place: impl FnOnce(&mut Fields) -> &mut Option<F>,
) -> Result<()> {
    let descriptor = descriptor(handle)?;
    let function = function.ok_or_else(|| Error::null("func"))?;
    *place(&mut descriptor.fields()) = Some(function);
    Ok(())
}

value_entry! {
    /// A new descriptor with nothing in it.
    fn aclrtAllocatorCreateDesc() -> abi::aclrtAllocatorDesc, else null_mut(), {
        supported()?;
        let descriptor = Arc::new(Descriptor(Mutex::new(Fields::default())));
        Ok(runtime()?.handles.insert(descriptor)? as Handle)
    }
}

entry! {
    /// Ends a descriptor; what was registered with it stays.
    fn aclrtAllocatorDestroyDesc(desc: Handle) {
        supported()?;
        not_null(desc, "allocatorDesc")?;
        runtime()?.handles.remove::<Descriptor>(desc as usize).map(drop)
    }

    /// Sets the object that callbacks get.
    fn aclrtAllocatorSetObjToDesc(desc: Handle, object: Handle) {
        let descriptor = descriptor(desc)?;
        not_null(object, "allocator")?;
        descriptor.fields().object = object as usize;
        Ok(())
    }

    /// Sets the function that gives blocks.
    fn aclrtAllocatorSetAllocFuncToDesc(desc: Handle, func: abi::aclrtAllocatorAllocFunc) {
        set(desc, func, |fields| &mut fields.alloc)
    }

    /// Sets the function that takes blocks back.
    fn aclrtAllocatorSetFreeFuncToDesc(desc: Handle, func: abi::aclrtAllocatorFreeFunc) {
        set(desc, func, |fields| &mut fields.free)
    }

    /// Sets the function that gives blocks near an address.
    fn aclrtAllocatorSetAllocAdviseFuncToDesc(desc: Handle, func: abi::aclrtAllocatorAllocAdviseFunc) {
        set(desc, func, |fields| &mut fields.advise)
    }

    /// Sets the function that tells the address of a block.
    fn aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc: Handle, func: abi::aclrtAllocatorGetAddrFromBlockFunc) {
        set(desc, func, |fields| &mut fields.address)
    }

    /// Registers a copy of the descriptor on a stream of any context.
    fn aclrtAllocatorRegister(stream: Handle, desc: Handle) {
        supported()?;
        not_null(stream, "stream")?;
        let user = AclAllocator::new(&descriptor(desc)?.fields())?;
        let runtime = runtime()?;
        let (handle, word) = (stream as usize, desc as usize);
        let stream = runtime.handles.get::<Stream>(handle)?;
        let wrap = |plain| runtime.shared.memory.wrap_external(plain);
        runtime.allocators.register(Domain::Acl, handle, &stream, word, Box::new(user), wrap)
    }

    /// What is registered on a stream.
    fn aclrtAllocatorGetByStream(
        stream: Handle,
        desc: *mut abi::aclrtAllocatorDesc,
        object: *mut abi::aclrtAllocator,
        alloc: *mut abi::aclrtAllocatorAllocFunc,
        free: *mut abi::aclrtAllocatorFreeFunc,
        advise: *mut abi::aclrtAllocatorAllocAdviseFunc,
        address: *mut abi::aclrtAllocatorGetAddrFromBlockFunc,
    ) {
        supported()?;
        not_null(stream, "stream")?;
        not_null(desc, "allocatorDesc")?;
        let found = runtime()?.allocators.registration(Domain::Acl, stream as usize);
        let found = found.ok_or_else(|| Error::invalid(format!("the stream {stream:p} has no allocator registered")))?;
        let Identity { object: known, functions } = found.external.identity();
        // SAFETY: the places are null or the user's; the numbers are the functions that came
        // through `aclrtAllocatorRegister`, in the order of `AclAllocator::identity`, 0 for none.
        unsafe {
            write(desc, "allocatorDesc", found.word as Handle)?;
            answer(object, known as Handle);
            answer(alloc, std::mem::transmute::<usize, abi::aclrtAllocatorAllocFunc>(functions[0]));
            answer(free, std::mem::transmute::<usize, abi::aclrtAllocatorFreeFunc>(functions[1]));
            answer(advise, std::mem::transmute::<usize, abi::aclrtAllocatorAllocAdviseFunc>(functions[2]));
            answer(address, std::mem::transmute::<usize, abi::aclrtAllocatorGetAddrFromBlockFunc>(functions[3]));
        }
        Ok(())
    }

    /// Ends what is registered on a stream, if anything is.
    fn aclrtAllocatorUnregister(stream: Handle) {
        supported()?;
        not_null(stream, "stream")?;
        runtime()?.allocators.unregister(Domain::Acl, stream as usize);
        Ok(())
    }
}

/// Writes to a place of the user that may be left out.
///
/// # Safety
/// `out` is null or points to writable memory for a `T`.
unsafe fn answer<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        let _ = unsafe { door::write(out, "", value) };
    }
}
