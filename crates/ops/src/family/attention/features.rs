//! Queries or keys whose features may continue in a second tensor (those with rotary positions): both are joined in the
//! workspace while attention works.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{Layout, Scalar, View, ViewMut};

/// Features along the last dimension, and perhaps more of them in another tensor.
#[derive(Clone, Copy)]
pub(super) struct Features {
    first: Operand,
    second: Option<(Operand, Scratch)>,
}

impl Features {
    /// Features of one tensor.
    pub(super) fn alone(first: Operand) -> Features {
        Features { first, second: None }
    }

    /// Features of two tensors, the second of which is argument `at`. They have the same sizes but the last.
    pub(super) fn both(
        call: &mut Call<'_>,
        first: Operand,
        at: usize,
        second: Operand,
    ) -> Result<Features> {
        let last = first.rank() - 1;
        if second.rank() != first.rank() || second.dims()[..last] != first.dims()[..last] {
            let (name, have, want) = (call.parameter(at), second.dims(), &first.dims()[..last]);
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected {want:?} and features"
            )));
        }
        call.expect_dtype(at, &second, &[first.dtype])?;
        let mut dims = first.dims().to_vec();
        dims[last] += second.dims()[last];
        let scratch = call.scratch(first.dtype, &dims);
        Ok(Features { first, second: Some((second, scratch)) })
    }

    /// The layout of all features.
    pub(super) fn layout(&self) -> Layout {
        self.second.map_or(*self.first.layout(), |(_, scratch)| *scratch)
    }

    /// The positions of both parts among all features, where there are two.
    fn parts<'m>(&self, memory: &Memory<'m>) -> Option<[(ViewMut<'m>, Operand); 2]> {
        let (second, scratch) = &self.second?;
        let scratch = memory.scratch(scratch);
        let last = self.first.rank() - 1;
        let count = self.first.dims()[last];
        let part = |start: usize, count: usize| {
            scratch.with_layout(scratch.layout().sliced(last, start, count, 1)).expect("a part")
        };
        Some([(part(0, count), self.first), (part(count, second.dims()[last]), *second)])
    }

    /// Copies the features of the two tensors together, before any is read.
    pub(super) fn join(&self, memory: &Memory<'_>) {
        for (scratch, part) in self.parts(memory).into_iter().flatten() {
            copy(memory.parallel, scratch, memory.view(&part));
        }
    }

    /// Copies joined features to the two tensors, after all are written.
    pub(super) fn write_back(&self, memory: &Memory<'_>) {
        for (scratch, part) in self.parts(memory).into_iter().flatten() {
            copy(memory.parallel, memory.out(&part), scratch.view());
        }
    }

    /// Writes one number everywhere, to the tensors themselves.
    pub(super) fn fill(&self, memory: &Memory<'_>, value: Scalar) {
        for operand in [Some(self.first), self.second.map(|(second, _)| second)].iter().flatten() {
            fill_scalar(memory.parallel, memory.out(operand), value);
        }
    }

    /// Some of them, to read.
    pub(super) fn view<'m>(&self, memory: &Memory<'m>, layout: Layout) -> View<'m> {
        match &self.second {
            Some((_, scratch)) => {
                memory.scratch(scratch).view().with_layout(layout).expect("a part of the scratch")
            }
            None => memory.view(&self.first.with_layout(layout)),
        }
    }

    /// Some of them, to write.
    pub(super) fn out<'m>(&self, memory: &Memory<'m>, layout: Layout) -> ViewMut<'m> {
        match &self.second {
            Some((_, scratch)) => {
                memory.scratch(scratch).with_layout(layout).expect("a part of the scratch")
            }
            None => memory.out(&self.first.with_layout(layout)),
        }
    }
}
