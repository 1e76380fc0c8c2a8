//! What of a frame is shown, and in which order.

use std::{cmp::Reverse, collections::HashMap};

use cairn_runtime::live::details::{
    AllocatorFigures, CommunicatorFigures, PoolFigures, StreamFigures,
};

use super::frame::{Frame, Process};
use crate::text::{format_bytes, visible};

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The most bytes first; of streams, the most tasks that wait.
    #[default]
    Size,
    /// The busiest first.
    Activity,
    /// By number.
    Number,
}

impl Order {
    /// The next one.
    pub fn next(self) -> Order {
        match self {
            Order::Size => Order::Activity,
            Order::Activity => Order::Number,
            Order::Number => Order::Size,
        }
    }

    /// Its name on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Order::Size => "size",
            Order::Activity => "activity",
            Order::Number => "number",
        }
    }
}

/// What is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// One process, or all.
    pub pid: Option<i32>,
    pub order: Order,
}

/// A table with a title. The first column is to the left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub title: String,
    pub heading: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// The process of each row, in the table of processes.
    pub pids: Vec<i32>,
}

/// The frame before, and how many seconds ago it was.
pub struct Earlier<'a> {
    pub frame: &'a Frame,
    pub seconds: f64,
}

impl View {
    /// The tables of a frame. Rates need an earlier one.
    pub fn sections(&self, frame: &Frame, earlier: Option<&Earlier<'_>>) -> Vec<Section> {
        let shown = frame.of_process(self.pid);
        let rates = Rates::since(earlier);
        vec![
            devices(&shown),
            self.processes(frame, &rates),
            self.streams(&shown, &rates),
            self.pools(&shown),
            self.allocators(&shown),
            self.communicators(&shown),
        ]
    }

    fn processes(&self, frame: &Frame, rates: &Rates) -> Section {
        let mut all: Vec<&Process> = frame.processes.iter().collect();
        match self.order {
            Order::Size => all.sort_by_key(|process| Reverse(process.used())),
            Order::Activity => all.sort_by_key(|process| Reverse(rates.of_process(process))),
            Order::Number => all.sort_by_key(|process| process.snapshot.pid),
        }
        let row = |process: &&Process| {
            let streams: u64 = process.snapshot.devices.iter().map(|device| device.streams).sum();
            let queued = process.details.as_ref().map(|_| process.queued());
            vec![
                process.snapshot.name.clone(),
                process.snapshot.pid.to_string(),
                format_bytes(process.used()),
                streams.to_string(),
                queued.map_or("no answer".into(), |queued| queued.to_string()),
                rates.show(rates.of_process(process)),
            ]
        };
        let heading = ["command", "process", "memory", "streams", "queued", "tasks/s"];
        let mut section = section("Processes", &heading, all.iter().map(row).collect());
        section.pids = all.iter().map(|process| process.snapshot.pid).collect();
        section
    }

    fn streams(&self, frame: &Frame, rates: &Rates) -> Section {
        let mut all: Vec<(i32, StreamFigures)> = figures(frame, |details| &details.streams);
        let queued = |stream: &StreamFigures| stream.submitted.saturating_sub(stream.finished);
        match self.order {
            Order::Size => all.sort_by_key(|(_, stream)| Reverse(queued(stream))),
            Order::Activity => {
                all.sort_by_key(|(pid, stream)| Reverse(rates.of_stream(*pid, stream)));
            }
            Order::Number => all.sort_by_key(|(pid, stream)| (*pid, stream.stream)),
        }
        let row = |(pid, stream): &(i32, StreamFigures)| {
            vec![
                format!("{} of device {}", stream.stream, stream.device),
                pid.to_string(),
                stream.submitted.to_string(),
                stream.finished.to_string(),
                queued(stream).to_string(),
                rates.show(rates.of_stream(*pid, stream)),
            ]
        };
        let heading = ["stream", "process", "submitted", "finished", "queued", "tasks/s"];
        section("Streams", &heading, all.iter().map(row).collect())
    }

    fn pools(&self, frame: &Frame) -> Section {
        let mut all: Vec<(i32, PoolFigures)> = figures(frame, |details| &details.pools);
        match self.order {
            Order::Size => all.sort_by_key(|(_, pool)| Reverse(pool.reserved)),
            Order::Activity => all.sort_by_key(|(_, pool)| Reverse(pool.live)),
            Order::Number => all.sort_by_key(|(pid, pool)| (*pid, pool.number)),
        }
        let row = |(pid, pool): &(i32, PoolFigures)| {
            let kind = if pool.built_in { ", built in" } else { "" };
            vec![
                format!("{} of device {}{kind}", pool.number, pool.device),
                pid.to_string(),
                format_bytes(pool.reserved),
                format_bytes(pool.live),
                format_bytes(pool.peak),
                format_bytes(pool.waiting),
                pool.blocks.to_string(),
            ]
        };
        let heading = ["pool", "process", "reserved", "live", "peak", "waiting", "blocks"];
        section("Pools", &heading, all.iter().map(row).collect())
    }

    fn allocators(&self, frame: &Frame) -> Section {
        let mut all: Vec<(i32, AllocatorFigures)> = figures(frame, |details| &details.allocators);
        match self.order {
            Order::Size => all.sort_by_key(|(_, allocator)| Reverse(allocator.live)),
            Order::Activity => all.sort_by_key(|(_, allocator)| Reverse(allocator.taken)),
            Order::Number => all.sort_by_key(|(pid, allocator)| (*pid, allocator.object)),
        }
        let row = |(pid, allocator): &(i32, AllocatorFigures)| {
            vec![
                format!("{:#x} on device {}", allocator.object, allocator.device),
                pid.to_string(),
                format_bytes(allocator.live),
                format_bytes(allocator.peak),
                allocator.blocks.to_string(),
                allocator.taken.to_string(),
                allocator.freed.to_string(),
            ]
        };
        let heading = ["allocator", "process", "live", "peak", "blocks", "taken", "given back"];
        section("Allocators of programs", &heading, all.iter().map(row).collect())
    }

    fn communicators(&self, frame: &Frame) -> Section {
        let mut all: Vec<(i32, CommunicatorFigures)> =
            figures(frame, |details| &details.communicators);
        let queued = |it: &CommunicatorFigures| it.submitted.saturating_sub(it.finished);
        match self.order {
            Order::Size => all.sort_by_key(|(_, it)| Reverse(queued(it))),
            Order::Activity => all.sort_by_key(|(_, it)| Reverse(it.finished)),
            Order::Number => all.sort_by_key(|(pid, it)| (*pid, it.device, it.rank)),
        }
        let row = |(pid, it): &(i32, CommunicatorFigures)| {
            vec![
                format!("{} on device {}", visible(&it.name).replace(['\n', '\t'], " "), it.device),
                pid.to_string(),
                format!("{} of {}", it.rank, it.size),
                it.submitted.to_string(),
                it.finished.to_string(),
                queued(it).to_string(),
            ]
        };
        let heading = ["communicator", "process", "rank", "operators", "finished", "queued"];
        section("Communicators", &heading, all.iter().map(row).collect())
    }
}

fn devices(frame: &Frame) -> Section {
    let rows = frame.devices().into_iter().map(|device| {
        let part = match device.capacity {
            0 => "-".into(),
            capacity => format!("{:.1} %", device.used as f64 * 100.0 / capacity as f64),
        };
        vec![
            device.device.to_string(),
            format_bytes(device.used),
            format_bytes(device.capacity),
            part,
            format_bytes(device.waiting),
            device.streams.to_string(),
            device.processes.to_string(),
        ]
    });
    let heading = ["device", "in use", "of", "part", "waiting", "streams", "processes"];
    section("Devices", &heading, rows.collect())
}

fn section(title: &str, heading: &[&str], rows: Vec<Vec<String>>) -> Section {
    let heading = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let title = match rows.len() {
        0 => format!("{title}: none"),
        _ => title.to_owned(),
    };
    Section { title, heading, rows, pids: Vec::new() }
}

/// Figures of all processes, each with its process.
fn figures<T: Clone>(
    frame: &Frame,
    of: fn(&cairn_runtime::live::details::Details) -> &Vec<T>,
) -> Vec<(i32, T)> {
    let processes = frame.processes.iter();
    let details =
        processes.filter_map(|process| Some((process.snapshot.pid, process.details.as_ref()?)));
    details
        .flat_map(|(pid, details)| of(details).iter().map(move |one| (pid, one.clone())))
        .collect()
}

/// Tasks a second, since an earlier frame.
struct Rates {
    /// Finished tasks then, by process and stream.
    finished: HashMap<(i32, u32), u64>,
    seconds: Option<f64>,
}

impl Rates {
    fn since(earlier: Option<&Earlier<'_>>) -> Rates {
        let streams = earlier.map(|earlier| figures(earlier.frame, |details| &details.streams));
        let key = |(pid, stream): (i32, StreamFigures)| ((pid, stream.stream), stream.finished);
        Rates {
            finished: streams.into_iter().flatten().map(key).collect(),
            seconds: earlier.map(|earlier| earlier.seconds).filter(|seconds| *seconds > 0.0),
        }
    }

    fn of_stream(&self, pid: i32, stream: &StreamFigures) -> u64 {
        let before = self.finished.get(&(pid, stream.stream)).copied();
        let done = stream.finished.saturating_sub(before.unwrap_or(stream.finished));
        self.seconds.map_or(0, |seconds| (done as f64 / seconds) as u64)
    }

    fn of_process(&self, process: &Process) -> u64 {
        let streams = process.details.iter().flat_map(|details| &details.streams);
        streams.map(|stream| self.of_stream(process.snapshot.pid, stream)).sum()
    }

    /// A dash where nothing is known.
    fn show(&self, rate: u64) -> String {
        self.seconds.map_or("-".into(), |_| rate.to_string())
    }
}
