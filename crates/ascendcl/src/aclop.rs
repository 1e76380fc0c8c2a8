//! aclop: operators by name, on descriptions and buffers.
//!
//! ```text
//! name, descriptions, buffers, attributes ──> Call (call.rs) ──> cairn_exec::NamedCall
//! ```
//!
//! Everything is copied in the call: the user may destroy descriptions, buffers and attributes at once.

mod attribute;
mod call;
mod execute;
mod handle;
mod model;
mod operand;
