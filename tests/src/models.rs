//! Models for the C programs: `.onnx` files, and `.om` files with gears or ranges.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow};
use cairn_graph::offline::{BuildOptions, Gears, OfflineModel};
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
    Ok(())
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
