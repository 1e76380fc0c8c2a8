//! Values that are part of a graph: attributes and constants.

use super::{Desc, Graph};
use bytes::Bytes;
use cairn_ops::Arg;
use std::collections::BTreeMap;

/// A tensor whose bytes are part of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// What it is.
    pub desc: Desc,
    /// Its elements, one after the other.
    pub bytes: Bytes,
}

/// Attributes by name.
pub type Attrs = BTreeMap<String, Attr>;

/// The value of an attribute, of any type the model format has.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// Text.
    Text(Vec<u8>),
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f32),
    /// Yes or no.
    Flag(bool),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A description.
    Desc(Desc),
    /// A tensor.
    Tensor(Constant),
    /// A graph.
    Graph(Box<Graph>),
    /// A name with attributes of its own.
    Named(String, Attrs),
    /// A type of elements, by its number in C++.
    Type(i64),
    /// Texts.
    Texts(Vec<Vec<u8>>),
    /// Integers.
    Ints(Vec<i64>),
    /// Real numbers.
    Floats(Vec<f32>),
    /// Booleans.
    Flags(Vec<bool>),
    /// Byte strings.
    ByteLists(Vec<Vec<u8>>),
    /// Descriptions.
    Descs(Vec<Desc>),
    /// Tensors.
    Tensors(Vec<Constant>),
    /// Graphs.
    Graphs(Vec<Graph>),
    /// Names with attributes of their own.
    NamedList(Vec<(String, Attrs)>),
    /// Types of elements.
    Types(Vec<i64>),
    /// Lists of integers.
    IntLists(Vec<Vec<i64>>),
    /// Lists of real numbers.
    FloatLists(Vec<Vec<f32>>),
    /// A symbolic expression, as the model holds it.
    Expression(Vec<u8>),
}

impl Attr {
    /// As an argument of an operator; `None` if operators take none of its type.
    pub fn argument(&self) -> Option<Arg> {
        Some(match self {
            Attr::Text(text) | Attr::Bytes(text) => {
                Arg::Text(String::from_utf8_lossy(text).into_owned())
            }
            Attr::Int(value) | Attr::Type(value) => Arg::Int(*value),
            Attr::Float(value) => Arg::Float(f64::from(*value)),
            Attr::Flag(value) => Arg::Flag(*value),
            Attr::Ints(values) | Attr::Types(values) => Arg::Ints(values.clone()),
            Attr::Floats(values) => {
                Arg::Floats(values.iter().map(|value| f64::from(*value)).collect())
            }
            Attr::Flags(values) => Arg::Flags(values.clone()),
            _ => return None,
        })
    }

    /// The number, if it is one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Attr::Int(value) | Attr::Type(value) => Some(*value),
            _ => None,
        }
    }
}
