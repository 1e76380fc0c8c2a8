//! `cargo xtask bench graph`: the graph engine beside tract, ONNX Runtime and PyTorch, in one run.
//!
//! Every model is described once ([`model`]) and given to all engines; their outputs have to agree before
//! anything is measured. A run is timed from the call to the finished output. Goals stand beside the
//! figures and fail nothing.

mod compare;
mod model;
mod onnx;
mod ort;
mod ours;
mod process;

use crate::ort::Ort;
use compare::{ComparisonReport, Engine, assert_agree, figure, interleave};
use model::Model;
use ours::CairnEngine;
use process::{Peer, Process, RemoteModel};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LENGTH: usize = 1000;
const WIDTH: usize = 16;
const SEQUENCE: usize = 128;
const ROWS: usize = 64;
const WIDTHS: [usize; 4] = [1024, 2048, 2048, 1024];

/// Time in which the threads of the engine that ran before stop spinning.
const PAUSE: Duration = Duration::from_millis(20);

/// Nanoseconds of a run of the chain are printed per node.
const PER_NODE: (f64, &str) = (LENGTH as f64 * 1e3, "us/op");
const MILLISECONDS: (f64, &str) = (1e6, "ms");

/// What Cairn is compared with, as far as it is installed.
struct Peers {
    ort: Option<Arc<Ort>>,
    /// With one thread, and with two.
    eager: [Option<Peer>; 2],
    tract: Option<Peer>,
}

/// Runs all, or the chain alone where the command line says `graph chain`, and writes `graph.json` into `out`.
pub fn run(out: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(out)?;
    let mut report = ComparisonReport::default();
    let ort = match std::env::var_os("CAIRN_ONNXRUNTIME").filter(|path| !path.is_empty()) {
        None => Err("CAIRN_ONNXRUNTIME does not name the library".into()),
        Some(path) => Ort::load(&PathBuf::from(path)),
    };
    let ort = ort.map_err(|why| report.absent(&format!("onnxruntime: {why}"))).ok();
    let eager = [1, 2].map(|threads| {
        let started = Process::eager(out, threads);
        started.map_err(|why| report.absent(&format!("PyTorch: {why}"))).ok()
    });
    let tract = Process::tract(out).map_err(|why| report.absent(&format!("tract: {why}"))).ok();
    let peers = Peers { ort, eager, tract };
    let ours = [CairnEngine::new(1), CairnEngine::new(2)];

    chain(&mut report, &peers, &ours);
    if std::env::args().nth(2).as_deref() != Some("chain") {
        let widths: Vec<String> = WIDTHS.iter().map(usize::to_string).collect();
        let kind = format!("mlp:{ROWS}:{}", widths.join(":"));
        network(&mut report, &peers, &ours, &Model::perceptron(ROWS, &WIDTHS), &kind, 40);
        for (layers, rounds) in [(2, 15), (12, 6)] {
            let kind = format!("bert:{layers}:{SEQUENCE}");
            let model = Model::encoder(layers, SEQUENCE);
            network(&mut report, &peers, &ours, &model, &kind, rounds);
        }
    }
    report.write(&out.join("graph.json"))
}

/// Dispatch: a thousand additions of sixteen numbers each.
fn chain(report: &mut ComparisonReport, peers: &Peers, ours: &[CairnEngine; 2]) {
    const ROUNDS: usize = 1500;
    let (fixed, dynamic_model) =
        (Model::chain(LENGTH, WIDTH, false), Model::chain(LENGTH, WIDTH, true));
    let (fixed_bytes, dynamic_bytes) = (ours::write(&fixed), ours::write(&dynamic_model));
    report.heading(&format!("{LENGTH} additions of {WIDTH} numbers, one after the other"));
    if let Some(tract) = &peers.tract {
        let nodes = tract.borrow_mut().load(&format!("chain:{LENGTH}:{WIDTH}"), &fixed);
        println!("tract's plan has {} nodes", nodes.expect("tract has the chain"));
    }
    let (x, b) = (&fixed.input_values()[0], &fixed.input_values()[1]);
    let summed = |(x, b): (&f32, &f32)| (0..LENGTH).fold(*x, |sum, _| sum + b);
    let expected: Vec<f32> = x.iter().zip(b).map(summed).collect();
    for (threads, ours) in [1, 2].into_iter().zip(ours) {
        for (id, bytes, level) in
            [(1, &fixed_bytes, "O1"), (2, &fixed_bytes, "O3"), (3, &dynamic_bytes, "O1")]
        {
            ours.load(id, bytes, level);
        }
        let mut runners =
            [1, 2, 3].map(|id| ours.runner(id, if id == 3 { &dynamic_model } else { &fixed }));
        let mut theirs: Vec<ort::Runner> = Vec::new();
        for model in [&fixed, &dynamic_model] {
            let Some(ort) = &peers.ort else { break };
            let loaded = ort::OrtSession::new(ort, &onnx::write(model), threads);
            theirs
                .push(loaded.and_then(|one| one.runner(model)).expect("a session can be created"));
        }
        for (what, runner) in ["unfused", "fused", "dynamic"].iter().zip(&mut runners) {
            runner.run();
            assert_agree(what, &runner.output(), &expected);
        }
        let mut tract = peers.tract.as_ref().map(RemoteModel::new);
        let mut engines: Vec<&mut dyn Engine> = Vec::new();
        engines.extend(runners.iter_mut().map(|one| one as &mut dyn Engine));
        engines.extend(theirs.iter_mut().map(|one| one as &mut dyn Engine));
        engines.extend(tract.iter_mut().map(|one| one as &mut dyn Engine));
        let figures = interleave(ROUNDS, Duration::ZERO, &mut engines);
        for (engine, what) in engines.iter_mut().skip(3).zip(1..) {
            assert_agree(&format!("peer {what}"), &engine.output(), &expected);
        }
        let [unfused, fused, dynamic] = figures[..3] else { unreachable!("three of ours") };
        let mut add = |what: &str, ours, peer: &str, theirs: usize, goal| {
            let Some(theirs) = figures.get(theirs) else { return };
            let name = format!("{what}, {threads} thread(s)");
            report.times(&name, ours, (peer, *theirs), PER_NODE, goal);
        };
        if peers.tract.is_some() {
            let tract = figures.len() - 1;
            add("unfused", unfused, "tract", tract, Some(1.0));
            add("fused", fused, "tract", tract, None);
            add("dynamic", dynamic, "tract", tract, None);
        }
        if peers.ort.is_some() {
            add("unfused", unfused, "onnxruntime", 3, None);
            add("fused", fused, "onnxruntime", 3, None);
            add("dynamic", dynamic, "onnxruntime", 4, Some(1.0));
        }
        for (id, what) in [(1, "unfused"), (2, "fused")] {
            let (planned, bound) = ours.planned(id);
            if bound > 0 {
                report.bytes(&format!("planned bytes, {what}"), planned, bound, 1.02);
            }
        }
        [1, 2, 3].iter().for_each(|id| ours.unload(*id));
        compile_and_load(report, peers, ours, threads, &fixed_bytes, &fixed);
    }
}

/// A model beside ONNX Runtime and PyTorch.
fn network(
    report: &mut ComparisonReport,
    peers: &Peers,
    ours: &[CairnEngine; 2],
    model: &Model,
    kind: &str,
    rounds: usize,
) {
    report.heading(&model.name);
    let (our_bytes, onnx) = (ours::write(model), onnx::write(model));
    for eager in peers.eager.iter().flatten() {
        eager.borrow_mut().load(kind, model).expect("PyTorch has the model");
    }
    for (threads, ours) in [1, 2].into_iter().zip(ours) {
        ours.load(1, &our_bytes, "O3");
        let mut runner = ours.runner(1, model);
        let mut theirs = peers.ort.as_ref().map(|ort| {
            let loaded = ort::OrtSession::new(ort, &onnx, threads);
            loaded.and_then(|one| one.runner(model)).expect("a session can be created")
        });
        let mut eager = peers.eager[threads - 1].as_ref().map(RemoteModel::new);
        runner.run();
        let output = runner.output();
        if let Some(theirs) = &mut theirs {
            theirs.run();
            assert_agree("onnxruntime", &output, &theirs.output());
        }
        if let Some(eager) = &mut eager {
            assert_agree("PyTorch", &output, &eager.output());
        }
        let mut names = Vec::new();
        let mut engines: Vec<&mut dyn Engine> = vec![&mut runner];
        if let Some(theirs) = &mut theirs {
            names.push(("onnxruntime", None));
            engines.push(theirs);
        }
        if let Some(eager) = &mut eager {
            names.push(("PyTorch eager", Some(1.0)));
            engines.push(eager);
        }
        let figures = interleave(rounds, PAUSE, &mut engines);
        for ((peer, goal), theirs) in names.into_iter().zip(&figures[1..]) {
            let name = format!("{}, {threads} thread(s)", model.name);
            report.times(&name, figures[0], (peer, *theirs), MILLISECONDS, goal);
        }
        if threads == 1 {
            let (planned, bound) = ours.planned(1);
            report.bytes("planned bytes", planned, bound, 1.02);
        }
        ours.unload(1);
        drop(theirs);
        compile_and_load(report, peers, ours, threads, &our_bytes, model);
    }
}

/// The time from bytes to a model that can be run.
fn compile_and_load(
    report: &mut ComparisonReport,
    peers: &Peers,
    ours: &CairnEngine,
    threads: usize,
    bytes: &[u8],
    model: &Model,
) {
    const TIMES: usize = 5;
    let Some(ort) = &peers.ort else { return };
    let onnx = onnx::write(model);
    let (mut our_times, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let start = Instant::now();
        ours.load(9, bytes, "O3");
        our_times.push(start.elapsed().as_nanos() as f64);
        ours.unload(9);
        let start = Instant::now();
        let loaded = ort::OrtSession::new(ort, &onnx, threads).expect("a session can be created");
        theirs.push(start.elapsed().as_nanos() as f64);
        drop(loaded);
    }
    let peer = ("onnxruntime", figure(&mut theirs));
    let name = format!("read, compile and load, {threads} thread(s)");
    report.times(&name, figure(&mut our_times), peer, MILLISECONDS, Some(1.0));
}
