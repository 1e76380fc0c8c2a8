//! Bytes to be written that lie in several places.

use bytes::Bytes;
use cairn_runtime::memory::mapped_file;
use std::fs::File;
use std::io::{self, Seek, Write};

/// Bytes in pieces, one after the other. Nothing is copied until they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    pieces: Vec<Bytes>,
    length: usize,
}

/// What is written at a time: pages of a mapped file that were written need not stay in memory.
const CHUNK: usize = 1 << 20;

impl<B: Into<Bytes>> From<B> for Pieces {
    /// One piece.
    fn from(bytes: B) -> Pieces {
        let mut pieces = Pieces::default();
        pieces.push(bytes);
        pieces
    }
}

impl Pieces {
    /// How many bytes there are.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.length += bytes.len();
        self.pieces.push(bytes);
    }

    /// Appends other pieces.
    pub fn append(&mut self, other: Pieces) {
        self.length += other.length;
        self.pieces.extend(other.pieces);
    }

    /// Appends zeros until the length is a multiple of `align`, which is at most 64.
    pub fn align(&mut self, align: usize) {
        static ZEROS: [u8; 64] = [0; 64];
        let missing = self.length.next_multiple_of(align) - self.length;
        if missing > 0 {
            self.push(Bytes::from_static(&ZEROS[..missing]));
        }
    }

    /// Writes all of them to an empty file, in which long rows of zeros become holes. Pages of mapped files that were written
    /// leave memory.
    pub fn write_to(&self, file: &mut File) -> io::Result<()> {
        for chunk in self.pieces.iter().flat_map(|piece| piece.chunks(CHUNK)) {
            mapped_file::fetch(chunk)?;
            match chunk.len() == CHUNK && chunk.iter().all(|byte| *byte == 0) {
                true => drop(file.seek_relative(CHUNK as i64)?),
                false => file.write_all(chunk)?,
            }
            mapped_file::release(chunk);
        }
        file.set_len(self.length as u64)
    }

    /// All of them in one place.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.length);
        self.pieces.iter().for_each(|piece| all.extend_from_slice(piece));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other() {
        let mut pieces = Pieces::default();
        pieces.push(vec![1, 2, 3]);
        pieces.align(8);
        pieces.align(8);
        pieces.append(Pieces::from(&b"end"[..]));
        assert_eq!(pieces.to_vec(), [1, 2, 3, 0, 0, 0, 0, 0, b'e', b'n', b'd']);
        assert_eq!(pieces.length(), 11);
        let mut long = pieces.to_vec();
        long.resize(3 * CHUNK + 5, 0);
        for pieces in [pieces, Pieces::from(long)] {
            let path = std::env::temp_dir().join(format!("cairn-pieces-{}", std::process::id()));
            pieces.write_to(&mut File::create(&path).unwrap()).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), pieces.to_vec());
            std::fs::remove_file(path).unwrap();
        }
    }
}
