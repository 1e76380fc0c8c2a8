//! Whether torch_npu launches kernels through a queue of its own, so that it frees blocks before the kernels are launched.

use crate::streams::FreePath;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// How blocks of cairn_malloc are freed. torch_npu reads its settings once, at a time that is not known here. So the
/// queue counts as off only if the settings turned it off both when the process started and now.
pub fn free_path() -> FreePath {
    let environ = std::fs::read("/proc/self/environ").unwrap_or_default();
    let at_start = |name: &str| {
        let value = |entry: &&[u8]| {
            entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
        };
        environ.split(|&byte| byte == 0).find_map(|entry| value(&entry))
    };
    let now = |name: &str| std::env::var_os(name).map(|value| value.as_bytes().to_vec());
    match is_off(at_start) && is_off(now) {
        true => FreePath::Direct,
        false => FreePath::Queued,
    }
}

/// True if one of the settings turns the queue off.
fn is_off(value: impl Fn(&str) -> Option<Vec<u8>>) -> bool {
    let is = |name, expected: &str| value(name).is_some_and(|v| OsStr::from_bytes(&v) == expected);
    is("TASK_QUEUE_ENABLE", "0") || is("ASCEND_LAUNCH_BLOCKING", "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_off_with(name: &'static str, value: &'static str) -> bool {
        is_off(|requested| (requested == name).then(|| value.into()))
    }

    #[test]
    fn only_two_settings_turn_the_queue_off() {
        assert!(
            is_off_with("TASK_QUEUE_ENABLE", "0") && is_off_with("ASCEND_LAUNCH_BLOCKING", "1")
        );
        assert!(!is_off_with("TASK_QUEUE_ENABLE", "1") && !is_off_with("TASK_QUEUE_ENABLE", "2"));
        assert!(
            !is_off_with("TASK_QUEUE_ENABLE", "") && !is_off_with("ASCEND_LAUNCH_BLOCKING", "0")
        );
        assert!(!is_off(|_| None));
    }
}
