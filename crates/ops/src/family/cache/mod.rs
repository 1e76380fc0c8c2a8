//! Caches of keys and values: rows of tokens put into blocks, taken from them, and made on the way there.
//!
//! Workspace: a few lines of features for each worker, where rows are computed.

pub mod gather;
pub mod latent;
pub mod norm_rope;
mod pages;
pub mod positions;
pub mod scatter;
