//! Graphs on streams: what they compute, and whose memory they take.

mod support;

use cairn_graph::Status;
use cairn_graph::ir::{Attr, Graph, Source};
use cairn_graph::session::{Base, Options, RunMode};
use cairn_runtime::memory::purpose::Purpose;
use support::*;

/// y = relu(x + 1) * 2, z = x + 1, over `n` numbers, one of them unknown where `n` is -1.
fn two_outputs(n: i64) -> Graph {
    let mut make = Maker::new("two");
    let x = make.data(&[n]);
    let one = make.floats(&[1], &[1.0]);
    let two = make.floats(&[1], &[2.0]);
    let z = make.node("Add", &[x, one]);
    let r = make.node("Relu", &[z]);
    let t = make.node("Mul", &[r, two]);
    let y = make.node("Sub", &[t, z]);
    make.outputs(&[y, z])
}

fn expected(x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let z: Vec<f32> = x.iter().map(|x| x + 1.0).collect();
    (z.iter().map(|z| z.max(0.0) * 2.0 - z).collect(), z)
}

#[test]
fn static_and_dynamic_compute_the_same() {
    let world = World::new();
    let stream = world.stream();
    world.add(1, two_outputs(4), &[]);
    world.add(2, two_outputs(-1), &[]);
    let x = device(world.floats(&X), &[4]);
    for id in [1, 2] {
        let out = [device(world.allocate(16), &[4]), device(world.allocate(16), &[4])];
        let made = world.run(id, RunMode::Stream, stream, std::slice::from_ref(&x), &out).unwrap();
        assert!(made.iter().all(|one| one.held.is_none() && one.dims == [4]));
        world.sync(stream).unwrap();
        let (y, z) = expected(&X);
        assert_eq!(world.read(out[0].address, 4), y);
        assert_eq!(world.read(out[1].address, 4), z);
    }
    assert!(world.session.graph(1).unwrap().compiled().unwrap().is_static());
    assert!(!world.session.graph(2).unwrap().compiled().unwrap().is_static());
}

#[test]
fn a_dynamic_graph_takes_other_sizes() {
    let world = World::new();
    let stream = world.stream();
    world.add(1, two_outputs(-1), &[]);
    for n in [1, 7, 3, 7, 1000] {
        let x: Vec<f32> = (0..n).map(|at| at as f32 - 3.0).collect();
        let input = device(world.floats(&x), &[n as i64]);
        let made = world.run(1, RunMode::Stream, stream, &[input], &[]).unwrap();
        world.sync(stream).unwrap();
        assert_eq!(made[0].dims, [n as i64]);
        assert_eq!(world.read(made[0].address, n), expected(&x).0);
    }
}

/// ge.md 5.1, 6: two outputs, none given, feature memory refreshable.
#[test]
fn refreshable_feature_memory_is_asked_for_where_it_was() {
    let world = World::new();
    let stream = world.stream();
    let pool = Pool::new(&world);
    world.register(stream, &pool);
    world.add(1, two_outputs(4), &[("ge.featureBaseRefreshable", "1")]);
    let x = device(world.floats(&X), &[4]);
    let first = world.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[]).unwrap();
    assert_eq!((pool.mallocs(), pool.advises()), (4, 0));
    assert_eq!(
        (
            pool.taken_for(Purpose::Const),
            pool.taken_for(Purpose::Feature),
            pool.taken_for(Purpose::Output)
        ),
        (1, 1, 2)
    );
    let given: Vec<_> = first.iter().map(|out| device(out.address, &[4])).collect();
    world.run(1, RunMode::Stream, stream, &[x], &given).unwrap();
    assert_eq!((pool.mallocs(), pool.advises()), (4, 1));
    world.sync(stream).unwrap();
    assert_eq!(world.read(first[0].address, 4), expected(&X).0);
    assert_eq!(pool.live(), 3, "const and two outputs");
    world.session.remove(1).unwrap();
    assert_eq!(pool.live(), 2);
    drop(first);
    assert_eq!((pool.live(), pool.frees()), (0, 5));
}

#[test]
fn fixed_feature_memory_stays() {
    let world = World::new();
    let stream = world.stream();
    let (a, b) = (Pool::new(&world), Pool::new(&world));
    world.register(stream, &a);
    world.add(1, two_outputs(4), &[]);
    let x = device(world.floats(&X), &[4]);
    let out = [device(world.allocate(16), &[4]), device(world.allocate(16), &[4])];
    for _ in 0..3 {
        world.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &out).unwrap();
    }
    assert_eq!((a.mallocs(), a.advises(), a.live()), (2, 0, 2));
    world.register(stream, &b);
    let made = world.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[]).unwrap();
    assert_eq!((b.mallocs(), a.mallocs()), (2, 2));
    world.engine.unregister(world.id, stream).unwrap();
    let failed =
        world.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[]).err().unwrap();
    assert!(
        failed.text.contains("output 0") && failed.text.contains("RegisterExternalAllocator"),
        "{}",
        failed.text
    );
    world.run(1, RunMode::Stream, stream, &[x], &out).unwrap();
    world.sync(stream).unwrap();
    drop(made);
    world.session.remove(1).unwrap();
    assert_eq!((a.live(), b.live()), (0, 0));
}

#[test]
fn bases_of_the_application_take_the_allocators_place() {
    let world = World::new();
    let stream = world.stream();
    let pool = Pool::new(&world);
    world.register(stream, &pool);
    world.add(1, two_outputs(4), &[]);
    let entry = world.session.graph(1).unwrap();
    let not_built = entry.set_base(Base::Const, None, 64, 64).unwrap_err();
    assert_eq!(not_built.status, Status::NotBuilt);
    let compiled = entry.compile(Vec::new()).unwrap();
    let (constants, feature) = (world.allocate(4096), world.allocate(65536));
    assert_eq!(
        entry.set_base(Base::Const, None, 0, 4096).unwrap_err().status,
        Status::ParamInvalid
    );
    assert_eq!(
        entry.set_base(Base::Const, None, constants, compiled.const_size() - 1).unwrap_err().status,
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
    let x = device(world.floats(&X), &[4]);
    let out = [device(world.allocate(16), &[4]), device(world.allocate(16), &[4])];
    for _ in 0..2 {
        world.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &out).unwrap();
    }
    world.sync(stream).unwrap();
    assert_eq!((pool.mallocs(), pool.advises()), (0, 0));
    assert_eq!(world.read(out[0].address, 4), expected(&X).0);
    assert_eq!(
        entry.set_base(Base::Feature, None, feature, 65536).unwrap_err().status,
        Status::Failed
    );
    let made = world.run(1, RunMode::Stream, stream, &[x], &[]).unwrap();
    assert_eq!(pool.mallocs(), 2, "missing outputs come from the allocator also then (GE-RUN-4)");
    drop(made);
}

/// Every allocation of a run fails once: the call fails, nothing leaks, the next run works.
#[test]
fn a_failing_allocator_fails_the_call_and_nothing_leaks() {
    for (n, refreshable) in [(4, "0"), (4, "1"), (-1, "0")] {
        let mut blocks = 0;
        for fails_at in 1.. {
            let world = World::new();
            let stream = world.stream();
            let pool = Pool::new(&world);
            world.register(stream, &pool);
            world.add(1, two_outputs(n), &[("ge.featureBaseRefreshable", refreshable)]);
            let x = device(world.floats(&X), &[4]);
            pool.fail_at(fails_at);
            let made = world.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[]);
            pool.fail_at(0);
            let done = made.is_ok();
            if let Err(failure) = &made {
                assert!(failure.text.contains("graph 1"), "of n={n}: {}", failure.text);
            }
            drop(made);
            let made = world.run(1, RunMode::Stream, stream, &[x], &[]).unwrap();
            world.sync(stream).unwrap();
            assert_eq!(world.read(made[0].address, 4), expected(&X).0);
            drop(made);
            world.session.remove(1).unwrap();
            assert_eq!(pool.live(), 0, "failure at {fails_at} of n={n}");
            if done {
                blocks = fails_at - 1;
                break;
            }
        }
        assert!(blocks >= 4, "{blocks} blocks");
    }
}

#[test]
fn two_streams_share_one_static_graph_in_order() {
    let world = World::new();
    let (a, b) = (world.stream(), world.stream());
    world.add(1, two_outputs(4), &[]);
    let out = [device(world.allocate(16), &[4]), device(world.allocate(16), &[4])];
    let out_b = [device(world.allocate(16), &[4]), device(world.allocate(16), &[4])];
    for at in 0..200 {
        let x: Vec<f32> = X.iter().map(|x| x + at as f32).collect();
        let input = device(world.floats(&x), &[4]);
        let (stream, out) = if at % 2 == 0 { (a, &out) } else { (b, &out_b) };
        world.run(1, RunMode::Stream, stream, &[input], out).unwrap();
    }
    world.sync(a).unwrap();
    world.sync(b).unwrap();
    let last: Vec<f32> = X.iter().map(|x| x + 199.0).collect();
    assert_eq!(world.read(out_b[0].address, 4), expected(&last).0);
}

#[test]
fn host_inputs_are_taken_where_they_are_named() {
    let world = World::new();
    let stream = world.stream();
    let pool = Pool::new(&world);
    world.register(stream, &pool);
    let out = [device(world.allocate(16), &[4]), device(world.allocate(16), &[4])];
    world.add(1, two_outputs(4), &[]);
    let failed = world.run(1, RunMode::Stream, stream, &[host(&X, &[4])], &out).err().unwrap();
    assert!(failed.text.contains("ge.exec.hostInputIndexes"), "{}", failed.text);
    world.add(2, two_outputs(4), &[("ge.exec.hostInputIndexes", "0")]);
    world.run(2, RunMode::Stream, stream, &[host(&X, &[4])], &out).unwrap();
    world.sync(stream).unwrap();
    assert_eq!(world.read(out[0].address, 4), expected(&X).0);
    assert_eq!(pool.taken_for(Purpose::HostCopy), 1);
    world.add(3, two_outputs(-1), &[]);
    world.run(3, RunMode::Stream, stream, &[host(&X, &[4])], &out).unwrap();
    world.sync(stream).unwrap();
    assert_eq!(world.read(out[1].address, 4), expected(&X).1);
    world.add(4, two_outputs(4), &[("ge.exec.hostInputIndexes", "7")]);
    let failed = world.run(4, RunMode::Stream, stream, &[host(&X, &[4])], &out).err().unwrap();
    let expected = "ge.exec.hostInputIndexes=7: there is no input 7; the graph has";
    assert!(
        failed.text.starts_with("graph 4") && failed.text.contains(expected),
        "{}",
        failed.text
    );
}

#[test]
fn runs_on_the_host_wait_and_take_nothing_from_the_user() {
    let world = World::new();
    let stream = world.stream();
    let pool = Pool::new(&world);
    world.register(stream, &pool);
    for (id, n) in [(1, 4), (2, -1)] {
        world.add(id, two_outputs(n), &[]);
        let made = world.run(id, RunMode::Host, 0, &[host(&X, &[4])], &[]).unwrap();
        let cairn_graph::session::OutputBlock::Host(bytes) = made[0].block.as_ref().unwrap() else {
            panic!("on the device")
        };
        let y: Vec<f32> =
            bytes.chunks(4).map(|one| f32::from_le_bytes(one.try_into().unwrap())).collect();
        assert_eq!(y, expected(&X).0);
        let failed = world
            .run(id, RunMode::Stream, stream, &[device(world.floats(&X), &[4])], &[])
            .err()
            .unwrap();
        assert!(failed.text.contains("RunGraph"), "{}", failed.text);
    }
    assert_eq!(pool.mallocs(), 0);
}

#[test]
fn large_constants_are_computed_once_in_fixed_memory() {
    let world = World::new();
    let stream = world.stream();
    let pool = Pool::new(&world);
    world.register(stream, &pool);
    let n = 1 << 20;
    let mut make = Maker::new("filled");
    let x = make.data(&[n]);
    let dims = make.ints(&[n]);
    let value = make.floats(&[], &[3.0]);
    let filled = make.node("Fill", &[dims, value]);
    let y = make.node("Add", &[x, filled]);
    let graph = make.outputs(&[y]);
    world.add(1, graph.clone(), &[("ge.featureBaseRefreshable", "1")]);
    let x = device(world.floats(&vec![1.0; n as usize]), &[n]);
    let out = [device(world.allocate(4 << 20), &[n])];
    for _ in 0..2 {
        world.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &out).unwrap();
    }
    world.sync(stream).unwrap();
    assert_eq!(pool.taken_for(Purpose::Fixed), 1);
    assert!(world.read(out[0].address, n as usize).iter().all(|one| *one == 4.0));
    world.session.remove(1).unwrap();
    assert_eq!(pool.live(), 0);
    world.add(2, graph, &[]);
    let entry = world.session.graph(2).unwrap();
    entry.compile(Vec::new()).unwrap();
    entry.set_base(Base::Fixed, None, 0, 0).unwrap();
    world.run(2, RunMode::Stream, stream, &[x], &out).unwrap();
    world.sync(stream).unwrap();
    assert_eq!(pool.taken_for(Purpose::Fixed), 1, "it lies in the feature memory now");
    assert!(world.read(out[0].address, n as usize).iter().all(|one| *one == 4.0));
}

#[test]
fn an_output_may_be_the_memory_of_an_input() {
    let world = World::new();
    let stream = world.stream();
    for (id, n, options) in [
        (1, 4, vec![("ge.exec.outputReuseInputMemIndexes", "0,0")]),
        (2, 4, vec![]),
        (3, -1, vec![]),
    ] {
        world.add(id, two_outputs(n), &options);
        let x = device(world.floats(&X), &[4]);
        let z = device(world.allocate(16), &[4]);
        world
            .run(id, RunMode::Stream, stream, std::slice::from_ref(&x), &[x.clone(), z.clone()])
            .unwrap();
        world.sync(stream).unwrap();
        assert_eq!(world.read(x.address, 4), expected(&X).0, "graph {id}");
        assert_eq!(world.read(z.address, 4), expected(&X).1, "graph {id}");
    }
}

#[test]
fn loaded_graphs_run_in_steps() {
    let world = World::new();
    let stream = world.stream();
    world.add(1, two_outputs(4), &[]);
    let entry = world.session.graph(1).unwrap();
    let x = [device(world.floats(&X), &[4])];
    assert!(
        world.run(1, RunMode::Loaded, stream, &x, &[]).err().unwrap().text.contains("LoadGraph")
    );
    assert_eq!(
        world.session.load(&entry, stream, &Options::default(), true).err().unwrap().status,
        Status::NotBuilt
    );
    entry.compile(Vec::new()).unwrap();
    world.session.load(&entry, stream, &Options::default(), true).unwrap();
    assert_eq!(
        world.session.load(&entry, stream, &Options::default(), true).err().unwrap().status,
        Status::Repeat
    );
    let made = world.run(1, RunMode::Loaded, stream, &x, &[]).unwrap();
    world.sync(stream).unwrap();
    assert_eq!(world.read(made[1].address, 4), expected(&X).1);
}

#[test]
fn bad_graphs_and_tensors_are_refused_with_their_names() {
    let world = World::new();
    let stream = world.stream();
    let said = |id: u32, graph: Graph| {
        world.add(id, graph, &[]);
        world.session.graph(id).unwrap().compile(Vec::new()).err().unwrap().text
    };
    let mut make = Maker::new("unknown");
    let x = make.data(&[4]);
    let y = make.node("Frobnicate", &[x]);
    assert!(said(1, make.outputs(&[y])).contains("Frobnicate"));
    let mut make = Maker::new("cycle");
    let x = make.data(&[4]);
    let a = make.node("Relu", &[x]);
    let b = make.node("Relu", &[a]);
    make.0.node_mut(a.node).unwrap().inputs[0] = Some(b);
    assert!(said(2, make.outputs(&[b])).contains("cycle through relu"));
    let mut make = Maker::new("dangling");
    let x = make.data(&[4]);
    let y = make.node("Add", &[x]);
    assert!(said(3, make.outputs(&[y])).contains("x2"));
    let mut make = Maker::new("conflict");
    let (x, z) = (make.data(&[4]), make.data(&[5]));
    let y = make.node("Add", &[x, z]);
    assert!(said(4, make.outputs(&[y])).contains("[4]"));
    let mut make = Maker::new("no output");
    let x = make.data(&[4]);
    let y = make.node("Relu", &[x]);
    assert!(said(5, make.outputs(&[Source { node: y.node, output: 3 }])).contains("output 3"));
    assert!(world.try_add(5, two_outputs(4), &[]).unwrap_err().text.contains("id 5"));
    world.add(6, two_outputs(4), &[]);
    let x = device(world.floats(&X), &[4]);
    let out = [device(world.allocate(16), &[4]), device(world.allocate(16), &[4])];
    let run = |inputs: &[_], outputs: &[_], handle| {
        world.run(6, RunMode::Stream, handle, inputs, outputs).err().unwrap().text
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
    assert!(world.run(99, RunMode::Stream, stream, &[x], &out).err().unwrap().text.contains("99"));
}

/// A graph that is removed while it is being run keeps its constants until the run is submitted.
#[test]
fn removal_inside_a_run_waits_for_the_run() {
    for n in [4, -1] {
        for at in 1..=4 {
            let world = World::new();
            let stream = world.stream();
            let pool = Pool::new(&world);
            world.register(stream, &pool);
            world.add(1, two_outputs(n), &[]);
            let session = world.session.clone();
            pool.at(at, Box::new(move || session.remove(1).unwrap()));
            let x = device(world.floats(&X), &[4]);
            let made = world.run(1, RunMode::Stream, stream, &[x], &[]).unwrap();
            world.sync(stream).unwrap();
            assert_eq!(world.read(made[0].address, 4), expected(&X).0, "n={n} at={at}");
            drop(made);
            assert_eq!(pool.live(), 0, "n={n} at={at}");
            assert!(world.session.graph(1).is_err());
        }
    }
}

/// Outputs that are the inputs' memory crosswise, and an input that goes out beside what overwrites it.
#[test]
fn outputs_over_inputs_are_copied_in_a_safe_order() {
    for n in [4, -1] {
        let world = World::new();
        let stream = world.stream();
        let mut make = Maker::new("swap");
        let (a, b) = (make.data(&[n]), make.data(&[n]));
        world.add(1, make.outputs(&[b, a]), &[]);
        let (a, b) =
            (device(world.floats(&X), &[4]), device(world.floats(&[5.0, 6.0, 7.0, 8.0]), &[4]));
        world
            .run(1, RunMode::Stream, stream, &[a.clone(), b.clone()], &[a.clone(), b.clone()])
            .unwrap();
        world.sync(stream).unwrap();
        assert_eq!(world.read(a.address, 4), [5.0, 6.0, 7.0, 8.0], "n={n}");
        assert_eq!(world.read(b.address, 4), X, "n={n}");
        let mut make = Maker::new("over");
        let x = make.data(&[n]);
        let y = make.node("Neg", &[x]);
        world.add(2, make.outputs(&[y, x]), &[]);
        let z = device(world.allocate(16), &[4]);
        let x = device(world.floats(&X), &[4]);
        world
            .run(2, RunMode::Stream, stream, std::slice::from_ref(&x), &[x.clone(), z.clone()])
            .unwrap();
        world.sync(stream).unwrap();
        assert_eq!(world.read(z.address, 4), X, "n={n}");
        assert_eq!(world.read(x.address, 4), X.map(|x| -x), "n={n}");
    }
}

/// Scalars are joined as tensors of one element; empty sums are empty.
#[test]
fn odd_shapes_end_in_texts_not_in_panics() {
    let world = World::new();
    let stream = world.stream();
    let mut make = Maker::new("scalars");
    let (a, b) = (make.data(&[]), make.data(&[]));
    let axis = make.constant(cairn_tensor::DType::Int32, &[], &[0; 4]);
    let y = make.node("ConcatV2", &[a, b, axis]);
    world.add(1, make.outputs(&[y]), &[]);
    world.session.graph(1).unwrap().compile(Vec::new()).map(drop).unwrap();
    for kind in ["ReduceSumD", "ReduceMeanD", "ReduceMaxD"] {
        let mut make = Maker::new("empty");
        let x = make.data(&[1, 0, 3]);
        let y = make.node_with(kind, &[x], &[("axes", Attr::Ints(vec![0]))]);
        let id = 10 + kind.len() as u32;
        world.add(id, make.outputs(&[y]), &[]);
        let memory = world.allocate(32);
        let x = device(memory, &[1, 0, 3]);
        let made = world.run(id, RunMode::Loaded, stream, std::slice::from_ref(&x), &[]);
        assert!(made.is_err(), "not loaded");
        let out = device(world.allocate(32), &[0, 3]);
        let made = world.run(id, RunMode::Stream, stream, &[x], &[out]).unwrap();
        world.sync(stream).unwrap();
        assert_eq!(made[0].dims, [0, 3], "{kind}");
        world.session.remove(id).unwrap();
    }
}

/// Nothing to place leaves the tensor as it is.
#[test]
fn an_empty_scatter_copies_its_tensor() {
    let world = World::new();
    let stream = world.stream();
    let mut make = Maker::new("scatter");
    let (var, updates) = (make.data(&[4]), make.data(&[0]));
    let places = make.constant(cairn_tensor::DType::Int64, &[0, 1], &[]);
    let y = make.node("ScatterNdUpdate", &[var, places, updates]);
    world.add(1, make.outputs(&[y]), &[]);
    let none = device(world.allocate(32), &[0]);
    let inputs = [device(world.floats(&X), &[4]), none];
    let made = world.run(1, RunMode::Loaded, stream, &inputs, &[]);
    assert!(made.is_err(), "not loaded");
    let out = device(world.allocate(16), &[4]);
    world.run(1, RunMode::Stream, stream, &inputs, std::slice::from_ref(&out)).unwrap();
    world.sync(stream).unwrap();
    assert_eq!(world.read(out.address, 4), X);
}
