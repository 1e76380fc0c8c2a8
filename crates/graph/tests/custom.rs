//! Operators that the user registered, in graphs: when they are called, and whose memory they get.

mod support;

use cairn_graph::custom::{CustomCall, CustomOperator, Declaration};
use cairn_graph::ir::{Attr, Desc, Presence};
use cairn_graph::session::RunMode;
use cairn_graph::{Failure, Result, Status};
use cairn_runtime::Runtime;
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::stream::Stream;
use cairn_tensor::DType;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Fixture, GraphBuilder, Pool, X, device, empty, host};

/// Doubles its input, on the host and when all before it is done.
struct Double {
    runtime: &'static Runtime,
    calls: AtomicUsize,
    /// What it does wrong, on which call.
    fault: Option<(usize, Fault)>,
    declaration: Option<Declaration>,
}

#[derive(Clone, Copy)]
enum Fault {
    Code(u32),
    NoOutput,
}

impl Double {
    fn register(fixture: &Fixture, change: impl FnOnce(&mut Double)) -> Arc<Double> {
        let calls = AtomicUsize::new(0);
        let mut double = Double { runtime: fixture.runtime, calls, fault: None, declaration: None };
        change(&mut double);
        let double = Arc::new(double);
        fixture.engine.custom.register("Double", double.clone()).unwrap();
        double
    }
}

impl CustomOperator for Double {
    fn declaration(&self) -> Option<Declaration> {
        self.declaration.clone()
    }

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    fn execute(&self, call: &mut CustomCall<'_>) -> Result<()> {
        let call_index = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.fault.filter(|(at, _)| *at == call_index) {
            Some((_, Fault::Code(code))) => {
                return Err(Failure::new(Status::Custom(code), "as asked"));
            }
            Some((_, Fault::NoOutput)) => return Ok(()),
            None => {}
        }
        let x = call.inputs()[0].clone();
        let scratch = call.workspace(100)?;
        let y = match call.refer_output(0, 0) {
            Ok(input) => input.address,
            Err(_) => call.make_output(0, &Desc::new(DType::Float, &x.dims))?,
        };
        assert!(scratch != 0 && y != 0 && scratch != y);
        let stream = self.runtime.handles.get::<Stream>(call.stream())?;
        self.runtime.synchronize(&stream, None)?;
        let memory = &self.runtime.shared.memory;
        let read = memory.extent(x.address, x.bytes).unwrap().read();
        let number = |one: &[u8]| f32::from_le_bytes(one.try_into().unwrap());
        let doubled = read.chunks(4).flat_map(|one| (number(one) * 2.0).to_le_bytes());
        memory.extent(y, x.bytes).unwrap().write(&doubled.collect::<Vec<u8>>());
        Ok(())
    }
}

/// relu(double(x + 1)) and double(x + 1).
fn graph(n: i64) -> cairn_graph::ir::Graph {
    let mut builder = GraphBuilder::new("g");
    let x = builder.data(&[n]);
    let one = builder.floats(&[1], &[1.0]);
    let sum = builder.node("Add", &[x, one]);
    let double = builder.node("Double", &[sum]);
    let relu = builder.node("Relu", &[double]);
    builder.outputs(&[relu, double])
}

const RELU: [f32; 4] = [0.0, 3.0, 6.0, 0.0];
const DOUBLE: [f32; 4] = [-4.0, 3.0, 6.0, 0.0];

#[test]
fn memory_comes_from_the_users_allocator_and_goes_back() {
    for n in [4, -1] {
        let fixture = Fixture::new();
        let double = Double::register(&fixture, |_| ());
        let (stream, pool) = (fixture.stream(), Pool::new(&fixture));
        fixture.register(stream, &pool);
        fixture.add(1, graph(n), &[]);
        let x = device(fixture.floats(&X), &[4]);
        for run in 1..4 {
            let results = fixture
                .run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[empty(), empty()])
                .unwrap();
            fixture.sync(stream).unwrap();
            assert_eq!(fixture.read(results[0].address, 4), RELU);
            assert_eq!(fixture.read(results[1].address, 4), DOUBLE);
            assert!(results.iter().all(|one| pool.holds(one.address)));
            assert_eq!(double.calls.load(Ordering::Relaxed), run);
            assert_eq!(pool.taken_for(Purpose::Workspace), run);
            assert_eq!(pool.taken_for(Purpose::Output), 2 * run);
            assert_eq!(pool.taken_for(Purpose::Intermediate), run);
        }
        fixture.session.remove(1).unwrap();
        assert_eq!(pool.live(), 0);
    }
}

#[test]
fn a_failure_has_code_and_node_and_leaves_no_block_out() {
    for (fault, part) in [
        (Fault::Code(77), "as asked"),
        (Fault::NoOutput, "it returned without making its output 0"),
    ] {
        let fixture = Fixture::new();
        Double::register(&fixture, |double| double.fault = Some((1, fault)));
        let (stream, pool) = (fixture.stream(), Pool::new(&fixture));
        fixture.register(stream, &pool);
        fixture.add(1, graph(4), &[]);
        let x = device(fixture.floats(&X), &[4]);
        let run = || {
            fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[empty(), empty()])
        };
        drop(run().unwrap());
        let failed = run().err().unwrap();
        let code =
            if let Fault::Code(code) = fault { Status::Custom(code) } else { Status::Failed };
        assert_eq!(failed.status, code);
        let expected = format!("graph 1 (g), node double3 (Double): {part}");
        assert!(failed.text.starts_with(&expected), "{}", failed.text);
        fixture.sync(stream).unwrap();
        drop(run().unwrap());
        fixture.session.remove(1).unwrap();
        assert_eq!(pool.live(), 0);
    }
}

#[test]
fn a_pool_that_gives_nothing_fails_the_run_at_each_block() {
    let fixture = Fixture::new();
    Double::register(&fixture, |_| ());
    let (stream, pool) = (fixture.stream(), Pool::new(&fixture));
    fixture.register(stream, &pool);
    fixture.add(1, graph(-1), &[]);
    let x = device(fixture.floats(&X), &[4]);
    let run =
        || fixture.run(1, RunMode::Stream, stream, std::slice::from_ref(&x), &[empty(), empty()]);
    drop(run().unwrap());
    let (live, at_load) = (pool.live(), pool.mallocs());
    drop(run().unwrap());
    let blocks_per_run = pool.mallocs() - at_load;
    for at in 1..=blocks_per_run {
        pool.fail_at(at);
        let failed = run().err().unwrap();
        assert!(failed.text.contains("graph 1 (g)"), "{}", failed.text);
        assert_eq!(pool.live(), live);
        pool.fail_at(0);
        drop(run().unwrap());
    }
}

#[test]
fn an_output_with_the_name_of_an_input_is_that_input() {
    let fixture = Fixture::new();
    let declaration = Declaration {
        inputs: vec![("x".into(), Presence::Required)],
        outputs: vec![("x".into(), Presence::Required)],
        attrs: vec![("a".into(), Some(Attr::Int(1)))],
        needs_values: vec![0],
    };
    Double::register(&fixture, |double| double.declaration = Some(declaration));
    let mut builder = GraphBuilder::new("in place");
    let x = builder.data(&[-1]);
    let double = builder.node("Double", &[x]);
    let relu = builder.node("Relu", &[double]);
    let graph = builder.outputs(&[relu]);
    fixture.add(1, graph, &[]);
    let (stream, address) = (fixture.stream(), fixture.floats(&X));
    let y = device(fixture.floats(&[0.0; 4]), &[4]);
    let output = std::slice::from_ref(&y);
    fixture.run(1, RunMode::Stream, stream, &[device(address, &[4])], output).unwrap();
    fixture.sync(stream).unwrap();
    assert_eq!(fixture.read(address, 4), X.map(|x| 2.0 * x));
    assert_eq!(fixture.read(y.address, 4), X.map(|x| (2.0 * x).max(0.0)));
    let mut builder = GraphBuilder::new("constant");
    let one = builder.floats(&[1], &[1.0]);
    let double = builder.node("Double", &[one]);
    fixture.add(2, builder.outputs(&[double]), &[]);
    let refused = fixture.run(2, RunMode::Host, 0, &[], &[]).err().unwrap();
    assert!(refused.text.contains("writes its input x in place"), "{}", refused.text);
}

#[test]
fn strings_are_bytes_for_it_and_for_nobody_else() {
    let fixture = Fixture::new();
    let declaration = Declaration {
        inputs: vec![("x".into(), Presence::Required), ("text".into(), Presence::Optional)],
        outputs: vec![("y".into(), Presence::Required)],
        ..Declaration::default()
    };
    Double::register(&fixture, |double| double.declaration = Some(declaration));
    for kind in ["Double", "Add"] {
        let mut builder = GraphBuilder::new("text");
        let x = builder.data(&[4]);
        let text = builder.constant(DType::String, &[], b"some");
        let node = builder.node(kind, &[x, text]);
        let graph = builder.outputs(&[node]);
        fixture.add(1, graph, &[]);
        let result = fixture.run(1, RunMode::Host, 0, &[host(&X, &[4])], &[]);
        match result {
            Ok(_) => assert_eq!(kind, "Double"),
            Err(failure) => {
                assert_eq!(kind, "Add");
                assert!(failure.text.contains("elements of type string"), "{}", failure.text);
            }
        }
        fixture.session.remove(1).unwrap();
    }
}

#[test]
fn the_first_of_a_type_stays() {
    let fixture = Fixture::new();
    let double = Double::register(&fixture, |_| ());
    let again = fixture.engine.custom.register("Double", double.clone()).unwrap_err();
    assert!(again.text.contains("registered already"), "{}", again.text);
    assert!(fixture.engine.custom.register("", double).is_err());
    assert_eq!(format!("{:?}", fixture.engine.custom), "{\"Double\"}");
}
