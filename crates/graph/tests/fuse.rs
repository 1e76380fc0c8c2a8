//! Nodes that run together give what they give one by one.

mod support;

use cairn_graph::executable::Kind;
use cairn_graph::ir::{Attr, Graph};
use cairn_graph::session::RunMode;
use support::*;

/// A chain over two inputs, with a number for all elements, a value that goes out from the middle, and one
/// that is read twice.
fn chain(dims: &[i64]) -> Graph {
    let mut builder = GraphBuilder::new("chain");
    let (x, y) = (builder.data(dims), builder.data(dims));
    let two = builder.floats(&[], &[2.0]);
    let a = builder.node("Mul", &[x, two]);
    let b = builder.node("Add", &[a, y]);
    let c = builder.node("Relu", &[b]);
    let d = builder.node("Sigmoid", &[b]);
    let e = builder.node("Mul", &[c, d]);
    let f = builder.node("Sub", &[e, x]);
    builder.outputs(&[f, c])
}

#[test]
fn fused_equals_unfused() {
    for dims in [vec![1], vec![7, 3], vec![2048], vec![2049], vec![100, 100], vec![3, 111, 333]] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let count = dims.iter().product::<i64>() as usize;
        let x: Vec<f32> = (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
        let y: Vec<f32> = (0..count).map(|at| (at as f32 * 0.11).cos()).collect();
        let inputs = [device(fixture.floats(&x), &dims), device(fixture.floats(&y), &dims)];
        let mut results = Vec::new();
        for (id, level) in [(1, "O3"), (2, "O1")] {
            fixture.add(id, chain(&dims), &[("ge.oo.level", level)]);
            let out = [
                device(fixture.allocate(count * 4), &dims),
                device(fixture.allocate(count * 4), &dims),
            ];
            fixture.run(id, RunMode::Stream, stream, &inputs, &out).unwrap();
            fixture.sync(stream).unwrap();
            results.push(out.map(|one| fixture.read(one.address, count)));
        }
        assert_eq!(results[0], results[1], "{dims:?}");
        let steps = |id| match &fixture.session.graph(id).unwrap().compiled().unwrap().kind {
            Kind::Static { program, .. } => program.steps.len(),
            Kind::Dynamic { .. } => panic!("sizes are known"),
        };
        assert_eq!((steps(1), steps(2)), (1, 6));
    }
}

/// A chain of functions, comparisons, choices, gradients and conversions, over elements of several types.
fn mixed(dims: &[i64]) -> Graph {
    let mut builder = GraphBuilder::new("mixed");
    let (x, y) = (builder.data(dims), builder.data(dims));
    let low = builder.floats(&[], &[-0.5]);
    let high = builder.floats(&[], &[0.75]);
    let a = builder.node("Tanh", &[x]);
    let b = builder.node("Greater", &[a, y]);
    let c = builder.node("SelectV2", &[b, a, y]);
    let d = builder.node("TanhGrad", &[a, c]);
    let e = builder.node_with("Cast", &[d], &[("dst_type", Attr::Int(1))]);
    let f = builder.node_with("Cast", &[e], &[("dst_type", Attr::Int(0))]);
    let g = builder.node("ClipByValue", &[f, low, high]);
    let h = builder.node_with("Axpy", &[g, x], &[("alpha", Attr::Float(0.25))]);
    builder.outputs(&[h])
}

#[test]
fn what_is_marked_elementwise_is_fused_and_gives_the_same() {
    for dims in [vec![5], vec![2049], vec![3, 50, 100]] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let count = dims.iter().product::<i64>() as usize;
        let x: Vec<f32> = (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
        let y: Vec<f32> = (0..count).map(|at| (at as f32 * 0.11).cos()).collect();
        let inputs = [device(fixture.floats(&x), &dims), device(fixture.floats(&y), &dims)];
        let mut results = Vec::new();
        for (id, level) in [(1, "O3"), (2, "O1")] {
            fixture.add(id, mixed(&dims), &[("ge.oo.level", level)]);
            let out = device(fixture.allocate(count * 4), &dims);
            fixture.run(id, RunMode::Stream, stream, &inputs, std::slice::from_ref(&out)).unwrap();
            fixture.sync(stream).unwrap();
            results.push(fixture.read(out.address, count));
        }
        assert_eq!(results[0], results[1], "{dims:?}");
        let steps = |id| match &fixture.session.graph(id).unwrap().compiled().unwrap().kind {
            Kind::Static { program, .. } => program.steps.len(),
            Kind::Dynamic { .. } => panic!("sizes are known"),
        };
        assert_eq!((steps(1), steps(2)), (1, 8));
    }
}

/// Sizes that no call may have are refused whether nodes are put together or not.
#[test]
fn wrong_sizes_are_refused_fused_too() {
    for (id, level) in [(1, "O3"), (2, "O1")] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let mut builder = GraphBuilder::new("wrong");
        let (grads, x) = (builder.data(&[2, 3]), builder.data(&[3, 2]));
        let a = builder.node("ReluGrad", &[grads, x]);
        let b = builder.node("Relu", &[a]);
        let added = fixture.try_add(id, builder.outputs(&[b]), &[("ge.oo.level", level)]);
        let (grads, x) = (fixture.floats(&[1.0; 6]), fixture.floats(&[1.0; 6]));
        let inputs = [device(grads, &[2, 3]), device(x, &[3, 2])];
        let run = || fixture.run(id, RunMode::Stream, stream, &inputs, &[]).map(drop);
        let failed = added.and_then(|()| run()).expect_err("the sizes do not fit");
        assert!(failed.text.contains("ReluGrad"), "{level}: {}", failed.text);
    }
}
