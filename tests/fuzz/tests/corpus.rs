//! Runs the targets on every input of `corpus/`, without any search.

use cairn_fuzz::Operations;
use cairn_fuzz::model::Op;
use std::collections::BTreeSet;
use std::path::Path;

/// The inputs of a target, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 10, "{} has {} inputs", folder.display(), inputs.len());
    inputs
}

fn run_on_corpus(target: &str, entry: fn(&[u8])) {
    for (name, data) in corpus(target) {
        if let Err(panic) = std::panic::catch_unwind(|| entry(&data)) {
            eprintln!("the input corpus/{target}/{name} fails");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn aipp() {
    run_on_corpus("aipp", cairn_fuzz::aipp);
}

#[test]
fn meeting() {
    run_on_corpus("meeting", cairn_fuzz::meeting);
}

#[test]
fn om() {
    run_on_corpus("om", cairn_fuzz::om);
}

#[test]
fn onnx() {
    run_on_corpus("onnx", cairn_fuzz::onnx);
}

#[test]
fn shapes() {
    run_on_corpus("shapes", cairn_fuzz::shapes);
}

#[test]
fn ge_model() {
    run_on_corpus("ge_model", cairn_fuzz::ge_model);
}

#[test]
fn pool() {
    run_on_corpus("pool", cairn_fuzz::pool);
}

#[test]
fn record() {
    run_on_corpus("record", cairn_fuzz::record);
}

#[test]
fn spec() {
    run_on_corpus("spec", cairn_fuzz::spec);
}

#[test]
fn trace() {
    run_on_corpus("trace", cairn_fuzz::trace);
}

#[test]
fn the_inputs_of_the_pool_use_every_operation() {
    let mut seen = BTreeSet::new();
    for (_, data) in corpus("pool") {
        seen.extend(Operations(&data[1..]).map(|op| match op {
            Op::Allocate(..) => "allocate",
            Op::Free(..) => "free",
            Op::Use(..) => "use",
            Op::Submit(..) => "submit",
            Op::Finish(..) => "finish",
            Op::Order(..) => "order",
            Op::Trim(..) => "trim",
            Op::FinishAll => "finish all",
        }));
    }
    assert_eq!(seen.len(), 8, "{seen:?}");
}
