//! The bytes by which ranks find their meeting point.

use crate::error::Result;
use std::net::SocketAddr;

/// Bytes of a root info.
pub const BYTES: usize = 4108;

/// Where ranks meet, the key that lets them in, and the communicator's identity. The program carries its bytes to all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootInfo {
    /// Where the meeting point listens.
    pub address: SocketAddr,
    /// Who has it may come in.
    pub key: u128,
    /// The communicator.
    pub identity: u128,
}

impl RootInfo {
    /// The bytes for the program.
    pub fn encode(&self) -> [u8; BYTES] {
        todo!()
    }

    /// Reads bytes of the program; what is no root info is code 1.
    pub fn decode(bytes: &[u8]) -> Result<RootInfo> {
        let _ = bytes;
        todo!()
    }
}
