//! The functions of users' libraries, of Cairn's own pool, and of the C library.

use std::{
    ffi::{c_int, c_void},
    path::Path,
};

use anyhow::{Context, Result, ensure};

use super::{
    Library,
    acl::{Acl, GraphEngine, StreamHandle},
};
use crate::bench::spec::Door;

type Handle = *mut c_void;

/// `void *my_malloc(ssize_t size, int device, aclrtStream stream)`, as torch_npu calls it.
type Malloc = unsafe extern "C" fn(isize, c_int, Handle) -> Handle;
/// `void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)`.
type Free = unsafe extern "C" fn(Handle, isize, c_int, Handle);
/// `int cairn_pool_free(void *ptr, int device, aclrtStream stream)`.
type PoolFree = unsafe extern "C" fn(Handle, c_int, Handle) -> c_int;
/// The factories of `cairn/factory.h`: a descriptor, or an allocator of graphs.
type Factory = unsafe extern "C" fn(c_int, Handle) -> Handle;

/// The two functions of a library for PyTorch.
pub struct TorchFunctions {
    malloc: Malloc,
    free: Free,
}

impl TorchFunctions {
    /// Loads the library and finds both.
    pub fn open(library: &Path, malloc: &str, free: &str) -> Result<TorchFunctions> {
        let loaded = Library::open(library)?;
        let context = || library.display().to_string();
        // SAFETY: the user names functions of these types.
        unsafe {
            Ok(TorchFunctions {
                malloc: loaded.function(malloc).with_context(context)?,
                free: loaded.function(free).with_context(context)?,
            })
        }
    }

    /// A block; 0 for null.
    pub fn malloc(&self, bytes: u64, device: u32, stream: StreamHandle) -> usize {
        // SAFETY: as torch_npu calls it. What the user's code does is reported, and ends this process at most.
        unsafe { (self.malloc)(bytes as isize, device as c_int, stream.0 as Handle) as usize }
    }

    /// Gives a block back.
    pub fn free(&self, address: usize, bytes: u64, device: u32, stream: StreamHandle) {
        let (address, stream) = (address as Handle, stream.0 as Handle);
        // SAFETY: as above; the address is one that `malloc` gave.
        unsafe { (self.free)(address, bytes as isize, device as c_int, stream) }
    }
}

/// Cairn's own pool, by the functions for callers that free after they have submitted.
pub struct PoolFunctions {
    malloc: Malloc,
    free: PoolFree,
}

impl PoolFunctions {
    /// Loads it from the toolkit.
    pub fn open() -> Result<PoolFunctions> {
        let loaded = Library::open(Path::new("libcairn_pool.so"))?;
        // SAFETY: the types are those of cairn/pool.h.
        unsafe {
            Ok(PoolFunctions {
                malloc: loaded.function("cairn_pool_malloc")?,
                free: loaded.function("cairn_pool_free")?,
            })
        }
    }

    /// A block; 0 for null.
    pub fn malloc(&self, bytes: u64, device: u32, stream: StreamHandle) -> usize {
        // SAFETY: the pool checks its arguments.
        unsafe { (self.malloc)(bytes as isize, device as c_int, stream.0 as Handle) as usize }
    }

    /// Gives a block back; false if it is none.
    pub fn free(&self, address: usize, device: u32, stream: StreamHandle) -> bool {
        let (address, stream) = (address as Handle, stream.0 as Handle);
        // SAFETY: as above.
        unsafe { (self.free)(address, device as c_int, stream) == 0 }
    }
}

/// A factory of a user's library.
pub struct FactoryFunction {
    make: Factory,
    door: Door,
    graph_engine: Option<GraphEngine>,
}

impl FactoryFunction {
    /// Loads the library and finds the function.
    pub fn open(door: Door, library: &Path, function: &str) -> Result<FactoryFunction> {
        let graph_engine = match door {
            Door::Ge => Some(GraphEngine::open()?),
            Door::Acl => None,
        };
        let loaded = Library::open(library)?;
        // SAFETY: the user names a function of this type.
        let make = unsafe { loaded.function(function) };
        let make = make.with_context(|| library.display().to_string())?;
        Ok(FactoryFunction { make, door, graph_engine })
    }

    /// Makes an allocator for a stream, and registers it there.
    pub fn register(&self, acl: &Acl, device: u32, stream: StreamHandle) -> Result<()> {
        // SAFETY: the header of factories says what they take.
        let made = unsafe { (self.make)(device as c_int, stream.0 as Handle) } as usize;
        ensure!(made != 0, "the factory gave null");
        match &self.graph_engine {
            Some(engine) => engine.register(stream, made),
            None => acl.register_descriptor(stream, made),
        }
    }

    /// Ends the registration on a stream.
    pub fn unregister(&self, acl: &Acl, stream: StreamHandle) -> Result<()> {
        match &self.graph_engine {
            Some(engine) => engine.unregister(stream),
            None => acl.unregister_descriptor(stream),
        }
    }

    /// The interface.
    pub fn door(&self) -> Door {
        self.door
    }
}

/// Bytes of the C library's heap.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// From the system.
    pub reserved: u64,
    /// In blocks.
    pub used: u64,
}

/// Malloc of the C library.
pub struct SystemMalloc;

impl SystemMalloc {
    /// A block; 0 for null.
    pub fn malloc(&self, bytes: u64) -> usize {
        // SAFETY: any size may be asked for.
        unsafe { libc::malloc(bytes as usize) as usize }
    }

    /// Gives a block back.
    pub fn free(&self, address: usize) {
        // SAFETY: the bench frees each block that `malloc` gave once, and touches none.
        unsafe { libc::free(address as *mut c_void) }
    }

    /// What the heap has now.
    pub fn heap(&self) -> Heap {
        // SAFETY: it takes nothing, and counts under its own locks.
        let figures = unsafe { libc::mallinfo2() };
        Heap {
            reserved: (figures.arena + figures.hblkhd) as u64,
            used: (figures.uordblks + figures.hblkhd) as u64,
        }
    }
}
