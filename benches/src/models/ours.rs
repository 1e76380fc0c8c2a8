//! A model by `aclmdl*` of `libascendcl.so`.

use super::engine::{Engine, Model};
use crate::acl::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

type Create = unsafe extern "C" fn() -> *mut c_void;

/// The functions that the bench calls.
pub struct Functions {
    library: Library,
}

/// Starts Cairn on device 0.
pub fn start() -> Functions {
    let toolkit =
        PathBuf::from(std::env::var_os("CAIRN_TOOLKIT").expect("CAIRN_TOOLKIT names the toolkit"));
    let functions = Functions { library: Library::open(&toolkit) };
    // SAFETY: types as the headers declare them.
    unsafe {
        let init: unsafe extern "C" fn(*const c_char) -> c_int = functions.find("aclInit");
        let set_device: unsafe extern "C" fn(i32) -> c_int = functions.find("aclrtSetDevice");
        assert_eq!((init(null()), set_device(0)), (0, 0), "Cairn starts");
    }
    functions
}

impl Functions {
    /// # Safety
    /// `F` is the type that the headers declare.
    unsafe fn find<F>(&self, name: &str) -> F {
        // SAFETY: as the caller guarantees.
        unsafe { self.library.find(name) }
    }
}

/// A loaded model.
pub struct LoadedModel {
    functions: Functions,
    id: u32,
}

impl LoadedModel {
    /// Loads a file.
    pub fn load(functions: Functions, file: &Path) -> LoadedModel {
        let path = CString::new(file.as_os_str().as_encoded_bytes()).expect("a path without NUL");
        let mut id = 0;
        // SAFETY: the type as the headers declare it; the path lives through the call.
        let code = unsafe {
            let load: unsafe extern "C" fn(*const c_char, *mut u32) -> c_int =
                functions.find("aclmdlLoadFromFile");
            load(path.as_ptr(), &mut id)
        };
        assert_eq!(code, 0, "{} is loaded", file.display());
        LoadedModel { functions, id }
    }

    /// With device memory for its inputs, which are copied there, and its outputs.
    pub fn with_tensors(self, model: &Model) -> Runner {
        // SAFETY: types as the headers declare them, and memory of the sizes that are passed.
        unsafe {
            let malloc: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> c_int =
                self.functions.find("aclrtMalloc");
            let copy: Copy = self.functions.find("aclrtMemcpy");
            let buffer: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void =
                self.functions.find("aclCreateDataBuffer");
            let dataset: Create = self.functions.find("aclmdlCreateDataset");
            let add: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int =
                self.functions.find("aclmdlAddDatasetBuffer");
            let (inputs, outputs) = (dataset(), dataset());
            let mut memory = Vec::new();
            for (set, tensors) in [(inputs, &model.inputs), (outputs, &model.outputs)] {
                for tensor in tensors {
                    let (mut address, bytes) = (null_mut(), tensor.bytes.len());
                    assert_eq!(malloc(&mut address, bytes, 0), 0, "memory for {}", tensor.name);
                    if set == inputs {
                        let from = tensor.bytes.as_ptr().cast();
                        assert_eq!(copy(address, bytes, from, bytes, 1), 0, "a copy");
                    } else {
                        memory.push((address, bytes));
                    }
                    assert_eq!(add(set, buffer(address, bytes)), 0, "a data set");
                }
            }
            let execute = self.functions.find("aclmdlExecute");
            Runner { execute, copy, id: self.id, inputs, outputs, memory }
        }
    }
}

type Copy = unsafe extern "C" fn(*mut c_void, usize, *const c_void, usize, c_int) -> c_int;

/// A model with its data sets.
pub struct Runner {
    execute: unsafe extern "C" fn(u32, *const c_void, *mut c_void) -> c_int,
    copy: Copy,
    id: u32,
    inputs: *mut c_void,
    outputs: *mut c_void,
    memory: Vec<(*mut c_void, usize)>,
}

impl Engine for Runner {
    fn run(&mut self) {
        // SAFETY: the model and its data sets live to the end of the process.
        let code = unsafe { (self.execute)(self.id, self.inputs, self.outputs) };
        assert_eq!(code, 0, "aclmdlExecute");
    }

    fn outputs(&mut self) -> Vec<Vec<u8>> {
        let read = |(address, bytes): &(*mut c_void, usize)| {
            let mut host = vec![0; *bytes];
            // SAFETY: both have as many bytes.
            let code =
                unsafe { (self.copy)(host.as_mut_ptr().cast(), *bytes, *address, *bytes, 2) };
            assert_eq!(code, 0, "aclrtMemcpy");
            host
        };
        self.memory.iter().map(read).collect()
    }
}
