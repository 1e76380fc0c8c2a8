//! Locks with ranks, and the one switch between the machine's threads and those of a model.

#[cfg(not(feature = "shuttle"))]
mod light;
pub mod lock;
pub mod sync;
