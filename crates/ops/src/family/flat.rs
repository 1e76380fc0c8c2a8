//! Tensors seen with other sizes, through the workspace where their strides ask for it.

use super::reduction_plan::InPlaceInput;
use crate::call::Call;
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::{Dims, Layout, View, ViewMut};

/// An input with other sizes.
#[derive(Clone, Copy)]
pub struct Flat {
    source: InPlaceInput,
    dims: Dims,
}

impl Flat {
    /// The layout that the kernel sees.
    pub fn layout(&self) -> Layout {
        self.source.layout().reshaped(&self.dims).expect("copied where it was not")
    }

    /// To read.
    pub fn view<'m>(&self, memory: &Memory<'m>) -> View<'m> {
        let view = self.source.view(memory);
        let layout = view.reshaped(&self.dims).expect("copied where it was not");
        view.with_layout(layout).expect("the same elements")
    }
}

/// An output with other sizes.
#[derive(Clone, Copy)]
pub struct FlatOut {
    out: Operand,
    buffer: Option<Scratch>,
    dims: Dims,
}

impl FlatOut {
    /// To write.
    pub fn out<'m>(&self, memory: &Memory<'m>) -> ViewMut<'m> {
        let out = match &self.buffer {
            Some(buffer) => memory.scratch(buffer),
            None => memory.out(&self.out),
        };
        let layout = out.reshaped(&self.dims).expect("buffered where it was not");
        out.with_layout(layout).expect("the same elements")
    }

    /// Copies the buffer to the output.
    pub fn done(&self, memory: &Memory<'_>) {
        if let Some(buffer) = &self.buffer {
            copy(memory.parallel, memory.out(&self.out), memory.scratch(buffer).view());
        }
    }
}

impl Call<'_> {
    /// An input with other sizes for the same elements, safe to read while the outputs are written.
    pub fn flat(&mut self, operand: Operand, dims: &[usize], outs: &[&Operand]) -> Flat {
        let source = match operand.reshaped(dims) {
            Some(_) => self.in_place_input(operand, outs),
            None => self.copied(operand),
        };
        Flat { source, dims: Dims::new(dims) }
    }

    /// An output with other sizes for the same elements.
    pub fn flat_output(&mut self, out: Operand, dims: &[usize]) -> FlatOut {
        let buffer = match out.reshaped(dims) {
            Some(_) => None,
            None => Some(self.scratch(out.dtype, out.dims())),
        };
        FlatOut { out, buffer, dims: Dims::new(dims) }
    }
}
