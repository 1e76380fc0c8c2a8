//! Reads a record: all its chains, merged in the order of time.

use crate::chain::{Chain, Merge, Part};
use crate::entry::Entry;
use crate::layout::*;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes at offsets: a file, or bytes in memory.
pub trait Source {
    /// Reads from `offset` on; fewer bytes than asked for at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// How many bytes there are now.
    fn length(&self) -> io::Result<u64>;
}

impl Source for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Source for &[u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let rest = rest.unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// Why a record cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file cannot be read.
    Io(io::Error),
    /// It is something else.
    Foreign,
    /// It was written by a later version of Cairn.
    Version(u32),
    /// Its header is damaged.
    Damaged,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => write!(f, "cannot be read: {error}"),
            ReadError::Foreign => {
                f.write_str("is not a record; `cairn record -o FILE -- PROGRAM` makes one")
            }
            ReadError::Version(version) => write!(
                f,
                "has version {version} of the format, and this cairn reads up to version {VERSION}: use a newer one"
            ),
            ReadError::Damaged => f.write_str("is a record whose header is damaged"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

impl From<HeaderError> for ReadError {
    fn from(error: HeaderError) -> ReadError {
        match error {
            HeaderError::Foreign => ReadError::Foreign,
            HeaderError::Version(version) => ReadError::Version(version),
            HeaderError::Damaged => ReadError::Damaged,
        }
    }
}

/// A place from which a chain cannot be read on. Entries before it are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The thread whose entries end here; 0 if it is not known.
    pub thread: u64,
    /// Why.
    pub reason: String,
}

/// The entries of a record, in the order of time; at equal times in the order of threads' first entries. It holds a
/// segment of each chain, and reads on as entries are taken.
pub struct Reader<S = File> {
    source: S,
    header: Header,
    is_cut_short: bool,
    merge: Merge,
}

impl Reader<File> {
    /// Opens a record.
    pub fn open(path: &Path) -> Result<Reader, ReadError> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(ReadError::Foreign);
        }
        Reader::new(file)
    }
}

impl<S: Source> Reader<S> {
    /// Reads the header and finds the chains.
    pub fn new(source: S) -> Result<Reader<S>, ReadError> {
        let (header, is_cut_short) = read_header(&source)?;
        let mut merge = find_chains(&source)?;
        merge.advance_all(&source);
        Ok(Reader { source, header, is_cut_short, merge })
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the record ended before the process: it could not grow. What happened later is not in it.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Where chains could not be read on, as far as was read.
    pub fn damage(&self) -> &[Damage] {
        &self.merge.damage
    }
}

impl<S: Source> Iterator for Reader<S> {
    type Item = Entry<'static>;

    fn next(&mut self) -> Option<Entry<'static>> {
        let entry = self.merge.next(None, &self.source);
        if entry.is_none() {
            self.merge.finish();
        }
        entry
    }
}

/// The header of a record, and whether it was cut short.
pub(crate) fn read_header(source: &impl Source) -> Result<(Header, bool), ReadError> {
    let mut bytes = vec![0; HEADER_BYTES];
    let count = source.read_at(0, &mut bytes)?;
    let bytes = &bytes[..count];
    Ok((Header::decode(bytes)?, is_cut_short(bytes)))
}

/// The chains of a file. A segment that is not full ends its chain, see [`crate::layout`].
fn find_chains(source: &impl Source) -> Result<Merge, ReadError> {
    let length = source.length()?;
    let mut segments: BTreeMap<(u32, u32), (u64, Segment)> = BTreeMap::new();
    let mut damage = Vec::new();
    let mut offset = HEADER_BYTES as u64;
    while offset < length {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let count = source.read_at(offset, &mut bytes)?;
        if let Some(segment) = Segment::decode(&bytes[..count]) {
            let key = (segment.chain, segment.ordinal);
            let is_new = segments.insert(key, (offset, segment)).is_none();
            if !is_new || segment.used as usize > PAYLOAD_BYTES {
                segments.remove(&key);
                let reason = format!("its segment at byte {offset} is damaged");
                damage.push(Damage { thread: segment.thread, reason });
            }
        }
        offset += SEGMENT_BYTES as u64;
    }
    let piece = (PIECE_SEGMENTS * SEGMENT_BYTES) as u64;
    if length.saturating_sub(HEADER_BYTES as u64) % piece != 0 {
        let reason = "the file was cut off: the entries of any thread may be missing".to_owned();
        damage.push(Damage { thread: 0, reason });
    }
    let mut chains: Vec<Chain> = Vec::new();
    let mut current = None;
    for ((number, ordinal), (offset, segment)) in segments {
        if current != Some(number) {
            current = Some(number);
            chains.push(Chain::new(segment.thread));
        }
        let chain = chains.last_mut().expect("one was pushed");
        if ordinal == chain.next_ordinal && chain.parts.back().is_none_or(Part::is_full) {
            chain.push(Part::new(offset, segment.used));
        }
    }
    Ok(Merge::new(chains, damage))
}

#[cfg(test)]
mod tests;
