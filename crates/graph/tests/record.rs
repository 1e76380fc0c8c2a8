//! The events of operators and graphs: accesses with strides, loads with their steps, runs and unloads.

mod support;

use cairn_exec::Execution;
use cairn_graph::session::{Options, RunMode};
use cairn_ops::{Arg, Tensor};
use cairn_runtime::lock::{Mutex as Ranked, Rank};
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::record::event::StepPlan;
use cairn_runtime::record::{Access, Event, Kind, Mode, Overlap, Sink, Stamp};
use cairn_tensor::{DType, Layout};
use std::sync::{Arc, Mutex};
use support::*;

#[derive(Clone, Debug, PartialEq)]
enum RecordedEvent {
    Submit { name: &'static str, stream: u32, seq: u64, accesses: Vec<Access> },
    Load(StepPlan),
    Run { plan: u64, stream: u32, seq: Option<u64>, regions: Vec<usize> },
    Unload { loaded: u64 },
    Alloc { purpose: Purpose, owner: Owner },
    Touch { accesses: Vec<Access> },
}

#[derive(Default)]
struct EventLog(Mutex<Vec<RecordedEvent>>);

impl EventLog {
    fn subscribe(fixture: &Fixture, kinds: &[Kind]) -> Arc<EventLog> {
        let log = Arc::new(EventLog::default());
        fixture.runtime.shared.spine.subscribe(log.clone(), kinds).unwrap();
        log
    }

    fn take(&self) -> Vec<RecordedEvent> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Sink for EventLog {
    fn event(&self, _: &Stamp, event: &Event<'_>) {
        let emitted = match *event {
            Event::Submit { stream, seq, task, .. } => {
                let mut accesses = Vec::new();
                task.each_access(&mut |access| accesses.push(access));
                RecordedEvent::Submit { name: task.name, stream, seq, accesses }
            }
            Event::Load(plan) => RecordedEvent::Load(plan.clone()),
            Event::Run { plan, stream, seq, regions } => {
                RecordedEvent::Run { plan, stream, seq, regions: regions.to_vec() }
            }
            Event::Unload { loaded } => RecordedEvent::Unload { loaded },
            Event::Alloc { purpose, owner, .. } => RecordedEvent::Alloc { purpose, owner },
            Event::Touch { accesses, .. } => RecordedEvent::Touch { accesses: accesses.to_vec() },
            _ => return,
        };
        self.0.lock().unwrap().push(emitted);
    }
}

/// Runs an operator of aclnn on a stream and gives the accesses that it reported.
fn accesses(
    fixture: &Fixture,
    log: &EventLog,
    stream: usize,
    name: &'static str,
    args: Vec<Arg>,
) -> Vec<Access> {
    let row = cairn_ops::rows()[name];
    let plan = row.plan(&["p0", "p1", "p2", "p3", "p4", "p5"], args.into()).unwrap();
    let execution = Execution::new(name, plan, None);
    let workspace = match execution.workspace() {
        0 => 0,
        bytes => fixture.allocate(bytes),
    };
    let submit_stream = fixture.runtime.stream(stream).unwrap();
    execution.submit(&submit_stream, &execution.addresses(), workspace).unwrap();
    fixture.sync(stream).unwrap();
    let emitted = log.take();
    let [RecordedEvent::Submit { accesses, .. }] = &emitted[..] else { panic!("{emitted:?}") };
    accesses.clone()
}

fn first_write(accesses: &[Access]) -> &Access {
    accesses.iter().find(|access| access.mode.writes()).unwrap()
}

#[test]
fn two_streams_on_interleaved_columns_do_not_overlap() {
    let fixture = Fixture::new();
    let log = EventLog::subscribe(&fixture, &[Kind::Submit]);
    let (a, b) = (fixture.stream(), fixture.stream());
    let block = fixture.floats(&[0.0; 64]);
    let source = fixture.floats(&[2.0; 32]);
    let columns = |first: isize| {
        Arg::Tensor(Tensor::new(Layout::strided(DType::Float, &[8, 4], &[8, 2], first), block))
    };
    let from = || Arg::Tensor(Tensor::new(Layout::contiguous(DType::Float, &[8, 4]), source));
    let even = accesses(&fixture, &log, a, "InplaceCopy", vec![columns(0), from()]);
    let odd = accesses(&fixture, &log, b, "InplaceCopy", vec![columns(1), from()]);
    let (even, odd) = (first_write(&even), first_write(&odd));
    let (low, high) = (even.bounds(), odd.bounds());
    assert!(low.0 < high.1 && high.0 < low.1, "the ranges between first and last byte do overlap");
    assert_eq!(even.overlap(odd), Overlap::No);
    assert_eq!((even.mode, even.indexed), (Mode::Write, false));

    let row = Layout::contiguous(DType::Float, &[8]).from_offset(16);
    let whole = Arg::Tensor(Tensor::new(row, block));
    let short = Arg::Tensor(Tensor::new(Layout::contiguous(DType::Float, &[8]), source));
    let row = accesses(&fixture, &log, b, "InplaceCopy", vec![whole, short]);
    assert_eq!(
        even.overlap(first_write(&row)),
        Overlap::Yes,
        "the row has cells of the even columns"
    );
    assert_eq!(odd.overlap(first_write(&row)), Overlap::Yes);

    let numbers = fixture.read(block, 64);
    assert!(numbers.iter().all(|number| *number == 2.0), "{numbers:?}");
}

#[test]
fn what_is_read_by_index_may_overlap() {
    let fixture = Fixture::new();
    let log = EventLog::subscribe(&fixture, &[Kind::Submit]);
    let stream = fixture.stream();
    let table = fixture.floats(&[1.0; 32]);
    let index = fixture.allocate(16);
    let indices: Vec<u8> = [1i64, 3].iter().flat_map(|index| index.to_le_bytes()).collect();
    fixture.runtime.shared.memory.extent(index, 16).unwrap().write(&indices);
    let out = fixture.allocate(64);
    let tensor = |dtype, dims: &[usize], address| {
        Arg::Tensor(Tensor::new(Layout::contiguous(dtype, dims), address))
    };
    let args = vec![
        tensor(DType::Float, &[4, 8], table),
        Arg::Int(0),
        tensor(DType::Int64, &[2], index),
        tensor(DType::Float, &[2, 8], out),
    ];
    let emitted = accesses(&fixture, &log, stream, "IndexSelect", args);
    let at = |address: usize| emitted.iter().find(|one| one.address == address).unwrap();
    let marked = [table, index, out].map(|address| at(address).indexed);
    assert_eq!((emitted.len(), marked), (3, [true, false, false]));
}

/// The softmax of x times weights: two steps.
fn two_steps() -> cairn_graph::ir::Graph {
    let mut builder = GraphBuilder::new("steps");
    let x = builder.data(&[2, 4]);
    let weights = builder.floats(&[4, 3], &[1.0; 12]);
    let product = builder.node("MatMul", &[x, weights]);
    let soft = builder.node("SoftmaxV2", &[product]);
    builder.outputs(&[soft])
}

#[test]
fn a_static_graph_reports_its_steps_once_and_its_runs_refer_to_them() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    fixture.add(1, two_steps(), &[]);
    let x = device(fixture.floats(&[1.0; 8]), &[2, 4]);
    let out = device(fixture.allocate(24), &[2, 3]);
    let run = || {
        let (inputs, outputs) = (std::slice::from_ref(&x), std::slice::from_ref(&out));
        fixture.run(1, RunMode::Stream, stream, inputs, outputs).unwrap();
        fixture.sync(stream).unwrap();
    };
    run();
    let log = EventLog::subscribe(&fixture, &[Kind::Load, Kind::Run, Kind::Submit]);
    run();
    let emitted = log.take();
    let [
        RecordedEvent::Load(plan),
        RecordedEvent::Run { plan: id, stream: run_stream, seq, regions },
        RecordedEvent::Submit { name, stream: submit_stream, seq: number, .. },
    ] = &emitted[..]
    else {
        panic!("{emitted:#?}")
    };
    assert_eq!((plan.id, *run_stream, *seq, *name), (*id, *submit_stream, Some(*number), "graph"));
    let nodes: Vec<&str> = plan.steps.iter().map(|step| &*step.node).collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    assert!(nodes[0].contains("MatMul") && nodes[1].contains("Softmax"), "{nodes:?}");
    let ranges = |step: usize, mode: Mode| -> Vec<(usize, u64)> {
        let of_mode = plan.steps[step].accesses.iter().filter(|one| one.access.mode == mode);
        let resolved = of_mode.map(|one| {
            let (start, end) = one.access.bounds();
            (regions[one.region as usize] + start as usize, end - start)
        });
        resolved.collect()
    };
    assert!(
        ranges(0, Mode::Read).contains(&(x.address, 32)),
        "the input is read by the first step"
    );
    assert!(
        ranges(1, Mode::Write).contains(&(out.address, 24)),
        "the output is made by the second"
    );
    let product = ranges(0, Mode::Write)[0];
    assert!(ranges(1, Mode::Read).contains(&product), "what the first makes, the second reads");

    run();
    let emitted = log.take();
    assert!(
        matches!(&emitted[..], [RecordedEvent::Run { .. }, RecordedEvent::Submit { .. }]),
        "{emitted:#?}"
    );

    let late_log = EventLog::subscribe(&fixture, &[Kind::Load, Kind::Run]);
    run();
    let emitted = late_log.take();
    assert!(
        matches!(&emitted[..], [RecordedEvent::Load(again), RecordedEvent::Run { .. }] if again == plan),
        "{emitted:#?}"
    );
}

#[test]
fn what_a_session_reads_on_the_host_is_reported() {
    let fixture = Fixture::new();
    fixture.add(1, two_steps(), &[]);
    let log = EventLog::subscribe(&fixture, &[Kind::Touch]);
    let results = fixture.run(1, RunMode::Host, 0, &[host(&[1.0; 8], &[2, 4])], &[]).unwrap();
    assert_eq!(results.len(), 1);
    let emitted = log.take();
    let reads = |one: &RecordedEvent| match one {
        RecordedEvent::Touch { accesses } => {
            let [access] = &accesses[..] else { return false };
            access.mode == Mode::Read && access.element == 24
        }
        _ => false,
    };
    assert!(emitted.iter().any(reads), "{emitted:#?}");
}

const GRAPH_EVENTS: [Kind; 3] = [Kind::Load, Kind::Run, Kind::Unload];

/// What is reported of a graph that is loaded, run twice and removed.
fn load_and_run(graph: cairn_graph::ir::Graph, n: i64) -> Vec<RecordedEvent> {
    let fixture = Fixture::new();
    let log = EventLog::subscribe(&fixture, &GRAPH_EVENTS);
    let stream = fixture.stream();
    fixture.add(1, graph, &[]);
    let x = device(fixture.floats(&[1.0; 8]), &[2, n]);
    for _ in 0..2 {
        let out = device(fixture.allocate(64), &[2, n]);
        fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[out]).unwrap();
    }
    fixture.sync(stream).unwrap();
    fixture.session.remove(1).unwrap();
    log.take()
}

#[test]
fn the_load_of_a_graph_is_reported_when_it_is_loaded_and_its_end_when_it_ends() {
    let mut builder = GraphBuilder::new("static");
    let x = builder.data(&[2, 4]);
    let soft = builder.node("SoftmaxV2", &[x]);
    let log = load_and_run(builder.outputs(&[soft]), 4);
    let [
        RecordedEvent::Load(plan),
        RecordedEvent::Run { plan: first, seq: Some(_), .. },
        RecordedEvent::Run { plan: second, seq: Some(_), .. },
        RecordedEvent::Unload { loaded },
    ] = &log[..]
    else {
        panic!("{log:#?}")
    };
    assert_eq!((plan.id, plan.id, plan.loaded), (*first, *second, *loaded));
    assert_eq!(plan.steps.len(), 1);
}

#[test]
fn a_dynamic_graph_is_reported_as_a_static_one_without_steps() {
    let mut builder = GraphBuilder::new("dynamic");
    let x = builder.data(&[2, -1]);
    let soft = builder.node("SoftmaxV2", &[x]);
    let log = load_and_run(builder.outputs(&[soft]), 4);
    let [
        RecordedEvent::Load(plan),
        RecordedEvent::Run { plan: first, seq: None, regions, .. },
        RecordedEvent::Run { plan: second, seq: None, .. },
        RecordedEvent::Unload { loaded },
    ] = &log[..]
    else {
        panic!("{log:#?}")
    };
    assert_eq!((plan.id, plan.id, plan.loaded), (*first, *second, *loaded));
    assert!(plan.steps.is_empty() && regions.is_empty());
}

#[test]
fn a_load_is_reported_before_any_run() {
    let fixture = Fixture::new();
    fixture.add(1, two_steps(), &[]);
    let log = EventLog::subscribe(&fixture, &GRAPH_EVENTS);
    fixture.session.graph(1).unwrap().compile(Vec::new()).unwrap();
    assert!(log.take().is_empty());
    let entry = fixture.session.graph(1).unwrap();
    fixture.session.load(&entry, fixture.stream(), &Options::default(), true).unwrap();
    let log = log.take();
    assert!(matches!(&log[..], [RecordedEvent::Load(plan)] if plan.steps.len() == 2), "{log:#?}");
}

#[test]
fn memory_of_a_graph_names_its_load_and_the_users_id() {
    let fixture = Fixture::new();
    let other = fixture.engine.open(fixture.runtime, Options::default()).unwrap();
    let other = fixture.engine.session(other).unwrap();
    let log = EventLog::subscribe(&fixture, &[Kind::Alloc, Kind::Load]);
    let mut loads = Vec::new();
    for session in [&fixture.session, &other] {
        let graph = Arc::new(Ranked::new(Rank::Graph, two_steps()));
        session.add(1, graph, Options::default()).unwrap();
        let entry = session.graph(1).unwrap();
        entry.compile(Vec::new()).unwrap();
        session.load(&entry, fixture.stream(), &Options::default(), true).unwrap();
        let log = log.take();
        let plan = log.iter().find_map(|one| match one {
            RecordedEvent::Load(plan) => Some(plan.clone()),
            _ => None,
        });
        let loaded = plan.expect("the load is reported").loaded;
        let owners: Vec<Owner> = (log.iter())
            .filter_map(|one| match one {
                RecordedEvent::Alloc { purpose: Purpose::Const | Purpose::Feature, owner } => {
                    Some(*owner)
                }
                _ => None,
            })
            .collect();
        assert_eq!(owners.len(), 2, "{log:#?}");
        assert!(owners.iter().all(|owner| (owner.graph, owner.loaded) == (Some(1), Some(loaded))));
        loads.push(loaded);
    }
    assert_ne!(loads[0], loads[1]);
}

#[test]
fn a_slice_touches_its_elements_alone() {
    let fixture = Fixture::new();
    let log = EventLog::subscribe(&fixture, &[Kind::Submit]);
    let stream = fixture.stream();
    let block = fixture.floats(&[0.0; 64]);
    let (out, source) = (fixture.allocate(128), fixture.floats(&[2.0; 32]));
    let tensor = |dims: &[usize], address| {
        Arg::Tensor(Tensor::new(Layout::contiguous(DType::Float, dims), address))
    };
    let ints = |numbers: &[i64]| Arg::Ints(numbers.to_vec());
    let args = vec![
        tensor(&[8, 8], block),
        ints(&[0]),
        ints(&[8]),
        ints(&[1]),
        ints(&[2]),
        tensor(&[8, 4], out),
    ];
    let even = accesses(&fixture, &log, stream, "SliceV2", args);
    let odd = Layout::strided(DType::Float, &[8, 4], &[8, 2], 1);
    let odd = vec![Arg::Tensor(Tensor::new(odd, block)), tensor(&[8, 4], source)];
    let odd = accesses(&fixture, &log, stream, "InplaceCopy", odd);
    let even = even.iter().find(|one| one.mode == Mode::Read).unwrap();
    assert_eq!(even.overlap(first_write(&odd)), Overlap::No);
    let row = Layout::contiguous(DType::Float, &[8]).from_offset(16);
    let row = vec![Arg::Tensor(Tensor::new(row, block)), tensor(&[8], source)];
    let row = accesses(&fixture, &log, stream, "InplaceCopy", row);
    assert_eq!(even.overlap(first_write(&row)), Overlap::Yes);
}
