//! Rotary position embeddings and their gradients.
//!
//! Workspace: a matrix of a rotation takes as many `f32` as `x` has elements, and the panels of its product; interleaved
//! pairs take a copy of `x`. The gradients of cosines and sines take as many numbers of the type computed in as `x` has
//! elements, and what the sums over them need.

use super::inputs::UnaliasedInput;
use super::reduction_plan::{Axes, ReductionPlan, single_result, squeezed};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::{fill_scalar, map2, map3};
use cairn_tensor::kernels::matmul::{matmul, panels};
use cairn_tensor::kernels::rotary::{LONGEST, Rotation, rotate, rotated_products};
use cairn_tensor::{DType, Layout, Scalar, with_real};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// The rotation that a number or a text names.
fn rotation(call: &Call<'_>, at: usize) -> Result<Rotation> {
    let name = call.parameter(at);
    if let crate::argument::Arg::Text(text) = call.arg(at) {
        return match text.as_str() {
            "half" => Ok(Rotation::Half),
            "interleave" => Ok(Rotation::Interleave),
            "quarter" => Ok(Rotation::Quarter),
            other => Err(Error::invalid(format!(
                "{name} = {other:?}: \"half\", \"interleave\" and \"quarter\" are known"
            ))),
        };
    }
    match call.int(at)? {
        0 => Ok(Rotation::Half),
        1 => Ok(Rotation::Interleave),
        2 => Ok(Rotation::Quarter),
        3 => Ok(Rotation::InterleaveHalf),
        other => Err(Error::invalid(format!("{name} = {other}: 0 to 3 are known"))),
    }
}

/// Fails unless the last dimension of a tensor can be rotated.
fn expect_rotatable(call: &Call<'_>, at: usize, x: &Layout, rotation: Rotation) -> Result<()> {
    call.expect_dtype(at, x, REAL)?;
    let length = x.dims().last().copied().unwrap_or(0);
    let fits = x.rank() > 0 && length.is_multiple_of(rotation.grain());
    if fits && length <= LONGEST {
        return Ok(());
    }
    let (name, dims, grain) = (call.parameter(at), x.dims(), rotation.grain());
    Err(Error::invalid(format!(
        "{name} has the sizes {dims:?}: the last must be a multiple of {grain}, and at most {LONGEST}"
    )))
}

/// Cosines or sines, repeated to the sizes of `x`.
fn broadcast_to(
    call: &Call<'_>,
    at: usize,
    factor: UnaliasedInput,
    dims: &[usize],
) -> Result<UnaliasedInput> {
    call.expect_dtype(at, &factor, REAL)?;
    let same_last = factor.dims().last() == dims.last();
    match factor.broadcast_to(dims).filter(|_| same_last && factor.rank() == dims.len()) {
        Some(layout) => Ok(factor.with_layout(layout)),
        None => {
            let (name, have) = (call.parameter(at), factor.dims());
            Err(Error::invalid(format!(
                "{name} has the sizes {have:?}, which do not repeat to {dims:?}"
            )))
        }
    }
}

/// Arguments: x, cosines, sines, rotation, matrix of a rotation or absent, out.
fn embed(call: &mut Call<'_>) -> Result<Plan> {
    if call.has(4) {
        return embed_by_matrix(call);
    }
    let out = call.output(5)?;
    let x = call.tensor(0)?;
    let rotation = rotation(call, 3)?;
    expect_rotatable(call, 0, &x, rotation)?;
    call.expect_dims(5, &out, x.dims())?;
    call.expect_dtype(5, &out, REAL)?;
    let x = call.in_place_input(x, &[&out]);
    let (cos, sin) = (call.read(1, &[&out])?, call.read(2, &[&out])?);
    let (cos, sin) =
        (broadcast_to(call, 1, cos, out.dims())?, broadcast_to(call, 2, sin, out.dims())?);
    call.plan(move |memory| {
        let views = [x.view(memory), cos.view(memory), sin.view(memory)];
        let out = memory.out(&out);
        if out.count() > 0 {
            with_real!(out.dtype(), C => rotate::<C>(memory.parallel, rotation, false, out, views));
        }
        Ok(())
    })
}

/// As [`embed`], where a product of the last dimension with a matrix replaces the rotation; the number of a rotation is only
/// checked.
fn embed_by_matrix(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let x = call.tensor(0)?;
    rotation(call, 3)?;
    call.expect_dtype(0, &x, REAL)?;
    call.expect_dims(5, &out, x.dims())?;
    call.expect_dtype(5, &out, REAL)?;
    let matrix = call.read(4, &[&out])?;
    call.expect_same(4, &matrix, 0, &x)?;
    if x.rank() < 2 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected two dimensions or more"
        )));
    }
    let length = x.dims()[x.rank() - 1];
    call.expect_dims(4, &matrix, &[length, length])?;
    let x = call.unaliased(x, &[&out]);
    let (cos, sin) = (call.read(1, &[&out])?, call.read(2, &[&out])?);
    let (cos, sin) =
        (broadcast_to(call, 1, cos, out.dims())?, broadcast_to(call, 2, sin, out.dims())?);
    let rotated = call.scratch(DType::Float, x.dims());
    let mut dims = x.dims().to_vec();
    dims[x.rank() - 2] = length;
    let matrix = matrix.with_layout(matrix.broadcast_to(&dims).expect("a matrix for each batch"));
    let panels = if x.count() > 0 { panels(&rotated, &x, &matrix) } else { None };
    let scratch = panels.map(|one| call.scratch(one.dtype(), &one.dims()));
    call.plan(move |memory| {
        let (out, rotated) = (memory.out(&out), memory.scratch(&rotated));
        let (x, cos, sin) = (x.view(memory), cos.view(memory), sin.view(memory));
        if out.count() == 0 {
            return Ok(());
        }
        let (one, zero, parallel) = (Scalar::from(1), Scalar::from(0), memory.parallel);
        let scratch = scratch.map(|one| memory.scratch(&one));
        matmul(parallel, rotated, x, matrix.view(memory), one, zero, scratch);
        map2(parallel, rotated, rotated.view(), sin, |x: f32, sin: f32| x * sin);
        map3(parallel, out, x, cos, rotated.view(), |x: f32, cos: f32, y: f32| x.mul_add(cos, y));
        Ok(())
    })
}

/// Rotates neighbouring elements of the last dimension: the even ones first, then the odd ones, then as halves. Arguments:
/// x, cosines, sines, out.
fn interleave(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let x = call.tensor(0)?;
    expect_rotatable(call, 0, &x, Rotation::Half)?;
    call.expect_dims(3, &out, x.dims())?;
    call.expect_same(3, &out, 0, &x)?;
    let (cos, sin) = (call.read(1, &[&out])?, call.read(2, &[&out])?);
    let (cos, sin) =
        (broadcast_to(call, 1, cos, out.dims())?, broadcast_to(call, 2, sin, out.dims())?);
    let reordered = call.scratch(x.dtype, x.dims());
    let last = x.rank() - 1;
    let half = x.dims()[last] / 2;
    call.plan(move |memory| {
        let (from, reordered) = (memory.view(&x), memory.scratch(&reordered));
        for odd in 0..2 {
            let from = from.with_layout(from.layout().sliced(last, odd, half, 2)).expect("a half");
            let to = reordered.layout().sliced(last, odd * half, half, 1);
            copy(memory.parallel, reordered.with_layout(to).expect("a half"), from);
        }
        let views = [reordered.view(), cos.view(memory), sin.view(memory)];
        let out = memory.out(&out);
        if out.count() > 0 {
            with_real!(out.dtype(), C => {
                rotate::<C>(memory.parallel, Rotation::Half, false, out, views)
            });
        }
        Ok(())
    })
}

/// The output for a gradient of cosines or sines, and the plan of the sum that makes it.
fn plan_factor_gradient(
    call: &mut Call<'_>,
    at: usize,
    like: (usize, &[usize]),
    products: &Layout,
) -> Result<(Operand, ReductionPlan)> {
    let out = call.output(at)?;
    call.expect_dims(at, &out, call.layout(like.0)?.dims())?;
    call.expect_dtype(at, &out, REAL)?;
    if out.rank() != like.1.len() {
        let (name, have, full) = (call.parameter(at), out.dims(), like.1);
        return Err(Error::invalid(format!(
            "{name} has the sizes {have:?}, which do not repeat to {full:?}"
        )));
    }
    let axes: Axes = out.dims().iter().zip(like.1).map(|(have, full)| have != full).collect();
    let reduction_plan =
        with_real!(products.dtype, C => call.plan_reduction(products, &axes, &fold::sum::<C>()));
    Ok((squeezed(out, &axes), reduction_plan))
}

/// Arguments: gradient, cosines, sines, x or absent, rotation, gradients of x, of cosines, of sines; whether the last
/// two are requested (where x is there, when it is absent).
fn embed_backward(call: &mut Call<'_>) -> Result<Plan> {
    let rotation = rotation(call, 4)?;
    let dx = call.output(5)?;
    let dy = call.tensor(0)?;
    expect_rotatable(call, 0, &dy, rotation)?;
    call.expect_dims(5, &dx, dy.dims())?;
    call.expect_dtype(5, &dx, REAL)?;
    let dims = dy.dims().to_vec();
    let requested = call.has(3) && call.flag_or(8, true)?;
    let products = with_real!(dy.dtype, C => C::DTYPE);
    let mut sums = None;
    let mut outs = vec![dx];
    if requested {
        let products = call.scratch(products, &dims);
        let cos_gradient = plan_factor_gradient(call, 6, (1, &dims), &products)?;
        let sin_gradient = plan_factor_gradient(call, 7, (2, &dims), &products)?;
        outs.extend([cos_gradient.0, sin_gradient.0]);
        sums = Some((products, cos_gradient, sin_gradient));
    }
    let outs: Vec<&Operand> = outs.iter().collect();
    let dy = call.unaliased(dy, &outs);
    let (cos, sin) = (call.read(1, &outs)?, call.read(2, &outs)?);
    let (cos, sin) = (broadcast_to(call, 1, cos, &dims)?, broadcast_to(call, 2, sin, &dims)?);
    let x = if requested { Some(call.read(3, &outs)?) } else { None };
    if let Some(x) = &x {
        call.expect_dims(3, x, &dims)?;
        call.expect_dtype(3, x, REAL)?;
    }
    call.plan(move |memory| {
        let parallel = memory.parallel;
        let (dy, cos, sin) = (dy.view(memory), cos.view(memory), sin.view(memory));
        let x = x.map(|x| x.view(memory));
        if dy.count() == 0 {
            for (out, _) in sums.iter().flat_map(|(_, cos, sin)| [cos, sin]) {
                fill_scalar(parallel, memory.out(out), Scalar::from(0.0));
            }
            return Ok(());
        }
        with_real!(dy.dtype(), C => {
            rotate::<C>(parallel, rotation, true, memory.out(&dx), [dy, cos, sin]);
            if let (Some((products, cos_gradient, sin_gradient)), Some(x)) = (&sums, x) {
                let products = memory.scratch(products);
                for (is_cos, (out, reduction_plan)) in [(true, cos_gradient), (false, sin_gradient)] {
                    rotated_products::<C>(parallel, rotation, is_cos, products, x, dy);
                    let target = (memory.out(out), None);
                    reduction_plan.run(memory, products.view(), fold::sum::<C>(), target, single_result);
                }
            }
        });
        Ok(())
    })
}

/// Queries and keys, in place. Arguments: queries, keys, cosines, sines, number of their
/// layout, rotation, outputs for queries and keys.
fn apply(call: &mut Call<'_>) -> Result<Plan> {
    let rotation = rotation(call, 5)?;
    let layout_number = call.int(4)?;
    if !(1..=4).contains(&layout_number) {
        let name = call.parameter(4);
        return Err(Error::invalid(format!("{name} = {layout_number}: 1 to 4 are known")));
    }
    let outs = [call.output(6)?, call.output(7)?];
    let mut rotated = Vec::new();
    for (at, out) in outs.iter().enumerate() {
        let x = call.tensor(at)?;
        expect_rotatable(call, at, &x, rotation)?;
        call.expect_dims(6 + at, out, x.dims())?;
        call.expect_dtype(6 + at, out, REAL)?;
        let (cos, sin) =
            (call.read(2, &[&outs[0], &outs[1]])?, call.read(3, &[&outs[0], &outs[1]])?);
        let (cos, sin) =
            (broadcast_to(call, 2, cos, x.dims())?, broadcast_to(call, 3, sin, x.dims())?);
        rotated.push((*out, call.in_place_input(x, &[&outs[0], &outs[1]]), cos, sin));
    }
    call.plan(move |memory| {
        for (out, x, cos, sin) in &rotated {
            let views = [x.view(memory), cos.view(memory), sin.view(memory)];
            let out = memory.out(out);
            if out.count() > 0 {
                with_real!(out.dtype(), C => rotate::<C>(memory.parallel, rotation, false, out, views));
            }
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("RotaryPositionEmbedding", embed).with_args(&[A(0), A(1), A(2), A(3), No, A(4)]),
    aclnn("RotaryPositionEmbeddingV2", embed),
    aclnn("InterleaveRope", interleave),
    aclnn("RotaryPositionEmbeddingGrad", embed_backward),
    aclnn("ApplyRotaryPosEmb", apply).with_args(&[A(0), A(1), A(2), A(3), A(4), I(0), A(0), A(1)]),
    aclnn("ApplyRotaryPosEmbV2", apply).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(0),
        A(1),
    ]),
];

/// Outputs like the arguments at these indices.
fn like_all(call: &Call<'_>, indices: [usize; 3]) -> Result<Vec<Layout>> {
    indices.into_iter().map(|at| Ok(call.layout(at)?.packed())).collect()
}

fn infer_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    like_all(call, [0, 1, 2])
}

fn infer_queries_and_keys(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(0)?.packed(), call.layout(1)?.packed()])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "RotaryPositionEmbedding",
        &["x", "cos", "sin", "rotate?"],
        &["y"],
        Infer::Like(0),
        embed,
        &[A(0), A(1), A(2), Attr("mode", AttrDefault::Int(0)), A(3), O(0)],
    ),
    node(
        "RotaryPositionEmbeddingGrad",
        &["dy", "cos", "sin", "x?"],
        &["dx", "dcos", "dsin"],
        Infer::By(infer_gradients),
        embed_backward,
        &[A(0), A(1), A(2), A(3), Attr("mode", AttrDefault::Int(0)), O(0), O(1), O(2), No],
    ),
    node(
        "InterleaveRope",
        &["x", "cos", "sin"],
        &["y"],
        Infer::Like(0),
        interleave,
        &[A(0), A(1), A(2), O(0)],
    ),
    node(
        "RotaryMul",
        &["x", "r1", "r2"],
        &["y"],
        Infer::Like(0),
        embed,
        &[A(0), A(1), A(2), I(0), No, O(0)],
    ),
    node(
        "RotaryMulGrad",
        &["x", "r1", "r2", "dy"],
        &["dx", "dr1", "dr2"],
        Infer::By(infer_gradients),
        embed_backward,
        &[
            A(3),
            A(1),
            A(2),
            A(0),
            I(0),
            O(0),
            O(1),
            O(2),
            Attr("need_backward", AttrDefault::Flag(true)),
        ],
    ),
    node(
        "ApplyRotaryPosEmb",
        &["query", "key", "cos", "sin"],
        &["query", "key"],
        Infer::By(infer_queries_and_keys),
        apply,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            Attr("layout", AttrDefault::Int(1)),
            Attr("rotary_mode", AttrDefault::Text("half")),
            O(0),
            O(1),
        ],
    )
    .writes_first(),
];
