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

/// What `SyncBatchNormGatherStats` computes from sums and sums of squares: rstd, and the running variance.
fn gathered_stats(sum: f64, squares: f64, count: f64) -> [f64; 2] {
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
    let [scale, variance] = gathered_stats(91.0 * 50.0, 91.0 * 2500.0 - 1.0, 91.0);
    assert!((scale - 1e5f64.sqrt()).abs() < 0.1, "{scale}");
    assert_eq!(variance, 0.5);
    let [scale, _] = gathered_stats(1.0, f64::NAN, 91.0);
    assert!(scale.is_nan());
}

#[test]
fn the_variance_of_one_sample_is_the_biased_one() {
    let [scale, variance] = gathered_stats(3.0, 9.0, 1.0);
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

/// The result of a call that must neither panic nor hang.
fn run_alone(name: &str, args: Vec<Arg>) -> Result<(), String> {
    TestMemory::new().run(name, args)
}

#[test]
fn diagonals_beyond_all_elements() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let out = memory.zeros(F, &[2, 2]);
    for (name, diagonal, all) in [
        ("Tril", i64::MAX, true),
        ("Tril", i64::MIN, false),
        ("Triu", i64::MIN, true),
        ("Triu", i64::MAX, false),
    ] {
        memory.write(&out, &[9.0; 4]);
        memory.run(name, vec![t(&a), Arg::Int(diagonal), t(&out)]).unwrap();
        let want = if all { [1.0, 2.0, 3.0, 4.0] } else { [0.0; 4] };
        assert_eq!(memory.read(&out), want, "{name} {diagonal}");
    }
    let none = memory.zeros(F, &[0]);
    for diagonal in [i64::MIN, i64::MAX] {
        memory.run("Diag", vec![t(&a), Arg::Int(diagonal), t(&none)]).unwrap();
    }
}

#[test]
fn steps_beyond_all_elements_take_the_first() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let out = memory.zeros(F, &[1, 2]);
    let int = Arg::Int;
    let args = vec![t(&a), int(0), int(1), int(3), int(i64::MAX), t(&out)];
    memory.run("Slice", args).unwrap();
    assert_eq!(memory.read(&out), [3.0, 4.0]);
}

#[test]
fn nothing_cannot_be_put_together_to_a_number() {
    let mut memory = TestMemory::new();
    let out = memory.zeros(F, &[]);
    let error = memory.run("Cat", vec![Arg::Tensors(Vec::new()), Arg::Int(0), t(&out)]);
    assert_eq!(error.unwrap_err(), "p2 has no dimensions, along which p0 could be put together");
}

#[test]
fn cosines_without_dimensions_are_refused() {
    let mut memory = TestMemory::new();
    let [dy, x, dx] = [0; 3].map(|_| memory.zeros(F, &[1, 2, 1, 4]));
    let [cos, sin, dcos, dsin] = [0; 4].map(|_| memory.zeros(F, &[]));
    let args = vec![t(&dy), t(&cos), t(&sin), t(&x), Arg::Int(0), t(&dx), t(&dcos), t(&dsin)];
    let error = memory.run("RotaryPositionEmbeddingGrad", args).unwrap_err();
    assert!(error.contains("do not repeat to"), "{error}");
}

#[test]
fn strides_and_offsets_that_lead_nowhere() {
    let mut memory = TestMemory::new();
    let (a, out) = (memory.put(F, &[1], &[-2.0]), memory.zeros(F, &[1]));
    for stride in [isize::MIN, isize::MAX] {
        let one = with_layout(&a, Layout::strided(F, &[1, 1], &[stride, stride], 0));
        let to = with_layout(&out, Layout::strided(F, &[1, 1], &[1, 1], 0));
        memory.run("Abs", vec![t(&one), t(&to)]).unwrap();
        assert_eq!(memory.read(&out), [2.0]);
        let dims = [0, 0, 1 << 31, 1 << 20];
        let empty = with_layout(&a, Layout::strided(F, &dims, &[stride; 4], stride));
        memory.run("Abs", vec![t(&empty), t(&empty)]).unwrap();
        let args = vec![t(&empty), Arg::Int(2), Arg::Int(7), t(&empty)];
        memory.run("Cumsum", args).unwrap_or_else(|error| assert!(error.contains("p")));
    }
    let byte = DType::Int8;
    let distant = Tensor::new(Layout::contiguous(byte, &[2]).from_offset(isize::MAX - 9), 0x10000);
    let list = |one: &Tensor| Arg::Tensors(vec![one.clone()]);
    let plan = cairn_ops::rows()["ForeachAbs"]
        .plan(&["x", "y"], [list(&distant), list(&distant)].into_iter().collect());
    assert_eq!(plan.unwrap().uses[0].address, 0x10000 + isize::MAX as usize - 9);
    let many = Tensor::new(Layout::strided(F, &[1 << 40, 1 << 40], &[0, 0], 0), 0x10000);
    let error = run_alone("Abs", vec![t(&many), t(&out)]).unwrap_err();
    assert!(error.ends_with("leaves the address space"), "{error}");
}

#[test]
fn groups_that_are_none() {
    let mut memory = TestMemory::new();
    let x = memory.zeros(F, &[2, 0, 3]);
    let (weight, mean) = (memory.zeros(F, &[0]), memory.zeros(F, &[0]));
    for groups in [-1, -2, i64::MIN] {
        let mut args = vec![t(&x), t(&weight), t(&weight), Arg::Int(groups)];
        args.extend([Arg::Text("NCHW".into()), Arg::Float(1e-5), Arg::Flag(true), Arg::Float(1.0)]);
        args.extend([t(&x), t(&mean), t(&mean)]);
        let error = memory.run("GroupNormSwish", args).unwrap_err();
        assert!(error.contains("groups"), "{error}");
    }
}

#[test]
fn stacks_of_empty_matrices_end() {
    let many = |dims: &[usize]| Tensor::new(Layout::contiguous(F, dims), 0x10000);
    let a = many(&[2, 1 << 40, 0, 0]);
    run_alone("LinalgCholesky", vec![t(&a), Arg::Flag(false), t(&a)]).unwrap();
    run_alone("Inverse", vec![t(&a), t(&a)]).unwrap();
    let huge = many(&[0, 1 << 22, 1 << 22]);
    run_alone("LinalgQr", vec![t(&huge), Arg::Int(0), t(&huge), t(&huge)]).unwrap();
}

#[test]
fn slices_of_no_elements_end() {
    let empty = Tensor::new(Layout::contiguous(F, &[2, 0, 5, 1 << 40]), 0x10000);
    let two = Arg::Scalar(Scalar::from(2.0));
    let args = vec![t(&empty), two.clone(), Arg::Int(-1), two];
    run_alone("InplaceRenorm", args).unwrap();
    let index = Tensor::new(Layout::contiguous(DType::Int64, &[0]), 0x10000);
    let no = Arg::Flag(false);
    let args = vec![t(&empty), no.clone(), no, Arg::Int(3), t(&empty), t(&index), t(&index)];
    let error = run_alone("UniqueConsecutive", args).unwrap_err();
    assert!(error.contains("slices of no elements"), "{error}");
}

#[test]
fn indices_without_coordinates_name_all() {
    let mut memory = TestMemory::new();
    let a = memory.put(F, &[2], &[1.0, 2.0]);
    let (index, out) = (memory.zeros(DType::Int64, &[3, 0]), memory.zeros(F, &[3, 2]));
    memory.run("GatherNd", vec![t(&a), t(&index), Arg::Flag(false), t(&out)]).unwrap();
    assert_eq!(memory.read(&out), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    let empty = memory.zeros(F, &[7, 7, 0]);
    let index = memory.zeros(DType::Int64, &[7, 7, 0]);
    let out = memory.zeros(F, &[7, 7, 7, 7, 0]);
    memory.run("GatherNd", vec![t(&empty), t(&index), Arg::Flag(false), t(&out)]).unwrap();
}

#[test]
fn weights_of_any_strides_normalise() {
    let mut memory = TestMemory::new();
    let x = memory.put(F, &[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let (weight, grad) = (memory.put(F, &[2, 2], &[1.0, 2.0, 3.0, 4.0]), memory.zeros(F, &[2, 2]));
    let transposed = Layout::contiguous(F, &[2, 2]).transposed(0, 1);
    let [transposed_weight, transposed_grad] =
        [&weight, &grad].map(|one| with_layout(one, transposed));
    let y = memory.zeros(F, &[1, 2, 2]);
    let [mean, scale] = [0; 2].map(|_| memory.zeros(F, &[1, 1, 1]));
    let shape = Arg::Ints(vec![2, 2]);
    let mut args = vec![t(&x), shape.clone(), t(&transposed_weight), Arg::Absent];
    args.extend([Arg::Float(0.0), t(&y), t(&mean), t(&scale)]);
    memory.run("LayerNorm", args).unwrap();
    let deviation = 1.25f64.sqrt();
    let want =
        [-1.5 / deviation, -0.5 * 3.0 / deviation, 0.5 * 2.0 / deviation, 1.5 * 4.0 / deviation];
    memory.read(&y).iter().zip(want).for_each(|(y, want)| assert!((y - want).abs() < 1e-6));
    let dy = memory.put(F, &[1, 2, 2], &[1.0; 4]);
    let dx = memory.zeros(F, &[1, 2, 2]);
    let mut args = vec![t(&dy), t(&x), shape, t(&mean), t(&scale), t(&transposed_weight)];
    args.extend([Arg::Absent, Arg::Flags(vec![true, true, false])]);
    args.extend([t(&dx), t(&transposed_grad), Arg::Absent]);
    memory.run("LayerNormBackward", args).unwrap();
    let want = [-1.5 / deviation, 0.5 / deviation, -0.5 / deviation, 1.5 / deviation];
    memory.read(&grad).iter().zip(want).for_each(|(g, want)| assert!((g - want).abs() < 1e-6));
}

#[test]
fn padding_by_the_least_number() {
    let mut memory = TestMemory::new();
    let (a, out) = (memory.put(F, &[1], &[1.0]), memory.put(F, &[0], &[]));
    let args = vec![t(&a), Arg::Ints(vec![i64::MIN, i64::MAX]), Arg::Absent, t(&out)];
    memory.run("ConstantPadNd", args).unwrap();
}

/// These gradients are documented for integers as well as for real numbers.
#[test]
fn gradients_of_integers_pass_a_threshold() {
    let mut memory = TestMemory::new();
    let (grad, x) = (
        memory.put(DType::Int32, &[4], &[5.0, -6.0, 7.0, 8.0]),
        memory.put(DType::Int32, &[4], &[1.0, 2.0, 3.0, -4.0]),
    );
    let out = memory.zeros(DType::Int32, &[4]);
    let args = vec![t(&grad), t(&x), Arg::Scalar(Scalar::Int(1, DType::Int32)), t(&out)];
    memory.run("ThresholdBackward", args).unwrap();
    assert_eq!(memory.read(&out), [0.0, -6.0, 7.0, 0.0]);
    let grad = memory.put(DType::Int8, &[3], &[5.0, -128.0, 7.0]);
    let mask = memory.put(DType::Uint8, &[3], &[0.0, 1.0, 255.0]);
    let out = memory.zeros(DType::Int8, &[3]);
    let args = vec![t(&grad), t(&mask), Arg::Scalar(Scalar::Int(0, DType::Int32)), t(&out)];
    memory.run("ReluGradV4", args).unwrap();
    assert_eq!(memory.read(&out), [0.0, -128.0, 7.0]);
}

/// The remainder of an integer by zero is the integer; of a real number, NaN.
#[test]
fn remainders_by_zero_are_what_was_divided() {
    let mut memory = TestMemory::new();
    for dtype in [DType::Int64, DType::Int32, DType::Int8, F] {
        let (x, y) = (memory.put(dtype, &[3], &[7.0, -7.0, 7.0]), [0.0, 0.0, -4.0]);
        let (y, out) = (memory.put(dtype, &[3], &y), memory.zeros(dtype, &[3]));
        memory.run("RemainderTensorTensor", vec![t(&x), t(&y), t(&out)]).unwrap();
        let results = memory.read(&out);
        match dtype {
            DType::Float => {
                assert!(results[0].is_nan() && results[1].is_nan() && results[2] == -1.0)
            }
            _ => assert_eq!(results, [7.0, -7.0, -1.0]),
        }
    }
}

/// The documentation of SELU counts 0 among positive numbers, PyTorch among negative ones.
#[test]
fn the_derivative_of_selu_at_zero_is_its_scale() {
    let mut memory = TestMemory::new();
    let (grad, y) = (memory.put(F, &[3], &[2.0; 3]), memory.put(F, &[3], &[0.0, -1.0, 1.0]));
    let out = memory.zeros(F, &[3]);
    memory.run("SeluBackward", vec![t(&grad), t(&y), t(&out)]).unwrap();
    let (scale, scaled_alpha) = (1.0507009873554805, 1.0507009873554805 * 1.6732632423543772);
    for (found, wanted) in memory.read(&out).into_iter().zip([scale, scaled_alpha - 1.0, scale]) {
        assert!((found - 2.0 * wanted).abs() < 1e-6, "{found} {wanted}");
    }
}

/// Of unpooling, only the gradient in two dimensions documents no least number of positions.
#[test]
fn an_unpooled_gradient_may_be_smaller_than_what_was_pooled() {
    let mut memory = TestMemory::new();
    let (grad, x) = (memory.put(F, &[1, 3, 1], &[5.0, 6.0, 7.0]), memory.zeros(F, &[1, 2, 2]));
    let index = memory.put(DType::Int32, &[1, 2, 2], &[2.0, 0.0, 1.0, 2.0]);
    let out = memory.zeros(F, &[1, 2, 2]);
    let sizes = || Arg::Ints(vec![3, 1]);
    let args = vec![t(&grad), t(&x), t(&index), sizes(), t(&out)];
    memory.run("MaxUnpool2dBackward", args).unwrap();
    assert_eq!(memory.read(&out), [7.0, 5.0, 6.0, 7.0]);
    memory.write(&index, &[2.0, 0.0, 3.0, 2.0]);
    let args = vec![t(&grad), t(&x), t(&index), sizes(), t(&out)];
    let fault = memory.run("MaxUnpool2dBackward", args).unwrap_err();
    assert_eq!(fault, "p2[0, 1, 0] = 3 is outside 0 to 2");
    let small = memory.zeros(F, &[1, 3, 1]);
    let args = vec![t(&x), t(&index), sizes(), t(&small)];
    let error = memory.run("MaxUnpool2d", args).unwrap_err();
    assert!(error.contains("p2 = [3, 1] has fewer positions"), "{error}");
}

#[test]
fn weights_of_norms_are_real_numbers() {
    let mut memory = TestMemory::new();
    let (x, y) = (memory.put(F, &[2, 3], &[1.0; 6]), memory.zeros(F, &[2, 3]));
    let (weight, rstd) = (memory.put(DType::Int32, &[3], &[1.0; 3]), memory.zeros(F, &[2, 1]));
    let args = vec![t(&x), t(&weight), Arg::Float(1e-6), t(&y), t(&rstd)];
    let error = memory.run("RmsNorm", args).unwrap_err();
    assert!(error.contains("p1 has elements of type int32"), "{error}");
}

#[test]
fn a_region_of_no_image_is_named_with_the_image() {
    let mut memory = TestMemory::new();
    let images = memory.put(F, &[1, 1, 4, 4], &[1.0; 16]);
    let rois = memory.put(F, &[1, 5], &[7.0, 0.0, 0.0, 2.0, 2.0]);
    let out = memory.zeros(F, &[1, 1, 2, 2]);
    let args = vec![
        t(&images),
        t(&rois),
        Arg::Float(1.0),
        Arg::Int(2),
        Arg::Int(2),
        Arg::Int(2),
        Arg::Int(0),
        t(&out),
    ];
    let error = memory.run("ROIAlign", args).unwrap_err();
    assert!(error.contains("p1[0] names the image 7: expected 0 to 0"), "{error}");
}

#[test]
fn a_cast_is_to_the_type_of_its_output() {
    let mut memory = TestMemory::new();
    let (x, y) = (memory.put(F, &[2], &[1.0, 2.0]), memory.zeros(F, &[2]));
    memory.by_name("Cast", &[&x], &y, &[("dst_type", 0)]).unwrap();
    assert_eq!(memory.read(&y), [1.0, 2.0]);
    for dtype in [3, 9999, -7] {
        assert!(memory.by_name("Cast", &[&x], &y, &[("dst_type", dtype)]).is_err(), "{dtype}");
    }
}

#[test]
fn one_element_may_be_filled_without_dimensions() {
    let mut memory = TestMemory::new();
    let sizes = Tensor {
        constant: Some(1i64.to_ne_bytes().to_vec().into()),
        ..memory.put(DType::Int64, &[1], &[1.0])
    };
    let (value, out) = (memory.put(F, &[], &[3.0]), memory.zeros(F, &[]));
    memory.by_name("Fill", &[&sizes, &value], &out, &[]).unwrap();
    assert_eq!(memory.read(&out), [3.0]);
    let two = memory.zeros(F, &[2]);
    assert!(memory.by_name("Fill", &[&sizes, &value], &two, &[]).is_err());
}
