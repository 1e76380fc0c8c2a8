//! What a tensor is made of: the types of its elements, the formats of its memory by the numbers that CANN
//! gives them, where its elements are, and the kernels that compute on them. Knows nothing of devices and
//! streams.
//!
//! `unsafe` is used in `view` and `kernels` alone.

#![deny(unsafe_code)]

mod dtype;
mod float16;
mod format;
#[allow(unsafe_code)]
pub mod kernels;
mod layout;
mod overlap;
pub mod parallel;
mod promote;
mod scalar;
#[allow(unsafe_code)]
mod view;

pub use dtype::DType;
pub use float16::{f16_to_f32, f32_to_f16};
pub use format::{Format, Reorder};
pub use layout::{DimArray, Dims, Layout, MAX_DIMS, Strides, broadcast, contiguous_strides};
pub use promote::promote;
pub use scalar::Scalar;
pub use view::{Shared, View, ViewMut};
