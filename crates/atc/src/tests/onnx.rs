//! Small models of ONNX, written field by field.

/// A size of an input.
#[derive(Clone, Copy)]
pub enum Dim {
    Size(i64),
    Named(&'static str),
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn message(field: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    bytes(field, &parts.concat())
}

fn value_info(field: u64, name: &str, dims: &[Dim]) -> Vec<u8> {
    let dims: Vec<Vec<u8>> = (dims.iter())
        .map(|dim| match dim {
            Dim::Size(size) => message(1, &[number(1, *size)]),
            Dim::Named(name) => message(1, &[bytes(2, name.as_bytes())]),
        })
        .collect();
    let tensor = message(1, &[number(1, 1), message(2, &dims)]);
    message(field, &[bytes(1, name.as_bytes()), message(2, &[tensor])])
}

fn node(name: &str, kind: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = inputs.iter().map(|input| bytes(1, input.as_bytes())).collect();
    parts.extend([bytes(2, output.as_bytes()), bytes(3, name.as_bytes())]);
    parts.push(bytes(4, kind.as_bytes()));
    message(1, &parts)
}

/// `y = Relu(x + 1)` for an input `x` of these sizes.
pub fn model(dims: &[Dim]) -> Vec<u8> {
    model_with("Relu", dims)
}

/// The same with another operator than `Relu`.
pub fn model_with(kind: &str, dims: &[Dim]) -> Vec<u8> {
    let one =
        message(5, &[number(1, 1), number(2, 1), bytes(8, b"one"), bytes(9, &1f32.to_le_bytes())]);
    let graph = message(
        7,
        &[
            node("sum", "Add", &["x", "one"], "s"),
            node("act", kind, &["s"], "y"),
            bytes(2, b"small"),
            one,
            value_info(11, "x", dims),
            value_info(12, "y", dims),
        ],
    );
    [number(1, 8), graph, message(8, &[number(2, 17)])].concat()
}

/// Two nodes that read each other.
pub fn cycle() -> Vec<u8> {
    two_nodes([&["x", "b"], &["a"]], ["a", "b"], "a")
}

/// Two nodes that make the same tensor.
pub fn twice() -> Vec<u8> {
    two_nodes([&["x", "x"], &["x"]], ["y", "y"], "y")
}

fn two_nodes(inputs: [&[&str]; 2], outputs: [&str; 2], output: &str) -> Vec<u8> {
    let graph = message(
        7,
        &[
            node("sum", "Add", inputs[0], outputs[0]),
            node("act", "Relu", inputs[1], outputs[1]),
            bytes(2, b"two"),
            value_info(11, "x", &[Dim::Size(2)]),
            value_info(12, output, &[Dim::Size(2)]),
        ],
    );
    [number(1, 8), graph, message(8, &[number(2, 17)])].concat()
}

/// `y = x + w`, whose constant has so many numbers.
pub fn heavy_model(count: i64) -> Vec<u8> {
    let numbers: Vec<u8> = (0..count).flat_map(|at| (at as f32).to_le_bytes()).collect();
    let weights = message(5, &[number(1, count), number(2, 1), bytes(8, b"w"), bytes(9, &numbers)]);
    let graph = message(
        7,
        &[
            node("sum", "Add", &["x", "w"], "y"),
            bytes(2, b"heavy"),
            weights,
            value_info(11, "x", &[Dim::Size(count)]),
            value_info(12, "y", &[Dim::Size(count)]),
        ],
    );
    [number(1, 8), graph, message(8, &[number(2, 17)])].concat()
}
