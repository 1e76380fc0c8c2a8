//! What a model of ONNX would take in memory, before any of it is taken.

use super::wire::{
    AttributeProto, Dimension, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto,
    SparseTensorProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};
use crate::ir::{Attr, Constant, Desc, Graph, Node, Source};
use crate::protobuf::{self, Message};
use std::mem::size_of;

/// A message of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Model,
    Opset,
    Function,
    Graph,
    Node,
    Attribute,
    Tensor,
    Sparse,
    Entry,
    Value,
    Type,
    TensorType,
    Shape,
    /// One without messages of its own.
    Leaf,
}

impl Message for Kind {
    const LEAF: Kind = Kind::Leaf;

    fn field(self, tag: u64) -> Option<(Kind, usize)> {
        /// Memory of an empty string or list.
        const EMPTY: usize = size_of::<Vec<u8>>();
        let tensor = size_of::<TensorProto>() + size_of::<Constant>() + size_of::<Node>();
        Some(match (self, tag) {
            (Kind::Model, 7) | (Kind::Attribute, 6) => {
                (Kind::Graph, size_of::<GraphProto>() + size_of::<Graph>())
            }
            (Kind::Model, 8) | (Kind::Function, 9) => {
                (Kind::Opset, size_of::<OperatorSetIdProto>() + EMPTY)
            }
            (Kind::Model, 25) => (Kind::Function, size_of::<FunctionProto>() + 4 * EMPTY),
            (Kind::Graph, 1) | (Kind::Function, 7) => {
                (Kind::Node, size_of::<NodeProto>() + size_of::<Node>() + 4 * EMPTY)
            }
            (Kind::Graph, 5) | (Kind::Attribute, 5) => (Kind::Tensor, tensor),
            (Kind::Graph, 15) | (Kind::Attribute, 22) => {
                (Kind::Sparse, size_of::<SparseTensorProto>() + size_of::<Constant>())
            }
            (Kind::Sparse, 1 | 2) => (Kind::Tensor, 0),
            (Kind::Graph, 11 | 12) => {
                (Kind::Value, size_of::<ValueInfoProto>() + size_of::<Desc>() + size_of::<Node>())
            }
            (Kind::Node, 1 | 2) | (Kind::Function, 4 | 5) => {
                (Kind::Leaf, EMPTY + size_of::<Desc>() + size_of::<Option<Source>>())
            }
            (Kind::Node, 5) | (Kind::Function, 11) => {
                (Kind::Attribute, size_of::<AttributeProto>() + size_of::<Attr>() + EMPTY)
            }
            (Kind::Attribute, 9) | (Kind::Tensor, 6) => (Kind::Leaf, EMPTY),
            (Kind::Tensor, 13) => (Kind::Entry, size_of::<StringStringEntryProto>()),
            (Kind::Value, 2) => (Kind::Type, 0),
            (Kind::Type, 1) => (Kind::TensorType, 0),
            (Kind::TensorType, 2) => (Kind::Shape, 0),
            (Kind::Shape, 1) => (Kind::Leaf, size_of::<Dimension>()),
            _ => return None,
        })
    }
}

/// Refuses bytes that would take far more memory than their length, that nest too deeply, or that end in
/// the middle of a field.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    protobuf::check(bytes, Kind::Model, "ONNX model")
}
