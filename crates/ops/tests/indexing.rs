//! Operators that read and write where indices say, select by masks, and sort.

mod common;

use cairn_ops::{Arg, Tensor};
use cairn_tensor::{DType, Scalar};
use common::{TestMemory, t, with_layout};
use proptest::prelude::*;

const F: DType = DType::Float;
const I: DType = DType::Int64;

/// 1, 2, and so on.
fn numbers(count: usize) -> Vec<f64> {
    (1..=count).map(|at| at as f64).collect()
}

#[test]
fn selects_and_says_which_index_is_bad() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[3, 2], &numbers(6));
    let index = memory.put(I, &[3], &[2.0, 0.0, 2.0]);
    let out = memory.zeros(F, &[3, 2]);
    memory.run("IndexSelect", vec![t(&a), Arg::Int(0), t(&index), t(&out)]).unwrap();
    assert_eq!(memory.read(&out), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    memory.write(&index, &[0.0, 1.0, 3.0]);
    let fault =
        memory.run("IndexSelect", vec![t(&a), Arg::Int(0), t(&index), t(&out)]).unwrap_err();
    assert_eq!(fault, "p2[2] = 3 is outside 0 to 2");
    memory.write(&index, &[0.0, -1.0, 0.0]);
    let fault = memory.run("Embedding", vec![t(&a), t(&index), t(&out)]).unwrap_err();
    assert_eq!(fault, "p1[1] = -1 is outside 0 to 2");
    let error =
        memory.run("IndexSelect", vec![t(&a), Arg::Int(2), t(&index), t(&out)]).unwrap_err();
    assert_eq!(error, "p1 = 2 is outside -2 to 1");
}

#[test]
fn batches_are_indexed_each_by_itself() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 3, 2], &numbers(12));
    let index = memory.put(I, &[2, 2], &[2.0, 0.0, 1.0, 1.0]);
    let out = memory.zeros(F, &[2, 2, 2]);
    let axis = |dim: i64| Tensor {
        constant: Some(dim.to_ne_bytes().to_vec().into()),
        ..Tensor::new(cairn_tensor::Layout::contiguous(I, &[]), 1)
    };
    memory.by_name("GatherV2", &[&a, &index, &axis(1)], &out, &[("batch_dims", 1)]).unwrap();
    assert_eq!(memory.read(&out), [5.0, 6.0, 1.0, 2.0, 9.0, 10.0, 9.0, 10.0]);
    let last = memory.put(I, &[2, 1], &[1.0, 0.0]);
    let narrow = memory.zeros(F, &[2, 3, 1]);
    memory.by_name("GatherV2", &[&a, &last, &axis(2)], &narrow, &[("batch_dims", -1)]).unwrap();
    assert_eq!(memory.read(&narrow), [2.0, 4.0, 6.0, 7.0, 9.0, 11.0]);
    memory.write(&index, &[0.0, 0.0, 0.0, 3.0]);
    let fault = memory.by_name("GatherV2", &[&a, &index, &axis(1)], &out, &[("batch_dims", 1)]);
    assert_eq!(fault.unwrap_err(), "indices[1, 1] = 3 is outside 0 to 2");
    for wrong in [2, 3, -3] {
        let error =
            memory.by_name("GatherV2", &[&a, &index, &axis(1)], &out, &[("batch_dims", wrong)]);
        assert!(error.unwrap_err().contains(&format!("batch_dims = {wrong}: [2, 3, 2] by [2, 2]")));
    }
}

#[test]
fn several_indices_with_gaps_between_them() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 3, 4], &numbers(24));
    let blank = memory.zeros(F, &[0]);
    let (first, last) =
        (memory.put(I, &[2, 1], &[1.0, -2.0]), memory.put(I, &[3], &[3.0, 0.0, -1.0]));
    let out = memory.zeros(F, &[2, 3, 3]);
    let list = vec![first.clone(), blank.clone(), last.clone()];
    memory.run("Index", vec![t(&a), Arg::Tensors(list), t(&out)]).unwrap();
    let at = |i: usize, j: usize, k: usize| (i * 12 + j * 4 + k) as f64 + 1.0;
    let mut expected = Vec::new();
    for i in [1, 0] {
        for k in [3, 0, 3] {
            (0..3).for_each(|j| expected.push(at(i, j, k)));
        }
    }
    assert_eq!(memory.read(&out), expected);
    let middle = memory.put(I, &[2], &[2.0, 1.0]);
    let out = memory.zeros(F, &[2, 2, 4]);
    memory.run("Index", vec![t(&a), Arg::Tensors(vec![blank, middle]), t(&out)]).unwrap();
    assert_eq!(memory.read(&out)[..8], [9.0, 10.0, 11.0, 12.0, 5.0, 6.0, 7.0, 8.0]);
    memory.write(&last, &[0.0, 4.0, 0.0]);
    let out = memory.zeros(F, &[2, 3, 4]);
    memory.write(&last, &[0.0, 4.0, 0.0]);
    let fault =
        memory.run("Index", vec![t(&a), Arg::Tensors(vec![first, last]), t(&out)]).unwrap_err();
    assert_eq!(fault, "p1[1][0, 1] = 4 is outside -3 to 2");
}

#[test]
fn puts_with_and_without_adding() {
    let mut memory = TestMemory::new();
    for dtype in [F, DType::Float16, I, DType::Int8] {
        let a = memory.zeros(dtype, &[3, 2]);
        let index = memory.put(I, &[4], &[2.0, 0.0, 2.0, -1.0]);
        let values = memory.put(dtype, &[4, 1], &[1.0, 2.0, 3.0, 4.0]);
        let list = || Arg::Tensors(vec![index.clone()]);
        let flags = |add| [Arg::Flag(add), Arg::Flag(false)];
        let [add, unsafe_] = flags(true);
        memory.run("IndexPutImpl", vec![t(&a), list(), t(&values), add, unsafe_]).unwrap();
        assert_eq!(memory.read(&a), [2.0, 2.0, 0.0, 0.0, 8.0, 8.0]);
        let [add, unsafe_] = flags(false);
        memory.run("IndexPutImpl", vec![t(&a), list(), t(&values), add, unsafe_]).unwrap();
        assert_eq!(memory.read(&a), [2.0, 2.0, 0.0, 0.0, 4.0, 4.0]);
    }
}

#[test]
fn no_index_at_all_puts_nothing() {
    let mut memory = TestMemory::new();
    let a = memory.put(I, &[3], &numbers(3));
    let (none, value) = (memory.zeros(I, &[0]), memory.put(I, &[], &[9.0]));
    let list = Arg::Tensors(vec![none]);
    let args = vec![t(&a), list, t(&value), Arg::Flag(false), Arg::Flag(false)];
    memory.run("IndexPutImpl", args).unwrap();
    assert_eq!(memory.read(&a), [1.0, 2.0, 3.0]);
}

#[test]
fn puts_by_number_and_rows_by_coordinates() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 3], &numbers(6));
    let index = memory.put(I, &[3], &[0.0, -1.0, 0.0]);
    let values = memory.put(F, &[3], &[10.0, 20.0, 30.0]);
    let columns = with_layout(&a, a.layout.transposed(0, 1));
    memory.run("InplacePut", vec![t(&columns), t(&index), t(&values), Arg::Flag(true)]).unwrap();
    assert_eq!(memory.read(&a), [41.0, 2.0, 3.0, 4.0, 5.0, 26.0]);
    let found_indices = memory.put(I, &[2, 1], &[1.0, 0.0]);
    let rows = memory.zeros(F, &[2, 3]);
    memory.run("GatherNd", vec![t(&a), t(&found_indices), Arg::Flag(true), t(&rows)]).unwrap();
    assert_eq!(memory.read(&rows), [4.0, 5.0, 26.0, 41.0, 2.0, 3.0]);
    let cells = memory.put(I, &[2, 2], &[1.0, 2.0, 0.0, 0.0]);
    let two = memory.put(F, &[2], &[7.0, 8.0]);
    memory.run("ScatterNdUpdate", vec![t(&a), t(&cells), t(&two)]).unwrap();
    assert_eq!(memory.read(&a), [8.0, 2.0, 3.0, 4.0, 5.0, 7.0]);
}

#[test]
fn repeats_in_a_row() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 2], &numbers(4));
    let out = memory.zeros(F, &[2, 4]);
    let args = vec![t(&a), Arg::Int(2), Arg::Int(1), Arg::Int(4), t(&out)];
    memory.run("RepeatInterleaveIntWithDim", args).unwrap();
    assert_eq!(memory.read(&out), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]);
    let times = memory.put(I, &[2], &[0.0, 3.0]);
    let out = memory.zeros(F, &[3, 2]);
    let args = |out: &Tensor| vec![t(&a), t(&times), Arg::Int(0), Arg::Int(3), t(out)];
    memory.run("RepeatInterleaveWithDim", args(&out)).unwrap();
    assert_eq!(memory.read(&out), [3.0, 4.0, 3.0, 4.0, 3.0, 4.0]);
    let large = memory.zeros(F, &[4, 2]);
    let fault = memory.run("RepeatInterleaveWithDim", args(&large)).unwrap_err();
    assert_eq!(fault, "p1 makes 3 in all, the output has room for 4");
    let numbers = memory.zeros(I, &[3]);
    memory.run("RepeatInterleaveTensor", vec![t(&times), Arg::Int(3), t(&numbers)]).unwrap();
    assert_eq!(memory.read(&numbers), [1.0, 1.0, 1.0]);
}

/// What `Gather` should give.
fn gathered(
    a: &[f64],
    dims: [usize; 2],
    dim: usize,
    index: &[usize],
    index_dims: [usize; 2],
) -> Vec<f64> {
    let at = |i: usize, j: usize| {
        let chosen = index[i * index_dims[1] + j];
        let (i, j) = if dim == 0 { (chosen, j) } else { (i, chosen) };
        a[i * dims[1] + j]
    };
    (0..index_dims[0])
        .flat_map(|i| (0..index_dims[1]).map(move |j| (i, j)))
        .map(|(i, j)| at(i, j))
        .collect()
}

fn transposed(tensor: &Tensor) -> Tensor {
    with_layout(tensor, tensor.layout.transposed(0, 1))
}

proptest! {
    #[test]
    fn gathers_and_scatters_as_expected(
        dims in prop::array::uniform2(1usize..6),
        index_sizes in prop::array::uniform2(0usize..6),
        dim in 0usize..2,
        transpose in any::<bool>(),
        seeds in prop::collection::vec(0usize..1000, 64),
        dtype in prop::sample::select(vec![F, DType::Float16, I, DType::Int32, DType::Uint8]),
        index_type in prop::sample::select(vec![I, DType::Int32]),
    ) {
        let mut sizes = [index_sizes[0].min(dims[0]), index_sizes[1].min(dims[1])];
        sizes[dim] = index_sizes[dim];
        let count = sizes[0] * sizes[1];
        let indices: Vec<usize> = (0..count).map(|at| seeds[at] % dims[dim]).collect();
        let values: Vec<f64> = (0..count).map(|at| (seeds[63 - at] % 9) as f64).collect();
        let mut memory = TestMemory::new();
        let base = numbers(dims[0] * dims[1]);
        let mut a = memory.zeros(dtype, &if transpose { [dims[1], dims[0]] } else { dims });
        if transpose {
            a = transposed(&a);
        }
        memory.write(&a, &base);
        let index_values: Vec<f64> = indices.iter().map(|at| *at as f64).collect();
        let index = memory.put(index_type, &sizes, &index_values);
        let out = memory.zeros(dtype, &sizes);
        memory.run("Gather", vec![t(&a), Arg::Int(dim as i64), t(&index), t(&out)]).unwrap();
        prop_assert_eq!(memory.read(&out), gathered(&base, dims, dim, &indices, sizes));

        let source = memory.put(dtype, &sizes, &values);
        let sum = memory.zeros(dtype, &dims);
        memory.run("ScatterAdd", vec![t(&a), Arg::Int(dim as i64), t(&index), t(&source), t(&sum)]).unwrap();
        let (mut added, mut replaced) = (base.clone(), base.clone());
        for i in 0..sizes[0] {
            for j in 0..sizes[1] {
                let at = i * sizes[1] + j;
                let (x, y) = if dim == 0 { (indices[at], j) } else { (i, indices[at]) };
                added[x * dims[1] + y] += values[at];
                replaced[x * dims[1] + y] = values[at];
            }
        }
        prop_assert_eq!(memory.read(&sum), added);
        let args = vec![t(&a), Arg::Int(dim as i64), t(&index), t(&source), Arg::Int(0)];
        memory.run("InplaceScatter", args).unwrap();
        prop_assert_eq!(memory.read(&a), replaced);
    }

    #[test]
    fn sorts_stably_in_exactly_the_workspace_it_names(
        rows in 1usize..4,
        columns in 0usize..20,
        descending in any::<bool>(),
        seeds in prop::collection::vec(-6i32..7, 60),
        dtype in prop::sample::select(vec![F, DType::Float16, DType::Double, I, DType::Int8, DType::Uint8, DType::Bool]),
        k in 0usize..20,
    ) {
        let count = rows * columns;
        let value = |seed: i32| match dtype {
            DType::Bool => f64::from(seed > 0),
            DType::Uint8 => f64::from(seed + 6),
            d if d.is_floating() && seed == 6 => f64::NAN,
            d if d.is_floating() && seed == 0 => -0.0,
            d if d.is_floating() && seed == 1 => 0.0,
            _ => f64::from(seed),
        };
        let values: Vec<f64> = seeds[..count].iter().map(|seed| value(*seed)).collect();
        let mut memory = TestMemory::new();
        let a = memory.put(dtype, &[rows, columns], &values);
        let (out, found_indices) = (memory.zeros(dtype, &[rows, columns]), memory.zeros(I, &[rows, columns]));
        let args = vec![t(&a), Arg::Flag(true), Arg::Int(-1), Arg::Flag(descending), t(&out), t(&found_indices)];
        memory.run("Sort", args).unwrap();
        let item = if a.layout.item() <= 4 { 8 } else { 16 };
        prop_assert_eq!(memory.workspace.get(), count * item);
        let rank = |v: f64| if v.is_nan() { (1, 0.0) } else { (0, v) };
        let mut expected = Vec::new();
        for row in 0..rows {
            let mut order: Vec<usize> = (0..columns).collect();
            order.sort_by(|x, y| {
                let (x, y) = (rank(values[row * columns + x]), rank(values[row * columns + y]));
                let ordering = x.partial_cmp(&y).unwrap();
                if descending { ordering.reverse() } else { ordering }
            });
            expected.extend(order);
        }
        let found: Vec<usize> = memory.read(&found_indices).iter().map(|at| *at as usize).collect();
        prop_assert_eq!(&found, &expected);
        let bits = |v: f64| v.to_bits();
        let expected_values: Vec<u64> =
            expected.iter().enumerate().map(|(at, source)| bits(values[at / columns * columns + source])).collect();
        let out: Vec<u64> = memory.read(&out).into_iter().map(bits).collect();
        prop_assert_eq!(out, expected_values);

        let k = k.min(columns);
        let (out, found_indices) = (memory.zeros(dtype, &[rows, k]), memory.zeros(I, &[rows, k]));
        let args = vec![
            t(&a), Arg::Int(k as i64), Arg::Int(1), Arg::Flag(descending), Arg::Flag(true), t(&out), t(&found_indices),
        ];
        memory.run("Topk", args).unwrap();
        prop_assert_eq!(memory.workspace.get(), count * item);
        let first: Vec<f64> = (0..rows).flat_map(|row| expected[row * columns..row * columns + k].to_vec()).map(|at| at as f64).collect();
        prop_assert_eq!(memory.read(&found_indices), first);
    }
}

#[test]
fn chooses_and_tells_sizes() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 3], &numbers(6));
    let mask = memory.put(DType::Bool, &[3], &[1.0, 0.0, 1.0]);
    let out = memory.zeros(F, &[6]);
    memory.run("MaskedSelect", vec![t(&a), t(&mask), t(&out)]).unwrap();
    assert_eq!(memory.read(&out)[..4], [1.0, 3.0, 4.0, 6.0]);
    let source = memory.put(F, &[4], &[9.0, 8.0, 7.0, 6.0]);
    memory.run("InplaceMaskedScatter", vec![t(&a), t(&mask), t(&source)]).unwrap();
    assert_eq!(memory.read(&a), [9.0, 2.0, 8.0, 7.0, 5.0, 6.0]);
    let few = memory.put(F, &[3], &[9.0, 8.0, 7.0]);
    let fault = memory.run("InplaceMaskedScatter", vec![t(&a), t(&mask), t(&few)]).unwrap_err();
    assert_eq!(fault, "p2 has 3 elements, but p1 is true at 4 positions");
    memory.write(&a, &[0.0, 2.0, 0.0, 7.0, 0.0, 6.0]);
    let found_indices = memory.zeros(I, &[6, 2]);
    memory.run("Nonzero", vec![t(&a), t(&found_indices)]).unwrap();
    assert_eq!(memory.read(&found_indices)[..6], [0.0, 1.0, 1.0, 0.0, 1.0, 2.0]);
    let found_indices = memory.zeros(I, &[2, 6]);
    memory.run("NonzeroV2", vec![t(&a), t(&found_indices)]).unwrap();
    assert_eq!(memory.read(&found_indices)[..6], [0.0, 1.0, 1.0, 1.0, 0.0, 2.0]);
    assert_eq!(*memory.reported.borrow(), [(2, vec![4]), (1, vec![3, 2]), (1, vec![2, 3])]);
}

#[test]
fn unique_values_and_slices() {
    let mut memory = TestMemory::new();
    let a = memory.put(I, &[2, 3], &[3.0, 1.0, 3.0, 2.0, 1.0, 3.0]);
    let (values, inverse, counts) =
        (memory.zeros(I, &[6]), memory.zeros(I, &[2, 3]), memory.zeros(I, &[6]));
    let yes = || Arg::Flag(true);
    memory
        .run("Unique2", vec![t(&a), yes(), yes(), yes(), t(&values), t(&inverse), t(&counts)])
        .unwrap();
    assert_eq!(memory.read(&values)[..3], [1.0, 2.0, 3.0]);
    assert_eq!(memory.read(&inverse), [2.0, 0.0, 2.0, 1.0, 0.0, 2.0]);
    assert_eq!(memory.read(&counts)[..3], [2.0, 1.0, 3.0]);
    assert_eq!(*memory.reported.borrow(), [(4, vec![3]), (6, vec![3])]);
    let table = memory.put(I, &[2, 4], &[1.0, 0.0, 1.0, 0.0, 5.0, 7.0, 5.0, 6.0]);
    let (rows, inverse, counts) =
        (memory.zeros(I, &[2, 4]), memory.zeros(I, &[4]), memory.zeros(I, &[4]));
    let args = vec![t(&table), yes(), yes(), Arg::Int(1), t(&rows), t(&inverse), t(&counts)];
    memory.run("UniqueDim", args).unwrap();
    assert_eq!(memory.read(&rows)[..6], [0.0, 0.0, 1.0, 6.0, 7.0, 5.0]);
    assert_eq!(memory.read(&inverse), [2.0, 1.0, 2.0, 0.0]);
    assert_eq!(memory.read(&counts)[..3], [1.0, 1.0, 2.0]);
    let repeated = memory.put(F, &[6], &[1.0, 1.0, 2.0, 2.0, 2.0, 1.0]);
    let (values, inverse, counts) =
        (memory.zeros(F, &[6]), memory.zeros(I, &[6]), memory.zeros(I, &[6]));
    let args =
        vec![t(&repeated), yes(), yes(), Arg::Int(1000), t(&values), t(&inverse), t(&counts)];
    memory.run("UniqueConsecutive", args).unwrap();
    assert_eq!(memory.read(&values)[..3], [1.0, 2.0, 1.0]);
    assert_eq!(memory.read(&counts)[..3], [2.0, 3.0, 1.0]);
    assert_eq!(memory.read(&inverse), [0.0, 0.0, 1.0, 1.0, 1.0, 2.0]);
}

#[test]
fn gradients_of_a_table() {
    let mut memory = TestMemory::new();
    for dtype in [F, DType::Float16] {
        let grad = memory.put(dtype, &[4, 2], &numbers(8));
        let index = memory.put(I, &[4], &[1.0, 2.0, 1.0, 0.0]);
        let out = memory.zeros(dtype, &[3, 2]);
        let args = |padding, means| {
            vec![t(&grad), t(&index), Arg::Int(3), Arg::Int(padding), Arg::Flag(means), t(&out)]
        };
        memory.run("EmbeddingDenseBackward", args(-1, false)).unwrap();
        assert_eq!(memory.read(&out), [7.0, 8.0, 6.0, 8.0, 3.0, 4.0]);
        memory.run("EmbeddingDenseBackward", args(0, true)).unwrap();
        assert_eq!(memory.read(&out), [0.0, 0.0, 3.0, 4.0, 3.0, 4.0]);
    }
    let table = memory.put(F, &[2, 2], &[3.0, 4.0, 0.3, 0.4]);
    let index = memory.put(I, &[2], &[0.0, 1.0]);
    memory
        .run("EmbeddingRenorm", vec![t(&table), t(&index), Arg::Float(1.0), Arg::Float(2.0)])
        .unwrap();
    let rows = memory.read(&table);
    assert!(
        (rows[0] - 0.6).abs() < 1e-6
            && (rows[1] - 0.8).abs() < 1e-6
            && rows[2] == f64::from(0.3f32)
    );
}

#[test]
fn medians_and_search_in_sorted_values() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 4], &[4.0, 1.0, 3.0, 2.0, f64::NAN, 5.0, 6.0, 7.0]);
    let (value, index) = (memory.zeros(F, &[2]), memory.zeros(I, &[2]));
    memory
        .run("MedianDim", vec![t(&a), Arg::Int(1), Arg::Flag(false), t(&value), t(&index)])
        .unwrap();
    assert!(memory.read(&value)[0] == 2.0 && memory.read(&value)[1].is_nan());
    assert_eq!(memory.read(&index), [3.0, 0.0]);
    memory
        .run("NanMedianDim", vec![t(&a), Arg::Int(1), Arg::Flag(false), t(&value), t(&index)])
        .unwrap();
    assert_eq!(memory.read(&value), [2.0, 6.0]);
    let args = vec![t(&a), Arg::Int(2), Arg::Int(1), Arg::Flag(false), t(&value), t(&index)];
    memory.run("Kthvalue", args).unwrap();
    assert_eq!(memory.read(&value), [2.0, 6.0]);
    let sorted = memory.put(F, &[4], &[1.0, 2.0, 2.0, 5.0]);
    let values = memory.put(F, &[2, 2], &[2.0, 0.0, 6.0, 3.0]);
    let out = memory.zeros(I, &[2, 2]);
    let args = |right| {
        vec![t(&sorted), t(&values), Arg::Flag(false), Arg::Flag(right), Arg::Absent, t(&out)]
    };
    memory.run("SearchSorted", args(false)).unwrap();
    assert_eq!(memory.read(&out), [1.0, 0.0, 4.0, 3.0]);
    memory.run("SearchSorted", args(true)).unwrap();
    assert_eq!(memory.read(&out), [3.0, 0.0, 4.0, 3.0]);
}

#[test]
fn fills_and_counts() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 3], &numbers(6));
    let index = memory.put(I, &[2], &[0.0, -1.0]);
    let nine = || Arg::Scalar(Scalar::Float(9.5, DType::Double));
    memory.run("InplaceIndexFill", vec![t(&a), Arg::Int(1), t(&index), nine()]).unwrap();
    assert_eq!(memory.read(&a), [9.5, 2.0, 9.5, 9.5, 5.0, 9.5]);
    memory
        .run("InplaceIndexFillTensor", vec![t(&a), Arg::Int(0), Arg::Ints(vec![-1]), nine()])
        .unwrap();
    assert_eq!(memory.read(&a), [9.5, 2.0, 9.5, 9.5, 9.5, 9.5]);
    let numbers = memory.put(DType::Int8, &[4], &[1.0, 3.0, 1.0, 0.0]);
    let out = memory.zeros(I, &[5]);
    memory.run("Bincount", vec![t(&numbers), Arg::Absent, Arg::Int(5), t(&out)]).unwrap();
    assert_eq!(memory.read(&out), [1.0, 2.0, 0.0, 1.0, 0.0]);
    let weights = memory.put(F, &[4], &[0.5, 1.0, 0.25, 2.0]);
    let out = memory.zeros(F, &[4]);
    memory.run("Bincount", vec![t(&numbers), t(&weights), Arg::Int(0), t(&out)]).unwrap();
    assert_eq!(memory.read(&out), [2.0, 0.75, 0.0, 1.0]);
}

#[test]
fn the_outputs_of_coalesce_say_how_many_coordinates_are_unique() {
    let mut memory = TestMemory::new();
    // Either the unique coordinates, or their number.
    for unique in [memory.put(I, &[1], &[3.0]), memory.put(I, &[3], &[1.0, 4.0, 6.0])] {
        let unique_index = memory.put(I, &[4], &[2.0, 0.0, 1.0, 0.0]);
        let from = memory.put(I, &[4, 2], &[3.0, 3.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0]);
        let values = memory.put(F, &[4], &[10.0, 20.0, 30.0, 40.0]);
        let (positions, sums) = (memory.zeros(I, &[3, 2]), memory.zeros(F, &[3]));
        let all = [&unique, &unique_index, &from, &values, &positions, &sums];
        memory.run("CoalesceSparse", all.map(t).to_vec()).unwrap();
        assert_eq!(memory.read(&positions), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        assert_eq!(memory.read(&sums), [60.0, 30.0, 10.0]);
        let short = memory.zeros(F, &[2]);
        let wrong = [&unique, &unique_index, &from, &values, &positions, &short];
        let error = memory.run("CoalesceSparse", wrong.map(t).to_vec()).unwrap_err();
        assert!(error.contains("p3 and p5 have the sizes [4] and [2]"), "{error}");
    }
}
