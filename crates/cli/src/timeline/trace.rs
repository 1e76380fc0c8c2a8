//! The events of a Chrome trace, written one by one.

use std::io::{self, Write};

use serde_json::{Value, json};

/// A line of a viewer: a thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    pub process: u64,
    pub thread: u64,
}

/// A trace that is being written. Times are nanoseconds; the format has microseconds.
pub struct Trace<W> {
    out: W,
    count: u64,
    /// The last id of an arrow or a range.
    ids: u64,
}

impl<W: Write> Trace<W> {
    /// Writes what comes before the events.
    pub fn begin(mut out: W) -> io::Result<Trace<W>> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        Ok(Trace { out, count: 0, ids: 0 })
    }

    /// Writes what comes after them; returns their number.
    pub fn end(mut self) -> io::Result<u64> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.count)
    }

    /// How a process is called.
    pub fn name_process(&mut self, process: u64, name: &str) -> io::Result<()> {
        let place = json!({"name": name});
        self.put(json!({"ph": "M", "name": "process_name", "pid": process, "args": place}))?;
        let order = json!({"sort_index": process});
        self.put(json!({"ph": "M", "name": "process_sort_index", "pid": process, "args": order}))
    }

    /// How a track is called.
    pub fn name_track(&mut self, track: Track, name: &str) -> io::Result<()> {
        let Track { process, thread } = track;
        let args = json!({"name": name});
        self.put(
            json!({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": args}),
        )?;
        let order = json!({"sort_index": thread});
        self.put(json!({"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": order}))
    }

    /// Something that took time.
    pub fn slice(
        &mut self,
        track: Track,
        name: &str,
        category: &str,
        began_ns: u64,
        length_ns: u64,
        facts: &Value,
    ) -> io::Result<()> {
        let Track { process, thread } = track;
        self.put(json!({
            "ph": "X", "name": name, "cat": category, "pid": process, "tid": thread,
            "ts": micros(began_ns), "dur": micros(length_ns), "args": facts,
        }))
    }

    /// From a moment on one track to a moment on another; each lies in a slice.
    pub fn arrow(&mut self, kind: &str, from: (Track, u64), to: (Track, u64)) -> io::Result<()> {
        self.ids += 1;
        let end = |phase: &str, (track, time_ns): (Track, u64)| {
            json!({
                "ph": phase, "name": kind, "cat": kind, "id": self.ids,
                "pid": track.process, "tid": track.thread, "ts": micros(time_ns),
            })
        };
        let begin = end("s", from);
        let mut finish = end("f", to);
        finish["bp"] = "e".into();
        self.put(begin)?;
        self.put(finish)
    }

    /// A span of a process that may overlap others.
    pub fn range(
        &mut self,
        process: u64,
        name: &str,
        began_ns: u64,
        ended_ns: u64,
    ) -> io::Result<()> {
        self.ids += 1;
        for (phase, time_ns) in [("b", began_ns), ("e", ended_ns)] {
            self.put(json!({
                "ph": phase, "name": name, "cat": "mark", "id": self.ids, "pid": process, "ts": micros(time_ns),
            }))?;
        }
        Ok(())
    }

    /// Values that changed, drawn as a stack.
    pub fn counter(
        &mut self,
        process: u64,
        name: &str,
        time_ns: u64,
        values: &Value,
    ) -> io::Result<()> {
        self.put(json!({
            "ph": "C", "name": name, "pid": process, "tid": 0, "ts": micros(time_ns), "args": values,
        }))
    }

    fn put(&mut self, event: Value) -> io::Result<()> {
        if self.count > 0 {
            self.out.write_all(b",\n")?;
        }
        self.count += 1;
        serde_json::to_writer(&mut self.out, &event)?;
        Ok(())
    }
}

/// Microseconds, exact to the nanosecond for the times that clocks have.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}
