//! How models are put together: names, constants, files, functions, and what is refused.

use super::wire::*;
use super::{ReadOptions, read};
use crate::ir::{Attr, Graph, NET_OUTPUT};
use bytes::Bytes;
use cairn_tensor::DType;
use prost::Message;

const FLOAT: i32 = 1;
const INT64: i32 = 7;

fn node(kind: &str, name: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    NodeProto {
        name: name.into(),
        op_type: kind.into(),
        input: texts(inputs),
        output: texts(outputs),
        ..NodeProto::default()
    }
}

fn with_int(mut node: NodeProto, name: &str, value: i64) -> NodeProto {
    let attribute = AttributeProto { name: name.into(), i: Some(value), ..Default::default() };
    node.attribute.push(attribute);
    node
}

/// An input or output; a size of -1 is open.
fn port(name: &str, elem_type: i32, dims: &[i64]) -> ValueInfoProto {
    let dim = |dim: &i64| Dimension {
        value: Some(match dim {
            -1 => Size::Parameter("n".into()),
            dim => Size::Value(*dim),
        }),
    };
    let shape = Some(ShapeProto { dim: dims.iter().map(dim).collect() });
    let value = Some(TypeValue::Tensor(TensorType { elem_type, shape }));
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { value }) }
}

fn floats(name: &str, values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: vec![values.len() as i64],
        data_type: FLOAT,
        float_data: values.to_vec(),
        ..Default::default()
    }
}

/// A model with the input x, three floats, and the output y.
fn model(nodes: Vec<NodeProto>) -> ModelProto {
    let graph = GraphProto {
        node: nodes,
        input: vec![port("x", FLOAT, &[3])],
        output: vec![port("y", FLOAT, &[3])],
        ..Default::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..Default::default() }
}

fn read_model(model: &ModelProto) -> Result<Graph, String> {
    read(model.encode_to_vec(), &ReadOptions::default())
}

fn names(graph: &Graph, kind: &str) -> Vec<String> {
    graph.nodes().filter(|(_, node)| node.kind == kind).map(|(_, node)| node.name.clone()).collect()
}

/// The sizes of the model's first output.
fn output_dims(graph: &Graph) -> Vec<i64> {
    let net = graph.nodes().find(|(_, node)| node.kind == NET_OUTPUT).unwrap().1;
    net.input_descs[0].dims.clone()
}

#[test]
fn an_initializer_is_no_input() {
    let mut model = model(vec![node("Add", "sum", &["x", "w"], &["y"])]);
    let graph = model.graph.as_mut().unwrap();
    graph.input.push(port("w", FLOAT, &[3]));
    graph.initializer.push(floats("w", &[1.0, 2.0, 3.0]));
    let read = read_model(&model).unwrap();
    assert_eq!(names(&read, "Data"), ["x"]);
    assert_eq!(names(&read, "Const"), ["w"]);
}

#[test]
fn data_in_files_is_read_by_place() {
    let mut model = model(vec![node("Add", "sum", &["x", "w"], &["y"])]);
    let entry =
        |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let mut tensor = floats("w", &[]);
    tensor.dims = vec![3];
    tensor.data_location = 1;
    tensor.external_data =
        vec![entry("location", "net.data"), entry("offset", "4"), entry("length", "12")];
    model.graph.as_mut().unwrap().initializer.push(tensor);
    let bytes: Vec<u8> = [9f32, 1.0, 2.0, 3.0].iter().flat_map(|one| one.to_le_bytes()).collect();
    let mut options = ReadOptions::default();
    options.files.insert("net.data".into(), Bytes::copy_from_slice(&bytes));
    let graph = read(model.encode_to_vec(), &options).unwrap();
    let constant = graph.nodes().find(|(_, node)| node.kind == "Const").unwrap().1;
    let Some(Attr::Tensor(constant)) = constant.attrs.get("value") else { panic!("no tensor") };
    assert_eq!(constant.bytes[..], bytes[4..]);
    options.files.insert("net.data".into(), Bytes::copy_from_slice(&bytes[..8]));
    let refused = read(model.encode_to_vec(), &options).unwrap_err();
    assert!(refused.contains("'w'") && refused.contains("8 bytes"), "{refused}");
}

#[test]
fn functions_are_expanded_with_their_attributes() {
    let mut flatten = node("Flatten", "", &["a"], &["b"]);
    flatten.attribute.push(AttributeProto {
        name: "axis".into(),
        ref_attr_name: "from".into(),
        ..Default::default()
    });
    let function = FunctionProto {
        name: "Own".into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![flatten],
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..Default::default()
    };
    let mut call = with_int(node("Own", "call", &["x"], &["y"]), "from", 0);
    call.domain = "own".into();
    let mut model = model(vec![call]);
    model.functions.push(function);
    model.opset_import.push(OperatorSetIdProto { domain: "own".into(), version: 1 });
    assert_eq!(output_dims(&read_model(&model).unwrap()), [1, 3]);
}

#[test]
fn functions_that_call_themselves_are_refused_in_one_line() {
    let function = |name: &str, calls: &str| {
        let mut call = node(calls, "inner", &["a"], &["b"]);
        call.domain = "own".into();
        FunctionProto {
            name: name.into(),
            domain: "own".into(),
            input: vec!["a".into()],
            output: vec!["b".into()],
            node: vec![call],
            opset_import: vec![OperatorSetIdProto { domain: "own".into(), version: 1 }],
            ..Default::default()
        }
    };
    let mut call = node("F", "call", &["x"], &["y"]);
    call.domain = "own".into();
    let mut model = model(vec![call]);
    model.functions = vec![function("F", "G"), function("G", "F")];
    model.opset_import.push(OperatorSetIdProto { domain: "own".into(), version: 1 });
    assert_eq!(
        read_model(&model).unwrap_err(),
        "The ONNX model: the node 'call/@inner/@inner' (F): the function 'F' calls itself: F -> G -> F."
    );
    model.functions =
        (0..70).map(|at| function(&format!("F{at}"), &format!("F{}", at + 1))).collect();
    model.graph.as_mut().unwrap().node[0].op_type = "F0".into();
    model.functions[69].node[0] = node("Relu", "inner", &["a"], &["b"]);
    let error = read_model(&model).unwrap_err();
    assert!(error.contains("more than 64 deep") && error.len() < 1000, "{error}");
}

#[test]
fn nodes_without_names_and_with_the_same_name_are_told_apart() {
    let nodes = vec![
        node("Relu", "", &["x"], &["a"]),
        node("Relu", "", &["a"], &["b"]),
        node("Abs", "same", &["b"], &["c"]),
        node("Abs", "same", &["c"], &["y"]),
    ];
    let graph = read_model(&model(nodes)).unwrap();
    assert_eq!(names(&graph, "Relu"), ["Relu_0", "Relu_1"]);
    assert_eq!(names(&graph, "Abs"), ["same", "same_1"]);
}

#[test]
fn two_tensors_of_one_name_are_refused() {
    let nodes = vec![node("Relu", "one", &["x"], &["y"]), node("Abs", "two", &["x"], &["y"])];
    let refused = read_model(&model(nodes)).unwrap_err();
    assert!(refused.contains("'two'") && refused.contains("'y'"), "{refused}");
}

#[test]
fn a_cycle_is_refused_with_node_and_tensor() {
    let nodes = vec![node("Add", "one", &["x", "b"], &["y"]), node("Abs", "two", &["y"], &["b"])];
    let refused = read_model(&model(nodes)).unwrap_err();
    assert!(refused.contains("'one'") && refused.contains("'b'"), "{refused}");
    assert!(refused.contains("a later Abs") && refused.contains("a cycle"), "{refused}");
    let nodes = vec![node("Add", "one", &["x", "nowhere"], &["y"])];
    let refused = read_model(&model(nodes)).unwrap_err();
    assert!(refused.contains("from no input, initializer or earlier node"), "{refused}");
    assert!(!refused.contains("cycle"), "{refused}");
}

#[test]
fn unsupported_operators_are_named_together() {
    let mut other = node("Thing", "third", &["b"], &["y"]);
    other.domain = "elsewhere".into();
    let nodes = vec![
        node("SequenceEmpty", "first", &[], &["a"]),
        node("StringNormalizer", "", &["x"], &["b"]),
        other,
    ];
    let refused = read_model(&model(nodes)).unwrap_err();
    for word in
        ["SequenceEmpty", "'first'", "StringNormalizer", "'b'", "elsewhere::Thing", "'third'"]
    {
        assert!(refused.contains(word), "{word}: {refused}");
    }
}

/// (batch, 12) becomes (batch, 3, 4): the model joins the open size with numbers, and the ranks of what follows are known.
#[test]
fn sizes_that_are_partly_known_pass_through() {
    let ints = |name: &str, values: &[i64]| TensorProto {
        name: name.into(),
        dims: vec![values.len() as i64],
        data_type: INT64,
        int64_data: values.to_vec(),
        ..Default::default()
    };
    let nodes = vec![
        node("Shape", "shape", &["x"], &["sizes"]),
        with_int(node("Gather", "batch", &["sizes", "first"], &["batch"]), "axis", 0),
        with_int(node("Concat", "join", &["batch", "rest"], &["wanted"]), "axis", 0),
        node("Reshape", "reshape", &["x", "wanted"], &["parts"]),
        with_int(node("Softmax", "softmax", &["parts"], &["y"]), "axis", -1),
    ];
    let mut model = model(nodes);
    let graph = model.graph.as_mut().unwrap();
    graph.input[0] = port("x", FLOAT, &[-1, 12]);
    graph.initializer = vec![ints("first", &[0]), ints("rest", &[3, 4])];
    assert_eq!(output_dims(&read_model(&model).unwrap()), [-1, 3, 4]);
}

/// The size of a part between two open places is open, though both may be the same number.
#[test]
fn a_difference_of_open_sizes_is_not_taken_for_known() {
    let nodes = vec![
        node("Shape", "shape", &["x"], &["sizes"]),
        with_int(node("Gather", "from", &["sizes", "first"], &["from"]), "axis", 0),
        with_int(node("Gather", "to", &["sizes", "second"], &["to"]), "axis", 0),
        node("Slice", "slice", &["line", "from", "to"], &["y"]),
    ];
    let mut model = model(nodes);
    let graph = model.graph.as_mut().unwrap();
    graph.input = vec![port("x", FLOAT, &[-1, -1]), port("line", FLOAT, &[200])];
    for (name, value) in [("first", 0), ("second", 1)] {
        graph.initializer.push(TensorProto {
            name: name.into(),
            dims: vec![1],
            data_type: INT64,
            int64_data: vec![value],
            ..Default::default()
        });
    }
    assert_eq!(output_dims(&read_model(&model).unwrap()), [-1]);
}

/// The type of what is made of a shape that only a run brings is that of the value, not of the shape.
#[test]
fn types_do_not_come_from_lists_of_sizes() {
    let mut fill = node("ConstantOfShape", "fill", &["x"], &["y"]);
    fill.attribute.push(AttributeProto {
        name: "value".into(),
        t: Some(floats("", &[1.5])),
        ..Default::default()
    });
    let mut model = model(vec![fill]);
    let graph = model.graph.as_mut().unwrap();
    graph.input = vec![port("x", INT64, &[2])];
    graph.output = vec![port("y", FLOAT, &[-1, -1])];
    let read = read_model(&model).unwrap();
    let net = read.nodes().find(|(_, node)| node.kind == NET_OUTPUT).unwrap().1;
    assert_eq!(net.input_descs[0].dtype, DType::Float);
}

#[test]
fn axes_of_an_unknown_number_are_refused_in_words() {
    let mut model = model(vec![node("ReduceSum", "sum", &["x", "axes"], &["y"])]);
    model.graph.as_mut().unwrap().input.push(port("axes", INT64, &[-1]));
    let refused = read_model(&model).unwrap_err();
    assert!(refused.contains("the sizes [-1]") && !refused.contains("Some"), "{refused}");
}

#[test]
fn convolutions_in_double_are_refused_by_name() {
    const DOUBLE: i32 = 11;
    let mut model = model(vec![node("Conv", "conv", &["x", "w"], &["y"])]);
    let graph = model.graph.as_mut().unwrap();
    graph.input = vec![port("x", DOUBLE, &[1, 1, 4, 4]), port("w", DOUBLE, &[1, 1, 2, 2])];
    let refused = read_model(&model).unwrap_err();
    assert!(refused.contains("'conv' (Conv)") && refused.contains("type double"), "{refused}");
}
