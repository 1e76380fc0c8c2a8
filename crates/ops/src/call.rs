//! The arguments of one call, read and checked by the operator's function.

use crate::argument::{Arg, Args, Tensor};
use crate::error::{Error, Outcome, Result};
use crate::group::GroupUse;
use crate::plan::{AccessMode, Kernel, Memory, Operand, Plan, Scratch, Use, gaps};
use cairn_tensor::{DType, Layout, Scalar, Strides};
use smallvec::SmallVec;
use std::cell::Cell;

/// Parts of a workspace begin on multiples of this.
const SCRATCH_ALIGN: usize = 64;

/// One call of an operator while it is planned. Arguments are read by index; each read checks kind
/// and presence and names the parameter when it fails. Tensors that are read become part of the plan.
pub struct Call<'a> {
    /// The name the caller used.
    pub name: &'static str,
    parameters: &'a [&'static str],
    by_name: bool,
    caller_indices: SmallVec<[usize; 12]>,
    args: Args,
    uses: SmallVec<[Use; 4]>,
    /// The types of the uses.
    types: SmallVec<[DType; 4]>,
    /// The caller's indices of the outputs that [`Call::skip_cast_check`] exempts, a bit each.
    unchecked_casts: Cell<u64>,
    workspace: usize,
    is_too_large: bool,
    pub(crate) is_random: bool,
    pub(crate) groups: SmallVec<[GroupUse; 0]>,
}

/// The same elements in a layout whose sizes and strides kernels can multiply without an overflow: the stride of a
/// dimension of size 1, which a caller may set to anything, becomes 0 where it is huge. `None` where there are more
/// elements than addresses.
fn bounded(layout: &Layout) -> Option<Layout> {
    if !layout.fits() {
        return None;
    }
    if layout.dims().contains(&0) {
        return Some(layout.packed());
    }
    let is_huge = |stride: isize| stride.checked_mul(64).is_none();
    let strides: Strides = (layout.dims().iter().zip(layout.strides()))
        .map(|(size, stride)| if *size == 1 && is_huge(*stride) { 0 } else { *stride })
        .collect();
    Some(Layout::strided(layout.dtype, layout.dims(), &strides, layout.offset))
}

// What an argument is to be used for.
const READ: AccessMode = AccessMode { reads: true, writes: false };
const WRITE: AccessMode = AccessMode { reads: false, writes: true };
const BOTH: AccessMode = AccessMode { reads: true, writes: true };

impl<'a> Call<'a> {
    /// A call by name. `caller_indices[i]` is the caller's own index of `args[i]`, which `parameters` names.
    pub fn new(
        name: &'static str,
        parameters: &'a [&'static str],
        args: Args,
        caller_indices: SmallVec<[usize; 12]>,
    ) -> Call<'a> {
        Call {
            name,
            parameters,
            by_name: false,
            caller_indices,
            args,
            uses: SmallVec::new(),
            types: SmallVec::new(),
            unchecked_casts: Cell::new(0),
            workspace: 0,
            is_too_large: false,
            is_random: false,
            groups: SmallVec::new(),
        }
    }

    /// As [`Call::new`], where `parameters[i]` names `args[i]`.
    pub fn named(
        name: &'static str,
        parameters: &'a [&'static str],
        args: Args,
        caller_indices: SmallVec<[usize; 12]>,
    ) -> Call<'a> {
        Call { by_name: true, ..Call::new(name, parameters, args, caller_indices) }
    }

    /// The name of a parameter.
    pub fn parameter(&self, at: usize) -> &'static str {
        let index = match self.by_name {
            true => at,
            false => self.caller_indices.get(at).copied().unwrap_or(usize::MAX),
        };
        self.parameters.get(index).copied().unwrap_or("argument")
    }

    /// Whether it is called by its IR name.
    pub fn is_by_name(&self) -> bool {
        self.by_name
    }

    /// The argument as it is; absent beyond the last.
    pub fn arg(&self, at: usize) -> &Arg {
        self.args.get(at).unwrap_or(&Arg::Absent)
    }

    /// The index that the caller has for an argument, by which sizes are reported that only values decide.
    pub fn caller_index(&self, at: usize) -> (usize, usize) {
        (self.caller_indices.get(at).copied().unwrap_or(at), 0)
    }

    /// Puts another argument instead of one: for functions that call others in their terms.
    pub fn replace(&mut self, at: usize, arg: Arg) {
        if let Some(slot) = self.args.get_mut(at) {
            *slot = arg;
        }
    }

    /// Whether an argument is there.
    pub fn has(&self, at: usize) -> bool {
        !matches!(self.arg(at), Arg::Absent)
    }

    /// The error of an argument that is absent or of another kind.
    fn wrong_kind<T>(&self, at: usize, expected: &str) -> Result<T> {
        let parameter = self.parameter(at);
        Err(match self.arg(at) {
            Arg::Absent => Error::Null(format!("{parameter} is null: expected {expected}")),
            arg => Error::Invalid(format!("{parameter} is {}: expected {expected}", arg.kind())),
        })
    }

    /// Checks a tensor, which is argument `at` or the one at index `inner` of that list, and adds it to the plan's uses.
    fn claim(
        &mut self,
        at: usize,
        inner: usize,
        tensor: &Tensor,
        access: AccessMode,
    ) -> Result<Operand> {
        let parameter = self.parameter(at);
        if tensor.layout.item() == 0 {
            let dtype = tensor.layout.dtype;
            return Err(Error::invalid(format!("{parameter} has elements of type {dtype}")));
        }
        let (Some(layout), Some(span)) = (bounded(&tensor.layout), tensor.span()) else {
            let layout = tensor.layout;
            return Err(Error::invalid(format!("{parameter} ({layout}) leaves the address space")));
        };
        let tensor = &Tensor::new(layout, tensor.address);
        if tensor.address == 0 && tensor.layout.count() > 0 {
            let layout = tensor.layout;
            return Err(Error::Null(format!("the address of {parameter} ({layout}) is null")));
        }
        if access.writes && tensor.layout.repeats() {
            let (layout, strides) = (tensor.layout, tensor.layout.strides());
            return Err(Error::invalid(format!(
                "{parameter} ({layout}, strides {strides:?}) has elements that share memory and cannot be written"
            )));
        }
        let argument = (self.caller_indices.get(at).copied().unwrap_or(at), inner);
        let item = tensor.layout.item() as isize;
        let byte_offset = span.start.wrapping_sub(tensor.address) as isize;
        let layout = tensor.layout.from_offset(tensor.layout.offset - byte_offset / item);
        let slot = match self.uses.iter().position(|one| one.argument == argument) {
            Some(slot) => {
                let both = &mut self.uses[slot].access;
                *both = AccessMode {
                    reads: both.reads | access.reads,
                    writes: both.writes | access.writes,
                };
                slot
            }
            None => {
                let (address, bytes) = (span.start, span.len());
                let gaps = gaps(&layout, bytes);
                let indexed = false;
                self.types.push(layout.dtype);
                self.uses.push(Use {
                    parameter,
                    argument,
                    address,
                    bytes,
                    byte_offset,
                    access,
                    dtype: layout.dtype,
                    indexed,
                    gaps,
                });
                self.uses.len() - 1
            }
        };
        Ok(Operand { slot: slot as u16, address: span.start, layout })
    }

    fn claim_tensor(&mut self, at: usize, access: AccessMode) -> Result<Operand> {
        // Tensors are large: the arguments move aside for a moment, so that this one need not be copied.
        let args = std::mem::take(&mut self.args);
        let claimed = match args.get(at) {
            Some(Arg::Tensor(tensor)) => Some(self.claim(at, 0, tensor, access)),
            _ => None,
        };
        self.args = args;
        claimed.unwrap_or_else(|| self.wrong_kind(at, "a tensor"))
    }

    /// A tensor that is read.
    pub fn tensor(&mut self, at: usize) -> Result<Operand> {
        self.claim_tensor(at, READ)
    }

    /// A tensor that is read, if it is there.
    pub fn optional(&mut self, at: usize) -> Result<Option<Operand>> {
        if self.has(at) { self.tensor(at).map(Some) } else { Ok(None) }
    }

    /// A tensor that is written.
    pub fn output(&mut self, at: usize) -> Result<Operand> {
        self.claim_tensor(at, WRITE)
    }

    /// A tensor that is written, if it is there.
    pub fn optional_output(&mut self, at: usize) -> Result<Option<Operand>> {
        if self.has(at) { self.output(at).map(Some) } else { Ok(None) }
    }

    /// A tensor that is read and written.
    pub fn inout(&mut self, at: usize) -> Result<Operand> {
        self.claim_tensor(at, BOTH)
    }

    fn claim_list(&mut self, at: usize, access: AccessMode) -> Result<Vec<Operand>> {
        let Arg::Tensors(tensors) = self.arg(at).clone() else {
            return self.wrong_kind(at, "a list of tensors");
        };
        tensors.iter().enumerate().map(|(i, one)| self.claim(at, i, one, access)).collect()
    }

    /// A list of tensors that are read.
    pub fn tensors(&mut self, at: usize) -> Result<Vec<Operand>> {
        self.claim_list(at, READ)
    }

    /// A list of tensors that are read, some of which may be null.
    pub fn tensors_or_null(&mut self, at: usize) -> Result<Vec<Option<Operand>>> {
        let Arg::Tensors(tensors) = self.arg(at).clone() else {
            return self.wrong_kind(at, "a list of tensors");
        };
        let null = |one: &Tensor| one.layout.dtype == DType::Undefined;
        (tensors.iter().enumerate())
            .map(|(i, one)| match null(one) {
                true => Ok(None),
                false => self.claim(at, i, one, READ).map(Some),
            })
            .collect()
    }

    /// The last of a list of tensors, which is a constant with one element, taken out of it.
    pub fn pop_number(&mut self, at: usize) -> Result<i64> {
        let Some(Arg::Tensors(tensors)) = self.args.get_mut(at) else {
            return self.wrong_kind(at, "a list of tensors");
        };
        let value = tensors.pop().and_then(|last| {
            let bytes = last.constant.as_deref()?;
            Some(Scalar::read(bytes, last.layout.dtype)?.as_i64())
        });
        value.ok_or_else(|| {
            let name = self.parameter(at);
            Error::NeedsValues(format!("the last of {name} must be a constant or a host tensor"))
        })
    }

    /// Moves the last tensor of a list to an argument of its own; where the list is empty, that argument is absent.
    pub fn move_last(&mut self, list: usize, to: usize) {
        let Some(Arg::Tensors(tensors)) = self.args.get_mut(list) else { return };
        let moved = tensors.pop().map_or(Arg::Absent, Arg::Tensor);
        let index = self.caller_indices[list] + tensors.len();
        self.args[to] = moved;
        self.caller_indices[to] = index;
    }

    /// A list of tensors that are written.
    pub fn outputs(&mut self, at: usize) -> Result<Vec<Operand>> {
        self.claim_list(at, WRITE)
    }

    /// A list of tensors that are read and written.
    pub fn inouts(&mut self, at: usize) -> Result<Vec<Operand>> {
        self.claim_list(at, BOTH)
    }

    /// The layout of a tensor, without touching it.
    pub fn layout(&self, at: usize) -> Result<Layout> {
        match self.arg(at) {
            Arg::Tensor(tensor) => Ok(tensor.layout),
            _ => self.wrong_kind(at, "a tensor"),
        }
    }

    /// A number: a scalar, or a plain one. Complex ones are refused.
    pub fn scalar(&self, at: usize) -> Result<Scalar> {
        match self.any_scalar(at)? {
            Scalar::Complex(value, dtype) => {
                let name = self.parameter(at);
                Err(Error::invalid(format!(
                    "{name} = {value} is a number of type {dtype}: expected a real one"
                )))
            }
            real => Ok(real),
        }
    }

    /// As [`Call::scalar`], where complex numbers are taken too.
    pub fn any_scalar(&self, at: usize) -> Result<Scalar> {
        match self.arg(at) {
            Arg::Scalar(scalar) => Ok(*scalar),
            Arg::Int(value) => Ok((*value).into()),
            Arg::Float(value) => Ok((*value).into()),
            Arg::Flag(value) => Ok((*value).into()),
            _ => self.wrong_kind(at, "a scalar"),
        }
    }

    /// A number, or another when it is absent.
    pub fn scalar_or(&self, at: usize, other: impl Into<Scalar>) -> Result<Scalar> {
        if self.has(at) { self.scalar(at) } else { Ok(other.into()) }
    }

    /// A list of numbers.
    pub fn scalars(&self, at: usize) -> Result<Vec<Scalar>> {
        match self.arg(at) {
            Arg::Scalars(scalars) => Ok(scalars.clone()),
            Arg::Floats(values) => Ok(values.iter().map(|value| (*value).into()).collect()),
            _ => self.wrong_kind(at, "a list of scalars"),
        }
    }

    /// An integer.
    pub fn int(&self, at: usize) -> Result<i64> {
        match self.arg(at) {
            Arg::Int(value) => Ok(*value),
            Arg::Scalar(scalar @ Scalar::Int(..)) => Ok(scalar.as_i64()),
            _ => self.wrong_kind(at, "an integer"),
        }
    }

    /// An integer, or another when it is absent.
    pub fn int_or(&self, at: usize, other: i64) -> Result<i64> {
        if self.has(at) { self.int(at) } else { Ok(other) }
    }

    /// A real number.
    pub fn float(&self, at: usize) -> Result<f64> {
        match self.arg(at) {
            Arg::Float(value) => Ok(*value),
            Arg::Int(value) => Ok(*value as f64),
            Arg::Scalar(scalar) => Ok(scalar.as_f64()),
            _ => self.wrong_kind(at, "a real number"),
        }
    }

    /// Yes or no.
    pub fn flag(&self, at: usize) -> Result<bool> {
        match self.arg(at) {
            Arg::Flag(value) => Ok(*value),
            Arg::Int(value) => Ok(*value != 0),
            _ => self.wrong_kind(at, "a boolean"),
        }
    }

    /// Yes or no, or the other when it is absent.
    pub fn flag_or(&self, at: usize, other: bool) -> Result<bool> {
        if self.has(at) { self.flag(at) } else { Ok(other) }
    }

    /// A type of elements, by its number.
    pub fn dtype(&self, at: usize) -> Result<DType> {
        let number = self.int(at)?;
        i32::try_from(number).ok().and_then(DType::from_number).ok_or_else(|| {
            Error::invalid(format!("{} = {number} is no aclDataType", self.parameter(at)))
        })
    }

    /// Integers: a list, or a constant tensor of them.
    pub fn ints(&self, at: usize) -> Result<Vec<i64>> {
        match self.arg(at) {
            Arg::Ints(values) => Ok(values.clone()),
            Arg::Int(value) => Ok(vec![*value]),
            Arg::Tensor(_) => Ok(self.values(at)?.into_iter().map(Scalar::as_i64).collect()),
            _ => self.wrong_kind(at, "a list of integers"),
        }
    }

    /// Real numbers.
    pub fn floats(&self, at: usize) -> Result<Vec<f64>> {
        match self.arg(at) {
            Arg::Floats(values) => Ok(values.clone()),
            _ => self.wrong_kind(at, "a list of real numbers"),
        }
    }

    /// Booleans.
    pub fn flags(&self, at: usize) -> Result<Vec<bool>> {
        match self.arg(at) {
            Arg::Flags(values) => Ok(values.clone()),
            _ => self.wrong_kind(at, "a list of booleans"),
        }
    }

    /// A text; empty when it is absent.
    pub fn text(&self, at: usize) -> Result<&str> {
        match self.arg(at) {
            Arg::Text(text) => Ok(text),
            Arg::Absent => Ok(""),
            _ => self.wrong_kind(at, "a text"),
        }
    }

    /// The values of a constant or host tensor, in order.
    pub fn values(&self, at: usize) -> Result<Vec<Scalar>> {
        let Arg::Tensor(tensor) = self.arg(at) else {
            return self.wrong_kind(at, "a tensor");
        };
        let parameter = self.parameter(at);
        let Some(bytes) = &tensor.constant else {
            return Err(Error::NeedsValues(format!(
                "the values of {parameter} are needed before it runs: make it a constant or a host tensor"
            )));
        };
        let item = tensor.layout.item().max(1);
        let values: Option<Vec<Scalar>> = (bytes.chunks_exact(item))
            .take(tensor.layout.count())
            .map(|one| Scalar::read(one, tensor.layout.dtype))
            .collect();
        values.filter(|values| values.len() == tensor.layout.count()).ok_or_else(|| {
            let (layout, have) = (tensor.layout, bytes.len());
            Error::invalid(format!("{parameter} ({layout}) has {have} bytes of values"))
        })
    }

    /// A dimension of a tensor of `rank`, counted from the end when negative.
    pub fn dim(&self, at: usize, rank: usize) -> Result<usize> {
        self.wrap(at, self.int(at)?, rank)
    }

    /// As [`Call::dim`], for a number that was read already.
    pub fn wrap(&self, at: usize, dim: i64, rank: usize) -> Result<usize> {
        let rank = rank.max(1) as i64;
        let wrapped = if dim < 0 { dim + rank } else { dim };
        if (0..rank).contains(&wrapped) {
            return Ok(wrapped as usize);
        }
        let parameter = self.parameter(at);
        Err(Error::invalid(format!("{parameter} = {dim} is outside {} to {}", -rank, rank - 1)))
    }

    /// Fails unless an operand has these sizes.
    pub fn expect_dims(&self, at: usize, operand: &Layout, dims: &[usize]) -> Result<()> {
        if operand.dims() == dims {
            return Ok(());
        }
        let (parameter, have) = (self.parameter(at), operand.dims());
        Err(Error::invalid(format!("{parameter} has the sizes {have:?}: expected {dims:?}")))
    }

    /// Exempts an output from the check in [`Call::plan`] that results can be cast to its type: the type was checked before, or
    /// the caller asked for it whatever the cast loses.
    pub fn skip_cast_check(&self, at: usize) {
        let index = self.caller_indices.get(at).copied().unwrap_or(at);
        if let Some(bit) = u32::try_from(index).ok().and_then(|index| 1u64.checked_shl(index)) {
            self.unchecked_casts.set(self.unchecked_casts.get() | bit);
        }
    }

    /// The names and types of the tensors that were read so far.
    pub fn types(&self) -> impl Iterator<Item = (&'static str, DType)> {
        self.uses.iter().map(|one| one.parameter).zip(self.types.iter().copied())
    }

    /// Fails if an output cannot hold what is computed from the inputs: integers from real numbers, or booleans from
    /// numbers. See [`Call::skip_cast_check`].
    fn expect_types_fit(&self) -> Result<()> {
        let uses = || self.uses.iter().zip(&self.types);
        let inputs = || uses().filter(|(one, _)| one.access.reads).map(|(_, dtype)| *dtype);
        let is_integer = |dtype: &DType| dtype.is_integer();
        let is_real = |dtype: &DType| !dtype.is_integer() && *dtype != DType::Bool;
        let Some(from) = inputs().find(is_real).or_else(|| inputs().find(is_integer)) else {
            return Ok(());
        };
        let only_numbers = inputs().all(|dtype| dtype != DType::Bool);
        for (one, to) in uses().filter(|(one, _)| one.access.writes) {
            let index = u32::try_from(one.argument.0).ok();
            let bit = index.and_then(|index| 1u64.checked_shl(index)).unwrap_or(u64::MAX);
            let loses = match is_real(&from) {
                true => !is_real(to),
                false => *to == DType::Bool && only_numbers,
            };
            if loses && self.unchecked_casts.get() & bit == 0 {
                let name = one.parameter;
                return Err(Error::invalid(format!(
                    "{name} has elements of type {to}: the result, of type {from}, can't be cast to it"
                )));
            }
        }
        Ok(())
    }

    /// Fails unless an operand has one of these types.
    pub fn expect_dtype(&self, at: usize, operand: &Layout, allowed: &[DType]) -> Result<()> {
        if !allowed.iter().any(|dtype| dtype.is_floating()) {
            self.skip_cast_check(at);
        }
        if allowed.contains(&operand.dtype) {
            return Ok(());
        }
        let (parameter, have) = (self.parameter(at), operand.dtype);
        let names: Vec<&str> = allowed.iter().map(|dtype| dtype.name()).collect();
        let names = names.join(", ");
        Err(Error::invalid(format!("{parameter} has elements of type {have}; expected {names}")))
    }

    /// A part of the workspace for elements one after the other. Where that would leave the address space, the
    /// call is refused when it is planned.
    pub fn scratch(&mut self, dtype: DType, dims: &[usize]) -> Scratch {
        let item = dtype.size_in_bytes().unwrap_or(0);
        let bytes = dims.iter().try_fold(item, |bytes, dim| bytes.checked_mul(*dim));
        let start = self.workspace.next_multiple_of(SCRATCH_ALIGN);
        let end = bytes.and_then(|bytes| start.checked_add(bytes));
        let Some(end) = end.filter(|end| *end <= isize::MAX as usize) else {
            self.is_too_large = true;
            return Scratch { layout: Layout::contiguous(dtype, &[0]), start };
        };
        self.workspace = end;
        Scratch { layout: Layout::contiguous(dtype, dims), start }
    }

    /// Whether an input shares memory with an output without being the same tensor: then its elements would
    /// change while they are read.
    pub fn has_partial_overlap(&self, input: &Operand, output: &Operand) -> bool {
        let range = |one: &Operand| {
            let bytes = self.uses[usize::from(one.slot)].bytes;
            one.address..one.address + bytes
        };
        let (a, b) = (range(input), range(output));
        let shares = !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end;
        shares && !(a.start == b.start && input.layout == output.layout)
    }

    /// Says of a tensor that only these elements of it are touched; `part` is a layout of the operand's memory. A layout
    /// that repeats elements is ignored.
    pub fn touches_only(&mut self, operand: &Operand, part: &Layout) {
        let one = &mut self.uses[usize::from(operand.slot)];
        if !part.repeats() {
            let is_whole = part.bytes() == one.bytes;
            one.gaps = (!is_whole).then(|| Box::new(*part));
        }
    }

    /// Says of a tensor that values decide which of its elements are touched.
    pub fn touch_by_index(&mut self, operand: &Operand) {
        self.uses[usize::from(operand.slot)].indexed = true;
    }

    /// The plan: the kernel, with the tensors and the workspace that were asked for so far.
    pub fn plan(
        &mut self,
        kernel: impl Fn(&Memory<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Result<Plan> {
        self.plan_kernel(kernel)
    }

    /// As [`Call::plan`], of a kernel that says more of itself.
    pub(crate) fn plan_kernel(&mut self, kernel: impl Kernel + 'static) -> Result<Plan> {
        if self.is_too_large {
            return Err(Error::invalid("it would take a workspace that no memory can hold"));
        }
        self.expect_types_fit()?;
        let mut plan = Plan::new(std::mem::take(&mut self.uses), self.workspace, Box::new(kernel));
        plan.is_random = self.is_random;
        plan.groups = std::mem::take(&mut self.groups);
        Ok(plan)
    }

    /// As [`Call::plan`], for an operator that takes no complex elements.
    pub fn plan_real(
        &mut self,
        kernel: impl Fn(&Memory<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Result<Plan> {
        self.expect_no_complex()?;
        self.plan(kernel)
    }

    /// A plan that does nothing, for calls without elements.
    pub fn nothing(&mut self) -> Result<Plan> {
        self.plan(|_| Ok(()))
    }
}
