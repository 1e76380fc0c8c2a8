//! The test bench of pools: what `cairn replay` and `cairn pooltest` have in common.
//!
//! ```text
//!  parent                                  child: `cairn pool-bench`, in the toolkit's environment
//!  spec.rs    which allocator              loader/   the user's library, and ACL: the only unsafe code of this crate
//!  child.rs   starts it, limits its time   pool.rs   streams, blocks, one interface for every kind of allocator
//!             <── result file, record ──   job.rs    what is done there
//! ```
//!
//! A user's library runs only in children: whatever it does there is reported, and ends nobody else.

pub mod child;
pub mod job;
#[allow(unsafe_code)]
mod loader;
pub mod pool;
pub mod ranges;
pub mod spec;
pub mod step_bar;
