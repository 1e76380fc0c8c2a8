//! Reads a record: all its chains, merged in the order of time.

use crate::decode::{DecodeError, Decoder};
use crate::entry::Entry;
use crate::layout::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
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
    chains: Vec<Chain>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    damage: Vec<Damage>,
}

/// The segments of one thread.
struct Chain {
    segments: Vec<(u64, Segment)>,
    /// The next one to be read.
    next_segment: usize,
    decoder: Decoder,
    /// Bytes that were read and not decoded yet, from `taken` on.
    bytes: Vec<u8>,
    taken: usize,
    thread: u64,
    entry: Option<Entry<'static>>,
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
        let mut header = vec![0; HEADER_BYTES];
        let count = source.read_at(0, &mut header)?;
        let header = Header::decode(&header[..count])?;
        let (chains, damage) = find_chains(&source)?;
        let mut reader = Reader { source, header, chains, heap: BinaryHeap::new(), damage };
        for index in 0..reader.chains.len() {
            reader.advance(index);
        }
        Ok(reader)
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where chains could not be read on, as far as was read.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Reads the next entry of a chain, and puts the chain where it belongs in the order.
    fn advance(&mut self, index: usize) {
        let chain = &mut self.chains[index];
        match chain.read_entry(&self.source) {
            Ok(Some(entry)) => {
                self.heap.push(Reverse((entry.time_ns, index)));
                chain.entry = Some(entry);
            }
            Ok(None) => {}
            Err(reason) => self.damage.push(Damage { thread: chain.thread, reason }),
        }
    }
}

impl<S: Source> Iterator for Reader<S> {
    type Item = Entry<'static>;

    fn next(&mut self) -> Option<Entry<'static>> {
        let Reverse((_, index)) = self.heap.pop()?;
        let entry = self.chains[index].entry.take();
        self.advance(index);
        entry
    }
}

impl Chain {
    /// The next entry; `None` at the end of the chain.
    fn read_entry(&mut self, source: &impl Source) -> Result<Option<Entry<'static>>, String> {
        loop {
            let rest = &self.bytes[self.taken..];
            if !rest.is_empty() {
                match self.decoder.decode(rest) {
                    Ok((entry, length)) => {
                        self.taken += length;
                        return Ok(Some(entry));
                    }
                    Err(DecodeError::Truncated) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            if !self.read_segment(source)? {
                let rest = self.bytes.len() - self.taken;
                return match rest {
                    0 => Ok(None),
                    _ => Err(DecodeError::Truncated.to_string()),
                };
            }
        }
    }

    /// Appends the bytes of the next segment; false at the end.
    fn read_segment(&mut self, source: &impl Source) -> Result<bool, String> {
        let Some((offset, segment)) = self.segments.get(self.next_segment).copied() else {
            return Ok(false);
        };
        self.next_segment += 1;
        self.bytes.drain(..self.taken);
        self.taken = 0;
        let start = self.bytes.len();
        self.bytes.resize(start + segment.used as usize, 0);
        let offset = offset + SEGMENT_HEADER_BYTES as u64;
        let count = source.read_at(offset, &mut self.bytes[start..]).map_err(|e| e.to_string())?;
        self.bytes.truncate(start + count);
        Ok(true)
    }
}

/// The chains of a file. A segment that is not full ends its chain, see [`crate::layout`].
fn find_chains(source: &impl Source) -> Result<(Vec<Chain>, Vec<Damage>), ReadError> {
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
            chains.push(Chain {
                segments: Vec::new(),
                next_segment: 0,
                decoder: Decoder::new(segment.thread),
                bytes: Vec::new(),
                taken: 0,
                thread: segment.thread,
                entry: None,
            });
        }
        let chain = chains.last_mut().expect("one was pushed");
        let is_next = ordinal as usize == chain.segments.len()
            && chain.segments.last().is_none_or(|(_, last)| last.used as usize == PAYLOAD_BYTES);
        if is_next {
            chain.segments.push((offset, segment));
        }
    }
    Ok((chains, damage))
}

#[cfg(test)]
mod tests;
