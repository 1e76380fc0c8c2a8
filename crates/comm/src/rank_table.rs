//! Rank tables: a file that names all ranks of a communicator.

use crate::Code;
use crate::error::{Error, Result};
use crate::header::wide_hash;
use crate::meeting::wire::MAX_RANKS;
use serde_json::Value;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;

/// The most bytes of a file.
const MAX_BYTES: u64 = 16 << 20;

/// A rank as its table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRank {
    /// The host.
    pub server: String,
    /// The number of its device there.
    pub device: u32,
    /// Where it can be reached; needed where there are several hosts.
    pub address: Option<IpAddr>,
    /// The port for others to connect to.
    pub port: Option<u16>,
}

/// All ranks of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankTable {
    /// By number.
    pub ranks: Vec<TableRank>,
    /// How many hosts there are.
    pub servers: usize,
    /// A number made of the file's bytes: the key of the meeting, and the communicator's identity.
    pub digest: u128,
}

/// What is wrong with a value, and where it is.
fn wrong(place: &str, value: Option<&Value>, expected: &str) -> String {
    match value {
        Some(value) => format!("{place} is {value}: expected {expected}"),
        None => format!("{place} is missing: expected {expected}"),
    }
}

/// A text, or a number where a text is usual.
fn text(object: &Value, place: &str, name: &str) -> std::result::Result<Option<String>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_string())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        value => Err(wrong(&format!("{place}{name}"), value, "a text")),
    }
}

/// A value of the table that has to be there.
fn parsed<T: std::str::FromStr>(
    object: &Value,
    place: &str,
    name: &str,
    expected: &str,
) -> std::result::Result<T, String> {
    let wrong = || wrong(&format!("{place}{name}"), object.get(name), expected);
    text(object, place, name)?.and_then(|text| text.parse().ok()).ok_or_else(wrong)
}

/// One that may be missing.
fn parsed_if_there<T: std::str::FromStr>(
    object: &Value,
    place: &str,
    name: &str,
    expected: &str,
) -> std::result::Result<Option<T>, String> {
    match text(object, place, name)?.filter(|text| !text.is_empty()) {
        Some(_) => parsed(object, place, name, expected).map(Some),
        None => Ok(None),
    }
}

fn list<'a>(
    object: &'a Value,
    place: &str,
    name: &str,
) -> std::result::Result<&'a [Value], String> {
    let found = object.get(name);
    let list = found.and_then(Value::as_array).filter(|list| !list.is_empty());
    list.map(Vec::as_slice).ok_or_else(|| wrong(&format!("{place}{name}"), found, "a list"))
}

impl RankTable {
    /// Reads a file. One that cannot be read is code 4, wrong values are code 1; both name the file.
    pub fn read(path: &Path) -> Result<RankTable> {
        let file = path.display();
        let unreadable = |error: String| {
            Error::new(Code::Internal, format!("the rank table {file} cannot be loaded: {error}"))
        };
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if !metadata.is_file() {
            return Err(unreadable("it is no file".into()));
        }
        let opened = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
        let mut bytes = Vec::new();
        let read = opened.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(unreadable(format!("it has more than {MAX_BYTES} bytes")));
        }
        let json = serde_json::from_slice(&bytes)
            .map_err(|error| unreadable(format!("it is no JSON: {error}")))?;
        RankTable::parse(&json, wide_hash(&bytes))
            .map_err(|error| Error::parameter(format!("the rank table {file}: {error}")))
    }

    /// The table of a parsed file.
    fn parse(json: &Value, digest: u128) -> std::result::Result<RankTable, String> {
        let status: String = parsed(json, "", "status", "completed")?;
        if status != "completed" {
            return Err(wrong("status", json.get("status"), "completed"));
        }
        let version: String = parsed(json, "", "version", "1.0")?;
        if version != "1.0" {
            return Err(wrong("version", json.get("version"), "1.0"));
        }
        let server_count: usize = parsed(json, "", "server_count", "a number of servers")?;
        let servers = list(json, "", "server_list")?;
        if server_count != servers.len() {
            return Err(format!(
                "server_count is {server_count}, server_list has {} servers",
                servers.len()
            ));
        }
        let mut found: Vec<(u32, TableRank)> = Vec::new();
        for (at, server) in servers.iter().enumerate() {
            let place = format!("server_list[{at}].");
            let id: String = parsed(server, &place, "server_id", "the name of a host")?;
            for (number, device) in list(server, &place, "device")?.iter().enumerate() {
                let place = format!("{place}device[{number}].");
                let rank: u32 = parsed(device, &place, "rank_id", "a number of a rank")?;
                let entry = TableRank {
                    server: id.clone(),
                    device: parsed(device, &place, "device_id", "a number of a device")?,
                    address: parsed_if_there(device, &place, "device_ip", "an address")?,
                    port: parsed_if_there(device, &place, "device_port", "a port")?,
                };
                if servers.len() > 1 && entry.address.is_none() {
                    return Err(wrong(
                        &format!("{place}device_ip"),
                        device.get("device_ip"),
                        "an address, as there are several servers",
                    ));
                }
                found.push((rank, entry));
            }
        }
        if found.len() > MAX_RANKS {
            return Err(format!("it has {} ranks, more than {MAX_RANKS}", found.len()));
        }
        found.sort_by_key(|(rank, _)| *rank);
        for (expected, (rank, _)) in (0..).zip(&found) {
            if *rank != expected {
                return Err(format!(
                    "the ranks are not 0 to {}, each once: rank_id {} comes where {expected} is expected",
                    found.len() - 1,
                    rank
                ));
            }
        }
        let ranks: Vec<TableRank> = found.into_iter().map(|(_, entry)| entry).collect();
        let borders = ranks.windows(2).filter(|pair| pair[0].server != pair[1].server).count();
        if borders + 1 != servers.len() {
            return Err("the rank_id of one server lie between those of another".into());
        }
        for (rank, entry) in ranks.iter().enumerate() {
            let same =
                |other: &&TableRank| other.server == entry.server && other.device == entry.device;
            if ranks[..rank].iter().any(|other| same(&other)) {
                return Err(format!(
                    "device_id {} of server {} occurs twice",
                    entry.device, entry.server
                ));
            }
        }
        Ok(RankTable { ranks, servers: servers.len(), digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table() -> Value {
        json!({
            "status": "completed", "version": "1.0", "server_count": "2",
            "server_list": [
                {"server_id": "a", "device": [
                    {"device_id": "0", "device_ip": "10.0.0.1", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "10.0.0.2", "device_port": "16666", "rank_id": "1"}]},
                {"server_id": "b", "device": [
                    {"device_id": "0", "device_ip": "10.0.0.3", "rank_id": "2"}]},
            ]
        })
    }

    #[test]
    fn a_table_is_read() {
        let table = RankTable::parse(&table(), 7).unwrap();
        assert_eq!((table.servers, table.ranks.len(), table.digest), (2, 3, 7));
        let second = &table.ranks[1];
        assert_eq!((second.server.as_str(), second.device, second.port), ("a", 1, Some(16666)));
        assert_eq!(second.address, Some([10, 0, 0, 2].into()));
    }

    #[test]
    fn wrong_values_are_named() {
        let cases = [
            ("/status", json!("initializing"), "status is \"initializing\""),
            ("/version", json!("3"), "version is \"3\""),
            ("/server_count", json!("3"), "server_count is 3, server_list has 2"),
            ("/server_list", json!([]), "server_list is []"),
            ("/server_list/0/server_id", json!([1]), "server_list[0].server_id is [1]"),
            (
                "/server_list/0/device/1/device_ip",
                json!("x"),
                "server_list[0].device[1].device_ip is \"x\"",
            ),
            ("/server_list/0/device/1/device_ip", json!(""), "as there are several servers"),
            ("/server_list/0/device/1/device_port", json!("99999"), "device_port is \"99999\""),
            (
                "/server_list/0/device/1/device_id",
                json!("0"),
                "device_id 0 of server a occurs twice",
            ),
            ("/server_list/0/device/1/rank_id", json!("3"), "rank_id 2 comes where 1 is expected"),
            ("/server_list/0/device/1/rank_id", json!("-1"), "rank_id is \"-1\""),
            ("/server_list/0/device/1/rank_id", json!(0), "rank_id 0 comes where 1 is expected"),
        ];
        for (path, value, expected) in cases {
            let mut wrong = table();
            *wrong.pointer_mut(path).unwrap() = value;
            let error = RankTable::parse(&wrong, 0).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let mut interleaved = table();
        *interleaved.pointer_mut("/server_list/0/device/1/rank_id").unwrap() = json!("2");
        *interleaved.pointer_mut("/server_list/1/device/0/rank_id").unwrap() = json!("1");
        assert!(RankTable::parse(&interleaved, 0).unwrap_err().contains("lie between"));
    }

    #[test]
    fn a_file_that_cannot_be_loaded_is_code_4() {
        let error = RankTable::read(Path::new("/no/such/table.json")).unwrap_err();
        assert_eq!(error.code, Code::Internal);
        assert!(error.text.contains("/no/such/table.json"));
    }
}
