//! Operators that write their first input in place.

mod support;

use cairn_graph::session::RunMode;
use support::*;

/// `Assign` writes its first input where sizes are known, and where they are not.
#[test]
fn an_assignment_writes_its_input() {
    for (id, dims) in [(1, [4]), (2, [-1])] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let mut builder = GraphBuilder::new("assign");
        let (to, from) = (builder.data(&dims), builder.data(&dims));
        let assigned = builder.node("Assign", &[to, from]);
        let twice = builder.node("Add", &[assigned, assigned]);
        fixture.add(id, builder.outputs(&[twice]), &[]);
        let (to, from) = (fixture.floats(&[0.0; 4]), fixture.floats(&X));
        let inputs = [device(to, &[4]), device(from, &[4])];
        let out = device(fixture.allocate(16), &[4]);
        fixture.run(id, RunMode::Stream, stream, &inputs, std::slice::from_ref(&out)).unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(fixture.read(to, 4), X, "of {dims:?}");
        assert_eq!(fixture.read(out.address, 4), X.map(|x| 2.0 * x), "of {dims:?}");
    }
}

/// What was read before a write stays as it was, also through operators that elsewhere only show their input.
#[test]
fn who_read_before_a_write_keeps_what_was_there() {
    for (id, dims) in [(1, [4]), (2, [-1])] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let mut builder = GraphBuilder::new("before");
        let (to, amount) = (builder.data(&dims), builder.data(&dims));
        let before = builder.node("Identity", &[to]);
        let after = builder.node("AssignAdd", &[to, amount]);
        builder.0.node_mut(after.node).unwrap().controls.push(before.node);
        let seen = builder.node("Identity", &[after]);
        let reduced = builder.node("AssignSub", &[after, amount]);
        builder.0.node_mut(reduced.node).unwrap().controls.push(seen.node);
        let zero = builder.ints(&[0]);
        let last = builder.node("ExpandDims", &[reduced, zero]);
        fixture.add(id, builder.outputs(&[before, seen, last]), &[]);
        let (to, amount) = (fixture.floats(&X), fixture.floats(&[1.0, 2.0, 3.0, 4.0]));
        let inputs = [device(to, &[4]), device(amount, &[4])];
        let outputs = [4, 4, 4].map(|count| device(fixture.allocate(16), &[count]));
        fixture.run(id, RunMode::Stream, stream, &inputs, &outputs).unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(fixture.read(outputs[0].address, 4), X, "of {dims:?}");
        assert_eq!(fixture.read(outputs[1].address, 4), [-2.0, 2.5, 5.0, 3.0], "of {dims:?}");
        assert_eq!(fixture.read(outputs[2].address, 4), X, "of {dims:?}");
        assert_eq!(fixture.read(to, 4), X, "of {dims:?}");
    }
}

/// A write through an operator that only shows its input reaches that input.
#[test]
fn a_write_through_a_view_reaches_its_input() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("through");
    let (to, amount) = (builder.data(&[4]), builder.data(&[2, 2]));
    let sizes = builder.ints(&[2, 2]);
    let square = builder.node("Reshape", &[to, sizes]);
    let after = builder.node("AssignAdd", &[square, amount]);
    fixture.add(1, builder.outputs(&[after]), &[]);
    let (to, amount) = (fixture.floats(&X), fixture.floats(&[1.0; 4]));
    let inputs = [device(to, &[4]), device(amount, &[2, 2])];
    let out = device(fixture.allocate(16), &[2, 2]);
    fixture.run(1, RunMode::Stream, stream, &inputs, &[out]).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(to, 4), X.map(|x| x + 1.0));
}

/// The value may be what is written.
#[test]
fn a_tensor_may_be_added_to_itself() {
    for (id, dims) in [(1, [4]), (2, [-1])] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let mut builder = GraphBuilder::new("itself");
        let to = builder.data(&dims);
        let twice = builder.node("AssignAdd", &[to, to]);
        let same = builder.node("Assign", &[twice, to]);
        let four = builder.node("AssignAdd", &[same, twice]);
        fixture.add(id, builder.outputs(&[four]), &[]);
        let to = fixture.floats(&X);
        let out = device(fixture.allocate(16), &[4]);
        fixture.run(id, RunMode::Stream, stream, &[device(to, &[4])], &[out]).unwrap();
        fixture.sync(stream).unwrap();
        assert_eq!(fixture.read(to, 4), X.map(|x| 4.0 * x), "of {dims:?}");
    }
}

/// Many elements, so that the kernel works in several pieces and on several threads.
#[test]
fn large_tensors_are_written_in_place() {
    const COUNT: usize = 100_003;
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("large");
    let (to, amount) = (builder.data(&[COUNT as i64]), builder.data(&[1]));
    let after = builder.node("AssignSub", &[to, amount]);
    fixture.add(1, builder.outputs(&[after]), &[]);
    let values: Vec<f32> = (0..COUNT).map(|at| at as f32).collect();
    let (to, amount) = (fixture.floats(&values), fixture.floats(&[2.0]));
    let inputs = [device(to, &[COUNT as i64]), device(amount, &[1])];
    let out = device(fixture.allocate(COUNT * 4), &[COUNT as i64]);
    fixture.run(1, RunMode::Stream, stream, &inputs, std::slice::from_ref(&out)).unwrap();
    fixture.sync(stream).unwrap();
    let expected: Vec<f32> = values.iter().map(|x| x - 2.0).collect();
    assert!(fixture.read(to, COUNT) == expected && fixture.read(out.address, COUNT) == expected);
}

#[test]
fn one_value_is_written_to_all_elements() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let mut builder = GraphBuilder::new("one");
    let (to, one) = (builder.data(&[4]), builder.floats(&[1], &[5.0]));
    let set = builder.node("Assign", &[to, one]);
    fixture.add(1, builder.outputs(&[set]), &[]);
    let to = fixture.floats(&X);
    let out = device(fixture.allocate(16), &[4]);
    fixture.run(1, RunMode::Stream, stream, &[device(to, &[4])], &[out]).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(to, 4), [5.0; 4]);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    for kind in ["Assign", "AssignAdd"] {
        let fixture = Fixture::new();
        let mut builder = GraphBuilder::new("sizes");
        let (to, amount) = (builder.data(&[1]), builder.data(&[4]));
        let after = builder.node(kind, &[to, amount]);
        fixture.add(1, builder.outputs(&[after]), &[]);
        let failed = fixture.session.graph(1).unwrap().compile(Vec::new()).err();
        let text = failed.map_or(String::new(), |failed| failed.text);
        assert!(text.contains(kind), "{kind}: {text}");
    }
}

/// Constants are filled when a graph is loaded, and equal ones are one memory: nothing may write them.
#[test]
fn a_constant_is_not_written() {
    for options in [&[][..], &[("ge.oo.constantFolding", "false")]] {
        for kind in ["Const", "Identity", "Fill"] {
            let fixture = Fixture::new();
            let mut builder = GraphBuilder::new("constant");
            let x = builder.data(&[4]);
            let to = builder.floats(&[4], &X);
            let to = match kind {
                "Identity" => builder.node("Identity", &[to]),
                "Fill" => {
                    let (sizes, value) = (builder.ints(&[4]), builder.floats(&[], &[0.0]));
                    builder.node("Fill", &[sizes, value])
                }
                _ => to,
            };
            let y = builder.node("AssignAdd", &[to, x]);
            let y = builder.node("Neg", &[y]);
            fixture.add(1, builder.outputs(&[y]), options);
            let inputs = [host(&X, &[4])];
            let run = || fixture.run(1, RunMode::Host, 0, &inputs, &[]);
            match run() {
                Err(failure) => {
                    assert!(
                        failure.text.contains("(AssignAdd) writes its first input"),
                        "{failure:?}"
                    );
                }
                Ok(_) => assert!(kind == "Fill" && !options.is_empty(), "{kind} was written"),
            }
        }
    }
}

/// An output that is named as the first input is that input: rows are changed where they are.
#[test]
fn a_scatter_writes_its_input() {
    for (id, dims) in [(1, [4, 1]), (2, [-1, 1])] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let mut builder = GraphBuilder::new("scatter");
        let (to, amount) = (builder.data(&dims), builder.data(&[2, 1]));
        let indices: Vec<u8> = [3i64, 1].iter().flat_map(|one| one.to_le_bytes()).collect();
        let indices = builder.constant(cairn_tensor::DType::Int64, &[2, 1], &indices);
        let changed = builder.node("ScatterNdUpdate", &[to, indices, amount]);
        let twice = builder.node("Add", &[changed, changed]);
        fixture.add(id, builder.outputs(&[twice]), &[]);
        let (to, amount) = (fixture.floats(&X), fixture.floats(&[7.0, 8.0]));
        let inputs = [device(to, &[4, 1]), device(amount, &[2, 1])];
        let out = device(fixture.allocate(16), &[4, 1]);
        fixture.run(id, RunMode::Stream, stream, &inputs, std::slice::from_ref(&out)).unwrap();
        fixture.sync(stream).unwrap();
        let after = [X[0], 8.0, X[2], 7.0];
        assert_eq!(fixture.read(to, 4), after, "of {dims:?}");
        assert_eq!(fixture.read(out.address, 4), after.map(|x| 2.0 * x), "of {dims:?}");
    }
}
