//! Which address of this host ranks use, and which host it is.

use crate::Code;
use crate::environment::{Environment, InterfaceFilter};
use crate::error::{Error, Result};
use crate::header::wide_hash;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send,
    socket_with,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of an interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface.
    pub name: String,
    /// The address.
    pub address: IpAddr,
}

/// The address that ranks of this process listen on: `HCCL_IF_IP`, else one of the interfaces of `HCCL_SOCKET_IFNAME`, else
/// that of loopback.
pub fn choose(environment: &Environment) -> Result<IpAddr> {
    if let Some(address) = environment.address {
        return Ok(address);
    }
    let Some(filter) = &environment.interfaces else {
        return Ok(match environment.ipv6 {
            true => IpAddr::V6(Ipv6Addr::LOCALHOST),
            false => IpAddr::V4(Ipv4Addr::LOCALHOST),
        });
    };
    let all = interface_addresses()?;
    select(&all, filter, environment.ipv6).ok_or_else(|| {
        let mut names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        names.dedup();
        let family = if environment.ipv6 { "AF_INET6" } else { "AF_INET" };
        Error::new(
            Code::NotFound,
            format!(
                "HCCL_SOCKET_IFNAME={filter} names no interface with an address of {family}; there are {}",
                names.join(", ")
            ),
        )
    })
}

/// The first address that the filter allows: by names, but `docker` and `lo` last.
fn select(all: &[InterfaceAddress], filter: &InterfaceFilter, ipv6: bool) -> Option<IpAddr> {
    let order = |name: &str| match name {
        "lo" => 2,
        _ if name.starts_with("docker") => 1,
        _ => 0,
    };
    let mut allowed: Vec<&InterfaceAddress> = all
        .iter()
        .filter(|one| one.address.is_ipv6() == ipv6 && filter.allows(&one.name))
        .collect();
    allowed.sort_by_key(|one| (order(&one.name), one.name.clone()));
    allowed.first().map(|one| one.address)
}

/// The addresses of all interfaces, as the kernel tells them.
fn interface_addresses() -> Result<Vec<InterfaceAddress>> {
    let failed = |error: rustix::io::Errno| {
        Error::new(
            Code::SystemCall,
            format!("the interfaces of this host cannot be listed: {error}"),
        )
    };
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(failed)?;
    let mut request = [0u8; 24];
    request[..4].copy_from_slice(&24u32.to_ne_bytes());
    request[4..6].copy_from_slice(&GET_ADDRESSES.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_ALL.to_ne_bytes());
    send(&socket, &request, SendFlags::empty()).map_err(failed)?;
    let mut found = Vec::new();
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let (count, _) = recv(&socket, &mut buffer[..], RecvFlags::empty()).map_err(failed)?;
        let is_last = parse_addresses(&buffer[..count], &mut |index, address| {
            if let Ok(name) = netdevice::index_to_name(&socket, index) {
                found.push(InterfaceAddress { name, address });
            }
        });
        if is_last || count == 0 {
            return Ok(found);
        }
    }
}

const GET_ADDRESSES: u16 = 22;
const NEW_ADDRESS: u16 = 20;
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// A request, for all entries.
const REQUEST_ALL: u16 = 0x301;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const SCOPE_LINK: u8 = 253;

/// Reads an answer of the kernel: interfaces by number and their addresses, but those of a single link. True if it is the
/// last.
fn parse_addresses(mut bytes: &[u8], report: &mut dyn FnMut(u32, IpAddr)) -> bool {
    let u16_at = |bytes: &[u8], at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    while bytes.len() >= 16 {
        let length = u32::from_ne_bytes(bytes[..4].try_into().expect("4 bytes")) as usize;
        if length < 16 || length > bytes.len() {
            return true;
        }
        let (message, kind) = (&bytes[16..length], u16_at(bytes, 4));
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        match kind {
            DONE | ERROR => return true,
            NEW_ADDRESS if message.len() >= 8 && message[3] != SCOPE_LINK => {
                let index = u32::from_ne_bytes(message[4..8].try_into().expect("4 bytes"));
                let (mut attributes, mut best) = (&message[8..], None);
                while attributes.len() >= 4 {
                    let (length, kind) = (u16_at(attributes, 0) as usize, u16_at(attributes, 2));
                    if length < 4 || length > attributes.len() {
                        break;
                    }
                    let address = parse_ip(&attributes[4..length]);
                    if kind == LOCAL || (kind == ADDRESS && best.is_none()) {
                        best = address.or(best);
                    }
                    attributes = &attributes[length.next_multiple_of(4).min(attributes.len())..];
                }
                if let Some(address) = best {
                    report(index, address);
                }
            }
            _ => {}
        }
    }
    false
}

fn parse_ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// The identity of this host, as far as shared memory goes: its boot and its network namespace.
pub fn host_identity() -> u128 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let mut bytes = boot;
    bytes.extend(namespace.as_os_str().as_encoded_bytes());
    wide_hash(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, address: &str) -> InterfaceAddress {
        InterfaceAddress { name: name.into(), address: address.parse().unwrap() }
    }

    #[test]
    fn interfaces_are_chosen_by_name() {
        let all = [
            at("docker0", "172.17.0.1"),
            at("lo", "127.0.0.1"),
            at("lo", "::1"),
            at("eth1", "10.0.0.2"),
            at("eth0", "10.0.0.1"),
            at("eth0", "fd00::1"),
        ];
        let chosen = |text: &str, ipv6| {
            let filter = InterfaceFilter::parse(text).unwrap();
            select(&all, &filter, ipv6).map(|address| address.to_string()).unwrap_or_default()
        };
        assert_eq!(chosen("eth", false), "10.0.0.1");
        assert_eq!(chosen("=eth1", false), "10.0.0.2");
        assert_eq!(chosen("^eth", false), "172.17.0.1");
        assert_eq!(chosen("^eth,docker", false), "127.0.0.1");
        assert_eq!(chosen("^=eth0", false), "10.0.0.2");
        assert_eq!(chosen("eth", true), "fd00::1");
        assert_eq!(chosen("wlan", false), "");
    }

    #[test]
    fn this_host_has_loopback() {
        let all = interface_addresses().unwrap();
        assert!(all.contains(&at("lo", "127.0.0.1")), "{all:?}");
    }

    #[test]
    fn damaged_answers_of_the_kernel_do_not_panic() {
        let message: Vec<u8> = (0..64).map(|n| (n * 37) as u8).collect();
        for length in 0..64u32 {
            let mut bytes = message.clone();
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes[4..6].copy_from_slice(&NEW_ADDRESS.to_ne_bytes());
            parse_addresses(&bytes, &mut |_, _| ());
        }
    }
}
