//! The file of a model (`.om`): a header of 256 bytes, a table of parts, the parts.

use super::source::ModelBytes;
use bytes::Bytes;
use std::ops::Range;

/// What the first bytes are: `IMOD`.
const MAGIC: u32 = 0x444F_4D49;
const HEADER_BYTES: usize = 256;
const VERSION: u32 = 0x2000_0000;

/// What files of ours have in the header's field for the user.
const SIGNATURE: &[u8] = b"cairn cpu model 1";

/// Where fields of the header are.
mod field {
    pub const VERSION: usize = 8;
    pub const LENGTH: usize = 76;
    pub const MODEL_TYPE: usize = 82;
    pub const NAME: std::ops::Range<usize> = 84..116;
    pub const USER_INFO: std::ops::Range<usize> = 120..152;
    pub const MODEL_COUNT: usize = 156;
    pub const LONG_LENGTH: usize = 184;
    pub const IS_DYNAMIC: usize = 193;
}

/// The part of a file with the graph.
pub const GRAPH: u32 = 0;
/// The constants.
pub const WEIGHTS: u32 = 1;
/// What an NPU runs.
pub const TASKS: u32 = 2;
/// Kernels for an NPU.
pub const KERNELS: u32 = 3;
/// Inputs, outputs and gears.
pub const DESCRIPTION: u32 = 8;

const BUNDLE: u8 = 5;
const MAX_PARTS: u32 = 8;

/// The parts of a file.
pub struct Container<'a> {
    /// Whether Cairn wrote it.
    pub is_ours: bool,
    bytes: &'a dyn ModelBytes,
    /// Kind and place of each part.
    parts: Vec<(u32, Range<usize>)>,
}

/// Why bytes are no model that can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerError {
    /// They do not have the form of a model.
    Malformed(String),
    /// A bundle of several models.
    Bundle,
}

impl Container<'_> {
    /// Where a part is.
    pub fn range(&self, kind: u32) -> Option<Range<usize>> {
        self.parts.iter().find(|(one, _)| *one == kind).map(|(_, range)| range.clone())
    }

    /// The bytes of a part; none if there is no such part.
    pub fn part(&self, kind: u32) -> Result<Bytes, String> {
        self.range(kind).map_or_else(|| Ok(Bytes::new()), |range| self.bytes.part(range))
    }

    /// Some bytes of the weights; `None` if they are not all inside.
    pub fn weights(&self, range: Range<usize>) -> Option<Result<Bytes, String>> {
        let part = self.range(WEIGHTS).unwrap_or_default();
        let is_inside = range.start <= range.end && range.end <= part.len();
        is_inside.then(|| self.bytes.part(part.start + range.start..part.start + range.end))
    }
}

/// Whether bytes begin as a model file does.
pub fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// Header and table of a file with parts of these kinds and lengths. Beyond 4 GiB the table has longer fields.
pub fn head(name: &str, is_dynamic: bool, parts: &[(u32, u64)]) -> Vec<u8> {
    let body: u64 = parts.iter().map(|(_, length)| length).sum();
    let short_table = 4 + 12 * parts.len() as u64;
    let is_long = body + short_table > u64::from(u32::MAX);
    let table_bytes = if is_long { 8 + 24 * parts.len() as u64 } else { short_table };
    let length = table_bytes + body;
    let mut bytes = vec![0; HEADER_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &MAGIC.to_le_bytes());
    put(4, &(HEADER_BYTES as u32).to_le_bytes());
    put(field::VERSION, &VERSION.to_le_bytes());
    let short_name = &name.as_bytes()[..name.len().min(field::NAME.len() - 1)];
    put(field::NAME.start, short_name);
    put(field::USER_INFO.start, SIGNATURE);
    put(field::MODEL_COUNT, &1u32.to_le_bytes());
    put(field::IS_DYNAMIC, &[u8::from(is_dynamic)]);
    match is_long {
        true => put(field::LONG_LENGTH, &length.to_le_bytes()),
        false => put(field::LENGTH, &(length as u32).to_le_bytes()),
    }
    bytes.extend((parts.len() as u32).to_le_bytes());
    if is_long {
        bytes.extend([0; 4]);
    }
    let mut offset = 0u64;
    for (kind, length) in parts {
        bytes.extend(kind.to_le_bytes());
        match is_long {
            true => {
                bytes.extend([0; 4]);
                bytes.extend(offset.to_le_bytes());
                bytes.extend(length.to_le_bytes());
            }
            false => {
                bytes.extend((offset as u32).to_le_bytes());
                bytes.extend((*length as u32).to_le_bytes());
            }
        }
        offset += length;
    }
    bytes
}

/// Reads header and tables of a file.
pub fn read(bytes: &dyn ModelBytes) -> Result<Container<'_>, ContainerError> {
    let malformed = |text: String| Err(ContainerError::Malformed(text));
    let header = bytes.head(HEADER_BYTES).map_err(ContainerError::Malformed)?;
    if header.len() < HEADER_BYTES {
        return malformed(format!(
            "it has {} bytes, and the header alone has {HEADER_BYTES}",
            header.len()
        ));
    }
    if !has_magic(&header) {
        return malformed(format!("it does not begin with 'IMOD' but with {:02x?}", &header[..4]));
    }
    if header[field::MODEL_TYPE] == BUNDLE {
        return Err(ContainerError::Bundle);
    }
    let number = |at: usize| u64::from(u32_at(&header, at));
    let is_long = u64_at(&header, field::LONG_LENGTH) != 0;
    let length = if is_long { u64_at(&header, field::LONG_LENGTH) } else { number(field::LENGTH) };
    let have = (bytes.length() - HEADER_BYTES) as u64;
    if length != have {
        return malformed(format!(
            "its header says that {length} bytes follow, and {have} do: was it copied completely?"
        ));
    }
    let mut parts = Vec::new();
    let mut at = HEADER_BYTES;
    let mut models = number(field::MODEL_COUNT).max(1);
    while models > 0 && at < bytes.length() {
        match read_table(bytes, at, is_long) {
            Some((table, end)) => {
                parts.extend(table);
                at = end;
            }
            None => return malformed("its table of parts does not fit its length".to_owned()),
        }
        models -= 1;
    }
    let is_ours = header[field::USER_INFO].starts_with(SIGNATURE);
    Ok(Container { is_ours, bytes, parts })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The parts of one table, and where they end.
type Table = (Vec<(u32, Range<usize>)>, usize);

fn read_table(bytes: &dyn ModelBytes, start: usize, is_long: bool) -> Option<Table> {
    let read = |at: usize, count: usize| -> Option<Bytes> {
        let end = at.checked_add(count).filter(|end| *end <= bytes.length())?;
        bytes.part(at..end).ok()
    };
    let count = u32_at(&read(start, 4)?, 0);
    if count == 0 || count > MAX_PARTS {
        return None;
    }
    let (head, entry) = if is_long { (8, 24) } else { (4, 12) };
    let entries = read(start + head, entry * count as usize)?;
    let mut at = start + head + entries.len();
    let mut parts = Vec::new();
    for entry in entries.chunks_exact(entry) {
        let size = if is_long { u64_at(entry, 16) } else { u32_at(entry, 8).into() };
        let end =
            at.checked_add(usize::try_from(size).ok()?).filter(|end| *end <= bytes.length())?;
        parts.push((u32_at(entry, 0), at..end));
        at = end;
    }
    Some((parts, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(is_dynamic: bool, parts: &[(u32, &[u8])]) -> Vec<u8> {
        let lengths: Vec<_> = parts.iter().map(|(kind, part)| (*kind, part.len() as u64)).collect();
        let mut bytes = head("net", is_dynamic, &lengths);
        parts.iter().for_each(|(_, part)| bytes.extend(*part));
        bytes
    }

    #[test]
    fn parts_come_back() {
        let file = file(true, &[(GRAPH, b"graph"), (WEIGHTS, b"weights"), (DESCRIPTION, b"io")]);
        let container = read(&file).ok().unwrap();
        assert!(container.is_ours);
        assert_eq!(container.part(GRAPH).unwrap(), &b"graph"[..]);
        assert_eq!(container.part(TASKS).unwrap(), &b""[..]);
        assert_eq!(container.range(TASKS), None);
        assert_eq!(container.weights(2..5).unwrap().unwrap(), &b"igh"[..]);
        assert!(container.weights(2..8).is_none() && container.weights(9..9).is_none());
        assert_eq!(&file[..4], b"IMOD");
        assert_eq!(file[field::IS_DYNAMIC], 1);
    }

    #[test]
    fn every_prefix_is_refused() {
        let file = file(false, &[(GRAPH, b"graph"), (DESCRIPTION, b"io")]);
        for end in 0..file.len() {
            assert!(read(&&file[..end]).is_err(), "{end}");
        }
        let mut bundle = file.clone();
        bundle[field::MODEL_TYPE] = BUNDLE;
        assert_eq!(read(&bundle).err(), Some(ContainerError::Bundle));
        let mut parts = file;
        parts[HEADER_BYTES] = 200;
        assert!(matches!(read(&parts), Err(ContainerError::Malformed(_))));
    }

    /// A file with this head, and zeros after it.
    struct Sparse(Vec<u8>, usize);

    impl ModelBytes for Sparse {
        fn length(&self) -> usize {
            self.1
        }

        fn part(&self, range: Range<usize>) -> Result<Bytes, String> {
            Ok(range.map(|at| self.0.get(at).copied().unwrap_or_default()).collect())
        }
    }

    #[test]
    fn numbers_are_long_beyond_4_gib() {
        let most = u64::from(u32::MAX);
        for (weights, table) in [(most - 45, 40), (most - 44, 80), (3 * most, 80)] {
            let lengths = [(GRAPH, 3), (WEIGHTS, weights), (DESCRIPTION, 2)];
            let head = head("net", false, &lengths);
            assert_eq!(head.len(), HEADER_BYTES + table);
            let all = head.len() + weights as usize + 5;
            let sparse = Sparse(head, all);
            let container = read(&sparse).ok().unwrap();
            let start = HEADER_BYTES + table + 3;
            assert_eq!(container.range(WEIGHTS), Some(start..start + weights as usize));
            assert_eq!(container.range(DESCRIPTION), Some(all - 2..all));
            assert!(read(&Sparse(sparse.0.clone(), all - 1)).is_err());
        }
    }
}
