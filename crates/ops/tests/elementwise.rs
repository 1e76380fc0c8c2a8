//! Elementwise operators through the table: against plain formulas in `f64`, over types, strides and sizes,
//! and what they refuse.

use cairn_ops::{Arg, Error, Memory, NodeArgs, Plan, Tensor, nodes, rows};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;

const F: DType = DType::Float;
const PARAMETERS: &[&str] = &["a", "b", "c", "d", "e", "f", "g"];

/// Memory at made-up addresses: the n-th storage at n * STORAGE_SPACING.
#[derive(Default)]
struct TestMemory {
    storages: Vec<Vec<Cell<u8>>>,
}

const STORAGE_SPACING: usize = 1 << 24;

impl TestMemory {
    fn with_layout(&mut self, layout: Layout, values: &[f64]) -> Tensor {
        assert_eq!(layout.count(), values.len());
        let bytes = layout.extent().unwrap().end as usize * layout.item();
        self.storages.push(vec![Cell::new(0xAA); bytes]);
        let tensor = Tensor::new(layout, self.storages.len() * STORAGE_SPACING);
        let doubles: Vec<Cell<u8>> =
            values.iter().flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect();
        let from = View::over(&doubles, Layout::contiguous(DType::Double, layout.dims())).unwrap();
        copy(&SingleThread, ViewMut::over(self.storage(&tensor), layout).unwrap(), from);
        tensor
    }

    fn tensor(&mut self, dtype: DType, dims: &[usize], values: &[f64]) -> Tensor {
        self.with_layout(Layout::contiguous(dtype, dims), values)
    }

    fn empty(&mut self, dtype: DType, dims: &[usize]) -> Tensor {
        self.tensor(dtype, dims, &vec![99.0; dims.iter().product()])
    }

    fn storage(&self, tensor: &Tensor) -> &[Cell<u8>] {
        &self.storages[tensor.address / STORAGE_SPACING - 1]
    }

    fn values(&self, tensor: &Tensor) -> Vec<f64> {
        let doubles = vec![Cell::new(0); tensor.layout.count() * 8];
        let out = Layout::contiguous(DType::Double, tensor.layout.dims());
        let view = View::over(self.storage(tensor), tensor.layout).unwrap();
        copy(&SingleThread, ViewMut::over(&doubles, out).unwrap(), view);
        let doubles: Vec<u8> = doubles.iter().map(Cell::get).collect();
        doubles.chunks_exact(8).map(|one| f64::from_ne_bytes(one.try_into().unwrap())).collect()
    }

    fn run(&self, plan: &Plan, parallel: &dyn Parallel) {
        let part = |address: usize, bytes: usize| {
            &self.storages[address / STORAGE_SPACING - 1][address % STORAGE_SPACING..][..bytes]
        };
        let uses: Vec<&[Cell<u8>]> =
            plan.uses.iter().map(|one| part(one.address, one.bytes)).collect();
        let workspace = vec![Cell::new(0xFF); plan.workspace];
        let memory = Memory {
            uses: &uses,
            workspace: &workspace,
            parallel,
            sized: &|_, _| unreachable!(),
            groups: &[],
            epilogue: None,
            overflow: Default::default(),
        };
        plan.run(&memory).unwrap();
    }

    fn call(&self, name: &str, args: &[Arg]) {
        self.run(
            &planned(name, args).unwrap_or_else(|e| panic!("{name}: {}", e.text())),
            &SingleThread,
        );
    }
}

fn planned(name: &str, args: &[Arg]) -> Result<Plan, Error> {
    let row = rows().get(name).unwrap_or_else(|| panic!("no row {name}"));
    row.plan(PARAMETERS, args.iter().cloned().collect())
}

fn text(name: &str, args: &[Arg]) -> String {
    planned(name, args).err().unwrap_or_else(|| panic!("{name} was planned")).text().to_owned()
}

fn tensor(tensor: &Tensor) -> Arg {
    Arg::Tensor(tensor.clone())
}

fn number(value: f64) -> Arg {
    Arg::Scalar(Scalar::Float(value, DType::Double))
}

fn integer(value: i64) -> Arg {
    Arg::Scalar(value.into())
}

/// A layout of these sizes: permuted by a rotation, with gaps.
fn strided_layout(dtype: DType, dims: &[usize], rotation: usize, gap: usize) -> Layout {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    if !order.is_empty() {
        order.rotate_left(rotation % dims.len());
    }
    let permuted: Vec<usize> = order.iter().map(|at| dims[*at]).collect();
    let mut with_gaps = permuted.clone();
    if let Some(last) = with_gaps.last_mut() {
        *last *= gap + 1;
    }
    let mut layout = Layout::contiguous(dtype, &with_gaps);
    if let Some(at) = permuted.len().checked_sub(1) {
        layout = layout.sliced(at, 0, permuted[at], gap as isize + 1);
    }
    let inverse: Vec<usize> =
        (0..dims.len()).map(|at| order.iter().position(|one| *one == at).unwrap()).collect();
    layout.permuted(&inverse)
}

fn is_close(have: f64, want: f64, dtype: DType) -> bool {
    let tolerance = match dtype {
        DType::Bf16 => 1e-2,
        DType::Float16 => 1e-3,
        DType::Float => 2e-6,
        _ => 1e-12,
    };
    have == want
        || (have.is_nan() && want.is_nan())
        || (have - want).abs() <= tolerance * want.abs().max(1e-3)
}

const REALS: [DType; 4] = [DType::Float, DType::Double, DType::Float16, DType::Bf16];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn of_one_tensor_of_any_strides(
        dims in prop::collection::vec(0usize..6, 0..4),
        (rotation_a, gap_a, rotation_o, gap_o) in (0usize..3, 0usize..3, 0usize..3, 0usize..2),
        dtype in prop::sample::select(&REALS),
        seed in 0u32..1000,
        which in 0usize..14,
    ) {
        let count: usize = dims.iter().product();
        let (name, f, low, high): (&str, fn(f64) -> f64, f64, f64) = [
            ("Exp", f64::exp as fn(f64) -> f64, -4.0, 4.0),
            ("Log", f64::ln, 0.1, 9.0),
            ("Sqrt", f64::sqrt, 0.0, 9.0),
            ("Tanh", f64::tanh, -3.0, 3.0),
            ("Sigmoid", |x| 1.0 / (1.0 + (-x).exp()), -5.0, 5.0),
            ("Erf", erf_series, -2.0, 2.0),
            ("Sin", f64::sin, -9.0, 9.0),
            ("Cos", f64::cos, -9.0, 9.0),
            ("Neg", |x| -x, -9.0, 9.0),
            ("Abs", f64::abs, -9.0, 9.0),
            ("Floor", f64::floor, -9.0, 9.0),
            ("Relu", |x| x.max(0.0), -9.0, 9.0),
            ("Silu", |x| x / (1.0 + (-x).exp()), -5.0, 5.0),
            ("Reciprocal", |x| 1.0 / x, 0.5, 5.0),
        ][which];
        let mut tensors = TestMemory::default();
        let values: Vec<f64> =
            (0..count).map(|at| low + (high - low) * f64::from((at as u32 * 7919 + seed) % 97) / 97.0).collect();
        let a = tensors.with_layout(strided_layout(dtype, &dims, rotation_a, gap_a), &values);
        let out = tensors.with_layout(strided_layout(dtype, &dims, rotation_o, gap_o), &vec![99.0; count]);
        let inputs = tensors.values(&a);
        tensors.call(name, &[tensor(&a), tensor(&out)]);
        for (x, y) in inputs.iter().zip(tensors.values(&out)) {
            prop_assert!(is_close(y, f(*x), dtype), "{}({}) = {}, {}", name, x, y, f(*x));
        }
    }

    #[test]
    fn of_two_tensors_that_broadcast(
        dims in prop::collection::vec(1usize..5, 1..4),
        is_one in prop::collection::vec(any::<bool>(), 4),
        (rotation, gap, dropped) in (0usize..3, 0usize..3, 0usize..3),
        dtypes in prop::sample::select(&[(F, F), (DType::Int64, DType::Int32), (DType::Int64, F), (DType::Float16, DType::Float16), (DType::Bool, DType::Int8)]),
        which in 0usize..8,
    ) {
        let (name, f): (&str, fn(f64, f64) -> f64) = [
            ("Mul", (|x, y| x * y) as fn(f64, f64) -> f64),
            ("Div", |x, y| x / y),
            ("FloorDivide", |x, y| (x / y).floor()),
            ("RemainderTensorTensor", |x, y| x - y * (x / y).floor()),
            ("Maximum", f64::max),
            ("GtTensor", |x, y| f64::from(x > y)),
            ("EqTensor", |x, y| f64::from(x == y)),
            ("LogicalAnd", |x, y| f64::from(x != 0.0 && y != 0.0)),
        ][which];
        let (left, right) = dtypes;
        let boolean = which >= 5;
        let real = left.is_floating() || right.is_floating();
        let out_dtype = match (boolean, name, real) {
            (true, ..) => DType::Bool,
            (_, "Div", false) => F,
            (_, _, true) => if left == DType::Float16 { left } else { F },
            _ => if left == DType::Int64 { left } else { DType::Int8 },
        };
        let small: Vec<usize> = dims.iter().zip(&is_one).map(|(n, one)| if *one { 1 } else { *n }).collect();
        let small = small[dropped.min(small.len())..].to_vec();
        let (count, small_count): (usize, usize) = (dims.iter().product(), small.iter().product());
        let mut tensors = TestMemory::default();
        let a = tensors.with_layout(strided_layout(left, &dims, rotation, gap), &(0..count).map(|at| (at % 7) as f64 - 3.0).collect::<Vec<_>>());
        let b = tensors.with_layout(strided_layout(right, &small, rotation, gap), &(0..small_count).map(|at| (at % 3) as f64 + 1.0).collect::<Vec<_>>());
        let out = tensors.empty(out_dtype, &dims);
        let (xs, ys) = (tensors.values(&a), tensors.values(&b));
        tensors.call(name, &[tensor(&a), tensor(&b), tensor(&out)]);
        let broadcast = Layout::contiguous(F, &small).broadcast_to(&dims).unwrap();
        for (at, have) in tensors.values(&out).into_iter().enumerate() {
            let (mut rest, mut index) = (at, 0);
            for dim in (0..dims.len()).rev() {
                index += (rest % dims[dim]) as isize * broadcast.strides()[dim];
                rest /= dims[dim];
            }
            let (x, y) = (xs[at], ys[index as usize]);
            prop_assert!(is_close(have, f(x, y), out_dtype), "{} {} {} = {}", name, x, y, have);
        }
    }
}

/// The error function by its power series.
fn erf_series(x: f64) -> f64 {
    let (mut sum, mut term) = (x, x);
    for n in 1..60 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

/// Three parts on one thread, the last first.
struct ReverseOrder;

impl Parallel for ReverseOrder {
    fn width(&self) -> usize {
        3
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..parts).rev().for_each(body);
    }
}

#[test]
fn large_tensors_on_several_threads() {
    let count = 100_003;
    let values: Vec<f64> = (0..count).map(|at| (at % 1000) as f64 / 100.0).collect();
    let mut tensors = TestMemory::default();
    let a = tensors.tensor(F, &[count], &values);
    let out = tensors.empty(F, &[count]);
    let plan = planned("Adds", &[tensor(&a), number(1.0), integer(2), tensor(&out)]).unwrap();
    tensors.run(&plan, &ReverseOrder);
    let same = tensors.values(&out).iter().zip(&values).all(|(y, x)| (y - (x + 2.0)).abs() < 1e-5);
    assert!(same);
}

#[test]
fn in_place_and_over_shared_memory() {
    let mut tensors = TestMemory::default();
    let x = tensors.tensor(F, &[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    tensors.call("InplaceExp2", &[tensor(&x)]);
    assert_eq!(tensors.values(&x), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
    let first = Tensor::new(x.layout.sliced(0, 0, 5, 1), x.address);
    let shifted = Tensor::new(x.layout.sliced(0, 1, 5, 1), x.address);
    let args = [tensor(&first), tensor(&shifted), tensor(&shifted)];
    assert!(planned("Mul", &args).unwrap().workspace >= 20);
    tensors.call("Mul", &args);
    assert_eq!(tensors.values(&x), [2.0, 8.0, 32.0, 128.0, 512.0, 2048.0]);
    let reshaped = Tensor::new(x.layout.reshaped(&[2, 3]).unwrap(), x.address);
    let other = Tensor::new(x.layout.reshaped(&[2, 3]).unwrap().sliced(0, 1, 2, -1), x.address);
    tensors.call("InplaceSub", &[tensor(&reshaped), tensor(&other), integer(1)]);
    assert_eq!(tensors.values(&x), [-126.0, -504.0, -2016.0, 126.0, 504.0, 2016.0]);
}

#[test]
fn integers_and_booleans() {
    let mut tensors = TestMemory::default();
    let n = tensors.tensor(DType::Int64, &[4], &[7.0, -7.0, 0.0, i64::MAX as f64]);
    let (out, real) = (tensors.empty(DType::Int64, &[4]), tensors.empty(F, &[4]));
    tensors.call("FloorDivides", &[tensor(&n), integer(2), tensor(&out)]);
    assert_eq!(tensors.values(&out)[..3], [3.0, -4.0, 0.0]);
    tensors.call("DivMods", &[tensor(&n), integer(2), Arg::Int(1), tensor(&out)]);
    assert_eq!(tensors.values(&out)[..3], [3.0, -3.0, 0.0]);
    tensors.call("FloorDivides", &[tensor(&n), integer(0), tensor(&out)]);
    assert_eq!(tensors.values(&out), [0.0; 4]);
    tensors.call("Divs", &[tensor(&n), integer(2), tensor(&real)]);
    assert_eq!(tensors.values(&real)[..3], [3.5, -3.5, 0.0]);
    tensors.call("PowTensorScalar", &[tensor(&n), integer(3), tensor(&out)]);
    assert_eq!(tensors.values(&out)[..3], [343.0, -343.0, 0.0]);
    tensors.call("BitwiseNot", &[tensor(&n), tensor(&out)]);
    assert_eq!(tensors.values(&out)[..3], [-8.0, 6.0, -1.0]);
    let boolean = tensors.tensor(DType::Bool, &[2], &[1.0, 0.0]);
    tensors.call("BitwiseNot", &[tensor(&boolean), tensor(&boolean)]);
    assert_eq!(tensors.values(&boolean), [0.0, 1.0]);
    let half = tensors.tensor(DType::Float16, &[2], &[0.1, 0.2]);
    tensors.call("EqScalar", &[tensor(&half), number(0.1), tensor(&boolean)]);
    assert_eq!(tensors.values(&boolean), [1.0, 0.0]);
}

#[test]
fn choices_and_bounds() {
    let (nan, mut tensors) = (f64::NAN, TestMemory::default());
    let x = tensors.tensor(F, &[2, 2], &[-3.0, 0.5, nan, 9.0]);
    let mask = tensors.tensor(DType::Bool, &[2], &[1.0, 0.0]);
    let out = tensors.empty(F, &[2, 2]);
    tensors.call("Clamp", &[tensor(&x), number(-1.0), Arg::Absent, tensor(&out)]);
    assert_eq!(tensors.values(&out)[..2], [-1.0, 0.5]);
    assert!(tensors.values(&out)[2].is_nan());
    tensors.call("ClampTensor", &[tensor(&x), Arg::Absent, tensor(&x), tensor(&out)]);
    assert_eq!(tensors.values(&out)[3], 9.0);
    tensors.call("InplaceMaskedFillScalar", &[tensor(&x), tensor(&mask), number(7.0)]);
    assert_eq!(tensors.values(&x), [7.0, 0.5, 7.0, 9.0]);
    let other = tensors.tensor(F, &[1], &[0.0]);
    tensors.call("SWhere", &[tensor(&mask), tensor(&x), tensor(&other), tensor(&out)]);
    assert_eq!(tensors.values(&out), [7.0, 0.0, 7.0, 0.0]);
    let equal = tensors.empty(DType::Bool, &[]);
    tensors.call("Equal", &[tensor(&x), tensor(&x), tensor(&equal)]);
    assert_eq!(tensors.values(&equal), [1.0]);
    tensors.call("Equal", &[tensor(&x), tensor(&other), tensor(&equal)]);
    assert_eq!(tensors.values(&equal), [0.0]);
}

#[test]
fn lists_of_tensors() {
    let mut tensors = TestMemory::default();
    let (a, b) = (tensors.tensor(F, &[2], &[3.0, 4.0]), tensors.tensor(F, &[1, 1], &[-2.0]));
    let list = Arg::Tensors(vec![a.clone(), b.clone()]);
    let (c, d) = (tensors.empty(F, &[]), tensors.empty(F, &[]));
    let outs = Arg::Tensors(vec![c.clone(), d.clone()]);
    tensors.call("ForeachNorm", &[list.clone(), integer(2), outs]);
    assert_eq!([tensors.values(&c)[0], tensors.values(&d)[0]], [5.0, 2.0]);
    tensors.call("ForeachMulScalarV2", &[list.clone(), number(2.0), list.clone()]);
    assert_eq!(tensors.values(&a), [6.0, 8.0]);
    let each = Arg::Scalars(vec![Scalar::from(1.0), Scalar::from(10)]);
    tensors.call("ForeachAddScalarList", &[list.clone(), each, list.clone()]);
    assert_eq!((tensors.values(&a), tensors.values(&b)), (vec![7.0, 9.0], vec![6.0]));
    let alpha = tensors.tensor(F, &[1], &[0.5]);
    tensors.call("ForeachAddList", &[list.clone(), list.clone(), tensor(&alpha), list.clone()]);
    assert_eq!((tensors.values(&a), tensors.values(&b)), (vec![10.5, 13.5], vec![9.0]));
    let values = tensors.tensor(F, &[2], &[1.0, 2.0]);
    let addcmul = [list.clone(), list.clone(), list.clone(), tensor(&values), list.clone()];
    tensors.call("ForeachAddcmulList", &addcmul);
    assert_eq!(tensors.values(&b), [171.0]);
    tensors.call("ForeachZeroInplace", &[list]);
    assert_eq!((tensors.values(&a), tensors.values(&b)), (vec![0.0, 0.0], vec![0.0]));
}

#[test]
fn one_step_of_adamw() {
    let mut tensors = TestMemory::default();
    let (var, grad) =
        (tensors.tensor(F, &[2], &[1.0, -1.0]), tensors.tensor(F, &[2], &[0.5, 0.25]));
    let (mean, square) = (tensors.tensor(F, &[2], &[0.0; 2]), tensors.tensor(F, &[2], &[0.0; 2]));
    let step = tensors.tensor(F, &[1], &[0.0]);
    let real = Arg::Float;
    tensors.call(
        "ApplyAdamWV2",
        &[
            tensor(&var),
            tensor(&mean),
            tensor(&square),
            Arg::Absent,
            tensor(&grad),
            tensor(&step),
            real(0.1),
            real(0.9),
            real(0.999),
            real(0.01),
            real(1e-8),
            Arg::Flag(false),
            Arg::Flag(false),
        ],
    );
    let values = tensors.values(&var);
    assert!((values[0] - 0.899).abs() < 1e-5 && (values[1] + 1.099).abs() < 1e-5, "{values:?}");
    assert!((tensors.values(&mean)[0] - 0.05).abs() < 1e-6);
}

#[test]
fn by_name() {
    let mut tensors = TestMemory::default();
    let (x, y) = (tensors.tensor(F, &[2], &[4.0, 9.0]), tensors.empty(F, &[2]));
    let inputs = [Some(x)];
    let attributes = [("base".to_owned(), Arg::Float(2.0))];
    let args =
        NodeArgs { inputs: &inputs, outputs: std::slice::from_ref(&y), attributes: &attributes };
    let node = nodes()["Exp"];
    tensors.run(&node.plan(&args).unwrap(), &SingleThread);
    assert_eq!(tensors.values(&y), [16.0, 512.0]);
    assert_eq!(node.infer(&args).unwrap()[0].dims(), [2]);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut tensors = TestMemory::default();
    let (a, b) = (tensors.empty(F, &[2, 3]), tensors.empty(F, &[2]));
    let complex = Tensor::new(Layout::contiguous(DType::Complex64, &[2]), STORAGE_SPACING);
    assert!(
        text("Exp", &[tensor(&a), tensor(&b)]).contains("b has the sizes [2]: expected [2, 3]")
    );
    assert!(
        text("Erf", &[tensor(&complex), tensor(&b)]).contains("a has elements of type complex64")
    );
    assert!(
        text("Exp", &[tensor(&complex), tensor(&b)])
            .contains("the result, of type complex64, can't be cast")
    );
    assert!(text("Mul", &[tensor(&a), tensor(&b), tensor(&a)]).contains("do not broadcast"));
    assert!(
        matches!(planned("Exp", &[Arg::Absent, tensor(&a)]), Err(Error::Null(text)) if text.contains("a is null"))
    );
    assert!(text("DivMod", &[tensor(&a), tensor(&a), Arg::Int(3), tensor(&a)]).contains("c = 3"));
    assert!(text("BitwiseNot", &[tensor(&a), tensor(&a)]).contains("a has elements of type float"));
    assert!(text("BitwiseAndTensor", &[tensor(&a), tensor(&a), tensor(&a)]).contains("integers"));
    let repeated =
        Tensor::new(b.layout.reshaped(&[1, 2]).unwrap().broadcast_to(&[3, 2]).unwrap(), b.address);
    assert!(text("InplaceExp", &[tensor(&repeated)]).contains("share memory"));
    let overlapping = Tensor::new(Layout::strided(F, &[2, 2], &[1, 1], 0), a.address);
    assert!(
        text("InplaceExp", &[tensor(&overlapping)])
            .contains("strides [1, 1]) has elements that share")
    );
    let (from, to) = (Arg::Tensors(vec![b.clone()]), Arg::Tensors(vec![repeated]));
    assert!(text("ForeachExp", &[from, to]).contains("share memory"));
    let mirrored = Tensor::new(a.layout.sliced(1, 2, 3, -1).transposed(0, 1), a.address);
    assert!(planned("InplaceExp", &[tensor(&mirrored)]).is_ok());
    let (one, two) = (Arg::Tensors(vec![a.clone()]), Arg::Tensors(vec![a.clone(), b.clone()]));
    assert!(text("ForeachExp", &[one.clone(), two.clone()]).contains("a has 1 tensors, b has 2"));
    let list = Arg::Scalars(vec![Scalar::from(1.0)]);
    assert!(text("ForeachMulScalarList", &[two.clone(), list, two]).contains("b has 1 numbers"));
    assert!(
        text("GeluBackwardV2", &[tensor(&a), tensor(&a), Arg::Text("cubic".into()), tensor(&a)])
            .contains("\"cubic\"")
    );
}
