//! Products, random numbers and dropout through the table: what they compute, and what they refuse.

use cairn_ops::{Arg, Error, Memory, NodeArgs, Plan, Tensor, nodes, rows};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};
use smallvec::SmallVec;
use std::cell::Cell;

const F: DType = DType::Float;

/// Memory at made-up addresses: the n-th tensor at n * STORAGE_SPACING.
#[derive(Default)]
struct TestMemory {
    storages: Vec<Vec<Cell<u8>>>,
}

const STORAGE_SPACING: usize = 1 << 24;

impl TestMemory {
    /// A contiguous tensor of these values.
    fn tensor(&mut self, dtype: DType, dims: &[usize], values: &[f64]) -> Tensor {
        let layout = Layout::contiguous(dtype, dims);
        assert_eq!(layout.count(), values.len());
        self.storages.push(vec![Cell::new(0xAA); layout.bytes()]);
        let tensor = Tensor::new(layout, self.storages.len() * STORAGE_SPACING);
        let doubles: Vec<Cell<u8>> =
            values.iter().flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect();
        let from = View::over(&doubles, Layout::contiguous(DType::Double, dims)).unwrap();
        copy(&SingleThread, ViewMut::over(self.storage(&tensor), layout).unwrap(), from);
        tensor
    }

    /// A tensor of 0 to 6, again and again.
    fn counting(&mut self, dtype: DType, dims: &[usize]) -> Tensor {
        let count: usize = dims.iter().product();
        let values: Vec<f64> = (0..count).map(|x| (x % 7) as f64).collect();
        self.tensor(dtype, dims, &values)
    }

    fn empty(&mut self, dtype: DType, dims: &[usize]) -> Tensor {
        self.tensor(dtype, dims, &vec![f64::NAN; dims.iter().product()])
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

    /// Runs a plan; its workspace is as large as it asked, and filled with ones.
    fn run(&self, plan: &Plan) -> Result<(), String> {
        let part = |address: usize, bytes: usize| {
            &self.storages[address / STORAGE_SPACING - 1][address % STORAGE_SPACING..][..bytes]
        };
        let uses: Vec<&[Cell<u8>]> =
            plan.uses.iter().map(|one| part(one.address, one.bytes)).collect();
        let workspace = vec![Cell::new(0xFF); plan.workspace];
        let memory = Memory {
            uses: &uses,
            workspace: &workspace,
            parallel: &SingleThread,
            sized: &|_, _| unreachable!("sizes are known"),
            groups: &[],
            epilogue: None,
            overflow: Default::default(),
        };
        plan.run(&memory).map_err(|fault| fault.0)
    }

    /// Runs a row; the bytes of workspace it asked for, or why it did not run.
    fn call(&self, name: &str, args: &[Arg]) -> Result<usize, String> {
        let plan = planned(name, args).map_err(|error| error.text().to_owned())?;
        self.run(&plan).map(|()| plan.workspace)
    }
}

const NAMES: &[&str] =
    &["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12"];

fn planned(name: &str, args: &[Arg]) -> Result<Plan, Error> {
    rows()[name].plan(NAMES, SmallVec::from_vec(args.to_vec()))
}

/// A tensor as an argument.
fn t(tensor: &Tensor) -> Arg {
    Arg::Tensor(tensor.clone())
}

/// A number as an argument.
fn s(value: f64) -> Arg {
    Arg::Scalar(Scalar::Float(value, F))
}

/// `a @ b` of contiguous matrices.
fn product(a: &[f64], b: &[f64], (m, k, n): (usize, usize, usize)) -> Vec<f64> {
    (0..m * n).map(|at| (0..k).map(|x| a[at / n * k + x] * b[x * n + at % n]).sum()).collect()
}

#[test]
fn every_rank_that_matmul_takes() {
    let cases: &[(&[usize], &[usize], &[usize])] = &[
        (&[3], &[3], &[]),
        (&[2, 3], &[3], &[2]),
        (&[3], &[3, 2], &[2]),
        (&[2, 3], &[3, 4], &[2, 4]),
        (&[5, 2, 3], &[3, 4], &[5, 2, 4]),
        (&[5, 2, 3], &[3], &[5, 2]),
        (&[3], &[5, 3, 2], &[5, 2]),
        (&[2, 3], &[5, 3, 4], &[5, 2, 4]),
        (&[6, 1, 2, 3], &[5, 3, 4], &[6, 5, 2, 4]),
        (&[0, 3], &[3, 2], &[0, 2]),
        (&[2, 0], &[0, 2], &[2, 2]),
    ];
    for dtype in [F, DType::Float16, DType::Int64] {
        for (left, right, out) in cases {
            let mut tensors = TestMemory::default();
            let (a, b) = (tensors.counting(dtype, left), tensors.counting(dtype, right));
            let result = tensors.empty(dtype, out);
            tensors.call("Matmul", &[t(&a), t(&b), t(&result), Arg::Int(0)]).unwrap();
            let (va, vb, have) = (tensors.values(&a), tensors.values(&b), tensors.values(&result));
            let k = *left.last().unwrap();
            let m = if left.len() > 1 { left[left.len() - 2] } else { 1 };
            let n = if right.len() > 1 { right[right.len() - 1] } else { 1 };
            for (at, part) in have.chunks((m * n).max(1)).enumerate() {
                let batch_a = [0, 0, 0, at, at / 5][left.len()];
                let batch_b = if right.len() == 3 { at % 5 } else { 0 };
                let want = product(&va[batch_a * m * k..], &vb[batch_b * k * n..], (m, k, n));
                assert_eq!(part, want, "{left:?} {right:?}");
            }
        }
    }
}

#[test]
fn sums_with_products() {
    let mut tensors = TestMemory::default();
    let (a, b) = (tensors.counting(F, &[2, 3]), tensors.counting(F, &[3, 2]));
    let bias = tensors.tensor(F, &[2], &[10.0, 20.0]);
    let out = tensors.empty(F, &[2, 2]);
    let none = Arg::Int(0);
    let plain = product(&tensors.values(&a), &tensors.values(&b), (2, 3, 2));
    let args = [t(&bias), t(&a), t(&b), s(1.0), s(2.0), t(&out), none.clone()];
    tensors.call("Addmm", &args).unwrap();
    let want: Vec<f64> =
        plain.iter().enumerate().map(|(at, x)| 2.0 * x + [10.0, 20.0][at % 2]).collect();
    assert_eq!(tensors.values(&out), want);
    let args = [t(&out), t(&a), t(&b), s(0.5), s(1.0), none.clone()];
    tensors.call("InplaceAddmm", &args).unwrap();
    let twice: Vec<f64> = want.iter().zip(&plain).map(|(x, y)| 0.5 * x + y).collect();
    assert_eq!(tensors.values(&out), twice);

    let nan = tensors.empty(F, &[2, 2]);
    let args = [t(&nan), t(&a), t(&b), s(0.0), s(1.0), t(&out), none.clone()];
    tensors.call("Addmm", &args).unwrap();
    assert_eq!(tensors.values(&out), plain, "beta 0 does not read");

    let (va, vb) =
        (tensors.tensor(F, &[2], &[1.0, 2.0]), tensors.tensor(F, &[3], &[3.0, 4.0, 5.0]));
    let outer = tensors.empty(F, &[2, 3]);
    tensors.call("Ger", &[t(&va), t(&vb), t(&outer)]).unwrap();
    assert_eq!(tensors.values(&outer), [3.0, 4.0, 5.0, 6.0, 8.0, 10.0]);
    tensors.call("InplaceAddr", &[t(&outer), t(&va), t(&vb), s(2.0), s(1.0)]).unwrap();
    assert_eq!(tensors.values(&outer), [9.0, 12.0, 15.0, 18.0, 24.0, 30.0]);

    let vector = tensors.empty(F, &[2]);
    let args = [t(&va), t(&a), t(&vb), s(1.0), s(10.0), t(&vector), none.clone()];
    tensors.call("Addmv", &args).unwrap();
    let vector_product = product(&tensors.values(&a), &[3.0, 4.0, 5.0], (2, 3, 1));
    assert_eq!(tensors.values(&vector), [vector_product[0] + 10.0, vector_product[1] + 20.0]);

    let (many_a, many_b) = (tensors.counting(F, &[4, 2, 3]), tensors.counting(F, &[4, 3, 2]));
    let args = [t(&bias), t(&many_a), t(&many_b), s(1.0), s(1.0), t(&out), none];
    tensors.call("Addbmm", &args).unwrap();
    let mut want = [10.0, 20.0, 10.0, 20.0];
    let (va, vb) = (tensors.values(&many_a), tensors.values(&many_b));
    for batch in 0..4 {
        let part = product(&va[batch * 6..], &vb[batch * 6..], (2, 3, 2));
        want.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    assert_eq!(tensors.values(&out), want);
}

#[test]
fn a_product_into_its_own_input() {
    let mut tensors = TestMemory::default();
    let a = tensors.counting(F, &[3, 3]);
    let square = product(&tensors.values(&a), &tensors.values(&a), (3, 3, 3));
    let bytes = tensors.call("Mm", &[t(&a), t(&a), t(&a), Arg::Int(0)]).unwrap();
    assert!(bytes >= 72, "both sides are copied: {bytes}");
    assert_eq!(tensors.values(&a), square);
}

#[test]
fn half_types_take_panels_from_the_workspace() {
    let mut tensors = TestMemory::default();
    let (a, b) = (tensors.counting(DType::Bf16, &[9, 8]), tensors.counting(DType::Bf16, &[8, 5]));
    let transposed = Tensor { layout: a.layout.transposed(0, 1), ..a.clone() };
    let out = tensors.empty(DType::Bf16, &[8, 8]);
    let bytes = tensors.call("Mm", &[t(&transposed), t(&a), t(&out), Arg::Int(0)]).unwrap();
    assert_eq!(
        bytes,
        (8 * 9 + 9 * 16 + 8 * 16) * 4,
        "bf16 is multiplied in pairs, with columns padded to 16"
    );
    let half = tensors.counting(DType::Float16, &[9, 8]);
    let transposed = Tensor { layout: half.layout.transposed(0, 1), ..half.clone() };
    let halves = tensors.empty(DType::Float16, &[8, 8]);
    let bytes = tensors.call("Mm", &[t(&transposed), t(&half), t(&halves), Arg::Int(0)]).unwrap();
    assert_eq!(bytes, (8 * 9 + 9 * 8 + 8 * 8) * 4);
    let wrong = tensors.call("Mm", &[t(&b), t(&a), t(&out), Arg::Int(0)]).unwrap_err();
    assert!(wrong.contains("p0") && wrong.contains("cannot be multiplied"), "{wrong}");
}

#[test]
fn by_name_with_transposed_sides() {
    let mut tensors = TestMemory::default();
    let (a, b) = (tensors.counting(F, &[3, 2]), tensors.counting(F, &[4, 3]));
    let bias = tensors.tensor(F, &[4], &[1.0, 2.0, 3.0, 4.0]);
    let attributes =
        ["transpose_x1", "transpose_x2"].map(|name| (name.to_owned(), Arg::Flag(true)));
    let inputs = [Some(a.clone()), Some(b.clone()), Some(bias)];
    let node = nodes()["MatMulV2"];
    let args = NodeArgs { inputs: &inputs, outputs: &[], attributes: &attributes };
    assert_eq!(node.infer(&args).unwrap(), [Layout::contiguous(F, &[2, 4])]);
    let out = tensors.empty(F, &[2, 4]);
    let plan = node.plan(&NodeArgs { outputs: std::slice::from_ref(&out), ..args }).unwrap();
    tensors.run(&plan).unwrap();
    let (va, vb) = (tensors.values(&a), tensors.values(&b));
    let ta: Vec<f64> = (0..6).map(|at| va[at % 3 * 2 + at / 3]).collect();
    let tb: Vec<f64> = (0..12).map(|at| vb[at % 4 * 3 + at / 4]).collect();
    let want: Vec<f64> = (product(&ta, &tb, (2, 3, 4)).iter().enumerate())
        .map(|(at, x)| x + (at % 4 + 1) as f64)
        .collect();
    assert_eq!(tensors.values(&out), want);
}

#[test]
fn seeds_may_lie_in_tensors() {
    let mut tensors = TestMemory::default();
    let (x, y) = (tensors.empty(F, &[100]), tensors.empty(F, &[100]));
    let seed = tensors.tensor(DType::Int64, &[1], &[5.0]);
    let offset = tensors.tensor(DType::Int64, &[1], &[30.0]);
    let (mean, deviation) = (Arg::Float(1.0), Arg::Float(2.0));
    let args = [t(&x), mean.clone(), deviation.clone(), Arg::Int(5), Arg::Int(42)];
    tensors.call("InplaceNormal", &args).unwrap();
    let args = [t(&y), mean, deviation, t(&seed), t(&offset), Arg::Int(12)];
    tensors.call("InplaceNormalTensor", &args).unwrap();
    assert_eq!(tensors.values(&x), tensors.values(&y));
    assert!(tensors.values(&x).iter().all(|x| x.is_finite()));
}

#[test]
fn numbers_out_of_place_are_refused() {
    let mut tensors = TestMemory::default();
    let x = tensors.empty(F, &[4]);
    let (zero, real) = (|| Arg::Int(0), Arg::Float);
    for (name, args, expected) in [
        ("InplaceNormal", vec![t(&x), real(0.0), real(-1.0), zero(), zero()], "p2 = -1"),
        ("InplaceUniform", vec![t(&x), real(1.0), real(0.0), zero(), zero()], "p1 = 1"),
        ("InplaceRandom", vec![t(&x), Arg::Int(3), Arg::Int(3), zero(), zero()], "p1 = 3"),
        ("InplaceBernoulli", vec![t(&x), s(1.5), zero(), zero()], "p1 = 1.5"),
        ("Randperm", vec![Arg::Int(-1), zero(), zero(), t(&x)], "p0 = -1"),
        ("DropoutDoMask", vec![t(&x), t(&x), real(0.5), t(&x)], "mask of 4 bits"),
        (
            "Multinomial",
            vec![t(&x), Arg::Int(5), Arg::Flag(false), zero(), zero(), t(&x)],
            "p1 = 5",
        ),
    ] {
        let text = tensors.call(name, &args).unwrap_err();
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn multinomial_of_a_row_without_weight_names_the_parameter() {
    let mut tensors = TestMemory::default();
    let weights = tensors.tensor(F, &[2, 2], &[1.0, 0.0, 0.0, 0.0]);
    let out = tensors.counting(DType::Int64, &[2, 1]);
    let args = [t(&weights), Arg::Int(1), Arg::Flag(true), Arg::Int(0), Arg::Int(0), t(&out)];
    let text = tensors.call("Multinomial", &args).unwrap_err();
    assert!(text.starts_with("p0: row 1 has no weight"), "{text}");
}

#[test]
fn dropout_and_its_gradient() {
    let mut tensors = TestMemory::default();
    let x = tensors.tensor(F, &[10, 30], &[2.0; 300]);
    let mask = tensors.empty(DType::Uint8, &[48]);
    let (y, z) = (tensors.empty(F, &[10, 30]), tensors.empty(F, &[10, 30]));
    let sizes = Arg::Ints(vec![10, 30]);
    let draw = [sizes, Arg::Float(0.25), Arg::Int(1), Arg::Int(2), Arg::Int(0), t(&mask)];
    tensors.call("DropoutGenMaskV2", &draw).unwrap();
    tensors.call("DropoutDoMask", &[t(&x), t(&mask), Arg::Float(0.25), t(&y)]).unwrap();
    let kept_count = tensors.values(&y).iter().filter(|x| **x != 0.0).count();
    assert!((195..255).contains(&kept_count), "{kept_count}");
    assert!(tensors.values(&y).iter().all(|x| *x == 0.0 || (*x - 2.0 / 0.75).abs() < 1e-6));
    tensors.call("DropoutBackward", &[t(&x), t(&mask), Arg::Float(1.0 / 0.75), t(&z)]).unwrap();
    assert_eq!(tensors.values(&y), tensors.values(&z));
    let (active, seed, offset) = (Arg::Flag(true), Arg::Int(1), Arg::Int(2));
    let args = [t(&x), Arg::Float(0.25), active, seed, offset, t(&z), t(&mask)];
    tensors.call("Dropout", &args).unwrap();
    assert_eq!(tensors.values(&y), tensors.values(&z));
}

#[test]
fn attention_in_each_form() {
    let (b, n, s, d) = (2, 3, 5, 4);
    let mut first = None;
    for form in ["BNSD", "BSND", "BSH", "SBH"] {
        let mut tensors = TestMemory::default();
        let dims: Vec<usize> = match form {
            "BNSD" => vec![b, n, s, d],
            "BSND" => vec![b, s, n, d],
            "BSH" => vec![b, s, n * d],
            _ => vec![s, b, n * d],
        };
        let index = |at: usize| {
            let (i, j, k, l) = match form {
                "BNSD" => (at / (n * s * d), at / (s * d) % n, at / d % s, at % d),
                "SBH" => (at / (n * d) % b, at / d % n, at / (b * n * d), at % d),
                _ => (at / (s * n * d), at / d % n, at / (n * d) % s, at % d),
            };
            ((i * n + j) * s + k) * d + l
        };
        let values = |seed: usize| -> Vec<f64> {
            (0..b * n * s * d).map(|at| ((index(at) * seed) % 11) as f64 / 5.0).collect()
        };
        let (q, k, v) = (
            tensors.tensor(F, &dims, &values(3)),
            tensors.tensor(F, &dims, &values(5)),
            tensors.tensor(F, &dims, &values(7)),
        );
        let (greatest, sums) = (tensors.empty(F, &[b, n, s, 8]), tensors.empty(F, &[b, n, s, 8]));
        let (out, mask) = (tensors.empty(F, &dims), tensors.counting(DType::Bool, &[2048, 2048]));
        let form = Arg::Text(form.to_owned());
        let (no, unbounded) = (Arg::Absent, Arg::Int(2_147_483_647));
        let args = [
            t(&q),
            t(&k),
            t(&v),
            no.clone(),
            no.clone(),
            no.clone(),
            t(&mask),
            no.clone(),
            Arg::Float(0.5),
            Arg::Float(1.0),
            unbounded.clone(),
            unbounded,
            Arg::Int(n as i64),
            form,
            Arg::Int(0),
            Arg::Int(2),
            t(&greatest),
            t(&sums),
            no,
            t(&out),
        ];
        tensors.call("FlashAttentionScore", &args).unwrap();
        let have = tensors.values(&out);
        let mut plain = vec![0.0; have.len()];
        have.iter().enumerate().for_each(|(at, x)| plain[index(at)] = *x);
        let values = tensors.values(&v);
        assert_eq!(have[0], values[0], "the first query sees the first key alone");
        let first = first.get_or_insert(plain.clone());
        assert_eq!(*first, plain);
        let mut wrong = args.clone();
        wrong[12] = Arg::Int(7);
        let text = tensors.call("FlashAttentionScore", &wrong).unwrap_err();
        assert!(text.contains("7 heads (p12)"), "{text}");
        let mut wrong_form = args.clone();
        wrong_form[13] = Arg::Text("TND".to_owned());
        let text = tensors.call("FlashAttentionScore", &wrong_form).unwrap_err();
        assert!(text.contains("does not fit") && text.contains("\"TND\" with 3 heads"), "{text}");
        wrong_form[13] = Arg::Text("NDT".to_owned());
        let text = tensors.call("FlashAttentionScore", &wrong_form).unwrap_err();
        assert!(text.contains("\"NDT\": BNSD, BSND, BSH, SBH and TND are known"), "{text}");
    }
}
