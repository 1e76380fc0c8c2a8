//! How the ranks of a communicator find each other.
//!
//! ```text
//!  root:  Server::open ──> RootInfo (4108 bytes, carried by the program to all ranks)
//!  ranks: Client::join ──> the server waits for all, checks them, answers each with the roster
//!         Client is then the engine's store, and where ranks leave the reason of a failure
//! ```
//!
//! Only holders of the key get in. What comes from the network is parsed in [`wire`], a pure function over bytes.

/// The key under which the first rank that fails leaves the reason.
pub(crate) const REASON: &str = "reason";

pub mod address;
pub mod client;
pub mod root_info;
pub mod roster;
pub mod server;
pub mod wire;
