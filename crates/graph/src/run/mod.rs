//! Runs of loaded graphs on streams: one task for a static graph, one for each node of a dynamic one.

pub mod dynamic;
pub mod memory;
pub mod named;
pub mod pass;
pub mod report;
pub mod static_run;
mod steps;
