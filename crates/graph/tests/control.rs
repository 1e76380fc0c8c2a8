//! Branches, loops and calls: in static graphs as one task, in dynamic ones node by node, and through the model format.

mod support;

use cairn_exec::Target;
use cairn_graph::executable::{CompileOptions, Executable, LoadOptions};
use cairn_graph::ir::{Attr, Desc, Graph, Node, Source};
use cairn_graph::model;
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::stream::Stream;
use cairn_tensor::DType;
use std::sync::Arc;
use support::*;

/// Adds a node with graphs of its own.
fn control(
    build: &mut GraphBuilder,
    kind: &str,
    inputs: &[Source],
    outputs: usize,
    subgraphs: Vec<Graph>,
) -> Vec<Source> {
    let node = build.0.add(Node {
        name: format!("{}{}", kind.to_lowercase(), build.0.len()),
        kind: kind.into(),
        inputs: inputs.iter().map(|one| Some(*one)).collect(),
        input_descs: vec![Desc::default(); inputs.len()],
        output_descs: vec![Desc::default(); outputs],
        subgraphs,
        ..Node::default()
    });
    (0..outputs).map(|output| Source { node, output }).collect()
}

/// y = x * factor + 1.
fn scaled(name: &str, factor: f32) -> Graph {
    let mut build = GraphBuilder::new(name);
    let x = build.data(&[-1]);
    let factor = build.floats(&[1], &[factor]);
    let one = build.floats(&[1], &[1.0]);
    let product = build.node("Mul", &[x, factor]);
    let y = build.node("Add", &[product, one]);
    build.outputs(&[y])
}

/// Where the sum of x is positive 2x + 1, else 10x + 1; then the negative of it.
fn branching(dim: i64) -> Graph {
    let mut build = GraphBuilder::new("branching");
    let x = build.data(&[dim]);
    let axes = build.ints(&[0]);
    let sum = build.node("ReduceSum", &[x, axes]);
    let zero = build.floats(&[], &[0.0]);
    let condition = build.node("Greater", &[sum, zero]);
    let graphs = vec![scaled("then", 2.0), scaled("else", 10.0)];
    let y = control(&mut build, "If", &[condition, x], 1, graphs);
    let y = build.node("Neg", &[y[0]]);
    build.outputs(&[y])
}

/// (x, n): doubles x n times; the number of times is the second state, as a number.
fn repeating(dim: i64) -> Graph {
    let mut condition = GraphBuilder::new("condition");
    condition.data(&[dim]);
    let left = condition.data(&[]);
    let zero = condition.floats(&[], &[0.0]);
    let goes_on = condition.node("Greater", &[left, zero]);
    let condition = condition.outputs(&[goes_on]);
    let mut body = GraphBuilder::new("body");
    let x = body.data(&[dim]);
    let left = body.data(&[]);
    let one = body.floats(&[], &[1.0]);
    let two = body.floats(&[1], &[2.0]);
    let x = body.node("Mul", &[x, two]);
    let left = body.node("Sub", &[left, one]);
    let body = body.outputs(&[x, left]);
    let mut build = GraphBuilder::new("repeating");
    let x = build.data(&[dim]);
    let count = build.data(&[]);
    let made = control(&mut build, "While", &[x, count], 2, vec![condition, body]);
    build.outputs(&made)
}

/// Swaps x and y as often as the third says: what the body makes are its inputs, in the other order.
fn swapping() -> Graph {
    let state = |build: &mut GraphBuilder| [build.data(&[2]), build.data(&[2]), build.data(&[])];
    let mut condition = GraphBuilder::new("condition");
    let [_, _, left] = state(&mut condition);
    let zero = condition.floats(&[], &[0.0]);
    let goes_on = condition.node("Greater", &[left, zero]);
    let condition = condition.outputs(&[goes_on]);
    let mut body = GraphBuilder::new("body");
    let [x, y, left] = state(&mut body);
    let one = body.floats(&[], &[1.0]);
    let left = body.node("Sub", &[left, one]);
    let body = body.outputs(&[y, x, left]);
    let mut build = GraphBuilder::new("swapping");
    let inputs = state(&mut build);
    let made = control(&mut build, "While", &inputs, 3, vec![condition, body]);
    build.outputs(&made[..2])
}

/// Appends its own sum to x as long as x has fewer than eight elements: sizes grow.
fn growing() -> Graph {
    let mut condition = GraphBuilder::new("condition");
    let x = condition.data(&[-1]);
    let size = condition.node_with("Size", &[x], &[("dtype", Attr::Int(DType::Int64 as i64))]);
    let limit = condition.constant(DType::Int64, &[], &8i64.to_le_bytes());
    let goes_on = condition.node("Less", &[size, limit]);
    let condition = condition.outputs(&[goes_on]);
    let mut body = GraphBuilder::new("body");
    let x = body.data(&[-1]);
    let axes = body.ints(&[0]);
    let sum = body.node_with("ReduceSum", &[x, axes], &[("keep_dims", Attr::Flag(true))]);
    let join = [("concat_dim", Attr::Int(0)), ("N", Attr::Int(2))];
    let longer = body.node_with("ConcatD", &[x, sum], &join);
    let body = body.outputs(&[longer]);
    let mut build = GraphBuilder::new("growing");
    let x = build.data(&[2]);
    let made = control(&mut build, "While", &[x], 1, vec![condition, body]);
    build.outputs(&made)
}

/// A branch inside of a loop inside of a call: adds 1 to an odd count of times, 10 to an even one.
fn nested() -> Graph {
    let add = |name: &str, number: f32| {
        let mut build = GraphBuilder::new(name);
        let x = build.data(&[2]);
        let number = build.floats(&[1], &[number]);
        let y = build.node("Add", &[x, number]);
        build.outputs(&[y])
    };
    let mut condition = GraphBuilder::new("condition");
    condition.data(&[2]);
    let left = condition.data(&[]);
    let zero = condition.floats(&[], &[0.0]);
    let goes_on = condition.node("Greater", &[left, zero]);
    let condition = condition.outputs(&[goes_on]);
    let mut body = GraphBuilder::new("body");
    let x = body.data(&[2]);
    let left = body.data(&[]);
    let two = body.floats(&[], &[2.0]);
    let odd = body.node("FloorMod", &[left, two]);
    let x = control(&mut body, "If", &[odd, x], 1, vec![add("odd", 1.0), add("even", 10.0)]);
    let one = body.floats(&[], &[1.0]);
    let left = body.node("Sub", &[left, one]);
    let body = body.outputs(&[x[0], left]);
    let mut called = GraphBuilder::new("called");
    let x = called.data(&[2]);
    let count = called.data(&[]);
    let made = control(&mut called, "While", &[x, count], 2, vec![condition, body]);
    let called = called.outputs(&made);
    let mut build = GraphBuilder::new("nested");
    let x = build.data(&[2]);
    let count = build.data(&[]);
    let made = control(&mut build, "PartitionedCall", &[x, count], 2, vec![called]);
    build.outputs(&made[..1])
}

/// Index 0, 1, 2: x times 2, 3, 4, plus 1.
fn choosing(dim: i64) -> Graph {
    let mut build = GraphBuilder::new("choosing");
    let index = build.data(&[]);
    let x = build.data(&[dim]);
    let attrs = [("dst_type", Attr::Int(DType::Int32 as i64))];
    let index = build.node_with("Cast", &[index], &attrs);
    let graphs = vec![scaled("a", 2.0), scaled("b", 3.0), scaled("c", 4.0)];
    let y = control(&mut build, "Case", &[index, x], 1, graphs);
    build.outputs(&y)
}

struct Bench {
    machine: Machine,
    handle: usize,
}

impl Bench {
    fn new() -> Bench {
        let machine = Machine::start();
        let handle = machine.stream();
        Bench { machine, handle }
    }

    fn target(&self) -> Target<'static> {
        let stream = self.machine.runtime.handles.get::<Stream>(self.handle).unwrap();
        Target::registered(self.machine.runtime, stream, Domain::Acl, self.handle)
    }

    /// Runs a graph on numbers on the device; also says whether it was static.
    fn run(&self, graph: Graph, inputs: &[(&[f32], &[i64])]) -> (Vec<Vec<f32>>, bool) {
        let graph = model::read(&model::write(&graph)).unwrap();
        let executable = Executable::compile(graph, "graph".into(), CompileOptions::default());
        let executable = Arc::new(executable.map_err(|failure| failure.text).unwrap());
        let target = self.target();
        let loaded = executable.load(&target, &LoadOptions::default()).unwrap();
        let fed = |(at, (values, dims)): (usize, &(&[f32], &[i64]))| {
            executable.input(at, &device(self.machine.floats(values), dims)).unwrap()
        };
        let inputs: Vec<_> = inputs.iter().enumerate().map(fed).collect();
        let run = || {
            let outputs =
                loaded.run(&target, &inputs, &[]).map_err(|failure| failure.text).unwrap();
            self.machine.sync(self.handle).unwrap();
            let read = |output: &cairn_graph::executable::RunOutput| {
                self.machine.read(output.address, output.layout.count())
            };
            outputs.iter().map(read).collect::<Vec<_>>()
        };
        let first = run();
        assert_eq!(first, run(), "a second run gives the same");
        (first, executable.is_static())
    }
}

#[test]
fn branches_are_taken_by_value() {
    let bench = Bench::new();
    for dim in [3, -1] {
        let is_static = dim > 0;
        let x: (&[f32], &[i64]) = (&[1.0, 2.0, 3.0], &[3]);
        assert_eq!(bench.run(branching(dim), &[x]), (vec![vec![-3.0, -5.0, -7.0]], is_static));
        let x: (&[f32], &[i64]) = (&[1.0, -2.0, 0.5], &[3]);
        assert_eq!(bench.run(branching(dim), &[x]), (vec![vec![-11.0, 19.0, -6.0]], is_static));
    }
}

#[test]
fn cases_are_counted_and_the_last_stands_for_the_rest() {
    let bench = Bench::new();
    for dim in [2, -1] {
        for (index, factor) in [(0.0, 2.0), (1.0, 3.0), (2.0, 4.0), (7.0, 4.0), (-1.0, 4.0)] {
            let inputs: [(&[f32], &[i64]); 2] = [(&[index], &[]), (&[1.0, 5.0], &[2])];
            let expected = vec![vec![factor + 1.0, 5.0 * factor + 1.0]];
            assert_eq!(bench.run(choosing(dim), &inputs), (expected, dim > 0), "{index}");
        }
    }
}

#[test]
fn loops_run_as_often_as_they_say() {
    let bench = Bench::new();
    for dim in [2, -1] {
        for (count, factor) in [(0.0, 1.0), (1.0, 2.0), (5.0, 32.0)] {
            let inputs: [(&[f32], &[i64]); 2] = [(&[1.0, -3.0], &[2]), (&[count], &[])];
            let expected = vec![vec![factor, -3.0 * factor], vec![0.0f32.min(count)]];
            assert_eq!(bench.run(repeating(dim), &inputs), (expected, dim > 0), "{count}");
        }
    }
}

#[test]
fn a_loop_that_swaps_its_state_loses_nothing() {
    let bench = Bench::new();
    for (count, swapped) in [(0.0, false), (1.0, true), (2.0, false), (3.0, true)] {
        let inputs: [(&[f32], &[i64]); 3] =
            [(&[1.0, 2.0], &[2]), (&[3.0, 4.0], &[2]), (&[count], &[])];
        let (made, is_static) = bench.run(swapping(), &inputs);
        let (x, y) = (vec![1.0, 2.0], vec![3.0, 4.0]);
        assert_eq!(made, if swapped { vec![y, x] } else { vec![x, y] }, "{count}");
        assert!(is_static);
    }
}

#[test]
fn sizes_may_change_from_one_time_to_the_next() {
    let bench = Bench::new();
    let (made, is_static) = bench.run(growing(), &[(&[1.0, 1.0], &[2])]);
    assert_eq!(made, [[1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]]);
    assert!(!is_static);
}

#[test]
fn branches_in_loops_in_calls() {
    let bench = Bench::new();
    let inputs: [(&[f32], &[i64]); 2] = [(&[0.0, 100.0], &[2]), (&[5.0], &[])];
    assert_eq!(bench.run(nested(), &inputs), (vec![vec![23.0, 123.0]], true));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let compile = |graph: Graph| {
        let made = Executable::compile(graph, "graph".into(), CompileOptions::default());
        made.err().expect("it is refused").text
    };
    let branch = |graphs: Vec<Graph>| {
        let mut build = GraphBuilder::new("wrong");
        let condition = build.data(&[]);
        let x = build.data(&[2]);
        let y = control(&mut build, "If", &[condition, x], 1, graphs);
        build.outputs(&y)
    };
    let text = compile(branch(vec![scaled("then", 1.0)]));
    assert!(text.contains("if2 (If)") && text.contains("1 graphs"), "{text}");
    let mut other = GraphBuilder::new("else");
    let x = other.data(&[2]);
    let y = other.node_with("Cast", &[x], &[("dst_type", Attr::Int(DType::Int32 as i64))]);
    let text = compile(branch(vec![scaled("then", 1.0), other.outputs(&[y])]));
    assert!(text.contains("float [2]") && text.contains("int32 [2]"), "{text}");
    let mut far = GraphBuilder::new("else");
    far.data(&[2]);
    let x = far.data(&[2]);
    let y = far.node("Neg", &[x]);
    let text = compile(branch(vec![scaled("then", 1.0), far.outputs(&[y])]));
    assert!(text.contains("data1") && text.contains("input 1"), "{text}");
}

#[test]
fn blocks_of_one_time_go_back_before_the_next() {
    let bench = Bench::new();
    let stream = bench.machine.runtime.handles.get::<Stream>(bench.handle).unwrap();
    let pool = Pool::new(&bench.machine);
    let registry = &bench.machine.runtime.allocators;
    registry.register(Domain::Acl, bench.handle, &stream, 1, Box::new(pool.clone())).unwrap();
    let executable = Arc::new(
        Executable::compile(growing(), "graph".into(), CompileOptions::default()).unwrap(),
    );
    let target = bench.target();
    let loaded = executable.load(&target, &LoadOptions::default()).unwrap();
    let before = pool.live();
    let x = executable.input(0, &device(bench.machine.floats(&[1.0, 1.0]), &[2])).unwrap();
    let outputs = loaded.run(&target, &[x], &[]).unwrap();
    assert_eq!(pool.live(), before + 1, "one output is out");
    bench.machine.sync(bench.handle).unwrap();
    drop(outputs);
    assert_eq!(pool.live(), before);
}
