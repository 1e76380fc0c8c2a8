//! Users' allocators: described by a handle, registered on a stream.

use crate::abi;
use crate::callable::{COUNT, Function};
use crate::door::{self, Handle, entry, not_null, runtime, value_entry, write};
use crate::trampoline::{
    cairn_call_allocator_address, cairn_call_allocator_advise, cairn_call_allocator_alloc,
    cairn_call_allocator_free, call_user,
};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_runtime::memory::external::{CallbackException, Identity, UserAllocator, UserCall};
use cairn_runtime::memory::registry::{Domain, Registration};
use cairn_runtime::stream::Stream;
use std::any::Any;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The index of the function that gives blocks. Indices are those of `CairnFunction` in `cpp/bridge.h`.
const ALLOC: usize = 0;
/// The index of the function that takes blocks back.
const FREE: usize = 1;
/// The index of the function that gives blocks near an address, which need not be there.
const ADVISE: usize = 2;
/// The index of the function that tells the address of a block.
const ADDRESS: usize = 3;

/// What a descriptor says so far.
#[derive(Clone, Default)]
struct Fields {
    object: usize,
    functions: [Option<Function>; COUNT],
}

/// What a descriptor's handle names.
pub struct Descriptor(Mutex<Fields>);

impl HandleObject for Descriptor {
    const KIND: &'static str = "allocator descriptor";
}

impl Descriptor {
    fn fields(&self) -> MutexGuard<'_, Fields> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a function. The previous one is dropped with no lock held: that may run user code.
    pub fn set(&self, index: usize, function: Function) {
        let previous = self.fields().functions[index].replace(function);
        drop(previous);
    }
}

/// A complete descriptor, copied when it was registered.
pub struct AclAllocator {
    /// What the functions get first.
    pub object: usize,
    alloc: Function,
    free: Function,
    advise: Option<Function>,
    address: Function,
}

impl AclAllocator {
    fn new(fields: Fields) -> Result<AclAllocator> {
        let missing = |what: &str| {
            Error::invalid(format!(
                "the argument allocatorDesc lacks {what}: set it before the registration"
            ))
        };
        let Fields { object, functions: [alloc, free, advise, address] } = fields;
        if object == 0 {
            return Err(missing("its object (aclrtAllocatorSetObjToDesc)"));
        }
        Ok(AclAllocator {
            object,
            alloc: alloc
                .ok_or_else(|| missing("its alloc function (aclrtAllocatorSetAllocFuncToDesc)"))?,
            free: free
                .ok_or_else(|| missing("its free function (aclrtAllocatorSetFreeFuncToDesc)"))?,
            advise,
            address: address.ok_or_else(|| {
                missing("its get-address function (aclrtAllocatorSetGetAddrFromBlockFuncToDesc)")
            })?,
        })
    }

    /// Its functions, by index.
    pub fn functions(&self) -> [Option<&Function>; COUNT] {
        [Some(&self.alloc), Some(&self.free), self.advise.as_ref(), Some(&self.address)]
    }
}

impl UserAllocator for AclAllocator {
    fn identity(&self) -> Identity {
        let identity = |function: Option<&Function>| function.map_or([0; 2], Function::identity);
        Identity { object: self.object, functions: self.functions().map(identity) }
    }

    fn takes_advice(&self) -> bool {
        self.advise.is_some()
    }

    fn call(
        &self,
        request: UserCall,
        on_exit: &dyn Fn(),
    ) -> std::result::Result<usize, CallbackException> {
        let (function, request) = match (request, &self.advise) {
            (UserCall::Advise(..), Some(advise)) => (advise, request),
            (UserCall::Advise(bytes, _), None) => (&self.alloc, UserCall::Alloc(bytes)),
            (UserCall::Alloc(_), _) => (&self.alloc, request),
            (UserCall::Address(_), _) => (&self.address, request),
            (UserCall::Free(_), _) => (&self.free, request),
        };
        let object = self.object;
        match (function, request) {
            (Function::C(address), _) => call_c(*address, object, request, on_exit),
            (Function::Callable(callable), UserCall::Alloc(bytes)) => {
                callable.call(&[object, bytes], on_exit)
            }
            (Function::Callable(callable), UserCall::Advise(bytes, near)) => {
                callable.call(&[object, bytes, near], on_exit)
            }
            (Function::Callable(callable), UserCall::Address(block)) => {
                callable.call(&[block], on_exit)
            }
            (Function::Callable(callable), UserCall::Free(block)) => {
                callable.call(&[object, block], on_exit)
            }
        }
    }
}

/// Calls a function of C that was set for this request.
fn call_c(
    address: usize,
    object: usize,
    request: UserCall,
    on_exit: &dyn Fn(),
) -> std::result::Result<usize, CallbackException> {
    let (function, object) = (address as *const c_void, object as Handle);
    let mut returned = null_mut();
    // SAFETY: the function is of the type that the headers give it; the user registered it to be called with this
    // object and with blocks that it gave.
    call_user(on_exit, |call_context| unsafe {
        match request {
            UserCall::Alloc(bytes) => {
                cairn_call_allocator_alloc(function, object, bytes, &mut returned, call_context)
            }
            UserCall::Advise(bytes, near) => {
                let near = near as Handle;
                cairn_call_allocator_advise(
                    function,
                    object,
                    bytes,
                    near,
                    &mut returned,
                    call_context,
                )
            }
            UserCall::Address(block) => {
                cairn_call_allocator_address(function, block as Handle, &mut returned, call_context)
            }
            UserCall::Free(block) => {
                cairn_call_allocator_free(function, object, block as Handle, call_context)
            }
        }
    })?;
    Ok(returned as usize)
}

/// Fails on SoCs without user allocators.
fn check_supported() -> Result<()> {
    let soc = &runtime()?.shared.config.soc;
    match soc.starts_with("Ascend310B") {
        false => Ok(()),
        true => Err(Error::new(
            Code::FeatureNotSupport,
            format!(
                "{soc} does not take user allocators (Atlas 200I/500 A2 inference products do not)"
            ),
        )),
    }
}

/// The descriptor that a handle of the user names.
pub fn descriptor(handle: Handle) -> Result<Arc<Descriptor>> {
    check_supported()?;
    not_null(handle, "allocatorDesc")?;
    runtime()?.handles.get(handle as usize)
}

/// Sets a function of C in a descriptor; null is not taken.
fn set(handle: Handle, index: usize, address: Option<usize>) -> Result<()> {
    let descriptor = descriptor(handle)?;
    descriptor.set(index, Function::C(address.ok_or_else(|| Error::null("func"))?));
    Ok(())
}

/// What is registered on a stream.
pub fn registered(stream: Handle) -> Result<Registration> {
    check_supported()?;
    not_null(stream, "stream")?;
    let found = runtime()?.allocators.registration(Domain::Acl, stream as usize);
    found
        .ok_or_else(|| Error::invalid(format!("the stream {stream:p} has no allocator registered")))
}

/// The allocator of a registration.
pub fn allocator_of(registration: &Registration) -> &AclAllocator {
    let user: &dyn Any = registration.external.user();
    user.downcast_ref().expect("in the domain Acl this file alone registers")
}

value_entry! {
    /// A new descriptor with nothing in it.
    fn aclrtAllocatorCreateDesc() -> abi::aclrtAllocatorDesc, else null_mut(), {
        check_supported()?;
        let descriptor = Arc::new(Descriptor(Mutex::new(Fields::default())));
        Ok(runtime()?.handles.insert(descriptor)? as Handle)
    }
}

entry! {
    /// Destroys a descriptor; what was registered with it stays.
    fn aclrtAllocatorDestroyDesc(desc: Handle) {
        check_supported()?;
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
        set(desc, ALLOC, func.map(|func| func as usize))
    }

    /// Sets the function that takes blocks back.
    fn aclrtAllocatorSetFreeFuncToDesc(desc: Handle, func: abi::aclrtAllocatorFreeFunc) {
        set(desc, FREE, func.map(|func| func as usize))
    }

    /// Sets the function that gives blocks near an address.
    fn aclrtAllocatorSetAllocAdviseFuncToDesc(desc: Handle, func: abi::aclrtAllocatorAllocAdviseFunc) {
        set(desc, ADVISE, func.map(|func| func as usize))
    }

    /// Sets the function that tells the address of a block.
    fn aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc: Handle, func: abi::aclrtAllocatorGetAddrFromBlockFunc) {
        set(desc, ADDRESS, func.map(|func| func as usize))
    }

    /// Registers a copy of the descriptor on a stream of any context.
    fn aclrtAllocatorRegister(stream: Handle, desc: Handle) {
        check_supported()?;
        not_null(stream, "stream")?;
        let fields = descriptor(desc)?.fields().clone();
        let user = AclAllocator::new(fields)?;
        let runtime = runtime()?;
        let (handle, user_handle) = (stream as usize, desc as usize);
        let stream = runtime.handles.get::<Stream>(handle)?;
        runtime.allocators.register(Domain::Acl, handle, &stream, user_handle, Box::new(user))
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
        not_null(stream, "stream")?;
        not_null(desc, "allocatorDesc")?;
        let found = registered(stream)?;
        let user = allocator_of(&found);
        let known = user.functions();
        let functions: [usize; COUNT] =
            std::array::from_fn(|index| known[index].map_or(0, |function| function.address(index)));
        // SAFETY: the pointers are null or the user's; the numbers are functions of the types that the headers give
        // them, in the order of `AclAllocator::functions`, 0 for none.
        unsafe {
            write(desc, "allocatorDesc", found.descriptor as Handle)?;
            write_optional(object, user.object as Handle);
            write_optional(alloc, std::mem::transmute::<usize, abi::aclrtAllocatorAllocFunc>(functions[ALLOC]));
            write_optional(free, std::mem::transmute::<usize, abi::aclrtAllocatorFreeFunc>(functions[FREE]));
            write_optional(advise, std::mem::transmute::<usize, abi::aclrtAllocatorAllocAdviseFunc>(functions[ADVISE]));
            write_optional(address, std::mem::transmute::<usize, abi::aclrtAllocatorGetAddrFromBlockFunc>(functions[ADDRESS]));
        }
        Ok(())
    }

    /// Ends what is registered on a stream, if anything is.
    fn aclrtAllocatorUnregister(stream: Handle) {
        check_supported()?;
        not_null(stream, "stream")?;
        runtime()?.allocators.unregister(Domain::Acl, stream as usize);
        Ok(())
    }
}

/// Writes a result, unless the user passes null for it.
///
/// # Safety
/// `out` is null or points to writable memory for a `T`.
unsafe fn write_optional<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        let _ = unsafe { door::write(out, "", value) };
    }
}
