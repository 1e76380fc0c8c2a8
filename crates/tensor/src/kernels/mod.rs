//! Kernels: pure functions on views of any stride. They know no devices, streams or operators; the threads
//! they spread over are a [`crate::parallel::Parallel`], and what they need beside their operands is handed in.

pub mod attention;
pub mod choose;
pub mod compare;
pub mod constant;
pub mod conv;
pub mod copy;
pub mod dropout;
pub mod element;
pub mod fold;
pub mod gather;
pub mod length;
mod lines;
pub mod loss;
pub mod map;
pub mod math;
pub mod matmul;
pub mod multinomial;
pub mod norm;
pub mod number;
pub mod order;
pub mod over;
pub mod peek;
pub mod philox;
pub mod place;
pub mod random;
pub mod reduce;
pub mod renorm;
pub mod scan;
pub mod scatter;
pub mod sequence;
pub mod softmax;
pub mod sort;
pub mod strip;
mod transpose;
pub mod unique;
pub mod walk;
