//! The settings of a process: `CAIRN_*` and CANN's own variables, read once.

use crate::error::Error;
use crate::memory::layer::{Observer, Spec};
use crate::memory::source;
use std::cell::RefCell;
use std::ffi::OsString;
use std::time::Duration;

/// How many software devices a process may ask for.
pub const MAX_DEVICES: usize = 16;

/// A device never reports more than this.
const LARGEST_DEVICE: u64 = 64 << 30;
/// Nor can it be smaller than a huge page.
const SMALLEST_DEVICE: u64 = 2 << 20;

/// What a process was told through its environment. Read once, when the runtime is first used.
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
    /// Bytes of freed memory kept intact per device (`CAIRN_QUARANTINE`).
    pub quarantine: u64,
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
    /// After how long a wait for a callback lock, or a callback that does not return, is logged
    /// (`CAIRN_TURNSTILE_LOG_MS`).
    pub callback_wait: Duration,
}

impl Config {
    /// Reads the environment of this process. An unusable value is an error that names it.
    pub fn from_env() -> Result<Config, Error> {
        Config::from_raw(|name| std::env::var_os(name), source::machine_available())
    }

    fn from_raw(get: impl Fn(&str) -> Option<OsString>, available: u64) -> Result<Config, Error> {
        let unreadable = RefCell::new(None);
        let text = |name: &str| {
            get(name)?
                .into_string()
                .map_err(|raw| {
                    let wanted = "text in UTF-8".into();
                    *unreadable.borrow_mut() =
                        Some(Error::setting(name, &raw.to_string_lossy(), wanted));
                })
                .ok()
        };
        let config = Config::from_lookup(text, available);
        unreadable.into_inner().map_or(config, Err)
    }

    /// The same over any environment and machine, for tests.
    pub fn from_lookup(
        get: impl Fn(&str) -> Option<String>,
        available: u64,
    ) -> Result<Config, Error> {
        let text = |name: &str| get(name).filter(|v| !v.is_empty());
        let number = |name: &'static str, low: usize, high: usize, default: usize| match text(name)
        {
            None => Ok(default),
            Some(v) => match v.trim().parse::<usize>() {
                Ok(n) if (low..=high).contains(&n) => Ok(n),
                _ => Err(Error::setting(name, &v, format!("a whole number from {low} to {high}"))),
            },
        };
        let bytes = |name: &'static str, default: u64| match text(name) {
            None => Ok(default),
            Some(v) => parse_bytes(&v).ok_or_else(|| {
                Error::setting(name, &v, "a size such as 512mib, 8gib or 1073741824".into())
            }),
        };

        let devices = number("CAIRN_DEVICES", 1, MAX_DEVICES, 2)?;
        let budget = (available / 5 * 4).max(64 << 20);
        let device_memory = match bytes("CAIRN_DEVICE_MEMORY", 0)? {
            0 => budget.min(LARGEST_DEVICE),
            asked if asked < SMALLEST_DEVICE => {
                return Err(Error::setting(
                    "CAIRN_DEVICE_MEMORY",
                    &asked.to_string(),
                    format!("at least {SMALLEST_DEVICE} bytes"),
                ));
            }
            asked => {
                if asked > budget {
                    log::warn!(
                        "CAIRN_DEVICE_MEMORY asks for {asked} bytes; this machine can back {budget}"
                    );
                }
                asked.min(budget).min(LARGEST_DEVICE)
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Config {
            devices,
            visible: visible(text("ASCEND_RT_VISIBLE_DEVICES").as_deref(), devices),
            device_memory: device_memory & !((2 << 20) - 1),
            budget,
            quarantine: bytes("CAIRN_QUARANTINE", (1 << 30).min(device_memory / 8))?,
            layer: None,
            memory: layers(&text("CAIRN_MEMORY").unwrap_or_default())?,
            soc: text("CAIRN_SOC").unwrap_or_else(|| "Ascend910B1".into()),
            workers: number("CAIRN_WORKERS", 1, 256, cores)?,
            trace: text("CAIRN_TRACE"),
            callback_wait: Duration::from_millis(number(
                "CAIRN_TURNSTILE_LOG_MS",
                1,
                86_400_000,
                5000,
            )? as u64),
        })
    }

    /// True for parts whose memory is HBM (training parts), false for DDR ones (310 series).
    pub fn has_hbm(&self) -> bool {
        !self.soc.starts_with("Ascend310")
    }
}

fn layers(text: &str) -> Result<Spec, Error> {
    let named =
        |e: Error| Error::new(e.code, format!("CAIRN_MEMORY={text} cannot be used: {}", e.text));
    Spec::parse(text).map_err(named)
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

/// CANN's rule: ids are read from the left, the first bad or repeated one ends the list.
fn visible(list: Option<&str>, devices: usize) -> Vec<usize> {
    let Some(list) = list else { return (0..devices).collect() };
    let mut seen = Vec::new();
    for part in list.split(',') {
        match part.trim().parse::<usize>() {
            Ok(id) if id < devices && !seen.contains(&id) => seen.push(id),
            _ => {
                log::warn!("ASCEND_RT_VISIBLE_DEVICES={list}: '{part}' ends the list");
                break;
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn with(pairs: &[(&str, &str)]) -> Result<Config, Error> {
        let find = |name: &str| pairs.iter().find(|(k, _)| *k == name).map(|(_, v)| v.to_string());
        Config::from_lookup(find, 20 << 30)
    }

    #[test]
    fn defaults() {
        let c = with(&[]).unwrap();
        assert_eq!((c.devices, c.soc.as_str()), (2, "Ascend910B1"));
        assert_eq!(c.visible, [0, 1]);
        assert_eq!(c.budget, 16 << 30);
        assert_eq!(c.device_memory, 16 << 30);
        assert_eq!(c.quarantine, 1 << 30);
    }

    #[test]
    fn sizes_in_words() {
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
            let text = with(&[(name, value)]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains(value), "{text}");
        }
    }

    #[test]
    fn a_value_that_is_no_text_is_named_too() {
        for name in ["CAIRN_MEMORY", "CAIRN_SOC", "CAIRN_DEVICE_MEMORY", "CAIRN_TRACE"] {
            let raw = OsString::from_vec(b"gu\xffard".to_vec());
            let find = |asked: &str| (asked == name).then(|| raw.clone());
            let text = Config::from_raw(find, 20 << 30).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains("gu\u{fffd}ard"), "{text}");
        }
        assert_eq!(Config::from_raw(|_| None, 20 << 30), with(&[]));
    }

    #[test]
    fn visible_devices_renumber() {
        assert_eq!(with(&[("ASCEND_RT_VISIBLE_DEVICES", "1,0")]).unwrap().visible, [1, 0]);
        assert_eq!(with(&[("ASCEND_RT_VISIBLE_DEVICES", "1,1,0")]).unwrap().visible, [1]);
        assert_eq!(with(&[("ASCEND_RT_VISIBLE_DEVICES", "7")]).unwrap().visible, []);
    }
}
