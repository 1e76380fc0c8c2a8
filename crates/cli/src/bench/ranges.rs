//! The model that a pool is compared with: which bytes are held.

use std::collections::BTreeMap;

/// Ranges of addresses, no two of which share a byte.
#[derive(Default)]
pub struct LiveRanges {
    ranges: BTreeMap<usize, u64>,
}

impl LiveRanges {
    /// Adds a range; the error says which live one shares bytes with it. A range of 0 bytes only needs an address of its own.
    pub fn insert(&mut self, address: usize, bytes: u64) -> Result<(), String> {
        let end = address.saturating_add(bytes.max(1) as usize);
        let before = self.ranges.range(..end).next_back();
        if let Some((&start, &length)) = before
            && start.saturating_add(length.max(1) as usize) > address
        {
            return Err(format!(
                "a block of {bytes} bytes was given at {address:#x}, inside of the live block {start:#x} of {length} bytes"
            ));
        }
        self.ranges.insert(address, bytes);
        Ok(())
    }

    /// Removes the range that begins at an address.
    pub fn remove(&mut self, address: usize) {
        self.ranges.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_is_held_twice() {
        let mut ranges = LiveRanges::default();
        ranges.insert(1000, 100).unwrap();
        ranges.insert(1100, 0).unwrap();
        ranges.insert(900, 100).unwrap();
        for (address, bytes) in [(1000, 100), (1099, 1), (950, 51), (0, 5000), (1100, 0), (950, 0)]
        {
            assert!(ranges.insert(address, bytes).is_err(), "{address} {bytes}");
        }
        ranges.remove(1000);
        ranges.insert(1000, 100).unwrap();
        assert!(ranges.insert(usize::MAX - 10, 100).is_ok());
    }
}
