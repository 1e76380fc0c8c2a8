//! The functions of ACL that the pool calls, found in the `libascendcl.so` of the process.
//!
//! The library is not linked: a program brings its own, real or Cairn's, and an older one may lack
//! functions that the pool can do without. All of them are documented ones.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// A stream, event, context, descriptor or physical memory, as ACL hands it out.
pub type Handle = *mut c_void;
/// ACL's code: 0 is success.
pub type Code = c_int;

type StreamCallback = unsafe extern "C" fn(stream: Handle, state: c_uint, args: *mut c_void);
type DeviceCallback = unsafe extern "C" fn(device: i32, state: c_uint, args: *mut c_void);

/// `aclrtMemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    /// The device.
    pub id: u32,
    /// 1 is a device.
    pub kind: c_uint,
}

/// `aclrtPhysicalMemProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Physical {
    /// 0: the handle is not exported.
    pub handle_type: c_uint,
    /// 0: pinned.
    pub allocation_type: c_uint,
    /// Which memory, and how large its pages are.
    pub attribute: c_uint,
    /// Where.
    pub location: Location,
    /// Always 0.
    pub reserve: u64,
}

const _: () = assert!(size_of::<Physical>() == 32 && size_of::<Location>() == 8);

/// `ACL_HBM_MEM`.
pub const HBM: c_uint = 1;
/// `ACL_HBM_MEM_HUGE`.
pub const HBM_HUGE: c_uint = 4;
/// `ACL_MEM_LOCATION_TYPE_DEVICE`.
pub const ON_DEVICE: c_uint = 1;
/// `ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED`.
pub const RECOMMENDED: c_uint = 1;
/// `ACL_MEM_MALLOC_HUGE_FIRST`.
pub const HUGE_FIRST: c_uint = 0;
/// `ACL_EVENT_CAPTURE_STREAM_PROGRESS`: what the event is for.
pub const STREAM_PROGRESS: u32 = 2;
/// `ACL_EVENT_RECORDED_STATUS_COMPLETE`.
pub const EVENT_COMPLETE: c_uint = 1;
/// `ACL_STREAM_STATUS_COMPLETE`.
pub const STREAM_COMPLETE: c_uint = 0;
/// `ACL_STREAM_PERSISTENT`, `ACL_STREAM_CPU_SCHEDULE`, `ACL_STREAM_DEVICE_USE_ONLY`: streams that
/// a query reports as complete whatever they do.
pub const SPECIAL_STREAM: u32 = 0x4 | 0x10 | 0x20;
/// `ACL_RT_STREAM_STATE_CREATE_POST`.
pub const STREAM_CREATE_POST: c_uint = 1;
/// `ACL_RT_STREAM_STATE_DESTROY_PRE`.
pub const STREAM_DESTROY_PRE: c_uint = 2;
/// `ACL_RT_DEVICE_STATE_RESET_POST`.
pub const DEVICE_RESET_POST: c_uint = 3;
/// `ACL_ERROR`.
pub const LOG_ERROR: c_uint = 3;
/// What aclrtSetCurrentContext returns for a context that was destroyed: the parameter, context or handle
/// is invalid.
pub const NO_SUCH_CONTEXT: [Code; 3] = [107000, 107001, 107017];

macro_rules! functions {
    (
        needed { $($needed:ident: fn($($narg:ty),* $(,)?) -> Code;)* }
        optional { $($optional:ident: $type:ty;)* }
    ) => {
        /// The functions that were found. What is `None` is not in this ACL.
        #[allow(non_snake_case, missing_docs)]
        pub struct Acl {
            $(pub $needed: unsafe extern "C" fn($($narg),*) -> Code,)*
            $(pub $optional: Option<$type>,)*
        }

        impl Acl {
            fn load() -> Result<Acl, String> {
                let library = Library::find();
                // SAFETY: the types are those that ACL's headers give for these names.
                unsafe {
                    Ok(Acl {
                        $($needed: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($narg),*) -> Code>(
                            library.find_required(concat!(stringify!($needed), "\0"))?,
                        ),)*
                        $($optional: library
                            .find_symbol(concat!(stringify!($optional), "\0"))
                            .map(|found| std::mem::transmute::<*mut c_void, $type>(found)),)*
                    })
                }
            }
        }
    };
}

functions! {
    needed {
        aclrtGetDeviceCount: fn(*mut u32) -> Code;
        aclrtGetDevice: fn(*mut i32) -> Code;
        aclrtSetDevice: fn(i32) -> Code;
        aclrtGetCurrentContext: fn(*mut Handle) -> Code;
        aclrtSetCurrentContext: fn(Handle) -> Code;
        aclrtMallocAlign32: fn(*mut *mut c_void, usize, c_uint) -> Code;
        aclrtFree: fn(*mut c_void) -> Code;
        aclrtGetMemInfo: fn(c_uint, *mut usize, *mut usize) -> Code;
    }
    optional {
        aclAppLog: unsafe extern "C" fn(c_uint, *const c_char, *const c_char, u32, *const c_char, ...);
        aclrtGetPrimaryCtxState: unsafe extern "C" fn(i32, *mut u32, *mut i32) -> Code;
        aclrtCtxGetCurrentDefaultStream: unsafe extern "C" fn(*mut Handle) -> Code;
        aclrtStreamQuery: unsafe extern "C" fn(Handle, *mut c_uint) -> Code;
        aclrtStreamGetFlags: unsafe extern "C" fn(Handle, *mut u32) -> Code;
        aclrtRegStreamStateCallback: unsafe extern "C" fn(*const c_char, StreamCallback, *mut c_void) -> Code;
        aclrtRegDeviceStateCallback: unsafe extern "C" fn(*const c_char, DeviceCallback, *mut c_void) -> Code;
        aclmdlRICaptureGetInfo: unsafe extern "C" fn(Handle, *mut c_uint, *mut Handle) -> Code;
        aclrtCreateEventExWithFlag: unsafe extern "C" fn(*mut Handle, u32) -> Code;
        aclrtCreateEventWithFlag: unsafe extern "C" fn(*mut Handle, u32) -> Code;
        aclrtDestroyEvent: unsafe extern "C" fn(Handle) -> Code;
        aclrtRecordEvent: unsafe extern "C" fn(Handle, Handle) -> Code;
        aclrtQueryEventStatus: unsafe extern "C" fn(Handle, *mut c_uint) -> Code;
        aclrtMemGetAllocationGranularity: unsafe extern "C" fn(*const Physical, c_uint, *mut usize) -> Code;
        aclrtReserveMemAddress: unsafe extern "C" fn(*mut *mut c_void, usize, usize, *mut c_void, u64) -> Code;
        aclrtReleaseMemAddress: unsafe extern "C" fn(*mut c_void) -> Code;
        aclrtMallocPhysical: unsafe extern "C" fn(*mut Handle, usize, *const Physical, u64) -> Code;
        aclrtFreePhysical: unsafe extern "C" fn(Handle) -> Code;
        aclrtMapMem: unsafe extern "C" fn(*mut c_void, usize, usize, Handle, u64) -> Code;
        aclrtUnmapMem: unsafe extern "C" fn(*mut c_void) -> Code;
        aclrtAllocatorCreateDesc: unsafe extern "C" fn() -> Handle;
        aclrtAllocatorDestroyDesc: unsafe extern "C" fn(Handle) -> Code;
        aclrtAllocatorSetObjToDesc: unsafe extern "C" fn(Handle, *mut c_void) -> Code;
        aclrtAllocatorSetAllocFuncToDesc: unsafe extern "C" fn(Handle, unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void) -> Code;
        aclrtAllocatorSetFreeFuncToDesc: unsafe extern "C" fn(Handle, unsafe extern "C" fn(*mut c_void, *mut c_void)) -> Code;
        aclrtAllocatorSetAllocAdviseFuncToDesc: unsafe extern "C" fn(Handle, unsafe extern "C" fn(*mut c_void, usize, *mut c_void) -> *mut c_void) -> Code;
        aclrtAllocatorSetGetAddrFromBlockFuncToDesc: unsafe extern "C" fn(Handle, unsafe extern "C" fn(*mut c_void) -> *mut c_void) -> Code;
    }
}

/// ACL, looked up on first use; the message says what is missing.
pub fn acl() -> Result<&'static Acl, String> {
    static ACL: OnceLock<Result<Acl, String>> = OnceLock::new();
    ACL.get_or_init(Acl::load).as_ref().map_err(Clone::clone)
}

impl Acl {
    /// Writes an error to ACL's log.
    pub fn log(&self, text: &CStr) {
        if let Some(log) = self.aclAppLog {
            let (function, file) = (c"pool".as_ptr(), c"libcairn_pool".as_ptr());
            // SAFETY: all strings end with a NUL, and the format takes one of them.
            unsafe { log(LOG_ERROR, function, file, 0, c"%s".as_ptr(), text.as_ptr()) };
        }
    }
}

/// Where symbols are looked for.
struct Library(*mut c_void);

impl Library {
    /// The symbols of the program, so that an ACL that it linked or preloaded comes first; else the ACL that
    /// was loaded with local scope, as Python does; else one from the loader's path.
    fn find() -> Library {
        let program = Library(libc::RTLD_DEFAULT);
        if program.find_symbol("aclrtMallocAlign32\0").is_some() {
            return program;
        }
        // SAFETY: the name ends with a NUL; loading ACL runs its constructors, as linking would.
        Library(unsafe { libc::dlopen(c"libascendcl.so".as_ptr(), libc::RTLD_NOW) })
    }

    fn find_required(&self, name: &str) -> Result<*mut c_void, String> {
        self.find_symbol(name).ok_or_else(|| {
            let name = name.trim_end_matches('\0');
            format!(
                "no libascendcl.so with {name} was found: source CANN's or Cairn's set_env.sh, \
                 or link the program with -lascendcl"
            )
        })
    }

    /// The name ends with a NUL.
    fn find_symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
        // SAFETY: the handle is that of a loaded library, or null, which stands for the program.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}
