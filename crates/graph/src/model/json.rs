//! Models as JSON, with the names of the format's fields.

use super::wire::{
    AttrDef, AttrMap, GraphDef, ListValue, ModelDef, NamedAttrs, OpDef, TensorDef,
    TensorDescriptor, Value,
};
use prost::Message;
use serde_json::{Map, Value as Json, json};

/// The names of types of elements, by their numbers in the format.
const TYPES: [&str; 42] = [
    "DT_UNDEFINED",
    "DT_FLOAT",
    "DT_FLOAT16",
    "DT_INT8",
    "DT_UINT8",
    "DT_INT16",
    "DT_UINT16",
    "DT_INT32",
    "DT_INT64",
    "DT_UINT32",
    "DT_UINT64",
    "DT_BOOL",
    "DT_DOUBLE",
    "DT_STRING",
    "DT_DUAL_SUB_INT8",
    "DT_DUAL_SUB_UINT8",
    "DT_COMPLEX64",
    "DT_COMPLEX128",
    "DT_QINT8",
    "DT_QINT16",
    "DT_QINT32",
    "DT_QUINT8",
    "DT_QUINT16",
    "DT_RESOURCE",
    "DT_STRING_REF",
    "DT_DUAL",
    "DT_VARIANT",
    "DT_BF16",
    "DT_INT4",
    "DT_UINT1",
    "DT_INT2",
    "DT_UINT2",
    "DT_COMPLEX32",
    "DT_HIFLOAT8",
    "DT_FLOAT8_E5M2",
    "DT_FLOAT8_E4M3FN",
    "DT_FLOAT8_E8M0",
    "DT_FLOAT6_E3M2",
    "DT_FLOAT6_E2M3",
    "DT_FLOAT4_E2M1",
    "DT_FLOAT4_E1M2",
    "DT_HIFLOAT4",
];

/// The JSON of a model's bytes. Fields without a value are left out, and bytes are in base64.
pub fn to_json(bytes: &[u8]) -> Result<Json, String> {
    super::weight::check(bytes)?;
    let model = ModelDef::decode(bytes)
        .map_err(|error| format!("The bytes are no model of the graph engine: {error}."))?;
    let graphs: Vec<Json> = model.graph.iter().map(graph).collect();
    Ok(json!({ "name": model.name, "graph": graphs }))
}

/// An object of the fields that have a value.
fn object(fields: Vec<(&str, Json)>) -> Json {
    let has_value = |value: &Json| match value {
        Json::Null => false,
        Json::String(text) => !text.is_empty(),
        Json::Array(values) => !values.is_empty(),
        _ => true,
    };
    let fields = fields.into_iter().filter(|(_, value)| has_value(value));
    Json::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn graph(def: &GraphDef) -> Json {
    object(vec![
        ("name", json!(def.name)),
        ("output", json!(def.output)),
        ("op", def.op.iter().map(op).collect()),
        ("attr", attrs(&def.attr)),
    ])
}

fn op(def: &OpDef) -> Json {
    object(vec![
        ("name", json!(def.name)),
        ("type", json!(def.r#type)),
        ("input", json!(def.input)),
        ("attr", attrs(&def.attr)),
        ("input_desc", def.input_desc.iter().map(desc).collect()),
        ("output_desc", def.output_desc.iter().map(desc).collect()),
        ("subgraph_name", json!(def.subgraph_name)),
    ])
}

fn desc(def: &TensorDescriptor) -> Json {
    let dtype = usize::try_from(def.dtype).ok().and_then(|at| TYPES.get(at));
    object(vec![
        ("name", json!(def.name)),
        ("dtype", dtype.map_or_else(|| json!(def.dtype), |name| json!(name))),
        ("shape", def.shape.as_ref().map_or(Json::Null, |shape| json!({ "dim": shape.dim }))),
        ("layout", json!(def.layout)),
        ("attr", attrs(&def.attr)),
        ("device_type", json!(def.device_type)),
    ])
}

fn tensor(def: &TensorDef) -> Json {
    object(vec![
        ("desc", def.desc.as_ref().map_or(Json::Null, desc)),
        ("data", json!(base64(&def.data))),
    ])
}

fn named(def: &NamedAttrs) -> Json {
    object(vec![("name", json!(def.name)), ("attr", attrs(&def.attr))])
}

fn attrs(map: &AttrMap) -> Json {
    map.iter().map(|(key, value)| json!({ "key": key, "value": attr(value) })).collect()
}

fn attr(def: &AttrDef) -> Json {
    let Some(value) = &def.value else { return json!({}) };
    match value {
        Value::List(list) => json!({ "list": values(list) }),
        Value::S(text) => json!({ "s": String::from_utf8_lossy(text) }),
        Value::I(value) => json!({ "i": value }),
        Value::F(value) => json!({ "f": real(*value) }),
        Value::B(value) => json!({ "b": value }),
        Value::Bt(bytes) => json!({ "bt": base64(bytes) }),
        Value::Func(function) => json!({ "func": named(function) }),
        Value::Td(one) => json!({ "td": desc(one) }),
        Value::T(one) => json!({ "t": tensor(one) }),
        Value::G(one) => json!({ "g": graph(one) }),
        Value::ListListInt(lists) => {
            let lists: Vec<Json> =
                lists.list.iter().map(|one| json!({ "list_i": one.list })).collect();
            json!({ "list_list_int": { "list_list_i": lists } })
        }
        Value::Dt(value) => json!({ "dt": value }),
        Value::ListListFloat(lists) => {
            let reals = |list: &[f32]| list.iter().map(|value| real(*value)).collect::<Json>();
            let lists: Vec<Json> =
                lists.list.iter().map(|one| json!({ "list_f": reals(&one.list) })).collect();
            json!({ "list_list_float": { "list_list_f": lists } })
        }
        Value::Expression(bytes) => json!({ "expression": base64(bytes) }),
    }
}

fn values(list: &ListValue) -> Json {
    let text = |text: &Vec<u8>| json!(String::from_utf8_lossy(text));
    object(vec![
        ("s", list.s.iter().map(text).collect()),
        ("i", json!(list.i)),
        ("f", list.f.iter().map(|value| real(*value)).collect()),
        ("b", json!(list.b)),
        ("bt", list.bt.iter().map(|bytes| json!(base64(bytes))).collect()),
        ("td", list.td.iter().map(desc).collect()),
        ("t", list.t.iter().map(tensor).collect()),
        ("g", list.g.iter().map(graph).collect()),
        ("na", list.na.iter().map(named).collect()),
        ("dt", json!(list.dt)),
        ("val_type", if list.val_type == 0 { Json::Null } else { json!(list.val_type) }),
    ])
}

/// A number, or its name where JSON has none.
fn real(value: f32) -> Json {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, Attrs, Graph, Node};

    #[test]
    fn bytes_are_in_base64() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"\xff\xfe", "//4="),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn fields_have_the_names_of_the_format() {
        let mut graph = Graph::new("net");
        graph.add(Node {
            name: "in".into(),
            kind: "Data".into(),
            output_descs: vec![crate::ir::Desc::new(cairn_tensor::DType::Float, &[2, 3])],
            attrs: Attrs::from([
                ("index".to_owned(), Attr::Int(0)),
                ("scale".to_owned(), Attr::Float(f32::INFINITY)),
            ]),
            ..Node::default()
        });
        let json = to_json(&super::super::write(&graph)).unwrap();
        let op = &json["graph"][0]["op"][0];
        assert_eq!((&op["name"], &op["type"]), (&json!("in"), &json!("Data")));
        assert_eq!(op["output_desc"][0]["dtype"], "DT_FLOAT");
        assert_eq!(op["output_desc"][0]["shape"]["dim"], json!([2, 3]));
        let value = |key: &str| {
            let list = op["attr"].as_array().unwrap();
            list.iter().find(|one| one["key"] == key).unwrap()["value"].clone()
        };
        assert_eq!(value("index"), json!({ "i": 0 }));
        assert_eq!(value("scale"), json!({ "f": "inf" }));
        assert!(to_json(b"\xff\xff").is_err());
    }

    #[test]
    fn types_are_those_of_the_proto() {
        let text = include_str!("../../proto/ge_ir.proto");
        let listed =
            text.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once(" = "));
        let listed: Vec<(&str, usize)> = listed
            .filter(|(name, _)| name.starts_with("DT_"))
            .map(|(name, number)| (name, number.parse().unwrap()))
            .collect();
        assert_eq!(listed.len(), TYPES.len());
        assert!(listed.iter().all(|(name, number)| TYPES[*number] == *name));
    }
}
