//! Compiled graphs on streams.

pub mod dynamic;
pub mod memory;
pub mod named;
pub mod pass;
mod steps;
