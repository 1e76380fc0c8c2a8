//! The file around the entries.
//!
//! ```text
//!  0          4096        +64 KiB     +64 KiB
//!  ┌──────────┬───────────┬───────────┬───────────┬─ ─ ─
//!  │ header   │ segment   │ segment   │ segment   │ ...   made in advance; unused ones are zero
//!  └──────────┴───────────┴───────────┴───────────┴─ ─ ─
//!               chain 1     chain 2     chain 1
//!               ordinal 0   ordinal 0   ordinal 1
//! ```
//!
//! Each thread writes a chain of segments, and nobody else writes there: the bytes of a chain, one segment after the other,
//! are its entries. `used` of a segment is stored after the bytes that it counts. Where an entry goes on in the next
//! segment, that one's `used` is stored first: a segment that is not full is the last one that counts, so whenever the process
//! is killed, what can be read ends between two entries.
//!
//! **While it is written.** Before a thread reads the clock for an entry it sets [`BUSY`] in `used` of its last segment, or takes
//! one with it set if that is full, and storing `used` afterwards clears it. So whoever sees a chain that is not busy knows that its
//! next entry is later than that look ([`crate::follow`]). The last 64 bytes of the header are for the two processes: see the offsets below.

/// The first bytes of a record.
pub const MAGIC: [u8; 8] = *b"CAIRNREC";

/// The version that this crate writes, and the highest that it reads.
pub const VERSION: u32 = 1;

/// Bytes of the header of the file.
pub const HEADER_BYTES: usize = 4096;

/// Bytes of a segment, its header included.
pub const SEGMENT_BYTES: usize = 64 << 10;

/// How many segments the file grows by: its length is that of the header and a multiple of these.
pub const PIECE_SEGMENTS: usize = 16;

/// Bytes of the header of a segment.
pub const SEGMENT_HEADER_BYTES: usize = 64;

/// Bytes of entries that a segment holds.
pub const PAYLOAD_BYTES: usize = SEGMENT_BYTES - SEGMENT_HEADER_BYTES;

/// The first bytes of a segment in use.
pub const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"SEG1");

/// Where `used` stands in the header of a segment.
pub const USED_OFFSET: usize = 4;

/// The bit of `used` that is set while the thread makes an entry.
pub const BUSY: u32 = 1 << 31;

/// Where the header of the file says that the record ended before the process (a `u32`; 0 if not).
pub const CUT_SHORT_OFFSET: usize = HEADER_BYTES - 64;

/// Where the process that reads the record while it is written stores its number (a `u32`; 0 for none).
pub const READER_OFFSET: usize = HEADER_BYTES - 60;

/// Where that process stores how many segments it is done with (a `u64`).
pub const CONSUMED_OFFSET: usize = HEADER_BYTES - 56;

/// How many bytes of texts the header of the file has room for.
const MAX_TEXT: usize = 1800;

/// How many bytes of the name of the machine.
const MAX_MACHINE: usize = 100;

/// What the header of the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The process.
    pub pid: u32,
    /// Nanoseconds of the monotonic clock when the record was begun.
    pub start_ns: u64,
    /// The same in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// The command that was recorded, as far as there is room.
    pub command: String,
    /// What files of one `cairn record` have in common; empty without it.
    pub session: String,
    /// The machine whose monotonic clock it has, as the kernel names it since it was started; empty where that is not known.
    pub machine: String,
}

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which chain it belongs to.
    pub chain: u32,
    /// Its place in the chain.
    pub ordinal: u32,
    /// The thread that wrote it, by the kernel's number.
    pub thread: u64,
    /// Bytes of entries that are written.
    pub used: u32,
}

/// Why a file is no record that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It begins with something else.
    Foreign,
    /// It was written by a later version.
    Version(u32),
    /// Its header ends too soon or is damaged.
    Damaged,
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.start_ns.to_le_bytes());
        out.extend_from_slice(&self.start_unix_ns.to_le_bytes());
        let texts =
            [(&self.command, MAX_TEXT), (&self.session, MAX_TEXT), (&self.machine, MAX_MACHINE)];
        for (text, limit) in texts {
            crate::wire::put_text(&mut out, &text[..text.floor_char_boundary(limit)]);
        }
        out.resize(HEADER_BYTES, 0);
        out
    }

    /// Reads the header.
    pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(HeaderError::Foreign);
        }
        let number = |at: usize, length: usize| -> Result<u64, HeaderError> {
            let bytes = bytes.get(at..at + length).ok_or(HeaderError::Damaged)?;
            Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        };
        let version = number(8, 4)? as u32;
        if version > VERSION {
            return Err(HeaderError::Version(version));
        }
        let mut texts = crate::wire::Bytes { rest: bytes.get(32..).ok_or(HeaderError::Damaged)? };
        let mut text = || texts.text().map(str::to_owned).map_err(|_| HeaderError::Damaged);
        Ok(Header {
            pid: number(12, 4)? as u32,
            start_ns: number(16, 8)?,
            start_unix_ns: number(24, 8)?,
            command: text()?,
            session: text()?,
            machine: text()?,
        })
    }
}

impl Segment {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[0..4].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&self.used.to_le_bytes());
        out[8..12].copy_from_slice(&self.chain.to_le_bytes());
        out[12..16].copy_from_slice(&self.ordinal.to_le_bytes());
        out[16..24].copy_from_slice(&self.thread.to_le_bytes());
        out
    }

    /// Reads the header; `None` for a segment that is not in use.
    pub fn decode(bytes: &[u8]) -> Option<Segment> {
        let small = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if small(0)? != SEGMENT_MAGIC {
            return None;
        }
        let thread = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
        let used = small(USED_OFFSET)? & !BUSY;
        Some(Segment { used, chain: small(8)?, ordinal: small(12)?, thread })
    }

    /// Whether the header says that its thread makes an entry.
    pub fn is_busy(bytes: &[u8]) -> bool {
        bytes.get(USED_OFFSET + 3).is_some_and(|byte| byte & (BUSY >> 24) as u8 != 0)
    }
}

/// Whether the header of a file says that its record ended before the process.
pub fn is_cut_short(header: &[u8]) -> bool {
    let flag = header.get(CUT_SHORT_OFFSET..CUT_SHORT_OFFSET + 4);
    flag.is_some_and(|flag| flag.iter().any(|byte| *byte != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        let header = Header {
            pid: 7,
            start_ns: 1 << 40,
            start_unix_ns: 1 << 60,
            command: "a ß b".into(),
            session: "s".into(),
            machine: "m".into(),
        };
        let bytes = header.encode();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::decode(&bytes), Ok(header.clone()));
        let long = Header { command: "ß".repeat(4000), ..header };
        let read = Header::decode(&long.encode()).unwrap();
        assert!(long.command.starts_with(&read.command) && read.command.len() > 1000);
        let segment = Segment { chain: 3, ordinal: 2, thread: 1 << 33, used: 5 };
        assert_eq!(Segment::decode(&segment.encode()), Some(segment));
        assert_eq!(Segment::decode(&[0; SEGMENT_HEADER_BYTES]), None);
        let mut busy = segment.encode();
        assert!(!Segment::is_busy(&busy));
        busy[USED_OFFSET..][..4].copy_from_slice(&(5 | BUSY).to_le_bytes());
        assert!(Segment::is_busy(&busy));
        assert_eq!(Segment::decode(&busy), Some(segment));
    }

    #[test]
    fn texts_leave_the_end_of_the_header_alone() {
        let text = "x".repeat(4000);
        let mut bytes = Header {
            command: text.clone(),
            session: text.clone(),
            machine: text,
            ..Header::default()
        }
        .encode();
        assert!(bytes[CUT_SHORT_OFFSET..].iter().all(|byte| *byte == 0));
        assert!(!is_cut_short(&bytes) && !is_cut_short(&bytes[..100]));
        bytes[CUT_SHORT_OFFSET] = 1;
        assert!(is_cut_short(&bytes));
    }

    #[test]
    fn other_files_are_named() {
        assert_eq!(Header::decode(b"\x7fELF"), Err(HeaderError::Foreign));
        assert_eq!(Header::decode(b""), Err(HeaderError::Foreign));
        let mut bytes = Header::default().encode();
        assert_eq!(Header::decode(&bytes[..20]), Err(HeaderError::Damaged));
        bytes[8] = 9;
        assert_eq!(Header::decode(&bytes), Err(HeaderError::Version(9)));
    }
}
