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
    builder: &mut GraphBuilder,
    kind: &str,
    inputs: &[Source],
    outputs: usize,
    subgraphs: Vec<Graph>,
) -> Vec<Source> {
    let node = builder.0.add(Node {
        name: format!("{}{}", kind.to_lowercase(), builder.0.len()),
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
    let mut builder = GraphBuilder::new(name);
    let x = builder.data(&[-1]);
    let factor = builder.floats(&[1], &[factor]);
    let one = builder.floats(&[1], &[1.0]);
    let product = builder.node("Mul", &[x, factor]);
    let y = builder.node("Add", &[product, one]);
    builder.outputs(&[y])
}

/// Where the sum of x is positive 2x + 1, else 10x + 1; then the negative of it.
fn branching(dim: i64) -> Graph {
    let mut builder = GraphBuilder::new("branching");
    let x = builder.data(&[dim]);
    let axes = builder.ints(&[0]);
    let sum = builder.node("ReduceSum", &[x, axes]);
    let zero = builder.floats(&[], &[0.0]);
    let condition = builder.node("Greater", &[sum, zero]);
    let graphs = vec![scaled("then", 2.0), scaled("else", 10.0)];
    let y = control(&mut builder, "If", &[condition, x], 1, graphs);
    let y = builder.node("Neg", &[y[0]]);
    builder.outputs(&[y])
}

/// (x, n): doubles x n times; the number of times is the second state, as a number.
fn repeating(dim: i64) -> Graph {
    let mut condition = GraphBuilder::new("condition");
    condition.data(&[dim]);
    let remaining = condition.data(&[]);
    let zero = condition.floats(&[], &[0.0]);
    let is_positive = condition.node("Greater", &[remaining, zero]);
    let condition = condition.outputs(&[is_positive]);
    let mut body = GraphBuilder::new("body");
    let x = body.data(&[dim]);
    let remaining = body.data(&[]);
    let one = body.floats(&[], &[1.0]);
    let two = body.floats(&[1], &[2.0]);
    let x = body.node("Mul", &[x, two]);
    let remaining = body.node("Sub", &[remaining, one]);
    let body = body.outputs(&[x, remaining]);
    let mut builder = GraphBuilder::new("repeating");
    let x = builder.data(&[dim]);
    let count = builder.data(&[]);
    let outputs = control(&mut builder, "While", &[x, count], 2, vec![condition, body]);
    builder.outputs(&outputs)
}

/// Swaps x and y as often as the third says: what the body makes are its inputs, in the other order.
fn swapping() -> Graph {
    let state =
        |builder: &mut GraphBuilder| [builder.data(&[2]), builder.data(&[2]), builder.data(&[])];
    let mut condition = GraphBuilder::new("condition");
    let [_, _, remaining] = state(&mut condition);
    let zero = condition.floats(&[], &[0.0]);
    let is_positive = condition.node("Greater", &[remaining, zero]);
    let condition = condition.outputs(&[is_positive]);
    let mut body = GraphBuilder::new("body");
    let [x, y, remaining] = state(&mut body);
    let one = body.floats(&[], &[1.0]);
    let remaining = body.node("Sub", &[remaining, one]);
    let body = body.outputs(&[y, x, remaining]);
    let mut builder = GraphBuilder::new("swapping");
    let inputs = state(&mut builder);
    let outputs = control(&mut builder, "While", &inputs, 3, vec![condition, body]);
    builder.outputs(&outputs[..2])
}

/// Appends its own sum to x as long as x has fewer than eight elements: sizes grow.
fn growing() -> Graph {
    let mut condition = GraphBuilder::new("condition");
    let x = condition.data(&[-1]);
    let size = condition.node_with("Size", &[x], &[("dtype", Attr::Int(DType::Int64 as i64))]);
    let limit = condition.constant(DType::Int64, &[], &8i64.to_le_bytes());
    let is_positive = condition.node("Less", &[size, limit]);
    let condition = condition.outputs(&[is_positive]);
    let mut body = GraphBuilder::new("body");
    let x = body.data(&[-1]);
    let axes = body.ints(&[0]);
    let sum = body.node_with("ReduceSum", &[x, axes], &[("keep_dims", Attr::Flag(true))]);
    let join = [("concat_dim", Attr::Int(0)), ("N", Attr::Int(2))];
    let longer = body.node_with("ConcatD", &[x, sum], &join);
    let body = body.outputs(&[longer]);
    let mut builder = GraphBuilder::new("growing");
    let x = builder.data(&[2]);
    let outputs = control(&mut builder, "While", &[x], 1, vec![condition, body]);
    builder.outputs(&outputs)
}

/// A branch inside of a loop inside of a call: adds 1 to an odd count of times, 10 to an even one.
fn nested() -> Graph {
    let add = |name: &str, number: f32| {
        let mut builder = GraphBuilder::new(name);
        let x = builder.data(&[2]);
        let number = builder.floats(&[1], &[number]);
        let y = builder.node("Add", &[x, number]);
        builder.outputs(&[y])
    };
    let mut condition = GraphBuilder::new("condition");
    condition.data(&[2]);
    let remaining = condition.data(&[]);
    let zero = condition.floats(&[], &[0.0]);
    let is_positive = condition.node("Greater", &[remaining, zero]);
    let condition = condition.outputs(&[is_positive]);
    let mut body = GraphBuilder::new("body");
    let x = body.data(&[2]);
    let remaining = body.data(&[]);
    let two = body.floats(&[], &[2.0]);
    let odd = body.node("FloorMod", &[remaining, two]);
    let x = control(&mut body, "If", &[odd, x], 1, vec![add("odd", 1.0), add("even", 10.0)]);
    let one = body.floats(&[], &[1.0]);
    let remaining = body.node("Sub", &[remaining, one]);
    let body = body.outputs(&[x[0], remaining]);
    let mut called = GraphBuilder::new("called");
    let x = called.data(&[2]);
    let count = called.data(&[]);
    let outputs = control(&mut called, "While", &[x, count], 2, vec![condition, body]);
    let called = called.outputs(&outputs);
    let mut builder = GraphBuilder::new("nested");
    let x = builder.data(&[2]);
    let count = builder.data(&[]);
    let outputs = control(&mut builder, "PartitionedCall", &[x, count], 2, vec![called]);
    builder.outputs(&outputs[..1])
}

/// Index 0, 1, 2: x times 2, 3, 4, plus 1.
fn choosing(dim: i64) -> Graph {
    let mut builder = GraphBuilder::new("choosing");
    let index = builder.data(&[]);
    let x = builder.data(&[dim]);
    let attrs = [("dst_type", Attr::Int(DType::Int32 as i64))];
    let index = builder.node_with("Cast", &[index], &attrs);
    let graphs = vec![scaled("a", 2.0), scaled("b", 3.0), scaled("c", 4.0)];
    let y = control(&mut builder, "Case", &[index, x], 1, graphs);
    builder.outputs(&y)
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
        let graph = model::read(model::write(&graph)).unwrap();
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
        let (outputs, is_static) = bench.run(swapping(), &inputs);
        let (x, y) = (vec![1.0, 2.0], vec![3.0, 4.0]);
        assert_eq!(outputs, if swapped { vec![y, x] } else { vec![x, y] }, "{count}");
        assert!(is_static);
    }
}

#[test]
fn sizes_may_change_from_one_time_to_the_next() {
    let bench = Bench::new();
    let (outputs, is_static) = bench.run(growing(), &[(&[1.0, 1.0], &[2])]);
    assert_eq!(outputs, [[1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]]);
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
        let outputs = Executable::compile(graph, "graph".into(), CompileOptions::default());
        outputs.err().expect("it is refused").text
    };
    let branch = |graphs: Vec<Graph>| {
        let mut builder = GraphBuilder::new("wrong");
        let condition = builder.data(&[]);
        let x = builder.data(&[2]);
        let y = control(&mut builder, "If", &[condition, x], 1, graphs);
        builder.outputs(&y)
    };
    let text = compile(branch(vec![scaled("then", 1.0)]));
    assert!(text.contains("if2 (If)") && text.contains("1 graphs"), "{text}");
    let mut other = GraphBuilder::new("else");
    let x = other.data(&[2]);
    let y = other.node_with("Cast", &[x], &[("dst_type", Attr::Int(DType::Int32 as i64))]);
    let text = compile(branch(vec![scaled("then", 1.0), other.outputs(&[y])]));
    assert!(text.contains("float [2]") && text.contains("int32 [2]"), "{text}");
    let mut second_input = GraphBuilder::new("else");
    second_input.data(&[2]);
    let x = second_input.data(&[2]);
    let y = second_input.node("Neg", &[x]);
    let text = compile(branch(vec![scaled("then", 1.0), second_input.outputs(&[y])]));
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
