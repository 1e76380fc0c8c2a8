//! Whether torch_npu has a queue between its frees and the streams.

use crate::streams::FreePath;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The free_path of cairn_malloc and cairn_free. torch_npu reads its settings once, at a time that is not
/// known here: so the queue is taken to be off only if they said so both when the process was started
/// and now.
pub fn free_path() -> FreePath {
    let started = std::fs::read("/proc/self/environ").unwrap_or_default();
    let then = |name: &str| {
        let line = |entry: &&[u8]| {
            entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
        };
        started.split(|&byte| byte == 0).find_map(|entry| line(&entry))
    };
    let now = |name: &str| std::env::var_os(name).map(|value| value.as_bytes().to_vec());
    match is_off(then) && is_off(now) {
        true => FreePath::Direct,
        false => FreePath::Queued,
    }
}

fn is_off(value: impl Fn(&str) -> Option<Vec<u8>>) -> bool {
    let is = |name, wanted: &str| value(name).is_some_and(|v| OsStr::from_bytes(&v) == wanted);
    is("TASK_QUEUE_ENABLE", "0") || is("ASCEND_LAUNCH_BLOCKING", "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> bool {
        is_off(|asked| (asked == name).then(|| value.into()))
    }

    #[test]
    fn only_the_two_settings_that_say_so_turn_the_queue_off() {
        assert!(with("TASK_QUEUE_ENABLE", "0") && with("ASCEND_LAUNCH_BLOCKING", "1"));
        assert!(!with("TASK_QUEUE_ENABLE", "1") && !with("TASK_QUEUE_ENABLE", "2"));
        assert!(!with("TASK_QUEUE_ENABLE", "") && !with("ASCEND_LAUNCH_BLOCKING", "0"));
        assert!(!is_off(|_| None));
    }
}
