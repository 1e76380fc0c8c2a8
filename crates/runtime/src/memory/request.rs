//! What is asked of the makers of memory.

use super::tlsf::GRANULE;

/// What an allocation asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes the user may touch.
    pub bytes: u64,
    /// A power of two, at least 512.
    pub align: u64,
    /// Back it by huge pages.
    pub huge: Huge,
    /// Bytes kept in front of the user's, a multiple of `align`: the room of a layer.
    pub front: u64,
    /// Bytes kept behind the user's.
    pub back: u64,
    /// An address near which the memory would be welcome.
    pub near: Option<usize>,
}

impl Request {
    /// Plain bytes.
    pub fn bytes(bytes: u64) -> Request {
        Request { bytes, align: GRANULE, huge: Huge::No, front: 0, back: 0, near: None }
    }

    /// Everything that has to be found: the user's bytes and the room around them.
    pub fn whole(&self) -> Option<u64> {
        self.bytes.checked_add(self.front)?.checked_add(self.back)
    }
}

/// Whether huge pages are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Huge {
    /// Ordinary pages.
    No,
    /// If they can be had.
    Wished,
    /// Or the allocation fails.
    Required,
}
