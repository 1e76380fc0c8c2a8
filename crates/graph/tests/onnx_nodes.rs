//! The node tests of ONNX's own wheel, read from the folder that `CAIRN_ONNX_NODES` names (`cargo xtask test` sets it);
//! without it there are none. `onnx_nodes.txt` has those that do not pass, each with its reason.

mod support;

use cairn_graph::ir::Constant;
use cairn_graph::onnx::{self, ReadOptions};
use std::collections::BTreeMap;
use std::path::Path;
use support::Machine;
use support::onnx::{compare, open_sizes, outputs_of};

/// What became of a case.
enum Verdict {
    Passed,
    Refused(String),
    Wrong(String),
}

impl Verdict {
    /// In one word, and why.
    fn words(&self) -> (&'static str, &str) {
        match self {
            Verdict::Passed => ("passed", ""),
            Verdict::Refused(text) => ("refused", text),
            Verdict::Wrong(text) => ("wrong", text),
        }
    }
}

/// The cases that are known not to pass, with their reasons.
fn known_failures() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("onnx_nodes.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap()).map(|(reason, name)| (name, reason)).collect()
}

/// The reasons for which a case gives another result than the expected one; for all others it is refused.
const OTHER_RESULTS: [&str; 3] = ["random", "tolerance", "unsaturated"];

/// The folder of the cases and their names; `None` if there are none.
fn cases() -> Option<(String, Vec<String>)> {
    let Ok(folder) = std::env::var("CAIRN_ONNX_NODES") else {
        println!("CAIRN_ONNX_NODES is not set: no node tests");
        return None;
    };
    let only = std::env::var("CAIRN_ONNX_ONLY").unwrap_or_default();
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(&only))
        .collect();
    names.sort();
    Some((folder, names))
}

/// The same models with all sizes of their inputs open: a case that passes with sizes may be refused, and gives no other result.
#[test]
fn node_tests_with_open_sizes() {
    let Some((folder, names)) = cases() else { return };
    let machine = Machine::start();
    let known = known_failures();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for name in names.iter().filter(|name| !known.contains_key(name.as_str())) {
        let verdict = run_case(&machine, &Path::new(&folder).join(name), true);
        let (word, text) = verdict.words();
        *counts.entry(word).or_default() += 1;
        if word == "wrong" {
            wrong.push(format!("{name}: {text}"));
        }
        println!("{word}\t{name}\t{text}");
    }
    println!("open sizes: {counts:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn node_tests_of_onnx() {
    let Some((folder, names)) = cases() else { return };
    let machine = Machine::start();
    let known = known_failures();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut surprises = Vec::new();
    for name in &names {
        let case = Path::new(&folder).join(name);
        let verdict = run_case(&machine, &case, false);
        let (word, text) = verdict.words();
        let expected = match known.get(name.as_str()) {
            None => "passed",
            Some(reason) if OTHER_RESULTS.contains(reason) => "wrong",
            Some(_) => "refused",
        };
        if word != expected {
            surprises.push(format!("{name}: {word}, expected {expected}: {text}"));
        }
        *counts.entry(word).or_default() += 1;
        println!("{word}\t{name}\t{text}");
    }
    println!("{} cases: {counts:?}", names.len());
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

fn tensors(set: &Path, prefix: &str) -> Result<Vec<Constant>, String> {
    let mut all = Vec::new();
    for at in 0.. {
        let Ok(bytes) = std::fs::read(set.join(format!("{prefix}_{at}.pb"))) else { break };
        all.push(onnx::read_tensor(bytes)?);
    }
    Ok(all)
}

fn run_case(machine: &Machine, case: &Path, has_open_sizes: bool) -> Verdict {
    let set = case.join("test_data_set_0");
    let outputs = tensors(&set, "input").and_then(|inputs| {
        let bytes = std::fs::read(case.join("model.onnx")).unwrap();
        let options = match has_open_sizes {
            true => open_sizes(&bytes)?,
            false => ReadOptions::default(),
        };
        outputs_of(machine, bytes, &options, &inputs)
    });
    match outputs {
        Err(text) => Verdict::Refused(text),
        Ok(made) => match tensors(&set, "output") {
            Err(text) => Verdict::Refused(text),
            Ok(expected) => match compare(&made, &expected) {
                Ok(()) => Verdict::Passed,
                Err(text) => Verdict::Wrong(text),
            },
        },
    }
}
