//! Reductions, scans, norms and losses through the table: what they compute, ask for and refuse.

use cairn_ops::{Arg, Memory, NodeArgs, Tensor, nodes, rows};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout, View, ViewMut};
use smallvec::SmallVec;
use std::cell::Cell;

const STORAGE_SPACING: usize = 1 << 28;

/// Memory at made-up addresses: the n-th storage at n * STORAGE_SPACING.
#[derive(Default)]
struct TestMemory {
    storages: Vec<Vec<Cell<u8>>>,
}

impl TestMemory {
    fn tensor(&mut self, dtype: DType, dims: &[usize], values: &[f64]) -> Arg {
        let layout = Layout::contiguous(dtype, dims);
        assert_eq!(layout.count(), values.len());
        self.storages.push(vec![Cell::new(0xAA); layout.bytes()]);
        let tensor = Tensor::new(layout, self.storages.len() * STORAGE_SPACING);
        let doubles: Vec<Cell<u8>> =
            values.iter().flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect();
        let from = View::over(&doubles, Layout::contiguous(DType::Double, dims)).unwrap();
        copy(&SingleThread, ViewMut::over(self.storage(&tensor), layout).unwrap(), from);
        Arg::Tensor(tensor)
    }

    fn float(&mut self, dims: &[usize], values: &[f64]) -> Arg {
        self.tensor(DType::Float, dims, values)
    }

    fn empty(&mut self, dtype: DType, dims: &[usize]) -> Arg {
        self.tensor(dtype, dims, &vec![99.0; dims.iter().product()])
    }

    fn storage(&self, tensor: &Tensor) -> &[Cell<u8>] {
        &self.storages[tensor.address / STORAGE_SPACING - 1]
    }

    fn values(&self, arg: &Arg) -> Vec<f64> {
        let Arg::Tensor(tensor) = arg else { panic!("no tensor") };
        let doubles = vec![Cell::new(0); tensor.layout.count() * 8];
        let out = Layout::contiguous(DType::Double, tensor.layout.dims());
        let view = View::over(self.storage(tensor), tensor.layout).unwrap();
        copy(&SingleThread, ViewMut::over(&doubles, out).unwrap(), view);
        let doubles: Vec<u8> = doubles.iter().map(Cell::get).collect();
        doubles.chunks_exact(8).map(|one| f64::from_ne_bytes(one.try_into().unwrap())).collect()
    }

    fn run(&self, plan: &cairn_ops::Plan) -> Result<usize, String> {
        let part = |address: usize, bytes: usize| {
            &self.storages[address / STORAGE_SPACING - 1][address % STORAGE_SPACING..][..bytes]
        };
        let uses: Vec<&[Cell<u8>]> =
            plan.uses.iter().map(|one| part(one.address, one.bytes)).collect();
        let workspace = vec![Cell::new(0xFF); plan.workspace];
        let sized = |_, _: &[usize]| unreachable!("sizes are known");
        let memory = Memory {
            uses: &uses,
            workspace: &workspace,
            parallel: &SingleThread,
            sized: &sized,
            groups: &[],
            epilogue: None,
            overflow: Default::default(),
        };
        plan.run(&memory).map_err(|fault| fault.0)?;
        Ok(plan.workspace)
    }

    /// Runs a row; the bytes of workspace it asked for, or why it did not run.
    fn call(&self, name: &str, args: &[Arg]) -> Result<usize, String> {
        let names =
            ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12"];
        let plan = rows()[name].plan(&names, SmallVec::from(args.to_vec()));
        self.run(&plan.map_err(|error| error.text().to_owned())?)
    }
}

fn ints(values: &[i64]) -> Arg {
    Arg::Ints(values.to_vec())
}

fn assert_close(have: &[f64], want: &[f64]) {
    let close = |(a, b): (&f64, &f64)| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-5 * b.abs().max(1.0)
    };
    assert!(have.len() == want.len() && have.iter().zip(want).all(close), "{have:?} {want:?}");
}

const KEEP: Arg = Arg::Flag(true);
const DROP: Arg = Arg::Flag(false);

#[test]
fn reductions_of_a_matrix() {
    let mut tensors = TestMemory::default();
    let a = tensors.float(&[2, 3], &[1.0, 2.0, 3.0, 4.0, -5.0, 6.0]);
    for (name, args, dims, want) in [
        ("ReduceSum", vec![ints(&[1]), KEEP, Arg::Int(0)], vec![2, 1], vec![6.0, 5.0]),
        ("ReduceSum", vec![ints(&[]), DROP, Arg::Int(0)], vec![], vec![11.0]),
        ("Mean", vec![ints(&[0]), DROP, Arg::Int(0)], vec![3], vec![2.5, -1.5, 4.5]),
        ("ProdDim", vec![Arg::Int(-1), DROP, Arg::Int(0)], vec![2], vec![6.0, -120.0]),
        ("Prod", vec![Arg::Int(0)], vec![], vec![-720.0]),
        ("Amax", vec![ints(&[0]), DROP], vec![3], vec![4.0, 2.0, 6.0]),
        ("Amin", vec![ints(&[0, 1]), KEEP], vec![1, 1], vec![-5.0]),
        ("Max", vec![], vec![], vec![6.0]),
        ("Min", vec![], vec![], vec![-5.0]),
        ("LogSumExp", vec![ints(&[1]), DROP], vec![2], vec![3.407606, 6.126942]),
        ("VarCorrection", vec![ints(&[1]), Arg::Int(1), DROP], vec![2], vec![1.0, 34.333333]),
        ("Std", vec![ints(&[1]), Arg::Int(0), DROP], vec![2], vec![0.816497, 4.784233]),
        ("Norm", vec![Arg::Float(1.0), ints(&[1]), DROP], vec![2], vec![6.0, 15.0]),
        ("Norm", vec![Arg::Float(2.0), ints(&[1]), DROP], vec![2], vec![3.741657, 8.774964]),
        ("Norm", vec![Arg::Float(3.0), ints(&[1]), DROP], vec![2], vec![3.301927, 7.398636]),
        ("Norm", vec![Arg::Float(f64::INFINITY), ints(&[]), DROP], vec![], vec![6.0]),
        ("Norm", vec![Arg::Float(0.0), ints(&[]), DROP], vec![], vec![6.0]),
    ] {
        let out = tensors.empty(DType::Float, &dims);
        let mut all = vec![a.clone()];
        all.extend(args);
        all.push(out.clone());
        assert_eq!(tensors.call(name, &all), Ok(0), "{name}");
        assert_close(&tensors.values(&out), &want);
    }
    let (values, indices) = (tensors.empty(DType::Float, &[3]), tensors.empty(DType::Int64, &[3]));
    tensors
        .call("MaxDim", &[a.clone(), Arg::Int(0), DROP, values.clone(), indices.clone()])
        .unwrap();
    assert_eq!(tensors.values(&values), [4.0, 2.0, 6.0]);
    assert_eq!(tensors.values(&indices), [1.0, 0.0, 1.0]);
    tensors.call("ArgMin", &[a, Arg::Int(0), DROP, indices.clone()]).unwrap();
    assert_eq!(tensors.values(&indices), [0.0, 1.0, 0.0]);
}

#[test]
fn sums_of_nothing_and_of_booleans() {
    let mut tensors = TestMemory::default();
    let none = tensors.float(&[0, 2], &[]);
    let out = tensors.empty(DType::Float, &[2]);
    tensors.call("ReduceSum", &[none.clone(), ints(&[0]), DROP, Arg::Int(0), out.clone()]).unwrap();
    assert_eq!(tensors.values(&out), [0.0, 0.0]);
    tensors.call("Mean", &[none.clone(), ints(&[0]), DROP, Arg::Int(0), out.clone()]).unwrap();
    assert!(tensors.values(&out).iter().all(|x| x.is_nan()));
    let text = tensors.call("Amax", &[none, ints(&[0]), DROP, out.clone()]).unwrap_err();
    assert_eq!(text, "a0 [0, 2]: cannot reduce an empty dimension");
    let booleans = tensors.tensor(DType::Bool, &[3], &[1.0, 0.0, 1.0]);
    let count = tensors.empty(DType::Int64, &[]);
    tensors
        .call("ReduceSum", &[booleans.clone(), ints(&[]), DROP, Arg::Int(9), count.clone()])
        .unwrap();
    assert_eq!(tensors.values(&count), [2.0]);
    let boolean = tensors.empty(DType::Bool, &[]);
    tensors.call("All", &[booleans, ints(&[]), DROP, boolean.clone()]).unwrap();
    assert_eq!(tensors.values(&boolean), [0.0]);
}

#[test]
fn a_large_sum_asks_for_its_parts() {
    let mut tensors = TestMemory::default();
    let values = vec![0.5; 1 << 20];
    for (dtype, size) in [(DType::Float, 4), (DType::Float16, 4), (DType::Double, 8)] {
        let (a, out) = (tensors.tensor(dtype, &[1 << 20], &values), tensors.empty(dtype, &[]));
        let workspace = tensors.call("ReduceSum", &[a, ints(&[]), DROP, Arg::Int(0), out.clone()]);
        assert_eq!(workspace, Ok(32 * size));
        let sum = if dtype == DType::Float16 { f64::INFINITY } else { 524288.0 };
        assert_eq!(tensors.values(&out), [sum]);
    }
}

#[test]
fn wrong_sizes_and_dimensions_are_named() {
    let mut tensors = TestMemory::default();
    let (a, out) = (tensors.empty(DType::Float, &[2, 3]), tensors.empty(DType::Float, &[3]));
    let sum = |dims: Arg, keep: Arg| {
        tensors.call("ReduceSum", &[a.clone(), dims, keep, Arg::Int(0), out.clone()]).unwrap_err()
    };
    assert_eq!(sum(ints(&[2]), DROP), "a1 = 2 is outside -2 to 1");
    assert_eq!(sum(ints(&[0, -2]), DROP), "a1 names dimension -2 twice");
    assert_eq!(sum(ints(&[1]), DROP), "a4 has the sizes [3]: expected [2]");
    assert_eq!(sum(ints(&[0]), KEEP), "a4 has the sizes [3]: expected [1, 3]");
    let text = tensors.call("Mean", &[a.clone(), ints(&[0]), DROP, Arg::Int(0), Arg::Absent]);
    assert_eq!(text.unwrap_err(), "a4 is null: expected a tensor");
}

#[test]
fn scans_and_softmax() {
    let mut tensors = TestMemory::default();
    let a = tensors.float(&[2, 3], &[1.0, 3.0, 2.0, 4.0, 5.0, -6.0]);
    let (out, indices) =
        (tensors.empty(DType::Float, &[2, 3]), tensors.empty(DType::Int64, &[2, 3]));
    let check = |name: &str, args: &[Arg], want: &[f64]| {
        let all: Vec<Arg> = [&[a.clone()][..], args].concat();
        tensors.call(name, &all).unwrap();
        assert_close(&tensors.values(&out), want);
    };
    check("Cumsum", &[Arg::Int(1), Arg::Int(0), out.clone()], &[1.0, 4.0, 6.0, 4.0, 9.0, 3.0]);
    check("Cumsum", &[Arg::Int(0), Arg::Int(0), out.clone()], &[1.0, 3.0, 2.0, 5.0, 8.0, -4.0]);
    check("CumsumV2", &[Arg::Int(1), KEEP, KEEP, out.clone()], &[5.0, 2.0, 0.0, -1.0, -6.0, 0.0]);
    check("Cumprod", &[Arg::Int(1), Arg::Int(0), out.clone()], &[1.0, 3.0, 6.0, 4.0, 20.0, -120.0]);
    check("Cummax", &[Arg::Int(1), out.clone(), indices.clone()], &[1.0, 3.0, 3.0, 4.0, 5.0, 5.0]);
    check(
        "Softmax",
        &[Arg::Int(0), out.clone()],
        &[0.047426, 0.119203, 0.999665, 0.952574, 0.880797, 0.000335],
    );
    check(
        "LogSoftmax",
        &[Arg::Int(-1), out.clone()],
        &[-2.407606, -0.407606, -1.407606, -1.313274, -0.313274, -11.313274],
    );
    assert_eq!(tensors.values(&indices), [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
}

#[test]
fn layer_norm_forward_and_back() {
    let mut tensors = TestMemory::default();
    let x = tensors.float(&[2, 3], &[1.0, 2.0, 4.0, -1.0, 0.0, 5.0]);
    let (weight, bias) =
        (tensors.float(&[3], &[1.0, 2.0, 0.5]), tensors.float(&[3], &[0.0, 1.0, -1.0]));
    let y = tensors.empty(DType::Float, &[2, 3]);
    let (mean, scale) =
        (tensors.empty(DType::Float, &[2, 1]), tensors.empty(DType::Float, &[2, 1]));
    let shape = ints(&[3]);
    tensors
        .call(
            "LayerNorm",
            &[
                x.clone(),
                shape.clone(),
                weight.clone(),
                bias.clone(),
                Arg::Float(0.0),
                y.clone(),
                mean.clone(),
                scale.clone(),
            ],
        )
        .unwrap();
    assert_close(&tensors.values(&mean), &[2.333333, 1.333333]);
    assert_close(&tensors.values(&scale), &[0.801784, 0.381000]);
    assert_close(
        &tensors.values(&y),
        &[-1.069045, 0.465478, -0.331847, -0.889001, -0.016001, -0.301500],
    );
    let dy = tensors.float(&[2, 3], &[1.0, -1.0, 0.5, 2.0, 1.0, 0.0]);
    let dx = tensors.empty(DType::Float, &[2, 3]);
    let (dweight, dbias) = (tensors.empty(DType::Float, &[3]), tensors.empty(DType::Float, &[3]));
    let workspace = tensors.call(
        "LayerNormBackward",
        &[
            dy,
            x,
            shape,
            mean,
            scale,
            weight,
            bias,
            Arg::Flags(vec![true; 3]),
            dx.clone(),
            dweight.clone(),
            dbias.clone(),
        ],
    );
    assert_eq!(workspace, Ok(2 * 3 * 4));
    assert_close(&tensors.values(&dbias), &[3.0, 0.0, 0.5]);
    assert_close(&tensors.values(&dweight), &[-1.069045 - 1.778002, 0.267261 - 0.508001, 0.668153]);
    assert_close(
        &tensors.values(&dx),
        &[0.944959, -1.417439, 0.472480, -0.061452, 0.073742, -0.012290],
    );
}

#[test]
fn losses() {
    let mut tensors = TestMemory::default();
    let (x, target) =
        (tensors.float(&[3], &[1.0, 2.0, 4.0]), tensors.float(&[3], &[1.5, 2.0, 1.0]));
    let one = tensors.empty(DType::Float, &[]);
    for (name, want) in [("MseLoss", 3.083333), ("L1Loss", 1.166667)] {
        assert_eq!(
            tensors.call(name, &[x.clone(), target.clone(), Arg::Int(1), one.clone()]),
            Ok(12)
        );
        assert_close(&tensors.values(&one), &[want]);
    }
    let grad = tensors.float(&[], &[2.0]);
    let dx = tensors.empty(DType::Float, &[3]);
    tensors.call("MseLossBackward", &[grad, x, target, Arg::Int(1), dx.clone()]).unwrap();
    assert_close(&tensors.values(&dx), &[-0.666667, 0.0, 4.0]);

    let logs = tensors.float(&[2, 3], &[-0.1, -2.0, -3.0, -1.5, -0.3, -2.5]);
    let weight = tensors.float(&[3], &[1.0, 2.0, 0.5]);
    let total = tensors.empty(DType::Float, &[]);
    let classes = tensors.tensor(DType::Int64, &[2], &[0.0, 1.0]);
    let mut args = [logs, classes, weight, Arg::Int(1), Arg::Int(-100), one.clone(), total.clone()];
    tensors.call("NLLLoss", &args).unwrap();
    assert_close(&tensors.values(&one), &[0.7 / 3.0]);
    assert_close(&tensors.values(&total), &[3.0]);
    args[1] = tensors.tensor(DType::Int64, &[2], &[0.0, 3.0]);
    let text = tensors.call("NLLLoss", &args);
    assert_eq!(text.unwrap_err(), "a1 has the class 3 at position 1, outside 0 to 2");
}

#[test]
fn by_name_with_axes_as_an_input() {
    let mut tensors = TestMemory::default();
    let a = tensors.float(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let (Arg::Tensor(x), Arg::Tensor(y)) = (a, tensors.empty(DType::Float, &[2, 1])) else {
        panic!()
    };
    let mut axes = Tensor::new(Layout::contiguous(DType::Int64, &[1]), 0);
    axes.constant = Some(1i64.to_ne_bytes().to_vec().into());
    let attributes = [("keep_dims".to_owned(), Arg::Flag(true))];
    let inputs = [Some(x), Some(axes)];
    let node = nodes()["ReduceSum"];
    let mut args = NodeArgs { inputs: &inputs, outputs: &[], attributes: &attributes };
    assert_eq!(node.infer(&args).unwrap(), [Layout::contiguous(DType::Float, &[2, 1])]);
    let outputs = [y.clone()];
    args.outputs = &outputs;
    tensors.run(&node.plan(&args).unwrap()).unwrap();
    assert_eq!(tensors.values(&Arg::Tensor(y)), [3.0, 7.0]);
}
