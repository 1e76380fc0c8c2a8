//! A converter for each operator of ONNX, by family.

mod attention;
mod columns;
mod convolution;
mod creation;
mod einsum;
mod elementwise;
mod expression;
mod image;
mod indexing;
mod linear_attention;
mod loss;
mod matrix;
mod mel;
mod ngrams;
mod normalization;
mod pooling;
mod quantization;
mod random;
mod recurrent;
mod reducing;
mod resize;
mod shaping;
mod signal;
mod single;
mod transform;
mod window;

use super::conversion::Convert;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Operators of ONNX's own domain with their converters.
type Converters = &'static [(&'static str, Convert)];

const FAMILIES: &[Converters] = &[
    attention::CONVERTERS,
    columns::CONVERTERS,
    convolution::CONVERTERS,
    creation::CONVERTERS,
    einsum::CONVERTERS,
    elementwise::CONVERTERS,
    image::CONVERTERS,
    indexing::CONVERTERS,
    linear_attention::CONVERTERS,
    loss::CONVERTERS,
    matrix::CONVERTERS,
    mel::CONVERTERS,
    ngrams::CONVERTERS,
    normalization::CONVERTERS,
    pooling::CONVERTERS,
    quantization::CONVERTERS,
    random::CONVERTERS,
    recurrent::CONVERTERS,
    reducing::CONVERTERS,
    resize::CONVERTERS,
    shaping::CONVERTERS,
    signal::CONVERTERS,
    single::CONVERTERS,
];

/// The converter of an operator; `None` if it is not supported.
pub fn find(domain: &str, operator: &str) -> Option<Convert> {
    static TABLE: OnceLock<HashMap<&str, Convert>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        FAMILIES.iter().flat_map(|family| family.iter().copied()).collect::<HashMap<_, _>>()
    });
    table.get(operator).copied().filter(|_| domain.is_empty())
}
