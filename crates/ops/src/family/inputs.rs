//! What operators that move elements have in common: inputs that do not alias outputs, indices, and the fault of an index
//! out of range.

use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::copy::{can_convert, copy};
use cairn_tensor::kernels::element::{compute_type, is_wide_unsigned};
use cairn_tensor::kernels::indexed::{BadIndex, INDEX_TYPES};
use cairn_tensor::{DType, Layout, Scalar, View};
use std::ops::Deref;

/// An input that is read while outputs are written: copied to the workspace first where it shares memory
/// with one of them.
#[derive(Clone, Copy, Debug)]
pub struct UnaliasedInput {
    operand: Operand,
    copied: Option<Scratch>,
    layout: Layout,
}

impl Deref for UnaliasedInput {
    type Target = Layout;

    fn deref(&self) -> &Layout {
        &self.layout
    }
}

impl UnaliasedInput {
    /// Copies what has to be copied, before anything is written.
    pub fn prepare(&self, memory: &Memory<'_>) {
        if let Some(scratch) = &self.copied {
            copy(memory.parallel, memory.scratch(scratch), memory.view(&self.operand));
        }
    }

    /// The elements, once they are prepared.
    pub fn prepared<'a>(&self, memory: &Memory<'a>) -> View<'a> {
        match &self.copied {
            Some(scratch) => {
                memory.scratch(scratch).view().with_layout(self.layout).expect("a part of the copy")
            }
            None => memory.view_with_layout(&self.operand, self.layout),
        }
    }

    /// The operand, unless it is copied first.
    pub fn as_operand(&self) -> Option<Operand> {
        self.copied.is_none().then_some(self.operand)
    }

    /// Prepares the elements and returns them.
    pub fn view<'a>(&self, memory: &Memory<'a>) -> View<'a> {
        self.prepare(memory);
        self.prepared(memory)
    }

    /// The same memory with another layout; the new layout's offset counts as the old one's does.
    pub fn with_layout(self, layout: Layout) -> UnaliasedInput {
        UnaliasedInput { layout, ..self }
    }

    /// As [`UnaliasedInput::with_layout`], where the elements of the layout are the only ones read, unless all are copied.
    pub fn with_layout_only(self, call: &mut Call<'_>, layout: Layout) -> UnaliasedInput {
        self.reads_only(call, &layout);
        self.with_layout(layout)
    }

    /// Says that only these elements are read, unless all are copied.
    pub fn reads_only(&self, call: &mut Call<'_>, part: &Layout) {
        if self.copied.is_none() {
            call.touches_only(&self.operand, part);
        }
    }

    /// Says that values decide which elements are read, unless all are copied.
    pub fn touch_by_index(&self, call: &mut Call<'_>) {
        if self.copied.is_none() {
            call.touch_by_index(&self.operand);
        }
    }

    /// The same elements with one dimension more in front when there is none.
    pub fn at_least_1d(self) -> UnaliasedInput {
        self.with_layout(at_least_1d(self.layout))
    }
}

fn at_least_1d(layout: Layout) -> Layout {
    if layout.rank() == 0 { layout.with(0) } else { layout }
}

/// An input as a tensor of one dimension, copied to the workspace where its strides do not allow that.
#[derive(Clone, Copy, Debug)]
pub struct FlatInput {
    read: UnaliasedInput,
    packed: Option<Scratch>,
}

impl FlatInput {
    /// Says that values decide which elements are read, unless all are copied.
    pub fn touch_by_index(&self, call: &mut Call<'_>) {
        if self.packed.is_none() {
            self.read.touch_by_index(call);
        }
    }

    /// The elements in one dimension.
    pub fn view<'a>(&self, memory: &Memory<'a>) -> View<'a> {
        let Some(scratch) = &self.packed else { return self.read.view(memory) };
        let target = memory.scratch(scratch);
        copy(memory.parallel, target, self.read.view(memory));
        let flat = target.reshaped(&[target.count()]).expect("contiguous");
        target.view().with_layout(flat).expect("the same elements")
    }
}

impl Operand {
    /// As a tensor of one dimension when it has none.
    pub fn at_least_1d(self) -> Operand {
        self.with_layout(at_least_1d(self.layout))
    }
}

impl Call<'_> {
    /// Whether two tensors have memory in common.
    pub fn shares(&self, a: &Operand, b: &Operand) -> bool {
        let have_elements = a.layout.count() > 0 && b.layout.count() > 0;
        have_elements && (self.has_partial_overlap(a, b) || a.address == b.address)
    }

    /// A tensor that is read while these outputs are written.
    pub fn read(&mut self, at: usize, outs: &[&Operand]) -> Result<UnaliasedInput> {
        let operand = self.tensor(at)?;
        Ok(self.unaliased(operand, outs))
    }

    /// As [`Call::read`], for a tensor of which values decide what is read.
    pub fn read_by_index(&mut self, at: usize, outs: &[&Operand]) -> Result<UnaliasedInput> {
        let read = self.read(at, outs)?;
        read.touch_by_index(self);
        Ok(read)
    }

    /// The same tensor, safe to read while these outputs are written.
    pub fn unaliased(&mut self, operand: Operand, outs: &[&Operand]) -> UnaliasedInput {
        let copied = (outs.iter().any(|out| self.shares(&operand, out)))
            .then(|| self.scratch(operand.dtype, operand.dims()));
        let layout = copied.map_or(operand.layout, |one| one.layout);
        UnaliasedInput { operand, copied, layout }
    }

    /// The elements of an input in one dimension.
    pub fn flat_input(&mut self, read: UnaliasedInput) -> FlatInput {
        match read.reshaped(&[read.count()]) {
            Some(flat) => FlatInput { read: read.with_layout(flat), packed: None },
            None => FlatInput { read, packed: Some(self.scratch(read.dtype, read.dims())) },
        }
    }

    /// As [`Call::read`], for a tensor of indices. One without elements may have any type.
    pub fn read_index(&mut self, at: usize, outs: &[&Operand]) -> Result<UnaliasedInput> {
        let index = self.read(at, outs)?;
        if index.count() == 0 {
            return Ok(index.with_layout(index.with_dtype(DType::Int64)));
        }
        self.expect_dtype(at, &index, INDEX_TYPES)?;
        Ok(index)
    }

    /// Fails unless elements of `from` can be written to `to`.
    pub fn expect_converts(&self, at: usize, from: &Layout, to: &Layout) -> Result<()> {
        if can_convert(from.dtype, to.dtype) {
            return Ok(());
        }
        let (name, from, to) = (self.parameter(at), from.dtype, to.dtype);
        Err(Error::invalid(format!("{name} has elements of type {from}, which become no {to}")))
    }

    /// Fails unless two tensors have elements of the same type.
    pub fn expect_same(&self, at: usize, one: &Layout, as_at: usize, other: &Layout) -> Result<()> {
        self.skip_cast_check(at);
        self.skip_cast_check(as_at);
        if one.dtype == other.dtype {
            return Ok(());
        }
        let (name, other_name) = (self.parameter(at), self.parameter(as_at));
        let (have, want) = (one.dtype, other.dtype);
        Err(Error::invalid(format!(
            "{name} has elements of type {have}: expected {want}, as {other_name} has"
        )))
    }

    /// Fails unless the elements of a tensor are numbers or booleans.
    pub fn expect_numbers(&self, at: usize, one: &Layout) -> Result<()> {
        if compute_type(one.dtype).is_some() {
            return Ok(());
        }
        let (name, have) = (self.parameter(at), one.dtype);
        Err(Error::invalid(format!("{name} has elements of type {have}, which are no numbers")))
    }

    /// As [`Call::expect_numbers`], where callers by IR name may have unsigned integers of more than 8 bits too.
    pub fn expect_ordered(&self, at: usize, one: &Layout) -> Result<()> {
        match self.is_by_name() && is_wide_unsigned(one.dtype) {
            true => Ok(()),
            false => self.expect_numbers(at, one),
        }
    }

    /// A number: a scalar, or a constant tensor with one element.
    pub fn number(&self, at: usize) -> Result<Scalar> {
        match self.arg(at) {
            Arg::Tensor(_) => match self.values(at)?[..] {
                [one] => Ok(one),
                ref several => {
                    let (name, have) = (self.parameter(at), several.len());
                    Err(Error::invalid(format!("{name} has {have} elements: expected one")))
                }
            },
            _ => self.scalar(at),
        }
    }

    /// Sizes: integers of which none is negative.
    pub fn sizes(&self, at: usize) -> Result<Vec<usize>> {
        let values = self.ints(at)?;
        let name = self.parameter(at);
        if values.len() > cairn_tensor::MAX_DIMS {
            return Err(Error::invalid(format!("{name} = {values:?} has too many dimensions")));
        }
        (values.iter().map(|one| usize::try_from(*one).ok()).collect::<Option<_>>())
            .ok_or_else(|| Error::invalid(format!("{name} = {values:?} has a negative size")))
    }

    /// The type of indices written to an output.
    pub fn expect_index_output(&self, at: usize, out: &Layout) -> Result<()> {
        self.expect_dtype(at, out, &[DType::Int64, DType::Int32])
    }
}

/// The fault that an index out of range is.
pub fn out_of_range(parameter: &str, bad: BadIndex) -> Fault {
    let (value, (low, high)) = (bad.value, bad.valid);
    let position = &*bad.position;
    if high < low {
        return Fault(format!("{parameter}{position:?} = {value}, but the dimension is empty"));
    }
    Fault(format!("{parameter}{position:?} = {value} is outside {low} to {high}"))
}
