//! The blocks that a workload holds, compared with a model: where they lie, and what is in them.

use anyhow::Result;

use super::breach::{breach, check_place, refused};
use crate::bench::{
    pool::{Bench, Block, Refusal, Stream},
    ranges::LiveRanges,
};

/// Of a block longer than this only its ends and some places in between are read.
const WHOLE: u64 = 64 << 10;
/// How much is read at a place.
const PLACE: usize = 4096;
/// How many places there are in between.
const PLACES: u64 = 6;

/// A block that is held.
#[derive(Clone, Copy)]
pub struct Held {
    pub block: Block,
    pub stream: Stream,
    /// The value of all its bytes; `None` while nothing was written.
    value: Option<u8>,
}

/// Blocks that are held.
pub struct Ledger<'a> {
    bench: &'a Bench,
    ranges: LiveRanges,
    held: Vec<Held>,
    next_value: u8,
}

impl<'a> Ledger<'a> {
    pub fn new(bench: &'a Bench) -> Ledger<'a> {
        Ledger { bench, ranges: LiveRanges::default(), held: Vec::new(), next_value: 1 }
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn block(&self, index: usize) -> Block {
        self.held[index].block
    }

    /// Takes a block that must be there.
    pub fn take(&mut self, stream: &Stream, bytes: u64) -> Result<()> {
        match self.try_take(stream, bytes)? {
            true => Ok(()),
            false => Err(refused(bytes, &Refusal::Null)),
        }
    }

    /// Takes a block; false if the pool has none.
    pub fn try_take(&mut self, stream: &Stream, bytes: u64) -> Result<bool> {
        self.try_take_near(stream, bytes, 0)
    }

    /// The same, preferably at an address.
    pub fn try_take_near(&mut self, stream: &Stream, bytes: u64, near: usize) -> Result<bool> {
        match self.bench.allocate_near(stream, bytes, near) {
            Ok(block) => {
                check_place(self.bench, stream, &block)?;
                let inserted = self.ranges.insert(block.address, bytes);
                inserted.map_err(|text| breach("overlap", text))?;
                self.held.push(Held { block, stream: *stream, value: None });
                Ok(true)
            }
            Err(Refusal::Null) => Ok(false),
            Err(refusal) => Err(refused(bytes, &refusal)),
        }
    }

    /// Queues a task that writes a block, each time another value.
    pub fn write(&mut self, index: usize) -> Result<()> {
        let value = self.next_value;
        self.next_value = self.next_value.wrapping_add(37);
        let held = &mut self.held[index];
        self.bench.enter(held.stream.device)?;
        write(self.bench, held, value)
    }

    pub fn write_all(&mut self) -> Result<()> {
        (0..self.len()).try_for_each(|index| self.write(index))
    }

    /// Waits for the stream of a block, and compares what is in it.
    pub fn verify(&self, index: usize) -> Result<()> {
        self.bench.enter(self.held[index].stream.device)?;
        verify(self.bench, &self.held[index])
    }

    pub fn verify_all(&self) -> Result<()> {
        (0..self.len()).try_for_each(|index| self.verify(index))
    }

    /// Gives a block back; the last one takes its place.
    pub fn free(&mut self, index: usize) -> Result<()> {
        self.bench.enter(self.held[index].stream.device)?;
        self.free_from_here(index)
    }

    /// The same, whichever device the calling thread is on.
    pub fn free_from_here(&mut self, index: usize) -> Result<()> {
        let Held { block, stream, .. } = self.held.swap_remove(index);
        self.ranges.remove(block.address);
        self.bench.free(&stream, block)
    }

    pub fn free_all(&mut self) -> Result<()> {
        while self.len() > 0 {
            self.free(self.len() - 1)?;
        }
        Ok(())
    }
}

impl Held {
    /// A block that is in no ledger.
    pub fn new(block: Block, stream: Stream) -> Held {
        Held { block, stream, value: None }
    }
}

/// Queues a task that sets every byte of a block.
pub fn write(bench: &Bench, held: &mut Held, value: u8) -> Result<()> {
    let Block { address, bytes, .. } = held.block;
    held.value = Some(value);
    let filled = bench.acl().fill(held.stream.handle, address, bytes, value);
    filled.map_err(|error| unusable(&held.block, &error))
}

/// A block that a task cannot write.
fn unusable(block: &Block, error: &anyhow::Error) -> anyhow::Error {
    let Block { address, bytes, .. } = block;
    let text =
        format!("a task cannot write the {bytes} bytes of the block {address:#x}: {error:#}");
    breach("sizes", text)
}

/// Waits for the stream of a block, and compares what is in it with what was written.
pub fn verify(bench: &Bench, held: &Held) -> Result<()> {
    let Some(value) = held.value else { return Ok(()) };
    let Block { address, bytes, .. } = held.block;
    let synchronized = bench.acl().synchronize(held.stream.handle);
    synchronized.map_err(|error| unusable(&held.block, &error))?;
    let mut buffer = vec![0; (bytes as usize).min(WHOLE as usize)];
    for (offset, length) in places(bytes) {
        let part = &mut buffer[..length];
        bench.acl().read(address + offset as usize, part)?;
        if let Some(at) = part.iter().position(|byte| *byte != value) {
            return Err(breach(
                "contents",
                format!(
                    "byte {} of the block {address:#x} of {bytes} bytes was set to {value:#04x} and is {:#04x}: somebody else wrote there",
                    offset + at as u64,
                    part[at]
                ),
            ));
        }
    }
    Ok(())
}

/// Which parts of a block are read: offset and length.
fn places(bytes: u64) -> Vec<(u64, usize)> {
    if bytes <= WHOLE {
        return vec![(0, bytes as usize)];
    }
    let last = bytes - PLACE as u64;
    (0..=PLACES + 1)
        .map(|place| (last / (PLACES + 1) * place, PLACE))
        .chain([(last, PLACE)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_block_are_read() {
        assert_eq!(places(7), [(0, 7)]);
        for bytes in [WHOLE + 1, 3_000_001, 64 << 20] {
            let places = places(bytes);
            assert_eq!(places[0].0, 0);
            assert!(places.iter().all(|(at, length)| at + *length as u64 <= bytes));
            assert!(places.iter().any(|(at, length)| at + *length as u64 == bytes));
        }
    }
}
