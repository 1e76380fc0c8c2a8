//! Loads ACL and users' libraries, and calls their functions. The unsafe code of this crate is here and below.

pub mod acl;
pub mod functions;

use std::{ffi::CString, path::Path};

use anyhow::{Context, Result};
use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW};

/// A library. It is never unloaded: its threads, and what it registered elsewhere, may be in use until the process ends.
#[derive(Clone, Copy)]
pub struct Library(&'static Loaded);

impl Library {
    /// Loads a library; the error is the loader's.
    pub fn open(path: &Path) -> Result<Library> {
        // SAFETY: initialisers of the library run. The user named it to be run, and it is run in a process of its own.
        let loaded = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        let loaded = loaded.with_context(|| format!("{} cannot be loaded", path.display()))?;
        Ok(Library(Box::leak(Box::new(loaded))))
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `T` is the type of a pointer to that function.
    unsafe fn function<T: Copy>(&self, name: &str) -> Result<T> {
        let c_name = CString::new(name).context("a name with a NUL")?;
        // SAFETY: as the caller vouches.
        let symbol = unsafe { self.0.get::<T>(c_name.as_bytes_with_nul()) };
        Ok(*symbol.with_context(|| format!("it has no function {name}"))?)
    }
}
