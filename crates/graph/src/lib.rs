//! The graph engine: graphs, their compilation, and sessions that run them on streams, in memory of whoever
//! registered an allocator there.
//!
//! `ir/` is the graph as its author wrote it, `model/` reads and writes it, `compile/` turns it into steps
//! with a plan of their memory, `run/` runs them on a stream, `session/` keeps graphs by id.

#![forbid(unsafe_code)]

pub mod compile;
pub mod ir;
pub mod model;
