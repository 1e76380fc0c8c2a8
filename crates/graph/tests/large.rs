//! Large graphs: what it takes to compile them grows with the number of nodes, not with its square.

mod support;

use cairn_graph::executable::{CompileOptions, Executable};
use cairn_graph::ir::Graph;
use std::time::{Duration, Instant};
use support::*;

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

fn compile(graph: Graph, fuses: bool) -> Duration {
    let begun = Instant::now();
    let options = CompileOptions { fuses, ..CompileOptions::default() };
    let compiled = Executable::compile(graph, "a chain".into(), options);
    let taken = begun.elapsed();
    assert!(compiled.is_ok(), "{:?}", compiled.err());
    taken
}

#[test]
fn the_time_to_compile_grows_with_the_number_of_nodes() {
    const SMALL: usize = 2_000;
    const TIMES: usize = 16;
    for (period, fuses) in [(0, true), (0, false), (4, true), (1, true)] {
        let best = |nodes: usize| {
            let runs = (0..2).map(|_| compile(chain(nodes, period), fuses));
            runs.min().unwrap_or_default()
        };
        let (small, large) = (best(SMALL), best(SMALL * TIMES));
        let what = format!("period {period}, fuses {fuses}");
        println!("{what}: {small:?}, {TIMES} times the nodes {large:?}");
        let limit = small * TIMES as u32 * 6;
        assert!(large < limit, "{what}: {small:?} and {large:?}");
    }
}
