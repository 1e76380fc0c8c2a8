//! The figures as JSON.
//!
//! ```text
//! {"device":0,"memory":"segments","queued":true,"capacity":N,"free":N,
//!  "total":{"live":N,...},"streams":[{"stream":"0x7f..","live":N,...},...]}
//! ```
//! "queued": torch_npu may free memory before its own queue has launched the last kernel that uses it. "memory": "mapped",
//! "segments", or "none" before the first request.

use crate::devices::Device;
use crate::report::Report;
use crate::streams::{self, FreePath};
use std::fmt::Write;

/// One object with all figures of a device. Streams that never allocated are left out, and so are destroyed ones
/// that no memory belongs to.
pub fn describe(device: &Device) -> String {
    let (total, free) = device.capacity().unwrap_or_default();
    let memory = device.pool.source().kind();
    let queued = device.torch_free_path == FreePath::Queued;
    let streams = streams::of_device(device.id)
        .map(|stream| (stream, Report::for_stream(device, stream)))
        .filter(|(stream, report)| report.taken > 0 && (stream.is_known() || report.reserved > 0))
        .map(|(stream, report)| (stream.handle() as usize, report));
    let head = format!(
        "\"device\":{},\"memory\":\"{memory}\",\"queued\":{queued},\"capacity\":{total},\"free\":{free}",
        device.id
    );
    object(&head, &Report::for_device(device), streams)
}

/// The object that begins with the fields `head`.
fn object(head: &str, total: &Report, streams: impl Iterator<Item = (usize, Report)>) -> String {
    let mut text = format!("{{{head},\"total\":{{{}}},\"streams\":[", fields(total));
    for (index, (handle, report)) in streams.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{{\"stream\":\"{handle:#x}\",{}}}", fields(&report));
    }
    text.push_str("]}");
    text
}

fn fields(report: &Report) -> String {
    let parts = report.fields().map(|(name, value)| format!("\"{name}\":{value}"));
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_name_of_its_own() {
        let report = Report { live: 1, failed: 12, ..Report::default() };
        let text = object("\"device\":3", &report, [(0xab0, report), (0xac0, report)].into_iter());
        assert!(text.starts_with("{\"device\":3,\"total\":{\"live\":1,\"requested\":0,"));
        assert!(text.contains("},\"streams\":[{\"stream\":\"0xab0\",\"live\":1,"));
        assert!(text.ends_with(",\"freed\":0,\"failed\":12}]}"));
        assert_eq!(text.matches("\"stream\":").count(), 2);
    }
}
