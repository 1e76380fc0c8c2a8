//! Compiled graphs on streams.

pub mod dynamic;
pub mod memory;
pub mod pass;
