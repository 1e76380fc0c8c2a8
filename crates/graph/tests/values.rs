//! Sizes and numbers that only a run knows: from shapes, from values on the device.

mod support;

use cairn_graph::ir::Attr;
use cairn_graph::session::RunMode;
use support::*;

/// Shape, Gather, Pack and Reshape never wait for the device.
#[test]
fn shapes_are_computed_on_the_host() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("flat");
    let x = builder.data(&[-1, -1]);
    let shape = builder.node_with("Shape", &[x], &[("dtype", Attr::Int(9))]);
    let product = {
        let rows = builder.ints(&[0]);
        let columns = builder.ints(&[1]);
        let a = builder.node("Gather", &[shape, rows]);
        let b = builder.node("Gather", &[shape, columns]);
        builder.node("Mul", &[a, b])
    };
    let y = builder.node("Reshape", &[x, product]);
    let graph = builder.outputs(&[y]);
    fixture.add(1, graph, &[]);
    let values: Vec<f32> = (0..6).map(|at| at as f32).collect();
    for _ in 0..2 {
        let results = fixture
            .run(1, RunMode::Stream, stream, &[device(fixture.floats(&values), &[2, 3])], &[])
            .unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(results[0].dims, [6]);
        assert_eq!(fixture.read(results[0].address, 6), values);
    }
}

/// A size that depends on values: the call waits for that node alone.
#[test]
fn sizes_may_depend_on_values() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("select");
    let x = builder.data(&[4]);
    let zero = builder.floats(&[1], &[0.0]);
    let mask = builder.node("Greater", &[x, zero]);
    let selected = builder.node("MaskedSelect", &[x, mask]);
    let y = builder.node("Relu", &[selected]);
    fixture.add(1, builder.outputs(&[y]), &[]);
    let results =
        fixture.run(1, RunMode::Stream, stream, &[device(fixture.floats(&X), &[4])], &[]).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(results[0].dims, [2]);
    assert_eq!(fixture.read(results[0].address, 2), [0.5, 2.0]);
}

/// Memory that is too short for what values decide is refused and not written.
#[test]
fn short_memory_for_sizes_by_values_is_not_overrun() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("select");
    let x = builder.data(&[4]);
    let zero = builder.floats(&[1], &[-9.0]);
    let mask = builder.node("Greater", &[x, zero]);
    let selected = builder.node("MaskedSelect", &[x, mask]);
    fixture.add(1, builder.outputs(&[selected]), &[]);
    let x = device(fixture.floats(&X), &[4]);
    let memory = fixture.floats(&[7.0; 8]);
    let mut short = device(memory, &[4]);
    short.bytes = 8;
    let failed =
        fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[short]).err().unwrap();
    assert!(failed.text.contains("16 bytes"), "{}", failed.text);
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(memory, 8), [7.0; 8]);
    let results = fixture.run(1, RunMode::Stream, stream, &[x], &[device(memory, &[4])]).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(results[0].dims, [4]);
    assert_eq!(fixture.read(memory, 8), [-3.0, 0.5, 2.0, -1.0, 7.0, 7.0, 7.0, 7.0]);
}

/// A number that an operator needs before it runs may come in as a tensor: the graph is dynamic then.
#[test]
fn values_that_only_a_run_knows_make_a_graph_dynamic() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("sums");
    let x = builder.data(&[4]);
    let axis = builder.data(&[1]);
    builder.0.node_mut(axis.node).unwrap().output_descs[0].dtype = cairn_tensor::DType::Int32;
    let y = builder.node("Cumsum", &[x, axis]);
    fixture.add(1, builder.outputs(&[y]), &[]);
    let mut zero = device(fixture.floats(&[0.0]), &[1]);
    zero.dtype = Some(cairn_tensor::DType::Int32);
    let x = device(fixture.floats(&[1.0, 2.0, 3.0, 4.0]), &[4]);
    let results = fixture.run(1, RunMode::Stream, stream, &[x, zero], &[]).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(results[0].address, 4), [1.0, 3.0, 6.0, 10.0]);
}
