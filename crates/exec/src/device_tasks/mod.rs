//! Tasks that a device does without an operator: copies of rows and described ones, fills with numbers, reductions,
//! random numbers, the overflow status.

mod bytes;
mod described;
mod fill;
mod overflow_status;
mod random;
mod reduction;
mod rows;

pub use bytes::{read_bytes, work, write_bytes};
pub use described::{DESCRIPTION_BYTES, Description, copy_described, copy_with_offsets};
pub use fill::{Fill, set_numbers};
pub use overflow_status::{STATUS_BYTES, clear_status, write_status};
pub use random::{Parameter, RandomKind, RandomNumbers, element_bytes};
pub use reduction::reduction;
pub use rows::Rows;
