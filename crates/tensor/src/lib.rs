//! What a tensor is made of: the types of its elements and the formats of its memory, by the
//! numbers that CANN gives them. Knows nothing of devices and streams.

#![forbid(unsafe_code)]

mod dtype;
mod float16;
mod format;

pub use dtype::DType;
pub use float16::{f16_to_f32, f32_to_f16};
pub use format::{Format, Reorder};
