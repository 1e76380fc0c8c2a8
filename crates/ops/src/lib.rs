//! The operators: each once, with its names at every door, what it takes, how it infers shapes, what
//! workspace it needs and what it runs.
//!
//! `family/` has a file per family of operators, and at its end the rows that name them. A row's function
//! reads its arguments from a [`Call`], checks them, and returns a [`Plan`]: the memory it will touch,
//! the workspace it needs, and what to run once both are there. Knows nothing of devices and streams.

#![forbid(unsafe_code)]

mod absent;
mod argument;
mod call;
mod error;
pub mod family;
mod group;
mod infer;
mod marks;
mod plan;
mod saturation;
mod stage;
mod table;

pub use absent::absent;
pub use argument::{Arg, Args, Tensor};
pub use call::Call;
pub use error::{Error, Fault, Outcome, Result};
pub use group::{Group, GroupUse, Message, MessageUse, Reduction};
pub use infer::Infer;
pub use marks::Marks;
pub use plan::{AccessMode, Memory, Operand, Overflow, Packing, Plan, Scratch, SizeCallback, Use};
pub use saturation::saturate_all;
pub use stage::StageUse;
pub use table::{
    ArgSource, Attr, AttrDefault, LIST_LENGTHS, Node, NodeArgs, Row, aclnn, copy, node, nodes, rows,
};
