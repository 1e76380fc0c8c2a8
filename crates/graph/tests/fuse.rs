//! Nodes that run together give what they give one by one.

mod support;

use cairn_graph::executable::Kind;
use cairn_graph::ir::Graph;
use cairn_graph::session::How;
use support::*;

/// A chain over two inputs, with a number for all elements, a value that goes out from the middle, and one
/// that is read twice.
fn chain(dims: &[i64]) -> Graph {
    let mut make = Maker::new("chain");
    let (x, y) = (make.data(dims), make.data(dims));
    let two = make.floats(&[], &[2.0]);
    let a = make.node("Mul", &[x, two]);
    let b = make.node("Add", &[a, y]);
    let c = make.node("Relu", &[b]);
    let d = make.node("Sigmoid", &[b]);
    let e = make.node("Mul", &[c, d]);
    let f = make.node("Sub", &[e, x]);
    make.outputs(&[f, c])
}

#[test]
fn fused_equals_unfused() {
    for dims in [vec![1], vec![7, 3], vec![2048], vec![2049], vec![100, 100], vec![3, 111, 333]] {
        let world = World::new();
        let stream = world.stream();
        let count = dims.iter().product::<i64>() as usize;
        let x: Vec<f32> = (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
        let y: Vec<f32> = (0..count).map(|at| (at as f32 * 0.11).cos()).collect();
        let inputs = [device(world.floats(&x), &dims), device(world.floats(&y), &dims)];
        let mut results = Vec::new();
        for (id, level) in [(1, "O3"), (2, "O1")] {
            world.add(id, chain(&dims), &[("ge.oo.level", level)]);
            let out = [device(world.room(count * 4), &dims), device(world.room(count * 4), &dims)];
            world.run(id, How::Stream, stream, &inputs, &out).unwrap();
            world.sync(stream).unwrap();
            results.push(out.map(|one| world.read(one.address, count)));
        }
        assert_eq!(results[0], results[1], "{dims:?}");
        let steps = |id| match &world.session.graph(id).unwrap().compiled().unwrap().kind {
            Kind::Static { program, .. } => program.steps.len(),
            Kind::Dynamic { .. } => panic!("sizes are known"),
        };
        assert_eq!((steps(1), steps(2)), (1, 6));
    }
}
