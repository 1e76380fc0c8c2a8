//! Third-party allocators, called directly: no global allocator is replaced, nothing is preloaded.

pub mod glibc;
#[cfg(feature = "peers")]
pub mod heaps;
#[cfg(feature = "peers")]
pub mod offset;
pub mod ort;
#[cfg(feature = "peers")]
pub mod tlsf;

/// The alignment that is asked for where one must be named: what `malloc` gives.
#[cfg(feature = "peers")]
pub const ALIGNMENT: usize = 16;

/// An address as a number, so that it is `Send`.
#[derive(Clone, Copy)]
pub struct Address(usize);

impl Address {
    /// What `allocator` returned for a request of `bytes`.
    ///
    /// # Panics
    /// If the allocation failed.
    pub fn new(address: *mut std::ffi::c_void, allocator: &str, bytes: usize) -> Address {
        assert!(!address.is_null(), "{allocator} could not allocate {bytes} bytes");
        Address(address as usize)
    }

    /// The address as a pointer.
    pub fn pointer(self) -> *mut std::ffi::c_void {
        self.0 as *mut std::ffi::c_void
    }
}
