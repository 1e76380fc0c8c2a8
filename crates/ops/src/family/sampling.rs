//! Samples of images at the positions of a grid, the grid of an affine map, and shuffled channels.

use crate::argument::{Arg, Tensor};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::sample::{Interpolation, PaddingMode, Sampled, Sampling, affine_grid};
use cairn_tensor::{DType, Dims, Layout, Scalar};

const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// The way to sample. Arguments from `at` on: interpolation, padding (numbers or names), align_corners.
fn sampling(call: &Call<'_>, at: usize, spatial: usize) -> Result<Sampling> {
    let text = |at: usize| match call.arg(at) {
        crate::argument::Arg::Text(text) => text.clone(),
        _ => String::new(),
    };
    let number = |at: usize| if text(at).is_empty() { call.int(at) } else { Ok(-1) };
    let wrong = |at: usize, value: i64| {
        let (name, text) = (call.parameter(at), text(at));
        let value = if text.is_empty() { value.to_string() } else { format!("{text:?}") };
        Err(Error::invalid(format!("{name} = {value} is not known in {spatial} dimensions")))
    };
    let interpolation = match (number(at)?, text(at).as_str()) {
        (0, _) | (_, "bilinear") => Interpolation::Linear,
        (1, _) | (_, "nearest") => Interpolation::Nearest,
        (2, _) | (_, "bicubic") if spatial == 2 => Interpolation::Cubic,
        (value, _) => return wrong(at, value),
    };
    let padding_mode = match (number(at + 1)?, text(at + 1).as_str()) {
        (0, _) | (_, "zeros") => PaddingMode::Zeros,
        (1, _) | (_, "border") => PaddingMode::Border,
        (2, _) | (_, "reflection") => PaddingMode::Reflection,
        (value, _) => return wrong(at + 1, value),
    };
    Ok(Sampling { interpolation, padding_mode, align_corners: call.flag_or(at + 2, false)? })
}

/// The sizes of the samples of `x` at the positions of `grid`, both of which have `spatial` dimensions of positions.
fn sampled_dims(
    call: &Call<'_>,
    at: usize,
    x: &Layout,
    grid: &Layout,
    spatial: usize,
) -> Result<Dims> {
    let fits = x.rank() == spatial + 2
        && grid.rank() == spatial + 2
        && grid.dims()[0] == x.dims()[0]
        && grid.dims()[spatial + 1] == spatial
        && !x.dims()[2..].contains(&0);
    if !fits {
        let (name, dims, x_name, sizes) =
            (call.parameter(at + 1), grid.dims(), call.parameter(at), x.dims());
        return Err(Error::invalid(format!(
            "{name} {dims:?} names no positions of {x_name} {sizes:?}"
        )));
    }
    let mut dims = Dims::new(&x.dims()[..2]);
    grid.dims()[1..=spatial].iter().for_each(|size| dims.push(*size));
    Ok(dims)
}

/// With a dimension of depth: after the channels, or in a grid after the samples.
fn with_depth(layout: &Layout, spatial: usize, at: usize) -> Layout {
    if spatial == 2 { layout.with(at) } else { *layout }
}

/// Arguments: x, grid, interpolation, padding, align_corners, out, spatial dimensions.
fn sample(call: &mut Call<'_>) -> Result<Plan> {
    let spatial = call.int(6)? as usize;
    let sampling = sampling(call, 2, spatial)?;
    let out = call.output(5)?;
    let x = call.read_by_index(0, &[&out])?;
    let grid = call.read(1, &[&out])?;
    call.expect_dtype(0, &x, REALS)?;
    call.expect_same(1, &grid, 0, &x)?;
    call.expect_same(5, &out, 0, &x)?;
    call.expect_dims(5, &out, &sampled_dims(call, 0, &x, &grid, spatial)?)?;
    let (x, grid) = (
        x.with_layout(with_depth(&x, spatial, 2)),
        grid.with_layout(with_depth(&grid, spatial, 1)),
    );
    let out = out.with_layout(with_depth(&out, spatial, 2));
    call.plan(move |memory| {
        let (a, grid) = (x.view(memory), grid.view(memory));
        if out.count() > 0 {
            Sampled { a, grid, sampling }.sample(memory.parallel, memory.out(&out));
        }
        Ok(())
    })
}

fn sample_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, grid, spatial) = (call.layout(0)?, call.layout(1)?, call.int(6)? as usize);
    Ok(vec![Layout::contiguous(x.dtype, &sampled_dims(call, 0, &x, &grid, spatial)?)])
}

/// Arguments: dy, x, grid, interpolation, padding, align_corners, which are requested, dx, dgrid, spatial dimensions.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let spatial = call.int(9)? as usize;
    let sampling = sampling(call, 3, spatial)?;
    let requested = if call.has(6) { call.flags(6)? } else { vec![true; 2] };
    let [wants_dx, wants_dgrid] = requested[..] else {
        let name = call.parameter(6);
        return Err(Error::invalid(format!("{name} = {requested:?}: expected two flags")));
    };
    let dx = if wants_dx { Some(call.output(7)?) } else { None };
    let dgrid = if wants_dgrid { Some(call.output(8)?) } else { None };
    let Some(first) = dx.or(dgrid) else {
        return call.nothing();
    };
    let outs = [&first, &dgrid.unwrap_or(first)];
    let (dy, grid) = (call.read(0, &outs)?, call.read(2, &outs)?);
    let x = call.read_by_index(1, &outs)?;
    call.expect_dtype(1, &x, REALS)?;
    call.expect_same(2, &grid, 1, &x)?;
    call.expect_same(0, &dy, 1, &x)?;
    call.expect_dims(0, &dy, &sampled_dims(call, 1, &x, &grid, spatial)?)?;
    if let Some(dx) = &dx {
        call.expect_dims(7, dx, x.dims())?;
        call.expect_same(7, dx, 1, &x)?;
    }
    if let Some(dgrid) = &dgrid {
        call.expect_dims(8, dgrid, grid.dims())?;
        call.expect_same(8, dgrid, 1, &x)?;
    }
    let is_half = matches!(x.dtype, DType::Float16 | DType::Bf16);
    let dx = dx.map(|dx| dx.with_layout(with_depth(&dx, spatial, 2)));
    let buffer = dx.filter(|_| is_half).map(|dx| call.scratch(DType::Float, dx.dims()));
    let dgrid = dgrid.map(|dgrid| dgrid.with_layout(with_depth(&dgrid, spatial, 1)));
    let (x, dy) =
        (x.with_layout(with_depth(&x, spatial, 2)), dy.with_layout(with_depth(&dy, spatial, 2)));
    let grid = grid.with_layout(with_depth(&grid, spatial, 1));
    call.plan(move |memory| {
        let (a, grid, dy) = (x.view(memory), grid.view(memory), dy.view(memory));
        let sampled = Sampled { a, grid, sampling };
        let parallel = memory.parallel;
        if let Some(dx) = &dx {
            let out = memory.out(dx);
            let sums = buffer.map_or(out, |buffer| memory.scratch(&buffer));
            fill_scalar(parallel, sums, Scalar::from(0));
            if dy.count() > 0 {
                sampled.add_grad_of_elements(parallel, sums, dy);
            }
            if buffer.is_some() {
                copy(parallel, out, sums.view());
            }
        }
        if let Some(dgrid) = dgrid.filter(|dgrid| dgrid.count() > 0) {
            sampled.grad_of_grid(parallel, memory.out(&dgrid), dy);
        }
        Ok(())
    })
}

fn backward_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(1)?.packed(), call.layout(2)?.packed()])
}

/// Arguments: theta, sizes, align_corners, out.
fn affine(call: &mut Call<'_>) -> Result<Plan> {
    let sizes = call.sizes(1)?;
    let spatial = sizes.len().wrapping_sub(2);
    if !(2..=3).contains(&spatial) || sizes.contains(&0) {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {sizes:?}: expected 4 or 5 sizes")));
    }
    let (theta, out) = (call.tensor(0)?, call.output(3)?);
    call.expect_dtype(0, &theta, REALS)?;
    call.expect_same(3, &out, 0, &theta)?;
    call.expect_dims(0, &theta, &[sizes[0], spatial, spatial + 1])?;
    let mut dims = Dims::new(&sizes[..1]);
    sizes[2..].iter().for_each(|size| dims.push(*size));
    dims.push(spatial);
    call.expect_dims(3, &out, &dims)?;
    let align_corners = call.flag(2)?;
    let theta = call.unaliased(theta, &[&out]);
    let out = out.with_layout(with_depth(&out, spatial, 1));
    call.plan(move |memory| {
        affine_grid(memory.parallel, memory.out(&out), theta.view(memory), align_corners);
        Ok(())
    })
}

/// The sizes of a grid whose positions are one dimension: batches, positions, coordinates.
fn rows_of_grid(call: &Call<'_>) -> Result<[usize; 3]> {
    let sizes = call.sizes(1)?;
    if !(4..=5).contains(&sizes.len()) {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {sizes:?}: expected 4 or 5 sizes")));
    }
    let positions = sizes[2..].iter().fold(1usize, |all, size| all.saturating_mul(*size));
    Ok([sizes[0], positions, sizes.len() - 2])
}

/// As [`affine`], where the output may have its positions as one dimension.
fn affine_in_rows(call: &mut Call<'_>) -> Result<Plan> {
    let rows = rows_of_grid(call)?;
    let out = call.layout(3)?;
    if out.dims() == rows {
        let sizes = call.sizes(1)?;
        let mut dims = Dims::new(&sizes[..1]);
        sizes[2..].iter().for_each(|size| dims.push(*size));
        dims.push(rows[2]);
        let Some(layout) = out.reshaped(&dims) else {
            return Err(Error::invalid(format!(
                "{} ({out}) must be contiguous",
                call.parameter(3)
            )));
        };
        if let Arg::Tensor(tensor) = call.arg(3).clone() {
            call.replace(3, Arg::Tensor(Tensor { layout, ..tensor }));
        }
    }
    affine(call)
}

fn affine_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, &rows_of_grid(call)?)])
}

/// Arguments: x, groups, out.
fn channel_shuffle(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let (x, groups) = (call.read(0, &[&out])?, call.int(1)?);
    call.expect_dims(2, &out, x.dims())?;
    call.expect_same(2, &out, 0, &x)?;
    if !(3..=7).contains(&x.rank()) {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected 3 to 7 dimensions")));
    }
    let channels = x.dims()[1];
    if groups <= 0 || channels % groups as usize != 0 {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {groups} do not divide {channels} channels")));
    }
    if x.count() == 0 {
        return call.nothing();
    }
    let (groups, channels_per_group) = (groups as usize, channels / groups as usize);
    let split = |layout: &Layout, first: usize, second: usize| {
        let mut dims = Dims::new(layout.dims());
        dims[1] = first;
        dims.insert(2, second);
        layout.reshaped(&dims).expect("a dimension in two")
    };
    let from = split(&x, groups, channels_per_group).transposed(1, 2);
    let to = split(&out, channels_per_group, groups);
    let (x, out) = (x.with_layout(from), out.with_layout(to));
    call.plan(move |memory| {
        copy(memory.parallel, memory.out(&out), x.view(memory));
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("GridSampler2D", sample).with_args(&[A(0), A(1), A(2), A(3), A(4), A(5), I(2)]),
    aclnn("GridSampler3D", sample).with_args(&[A(0), A(1), A(2), A(3), A(4), A(5), I(3)]),
    aclnn("GridSampler2DBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        I(2),
    ]),
    aclnn("GridSampler3DBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        I(3),
    ]),
    aclnn("AffineGrid", affine),
    aclnn("ChannelShuffle", channel_shuffle),
];

const INTERPOLATION: ArgSource = Attr("interpolation_mode", AttrDefault::Text("bilinear"));
const PADDING: ArgSource = Attr("padding_mode", AttrDefault::Text("zeros"));
const ALIGN_CORNERS: ArgSource = Attr("align_corners", AttrDefault::Flag(false));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "GridSampler2D",
        &["x", "grid"],
        &["y"],
        Infer::By(sample_output),
        sample,
        &[A(0), A(1), INTERPOLATION, PADDING, ALIGN_CORNERS, O(0), I(2)],
    ),
    node(
        "GridSampler3D",
        &["x", "grid"],
        &["y"],
        Infer::By(sample_output),
        sample,
        &[A(0), A(1), INTERPOLATION, PADDING, ALIGN_CORNERS, O(0), I(3)],
    ),
    node(
        "GridSampler2DGrad",
        &["grad", "x", "grid"],
        &["dx", "dgrid"],
        Infer::By(backward_outputs),
        backward,
        &[A(0), A(1), A(2), INTERPOLATION, PADDING, ALIGN_CORNERS, No, O(0), O(1), I(2)],
    ),
    node(
        "AffineGrid",
        &["theta", "output_size"],
        &["y"],
        Infer::By(affine_output),
        affine_in_rows,
        &[A(0), A(1), ALIGN_CORNERS, O(0)],
    )
    .needs_values(&[1]),
    node(
        "ShuffleChannel",
        &["x"],
        &["y"],
        Infer::Like(0),
        channel_shuffle,
        &[A(0), Attr("group", AttrDefault::Int(1)), O(0)],
    ),
];
