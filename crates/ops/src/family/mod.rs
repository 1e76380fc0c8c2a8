//! The families of operators. A file each: functions that plan, then the rows that name them.

mod activation;
mod activation_grad;
mod agreement;
mod arithmetic;
mod attention;
mod avg_pool;
mod batch;
mod batch_matmul;
mod batch_update;
mod box_coding;
mod cache;
mod cached_conv;
mod causal_conv;
mod chunking;
mod clamp;
mod class_loss;
mod class_suppression;
mod clipped;
mod coalescing;
mod collective;
mod compare;
mod complex;
mod convolution;
mod coordinates;
mod copying;
mod creation;
mod delta_rule;
mod detection;
mod distances;
mod distinct;
mod division;
mod dropout;
mod dropout_softmax;
mod edge_padding;
pub mod elementwise;
mod embedding;
mod embedding_bag;
mod float_status;
mod foreach;
mod formula;
mod fourier;
mod fused;
mod fused_matmul;
mod gating;
mod indexing;
pub mod inputs;
mod instance_norm;
mod joining;
mod likelihood;
mod linalg;
mod local_norm;
mod loss;
mod masking;
mod matmul;
mod max_pool;
mod moe;
mod norm;
mod norm_adaptive;
mod norm_rope_concat;
mod norm_shape;
mod norm_sum;
mod nsa_compress;
mod nucleus;
mod optimiser;
mod padding;
mod plain_pool;
mod pool_nd;
mod power;
mod prelu;
mod random;
mod recurrent;
mod reduction;
mod reduction_complex;
pub mod reduction_plan;
mod refused;
mod repeating;
mod resampling;
pub mod reshaped;
mod resize;
mod reversing;
mod roi_pooling;
mod rotary;
mod sampling;
mod scaling;
mod scan;
mod scatter_list;
mod scatter_mean;
mod scattering;
mod select;
mod selected_attention;
mod several;
mod shaping;
mod slicing;
mod softmax;
mod softmax_masked;
mod sorting;
mod spectrum;
mod suppression;
mod suppression_marks;
mod sync_batch;
mod temporal;
mod unary;
mod unfolding;
mod unpool;
mod unsigned;
mod upsample;
pub mod value;
mod viewing;
mod vocabulary;
mod window;

use crate::table::{Node, Row};

pub use shaping::COPY;

/// The rows of every family.
pub const ROWS: &[&[Row]] = &[
    collective::ROWS[0],
    collective::ROWS[1],
    collective::ROWS[2],
    activation::ROWS,
    activation_grad::ROWS,
    arithmetic::ROWS,
    attention::ROWS,
    attention::MERGING_ROWS,
    attention::INFERENCE_ROWS,
    cache::gather::ROWS,
    cache::latent::ROWS,
    cache::norm_rope::ROWS,
    cache::positions::ROWS,
    cache::scatter::ROWS,
    masking::ROWS,
    causal_conv::ROWS,
    chunking::ROWS,
    batch_matmul::ROWS,
    clamp::ROWS,
    class_loss::ROWS,
    prelu::ROWS,
    temporal::ROWS,
    clipped::ROWS,
    coalescing::ROWS,
    compare::ROWS,
    complex::ROWS,
    convolution::ROWS,
    copying::ROWS,
    creation::ROWS,
    division::ROWS,
    distances::ROWS,
    dropout::ROWS,
    several::ROWS,
    embedding::ROWS,
    embedding_bag::ROWS,
    foreach::ROWS,
    fourier::ROWS,
    fused::ROWS,
    fused_matmul::ROWS,
    gating::ROWS,
    indexing::ROWS,
    joining::ROWS,
    matmul::ROWS,
    moe::ROWS[0],
    moe::ROWS[1],
    moe::ROWS[2],
    moe::ROWS[3],
    moe::ROWS[4],
    moe::ROWS[5],
    moe::ROWS[6],
    moe::ROWS[7],
    moe::ROWS[8],
    moe::ROWS[9],
    cached_conv::ROWS,
    delta_rule::ROWS,
    nsa_compress::ROWS,
    selected_attention::ROWS,
    nucleus::ROWS,
    optimiser::ROWS,
    padding::ROWS,
    power::ROWS,
    random::ROWS,
    repeating::ROWS,
    rotary::ROWS,
    scaling::ROWS,
    scatter_list::ROWS,
    scattering::ROWS,
    select::ROWS,
    shaping::ROWS,
    sorting::ROWS,
    unary::ROWS,
    unfolding::ROWS,
    unary::MORE,
    likelihood::ROWS,
    linalg::ROWS,
    loss::ROWS,
    norm::ROWS,
    norm_adaptive::ROWS,
    norm_rope_concat::ROWS,
    norm_sum::ROWS,
    reduction::ROWS,
    refused::ROWS,
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
    edge_padding::ROWS,
    sync_batch::ROWS,
    sampling::ROWS,
    detection::ROWS,
    recurrent::ROWS[0],
    recurrent::ROWS[1],
    vocabulary::ROWS,
];

/// The operators by IR name of every family.
pub const NODES: &[&[Node]] = &[
    collective::NODES[0],
    collective::NODES[1],
    collective::NODES[2],
    activation::NODES,
    activation::MORE_NODES,
    activation_grad::NODES,
    arithmetic::NODES,
    attention::NODES,
    attention::MERGING_NODES,
    attention::INFERENCE_NODES,
    cache::latent::NODES,
    cache::norm_rope::NODES,
    cache::scatter::NODES,
    masking::NODES,
    causal_conv::NODES,
    clamp::NODES,
    class_loss::NODES,
    clipped::NODES,
    compare::NODES,
    compare::MORE_NODES,
    complex::NODES,
    convolution::NODES,
    convolution::SIZED_NODES,
    convolution::DEPTHWISE_NODES,
    coordinates::NODES,
    copying::NODES,
    creation::NODES,
    distances::NODES,
    distinct::NODES,
    division::NODES,
    dropout::NODES,
    embedding::NODES,
    embedding_bag::NODES,
    foreach::NODES,
    foreach::REDUCING_NODES,
    fourier::NODES,
    fused::NODES,
    fused_matmul::NODES,
    gating::NODES,
    indexing::NODES,
    joining::NODES,
    linalg::NODES,
    matmul::NODES,
    moe::NODES[0],
    moe::NODES[1],
    moe::NODES[2],
    moe::NODES[3],
    moe::NODES[4],
    moe::NODES[5],
    moe::NODES[6],
    cached_conv::NODES,
    delta_rule::NODES,
    padding::NODES,
    power::NODES,
    random::NODES,
    resize::NODES,
    reversing::NODES,
    rotary::NODES,
    scatter_list::NODES,
    scattering::NODES,
    prelu::NODES,
    select::NODES,
    selected_attention::NODES,
    shaping::NODES,
    sorting::NODES,
    spectrum::NODES,
    unary::NODES,
    unfolding::NODES,
    unary::MORE_NODES,
    likelihood::NODES,
    local_norm::NODES,
    loss::NODES,
    norm::NODES,
    norm_sum::NODES,
    optimiser::NODES,
    temporal::NODES,
    box_coding::NODES,
    dropout_softmax::NODES,
    float_status::NODES,
    several::NODES,
    reduction::REDUCTIONS,
    reduction::NODES,
    scan::NODES,
    slicing::NODES,
    softmax::NODES,
    softmax_masked::NODES,
    batch::NODES,
    batch_matmul::NODES,
    instance_norm::NODES,
    class_suppression::NODES,
    roi_pooling::NODES,
    suppression::NODES,
    suppression_marks::NODES,
    agreement::NODES,
    avg_pool::NODES,
    max_pool::NODES,
    plain_pool::NODES,
    pool_nd::NODES,
    upsample::NODES,
    viewing::NODES,
    edge_padding::NODES,
    sync_batch::NODES,
    batch_update::NODES,
    sampling::NODES,
    detection::NODES,
    recurrent::NODES[0],
    recurrent::NODES[1],
];
