//! The record of a run: everything that happened in one process, as entries of a file.
//!
//! ```text
//!  runtime/src/record/recorder.rs                    check, cli
//!  Entry ── encode ──> segments, one chain a thread ── Reader, Follower ──> entries in the order of time
//! ```
//!
//! The crate knows the types of entries, their bytes ([`encode`], [`decode`]), the file around them ([`layout`]) and how
//! a file is read, when it is complete ([`reader`]) and while it is written ([`follow`]). It knows nothing of the engine, and touches no memory of anybody.

#![forbid(unsafe_code)]

pub mod access;
mod chain;
pub mod decode;
pub mod encode;
pub mod entry;
pub mod follow;
pub mod layout;
pub mod name;
pub mod ranges;
pub mod reader;
pub mod trace;
mod wire;

pub use access::{Access, Mode, Overlap};
pub use entry::{Entry, Happening, Site};
pub use follow::Follower;
pub use name::Name;
pub use reader::{ReadError, Reader};

pub use cairn_pool::clock::{Clock, Epoch, StreamIndex};
