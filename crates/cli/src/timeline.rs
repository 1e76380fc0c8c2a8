//! `cairn timeline`: records as a trace that opens in Perfetto and in `chrome://tracing`.
//!
//! A process of the trace is a device, with a track for each stream, or the host, with a track for each thread. Tasks, waits of
//! threads and callbacks are slices; an arrow leads from the record of an event to the wait for it; counters show the memory
//! of a device by purpose. Of several records (one for each rank) every one has its own processes, on one clock, and arrows lead
//! from rank to rank where operators of communicators belong together.

mod arrows;
mod clocks;
mod counters;
#[cfg(test)]
mod tests;
mod trace;

use std::{
    collections::HashMap,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use cairn_record::{
    Epoch,
    entry::{Collective, Communicator, Outcome, SyncObject, TaskKind},
};
use serde_json::json;
use trace::{Trace, Track};

use crate::{
    history::History,
    meetings::{self, Meeting},
    output,
    progress::Progress,
    symbols::Stacks,
};

/// What `cairn timeline` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The records; several are drawn one below the other on one clock
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The trace; RECORD.json when not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the trace and says where it is.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let output = match &arguments.output {
        Some(path) => path.clone(),
        None => arguments.files[0].with_extension("json"),
    };
    let progress = Progress::of_files(&arguments.files);
    let histories: Vec<History> = (arguments.files.iter())
        .map(|path| History::open(path, &progress))
        .collect::<Result<_>>()?;
    let file = BufWriter::new(output::create(&output, &arguments.files)?);
    let meetings = meetings::find(&histories);
    let clocks = clocks::align(&histories, &meetings);
    let titles = titles(&arguments.files, &histories);
    let count = write(file, &histories, &titles, &meetings, &clocks.shifts)
        .with_context(|| format!("cannot write {}", output.display()))?;
    drop(progress);
    clocks.notes.iter().for_each(|note| println!("{note}"));
    println!("{}: {count} events; open it in https://ui.perfetto.dev", output.display());
    Ok(ExitCode::SUCCESS)
}

/// The names of records in the trace, with the ranks that they are; empty for a single one.
fn titles(files: &[PathBuf], histories: &[History]) -> Vec<String> {
    let title = |(path, history): (&PathBuf, &History)| {
        let name = path.file_name().filter(|_| files.len() > 1)?;
        let rank = history.rank().map_or(String::new(), |rank| format!("rank {rank}, "));
        Some(format!("{rank}{}: ", Path::new(name).display()))
    };
    files.iter().zip(histories).map(|pair| title(pair).unwrap_or_default()).collect()
}

/// Writes the trace of some records, which begin at `shifts`; returns the number of events in it.
fn write(
    out: impl Write,
    histories: &[History],
    titles: &[String],
    meetings: &[Meeting],
    shifts: &[u64],
) -> std::io::Result<u64> {
    let mut trace = Trace::begin(out)?;
    let records: Vec<Record<'_>> = (histories.iter().zip(titles).zip(shifts).enumerate())
        .map(|(index, ((history, title), shift_ns))| Record {
            history,
            title,
            first_process: index as u64 * PROCESSES,
            shift_ns: *shift_ns,
            collectives: history.collectives.iter().map(|it| (epoch_key(it.epoch), it)).collect(),
        })
        .collect();
    for record in &records {
        record.write_names(&mut trace)?;
        record.write_tasks(&mut trace)?;
        record.write_arrows(&mut trace)?;
        record.write_host(&mut trace)?;
        counters::write(record, &mut trace)?;
    }
    arrows::write(&records, meetings, &mut trace)?;
    trace.end()
}

fn epoch_key(epoch: Epoch) -> (u32, u64) {
    (epoch.stream, epoch.seq)
}

/// How many processes of the trace a record may have: the host and its devices.
const PROCESSES: u64 = 1000;

/// A record, and where it stands in the trace.
struct Record<'a> {
    history: &'a History,
    title: &'a str,
    first_process: u64,
    shift_ns: u64,
    /// Tasks that are operators of communicators.
    collectives: HashMap<(u32, u64), &'a Collective>,
}

impl Record<'_> {
    fn host_track(&self, thread: u64) -> Track {
        Track { process: self.first_process + 1, thread }
    }

    fn device_process(&self, device: u32) -> u64 {
        self.first_process + 2 + u64::from(device)
    }

    fn stream_track(&self, stream: u32) -> Option<Track> {
        let device = *self.history.streams.get(&stream)?;
        Some(Track { process: self.device_process(device), thread: u64::from(stream) })
    }

    fn time(&self, ns: u64) -> u64 {
        ns + self.shift_ns
    }

    fn write_names(&self, trace: &mut Trace<impl Write>) -> std::io::Result<()> {
        let (history, title) = (self.history, self.title);
        let host = self.host_track(0).process;
        trace.name_process(
            host,
            &format!("{title}host, process {}: {}", history.header.pid, history.header.command),
        )?;
        for device in history.devices.keys() {
            trace.name_process(self.device_process(*device), &format!("{title}device {device}"))?;
        }
        for stream in history.streams.keys() {
            if let Some(track) = self.stream_track(*stream) {
                trace.name_track(track, &format!("stream {stream}"))?;
            }
        }
        let mut threads: Vec<u64> = (history.waits.iter().map(|wait| wait.thread))
            .chain(history.callbacks.iter().map(|callback| callback.thread))
            .collect();
        threads.sort_unstable();
        threads.dedup();
        for thread in threads {
            trace.name_track(self.host_track(thread), &format!("thread {thread}"))?;
        }
        Ok(())
    }

    fn write_tasks(&self, trace: &mut Trace<impl Write>) -> std::io::Result<()> {
        let mut stacks = Stacks::new(&self.history.stacks);
        for task in self.history.runs.tasks() {
            let (Some(track), Some(began), Some(ended)) =
                (self.stream_track(task.epoch.stream), task.began_ns, task.ended_ns)
            else {
                continue;
            };
            let mut facts = json!({"task": task.epoch.seq, "call": &*task.site.entry});
            facts["waited in the queue, us"] =
                (began.saturating_sub(task.submitted_ns) as f64 / 1e3).into();
            if task.outcome == Some(Outcome::Failed) {
                facts["outcome"] = "failed".into();
            }
            if let Some(call) = self.collectives.get(&epoch_key(task.epoch))
                && let Some(communicator) = self.history.communicators.get(&call.communicator)
            {
                let Communicator { name, rank, size, .. } = communicator;
                facts["communicator"] = format!("{name}, rank {rank} of {size}").into();
                facts["ticket"] = call.ticket.into();
                facts["elements"] = call.count.into();
            }
            let nodes = task.plan.and_then(|plan| self.history.plans.get(&plan));
            if let Some(nodes) = nodes.filter(|nodes| !nodes.is_empty()) {
                facts["steps"] = nodes.join("\n").into();
            }
            if task.site.stack != 0 {
                facts["stack"] = stacks.describe(task.site.stack).join("\n").into();
            }
            let category = match task.kind {
                TaskKind::Nothing | TaskKind::Work => "task",
                TaskKind::HostFunction => "host function",
                TaskKind::Record | TaskKind::Wait => "event",
            };
            trace.slice(track, &task.name, category, self.time(began), ended - began, &facts)?;
        }
        Ok(())
    }

    /// An arrow begins in the middle of the slice that records, and ends in that of the wait: between the ends of slices a
    /// viewer would have to guess which one is meant. A wait that began earlier ends after the record: the arrow ends near that
    /// end, since no viewer draws one that leads back in time.
    fn write_arrows(&self, trace: &mut Trace<impl Write>) -> std::io::Result<()> {
        for edge in &self.history.edges {
            let span = |epoch| {
                let task = self.history.runs.get(epoch)?;
                Some((self.stream_track(epoch.stream)?, task.began_ns?, task.ended_ns?))
            };
            let (Some(record), Some(wait)) = (span(edge.record), span(edge.wait)) else { continue };
            let middle = |began: u64, ended: u64| began + (ended.saturating_sub(began)) / 2;
            let from_ns = middle(record.1, record.2);
            let to_ns = middle(wait.1.max(from_ns), wait.2.max(from_ns));
            trace.arrow("event", (record.0, self.time(from_ns)), (wait.0, self.time(to_ns)))?;
        }
        Ok(())
    }

    fn write_host(&self, trace: &mut Trace<impl Write>) -> std::io::Result<()> {
        for wait in &self.history.waits {
            let facts = match wait.what {
                SyncObject::Stream(stream) => json!({"stream": stream}),
                SyncObject::Event(event) => json!({"event": event}),
                SyncObject::Device(device) => json!({"device": device}),
            };
            let name = if wait.call.is_empty() { "wait" } else { &*wait.call };
            let (began, length) = (self.time(wait.began_ns), wait.ended_ns - wait.began_ns);
            trace.slice(self.host_track(wait.thread), name, "wait", began, length, &facts)?;
        }
        for call in &self.history.callbacks {
            let callback = &call.callback;
            let facts = json!({
                "allocator": format!("{:#x}", callback.object),
                "answer": callback.answer.map(|answer| format!("{answer:#x}")),
                "stream": callback.stream,
                "in": &*call.call,
            });
            let (began, length) = (self.time(call.began_ns), call.ended_ns - call.began_ns);
            let (track, name) = (self.host_track(call.thread), callback.request.to_string());
            trace.slice(track, &name, "callback", began, length, &facts)?;
        }
        let process = self.host_track(0).process;
        for mark in &self.history.marks {
            let ended = mark.ended_ns.unwrap_or(self.history.end_ns);
            trace.range(process, &mark.text, self.time(mark.began_ns), self.time(ended))?;
        }
        Ok(())
    }
}
