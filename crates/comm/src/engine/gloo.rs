//! The engine over Gloo: `libcairn_comm.so` (`cpp/comm/`), a library of the toolkit that is opened at first use and never closed. This is the
//! other side of `cpp/comm/comm.h`, and the only file of the crate with `unsafe`.

#![allow(unsafe_code)]

use super::{
    Engine, Incoming, LinkError, LinkErrorKind, Mesh, MeshSpec, Outgoing, Store, Transport,
};
use smallvec::SmallVec;
use std::{
    ffi::{CStr, CString, c_char, c_void},
    os::unix::ffi::OsStrExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    ptr,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// The file that [`Gloo::open`] looks for.
const LIBRARY: &str = "libcairn_comm.so";

/// Where it lies below the folder of the libraries.
const FOLDERS: [&str; 2] = ["comm", ""];

/// `CAIRN_COMM_INTERFACE`.
const INTERFACE: u32 = 1;

/// No limit of time.
const FOREVER: u64 = u64::MAX;

/// `CairnCommFailure`.
#[repr(C)]
struct Failure {
    kind: i32,
    peer: i32,
    text: [c_char; 1016],
}

/// `CairnCommStore`.
#[repr(C)]
struct StoreFunctions {
    context: *mut c_void,
    set: unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> i32,
    get: unsafe extern "C" fn(*mut c_void, *const u8, usize, u64, *mut c_void, Put) -> i32,
}

type Put = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// `CairnCommSpec`.
#[repr(C)]
struct Spec {
    rank: u32,
    size: u32,
    address: *const c_char,
    buffer_bytes: u64,
    timeout_ns: u64,
}

/// `CairnCommPart`.
#[repr(C)]
struct Part {
    peer: u32,
    slot: u64,
    bytes: *mut c_void,
    count: usize,
}

/// A mesh of the library, by its address only.
#[repr(C)]
struct RawMesh {
    _private: [u8; 0],
}

type Connect = unsafe extern "C" fn(
    *const Spec,
    *const StoreFunctions,
    *mut *mut RawMesh,
    *mut Failure,
) -> i32;
type Exchange = unsafe extern "C" fn(
    *mut RawMesh,
    *const Part,
    usize,
    *const Part,
    usize,
    u64,
    *mut Failure,
) -> i32;
type Check = unsafe extern "C" fn(*mut RawMesh, *mut Failure) -> i32;
type End = unsafe extern "C" fn(*mut RawMesh);

/// The functions of the library.
#[derive(Clone, Copy)]
struct Functions {
    connect: Connect,
    exchange: Exchange,
    check: Check,
    close: End,
    destroy: End,
}

/// Gloo with our shared-memory transport: connects ranks of one host through shared memory, others through TCP.
pub struct Gloo {
    functions: Functions,
}

impl Gloo {
    /// Opens the library in `folder`, or in its folder `comm`. The library stays open for the rest of the process; opening it again costs little.
    pub fn open(folder: &Path) -> Result<Gloo, LinkError> {
        let candidates = FOLDERS.map(|name| folder.join(name).join(LIBRARY));
        let Some(path) = candidates.iter().find(|path| path.is_file()) else {
            return Err(missing(&candidates[0]));
        };
        Functions::open(path).map(|functions| Gloo { functions })
    }

    /// Opens the library beside the one that holds this code, such as `libascendcl.so`.
    pub fn open_beside() -> Result<Gloo, LinkError> {
        Gloo::open(own_folder().as_deref().unwrap_or(Path::new(".")))
    }
}

/// The folder of the file that this code was loaded from.
fn own_folder() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        // SAFETY: all zeros is a valid `Dl_info`.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the address is of this function's library, and `info` outlives the call.
        let found = unsafe { libc::dladdr(own_folder as *const c_void, &raw mut info) } != 0;
        if !found || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the loader's name of the file, a text that lives as long as the library.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        let path = std::fs::canonicalize(std::ffi::OsStr::from_bytes(name.to_bytes())).ok()?;
        path.parent().map(Path::to_path_buf)
    };
    FOLDER.get_or_init(find).clone()
}

fn missing(path: &Path) -> LinkError {
    other(format!(
        "{} is not there: the toolkit was built without Gloo, which communication between ranks needs. Install libgloo-dev, or let `cargo \
         xtask toolkit` download Debian's package, and build the toolkit again",
        path.display()
    ))
}

fn other(text: String) -> LinkError {
    LinkError::new(LinkErrorKind::Other, None, text)
}

impl Functions {
    fn open(path: &Path) -> Result<Functions, LinkError> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| other(format!("{} is no path", path.display())))?;
        // torch exports another Gloo: the library has to see its own first.
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
        // SAFETY: a library of ours; what runs when it is loaded is C++'s initialization of it and Gloo.
        let library = unsafe { libc::dlopen(name.as_ptr(), flags) };
        if library.is_null() {
            return Err(other(format!("{} cannot be opened: {}", path.display(), loader_text())));
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library is open, and stays so.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            if address.is_null() {
                let name = name.to_string_lossy();
                return Err(other(format!("{} has no function {name}", path.display())));
            }
            Ok(address)
        };
        // SAFETY: the type is that of comm.h.
        let interface = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(symbol(
                c"cairn_comm_interface",
            )?)
        };
        // SAFETY: it takes nothing and only answers.
        let number = unsafe { interface() };
        if number != INTERFACE {
            return Err(other(format!(
                "{} has interface {number}, not {INTERFACE}: it belongs to another version of the toolkit",
                path.display()
            )));
        }
        // SAFETY: the types are those of comm.h in the version that was just checked.
        unsafe {
            Ok(Functions {
                connect: std::mem::transmute::<*mut c_void, Connect>(symbol(
                    c"cairn_comm_connect",
                )?),
                exchange: std::mem::transmute::<*mut c_void, Exchange>(symbol(
                    c"cairn_comm_exchange",
                )?),
                check: std::mem::transmute::<*mut c_void, Check>(symbol(c"cairn_comm_check")?),
                close: std::mem::transmute::<*mut c_void, End>(symbol(c"cairn_comm_close")?),
                destroy: std::mem::transmute::<*mut c_void, End>(symbol(c"cairn_comm_destroy")?),
            })
        }
    }
}

/// What the loader says of its last failure in this thread.
fn loader_text() -> String {
    // SAFETY: it has no preconditions; the text is valid until the next call of the loader in this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".into();
    }
    // SAFETY: see above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Failure {
    fn new() -> Failure {
        Failure { kind: 0, peer: -1, text: [0; 1016] }
    }

    /// What a call returned, and what it wrote here.
    fn result(&self, kind: i32) -> Result<(), LinkError> {
        let kind = match kind {
            0 => return Ok(()),
            1 => LinkErrorKind::PeerGone,
            2 => LinkErrorKind::Timeout,
            3 => LinkErrorKind::Closed,
            4 => LinkErrorKind::TooLong,
            _ => LinkErrorKind::Other,
        };
        let bytes = self.text.iter().take_while(|&&byte| byte != 0);
        let text: Vec<u8> = bytes.map(|&byte| byte as u8).collect();
        let peer = u32::try_from(self.peer).ok();
        Err(LinkError::new(kind, peer, String::from_utf8_lossy(&text)))
    }
}

/// The store during a connect, and the first error that it had.
struct StoreCalls {
    store: Arc<dyn Store>,
    error: Option<LinkError>,
}

impl StoreCalls {
    /// Runs a call of the store; what goes wrong is kept. Returns what C expects.
    fn run(&mut self, body: impl FnOnce(&dyn Store) -> Result<(), LinkError>) -> i32 {
        let store = Arc::clone(&self.store);
        let result = catch_unwind(AssertUnwindSafe(|| body(&*store)))
            .unwrap_or_else(|_| Err(other("the store of addresses panicked".into())));
        match result {
            Ok(()) => 0,
            Err(error) => {
                self.error.get_or_insert(error);
                1
            }
        }
    }
}

/// Bytes of C.
///
/// # Safety
/// The bytes are valid for reads during `'a`; the address may be null if there are none.
unsafe fn bytes<'a>(start: *const u8, count: usize) -> &'a [u8] {
    match count {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

unsafe extern "C" fn store_set(
    context: *mut c_void,
    key: *const u8,
    key_count: usize,
    value: *const u8,
    value_count: usize,
) -> i32 {
    // SAFETY: the context is the `StoreCalls` of the connect in progress, which calls from its own thread only.
    let calls = unsafe { &mut *context.cast::<StoreCalls>() };
    // SAFETY: comm.h: valid during the call.
    let (key, value) = unsafe { (bytes(key, key_count), bytes(value, value_count)) };
    calls.run(|store| store.set(&String::from_utf8_lossy(key), value))
}

unsafe extern "C" fn store_get(
    context: *mut c_void,
    key: *const u8,
    key_count: usize,
    timeout_ns: u64,
    sink: *mut c_void,
    put: Put,
) -> i32 {
    // SAFETY: as in `store_set`.
    let calls = unsafe { &mut *context.cast::<StoreCalls>() };
    // SAFETY: comm.h: valid during the call.
    let key = unsafe { bytes(key, key_count) };
    calls.run(|store| {
        let value = store.get(&String::from_utf8_lossy(key), Duration::from_nanos(timeout_ns))?;
        // SAFETY: the sink is the one that came with `put`, which copies the bytes.
        unsafe { put(sink, value.as_ptr(), value.len()) };
        Ok(())
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(FOREVER)
}

impl Engine for Gloo {
    fn connect(&self, spec: &MeshSpec, store: Arc<dyn Store>) -> Result<Arc<dyn Mesh>, LinkError> {
        let address = match spec.transport {
            Transport::Shared => None,
            Transport::Tcp { address } => {
                Some(CString::new(address.to_string()).expect("an address has no zero"))
            }
        };
        let raw_spec = Spec {
            rank: spec.rank,
            size: spec.size,
            address: address.as_ref().map_or(ptr::null(), |text| text.as_ptr()),
            buffer_bytes: spec.buffer_bytes,
            timeout_ns: nanoseconds(spec.timeout),
        };
        let mut calls = StoreCalls { store, error: None };
        let functions =
            StoreFunctions { context: (&raw mut calls).cast(), set: store_set, get: store_get };
        let (mut mesh, mut failure) = (ptr::null_mut(), Failure::new());
        // SAFETY: all pointers are valid during the call, and the store is used only during it, from this thread.
        let kind = unsafe {
            (self.functions.connect)(
                &raw const raw_spec,
                &raw const functions,
                &raw mut mesh,
                &raw mut failure,
            )
        };
        match (failure.result(kind), calls.error.take()) {
            (Ok(()), _) => Ok(Arc::new(GlooMesh { functions: self.functions, mesh })),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(error),
        }
    }
}

/// A mesh of the library, destroyed when it goes.
struct GlooMesh {
    functions: Functions,
    mesh: *mut RawMesh,
}

// SAFETY: comm.h: every function may be called from any thread; `destroy` is the last call, as the drop is.
unsafe impl Send for GlooMesh {}
// SAFETY: see above.
unsafe impl Sync for GlooMesh {}

impl Mesh for GlooMesh {
    fn exchange(
        &self,
        outgoing: &[Outgoing<'_>],
        incoming: &[Incoming<'_>],
        deadline: Option<Instant>,
    ) -> Result<(), LinkError> {
        let timeout_ns = match deadline {
            None => FOREVER,
            Some(deadline) => nanoseconds(deadline.saturating_duration_since(Instant::now())),
        };
        let part = |peer: u32, slot: u64, bytes: &[std::cell::Cell<u8>]| Part {
            peer,
            slot,
            bytes: bytes.as_ptr().cast_mut().cast(),
            count: bytes.len(),
        };
        let sends: SmallVec<[Part; 8]> =
            outgoing.iter().map(|one| part(one.peer, one.slot, one.bytes)).collect();
        let receives: SmallVec<[Part; 8]> =
            incoming.iter().map(|one| part(one.peer, one.slot, one.bytes)).collect();
        let mut failure = Failure::new();
        // SAFETY: the parts are memory of the caller's that lives during the call, and cells, so that it may be written; comm.h: nothing touches it
        // afterwards.
        let kind = unsafe {
            (self.functions.exchange)(
                self.mesh,
                sends.as_ptr(),
                sends.len(),
                receives.as_ptr(),
                receives.len(),
                timeout_ns,
                &raw mut failure,
            )
        };
        failure.result(kind)
    }

    fn check(&self) -> Result<(), LinkError> {
        let mut failure = Failure::new();
        // SAFETY: the mesh lives until the drop.
        let kind = unsafe { (self.functions.check)(self.mesh, &raw mut failure) };
        failure.result(kind)
    }

    fn close(&self) {
        // SAFETY: the mesh lives until the drop.
        unsafe { (self.functions.close)(self.mesh) }
    }
}

impl Drop for GlooMesh {
    fn drop(&mut self) {
        // SAFETY: nobody else has the mesh any more.
        unsafe { (self.functions.destroy)(self.mesh) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_says_how_to_get_it() {
        let Err(error) = Gloo::open(Path::new("/nowhere")) else { panic!("there is nothing") };
        assert_eq!(error.kind, LinkErrorKind::Other);
        assert!(error.text.contains("/nowhere/comm/libcairn_comm.so"), "{error}");
        assert!(error.text.contains("libgloo-dev"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_library_is_refused() {
        let folder = std::env::temp_dir().join(format!("cairn-comm-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(LIBRARY), "no library").unwrap();
        let Err(error) = Gloo::open(&folder) else { panic!("it is no library") };
        assert!(error.text.contains("cannot be opened"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
