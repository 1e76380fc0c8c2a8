//! What resizing, pooling and access by coordinates refuse: by a message that names parameter and value, when they are
//! planned or when they run.

use cairn_ops::{Arg, Memory, NodeArgs, Plan, Tensor, nodes};
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout};
use std::cell::Cell;

const F: DType = DType::Float;
const I: DType = DType::Int64;

fn tensor(dtype: DType, dims: &[usize], address: usize) -> Option<Tensor> {
    Some(Tensor::new(Layout::contiguous(dtype, dims), address << 20))
}

fn known(dtype: DType, values: &[f64], address: usize) -> Option<Tensor> {
    let bytes: Vec<u8> = match dtype {
        F => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| (*value as i64).to_le_bytes()).collect(),
    };
    let constant = Some(bytes.into());
    tensor(dtype, &[values.len()], address).map(|one| Tensor { constant, ..one })
}

fn attributes(all: &[(&str, Arg)]) -> Vec<(String, Arg)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn plan(
    name: &str,
    inputs: &[Option<Tensor>],
    out: (DType, &[usize]),
    all: &[(&str, Arg)],
) -> Result<Plan, String> {
    let outputs = [tensor(out.0, out.1, 9).unwrap()];
    let node_args = NodeArgs { inputs, outputs: &outputs, attributes: &attributes(all) };
    nodes()[name].plan(&node_args).map_err(|error| error.text().to_owned())
}

#[track_caller]
fn expect(found: Result<Plan, String>, text: &str) {
    let error = found.err().unwrap_or_else(|| panic!("it is accepted: expected '{text}'"));
    assert!(error.contains(text), "{error}: expected '{text}'");
}

#[test]
fn resizing() {
    let x = || tensor(F, &[4, 4], 1);
    let scales = |values: &[f64]| known(F, values, 2);
    let sizes = |values: &[f64]| known(I, values, 3);
    let text = |value: &str| Arg::Text(value.into());
    let resize =
        |inputs: &[Option<Tensor>], all: &[(&str, Arg)]| plan("Resize", inputs, (F, &[8, 8]), all);
    let twice = [x(), None, scales(&[2.0, 2.0])];
    assert!(resize(&twice, &[]).is_ok());
    expect(resize(&[x()], &[]), "expected either scales or sizes, got none");
    expect(resize(&[x(), None, scales(&[2.0, 2.0]), sizes(&[8.0, 8.0])], &[]), "got both");
    expect(resize(&[x(), None, scales(&[2.0])], &[]), "scales = [2.0]: expected 2 finite numbers");
    expect(resize(&[x(), None, scales(&[2.0, f64::NAN])], &[]), "expected 2 finite numbers");
    expect(resize(&[x(), None, scales(&[2.0, -1.0])], &[]), "scales has -1");
    expect(resize(&[x(), None, scales(&[2.0, 1e30])], &[]), "scales has 1");
    expect(resize(&[x(), None, None, sizes(&[8.0, -8.0])], &[]), "sizes has -8");
    expect(
        resize(&[x(), None, None, sizes(&[8.0, 7.0])], &[]),
        "y has the sizes [8, 8]: expected [8, 7]",
    );
    expect(
        resize(&twice, &[("mode", text("lanczos"))]),
        "mode = \"lanczos\": expected one of nearest, linear, cubic",
    );
    expect(resize(&twice, &[("nearest_mode", text("up"))]), "nearest_mode = \"up\"");
    expect(
        resize(&twice, &[("keep_aspect_ratio_policy", text("no"))]),
        "keep_aspect_ratio_policy = \"no\"",
    );
    expect(
        resize(&twice, &[("antialias", Arg::Int(1))]),
        "antialias = 1 is not possible where mode is nearest",
    );
    expect(
        resize(&twice, &[("axes", Arg::Ints(vec![0, 0]))]),
        "axes = [0, 0] names dimension 0 twice",
    );
    expect(resize(&twice, &[("axes", Arg::Ints(vec![0, 2]))]), "axes = 2 is outside -2 to 1");
    let crop = [("coordinate_transformation_mode", text("tf_crop_and_resize"))];
    expect(resize(&twice, &crop), "roi = []: expected 4 finite numbers");
    let empty = [tensor(F, &[0, 4], 1), None, None, sizes(&[8.0, 8.0])];
    expect(resize(&empty, &[]), "sizes has 8, which cannot be for a tensor of [0, 4]");
}

#[test]
fn pooling() {
    let ksize = |values: &[i64]| ("ksize", Arg::Ints(values.to_vec()));
    let pool = |dims: &[usize], all: &[(&str, Arg)]| {
        plan("AvgPoolND", &[tensor(F, dims, 1)], (F, &[1, 1, 3]), all)
    };
    assert!(pool(&[1, 1, 4], &[ksize(&[2])]).is_ok());
    expect(pool(&[1, 1], &[ksize(&[2])]), "x [1, 1]: expected 3 to 5 dimensions");
    expect(pool(&[1, 1, 0], &[ksize(&[2])]), "with positions to pool");
    expect(pool(&[1, 1, 4], &[]), "the attribute ksize must be set");
    expect(pool(&[1, 1, 4], &[ksize(&[0])]), "ksize = [0]: 0 is outside 1");
    expect(pool(&[1, 1, 4], &[ksize(&[5])]), "windows of [5] do not fit");
    expect(pool(&[1, 1, 4], &[ksize(&[2]), ("strides", Arg::Ints(vec![0]))]), "strides = [0]");
    expect(
        pool(&[1, 1, 4], &[ksize(&[2]), ("pads", Arg::Ints(vec![1]))]),
        "pads = [1]: expected 2 numbers",
    );
    expect(pool(&[1, 1, 4], &[ksize(&[2]), ("pads", Arg::Ints(vec![-1, 0]))]), "pads = [-1, 0]");
    expect(
        pool(&[1, 1, 4], &[ksize(&[2]), ("auto_pad", Arg::Text("SAME".into()))]),
        "auto_pad = \"SAME\"",
    );
}

/// What a call says when it runs on a tensor of zeros and these integers; and that the output is as it was.
fn fault(
    name: &str,
    x: &[usize],
    index: (&[usize], &[i64]),
    updates: Option<&[usize]>,
    out: &[usize],
) -> String {
    let mut inputs = vec![tensor(F, x, 1), tensor(I, index.0, 2)];
    inputs.extend(updates.map(|dims| tensor(F, dims, 3)));
    let all: &[(&str, Arg)] =
        if name == "ReverseSequence" { &[("seq_dim", Arg::Int(1))] } else { &[] };
    let plan = plan(name, &inputs, (F, out), all).unwrap();
    let bytes: Vec<Cell<u8>> =
        index.1.iter().flat_map(|one| one.to_le_bytes()).map(Cell::new).collect();
    let floats = |dims: &[usize]| vec![Cell::new(0u8); dims.iter().product::<usize>() * 4];
    let (x, updates, made) = (floats(x), floats(updates.unwrap_or(&[])), floats(out));
    let uses: Vec<&[Cell<u8>]> = (plan.uses.iter())
        .map(|one| match (one.argument.0, one.address >> 20) {
            (_, 9) => &made[..],
            (0, _) => &x[..],
            (1, _) => &bytes[..],
            _ => &updates[..],
        })
        .collect();
    let workspace: Vec<Cell<u8>> = vec![Cell::new(0x77); plan.workspace + 64];
    let start = workspace.as_ptr().align_offset(64);
    let memory = Memory {
        uses: &uses,
        workspace: &workspace[start..start + plan.workspace],
        parallel: &SingleThread,
        sized: &|_, _| {},
        groups: &[],
        epilogue: None,
        overflow: Default::default(),
    };
    let fault = plan.run(&memory).expect_err("an index out of range");
    assert!(made.iter().all(|byte| byte.get() == 0));
    fault.0
}

#[test]
fn indices_out_of_range() {
    let text = fault("GatherNd", &[3, 4], (&[2, 1], &[0, 3]), None, &[2, 4]);
    assert_eq!(text, "indices[1] = 3 is outside 0 to 2");
    let text = fault("GatherNd", &[3, 4], (&[2, 1], &[0, -1]), None, &[2, 4]);
    assert_eq!(text, "indices[1] = -1 is outside 0 to 2");
    let text = fault("ScatterNdAdd", &[3], (&[2, 1], &[0, 7]), Some(&[2]), &[3]);
    assert!(text.contains("7 is outside -3 to 2"), "{text}");
    let text = fault("ReverseSequence", &[2, 3], (&[2], &[1, 4]), None, &[2, 3]);
    assert_eq!(text, "seq_lengths[1] = 4 is outside 0 to 3");
}
