//! From a graph to steps with a plan of their memory.

pub mod arena;
