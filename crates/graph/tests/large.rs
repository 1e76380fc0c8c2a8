//! Large graphs compile; the test prints how long they take.

mod support;

use cairn_graph::executable::{CompileOptions, Executable};
use cairn_graph::ir::Graph;
use std::time::Instant;
use support::*;

const NODES: usize = 32_000;

/// Nodes one after the other: of each `period` the first is a view, then one that is not fused, then additions. 0 stands for
/// additions alone.
fn chain(nodes: usize, period: usize) -> Graph {
    let mut builder = GraphBuilder::new("chain");
    let mut last = builder.data(&[4, 4]);
    let one = builder.floats(&[1], &[1.0]);
    let shape = builder.ints(&[4, 4]);
    for at in 0..nodes {
        last = match at.checked_rem(period) {
            Some(0) => builder.node("Reshape", &[last, shape]),
            Some(1) => builder.node("SoftmaxV2", &[last]),
            _ => builder.node("Add", &[last, one]),
        };
    }
    builder.outputs(&[last])
}

#[test]
fn long_chains_compile() {
    for (period, fuses) in [(0, true), (0, false), (4, true), (1, true)] {
        let options = CompileOptions { fuses, ..CompileOptions::default() };
        let started = Instant::now();
        let compiled = Executable::compile(chain(NODES, period), "a chain".into(), options);
        let elapsed = started.elapsed();
        println!("{NODES} nodes, period {period}, fuses {fuses}: {elapsed:?}");
        assert!(compiled.is_ok_and(|one| one.is_static()));
    }
}
