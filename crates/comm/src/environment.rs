//! The environment of the library: every `HCCL_*` variable, read once.

use crate::config::ExecTimeout;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How reductions are ordered. Cairn's are in rank order in every mode.
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

impl InterfaceFilter {
    /// Reads `eth`, `^eth`, `=eth0` or `^=eth0`, with commas between names.
    pub fn parse(text: &str) -> Option<InterfaceFilter> {
        let rest = text.strip_prefix('^');
        let (excluded, rest) = (rest.is_some(), rest.unwrap_or(text));
        let plain = rest.strip_prefix('=');
        let (exact, plain) = (plain.is_some(), plain.unwrap_or(rest));
        let names: Vec<String> = plain.split(',').map(|name| name.trim().to_string()).collect();
        let is_name = |name: &String| {
            !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "^=/".contains(c))
        };
        names.iter().all(is_name).then_some(InterfaceFilter { names, exact, excluded })
    }

    /// Whether it allows an interface.
    pub fn allows(&self, interface: &str) -> bool {
        let is_meant = |name: &String| match self.exact {
            true => interface == name,
            false => interface.starts_with(name.as_str()),
        };
        self.names.iter().any(is_meant) != self.excluded
    }
}

impl fmt::Display for InterfaceFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |set, sign| if set { sign } else { "" };
        let (excluded, exact) = (sign(self.excluded, "^"), sign(self.exact, "="));
        write!(f, "{excluded}{exact}{}", self.names.join(","))
    }
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
    /// `HCCL_IF_BASE_PORT`.
    pub base_port: u16,
    /// The addresses of `HCCL_WHITELIST_FILE`, where `HCCL_WHITELIST_DISABLE` is 0.
    pub whitelist: Option<Vec<IpAddr>>,
    /// `HCCL_BUFFSIZE`, in bytes.
    pub buffer_bytes: u64,
    /// `HCCL_DETERMINISTIC`, where it is set.
    pub determinism: Option<Determinism>,
    /// `HCCL_ENTRY_LOG_ENABLE`.
    pub entry_log: bool,
    /// `CAIRN_COMM_TRANSPORT` is tcp: ranks of one host do not share memory. To be set for all ranks.
    pub tcp_only: bool,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment {
            connect_timeout: Duration::from_secs(120),
            exec_timeout: ExecTimeout::from_seconds(1836),
            address: None,
            interfaces: None,
            ipv6: false,
            ports: Vec::new(),
            base_port: BASE_PORT,
            whitelist: None,
            buffer_bytes: 200 << 20,
            determinism: None,
            entry_log: false,
            tcp_only: false,
        }
    }
}

/// The default of `HCCL_IF_BASE_PORT`.
const BASE_PORT: u16 = 60000;
/// How many ports there are from that one on.
pub const BASE_PORTS: u16 = 32;

/// Reads variables, and collects what is wrong with them.
struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// A variable as `parse` reads it; `None` where it is not set, is empty, or cannot be used.
    fn read<T>(
        &mut self,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = (self.variable)(name).filter(|text| !text.trim().is_empty())?;
        let value = parse(text.trim());
        if value.is_none() {
            self.warnings.push(format!("{name}={text} is ignored: expected {expected}"));
        }
        value
    }
}

/// A number inside a range.
fn number<T: std::str::FromStr + PartialOrd>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Option<T> {
    move |text| text.parse().ok().filter(|number| range.contains(number))
}

/// One of some words.
fn word<T: Copy>(words: &[(&'static str, T)]) -> impl Fn(&str) -> Option<T> {
    move |text| {
        words.iter().find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|(_, value)| *value)
    }
}

/// `50000,50010-50020`, or `auto` for any.
fn port_list(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    if text == "auto" {
        return Some(Vec::new());
    }
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (1 <= first && first <= last).then_some(first..=last)
    };
    text.split(',').map(range).collect()
}

/// The addresses of a whitelist file: `{"host_ip": ["10.0.0.1", ..], ..}`.
fn whitelist(path: &str) -> Result<Vec<IpAddr>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("is no JSON: {error}"))?;
    let list = json.get("host_ip").and_then(|list| list.as_array()).ok_or("has no list host_ip")?;
    let address = |value: &serde_json::Value| {
        let address = value.as_str().and_then(|text| text.trim().parse().ok());
        address.ok_or_else(|| format!("has the address {value}, which is none"))
    };
    list.iter().map(address).collect()
}

impl Environment {
    /// Reads the environment of the process; what cannot be used is logged.
    pub fn read() -> Environment {
        let (environment, warnings) = Environment::from_variables(&|name| std::env::var(name).ok());
        warnings.iter().for_each(|warning| log::warn!("{warning}"));
        environment
    }

    /// The same from any source of variables, with the warnings.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> (Environment, Vec<String>) {
        let mut reader = Reader { variable, warnings: Vec::new() };
        let mut environment = Environment::default();
        let seconds = number(1..=7200u64);
        if let Some(seconds) =
            reader.read("HCCL_CONNECT_TIMEOUT", "seconds from 1 to 7200", seconds)
        {
            environment.connect_timeout = Duration::from_secs(seconds);
        }
        let seconds = number(0..=i32::MAX as u32);
        let expected = "seconds from 0 (for ever) to 2147483647";
        if let Some(seconds) = reader.read("HCCL_EXEC_TIMEOUT", expected, seconds) {
            environment.exec_timeout = ExecTimeout::from_seconds(seconds);
        }
        environment.address = reader.read("HCCL_IF_IP", "an address", |text| text.parse().ok());
        let expected = "names of interfaces such as eth, ^eth, =eth0 or ^=eth0,eth1";
        environment.interfaces =
            reader.read("HCCL_SOCKET_IFNAME", expected, InterfaceFilter::parse);
        let families = word(&[("AF_INET", false), ("AF_INET6", true)]);
        environment.ipv6 =
            reader.read("HCCL_SOCKET_FAMILY", "AF_INET or AF_INET6", families).unwrap_or(false);
        let last_base = u16::MAX - BASE_PORTS + 1;
        if let Some(port) =
            reader.read("HCCL_IF_BASE_PORT", "a port from 1024 to 65504", number(1024..=last_base))
        {
            environment.base_port = port;
            environment.ports = vec![port..=port + BASE_PORTS - 1];
        }
        let expected = "ports such as 50000,50010-50020, or auto";
        if let Some(ports) = reader.read("HCCL_HOST_SOCKET_PORT_RANGE", expected, port_list) {
            environment.ports = ports;
        }
        let is_disabled =
            reader.read("HCCL_WHITELIST_DISABLE", "0 or 1", number(0..=1u8)).unwrap_or(1);
        if is_disabled == 0 {
            environment.whitelist = Some(reader.whitelist());
        }
        if let Some(megabytes) =
            reader.read("HCCL_BUFFSIZE", "megabytes from 1 on", number(1..=1 << 20))
        {
            environment.buffer_bytes = megabytes << 20;
        }
        let modes = [
            ("false", Determinism::Off),
            ("true", Determinism::On),
            ("strict", Determinism::Strict),
        ];
        environment.determinism =
            reader.read("HCCL_DETERMINISTIC", "false, true or strict", word(&modes));
        environment.entry_log =
            reader.read("HCCL_ENTRY_LOG_ENABLE", "0 or 1", number(0..=1u8)) == Some(1);
        let transports = word(&[("shared", false), ("tcp", true)]);
        environment.tcp_only =
            reader.read("CAIRN_COMM_TRANSPORT", "shared or tcp", transports).unwrap_or(false);
        (environment, reader.warnings)
    }
}

impl Reader<'_> {
    /// The addresses that may connect. A file that cannot be used lets nobody in but this host.
    fn whitelist(&mut self) -> Vec<IpAddr> {
        let name = "HCCL_WHITELIST_FILE";
        let read = match (self.variable)(name).filter(|path| !path.trim().is_empty()) {
            Some(path) => whitelist(&path).map_err(|error| format!("{name}={path} {error}")),
            None => Err(format!("HCCL_WHITELIST_DISABLE=0 needs a file in {name}")),
        };
        let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16])];
        let mut list = read.unwrap_or_else(|warning| {
            self.warnings.push(format!("{warning}; only ranks of this host may connect"));
            Vec::new()
        });
        list.extend(loopback);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Environment, Vec<String>) {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        Environment::from_variables(&find)
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(read(&[]), (Environment::default(), vec![]));
        assert_eq!(read(&[("HCCL_IF_IP", " ")]), (Environment::default(), vec![]));
    }

    #[test]
    fn every_variable_is_read() {
        let (environment, warnings) = read(&[
            ("HCCL_CONNECT_TIMEOUT", "300"),
            ("HCCL_EXEC_TIMEOUT", "0"),
            ("HCCL_IF_IP", "10.1.2.3"),
            ("HCCL_SOCKET_IFNAME", "^=eth0,eth1"),
            ("HCCL_SOCKET_FAMILY", "AF_INET6"),
            ("HCCL_IF_BASE_PORT", "50000"),
            ("HCCL_BUFFSIZE", "20"),
            ("HCCL_DETERMINISTIC", "STRICT"),
            ("HCCL_ENTRY_LOG_ENABLE", "1"),
            ("CAIRN_COMM_TRANSPORT", "tcp"),
        ]);
        assert_eq!(warnings, [""; 0]);
        assert_eq!(environment.connect_timeout, Duration::from_secs(300));
        assert_eq!(environment.exec_timeout, ExecTimeout::Never);
        assert_eq!(environment.address, Some([10, 1, 2, 3].into()));
        assert_eq!(environment.interfaces.unwrap().to_string(), "^=eth0,eth1");
        assert!(environment.ipv6 && environment.entry_log && environment.tcp_only);
        assert_eq!(environment.ports, vec![50000..=50031]);
        assert_eq!(environment.buffer_bytes, 20 << 20);
        assert_eq!(environment.determinism, Some(Determinism::Strict));
        let ports = |range| {
            read(&[("HCCL_IF_BASE_PORT", "50000"), ("HCCL_HOST_SOCKET_PORT_RANGE", range)]).0.ports
        };
        assert_eq!(ports("60000, 60010-60012"), vec![60000..=60000, 60010..=60012]);
        assert_eq!(ports("auto"), vec![]);
    }

    #[test]
    fn wrong_values_are_named_and_ignored() {
        for (name, value) in [
            ("HCCL_CONNECT_TIMEOUT", "0"),
            ("HCCL_CONNECT_TIMEOUT", "7201"),
            ("HCCL_EXEC_TIMEOUT", "-1"),
            ("HCCL_EXEC_TIMEOUT", "2147483648"),
            ("HCCL_IF_IP", "host"),
            ("HCCL_SOCKET_IFNAME", "^="),
            ("HCCL_SOCKET_FAMILY", "AF_UNIX"),
            ("HCCL_IF_BASE_PORT", "65535"),
            ("HCCL_HOST_SOCKET_PORT_RANGE", "9-3"),
            ("HCCL_WHITELIST_DISABLE", "2"),
            ("HCCL_BUFFSIZE", "0"),
            ("HCCL_DETERMINISTIC", "maybe"),
            ("HCCL_ENTRY_LOG_ENABLE", "yes"),
            ("CAIRN_COMM_TRANSPORT", "rdma"),
        ] {
            let (environment, warnings) = read(&[(name, value)]);
            assert_eq!(environment, Environment::default(), "{name}={value}");
            assert!(
                warnings.len() == 1 && warnings[0].starts_with(&format!("{name}={value} ")),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn a_whitelist_without_a_file_lets_this_host_in_only() {
        let (environment, warnings) = read(&[("HCCL_WHITELIST_DISABLE", "0")]);
        assert_eq!(environment.whitelist.unwrap()[0], IpAddr::from([127, 0, 0, 1]));
        assert!(warnings[0].contains("HCCL_WHITELIST_FILE"));
        let path = std::env::temp_dir().join(format!("cairn-whitelist-{}", std::process::id()));
        std::fs::write(&path, r#"{"host_ip": ["10.0.0.7"], "device_ip": []}"#).unwrap();
        let file = path.to_str().unwrap();
        let set = [("HCCL_WHITELIST_DISABLE", "0"), ("HCCL_WHITELIST_FILE", file)];
        let (environment, warnings) = read(&set);
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(environment.whitelist.unwrap()[0], IpAddr::from([10, 0, 0, 7]));
        std::fs::remove_file(path).unwrap();
    }
}
