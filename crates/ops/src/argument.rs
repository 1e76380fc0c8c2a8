//! What a call brings.

use bytes::Bytes;
use cairn_tensor::{Layout, Scalar};
use smallvec::SmallVec;

/// A tensor as a caller passes it: where its elements are, in which storage.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Elements; strides and offset count from the start of the storage.
    pub layout: Layout,
    /// The start of the storage; 0 for none.
    pub address: usize,
    /// The bytes themselves, for a constant or host tensor whose values the operator may want before it
    /// runs (`Call::values`).
    pub constant: Option<Bytes>,
}

impl Tensor {
    /// A tensor in device memory.
    pub fn new(layout: Layout, address: usize) -> Tensor {
        Tensor { layout, address, constant: None }
    }

    /// The addresses between the first and the last byte it uses; empty without elements. `None` when that
    /// is no range of addresses.
    pub fn span(&self) -> Option<std::ops::Range<usize>> {
        let extent = self.layout.extent()?;
        if extent.is_empty() {
            return Some(self.address..self.address);
        }
        let item = self.layout.item() as isize;
        let start = self.address.checked_add_signed(extent.start.checked_mul(item)?)?;
        let bytes = usize::try_from((extent.end - extent.start).checked_mul(item)?).ok()?;
        Some(start..start.checked_add(bytes)?)
    }
}

/// One argument of a call.
#[derive(Clone, Debug, Default)]
pub enum Arg {
    /// A null pointer, or something that this way of calling does not have.
    #[default]
    Absent,
    /// A tensor.
    Tensor(Tensor),
    /// A list of tensors.
    Tensors(Vec<Tensor>),
    /// A number with a type.
    Scalar(Scalar),
    /// A list of them.
    Scalars(Vec<Scalar>),
    /// An integer; also an `aclDataType`.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Yes or no.
    Flag(bool),
    /// Integers.
    Ints(Vec<i64>),
    /// Real numbers.
    Floats(Vec<f64>),
    /// Booleans.
    Flags(Vec<bool>),
    /// Text.
    Text(String),
}

/// The arguments of a call. On the heap: they are large, and handed on several times.
pub type Args = SmallVec<[Arg; 0]>;

impl Arg {
    /// What it is, for error texts.
    pub fn kind(&self) -> &'static str {
        match self {
            Arg::Absent => "nothing",
            Arg::Tensor(_) => "a tensor",
            Arg::Tensors(_) => "a list of tensors",
            Arg::Scalar(_) => "a scalar",
            Arg::Scalars(_) => "a list of scalars",
            Arg::Int(_) => "an integer",
            Arg::Float(_) => "a real number",
            Arg::Flag(_) => "a boolean",
            Arg::Ints(_) => "a list of integers",
            Arg::Floats(_) => "a list of real numbers",
            Arg::Flags(_) => "a list of booleans",
            Arg::Text(_) => "a text",
        }
    }
}
