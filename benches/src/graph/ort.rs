//! ONNX Runtime: a session of its library, with one input tensor for each input and a fixed output.

use super::compare::Engine;
use super::model::Model;
use super::onnx;
use crate::ort::{Ort, Status};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Indices in the library's table.
mod function_index {
    pub const CREATE_SESSION_FROM_ARRAY: usize = 8;
    pub const RUN: usize = 9;
    pub const CREATE_SESSION_OPTIONS: usize = 10;
    pub const SET_THREADS: usize = 24;
    pub const CREATE_TENSOR_WITH_DATA: usize = 49;
    pub const RELEASE_SESSION: usize = 95;
    pub const RELEASE_VALUE: usize = 96;
    pub const RELEASE_SESSION_OPTIONS: usize = 100;
}

type CreateOptions = unsafe extern "C" fn(*mut *mut c_void) -> Status;
type SetThreads = unsafe extern "C" fn(*mut c_void, c_int) -> Status;
type CreateSession = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *const c_void,
    *mut *mut c_void,
) -> Status;
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
type Release = unsafe extern "C" fn(*mut c_void);

/// The number of `float` among the library's element types.
const FLOAT: c_int = 1;

/// A session.
pub struct OrtSession {
    ort: Arc<Ort>,
    session: *mut c_void,
}

impl OrtSession {
    /// Creates a session with the library's own choice of optimisations, and this many threads.
    pub fn new(ort: &Arc<Ort>, bytes: &[u8], threads: usize) -> Result<OrtSession, String> {
        let (mut options, mut session) = (null_mut(), null_mut());
        // SAFETY: each function has the type that the library's header gives it, and the arguments live
        // through each call; the options are released once.
        unsafe {
            ort.check(ort.function::<CreateOptions>(function_index::CREATE_SESSION_OPTIONS)(
                &mut options,
            ))?;
            let threads = c_int::try_from(threads).expect("the thread count fits");
            ort.check(ort.function::<SetThreads>(function_index::SET_THREADS)(options, threads))?;
            let created = ort.check(ort
                .function::<CreateSession>(function_index::CREATE_SESSION_FROM_ARRAY)(
                ort.environment,
                bytes.as_ptr().cast(),
                bytes.len(),
                options,
                &mut session,
            ));
            ort.function::<Release>(function_index::RELEASE_SESSION_OPTIONS)(options);
            created?;
        }
        Ok(OrtSession { ort: ort.clone(), session })
    }

    /// With the tensors of a model.
    pub fn runner(self, model: &Model) -> Result<Runner, String> {
        let name = |at| CString::new(onnx::name(at)).expect("a name without NUL");
        let mut data = model.input_values();
        let mut indices = model.inputs();
        indices.push(model.output());
        data.push(vec![0.0; model.tensors[model.output()].1.iter().product()]);
        let mut values = Vec::new();
        for (at, data) in indices.iter().zip(&mut data) {
            let dims: Vec<i64> = model.tensors[*at].1.iter().map(|size| *size as i64).collect();
            let mut value = null_mut();
            // SAFETY: the numbers stay where they are for as long as the value: the runner keeps both,
            // and releases the value first.
            unsafe {
                self.ort.check(self
                    .ort
                    .function::<CreateTensor>(function_index::CREATE_TENSOR_WITH_DATA)(
                    self.ort.memory_info,
                    data.as_mut_ptr().cast(),
                    data.len() * 4,
                    dims.as_ptr(),
                    dims.len(),
                    FLOAT,
                    &mut value,
                ))?;
            }
            values.push(value);
        }
        let names = indices.into_iter().map(name).collect();
        Ok(Runner { session: self, names, values, data })
    }
}

impl Drop for OrtSession {
    fn drop(&mut self) {
        // SAFETY: created by `new`, released once.
        unsafe { self.ort.function::<Release>(function_index::RELEASE_SESSION)(self.session) }
    }
}

/// A session with its tensors: the inputs, and after them the output.
pub struct Runner {
    session: OrtSession,
    names: Vec<CString>,
    values: Vec<*mut c_void>,
    data: Vec<Vec<f32>>,
}

impl Engine for Runner {
    fn run(&mut self) {
        let names: [*const c_char; 4] =
            std::array::from_fn(|at| self.names.get(at).map_or(null(), |name| name.as_ptr()));
        let inputs = self.names.len() - 1;
        let mut out = self.values[inputs];
        // SAFETY: names and values live through the call, and there are as many as it is told.
        let status = unsafe {
            self.session.ort.function::<Run>(function_index::RUN)(
                self.session.session,
                null(),
                names.as_ptr(),
                self.values.as_ptr().cast(),
                inputs,
                names.as_ptr().add(inputs),
                1,
                &mut out,
            )
        };
        self.session.ort.check(status).expect("onnxruntime runs");
    }

    fn output(&mut self) -> Vec<f32> {
        self.data.last().expect("the model has an output").clone()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        for value in &self.values {
            // SAFETY: created by `runner`, released once, before the numbers below it.
            unsafe { self.session.ort.function::<Release>(function_index::RELEASE_VALUE)(*value) }
        }
    }
}
