//! What elementwise operators have in common: operands that are tensors or numbers, broadcasting, and inputs
//! that share memory with the output.

use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Scratch};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::{DType, Dims, Layout, Scalar, View, broadcast, promote};

/// An operand of an elementwise operator.
#[derive(Clone, Copy)]
pub enum Input {
    /// A tensor.
    Tensor(Operand),
    /// A number.
    Scalar(Scalar),
    /// A tensor that shares memory with the output: copied to the workspace before anything is written.
    Copied(Operand, Scratch),
}

/// What of an operand decides the type to compute in.
#[derive(Clone, Copy)]
pub enum Typed {
    /// A tensor of this type.
    Tensor(DType),
    /// A number.
    Scalar(Scalar),
}

impl Typed {
    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        match self {
            Typed::Tensor(dtype) => *dtype,
            Typed::Scalar(scalar) => scalar.dtype(),
        }
    }
}

impl Input {
    /// What of it decides the type to compute in.
    pub fn typed(&self) -> Typed {
        match self {
            Input::Tensor(operand) | Input::Copied(operand, _) => Typed::Tensor(operand.dtype),
            Input::Scalar(scalar) => Typed::Scalar(*scalar),
        }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        match self {
            Input::Tensor(operand) | Input::Copied(operand, _) => operand.dtype,
            Input::Scalar(scalar) => scalar.dtype(),
        }
    }

    /// Its sizes; none for a number.
    pub fn dims(&self) -> &[usize] {
        match self {
            Input::Tensor(operand) | Input::Copied(operand, _) => operand.dims(),
            Input::Scalar(_) => &[],
        }
    }

    /// Calls `run` with the operand as a tensor of these sizes.
    pub fn with<R>(
        &self,
        memory: &Memory<'_>,
        dims: &[usize],
        run: impl FnOnce(View<'_>) -> R,
    ) -> R {
        let expand = |layout: &Layout| layout.broadcast_to(dims).expect("sizes were checked");
        match self {
            Input::Tensor(operand) => run(memory.view_with_layout(operand, expand(operand))),
            Input::Scalar(scalar) => run(Constant::new(*scalar).view(dims)),
            Input::Copied(_, scratch) => {
                let copied = memory.scratch(scratch).view();
                run(copied.with_layout(expand(scratch)).expect("sizes were checked"))
            }
        }
    }

    /// Copies what has to be copied before the output is written.
    pub fn prepare(&self, memory: &Memory<'_>) {
        if let Input::Copied(operand, scratch) = self {
            copy(memory.parallel, memory.scratch(scratch), memory.view(operand));
        }
    }
}

impl Call<'_> {
    /// An operand that is a tensor or a number.
    pub fn input(&mut self, at: usize) -> Result<Input> {
        match self.arg(at) {
            Arg::Tensor(_) | Arg::Absent => self.tensor(at).map(Input::Tensor),
            _ => self.any_scalar(at).map(Input::Scalar),
        }
    }

    /// The same operand, safe to read while `out` is written.
    pub fn without_overlap(&mut self, input: Input, out: &Operand) -> Input {
        match input {
            Input::Tensor(operand) if self.has_partial_overlap(&operand, out) => {
                let scratch = self.scratch(operand.dtype, operand.dims());
                Input::Copied(operand, scratch)
            }
            other => other,
        }
    }

    /// The sizes that operands, with their indices, broadcast to, which `out` must have.
    pub fn broadcast<'a>(
        &self,
        inputs: impl Iterator<Item = (usize, &'a Input)> + Clone,
        out: (usize, &Operand),
    ) -> Result<Dims> {
        let mut dims = Dims::default();
        for (_, input) in inputs.clone() {
            let Some(broadcast_dims) = broadcast(&dims, input.dims()) else {
                let names: Vec<String> = inputs
                    .map(|(at, one)| format!("{} {:?}", self.parameter(at), one.dims()))
                    .collect();
                let names = names.join(", ");
                return Err(Error::invalid(format!("the sizes do not broadcast: {names}")));
            };
            dims = broadcast_dims;
        }
        self.expect_dims(out.0, out.1, &dims)?;
        Ok(dims)
    }

    /// The type to compute in for two operands: a number does not change the type of a tensor of its own kind.
    pub fn promoted(&self, a: Typed, b: Typed) -> Result<DType> {
        let dtype = match (a, b) {
            (Typed::Scalar(scalar), Typed::Tensor(dtype))
            | (Typed::Tensor(dtype), Typed::Scalar(scalar)) => with_scalar(dtype, scalar),
            _ => promote(a.dtype(), b.dtype()),
        };
        dtype.ok_or_else(|| {
            let (a, b) = (a.dtype(), b.dtype());
            Error::invalid(format!("elements of type {a} and {b} take no part in arithmetic"))
        })
    }
}

impl Call<'_> {
    /// Fails where a result of one type cannot be cast to that of an output: a real number to an integer, or any number to a
    /// boolean.
    pub fn expect_castable(&self, at: usize, from: DType, out: &Layout) -> Result<()> {
        self.skip_cast_check(at);
        let to = out.dtype;
        let rank = |dtype: DType| match dtype {
            DType::Bool => 0,
            dtype if dtype.is_integer() => 1,
            dtype if dtype.is_floating() => 2,
            _ => 3,
        };
        if rank(from) <= rank(to) {
            return Ok(());
        }
        let name = self.parameter(at);
        Err(Error::invalid(format!(
            "{name} has elements of type {to}: the result, of type {from}, can't be cast to it"
        )))
    }
}

/// The type of a tensor and a number together: a number of a higher kind decides, else the tensor does.
pub fn with_scalar(tensor: DType, scalar: Scalar) -> Option<DType> {
    let kind = |dtype: DType| match dtype {
        DType::Bool => 0,
        dtype if dtype.is_integer() => 1,
        _ => 2,
    };
    match scalar.dtype() {
        number if kind(number) <= kind(tensor) => promote(tensor, tensor),
        number if kind(number) == 2 => match number {
            DType::Double => Some(DType::Float),
            other => Some(other),
        },
        number => Some(number),
    }
}
