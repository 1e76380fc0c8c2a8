//! What the event spine tells of operators and graphs: accesses with strides, and the steps of a static graph.

mod support;

use cairn_exec::Execution;
use cairn_graph::session::How;
use cairn_ops::{Arg, Tensor};
use cairn_runtime::record::event::StepPlan;
use cairn_runtime::record::{Access, Event, Kind, Mode, Overlap, Sink, Stamp};
use cairn_tensor::{DType, Layout};
use std::sync::{Arc, Mutex};
use support::*;

#[derive(Clone, Debug, PartialEq)]
enum Told {
    Submit { name: &'static str, stream: u32, seq: u64, accesses: Vec<Access> },
    Load(StepPlan),
    Run { plan: u64, stream: u32, seq: u64, regions: Vec<usize> },
    Touch { accesses: Vec<Access> },
}

#[derive(Default)]
struct Heard(Mutex<Vec<Told>>);

impl Heard {
    fn on(world: &World, kinds: &[Kind]) -> Arc<Heard> {
        let heard = Arc::new(Heard::default());
        world.runtime.shared.spine.subscribe(heard.clone(), kinds).unwrap();
        heard
    }

    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Sink for Heard {
    fn event(&self, _: &Stamp, event: &Event<'_>) {
        let told = match *event {
            Event::Submit { stream, seq, task, .. } => {
                let mut accesses = Vec::new();
                task.each_access(&mut |access| accesses.push(access));
                Told::Submit { name: task.name, stream, seq, accesses }
            }
            Event::Load(plan) => Told::Load(plan.clone()),
            Event::Run { plan, epoch, regions } => {
                let (stream, seq) = (epoch.stream, epoch.seq);
                Told::Run { plan, stream, seq, regions: regions.to_vec() }
            }
            Event::Touch { accesses, .. } => Told::Touch { accesses: accesses.to_vec() },
            _ => return,
        };
        self.0.lock().unwrap().push(told);
    }
}

/// Runs an operator of aclnn on a stream and gives what it was said to touch.
fn accesses(
    world: &World,
    heard: &Heard,
    stream: usize,
    name: &'static str,
    args: Vec<Arg>,
) -> Vec<Access> {
    let row = cairn_ops::rows()[name];
    let plan = row.plan(&["p0", "p1", "p2", "p3", "p4"], args.into()).unwrap();
    let execution = Execution::new(name, plan, None);
    let workspace = match execution.workspace() {
        0 => 0,
        bytes => world.room(bytes),
    };
    let on = world.runtime.stream(stream).unwrap();
    execution.submit(&on, &execution.addresses(), workspace).unwrap();
    world.sync(stream).unwrap();
    let told = heard.take();
    let [Told::Submit { accesses, .. }] = &told[..] else { panic!("{told:?}") };
    accesses.clone()
}

fn writes(accesses: &[Access]) -> &Access {
    accesses.iter().find(|access| access.mode.writes()).unwrap()
}

#[test]
fn two_streams_on_interleaved_columns_do_not_meet() {
    let world = World::new();
    let heard = Heard::on(&world, &[Kind::Submit]);
    let (a, b) = (world.stream(), world.stream());
    let block = world.floats(&[0.0; 64]);
    let source = world.floats(&[2.0; 32]);
    let columns = |first: isize| {
        Arg::Tensor(Tensor::new(Layout::strided(DType::Float, &[8, 4], &[8, 2], first), block))
    };
    let from = || Arg::Tensor(Tensor::new(Layout::contiguous(DType::Float, &[8, 4]), source));
    let even = accesses(&world, &heard, a, "InplaceCopy", vec![columns(0), from()]);
    let odd = accesses(&world, &heard, b, "InplaceCopy", vec![columns(1), from()]);
    let (even, odd) = (writes(&even), writes(&odd));
    let (low, high) = (even.bounds(), odd.bounds());
    assert!(low.0 < high.1 && high.0 < low.1, "the ranges between first and last byte do meet");
    assert_eq!(even.overlap(odd), Overlap::No);
    assert_eq!((even.mode, even.indexed), (Mode::Write, false));

    let row = Layout::contiguous(DType::Float, &[8]).from_offset(16);
    let whole = Arg::Tensor(Tensor::new(row, block));
    let short = Arg::Tensor(Tensor::new(Layout::contiguous(DType::Float, &[8]), source));
    let row = accesses(&world, &heard, b, "InplaceCopy", vec![whole, short]);
    assert_eq!(even.overlap(writes(&row)), Overlap::Yes, "the row has cells of the even columns");
    assert_eq!(odd.overlap(writes(&row)), Overlap::Yes);

    let numbers = world.read(block, 64);
    assert!(numbers.iter().all(|number| *number == 2.0), "{numbers:?}");
}

#[test]
fn what_goes_by_index_may_touch() {
    let world = World::new();
    let heard = Heard::on(&world, &[Kind::Submit]);
    let stream = world.stream();
    let table = world.floats(&[1.0; 32]);
    let index = world.room(16);
    let places: Vec<u8> = [1i64, 3].iter().flat_map(|place| place.to_le_bytes()).collect();
    world.runtime.shared.memory.extent(index, 16).unwrap().write(&places);
    let out = world.room(64);
    let tensor = |dtype, dims: &[usize], address| {
        Arg::Tensor(Tensor::new(Layout::contiguous(dtype, dims), address))
    };
    let args = vec![
        tensor(DType::Float, &[4, 8], table),
        Arg::Int(0),
        tensor(DType::Int64, &[2], index),
        tensor(DType::Float, &[2, 8], out),
    ];
    let told = accesses(&world, &heard, stream, "IndexSelect", args);
    let at = |address: usize| told.iter().find(|one| one.address == address).unwrap();
    let marked = [table, index, out].map(|address| at(address).indexed);
    assert_eq!((told.len(), marked), (3, [true, false, false]));
}

/// The softmax of x times weights: two steps.
fn two_steps() -> cairn_graph::ir::Graph {
    let mut make = Maker::new("steps");
    let x = make.data(&[2, 4]);
    let weights = make.floats(&[4, 3], &[1.0; 12]);
    let product = make.node("MatMul", &[x, weights]);
    let soft = make.node("SoftmaxV2", &[product]);
    make.outputs(&[soft])
}

#[test]
fn a_static_graph_tells_its_steps_once_and_its_runs_refer_to_them() {
    let world = World::new();
    let stream = world.stream();
    world.add(1, two_steps(), &[]);
    let x = device(world.floats(&[1.0; 8]), &[2, 4]);
    let out = device(world.room(24), &[2, 3]);
    let run = || {
        let (inputs, outputs) = (std::slice::from_ref(&x), std::slice::from_ref(&out));
        world.run(1, How::Stream, stream, inputs, outputs).unwrap();
        world.sync(stream).unwrap();
    };
    run();
    let heard = Heard::on(&world, &[Kind::Load, Kind::Run, Kind::Submit]);
    run();
    let told = heard.take();
    let [
        Told::Load(plan),
        Told::Run { plan: id, stream: on, seq, regions },
        Told::Submit { name, stream: of, seq: number, .. },
    ] = &told[..]
    else {
        panic!("{told:#?}")
    };
    assert_eq!((plan.id, *on, *seq, *name), (*id, *of, *number, "graph"));
    let nodes: Vec<&str> = plan.steps.iter().map(|step| &*step.node).collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    assert!(nodes[0].contains("MatMul") && nodes[1].contains("Softmax"), "{nodes:?}");
    let at = |step: usize, mode: Mode| -> Vec<(usize, u64)> {
        let of_mode = plan.steps[step].accesses.iter().filter(|one| one.access.mode == mode);
        let resolved = of_mode.map(|one| {
            let (start, end) = one.access.bounds();
            (regions[one.region as usize] + start as usize, end - start)
        });
        resolved.collect()
    };
    assert!(at(0, Mode::Read).contains(&(x.address, 32)), "the input is read by the first step");
    assert!(at(1, Mode::Write).contains(&(out.address, 24)), "the output is made by the second");
    let product = at(0, Mode::Write)[0];
    assert!(at(1, Mode::Read).contains(&product), "what the first makes, the second reads");

    run();
    let told = heard.take();
    assert!(matches!(&told[..], [Told::Run { .. }, Told::Submit { .. }]), "{told:#?}");

    let late = Heard::on(&world, &[Kind::Load, Kind::Run]);
    run();
    let told = late.take();
    assert!(
        matches!(&told[..], [Told::Load(again), Told::Run { .. }] if again == plan),
        "{told:#?}"
    );
}

#[test]
fn what_a_session_reads_on_the_host_is_told() {
    let world = World::new();
    world.add(1, two_steps(), &[]);
    let heard = Heard::on(&world, &[Kind::Touch]);
    let made = world.run(1, How::Host, 0, &[host(&[1.0; 8], &[2, 4])], &[]).unwrap();
    assert_eq!(made.len(), 1);
    let told = heard.take();
    let reads = |one: &Told| match one {
        Told::Touch { accesses } => {
            let [access] = &accesses[..] else { return false };
            access.mode == Mode::Read && access.element == 24
        }
        _ => false,
    };
    assert!(told.iter().any(reads), "{told:#?}");
}
