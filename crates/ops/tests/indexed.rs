//! What a plan says of the memory it touches: which uses depend on values, and where elements lie.

#[path = "common/cases.rs"]
mod cases;

use cairn_ops::{Arg, Plan, Tensor, rows};
use cairn_tensor::{DType, Layout};
use cases::{Case, cases};
use std::collections::BTreeMap;

const F: DType = DType::Float;
const I: DType = DType::Int64;
const NAMES: &[&str] = &["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];

/// The indices of the arguments that a plan reaches by index.
fn indexed(plan: &Plan) -> Vec<usize> {
    let mut arg_indices: Vec<usize> =
        plan.uses.iter().filter(|one| one.indexed).map(|one| one.argument.0).collect();
    arg_indices.sort_unstable();
    arg_indices
}

/// Of every operator with an IR name: inputs count first, then outputs.
#[test]
fn operators_by_name_say_what_they_reach_by_index() {
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for case in cases() {
        let arg_indices = indexed(&case.plan().unwrap());
        if !arg_indices.is_empty() {
            found.insert(case.node.name, arg_indices);
        }
    }
    let expected: BTreeMap<&str, Vec<usize>> = [
        ("DeformableOffsets", vec![0]),
        ("DeformableOffsetsGrad", vec![1]),
        ("EmbeddingBag", vec![0]),
        ("FusedInferAttentionScore", vec![21, 22]),
        ("FFN", vec![1, 2]),
        ("FusedCausalConv1d", vec![9]),
        ("Gather", vec![0]),
        ("GatherElements", vec![0]),
        ("GatherNd", vec![0]),
        ("GatherV2", vec![0]),
        ("GridSampler2D", vec![0]),
        ("GridSampler2DGrad", vec![1]),
        ("GridSampler3D", vec![0]),
        ("GroupedMatmul", vec![0, 1]),
        ("IncreFlashAttention", vec![1, 1, 3, 3]),
        ("IndexByTensor", vec![0]),
        ("LightningIndexer", vec![1]),
        ("MaskedSelect", vec![0, 2]),
        ("MoeFinalizeRouting", vec![0, 3]),
        ("MoeFinalizeRoutingV2", vec![0, 4]),
        ("MoeInitRouting", vec![0, 4]),
        ("MoeInitRoutingV3", vec![0, 2, 3, 4, 6]),
        ("MoeUpdateExpert", vec![1]),
        ("NLLLoss", vec![0, 2]),
        ("NLLLossGrad", vec![3]),
        ("NonMaxSuppression", vec![3]),
        ("NonMaxSuppressionV2", vec![4]),
        ("NonMaxSuppressionV3", vec![5]),
        ("NonMaxSuppressionV6", vec![5]),
        ("NonZero", vec![1]),
        ("PromptFlashAttention", vec![0, 1, 2, 4]),
        ("ROIAlign", vec![0]),
        ("ROIPooling", vec![0]),
        ("RotatedNMS", vec![3, 4]),
        ("ScatterList", vec![3]),
        ("SearchSorted", vec![0]),
        ("SparseFlashAttention", vec![1, 2, 8]),
        ("UniqueWithCountsAndSorting", vec![1, 3, 4]),
    ]
    .into();
    assert_eq!(found, expected);
}

/// In place only what indices name is touched; elsewhere the output is written wholly.
#[test]
fn a_scatter_in_place_touches_what_indices_name() {
    for (name, arg_indices) in [
        ("ScatterElements", vec![0, 3]),
        ("ScatterNdAdd", vec![0, 3]),
        ("ScatterNdUpdate", vec![0, 3]),
        ("ScatterUpdate", vec![0, 3]),
        ("InplaceIndexAdd", vec![0, 3]),
        ("Scatter", vec![0, 3]),
    ] {
        let case = cases().into_iter().find(|case| case.node.name == name).unwrap();
        let (inputs, mut outputs) = case.tensors();
        outputs[0].address = inputs[0].as_ref().unwrap().address;
        assert_eq!(indexed(&case.plan_with(&inputs, &outputs).unwrap()), arg_indices, "{name}");
    }
}

fn tensor(dtype: DType, dims: &[usize], address: usize) -> Arg {
    Arg::Tensor(Tensor::new(Layout::contiguous(dtype, dims), address << 20))
}

fn planned(name: &str, args: Vec<Arg>) -> Plan {
    let plan = rows()[name].plan(NAMES, args.into());
    plan.unwrap_or_else(|error| panic!("{name}: {}", error.text()))
}

#[test]
fn operators_of_aclnn_say_what_they_reach_by_index() {
    let list = |dims: &[usize], address: usize| {
        Arg::Tensors(vec![Tensor::new(Layout::contiguous(I, dims), address << 20)])
    };
    let (yes, no, zero) = (Arg::Flag(true), Arg::Flag(false), Arg::Int(0));
    let table = || tensor(F, &[8, 4], 1);
    let half = || tensor(DType::Float16, &[8, 4], 1);
    let index = || tensor(I, &[3], 2);
    let put = |table: Arg, values: Arg, adds: &Arg| {
        vec![table, list(&[3], 2), values, adds.clone(), no.clone()]
    };
    let values = || tensor(F, &[3, 4], 3);
    let calls: Vec<(&str, Vec<Arg>, Vec<usize>)> = vec![
        ("IndexPutImpl", put(table(), values(), &no), vec![0]),
        ("IndexPutImpl", put(table(), values(), &yes), vec![0]),
        ("IndexPutImpl", put(half(), tensor(DType::Float16, &[3, 4], 3), &yes), vec![]),
        ("Index", vec![table(), list(&[3], 2), values()], vec![0]),
        ("Index", vec![table(), list(&[3], 2), tensor(F, &[3, 4], 1)], vec![]),
        ("Take", vec![table(), index(), tensor(F, &[3], 3)], vec![0]),
        ("InplacePut", vec![table(), index(), tensor(F, &[3], 3), no.clone()], vec![0]),
        ("EmbeddingRenorm", vec![table(), index(), Arg::Float(1.0), Arg::Float(2.0)], vec![0]),
        (
            "InplaceMaskedScatter",
            vec![table(), tensor(DType::Bool, &[8, 4], 2), tensor(F, &[32], 3)],
            vec![0, 2],
        ),
        ("Embedding", vec![table(), index(), values()], vec![0]),
        ("IndexSelect", vec![table(), zero, index(), values()], vec![0]),
        ("Add", vec![table(), tensor(F, &[4], 2), Arg::Int(1), tensor(F, &[8, 4], 3)], vec![]),
    ];
    for (name, args, arg_indices) in calls {
        assert_eq!(indexed(&planned(name, args)), arg_indices, "{name}");
    }
}

/// An output whose use is not `indexed` is written wholly: nothing of what was there stays.
#[test]
fn what_is_not_reached_by_index_is_written_wholly() {
    for case in cases() {
        let plan = case.plan().unwrap();
        let run =
            |case: &Case, fill| case.run(fill).unwrap_or_else(|e| panic!("{}: {e}", case.line));
        let (zeros, ones) = (run(&case, 0x00), run(&case, 0xff));
        for one in plan.uses.iter().filter(|one| one.access.writes && !one.access.reads) {
            let arg_index = one.argument.0 + one.argument.1;
            let output = arg_index - case.inputs.len();
            let same = zeros[output] == ones[output];
            assert!(same || one.indexed, "{}: output {output} keeps bytes", case.line);
        }
    }
}

#[test]
fn a_use_says_where_its_elements_lie() {
    let at = |layout: Layout| Arg::Tensor(Tensor::new(layout, 1 << 20));
    let add = |layout: Layout| {
        let (dims, other) = (layout.dims().to_vec(), layout.packed());
        let other = Arg::Tensor(Tensor::new(other, 2 << 20));
        planned("Add", vec![at(layout), other, Arg::Int(1), tensor(F, &dims, 3)])
    };
    let plain = Layout::contiguous(F, &[6, 4]);
    for dense in [plain, plain.transposed(0, 1), Layout::strided(F, &[6, 4], &[-4, 1], 20)] {
        let plan = add(dense);
        assert!(plan.uses.iter().all(|one| one.is_dense()), "{dense}");
        assert_eq!(plan.uses[0].layout(), Layout::contiguous(DType::Uint8, &[96]));
        assert_eq!((plan.uses[0].address, plan.uses[0].bytes), (1 << 20, 96));
    }
    let columns = plain.sliced(1, 1, 2, 1);
    let plan = add(columns);
    assert!(!plan.uses[0].is_dense() && plan.uses[1].is_dense());
    assert_eq!(plan.uses[0].layout(), Layout::strided(F, &[6, 2], &[4, 1], 0));
    assert_eq!((plan.uses[0].address, plan.uses[0].bytes), ((1 << 20) + 4, 88));
    let repeated = Layout::strided(F, &[3, 2], &[0, 3], 0);
    let plan = add(repeated);
    assert_eq!(plan.uses[0].layout(), repeated);
    assert_eq!(plan.uses[0].bytes, 16);
}

/// The elements that a plan reaches of the argument at an index.
fn reached(plan: &Plan, arg_index: usize) -> (Layout, bool) {
    let one = plan.uses.iter().find(|one| one.argument.0 == arg_index).unwrap();
    assert_eq!(one.bytes, 128, "the range is the whole tensor's");
    (one.layout(), one.indexed)
}

#[test]
fn a_part_that_is_known_beforehand_is_all_that_is_reached() {
    let table = || tensor(F, &[8, 4], 1);
    let ints = |numbers: &[i64]| Arg::Ints(numbers.to_vec());
    let strided =
        |dims: &[usize], strides: &[isize], offset| Layout::strided(F, dims, strides, offset);
    let slice = |start, step, out: Arg| {
        let one = |number| ints(&[number]);
        vec![table(), one(start), one(i64::MAX), one(1), one(step), out]
    };
    let plan = planned("SliceV2", slice(1, 2, tensor(F, &[8, 2], 3)));
    assert_eq!(reached(&plan, 0), (strided(&[8, 2], &[4, 2], 1), false));
    let plan = planned("SliceV2", slice(0, 1, tensor(F, &[8, 4], 3)));
    assert_eq!(reached(&plan, 0), (Layout::contiguous(DType::Uint8, &[128]), false));
    let overlapping = planned("SliceV2", slice(1, 2, tensor(F, &[8, 2], 1)));
    assert_eq!(
        reached(&overlapping, 0).0,
        Layout::contiguous(DType::Uint8, &[128]),
        "copied first"
    );

    let parts = [3, 2].map(|rows| Tensor::new(Layout::contiguous(F, &[rows, 4]), (rows + 2) << 20));
    let split = vec![table(), ints(&[3, 2]), Arg::Int(0), Arg::Tensors(parts.to_vec())];
    let plan = planned("SplitWithSize", split);
    assert_eq!(reached(&plan, 0), (strided(&[5, 4], &[4, 1], 0), false));

    let diagonal = |wraps| vec![table(), Arg::Float(1.0), Arg::Flag(wraps)];
    let plan = planned("InplaceFillDiagonal", diagonal(false));
    assert_eq!(reached(&plan, 0), (strided(&[4], &[5], 0), false));
    assert!(
        reached(&planned("InplaceFillDiagonal", diagonal(true)), 0).1,
        "two diagonals may be touched"
    );

    let fill = |dims: &[i64]| vec![table(), Arg::Int(1), ints(dims), Arg::Float(1.0)];
    let filled = |dims: &[i64]| reached(&planned("InplaceIndexFillTensor", fill(dims)), 0);
    assert_eq!(filled(&[2]), (strided(&[8, 1], &[4, 1], 2), false));
    assert_eq!(filled(&[3, 1, 3]), (strided(&[8, 2], &[4, 2], 1), false));
    assert_eq!(filled(&[3, 0, 2]), (Layout::contiguous(DType::Uint8, &[128]), true));
    assert_eq!(filled(&[]).0.count(), 0);
}

/// Whatever the bytes are that a plan says it does not reach, the outputs are the same.
#[test]
fn nothing_else_is_reached() {
    let mut checked = 0;
    for case in cases() {
        let plan = case.plan().unwrap();
        let expected = case.run(0).unwrap();
        for one in plan.uses.iter().filter(|one| !one.is_dense() && !one.indexed) {
            let mut other = case.reseeded(0);
            let Some(Some(input)) = other.inputs.get_mut(one.argument.0 + one.argument.1) else {
                continue;
            };
            let layout = one.layout();
            let mut is_outside = vec![true; input.bytes.len()];
            for at in 0..layout.count() {
                let mut rest = at;
                let element = (layout.dims().iter().zip(layout.strides()).rev()).fold(
                    layout.offset,
                    |element, (size, stride)| {
                        let step = rest % size;
                        rest /= size;
                        element + step as isize * stride
                    },
                );
                let start = element as usize * layout.item();
                is_outside[start..start + layout.item()].fill(false);
            }
            input
                .bytes
                .iter_mut()
                .zip(is_outside)
                .filter(|(_, is_outside)| *is_outside)
                .for_each(|(byte, _)| *byte ^= 0x15);
            checked += 1;
            assert_eq!(other.run(0).unwrap(), expected, "{}", case.line);
        }
    }
    assert!(checked > 1, "{checked} parts");
}
