//! The environment of the library: every `HCCL_*` variable, read once.

use crate::config::ExecTimeout;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How reductions are ordered. Cairn's are deterministic in every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Determinism {
    /// Whatever is fastest.
    Off = 0,
    /// Equal bits in every run.
    On = 1,
    /// In rank order.
    Strict = 2,
}

impl Determinism {
    /// The mode with this number of `HcclConfigValue`.
    pub fn from_number(number: i32) -> Option<Determinism> {
        match number {
            0 => Some(Determinism::Off),
            1 => Some(Determinism::On),
            2 => Some(Determinism::Strict),
            _ => None,
        }
    }
}

/// Which interfaces `HCCL_SOCKET_IFNAME` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceFilter {
    /// Names, or the beginnings of names.
    pub names: Vec<String>,
    /// Whether a name has to be equal.
    pub exact: bool,
    /// Whether all others are meant.
    pub excluded: bool,
}

/// The settings of the process. Values that cannot be used are reported by a warning, and the default holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// `HCCL_CONNECT_TIMEOUT`.
    pub connect_timeout: Duration,
    /// `HCCL_EXEC_TIMEOUT`.
    pub exec_timeout: ExecTimeout,
    /// `HCCL_IF_IP`.
    pub address: Option<IpAddr>,
    /// `HCCL_SOCKET_IFNAME`.
    pub interfaces: Option<InterfaceFilter>,
    /// `HCCL_SOCKET_FAMILY` is AF_INET6.
    pub ipv6: bool,
    /// `HCCL_HOST_SOCKET_PORT_RANGE`, or the 32 ports from `HCCL_IF_BASE_PORT` on; empty: any port.
    pub ports: Vec<RangeInclusive<u16>>,
    /// The addresses of `HCCL_WHITELIST_FILE`, where `HCCL_WHITELIST_DISABLE` is 0.
    pub whitelist: Option<Vec<IpAddr>>,
    /// `HCCL_BUFFSIZE`, in bytes.
    pub buffer_bytes: u64,
    /// `HCCL_DETERMINISTIC`, where it is set.
    pub determinism: Option<Determinism>,
    /// `HCCL_ENTRY_LOG_ENABLE`.
    pub entry_log: bool,
}

impl Environment {
    /// Reads the environment of the process.
    pub fn read() -> Environment {
        Environment::from_variables(&|name| std::env::var(name).ok())
    }

    /// The same from any source of variables.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Environment {
        let _ = variable;
        todo!()
    }
}
