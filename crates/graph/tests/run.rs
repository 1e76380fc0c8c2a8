//! Graphs on streams: what they compute, and whose memory they take.

mod support;

use cairn_graph::Status;
use cairn_graph::ir::{Attr, Graph, Source};
use cairn_graph::session::{Base, Options, RunMode};
use cairn_runtime::memory::purpose::Purpose;
use support::*;

/// y = relu(x + 1) * 2, z = x + 1, over `n` numbers, one of them unknown where `n` is -1.
fn two_outputs(n: i64) -> Graph {
    let mut builder = GraphBuilder::new("two");
    let x = builder.data(&[n]);
    let one = builder.floats(&[1], &[1.0]);
    let two = builder.floats(&[1], &[2.0]);
    let z = builder.node("Add", &[x, one]);
    let r = builder.node("Relu", &[z]);
    let t = builder.node("Mul", &[r, two]);
    let y = builder.node("Sub", &[t, z]);
    builder.outputs(&[y, z])
}

fn expected(x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let z: Vec<f32> = x.iter().map(|x| x + 1.0).collect();
    (z.iter().map(|z| z.max(0.0) * 2.0 - z).collect(), z)
}

#[test]
fn static_and_dynamic_compute_the_same() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    fixture.add(1, two_outputs(4), &[]);
    fixture.add(2, two_outputs(-1), &[]);
    let x = device(fixture.floats(&X), &[4]);
    for id in [1, 2] {
        let out = [device(fixture.allocate(16), &[4]), device(fixture.allocate(16), &[4])];
        let results =
            fixture.run(id, RunMode::Stream, stream, std::slice::from_ref(&x), &out).unwrap();
        assert!(results.iter().all(|one| one.block.is_none() && one.dims == [4]));
        fixture.sync(stream).unwrap();
        let (y, z) = expected(&X);
        assert_eq!(fixture.read(out[0].address, 4), y);
        assert_eq!(fixture.read(out[1].address, 4), z);
    }
    assert!(fixture.session.graph(1).unwrap().compiled().unwrap().is_static());
    assert!(!fixture.session.graph(2).unwrap().compiled().unwrap().is_static());
}

#[test]
fn a_dynamic_graph_takes_other_sizes() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    fixture.add(1, two_outputs(-1), &[]);
    for n in [1, 7, 3, 7, 1000] {
        let x: Vec<f32> = (0..n).map(|at| at as f32 - 3.0).collect();
        let input = device(fixture.floats(&x), &[n as i64]);
        let results = fixture.run(1, RunMode::Stream, stream, &[input], &[]).unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(results[0].dims, [n as i64]);
        assert_eq!(fixture.read(results[0].address, n), expected(&x).0);
    }
}

/// ge.md 5.1, 6: two outputs, none given, feature memory refreshable.
#[test]
fn refreshable_feature_memory_is_asked_for_where_it_was() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let pool = Pool::new(&fixture);
    fixture.register(stream, &pool);
    fixture.add(1, two_outputs(4), &[("ge.featureBaseRefreshable", "1")]);
    let x = device(fixture.floats(&X), &[4]);
    let first = fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[]).unwrap();
    assert_eq!((pool.mallocs(), pool.advises()), (4, 0));
    assert_eq!(
        (
            pool.taken_for(Purpose::Const),
            pool.taken_for(Purpose::Feature),
            pool.taken_for(Purpose::Output)
        ),
        (1, 1, 2)
    );
    let outputs: Vec<_> = first.iter().map(|out| device(out.address, &[4])).collect();
    fixture.run(1, RunMode::Stream, stream, &[x], &outputs).unwrap();
    assert_eq!((pool.mallocs(), pool.advises()), (4, 1));
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(first[0].address, 4), expected(&X).0);
    assert_eq!(pool.live(), 3, "const and two outputs");
    fixture.session.remove(1).unwrap();
    assert_eq!(pool.live(), 2);
    drop(first);
    assert_eq!((pool.live(), pool.frees()), (0, 5));
}

#[test]
fn fixed_feature_memory_stays() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (a, b) = (Pool::new(&fixture), Pool::new(&fixture));
    fixture.register(stream, &a);
    fixture.add(1, two_outputs(4), &[]);
    let x = device(fixture.floats(&X), &[4]);
    let out = [device(fixture.allocate(16), &[4]), device(fixture.allocate(16), &[4])];
    for _ in 0..3 {
        fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &out).unwrap();
    }
    assert_eq!((a.mallocs(), a.advises(), a.live()), (2, 0, 2));
    fixture.register(stream, &b);
    let results = fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[]).unwrap();
    assert_eq!((b.mallocs(), a.mallocs()), (2, 2));
    fixture.engine.unregister(fixture.id, stream).unwrap();
    let failed =
        fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[]).err().unwrap();
    assert!(
        failed.text.contains("output 0") && failed.text.contains("RegisterExternalAllocator"),
        "{}",
        failed.text
    );
    fixture.run(1, RunMode::Stream, stream, &[x], &out).unwrap();
    fixture.sync(stream).unwrap();
    drop(results);
    fixture.session.remove(1).unwrap();
    assert_eq!((a.live(), b.live()), (0, 0));
}

#[test]
fn bases_of_the_application_take_the_allocators_place() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let pool = Pool::new(&fixture);
    fixture.register(stream, &pool);
    fixture.add(1, two_outputs(4), &[]);
    let entry = fixture.session.graph(1).unwrap();
    let not_built = entry.set_base(Base::Const, None, 64, 64).unwrap_err();
    assert_eq!(not_built.status, Status::NotBuilt);
    let compiled = entry.compile(Vec::new()).unwrap();
    let (constants, feature) = (fixture.allocate(4096), fixture.allocate(65536));
    assert_eq!(
        entry.set_base(Base::Const, None, 0, 4096).unwrap_err().status,
        Status::ParamInvalid
    );
    assert_eq!(
        entry
            .set_base(Base::Const, None, constants, compiled.reported_const_bytes() - 1)
            .unwrap_err()
            .status,
        Status::ParamInvalid
    );
    entry.set_base(Base::Const, None, constants, 4096).unwrap();
    assert_eq!(
        entry.set_base(Base::Const, None, constants, 4096).unwrap_err().status,
        Status::Repeat
    );
    entry.set_base(Base::Feature, None, feature, 65536).unwrap();
    assert_eq!(
        entry.set_base(Base::Refreshable, None, feature, 65536).unwrap_err().status,
        Status::Unsupported
    );
    assert_eq!(
        entry.set_base(Base::Fixed, None, feature, 65536).unwrap_err().status,
        Status::Unsupported
    );
    let x = device(fixture.floats(&X), &[4]);
    let out = [device(fixture.allocate(16), &[4]), device(fixture.allocate(16), &[4])];
    for _ in 0..2 {
        fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &out).unwrap();
    }
    fixture.sync(stream).unwrap();
    assert_eq!((pool.mallocs(), pool.advises()), (0, 0));
    assert_eq!(fixture.read(out[0].address, 4), expected(&X).0);
    assert_eq!(
        entry.set_base(Base::Feature, None, feature, 65536).unwrap_err().status,
        Status::Failed
    );
    let results = fixture.run(1, RunMode::Stream, stream, &[x], &[]).unwrap();
    assert_eq!(pool.mallocs(), 2, "missing outputs come from the allocator also then (GE-RUN-4)");
    drop(results);
}

/// Every allocation of a run fails once: the call fails, nothing leaks, the next run works.
#[test]
fn a_failing_allocator_fails_the_call_and_nothing_leaks() {
    for (n, refreshable) in [(4, "0"), (4, "1"), (-1, "0")] {
        let mut blocks = 0;
        for fails_at in 1.. {
            let fixture = Fixture::new();
            let stream = fixture.stream();
            let pool = Pool::new(&fixture);
            fixture.register(stream, &pool);
            fixture.add(1, two_outputs(n), &[("ge.featureBaseRefreshable", refreshable)]);
            let x = device(fixture.floats(&X), &[4]);
            pool.fail_at(fails_at);
            let results = fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[]);
            pool.fail_at(0);
            let succeeded = results.is_ok();
            if let Err(failure) = &results {
                assert!(failure.text.contains("graph 1"), "of n={n}: {}", failure.text);
            }
            drop(results);
            let results = fixture.run(1, RunMode::Stream, stream, &[x], &[]).unwrap();
            fixture.sync(stream).unwrap();
            assert_eq!(fixture.read(results[0].address, 4), expected(&X).0);
            drop(results);
            fixture.session.remove(1).unwrap();
            assert_eq!(pool.live(), 0, "failure at {fails_at} of n={n}");
            if succeeded {
                blocks = fails_at - 1;
                break;
            }
        }
        assert!(blocks >= 4, "{blocks} blocks");
    }
}

#[test]
fn two_streams_share_one_static_graph_in_order() {
    let fixture = Fixture::new();
    let (a, b) = (fixture.stream(), fixture.stream());
    fixture.add(1, two_outputs(4), &[]);
    let out = [device(fixture.allocate(16), &[4]), device(fixture.allocate(16), &[4])];
    let out_b = [device(fixture.allocate(16), &[4]), device(fixture.allocate(16), &[4])];
    for at in 0..200 {
        let x: Vec<f32> = X.iter().map(|x| x + at as f32).collect();
        let input = device(fixture.floats(&x), &[4]);
        let (stream, out) = if at % 2 == 0 { (a, &out) } else { (b, &out_b) };
        fixture.run(1, RunMode::Stream, stream, &[input], out).unwrap();
    }
    fixture.sync(a).unwrap();
    fixture.sync(b).unwrap();
    let last: Vec<f32> = X.iter().map(|x| x + 199.0).collect();
    assert_eq!(fixture.read(out_b[0].address, 4), expected(&last).0);
}

#[test]
fn host_inputs_are_taken_where_they_are_named() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let pool = Pool::new(&fixture);
    fixture.register(stream, &pool);
    let out = [device(fixture.allocate(16), &[4]), device(fixture.allocate(16), &[4])];
    fixture.add(1, two_outputs(4), &[]);
    let failed = fixture.run(1, RunMode::Stream, stream, &[host(&X, &[4])], &out).err().unwrap();
    assert!(failed.text.contains("ge.exec.hostInputIndexes"), "{}", failed.text);
    fixture.add(2, two_outputs(4), &[("ge.exec.hostInputIndexes", "0")]);
    fixture.run(2, RunMode::Stream, stream, &[host(&X, &[4])], &out).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(out[0].address, 4), expected(&X).0);
    assert_eq!(pool.taken_for(Purpose::HostCopy), 1);
    fixture.add(3, two_outputs(-1), &[]);
    fixture.run(3, RunMode::Stream, stream, &[host(&X, &[4])], &out).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(out[1].address, 4), expected(&X).1);
    fixture.add(4, two_outputs(4), &[("ge.exec.hostInputIndexes", "7")]);
    let failed = fixture.run(4, RunMode::Stream, stream, &[host(&X, &[4])], &out).err().unwrap();
    let expected = "ge.exec.hostInputIndexes=7: there is no input 7; the graph has";
    assert!(
        failed.text.starts_with("graph 4") && failed.text.contains(expected),
        "{}",
        failed.text
    );
}

#[test]
fn runs_on_the_host_wait_and_take_nothing_from_the_user() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let pool = Pool::new(&fixture);
    fixture.register(stream, &pool);
    for (id, n) in [(1, 4), (2, -1)] {
        fixture.add(id, two_outputs(n), &[]);
        let results = fixture.run(id, RunMode::Host, 0, &[host(&X, &[4])], &[]).unwrap();
        let cairn_graph::session::OutputBlock::Host(bytes) = results[0].block.as_ref().unwrap()
        else {
            panic!("on the device")
        };
        let y: Vec<f32> =
            bytes.chunks(4).map(|one| f32::from_le_bytes(one.try_into().unwrap())).collect();
        assert_eq!(y, expected(&X).0);
        let failed = fixture
            .run(id, RunMode::Stream, stream, &[device(fixture.floats(&X), &[4])], &[])
            .err()
            .unwrap();
        assert!(failed.text.contains("RunGraph"), "{}", failed.text);
    }
    assert_eq!(pool.mallocs(), 0);
}

#[test]
fn large_constants_are_computed_once_in_fixed_memory() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let pool = Pool::new(&fixture);
    fixture.register(stream, &pool);
    let n = 1 << 20;
    let mut builder = GraphBuilder::new("filled");
    let x = builder.data(&[n]);
    let dims = builder.ints(&[n]);
    let value = builder.floats(&[], &[3.0]);
    let filled = builder.node("Fill", &[dims, value]);
    let y = builder.node("Add", &[x, filled]);
    let graph = builder.outputs(&[y]);
    fixture.add(1, graph.clone(), &[("ge.featureBaseRefreshable", "1")]);
    let x = device(fixture.floats(&vec![1.0; n as usize]), &[n]);
    let out = [device(fixture.allocate(4 << 20), &[n])];
    for _ in 0..2 {
        fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &out).unwrap();
    }
    fixture.sync(stream).unwrap();
    assert_eq!(pool.taken_for(Purpose::Fixed), 1);
    assert!(fixture.read(out[0].address, n as usize).iter().all(|one| *one == 4.0));
    fixture.session.remove(1).unwrap();
    assert_eq!(pool.live(), 0);
    fixture.add(2, graph, &[]);
    let entry = fixture.session.graph(2).unwrap();
    entry.compile(Vec::new()).unwrap();
    entry.set_base(Base::Fixed, None, 0, 0).unwrap();
    fixture.run(2, RunMode::Stream, stream, &[x], &out).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(pool.taken_for(Purpose::Fixed), 1, "it lies in the feature memory now");
    assert!(fixture.read(out[0].address, n as usize).iter().all(|one| *one == 4.0));
}

#[test]
fn an_output_may_be_the_memory_of_an_input() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    for (id, n, options) in [
        (1, 4, vec![("ge.exec.outputReuseInputMemIndexes", "0,0")]),
        (2, 4, vec![]),
        (3, -1, vec![]),
    ] {
        fixture.add(id, two_outputs(n), &options);
        let x = device(fixture.floats(&X), &[4]);
        let z = device(fixture.allocate(16), &[4]);
        fixture
            .run(id, RunMode::Stream, stream, std::slice::from_ref(&x), &[x.clone(), z.clone()])
            .unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(fixture.read(x.address, 4), expected(&X).0, "graph {id}");
        assert_eq!(fixture.read(z.address, 4), expected(&X).1, "graph {id}");
    }
}

#[test]
fn loaded_graphs_run_in_steps() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    fixture.add(1, two_outputs(4), &[]);
    let entry = fixture.session.graph(1).unwrap();
    let x = [device(fixture.floats(&X), &[4])];
    assert!(
        fixture.run(1, RunMode::Loaded, stream, &x, &[]).err().unwrap().text.contains("LoadGraph")
    );
    assert_eq!(
        fixture.session.load(&entry, stream, &Options::default(), true).err().unwrap().status,
        Status::NotBuilt
    );
    entry.compile(Vec::new()).unwrap();
    fixture.session.load(&entry, stream, &Options::default(), true).unwrap();
    assert_eq!(
        fixture.session.load(&entry, stream, &Options::default(), true).err().unwrap().status,
        Status::Repeat
    );
    let results = fixture.run(1, RunMode::Loaded, stream, &x, &[]).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(results[1].address, 4), expected(&X).1);
}

#[test]
fn bad_graphs_and_tensors_are_refused_with_their_names() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let compile_error = |id: u32, graph: Graph| {
        fixture.add(id, graph, &[]);
        fixture.session.graph(id).unwrap().compile(Vec::new()).err().unwrap().text
    };
    let mut builder = GraphBuilder::new("unknown");
    let x = builder.data(&[4]);
    let y = builder.node("Frobnicate", &[x]);
    assert!(compile_error(1, builder.outputs(&[y])).contains("Frobnicate"));
    let mut builder = GraphBuilder::new("cycle");
    let x = builder.data(&[4]);
    let a = builder.node("Relu", &[x]);
    let b = builder.node("Relu", &[a]);
    builder.0.node_mut(a.node).unwrap().inputs[0] = Some(b);
    assert!(compile_error(2, builder.outputs(&[b])).contains("cycle through relu"));
    let mut builder = GraphBuilder::new("dangling");
    let x = builder.data(&[4]);
    let y = builder.node("Add", &[x]);
    assert!(compile_error(3, builder.outputs(&[y])).contains("x2"));
    let mut builder = GraphBuilder::new("conflict");
    let (x, z) = (builder.data(&[4]), builder.data(&[5]));
    let y = builder.node("Add", &[x, z]);
    assert!(compile_error(4, builder.outputs(&[y])).contains("[4]"));
    let mut builder = GraphBuilder::new("no output");
    let x = builder.data(&[4]);
    let y = builder.node("Relu", &[x]);
    assert!(
        compile_error(5, builder.outputs(&[Source { node: y.node, output: 3 }]))
            .contains("output 3")
    );
    assert!(fixture.try_add(5, two_outputs(4), &[]).unwrap_err().text.contains("id 5"));
    fixture.add(6, two_outputs(4), &[]);
    let x = device(fixture.floats(&X), &[4]);
    let out = [device(fixture.allocate(16), &[4]), device(fixture.allocate(16), &[4])];
    let run = |inputs: &[_], outputs: &[_], handle| {
        fixture.run(6, RunMode::Stream, handle, inputs, outputs).err().unwrap().text
    };
    assert!(run(&[], &out, stream).contains("0 inputs"));
    assert!(run(std::slice::from_ref(&x), &out[..1], stream).contains("1 outputs"));
    assert!(run(std::slice::from_ref(&x), &out, 0).contains("null"));
    let mut short = out.clone();
    short[1].bytes = 12;
    assert!(run(std::slice::from_ref(&x), &short, stream).contains("12"));
    let mut wrong = x.clone();
    wrong.dtype = Some(cairn_tensor::DType::Int32);
    assert!(run(&[wrong], &out, stream).contains("int32"));
    assert!(
        fixture.run(99, RunMode::Stream, stream, &[x], &out).err().unwrap().text.contains("99")
    );
}

/// A graph that is removed while it is being run keeps its constants until the run is submitted.
#[test]
fn removal_inside_a_run_waits_for_the_run() {
    for n in [4, -1] {
        for at in 1..=4 {
            let fixture = Fixture::new();
            let stream = fixture.stream();
            let pool = Pool::new(&fixture);
            fixture.register(stream, &pool);
            fixture.add(1, two_outputs(n), &[]);
            let session = fixture.session.clone();
            pool.on_allocation(at, Box::new(move || session.remove(1).unwrap()));
            let x = device(fixture.floats(&X), &[4]);
            let results = fixture.run(1, RunMode::Stream, stream, &[x], &[]).unwrap();
            fixture.sync(stream).unwrap();
            assert_eq!(fixture.read(results[0].address, 4), expected(&X).0, "n={n} at={at}");
            drop(results);
            assert_eq!(pool.live(), 0, "n={n} at={at}");
            assert!(fixture.session.graph(1).is_err());
        }
    }
}

/// Outputs that are the inputs' memory crosswise, and an input that goes out beside what overwrites it.
#[test]
fn outputs_over_inputs_are_copied_in_a_safe_order() {
    for n in [4, -1] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let mut builder = GraphBuilder::new("swap");
        let (a, b) = (builder.data(&[n]), builder.data(&[n]));
        fixture.add(1, builder.outputs(&[b, a]), &[]);
        let (a, b) =
            (device(fixture.floats(&X), &[4]), device(fixture.floats(&[5.0, 6.0, 7.0, 8.0]), &[4]));
        fixture
            .run(1, RunMode::Stream, stream, &[a.clone(), b.clone()], &[a.clone(), b.clone()])
            .unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(fixture.read(a.address, 4), [5.0, 6.0, 7.0, 8.0], "n={n}");
        assert_eq!(fixture.read(b.address, 4), X, "n={n}");
        let mut builder = GraphBuilder::new("over");
        let x = builder.data(&[n]);
        let y = builder.node("Neg", &[x]);
        fixture.add(2, builder.outputs(&[y, x]), &[]);
        let z = device(fixture.allocate(16), &[4]);
        let x = device(fixture.floats(&X), &[4]);
        fixture
            .run(2, RunMode::Stream, stream, std::slice::from_ref(&x), &[x.clone(), z.clone()])
            .unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(fixture.read(z.address, 4), X, "n={n}");
        assert_eq!(fixture.read(x.address, 4), X.map(|x| -x), "n={n}");
    }
}

/// Scalars are joined as tensors of one element; empty sums are empty.
#[test]
fn odd_shapes_end_in_messages_not_in_panics() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("scalars");
    let (a, b) = (builder.data(&[]), builder.data(&[]));
    let axis = builder.constant(cairn_tensor::DType::Int32, &[], &[0; 4]);
    let y = builder.node("ConcatV2", &[a, b, axis]);
    fixture.add(1, builder.outputs(&[y]), &[]);
    fixture.session.graph(1).unwrap().compile(Vec::new()).map(drop).unwrap();
    for kind in ["ReduceSumD", "ReduceMeanD", "ReduceMaxD"] {
        let mut builder = GraphBuilder::new("empty");
        let x = builder.data(&[1, 0, 3]);
        let y = builder.node_with(kind, &[x], &[("axes", Attr::Ints(vec![0]))]);
        let id = 10 + kind.len() as u32;
        fixture.add(id, builder.outputs(&[y]), &[]);
        let memory = fixture.allocate(32);
        let x = device(memory, &[1, 0, 3]);
        let results = fixture.run(id, RunMode::Loaded, stream, std::slice::from_ref(&x), &[]);
        assert!(results.is_err(), "not loaded");
        let out = device(fixture.allocate(32), &[0, 3]);
        let results = fixture.run(id, RunMode::Stream, stream, &[x], &[out]).unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(results[0].dims, [0, 3], "{kind}");
        fixture.session.remove(id).unwrap();
    }
}

/// Nothing to place leaves the tensor as it is.
#[test]
fn an_empty_scatter_copies_its_tensor() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("scatter");
    let (var, updates) = (builder.data(&[4]), builder.data(&[0]));
    let indices = builder.constant(cairn_tensor::DType::Int64, &[0, 1], &[]);
    let y = builder.node("ScatterNdUpdate", &[var, indices, updates]);
    fixture.add(1, builder.outputs(&[y]), &[]);
    let none = device(fixture.allocate(32), &[0]);
    let inputs = [device(fixture.floats(&X), &[4]), none];
    let results = fixture.run(1, RunMode::Loaded, stream, &inputs, &[]);
    assert!(results.is_err(), "not loaded");
    let out = device(fixture.allocate(16), &[4]);
    fixture.run(1, RunMode::Stream, stream, &inputs, std::slice::from_ref(&out)).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(out.address, 4), X);
}
