//! Every row is what its marks say, and has the marks of what it is: held against the cases of
//! `tests/walk/cases.txt`.

#[path = "common/cases.rs"]
mod cases;

use cairn_ops::{Error, copy, nodes};
use cases::{Case, Input, cases};
use std::collections::{BTreeMap, BTreeSet};

const ROWS: usize = 25;
const COLUMNS: usize = 60;
const COUNT: usize = ROWS * COLUMNS;
const CUTS: [usize; 4] = [0, 512, 1101, COUNT];

/// A case with these sizes for each input, but for those of one element and the one at `single`, which have one.
fn enlarged(case: &Case, single: Option<usize>, dims: &[usize]) -> Case {
    let enlarge = |(at, input): (usize, &Option<Input>)| {
        let input = input.as_ref()?;
        let has_one_element = input.layout.count() == 1 && case.outputs[0].count() != 1;
        let dims = if has_one_element || single == Some(at) { &[] } else { dims };
        Some(input.with_dims(dims))
    };
    let outputs = vec![cairn_tensor::Layout::contiguous(case.outputs[0].dtype, dims)];
    Case {
        node: case.node,
        line: case.line.clone(),
        inputs: case.inputs.iter().enumerate().map(enlarge).collect(),
        attributes: case.attributes.clone(),
        outputs,
    }
}

/// The results of a case that runs in pieces, as [`CUTS`] says, one after the other.
fn run_in_pieces(case: &Case) -> Vec<u8> {
    let mut bytes = Vec::new();
    for cut in CUTS.windows(2) {
        let part = |input: &Option<Input>| {
            let input = input.as_ref()?;
            Some(if input.layout.count() == 1 {
                input.clone()
            } else {
                input.piece(cut[0]..cut[1])
            })
        };
        let dims = [cut[1] - cut[0]];
        let piece = Case {
            node: case.node,
            line: case.line.clone(),
            inputs: case.inputs.iter().map(part).collect(),
            attributes: case.attributes.clone(),
            outputs: vec![cairn_tensor::Layout::contiguous(case.outputs[0].dtype, &dims)],
        };
        let results = piece.run(0).unwrap_or_else(|text| panic!("{}: {text}", case.line));
        bytes.extend_from_slice(&results[0]);
    }
    bytes
}

#[test]
fn elementwise_rows_give_the_same_in_pieces() {
    let mut visited = BTreeSet::new();
    for small in cases().iter().filter(|case| case.node.marks.elementwise) {
        assert_eq!(small.node.outputs.len(), 1, "{}", small.line);
        let case = enlarged(small, None, &[ROWS, COLUMNS]);
        let results = case.run(0).unwrap_or_else(|text| panic!("{}: {text}", case.line));
        assert_eq!(results[0], run_in_pieces(&case), "{}", case.line);
        for single in 0..small.inputs.len() {
            let case = enlarged(small, Some(single), &[ROWS, COLUMNS]);
            if let Ok(results) = case.run(0) {
                assert_eq!(results[0], run_in_pieces(&case), "{}, input {single} alone", case.line);
            }
        }
        visited.insert(small.node.name);
    }
    let marked = nodes().values().filter(|node| node.marks.elementwise);
    assert_eq!(visited, marked.map(|node| node.name).collect());
}

#[test]
fn rows_that_draw_and_only_those_are_marked_random() {
    for case in cases() {
        let plan = case.plan().unwrap_or_else(|error| panic!("{}: {}", case.line, error.text()));
        assert_eq!(plan.is_random, case.node.marks.random, "{}", case.line);
    }
}

#[test]
fn rows_that_decide_sizes_and_only_those_are_marked_sized_by_values() {
    for case in cases() {
        let decides = std::cell::Cell::new(false);
        case.run_sized(0, &|_, _| decides.set(true))
            .unwrap_or_else(|e| panic!("{}: {e}", case.line));
        assert_eq!(decides.get(), case.node.marks.sized_by_values, "{}", case.line);
    }
}

/// Fails unless the operators for which `is` holds in every case are those with `mark`.
fn assert_same(is: impl Fn(&Case) -> bool, mark: impl Fn(&cairn_ops::Marks) -> bool) {
    let mut found: BTreeMap<&str, bool> = BTreeMap::new();
    for case in cases() {
        *found.entry(case.node.name).or_insert(true) &= is(&case);
    }
    let found: BTreeSet<&str> = found.into_iter().filter(|one| one.1).map(|one| one.0).collect();
    let marked = nodes().values().filter(|node| mark(&node.marks)).map(|node| node.name);
    assert_eq!(found, marked.collect());
}

#[test]
fn rows_that_read_no_element_and_only_those_are_answered_from_shapes() {
    let reads_nothing = |case: &Case| {
        let plan = case.plan().unwrap();
        let is_input = |one: &cairn_ops::Use| one.argument.0 < case.inputs.len();
        let marks = case.node.marks;
        !plan.uses.iter().any(is_input) && !marks.random && marks.needs_values.is_empty()
    };
    assert_same(reads_nothing, |marks| marks.from_shapes);
}

#[test]
fn rows_whose_output_is_their_input_and_only_those_are_views() {
    let copies_input = |case: &Case| {
        let Some(first) = case.inputs.first() else {
            return false;
        };
        let dtype = first.as_ref().unwrap().layout.dtype;
        let same = |round| {
            let case = case.reseeded(round);
            case.run(0x5a).unwrap()[0] == case.inputs[0].as_ref().unwrap().bytes
        };
        case.node.name != copy().name
            && case.outputs.len() == 1
            && case.outputs[0].dtype == dtype
            && (0..8).all(same)
    };
    assert_same(copies_input, |marks| marks.view);
}

/// An output that is named as an input is that input's memory.
#[test]
fn rows_that_name_their_first_input_as_output_and_only_those_write_it() {
    for node in nodes().values() {
        let names = node.inputs.first().is_some_and(|name| node.outputs.first() == Some(name));
        assert_eq!(names, node.marks.writes_first, "{}", node.name);
        let named = node.outputs.iter().enumerate().filter_map(|(output, name)| {
            let input = node.inputs.iter().position(|input| input == name)?;
            ((output, input) != (0, 0)).then_some((output, input))
        });
        // Others keep what they are given under such a name, and write a new tensor.
        if !node.marks.writes.is_empty() {
            assert_eq!(named.collect::<Vec<_>>(), node.marks.writes, "{}", node.name);
        }
    }
    for case in cases().iter().filter(|case| case.node.marks.writes_first) {
        let (inputs, mut outputs) = case.tensors();
        outputs[0].address = inputs[0].as_ref().unwrap().address;
        let planned = case.plan_with(&inputs, &outputs);
        assert!(planned.is_ok(), "{} in place: {}", case.line, planned.err().unwrap().text());
    }
}

#[test]
fn rows_that_need_values_say_of_which_inputs() {
    let mut needed: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for case in cases() {
        let (mut inputs, outputs) = case.tensors();
        for (tensor, input) in inputs.iter_mut().zip(&case.inputs) {
            if let (Some(tensor), Some(input)) = (tensor, input) {
                tensor.constant = Some(input.bytes.clone().into());
            }
        }
        for at in 0..inputs.len() {
            let mut without = inputs.clone();
            let Some(tensor) = &mut without[at] else { continue };
            tensor.constant = None;
            let args = cairn_ops::NodeArgs {
                inputs: &without,
                outputs: &[],
                attributes: &case.attributes,
            };
            let is_values = |error: Option<Error>| matches!(error, Some(Error::NeedsValues(_)));
            let needs = is_values(case.node.infer(&args).err())
                || is_values(case.plan_with(&without, &outputs).err());
            let marked = case.node.needs_value_of(at, inputs.len());
            assert!(!needs || marked, "{}: input {at} is needed and not marked", case.line);
            if needs {
                let declared = case.node.declared(at, inputs.len());
                needed.entry(case.node.name).or_default().insert(declared);
            }
        }
    }
    for node in nodes().values() {
        let marked: BTreeSet<usize> = node.marks.needs_values.iter().copied().collect();
        let found = needed.get(node.name).cloned().unwrap_or_default();
        assert_eq!(marked, found, "{}: marked, and needed in the cases", node.name);
    }
}
