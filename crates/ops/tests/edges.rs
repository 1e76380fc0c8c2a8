//! Calls at the edges: no elements, sizes and numbers that no memory holds, constant channels, types without an order.

mod common;

use cairn_ops::{Arg, Tensor};
use cairn_tensor::{DType, Layout, Scalar};
use common::{TestMemory, t, with_layout};

const F: DType = DType::Float;

#[test]
fn more_numbers_than_tensors_are_refused_before_they_are_counted() {
    let memory = TestMemory::new();
    let many = Tensor::new(Layout::contiguous(F, &[1 << 31, 1 << 20]), 0x10000);
    let none = || Arg::Tensors(Vec::new());
    let error = memory.run("ForeachAddScalar", vec![none(), t(&many), none()]).unwrap_err();
    assert_eq!(error, format!("p1 has {} numbers: expected one for each of 0 tensors", 1u64 << 51));
}

/// What `SyncBatchNormGatherStats` makes of sums and sums of squares: one by the spread, and the running variance.
fn gathered(sum: f64, squares: f64, count: f64) -> [f64; 2] {
    let mut memory = TestMemory::new();
    let [sum, squares] = [sum, squares].map(|one| memory.put(F, &[1, 1], &[one]));
    let count = memory.put(F, &[1], &[count]);
    let (mean, variance) = (memory.put(F, &[1], &[0.0]), memory.put(F, &[1], &[1.0]));
    let (center, scale) = (memory.zeros(F, &[1]), memory.zeros(F, &[1]));
    let numbers = [Arg::Float(0.5), Arg::Float(1e-5)];
    let mut args = vec![t(&sum), t(&squares), t(&count), t(&mean), t(&variance)];
    args.extend(numbers);
    args.extend([t(&center), t(&scale)]);
    memory.run("SyncBatchNormGatherStats", args).unwrap();
    [memory.read(&scale)[0], memory.read(&variance)[0]]
}

#[test]
fn constant_channels_have_no_negative_variance() {
    let [scale, variance] = gathered(91.0 * 50.0, 91.0 * 2500.0 - 1.0, 91.0);
    assert!((scale - 1e5f64.sqrt()).abs() < 0.1, "{scale}");
    assert_eq!(variance, 0.5);
    let [scale, _] = gathered(1.0, f64::NAN, 91.0);
    assert!(scale.is_nan());
}

#[test]
fn the_variance_of_one_sample_is_the_biased_one() {
    let [scale, variance] = gathered(3.0, 9.0, 1.0);
    assert!((scale - 1e5f64.sqrt()).abs() < 0.1, "{scale}");
    assert_eq!(variance, 0.5);
}

#[test]
fn the_update_of_a_constant_channel_has_no_negative_variance() {
    let mut memory = TestMemory::new();
    let x = memory.put(F, &[2, 1], &[50.0, 50.0]);
    let [sum, squares] = [100.0, 4999.0].map(|one| memory.put(F, &[1], &[one]));
    let (scale, offset) = (memory.put(F, &[1], &[1.0]), memory.put(F, &[1], &[0.5]));
    let outs = [&[2, 1][..], &[1], &[1]].map(|dims| memory.zeros(F, dims));
    let inputs: Vec<Option<Tensor>> =
        [&x, &sum, &squares, &scale, &offset].map(|one| Some(one.clone())).to_vec();
    let attributes = [("epsilon".to_owned(), Arg::Float(1e-5))];
    memory.node("BNTrainingUpdateV2", &inputs, &outs, &attributes).unwrap();
    assert_eq!(memory.read(&outs[0]), [0.5, 0.5]);
    assert_eq!(memory.read(&outs[2]), [0.0]);
}
