//! Collective communication: communicators, how their ranks meet, and every operator of HCCL as one task of a stream.
//!
//! ```text
//!  door ──> Communicators (one a process) ──> Communicator (one rank of one group)
//!              │ root info, rank table            │ submit(stream, operator)
//!              v                                  v
//!           meeting/ (key-value server, roster)   one task ──> algorithms/ ──> engine::Mesh (moves bytes)
//! ```
//!
//! The engine knows ranks and bytes only; algorithms, reductions, tickets and failures are here. Knows nothing of C.
//! Start reading at [`Communicators`], then [`Communicator`], then [`operator`].

#![deny(unsafe_code)]

mod algorithms;
pub mod code;
pub mod communicator;
pub mod config;
pub mod data_type;
pub mod engine;
pub mod environment;
pub mod error;
pub mod group;
mod header;
mod links;
pub mod meeting;
pub mod operator;
mod plan;
pub mod rank_table;
pub mod reduction;
pub mod table;

pub use code::Code;
pub use communicator::Communicator;
pub use config::CommConfig;
pub use data_type::DataType;
pub use environment::Environment;
pub use error::{Error, Result};
pub use meeting::root_info::RootInfo;
pub use operator::{BatchItem, Operator};
pub use reduction::Reduction;
pub use table::Communicators;
