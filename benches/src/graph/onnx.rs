//! A model as ONNX writes it. Only the fields that are used here are declared.

use super::model::{Model, Op, Tensor};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct ModelProto {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<Opset>,
}

#[derive(Clone, PartialEq, Message)]
struct Opset {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "4")]
    op_type: String,
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(float, tag = "2")]
    f: f32,
    #[prost(int64, tag = "3")]
    i: i64,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    kind: i32,
}

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ValueInfo {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    of: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeProto {
    #[prost(message, optional, tag = "1")]
    tensor: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorType {
    #[prost(int32, tag = "1")]
    element: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
struct Dimension {
    #[prost(int64, optional, tag = "1")]
    value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

/// Numbers of the format.
mod number {
    pub const FLOAT: i32 = 1;
    pub const INT64: i32 = 7;
    pub const ATTRIBUTE_FLOAT: i32 = 1;
    pub const ATTRIBUTE_INT: i32 = 2;
    pub const ATTRIBUTE_INTS: i32 = 7;
    pub const IR_VERSION: i64 = 10;
    pub const OPSET: i64 = 21;
}

/// The name of a tensor of a model.
pub fn name(tensor: Tensor) -> String {
    format!("t{tensor}")
}

/// The model's bytes.
pub fn write(model: &Model) -> Vec<u8> {
    let mut graph = GraphProto { name: model.name.clone(), ..GraphProto::default() };
    for (at, (op, dims)) in model.tensors.iter().enumerate() {
        add_node(&mut graph, model, at, op, dims);
    }
    let last = model.output();
    graph.output.push(value(model, last));
    let opset_import = vec![Opset { domain: String::new(), version: number::OPSET }];
    ModelProto { ir_version: number::IR_VERSION, graph: Some(graph), opset_import }.encode_to_vec()
}

fn value(model: &Model, at: Tensor) -> ValueInfo {
    let dim = (model.tensors[at].1.iter().enumerate())
        .map(|(dim, size)| match model.has_dynamic_batch && dim == 0 {
            true => Dimension { value: None, name: Some("n".into()) },
            false => Dimension { value: Some(*size as i64), name: None },
        })
        .collect();
    let tensor = TensorType { element: number::FLOAT, shape: Some(Shape { dim }) };
    ValueInfo { name: name(at), of: Some(TypeProto { tensor: Some(tensor) }) }
}

fn add_node(graph: &mut GraphProto, model: &Model, at: Tensor, op: &Op, dims: &[usize]) {
    let extents = |dims: &[usize]| dims.iter().map(|size| *size as i64).collect::<Vec<i64>>();
    let mut node = |kind: &str, inputs: &[String], output: String, attribute: Vec<Attribute>| {
        let (input, op_type) = (inputs.to_vec(), kind.to_owned());
        graph.node.push(NodeProto { input, output: vec![output], op_type, attribute });
    };
    let float = |name: &str, f: f32| Attribute {
        name: name.into(),
        f,
        kind: number::ATTRIBUTE_FLOAT,
        ..Attribute::default()
    };
    let last_axis = || Attribute {
        name: "axis".into(),
        i: -1,
        kind: number::ATTRIBUTE_INT,
        ..Attribute::default()
    };
    match op {
        Op::Input => graph.input.push(value(model, at)),
        Op::Weight(numbers) => graph.initializer.push(floats(name(at), dims, numbers)),
        Op::Add(a, b) => node("Add", &[name(*a), name(*b)], name(at), vec![]),
        Op::Linear(x, weight, bias) => {
            let product = format!("{}product", name(at));
            node("MatMul", &[name(*x), name(*weight)], product.clone(), vec![]);
            node("Add", &[product, name(*bias)], name(at), vec![]);
        }
        Op::MatMul(a, b) => node("MatMul", &[name(*a), name(*b)], name(at), vec![]),
        Op::Relu(x) => node("Relu", &[name(*x)], name(at), vec![]),
        Op::Gelu(x) => node("Gelu", &[name(*x)], name(at), vec![]),
        Op::Softmax(x) => node("Softmax", &[name(*x)], name(at), vec![last_axis()]),
        Op::Scale(x, by) => {
            let scale = format!("{}scale", name(at));
            node("Mul", &[name(*x), scale.clone()], name(at), vec![]);
            graph.initializer.push(floats(scale, &[], &[*by]));
        }
        Op::LayerNorm(x, gain, bias) => node(
            "LayerNormalization",
            &[name(*x), name(*gain), name(*bias)],
            name(at),
            vec![last_axis(), float("epsilon", 1e-5)],
        ),
        Op::Reshape(x) => {
            let sizes = format!("{}sizes", name(at));
            node("Reshape", &[name(*x), sizes.clone()], name(at), vec![]);
            graph.initializer.push(TensorProto {
                dims: vec![dims.len() as i64],
                data_type: number::INT64,
                name: sizes,
                raw_data: extents(dims).iter().flat_map(|size| size.to_le_bytes()).collect(),
            });
        }
        Op::Transpose(x, order) => {
            let order = Attribute {
                name: "perm".into(),
                ints: extents(order),
                kind: number::ATTRIBUTE_INTS,
                ..Attribute::default()
            };
            node("Transpose", &[name(*x)], name(at), vec![order]);
        }
    }
}

fn floats(name: String, dims: &[usize], numbers: &[f32]) -> TensorProto {
    TensorProto {
        dims: dims.iter().map(|size| *size as i64).collect(),
        data_type: number::FLOAT,
        name,
        raw_data: numbers.iter().flat_map(|one| one.to_le_bytes()).collect(),
    }
}
