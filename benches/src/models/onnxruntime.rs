//! A model by ONNX Runtime: a session on its file, with fixed tensors.

use super::engine::{Engine, Model};
use crate::ort::{Ort, Status};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Indices in the library's table.
mod function_index {
    pub const CREATE_SESSION: usize = 7;
    pub const RUN: usize = 9;
    pub const CREATE_SESSION_OPTIONS: usize = 10;
    pub const SET_OPTIMISED_MODEL_PATH: usize = 11;
    pub const SET_THREADS: usize = 24;
    pub const CREATE_TENSOR_WITH_DATA: usize = 49;
}

type CreateOptions = unsafe extern "C" fn(*mut *mut c_void) -> Status;
type SetThreads = unsafe extern "C" fn(*mut c_void, c_int) -> Status;
type SetPath = unsafe extern "C" fn(*mut c_void, *const c_char) -> Status;
type CreateSession =
    unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, *mut *mut c_void) -> Status;
type CreateTensor = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    *const i64,
    usize,
    c_int,
    *mut *mut c_void,
) -> Status;
type Run = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *const *const c_char,
    *const *const c_void,
    usize,
    *const *const c_char,
    usize,
    *mut *mut c_void,
) -> Status;

/// The numbers of `float` and `int64` among the library's element types.
const FLOAT: c_int = 1;
const INT64: c_int = 7;

/// The library that `CAIRN_ONNXRUNTIME` names.
pub fn start() -> Arc<Ort> {
    let path = std::env::var_os("CAIRN_ONNXRUNTIME").expect("CAIRN_ONNXRUNTIME names the library");
    Ort::load(&PathBuf::from(path)).expect("onnxruntime can be loaded")
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without NUL")
}

/// A session; it stays to the end of the process.
pub struct Session {
    ort: Arc<Ort>,
    session: *mut c_void,
}

impl Session {
    /// A session on a file with the library's own choice of optimisations; what it optimised is saved where that is
    /// asked for.
    pub fn new(ort: &Arc<Ort>, file: &Path, threads: usize, save_to: Option<&Path>) -> Session {
        let (mut options, mut session) = (null_mut(), null_mut());
        let (file, save_to) = (c_path(file), save_to.map(c_path));
        let threads = c_int::try_from(threads).expect("the thread count fits");
        let check = |status| ort.check(status).expect("onnxruntime makes a session");
        // SAFETY: each function has the type that the library's header gives it, and the arguments live through each call.
        unsafe {
            check(ort.function::<CreateOptions>(function_index::CREATE_SESSION_OPTIONS)(
                &mut options,
            ));
            check(ort.function::<SetThreads>(function_index::SET_THREADS)(options, threads));
            if let Some(path) = &save_to {
                let set = ort.function::<SetPath>(function_index::SET_OPTIMISED_MODEL_PATH);
                check(set(options, path.as_ptr()));
            }
            let create = ort.function::<CreateSession>(function_index::CREATE_SESSION);
            check(create(ort.environment, file.as_ptr(), options, &mut session));
        }
        Session { ort: ort.clone(), session }
    }

    /// With the tensors of a model.
    pub fn with_tensors(self, model: &Model) -> Runner {
        let mut runner = Runner {
            session: self,
            names: Vec::new(),
            values: Vec::new(),
            data: Vec::new(),
            inputs: model.inputs.len(),
        };
        for tensor in model.inputs.iter().chain(&model.outputs) {
            // Words of eight bytes, for their alignment.
            let mut data: Vec<u64> = vec![0; tensor.bytes.len().div_ceil(8)];
            for (word, bytes) in data.iter_mut().zip(tensor.bytes.chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(whole);
            }
            let mut value = null_mut();
            let ort = &runner.session.ort;
            // SAFETY: the numbers stay where they are for as long as the value, as both are kept to the end.
            unsafe {
                let create = ort.function::<CreateTensor>(function_index::CREATE_TENSOR_WITH_DATA);
                ort.check(create(
                    ort.memory_info,
                    data.as_mut_ptr().cast(),
                    tensor.bytes.len(),
                    tensor.dims.as_ptr(),
                    tensor.dims.len(),
                    if tensor.is_float { FLOAT } else { INT64 },
                    &mut value,
                ))
                .expect("a tensor");
            }
            runner.names.push(CString::new(tensor.name.as_str()).expect("a name without NUL"));
            runner.values.push(value);
            runner.data.push((data, tensor.bytes.len()));
        }
        runner
    }
}

/// A session with its tensors: the inputs, and after them the outputs.
pub struct Runner {
    session: Session,
    names: Vec<CString>,
    values: Vec<*mut c_void>,
    data: Vec<(Vec<u64>, usize)>,
    inputs: usize,
}

impl Engine for Runner {
    fn run(&mut self) {
        let names: Vec<*const c_char> = self.names.iter().map(|name| name.as_ptr()).collect();
        let (inputs, outputs) = self.values.split_at_mut(self.inputs);
        let Session { ort, session } = &self.session;
        // SAFETY: names and values live through the call, and there are as many as it is told.
        let status = unsafe {
            ort.function::<Run>(function_index::RUN)(
                *session,
                null(),
                names.as_ptr(),
                inputs.as_ptr().cast(),
                inputs.len(),
                names.as_ptr().add(inputs.len()),
                outputs.len(),
                outputs.as_mut_ptr(),
            )
        };
        ort.check(status).expect("onnxruntime runs");
    }

    fn outputs(&mut self) -> Vec<Vec<u8>> {
        let bytes = |(words, length): &(Vec<u64>, usize)| {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.truncate(*length);
            bytes
        };
        self.data[self.inputs..].iter().map(bytes).collect()
    }
}
