//! The graph engine: graphs, their compilation, and sessions that run them on streams, in memory of whoever
//! registered an allocator there.
//!
//! `ir/` is the graph as its author wrote it, `model/` reads and writes it, `compile/` turns it into steps
//! with a plan of their memory, `executable/` is the interface to that: compile, load, run. `run/` has the runs
//! themselves, and `session/` keeps graphs by id over executables. `custom.rs` is what the engine knows of operators that the
//! program registers.

#![forbid(unsafe_code)]

mod compile;
pub mod custom;
pub mod executable;
mod failure;
mod files;
pub mod ir;
pub mod model;
pub mod offline;
pub mod onnx;
mod protobuf;
mod run;
pub mod session;

pub use compile::infer_operator;
pub use failure::{Failure, Result, Status};
pub use files::open_file;
