//! Tensors of features that may continue in a second tensor: both are joined in the workspace while attention works.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{Layout, Scalar, View, ViewMut};

/// Features along the last dimension, and perhaps more of them in another tensor.
#[derive(Clone, Copy)]
pub(super) struct Features {
    plain: Operand,
    more: Option<(Operand, Scratch)>,
}

impl Features {
    /// Features of one tensor.
    pub(super) fn alone(plain: Operand) -> Features {
        Features { plain, more: None }
    }

    /// Features of two tensors, the second of which is argument `at`. They have the same sizes but the last.
    pub(super) fn both(
        call: &mut Call<'_>,
        plain: Operand,
        at: usize,
        more: Operand,
    ) -> Result<Features> {
        let last = plain.rank() - 1;
        if more.rank() != plain.rank() || more.dims()[..last] != plain.dims()[..last] {
            let (name, have, want) = (call.parameter(at), more.dims(), &plain.dims()[..last]);
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected {want:?} and features"
            )));
        }
        call.expect_dtype(at, &more, &[plain.dtype])?;
        let mut dims = plain.dims().to_vec();
        dims[last] += more.dims()[last];
        let scratch = call.scratch(plain.dtype, &dims);
        Ok(Features { plain, more: Some((more, scratch)) })
    }

    /// The layout of all features.
    pub(super) fn layout(&self) -> Layout {
        self.more.map_or(*self.plain.layout(), |(_, scratch)| *scratch)
    }

    /// The positions of both parts among all features, where there are two.
    fn parts<'m>(&self, memory: &Memory<'m>) -> Option<[(ViewMut<'m>, Operand); 2]> {
        let (more, scratch) = &self.more?;
        let scratch = memory.scratch(scratch);
        let last = self.plain.rank() - 1;
        let first = self.plain.dims()[last];
        let part = |start: usize, count: usize| {
            scratch.with_layout(scratch.layout().sliced(last, start, count, 1)).expect("a part")
        };
        Some([(part(0, first), self.plain), (part(first, more.dims()[last]), *more)])
    }

    /// Brings both parts together, before any is read.
    pub(super) fn join(&self, memory: &Memory<'_>) {
        for (scratch, part) in self.parts(memory).into_iter().flatten() {
            copy(memory.parallel, scratch, memory.view(&part));
        }
    }

    /// Brings the parts back, after all are written.
    pub(super) fn part(&self, memory: &Memory<'_>) {
        for (scratch, part) in self.parts(memory).into_iter().flatten() {
            copy(memory.parallel, memory.out(&part), scratch.view());
        }
    }

    /// Writes one number everywhere, to the tensors themselves.
    pub(super) fn fill(&self, memory: &Memory<'_>, value: Scalar) {
        for operand in [Some(self.plain), self.more.map(|(more, _)| more)].iter().flatten() {
            fill_scalar(memory.parallel, memory.out(operand), value);
        }
    }

    /// Some of them, to read.
    pub(super) fn view<'m>(&self, memory: &Memory<'m>, layout: Layout) -> View<'m> {
        match &self.more {
            Some((_, scratch)) => {
                memory.scratch(scratch).view().with_layout(layout).expect("a part of the scratch")
            }
            None => memory.view(&self.plain.with_layout(layout)),
        }
    }

    /// Some of them, to write.
    pub(super) fn out<'m>(&self, memory: &Memory<'m>, layout: Layout) -> ViewMut<'m> {
        match &self.more {
            Some((_, scratch)) => {
                memory.scratch(scratch).with_layout(layout).expect("a part of the scratch")
            }
            None => memory.out(&self.plain.with_layout(layout)),
        }
    }
}
