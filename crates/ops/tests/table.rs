//! The tables of rows and nodes, and what is said of names that are in neither.

use cairn_ops::{Arg, Marks, Node, NodeArgs, Tensor, absent, family, nodes, rows};
use cairn_tensor::{DType, Layout};

/// The functions that torch_npu looks for.
const ASKED_BY_TORCH_NPU: &str = include_str!("../src/torch_npu_names.txt");

#[test]
fn names_are_unique() {
    assert_eq!(rows().len(), family::ROWS.iter().map(|rows| rows.len()).sum::<usize>());
    assert_eq!(nodes().len(), family::NODES.iter().map(|nodes| nodes.len()).sum::<usize>());
}

#[test]
fn what_follows_a_list_keeps_its_place() {
    let concat = nodes()["ConcatV2"];
    let indices: Vec<usize> = (0..4).map(|at| concat.declared(at, 4)).collect();
    assert_eq!(indices, [0, 0, 0, 1]);
    assert!(concat.needs_value_of(3, 4) && !concat.needs_value_of(1, 4));
    assert_eq!(nodes()["Pack"].declared(2, 3), 0);
    assert_eq!(nodes()["GatherV2"].declared(2, 3), 2);
    let fused = nodes()["FusedInferAttentionScore"];
    let all = fused.inputs.len();
    let declared = |count: usize| [1, 2, 3, 4, 6].map(|at| fused.declared(at, count));
    assert_eq!(declared(3), [1, 2, 3, 4, 6]);
    assert_eq!(declared(all), [1, 2, 3, 4, 6]);
    assert_eq!(declared(all + 2), [1, 1, 2, 2, 4]);
}

#[test]
fn a_row_that_draws_without_the_mark_is_refused() {
    let marked = nodes()["MultinomialWithReplacement"];
    let mut unmarked: Node = *marked;
    unmarked.marks = Marks::NONE;
    let tensor =
        |dtype, dims: &[usize], address| Tensor::new(Layout::contiguous(dtype, dims), address);
    let (float, int) = (DType::Float, DType::Int64);
    let inputs = [tensor(float, &[5], 64), tensor(int, &[], 128), tensor(int, &[], 192)];
    let node_args = NodeArgs {
        inputs: &inputs.map(Some),
        outputs: &[tensor(int, &[2], 256)],
        attributes: &[("numsamples".into(), Arg::Int(2))],
    };
    assert!(marked.plan(&node_args).is_ok_and(|plan| plan.is_random));
    let error = unmarked.plan(&node_args).err().expect("it draws");
    assert!(error.text().contains("MultinomialWithReplacement draws"), "{}", error.text());
}

#[test]
fn the_text_names_only_what_is_missing() {
    let text = absent("MatmulAllReduceV9");
    assert!(text.starts_with("Cairn has no operator MatmulAllReduceV9"), "{text}");
    assert!(text.ends_with("(docs/operators.md says which it has)"), "{text}");
    for name in ASKED_BY_TORCH_NPU.lines() {
        let text = absent(name);
        let names = text.split([' ', ',']).any(|word| word == format!("aclnn{name}"));
        assert_eq!(names, !rows().contains_key(name), "{name}: {text}");
    }
    assert!(!nodes().contains_key("NoSuchThing"));
    let plain = absent("NoSuchThing");
    assert_eq!(plain, "Cairn has no operator NoSuchThing (docs/operators.md says which it has)");
}

/// Whatever version or gradient is asked for, the missing ones of its family are named.
#[test]
fn versions_and_gradients_are_one_family() {
    let missing = (ASKED_BY_TORCH_NPU.lines())
        .find(|name| !rows().contains_key(name) && name.chars().all(|c| c.is_ascii_alphabetic()));
    let missing = missing.expect("torch_npu looks for a function that Cairn does not have");
    let stem = missing.trim_end_matches("Backward").trim_end_matches("Grad");
    let stem = stem.strip_prefix("Inplace").unwrap_or(stem);
    for name in ["", "V2", "Backward", "GradV2"].map(|end| format!("{stem}{end}")) {
        for name in [format!("Inplace{name}"), name] {
            assert!(
                absent(&name).contains(&format!("aclnn{missing}")),
                "{name}: {}",
                absent(&name)
            );
        }
    }
}
