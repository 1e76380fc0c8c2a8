//! Models for the C programs: `.onnx` files, and `.om` files with gears or ranges.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow};
use cairn_graph::offline::{
    Aipp, BuildOptions, Gears, OfflineModel, WEIGHT_FOLDER, WeightPlacement,
};
use cairn_graph::onnx::{self, ReadOptions};

/// The variable that tells programs the folder.
pub const VARIABLE: &str = "CAIRN_TEST_MODELS";

/// The folder with the models, written once.
pub fn folder(scratch: &Path) -> Result<PathBuf> {
    static WRITTEN: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let written = WRITTEN.get_or_init(|| {
        let folder = scratch.join("models");
        write(&folder).map(|()| folder).map_err(|error| format!("{error:#}"))
    });
    written.clone().map_err(|text| anyhow!("the models cannot be written: {text}"))
}

/// Writes every model.
fn write(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let put = |name: &str, bytes: Vec<u8>| {
        let path = folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    let plain = BuildOptions::default;
    let affine = affine(2, false);
    put("affine.onnx", affine.clone())?;
    put("affine.om", compiled(&affine, &plain())?)?;
    put("open.onnx", self::affine(-1, false))?;
    put("external.onnx", self::affine(2, true))?;
    put("external.bin", floats(&WEIGHTS))?;
    put("long_names.onnx", long_names())?;
    put("large.om", compiled(&large(), &plain())?)?;

    let ranges = BTreeMap::from([("x".to_owned(), vec![(1, 8), (3, 3)])]);
    put("range.om", compiled(&self::affine(-1, false), &BuildOptions { ranges, ..plain() })?)?;
    put("nonzero.onnx", nonzero())?;
    let batch = BuildOptions { gears: Gears::Batch(vec![1, 2, 4]), ..plain() };
    put("batch.om", compiled(&self::affine(-1, false), &batch)?)?;
    let image = BuildOptions { gears: Gears::ImageSize(vec![[2, 2], [3, 5]]), ..plain() };
    put("image.om", compiled(&relu(&[1, 1, -1, -1]), &image)?)?;
    let dims = BuildOptions { gears: Gears::Dims(vec![vec![1, 2], vec![3, 4]]), ..plain() };
    put("dims.om", compiled(&matmul(), &dims)?)?;
    put("loop.onnx", doubling_loop())?;
    write_images(&put)?;
    write_external(folder)
}

/// Models that prepare their images.
fn write_images(put: &impl Fn(&str, Vec<u8>) -> Result<()>) -> Result<()> {
    let aipp = |text: &str| Aipp::parse(text).map_err(|error| anyhow!(error));
    let plain = BuildOptions::default;
    let rgb = BuildOptions { aipp: aipp(RGB)?, ..plain() };
    put("aipp_rgb.om", compiled(&relu(&[1, 3, 4, 4]), &rgb)?)?;
    let yuv = BuildOptions { aipp: aipp(YUV)?, ..plain() };
    put("aipp_yuv.om", compiled(&relu(&[1, 3, 4, 6]), &yuv)?)?;
    let gray = "aipp_op { aipp_mode: static input_format: YUV400_U8 mean_chn_0: 1 }";
    let batch = BuildOptions { aipp: aipp(gray)?, gears: Gears::Batch(vec![1, 2, 4]), ..plain() };
    put("aipp_batch.om", compiled(&relu(&[-1, 1, 2, 2]), &batch)?)?;
    let image = BuildOptions {
        aipp: aipp(gray)?,
        gears: Gears::ImageSize(vec![[2, 2], [3, 5]]),
        ..plain()
    };
    put("aipp_image.om", compiled(&relu(&[1, 1, -1, -1]), &image)?)
}

/// Models whose weights are in files of their own; those of `lost.om` are not there.
fn write_external(folder: &Path) -> Result<()> {
    let graph = onnx::read(bias(), &ReadOptions::default()).map_err(anyhow::Error::msg)?;
    let model = OfflineModel::build(graph, &BuildOptions::default());
    let model = model.map_err(|failure| anyhow!(failure.text))?;
    for (name, placement) in [
        ("separate", WeightPlacement::Separate),
        ("combined", WeightPlacement::Combined("weights.bin".to_owned())),
    ] {
        let (content, files) = model.clone().into_file(&placement);
        let folder = folder.join(name);
        fs::create_dir_all(folder.join(WEIGHT_FOLDER))?;
        fs::write(folder.join("bias.om"), content.to_vec())?;
        for file in files {
            fs::write(folder.join(WEIGHT_FOLDER).join(file.name), file.content.to_vec())?;
        }
        fs::write(folder.with_file_name("lost.om"), content.to_vec())?;
    }
    Ok(())
}

/// A part of an image of 5 x 6, red and blue swapped, normalised.
const RGB: &str = "aipp_op { aipp_mode: static related_input_rank: 0 input_format: RGB888_U8
    src_image_size_h: 5 src_image_size_w: 6
    crop: true load_start_pos_h: 1 load_start_pos_w: 2 crop_size_h: 4 crop_size_w: 4
    rbuv_swap_switch: true mean_chn_0: 10 mean_chn_1: 20 mean_chn_2: 30 min_chn_1: 0.5
    var_reci_chn_0: 0.5 var_reci_chn_1: 0.25 var_reci_chn_2: 2 }";

/// An image of 4 x 4 in YUV, as RGB, with columns to its left and right.
const YUV: &str = "aipp_op { aipp_mode: static input_format: YUV420SP_U8
    src_image_size_h: 4 src_image_size_w: 4 csc_switch: true
    matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359
    matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
    matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
    input_bias_0: 0 input_bias_1: 128 input_bias_2: 128
    padding: true left_padding_size: 1 right_padding_size: 1 padding_value: 7 }";

/// `y = x + (0, 1, 2, ..)`, 512 numbers.
fn bias() -> Vec<u8> {
    let numbers: Vec<f32> = (0..512u16).map(f32::from).collect();
    let constant = tensor("w", &[512], &floats(&numbers));
    let nodes = [node("Add", "sum", &["x", "w"], &["y"])];
    model(&nodes, &[constant], &[value("x", &[512])], &[value("y", &[512])])
}

/// `x = relu(x + x)`, n times, for rows of three numbers.
fn doubling_loop() -> Vec<u8> {
    let scalar = |name: &str, dtype: i64| {
        [text(1, name), bytes(2, &bytes(1, &[number(1, dtype), bytes(2, &[])].concat()))].concat()
    };
    let (int64, truth) = (7, 9);
    let nodes = [
        node("Identity", "goes_on", &["on"], &["on_out"]),
        node("Add", "twice", &["v", "v"], &["vv"]),
        node("Relu", "positive", &["vv"], &["v_out"]),
    ];
    let inputs = [scalar("i", int64), scalar("on", truth), value("v", &[-1, 3])];
    let outputs = [scalar("on_out", truth), value("v_out", &[-1, 3])];
    let list = |field: u64, all: &[Vec<u8>]| -> Vec<u8> {
        all.iter().flat_map(|one| bytes(field, one)).collect()
    };
    let body = [list(1, &nodes), text(2, "body"), list(11, &inputs), list(12, &outputs)].concat();
    let graph_type = 5;
    let attribute = [text(1, "body"), bytes(6, &body), number(20, graph_type)].concat();
    let mut repeat = node("Loop", "repeat", &["n", "", "x"], &["y"]);
    repeat.extend(bytes(5, &attribute));
    let inputs = [scalar("n", int64), value("x", &[-1, 3])];
    model(&[repeat], &[], &inputs, &[value("y", &[-1, 3])])
}

/// An ONNX model as an `.om` file.
fn compiled(model: &[u8], options: &BuildOptions) -> Result<Vec<u8>> {
    let graph = onnx::read(model.to_vec(), &ReadOptions::default()).map_err(anyhow::Error::msg)?;
    let model = OfflineModel::build(graph, options).map_err(|failure| anyhow!(failure.text))?;
    Ok(model.write())
}

/// The constants of [`affine`].
const WEIGHTS: [f32; 12] = [1., 0., 0., 0., 2., 0., 0., 0., 3., 10., 20., 30.];

/// `y = relu(x @ diag(1, 2, 3) + (10, 20, 30))` for rows of three numbers.
fn affine(rows: i64, is_external: bool) -> Vec<u8> {
    let constant = |name: &str, dims: &[i64], from: usize, count: usize| match is_external {
        true => external(name, dims, from * 4, count * 4),
        false => tensor(name, dims, &floats(&WEIGHTS[from..from + count])),
    };
    model(
        &[
            node("MatMul", "product", &["x", "w"], &["xw"]),
            node("Add", "sum", &["xw", "b"], &["xwb"]),
            node("Relu", "relu", &["xwb"], &["y"]),
        ],
        &[constant("w", &[3, 3], 0, 9), constant("b", &[3], 9, 3)],
        &[value("x", &[rows, 3])],
        &[value("y", &[rows, 3])],
    )
}

/// `y = relu(x)`.
fn relu(dims: &[i64]) -> Vec<u8> {
    let nodes = [node("Relu", "relu", &["image"], &["y"])];
    model(&nodes, &[], &[value("image", dims)], &[value("y", dims)])
}

/// `y = a @ b`.
fn matmul() -> Vec<u8> {
    let inputs = [value("a", &[-1, 2]), value("b", &[2, -1])];
    let nodes = [node("MatMul", "product", &["a", "b"], &["y"])];
    model(&nodes, &[], &inputs, &[value("y", &[-1, -1])])
}

/// The indices of elements that are not zero: a shape that depends on values.
fn nonzero() -> Vec<u8> {
    let nodes = [node("NonZero", "find", &["x"], &["y"])];
    let output = [text(1, "y"), bytes(2, &bytes(1, &number(1, 7)))].concat();
    model(&nodes, &[], &[value("x", &[6])], &[output])
}

/// A model with 16 MiB of constants.
fn large() -> Vec<u8> {
    let count = 4 << 20;
    let constant = tensor("w", &[count], &vec![0; 4 * count as usize]);
    let nodes = [node("Add", "sum", &["x", "w"], &["y"])];
    model(&nodes, &[constant], &[value("x", &[count])], &[value("y", &[count])])
}

/// An input and an output with names that are too long for `aclmdlIODims`, and an input with the short name that
/// the first one would get in a description without a load.
fn long_names() -> Vec<u8> {
    let (first, output) = ("f".repeat(128), "o".repeat(200));
    let clash = "acl_modelId_0_input_0";
    let nodes = [node("Add", "sum", &[&first, clash], &[&output])];
    let inputs = [value(&first, &[2]), value(clash, &[2])];
    model(&nodes, &[], &inputs, &[value(&output, &[2])])
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A number as protobuf writes it, seven bits a byte.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// A field with a number.
fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

/// A field with bytes, or a message.
fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A field with a string.
fn text(field: u64, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

/// A `NodeProto`.
fn node(kind: &str, name: &str, inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|input| text(1, input));
    let outputs = outputs.iter().flat_map(|output| text(2, output));
    inputs.chain(outputs).chain(text(3, name)).chain(text(4, kind)).collect()
}

/// A `TensorProto` of floats with its bytes.
fn tensor(name: &str, dims: &[i64], data: &[u8]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|dim| number(1, *dim));
    dims.chain(number(2, 1)).chain(text(8, name)).chain(bytes(9, data)).collect()
}

/// A `TensorProto` of floats in the file `external.bin`.
fn external(name: &str, dims: &[i64], offset: usize, length: usize) -> Vec<u8> {
    let entry = |key: &str, value: &str| bytes(13, &[text(1, key), text(2, value)].concat());
    let dims = dims.iter().flat_map(|dim| number(1, *dim));
    let mut tensor: Vec<u8> = dims.chain(number(2, 1)).chain(text(8, name)).collect();
    tensor.extend(entry("location", "external.bin"));
    tensor.extend(entry("offset", &offset.to_string()));
    tensor.extend(entry("length", &length.to_string()));
    tensor.extend(number(14, 1));
    tensor
}

/// A `ValueInfoProto` of floats; -1 for an unknown dimension.
fn value(name: &str, dims: &[i64]) -> Vec<u8> {
    let dim = |dim: &i64| match *dim {
        -1 => bytes(1, &text(2, "n")),
        size => bytes(1, &number(1, size)),
    };
    let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
    let tensor_type = [number(1, 1), bytes(2, &shape)].concat();
    [text(1, name), bytes(2, &bytes(1, &tensor_type))].concat()
}

/// A `ModelProto`.
fn model(
    nodes: &[Vec<u8>],
    constants: &[Vec<u8>],
    inputs: &[Vec<u8>],
    outputs: &[Vec<u8>],
) -> Vec<u8> {
    let list = |field: u64, all: &[Vec<u8>]| -> Vec<u8> {
        all.iter().flat_map(|one| bytes(field, one)).collect()
    };
    let graph =
        [list(1, nodes), text(2, "net"), list(5, constants), list(11, inputs), list(12, outputs)];
    let opset = number(2, 17);
    [number(1, 8), bytes(8, &opset), bytes(7, &graph.concat())].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_can_be_written() {
        let folder = std::env::temp_dir().join(format!("cairn-models-{}", std::process::id()));
        write(&folder).unwrap();
        assert!(folder.join("dims.om").is_file());
        fs::remove_dir_all(folder).unwrap();
    }
}
