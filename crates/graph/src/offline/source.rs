//! The bytes of a model, wherever they are.

use bytes::Bytes;
use std::ops::Range;

/// Bytes of a model that are read in parts. [`Bytes`] give parts without a copy, borrowed ones a copy of each.
pub trait ModelBytes {
    /// How many there are.
    fn length(&self) -> usize;

    /// Some of them; the range is inside. An error says why they cannot be read.
    fn part(&self, range: Range<usize>) -> Result<Bytes, String>;

    /// All of them.
    fn all(&self) -> Result<Bytes, String> {
        self.part(0..self.length())
    }

    /// The first bytes, at most `count`.
    fn head(&self, count: usize) -> Result<Bytes, String> {
        self.part(0..count.min(self.length()))
    }
}

impl ModelBytes for Bytes {
    fn length(&self) -> usize {
        self.len()
    }

    fn part(&self, range: Range<usize>) -> Result<Bytes, String> {
        Ok(self.slice(range))
    }
}

impl ModelBytes for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn part(&self, range: Range<usize>) -> Result<Bytes, String> {
        Ok(Bytes::copy_from_slice(&self[range]))
    }
}

impl ModelBytes for Vec<u8> {
    fn length(&self) -> usize {
        self.len()
    }

    fn part(&self, range: Range<usize>) -> Result<Bytes, String> {
        (&self[..]).part(range)
    }
}
