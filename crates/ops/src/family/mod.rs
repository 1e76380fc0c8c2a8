//! The families of operators. A file each: functions that plan, then the rows that name them.

mod activation;
mod activation_grad;
mod arithmetic;
mod attention;
mod attention_packed;
mod avg_pool;
mod batch;
mod bordering;
mod choosing;
mod clamp;
mod class_loss;
mod compare;
mod convolution;
mod copying;
mod creation;
mod detection;
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
mod max_pool;
mod norm;
mod norm_adaptive;
mod norm_sum;
mod optimiser;
mod padding;
mod plain_pool;
mod power;
mod random;
pub mod reading;
pub mod reducing;
mod reduction;
mod repeating;
mod resampling;
mod rotary;
mod sampling;
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
mod sync_batch;
mod temporal;
mod unary;
mod unfolding;
mod unpool;
mod upsample;
pub mod value;
mod window;

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
    convolution::ROWS,
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
    unfolding::ROWS,
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
    avg_pool::ROWS,
    max_pool::ROWS,
    plain_pool::ROWS,
    unpool::ROWS,
    upsample::ROWS,
    bordering::ROWS,
    sync_batch::ROWS,
    sampling::ROWS,
    detection::ROWS,
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
    convolution::NODES,
    copying::NODES,
    creation::NODES,
    distances::NODES,
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
    unfolding::NODES,
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
    avg_pool::NODES,
    max_pool::NODES,
    plain_pool::NODES,
    upsample::NODES,
    bordering::NODES,
    sync_batch::NODES,
    sampling::NODES,
];
