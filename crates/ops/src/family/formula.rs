//! Elementwise operators as formulas: a function of the elements at each position and of some numbers.
//!
//! A [`Formula`] is written once, with [`real!`], [`number!`] or [`test!`], and makes operators of every
//! shape: of tensors, in place, of lists of tensors.

use super::elementwise::{Input, Typed};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Outcome, Result};
use crate::plan::{Kernel, Memory, Operand, Plan};
use crate::stage::{OfferedStage, StageInput};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::element::{Compute, complex_type, compute_type};
use cairn_tensor::kernels::elementwise::{ElementwiseArgs, Packed};
use cairn_tensor::kernels::epilogue::{Function, Pattern};
use cairn_tensor::kernels::peek;
use cairn_tensor::{DType, Layout, Scalar, promote, with_number};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a formula computes in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Real numbers: `f64` where an operand or the output is, else `f32`.
    Real,
    /// The type that the operands promote to, or a real output's if that is an integer type.
    Number,
    /// The type that the operands promote to; the output has booleans.
    Predicate,
    /// Each input by itself; the output has booleans.
    Logical,
    /// The output's type.
    AsOutput,
    /// `u64`: the operands are unsigned integers of more than 8 bits, and so is the output, or has booleans.
    Unsigned,
}

/// What a formula runs: computes in a type, over inputs of the output's sizes, with numbers.
pub type Run<const N: usize> = fn(DType, &ElementwiseArgs<'_, N>, &[Scalar]);

/// A function of `N` inputs and some numbers, at each position.
///
/// Its operator takes the inputs, then the numbers, then the output. Inputs broadcast, and may be scalars;
/// numbers may be tensors of one element, which are read when the kernel runs.
#[derive(Clone, Copy)]
pub struct Formula<const N: usize> {
    /// What it computes in.
    pub kind: Kind,
    /// What its numbers are when they are absent.
    pub defaults: &'static [f64],
    /// What it runs.
    pub run: Run<N>,
    /// What it runs for complex numbers, if it is defined for them.
    pub complex: Option<ComplexFormula<N>>,
    /// The function that it is, where kernels know that one.
    pub known: Option<KnownFunction>,
}

/// A function that kernels know, and can compute of their results without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownFunction {
    /// x + alpha y.
    Sum,
    /// x, zero where it is less than zero.
    Relu,
    /// The greater of two.
    Greatest,
    /// The less of two.
    Least,
    /// The first of three, at least the second and at most the third.
    Clamp,
}

/// A formula of complex numbers.
#[derive(Clone, Copy)]
pub struct ComplexFormula<const N: usize> {
    /// Whether its results are complex, and an output that is not cannot hold them.
    pub has_complex_results: bool,
    /// What it runs, in `Complex64` or `Complex128`.
    pub run: Run<N>,
}

/// A number of a formula.
#[derive(Clone)]
pub enum Parameter {
    /// A number that the caller passed.
    Number(Scalar),
    /// The element of a tensor, which the kernel reads.
    Element(Box<Operand>),
}

impl Parameter {
    /// The type of the number.
    pub fn dtype(&self) -> DType {
        match self {
            Parameter::Number(scalar) => scalar.dtype(),
            Parameter::Element(operand) => operand.dtype,
        }
    }

    /// The number, once the kernel runs.
    pub fn value(&self, memory: &Memory<'_>) -> Scalar {
        match self {
            Parameter::Number(scalar) => *scalar,
            Parameter::Element(operand) => {
                peek::first(memory.view(operand)).expect("a number, as was checked")
            }
        }
    }
}

/// The numbers of a formula. Most have none or one.
pub type Parameters = SmallVec<[Parameter; 1]>;

/// A formula with its operands.
pub struct Bound<const N: usize> {
    run: Run<N>,
    dtype: DType,
    parameters: Parameters,
    operands: BoundOperands<N>,
    /// Whether a result is a number for each element, in the type that it is computed in.
    has_plain_results: bool,
    known: Option<KnownFunction>,
}

/// Where a formula finds its inputs and puts its results.
enum BoundOperands<const N: usize> {
    /// All elements are packed and are no more than a strip: their slots and types, and how many they are.
    Strip { inputs: [(u16, DType); N], out: (u16, DType), count: usize },
    /// Tensors. In a box, because layouts are large: a plan of a node should not copy them from hand to hand.
    Tensors(Box<Tensors<N>>),
}

struct Tensors<const N: usize> {
    inputs: [Input; N],
    /// The layouts of the inputs that are tensors, broadcast to the output's sizes.
    broadcast: [Layout; N],
    out: Operand,
}

impl<const N: usize> Kernel for Bound<N> {
    fn run(&self, memory: &Memory<'_>) -> Outcome {
        self.compute(memory);
        Ok(())
    }

    fn offered(&self) -> Option<OfferedStage> {
        self.stage()
    }
}

impl<const N: usize> Bound<N> {
    /// The plan that computes this.
    pub fn plan(self, call: &mut Call<'_>) -> Result<Plan> {
        call.plan_kernel(self).map(Plan::light)
    }

    /// What it computes, of tensors of `f32` without gaps and of numbers that are known.
    fn stage(&self) -> Option<OfferedStage> {
        if self.dtype != DType::Float || !self.has_plain_results {
            return None;
        }
        let mut inputs = SmallVec::new();
        match &self.operands {
            BoundOperands::Strip { inputs: slots, out, count } => {
                let whole = Pattern { inner: 1, count: *count };
                for (slot, dtype) in slots.iter().chain([out]) {
                    (*dtype == DType::Float).then_some(())?;
                    inputs.push(StageInput::Use(usize::from(*slot), whole));
                }
                inputs.pop();
            }
            BoundOperands::Tensors(tensors) => {
                let is_plain = |one: &Operand| one.dtype == DType::Float && one.offset == 0;
                let out = Some(&tensors.out).filter(|out| is_plain(out) && out.is_contiguous())?;
                (out.count() > 0).then_some(())?;
                for (input, broadcast) in tensors.inputs.iter().zip(&tensors.broadcast) {
                    inputs.push(match input {
                        Input::Scalar(scalar) => StageInput::Number(f32::from_scalar(*scalar)),
                        Input::Tensor(operand) if is_plain(operand) => {
                            StageInput::Use(usize::from(operand.slot), Pattern::of(broadcast)?)
                        }
                        _ => return None,
                    });
                }
            }
        }
        let mut numbers = Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            let Parameter::Number(number) = parameter else { return None };
            numbers.push(*number);
        }
        let is_plain_sum = || numbers.iter().all(|one| one.as_f64() == 1.0);
        let function = match self.known {
            Some(KnownFunction::Sum) if is_plain_sum() => Function::Add,
            Some(KnownFunction::Relu) => Function::Relu,
            Some(KnownFunction::Greatest) => Function::Greatest,
            Some(KnownFunction::Least) => Function::Least,
            Some(KnownFunction::Clamp) => Function::Clamp,
            _ => {
                let run = self.run;
                Function::Strips(Arc::new(move |inputs, out| {
                    let inputs: [&[f32]; N] = inputs.try_into().expect("as many inputs");
                    run(DType::Float, &ElementwiseArgs::of_strip(inputs, out), &numbers);
                }))
            }
        };
        Some(OfferedStage { function, inputs })
    }

    /// Computes.
    pub fn compute(&self, memory: &Memory<'_>) {
        let numbers: SmallVec<[Scalar; 4]> =
            self.parameters.iter().map(|one| one.value(memory)).collect();
        match &self.operands {
            BoundOperands::Strip { inputs, out, count } => {
                let bytes = |(slot, dtype): (u16, DType)| (memory.uses[usize::from(slot)], dtype);
                let (inputs, out, count) = (inputs.map(bytes), bytes(*out), *count);
                let args = ElementwiseArgs::Strip(Packed { count, out, inputs });
                (self.run)(self.dtype, &args, &numbers);
            }
            BoundOperands::Tensors(tensors) => {
                tensors.with_args(memory, |args| (self.run)(self.dtype, args, &numbers));
            }
        }
    }
}

impl<const N: usize> Tensors<N> {
    fn with_args(&self, memory: &Memory<'_>, run: impl FnOnce(&ElementwiseArgs<'_, N>)) {
        self.inputs.iter().for_each(|input| input.prepare(memory));
        let constants = self.inputs.each_ref().map(|input| match input {
            Input::Scalar(scalar) => Some(Constant::new(*scalar)),
            _ => None,
        });
        let views = std::array::from_fn(|at| match (&self.inputs[at], &constants[at]) {
            (Input::Tensor(operand), _) => memory.view_with_layout(operand, self.broadcast[at]),
            (Input::Copied(_, scratch), _) => memory
                .scratch(scratch)
                .view()
                .with_layout(self.broadcast[at])
                .expect("sizes were checked"),
            (_, constant) => constant.as_ref().expect("a scalar").view(self.out.dims()),
        });
        run(&ElementwiseArgs::Tensors(memory.parallel, memory.out(&self.out), views));
    }
}

impl<const N: usize> Formula<N> {
    /// The same, defined for complex numbers too.
    pub const fn with_complex(self, complex: ComplexFormula<N>) -> Formula<N> {
        Formula { complex: Some(complex), ..self }
    }

    /// The same, stated to be a function that kernels know.
    pub const fn known_as(self, function: KnownFunction) -> Formula<N> {
        Formula { known: Some(function), ..self }
    }

    /// An operator: the inputs, the numbers, the output.
    pub fn plan(&self, call: &mut Call<'_>) -> Result<Plan> {
        let numbers: SmallVec<[usize; 4]> = (N..N + self.defaults.len()).collect();
        self.plan_at(call, std::array::from_fn(|at| at), &numbers, N + numbers.len())
    }

    /// An operator with its arguments at other indices; numbers without an index have their defaults.
    pub fn plan_at(
        &self,
        call: &mut Call<'_>,
        indices: [usize; N],
        numbers: &[usize],
        out_index: usize,
    ) -> Result<Plan> {
        let parameters = (self.defaults.iter().enumerate())
            .map(|(at, default)| match numbers.get(at) {
                Some(at) => call.parameter_or(*at, *default),
                None => Ok(Parameter::Number((*default).into())),
            })
            .collect::<Result<_>>()?;
        let mut inputs = [Input::Scalar(Scalar::Bool(false)); N];
        for (input, at) in inputs.iter_mut().zip(indices) {
            *input = call.input(at)?;
        }
        let out = call.output(out_index)?;
        self.bind(call, inputs, parameters, out, out_index)?.plan(call)
    }

    /// The formula with its operands; `out_index` is that of the output; inputs come first.
    pub fn bind(
        &self,
        call: &mut Call<'_>,
        mut inputs: [Input; N],
        parameters: Parameters,
        out: Operand,
        out_index: usize,
    ) -> Result<Bound<N>> {
        let complex = self.complex.filter(|_| has_complex(&inputs, &parameters, &out));
        for (at, input) in inputs.iter().enumerate() {
            match input {
                _ if self.kind == Kind::Unsigned => call.expect_wide_unsigned(at, input.dtype())?,
                _ if complex.is_some() => call.expect_complex_arithmetic(at, input.dtype())?,
                Input::Tensor(operand) => call.expect_arithmetic(at, operand.dtype)?,
                other => call.expect_real_number(at, other.dtype())?,
            }
        }
        match complex {
            _ if self.kind == Kind::Unsigned && out.dtype == DType::Bool => {}
            _ if self.kind == Kind::Unsigned => call.expect_wide_unsigned(out_index, out.dtype)?,
            Some(_) => call.expect_complex_arithmetic(out_index, out.dtype)?,
            None => call.expect_arithmetic(out_index, out.dtype)?,
        }
        if complex.is_none() {
            for (at, one) in parameters.iter().enumerate() {
                call.expect_real_number(N + at, one.dtype())?;
            }
        }
        call.broadcast(inputs.iter().enumerate(), (out_index, &out))?;
        let dtype = match complex {
            Some(_) => complex_dtype(&inputs, &out),
            None => self.dtype(call, &inputs, &out)?,
        };
        if complex.is_some_and(|one| one.has_complex_results) {
            call.expect_castable(out_index, dtype, &out)?;
        }
        match self.kind {
            Kind::Predicate | Kind::Logical | Kind::Unsigned => call.skip_cast_check(out_index),
            _ if complex.is_some() => {}
            Kind::Real => call.expect_castable(out_index, DType::Float, &out)?,
            Kind::Number => call.expect_castable(out_index, dtype, &out)?,
            Kind::AsOutput => {}
        }
        for input in &mut inputs {
            if let (Kind::Predicate, None, Input::Scalar(scalar)) =
                (self.kind, complex, &mut *input)
            {
                *scalar = rounded(*scalar, dtype);
            }
            if let Input::Tensor(operand) = input
                && call.has_partial_overlap(operand, &out)
            {
                *input = call.without_overlap(*input, &out);
            }
        }
        let run = complex.map_or(self.run, |one| one.run);
        let known = self.known;
        let has_plain_results =
            complex.is_none() && matches!(self.kind, Kind::Real | Kind::Number | Kind::AsOutput);
        if let Some(operands) = packed(&inputs, &out) {
            return Ok(Bound { run, dtype, parameters, operands, has_plain_results, known });
        }
        let broadcast = std::array::from_fn(|at| {
            let layout = match &inputs[at] {
                Input::Tensor(operand) => operand.broadcast_to(out.dims()),
                Input::Copied(_, scratch) => scratch.broadcast_to(out.dims()),
                Input::Scalar(_) => Some(*out.layout()),
            };
            layout.expect("sizes were checked")
        });
        let operands = BoundOperands::Tensors(Box::new(Tensors { inputs, broadcast, out }));
        Ok(Bound { run, dtype, parameters, operands, has_plain_results, known })
    }

    /// The type to compute in.
    fn dtype(&self, call: &Call<'_>, inputs: &[Input; N], out: &Operand) -> Result<DType> {
        let is_real = |dtype: DType| dtype.is_floating();
        match self.kind {
            Kind::Logical | Kind::AsOutput => Ok(out.dtype),
            Kind::Unsigned => Ok(DType::Uint64),
            Kind::Real => {
                let is_double = |input: &Input| {
                    !matches!(input, Input::Scalar(_)) && input.dtype() == DType::Double
                };
                let in_double = out.dtype == DType::Double || inputs.iter().any(is_double);
                Ok(if in_double { DType::Double } else { DType::Float })
            }
            Kind::Number | Kind::Predicate => {
                let mut promoted = inputs[0].typed();
                for next in inputs[1..].iter().map(Input::typed) {
                    let dtype = call.promoted(promoted, next)?;
                    promoted = match (promoted, next) {
                        (Typed::Scalar(_), Typed::Scalar(_)) => next,
                        _ => Typed::Tensor(dtype),
                    };
                }
                let dtype = match promoted {
                    Typed::Scalar(scalar) if is_real(scalar.dtype()) => DType::Float,
                    other => other.dtype(),
                };
                let follows_output =
                    self.kind == Kind::Number && is_real(out.dtype) && !is_real(dtype);
                Ok(if follows_output { out.dtype } else { dtype })
            }
        }
    }
}

/// Whether an operand or a number is complex.
fn has_complex<const N: usize>(
    inputs: &[Input; N],
    parameters: &Parameters,
    out: &Operand,
) -> bool {
    let mut dtypes = inputs.iter().map(Input::dtype).chain(parameters.iter().map(Parameter::dtype));
    out.dtype.is_complex() || dtypes.any(DType::is_complex)
}

/// The complex type to compute in: of `f64` where a tensor has such elements, else of `f32`.
fn complex_dtype<const N: usize>(inputs: &[Input; N], out: &Operand) -> DType {
    let is_double = |dtype: DType| matches!(dtype, DType::Complex128 | DType::Double);
    let is_tensor = |input: &&Input| !matches!(input, Input::Scalar(_));
    let mut tensors = inputs.iter().filter(is_tensor);
    match is_double(out.dtype) || tensors.any(|one| is_double(one.dtype())) {
        true => DType::Complex128,
        false => DType::Complex64,
    }
}

/// The slots and types of inputs whose elements are contiguous in the order of the output's.
fn packed<const N: usize>(inputs: &[Input; N], out: &Operand) -> Option<BoundOperands<N>> {
    let count = out.count();
    let is_packed = |one: &Operand| one.offset == 0 && one.count() == count && one.is_contiguous();
    if !(1..=Packed::<N>::LONGEST).contains(&count) || !is_packed(out) {
        return None;
    }
    let mut slots = [(0, DType::Float); N];
    for (slot, input) in slots.iter_mut().zip(inputs) {
        let Input::Tensor(operand) = input else { return None };
        if !is_packed(operand) {
            return None;
        }
        *slot = (operand.slot, operand.dtype);
    }
    Some(BoundOperands::Strip { inputs: slots, out: (out.slot, out.dtype), count })
}

impl Call<'_> {
    /// A number of a formula: a scalar, a tensor of one element, or the default.
    pub fn parameter_or(&mut self, at: usize, default: f64) -> Result<Parameter> {
        if !matches!(self.arg(at), Arg::Tensor(_)) {
            let value = if self.has(at) { self.any_scalar(at)? } else { default.into() };
            return Ok(Parameter::Number(value));
        }
        let operand = self.tensor(at)?;
        self.expect_complex_arithmetic(at, operand.dtype)?;
        if operand.count() != 1 {
            let (name, dims) = (self.parameter(at), operand.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected one element"
            )));
        }
        Ok(Parameter::Element(Box::new(operand)))
    }

    /// Fails for elements that take no part in arithmetic.
    pub fn expect_arithmetic(&self, at: usize, dtype: DType) -> Result<()> {
        if compute_type(dtype).is_some() {
            return Ok(());
        }
        let name = self.parameter(at);
        Err(Error::invalid(format!(
            "{name} has elements of type {dtype}; expected float, double, float16, bf16, int8, uint8, int16, int32, int64 and bool"
        )))
    }
}

impl Call<'_> {
    /// Fails for elements that take no part in arithmetic, complex or not.
    pub fn expect_complex_arithmetic(&self, at: usize, dtype: DType) -> Result<()> {
        match complex_type(dtype).is_some() {
            true => Ok(()),
            false => self.expect_arithmetic(at, dtype),
        }
    }

    /// Fails where a tensor that was read so far has complex elements.
    pub fn expect_no_complex(&self) -> Result<()> {
        match self.types().find(|(_, dtype)| dtype.is_complex()) {
            None => Ok(()),
            Some((name, dtype)) => Err(Error::invalid(format!(
                "{name} has elements of type {dtype}: expected real ones"
            ))),
        }
    }

    /// Fails for a complex number, where only real ones are computed with.
    pub fn expect_real_number(&self, at: usize, dtype: DType) -> Result<()> {
        if !dtype.is_complex() {
            return Ok(());
        }
        let name = self.parameter(at);
        Err(Error::invalid(format!("{name} is a number of type {dtype}: expected a real one")))
    }
}

/// A number rounded to a type, so that it equals an element with that value. One beyond the greatest number of the type
/// stays as it is.
fn rounded(scalar: Scalar, dtype: DType) -> Scalar {
    match dtype {
        DType::Float16 if scalar.as_f64().is_finite() && scalar.as_f64().abs() >= 65520.0 => scalar,
        DType::Float16 | DType::Bf16 | DType::Float => {
            let exact = f64::from(f32::from_scalar(scalar));
            let value = match dtype {
                DType::Float16 => half::f16::from_f32(exact as f32).to_f64(),
                DType::Bf16 => half::bf16::from_f32(exact as f32).to_f64(),
                _ => exact,
            };
            Scalar::Float(value, dtype)
        }
        _ => scalar,
    }
}

/// The type that a list of types promotes to.
pub fn promote_all(dtypes: impl IntoIterator<Item = DType>) -> Option<DType> {
    let mut dtypes = dtypes.into_iter();
    let first = dtypes.next()?;
    dtypes.try_fold(first, promote)
}

/// A formula: `formula!(kind, bound, with, result, |x, y; number = default| body)`. `kind` is of [`Kind`], `bound` the trait
/// of the type `C` to compute in, `with` the macro that chooses it, `result` the type of the results.
macro_rules! formula {
    (@unit $p:ident) => { () };
    (@numbers $C:ident, $all:ident, $($p:ident)*) => {{
        let mut all = $all.iter().map(|one| <$C as cairn_tensor::kernels::element::Compute>::from_scalar(*one));
        let _ = &mut all;
        [$({
            let $p = all.next().unwrap_or_default();
            $p
        }),*]
    }};
    ($kind:ident, $bound:ident, $with:ident, $result:ident, |$x:ident $(; $($p:ident = $default:tt),*)?| $body:expr) => {
        $crate::family::formula::Formula::<1> {
            kind: $crate::family::formula::Kind::$kind,
            defaults: &[$($($default),*)?],
            run: |dtype, args, _numbers| {
                #[derive(Clone, Copy)]
                struct Numbers<C, const K: usize>([C; K]);
                impl<C: $bound> cairn_tensor::kernels::halves::Pointwise<C, $result, 1> for Numbers<C, { <[()]>::len(&[$($($crate::family::formula::formula!(@unit $p)),*)?]) }> {
                    #[inline(always)]
                    fn at(self, [$x]: [C; 1]) -> $result {
                        let [$($($p),*)?] = self.0;
                        $body
                    }
                }
                cairn_tensor::$with!(dtype, C => {
                    let p = $crate::family::formula::formula!(@numbers C, _numbers, $($($p)*)?);
                    args.apply::<C, $result>(Numbers(p))
                })
            },
            complex: None,
            known: None,
        }
    };
    ($kind:ident, $bound:ident, $with:ident, $result:ident, |$x:ident, $y:ident $(; $($p:ident = $default:tt),*)?| $body:expr) => {
        $crate::family::formula::Formula::<2> {
            kind: $crate::family::formula::Kind::$kind,
            defaults: &[$($($default),*)?],
            run: |dtype, args, _numbers| {
                #[derive(Clone, Copy)]
                struct Numbers<C, const K: usize>([C; K]);
                impl<C: $bound> cairn_tensor::kernels::halves::Pointwise<C, $result, 2> for Numbers<C, { <[()]>::len(&[$($($crate::family::formula::formula!(@unit $p)),*)?]) }> {
                    #[inline(always)]
                    fn at(self, [$x, $y]: [C; 2]) -> $result {
                        let [$($($p),*)?] = self.0;
                        $body
                    }
                }
                cairn_tensor::$with!(dtype, C => {
                    let p = $crate::family::formula::formula!(@numbers C, _numbers, $($($p)*)?);
                    args.apply::<C, $result>(Numbers(p))
                })
            },
            complex: None,
            known: None,
        }
    };
    ($kind:ident, $bound:ident, $with:ident, $result:ident, |$x:ident, $y:ident, $z:ident $(; $($p:ident = $default:tt),*)?| $body:expr) => {
        $crate::family::formula::Formula::<3> {
            kind: $crate::family::formula::Kind::$kind,
            defaults: &[$($($default),*)?],
            run: |dtype, args, _numbers| {
                #[derive(Clone, Copy)]
                struct Numbers<C, const K: usize>([C; K]);
                impl<C: $bound> cairn_tensor::kernels::halves::Pointwise<C, $result, 3> for Numbers<C, { <[()]>::len(&[$($($crate::family::formula::formula!(@unit $p)),*)?]) }> {
                    #[inline(always)]
                    fn at(self, [$x, $y, $z]: [C; 3]) -> $result {
                        let [$($($p),*)?] = self.0;
                        $body
                    }
                }
                cairn_tensor::$with!(dtype, C => {
                    let p = $crate::family::formula::formula!(@numbers C, _numbers, $($($p)*)?);
                    args.apply::<C, $result>(Numbers(p))
                })
            },
            complex: None,
            known: None,
        }
    };
}

/// A formula of real numbers.
macro_rules! real {
    ($($formula:tt)*) => { $crate::family::formula::formula!(Real, Real, with_real, C, $($formula)*) };
}

/// A formula of numbers, real or integer.
macro_rules! number {
    ($($formula:tt)*) => { $crate::family::formula::formula!(Number, Number, with_number, C, $($formula)*) };
}

/// A formula of numbers that is true or false.
macro_rules! test {
    ($($formula:tt)*) => { $crate::family::formula::formula!(Predicate, Number, with_number, bool, $($formula)*) };
}

/// A formula of complex numbers `x` (and `y`, `z`), which may name the type of their parts `T`. `complex!(-> real ..)`
/// and `complex!(-> bool ..)` have results of that kind.
macro_rules! complex {
    (@run $result:ty, $($x:ident)*; $($p:ident)*; $body:expr) => {{
        fn run<T: $crate::family::formula::Part>(
            args: &cairn_tensor::kernels::elementwise::ElementwiseArgs<'_, { <[()]>::len(&[$($crate::family::formula::formula!(@unit $x)),*]) }>,
            _numbers: &[cairn_tensor::Scalar],
        )
        where
            num_complex::Complex<T>: cairn_tensor::kernels::element::Compute,
        {
            let mut all = _numbers.iter().map(|one| {
                <num_complex::Complex<T> as cairn_tensor::kernels::element::Compute>::from_scalar(*one)
            });
            let _ = &mut all;
            $(let $p: num_complex::Complex<T> = all.next().unwrap_or_default();)*
            args.map::<$($crate::family::formula::complex!(@each $x),)* $result>(move |$($x),*| $body)
        }
        |dtype, args, numbers| match dtype {
            cairn_tensor::DType::Complex128 => run::<f64>(args, numbers),
            _ => run::<f32>(args, numbers),
        }
    }};
    (@each $x:ident) => { num_complex::Complex<T> };
    (-> real |$($x:ident),* $(; $($p:ident),*)?| $body:expr) => {
        $crate::family::formula::ComplexFormula {
            has_complex_results: false,
            run: $crate::family::formula::complex!(@run T, $($x)*; $($($p)*)?; $body),
        }
    };
    (-> bool |$($x:ident),* $(; $($p:ident),*)?| $body:expr) => {
        $crate::family::formula::ComplexFormula {
            has_complex_results: false,
            run: $crate::family::formula::complex!(@run bool, $($x)*; $($($p)*)?; $body),
        }
    };
    (|$($x:ident),* $(; $($p:ident),*)?| $body:expr) => {
        $crate::family::formula::ComplexFormula {
            has_complex_results: true,
            run: $crate::family::formula::complex!(@run num_complex::Complex<T>, $($x)*; $($($p)*)?; $body),
        }
    };
}

pub(crate) use {complex, formula, number, real, test};

/// The type of a complex number's parts: `f32` or `f64`.
pub trait Part: Compute + num_traits::Float + num_traits::FloatConst + Default {}
impl Part for f32 {}
impl Part for f64 {}

/// The value itself.
pub const SAME: Formula<1> = Formula {
    kind: Kind::AsOutput,
    defaults: &[],
    run: |dtype, args, _| with_number!(dtype, C => args.map::<C, C>(|x| x)),
    complex: Some(complex!(|x| x)),
    known: None,
};
