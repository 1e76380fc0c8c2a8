//! Constant weights of products and convolutions are packed when a graph is loaded, and runs read the packed ones alone.

mod support;

use cairn_graph::executable::{Kind, PlacedConstant};
use cairn_graph::ir::{Attr, Graph};
use cairn_graph::session::RunMode;
use support::*;

/// Small whole numbers, whose sums are exact in any order.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + seed * 5) % 11) as f32 - 5.0).collect()
}

/// The program of a graph, whose type has no name outside of the crate.
macro_rules! program {
    ($fixture:expr, $id:expr) => {{
        let graph = $fixture.session.graph($id).unwrap();
        match &graph.compiled().unwrap().kind {
            Kind::Static { program, .. } => program.clone(),
            _ => panic!("all sizes are known"),
        }
    }};
}

fn constants(fixture: &Fixture, id: u32) -> Vec<PlacedConstant> {
    fixture.session.graph(id).unwrap().compiled().unwrap().constants()
}

/// Runs a graph twice on one input; both results are the same.
fn run(
    fixture: &Fixture,
    id: u32,
    graph: Graph,
    input: (&[f32], &[i64]),
    dims: &[i64],
) -> Vec<f32> {
    fixture.add(id, graph, &[]);
    let stream = fixture.stream();
    let count = dims.iter().product::<i64>() as usize;
    let x = device(fixture.floats(input.0), input.1);
    let mut results = Vec::new();
    for _ in 0..2 {
        let out = device(fixture.allocate(count * 4), dims);
        let x = std::slice::from_ref(&x);
        fixture.run(id, RunMode::Stream, stream, x, std::slice::from_ref(&out)).unwrap();
        fixture.sync(stream).unwrap();
        results.push(fixture.read(out.address, count));
    }
    assert_eq!(results[0], results[1], "a run changes no weights");
    results.swap_remove(0)
}

const M: usize = 5;
const K: usize = 96;
const N: usize = 70;

fn product(x: &[f32], weights: &[f32]) -> Vec<f32> {
    let element =
        |at: usize| (0..K).map(|d| x[at / N * K + d] * weights[d * N + at % N]).sum::<f32>();
    (0..M * N).map(element).collect()
}

#[test]
fn const_memory_has_packed_weights_alone() {
    let fixture = Fixture::new();
    let (x, weights) = (numbers(M * K, 1), numbers(K * N, 2));
    let mut builder = GraphBuilder::new("product");
    let data = builder.data(&[M as i64, K as i64]);
    let right = builder.floats(&[K as i64, N as i64], &weights);
    let out = builder.node("MatMul", &[data, right]);
    let graph = builder.outputs(&[out]);
    let sizes = [M as i64, K as i64];
    let result = run(&fixture, 1, graph, (&x, &sizes), &[M as i64, N as i64]);
    assert_eq!(result, product(&x, &weights));
    let program = program!(fixture, 1);
    let constants = constants(&fixture, 1);
    assert_eq!(constants.len(), 1, "once");
    let packing = constants[0].packing.as_ref().expect("packed");
    assert_eq!(program.steps.len(), 1);
    assert!(program.init.is_empty(), "packed by the upload");
    let reads =
        program.steps[0].uses.iter().filter(|one| format!("{:?}", one.slice.region) == "Const");
    let reads: Vec<usize> = reads.map(|one| one.slice.bytes).collect();
    assert_eq!(reads, [packing.bytes], "the run reads the packed weights");
    assert_eq!(program.steps[0].workspace.bytes, 0, "and packs nothing");
}

#[test]
fn weights_that_others_read_stay_as_they_are_too() {
    let fixture = Fixture::new();
    let (x, weights) = (numbers(M * K, 1), numbers(K * N, 2));
    let mut builder = GraphBuilder::new("product");
    let data = builder.data(&[M as i64, K as i64]);
    let right = builder.floats(&[K as i64, N as i64], &weights);
    let first = builder.node("MatMul", &[data, right]);
    let attrs = [("transpose_x2", Attr::Flag(true))];
    let back = builder.node_with("MatMul", &[first, right], &attrs);
    let out = builder.node("MatMul", &[back, right]);
    let graph = builder.outputs(&[out, right]);
    fixture.add(1, graph, &[]);
    let stream = fixture.stream();
    let x = device(fixture.floats(&x), &[M as i64, K as i64]);
    let outs = [
        device(fixture.allocate(M * N * 4), &[M as i64, N as i64]),
        device(fixture.allocate(K * N * 4), &[K as i64, N as i64]),
    ];
    fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &outs).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(outs[1].address, K * N), weights, "the constant itself goes out");
    let kinds: Vec<bool> = constants(&fixture, 1).iter().map(|one| one.packing.is_some()).collect();
    assert_eq!(kinds, [true, true, false], "packed in two ways, and as it is");
}

#[test]
fn convolutions_read_packed_weights() {
    const CHANNELS: usize = 32;
    const SIZE: usize = 6;
    let fixture = Fixture::new();
    let x = numbers(CHANNELS * SIZE * SIZE, 1);
    let weights = numbers(CHANNELS * CHANNELS, 2);
    let mut builder = GraphBuilder::new("convolution");
    let dims = [1, CHANNELS as i64, SIZE as i64, SIZE as i64];
    let data = builder.data(&dims);
    let filter = builder.floats(&[CHANNELS as i64, CHANNELS as i64, 1, 1], &weights);
    let attrs = [
        ("strides", Attr::Ints(vec![1, 1, 1, 1])),
        ("pads", Attr::Ints(vec![0, 0, 0, 0])),
        ("dilations", Attr::Ints(vec![1, 1, 1, 1])),
        ("data_format", Attr::Text(b"NCHW".to_vec())),
    ];
    let out = builder.node_with("Conv2D", &[data, filter], &attrs);
    let graph = builder.outputs(&[out]);
    let result = run(&fixture, 1, graph, (&x, &dims), &dims);
    let area = SIZE * SIZE;
    let element = |at: usize| {
        let (channel, position) = (at / area, at % area);
        let one = |input: usize| x[input * area + position] * weights[channel * CHANNELS + input];
        (0..CHANNELS).map(one).sum::<f32>()
    };
    assert_eq!(result, (0..CHANNELS * area).map(element).collect::<Vec<f32>>());
    let program = program!(fixture, 1);
    // Only processors with AVX-512 pack weights.
    let constants = constants(&fixture, 1);
    let packs = constants.iter().any(|one| one.packing.is_some());
    assert_eq!(constants.len(), 1);
    assert!(!packs || program.steps[0].workspace.bytes == 0, "a run packs nothing");
}
