//! The state of a description, and the checks of what goes into it.

use crate::abi::{ACL_MEMTYPE_DEVICE, aclMemType, aclTensorDesc};
use crate::door::{not_null, runtime};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_runtime::memory::raw;
use cairn_tensor::{DType, Format, Reorder};
use std::ffi::{CString, c_int};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A dimension that is known only at run time.
const UNKNOWN_DIM: i64 = -1;
/// The only dimension of a shape whose rank is known only at run time.
pub const UNKNOWN_RANK: i64 = -2;
/// The most dimensions that a shape has.
pub const MAX_DIMS: usize = 128;

/// What a description handle names.
pub struct TensorDesc(Mutex<Description>);

/// One state of a description. Submitting an operator takes a copy: the handle may be destroyed
/// right after.
#[derive(Clone, Debug)]
pub struct Description {
    /// The type of the elements.
    pub dtype: DType,
    /// The origin's shape, with -1 for an unknown dimension, or just -2 for an unknown rank.
    pub dims: Vec<i64>,
    /// The origin's format.
    pub format: Format,
    /// The shape in memory, where it was given.
    pub storage_dims: Option<Vec<i64>>,
    /// The format in memory, where it was given.
    pub storage_format: Option<Format>,
    /// The least and greatest value of each dimension; -1 for no upper end.
    pub shape_range: Vec<[i64; 2]>,
    /// The least and greatest value of each element.
    pub value_range: Vec<[i64; 2]>,
    /// The tensor's name, maybe empty.
    pub name: CString,
    /// The variable-length input that the tensor is a part of.
    pub dynamic_input: Option<CString>,
    /// The data of a constant.
    pub constant: Option<Arc<Vec<u8>>>,
    /// Where the data will be.
    pub placement: aclMemType,
}

impl HandleObject for TensorDesc {
    const KIND: &'static str = "tensor description";
}

impl TensorDesc {
    /// The state, for a moment: never held while another lock is taken.
    pub fn lock(&self) -> MutexGuard<'_, Description> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Description {
    /// A description with nothing else set.
    pub fn new(dtype: DType, dims: Vec<i64>, format: Format) -> Description {
        Description {
            dtype,
            dims,
            format,
            storage_dims: None,
            storage_format: None,
            shape_range: Vec::new(),
            value_range: Vec::new(),
            name: CString::default(),
            dynamic_input: None,
            constant: None,
            placement: ACL_MEMTYPE_DEVICE,
        }
    }

    /// Gives the description to the user.
    pub fn into_handle(self) -> Result<*mut aclTensorDesc> {
        let desc = Arc::new(TensorDesc(Mutex::new(self)));
        Ok(runtime()?.handles.insert(desc)? as *mut aclTensorDesc)
    }

    /// The number of elements; 0 while a dimension is unknown.
    pub fn count(&self) -> Result<usize> {
        if self.dims.iter().any(|d| *d <= 0) {
            return Ok(0);
        }
        let product = |count: usize, dim: &i64| count.checked_mul(*dim as usize);
        self.dims.iter().try_fold(1, product).ok_or_else(|| {
            let dims = &self.dims;
            Error::invalid(format!("the shape {dims:?} has more elements than 64 bits count"))
        })
    }

    /// Bytes of the data; 0 while they are unknown.
    pub fn size(&self) -> Result<usize> {
        let count = self.count()?;
        if self.dtype.bits().is_none() {
            return Ok(0);
        }
        self.dtype.bytes_of(count).ok_or_else(|| {
            let (dims, dtype) = (&self.dims, self.dtype);
            Error::invalid(format!("{dims:?} of {dtype} has more bytes than 64 bits count"))
        })
    }

    /// The sizes in memory: those that were given for it, else the origin's. Formats in plain order have as many
    /// elements either way; `what` is for messages.
    pub fn sizes(&self, what: &str) -> Result<&[i64]> {
        let Some(storage) = &self.storage_dims else { return Ok(&self.dims) };
        let in_memory = Description { dims: storage.clone(), ..self.clone() };
        in_memory.size()?;
        let is_known = |dims: &[i64]| dims.iter().all(|dim| *dim >= 0);
        if is_known(&self.dims) && is_known(storage) && self.count()? != in_memory.count()? {
            return Err(Error::invalid(format!(
                "{what} has the shape {:?}, and {storage:?} in memory: they have different numbers of elements",
                self.dims
            )));
        }
        Ok(storage)
    }

    /// Gives the tensor other sizes, in memory too.
    pub fn resize(&mut self, dims: Vec<i64>) {
        if let Some(storage) = &mut self.storage_dims {
            storage.clone_from(&dims);
        }
        self.dims = dims;
    }

    /// One dimension of the origin.
    pub fn dim(&self, index: usize) -> Result<i64> {
        element(&self.dims, index, "dimensions")
    }

    /// The same type and shape in another format.
    pub fn reordered(&self, to: Format) -> Result<Description> {
        let from = self.format;
        let dims = match from.reorder(to) {
            None => {
                let text = format!("no shape can be derived from {from} to {to}");
                return Err(Error::new(Code::FeatureNotSupport, text));
            }
            Some(Reorder::Permute(order)) if self.dims != [UNKNOWN_RANK] => {
                if order.len() != self.dims.len() {
                    let dims = &self.dims;
                    return Err(Error::invalid(format!("the shape {dims:?} is not one of {from}")));
                }
                order.iter().map(|at| self.dims[*at]).collect()
            }
            Some(_) => self.dims.clone(),
        };
        Ok(Description::new(self.dtype, dims, to))
    }
}

/// One of a list by the user's index.
pub fn element<T: Copy>(list: &[T], index: usize, what: &str) -> Result<T> {
    list.get(index).copied().ok_or_else(|| {
        Error::invalid(format!("index = {index} is out of range: there are {} {what}", list.len()))
    })
}

/// Copies an array of the user.
///
/// # Safety
/// `from` is null or points to `count` readable values, of any alignment.
pub unsafe fn copied<T: Copy>(from: *const T, count: usize, parameter: &str) -> Result<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    not_null(from, parameter)?;
    // SAFETY: as the caller vouches.
    unsafe { raw::copy_array(from, count, parameter) }
}

/// Copies and checks a shape of the user.
///
/// # Safety
/// `dims` is null or points to `count` readable values.
pub unsafe fn shape(dims: *const i64, count: c_int) -> Result<Vec<i64>> {
    let number = usize::try_from(count)
        .ok()
        .filter(|n| *n <= MAX_DIMS)
        .ok_or_else(|| Error::invalid(format!("numDims = {count} is outside 0 to {MAX_DIMS}")))?;
    // SAFETY: as the caller vouches.
    let dims = unsafe { copied(dims, number, "dims") }?;
    if dims != [UNKNOWN_RANK]
        && let Some(bad) = dims.iter().find(|d| **d < UNKNOWN_DIM)
    {
        return Err(Error::invalid(format!(
            "{bad} in the shape {dims:?} is no dimension: -1 stands for an unknown one, \
             a shape of just -2 for an unknown rank"
        )));
    }
    Ok(dims)
}

/// Whether a range of values has no greatest one.
pub fn is_open([least, greatest]: &[i64; 2]) -> bool {
    *least >= 0 && *greatest == -1
}
