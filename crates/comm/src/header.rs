//! What every rank says of the operator that it calls, so that ranks that call different ones notice.

use crate::data_type::DataType;
use crate::operator::OperatorKind;
use crate::reduction::Reduction;
use std::fmt;

/// Bytes of a header in a message.
pub(crate) const BYTES: usize = 32;

/// Marks the numbers of the steps of a task that communicates more than once, from the second one on: below it are the
/// task's number, and the step's.
pub(crate) const TURN: u64 = 1 << 38;
/// Bits of a step's number.
pub(crate) const STEP_BITS: u32 = 12;

/// The first byte of every header.
const VERSION: u8 = 1;

/// What a rank calls, as its first message to each peer says it. Equal on all ranks of a collective operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The operator.
    pub kind: OperatorKind,
    /// The type of its elements.
    pub data_type: DataType,
    /// How they are reduced.
    pub reduction: Option<Reduction>,
    /// The root; 0 where there is none.
    pub root: u32,
    /// Elements; of an operator with lists of counts that are equal on all ranks, a number made of them.
    pub count: u64,
    /// The number of the operator on its communicator, or among the messages from one rank to another.
    pub ticket: u64,
    /// Made of all collective operators of this communicator up to this one.
    pub history: u64,
}

impl Header {
    /// The header of an operator that only says what it is.
    pub fn new(kind: OperatorKind, data_type: DataType, count: u64) -> Header {
        Header { kind, data_type, reduction: None, root: 0, count, ticket: 0, history: 0 }
    }

    /// Writes it to the first bytes of a message.
    pub fn encode(&self, into: &mut [u8]) {
        into[0] = VERSION;
        into[1] = self.kind as u8;
        into[2] = self.data_type as u8;
        into[3] = self.reduction.map_or(u8::MAX, |reduction| reduction as u8);
        into[4..8].copy_from_slice(&self.root.to_le_bytes());
        into[8..16].copy_from_slice(&self.count.to_le_bytes());
        into[16..24].copy_from_slice(&self.ticket.to_le_bytes());
        into[24..32].copy_from_slice(&self.history.to_le_bytes());
    }

    /// Reads the first bytes of a message; `None` if none has arrived, or it is none of this version.
    pub fn decode(from: &[u8]) -> Option<Header> {
        let number = |at: usize| Some(u64::from_le_bytes(from.get(at..at + 8)?.try_into().ok()?));
        if *from.first()? != VERSION {
            return None;
        }
        Some(Header {
            kind: OperatorKind::from_number(*from.get(1)?)?,
            data_type: DataType::from_number(i32::from(*from.get(2)?)).ok()?,
            reduction: Reduction::from_number(i32::from(*from.get(3)?)).ok(),
            root: u32::from_le_bytes(from.get(4..8)?.try_into().ok()?),
            count: number(8)?,
            ticket: number(16)?,
            history: number(24)?,
        })
    }

    /// Whether the peer that sent `self` called what `expected` says. Of single messages only the bytes count.
    pub fn matches(&self, expected: &Header) -> bool {
        match self.kind {
            OperatorKind::Send => {
                let bytes = |header: &Header| header.count.checked_mul(header.data_type.bytes());
                expected.kind == OperatorKind::Send
                    && self.ticket == expected.ticket
                    && bytes(self) == bytes(expected)
            }
            _ => self == expected,
        }
    }

    /// The number made of all operators up to one that follows `history`.
    pub fn extend_history(&self, history: u64) -> u64 {
        let mut bytes = [0; BYTES];
        Header { history, ..*self }.encode(&mut bytes);
        hash(&bytes)
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { kind, data_type, count, .. } = self;
        let name = data_type.name();
        match kind {
            OperatorKind::Barrier => f.write_str(kind.name())?,
            _ if kind.has_lists() => write!(f, "{} of {name}", kind.name())?,
            _ => write!(f, "{} of {count} {name}", kind.name())?,
        }
        if let Some(reduction) = self.reduction {
            write!(f, ", {}", reduction.name())?;
        }
        if kind.has_root() {
            write!(f, ", root {}", self.root)?;
        }
        match self.ticket & TURN {
            0 => write!(f, " (number {})", self.ticket),
            _ => {
                let (number, step) =
                    ((self.ticket & !TURN) >> STEP_BITS, self.ticket & ((1 << STEP_BITS) - 1));
                write!(f, " (number {number}, step {step})")
            }
        }
    }
}

/// A number made of bytes: FNV-1a, equal in every process.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The same with twice the bits.
pub(crate) fn wide_hash(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_damage_is_noticed() {
        let header = Header {
            reduction: Some(Reduction::Max),
            root: 3,
            ticket: 9,
            history: 77,
            ..Header::new(OperatorKind::Reduce, DataType::Bfloat16, 1 << 33)
        };
        let mut bytes = [0; BYTES];
        header.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes), Some(header));
        assert_eq!(header.to_string(), "HcclReduce of 8589934592 bfp16, max, root 3 (number 9)");
        for (at, byte) in [(0, 0), (0, 9), (1, 99), (2, 13)] {
            let mut damaged = bytes;
            damaged[at] = byte;
            assert_eq!(Header::decode(&damaged), None, "{at}");
        }
        assert_eq!(Header::decode(&bytes[..31]), None);
    }

    #[test]
    fn single_messages_match_by_their_bytes() {
        let of = |data_type, count| Header {
            ticket: 4,
            ..Header::new(OperatorKind::Send, data_type, count)
        };
        assert!(of(DataType::Float32, 2).matches(&of(DataType::Int64, 1)));
        assert!(!of(DataType::Float32, 3).matches(&of(DataType::Int64, 1)));
        let collective = |count| Header::new(OperatorKind::AllReduce, DataType::Int8, count);
        assert!(collective(5).matches(&collective(5)));
        assert!(!collective(5).matches(&collective(6)));
        assert_ne!(collective(5).extend_history(1), collective(5).extend_history(2));
    }
}
