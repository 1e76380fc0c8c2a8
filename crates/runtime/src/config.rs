//! The settings of a process: `CAIRN_*` and CANN's own variables, read once.

use crate::error::Error;
use crate::memory::callback_lock::Limits;
use crate::memory::layer::{Observer, Spec};
use crate::memory::system_limits::{self, SharedLimit};
use crate::record::file::RecordSettings;
use std::cell::RefCell;
use std::ffi::OsString;
use std::time::Duration;

/// Devices of the machine (`CAIRN_DEVICES`), from the environment of this process alone.
pub fn device_count() -> Result<usize, Error> {
    whole_number("CAIRN_DEVICES", std::env::var("CAIRN_DEVICES").ok(), (1, MAX_DEVICES), DEVICES)
}

/// A setting that is an integer between two bounds.
fn whole_number(
    name: &str,
    text: Option<String>,
    (low, high): (usize, usize),
    default: usize,
) -> Result<usize, Error> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => match text.trim().parse::<usize>() {
            Ok(number) if (low..=high).contains(&number) => Ok(number),
            _ => Err(Error::setting(name, &text, format!("an integer from {low} to {high}"))),
        },
    }
}

/// Devices of a machine for which nobody sets a number.
const DEVICES: usize = 2;

/// How many software devices a process may ask for.
pub const MAX_DEVICES: usize = 16;

/// The most memory that a device reports.
const LARGEST_DEVICE: u64 = 64 << 30;
/// The least memory of a device: a huge page.
const SMALLEST_DEVICE: u64 = 2 << 20;
/// The budget of a process is at least this, even where nothing is left.
const SMALLEST_BUDGET: u64 = 64 << 20;

/// The settings of a process, from its environment. Read once, when the runtime is first used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Devices of the machine, before `ASCEND_RT_VISIBLE_DEVICES` (`CAIRN_DEVICES`).
    pub devices: usize,
    /// Physical ids of the devices this process sees, in its own order (`ASCEND_RT_VISIBLE_DEVICES`).
    pub visible: Vec<usize>,
    /// Bytes each device reports as its memory (`CAIRN_DEVICE_MEMORY`).
    pub device_memory: u64,
    /// Bytes all devices and pinned host memory of the process may hold together.
    pub budget: u64,
    /// What this process shares with others: the name of the limit (the machine, a control group, or
    /// `CAIRN_HOST_MEMORY`), and the bytes that all processes under it may hold together.
    pub shared: SharedLimit,
    /// Bytes of freed memory kept intact per device (`CAIRN_QUARANTINE`).
    pub quarantine: u64,
    /// Pages of several holes of a pool serve a large block (`CAIRN_POOL_STITCH`).
    pub stitches: bool,
    /// The layers over the memory of devices (`CAIRN_MEMORY`).
    pub memory: Spec,
    /// A layer over memory of every kind, outermost; only the program that makes the runtime can set it.
    pub layer: Option<Observer>,
    /// The name `aclrtGetSocName` gives (`CAIRN_SOC`).
    pub soc: String,
    /// Threads that run streams (`CAIRN_WORKERS`).
    pub workers: usize,
    /// File that receives one line per finished task (`CAIRN_TRACE`).
    pub trace: Option<String>,
    /// What to record (`CAIRN_RECORD`).
    pub record: Option<RecordSettings>,
    /// How long calls into a user allocator may take (`CAIRN_CALLBACK_LOG_MS`, `CAIRN_CALLBACK_WAIT_MS`).
    pub callback_limits: Limits,
}

impl Config {
    /// Reads the environment of this process. An unusable value is an error that names it.
    pub fn from_env() -> Result<Config, Error> {
        let (limit, process_limit) =
            (system_limits::machine_limit(), system_limits::process_limit());
        Config::from_raw(|name| std::env::var_os(name), limit, process_limit)
    }

    /// The same over any environment and machine; a value that is not UTF-8 is an error.
    fn from_raw(
        get: impl Fn(&str) -> Option<OsString>,
        limit: SharedLimit,
        process_limit: u64,
    ) -> Result<Config, Error> {
        let not_utf8 = RefCell::new(None);
        let text = |name: &str| {
            get(name)?
                .into_string()
                .map_err(|raw| {
                    let expected = "text in UTF-8".into();
                    *not_utf8.borrow_mut() =
                        Some(Error::setting(name, &raw.to_string_lossy(), expected));
                })
                .ok()
        };
        let config = Config::read(text, limit, process_limit);
        not_utf8.into_inner().map_or(config, Err)
    }

    /// The settings of any environment on a machine with this much memory, for tests.
    pub fn from_lookup(
        get: impl Fn(&str) -> Option<String>,
        available: u64,
    ) -> Result<Config, Error> {
        Config::read(get, SharedLimit { name: "test".into(), bytes: available }, u64::MAX)
    }

    /// Reads the settings. `limit` is shared with other processes, `process_limit` is of this one alone.
    fn read(
        get: impl Fn(&str) -> Option<String>,
        limit: SharedLimit,
        process_limit: u64,
    ) -> Result<Config, Error> {
        let text = |name: &str| get(name).filter(|v| !v.is_empty());
        let number = |name: &'static str, low: usize, high: usize, default: usize| {
            whole_number(name, text(name), (low, high), default)
        };
        let bytes = |name: &'static str, default: u64| match text(name) {
            None => Ok(default),
            Some(v) => parse_bytes(&v).ok_or_else(|| {
                Error::setting(name, &v, "a size such as 512mib, 8gib or 1073741824".into())
            }),
        };

        let devices = number("CAIRN_DEVICES", 1, MAX_DEVICES, DEVICES)?;
        let limit = match bytes("CAIRN_HOST_MEMORY", 0)? {
            0 => limit,
            requested => SharedLimit {
                name: format!("CAIRN_HOST_MEMORY={requested}"),
                bytes: requested.min(limit.bytes),
            },
        };
        let usable = |available: u64| (available / 5 * 4).max(SMALLEST_BUDGET);
        let budget = usable(limit.bytes.min(process_limit));
        let backlog = bytes("CAIRN_RECORD_BACKLOG", 0)?;
        let shared = SharedLimit { bytes: usable(limit.bytes), ..limit };
        let device_memory = match bytes("CAIRN_DEVICE_MEMORY", 0)? {
            0 => budget.min(LARGEST_DEVICE),
            requested if requested < SMALLEST_DEVICE => {
                return Err(Error::setting(
                    "CAIRN_DEVICE_MEMORY",
                    &requested.to_string(),
                    format!("at least {SMALLEST_DEVICE} bytes"),
                ));
            }
            requested => {
                if requested > budget {
                    log::warn!(
                        "CAIRN_DEVICE_MEMORY asks for {requested} bytes; this machine can back {budget}"
                    );
                }
                requested.min(budget).min(LARGEST_DEVICE)
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let milliseconds = |name: &'static str, default: usize| {
            number(name, 1, 86_400_000, default).map(|ms| Duration::from_millis(ms as u64))
        };
        Ok(Config {
            devices,
            visible: visible_devices(get("ASCEND_RT_VISIBLE_DEVICES").as_deref(), devices),
            device_memory: device_memory & !((2 << 20) - 1),
            budget,
            shared,
            quarantine: bytes("CAIRN_QUARANTINE", (1 << 30).min(device_memory / 8))?,
            stitches: number("CAIRN_POOL_STITCH", 0, 1, 1)? == 1,
            layer: None,
            memory: parse_layers(&text("CAIRN_MEMORY").unwrap_or_default())?,
            soc: text("CAIRN_SOC").unwrap_or_else(|| "Ascend910B1".into()),
            workers: number("CAIRN_WORKERS", 1, 256, cores)?,
            trace: text("CAIRN_TRACE"),
            record: text("CAIRN_RECORD").map(|path| RecordSettings {
                path,
                session: text("CAIRN_RECORD_SESSION").unwrap_or_default(),
                stacks: text("CAIRN_RECORD_STACKS").is_some_and(|value| value != "0"),
                backlog,
            }),
            callback_limits: Limits {
                log: milliseconds("CAIRN_CALLBACK_LOG_MS", 5000)?,
                free: milliseconds("CAIRN_CALLBACK_WAIT_MS", 1000)?,
            },
        })
    }

    /// True for chips whose memory is HBM (for training), false for those with DDR (310 series).
    pub fn has_hbm(&self) -> bool {
        !self.soc.starts_with("Ascend310")
    }
}

/// Parses the layers of `CAIRN_MEMORY`.
fn parse_layers(text: &str) -> Result<Spec, Error> {
    let with_name =
        |e: Error| Error::new(e.code, format!("CAIRN_MEMORY={text} cannot be used: {}", e.text));
    Spec::parse(text).map_err(with_name)
}

/// Reads `64`, `64b`, `512k`, `512kib`, `8mb`, `2g`, `1.5gib`: units are powers of 1024.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let value = number.parse::<f64>().ok()? * factor as f64;
    (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then_some(value as u64)
}

/// The rule of CANN and torch_npu: numbers between commas, up to the first other character or number that
/// is no device. A list that is empty or not strictly ascending leaves no device at all.
fn visible_devices(list: Option<&str>, devices: usize) -> Vec<usize> {
    let Some(list) = list else { return (0..devices).collect() };
    let end = list.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(list.len());
    if end < list.len() {
        log::warn!("ASCEND_RT_VISIBLE_DEVICES={list}: '{}' ends the list", &list[end..]);
    }
    let mut ids: Vec<usize> = Vec::new();
    for part in list[..end].split(',') {
        let Some(id) = part.parse().ok().filter(|id| *id < devices) else {
            log::warn!("ASCEND_RT_VISIBLE_DEVICES={list}: '{part}' ends the list");
            break;
        };
        if ids.last().is_some_and(|last| *last >= id) {
            log::error!(
                "ASCEND_RT_VISIBLE_DEVICES={list}: {id} is no larger than the number before it, which leaves no device"
            );
            return Vec::new();
        }
        ids.push(id);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn config_with(pairs: &[(&str, &str)]) -> Result<Config, Error> {
        let find = |name: &str| pairs.iter().find(|(k, _)| *k == name).map(|(_, v)| v.to_string());
        Config::from_lookup(find, 20 << 30)
    }

    #[test]
    fn defaults() {
        let c = config_with(&[]).unwrap();
        assert_eq!((c.devices, c.soc.as_str()), (2, "Ascend910B1"));
        assert_eq!(c.visible, [0, 1]);
        assert_eq!(c.budget, 16 << 30);
        assert_eq!(c.device_memory, 16 << 30);
        assert_eq!(c.quarantine, 1 << 30);
    }

    #[test]
    fn sizes_with_units() {
        assert_eq!(parse_bytes("1.5gib"), Some(3 << 29));
        assert_eq!(parse_bytes(" 8MB "), Some(8 << 20));
        assert_eq!(parse_bytes("77"), Some(77));
        for bad in ["", "gib", "-1", "1e3x", "99999999999t"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn bad_values_are_named() {
        for (name, value) in [
            ("CAIRN_DEVICES", "0"),
            ("CAIRN_WORKERS", "many"),
            ("CAIRN_DEVICE_MEMORY", "big"),
            ("CAIRN_MEMORY", "stats,gard"),
        ] {
            let text = config_with(&[(name, value)]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains(value), "{text}");
        }
    }

    #[test]
    fn a_value_that_is_no_text_is_named_too() {
        for name in ["CAIRN_MEMORY", "CAIRN_SOC", "CAIRN_DEVICE_MEMORY", "CAIRN_TRACE"] {
            let raw = OsString::from_vec(b"gu\xffard".to_vec());
            let find = |setting: &str| (setting == name).then(|| raw.clone());
            let limit = SharedLimit { name: "test".into(), bytes: 20 << 30 };
            let text = Config::from_raw(find, limit, u64::MAX).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains("gu\u{fffd}ard"), "{text}");
        }
        let limit = SharedLimit { name: "test".into(), bytes: 20 << 30 };
        assert_eq!(Config::from_raw(|_| None, limit, u64::MAX), config_with(&[]));
    }

    #[test]
    fn visible_devices_are_read_as_cann_and_torch_npu_read_them() {
        let ids = |list: &str| visible_devices(Some(list), 4);
        assert_eq!(visible_devices(None, 4), [0, 1, 2, 3]);
        for none in ["", "1,0", "1,1", "0,2,1", "7", "x", " 0", ",0", "-1", "99999999999999999999"]
        {
            assert_eq!(ids(none), [0; 0], "'{none}'");
        }
        assert_eq!(ids("1,3"), [1, 3]);
        for one in ["0,9,1", "0,", "0,,1", "0, 1", "0 ,1", "0;1", "0,9,0"] {
            assert_eq!(ids(one), [0], "'{one}'");
        }
        assert_eq!(ids("0,1 ,2"), [0, 1]);
        assert_eq!(config_with(&[("ASCEND_RT_VISIBLE_DEVICES", "")]).unwrap().visible, [0; 0]);
    }

    #[test]
    fn a_limit_for_all_processes_can_be_set() {
        let c = config_with(&[("CAIRN_HOST_MEMORY", "10gib")]).unwrap();
        assert_eq!((c.budget, c.shared.bytes), (8 << 30, 8 << 30));
        assert!(c.shared.name.contains("CAIRN_HOST_MEMORY"));
        let c = config_with(&[("CAIRN_HOST_MEMORY", "100gib")]).unwrap();
        assert_eq!(c.shared.bytes, 16 << 30);
        let find = |_: &str| None;
        let limit = SharedLimit { name: "group".into(), bytes: 20 << 30 };
        let c = Config::read(find, limit, 5 << 30).unwrap();
        assert_eq!((c.budget, c.shared.bytes), (4 << 30, 16 << 30));
    }
}
