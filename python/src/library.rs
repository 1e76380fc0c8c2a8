//! libascendcl.so, opened once at import and never closed.

use crate::wrappers::CFunctions;
use pyo3::{exceptions::PyImportError, prelude::*};
use std::{
    ffi::{CStr, CString, OsStr, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The library's path from the folder of this module, in a toolkit.
const RELATIVE_PATH: &str = "../../lib64/libascendcl.so";

static C_FUNCTIONS: OnceLock<CFunctions> = OnceLock::new();

/// The C functions. They are there once the module is imported.
pub(crate) fn c_functions() -> &'static CFunctions {
    C_FUNCTIONS.get().expect("the module opens the library before anything can be called")
}

/// Opens the library of the toolkit that this module lies in, else the one that the loader finds.
pub(crate) fn open() -> PyResult<()> {
    if C_FUNCTIONS.get().is_some() {
        return Ok(());
    }
    let in_toolkit =
        module_folder().map(|folder| folder.join(RELATIVE_PATH)).filter(|path| path.exists());
    let path = in_toolkit.unwrap_or_else(|| "libascendcl.so".into());
    let c_functions = CFunctions::load(&Library::open(path)?)?;
    if C_FUNCTIONS.set(c_functions).is_ok() {
        crate::interpreter::watch_forks();
    }
    Ok(())
}

/// An open library.
pub(crate) struct Library {
    handle: *mut c_void,
    path: PathBuf,
}

impl Library {
    fn open(path: PathBuf) -> PyResult<Library> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name ends with a NUL; the library's initialisers are ours.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        match handle.is_null() {
            false => Ok(Library { handle, path }),
            true => Err(PyImportError::new_err(format!(
                "acl cannot open {}: {}; source set_env.sh of the toolkit",
                path.display(),
                dl_error()
            ))),
        }
    }

    /// The address of a function.
    pub fn find(&self, name: &CStr) -> PyResult<usize> {
        // SAFETY: the handle is open, the name ends with a NUL.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        match found.is_null() {
            false => Ok(found as usize),
            true => Err(PyImportError::new_err(format!(
                "{} has no {}: take the module acl and the library from one toolkit",
                self.path.display(),
                name.to_string_lossy()
            ))),
        }
    }
}

/// Why the loader refused.
fn dl_error() -> String {
    // SAFETY: the text is valid until this thread's next call to dl functions, and copied here.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "no reason given".into(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

/// The folder that this module was loaded from.
fn module_folder() -> Option<PathBuf> {
    // SAFETY: all zeros is a valid Dl_info, and the address is one of this library.
    let path = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(module_folder as *const c_void, &mut info) == 0 || info.dli_fname.is_null()
        {
            return None;
        }
        Path::new(OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes())).to_path_buf()
    };
    Some(path.canonicalize().ok()?.parent()?.to_path_buf())
}
