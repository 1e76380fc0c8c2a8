//! The text trace: one line per task that has ended.

use super::event::{Event, Outcome};
use super::{Sink, Stamp};
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::task::Spans;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;

/// The log that `CAIRN_TRACE` names: a line per task that has ended,
/// `start_ns end_ns device stream seq name reads writes`, with `(failed)` or `(dropped)` after the name of one that
/// failed or was dropped. Lines reach the file when a thread has synchronized, and at the end. Private, and links are not followed. A full disk ends it with one warning.
pub struct TaskTrace {
    file: Mutex<Option<BufWriter<File>>>,
}

impl TaskTrace {
    /// Creates or empties the file.
    pub fn create(path: &str) -> Result<TaskTrace> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open(path)
            .map_err(|e| {
                Error::new(Code::InvalidFile, format!("CAIRN_TRACE={path} cannot be written: {e}"))
            })?;
        Ok(TaskTrace { file: Mutex::new(Rank::Trace, Some(BufWriter::new(file))) })
    }
}

impl Sink for TaskTrace {
    fn event(&self, stamp: &Stamp, event: &Event<'_>) {
        let &Event::End { stream, device, seq, name, task, began_ns, outcome } = event else {
            return self.flush();
        };
        let mut slot = self.file.lock();
        let Some(file) = slot.as_mut() else { return };
        let (reads, writes) = match task {
            Some(task) => (list(&task.reads), list(&task.writes)),
            None => ("-".into(), "-".into()),
        };
        let suffix = match outcome {
            Outcome::Done => "",
            Outcome::Failed => "(failed)",
            Outcome::Dropped => "(dropped)",
        };
        let end_ns = stamp.time_ns();
        let written = writeln!(
            file,
            "{began_ns} {end_ns} {device} {stream} {seq} {name}{suffix} {reads} {writes}"
        );
        if let Err(error) = written {
            log::warn!("the task trace ends here: {error}");
            *slot = None;
        }
    }

    fn flush(&self) {
        let mut slot = self.file.lock();
        if let Some(Err(error)) = slot.as_mut().map(|file| file.flush()) {
            log::warn!("the task trace ends here: {error}");
            *slot = None;
        }
    }
}

fn list(spans: &Spans) -> String {
    match spans.is_empty() {
        true => "-".into(),
        false => spans.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(","),
    }
}
