//! What draws random numbers is computed when the graph runs, never before.

mod support;

use cairn_graph::executable::Kind;
use cairn_graph::ir::{Attr, Graph};
use cairn_graph::session::RunMode;
use cairn_ops::nodes;
use cairn_tensor::DType;
use std::collections::BTreeSet;
use support::*;

/// A graph of one random operator that is fed constants alone, and its output's bytes.
fn random_graph(name: &str) -> (Graph, usize) {
    let mut builder = GraphBuilder::new(name);
    let (seed, offset) = (builder.ints(&[7]), builder.ints(&[3]));
    let (drawn, bytes) = match name {
        "StatelessRandomUniformV2" | "StatelessRandomNormalV2" => {
            let (sizes, algorithm) = (builder.ints(&[3, 4]), builder.ints(&[1]));
            (builder.node(name, &[sizes, seed, offset, algorithm]), 48)
        }
        "StatelessBernoulli" => {
            let (sizes, probability) = (builder.ints(&[3, 4]), builder.floats(&[], &[0.5]));
            let dtype = ("dtype", Attr::Int(i64::from(DType::Float.number())));
            (builder.node_with(name, &[sizes, probability, seed, offset], &[dtype]), 48)
        }
        "MultinomialWithReplacement" => {
            let weights = builder.floats(&[5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
            let attrs = [("numsamples", Attr::Int(6)), ("replacement", Attr::Flag(true))];
            (builder.node_with(name, &[weights, seed, offset], &attrs), 48)
        }
        "StatelessDropOutGenMask" => {
            let (sizes, probability) = (builder.ints(&[12, 32]), builder.floats(&[], &[0.5]));
            (builder.node(name, &[sizes, probability, seed, offset]), 48)
        }
        "DropOutGenMaskV3" => {
            let (sizes, probability) = (builder.ints(&[4, 30]), builder.floats(&[], &[0.5]));
            (builder.node(name, &[sizes, probability]), 128)
        }
        "StatelessRandperm" => {
            let count = builder.ints(&[6]);
            (builder.node(name, &[count, seed, offset]), 48)
        }
        other => panic!("{other} draws random numbers: give it a graph here"),
    };
    (builder.outputs(&[drawn]), bytes)
}

#[test]
fn an_operator_marked_random_is_never_folded() {
    let random: BTreeSet<&str> =
        nodes().values().filter(|node| node.marks.random).map(|node| node.name).collect();
    assert!(random.len() >= 5, "{random:?}");
    for (id, name) in (1..).zip(random) {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let (graph, bytes) = random_graph(name);
        fixture.add(id, graph, &[("ge.oo.level", "O3")]);
        let out = device(fixture.allocate(bytes), &[bytes as i64 / 4]);
        let blank = fixture.read(out.address, bytes / 4);
        fixture.run(id, RunMode::Stream, stream, &[], std::slice::from_ref(&out)).unwrap();
        fixture.sync(stream).unwrap();
        let drawn = fixture.read(out.address, bytes / 4);
        assert_ne!(drawn, blank, "{name}");
        let graph = fixture.session.graph(id).unwrap();
        let compiled = graph.compiled().unwrap();
        let Kind::Static { program, .. } = &compiled.kind else {
            panic!("{name}: all sizes are constants");
        };
        assert!(program.init.is_empty(), "{name} is drawn when the graph is loaded");
        assert_eq!(program.steps.len(), 1, "{name} is drawn in each run");
        assert!(program.steps[0].name.contains(name), "{}", program.steps[0].name);
        let drawn: Vec<u8> = drawn.iter().flat_map(|one| one.to_ne_bytes()).collect();
        let folded = compiled.constants().iter().any(|constant| constant.bytes[..] == drawn[..]);
        assert!(!folded, "{name} is a constant");
    }
}
