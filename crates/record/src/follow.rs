//! Reads a record while it is written.
//!
//! Entries of different threads are merged by their times, so an entry may be taken only when no thread can still write an earlier
//! one. A chain that was seen not [busy](crate::layout::BUSY) at some moment writes later ones only; the earliest such moment of
//! all chains is the *horizon*, and entries before it are complete.
//!
//! ```text
//!  chain 1   ──e──e──────e────── (idle) ···········│ looked at
//!  chain 2   ─────e──e────── (busy since ?)        │
//!                             ^ seen idle before   │
//!  taken     ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓│ horizon             │ now
//! ```

use crate::chain::{Chain, Merge, Part};
use crate::entry::Entry;
use crate::layout::*;
use crate::reader::{Damage, ReadError, Source, read_header};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

/// How far the horizon stays behind the moment at which a chain was seen idle: a thread reads the clock right after it has
/// stored that it is busy, and others see that store a little later.
pub const MARGIN_NS: u64 = 1_000_000;

/// A record that is being written, read as far as it is decided.
///
/// [`Follower::poll`] looks at the file; [`Follower::next_entry`] gives what is complete then, in the order of time. When the
/// process has ended, [`Follower::finish`] makes everything complete.
pub struct Follower<S = File> {
    source: S,
    header: Header,
    merge: Merge,
    /// When each chain was last seen not busy, in the order of `merge.chains`.
    idle_at_ns: Vec<u64>,
    /// Which of them a chain's number is.
    numbers: HashMap<u32, usize>,
    /// Where the first segment stands that nobody uses yet.
    next_offset: u64,
    /// When the file was last looked at.
    looked_ns: u64,
    /// Entries before this time are complete; `None`: all are.
    horizon_ns: Option<u64>,
    is_cut_short: bool,
}

impl Follower<File> {
    /// Opens a record. A file whose header is not written yet is [`ReadError::Foreign`] or [`ReadError::Damaged`].
    pub fn open(path: &Path) -> Result<Follower, ReadError> {
        Follower::new(File::open(path)?)
    }
}

impl<S: Source> Follower<S> {
    /// Reads the header.
    pub fn new(source: S) -> Result<Follower<S>, ReadError> {
        let (header, is_cut_short) = read_header(&source)?;
        Ok(Follower {
            source,
            header,
            merge: Merge::default(),
            idle_at_ns: Vec::new(),
            numbers: HashMap::new(),
            next_offset: HEADER_BYTES as u64,
            looked_ns: 0,
            horizon_ns: Some(0),
            is_cut_short,
        })
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the record ended before the process, as far as is known.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Where chains could not be read on, as far as was read.
    pub fn damage(&self) -> &[Damage] {
        &self.merge.damage
    }

    /// Looks at the file. `now_ns` is the time of the monotonic clock, read before this call.
    pub fn poll(&mut self, now_ns: u64) -> io::Result<()> {
        self.look(now_ns)?;
        let open = self.merge.chains.iter().zip(&self.idle_at_ns);
        let idle = open.filter(|(chain, _)| !chain.is_damaged()).map(|(_, idle)| *idle).min();
        let horizon = idle.unwrap_or(now_ns).saturating_sub(MARGIN_NS);
        self.horizon_ns = self.horizon_ns.map(|before| before.max(horizon));
        self.merge.advance_all(&self.source);
        Ok(())
    }

    /// The next entry that is complete.
    pub fn next_entry(&mut self) -> Option<Entry<'static>> {
        self.merge.next(self.horizon_ns, &self.source)
    }

    /// The process has ended: everything that counts is complete. What is damaged is known when the last entry was taken and this
    /// is called again.
    pub fn finish(&mut self) -> io::Result<()> {
        self.look(u64::MAX)?;
        self.is_cut_short = read_header(&self.source).map_or(self.is_cut_short, |(_, cut)| cut);
        self.horizon_ns = None;
        self.merge.advance_all(&self.source);
        self.merge.finish();
        Ok(())
    }

    /// The offsets of the segments that were read to their end since the last call: nobody reads or writes them again.
    pub fn take_done(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.merge.done)
    }

    /// The file.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// What counts by now, and which chains are idle.
    fn look(&mut self, now_ns: u64) -> io::Result<()> {
        let mut is_idle = Vec::with_capacity(self.merge.chains.len());
        for chain in &mut self.merge.chains {
            is_idle.push(look_at(chain, &self.source)?);
        }
        self.find_segments(&mut is_idle)?;
        // The bytes that count are there: what counts is stored after them.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        for (idle_at_ns, _) in self.idle_at_ns.iter_mut().zip(is_idle).filter(|(_, idle)| *idle) {
            *idle_at_ns = now_ns;
        }
        self.looked_ns = now_ns;
        Ok(())
    }

    /// Finds segments that were taken since the last look; their chains may have been busy between the two looks.
    fn find_segments(&mut self, is_idle: &mut Vec<bool>) -> io::Result<()> {
        loop {
            let mut header = [0; SEGMENT_HEADER_BYTES];
            let count = self.source.read_at(self.next_offset, &mut header)?;
            let Some(segment) = Segment::decode(&header[..count]) else { return Ok(()) };
            let offset = self.next_offset;
            self.next_offset += SEGMENT_BYTES as u64;
            let index = *self.numbers.entry(segment.chain).or_insert_with(|| {
                self.merge.chains.push(Chain::new(segment.thread));
                self.idle_at_ns.push(self.looked_ns);
                self.merge.chains.len() - 1
            });
            is_idle.resize(self.merge.chains.len(), false);
            is_idle[index] = false;
            let chain = &mut self.merge.chains[index];
            if segment.ordinal == chain.next_ordinal && segment.used as usize <= PAYLOAD_BYTES {
                chain.push(Part::new(offset, segment.used));
            } else {
                let reason = format!("its segment at byte {offset} is damaged");
                self.merge.damage.push(Damage { thread: segment.thread, reason });
            }
        }
    }
}

/// Takes note of what counts in the segments of a chain; true if it is not busy.
fn look_at(chain: &mut Chain, source: &impl Source) -> io::Result<bool> {
    let mut is_idle = true;
    for part in chain.parts.iter_mut().filter(|part| !part.is_full()) {
        let mut header = [0; SEGMENT_HEADER_BYTES];
        let count = source.read_at(part.offset, &mut header)?;
        let segment = Segment::decode(&header[..count]);
        is_idle &= !Segment::is_busy(&header);
        if let Some(segment) = segment.filter(|segment| segment.used as usize <= PAYLOAD_BYTES) {
            part.used = part.used.max(segment.used as usize);
        }
    }
    Ok(is_idle)
}

#[cfg(test)]
mod tests;
