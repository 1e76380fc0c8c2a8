//! `libascendcl.so`, loaded at run time and called through its C interface, as a program does.

use std::ffi::{CString, c_int, c_void};

/// The functions that the benches call.
pub struct Acl {
    pub set_device: unsafe extern "C" fn(i32) -> c_int,
    pub create_stream: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    pub destroy_stream: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub synchronize: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub malloc: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> c_int,
    pub free: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub malloc_host: unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int,
    pub memcpy_async:
        unsafe extern "C" fn(*mut c_void, usize, *const c_void, usize, u32, *mut c_void) -> c_int,
    pub memset_async: unsafe extern "C" fn(*mut c_void, usize, i32, usize, *mut c_void) -> c_int,
}

impl Acl {
    /// Loads `libascendcl.so` of a toolkit.
    pub fn load(toolkit: &std::path::Path) -> Acl {
        let library = Library::open(toolkit);
        // SAFETY: each symbol has the type of its field, which the headers declare.
        unsafe {
            Acl {
                set_device: library.find("aclrtSetDevice"),
                create_stream: library.find("aclrtCreateStream"),
                destroy_stream: library.find("aclrtDestroyStream"),
                synchronize: library.find("aclrtSynchronizeStream"),
                malloc: library.find("aclrtMalloc"),
                free: library.find("aclrtFree"),
                malloc_host: library.find("aclrtMallocHost"),
                memcpy_async: library.find("aclrtMemcpyAsync"),
                memset_async: library.find("aclrtMemsetAsync"),
            }
        }
    }
}

/// The loaded library; it stays to the end of the process.
pub struct Library(*mut c_void);

impl Library {
    /// Loads `libascendcl.so` of a toolkit.
    pub fn open(toolkit: &std::path::Path) -> Library {
        let path = toolkit.join("lib64/libascendcl.so");
        let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without NUL");
        // SAFETY: loading the library runs its initialisers, which is what a program does.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "{} cannot be loaded", path.display());
        Library(library)
    }

    /// A function.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function.
    pub unsafe fn find<F>(&self, name: &str) -> F {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "a pointer");
        let symbol = CString::new(name).expect("a name without NUL");
        // SAFETY: the handle is valid, and the caller knows the type.
        unsafe {
            let found = libc::dlsym(self.0, symbol.as_ptr());
            assert!(!found.is_null(), "{name} is missing");
            std::mem::transmute_copy(&found)
        }
    }
}
