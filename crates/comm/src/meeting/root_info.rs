//! The bytes by which ranks find their meeting point.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a root info.
pub const BYTES: usize = 4108;

/// The first bytes of every root info, with its version.
const MAGIC: &[u8; 8] = b"cairnri1";

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

/// A number that nobody can guess.
pub fn random() -> Result<u128> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| {
        Error::new(crate::Code::SystemCall, format!("no random bytes from /dev/urandom: {error}"))
    })?;
    Ok(u128::from_le_bytes(bytes))
}

impl RootInfo {
    /// The bytes for the program.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        let (family, address) = match self.address.ip() {
            IpAddr::V4(address) => (4, address.to_ipv6_mapped()),
            IpAddr::V6(address) => (6, address),
        };
        bytes[8] = family;
        bytes[10..12].copy_from_slice(&self.address.port().to_le_bytes());
        bytes[12..28].copy_from_slice(&address.octets());
        bytes[28..44].copy_from_slice(&self.key.to_le_bytes());
        bytes[44..60].copy_from_slice(&self.identity.to_le_bytes());
        bytes
    }

    /// Reads bytes of the program; what is no root info is code 1.
    pub fn decode(bytes: &[u8]) -> Result<RootInfo> {
        let wrong = |text: &str| Err(Error::parameter(format!("the root info {text}")));
        if bytes.len() < BYTES {
            return wrong(&format!("has {} bytes, not {BYTES}", bytes.len()));
        }
        if bytes[..8] != *MAGIC {
            return wrong("does not come from HcclGetRootInfo of this library");
        }
        let octets: [u8; 16] = bytes[12..28].try_into().expect("16 bytes");
        let address = Ipv6Addr::from(octets);
        let address = match (bytes[8], address.to_ipv4_mapped()) {
            (4, Some(address)) => IpAddr::V4(address),
            (6, _) => IpAddr::V6(address),
            _ => return wrong("has no address"),
        };
        let port = u16::from_le_bytes([bytes[10], bytes[11]]);
        if port == 0 || address.is_unspecified() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return wrong(&format!("has the address {address} and the port {port}"));
        }
        let number =
            |at: usize| u128::from_le_bytes(bytes[at..at + 16].try_into().expect("16 bytes"));
        Ok(RootInfo {
            address: SocketAddr::new(address, port),
            key: number(28),
            identity: number(44),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_info_comes_back() {
        for address in ["127.0.0.1:60000", "[::1]:1", "10.2.3.4:65535", "[fe80::1]:9"] {
            let info = RootInfo {
                address: address.parse().unwrap(),
                key: random().unwrap(),
                identity: random().unwrap(),
            };
            assert_eq!(RootInfo::decode(&info.encode()).unwrap(), info);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let info = RootInfo { address: "127.0.0.1:60000".parse().unwrap(), key: 1, identity: 2 };
        let bytes = info.encode();
        assert!(RootInfo::decode(&bytes[..BYTES - 1]).is_err());
        assert!(RootInfo::decode(&[0; BYTES]).is_err());
        for (at, value) in [(0, 7), (8, 5), (12, 1)] {
            let mut damaged = bytes;
            damaged[at] = value;
            assert!(RootInfo::decode(&damaged).is_err(), "{at}");
        }
        let mut no_port = bytes;
        no_port[10..12].fill(0);
        assert!(RootInfo::decode(&no_port).unwrap_err().text.contains("port 0"));
    }
}
