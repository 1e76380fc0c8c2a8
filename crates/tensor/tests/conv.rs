//! Convolutions and gradients of weights against plain loops, over sizes, axes, strides, types and threads.

use cairn_tensor::kernels::conv::{
    Axis, Finish, PackedConvolution, classes, convolve, pack_weights, scratch_size, takes_weights,
    weights_gradient, weights_gradient_scratch_size,
};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::epilogue::{Epilogue, Function, Pattern, Source, Stage, Stages};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::Arc;

/// A thread for each part.
struct Threads(usize);

impl Parallel for Threads {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            (0..parts).for_each(|part| drop(scope.spawn(move || body(part))));
        });
    }
}

/// A tensor in memory of its own, with small integers in it: sums are exact in every type.
struct StoredTensor {
    bytes: Vec<Cell<u8>>,
    layout: Layout,
}

impl StoredTensor {
    /// `rotation` says which dimension lies outermost; dimensions have gaps of `step`.
    fn new(
        dtype: DType,
        dims: &[usize],
        rotation: usize,
        step: usize,
        seed: usize,
    ) -> StoredTensor {
        let rank = dims.len();
        let order: Vec<usize> = (0..rank).map(|at| (at + rotation) % rank).collect();
        let padded_dims: Vec<usize> = order.iter().map(|at| dims[*at] * step).collect();
        let inverse: Vec<usize> =
            (0..rank).map(|at| order.iter().position(|one| *one == at).unwrap()).collect();
        let mut layout = Layout::contiguous(dtype, &padded_dims).permuted(&inverse);
        for (at, size) in dims.iter().enumerate() {
            layout = layout.sliced(at, 0, *size, step as isize);
        }
        let item = dtype.size_in_bytes().unwrap();
        let bytes = vec![Cell::new(0x55); padded_dims.iter().product::<usize>() * item];
        let stored = StoredTensor { bytes, layout };
        let number = |at: usize| ((at * 7919 + seed * 104_729) % 5) as f64 - 2.0;
        let plain: Vec<Cell<u8>> =
            (0..layout.count()).flat_map(|at| number(at).to_ne_bytes()).map(Cell::new).collect();
        let from = Layout::contiguous(DType::Double, dims);
        copy(&SingleThread, stored.out(), View::over(&plain, from).unwrap());
        stored
    }

    fn view(&self) -> View<'_> {
        View::over(&self.bytes, self.layout).unwrap()
    }

    fn out(&self) -> ViewMut<'_> {
        ViewMut::over(&self.bytes, self.layout).unwrap()
    }

    fn values(&self) -> Vec<f64> {
        let plain = vec![Cell::new(0); self.layout.count() * 8];
        let to = Layout::contiguous(DType::Double, self.layout.dims());
        copy(&SingleThread, ViewMut::over(&plain, to).unwrap(), self.view());
        let numbers: Vec<u8> = plain.iter().map(Cell::get).collect();
        numbers.chunks_exact(8).map(|one| f64::from_ne_bytes(one.try_into().unwrap())).collect()
    }
}

/// Where a position lies in a tensor of these sizes.
fn flat_index(dims: &[usize], at: &[usize]) -> usize {
    dims.iter().zip(at).fold(0, |sum, (size, at)| sum * size + at)
}

/// Every position of a tensor of these sizes, in order.
fn positions(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..dims.iter().product()).map(|mut at| {
        let mut position = vec![0; dims.len()];
        for dim in (0..dims.len()).rev() {
            position[dim] = at % dims[dim];
            at /= dims[dim];
        }
        position
    })
}

/// The position of the source that a tap at an output position covers.
fn covered(
    axes: &[Axis; 3],
    sizes: &[usize],
    position: &[usize],
    taps: &[usize],
) -> Option<[usize; 3]> {
    let at = |dim: usize| {
        let axis = axes[dim];
        let at =
            position[dim] as isize * axis.step + axis.first + taps[dim] as isize * axis.tap_step;
        usize::try_from(at).ok().filter(|at| *at < sizes[dim])
    };
    Some([at(0)?, at(1)?, at(2)?])
}

#[derive(Clone, Debug)]
struct Case {
    axes: [Axis; 3],
    sizes: [usize; 3],
    out_sizes: [usize; 3],
    samples: usize,
    groups: usize,
    inputs: usize,
    outputs: usize,
    dtype: DType,
    rotations: [usize; 3],
    step: usize,
    threads: usize,
    /// Whether the weights have their input channels first.
    swapped: bool,
}

fn axis() -> impl Strategy<Value = Axis> {
    (1isize..4, -4isize..4, prop::sample::select(vec![-2isize, -1, 1, 2, 3]), 0usize..4)
        .prop_map(|(step, first, tap_step, taps)| Axis { step, first, tap_step, taps })
}

fn cases() -> impl Strategy<Value = Case> {
    let types = prop::sample::select(vec![DType::Float, DType::Float16, DType::Bf16]);
    let axes = [axis(), axis(), axis()];
    let sizes = [1usize..3, 1usize..5, 1usize..40];
    let out_sizes = [1usize..3, 1usize..4, 1usize..40];
    let outputs = prop_oneof![1usize..9, 9usize..50];
    let channels = (1usize..4, 1usize..3, 0usize..9, outputs);
    let rest = (types, [0usize..6, 0usize..6, 0usize..6], 1usize..3, 1usize..4, any::<bool>());
    (axes, sizes, out_sizes, channels, rest).prop_map(|(axes, sizes, out_sizes, channels, rest)| {
        let (samples, groups, inputs, outputs) = channels;
        let (dtype, rotations, step, threads, swapped) = rest;
        Case {
            axes,
            sizes,
            out_sizes,
            samples,
            groups,
            inputs,
            outputs,
            dtype,
            rotations,
            step,
            threads,
            swapped,
        }
    })
}

/// Windows of single positions, as many as vectors take; some with padding at the end, some without the last positions.
fn pointwise_cases() -> impl Strategy<Value = Case> {
    let sizes = (1usize..3, 1usize..3, 12usize..60, prop::sample::select(vec![0isize, 0, 2, -1]));
    let channels = (1usize..3, 1usize..3, 1usize..7, 1usize..33);
    (sizes, channels, 1usize..4, any::<bool>()).prop_map(
        |((d, h, w, longer), channels, threads, swapped)| {
            let (samples, groups, inputs, outputs) = channels;
            Case {
                axes: [Axis::NONE; 3],
                sizes: [d, h, w],
                out_sizes: [d, h, w.saturating_add_signed(longer)],
                samples,
                groups,
                inputs,
                outputs,
                dtype: DType::Float,
                rotations: [0; 3],
                step: 1,
                threads,
                swapped,
            }
        },
    )
}

/// Single channels with square windows, as kernels for them take them.
fn depthwise_cases() -> impl Strategy<Value = Case> {
    let window = (prop::sample::select(vec![3usize, 5, 7]), 1isize..3);
    let place = || (-7isize..3, prop::sample::select(vec![-1isize, 1]));
    let sizes = (1usize..3, 1usize..12, 1usize..80);
    let out_sizes = (1usize..12, 1usize..80);
    let channels = (1usize..3, 1usize..5, 1usize..3, 1usize..4);
    (window, place(), place(), sizes, out_sizes, channels).prop_map(
        |((taps, step), y, x, (d, h, w), (out_h, out_w), channels)| {
            let axis = |(first, tap_step)| Axis { step, first, tap_step, taps };
            let (samples, groups, outputs, threads) = channels;
            Case {
                axes: [Axis::NONE, axis(y), axis(x)],
                sizes: [d, h, w],
                out_sizes: [d, out_h, out_w],
                samples,
                groups,
                inputs: 1,
                outputs,
                dtype: DType::Float,
                rotations: [0; 3],
                step: 1,
                threads,
                swapped: false,
            }
        },
    )
}

impl Case {
    fn source(&self) -> StoredTensor {
        let [d, h, w] = self.sizes;
        let dims = [self.samples, self.groups, self.inputs, d, h, w];
        StoredTensor::new(self.dtype, &dims, self.rotations[0], self.step, 1)
    }

    fn result(&self, seed: usize) -> StoredTensor {
        let [d, h, w] = self.out_sizes;
        let dims = [self.samples, self.groups, self.outputs, d, h, w];
        StoredTensor::new(self.dtype, &dims, self.rotations[1], self.step, seed)
    }

    fn weights(&self) -> StoredTensor {
        let [z, y, x] = self.axes.map(|axis| axis.taps);
        if self.swapped {
            // Input channels first, as the weights of a gradient have them.
            let dims = [self.groups, self.inputs, self.outputs, z, y, x];
            let mut weights = StoredTensor::new(self.dtype, &dims, 0, 1, 3);
            weights.layout = weights.layout.transposed(1, 2);
            return weights;
        }
        let dims = [self.groups, self.outputs, self.inputs, z, y, x];
        StoredTensor::new(self.dtype, &dims, self.rotations[2], self.step, 3)
    }
}

/// Scratch of this many elements, and a guard after it.
fn scratch(count: usize) -> (Vec<Cell<u8>>, Layout) {
    (vec![Cell::new(0xEE); count * 4 + 64], Layout::contiguous(DType::Float, &[count]))
}

fn check(have: &[f64], want: &[f64], dtype: DType) -> Result<(), TestCaseError> {
    let tolerance = if dtype == DType::Bf16 { 1.0 / 128.0 } else { 1.0 / 1024.0 };
    for (have, want) in have.iter().zip(want) {
        let bound = if dtype == DType::Float { 0.0 } else { tolerance * want.abs() };
        prop_assert!((have - want).abs() <= bound, "{have} {want}");
    }
    Ok(())
}

/// What is computed of results.
#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    Nothing,
    /// A tensor is added, and the sum kept between -3 and 5.
    Clipped,
    /// What is no function that kernels know: the product with a number for each of some neighbours, and the result itself.
    Other,
}

impl After {
    const OPERAND: Pattern = Pattern { inner: 3, count: 7 };

    fn any() -> impl Strategy<Value = After> {
        prop::sample::select(vec![After::Nothing, After::Clipped, After::Other])
    }

    fn stages(self, count: usize) -> Stages {
        let stage = |function, inputs: &[Source]| Stage { function, inputs: inputs.to_vec() };
        let whole = Source::Operand(0, Pattern { inner: 1, count });
        let stages = match self {
            After::Nothing => Vec::new(),
            After::Clipped => vec![
                stage(Function::Add, &[Source::Value(0), whole]),
                stage(Function::Greatest, &[Source::Value(1), Source::Number(-3.0)]),
                stage(Function::Least, &[Source::Value(2), Source::Number(5.0)]),
            ],
            After::Other => {
                let product: Function = Function::Strips(Arc::new(|inputs, out| {
                    for (at, out) in out.iter_mut().enumerate() {
                        *out = inputs[0][at] * inputs[1][at] + inputs[2][at];
                    }
                }));
                let operand = Source::Operand(0, After::OPERAND);
                vec![stage(product, &[Source::Value(0), operand, Source::Value(0)])]
            }
        };
        Stages::new(stages).unwrap()
    }

    /// Of a sum that lies at this place of the output.
    fn compute(self, sum: f64, place: usize, operand: &[f64]) -> f64 {
        match self {
            After::Nothing => sum,
            After::Clipped => (sum + operand[place]).clamp(-3.0, 5.0),
            After::Other => {
                let Pattern { inner, count } = After::OPERAND;
                sum * operand[place / inner % count] + sum
            }
        }
    }
}

/// Compares a convolution with a plain loop; with packed weights too, where that is offered.
fn check_convolution(case: &Case, with_bias: bool, after: After) -> Result<(), TestCaseError> {
    let (source, out, weights) = (case.source(), case.result(2), case.weights());
    let bias = StoredTensor::new(case.dtype, &[case.groups, case.outputs], 1, case.step, 4);
    let (bytes, layout) = scratch(scratch_size(&out.layout, &source.layout, &case.axes));
    let (packed, packed_layout) = scratch(weights.layout.count());
    let takes_as_is = takes_weights(&weights.layout, &out.layout, &source.layout, &case.axes);
    let weights_view = match takes_as_is {
        true => weights.view(),
        false => {
            let packed_dims = packed_layout.reshaped(weights.layout.dims()).unwrap();
            pack_weights(
                &SingleThread,
                ViewMut::over(&packed, packed_dims).unwrap(),
                weights.view(),
            )
        }
    };
    let workspace = ViewMut::over(&bytes, layout).unwrap();
    let parallel = Threads(case.threads);
    let is_dense = case.dtype == DType::Float && case.step == 1;
    let after = if is_dense { after } else { After::Nothing };
    let operand = StoredTensor::new(DType::Float, &[out.layout.count().max(7)], 0, 1, 6);
    let (stages, operands) = (after.stages(out.layout.count()), [operand.view()]);
    let epilogue = Epilogue::new(&stages, &operands);
    let finish = Finish {
        bias: with_bias.then(|| bias.view()),
        epilogue: (after != After::Nothing).then_some(&epilogue),
    };
    convolve(&parallel, out.out(), source.view(), weights_view, finish, &case.axes, workspace);
    prop_assert!(bytes[layout.bytes()..].iter().all(|byte| byte.get() == 0xEE));
    let (x, w, b, o) = (source.values(), weights.values(), bias.values(), operand.values());
    let (x_dims, w_dims) = (source.layout.dims(), weights.layout.dims());
    let taps: Vec<Vec<usize>> = positions(&w_dims[2..]).collect();
    let want: Vec<f64> = positions(out.layout.dims())
        .map(|at| {
            let mut sum = if with_bias { b[at[1] * case.outputs + at[2]] } else { 0.0 };
            for tap in &taps {
                let Some(from) = covered(&case.axes, &case.sizes, &at[3..], &tap[1..]) else {
                    continue;
                };
                let from = [at[0], at[1], tap[0], from[0], from[1], from[2]];
                let weight = [at[1], at[2], tap[0], tap[1], tap[2], tap[3]];
                sum += x[flat_index(x_dims, &from)] * w[flat_index(w_dims, &weight)];
            }
            let strides = out.layout.strides().iter();
            let place: isize = strides.zip(&at).map(|(stride, at)| stride * *at as isize).sum();
            after.compute(sum, place as usize, &o)
        })
        .collect();
    check(&out.values(), &want, case.dtype)?;
    let Some(convolution) =
        PackedConvolution::new(&out.layout, &source.layout, &case.axes).filter(|_| takes_as_is)
    else {
        return Ok(());
    };
    let again = case.result(7);
    let (packed, packed_layout) = scratch(convolution.packed_size());
    let (bytes, layout) = scratch(convolution.scratch_size());
    let packed_weights = ViewMut::over(&packed, packed_layout).unwrap();
    convolution.pack(&parallel, weights.view(), packed_weights);
    let workspace = ViewMut::over(&bytes, layout).unwrap();
    let operands = (source.view(), packed_weights.view());
    convolution.convolve(&parallel, again.out(), operands, finish, workspace);
    for guarded in [(&packed, packed_layout), (&bytes, layout)] {
        prop_assert!(guarded.0[guarded.1.bytes()..].iter().all(|byte| byte.get() == 0xEE));
    }
    check(&again.values(), &want, case.dtype)
}

/// Compares the gradient of weights with a plain loop.
fn check_weights_gradient(case: &Case) -> Result<(), TestCaseError> {
    let (source, grad, out) = (case.source(), case.result(5), case.weights());
    let count =
        weights_gradient_scratch_size(&out.layout, &source.layout, &grad.layout, &case.axes);
    let (bytes, layout) = scratch(count);
    let workspace = ViewMut::over(&bytes, layout).unwrap();
    let parallel = Threads(case.threads);
    weights_gradient(&parallel, out.out(), source.view(), grad.view(), &case.axes, workspace);
    prop_assert!(bytes[layout.bytes()..].iter().all(|byte| byte.get() == 0xEE));
    let (x, y) = (source.values(), grad.values());
    let (x_dims, y_dims) = (source.layout.dims(), grad.layout.dims());
    let [depth, height, width] = case.out_sizes;
    let places: Vec<Vec<usize>> = positions(&[case.samples, depth, height, width]).collect();
    let want: Vec<f64> = positions(out.layout.dims())
        .map(|at| {
            let mut sum = 0.0;
            for to in &places {
                let Some(from) = covered(&case.axes, &case.sizes, &to[1..], &at[3..]) else {
                    continue;
                };
                let from = [to[0], at[0], at[2], from[0], from[1], from[2]];
                let to = [to[0], at[0], at[1], to[1], to[2], to[3]];
                sum += x[flat_index(x_dims, &from)] * y[flat_index(y_dims, &to)];
            }
            sum
        })
        .collect();
    check(&out.values(), &want, case.dtype)
}

proptest! {
    #[test]
    fn convolutions_are_sums_over_windows(case in cases(), with_bias in any::<bool>(), after in After::any()) {
        check_convolution(&case, with_bias, after)?;
    }

    #[test]
    fn windows_of_single_channels(case in depthwise_cases(), with_bias in any::<bool>(), after in After::any()) {
        check_convolution(&case, with_bias, after)?;
    }

    #[test]
    fn windows_of_single_positions(case in pointwise_cases(), with_bias in any::<bool>(), after in After::any()) {
        check_convolution(&case, with_bias, after)?;
    }

    #[test]
    fn gradients_of_weights_are_sums_over_positions(case in cases()) {
        check_weights_gradient(&case)?;
    }
}

/// Sizes at which tiles, blocks and units have borders, and several threads have work.
#[test]
fn large_ones() {
    let axis = |step, first, tap_step, taps| Axis { step, first, tap_step, taps };
    let same_size = axis(1, -1, 1, 3);
    let shapes = [
        ([Axis::NONE, same_size, same_size], [1, 9, 23], [1, 9, 23], 1, 1, 40, 70),
        ([Axis::NONE, Axis::NONE, Axis::NONE], [1, 7, 19], [1, 7, 19], 2, 1, 330, 50),
        ([Axis::NONE, axis(2, -3, 1, 7), axis(2, -3, 1, 7)], [1, 21, 43], [1, 11, 22], 1, 1, 3, 64),
        ([same_size, same_size, same_size], [3, 9, 11], [3, 9, 11], 1, 2, 20, 9),
        ([Axis::NONE, same_size, same_size], [1, 7, 7], [1, 7, 7], 3, 1, 300, 70),
        ([Axis::NONE, Axis::NONE, Axis::NONE], [1, 4, 4], [1, 4, 4], 5, 2, 24, 40),
        ([Axis::NONE, Axis::NONE, Axis::NONE], [1, 28, 28], [1, 28, 28], 1, 1, 24, 100),
        ([Axis::NONE, axis(2, -1, 1, 3), axis(2, -1, 1, 3)], [1, 4, 4], [1, 2, 2], 9, 1, 33, 45),
        ([Axis::NONE, same_size, same_size], [1, 33, 70], [1, 33, 70], 1, 24, 1, 1),
        ([Axis::NONE, axis(2, -1, 1, 3), axis(2, -1, 1, 3)], [1, 33, 70], [1, 17, 35], 1, 24, 1, 2),
    ];
    for (axes, sizes, out_sizes, samples, groups, inputs, outputs) in shapes {
        for (dtype, threads, after) in [
            (DType::Float, 1, After::Clipped),
            (DType::Float, 3, After::Other),
            (DType::Bf16, 2, After::Nothing),
        ] {
            let case = Case {
                axes,
                sizes,
                out_sizes,
                samples,
                groups,
                inputs,
                outputs,
                dtype,
                rotations: [0; 3],
                step: 1,
                threads,
                swapped: threads == 3,
            };
            check_convolution(&case, true, after).unwrap();
            check_weights_gradient(&case).unwrap();
        }
    }
}

/// Every tap at every position of the smaller side reaches a position of the larger side in one class, and there alone.
#[test]
fn classes_have_every_tap_once() {
    for (stride, dilation, before) in
        [(1, 1, 0), (1, 2, 3), (2, 1, 1), (2, 2, 1), (3, 2, 0), (4, 6, 5), (5, 1, 2)]
    {
        for (taps, size) in (1..5usize).flat_map(|taps| (1..14usize).map(move |size| (taps, size)))
        {
            let mut have = Vec::new();
            for class in classes(stride, dilation, before, size, taps) {
                for (at, t) in
                    (0..class.positions).flat_map(|at| (0..class.axis.taps).map(move |t| (at, t)))
                {
                    let position = class.start + at * stride as usize;
                    let tap = class.tap + t * class.tap_stride;
                    assert!(position < size && tap < taps);
                    let small = at as isize + class.axis.first + t as isize * class.axis.tap_step;
                    if (0..20).contains(&small) {
                        have.push((position, tap, small));
                    }
                }
            }
            let mut want = Vec::new();
            for (small, tap) in (0..20i64).flat_map(|small| (0..taps).map(move |tap| (small, tap)))
            {
                let position = small * stride - before + tap as i64 * dilation;
                if (0..size as i64).contains(&position) {
                    want.push((position as usize, tap, small as isize));
                }
            }
            have.sort_unstable();
            want.sort_unstable();
            assert_eq!(have, want, "{stride} {dilation} {before} {taps} {size}");
        }
    }
}
