//! What a C function of aclnn is passed, as the table takes it.

use super::array;
use super::list::{self, List};
use super::scalar::{self, Scalar};
use super::tensor::{self, Tensor};
use crate::abi::{
    aclBoolArray, aclFloatArray, aclIntArray, aclScalar, aclScalarList, aclTensor, aclTensorList,
};
use crate::door::string;
use cairn_ops::{self as ops, Arg, Args};
use cairn_runtime::error::{Error, Result};
use cairn_tensor::{DType, Layout};
use smallvec::SmallVec;
use std::ffi::c_char;
use std::ops::Range;
use std::sync::Arc;

/// A tensor that is written: its index among the arguments, and in its list.
pub type OutputTensor = ((usize, usize), Arc<Tensor>);

/// The arguments of one call so far.
pub struct CallArguments {
    /// As the table takes them.
    pub args: Args,
    /// Where tensors and lists of them came from, in the order of the arguments.
    pub origins: SmallVec<[Origin; 6]>,
    /// The tensors that the operator may write, by index of the argument and index in its list.
    pub outputs: SmallVec<[OutputTensor; 2]>,
    /// The tensors without an address.
    pub deferred: DeferredAddresses,
}

/// Tensors that have elements and no address yet: only the run needs one. Until then each has a range of
/// addresses that no memory ever has, and that no other tensor has.
#[derive(Default)]
pub struct DeferredAddresses(Vec<(Arc<Tensor>, Range<usize>)>);

impl DeferredAddresses {
    /// Where the addresses begin: above all that a process can have.
    const START: usize = 1 << 62;

    /// Gives the tensor, as the table takes it, an address if it has none.
    fn assign_address(&mut self, tensor: &Arc<Tensor>, argument: &mut ops::Tensor) {
        if argument.address != 0 || argument.layout.count() == 0 {
            return;
        }
        if let Some((_, range)) = self.0.iter().find(|(one, _)| Arc::ptr_eq(one, tensor)) {
            argument.address = range.start;
            return;
        }
        let start = self.0.last().map_or(Self::START, |(_, range)| range.end);
        let length = argument.layout.extent().and_then(|extent| {
            let elements = usize::try_from(extent.end).ok().filter(|_| extent.start >= 0)?;
            elements.checked_mul(argument.layout.item())?.checked_next_multiple_of(512)
        });
        let Some(end) = length.and_then(|length| start.checked_add(length.max(512))) else {
            return;
        };
        self.0.push((tensor.clone(), start..end));
        argument.address = start;
    }

    /// For an address that was assigned: its offset from the start of its tensor, and the address that the tensor has
    /// by now, 0 for none.
    pub fn resolve(&self, address: usize) -> Option<(usize, usize)> {
        let (tensor, range) = self.0.iter().find(|(_, range)| range.contains(&address))?;
        Some((address - range.start, tensor.address()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A tensor, or a list of them, among the arguments.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The index of the argument.
    pub index: usize,
    /// The user's handle; 0 for null.
    pub handle: usize,
    /// The operator may write it.
    pub is_output: bool,
}

impl CallArguments {
    /// No arguments yet, with capacity for this many.
    pub fn with_capacity(count: usize) -> CallArguments {
        CallArguments {
            args: Args::with_capacity(count),
            origins: SmallVec::new(),
            outputs: SmallVec::new(),
            deferred: DeferredAddresses::default(),
        }
    }

    /// Adds an argument; `name` is that of the parameter.
    ///
    /// # Safety
    /// A text is null or ends with NUL.
    pub unsafe fn add(&mut self, argument: impl Argument, name: &'static str) -> Result<()> {
        // SAFETY: as the caller vouches.
        let gathered = unsafe { argument.gather(name, self) };
        let named = |error: Error| match error.text.contains(&format!("the argument {name} ")) {
            true => error,
            false => Error { text: format!("{name}: {}", error.text), ..error },
        };
        gathered.map_err(named)
    }

    fn tensor(&mut self, handle: *const aclTensor, name: &str, is_output: bool) -> Result<()> {
        let index = self.args.len();
        self.origins.push(Origin { index, handle: handle as usize, is_output });
        if handle.is_null() {
            self.args.push(Arg::Absent);
            return Ok(());
        }
        let tensor = tensor::find(handle, name)?;
        self.args.push(Arg::Tensor(tensor.argument()?));
        if let Some(Arg::Tensor(argument)) = self.args.last_mut() {
            self.deferred.assign_address(&tensor, argument);
        }
        if is_output {
            self.outputs.push(((index, 0), tensor));
        }
        Ok(())
    }

    fn tensors(&mut self, handle: *const aclTensorList, name: &str, is_output: bool) -> Result<()> {
        let index = self.args.len();
        self.origins.push(Origin { index, handle: handle as usize, is_output });
        if handle.is_null() {
            self.args.push(Arg::Absent);
            return Ok(());
        }
        let list: Arc<List<Tensor>> = list::find(handle as usize, name)?;
        if is_output {
            let members = list.0.iter().enumerate();
            let members =
                members.filter_map(|(at, one)| Some(((index, at), one.as_ref()?.1.clone())));
            self.outputs.extend(members);
        }
        let deferred = &mut self.deferred;
        let member = |one: &Option<(usize, Arc<Tensor>)>| match one {
            Some((_, tensor)) => {
                let mut argument = tensor.argument()?;
                deferred.assign_address(tensor, &mut argument);
                Ok(argument)
            }
            None => Ok(ops::Tensor::new(Layout::contiguous(DType::Undefined, &[0]), 0)),
        };
        self.args.push(Arg::Tensors(list.0.iter().map(member).collect::<Result<_>>()?));
        Ok(())
    }
}

/// A C type of arguments.
pub trait Argument {
    /// Adds it to the arguments, as the table takes it. A tensor is large, so it is made where it stays.
    ///
    /// # Safety
    /// A text is null or ends with NUL.
    unsafe fn gather(self, name: &str, arguments: &mut CallArguments) -> Result<()>;
}

/// Implements [`Argument`] for types that the table takes by value.
macro_rules! arguments {
    ($($type:ty: |$value:ident, $name:ident| $arg:expr;)*) => {$(
        impl Argument for $type {
            unsafe fn gather(self, $name: &str, arguments: &mut CallArguments) -> Result<()> {
                let $value = self;
                let arg: Result<Arg> = $arg;
                arguments.args.push(arg?);
                Ok(())
            }
        }
    )*};
}

/// Implements [`Argument`] for tensors and lists of them.
macro_rules! tensors {
    ($($type:ty: $add:ident, $is_output:literal;)*) => {$(
        impl Argument for $type {
            unsafe fn gather(self, name: &str, arguments: &mut CallArguments) -> Result<()> {
                arguments.$add(self, name, $is_output)
            }
        }
    )*};
}

tensors! {
    *const aclTensor: tensor, false;
    *mut aclTensor: tensor, true;
    *const aclTensorList: tensors, false;
    *mut aclTensorList: tensors, true;
}

arguments! {
    *const aclScalar: |value, name| match value.is_null() {
        true => Ok(Arg::Absent),
        false => Ok(Arg::Scalar(scalar::find(value, name)?.0)),
    };
    *const aclScalarList: |value, name| scalars(value, name);
    *const aclIntArray: |value, name| match value.is_null() {
        true => Ok(Arg::Absent),
        false => Ok(Arg::Ints(array::find::<i64>(value as usize, name)?.0.to_vec())),
    };
    *const aclFloatArray: |value, name| match value.is_null() {
        true => Ok(Arg::Absent),
        false => {
            let values = array::find::<f32>(value as usize, name)?;
            Ok(Arg::Floats(values.0.iter().map(|one| f64::from(*one)).collect()))
        }
    };
    *const aclBoolArray: |value, name| match value.is_null() {
        true => Ok(Arg::Absent),
        false => Ok(Arg::Flags(array::find::<bool>(value as usize, name)?.0.to_vec())),
    };
    i64: |value, _name| Ok(Arg::Int(value));
    i32: |value, _name| Ok(Arg::Int(i64::from(value)));
    i8: |value, _name| Ok(Arg::Int(i64::from(value)));
    u32: |value, _name| Ok(Arg::Int(i64::from(value)));
    u64: |value, _name| Ok(Arg::Int(value as i64));
    f64: |value, _name| Ok(Arg::Float(value));
    f32: |value, _name| Ok(Arg::Float(f64::from(value)));
    CBool: |value, _name| Ok(Arg::Flag(value.0 != 0));
}

/// A `bool` of C, whatever byte it holds.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct CBool(u8);

impl Argument for *const c_char {
    unsafe fn gather(self, name: &str, arguments: &mut CallArguments) -> Result<()> {
        arguments.args.push(match self.is_null() {
            true => Arg::Absent,
            // SAFETY: not null, and the caller vouches for the terminator.
            false => Arg::Text(unsafe { string(self, name) }?),
        });
        Ok(())
    }
}

fn scalars(handle: *const aclScalarList, name: &str) -> Result<Arg> {
    if handle.is_null() {
        return Ok(Arg::Absent);
    }
    let list: Arc<List<Scalar>> = list::find(handle as usize, name)?;
    let members: Option<_> = list.0.iter().map(|one| Some(one.as_ref()?.1.0)).collect();
    members.map(Arg::Scalars).ok_or_else(|| Error::invalid("a scalar of the list is null"))
}
