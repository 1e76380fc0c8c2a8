//! The families of operators. A file each: functions that plan, then the rows that name them.

mod arithmetic;
mod copying;
mod dropout;
pub mod elementwise;
mod matmul;
mod random;
pub mod value;

use crate::table::{Node, Row};

/// The rows of every family.
pub const ROWS: &[&[Row]] =
    &[arithmetic::ROWS, copying::ROWS, matmul::ROWS, random::ROWS, dropout::ROWS];

/// The operators by IR name of every family.
pub const NODES: &[&[Node]] =
    &[arithmetic::NODES, copying::NODES, matmul::NODES, random::NODES, dropout::NODES];
