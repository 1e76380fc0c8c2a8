//! Tasks that a device does without an operator: copies of rows and described ones, fills with numbers, reductions,
//! random numbers.

mod bytes;
mod described;
mod fill;
mod random;
mod reduction;
mod rows;

pub use bytes::{read_bytes, work, write_bytes};
pub use described::{DESCRIPTION_BYTES, Description, copy_described, copy_with_offsets};
pub use fill::{Fill, set_numbers};
pub use random::{Parameter, RandomNumbers, Shape, element_bytes};
pub use reduction::reduction;
pub use rows::Rows;
