//! Normalisation of each channel of each sample by itself, by IR name, and its gradient.
//!
//! Workspace: statistics of each channel of each sample; of the gradient also the normalised input, and its product with the
//! gradient, in `f32`.

use super::reduction_plan::{Axes, single_result};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::fold::{self, Moments};
use cairn_tensor::kernels::map::{map2, map3};
use cairn_tensor::{DType, Dims, Layout, View};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// What the gradient adds to the variance: it has no attribute for it.
const EPSILON: f32 = 1e-6;

/// Whether a format has the channels last. Any other format than those with channels first is refused.
fn channels_last(call: &Call<'_>, at: usize) -> Result<bool> {
    match call.text(at)? {
        "NHWC" | "NDHWC" => Ok(true),
        "NCHW" | "NCDHW" | "ND" => Ok(false),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!(
                "{name} = {other:?}: expected NHWC, NDHWC, NCHW, NCDHW or ND"
            )))
        }
    }
}

/// A tensor with its channels second.
fn channels_second(layout: &Layout, last: bool) -> Layout {
    if !last {
        return *layout;
    }
    let mut order: Dims = (0..layout.rank() - 1).collect();
    order.insert(1, layout.rank() - 1);
    layout.permuted(&order)
}

/// The sizes of a statistic of each channel of each sample, in the order of the input.
fn statistic_dims(dims: &[usize], last: bool) -> Vec<usize> {
    let channel = if last { dims.len() - 1 } else { 1 };
    let is_kept = |at: usize| at == 0 || at == channel;
    dims.iter().enumerate().map(|(at, size)| if is_kept(at) { *size } else { 1 }).collect()
}

/// Fails unless a tensor has samples and channels.
fn expect_rank(call: &Call<'_>, at: usize, x: &Layout) -> Result<()> {
    if x.rank() >= 2 {
        return Ok(());
    }
    let (name, dims) = (call.parameter(at), x.dims());
    Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected samples and channels")))
}

/// One number for each channel, or for each channel of each sample, broadcast to a tensor with channels second.
fn broadcast_channels<'v>(view: View<'v>, dims: &[usize]) -> View<'v> {
    let mut layout = *view.layout();
    if layout.rank() == 1 {
        layout = layout.with(0);
    }
    while layout.rank() < dims.len() {
        layout = layout.with(layout.rank());
    }
    let layout = layout.broadcast_to(dims).expect("sizes were checked");
    view.with_layout(layout).expect("the same elements")
}

/// Arguments: x, weight, bias, format, epsilon, y, mean, variance.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let outs = [call.output(5)?, call.output(6)?, call.output(7)?];
    let [y, mean, variance] = &outs;
    let (x, last) = (call.read(0, &[y, mean, variance])?, channels_last(call, 3)?);
    call.expect_dtype(0, &x, TYPES)?;
    expect_rank(call, 0, &x)?;
    call.expect_dims(5, y, x.dims())?;
    call.expect_same(5, y, 0, &x)?;
    let statistics = statistic_dims(x.dims(), last);
    let channels_second_x = channels_second(&x, last);
    let (samples, channels) = (channels_second_x.dims()[0], channels_second_x.dims()[1]);
    let mut factors = Vec::new();
    for at in [1, 2] {
        let factor = call.read(at, &[y, mean, variance])?;
        call.expect_dtype(at, &factor, TYPES)?;
        call.expect_dims(at, &factor, &[channels])?;
        factors.push(factor);
    }
    let [weight, bias] = factors[..] else { unreachable!("two of them") };
    for (at, one) in [(6, mean), (7, variance)] {
        call.expect_dims(at, one, &statistics)?;
        call.expect_dtype(at, one, TYPES)?;
    }
    let epsilon = call.float(4)? as f32;
    let axes: Axes = (0..channels_second_x.rank()).map(|at| at > 1).collect();
    let fold = fold::moments::<f32>();
    let moments = call.plan_reduction(&channels_second_x, &axes, &fold);
    let scratch = [0; 4].map(|_| call.scratch(DType::Float, &[samples, channels]));
    let (x, y) = (x.with_layout(channels_second_x), y.with_layout(channels_second(y, last)));
    let [mean, variance] = [mean, variance].map(|one| {
        let by_channel = one.reshaped(&[samples, channels]);
        by_channel
            .map(|layout| one.with_layout(layout))
            .ok_or_else(|| Error::invalid(format!("statistics ({}) must be contiguous", **one)))
    });
    let (mean, variance) = (mean?, variance?);
    call.plan(move |memory| {
        let (x, parallel) = (x.view(memory), memory.parallel);
        let (weight, bias) = (weight.view(memory), bias.view(memory));
        let [means, variances, scale, shift] = scratch.map(|one| memory.scratch(&one));
        let finalize = |all: Moments| {
            let count = all.count.max(1.0);
            (all.squares / count, if all.count > 0.0 { all.mean } else { f64::NAN })
        };
        moments.run(memory, x, fold, (variances, Some(means)), finalize);
        copy(parallel, memory.out(&mean), means.view());
        copy(parallel, memory.out(&variance), variances.view());
        let dims = [samples, channels];
        let (weight, bias) = (broadcast_channels(weight, &dims), broadcast_channels(bias, &dims));
        map2(parallel, scale, variances.view(), weight, move |v: f32, w: f32| {
            w / (v + epsilon).sqrt()
        });
        map3(parallel, shift, means.view(), scale.view(), bias, |m: f32, s: f32, b: f32| b - m * s);
        let (scale, shift) = (
            broadcast_channels(scale.view(), x.dims()),
            broadcast_channels(shift.view(), x.dims()),
        );
        map3(parallel, memory.out(&y), x, scale, shift, |x: f32, s: f32, b: f32| x.mul_add(s, b));
        Ok(())
    })
}

fn outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, weight, last) = (call.layout(0)?, call.layout(1)?, channels_last(call, 3)?);
    expect_rank(call, 0, &x)?;
    let statistics = Layout::contiguous(weight.dtype, &statistic_dims(x.dims(), last));
    Ok(vec![x.packed(), statistics, statistics])
}

/// Arguments: gradient, x, variance, mean, weight, gradients of x, of the weight and of the bias. Channels are last.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let outs = [call.output(5)?, call.output(6)?, call.output(7)?];
    let [dx, dweight, dbias] = &outs;
    let all: Vec<_> = outs.iter().collect();
    let (dy, x) = (call.read(0, &all)?, call.read(1, &all)?);
    if x.rank() != 5 {
        let (name, dims) = (call.parameter(1), x.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected samples, depth, rows, columns and channels"
        )));
    }
    let types = &[DType::Float, DType::Float16];
    call.expect_dtype(1, &x, types)?;
    let statistics = statistic_dims(x.dims(), true);
    let (samples, channels) = (x.dims()[0], x.dims()[4]);
    let (variance, mean, weight) = (call.read(2, &all)?, call.read(3, &all)?, call.read(4, &all)?);
    let expected = [
        (0, *dy, x.dims()),
        (2, *variance, &statistics[..]),
        (3, *mean, &statistics[..]),
        (4, *weight, &[channels][..]),
        (5, *dx.layout(), x.dims()),
        (6, *dweight.layout(), &[channels][..]),
        (7, *dbias.layout(), &[channels][..]),
    ];
    for (at, one, dims) in expected {
        call.expect_dtype(at, &one, types)?;
        call.expect_dims(at, &one, dims)?;
    }
    let second = |layout: &Layout| channels_second(layout, true);
    let (dy, x) = (dy.with_layout(second(&dy)), x.with_layout(second(&x)));
    let (variance, mean) =
        (variance.with_layout(second(&variance)), mean.with_layout(second(&mean)));
    let dx = dx.with_layout(second(dx));
    let (dweight, dbias) = (*dweight, *dbias);
    let [normalised, product] = [0; 2].map(|_| call.scratch(DType::Float, x.dims()));
    let sums = [0; 2].map(|_| call.scratch(DType::Float, &[samples, channels]));
    let inner: Axes = (0..5).map(|at| at > 1).collect();
    let outer: Axes = [true, false].into_iter().collect();
    let fold = fold::sum::<f32>();
    let product_sums = call.plan_reduction(&product, &inner, &fold);
    let grad_sums = call.plan_reduction(&dy, &inner, &fold);
    let sample_sums = call.plan_reduction(&sums[0], &outer, &fold);
    let count = x.dims()[2..].iter().product::<usize>().max(1) as f32;
    call.plan(move |memory| {
        let (dy, x, parallel) = (dy.view(memory), x.view(memory), memory.parallel);
        let (variance, mean) = (variance.view(memory), mean.view(memory));
        let weight = weight.view(memory);
        let expand = |view: View<'_>| view.layout().broadcast_to(x.dims()).expect("it was checked");
        let variances = variance.with_layout(expand(variance)).expect("the same elements");
        let means = mean.with_layout(expand(mean)).expect("the same elements");
        let (normalised, product) = (memory.scratch(&normalised), memory.scratch(&product));
        map3(parallel, normalised, x, means, variances, |x: f32, m: f32, v: f32| {
            (x - m) / (v + EPSILON).sqrt()
        });
        map2(parallel, product, dy, normalised.view(), |d: f32, n: f32| d * n);
        let [products, grads] = sums.map(|one| memory.scratch(&one));
        product_sums.run(memory, product.view(), fold, (products, None), single_result);
        grad_sums.run(memory, dy, fold, (grads, None), single_result);
        sample_sums.run(memory, products.view(), fold, (memory.out(&dweight), None), single_result);
        sample_sums.run(memory, grads.view(), fold, (memory.out(&dbias), None), single_result);
        let (products, grads) = (
            broadcast_channels(products.view(), x.dims()),
            broadcast_channels(grads.view(), x.dims()),
        );
        // dy, less its mean and its projection on the normalised input.
        map3(
            parallel,
            product,
            normalised.view(),
            products,
            grads,
            move |n: f32, p: f32, g: f32| -(g + n * p) / count,
        );
        map2(parallel, product, product.view(), dy, |correction: f32, d: f32| correction + d);
        let weight = broadcast_channels(weight, x.dims());
        map3(
            parallel,
            memory.out(&dx),
            product.view(),
            weight,
            variances,
            |d: f32, w: f32, v: f32| d * w / (v + EPSILON).sqrt(),
        );
        Ok(())
    })
}

fn infer_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, weight) = (call.layout(1)?.packed(), call.layout(4)?.packed());
    Ok(vec![x, weight, weight])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "InstanceNorm",
        &["x", "gamma", "beta"],
        &["y", "mean", "variance"],
        Infer::By(outputs),
        forward,
        &[
            A(0),
            A(1),
            A(2),
            Attr("data_format", AttrDefault::Text("NDHWC")),
            Attr("epsilon", AttrDefault::Float(1e-6)),
            O(0),
            O(1),
            O(2),
        ],
    ),
    node(
        "InstanceNormGrad",
        &["dy", "x", "variance", "mean", "gamma"],
        &["pd_x", "pd_gamma", "pd_beta"],
        Infer::By(infer_gradients),
        backward,
        &[A(0), A(1), A(2), A(3), A(4), O(0), O(1), O(2)],
    ),
];
