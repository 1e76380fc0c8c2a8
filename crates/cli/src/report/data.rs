//! What the page shows of a history, as columns and texts.

use std::collections::{BTreeMap, BTreeSet};

use cairn_record::entry::{Outcome, Purpose, SyncObject, TaskKind};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::columns::{Column, Columns};
use crate::{
    blocks::device_name,
    history::{BlockLife, History, TaskRun},
    symbols::Stacks,
};

/// The data of a page.
pub struct PageData {
    pub columns: Columns,
    /// Everything that is not a long list of numbers.
    pub facts: Value,
}

/// Texts, each once; columns have their numbers.
#[derive(Default)]
struct Texts {
    list: Vec<String>,
    numbers: FxHashMap<String, i32>,
}

impl Texts {
    fn number(&mut self, text: &str) -> i32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.list.len() as i32;
        self.list.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// A time for the page; what never came is infinite.
fn time(ns: Option<u64>) -> f64 {
    ns.map_or(f64::INFINITY, |ns| ns as f64)
}

/// The data of a page about a history.
pub fn collect(history: &History) -> PageData {
    let mut columns = Columns::default();
    let mut texts = Texts::default();
    texts.number("");
    put_blocks(history, &mut columns, &mut texts);
    put_changes(history, &mut columns);
    put_tasks(history, &mut columns, &mut texts);
    put_host(history, &mut columns, &mut texts);
    put_marks(history, &mut columns, &mut texts);
    put_usage(history, &mut columns);
    let mut stacks = Stacks::new(&history.stacks);
    let mut of_number = BTreeMap::new();
    for number in history.stacks.keys() {
        let lines: Vec<i32> = (stacks.lines(*number).iter())
            .map(|line| texts.number(&line.shortened().to_string()))
            .collect();
        of_number.insert(number.to_string(), lines);
    }
    let streams: Vec<Value> = (history.streams.iter())
        .map(|(stream, device)| json!({"stream": stream, "device": device}))
        .collect();
    let plans: BTreeMap<String, &Vec<String>> =
        history.plans.iter().map(|(id, nodes)| (id.to_string(), nodes)).collect();
    let facts = json!({
        "command": history.header.command,
        "pid": history.header.pid,
        "entries": history.entries,
        "end": history.end_ns,
        "ended_in_order": history.ended_in_order,
        "damage": history.damage.iter().map(|damage| &damage.reason).collect::<Vec<_>>(),
        "purposes": Purpose::ALL.map(Purpose::name),
        "places": places(history),
        "streams": streams,
        "stacks": of_number,
        "plans": plans,
        "texts": texts.list,
    });
    PageData { columns, facts }
}

/// The devices that had blocks or tasks, or all if none had any; and the host if it had blocks.
fn places(history: &History) -> Vec<Value> {
    let of_blocks = history.lives.blocks().iter().filter_map(BlockLife::device);
    let of_tasks =
        history.runs.tasks().iter().filter_map(|run| history.streams.get(&run.epoch.stream));
    let used: BTreeSet<u32> = of_blocks.chain(of_tasks.copied()).collect();
    let mut places: Vec<Value> = (history.devices.iter())
        .filter(|(device, _)| used.is_empty() || used.contains(device))
        .map(|(device, capacity)| {
            json!({"device": device, "name": device_name(Some(*device)), "capacity": capacity})
        })
        .collect();
    if history.lives.blocks().iter().any(|block| block.device().is_none()) {
        places.push(json!({"device": -1, "name": device_name(None), "capacity": 0}));
    }
    places
}

fn device_number(block: &BlockLife) -> i32 {
    block.device().map_or(-1, |device| device as i32)
}

fn put_blocks(history: &History, columns: &mut Columns, texts: &mut Texts) {
    let blocks = history.lives.blocks();
    let mut bytes = |name: &str, value: &dyn Fn(&BlockLife) -> u8| {
        columns.push(name, Column::Bytes(blocks.iter().map(value).collect()));
    };
    bytes("block.class", &|block| block.class as u8);
    bytes("block.purpose", &|block| block.purpose as u8);
    bytes("block.divided", &|block| u8::from(block.is_divided));
    let mut integers = |name: &str, value: &mut dyn FnMut(&BlockLife) -> i32| {
        columns.push(name, Column::Integers(blocks.iter().map(value).collect()));
    };
    integers("block.device", &mut device_number);
    integers("block.parent", &mut |block| block.parent.map_or(-1, |parent| parent as i32));
    integers("block.kind", &mut |block| texts.number(&block.kind.to_string()));
    integers("block.owner", &mut |block| texts.number(&history.owner_name(&block.owner)));
    integers("block.call", &mut |block| texts.number(&block.call));
    integers("block.stack", &mut |block| block.stack as i32);
    integers("block.stream", &mut |block| block.stream.map_or(-1, |stream| stream as i32));
    let mut floats = |name: &str, value: &dyn Fn(&BlockLife) -> f64| {
        columns.push(name, Column::Floats(blocks.iter().map(value).collect()));
    };
    floats("block.address", &|block| block.address as f64);
    floats("block.bytes", &|block| block.bytes as f64);
    floats("block.made", &|block| block.made_ns as f64);
    floats("block.freed", &|block| time(block.freed_ns));
    floats("block.reusable", &|block| time(block.reusable_ns));
}

/// For each place, when blocks were made and freed, in the order of time: twice the block's number, plus one for a free.
fn put_changes(history: &History, columns: &mut Columns) {
    let mut changes: BTreeMap<i32, Vec<(u64, i32)>> = BTreeMap::new();
    for (index, block) in history.lives.blocks().iter().enumerate() {
        let list = changes.entry(device_number(block)).or_default();
        list.push((block.made_ns, index as i32 * 2));
        list.extend(block.freed_ns.map(|freed| (freed, index as i32 * 2 + 1)));
    }
    for (device, mut list) in changes {
        // At one time frees come first: what was freed and taken again never counted twice.
        list.sort_unstable_by_key(|(time_ns, change)| (*time_ns, change % 2 == 0, *change));
        let numbers = list.into_iter().map(|(_, change)| change).collect();
        columns.push(&format!("changes.{device}"), Column::Integers(numbers));
    }
}

fn put_tasks(history: &History, columns: &mut Columns, texts: &mut Texts) {
    let mut tasks: Vec<&TaskRun> = history.runs.tasks().iter().collect();
    tasks.sort_by_key(|task| (task.epoch.stream, task.epoch.seq));
    let place: FxHashMap<(u32, u64), i32> = (tasks.iter().enumerate())
        .map(|(index, task)| ((task.epoch.stream, task.epoch.seq), index as i32))
        .collect();
    let mut bytes = |name: &str, value: &dyn Fn(&TaskRun) -> u8| {
        columns.push(name, Column::Bytes(tasks.iter().map(|task| value(task)).collect()));
    };
    bytes("task.kind", &|task| match task.kind {
        TaskKind::Nothing | TaskKind::Work => 0,
        TaskKind::HostFunction => 1,
        TaskKind::Record => 2,
        TaskKind::Wait => 3,
    });
    bytes("task.failed", &|task| u8::from(task.outcome == Some(Outcome::Failed)));
    let mut integers = |name: &str, value: &mut dyn FnMut(&TaskRun) -> i32| {
        columns.push(name, Column::Integers(tasks.iter().map(|task| value(task)).collect()));
    };
    integers("task.stream", &mut |task| task.epoch.stream as i32);
    integers("task.name", &mut |task| texts.number(&task.name));
    integers("task.call", &mut |task| texts.number(&task.site.entry));
    integers("task.stack", &mut |task| task.site.stack as i32);
    integers("task.plan", &mut |task| task.plan.map_or(-1, |plan| plan as i32));
    let mut floats = |name: &str, value: &dyn Fn(&TaskRun) -> f64| {
        columns.push(name, Column::Floats(tasks.iter().map(|task| value(task)).collect()));
    };
    floats("task.seq", &|task| task.epoch.seq as f64);
    floats("task.touched", &|task| task.touched as f64);
    floats("task.submitted", &|task| task.submitted_ns as f64);
    floats("task.began", &|task| time(task.began_ns));
    floats("task.ended", &|task| time(task.ended_ns));
    let edges: Vec<[i32; 2]> = (history.edges.iter())
        .filter_map(|edge| {
            let of = |stream, seq| place.get(&(stream, seq)).copied();
            let from = of(edge.record.stream, edge.record.seq)?;
            Some([from, of(edge.wait.stream, edge.wait.seq)?])
        })
        .collect();
    columns.push("edge.record", Column::Integers(edges.iter().map(|edge| edge[0]).collect()));
    columns.push("edge.wait", Column::Integers(edges.iter().map(|edge| edge[1]).collect()));
}

/// A wait of a host thread, or a call of a user's allocator.
struct HostSpan {
    thread: u64,
    is_callback: bool,
    text: i32,
    call: i32,
    began_ns: u64,
    ended_ns: u64,
}

fn put_host(history: &History, columns: &mut Columns, texts: &mut Texts) {
    let mut spans: Vec<HostSpan> = Vec::new();
    for wait in &history.waits {
        let what = match wait.what {
            SyncObject::Stream(stream) => format!("waits for stream {stream}"),
            SyncObject::Event(event) => format!("waits for event {event}"),
            SyncObject::Device(device) => format!("waits for device {device}"),
        };
        spans.push(HostSpan {
            thread: wait.thread,
            is_callback: false,
            text: texts.number(&what),
            call: texts.number(&wait.call),
            began_ns: wait.began_ns,
            ended_ns: wait.ended_ns,
        });
    }
    for call in &history.callbacks {
        let what = format!("{} of {:#x}", call.callback.request, call.callback.object);
        spans.push(HostSpan {
            thread: call.thread,
            is_callback: true,
            text: texts.number(&what),
            call: texts.number(&call.call),
            began_ns: call.began_ns,
            ended_ns: call.ended_ns,
        });
    }
    spans.sort_by_key(|span| (span.thread, span.began_ns, std::cmp::Reverse(span.ended_ns)));
    let integers =
        |value: &dyn Fn(&HostSpan) -> i32| Column::Integers(spans.iter().map(value).collect());
    let floats = |value: &dyn Fn(&HostSpan) -> u64| {
        Column::Floats(spans.iter().map(|s| value(s) as f64).collect())
    };
    columns.push("host.thread", integers(&|span| span.thread as i32));
    columns.push("host.callback", integers(&|span| i32::from(span.is_callback)));
    columns.push("host.text", integers(&|span| span.text));
    columns.push("host.call", integers(&|span| span.call));
    columns.push("host.began", floats(&|span| span.began_ns));
    columns.push("host.ended", floats(&|span| span.ended_ns));
}

fn put_marks(history: &History, columns: &mut Columns, texts: &mut Texts) {
    let marks = &history.marks;
    let names = marks.iter().map(|mark| texts.number(&mark.text)).collect();
    columns.push("mark.text", Column::Integers(names));
    let began = marks.iter().map(|mark| mark.began_ns as f64).collect();
    columns.push("mark.began", Column::Floats(began));
    let ended = marks.iter().map(|mark| mark.ended_ns.unwrap_or(history.end_ns) as f64).collect();
    columns.push("mark.ended", Column::Floats(ended));
}

fn put_usage(history: &History, columns: &mut Columns) {
    let usage = &history.usage;
    let devices = usage.iter().map(|point| point.device as i32).collect();
    columns.push("usage.device", Column::Integers(devices));
    let mut floats = |name: &str, value: fn(&crate::history::Usage) -> u64| {
        columns.push(name, Column::Floats(usage.iter().map(|point| value(point) as f64).collect()));
    };
    floats("usage.time", |point| point.time_ns);
    floats("usage.used", |point| point.used);
    floats("usage.quarantined", |point| point.quarantined);
}
