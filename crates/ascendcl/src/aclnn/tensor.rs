//! `aclTensor`: a view of device memory, behind a handle.

use super::{nn_entry, nn_not_null, values};
use crate::abi::{aclDataType, aclFormat, aclTensor};
use crate::door::{runtime, value_entry, write};
use crate::trampoline::cairn_new_numbers;
use cairn_ops as ops;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_tensor::{DType, Layout, MAX_DIMS};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a tensor handle names. Shared by handles, lists and executors; an operator whose output's sizes
/// depend on values writes them here when it ran.
pub struct Tensor(Mutex<State>);

/// The most dimensions that a tensor may be made with, as in CANN. Operators take up to [`MAX_DIMS`].
const MAX_CREATED_DIMS: usize = 25;

/// Sizes and strides of a tensor that has more dimensions than any operator takes.
struct HighRank {
    dims: Vec<i64>,
    strides: Vec<i64>,
}

/// One state of a tensor.
#[derive(Clone)]
struct State {
    /// Elements; strides and offset count from the start of the storage. Without elements if there is a `high_rank`.
    layout: Layout,
    high_rank: Option<Arc<HighRank>>,
    /// The start of the storage.
    address: usize,
    format: aclFormat,
    /// The sizes of the storage.
    storage: SmallVec<[i64; MAX_DIMS]>,
}

impl State {
    /// A tensor without elements.
    fn empty() -> State {
        let layout = Layout::contiguous(DType::Float, &[0]);
        State { layout, high_rank: None, address: 0, format: 0, storage: SmallVec::new() }
    }

    fn dims(&self) -> Vec<i64> {
        match &self.high_rank {
            Some(high_rank) => high_rank.dims.clone(),
            None => self.layout.dims().iter().map(|dim| *dim as i64).collect(),
        }
    }

    fn strides(&self) -> Vec<i64> {
        match &self.high_rank {
            Some(high_rank) => high_rank.strides.clone(),
            None => self.layout.strides().iter().map(|stride| *stride as i64).collect(),
        }
    }
}

impl HandleObject for Tensor {
    const KIND: &'static str = "tensor";
}

impl Tensor {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tensor as operators take it; an error for one with more dimensions than they do.
    pub fn argument(&self) -> Result<ops::Tensor> {
        let state = self.lock();
        match &state.high_rank {
            None => Ok(ops::Tensor::new(state.layout, state.address)),
            Some(high_rank) => {
                let (rank, dims) = (high_rank.dims.len(), &high_rank.dims);
                Err(Error::invalid(format!(
                    "the tensor {dims:?} has {rank} dimensions: operators take up to {MAX_DIMS}, reshape it"
                )))
            }
        }
    }

    /// The start of the storage; 0 for none.
    pub fn address(&self) -> usize {
        self.lock().address
    }

    /// The sizes that the values decided, from the first element on, one after the other.
    pub fn resize(&self, dims: &[usize]) {
        let mut state = self.lock();
        let (dtype, offset) = (state.layout.dtype, state.layout.offset);
        state.layout = Layout::contiguous(dtype, dims).from_offset(offset);
    }
}

/// The tensor behind a handle of the user.
pub fn find(handle: *const aclTensor, parameter: &str) -> Result<Arc<Tensor>> {
    nn_not_null(handle, parameter)?;
    runtime()?.handles.get(handle as usize)
}

/// What aclCreateTensor and aclInitTensor are given.
struct TensorArguments {
    dims: (*const i64, u64),
    dtype: aclDataType,
    strides: *const i64,
    offset: i64,
    format: aclFormat,
    storage: (*const i64, u64),
    address: *mut c_void,
}

/// A number of dimensions that a tensor may be made with.
fn rank(count: u64, name: &str) -> Result<usize> {
    let rank = usize::try_from(count).ok().filter(|rank| *rank <= MAX_CREATED_DIMS);
    rank.ok_or_else(|| {
        Error::invalid(format!("{name} = {count}: a tensor has up to {MAX_CREATED_DIMS}"))
    })
}

impl TensorArguments {
    /// Writes them into a state.
    ///
    /// # Safety
    /// The arrays have as many values as their counts say, strides as many as dims; each may be null.
    unsafe fn write_to(&self, state: &mut State) -> Result<()> {
        let element_type = DType::from_number(self.dtype).ok_or_else(|| {
            Error::invalid(format!("dataType = {} is no aclDataType", self.dtype))
        })?;
        let rank_of_view = rank(self.dims.1, "viewDimsNum")?;
        rank(self.storage.1, "storageDimsNum")?;
        let mut dims: SmallVec<[usize; MAX_DIMS]> = SmallVec::new();
        let mut bytes = Some(element_type.size_in_bytes().unwrap_or(1) as isize);
        // SAFETY: as the caller vouches.
        for dim in unsafe { values(self.dims.0, self.dims.1, "viewDims") }? {
            let size = usize::try_from(dim).map_err(|_| {
                Error::invalid(format!("{dim} in viewDims is no size of a dimension"))
            })?;
            bytes = bytes.and_then(|bytes| bytes.checked_mul((dim as isize).max(1)));
            dims.push(size);
        }
        if bytes.is_none() {
            return Err(Error::invalid(format!(
                "viewDims {dims:?} of {element_type} leave the address space"
            )));
        }
        let mut strides: SmallVec<[isize; MAX_DIMS]> = SmallVec::new();
        match self.strides.is_null() || rank_of_view == 0 {
            true => strides = contiguous_strides(&dims),
            // SAFETY: as the caller vouches.
            false => unsafe { values(self.strides, self.dims.1, "stride") }?
                .for_each(|stride| strides.push(stride as isize)),
        }
        state.storage.clear();
        match self.storage.0.is_null() {
            true => dims.iter().for_each(|dim| state.storage.push(*dim as i64)),
            // SAFETY: as the caller vouches.
            false => unsafe { values(self.storage.0, self.storage.1, "storageDims") }?
                .for_each(|dim| state.storage.push(dim)),
        }
        state.high_rank = (rank_of_view > MAX_DIMS).then(|| {
            let dims = dims.iter().map(|dim| *dim as i64).collect();
            Arc::new(HighRank { dims, strides: strides.iter().map(|one| *one as i64).collect() })
        });
        state.layout = match &state.high_rank {
            Some(_) => Layout::contiguous(element_type, &[0]).from_offset(self.offset as isize),
            None => Layout::strided(element_type, &dims, &strides, self.offset as isize),
        };
        state.address = self.address as usize;
        state.format = self.format;
        Ok(())
    }
}

/// Strides of elements that lie one after the other, for any number of dimensions.
fn contiguous_strides(dims: &[usize]) -> SmallVec<[isize; MAX_DIMS]> {
    let mut strides: SmallVec<[isize; MAX_DIMS]> = SmallVec::from_elem(1, dims.len());
    for at in (1..dims.len()).rev() {
        strides[at - 1] = strides[at] * dims[at].max(1) as isize;
    }
    strides
}

/// Gives numbers to the user in an array that it ends with `delete[]`.
///
/// # Safety
/// `to` and `count` are null or point to writable memory.
unsafe fn give_array(
    numbers: &[i64],
    to: (*mut *mut i64, &str),
    count: (*mut u64, &str),
) -> Result<()> {
    nn_not_null(to.0, to.1)?;
    nn_not_null(count.0, count.1)?;
    // SAFETY: the trampoline takes any count.
    let array = unsafe { cairn_new_numbers(numbers.len()) };
    if array.is_null() {
        return Err(Error::new(Code::MemoryAllocation, format!("no host memory for {}", to.1)));
    }
    // SAFETY: the new array has room for them all; the places of the user are not null.
    unsafe {
        array.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len());
        write(to.0, to.1, array)?;
        write(count.0, count.1, numbers.len() as u64)
    }
}

value_entry! {
    /// A view of device memory.
    fn aclCreateTensor(
        dims: *const i64,
        rank: u64,
        dtype: aclDataType,
        strides: *const i64,
        offset: i64,
        format: aclFormat,
        storage: *const i64,
        storage_rank: u64,
        data: *mut c_void,
    ) -> *mut aclTensor, else null_mut(), {
        let (dims, storage, address) = ((dims, rank), (storage, storage_rank), data);
        let arguments = TensorArguments { dims, dtype, strides, offset, format, storage, address };
        let mut tensor = Arc::new(Tensor(Mutex::new(State::empty())));
        let state = Arc::get_mut(&mut tensor).expect("nobody else has it yet");
        // SAFETY: the caller passes arrays of these lengths, or null.
        unsafe { arguments.write_to(state.0.get_mut().unwrap_or_else(PoisonError::into_inner)) }?;
        Ok(runtime()?.handles.insert(tensor)? as *mut aclTensor)
    }
}

nn_entry! {
    /// Changes all properties of a tensor.
    fn aclInitTensor(
        tensor: *mut aclTensor,
        dims: *const i64,
        rank: u64,
        dtype: aclDataType,
        strides: *const i64,
        offset: i64,
        format: aclFormat,
        storage: *const i64,
        storage_rank: u64,
        data: *mut c_void,
    ) {
        let tensor = find(tensor, "tensor")?;
        let (dims, storage, address) = ((dims, rank), (storage, storage_rank), data);
        let arguments = TensorArguments { dims, dtype, strides, offset, format, storage, address };
        let mut state = State::empty();
        // SAFETY: the caller passes arrays of these lengths, or null.
        unsafe { arguments.write_to(&mut state) }?;
        *tensor.lock() = state;
        Ok(())
    }

    /// Destroys a tensor; null is fine.
    fn aclDestroyTensor(tensor: *const aclTensor) {
        if !tensor.is_null() {
            runtime()?.handles.remove::<Tensor>(tensor as usize)?;
        }
        Ok(())
    }

    /// The sizes of the view.
    fn aclGetViewShape(tensor: *const aclTensor, dims: *mut *mut i64, rank: *mut u64) {
        let state = find(tensor, "tensor")?.lock().clone();
        // SAFETY: the caller passes pointers to the results, or null.
        unsafe { give_array(&state.dims(), (dims, "viewDims"), (rank, "viewDimsNum")) }
    }

    /// The strides of the view.
    fn aclGetViewStrides(tensor: *const aclTensor, strides: *mut *mut i64, rank: *mut u64) {
        let state = find(tensor, "tensor")?.lock().clone();
        // SAFETY: the caller passes pointers to the results, or null.
        unsafe { give_array(&state.strides(), (strides, "stridesValue"), (rank, "stridesNum")) }
    }

    /// The sizes of the storage.
    fn aclGetStorageShape(tensor: *const aclTensor, dims: *mut *mut i64, rank: *mut u64) {
        let state = find(tensor, "tensor")?.lock().clone();
        // SAFETY: the caller passes pointers to the results, or null.
        unsafe { give_array(&state.storage, (dims, "storageDims"), (rank, "storageDimsNum")) }
    }

    /// Where the view begins.
    fn aclGetViewOffset(tensor: *const aclTensor, offset: *mut i64) {
        let state = find(tensor, "tensor")?.lock().clone();
        nn_not_null(offset, "offset")?;
        // SAFETY: not null; the caller passes room for one number.
        unsafe { write(offset, "offset", state.layout.offset as i64) }
    }

    /// The format.
    fn aclGetFormat(tensor: *const aclTensor, format: *mut aclFormat) {
        let state = find(tensor, "tensor")?.lock().clone();
        nn_not_null(format, "format")?;
        // SAFETY: not null; the caller passes room for one value.
        unsafe { write(format, "format", state.format) }
    }

    /// The type of the elements.
    fn aclGetDataType(tensor: *const aclTensor, dtype: *mut aclDataType) {
        let state = find(tensor, "tensor")?.lock().clone();
        nn_not_null(dtype, "dataType")?;
        // SAFETY: not null; the caller passes room for one value.
        unsafe { write(dtype, "dataType", state.layout.dtype.number()) }
    }

    /// The start of the storage.
    fn aclGetRawTensorAddr(tensor: *const aclTensor, address: *mut *mut c_void) {
        let state = find(tensor, "tensor")?.lock().clone();
        nn_not_null(address, "addr")?;
        // SAFETY: not null; the caller passes room for one address.
        unsafe { write(address, "addr", state.address as *mut c_void) }
    }

    /// Moves the tensor.
    fn aclSetRawTensorAddr(tensor: *mut aclTensor, address: *mut c_void) {
        find(tensor, "tensor")?.lock().address = address as usize;
        Ok(())
    }
}
