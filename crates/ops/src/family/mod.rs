//! The families of operators. A file each: functions that plan, then the rows that name them.

mod activation;
mod activation_grad;
mod arithmetic;
mod attention;
mod attention_packed;
mod batch;
mod choosing;
mod clamp;
mod class_loss;
mod compare;
mod copying;
mod creation;
mod distances;
mod division;
mod dropout;
pub mod elementwise;
mod embedding;
pub mod flat;
mod foreach;
mod formula;
mod fused;
mod gating;
mod grid;
mod indexing;
mod joining;
mod likelihood;
mod loss;
mod matmul;
mod norm;
mod norm_adaptive;
mod norm_sum;
mod optimiser;
mod padding;
mod power;
mod random;
pub mod reading;
pub mod reducing;
mod reduction;
mod repeating;
mod rotary;
mod scaling;
mod scan;
mod scattering;
mod select;
mod several;
mod shaping;
mod slicing;
mod slopes;
mod softmax;
mod softmax_masked;
mod sorting;
mod temporal;
mod unary;
pub mod value;

use crate::table::{Node, Row};

pub use shaping::COPY;

/// The rows of every family.
pub const ROWS: &[&[Row]] = &[
    activation::ROWS,
    activation_grad::ROWS,
    arithmetic::ROWS,
    attention::ROWS,
    choosing::ROWS,
    clamp::ROWS,
    class_loss::ROWS,
    slopes::ROWS,
    temporal::ROWS,
    compare::ROWS,
    copying::ROWS,
    creation::ROWS,
    division::ROWS,
    distances::ROWS,
    dropout::ROWS,
    several::ROWS,
    embedding::ROWS,
    foreach::ROWS,
    fused::ROWS,
    gating::ROWS,
    indexing::ROWS,
    joining::ROWS,
    matmul::ROWS,
    optimiser::ROWS,
    padding::ROWS,
    power::ROWS,
    random::ROWS,
    repeating::ROWS,
    rotary::ROWS,
    scaling::ROWS,
    scattering::ROWS,
    select::ROWS,
    shaping::ROWS,
    sorting::ROWS,
    unary::ROWS,
    unary::MORE,
    likelihood::ROWS,
    loss::ROWS,
    norm::ROWS,
    norm_adaptive::ROWS,
    norm_sum::ROWS,
    reduction::ROWS,
    scan::ROWS,
    slicing::ROWS,
    softmax::ROWS,
    softmax_masked::ROWS,
    batch::ROWS,
];

/// The operators by IR name of every family.
pub const NODES: &[&[Node]] = &[
    activation::NODES,
    activation::MORE_NODES,
    activation_grad::NODES,
    arithmetic::NODES,
    attention::NODES,
    choosing::NODES,
    clamp::NODES,
    class_loss::NODES,
    compare::NODES,
    copying::NODES,
    creation::NODES,
    division::NODES,
    dropout::NODES,
    embedding::NODES,
    foreach::NODES,
    foreach::REDUCING_NODES,
    fused::NODES,
    gating::NODES,
    indexing::NODES,
    joining::NODES,
    matmul::NODES,
    padding::NODES,
    power::NODES,
    random::NODES,
    rotary::NODES,
    scattering::NODES,
    select::NODES,
    shaping::NODES,
    sorting::NODES,
    unary::NODES,
    unary::MORE_NODES,
    likelihood::NODES,
    loss::NODES,
    norm::NODES,
    norm_sum::NODES,
    reduction::REDUCTIONS,
    reduction::NODES,
    scan::NODES,
    slicing::NODES,
    softmax::NODES,
    softmax_masked::NODES,
    batch::NODES,
];
