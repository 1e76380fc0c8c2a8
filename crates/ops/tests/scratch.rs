//! The table of workspaces in docs/operators.md: each line is planned here and asks for exactly these bytes.

use cairn_ops::{Arg, NodeArgs, Tensor, nodes, rows};
use cairn_tensor::{DType, Layout};

const F32: DType = DType::Float;
const F16: DType = DType::Float16;
const I64: DType = DType::Int64;
const I32: DType = DType::Int32;
const BOOL: DType = DType::Bool;

const TITLE: &str = "| operator | call | bytes | holds |\n|---|---|---|---|\n";

/// A tensor in a storage of its own, which a number identifies.
fn stored(storage: usize, layout: Layout) -> Tensor {
    Tensor::new(layout, (storage + 1) << 40)
}

fn tensor(storage: usize, dtype: DType, dims: &[usize]) -> Tensor {
    stored(storage, Layout::contiguous(dtype, dims))
}

fn t(storage: usize, dtype: DType, dims: &[usize]) -> Arg {
    Arg::Tensor(tensor(storage, dtype, dims))
}

fn constant(storage: usize, values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    Tensor { constant: Some(bytes.into()), ..tensor(storage, I64, &[values.len()]) }
}

/// The lines of the table.
#[derive(Default)]
struct Table(String);

impl Table {
    fn line(&mut self, operator: &str, call: &str, bytes: usize, holds: &str) {
        assert_eq!(bytes == 0, holds.is_empty(), "{operator} {call}: {bytes} bytes for '{holds}'");
        self.0.push_str(&format!("| `{operator}` | {call} | {bytes} | {holds} |\n"));
    }

    fn aclnn(&mut self, name: &str, call: &str, args: Vec<Arg>, holds: &str) {
        let plan = rows()[name].plan(&[], args.into());
        let plan = plan.unwrap_or_else(|error| panic!("aclnn{name} {call}: {error:?}"));
        self.line(&format!("aclnn{name}"), call, plan.workspace, holds);
    }

    fn by_name(
        &mut self,
        name: &str,
        call: &str,
        inputs: Vec<Tensor>,
        attributes: &[(&str, Arg)],
        holds: &str,
    ) {
        let inputs: Vec<Option<Tensor>> = inputs.into_iter().map(Some).collect();
        let attributes: Vec<(String, Arg)> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let mut args = NodeArgs { inputs: &inputs, outputs: &[], attributes: &attributes };
        let layouts = nodes()[name].infer(&args);
        let layouts = layouts.unwrap_or_else(|error| panic!("{name} {call}: {error:?}"));
        let outputs: Vec<Tensor> =
            layouts.into_iter().enumerate().map(|(at, one)| stored(100 + at, one)).collect();
        args.outputs = &outputs;
        let plan = nodes()[name].plan(&args);
        let plan = plan.unwrap_or_else(|error| panic!("{name} {call}: {error:?}"));
        self.line(name, call, plan.workspace, holds);
    }
}

fn order(table: &mut Table) {
    const KEYS: &str = "a key with its index for each element";
    let sort = |dtype, dims: &[usize]| vec![tensor(0, dtype, dims)];
    table.by_name("Sort", "f32[1000]", sort(F32, &[1000]), &[], KEYS);
    table.by_name("Sort", "f32[4096]", sort(F32, &[4096]), &[], KEYS);
    table.by_name("Sort", "f16[64, 1024]", sort(F16, &[64, 1024]), &[], KEYS);
    table.by_name("Sort", "i64[1000]", sort(I64, &[1000]), &[], KEYS);
    let top = |dtype, dims: &[usize], k| vec![tensor(0, dtype, dims), constant(1, &[k])];
    table.by_name("TopKV2", "f32[1000], k 10", top(F32, &[1000], 10), &[], KEYS);
    table.by_name("TopKV2", "f32[4096], k 8", top(F32, &[4096], 8), &[], KEYS);
    table.by_name("TopKV2", "i64[64, 100], k 5", top(I64, &[64, 100], 5), &[], KEYS);
    let median = |dims: &[usize], count: usize| {
        let outs = [t(1, F32, &[count]), t(2, I64, &[count])];
        let [values, indices] = outs;
        vec![t(0, F32, dims), Arg::Int(-1), Arg::Flag(false), values, indices]
    };
    table.aclnn("MedianDim", "f32[64, 1000] over 1", median(&[64, 1000], 64), KEYS);
    let args = vec![t(0, F32, &[64, 1000]), t(1, F32, &[])];
    table.aclnn("NanMedian", "f32[64, 1000]", args, KEYS);
    let unique = vec![
        t(0, I64, &[1000]),
        Arg::Flag(true),
        Arg::Flag(true),
        Arg::Flag(true),
        t(1, I64, &[1000]),
        t(2, I64, &[1000]),
        t(3, I64, &[1000]),
    ];
    table.aclnn("Unique2", "i64[1000] with inverse and counts", unique, KEYS);
}

fn products(table: &mut Table) {
    const PANELS: &str = "panels of both sides and of sums, in f32, for each worker thread";
    let matmul = |dtype, left: &[usize], right: &[usize]| {
        vec![tensor(0, dtype, left), tensor(1, dtype, right)]
    };
    let transposed = [("transpose_x1", Arg::Flag(true)), ("transpose_x2", Arg::Flag(true))];
    let sides = matmul(F16, &[256, 128], &[64, 256]);
    table.by_name(
        "MatMulV2",
        "f16[256, 128] by f16[64, 256], both transposed",
        sides,
        &transposed,
        PANELS,
    );
    let sides = matmul(F16, &[64, 64], &[64, 64]);
    let call = "f16[64, 64] by f16[64, 64], the first transposed";
    table.by_name("MatMul", call, sides, &transposed[..1], PANELS);
    let sides = matmul(F16, &[512, 512], &[512, 512]);
    table.by_name("MatMulV2", "f16[512, 512] by f16[512, 512]", sides, &[], PANELS);
    let sides = matmul(F32, &[512, 512], &[512, 512]);
    table.by_name("MatMulV2", "f32[512, 512] by f32[512, 512]", sides, &[], "");
    let strided = Layout::strided(F16, &[128, 256], &[2, 512], 0);
    let strided = vec![
        Arg::Tensor(stored(0, strided)),
        t(1, F16, &[256, 64]),
        t(2, F16, &[128, 64]),
        Arg::Int(0),
    ];
    let call = "f16[128, 256] with strides 2, 512 by f16[256, 64]";
    table.aclnn("Mm", call, strided, PANELS);
    let square = t(0, F32, &[64, 64]);
    let aliased = vec![square.clone(), t(1, F32, &[64, 64]), square, Arg::Int(0)];
    table.aclnn("Mm", "f32[64, 64] by f32[64, 64] into the first", aliased, "a copy of the first");
    let heads = || tensor(0, F32, &[1, 8, 128, 64]);
    let three = (0..3).map(|at| Tensor { address: (at + 1) << 40, ..heads() }).collect();
    let attributes = [("head_num", Arg::Int(8)), ("input_layout", Arg::Text("BNSD".into()))];
    let call = "query, key and value of f32[1, 8, 128, 64]";
    table.by_name(
        "FlashAttentionScore",
        call,
        three,
        &attributes,
        "scores of one tile for each worker thread",
    );
}

fn reductions(table: &mut Table) {
    const PARTS: &str = "a sum for each part";
    let sum = |dtype, dims: &[usize], axes: &[i64]| vec![tensor(0, dtype, dims), constant(1, axes)];
    table.by_name("ReduceSum", "f32[4194304]", sum(F32, &[4_194_304], &[0]), &[], PARTS);
    table.by_name("ReduceSum", "f16[4194304]", sum(F16, &[4_194_304], &[0]), &[], PARTS);
    table.by_name("ReduceSum", "f32[65536]", sum(F32, &[65_536], &[0]), &[], PARTS);
    table.by_name("ReduceSum", "f32[1000]", sum(F32, &[1000], &[0]), &[], "");
    table.by_name("ReduceSum", "f32[65536, 64] over 0", sum(F32, &[65_536, 64], &[0]), &[], PARTS);
    table.by_name("ReduceSum", "f32[4096, 1024] over 1", sum(F32, &[4096, 1024], &[1]), &[], "");
    let matrix = || tensor(0, F32, &[4096, 1024]);
    table.by_name("SoftmaxV2", "f32[4096, 1024]", vec![matrix()], &[], "");
    table.by_name("Cumsum", "f32[4096, 1024] over 1", vec![matrix(), constant(1, &[1])], &[], "");
    let norm_inputs =
        vec![matrix(), constant(1, &[1024]), tensor(2, F32, &[1024]), tensor(3, F32, &[1024])];
    table.by_name("LayerNormV4", "f32[4096, 1024] over the last dimension", norm_inputs, &[], "");
    let saved = |storage| tensor(storage, F32, &[4096, 1]);
    let gradient_inputs = vec![matrix(), matrix(), saved(2), saved(3), tensor(4, F32, &[1024])];
    table.by_name(
        "LayerNormGradV3",
        "f32[4096, 1024] over the last dimension",
        gradient_inputs,
        &[],
        "sums for each part",
    );
    let weights = |storage| t(storage, F32, &[64]);
    let batch = vec![
        t(0, F32, &[32, 64, 28, 28]),
        weights(1),
        weights(2),
        weights(3),
        weights(4),
        Arg::Flag(true),
        Arg::Float(0.1),
        Arg::Float(1e-5),
        t(5, F32, &[32, 64, 28, 28]),
        weights(6),
        weights(7),
    ];
    table.aclnn(
        "BatchNorm",
        "f32[32, 64, 28, 28] in training",
        batch,
        "mean, variance, scale and shift of each channel",
    );
}

fn elements(table: &mut Table) {
    let one = || Arg::Scalar(1i64.into());
    let storage = Layout::contiguous(F32, &[1001]);
    let (first, last) = (storage.sliced(0, 0, 1000, 1), storage.sliced(0, 1, 1000, 1));
    let shifted = vec![Arg::Tensor(stored(0, last)), Arg::Tensor(stored(0, first)), one()];
    let call = "f32[1000], other is the same storage, one element earlier";
    table.aclnn("InplaceAdd", call, shifted, "a copy of the other");
    let separate = vec![t(0, F32, &[1000]), t(1, F32, &[1000]), one()];
    table.aclnn("InplaceAdd", "f32[1000], another f32[1000]", separate, "");
    let put = |dtype, indices: usize, values: &[usize], accumulate| {
        let indices = (0..indices).map(|at| tensor(10 + at, I64, &[500])).collect();
        vec![
            t(0, dtype, &[1000, 16]),
            Arg::Tensors(indices),
            t(1, dtype, values),
            Arg::Flag(accumulate),
            Arg::Flag(false),
        ]
    };
    let rows = put(F32, 1, &[500, 16], false);
    table.aclnn("IndexPutImpl", "f32[1000, 16] at i64[500]", rows, "");
    let elements = put(F32, 2, &[500], false);
    let call = "f32[1000, 16] at i64[500] and i64[500]";
    table.aclnn("IndexPutImpl", call, elements, "the offset of each indexed element");
    let rows = put(F16, 1, &[500, 16], true);
    let call = "f16[1000, 16] at i64[500], accumulating";
    table.aclnn("IndexPutImpl", call, rows, "sums in f32");
    let scatter = |dtype| {
        vec![
            t(0, dtype, &[64, 100]),
            Arg::Int(1),
            t(1, I64, &[64, 50]),
            t(2, dtype, &[64, 50]),
            t(3, dtype, &[64, 100]),
        ]
    };
    table.aclnn("ScatterAdd", "f32[64, 100], i64[64, 50]", scatter(F32), "");
    table.aclnn("ScatterAdd", "f16[64, 100], i64[64, 50]", scatter(F16), "sums in f32");
    let masked = vec![t(0, F32, &[1000]), t(1, BOOL, &[1000]), t(2, F32, &[1000])];
    table.aclnn("MaskedSelect", "f32[1000]", masked, "");
    let permuted = |dtype| vec![Arg::Int(1000), Arg::Int(0), Arg::Int(0), t(0, dtype, &[1000])];
    table.aclnn("Randperm", "i64[1000]", permuted(I64), "");
    table.aclnn("Randperm", "i32[1000]", permuted(I32), "the numbers as i64");
    let sampled = vec![
        t(0, F32, &[10, 1000]),
        Arg::Int(100),
        Arg::Flag(false),
        Arg::Int(0),
        Arg::Int(0),
        t(1, I64, &[10, 100]),
    ];
    table.aclnn(
        "Multinomial",
        "f32[10, 1000], 100 samples",
        sampled,
        "a tree of partial sums of the weights, for each row",
    );
}

#[test]
fn workspaces_are_as_the_table_says() {
    let mut table = Table::default();
    order(&mut table);
    products(&mut table);
    reductions(&mut table);
    elements(&mut table);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operators.md");
    let page = std::fs::read_to_string(page).expect("docs/operators.md");
    let (_, rest) = page.split_once(TITLE).expect("docs/operators.md has the table");
    let documented: String = rest
        .lines()
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert!(documented == table.0, "docs/operators.md says\n{documented}\nbut it is\n{}", table.0);
}
