//! Graphs without a session: compiled, loaded, run.
//!
//! ```text
//! Executable::compile(graph, label, options)     plan and constants; no memory of a device
//!     .load(target, options) -> LoadedExecutable const memory, and a static graph's fixed and feature memory
//!         .run(target, inputs, outputs)          everything is submitted when it returns
//! ```
//!
//! A [`Target`](cairn_exec::Target) is a stream with an allocator: what is registered there in the ACL or the GE
//! domain, the pool of the device, or one of the caller's choice. A load takes what stays until the unload from its
//! target, a run what it needs besides. A [`Failure`](crate::Failure) has the codes of both domains.
//!
//! Sessions are ids, options, variables and callbacks over this.

mod compile;
mod load;
mod run;
mod tensor;

pub use crate::compile::constants::{ConstantLayout, PlacedConstant};
pub use crate::run::memory::{CallersRange, CallersUse};
pub use compile::{CompileOptions, Executable, Kind};
pub use load::{Bases, FixedBase, LoadOptions, LoadedExecutable};
pub(crate) use load::{LastFeature, order_after};
pub(crate) use run::{check_output, check_outputs, shares_input};
pub use tensor::{OutputMemory, RunInput, RunOutput, RunTensor};
