//! One operator on one stream: bound to its arguments, given its workspace, submitted. The doors for single
//! operators and the graph engine use it alike.

#![forbid(unsafe_code)]

mod accesses;
mod execution;
mod host_input;
mod refusal;

pub use accesses::{access, mode};
pub use execution::{Execution, Sized, Workers};
pub use host_input::{HostInput, Upload};
pub use refusal::{Door, refusal};
