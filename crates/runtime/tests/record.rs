//! What the event spine emits for a known sequence of calls.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::clock::{Clock, Epoch};
use cairn_runtime::event::Kind as EventKind;
use cairn_runtime::host;
use cairn_runtime::record::event::Outcome;
use cairn_runtime::record::{Access, Event, Kind, Mode, Sink, Stamp, SyncObject, site};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Location, Span, Task};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::*;

/// A line per event, with the site in front where there is one.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// The epochs of a clock as text.
fn epochs(clock: &Clock) -> String {
    let one = |epoch: &Epoch| format!("{}:{}", epoch.stream, epoch.seq);
    clock.epochs().iter().map(one).collect::<Vec<_>>().join(" ")
}

fn describe_object(object: SyncObject) -> String {
    match object {
        SyncObject::Stream(stream) => format!("stream {stream}"),
        SyncObject::Event(id) => format!("event {id}"),
        SyncObject::Device(id) => format!("device {id}"),
    }
}

fn describe_accesses(accesses: &[Access]) -> String {
    let one = |access: &Access| {
        let (start, end) = access.bounds();
        format!("{:?} {}", access.mode, end - start)
    };
    accesses.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn describe(event: &Event<'_>) -> String {
    match event {
        Event::Usage { device, used, .. } => format!("usage device {device} {used}"),
        Event::Submit { stream, seq, task, ordered, .. } => {
            let mut accesses = Vec::new();
            task.each_access(&mut |access| accesses.push(access));
            let accesses = describe_accesses(&accesses);
            format!("submit {stream}:{seq} {} [{}] ({accesses})", task.name, epochs(ordered))
        }
        Event::Start { stream, seq } => format!("start {stream}:{seq}"),
        Event::End { stream, seq, name, outcome, .. } => {
            let suffix = match outcome {
                Outcome::Done => "",
                Outcome::Failed => " failed",
                Outcome::Dropped => " dropped",
            };
            format!("end {stream}:{seq} {name}{suffix}")
        }
        Event::Record { event, epoch } => {
            format!("record {event} at {}:{}", epoch.stream, epoch.seq)
        }
        Event::Wait { event, record, epoch } => {
            let record = record.map_or("nothing yet".into(), |r| format!("{}:{}", r.stream, r.seq));
            format!("wait {event} at {}:{} for {record}", epoch.stream, epoch.seq)
        }
        Event::Complete { what, known } => {
            format!("complete {} knows [{}]", describe_object(*what), epochs(known))
        }
        Event::Synchronize { what, known, .. } => {
            format!("synchronize {} knows [{}]", describe_object(*what), epochs(known))
        }
        Event::Stream { stream, device, change, count, .. } => {
            format!("stream {stream} of device {device} {change:?}, {count} there")
        }
        Event::Context { device, change, .. } => format!("context of device {device} {change:?}"),
        Event::Device { device, change, .. } => format!("device {device} {change:?}"),
        Event::Touch { name, accesses } => {
            format!("touch {name} ({})", describe_accesses(accesses))
        }
        _ => format!("{:?}", event.kind()),
    }
}

impl Sink for Lines {
    fn event(&self, stamp: &Stamp, event: &Event<'_>) {
        let site = match stamp.site().entry {
            "" => String::new(),
            entry => {
                assert_eq!(stamp.site().thread, host::HostThread::current().number());
                format!("{entry}: ")
            }
        };
        self.0.lock().unwrap().push(format!("{site}{}", describe(event)));
    }
}

const ALL_BUT_MEMORY: [Kind; 12] = [
    Kind::Submit,
    Kind::Start,
    Kind::End,
    Kind::Record,
    Kind::Wait,
    Kind::Complete,
    Kind::Synchronize,
    Kind::Stream,
    Kind::Context,
    Kind::Device,
    Kind::Run,
    Kind::Touch,
];

/// Records all events except those of memory.
fn record_events(runtime: &TestRuntime) -> Arc<Lines> {
    let lines = Arc::new(Lines::default());
    runtime.shared.spine.subscribe(lines.clone(), &ALL_BUT_MEMORY).unwrap();
    lines
}

fn submit_nothing(stream: &Arc<Stream>) {
    stream.submit(Task::bare("nothing", Body::Nothing)).unwrap();
}

#[test]
fn a_program_is_recorded_call_by_call() {
    let runtime = start_runtime(1, |_| ());
    let lines = record_events(&runtime);
    site::enter("aclrtSetDevice", || runtime.set_device(0).unwrap());
    let handle = site::enter("aclrtCreateStream", || runtime.create_stream(0, 0).unwrap());
    let a = runtime.stream(handle).unwrap();
    let opened = [
        "aclrtSetDevice: device 0 Created",
        "aclrtSetDevice: context of device 0 Created",
        "aclrtSetDevice: stream 0 of device 0 Created, 0 there",
        "aclrtCreateStream: stream 1 of device 0 Created, 1 there",
    ];
    assert_eq!(lines.take(), opened);

    let block = runtime.alloc(0, 64);
    site::enter("aclrtMemsetAsync", || a.submit(fill(block, 1)).unwrap());
    let event = runtime.event(runtime.create_event(EventKind::Plain, 9).unwrap()).unwrap();
    site::enter("aclrtRecordEvent", || event.record(&a).unwrap());
    site::enter("aclrtSynchronizeEvent", || assert!(event.synchronize(None).unwrap()));
    runtime.synchronize(&a, None).unwrap();
    let mut emitted = lines.take();
    let synchronized =
        emitted.iter().position(|line| line.contains("synchronize event 0")).unwrap();
    assert_eq!(
        emitted.remove(synchronized).split(" knows").next().unwrap(),
        "aclrtSynchronizeEvent: synchronize event 0"
    );
    let is_of_program = |line: &String| !line.starts_with("start") && !line.starts_with("end");
    let (program, machine): (Vec<_>, Vec<_>) = emitted.into_iter().partition(is_of_program);
    let submitted = [
        "aclrtMemsetAsync: submit 1:1 fill [] (Write 64)",
        "aclrtRecordEvent: record 0 at 1:2",
        "aclrtRecordEvent: submit 1:2 aclrtRecordEvent [] ()",
    ];
    assert_eq!(program[..3], submitted);
    assert_eq!(program[3], "synchronize stream 1 knows [1:2]");
    assert_eq!(program.len(), 4);
    let expected = ["start 1:1", "end 1:1 fill", "start 1:2", "end 1:2 aclrtRecordEvent"];
    assert_eq!(machine, expected, "what runs has no site, also when the waiting thread runs it");

    let b = runtime.new_stream();
    let created = ["stream 2 of device 0 Created, 2 there"];
    assert_eq!(lines.take(), created);
    site::enter("aclrtStreamWaitEvent", || event.wait(&b, Duration::ZERO).unwrap());
    runtime.synchronize(&b, None).unwrap();
    let waited = [
        "aclrtStreamWaitEvent: wait 0 at 2:1 for 1:2",
        "aclrtStreamWaitEvent: submit 2:1 aclrtStreamWaitEvent [1:2] ()",
        "start 2:1",
        "end 2:1 aclrtStreamWaitEvent",
        "synchronize stream 2 knows [1:2 2:1]",
    ];
    let emitted = lines.take();
    assert!(emitted == waited, "{emitted:#?}");

    assert!(site::enter("aclrtQueryEventStatus", || event.is_complete().unwrap()));
    assert!(site::enter("aclrtStreamQuery", || b.query()));
    let queried = [
        "aclrtQueryEventStatus: complete event 0 knows [1:2]",
        "aclrtStreamQuery: complete stream 2 knows [1:2 2:1]",
    ];
    assert_eq!(lines.take(), queried);

    site::enter("aclrtDestroyStream", || runtime.destroy_stream(handle, true).unwrap());
    let ended = [
        "aclrtDestroyStream: synchronize stream 1 knows [1:2]",
        "aclrtDestroyStream: stream 1 of device 0 Destroyed, 1 there",
    ];
    assert_eq!(lines.take(), ended);

    let device = runtime.device(0).unwrap();
    site::enter("aclrtSynchronizeDevice", || runtime.synchronize_device(device, None).unwrap());
    assert_eq!(lines.take(), ["aclrtSynchronizeDevice: synchronize device 0 knows [1:2 2:1]"]);

    site::enter("aclrtResetDevice", || runtime.reset_device(0, false).unwrap());
    let reset = [
        "aclrtResetDevice: synchronize stream 2 knows [1:2 2:1]",
        "aclrtResetDevice: stream 2 of device 0 Destroyed, 0 there",
        "aclrtResetDevice: synchronize stream 0 knows []",
        "aclrtResetDevice: stream 0 of device 0 Destroyed, 0 there",
        "aclrtResetDevice: context of device 0 Destroyed",
        "aclrtResetDevice: device 0 Destroyed",
    ];
    assert_eq!(lines.take(), reset);
}

#[test]
fn a_wait_that_parks_starts_once_and_a_failure_is_emitted() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (a, b, gate) = (runtime.new_stream(), runtime.new_stream(), Gate::default());
    let lines = record_events(&runtime);
    a.submit(gate.task()).unwrap();
    let event = runtime.event(runtime.create_event(EventKind::Ex, 1).unwrap()).unwrap();
    event.record(&a).unwrap();
    event.wait(&b, Duration::ZERO).unwrap();
    let is_parked = |lines: &Lines| {
        let emitted = lines.0.lock().unwrap();
        emitted.iter().any(|line| *line == format!("start {}:1", b.index))
    };
    while !is_parked(&lines) {
        std::thread::yield_now();
    }
    gate.open();
    runtime.synchronize(&b, None).unwrap();
    b.submit(host_task(|| false)).unwrap();
    assert!(runtime.synchronize(&b, None).is_err());
    let emitted = lines.take();
    let count = |what: &str| emitted.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count(&format!("start {}:1", b.index)), 1, "{emitted:#?}");
    assert_eq!(count(&format!("end {}:1 aclrtStreamWaitEvent", b.index)), 1);
    assert_eq!(count(&format!("end {}:2 aclrtLaunchHostFunc failed", b.index)), 1);
    let known = format!("synchronize stream {} knows [{}:2 {}:1]", b.index, a.index, b.index);
    assert_eq!(count(&known), 1, "{emitted:#?}");
}

#[test]
fn a_dropped_task_ends_without_having_begun() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (a, gate, to) = (runtime.new_stream(), Gate::default(), runtime.alloc(0, 64));
    let lines = record_events(&runtime);
    a.submit(gate.task()).unwrap();
    a.submit(fill(to, 7)).unwrap();
    a.abort();
    gate.open();
    let _ = runtime.synchronize(&a, None);
    let emitted = lines.take();
    let count = |what: String| emitted.iter().filter(|line| line.contains(&what)).count();
    assert_eq!(count(format!("end {}:2 fill dropped", a.index)), 1, "{emitted:#?}");
    assert_eq!(count(format!("start {}:2", a.index)), 0, "{emitted:#?}");
}

#[test]
fn what_the_host_touches_itself_is_emitted() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (from, to) = (runtime.alloc(0, 64), runtime.alloc(0, 64));
    let lines = record_events(&runtime);
    runtime.perform(&fill(from, 3)).unwrap();
    runtime.perform(&copy(from, to)).unwrap();
    assert_eq!(runtime.read("graph", to.address, 16).unwrap(), [3; 16]);
    runtime.emit_host_access("RunGraph", 0x1000, 8, Mode::Write);
    let nowhere = Span { address: 0x10, bytes: 64, location: Location::Any };
    assert!(runtime.perform(&copy(nowhere, to)).is_err());
    assert_eq!(runtime.read("graph", 0x10, 16), None);
    let emitted = [
        "touch fill (Write 64)",
        "touch copy (Read 64, Write 64)",
        "touch graph (Read 16)",
        "touch RunGraph (Write 8)",
    ];
    assert_eq!(lines.take(), emitted, "what was refused touched nothing");
}

#[test]
fn a_late_sink_gets_the_ends_of_earlier_tasks() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (a, gate) = (runtime.new_stream(), Gate::default());
    a.submit(gate.task()).unwrap();
    submit_nothing(&a);
    let lines = record_events(&runtime);
    gate.open();
    runtime.synchronize(&a, None).unwrap();
    let ended = |seq: u64, name: &str| format!("end {}:{seq} {name}", a.index);
    let emitted = lines.take();
    assert!(emitted.contains(&ended(1, "aclrtLaunchHostFunc")), "{emitted:#?}");
    assert!(emitted.contains(&ended(2, "nothing")), "{emitted:#?}");
}
