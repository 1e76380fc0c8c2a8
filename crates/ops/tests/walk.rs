//! Every operator of the table has what the doors and the tests need of it.

use cairn_ops::{nodes, rows};
use std::collections::BTreeSet;
use std::path::Path;

const CASES: &str = "tests/walk/cases.txt";
/// Calls of functions that have no operator by name.
const ACLNN_CASES: &str = "tests/walk/aclnn.txt";
const SIGNATURES: &str = "crates/ascendcl/aclnn.txt";
const REQUIRED: &str = "tests/torch/required.txt";

/// The lines of a file of the repository, without comments and empty ones.
fn lines(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lines: Vec<String> = (text.lines())
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    assert!(!lines.is_empty(), "{file} is empty");
    lines
}

/// One field of every line, up to its first space.
fn field(file: &str, at: usize) -> BTreeSet<String> {
    let word = |line: &String| {
        let field = line.split(';').nth(at).unwrap_or_else(|| panic!("{file}: '{line}' is short"));
        field.split_whitespace().next().unwrap_or_default().to_owned()
    };
    lines(file).iter().map(word).collect()
}

/// The names that are not known, sorted.
fn lacking<'a>(names: impl Iterator<Item = &'a str>, known: &BTreeSet<String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.filter(|name| !known.contains(*name)).collect();
    names.sort_unstable();
    names
}

#[test]
fn every_operator_by_name_is_walked() {
    // Those that communicate need other ranks: tests/c/hccl_fused.c and tests/cpp/ge_hcom.cc run them.
    let alone = nodes().values().filter(|node| !node.marks.communicates).map(|node| node.name);
    let missing = lacking(alone, &field(CASES, 0));
    assert!(missing.is_empty(), "{CASES} has no case for {missing:?}");
}

#[test]
fn cases_are_of_operators_that_are_there() {
    let known = nodes().keys().map(|name| (*name).to_owned()).collect();
    let named = field(CASES, 0);
    let unknown = lacking(named.iter().map(String::as_str), &known);
    assert!(unknown.is_empty(), "{CASES} has cases of {unknown:?}, which no node has");
    let called = field(CASES, 4);
    let known = rows().keys().map(|name| (*name).to_owned()).chain(["-".to_owned()]).collect();
    let unknown = lacking(called.iter().map(String::as_str), &known);
    assert!(unknown.is_empty(), "{CASES} calls {unknown:?}, which no row has");
    let called = field(ACLNN_CASES, 2);
    let unknown = lacking(called.iter().map(String::as_str), &known);
    assert!(unknown.is_empty(), "{ACLNN_CASES} calls {unknown:?}, which no row has");
}

#[test]
fn every_row_has_a_signature() {
    let names: Vec<String> = rows().values().map(|row| row.function()).collect();
    let missing = lacking(names.iter().map(String::as_str), &field(SIGNATURES, 1));
    assert!(missing.is_empty(), "{SIGNATURES} lacks {missing:?}: run `cargo xtask gen`");
}

#[test]
fn what_torch_reaches_is_there() {
    let known = rows().values().map(|row| row.function()).collect();
    let required = field(REQUIRED, 0);
    let absent = lacking(required.iter().map(String::as_str), &known);
    assert!(absent.is_empty(), "{REQUIRED} names {absent:?}, which no row has");
}
