//! Tensors reshaped to other sizes, through the workspace where their strides do not allow it in place.

use super::reduction_plan::InPlaceInput;
use crate::call::Call;
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::{Dims, Layout, View, ViewMut};

/// An input with other sizes.
#[derive(Clone, Copy)]
pub struct ReshapedInput {
    source: InPlaceInput,
    dims: Dims,
}

impl ReshapedInput {
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
pub struct ReshapedOutput {
    out: Operand,
    buffer: Option<Scratch>,
    dims: Dims,
}

impl ReshapedOutput {
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
    pub fn write_back(&self, memory: &Memory<'_>) {
        if let Some(buffer) = &self.buffer {
            copy(memory.parallel, memory.out(&self.out), memory.scratch(buffer).view());
        }
    }
}

impl Call<'_> {
    /// An input with other sizes for the same elements, safe to read while the outputs are written.
    pub fn reshaped_input(
        &mut self,
        operand: Operand,
        dims: &[usize],
        outs: &[&Operand],
    ) -> ReshapedInput {
        let source = match operand.reshaped(dims) {
            Some(_) => self.in_place_input(operand, outs),
            None => self.copied_input(operand),
        };
        ReshapedInput { source, dims: Dims::new(dims) }
    }

    /// An output with other sizes for the same elements.
    pub fn reshaped_output(&mut self, out: Operand, dims: &[usize]) -> ReshapedOutput {
        let buffer = match out.reshaped(dims) {
            Some(_) => None,
            None => Some(self.scratch(out.dtype, out.dims())),
        };
        ReshapedOutput { out, buffer, dims: Dims::new(dims) }
    }
}
