//! Plans of single steps: a convolution from the larger side to the smaller one, one back, gradients of weights and biases.

use super::window::{Windows, grouped, with_three_axes};
use crate::call::Call;
use crate::error::Result;
use crate::family::inputs::UnaliasedInput;
use crate::family::reduction_plan::{Axes, ReductionPlan, single_result};
use crate::plan::{Memory, Operand, Plan, Scratch};
use cairn_tensor::kernels::conv as kernel;
use cairn_tensor::kernels::conv::Axis;
use cairn_tensor::kernels::fold;
use cairn_tensor::{DType, Layout, View};
use std::sync::Arc;

/// One convolution into an output, or into a part of it.
struct Part {
    out: Layout,
    weights: Layout,
    axes: [Axis; 3],
    /// The kernel does not take the weights as they are.
    packs: bool,
}

impl Part {
    fn new(source: &Layout, weights: Layout, out: Layout, axes: [Axis; 3]) -> Part {
        let packs = !kernel::takes_weights(&weights, &out, source, &axes);
        Part { out, weights, axes, packs }
    }
}

/// Convolutions that make up one output.
pub struct ConvolutionPlan {
    source: UnaliasedInput,
    weights: UnaliasedInput,
    bias: Option<UnaliasedInput>,
    out: Operand,
    parts: Vec<Part>,
    /// Weights in the order and type that the kernel takes, where they are not.
    packed: Option<Scratch>,
    scratch: Scratch,
}

/// A tensor by samples, groups, channels of a group and three axes.
pub fn by_groups(layout: Layout, groups: usize) -> Layout {
    grouped(with_three_axes(layout), 1, groups)
}

/// Weights by groups, channels of the smaller side, channels of the larger side, and taps.
pub fn weights_by_groups(layout: Layout, groups: usize) -> Layout {
    grouped(with_three_axes(layout), 0, groups)
}

impl ConvolutionPlan {
    fn new(
        call: &mut Call<'_>,
        (source, weights, out): (UnaliasedInput, UnaliasedInput, Operand),
        bias: Option<UnaliasedInput>,
        parts: Vec<Part>,
    ) -> ConvolutionPlan {
        let largest = |sizes: &mut dyn Iterator<Item = usize>| sizes.max().unwrap_or(0);
        let packed_size =
            largest(&mut parts.iter().filter(|part| part.packs).map(|part| part.weights.count()));
        let size = largest(
            &mut parts.iter().map(|part| kernel::scratch_size(&part.out, &source, &part.axes)),
        );
        let packed = (packed_size > 0).then(|| call.scratch(DType::Float, &[packed_size]));
        let scratch = call.scratch(DType::Float, &[size]);
        ConvolutionPlan { source, weights, bias, out, parts, packed, scratch }
    }

    /// From the larger side to the smaller one. All tensors are by groups.
    pub fn forward(
        call: &mut Call<'_>,
        windows: &Windows,
        (large, weights, small): (UnaliasedInput, UnaliasedInput, Operand),
        bias: Option<UnaliasedInput>,
    ) -> ConvolutionPlan {
        let axes = windows.forward(&weights);
        let part = Part::new(&large, *weights, *small, axes);
        ConvolutionPlan::new(call, (large, weights, small), bias, vec![part])
    }

    /// From the smaller side to the larger one. Positions with the same remainder modulo the stride (a class: the same
    /// taps reach them) are a convolution of their own.
    pub fn transposed(
        call: &mut Call<'_>,
        windows: &Windows,
        (small, weights, large): (UnaliasedInput, UnaliasedInput, Operand),
        bias: Option<UnaliasedInput>,
    ) -> ConvolutionPlan {
        let transposed = weights.transposed(1, 2);
        let classes = [0, 1, 2]
            .map(|at| windows.classes(at, large.dims()[3 + at], transposed.dims()[3 + at]));
        let mut parts = Vec::new();
        let covered: [usize; 3] =
            [0, 1, 2].map(|at| classes[at].iter().map(|one| one.positions).sum());
        if covered != large.dims()[3..] {
            let no_taps = (3..6).fold(transposed, |layout, dim| layout.sliced(dim, 0, 0, 1));
            let axes = [Axis { taps: 0, ..Axis::NONE }; 3];
            parts.push(Part::new(&small, no_taps, *large, axes));
        }
        for z in &classes[0] {
            for y in &classes[1] {
                for x in &classes[2] {
                    let (mut out, mut weights) = (*large, transposed);
                    for (at, class) in [z, y, x].into_iter().enumerate() {
                        let step = windows.stride[at] as isize;
                        out = out.sliced(3 + at, class.start, class.positions, step);
                        let (tap, taps) = (class.tap, class.axis.taps);
                        weights = weights.sliced(3 + at, tap, taps, class.tap_stride as isize);
                    }
                    parts.push(Part::new(&small, weights, out, [z.axis, y.axis, x.axis]));
                }
            }
        }
        ConvolutionPlan::new(call, (small, weights, large), bias, parts)
    }

    /// The plan that runs this, with the weights packed for those who keep them, where the kernel packs them.
    pub fn plan(self, call: &mut Call<'_>) -> Result<Plan> {
        let this = Arc::new(self);
        let packed = this.packable();
        let plan = {
            let this = this.clone();
            call.plan(move |memory| {
                this.prepare(memory);
                this.run(memory);
                Ok(())
            })?
        };
        let takes_stages = this.takes_stages();
        let finished = |plan: Plan| if takes_stages { plan.taking_stages() } else { plan };
        let Some((weights, packed)) = packed else { return Ok(finished(plan)) };
        // The scratch is the last part of the workspace.
        let layout = Layout::contiguous(DType::Float, &[packed.scratch_size()]);
        let scratch = Scratch { layout, start: this.scratch.start };
        let workspace = scratch.start + layout.bytes();
        let from = this.parts[0].weights;
        let (dims, strides) = (from.dims(), from.strides());
        let order = packed.order();
        let format = format!("weights {dims:?} {strides:?} {} {order}", from.offset);
        Ok(finished(plan.with_packing(
            &weights,
            (packed.packed_size(), format),
            move |parallel, bytes, into| {
                packed.pack(parallel, View::of(bytes, from).expect("all its bytes"), into);
            },
            workspace,
            move |memory, weights| {
                this.source.prepare(memory);
                let bias = this.bias.map(|bias| bias.view(memory));
                let source = this.source.prepared(memory);
                let out = memory.out(&this.out.with_layout(this.parts[0].out));
                let scratch = memory.scratch(&scratch);
                let finish = kernel::Finish { bias, epilogue: memory.epilogue };
                packed.convolve(memory.parallel, out, (source, weights), finish, scratch);
                Ok(())
            },
        )))
    }

    /// Whether the kernel computes an epilogue: of one convolution into an output of `f32` without gaps.
    fn takes_stages(&self) -> bool {
        let whole = self.out.dtype == DType::Float && self.out.offset == 0;
        self.parts.len() == 1 && whole && self.out.extent() == Some(0..self.out.count() as isize)
    }

    /// The weights, if they can be packed.
    fn packable(&self) -> Option<(Operand, kernel::PackedConvolution)> {
        let [part] = &self.parts[..] else { return None };
        let weights = self.weights.as_operand().filter(|_| !part.packs)?;
        Some((weights, kernel::PackedConvolution::new(&part.out, &self.source, &part.axes)?))
    }

    /// Copies what has to be copied before anything is written.
    pub fn prepare(&self, memory: &Memory<'_>) {
        for read in
            [Some(&self.source), Some(&self.weights), self.bias.as_ref()].into_iter().flatten()
        {
            read.prepare(memory);
        }
    }

    /// Computes the output.
    pub fn run(&self, memory: &Memory<'_>) {
        let scratch = memory.scratch(&self.scratch);
        let source = self.source.prepared(memory);
        let bias = self.bias.map(|bias| bias.prepared(memory));
        for part in &self.parts {
            let mut weights = self.weights.with_layout(part.weights).prepared(memory);
            if let Some(packed) = &self.packed
                && part.packs
            {
                let packed = memory.scratch(packed);
                let layout = Layout::contiguous(DType::Float, part.weights.dims());
                let target = packed.with_layout(layout).expect("room for the largest part");
                weights = kernel::pack_weights(memory.parallel, target, weights);
            }
            let out = memory.out(&self.out.with_layout(part.out));
            let finish = kernel::Finish { bias, epilogue: memory.epilogue };
            kernel::convolve(memory.parallel, out, source, weights, finish, &part.axes, scratch);
        }
    }
}

/// The gradient of weights. All tensors are by groups.
pub struct WeightGradientPlan {
    large: UnaliasedInput,
    small: UnaliasedInput,
    out: Operand,
    axes: [Axis; 3],
    scratch: Scratch,
}

impl WeightGradientPlan {
    /// From both sides.
    pub fn new(
        call: &mut Call<'_>,
        windows: &Windows,
        (large, small, out): (UnaliasedInput, UnaliasedInput, Operand),
    ) -> WeightGradientPlan {
        let axes = windows.forward(&out);
        let size = kernel::weights_gradient_scratch_size(&out, &large, &small, &axes);
        WeightGradientPlan { large, small, out, axes, scratch: call.scratch(DType::Float, &[size]) }
    }

    /// Computes it.
    pub fn run(&self, memory: &Memory<'_>) {
        let (large, small) = (self.large.prepared(memory), self.small.prepared(memory));
        let (out, scratch) = (memory.out(&self.out), memory.scratch(&self.scratch));
        kernel::weights_gradient(memory.parallel, out, large, small, &self.axes, scratch);
    }
}

/// The gradient of a bias: sums over all but the channels.
pub struct BiasGradientPlan {
    grad: UnaliasedInput,
    out: Operand,
    reduction_plan: ReductionPlan,
}

impl BiasGradientPlan {
    /// Of a tensor by samples, channels and axes.
    pub fn new(call: &mut Call<'_>, grad: UnaliasedInput, out: Operand) -> BiasGradientPlan {
        let mut axes = Axes::filled(grad.rank(), true);
        axes[1] = false;
        let reduction_plan = call.plan_reduction(&grad, &axes, &fold::sum::<f32>());
        BiasGradientPlan { grad, out, reduction_plan }
    }

    /// Computes it.
    pub fn run(&self, memory: &Memory<'_>) {
        let (grad, out) = (self.grad.prepared(memory), memory.out(&self.out));
        self.reduction_plan.run(memory, grad, fold::sum::<f32>(), (out, None), single_result);
    }
}
