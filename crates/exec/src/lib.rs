//! One operator on one stream: bound to its arguments, given its workspace, submitted, and waited for where its
//! sizes depend on values. The doors for single operators and the graph engine use it alike.

#![forbid(unsafe_code)]

mod accesses;
mod by_name;
pub mod device_tasks;
mod execution;
mod groups;
mod host_input;
mod outcome;
mod refusal;
mod target;

pub use accesses::{access, mode};
pub use by_name::{NamedCall, NamedOutput, Shapes, check_buffer};
pub use execution::{Execution, SizesCallback, Workers, overflow};
pub use groups::{Groups, TaskTurns, Turns};
pub use host_input::{HostInput, upload};
pub use outcome::{DecidedSizes, Outcome};
pub use refusal::{CallKind, refusal};
pub use target::Target;
