//! The messages of the format, as far as a graph needs them; `proto/ge_ir.proto` has them all.
//!
//! Fields that a graph has no use for are left out: they are skipped when read.

use bytes::Bytes;
use prost::{Message, Oneof};
use std::collections::BTreeMap;

pub type AttrMap = BTreeMap<String, AttrDef>;

#[derive(Clone, PartialEq, Message)]
pub struct ModelDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "7")]
    pub graph: Vec<GraphDef>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GraphDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub op: Vec<OpDef>,
    #[prost(btree_map = "string, message", tag = "11")]
    pub attr: AttrMap,
}

#[derive(Clone, PartialEq, Message)]
pub struct OpDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub r#type: String,
    #[prost(string, repeated, tag = "5")]
    pub input: Vec<String>,
    #[prost(btree_map = "string, message", tag = "10")]
    pub attr: AttrMap,
    #[prost(message, repeated, tag = "33")]
    pub input_desc: Vec<TensorDescriptor>,
    #[prost(message, repeated, tag = "34")]
    pub output_desc: Vec<TensorDescriptor>,
    #[prost(string, repeated, tag = "35")]
    pub subgraph_name: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorDescriptor {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub dtype: i32,
    #[prost(message, optional, tag = "3")]
    pub shape: Option<ShapeDef>,
    #[prost(string, tag = "4")]
    pub layout: String,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attr: AttrMap,
    #[prost(string, tag = "14")]
    pub device_type: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ShapeDef {
    #[prost(int64, repeated, tag = "1")]
    pub dim: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorDef {
    #[prost(message, optional, tag = "1")]
    pub desc: Option<TensorDescriptor>,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedAttrs {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub attr: AttrMap,
}

#[derive(Clone, PartialEq, Message)]
pub struct AttrDef {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 7, 10, 11, 12, 13, 14, 15, 16, 17")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    #[prost(message, tag = "1")]
    List(Box<ListValue>),
    #[prost(bytes = "vec", tag = "2")]
    S(Vec<u8>),
    #[prost(int64, tag = "3")]
    I(i64),
    #[prost(float, tag = "4")]
    F(f32),
    #[prost(bool, tag = "5")]
    B(bool),
    #[prost(bytes = "vec", tag = "7")]
    Bt(Vec<u8>),
    #[prost(message, tag = "10")]
    Func(Box<NamedAttrs>),
    #[prost(message, tag = "11")]
    Td(Box<TensorDescriptor>),
    #[prost(message, tag = "12")]
    T(Box<TensorDef>),
    #[prost(message, tag = "13")]
    G(Box<GraphDef>),
    #[prost(message, tag = "14")]
    ListListInt(ListListInt),
    #[prost(int64, tag = "15")]
    Dt(i64),
    #[prost(message, tag = "16")]
    ListListFloat(ListListFloat),
    #[prost(bytes = "vec", tag = "17")]
    Expression(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
pub struct ListValue {
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub s: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "3")]
    pub i: Vec<i64>,
    #[prost(float, repeated, tag = "4")]
    pub f: Vec<f32>,
    #[prost(bool, repeated, tag = "5")]
    pub b: Vec<bool>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub bt: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "8")]
    pub td: Vec<TensorDescriptor>,
    #[prost(message, repeated, tag = "9")]
    pub t: Vec<TensorDef>,
    #[prost(message, repeated, tag = "10")]
    pub g: Vec<GraphDef>,
    #[prost(message, repeated, tag = "11")]
    pub na: Vec<NamedAttrs>,
    #[prost(int64, repeated, tag = "12")]
    pub dt: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub val_type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListListInt {
    #[prost(message, repeated, tag = "1")]
    pub list: Vec<ListInt>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListInt {
    #[prost(int64, repeated, tag = "1")]
    pub list: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListListFloat {
    #[prost(message, repeated, tag = "1")]
    pub list: Vec<ListFloat>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListFloat {
    #[prost(float, repeated, tag = "1")]
    pub list: Vec<f32>,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    /// (message, field) -> (number, type without `repeated`).
    type Fields = BTreeMap<(String, String), (String, String)>;

    /// The fields of the `.proto` file, those marked "skipped" apart.
    fn proto_fields(text: &str) -> (Fields, BTreeSet<(String, String)>) {
        let (mut fields, mut skipped, mut message) = (Fields::new(), BTreeSet::new(), None);
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("message ") {
                message = rest.strip_suffix(" {").map(str::to_owned);
            } else if line.starts_with("enum ") {
                message = None;
            } else if let (Some(message), Some((field, rest))) = (&message, line.split_once(" = "))
                && !line.starts_with("//")
            {
                let (number, note) = rest.split_once(';').unwrap();
                let (kind, name) = field.rsplit_once(' ').unwrap();
                let kind = kind.trim_start_matches("repeated ");
                let key = (message.clone(), name.to_owned());
                if note.contains("skipped") {
                    skipped.insert(key.clone());
                }
                fields.insert(key, (number.to_owned(), kind.to_owned()));
            }
        }
        (fields, skipped)
    }

    /// The fields of the structs above; a oneof's variants belong to `AttrDef`.
    fn struct_fields(text: &str) -> Fields {
        let (mut fields, mut message, mut attribute) = (Fields::new(), String::new(), None);
        let text = text.split("#[cfg(test)]").next().unwrap();
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("pub struct ") {
                message = rest.trim_end_matches(" {").to_owned();
            } else if line == "pub enum Value {" {
                message = "AttrDef".to_owned();
            } else if let Some(rest) = line.strip_prefix("#[prost(") {
                attribute = Some(rest.trim_end_matches(")]")).filter(|it| !it.contains("oneof"));
            } else if let Some(attribute) = attribute.take() {
                let (kind, tag) = attribute.rsplit_once(", tag = ").unwrap();
                let (name, rust_type) = match line.strip_prefix("pub ") {
                    Some(field) => {
                        let (name, rust_type) =
                            field.trim_end_matches(',').split_once(": ").unwrap();
                        (name.trim_start_matches("r#").to_owned(), rust_type)
                    }
                    None => {
                        let (name, inner) = line.trim_end_matches("),").split_once('(').unwrap();
                        (snake(name), inner)
                    }
                };
                let inner = rust_type.rsplit('<').next().unwrap().trim_end_matches('>').to_owned();
                let kind = match kind.split(',').next().unwrap() {
                    "message" => inner,
                    kind if kind.starts_with("btree_map") => "map<string, AttrDef>".to_owned(),
                    kind => kind.split(' ').next().unwrap().to_owned(),
                };
                fields.insert((message.clone(), name), (tag.trim_matches('"').to_owned(), kind));
            }
        }
        fields
    }

    fn snake(name: &str) -> String {
        let mut text = String::new();
        for letter in name.chars() {
            if letter.is_uppercase() && !text.is_empty() {
                text.push('_');
            }
            text.extend(letter.to_lowercase());
        }
        text
    }

    #[test]
    fn the_structs_agree_with_the_proto_file() {
        let (mut expected, skipped) = proto_fields(include_str!("../../proto/ge_ir.proto"));
        for key in &skipped {
            expected.remove(key);
        }
        expected.values_mut().filter(|(_, kind)| kind == "DataType").for_each(|field| {
            field.1 = "int32".to_owned();
        });
        let fields = struct_fields(include_str!("wire.rs"));
        assert_eq!(fields, expected);
        assert_eq!((fields.len(), skipped.len()), (53, 29));
    }
}
