//! The file of a model (`.om`): a header of 256 bytes, a table of parts, the parts.

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
#[derive(Debug, PartialEq, Eq)]
pub struct Container<'a> {
    /// Whether Cairn wrote it.
    pub is_ours: bool,
    /// Kind and bytes of each part.
    pub parts: Vec<(u32, &'a [u8])>,
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
    /// The bytes of a part.
    pub fn part(&self, kind: u32) -> Option<&[u8]> {
        self.parts.iter().find(|(one, _)| *one == kind).map(|(_, bytes)| *bytes)
    }
}

/// Whether bytes begin as a model file does.
pub fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// Writes a file. Beyond 4 GiB the table has longer fields.
pub fn write(name: &str, is_dynamic: bool, parts: &[(u32, &[u8])]) -> Vec<u8> {
    let body: u64 = parts.iter().map(|(_, bytes)| bytes.len() as u64).sum();
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
    bytes.reserve_exact(length as usize);
    bytes.extend((parts.len() as u32).to_le_bytes());
    if is_long {
        bytes.extend([0; 4]);
    }
    let mut offset = 0u64;
    for (kind, part) in parts {
        bytes.extend(kind.to_le_bytes());
        match is_long {
            true => {
                bytes.extend([0; 4]);
                bytes.extend(offset.to_le_bytes());
                bytes.extend((part.len() as u64).to_le_bytes());
            }
            false => {
                bytes.extend((offset as u32).to_le_bytes());
                bytes.extend((part.len() as u32).to_le_bytes());
            }
        }
        offset += part.len() as u64;
    }
    parts.iter().for_each(|(_, part)| bytes.extend(*part));
    bytes
}

/// Reads the parts of a file. Whatever the bytes are, nothing is copied.
pub fn read(bytes: &[u8]) -> Result<Container<'_>, ContainerError> {
    let malformed = |text: String| Err(ContainerError::Malformed(text));
    if bytes.len() < HEADER_BYTES {
        return malformed(format!(
            "it has {} bytes, and the header alone has {HEADER_BYTES}",
            bytes.len()
        ));
    }
    if !has_magic(bytes) {
        return malformed(format!("it does not begin with 'IMOD' but with {:02x?}", &bytes[..4]));
    }
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    if bytes[field::MODEL_TYPE] == BUNDLE {
        return Err(ContainerError::Bundle);
    }
    let is_long = u64_at(field::LONG_LENGTH) != 0;
    let length = if is_long { u64_at(field::LONG_LENGTH) } else { u32_at(field::LENGTH).into() };
    let have = (bytes.len() - HEADER_BYTES) as u64;
    if length != have {
        return malformed(format!(
            "its header says that {length} bytes follow, and {have} do: was it copied completely?"
        ));
    }
    let mut parts = Vec::new();
    let mut rest = &bytes[HEADER_BYTES..];
    let mut models = u32_at(field::MODEL_COUNT).max(1);
    while models > 0 && !rest.is_empty() {
        match read_table(rest, is_long) {
            Some((table, after)) => {
                parts.extend(table);
                rest = after;
            }
            None => return malformed("its table of parts does not fit its length".to_owned()),
        }
        models -= 1;
    }
    let user_info = &bytes[field::USER_INFO];
    Ok(Container { is_ours: user_info.starts_with(SIGNATURE), parts })
}

/// The parts of one table, and what follows them.
type Table<'a> = (Vec<(u32, &'a [u8])>, &'a [u8]);

fn read_table(bytes: &[u8], is_long: bool) -> Option<Table<'_>> {
    let number = |at: usize| -> Option<u32> {
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    let count = number(0)?;
    if count == 0 || count > MAX_PARTS {
        return None;
    }
    let (start, entry) = if is_long { (8, 24) } else { (4, 12) };
    let mut rest = bytes.get(start + entry * count as usize..)?;
    let mut parts = Vec::new();
    for at in 0..count as usize {
        let entry_at = start + entry * at;
        let size = match is_long {
            true => u64::from_le_bytes(bytes.get(entry_at + 16..entry_at + 24)?.try_into().ok()?),
            false => number(entry_at + 8)?.into(),
        };
        let (part, after) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        parts.push((number(entry_at)?, part));
        rest = after;
    }
    Some((parts, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let file = write("net", true, &[(GRAPH, b"graph"), (WEIGHTS, b""), (DESCRIPTION, b"io")]);
        let container = read(&file).unwrap();
        assert!(container.is_ours);
        assert_eq!(container.part(GRAPH), Some(&b"graph"[..]));
        assert_eq!(container.part(WEIGHTS), Some(&b""[..]));
        assert_eq!(container.part(TASKS), None);
        assert_eq!(&file[..4], b"IMOD");
        assert_eq!(file[field::IS_DYNAMIC], 1);
    }

    #[test]
    fn every_prefix_is_refused() {
        let file = write("net", false, &[(GRAPH, b"graph"), (DESCRIPTION, b"io")]);
        for end in 0..file.len() {
            assert!(read(&file[..end]).is_err(), "{end}");
        }
        let mut bundle = file.clone();
        bundle[field::MODEL_TYPE] = BUNDLE;
        assert_eq!(read(&bundle), Err(ContainerError::Bundle));
        let mut parts = file;
        parts[HEADER_BYTES] = 200;
        assert!(matches!(read(&parts), Err(ContainerError::Malformed(_))));
    }
}
