//! The entries of one thread, read from its segments, and of all threads, merged in the order of time.

use crate::decode::{DecodeError, Decoder};
use crate::entry::Entry;
use crate::layout::*;
use crate::reader::{Damage, Source};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A segment of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Where its header stands in the file.
    pub offset: u64,
    /// Bytes of entries that count, as far as it is known.
    pub used: usize,
    /// How many of them were read.
    read: usize,
}

impl Part {
    pub fn new(offset: u64, used: u32) -> Part {
        Part { offset, used: used as usize, read: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.used == PAYLOAD_BYTES
    }
}

/// The segments of one thread. It holds the bytes of one of them, and the next entry.
pub(crate) struct Chain {
    pub thread: u64,
    /// Those that were not read to their end, in their order.
    pub parts: VecDeque<Part>,
    pub next_ordinal: u32,
    decoder: Decoder,
    /// Bytes that were read and not decoded yet, from `taken` on.
    bytes: Vec<u8>,
    taken: usize,
    entry: Option<Entry<'static>>,
    is_damaged: bool,
}

impl Chain {
    pub fn new(thread: u64) -> Chain {
        Chain {
            thread,
            parts: VecDeque::new(),
            next_ordinal: 0,
            decoder: Decoder::new(thread),
            bytes: Vec::new(),
            taken: 0,
            entry: None,
            is_damaged: false,
        }
    }

    /// The next segment.
    pub fn push(&mut self, part: Part) {
        self.parts.push_back(part);
        self.next_ordinal += 1;
    }

    /// True if nothing is left of what was read and counted.
    pub fn is_read(&self) -> bool {
        self.taken == self.bytes.len()
    }

    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// The next entry; `None` where no more of them are known. Segments that are read to their end are added to `done`.
    fn read_entry(
        &mut self,
        source: &impl Source,
        done: &mut Vec<u64>,
    ) -> Result<Option<Entry<'static>>, String> {
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
            if !self.read_more(source, done)? {
                return Ok(None);
            }
        }
    }

    /// Appends bytes that count and were not read; false if there are none.
    fn read_more(&mut self, source: &impl Source, done: &mut Vec<u64>) -> Result<bool, String> {
        while let Some(part) = self.parts.front_mut() {
            if part.read == PAYLOAD_BYTES {
                done.push(part.offset);
                self.parts.pop_front();
                continue;
            }
            if part.read == part.used {
                return Ok(false);
            }
            self.bytes.drain(..self.taken);
            self.taken = 0;
            let start = self.bytes.len();
            self.bytes.resize(start + part.used - part.read, 0);
            let offset = part.offset + (SEGMENT_HEADER_BYTES + part.read) as u64;
            let count =
                source.read_at(offset, &mut self.bytes[start..]).map_err(|e| e.to_string())?;
            part.read += count;
            if self.bytes.len() > start + count {
                self.bytes.truncate(start + count);
                return Err(DecodeError::Truncated.to_string());
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Nothing more is read; the segments are done with.
    fn give_up(&mut self, done: &mut Vec<u64>) {
        self.is_damaged = true;
        self.taken = self.bytes.len();
        done.extend(self.parts.iter().filter(|part| part.is_full()).map(|part| part.offset));
        self.parts.retain(|part| !part.is_full());
    }
}

/// The entries of all chains in the order of time; at equal times in the order of the chains.
#[derive(Default)]
pub(crate) struct Merge {
    pub chains: Vec<Chain>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    pub damage: Vec<Damage>,
    /// Segments that were read to their end, by offset.
    pub done: Vec<u64>,
}

impl Merge {
    pub fn new(chains: Vec<Chain>, damage: Vec<Damage>) -> Merge {
        Merge { chains, damage, ..Merge::default() }
    }

    /// Reads the next entry of every chain that has none.
    pub fn advance_all(&mut self, source: &impl Source) {
        (0..self.chains.len()).for_each(|index| self.advance(index, source));
    }

    /// Reads the next entry of a chain, if it has none, and puts the chain where it belongs in the order.
    fn advance(&mut self, index: usize, source: &impl Source) {
        let chain = &mut self.chains[index];
        if chain.is_damaged {
            return chain.give_up(&mut self.done);
        }
        if chain.entry.is_some() {
            return;
        }
        match chain.read_entry(source, &mut self.done) {
            Ok(Some(entry)) => {
                self.heap.push(Reverse((entry.time_ns, index)));
                chain.entry = Some(entry);
            }
            Ok(None) => {}
            Err(reason) => {
                self.damage.push(Damage { thread: chain.thread, reason });
                chain.give_up(&mut self.done);
            }
        }
    }

    /// The next entry, if it happened before `end_ns`; whenever it happened, without one.
    pub fn next(&mut self, end_ns: Option<u64>, source: &impl Source) -> Option<Entry<'static>> {
        let Reverse((time_ns, index)) = *self.heap.peek()?;
        if end_ns.is_some_and(|end_ns| time_ns >= end_ns) {
            return None;
        }
        self.heap.pop();
        let entry = self.chains[index].entry.take();
        self.advance(index, source);
        entry
    }

    /// Chains that end inside of an entry are damaged, now that nothing comes after.
    pub fn finish(&mut self) {
        for chain in self.chains.iter_mut().filter(|chain| !chain.is_damaged) {
            if chain.entry.is_none() && !chain.is_read() {
                chain.is_damaged = true;
                let reason = DecodeError::Truncated.to_string();
                self.damage.push(Damage { thread: chain.thread, reason });
            }
        }
    }
}
