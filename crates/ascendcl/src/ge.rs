//! The private C interface under the C++ classes of the graph engine (`cpp/bridge.h`).
//!
//! A file per group of functions; `door` says how a call enters and leaves; `abi` is generated from the
//! header and pins every definition to its declaration.

#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub(crate) mod abi;
mod allocator;
mod build;
mod custom;
mod declarations;
mod door;
mod engine;
mod graph;
mod names;
mod node;
mod operator;
mod run;
mod summary;
mod value;
