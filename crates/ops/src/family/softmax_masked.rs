//! Softmax of scores that are scaled, masked or biased in the same operator, and the gradient.
//!
//! Workspace: as many numbers of the type computed in as the result has elements, where the result has another type.

use super::formula::{Formula, real};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::map::{map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::softmax::{softmax, softmax_backward};
use cairn_tensor::{DType, Layout, Scalar, ViewMut, with_real};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// What replaces a score that is masked.
const MASKED: f64 = -10000.0;

const MASKED_SCALE: Formula<2> = real!(|x, mask; scale = 1.0| x.mul(mask).mul(scale));

/// Where intermediate results are: in the output, if it has their type, else in the workspace.
#[derive(Clone, Copy)]
struct Intermediate {
    out: Operand,
    scratch: Option<Scratch>,
}

impl Intermediate {
    fn new(call: &mut Call<'_>, out: Operand) -> Intermediate {
        let dtype = with_real!(out.dtype, C => C::DTYPE);
        let scratch = (dtype != out.dtype).then(|| call.scratch(dtype, out.dims()));
        Intermediate { out, scratch }
    }

    fn out<'m>(&self, memory: &Memory<'m>) -> ViewMut<'m> {
        match &self.scratch {
            Some(scratch) => memory.scratch(scratch),
            None => memory.out(&self.out),
        }
    }
}

/// A mask, broadcast to the sizes of the output.
fn mask(call: &mut Call<'_>, at: usize, out: &Operand) -> Result<super::inputs::UnaliasedInput> {
    let mask = call.read(at, &[out])?;
    call.expect_dtype(at, &mask, &[DType::Bool])?;
    match mask.broadcast_to(out.dims()) {
        Some(layout) => Ok(mask.with_layout(layout)),
        None => {
            let (name, have, want) = (call.parameter(at), mask.dims(), out.dims());
            Err(Error::invalid(format!("{name} {have:?} does not broadcast to {want:?}")))
        }
    }
}

/// Fails for a triangular mask that the operator would make itself, which CANN's documentation excludes too.
fn expect_no_triangle(call: &Call<'_>, at: usize) -> Result<()> {
    match call.flag(at)? {
        false => Ok(()),
        true => Err(Error::invalid(format!("{} = true: only false is known", call.parameter(at)))),
    }
}

/// Fails unless scores have four dimensions, the last with elements.
fn expect_scores(call: &Call<'_>, at: usize, x: &Layout) -> Result<()> {
    call.expect_dtype(at, x, REAL)?;
    if x.rank() == 4 && x.dims()[3] > 0 {
        return Ok(());
    }
    let (name, dims) = (call.parameter(at), x.dims());
    Err(Error::invalid(format!(
        "{name} has the sizes {dims:?}: expected four dimensions, the last not empty"
    )))
}

/// Arguments: x, mask, scale, whether the mask is a triangle, out.
fn scaled_masked_softmax(call: &mut Call<'_>) -> Result<Plan> {
    expect_no_triangle(call, 3)?;
    let (x, scale, out) = (call.tensor(0)?, call.float(2)?, call.output(4)?);
    expect_scores(call, 0, &x)?;
    call.expect_dims(4, &out, x.dims())?;
    call.expect_dtype(4, &out, REAL)?;
    let mask = mask(call, 1, &out)?;
    let x = call.in_place_input(x, &[&out]);
    let intermediate = Intermediate::new(call, out);
    call.plan_real(move |memory| {
        let (x, mask, target) = (x.view(memory), mask.view(memory), intermediate.out(memory));
        with_real!(target.dtype(), C => {
            let (scale, masked) = (C::of(scale), C::of(MASKED));
            map2(memory.parallel, target, x, mask, move |x: C, is_masked: bool| {
                if is_masked { masked } else { x.mul(scale) }
            });
            softmax::<C>(memory.parallel, memory.out(&out), target.view(), 3, false);
        });
        Ok(())
    })
}

/// Arguments: gradient, y, mask, scale, whether the mask is a triangle, out.
fn scaled_masked_softmax_backward(call: &mut Call<'_>) -> Result<Plan> {
    expect_no_triangle(call, 4)?;
    let (grad, y, scale, out) = (call.tensor(0)?, call.tensor(1)?, call.float(3)?, call.output(5)?);
    expect_scores(call, 1, &y)?;
    call.expect_dims(0, &grad, y.dims())?;
    call.expect_dtype(0, &grad, REAL)?;
    call.expect_dims(5, &out, y.dims())?;
    call.expect_dtype(5, &out, REAL)?;
    let mask = mask(call, 2, &out)?;
    let (grad, y) = (call.in_place_input(grad, &[&out]), call.in_place_input(y, &[&out]));
    let intermediate = Intermediate::new(call, out);
    call.plan_real(move |memory| {
        let (grad, y, target) = (grad.view(memory), y.view(memory), intermediate.out(memory));
        let mask = mask.view(memory);
        with_real!(target.dtype(), C => {
            let scale = C::of(scale);
            softmax_backward::<C>(memory.parallel, target, grad, y, 3, false);
            map2(memory.parallel, memory.out(&out), target.view(), mask, move |d: C, is_masked: bool| {
                if is_masked { C::ZERO } else { d.mul(scale) }
            });
        });
        Ok(())
    })
}

/// The sizes as batches, windows, heads, queries, keys.
fn windows(call: &Call<'_>, x: &Layout, mask: Option<&Layout>) -> Result<[usize; 5]> {
    let wrong = |at: usize, dims: &[usize]| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} has the sizes {dims:?}, which do not fit the others"))
    };
    let count = match mask.map(Layout::dims) {
        Some(&[windows, _, _] | &[windows, 1, _, _] | &[1, windows, 1, _, _]) => Some(windows),
        Some(dims) => return Err(wrong(1, dims)),
        None => None,
    };
    match *x.dims() {
        [b, w, n, q, k] if count.is_none_or(|count| count == w) => Ok([b, w, n, q, k]),
        [bw, n, q, k] => {
            let windows = count.unwrap_or(1);
            match windows > 0 && bw.is_multiple_of(windows) {
                true => Ok([bw / windows, windows, n, q, k]),
                false => Err(wrong(0, x.dims())),
            }
        }
        ref dims => Err(wrong(0, dims)),
    }
}

/// Arguments: x, mask that is added or absent, bias of positions, scale, -, out.
fn masked_softmax_with_bias(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let (x, mask) = (call.tensor(0)?, call.optional(1)?);
    let bias = call.tensor(2)?;
    let scale = call.float(3)?;
    for (at, one) in [(0, Some(&x)), (1, mask.as_ref()), (2, Some(&bias)), (5, Some(&out))] {
        if let Some(one) = one {
            call.expect_dtype(at, one, REAL)?;
        }
    }
    call.expect_dims(5, &out, x.dims())?;
    let dims = windows(call, &x, mask.as_ref().map(|one| one.layout()))?;
    let [_, w, n, q, k] = dims;
    if k == 0 {
        let (name, have) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {have:?}, the last of which is empty"
        )));
    }
    let mut terms = [None; 2];
    for (slot, (at, one, shape)) in
        terms.iter_mut().zip([(1, mask, [1, w, 1, q, k]), (2, Some(bias), [1, 1, n, q, k])])
    {
        let Some(one) = one else { continue };
        if one.count() != shape.iter().product::<usize>() {
            let (name, have) = (call.parameter(at), one.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected {shape:?}"
            )));
        }
        *slot = Some(call.reshaped_input(one, &shape, &[&out]));
    }
    let x = call.reshaped_input(x, &dims, &[&out]);
    let dtype = with_real!(out.dtype, C => C::DTYPE);
    let scratch = call.scratch(dtype, &dims);
    let windows_out = call.reshaped_output(out, &dims);
    call.plan_real(move |memory| {
        let (x, scratch) = (x.view(memory), memory.scratch(&scratch));
        let zero = Constant::new(Scalar::from(0.0));
        let [mask, bias] = terms.map(|one| match one {
            None => zero.view(&dims),
            Some(one) => {
                let view = one.view(memory);
                let broadcast = view.broadcast_to(&dims).expect("sizes were checked");
                view.with_layout(broadcast).expect("the same elements")
            }
        });
        with_real!(dtype, C => {
            let scale = C::of(scale);
            map3(memory.parallel, scratch, x, mask, bias, move |x: C, m: C, b: C| x.mul(scale).add(m).add(b));
            softmax::<C>(memory.parallel, windows_out.out(memory), scratch.view(), 4, false);
        });
        windows_out.write_back(memory);
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("ScaledMaskedSoftmax", scaled_masked_softmax),
    aclnn("ScaledMaskedSoftmaxBackward", scaled_masked_softmax_backward),
    aclnn("MaskedSoftmaxWithRelPosBias", masked_softmax_with_bias),
    aclnn("MaskedScale", |c| MASKED_SCALE.plan(c)),
];

const SCALE: ArgSource = Attr("scale", AttrDefault::Float(1.0));
const TRIANGLE: ArgSource = Attr("fixed_triu_mask", AttrDefault::Flag(false));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ScaledMaskedSoftmax",
        &["x", "mask?"],
        &["y"],
        Infer::Like(0),
        scaled_masked_softmax,
        &[A(0), A(1), SCALE, TRIANGLE, O(0)],
    ),
    node(
        "ScaledMaskedSoftmaxGrad",
        &["y_grad", "y", "mask?"],
        &["x_grad"],
        Infer::Like(0),
        scaled_masked_softmax_backward,
        &[A(0), A(1), A(2), SCALE, TRIANGLE, O(0)],
    ),
    node(
        "MaskedSoftmaxWithRelPosBias",
        &["x", "atten_mask?", "relative_pos_bias"],
        &["y"],
        Infer::Like(0),
        masked_softmax_with_bias,
        &[A(0), A(1), A(2), Attr("scale_value", AttrDefault::Float(1.0)), No, O(0)],
    ),
    node(
        "MaskedScale",
        &["x", "mask"],
        &["y"],
        Infer::Like(0),
        |c| MASKED_SCALE.plan(c),
        &[A(0), A(1), Attr("value", AttrDefault::Required), O(0)],
    )
    .elementwise(),
];
