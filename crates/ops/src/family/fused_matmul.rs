//! Products of matrices, with a function of their elements in the same step.
//!
//! Workspace: the sums, in `f32` for half types, and the panels of the product.

use super::activation::{CUBIC, ROOT};
use super::matmul::{self, MatmulOperands, OUT};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{map1, map2};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::matmul as kernel;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, Scalar};
use std::f64::consts::FRAC_1_SQRT_2;

// Arguments: bias, x1, x2, -, -, out, whether x1 and x2 are transposed, x3, the function's name, precision (`cubeMathType`).
const BIAS: usize = 0;
const X1: usize = 1;
const X2: usize = 2;
const X3: usize = 8;
const NAME: usize = 9;
const MATH: usize = 10;

const TYPES: &[DType] = &[DType::Float16, DType::Bf16, DType::Float];

/// The function that is applied to the product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    None,
    /// The product is converted to `f32`.
    ToFloat,
    Add,
    Multiply,
    Relu,
    Gelu,
    GeluTanh,
}

impl Function {
    fn read(call: &Call<'_>) -> Result<Function> {
        Ok(match call.text(NAME)? {
            "" => Function::None,
            "16cast32" => Function::ToFloat,
            "add" => Function::Add,
            "mul" => Function::Multiply,
            "relu" => Function::Relu,
            "gelu_erf" => Function::Gelu,
            "gelu_tanh" => Function::GeluTanh,
            other => {
                let name = call.parameter(NAME);
                return Err(Error::invalid(format!(
                    "{name} = {other:?}: expected \"\", 16cast32, add, mul, relu, gelu_erf or gelu_tanh"
                )));
            }
        })
    }

    /// The most dimensions that it takes.
    fn max_dims(self) -> usize {
        match self {
            Function::None | Function::Relu => 6,
            Function::Add | Function::Multiply => 3,
            _ => 2,
        }
    }

    fn takes_bias(self) -> bool {
        !matches!(self, Function::Gelu | Function::GeluTanh)
    }

    fn takes_other(self) -> bool {
        matches!(self, Function::Add | Function::Multiply)
    }
}

/// Fails for a precision (`cubeMathType`) that does not go with the types.
fn expect_math(call: &Call<'_>, dtype: DType, function: Function) -> Result<()> {
    if !call.has(MATH) {
        return Ok(());
    }
    let (name, math) = (call.parameter(MATH), call.int(MATH)?);
    let is_plain = !matches!(function, Function::ToFloat | Function::Gelu | Function::GeluTanh);
    let problem = match math {
        ..0 | 5.. => "is outside 0 to 4",
        2 if dtype == DType::Bf16 => "(f16) does not go with elements of bf16",
        3 if dtype != DType::Float => "(HF32) goes with elements of f32 alone",
        other if other != 3 && dtype == DType::Float && is_plain => {
            "does not go with elements of f32: expected 3 (HF32)"
        }
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("{name} = {math} {problem}")))
}

/// An input that broadcasts to the sizes of the output.
fn broadcast_input(
    call: &mut Call<'_>,
    at: usize,
    out: &Operand,
    ranks: std::ops::RangeInclusive<usize>,
) -> Result<UnaliasedInput> {
    let read = call.read(at, &[out])?;
    call.expect_dtype(at, &read, TYPES)?;
    let broadcast = read.broadcast_to(out.dims()).filter(|_| ranks.contains(&read.rank()));
    match broadcast {
        Some(layout) => Ok(read.with_layout(layout)),
        None => {
            let (name, have, want) = (call.parameter(at), read.dims(), out.dims());
            Err(Error::invalid(format!("{name} {have:?} does not broadcast to {want:?}")))
        }
    }
}

/// See the top of the file for the arguments.
fn fused(call: &mut Call<'_>) -> Result<Plan> {
    let function = Function::read(call)?;
    let out = call.output(OUT)?;
    let (left, right) = (call.read(X1, &[&out])?, call.read(X2, &[&out])?);
    for (at, one) in [(X1, &left), (X2, &right)] {
        call.expect_dtype(at, one, TYPES)?;
        let max_rank = function.max_dims();
        if !(2..=max_rank).contains(&one.rank()) {
            let (name, dims) = (call.parameter(at), one.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected 2 to {max_rank} dimensions"
            )));
        }
    }
    call.expect_same(X2, &right, X1, &left)?;
    expect_math(call, left.dtype, function)?;
    let MatmulOperands { left: a, right: b, dims, .. } = matmul::operands(call, *left, *right)?;
    call.expect_dims(OUT, &out, &dims)?;
    match function {
        Function::ToFloat => call.expect_dtype(OUT, &out, &[DType::Float])?,
        _ => call.expect_same(OUT, &out, X1, &left)?,
    }
    let bias = match (call.has(BIAS), function.takes_bias()) {
        (false, _) => None,
        (true, true) => Some(broadcast_input(call, BIAS, &out, 1..=2)?),
        (true, false) => {
            let (name, function_name) = (call.parameter(BIAS), call.text(NAME)?);
            return Err(Error::invalid(format!("{name} is there: {function_name} takes none")));
        }
    };
    let other = match function.takes_other() {
        true => {
            let other = broadcast_input(call, X3, &out, 2..=3)?;
            let (last, have) = (&dims[dims.len() - 2..], call.layout(X3)?);
            if have.dims()[have.rank() - 2..] != *last {
                let (name, have) = (call.parameter(X3), have.dims());
                return Err(Error::invalid(format!(
                    "{name} has the sizes {have:?}: expected matrices of {last:?}"
                )));
            }
            Some(other)
        }
        false => None,
    };
    let (left, right) = (left.with_layout(a), right.with_layout(b));
    let sums = call.scratch(DType::Float, &dims);
    let panels = kernel::panels(&sums, &left, &right);
    let panels = panels.map(|one| call.scratch(one.dtype(), &one.dims()));
    call.plan(move |memory| {
        let (a, b) = (left.view(memory), right.view(memory));
        let (sums, target) = (memory.scratch(&sums), memory.out(&out));
        let mut beta = Scalar::from(0);
        if let Some(bias) = bias {
            copy(memory.parallel, sums, bias.view(memory));
            beta = Scalar::from(1);
        }
        let panels = panels.map(|one| memory.scratch(&one));
        kernel::matmul(memory.parallel, sums, a, b, Scalar::from(1), beta, panels);
        let (parallel, sums) = (memory.parallel, sums.view());
        match (function, other.map(|other| other.view(memory))) {
            (Function::Add, Some(other)) => {
                map2(parallel, target, sums, other, |x: f32, y: f32| x + y);
            }
            (Function::Multiply, Some(other)) => {
                map2(parallel, target, sums, other, |x: f32, y: f32| x * y);
            }
            (Function::Relu, _) => {
                map1(parallel, target, sums, |x: f32| if x < 0.0 { 0.0 } else { x });
            }
            (Function::Gelu, _) => map1(parallel, target, sums, |x: f32| {
                let one_plus_erf = 1.0 + Real::erf(x * FRAC_1_SQRT_2 as f32);
                0.5 * x * one_plus_erf
            }),
            (Function::GeluTanh, _) => map1(parallel, target, sums, |x: f32| {
                let inner = x.add(f32::of(CUBIC) * x * x * x) * f32::of(ROOT);
                0.5 * x * (1.0 + Real::tanh(inner))
            }),
            _ => copy(parallel, target, sums),
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("FusedMatmul", fused).with_args(&[
    A(2),
    A(0),
    A(1),
    No,
    No,
    A(6),
    No,
    No,
    A(3),
    A(4),
    A(5),
])];

fn output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (left, right) = (call.layout(X1)?, call.layout(X2)?);
    let dims = matmul::operands(call, left, right)?.dims;
    let dtype = match Function::read(call)? {
        Function::ToFloat => DType::Float,
        _ => left.dtype,
    };
    Ok(vec![Layout::contiguous(dtype, &dims)])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "FusedMatMul",
    &["x1", "x2", "bias?", "x3?"],
    &["y"],
    Infer::By(output),
    fused,
    &[
        A(2),
        A(0),
        A(1),
        No,
        No,
        O(0),
        Attr("transpose_x1", AttrDefault::Flag(false)),
        Attr("transpose_x2", AttrDefault::Flag(false)),
        A(3),
        Attr("fused_op_type", AttrDefault::Text("")),
        No,
        Attr("enable_hf32", AttrDefault::Flag(false)),
    ],
)];
