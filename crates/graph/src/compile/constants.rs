//! Where constants lie in const memory.

use super::program::ALIGN;
use bytes::Bytes;
use cairn_ops::Packing;
use cairn_runtime::memory::mapped_file;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The constants that a load uploads.
pub type Constants = Vec<PlacedConstant>;

/// A constant, and where it goes in const memory.
#[derive(Clone)]
pub struct PlacedConstant {
    /// First byte.
    pub start: u64,
    /// Its bytes as the graph has them.
    pub bytes: Bytes,
    /// How a load packs them; `None` where they go there as they are.
    pub packing: Option<Packing>,
}

/// The constants of one or several graphs that share const memory. Equal bytes lie there once, and once for each way they
/// are packed.
#[derive(Default)]
pub struct ConstantLayout {
    offsets: HashMap<Key, u64>,
    end: u64,
}

impl ConstantLayout {
    /// Where these bytes begin; those that were not there before are added to `placed`.
    pub fn place(&mut self, bytes: &Bytes, placed: &mut Constants) -> u64 {
        self.place_packed(bytes, None, placed)
    }

    /// As [`ConstantLayout::place`], packed.
    pub fn place_packed(
        &mut self,
        bytes: &Bytes,
        packing: Option<Packing>,
        placed: &mut Constants,
    ) -> u64 {
        let format = packing.as_ref().map(|packing| packing.format.clone());
        let start =
            *self.offsets.entry(Key { bytes: bytes.clone(), format }).or_insert_with(|| {
                let start = self.end;
                let length = packing.as_ref().map_or(bytes.len(), |packing| packing.bytes);
                self.end = (start + length as u64).next_multiple_of(ALIGN);
                placed.push(PlacedConstant { start, bytes: bytes.clone(), packing });
                start
            });
        mapped_file::release(bytes);
        start
    }

    /// How many bytes of const memory there are.
    pub fn bytes(&self) -> u64 {
        self.end
    }
}

/// Bytes, and how they are packed. Of long ones only some are hashed: reading all of them takes as long as uploading them.
struct Key {
    bytes: Bytes,
    format: Option<Arc<str>>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.format == other.format && (self.bytes == other.bytes)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        const PARTS: usize = 64;
        const PART_BYTES: usize = 32;
        let bytes = &self.bytes;
        bytes.len().hash(state);
        if bytes.len() <= PARTS * PART_BYTES {
            return bytes.hash(state);
        }
        for part in 0..PARTS {
            let start = (bytes.len() - PART_BYTES) / (PARTS - 1) * part;
            state.write(&bytes[start..start + PART_BYTES]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_lie_there_once() {
        let (mut layout, mut placed) = (ConstantLayout::default(), Constants::new());
        let long: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
        let (mut other, copy) = (long.clone(), long.clone().into());
        let long = long.into();
        // A byte that the hash does not see.
        other[40] ^= 1;
        let first = layout.place(&long, &mut placed);
        assert_eq!(layout.place(&copy, &mut placed), first);
        assert_ne!(layout.place(&other.into(), &mut placed), first);
        assert_eq!(placed.len(), 2);
    }
}
