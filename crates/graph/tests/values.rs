//! Sizes and numbers that only a run knows: from shapes, from values on the device.

mod support;

use cairn_graph::ir::Attr;
use cairn_graph::session::RunMode;
use support::*;

/// Shape, Gather, Pack and Reshape never wait for the device.
#[test]
fn shapes_are_computed_on_the_host() {
    let world = World::new();
    let stream = world.stream();
    let mut make = Maker::new("flat");
    let x = make.data(&[-1, -1]);
    let shape = make.node_with("Shape", &[x], &[("dtype", Attr::Int(9))]);
    let product = {
        let rows = make.ints(&[0]);
        let columns = make.ints(&[1]);
        let a = make.node("Gather", &[shape, rows]);
        let b = make.node("Gather", &[shape, columns]);
        make.node("Mul", &[a, b])
    };
    let y = make.node("Reshape", &[x, product]);
    let graph = make.outputs(&[y]);
    world.add(1, graph, &[]);
    let values: Vec<f32> = (0..6).map(|at| at as f32).collect();
    for _ in 0..2 {
        let made = world
            .run(1, RunMode::Stream, stream, &[device(world.floats(&values), &[2, 3])], &[])
            .unwrap();
        world.sync(stream).unwrap();
        assert_eq!(made[0].dims, [6]);
        assert_eq!(world.read(made[0].address, 6), values);
    }
}

/// A size that depends on values: the call waits for that node alone.
#[test]
fn sizes_may_depend_on_values() {
    let world = World::new();
    let stream = world.stream();
    let mut make = Maker::new("select");
    let x = make.data(&[4]);
    let zero = make.floats(&[1], &[0.0]);
    let mask = make.node("Greater", &[x, zero]);
    let some = make.node("MaskedSelect", &[x, mask]);
    let y = make.node("Relu", &[some]);
    world.add(1, make.outputs(&[y]), &[]);
    let made =
        world.run(1, RunMode::Stream, stream, &[device(world.floats(&X), &[4])], &[]).unwrap();
    world.sync(stream).unwrap();
    assert_eq!(made[0].dims, [2]);
    assert_eq!(world.read(made[0].address, 2), [0.5, 2.0]);
}

/// Memory that is too short for what values decide is refused and not written.
#[test]
fn short_memory_for_sizes_by_values_is_not_overrun() {
    let world = World::new();
    let stream = world.stream();
    let mut make = Maker::new("select");
    let x = make.data(&[4]);
    let zero = make.floats(&[1], &[-9.0]);
    let mask = make.node("Greater", &[x, zero]);
    let some = make.node("MaskedSelect", &[x, mask]);
    world.add(1, make.outputs(&[some]), &[]);
    let x = device(world.floats(&X), &[4]);
    let slab = world.floats(&[7.0; 8]);
    let mut short = device(slab, &[4]);
    short.bytes = 8;
    let failed =
        world.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[short]).err().unwrap();
    assert!(failed.text.contains("16 bytes"), "{}", failed.text);
    world.sync(stream).unwrap();
    assert_eq!(world.read(slab, 8), [7.0; 8]);
    let made = world.run(1, RunMode::Stream, stream, &[x], &[device(slab, &[4])]).unwrap();
    world.sync(stream).unwrap();
    assert_eq!(made[0].dims, [4]);
    assert_eq!(world.read(slab, 8), [-3.0, 0.5, 2.0, -1.0, 7.0, 7.0, 7.0, 7.0]);
}

/// A number that an operator needs before it runs may come in as a tensor: the graph is dynamic then.
#[test]
fn values_that_only_a_run_knows_make_a_graph_dynamic() {
    let world = World::new();
    let stream = world.stream();
    let mut make = Maker::new("sums");
    let x = make.data(&[4]);
    let axis = make.data(&[1]);
    make.0.node_mut(axis.node).unwrap().output_descs[0].dtype = cairn_tensor::DType::Int32;
    let y = make.node("Cumsum", &[x, axis]);
    world.add(1, make.outputs(&[y]), &[]);
    let mut zero = device(world.floats(&[0.0]), &[1]);
    zero.dtype = Some(cairn_tensor::DType::Int32);
    let x = device(world.floats(&[1.0, 2.0, 3.0, 4.0]), &[4]);
    let made = world.run(1, RunMode::Stream, stream, &[x, zero], &[]).unwrap();
    world.sync(stream).unwrap();
    assert_eq!(world.read(made[0].address, 4), [1.0, 3.0, 6.0, 10.0]);
}
