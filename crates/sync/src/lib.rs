//! Locks with ranks, and the one switch between the machine's threads and those of a model.

pub mod lock;
pub mod sync;
