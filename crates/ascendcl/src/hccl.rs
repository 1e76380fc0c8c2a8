//! HCCL: communicators of ranks and their operators, translated to `cairn-comm`.
//!
//! A file per group of functions. `door` says how a call enters and leaves; `process` has the one table of communicators.

mod communicators;
mod config;
mod door;
mod engine;
mod groups;
mod hcom;
mod memory_ranges;
mod operators;
mod process;
mod queries;
mod settings;
mod state;
mod windows;
