//! Formulas over lists of tensors: one task for all of them.

use super::activation::{SIGMOID, TANH};
use super::arithmetic;
use super::compare::{MAXIMUM, MINIMUM};
use super::division::DIV;
use super::elementwise::Input;
use super::formula::{Bound, Formula, Parameter, Parameters, SAME, number, real};
use super::fused::{ADDCDIV, ADDCMUL, LERP, LERP_BY};
use super::power::POW;
use super::unary::*;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Among, Last, Outs, Rest};
use crate::table::{ArgSource, Node, Row, aclnn, node};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::vector_norm::vector_norm;
use cairn_tensor::{Layout, Scalar};

const ADD: Formula<1> = number!(|x; value = 0.0| x.add(value));
const SUB: Formula<1> = number!(|x; value = 0.0| x.sub(value));
const MUL: Formula<1> = number!(|x; value = 1.0| x.mul(value));
const QUOTIENT: Formula<1> = real!(|x; value = 1.0| x.div(value));
const LEAST: Formula<1> = number!(|x; value = 0.0| x.least(value));
const GREATEST: Formula<1> = number!(|x; value = 0.0| x.greatest(value));
const POWER: Formula<1> = number!(|x; exponent = 1.0| x.power(exponent));
/// A number to the power of each element.
const POWER_OF: Formula<1> = number!(|x; base = 1.0| base.power(x));

/// Rounded by mode: 1 to nearest even, 2 down, 3 up, 4 halves away from zero, 5 towards zero, 6 to the odd neighbour; 7 the
/// fraction; with any other number it stays as it is.
const ROUND_OFF: Formula<1> = real!(|x; mode = 1.0| {
    if mode == C::of(1.0) {
        x.round()
    } else if mode == C::of(2.0) {
        x.floor()
    } else if mode == C::of(3.0) {
        x.ceil()
    } else if mode == C::of(4.0) {
        x.abs().add(C::of(0.5)).floor().mul(x.sign())
    } else if mode == C::of(5.0) {
        x.trunc()
    } else if mode == C::of(6.0) {
        let (low, high) = (x.floor(), x.ceil());
        let is_odd = low.sub(low.div(C::of(2.0)).floor().mul(C::of(2.0))) != C::ZERO;
        if is_odd { low } else { high }
    } else if mode == C::of(7.0) {
        x.sub(x.trunc())
    } else {
        x
    }
});

impl<const N: usize> Formula<N> {
    /// An operator on lists: `N` lists of inputs, the numbers, the list of outputs. A number is one for all
    /// tensors, or a list of scalars or a tensor with one for each.
    fn each(&self, call: &mut Call<'_>) -> Result<Plan> {
        let out_index = N + self.defaults.len();
        let lists = (0..N).map(|at| call.tensors(at)).collect::<Result<Vec<_>>>()?;
        let outs = outputs(call, out_index)?;
        for (at, list) in lists.iter().enumerate() {
            if list.len() != outs.len() {
                let (name, have) = (call.parameter(at), list.len());
                let (out, want) = (call.parameter(out_index), outs.len());
                return Err(Error::invalid(format!(
                    "{name} has {have} tensors, {out} has {want}: expected as many"
                )));
            }
        }
        let numbers = (self.defaults.iter().enumerate())
            .map(|(at, default)| numbers(call, N + at, *default, outs.len()))
            .collect::<Result<Vec<_>>>()?;
        let mut bounds: Vec<Bound<N>> = Vec::with_capacity(outs.len());
        for (at, out) in outs.into_iter().enumerate() {
            let inputs = std::array::from_fn(|list| Input::Tensor(lists[list][at]));
            let parameters: Parameters = numbers.iter().map(|list| list[at].clone()).collect();
            bounds.push(self.bind(call, inputs, parameters, out, out_index)?);
        }
        call.plan(move |memory| {
            bounds.iter().for_each(|bound| bound.compute(memory));
            Ok(())
        })
    }
}

/// The list of outputs; fails where elements of one share memory.
fn outputs(call: &mut Call<'_>, at: usize) -> Result<Vec<Operand>> {
    let outs = call.outputs(at)?;
    match outs.iter().position(|out| out.repeats()) {
        None => Ok(outs),
        Some(which) => {
            let (name, layout) = (call.parameter(at), *outs[which].layout());
            Err(Error::invalid(format!(
                "{name}[{which}] ({layout}, strides {:?}) has elements that share memory and cannot be written",
                layout.strides()
            )))
        }
    }
}

/// The number of each tensor.
fn numbers(call: &mut Call<'_>, at: usize, default: f64, count: usize) -> Result<Vec<Parameter>> {
    let list: Vec<Parameter> = match call.arg(at) {
        Arg::Scalars(_) | Arg::Floats(_) => {
            call.scalars(at)?.into_iter().map(Parameter::Number).collect()
        }
        Arg::Tensor(tensor) if tensor.layout.count() != 1 => {
            let operand = call.tensor(at)?;
            call.expect_arithmetic(at, operand.dtype)?;
            expect_count(call, at, operand.count(), count)?;
            let flat = operand.reshaped(&[operand.count()]).ok_or_else(|| {
                let (name, layout) = (call.parameter(at), *operand.layout());
                Error::invalid(format!("{name} ({layout}) must be contiguous"))
            })?;
            (0..flat.count())
                .map(|one| Parameter::Element(Box::new(operand.with_layout(flat.at(0, one)))))
                .collect()
        }
        _ => vec![call.parameter_or(at, default)?; count],
    };
    expect_count(call, at, list.len(), count)?;
    Ok(list)
}

/// Fails unless there are `have` numbers for as many tensors.
fn expect_count(call: &Call<'_>, at: usize, have: usize, count: usize) -> Result<()> {
    if have == count {
        return Ok(());
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!(
        "{name} has {have} numbers: expected one for each of {count} tensors"
    )))
}

/// Each tensor all zeros. Arguments: the list.
fn zeros(call: &mut Call<'_>) -> Result<Plan> {
    let outs = outputs(call, 0)?;
    call.plan(move |memory| {
        outs.iter().for_each(|out| fill_scalar(memory.parallel, memory.out(out), Scalar::from(0)));
        Ok(())
    })
}

/// The p-norm of each tensor. Arguments: the list, p, a list of tensors of one element.
fn norms(call: &mut Call<'_>) -> Result<Plan> {
    let (list, p, outs) = (call.tensors(0)?, call.parameter_or(1, 2.0)?, outputs(call, 2)?);
    for (at, operands) in [(0, &list), (2, &outs)] {
        for one in operands {
            call.expect_arithmetic(at, one.dtype)?;
        }
    }
    if list.len() != outs.len() || outs.iter().any(|out| out.count() != 1) {
        let (name, have, want) = (call.parameter(2), outs.len(), list.len());
        return Err(Error::invalid(format!(
            "{name} has {have} tensors: expected {want} of one element each"
        )));
    }
    call.plan(move |memory| {
        let p = p.value(memory).as_f64();
        for (one, out) in list.iter().zip(&outs) {
            let value = vector_norm(memory.parallel, memory.view(one), p);
            fill_scalar(memory.parallel, memory.out(out), Scalar::from(value));
        }
        Ok(())
    })
}

/// Each tensor of a list, in the type of the one it goes to.
fn foreach_copy(call: &mut Call<'_>) -> Result<Plan> {
    call.skip_cast_check(1);
    SAME.each(call)
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("ForeachAbs", |c| ABS.each(c)),
    aclnn("ForeachAcos", |c| ACOS.each(c)),
    aclnn("ForeachAsin", |c| ASIN.each(c)),
    aclnn("ForeachAtan", |c| ATAN.each(c)),
    aclnn("ForeachCos", |c| COS.each(c)),
    aclnn("ForeachCosh", |c| COSH.each(c)),
    aclnn("ForeachErf", |c| ERF.each(c)),
    aclnn("ForeachErfc", |c| ERFC.each(c)),
    aclnn("ForeachExp", |c| EXP.each(c)),
    aclnn("ForeachExpm1", |c| EXPM1.each(c)),
    aclnn("ForeachLog", |c| LOG.each(c)),
    aclnn("ForeachLog10", |c| LOG10.each(c)),
    aclnn("ForeachLog1p", |c| LOG1P.each(c)),
    aclnn("ForeachLog2", |c| LOG2.each(c)),
    aclnn("ForeachNeg", |c| NEG.each(c)),
    aclnn("ForeachReciprocal", |c| RECIPROCAL.each(c)),
    aclnn("ForeachSigmoid", |c| SIGMOID.each(c)),
    aclnn("ForeachSign", |c| SIGN.each(c)),
    aclnn("ForeachSin", |c| SIN.each(c)),
    aclnn("ForeachSinh", |c| SINH.each(c)),
    aclnn("ForeachSqrt", |c| SQRT.each(c)),
    aclnn("ForeachTan", |c| TAN.each(c)),
    aclnn("ForeachTanh", |c| TANH.each(c)),
    aclnn("ForeachCopy", foreach_copy),
    aclnn("ForeachZeroInplace", zeros),
    aclnn("ForeachNorm", norms),
    aclnn("ForeachAddScalar", |c| ADD.each(c)),
    aclnn("ForeachAddScalarV2", |c| ADD.each(c)),
    aclnn("ForeachAddScalarList", |c| ADD.each(c)),
    aclnn("ForeachAddList", |c| arithmetic::ADD.each(c)),
    aclnn("ForeachAddListV2", |c| arithmetic::ADD.each(c)),
    aclnn("ForeachSubScalar", |c| SUB.each(c)),
    aclnn("ForeachSubScalarV2", |c| SUB.each(c)),
    aclnn("ForeachSubScalarList", |c| SUB.each(c)),
    aclnn("ForeachSubList", |c| arithmetic::SUB.each(c)),
    aclnn("ForeachSubListV2", |c| arithmetic::SUB.each(c)),
    aclnn("ForeachMulScalar", |c| MUL.each(c)),
    aclnn("ForeachMulScalarV2", |c| MUL.each(c)),
    aclnn("ForeachMulScalarList", |c| MUL.each(c)),
    aclnn("ForeachMulList", |c| arithmetic::MUL.each(c)),
    aclnn("ForeachDivScalar", |c| QUOTIENT.each(c)),
    aclnn("ForeachDivScalarV2", |c| QUOTIENT.each(c)),
    aclnn("ForeachDivScalarList", |c| QUOTIENT.each(c)),
    aclnn("ForeachDivList", |c| DIV.each(c)),
    aclnn("ForeachMaximumScalar", |c| GREATEST.each(c)),
    aclnn("ForeachMaximumScalarV2", |c| GREATEST.each(c)),
    aclnn("ForeachMaximumScalarList", |c| GREATEST.each(c)),
    aclnn("ForeachMaximumList", |c| MAXIMUM.each(c)),
    aclnn("ForeachMinimumScalar", |c| LEAST.each(c)),
    aclnn("ForeachMinimumScalarV2", |c| LEAST.each(c)),
    aclnn("ForeachMinimumScalarList", |c| LEAST.each(c)),
    aclnn("ForeachMinimumList", |c| MINIMUM.each(c)),
    aclnn("ForeachPowScalar", |c| POWER.each(c)),
    aclnn("ForeachPowScalarV2", |c| POWER.each(c)),
    aclnn("ForeachPowScalarList", |c| POWER.each(c)),
    aclnn("ForeachPowScalarAndTensor", |c| POWER_OF.each(c)).with_args(&[A(1), A(0), A(2)]),
    aclnn("ForeachPowList", |c| POW.each(c)),
    aclnn("ForeachLerpScalar", |c| LERP.each(c)),
    aclnn("ForeachLerpList", |c| LERP_BY.each(c)),
    aclnn("ForeachAddcmulScalar", |c| ADDCMUL.each(c)),
    aclnn("ForeachAddcmulScalarV2", |c| ADDCMUL.each(c)),
    aclnn("ForeachAddcmulScalarList", |c| ADDCMUL.each(c)),
    aclnn("ForeachAddcmulList", |c| ADDCMUL.each(c)),
    aclnn("ForeachAddcdivScalar", |c| ADDCDIV.each(c)),
    aclnn("ForeachAddcdivScalarV2", |c| ADDCDIV.each(c)),
    aclnn("ForeachAddcdivScalarList", |c| ADDCDIV.each(c)),
    aclnn("ForeachAddcdivList", |c| ADDCDIV.each(c)),
    aclnn("ForeachRoundOffNumber", |c| ROUND_OFF.each(c)),
    aclnn("ForeachRoundOffNumberV2", |c| ROUND_OFF.each(c)),
    aclnn("ForeachACosInplace", |c| ACOS.each(c)).with_args(&[A(0), A(0)]),
    aclnn("ForeachLogInplace", |c| LOG.each(c)).with_args(&[A(0), A(0)]),
    aclnn("ForeachAddListInplace", |c| arithmetic::ADD.each(c)).with_args(&[
        A(0),
        A(1),
        A(2),
        A(0),
    ]),
    aclnn("ForeachSubListInplace", |c| arithmetic::SUB.each(c)).with_args(&[
        A(0),
        A(1),
        A(2),
        A(0),
    ]),
    aclnn("ForeachMulListInplace", |c| arithmetic::MUL.each(c)).with_args(&[A(0), A(1), A(0)]),
    aclnn("ForeachDivListInplace", |c| DIV.each(c)).with_args(&[A(0), A(1), A(0)]),
    aclnn("ForeachMulScalarInplace", |c| MUL.each(c)).with_args(&[A(0), A(1), A(0)]),
    aclnn("ForeachSubScalarInplace", |c| SUB.each(c)).with_args(&[A(0), A(1), A(0)]),
];

/// An output for each tensor of the list at `at`, like it.
fn like_list(call: &Call<'_>, at: usize) -> Result<Vec<Layout>> {
    match call.arg(at) {
        Arg::Tensors(list) => Ok(list.iter().map(|one| one.layout.packed()).collect()),
        other => Err(Error::invalid(format!(
            "{} is {}: expected a list of tensors",
            call.parameter(at),
            other.kind()
        ))),
    }
}

fn infer_like_first(call: &Call<'_>) -> Result<Vec<Layout>> {
    like_list(call, 0)
}

fn infer_one_number_each(call: &Call<'_>) -> Result<Vec<Layout>> {
    let like = like_list(call, 0)?;
    Ok(like.iter().map(|one| Layout::contiguous(one.dtype, &[])).collect())
}

const ONE_LIST: &[&str] = &["x[]"];
const LISTS: [&[&str]; 4] = [
    &["x1[]", "x2[]"],
    &["x1[]", "x2[]", "alpha"],
    &["x1[]", "x2[]", "x3[]", "scalar"],
    &["x1[]", "x2[]", "x3[]", "scalars"],
];
const RESULTS: &[&str] = &["y[]"];
const EACH: &[ArgSource] = &[Rest(0), Outs(0)];
const EACH_WITH_NUMBER: &[ArgSource] = &[Among(0, 1, 1), Last(0), Outs(0)];
const TWO: &[ArgSource] = &[Among(0, 2, 0), Among(1, 2, 0), Outs(0)];
const TWO_WITH_NUMBER: &[ArgSource] = &[Among(0, 2, 1), Among(1, 2, 1), Last(0), Outs(0)];
const THREE: &[ArgSource] = &[Among(0, 3, 0), Among(1, 3, 0), Among(2, 3, 0), Outs(0)];
const THREE_WITH_NUMBER: &[ArgSource] =
    &[Among(0, 3, 1), Among(1, 3, 1), Among(2, 3, 1), Last(0), Outs(0)];

macro_rules! nodes {
    ($($name:literal, $inputs:expr, $arg_sources:expr, $bind:expr;)*) => {
        &[$(node($name, $inputs, RESULTS, Infer::By(infer_like_first), $bind, $arg_sources)),*]
    };
}

const WITH_SCALAR: &[&str] = &["x[]", "scalar"];
const WITH_SCALARS: &[&str] = &["x[]", "scalars"];

/// The operators of this family by IR name.
pub const NODES: &[Node] = nodes! {
    "ForeachAbs", ONE_LIST, EACH, |c| ABS.each(c);
    "ForeachAcos", ONE_LIST, EACH, |c| ACOS.each(c);
    "ForeachACos", ONE_LIST, EACH, |c| ACOS.each(c);
    "ForeachAsin", ONE_LIST, EACH, |c| ASIN.each(c);
    "ForeachASin", ONE_LIST, EACH, |c| ASIN.each(c);
    "ForeachAtan", ONE_LIST, EACH, |c| ATAN.each(c);
    "ForeachATan", ONE_LIST, EACH, |c| ATAN.each(c);
    "ForeachCos", ONE_LIST, EACH, |c| COS.each(c);
    "ForeachCosh", ONE_LIST, EACH, |c| COSH.each(c);
    "ForeachErf", ONE_LIST, EACH, |c| ERF.each(c);
    "ForeachErfc", ONE_LIST, EACH, |c| ERFC.each(c);
    "ForeachExp", ONE_LIST, EACH, |c| EXP.each(c);
    "ForeachExpm1", ONE_LIST, EACH, |c| EXPM1.each(c);
    "ForeachLog", ONE_LIST, EACH, |c| LOG.each(c);
    "ForeachLog10", ONE_LIST, EACH, |c| LOG10.each(c);
    "ForeachLog1p", ONE_LIST, EACH, |c| LOG1P.each(c);
    "ForeachLog2", ONE_LIST, EACH, |c| LOG2.each(c);
    "ForeachNeg", ONE_LIST, EACH, |c| NEG.each(c);
    "ForeachReciprocal", ONE_LIST, EACH, |c| RECIPROCAL.each(c);
    "ForeachSigmoid", ONE_LIST, EACH, |c| SIGMOID.each(c);
    "ForeachSign", ONE_LIST, EACH, |c| SIGN.each(c);
    "ForeachSin", ONE_LIST, EACH, |c| SIN.each(c);
    "ForeachSinh", ONE_LIST, EACH, |c| SINH.each(c);
    "ForeachSqrt", ONE_LIST, EACH, |c| SQRT.each(c);
    "ForeachTan", ONE_LIST, EACH, |c| TAN.each(c);
    "ForeachTanh", ONE_LIST, EACH, |c| TANH.each(c);
    "ForeachCopy", ONE_LIST, EACH, foreach_copy;
    "ForeachAddScalar", WITH_SCALAR, EACH_WITH_NUMBER, |c| ADD.each(c);
    "ForeachAddScalarList", WITH_SCALARS, EACH_WITH_NUMBER, |c| ADD.each(c);
    "ForeachSubScalar", WITH_SCALAR, EACH_WITH_NUMBER, |c| SUB.each(c);
    "ForeachSubScalarList", WITH_SCALARS, EACH_WITH_NUMBER, |c| SUB.each(c);
    "ForeachMulScalar", WITH_SCALAR, EACH_WITH_NUMBER, |c| MUL.each(c);
    "ForeachMulScalarList", WITH_SCALARS, EACH_WITH_NUMBER, |c| MUL.each(c);
    "ForeachDivScalar", WITH_SCALAR, EACH_WITH_NUMBER, |c| QUOTIENT.each(c);
    "ForeachDivScalarList", WITH_SCALARS, EACH_WITH_NUMBER, |c| QUOTIENT.each(c);
    "ForeachMaximumScalar", WITH_SCALAR, EACH_WITH_NUMBER, |c| GREATEST.each(c);
    "ForeachMaximumScalarList", WITH_SCALARS, EACH_WITH_NUMBER, |c| GREATEST.each(c);
    "ForeachMinimumScalar", WITH_SCALAR, EACH_WITH_NUMBER, |c| LEAST.each(c);
    "ForeachMinimumScalarList", WITH_SCALARS, EACH_WITH_NUMBER, |c| LEAST.each(c);
    "ForeachPowScalar", WITH_SCALAR, EACH_WITH_NUMBER, |c| POWER.each(c);
    "ForeachPowScalarList", WITH_SCALARS, EACH_WITH_NUMBER, |c| POWER.each(c);
    "ForeachPowScalarAndTensor", &["scalar", "x[]"], &[Rest(1), A(0), Outs(0)], |c| POWER_OF.each(c);
    "ForeachRoundOffNumber", &["x[]", "roundMode"], EACH_WITH_NUMBER, |c| ROUND_OFF.each(c);
    "ForeachAddList", LISTS[1], TWO_WITH_NUMBER, |c| arithmetic::ADD.each(c);
    "ForeachSubList", LISTS[1], TWO_WITH_NUMBER, |c| arithmetic::SUB.each(c);
    "ForeachMulList", LISTS[0], TWO, |c| arithmetic::MUL.each(c);
    "ForeachDivList", LISTS[0], TWO, |c| DIV.each(c);
    "ForeachMaximumList", LISTS[0], TWO, |c| MAXIMUM.each(c);
    "ForeachMinimumList", LISTS[0], TWO, |c| MINIMUM.each(c);
    "ForeachPowList", LISTS[0], TWO, |c| POW.each(c);
    "ForeachLerpScalar", &["x1[]", "x2[]", "weight"], TWO_WITH_NUMBER, |c| LERP.each(c);
    "ForeachLerpList", &["x1[]", "x2[]", "weight[]"], THREE, |c| LERP_BY.each(c);
    "ForeachAddcmulScalar", LISTS[2], THREE_WITH_NUMBER, |c| ADDCMUL.each(c);
    "ForeachAddcmulScalarList", LISTS[3], THREE_WITH_NUMBER, |c| ADDCMUL.each(c);
    "ForeachAddcmulList", LISTS[3], THREE_WITH_NUMBER, |c| ADDCMUL.each(c);
    "ForeachAddcdivScalar", LISTS[2], THREE_WITH_NUMBER, |c| ADDCDIV.each(c);
    "ForeachAddcdivScalarList", LISTS[3], THREE_WITH_NUMBER, |c| ADDCDIV.each(c);
    "ForeachAddcdivList", LISTS[3], THREE_WITH_NUMBER, |c| ADDCDIV.each(c);
};

/// As [`NODES`], with outputs of another size.
pub const REDUCING_NODES: &[Node] = &[node(
    "ForeachNorm",
    WITH_SCALAR,
    RESULTS,
    Infer::By(infer_one_number_each),
    norms,
    EACH_WITH_NUMBER,
)];
