//! Deformable convolutions, whose taps are moved by offsets, and their gradients. Offsets are modulated: each tap has two
//! offsets, and a factor for its sample.
//!
//! Workspace: images, offsets and samples in `f32`, and what the convolution of the samples takes.

use super::steps::{
    BiasGradientPlan, ConvolutionPlan, WeightGradientPlan, by_groups, weights_by_groups,
};
use super::window::{TYPES, Windows, groups};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::deform::DeformableWindows;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Layout, Scalar};

/// The most taps of a window, and the most of all channels of a group.
const MAX_TAPS: (usize, usize) = (2048, 65535);

/// What both directions are planned with.
struct Shape {
    deformable: DeformableWindows,
    /// The convolution of the samples: windows side by side.
    windows: Windows,
    samples: [usize; 4],
    output: [usize; 4],
}

/// Numbers of a list, at least `least` each and small enough that sums of several stay far from overflow.
fn numbers(call: &Call<'_>, at: usize, length: usize, least: i64) -> Result<Vec<usize>> {
    let values = call.ints(at)?;
    let most = i64::from(i32::MAX);
    if values.len() == length && values.iter().all(|one| (least..=most).contains(one)) {
        return Ok(values.into_iter().map(|one| one as usize).collect());
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!("{name} = {values:?}: expected {length} numbers from {least} on")))
}

/// The numbers for rows and columns of a list with four, of which those for samples and channels are 1.
fn axis_numbers(call: &Call<'_>, at: usize, channels_last: bool) -> Result<[usize; 2]> {
    let values = numbers(call, at, 4, 1)?;
    match (&values[..], channels_last) {
        (&[1, 1, rows, columns], false) | (&[1, rows, columns, 1], true) => Ok([rows, columns]),
        _ => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {values:?}: expected 1 for samples and channels")))
        }
    }
}

/// Fails unless tensors have elements of the first one's type, in four dimensions.
fn expect_images(call: &Call<'_>, images: &[(usize, &Layout)]) -> Result<()> {
    for (position, layout) in images {
        call.expect_dtype(*position, layout, TYPES)?;
        call.expect_same(*position, layout, images[0].0, images[0].1)?;
        if layout.rank() != 4 || layout.count() == 0 {
            let (name, dims) = (call.parameter(*position), layout.dims());
            return Err(Error::invalid(format!(
                "{name} {dims:?}: expected four dimensions with elements"
            )));
        }
    }
    Ok(())
}

/// Reads and checks how taps are moved. Images and offsets by samples, channels, rows and columns; indices of the sizes of the
/// window, stride, padding, dilation, groups of offsets, whether offsets are modulated.
fn read_windows(
    call: &Call<'_>,
    x: &Layout,
    offset: (usize, &Layout),
    [taps_at, stride_at, padding_at, dilation_at, groups_at, modulated_at]: [usize; 6],
    channels_last: bool,
) -> Result<DeformableWindows> {
    let (taps, padding) = (numbers(call, taps_at, 2, 1)?, numbers(call, padding_at, 4, 0)?);
    let stride = axis_numbers(call, stride_at, channels_last)?;
    let dilation = axis_numbers(call, dilation_at, channels_last)?;
    if !call.flag(modulated_at)? {
        let name = call.parameter(modulated_at);
        return Err(Error::invalid(format!(
            "{name} = false is not supported: offsets must be modulated"
        )));
    }
    let (channels, parts) = (x.dims()[1], call.int(groups_at)?);
    let groups = usize::try_from(parts).ok().filter(|parts| *parts > 0 && channels % parts == 0);
    let Some(groups) = groups else {
        let name = call.parameter(groups_at);
        return Err(Error::invalid(format!(
            "{name} = {parts} does not divide {channels} channels"
        )));
    };
    let tap_count = taps[0].saturating_mul(taps[1]);
    if tap_count > MAX_TAPS.0 {
        let (name, most) = (call.parameter(taps_at), MAX_TAPS.0);
        return Err(Error::invalid(format!("{name} = {taps:?}: expected at most {most} taps")));
    }
    let image = [x.dims()[2], x.dims()[3]];
    let mut positions = [0; 2];
    for i in 0..2 {
        let padded = image[i] + padding[2 * i] + padding[2 * i + 1];
        let Some(last_start) = padded.checked_sub((taps[i] - 1) * dilation[i] + 1) else {
            let name = call.parameter(taps_at);
            return Err(Error::invalid(format!(
                "{name} = {taps:?} with its dilation is larger than {image:?} with padding {padding:?}"
            )));
        };
        positions[i] = last_start / stride[i] + 1;
    }
    let offset_channels = 3 * groups * tap_count;
    call.expect_dims(
        offset.0,
        offset.1,
        &[x.dims()[0], offset_channels, positions[0], positions[1]],
    )?;
    let (taps, padding) = ([taps[0], taps[1]], [padding[0], padding[2]]);
    Ok(DeformableWindows { taps, stride, dilation, padding, groups, image, positions })
}

/// The sizes of the samples, by samples, channels, rows and columns.
fn sampled_dims(x: &Layout, deformable: &DeformableWindows) -> [usize; 4] {
    let [rows, columns] = [0, 1].map(|i| deformable.positions[i] * deformable.taps[i]);
    [x.dims()[0], x.dims()[1], rows, columns]
}

/// Reads and checks sizes. Indices of x, weight and offset; arguments from `at` on: sizes of the window, stride, padding,
/// dilation, groups, groups of offsets, whether offsets are modulated.
fn shape(call: &Call<'_>, [x_at, w_at, offset_at]: [usize; 3], at: usize) -> Result<Shape> {
    let (x, w, offset) = (call.layout(x_at)?, call.layout(w_at)?, call.layout(offset_at)?);
    expect_images(call, &[(x_at, &x), (w_at, &w), (offset_at, &offset)])?;
    let lists = [at, at + 1, at + 2, at + 3, at + 5, at + 6];
    let deformable = read_windows(call, &x, (offset_at, &offset), lists, false)?;
    let groups = groups(call, at + 4)?;
    let (channels, outputs, taps) = (x.dims()[1], w.dims()[0], deformable.taps);
    if channels % groups != 0 || outputs % groups != 0 {
        let name = call.parameter(at + 4);
        return Err(Error::invalid(format!(
            "{name} = {groups} does not divide {channels} and {outputs} channels"
        )));
    }
    call.expect_dims(w_at, &w, &[outputs, channels / groups, taps[0], taps[1]])?;
    if taps[0] * taps[1] * (channels / groups) > MAX_TAPS.1 {
        let (name, most) = (call.parameter(at), MAX_TAPS.1);
        return Err(Error::invalid(format!(
            "{name} = {taps:?}: expected at most {most} taps of all channels of a group"
        )));
    }
    let windows = Windows {
        axes: 2,
        stride: [1, taps[0] as i64, taps[1] as i64],
        dilation: [1; 3],
        padding: [(0, 0); 3],
        output_padding: [0; 3],
        groups,
    };
    let [rows, columns] = deformable.positions;
    let (samples, output) = (sampled_dims(&x, &deformable), [x.dims()[0], outputs, rows, columns]);
    Ok(Shape { deformable, windows, samples, output })
}

/// Where a node has its arguments: the sizes of the window, stride, padding, dilation, groups of offsets, whether offsets
/// are modulated, and the format.
const WINDOW_ARGS: [usize; 6] = [3, 4, 5, 6, 7, 8];
const FORMAT: usize = 9;

/// Whether a node's channels come last, and its tensor by samples, channels, rows and columns.
fn channels_first(call: &Call<'_>, layout: &Layout) -> Result<(bool, Layout)> {
    let last = match call.text(FORMAT)? {
        "NHWC" => true,
        "NCHW" => false,
        other => {
            let name = call.parameter(FORMAT);
            return Err(Error::invalid(format!("{name} = {other:?}: expected NHWC or NCHW")));
        }
    };
    Ok((last, if last && layout.rank() == 4 { layout.permuted(&[0, 3, 1, 2]) } else { *layout }))
}

/// Reads and checks a node's images and offsets.
fn node_windows(call: &Call<'_>) -> Result<DeformableWindows> {
    let (x, offset) = (call.layout(1)?, call.layout(2)?);
    expect_images(call, &[(1, &x), (2, &offset)])?;
    let (last, x) = channels_first(call, &x)?;
    read_windows(call, &x, (2, &channels_first(call, &offset)?.1), WINDOW_ARGS, last)
}

/// The samples without the convolution. Arguments: samples, x, offset, those of [`WINDOW_ARGS`], the format.
pub fn offsets(call: &mut Call<'_>) -> Result<Plan> {
    let deformable = node_windows(call)?;
    let out = call.output(0)?;
    let (x, offset) = (call.read_by_index(1, &[&out])?, call.read(2, &[&out])?);
    call.expect_same(0, &out, 1, &x)?;
    let (x, offset) = (
        x.with_layout(channels_first(call, &x)?.1),
        offset.with_layout(channels_first(call, &offset)?.1),
    );
    let out = out.with_layout(channels_first(call, &out)?.1);
    call.expect_dims(0, &out, &sampled_dims(&x, &deformable))?;
    let [images, offsets_f32, samples_f32] =
        [x.dims(), offset.dims(), out.dims()].map(|dims| call.scratch(DType::Float, dims));
    call.plan(move |memory| {
        let [images, offsets_f32, samples_f32] =
            [images, offsets_f32, samples_f32].map(|one| memory.scratch(&one));
        copy(memory.parallel, images, x.view(memory));
        copy(memory.parallel, offsets_f32, offset.view(memory));
        deformable.forward(memory.parallel, samples_f32, images.view(), offsets_f32.view());
        copy(memory.parallel, memory.out(&out), samples_f32.view());
        Ok(())
    })
}

/// The sizes of the samples. Arguments as of [`offsets`].
pub fn offsets_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let deformable = node_windows(call)?;
    let (last, x) = channels_first(call, &call.layout(1)?)?;
    let [samples, channels, rows, columns] = sampled_dims(&x, &deformable);
    let dims = match last {
        true => [samples, rows, columns, channels],
        false => [samples, channels, rows, columns],
    };
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
}

/// The gradients of what makes the samples. Arguments: their gradients, x, offset, those of [`WINDOW_ARGS`], the format,
/// gradients of x and offset.
pub fn offsets_backward(call: &mut Call<'_>) -> Result<Plan> {
    let deformable = node_windows(call)?;
    let (dx, doffset) = (call.output(10)?, call.output(11)?);
    let outs = [&dx, &doffset];
    let (grads, x, offset) =
        (call.read(0, &outs)?, call.read_by_index(1, &outs)?, call.read(2, &outs)?);
    call.expect_same(0, &grads, 1, &x)?;
    let likes: [(usize, &Layout, &Layout); 2] = [(10, &dx, &x), (11, &doffset, &offset)];
    for (at, one, like) in likes {
        call.expect_dims(at, one, like.dims())?;
        call.expect_same(at, one, 1, like)?;
    }
    let (grads, x) = (
        grads.with_layout(channels_first(call, &grads)?.1),
        x.with_layout(channels_first(call, &x)?.1),
    );
    let offset = offset.with_layout(channels_first(call, &offset)?.1);
    let (dx, doffset) = (
        dx.with_layout(channels_first(call, &dx)?.1),
        doffset.with_layout(channels_first(call, &doffset)?.1),
    );
    call.expect_dims(0, &grads, &sampled_dims(&x, &deformable))?;
    let [sample_grads, images, offsets_f32] =
        [grads.dims(), x.dims(), offset.dims()].map(|dims| call.scratch(DType::Float, dims));
    let [image_grads, offset_grads] =
        [x.dims(), offset.dims()].map(|dims| call.scratch(DType::Float, dims));
    call.plan(move |memory| {
        let parallel = memory.parallel;
        let [sample_grads, images, offsets_f32] =
            [sample_grads, images, offsets_f32].map(|one| memory.scratch(&one));
        for (to, from) in [(sample_grads, grads), (images, x), (offsets_f32, offset)] {
            copy(parallel, to, from.view(memory));
        }
        let [image_grads, offset_grads] =
            [image_grads, offset_grads].map(|one| memory.scratch(&one));
        fill_scalar(parallel, image_grads, Scalar::from(0));
        deformable.add_grad_of_images(
            parallel,
            image_grads,
            sample_grads.view(),
            offsets_f32.view(),
        );
        let from = (images.view(), offsets_f32.view());
        deformable.grad_of_offsets(parallel, offset_grads, sample_grads.view(), from);
        copy(parallel, memory.out(&dx), image_grads.view());
        copy(parallel, memory.out(&doffset), offset_grads.view());
        Ok(())
    })
}

/// Like x and the offsets. Arguments as of [`offsets_backward`].
pub fn infer_offsets_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(1)?.packed(), call.layout(2)?.packed()])
}

/// Arguments: x, weight, offset, bias, sizes of the window, stride, padding, dilation, groups, groups of offsets, whether
/// offsets are modulated, out, samples.
pub fn deformable(call: &mut Call<'_>) -> Result<Plan> {
    let Shape { deformable, windows, samples, output } = shape(call, [0, 1, 2], 4)?;
    let (out, sampled) = (call.output(11)?, call.output(12)?);
    let outs = [&out, &sampled];
    let (x, w, offset) =
        (call.read_by_index(0, &outs)?, call.read(1, &outs)?, call.read(2, &outs)?);
    for (at, one, dims) in [(11, &out, &output), (12, &sampled, &samples)] {
        call.expect_dims(at, one, dims)?;
        call.expect_same(at, one, 0, &x)?;
    }
    let bias = if call.has(3) { Some(call.read(3, &outs)?) } else { None };
    let bias = match bias {
        Some(bias) => {
            call.expect_same(3, &bias, 0, &x)?;
            call.expect_dims(3, &bias, &output[1..2])?;
            let by_groups = bias.reshaped(&[windows.groups, output[1] / windows.groups]);
            by_groups.map(|layout| bias.with_layout(layout))
        }
        None => None,
    };
    let [images, offsets_f32, samples_f32] =
        [x.dims(), offset.dims(), &samples[..]].map(|dims| call.scratch(DType::Float, dims));
    let source = call.unaliased(sampled, &[]);
    let groups = windows.groups;
    let grouped = (
        source.with_layout(by_groups(*source, groups)),
        w.with_layout(weights_by_groups(*w, groups)),
        out.with_layout(by_groups(*out, groups)),
    );
    let convolution = ConvolutionPlan::forward(call, &windows, grouped, bias);
    call.plan(move |memory| {
        let [images, offsets_f32, samples_f32] =
            [images, offsets_f32, samples_f32].map(|one| memory.scratch(&one));
        copy(memory.parallel, images, x.view(memory));
        copy(memory.parallel, offsets_f32, offset.view(memory));
        convolution.prepare(memory);
        deformable.forward(memory.parallel, samples_f32, images.view(), offsets_f32.view());
        copy(memory.parallel, memory.out(&sampled), samples_f32.view());
        convolution.run(memory);
        Ok(())
    })
}

/// Arguments: x, dy, samples, weight, offset, sizes of the window, stride, padding, dilation, groups, groups of offsets,
/// whether offsets are modulated, gradients of x, weight, offset and bias.
pub fn deformable_backward(call: &mut Call<'_>) -> Result<Plan> {
    let Shape { deformable, windows, samples, output } = shape(call, [0, 3, 4], 5)?;
    let (dx, dw) = (call.output(12)?, call.output(13)?);
    let (doffset, dbias) = (call.output(14)?, call.optional_output(15)?);
    let mut outs = vec![&dx, &dw, &doffset];
    outs.extend(dbias.as_ref());
    let (x, dy) = (call.read_by_index(0, &outs)?, call.read(1, &outs)?);
    let (sampled, w, offset) = (call.read(2, &outs)?, call.read(3, &outs)?, call.read(4, &outs)?);
    let likes: [(usize, &Layout, &[usize]); 5] = [
        (1, &dy, &output),
        (2, &sampled, &samples),
        (12, &dx, x.dims()),
        (13, &dw, w.dims()),
        (14, &doffset, offset.dims()),
    ];
    for (at, one, dims) in likes {
        call.expect_dims(at, one, dims)?;
        call.expect_same(at, one, 0, &x)?;
    }
    if let Some(dbias) = &dbias {
        call.expect_dims(15, dbias, &output[1..2])?;
        call.expect_same(15, dbias, 0, &x)?;
    }
    let [images, offsets_f32, weights, grads] = [x.dims(), offset.dims(), w.dims(), &output[..]]
        .map(|dims| call.scratch(DType::Float, dims));
    let [sample_grads, image_grads, offset_grads] =
        [&samples[..], x.dims(), offset.dims()].map(|dims| call.scratch(DType::Float, dims));
    let groups = windows.groups;
    let grouped = (
        sampled.with_layout(by_groups(*sampled, groups)),
        dy.with_layout(by_groups(*dy, groups)),
        dw.with_layout(weights_by_groups(*dw, groups)),
    );
    let weight_gradient = WeightGradientPlan::new(call, &windows, grouped);
    let bias_gradient = dbias.map(|dbias| BiasGradientPlan::new(call, dy, dbias));
    call.plan(move |memory| {
        let parallel = memory.parallel;
        sampled.prepare(memory);
        let [images, offsets_f32, weights, grads] =
            [images, offsets_f32, weights, grads].map(|one| memory.scratch(&one));
        for (to, from) in [(images, x), (offsets_f32, offset), (weights, w), (grads, dy)] {
            copy(parallel, to, from.view(memory));
        }
        let [sample_grads, image_grads, offset_grads] =
            [sample_grads, image_grads, offset_grads].map(|one| memory.scratch(&one));
        deformable.sample_gradients(parallel, sample_grads, grads.view(), weights.view());
        fill_scalar(parallel, image_grads, Scalar::from(0));
        deformable.add_grad_of_images(
            parallel,
            image_grads,
            sample_grads.view(),
            offsets_f32.view(),
        );
        let from = (images.view(), offsets_f32.view());
        deformable.grad_of_offsets(parallel, offset_grads, sample_grads.view(), from);
        copy(parallel, memory.out(&dx), image_grads.view());
        copy(parallel, memory.out(&doffset), offset_grads.view());
        weight_gradient.run(memory);
        if let Some(bias_gradient) = &bias_gradient {
            bias_gradient.run(memory);
        }
        Ok(())
    })
}
