//! Runs of loaded graphs on streams: one task for a static graph, one for each node of a dynamic one.

pub mod dynamic;
pub mod graph_kernel;
pub mod memory;
pub mod pass;
pub mod report;
pub mod static_run;
mod steps;
pub mod upload;
