//! The standalone pool, `libcairn_pool.so`, through its C interface, on our `libascendcl.so`.

use super::candidate::Candidate;
use super::peers::Address;
use crate::acl::Acl;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

type Malloc = unsafe extern "C" fn(isize, c_int, *mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, isize, c_int, *mut c_void);
type Figures = unsafe extern "C" fn(c_int, *mut [u64; 12]) -> c_int;
type Trim = unsafe extern "C" fn(c_int, usize) -> usize;
type ResetPeak = unsafe extern "C" fn(c_int) -> c_int;
type LastError = unsafe extern "C" fn() -> *const c_char;

/// Both libraries, loaded, and two streams of device 0. They stay to the end of the process.
pub struct Plugin {
    acl: Acl,
    malloc: Malloc,
    free: Free,
    last_error: LastError,
    figures: Figures,
    trim: Trim,
    synchronized: ResetPeak,
    reset_peak: ResetPeak,
    streams: [Address; 2],
}

impl Plugin {
    /// Loads both from a toolkit; the error says why not.
    pub fn load(toolkit: &Path) -> Result<Arc<Plugin>, String> {
        let path = toolkit.join("lib64/libcairn_pool.so");
        if !path.exists() {
            return Err("the toolkit has no lib64/libcairn_pool.so".into());
        }
        // The plugin looks ACL up in the global scope, hence RTLD_GLOBAL.
        open(&toolkit.join("lib64/libascendcl.so"), libc::RTLD_NOW | libc::RTLD_GLOBAL)?;
        let acl = Acl::load(toolkit);
        let library = open(&path, libc::RTLD_NOW)?;
        // SAFETY: the handle is valid.
        let find = |name: &CStr| match unsafe { libc::dlsym(library, name.as_ptr()) } {
            found if found.is_null() => Err(format!("libcairn_pool.so has no {name:?}")),
            found => Ok(found),
        };
        let (malloc, free) = (find(c"cairn_malloc")?, find(c"cairn_free")?);
        let last_error = find(c"cairn_pool_last_error")?;
        let (figures, trim) = (find(c"cairn_pool_figures")?, find(c"cairn_pool_trim")?);
        let reset_peak = find(c"cairn_pool_reset_peak")?;
        let synchronized = find(c"cairn_pool_synchronized")?;
        // SAFETY: `cairn/pool.h` declares all with these types; the streams go to places of ours.
        unsafe {
            assert_eq!((acl.set_device)(0), 0, "no device 0");
            let mut streams = [std::ptr::null_mut(); 2];
            for stream in &mut streams {
                assert_eq!((acl.create_stream)(stream), 0, "no stream");
            }
            Ok(Arc::new(Plugin {
                acl,
                malloc: std::mem::transmute::<*mut c_void, Malloc>(malloc),
                free: std::mem::transmute::<*mut c_void, Free>(free),
                last_error: std::mem::transmute::<*mut c_void, LastError>(last_error),
                figures: std::mem::transmute::<*mut c_void, Figures>(figures),
                trim: std::mem::transmute::<*mut c_void, Trim>(trim),
                synchronized: std::mem::transmute::<*mut c_void, ResetPeak>(synchronized),
                reset_peak: std::mem::transmute::<*mut c_void, ResetPeak>(reset_peak),
                streams: streams.map(|stream| Address::new(stream, "ACL", 0)),
            }))
        }
    }

    /// Gives back what is free, whoever freed it, and forgets the peak.
    pub fn restart(&self) {
        // SAFETY: calls that any thread may make. No task was ever submitted, so nothing is in a queue.
        unsafe {
            (self.synchronized)(0);
            (self.trim)(0, 0);
            (self.reset_peak)(0);
        }
    }

    /// Bytes that it has from ACL: now, and at most since [`Plugin::restart`].
    pub fn reserved(&self) -> (u64, u64) {
        let mut figures = [0; 12];
        // SAFETY: `cairnPoolFigures` is twelve numbers, `reserved` and `peakReserved` the fourth and fifth.
        assert_eq!(unsafe { (self.figures)(0, &mut figures) }, 0, "no pool of device 0");
        (figures[3], figures[4])
    }

    #[cold]
    fn panic_out_of_memory(&self, bytes: usize) -> ! {
        // SAFETY: the text, if there is one, stays until the next failure on this thread.
        let why = unsafe {
            let text = (self.last_error)();
            if text.is_null() { "no reason".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        panic!("cairn_malloc could not allocate {bytes} bytes: {why}")
    }
}

fn open(path: &Path, flags: c_int) -> Result<*mut c_void, String> {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without NUL");
    // SAFETY: loading a library runs its initialisers, which is what a program does.
    let library = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if library.is_null() {
        Err(format!("{} cannot be loaded", path.display()))
    } else {
        Ok(library)
    }
}

/// `cairn_malloc` and `cairn_free`, as torch_npu calls them.
pub struct CDoor(pub Arc<Plugin>);

impl Candidate for CDoor {
    type Block = Address;

    #[inline]
    fn allocate(&self, bytes: usize, stream: usize) -> Address {
        let stream = self.0.streams[stream].pointer();
        // SAFETY: the stream is live.
        let block = unsafe { (self.0.malloc)(bytes as isize, 0, stream) };
        if block.is_null() {
            self.0.panic_out_of_memory(bytes);
        }
        Address::new(block, "cairn_malloc", bytes)
    }

    #[inline]
    fn free(&self, block: Address, bytes: usize, stream: usize) {
        let stream = self.0.streams[stream].pointer();
        // SAFETY: the block came from `cairn_malloc`, and a workload frees each block once.
        unsafe { (self.0.free)(block.pointer(), bytes as isize, 0, stream) }
    }

    fn enter(&self) {
        // SAFETY: a call that any thread may make.
        assert_eq!(unsafe { (self.0.acl.set_device)(0) }, 0, "no device 0");
    }
}
