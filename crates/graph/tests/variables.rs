//! Variables of a session: tensors by name that outlive runs and graphs.

mod support;

use cairn_graph::ir::{Attr, Desc, Graph, Node, Source};
use cairn_graph::model;
use cairn_graph::session::{OutputBlock, RunMode, SessionOutput};
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Kernel, Task};
use cairn_tensor::DType;
use std::sync::Arc;
use support::*;

fn variable(builder: &mut GraphBuilder, name: &str, dims: &[i64]) -> Source {
    let desc = Desc::new(DType::Float, dims);
    let node = Node {
        name: name.into(),
        kind: "Variable".into(),
        inputs: vec![None],
        input_descs: vec![Desc::default()],
        output_descs: vec![desc],
        ..Node::default()
    };
    Source { node: builder.0.add(node), output: 0 }
}

/// name = X
fn init(name: &str) -> Graph {
    let mut builder = GraphBuilder::new("init");
    let (to, from) = (variable(&mut builder, name, &[4]), builder.floats(&[4], &X));
    let set = builder.node("Assign", &[to, from]);
    builder.outputs(&[set])
}

/// name += 1; y = name * x, over an x of 4 elements, or of 1 or 4 where it is unknown.
fn step(name: &str, n: i64) -> Graph {
    let mut builder = GraphBuilder::new("step");
    let x = builder.data(&[n]);
    let (to, one) = (variable(&mut builder, name, &[4]), builder.floats(&[1], &[1.0]));
    let more = builder.node("AssignAdd", &[to, one]);
    let y = builder.node("Mul", &[more, x]);
    builder.outputs(&[y])
}

fn floats(out: &SessionOutput) -> Vec<f32> {
    let Some(OutputBlock::Host(bytes)) = &out.block else { panic!("an output on the host") };
    bytes.chunks(4).map(|one| f32::from_le_bytes(one.try_into().unwrap())).collect()
}

fn value(fixture: &Fixture, name: &str) -> Vec<f32> {
    let (names, values) = fixture.session.values(&[name.to_owned()]).unwrap();
    assert_eq!((names, values[0].dims.clone()), (vec![name.to_owned()], vec![4]));
    floats(&values[0])
}

#[test]
fn a_variable_goes_from_graph_to_graph() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    fixture.add(1, init("w"), &[]);
    fixture.add(2, step("w", 4), &[]);
    fixture.add(3, step("w", -1), &[]);
    fixture.add(4, step("w", 4), &[]);
    fixture.run(1, RunMode::Host, 0, &[], &[]).unwrap();
    assert_eq!(value(&fixture, "w"), X);
    let x = device(fixture.floats(&[2.0; 4]), &[4]);
    let out = device(fixture.allocate(16), &[4]);
    let inputs = std::slice::from_ref(&x);
    for _ in 0..50 {
        fixture.run(2, RunMode::Stream, stream, inputs, std::slice::from_ref(&out)).unwrap();
        fixture.run(3, RunMode::StreamV2, stream, inputs, std::slice::from_ref(&out)).unwrap();
    }
    assert_eq!(value(&fixture, "w"), X.map(|x| x + 100.0), "after what was submitted");
    assert_eq!(fixture.read(out.address, 4), X.map(|x| 2.0 * (x + 100.0)));
    let results = fixture.run(4, RunMode::HostV2, 0, &[host(&[0.5; 4], &[4])], &[]).unwrap();
    assert_eq!(floats(&results[0]), X.map(|x| (x + 101.0) / 2.0));
    assert_eq!(value(&fixture, "w"), X.map(|x| x + 101.0));
    for id in 1..=4 {
        fixture.session.remove(id).unwrap();
    }
    assert_eq!(value(&fixture, "w"), X.map(|x| x + 101.0), "it outlives its graphs");
}

#[test]
fn a_variable_begins_with_zeros_and_belongs_to_its_session() {
    let fixture = Fixture::new();
    let dirty = fixture.floats(&[9.0; 4]);
    fixture.runtime.shared.memory.free(dirty).unwrap();
    let other = fixture.engine.open(fixture.runtime, options(&[])).unwrap();
    let other = fixture.engine.session(other).unwrap();
    fixture.add(1, init("w"), &[]);
    fixture.run(1, RunMode::Host, 0, &[], &[]).unwrap();
    let graph = cairn_runtime::lock::Mutex::new(cairn_runtime::lock::Rank::Graph, step("w", 4));
    other.add(1, std::sync::Arc::new(graph), options(&[])).unwrap();
    let results = other.run(1, RunMode::Host, 0, &[host(&[1.0; 4], &[4])], &[]).unwrap();
    assert_eq!(floats(&results[0]), [1.0; 4]);
    assert_eq!(value(&fixture, "w"), X);
}

#[test]
fn the_memory_of_variables_is_the_devices_and_goes_back_with_the_session() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let pool = Pool::new(&fixture);
    fixture.register(stream, &pool);
    let x = device(fixture.floats(&[1.0; 4]), &[4]);
    let out = device(fixture.allocate(16), &[4]);
    let live = || fixture.runtime.shared.memory.usage(0).live;
    let before = live();
    fixture.add(1, step("w", 4), &[]);
    fixture.run(1, RunMode::Stream, stream, &[x], &[out]).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(pool.mallocs(), 2, "const and feature memory alone");
    fixture.session.remove(1).unwrap();
    assert_eq!(pool.live(), 0);
    assert!(live() > before, "the variable stays");
    fixture.engine.close(fixture.id).unwrap();
    assert_eq!(live(), before);
}

#[test]
fn a_name_stands_for_one_type_and_one_list_of_sizes() {
    let fixture = Fixture::new();
    fixture.add(1, init("w"), &[]);
    fixture.run(1, RunMode::Host, 0, &[], &[]).unwrap();
    let mut builder = GraphBuilder::new("other");
    let (to, from) = (variable(&mut builder, "w", &[2, 2]), builder.floats(&[2, 2], &X));
    let set = builder.node("Assign", &[to, from]);
    fixture.add(2, builder.outputs(&[set]), &[]);
    let failed = fixture.run(2, RunMode::Host, 0, &[], &[]).err().unwrap();
    for part in ["graph 2", "w", "[4]", "[2, 2]"] {
        assert!(failed.text.contains(part), "{part}: {}", failed.text);
    }
    let mut builder = GraphBuilder::new("twice");
    let (one, two) = (variable(&mut builder, "v", &[4]), variable(&mut builder, "v", &[2]));
    fixture.add(3, builder.outputs(&[one, two]), &[]);
    let failed = fixture.run(3, RunMode::Host, 0, &[], &[]).err().unwrap();
    assert!(failed.text.contains("[4]") && failed.text.contains("[2]"), "{}", failed.text);
    let mut builder = GraphBuilder::new("unknown");
    let one = variable(&mut builder, "u", &[-1]);
    fixture.add(4, builder.outputs(&[one]), &[]);
    let failed = fixture.run(4, RunMode::Host, 0, &[], &[]).err().unwrap();
    assert!(failed.text.contains("the variable u"), "{}", failed.text);
    assert_eq!(value(&fixture, "w"), X);
}

#[test]
fn a_shared_name_comes_before_the_name_of_the_node() {
    let fixture = Fixture::new();
    fixture.add(1, init("w"), &[]);
    let mut builder = GraphBuilder::new("shared");
    let one = variable(&mut builder, "mine", &[4]);
    let two = variable(&mut builder, "w", &[4]);
    let shared = Attr::Text(b"w".to_vec());
    builder.0.node_mut(one.node).unwrap().attrs.insert("shared_name".into(), shared);
    let sum = builder.node("Add", &[one, two]);
    fixture.add(2, builder.outputs(&[sum]), &[]);
    fixture.run(1, RunMode::Host, 0, &[], &[]).unwrap();
    let results = fixture.run(2, RunMode::Host, 0, &[], &[]).unwrap();
    assert_eq!(floats(&results[0]), X.map(|x| 2.0 * x));
}

#[test]
fn values_are_found_by_name() {
    let fixture = Fixture::new();
    assert!(fixture.session.values(&[]).unwrap().0.is_empty());
    let unknown = |name: &str| fixture.session.values(&[name.to_owned()]).err().unwrap();
    assert!(unknown("w").text.contains("no variable w"));
    fixture.add(1, init("w"), &[]);
    fixture.add(2, init("a"), &[]);
    fixture.session.graph(2).unwrap().compile(Vec::new()).unwrap();
    assert!(unknown("a").text.contains("no variable a"), "compiled is not loaded");
    fixture.run(1, RunMode::Host, 0, &[], &[]).unwrap();
    fixture.run(2, RunMode::Host, 0, &[], &[]).unwrap();
    let (names, values) = fixture.session.values(&[]).unwrap();
    assert_eq!((names, values.len()), (vec!["a".to_owned(), "w".to_owned()], 2));
    assert!(unknown("b").text.contains("no variable b"));
}

/// A run that the engine's thread is yet to submit counts as submitted; not for that thread, which would wait for itself.
#[test]
fn values_wait_for_runs_that_were_asked_for() {
    let fixture = Fixture::new();
    fixture.add(1, init("w"), &[]);
    fixture.add(2, step("w", 4), &[]);
    fixture.run(1, RunMode::Host, 0, &[], &[]).unwrap();
    let (both_requested, may_go_on) = std::sync::mpsc::channel::<()>();
    let (sender, receiver) = std::sync::mpsc::channel();
    let session = fixture.session.clone();
    let request_run = |callback: Box<dyn FnOnce() + Send>| {
        let inputs = vec![host(&[1.0; 4], &[4])];
        let on_end = move |results: Result<Vec<SessionOutput>, _>| {
            results.unwrap();
            callback();
        };
        fixture.engine.run_async(&fixture.session, 2, RunMode::Host, inputs, on_end).unwrap();
    };
    request_run(Box::new(move || {
        may_go_on.recv().unwrap();
        sender.send(session.values(&[]).map(|(names, _)| names)).unwrap();
    }));
    request_run(Box::new(|| {}));
    both_requested.send(()).unwrap();
    assert_eq!(value(&fixture, "w"), X.map(|x| x + 2.0));
    assert_eq!(receiver.recv().unwrap().unwrap(), ["w"]);
    fixture.engine.close(fixture.id).unwrap();
}

#[test]
fn the_first_interface_compiles_no_variables() {
    let fixture = Fixture::new();
    fixture.add(1, init("w"), &[]);
    let failed = fixture.session.graph(1).unwrap().check_no_variables().unwrap_err();
    assert!(failed.text.contains("variable w"), "{}", failed.text);
    fixture.add(2, two_nodes(), &[]);
    fixture.session.graph(2).unwrap().check_no_variables().unwrap();
}

fn two_nodes() -> Graph {
    let mut builder = GraphBuilder::new("two nodes");
    let x = builder.data(&[-1]);
    let y = builder.node("Add", &[x, x]);
    let _nobody_needs_it = builder.node("Mul", &[x, x]);
    builder.outputs(&[y])
}

/// A compiled graph as a model: with what was inferred, and it runs as before.
#[test]
fn a_compiled_graph_is_written_and_read_back() {
    let fixture = Fixture::new();
    fixture.add(1, two_nodes(), &[]);
    let entry = fixture.session.graph(1).unwrap();
    assert!(entry.compiled().is_err());
    entry.compile(vec![Desc::new(DType::Float, &[4])]).unwrap();
    let read = model::read(entry.compiled().unwrap().model().unwrap()).unwrap();
    let add = read.nodes().find(|(_, node)| node.kind == "Add").unwrap().1;
    assert_eq!((&add.output_descs[0].dims, add.output_descs[0].dtype), (&vec![4], DType::Float));
    assert!(add.input_descs.iter().all(|desc| desc.dims == [4]));
    assert!(read.nodes().all(|(_, node)| node.kind != "Mul"));
    fixture.add(2, read, &[]);
    fixture.add(3, step("w", 4), &[]);
    let stepped = fixture.session.graph(3).unwrap().compile(Vec::new()).unwrap().model().unwrap();
    fixture.add(4, model::read(stepped).unwrap(), &[]);
    for id in [1, 2] {
        let results = fixture.run(id, RunMode::Host, 0, &[host(&X, &[4])], &[]).unwrap();
        assert_eq!(floats(&results[0]), X.map(|x| 2.0 * x), "graph {id}");
    }
    for (id, count) in [(3, 1.0), (4, 2.0)] {
        let results = fixture.run(id, RunMode::Host, 0, &[host(&[1.0; 4], &[4])], &[]).unwrap();
        assert_eq!(floats(&results[0]), [count; 4], "graph {id}");
    }
}

/// Stops a stream until it is opened.
struct Gate(std::sync::atomic::AtomicBool);

impl Kernel for Gate {
    fn argument(&self, _purpose: Use, _index: usize) -> &str {
        "nothing"
    }

    fn run(&self, _task_memory: &TaskMemory<'_>) -> cairn_runtime::error::Result<()> {
        while !self.0.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// GE-RUN-10: runs that share memory come one after the other, whatever their streams.
#[test]
fn runs_that_share_a_variable_are_ordered_between_streams() {
    for n in [4, -1] {
        let fixture = Fixture::new();
        let (first, second) = (fixture.stream(), fixture.stream());
        fixture.add(1, step("w", n), &[]);
        fixture.add(2, step("w", n), &[]);
        let x = device(fixture.floats(&[1.0; 4]), &[4]);
        let outs = [0, 1].map(|_| device(fixture.allocate(16), &[4]));
        let run = |id, stream, out: &cairn_graph::session::RunTensor| {
            let inputs = std::slice::from_ref(&x);
            fixture.run(id, RunMode::Stream, stream, inputs, std::slice::from_ref(out)).unwrap();
        };
        run(1, first, &outs[0]);
        run(2, second, &outs[1]);
        fixture.sync(second).unwrap();
        let gate = Arc::new(Gate(false.into()));
        let stream_of = |handle| fixture.session.runtime.handles.get::<Stream>(handle).unwrap();
        let task = Task::bare("gate", Body::Kernel(gate.clone()));
        stream_of(first).submit(task).unwrap();
        run(1, first, &outs[0]);
        run(2, second, &outs[1]);
        for _ in 0..1000 {
            assert!(!stream_of(second).is_idle(), "the second ran before the first");
            std::thread::yield_now();
        }
        gate.0.store(true, std::sync::atomic::Ordering::SeqCst);
        fixture.sync(first).unwrap();
        fixture.sync(second).unwrap();
        assert_eq!(fixture.read(outs[0].address, 4), [3.0; 4], "of {n}");
        assert_eq!(fixture.read(outs[1].address, 4), [4.0; 4], "of {n}");
    }
}
