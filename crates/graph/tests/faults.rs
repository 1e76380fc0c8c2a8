//! What an engine and its graphs once did wrong, each with a test of its own.

mod support;

use cairn_graph::Failure;
use cairn_graph::ir::{Desc, Graph, NET_OUTPUT, NO_OP, Node, Source};
use cairn_graph::session::{Engine, Options, OutputBlock, RunMode, RunTensor};
use cairn_runtime::host;
use cairn_tensor::DType;
use support::*;

/// y = x + 1 over `n` numbers, unknown where `n` is -1.
fn plus_one(n: i64) -> Graph {
    let mut builder = GraphBuilder::new("plus one");
    let x = builder.data(&[n]);
    let one = builder.floats(&[1], &[1.0]);
    let y = builder.node("Add", &[x, one]);
    builder.outputs(&[y])
}

/// Adds a node of this kind without inputs and outputs that runs after these.
fn add_control_node(graph: &mut Graph, kind: &str, controls: &[usize]) -> usize {
    graph.add(Node {
        name: format!("{kind}{}", graph.len()),
        kind: kind.into(),
        controls: controls.to_vec(),
        ..Node::default()
    })
}

fn run(fixture: &Fixture, id: u32, inputs: &[RunTensor]) -> Result<Vec<Vec<f32>>, Failure> {
    let stream = fixture.stream();
    let pool = Pool::new(fixture);
    fixture.register(stream, &pool);
    let results = fixture.run(id, RunMode::Stream, stream, inputs, &[])?;
    fixture.sync(stream).unwrap();
    let count = |bytes: &Vec<i64>| bytes.iter().product::<i64>() as usize;
    Ok(results.iter().map(|one| fixture.read(one.address, count(&one.dims))).collect())
}

#[test]
fn the_engine_sets_the_device_that_its_options_name() {
    let machine = Machine::start();
    let engine = Engine::default();
    host::set_context(0);
    engine.start(machine.runtime, options(&[("ge.exec.deviceId", "0")])).unwrap();
    assert_eq!(machine.runtime.current_device().unwrap(), 0);
}

#[test]
fn an_engine_without_a_device_leaves_the_thread_as_it_is() {
    let machine = Machine::start();
    let engine = Engine::default();
    host::set_context(0);
    engine.start(machine.runtime, options(&[("ge.exec.deviceId", "-1")])).unwrap();
    assert!(machine.runtime.current_device().is_err());
}

#[test]
fn a_session_sets_its_device() {
    let machine = Machine::start();
    let engine = Engine::default();
    engine.start(machine.runtime, Options::default()).unwrap();
    host::set_context(0);
    engine.open(machine.runtime, Options::default()).unwrap();
    assert_eq!(machine.runtime.current_device().unwrap(), 0);
}

#[test]
fn a_device_that_is_not_there_fails_with_its_option() {
    let machine = Machine::start();
    let engine = Engine::default();
    let failed = engine.start(machine.runtime, options(&[("ge.exec.deviceId", "99")]));
    assert!(failed.unwrap_err().text.starts_with("ge.exec.deviceId=99: "));
    assert!(engine.started().is_err());
    engine.start(machine.runtime, Options::default()).unwrap();
    let failed = engine.open(machine.runtime, options(&[("ge.session_device_id", "99")]));
    assert!(failed.unwrap_err().text.starts_with("ge.session_device_id=99: "));
}

#[test]
fn the_engine_gives_its_devices_back() {
    let machine = Machine::start();
    let engine = Engine::default();
    engine.start(machine.runtime, options(&[("ge.exec.deviceId", "0")])).unwrap();
    for _ in 0..3 {
        engine.open(machine.runtime, Options::default()).unwrap();
    }
    machine.runtime.reset_device(0, false).unwrap();
    let device = machine.runtime.device(0).unwrap();
    assert!(device.primary().is_some(), "the engine keeps its device open");
    engine.stop();
    assert!(device.primary().is_none(), "nobody has it set any more");
}

#[test]
fn a_session_may_end_after_the_engine() {
    let fixture = Fixture::new();
    fixture.engine.stop();
    fixture.engine.close(fixture.id).unwrap();
    fixture.engine.start(fixture.runtime, Options::default()).unwrap();
    fixture.engine.close(fixture.id).unwrap();
    let next = fixture.engine.open(fixture.runtime, Options::default()).unwrap();
    assert!(next != fixture.id);
    fixture.engine.close(next).unwrap();
    assert!(fixture.engine.close(next).is_err(), "twice, with the engine running");
}

#[test]
fn a_registration_outlives_session_and_engine() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let pool = Pool::new(&fixture);
    fixture.register(stream, &pool);
    fixture.engine.close(fixture.id).unwrap();
    fixture.engine.stop();
    fixture.engine.start(fixture.runtime, Options::default()).unwrap();
    let id = fixture.engine.open(fixture.runtime, Options::default()).unwrap();
    let session = fixture.engine.session(id).unwrap();
    let graph = cairn_runtime::lock::Mutex::new(cairn_runtime::lock::Rank::Graph, plus_one(4));
    session.add(1, graph.into(), Options::default()).unwrap();
    let x = device(fixture.floats(&X), &[4]);
    drop(session.run(1, RunMode::Stream, stream, &[x], &[]).unwrap());
    assert!(pool.mallocs() > 0);
    fixture.sync(stream).unwrap();
}

#[test]
fn a_static_input_is_checked_by_its_bytes_with_slack() {
    let fixture = Fixture::new();
    let values: Vec<f32> = (0..32).map(|at| at as f32).collect();
    let expected: Vec<f32> = values.iter().map(|value| value + 1.0).collect();
    fixture.add(1, plus_one(32), &[]);
    let mut x = device(fixture.floats(&values), &[4, 8]);
    assert_eq!(
        run(&fixture, 1, std::slice::from_ref(&x)).unwrap(),
        std::slice::from_ref(&expected),
        "other sizes"
    );
    x.dims = Some(vec![1]);
    x.bytes = 128 - 64;
    assert_eq!(run(&fixture, 1, std::slice::from_ref(&x)).unwrap(), [expected], "64 bytes less");
    x.bytes -= 1;
    let text = run(&fixture, 1, &[x]).unwrap_err().text;
    assert!(text.contains("128 bytes; its memory has 63"), "{text}");
}

#[test]
fn what_a_static_input_on_the_host_lacks_is_zeros() {
    let fixture = Fixture::new();
    fixture.add(1, plus_one(32), &[]);
    let values = [5.0; 16];
    let results = fixture.run(1, RunMode::Host, 0, &[host(&values, &[16])], &[]).unwrap();
    let Some(OutputBlock::Host(bytes)) = &results[0].block else { panic!("an output on the host") };
    let floats: Vec<f32> =
        bytes.chunks(4).take(32).map(|one| f32::from_le_bytes(one.try_into().unwrap())).collect();
    assert_eq!((&floats[..16], &floats[16..]), (&[6.0; 16][..], &[1.0; 16][..]));
    let short = [5.0; 15];
    let text = fixture.run(1, RunMode::Host, 0, &[host(&short, &[15])], &[]).err().unwrap().text;
    assert!(text.contains("its memory has 60"), "{text}");
}

#[test]
fn a_dynamic_input_is_checked_by_its_sizes() {
    let fixture = Fixture::new();
    fixture.add(1, plus_one(-1), &[]);
    let x = device(fixture.floats(&X), &[2, 2]);
    let text = run(&fixture, 1, std::slice::from_ref(&x)).unwrap_err().text;
    assert!(text.contains("sizes [2, 2]"), "{text}");
    let mut short = device(x.address, &[4]);
    short.bytes = 12;
    assert!(run(&fixture, 1, &[short]).unwrap_err().text.contains("its memory has 12"));
}

#[test]
fn an_empty_net_output_compiles_and_runs() {
    for n in [4, -1] {
        let fixture = Fixture::new();
        let mut builder = GraphBuilder::new("nothing out");
        let x = builder.data(&[n]);
        builder.node("Relu", &[x]);
        add_control_node(&mut builder.0, NET_OUTPUT, &[]);
        fixture.add(1, builder.0, &[]);
        let x = device(fixture.floats(&X), &[4]);
        assert_eq!(run(&fixture, 1, &[x]).unwrap(), Vec::<Vec<f32>>::new());
    }
}

#[test]
fn inputs_and_views_of_them_go_out() {
    for n in [4, -1] {
        let fixture = Fixture::new();
        let mut builder = GraphBuilder::new("through");
        let x = builder.data(&[n]);
        let sizes = builder.ints(&[2, 2]);
        let view = builder.node("Reshape", &[x, sizes]);
        fixture.add(1, builder.outputs(&[x, view]), &[]);
        let x = device(fixture.floats(&X), &[4]);
        assert_eq!(run(&fixture, 1, &[x]).unwrap(), [X.to_vec(), X.to_vec()]);
    }
}

#[test]
fn joined_scalars_are_lists_of_one() {
    for n in [3, -1] {
        let fixture = Fixture::new();
        let mut builder = GraphBuilder::new("joined");
        let (a, b, c) = (builder.data(&[]), builder.data(&[n]), builder.data(&[]));
        let axis = builder.constant(DType::Int32, &[], &[0; 4]);
        let y = builder.node("ConcatV2", &[a, b, c, axis]);
        fixture.add(1, builder.outputs(&[y]), &[]);
        let floats = |values: &[f32], dims: &[i64]| device(fixture.floats(values), dims);
        let inputs = [floats(&[1.0], &[]), floats(&[2.0, 3.0, 4.0], &[3]), floats(&[5.0], &[])];
        assert_eq!(run(&fixture, 1, &inputs).unwrap(), [[1.0, 2.0, 3.0, 4.0, 5.0]]);
    }
}

/// A variable is read after a write that only a `NoOp` stands between.
#[test]
fn a_node_that_does_nothing_keeps_the_order() {
    let mut builder = GraphBuilder::new("ordered");
    let x = builder.data(&[4]);
    let desc = Desc::new(DType::Float, &[4]);
    let variable = builder.node("Variable", &[]);
    builder.0.node_mut(variable.node).unwrap().output_descs = vec![desc];
    let zeros = builder.floats(&[4], &[0.0; 4]);
    let read = builder.node("Add", &[variable, zeros]);
    let write = builder.node("Assign", &[variable, x]);
    let between = add_control_node(&mut builder.0, NO_OP, &[write.node]);
    builder.0.node_mut(read.node).unwrap().controls.push(between);
    let fixture = Fixture::new();
    fixture.add(1, builder.outputs(&[read]), &[]);
    let x = device(fixture.floats(&X), &[4]);
    assert_eq!(run(&fixture, 1, &[x]).unwrap(), [X.to_vec()]);
}

#[test]
fn a_node_that_does_nothing_may_be_all_there_is() {
    let fixture = Fixture::new();
    let mut graph = Graph::new("idle");
    let idle = add_control_node(&mut graph, NO_OP, &[]);
    graph.targets = vec![idle];
    fixture.add(1, graph, &[]);
    assert_eq!(run(&fixture, 1, &[]).unwrap(), Vec::<Vec<f32>>::new());
    let mut graph = Graph::new("read");
    let idle = add_control_node(&mut graph, NO_OP, &[]);
    graph.set_outputs(vec![Source { node: idle, output: 0 }]);
    fixture.add(2, graph, &[]);
    assert!(run(&fixture, 2, &[]).unwrap_err().text.contains("no such output"));
}

#[test]
fn the_print_of_a_graph_is_json_for_any_name() {
    let name = "a \"b\" \\ \u{1} \n \u{2028} 物";
    for n in [4, -1] {
        let mut graph = plus_one(n);
        let add = graph.find("add2").unwrap();
        graph.node_mut(add).unwrap().name = name.into();
        graph.name = name.into();
        let fixture = Fixture::new();
        fixture.add(7, graph, &[]);
        fixture.session.graph(7).unwrap().compile(Vec::new()).unwrap();
        let entry = fixture.session.graph(7).unwrap();
        let text = entry.compiled().unwrap().json();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["otherData"]["graph"], format!("graph 7 ({name})"));
        assert_eq!(json["otherData"]["nodes"], serde_json::json!([format!("{name} (Add)")]));
        let is_timed =
            |event: &serde_json::Value| event.get("ts").is_some() || event.get("dur").is_some();
        assert!(
            !json["traceEvents"].as_array().unwrap().iter().any(is_timed),
            "nothing is measured"
        );
    }
}
