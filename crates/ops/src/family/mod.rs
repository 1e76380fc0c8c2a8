//! The families of operators. A file each: functions that plan, then the rows that name them.

mod arithmetic;
mod copying;
pub mod elementwise;
mod matmul;

use crate::table::{Node, Row};

/// The rows of every family.
pub const ROWS: &[&[Row]] = &[arithmetic::ROWS, copying::ROWS, matmul::ROWS];

/// The operators by IR name of every family.
pub const NODES: &[&[Node]] = &[arithmetic::NODES, copying::NODES, matmul::NODES];
