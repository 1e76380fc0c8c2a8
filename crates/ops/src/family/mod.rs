//! The families of operators. A file each: functions that plan, then the rows that name them.

mod activation;
mod activation_grad;
mod arithmetic;
mod clamp;
mod compare;
mod copying;
mod division;
mod dropout;
pub mod elementwise;
mod foreach;
mod formula;
mod fused;
mod matmul;
mod optimiser;
mod power;
mod random;
mod select;
mod unary;
pub mod value;

use crate::table::{Node, Row};

/// The rows of every family.
pub const ROWS: &[&[Row]] = &[
    arithmetic::ROWS,
    copying::ROWS,
    activation::ROWS,
    activation_grad::ROWS,
    clamp::ROWS,
    compare::ROWS,
    division::ROWS,
    fused::ROWS,
    power::ROWS,
    select::ROWS,
    unary::ROWS,
    unary::MORE,
    optimiser::ROWS,
    foreach::ROWS,
    matmul::ROWS,
    random::ROWS,
    dropout::ROWS,
];

/// The operators by IR name of every family.
pub const NODES: &[&[Node]] = &[
    arithmetic::NODES,
    copying::NODES,
    activation::NODES,
    activation::MORE_NODES,
    activation_grad::NODES,
    clamp::NODES,
    compare::NODES,
    division::NODES,
    fused::NODES,
    power::NODES,
    select::NODES,
    unary::NODES,
    unary::MORE_NODES,
    matmul::NODES,
    random::NODES,
    dropout::NODES,
];
