//! Tensors as bytes that are sent or received: one element after the other, in the workspace where the tensor's are not.

use crate::call::Call;
use crate::error::Result;
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::copy::copy;
use std::cell::Cell;
use std::ops::Deref;

/// An input to be sent.
#[derive(Clone, Copy)]
pub struct PackedInput {
    operand: Operand,
    packed: Option<Scratch>,
}

impl Deref for PackedInput {
    type Target = Operand;

    fn deref(&self) -> &Operand {
        &self.operand
    }
}

impl PackedInput {
    /// Its bytes, copied together where they have to be.
    pub fn bytes<'a>(&self, memory: &Memory<'a>) -> &'a [Cell<u8>] {
        match &self.packed {
            None => memory.bytes(&self.operand),
            Some(scratch) => {
                copy(memory.parallel, memory.scratch(scratch), memory.view(&self.operand));
                memory.scratch_bytes(scratch)
            }
        }
    }
}

/// An output to be received.
#[derive(Clone, Copy)]
pub struct PackedOutput {
    operand: Operand,
    packed: Option<Scratch>,
}

impl Deref for PackedOutput {
    type Target = Operand;

    fn deref(&self) -> &Operand {
        &self.operand
    }
}

impl PackedOutput {
    /// Where its bytes are received.
    pub fn bytes<'a>(&self, memory: &Memory<'a>) -> &'a [Cell<u8>] {
        match &self.packed {
            None => memory.bytes(&self.operand),
            Some(scratch) => memory.scratch_bytes(scratch),
        }
    }

    /// Moves what was received to where the caller wants it.
    pub fn store(&self, memory: &Memory<'_>) {
        if let Some(scratch) = &self.packed {
            copy(memory.parallel, memory.out(&self.operand), memory.scratch(scratch).view());
        }
    }
}

impl Call<'_> {
    /// An input to be sent.
    pub(super) fn packed_input(&mut self, at: usize) -> Result<PackedInput> {
        let operand = self.tensor(at)?;
        Ok(PackedInput { operand, packed: self.packing(&operand) })
    }

    /// An output to be received.
    pub(super) fn packed_output(&mut self, at: usize) -> Result<PackedOutput> {
        let operand = self.output(at)?;
        Ok(PackedOutput { operand, packed: self.packing(&operand) })
    }

    /// The same for outputs that this call may lack.
    pub(super) fn optional_packed_output(&mut self, at: usize) -> Result<Option<PackedOutput>> {
        let operand = self.optional_output(at)?;
        Ok(operand.map(|operand| PackedOutput { operand, packed: self.packing(&operand) }))
    }

    fn packing(&mut self, operand: &Operand) -> Option<Scratch> {
        (!operand.is_contiguous()).then(|| self.scratch(operand.dtype, operand.dims()))
    }
}
