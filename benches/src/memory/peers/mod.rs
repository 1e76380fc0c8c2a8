//! The allocators of others, called directly: no global allocator is replaced, nothing is preloaded.

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

/// An address as a number, so that it may travel between threads.
#[derive(Clone, Copy)]
pub struct Address(usize);

impl Address {
    /// What `who` returned for a request of `bytes`.
    ///
    /// # Panics
    /// When the allocator had nothing.
    pub fn new(address: *mut std::ffi::c_void, who: &str, bytes: usize) -> Address {
        assert!(!address.is_null(), "{who} has no {bytes} bytes");
        Address(address as usize)
    }

    /// The address as a pointer.
    pub fn pointer(self) -> *mut std::ffi::c_void {
        self.0 as *mut std::ffi::c_void
    }
}
