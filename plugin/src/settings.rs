//! The pool's own settings, read once, when the first pool is made.

use crate::text;
use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;
use std::time::Duration;

/// What the environment asks for.
pub struct Settings {
    /// How long a request waits for streams before it fails (`CAIRN_POOL_WAIT_MS`).
    pub longest_wait: Duration,
    /// Memory in mapped pages where ACL has virtual memory (`CAIRN_POOL_VMM`).
    pub maps_pages: bool,
}

/// The settings. A value that cannot be used is reported once, and the default is used.
pub fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let (settings, complaints) = read(|name| std::env::var_os(name));
        complaints.iter().for_each(|complaint| text::warn(complaint));
        settings
    })
}

fn read(get: impl Fn(&str) -> Option<OsString>) -> (Settings, Vec<String>) {
    let mut complaints = Vec::new();
    let mut setting = |name: &str, takes: &str, default: u64, usable: fn(u64) -> bool| {
        let Some(value) = get(name).filter(|value| !value.is_empty()) else { return default };
        number(&value).filter(|&number| usable(number)).unwrap_or_else(|| {
            let value = value.to_string_lossy();
            complaints.push(format!("{name}={value} is not used: expected {takes}"));
            default
        })
    };
    let wait = setting(
        "CAIRN_POOL_WAIT_MS",
        "a number of milliseconds, such as 500; 10000 holds",
        10_000,
        |_| true,
    );
    let maps = setting(
        "CAIRN_POOL_VMM",
        "0 for memory in pieces, or 1 for mapped pages where ACL has them; 1 holds",
        1,
        |number| number < 2,
    );
    let settings = Settings { longest_wait: Duration::from_millis(wait), maps_pages: maps == 1 };
    (settings, complaints)
}

fn number(value: &OsStr) -> Option<u64> {
    value.to_str()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn with(name: &'static str, value: &[u8]) -> (Settings, Vec<String>) {
        let value = OsString::from_vec(value.to_vec());
        read(|asked| (asked == name).then(|| value.clone()))
    }

    #[test]
    fn good_values_are_taken_without_a_word() {
        assert_eq!(with("CAIRN_POOL_WAIT_MS", b" 20 ").0.longest_wait, Duration::from_millis(20));
        assert!(!with("CAIRN_POOL_VMM", b"0").0.maps_pages);
        for (name, value) in [("CAIRN_POOL_VMM", "1"), ("CAIRN_POOL_VMM", ""), ("OTHER", "x")] {
            let (settings, complaints) = with(name, value.as_bytes());
            assert!(settings.maps_pages && complaints.is_empty());
            assert_eq!(settings.longest_wait, Duration::from_secs(10));
        }
    }

    #[test]
    fn bad_values_are_named_with_what_would_do() {
        for (name, value) in [
            ("CAIRN_POOL_WAIT_MS", &b"abc"[..]),
            ("CAIRN_POOL_WAIT_MS", b"-1"),
            ("CAIRN_POOL_WAIT_MS", b"\xff"),
            ("CAIRN_POOL_VMM", b"maybe"),
            ("CAIRN_POOL_VMM", b"2"),
        ] {
            let (settings, complaints) = with(name, value);
            assert!(settings.maps_pages && settings.longest_wait == Duration::from_secs(10));
            let shown = String::from_utf8_lossy(value).into_owned();
            assert!(complaints[0].starts_with(&format!("{name}={shown} is not used: expected ")));
            assert_eq!(complaints.len(), 1);
        }
    }
}
