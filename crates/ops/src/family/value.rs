//! Numbers that the caller passes, or that a tensor holds when the operator runs.

use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand};
use cairn_tensor::Scalar;
use cairn_tensor::kernels::element::compute_type;
use cairn_tensor::kernels::peek;

/// A number that the caller passed, or that the kernel reads.
#[derive(Clone, Copy)]
pub enum Value {
    /// A number that the caller passed.
    Number(Scalar),
    /// The first element of a tensor.
    Element(Operand),
}

impl Value {
    /// The number, when it is needed.
    pub fn read(&self, memory: &Memory<'_>) -> Scalar {
        match self {
            Value::Number(value) => *value,
            Value::Element(operand) => {
                peek::first(memory.view(operand)).expect("one element that is a number")
            }
        }
    }

    /// The number, if the caller passed it.
    pub fn known(&self) -> Option<Scalar> {
        match self {
            Value::Number(value) => Some(*value),
            Value::Element(_) => None,
        }
    }
}

impl Call<'_> {
    /// A number, or a tensor with at least one element that holds it; `other` when it is absent.
    pub fn value_or(&mut self, at: usize, other: impl Into<Scalar>) -> Result<Value> {
        if !matches!(self.arg(at), Arg::Tensor(_)) {
            return Ok(Value::Number(self.scalar_or(at, other)?));
        }
        let tensor = self.tensor(at)?;
        let is_number = Scalar::read(&[0; 8], tensor.dtype).is_some();
        if tensor.count() > 0 && is_number {
            return Ok(Value::Element(tensor));
        }
        let (name, layout) = (self.parameter(at), tensor.layout());
        Err(Error::invalid(format!("{name} is {layout}: expected a tensor that holds a number")))
    }

    /// As [`Call::value_or`], where it must be there.
    pub fn value(&mut self, at: usize) -> Result<Value> {
        match self.arg(at) {
            Arg::Absent => self.scalar(at).map(Value::Number),
            _ => self.value_or(at, 0),
        }
    }

    /// Fails unless the elements of an operand are numbers or booleans that kernels compute with.
    pub fn expect_number(&self, at: usize, operand: &Operand) -> Result<()> {
        if compute_type(operand.dtype).is_some() {
            return Ok(());
        }
        let (name, dtype) = (self.parameter(at), operand.dtype);
        Err(Error::invalid(format!(
            "{name} has elements of type {dtype}, which are not computed with"
        )))
    }
}
