//! What a model would take in memory, before any of it is taken.

use super::wire::{
    AttrDef, GraphDef, ListInt, ListValue, NamedAttrs, OpDef, TensorDef, TensorDescriptor,
};
use crate::ir::{Attr, Constant, Desc, Graph, Node, Source};
use crate::protobuf::{self, Message};
use std::mem::size_of;

/// A message of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Model,
    Graph,
    Op,
    Desc,
    Tensor,
    Named,
    Entry,
    Attr,
    List,
    Lists,
    /// One without messages of its own.
    Leaf,
}

impl Message for Kind {
    const LEAF: Kind = Kind::Leaf;

    fn field(self, tag: u64) -> Option<(Kind, usize)> {
        /// Memory of an empty string or list.
        const EMPTY: usize = size_of::<Vec<u8>>();
        Some(match (self, tag) {
            (Kind::Model, 7) | (Kind::Attr, 13) | (Kind::List, 10) => {
                (Kind::Graph, size_of::<GraphDef>() + size_of::<Graph>())
            }
            (Kind::Graph, 6) => (Kind::Op, size_of::<OpDef>() + size_of::<Node>() + 4 * EMPTY),
            (Kind::Graph, 11) | (Kind::Op, 10) | (Kind::Desc, 5) | (Kind::Named, 2) => {
                (Kind::Entry, 2 * size_of::<String>() + size_of::<AttrDef>() + size_of::<Attr>())
            }
            (Kind::Op, 5) => (Kind::Leaf, EMPTY + size_of::<Desc>() + size_of::<Option<Source>>()),
            (Kind::Tensor, 1) => (Kind::Desc, 0),
            (Kind::Op, 33 | 34) | (Kind::Attr, 11) | (Kind::List, 8) => {
                (Kind::Desc, size_of::<TensorDescriptor>() + size_of::<Desc>())
            }
            (Kind::Attr, 12) | (Kind::List, 9) => {
                (Kind::Tensor, size_of::<TensorDef>() + size_of::<Constant>())
            }
            (Kind::Attr, 10) | (Kind::List, 11) => {
                (Kind::Named, size_of::<NamedAttrs>() + 2 * EMPTY)
            }
            (Kind::Attr, 1) => (Kind::List, size_of::<ListValue>()),
            (Kind::Attr, 14 | 16) => (Kind::Lists, EMPTY),
            (Kind::Lists, 1) => (Kind::Leaf, size_of::<ListInt>() + EMPTY),
            (Kind::List, 2 | 7) | (Kind::Graph, 5) | (Kind::Op, 35) => (Kind::Leaf, EMPTY),
            (Kind::Entry, 2) => (Kind::Attr, 0),
            _ => return None,
        })
    }
}

/// Refuses bytes that would take far more memory than their length, that nest too deeply, or that end in
/// the middle of a field. Whether the rest is right is for the decoder to say.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    protobuf::check(bytes, Kind::Model, "model of the graph engine")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with a length.
    fn wrap(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag << 3 | 2];
        let mut length = body.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn empty_messages_are_refused_and_contents_are_not() {
        let empty_messages = wrap(7, &wrap(6, &[]).repeat(100_000));
        assert!(check(&empty_messages).unwrap_err().contains("200004 bytes"));
        let nodes = wrap(7, &wrap(6, &wrap(1, &[b'n'; 40])).repeat(100_000));
        assert_eq!(check(&nodes), Ok(()));
    }

    #[test]
    fn depth_is_bounded() {
        let mut bytes = Vec::new();
        for _ in 0..40 {
            bytes = wrap(13, &wrap(11, &wrap(2, &bytes)));
        }
        assert!(check(&wrap(7, &wrap(11, &wrap(2, &bytes)))).unwrap_err().contains("100 deep"));
    }

    #[test]
    fn groups_and_ends_in_the_middle_are_refused() {
        assert!(check(&[0x0b, 0x0c]).is_err());
        assert!(check(&[0x3a, 5, 1]).is_err());
        assert!(check(&[0xff; 12]).is_err());
        assert_eq!(check(&wrap(1, b"name")), Ok(()));
    }
}
