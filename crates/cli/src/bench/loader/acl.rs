//! The functions of `libascendcl.so`, and of `libge_runner.so` for allocators of graphs, that the bench calls.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    ptr::{null, null_mut},
};

use anyhow::{Result, bail, ensure};

use super::Library;
use crate::bench::spec::Door;

type Handle = *mut c_void;

/// A stream, by the handle that ACL gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamHandle(pub usize);

/// What the engine took from a registered allocator.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Where the block is.
    pub address: usize,
    /// What gives it back.
    pub kept: usize,
}

macro_rules! functions {
    ($($name:ident: $type:ty,)*) => {
        #[allow(non_snake_case)]
        struct Functions {
            $($name: $type,)*
        }

        impl Functions {
            fn load(library: &Library) -> Result<Functions> {
                // SAFETY: the types are those of the toolkit's headers.
                unsafe { Ok(Functions { $($name: library.function(stringify!($name))?,)* }) }
            }
        }
    };
}

functions! {
    aclInit: unsafe extern "C" fn(*const c_char) -> c_int,
    aclGetRecentErrMsg: unsafe extern "C" fn() -> *const c_char,
    aclrtSetDevice: unsafe extern "C" fn(i32) -> c_int,
    aclrtGetDevice: unsafe extern "C" fn(*mut i32) -> c_int,
    aclrtGetMemInfo: unsafe extern "C" fn(c_int, *mut usize, *mut usize) -> c_int,
    aclrtPointerGetAttributes: unsafe extern "C" fn(Handle, *mut Attributes) -> c_int,
    aclrtCreateStream: unsafe extern "C" fn(*mut Handle) -> c_int,
    aclrtSynchronizeStream: unsafe extern "C" fn(Handle) -> c_int,
    aclrtMemsetAsync: unsafe extern "C" fn(Handle, usize, i32, usize, Handle) -> c_int,
    aclrtMemcpy: unsafe extern "C" fn(Handle, usize, Handle, usize, c_int) -> c_int,
    aclrtAllocatorRegister: unsafe extern "C" fn(Handle, Handle) -> c_int,
    aclrtAllocatorUnregister: unsafe extern "C" fn(Handle) -> c_int,
    aclrtAllocatorDestroyDesc: unsafe extern "C" fn(Handle) -> c_int,
    cairnProbeTake: unsafe extern "C" fn(Handle, c_int, usize, Handle, *mut Handle, *mut Handle) -> c_int,
    cairnProbeGiveBack: unsafe extern "C" fn(Handle) -> c_int,
}

/// `ACL_MEMCPY_DEVICE_TO_HOST`.
const DEVICE_TO_HOST: c_int = 2;
/// `ACL_DDR_MEM` and `ACL_HBM_MEM`: a device has one of them.
const DEVICE_MEMORY: [c_int; 2] = [0, 1];

/// `aclrtPtrAttributes`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    id: u32,
    location: c_int,
    page_size: u32,
    reserved: [u32; 4],
}

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In live memory of this device.
    Device(u32),
    /// In host memory that ACL knows: pinned or registered.
    Host,
    /// In no memory of ACL's.
    Nowhere,
}

/// ACL, initialised. Addresses and handles that are wrong end in errors: this library checks them.
pub struct Acl {
    functions: Functions,
}

impl Acl {
    /// Loads and initialises ACL.
    pub fn open() -> Result<Acl> {
        let library = Library::open(Path::new("libascendcl.so"))?;
        let acl = Acl { functions: Functions::load(&library)? };
        // SAFETY: null is allowed.
        acl.check("aclInit", unsafe { (acl.functions.aclInit)(null()) })?;
        Ok(acl)
    }

    /// An error with ACL's own text for a code that is not 0.
    fn check(&self, function: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: it takes nothing, and its text lives until the next call on this thread.
        let text = unsafe {
            let text = (self.functions.aclGetRecentErrMsg)();
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().trim().to_owned())
        };
        bail!("{function} gave {code}: {}", text.unwrap_or_default())
    }

    /// Makes a device the thread's own.
    pub fn set_device(&self, device: u32) -> Result<()> {
        // SAFETY: a number is checked by ACL.
        self.check("aclrtSetDevice", unsafe { (self.functions.aclrtSetDevice)(device as i32) })
    }

    /// The thread's device.
    pub fn device(&self) -> Result<i32> {
        let mut device = -1;
        // SAFETY: the variable is ours.
        let code = unsafe { (self.functions.aclrtGetDevice)(&mut device) };
        self.check("aclrtGetDevice", code)?;
        Ok(device)
    }

    /// Bytes of the thread's device that nobody has.
    pub fn free_memory(&self) -> Result<u64> {
        let mut all = 0;
        for kind in DEVICE_MEMORY {
            let (mut free, mut total) = (0, 0);
            // SAFETY: both variables are ours.
            let code = unsafe { (self.functions.aclrtGetMemInfo)(kind, &mut free, &mut total) };
            self.check("aclrtGetMemInfo", code)?;
            all += free as u64;
        }
        Ok(all)
    }

    /// Where an address that is not null lies.
    pub fn location(&self, address: usize) -> Result<Location> {
        let mut attributes = Attributes::default();
        let ask = self.functions.aclrtPointerGetAttributes;
        // SAFETY: the variable is ours; ACL looks the address up, and touches nothing there.
        let code = unsafe { ask(address as Handle, &mut attributes) };
        self.check("aclrtPointerGetAttributes", code)?;
        Ok(match attributes.location {
            0 => Location::Host,
            1 => Location::Device(attributes.id),
            _ => Location::Nowhere,
        })
    }

    /// A new stream on the thread's device.
    pub fn create_stream(&self) -> Result<StreamHandle> {
        let mut stream = null_mut();
        // SAFETY: the variable is ours.
        let code = unsafe { (self.functions.aclrtCreateStream)(&mut stream) };
        self.check("aclrtCreateStream", code)?;
        Ok(StreamHandle(stream as usize))
    }

    /// Waits for a stream; reports what went wrong in its tasks.
    pub fn synchronize(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: ACL checks handles.
        let code = unsafe { (self.functions.aclrtSynchronizeStream)(stream.0 as Handle) };
        self.check("aclrtSynchronizeStream", code)
    }

    /// Queues a task that sets bytes of device memory.
    pub fn fill(&self, stream: StreamHandle, address: usize, bytes: u64, value: u8) -> Result<()> {
        let (bytes, handle) = (bytes as usize, stream.0 as Handle);
        let fill = self.functions.aclrtMemsetAsync;
        // SAFETY: ACL checks where the bytes lie before it touches them.
        let code = unsafe { fill(address as Handle, bytes, value.into(), bytes, handle) };
        self.check("aclrtMemsetAsync", code)
    }

    /// Copies bytes of device memory.
    pub fn read(&self, address: usize, bytes: &mut [u8]) -> Result<()> {
        let (room, target) = (bytes.len(), bytes.as_mut_ptr().cast());
        let copy = self.functions.aclrtMemcpy;
        // SAFETY: the target is ours and as long as it says; ACL checks where the source lies.
        let code = unsafe { copy(target, room, address as Handle, room, DEVICE_TO_HOST) };
        self.check("aclrtMemcpy", code)
    }

    /// Takes a block from the allocator that is registered on a stream.
    pub fn take(&self, stream: StreamHandle, door: Door, bytes: u64, near: usize) -> Result<Taken> {
        let (mut address, mut kept) = (null_mut(), null_mut());
        let take = self.functions.cairnProbeTake;
        let domain = match door {
            Door::Acl => 0,
            Door::Ge => 1,
        };
        let (stream, near) = (stream.0 as Handle, near as Handle);
        // SAFETY: the variables are ours; ACL checks the handle, and what the allocator answers.
        let code = unsafe { take(stream, domain, bytes as usize, near, &mut address, &mut kept) };
        self.check("the engine", code)?;
        Ok(Taken { address: address as usize, kept: kept as usize })
    }

    /// Gives a block back to the allocator it came from.
    pub fn give_back(&self, taken: Taken) -> Result<()> {
        // SAFETY: ACL checks handles.
        self.check("the engine", unsafe {
            (self.functions.cairnProbeGiveBack)(taken.kept as Handle)
        })
    }

    /// Registers a descriptor on a stream, and destroys it, as the registration allows.
    pub(super) fn register_descriptor(&self, stream: StreamHandle, desc: usize) -> Result<()> {
        let (stream, desc) = (stream.0 as Handle, desc as Handle);
        // SAFETY: ACL checks both handles.
        let code = unsafe { (self.functions.aclrtAllocatorRegister)(stream, desc) };
        self.check("aclrtAllocatorRegister", code)?;
        // SAFETY: as above.
        let code = unsafe { (self.functions.aclrtAllocatorDestroyDesc)(desc) };
        self.check("aclrtAllocatorDestroyDesc", code)
    }

    /// Ends the registration of a descriptor.
    pub(super) fn unregister_descriptor(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: ACL checks the handle.
        let code = unsafe { (self.functions.aclrtAllocatorUnregister)(stream.0 as Handle) };
        self.check("aclrtAllocatorUnregister", code)
    }
}

/// The part of the graph engine that registers allocators.
pub struct GraphEngine {
    register: unsafe extern "C" fn(Handle, Handle) -> u32,
    unregister: unsafe extern "C" fn(Handle) -> u32,
}

impl GraphEngine {
    /// Loads it.
    pub fn open() -> Result<GraphEngine> {
        let library = Library::open(Path::new("libge_runner.so"))?;
        // SAFETY: the types are those of cpp/probe.cpp.
        unsafe {
            Ok(GraphEngine {
                register: library.function("cairnProbeRegisterGe")?,
                unregister: library.function("cairnProbeUnregisterGe")?,
            })
        }
    }

    /// Registers an allocator, which the engine owns from now on.
    pub(super) fn register(&self, stream: StreamHandle, allocator: usize) -> Result<()> {
        // SAFETY: the user's factory made the allocator, and nobody else has it.
        let status = unsafe { (self.register)(stream.0 as Handle, allocator as Handle) };
        ensure!(status == 0, "RegisterExternalAllocator gave {status:#x}");
        Ok(())
    }

    /// Ends the registration.
    pub(super) fn unregister(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: the engine checks the handle.
        let status = unsafe { (self.unregister)(stream.0 as Handle) };
        ensure!(status == 0, "UnregisterExternalAllocator gave {status:#x}");
        Ok(())
    }
}
