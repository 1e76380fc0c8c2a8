//! Operators that create, join, permute and slice tensors.

mod common;

use cairn_ops::Arg;
use cairn_tensor::{DType, Scalar};
use common::{TestMemory, t, with_layout};

const F: DType = DType::Float;

/// 1, 2, and so on.
fn numbers(count: usize) -> Vec<f64> {
    (1..=count).map(|at| at as f64).collect()
}

fn scalar(value: f64) -> Arg {
    Arg::Scalar(Scalar::Float(value, DType::Double))
}

#[test]
fn sequences() {
    let mut memory = TestMemory::new();
    let out = memory.zeros(DType::Int64, &[4]);
    let int = |value| Arg::Scalar(Scalar::Int(value, DType::Int64));
    memory.run("Arange", vec![int(3), int(11), int(2), t(&out)]).unwrap();
    assert_eq!(memory.read(&out), [3.0, 5.0, 7.0, 9.0]);
    let real = memory.zeros(DType::Float16, &[4]);
    memory.run("Arange", vec![scalar(0.0), scalar(1.0), scalar(0.25), t(&real)]).unwrap();
    assert_eq!(memory.read(&real), [0.0, 0.25, 0.5, 0.75]);
    memory.run("Range", vec![scalar(0.0), scalar(0.75), scalar(0.25), t(&real)]).unwrap();
    assert_eq!(memory.read(&real), [0.0, 0.25, 0.5, 0.75]);
    memory.run("Linspace", vec![scalar(-3.0), scalar(3.0), Arg::Int(4), t(&real)]).unwrap();
    assert_eq!(memory.read(&real), [-3.0, -1.0, 1.0, 3.0]);
    let error = memory.run("Arange", vec![int(0), int(9), int(1), t(&out)]).unwrap_err();
    assert_eq!(error, "p3 has 4 elements; from 0 to 9 in steps of 1 there are 9");
    assert!(memory.run("Arange", vec![int(0), int(9), int(0), t(&out)]).is_err());
}

#[test]
fn sequences_of_large_integers() {
    let mut memory = TestMemory::new();
    let out = memory.zeros(DType::Int64, &[4]);
    let int = |value| Arg::Scalar(Scalar::Int(value, DType::Int64));
    let (large, least, most) = (1 << 62, i64::MIN, i64::MAX);
    let cases = [("Arange", large + 1, large + 8, 2), ("Arange", least, least + 4, 1)];
    for (name, from, to, step) in cases.into_iter().chain([("Range", most, most - 9, -3)]) {
        memory.run(name, vec![int(from), int(to), int(step), t(&out)]).unwrap();
        let want: Vec<i64> = (0..4).map(|at| from + at * step).collect();
        assert_eq!(memory.read_ints(&out), want, "{name} from {from} to {to}");
    }
    let error = memory.run("Arange", vec![int(least), int(most), int(1), t(&out)]).unwrap_err();
    assert!(error.ends_with(&format!("there are {}", u64::MAX)), "{error}");
}

#[test]
fn diagonals_and_triangles() {
    let mut memory = TestMemory::new();
    let out = memory.put(F, &[2, 3], &numbers(6));
    memory.run("Eye", vec![Arg::Int(2), Arg::Int(3), t(&out)]).unwrap();
    assert_eq!(memory.read(&out), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let a = memory.put(F, &[3, 3], &numbers(9));
    let triangle = memory.zeros(F, &[3, 3]);
    memory.run("Tril", vec![t(&a), Arg::Int(-1), t(&triangle)]).unwrap();
    assert_eq!(memory.read(&triangle), [0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 7.0, 8.0, 0.0]);
    let transposed = with_layout(&a, a.layout.transposed(0, 1));
    memory.run("Triu", vec![t(&transposed), Arg::Int(1), t(&triangle)]).unwrap();
    assert_eq!(memory.read(&triangle), [0.0, 4.0, 7.0, 0.0, 0.0, 8.0, 0.0, 0.0, 0.0]);
    memory.run("InplaceTriu", vec![t(&a), Arg::Int(0)]).unwrap();
    assert_eq!(memory.read(&a), [1.0, 2.0, 3.0, 0.0, 5.0, 6.0, 0.0, 0.0, 9.0]);
    let tall = memory.zeros(F, &[7, 3]);
    memory.run("InplaceFillDiagonal", vec![t(&tall), scalar(2.0), Arg::Flag(true)]).unwrap();
    let twos: Vec<usize> =
        memory.read(&tall).iter().enumerate().filter(|(_, v)| **v == 2.0).map(|(i, _)| i).collect();
    assert_eq!(twos, [0, 4, 8, 12, 16, 20]);
}

#[test]
fn joins_and_parts() {
    let mut memory = TestMemory::new();
    let (a, b) =
        (memory.put(F, &[2, 1], &[1.0, 2.0]), memory.put(DType::Int64, &[2, 2], &numbers(4)));
    let empty = memory.zeros(F, &[0]);
    let out = memory.zeros(F, &[2, 3]);
    let list = Arg::Tensors(vec![a.clone(), empty, b.clone()]);
    memory.run("Cat", vec![list.clone(), Arg::Int(-1), t(&out)]).unwrap();
    assert_eq!(memory.read(&out), [1.0, 1.0, 2.0, 2.0, 3.0, 4.0]);
    let error = memory.run("Cat", vec![list, Arg::Int(0), t(&out)]).unwrap_err();
    assert_eq!(error, "p0[0] [2, 1] does not fit p2 [2, 3] at 0 of dimension 0");
    let stacked = memory.zeros(F, &[2, 2, 2]);
    let transposed = with_layout(&b, b.layout.transposed(0, 1));
    let both = Arg::Tensors(vec![b.clone(), transposed]);
    memory.run("Stack", vec![both, Arg::Int(1), t(&stacked)]).unwrap();
    assert_eq!(memory.read(&stacked), [1.0, 2.0, 1.0, 3.0, 3.0, 4.0, 2.0, 4.0]);
    let (left, right) = (memory.zeros(F, &[2, 1]), memory.zeros(F, &[2, 2]));
    let outs = Arg::Tensors(vec![left.clone(), right.clone()]);
    memory.run("SplitWithSize", vec![t(&out), Arg::Ints(vec![1, 2]), Arg::Int(1), outs]).unwrap();
    assert_eq!(
        (memory.read(&left), memory.read(&right)),
        (vec![1.0, 2.0], vec![1.0, 2.0, 3.0, 4.0])
    );
}

#[test]
fn a_join_into_one_of_its_own_parts_reads_first() {
    let mut memory = TestMemory::new();
    let all = memory.put(F, &[6], &numbers(6));
    let (first, last) = (
        with_layout(&all, all.layout.sliced(0, 0, 3, 1)),
        with_layout(&all, all.layout.sliced(0, 3, 3, 1)),
    );
    memory.run("Cat", vec![Arg::Tensors(vec![last, first]), Arg::Int(0), t(&all)]).unwrap();
    assert_eq!(memory.read(&all), [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
}

#[test]
fn repeats() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 2], &numbers(4));
    let out = memory.zeros(F, &[2, 2, 6]);
    memory.run("Repeat", vec![t(&a), Arg::Ints(vec![2, 1, 3]), t(&out)]).unwrap();
    let half = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 3.0, 4.0];
    assert_eq!(memory.read(&out), [half, half].concat());
    let deep = memory.put(F, &[1, 2, 1, 2, 2, 1], &numbers(8));
    let repeated = memory.zeros(F, &[2, 2, 2, 4, 6, 2, 4, 2]);
    memory
        .run("Repeat", vec![t(&deep), Arg::Ints(vec![2, 2, 2, 2, 6, 1, 2, 2]), t(&repeated)])
        .unwrap();
    let values = memory.read(&repeated);
    for (at, value) in values.iter().enumerate() {
        let index = |step: usize, size: usize, real: usize| at / step % size % real;
        let expected = index(96, 4, 2) * 4 + index(8, 2, 2) * 2 + index(2, 4, 2);
        assert_eq!(*value, expected as f64 + 1.0, "{at}");
    }
}

#[test]
fn slices_rolls_flips_and_borders() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 4], &numbers(8));
    let out = memory.zeros(F, &[2, 2]);
    memory
        .run("Slice", vec![t(&a), Arg::Int(1), Arg::Int(-3), Arg::Int(9), Arg::Int(2), t(&out)])
        .unwrap();
    assert_eq!(memory.read(&out), [2.0, 4.0, 6.0, 8.0]);
    let same = memory.zeros(F, &[2, 4]);
    memory.run("Flip", vec![t(&a), Arg::Ints(vec![0, -1]), t(&same)]).unwrap();
    assert_eq!(memory.read(&same), [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
    memory
        .run("Roll", vec![t(&a), Arg::Ints(vec![1, -1]), Arg::Ints(vec![0, 1]), t(&same)])
        .unwrap();
    assert_eq!(memory.read(&same), [6.0, 7.0, 8.0, 5.0, 2.0, 3.0, 4.0, 1.0]);
    memory.run("Roll", vec![t(&a), Arg::Ints(vec![3]), Arg::Ints(vec![]), t(&same)]).unwrap();
    assert_eq!(memory.read(&same), [6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let padded = memory.zeros(F, &[3, 3]);
    let padding = Arg::Ints(vec![-2, 1, 0, 1]);
    memory.run("ConstantPadNd", vec![t(&a), padding, scalar(9.0), t(&padded)]).unwrap();
    assert_eq!(memory.read(&padded), [3.0, 4.0, 9.0, 7.0, 8.0, 9.0, 9.0, 9.0, 9.0]);
}

#[test]
fn one_hot_codes_and_a_class_that_is_none() {
    let mut memory = TestMemory::new();
    let classes = memory.put(DType::Int64, &[2], &[2.0, 0.0]);
    let (on, off) =
        (memory.put(DType::Int64, &[1], &[1.0]), memory.put(DType::Int64, &[1], &[0.0]));
    let out = memory.zeros(DType::Int64, &[2, 3]);
    let args =
        |classes: &_, out: &_| vec![t(classes), Arg::Int(3), t(&on), t(&off), Arg::Int(-1), t(out)];
    memory.run("OneHot", args(&classes, &out)).unwrap();
    assert_eq!(memory.read(&out), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    memory.write(&classes, &[1.0, 3.0]);
    let fault = memory.run("OneHot", args(&classes, &out)).unwrap_err();
    assert_eq!(fault, "p0[1] = 3 is outside 0 to 2");
}

#[test]
fn a_roll_of_all_elements_takes_any_strides() {
    let mut memory = TestMemory::new();
    let (a, out) = (memory.put(F, &[3, 2], &numbers(6)), memory.zeros(F, &[3, 2]));
    let (transposed, transposed_out) = (
        with_layout(&a, a.layout.transposed(0, 1)),
        with_layout(&out, out.layout.transposed(0, 1)),
    );
    let roll = |a, out, shift: i64| vec![t(a), Arg::Ints(vec![shift]), Arg::Ints(vec![]), t(out)];
    memory.run("Roll", roll(&transposed, &transposed_out, 2)).unwrap();
    assert_eq!(memory.read(&transposed_out), [4.0, 6.0, 1.0, 3.0, 5.0, 2.0]);
    assert!(memory.workspace.get() >= 2 * 24);
    memory.run("Roll", roll(&transposed, &transposed_out, -13)).unwrap();
    assert_eq!(memory.read(&transposed_out), [3.0, 5.0, 2.0, 4.0, 6.0, 1.0]);
    memory.run("Roll", roll(&a, &out, 0)).unwrap();
    assert_eq!(memory.read(&out), numbers(6));
    memory.run("Roll", roll(&transposed, &transposed, 1)).unwrap();
    assert_eq!(memory.read(&transposed), [6.0, 1.0, 3.0, 5.0, 2.0, 4.0]);
}

#[test]
fn each_slice_several_times() {
    let mut memory = TestMemory::new();
    let (a, out) = (memory.put(F, &[2, 3], &numbers(6)), memory.zeros(F, &[2, 6]));
    let args = |a, times, dim, out| vec![t(a), Arg::Int(times), Arg::Int(dim), Arg::Int(0), t(out)];
    memory.run("RepeatInterleaveIntWithDim", args(&a, 2, 1, &out)).unwrap();
    assert_eq!(memory.read(&out), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0, 6.0, 6.0]);
    let tall = memory.zeros(F, &[4, 3]);
    let transposed = with_layout(&tall, tall.layout.transposed(0, 1));
    let from = with_layout(&a, a.layout.transposed(0, 1));
    memory.run("RepeatInterleaveIntWithDim", args(&from, 2, 1, &transposed)).unwrap();
    assert_eq!(memory.read(&tall), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);
    memory.run("RepeatInterleaveIntWithDim", args(&a, 2, 0, &tall)).unwrap();
    assert_eq!(memory.read(&tall), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);
    let flat = memory.zeros(F, &[18]);
    let args = vec![t(&from), Arg::Int(3), Arg::Int(0), t(&flat)];
    memory.run("RepeatInterleaveInt", args).unwrap();
    assert_eq!(memory.read(&flat)[..9], [1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0]);
}

#[test]
fn slices_of_eight_dimensions_are_repeated_too() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[1, 2, 1, 2, 1, 2, 3, 2], &numbers(48));
    for dim in 0..8 {
        let mut dims = a.layout.dims().to_vec();
        dims[dim] *= 3;
        let (out, out_by_tensor) = (memory.zeros(F, &dims), memory.zeros(F, &dims));
        let counts = vec![3.0; a.layout.dims()[dim]];
        let times = memory.put(DType::Int64, &[counts.len()], &counts);
        let by_number = vec![t(&a), Arg::Int(3), Arg::Int(dim as i64), Arg::Int(0), t(&out)];
        memory.run("RepeatInterleaveIntWithDim", by_number).unwrap();
        let by_tensor =
            vec![t(&a), t(&times), Arg::Int(dim as i64), Arg::Int(0), t(&out_by_tensor)];
        memory.run("RepeatInterleaveWithDim", by_tensor).unwrap();
        assert_eq!(memory.read(&out), memory.read(&out_by_tensor), "along {dim}");
    }
}
