//! What a model would take in memory, before any of it is taken.
//!
//! A message without fields is two bytes long, and a hundred when read. So the bytes are walked once along the
//! messages they hold, and a model that is mostly such empty messages is refused.

use super::wire::{
    AttrDef, GraphDef, ListInt, ListValue, NamedAttrs, OpDef, TensorDef, TensorDescriptor,
};
use crate::ir::{Attr, Constant, Desc, Graph, Node, Source};
use std::mem::size_of;

/// How many bytes of memory the messages of a model may take for each of its own bytes. Real models take
/// less than ten; lists grow by doubling, so that three times this may be in use for a moment.
const MAX_BYTES_PER_BYTE: usize = 32;

/// What every model may take, however short.
const MIN_BUDGET: usize = 1 << 20;

/// How deep messages may lie in each other; the decoder ends there too.
const MAX_DEPTH: usize = 100;

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

impl Kind {
    /// The message in a field, and what it takes when read.
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
    let allowed = bytes.len().saturating_mul(MAX_BYTES_PER_BYTE).saturating_add(MIN_BUDGET);
    let mut walker = Walker { budget: allowed };
    walker.message(bytes, Kind::Model, 0).map_err(|fault| match fault {
        Fault::Heavy => format!(
            "The model has {} bytes, and its messages would take more than {allowed}: most of them are \
             empty. A graph that a program wrote does not look like this.",
            bytes.len()
        ),
        Fault::Deep => format!("The model has messages that lie more than {MAX_DEPTH} deep."),
        Fault::Broken(rest) => format!(
            "The bytes are no model of the graph engine: the field {rest} bytes before the end of its \
             message is cut off or of no known kind."
        ),
    })
}

/// Why bytes are refused.
enum Fault {
    /// They would take too much memory.
    Heavy,
    /// They nest too deeply.
    Deep,
    /// The field this many bytes before the end of its message cannot be read.
    Broken(usize),
}

/// Goes through the messages of a model.
struct Walker {
    /// Bytes of memory that they may still take.
    budget: usize,
}

impl Walker {
    fn message(&mut self, mut bytes: &[u8], kind: Kind, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::Deep);
        }
        while !bytes.is_empty() {
            let length = bytes.len();
            let (tag, body) = field(&mut bytes).ok_or(Fault::Broken(length))?;
            let Some((kind, weight)) = kind.field(tag) else { continue };
            self.budget = self.budget.checked_sub(weight).ok_or(Fault::Heavy)?;
            if let (Some(body), false) = (body, kind == Kind::Leaf) {
                self.message(body, kind, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// The number of the next field, and its bytes if it has a length.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Option<&'a [u8]>)> {
    let key = varint(bytes)?;
    let length = match key & 7 {
        0 => return varint(bytes).map(|_| (key >> 3, None)),
        1 => 8,
        2 => usize::try_from(varint(bytes)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (body, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some((key >> 3, (key & 7 == 2).then_some(body)))
}

/// A number in the variable-length encoding of protobuf.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f).checked_shl(shift).unwrap_or(0);
        if *first < 0x80 {
            return Some(value);
        }
    }
    None
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
