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
        let path = toolkit.join("lib64/libascendcl.so");
        let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without NUL");
        // SAFETY: loading the library runs its initialisers, which is what a program does.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "{} cannot be loaded", path.display());
        macro_rules! find {
            ($name:literal) => {{
                // SAFETY: the handle is valid, and each symbol has the type of its field, which the
                // headers declare.
                unsafe {
                    let found = libc::dlsym(library, concat!($name, "\0").as_ptr().cast());
                    assert!(!found.is_null(), "{} is missing", $name);
                    #[allow(clippy::missing_transmute_annotations)]
                    std::mem::transmute(found)
                }
            }};
        }
        Acl {
            set_device: find!("aclrtSetDevice"),
            create_stream: find!("aclrtCreateStream"),
            destroy_stream: find!("aclrtDestroyStream"),
            synchronize: find!("aclrtSynchronizeStream"),
            malloc: find!("aclrtMalloc"),
            free: find!("aclrtFree"),
            malloc_host: find!("aclrtMallocHost"),
            memcpy_async: find!("aclrtMemcpyAsync"),
            memset_async: find!("aclrtMemsetAsync"),
        }
    }
}
