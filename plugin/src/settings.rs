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
    /// Pages of holes serve large blocks, where ACL maps a page twice (`CAIRN_POOL_STITCH`).
    pub stitches: bool,
}

/// The settings. A value that cannot be used is reported once, and the default is used.
pub fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let (settings, warnings) = read(|name| std::env::var_os(name));
        warnings.iter().for_each(|warning| text::warn(warning));
        settings
    })
}

/// Reads the settings; returns warnings about values that cannot be used.
fn read(get: impl Fn(&str) -> Option<OsString>) -> (Settings, Vec<String>) {
    let mut warnings = Vec::new();
    let mut setting = |name: &str, expected: &str, default: u64, is_valid: fn(u64) -> bool| {
        let Some(value) = get(name).filter(|value| !value.is_empty()) else { return default };
        number(&value).filter(|&number| is_valid(number)).unwrap_or_else(|| {
            let value = value.to_string_lossy();
            warnings.push(format!("{name}={value} is not used: expected {expected}"));
            default
        })
    };
    let wait = setting(
        "CAIRN_POOL_WAIT_MS",
        "a number of milliseconds, such as 500; 10000 is used",
        10_000,
        |_| true,
    );
    let maps = setting(
        "CAIRN_POOL_VMM",
        "0 for memory in segments, or 1 for mapped pages where ACL has them; 1 is used",
        1,
        |number| number < 2,
    );
    let stitches = setting(
        "CAIRN_POOL_STITCH",
        "0 to leave free memory where it is, or 1 to let pages of several holes serve a large block; 1 is used",
        1,
        |number| number < 2,
    );
    let settings = Settings {
        longest_wait: Duration::from_millis(wait),
        maps_pages: maps == 1,
        stitches: stitches == 1,
    };
    (settings, warnings)
}

fn number(value: &OsStr) -> Option<u64> {
    value.to_str()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn read_with(name: &'static str, value: &[u8]) -> (Settings, Vec<String>) {
        let value = OsString::from_vec(value.to_vec());
        read(|requested| (requested == name).then(|| value.clone()))
    }

    #[test]
    fn valid_values_are_used_without_a_warning() {
        assert_eq!(
            read_with("CAIRN_POOL_WAIT_MS", b" 20 ").0.longest_wait,
            Duration::from_millis(20)
        );
        assert!(!read_with("CAIRN_POOL_VMM", b"0").0.maps_pages);
        assert!(!read_with("CAIRN_POOL_STITCH", b"0").0.stitches);
        for (name, value) in [("CAIRN_POOL_VMM", "1"), ("CAIRN_POOL_VMM", ""), ("OTHER", "x")] {
            let (settings, warnings) = read_with(name, value.as_bytes());
            assert!(settings.maps_pages && settings.stitches && warnings.is_empty());
            assert_eq!(settings.longest_wait, Duration::from_secs(10));
        }
    }

    #[test]
    fn invalid_values_are_reported_with_what_is_expected() {
        for (name, value) in [
            ("CAIRN_POOL_WAIT_MS", &b"abc"[..]),
            ("CAIRN_POOL_WAIT_MS", b"-1"),
            ("CAIRN_POOL_WAIT_MS", b"\xff"),
            ("CAIRN_POOL_VMM", b"maybe"),
            ("CAIRN_POOL_VMM", b"2"),
            ("CAIRN_POOL_STITCH", b"yes"),
        ] {
            let (settings, warnings) = read_with(name, value);
            assert!(settings.maps_pages && settings.longest_wait == Duration::from_secs(10));
            let text = String::from_utf8_lossy(value).into_owned();
            assert!(warnings[0].starts_with(&format!("{name}={text} is not used: expected ")));
            assert_eq!(warnings.len(), 1);
        }
    }
}
