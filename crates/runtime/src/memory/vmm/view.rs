//! What a task sees of virtual memory: what was mapped when it was submitted, as far as that was unmapped since.
//!
//! ```text
//!  submitted    task 1          task 2           task 3
//!  program            unmap A          map B at the same addresses
//!  sees         A               nothing: fails   B
//! ```
//!
//! Task 1 finds A where it was; if B is there by now, its ranges are mapped once more, at addresses that only this task
//! has ([`Alias`]), and it runs on those. So neither an unmap nor a map waits for tasks that are queued.

use super::accesses::{AccessGuard, window_range};
use super::physical::Place;
use super::tables::{RetiredPiece, Tables};
use super::window::Alias;
use super::{VirtualMemory, WINDOW};
use crate::clock::Epoch;
use crate::error::{Code, Error, Result};
use crate::memory::locate::{AddressBlock, BlockKind};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::task::{Span, Spans};
use smallvec::SmallVec;
use std::ops::Range;

use super::physical::PhysicalBytes;

/// What a task, or a copy that a thread makes, sees of virtual memory while it runs. What it sees stays until the drop.
pub struct View<'a> {
    vmm: &'a VirtualMemory,
    epoch: Option<Epoch>,
    /// `None` if it touches no virtual memory, or only other mappings of it.
    access: Option<AccessGuard<'a>>,
    touches_window: bool,
    /// What it sees that the program does not see any more.
    old: SmallVec<[OldRun; 0]>,
    aliases: SmallVec<[Alias; 0]>,
}

/// What lies at the start of a span, for a task of long ago.
struct OldRun {
    address: usize,
    bytes: usize,
    place: Place,
    block: AddressBlock,
}

/// A part of a span that lies in one piece.
struct Part<'t> {
    range: Range<usize>,
    place: Place,
    /// Where the piece begins, and what it is.
    start: usize,
    bytes: &'t Arc<PhysicalBytes>,
    /// It was unmapped since.
    is_old: bool,
    /// Its bytes are at these addresses.
    is_in_place: bool,
}

impl View<'_> {
    /// What it sees around the start of a span that the program does not see any more.
    pub fn old_run(&self, span: &Span) -> Option<(Place, AddressBlock)> {
        let run =
            self.old.iter().find(|old| old.address == span.address && old.bytes == span.bytes);
        run.map(|old| (old.place, old.block))
    }

    /// Whether a place may read and write the piece around an address, for this task; `None` if none is there.
    pub fn access(&self, address: usize, place: Place) -> Option<bool> {
        if let Some(epoch) = self.epoch.filter(|_| !self.old.is_empty()) {
            let tables = self.vmm.tables.lock();
            let is_there = |piece: &&RetiredPiece| piece.range().contains(&address);
            if let Some(piece) = tables.retired_for(epoch).find(is_there) {
                return Some(piece.piece.has_access(place));
            }
        }
        self.vmm.access(address, place)
    }

    /// Where the bytes of these spans lie, if not at their own addresses.
    pub fn places(&self, spans: &[Span]) -> Option<Spans> {
        if self.aliases.is_empty() {
            return None;
        }
        let place = |span: &Span| {
            let alias = self.aliases.iter().find_map(|alias| alias.place(span.address));
            Span { address: alias.unwrap_or(span.address), ..*span }
        };
        Some(spans.iter().map(place).collect())
    }

    /// True if it does not see what was unmapped since the task was submitted, and may have missed that.
    pub fn may_be_late(&self) -> bool {
        self.touches_window
            && self.epoch.is_some()
            && self.old.is_empty()
            && self.vmm.waiting.load(Ordering::SeqCst) > 0
    }

    /// Finds out what was unmapped since the task was submitted.
    pub fn look_back(&mut self, reads: &[Span], writes: &[Span]) -> Result<()> {
        let Some(epoch) = self.epoch else { return Ok(()) };
        let tables = self.vmm.tables.lock();
        let spans =
            || reads.iter().chain(writes).filter_map(|span| Some((span, window_range(span)?)));
        let is_touched = |piece: &RetiredPiece| {
            let other = piece.range();
            spans().any(|(_, range)| range.start < other.end && other.start < range.end)
        };
        if !tables.retired_for(epoch).any(is_touched) {
            return Ok(());
        }
        let mut is_displaced = false;
        for (span, range) in spans() {
            let parts = parts_of(&tables, epoch, range);
            is_displaced |= parts.iter().any(|part| !part.is_in_place);
            let (Some(first), Some(last)) = (parts.first(), parts.last()) else { continue };
            if parts.iter().any(|part| part.is_old) {
                let bytes = (last.range.end - first.start) as u64;
                let (start, live, huge, kind) = (first.start, true, true, BlockKind::Mapped);
                let block = AddressBlock { start, bytes, live, huge, kind };
                let (address, bytes) = (span.address, span.bytes);
                self.old.push(OldRun { address, bytes, place: first.place, block });
            }
        }
        if is_displaced {
            let page = rustix::param::page_size();
            let ranges = spans()
                .map(|(_, range)| range.start / page * page..range.end.next_multiple_of(page))
                .map(|range| range.start..range.end.min(WINDOW.end));
            for range in joined(ranges.collect()) {
                if let Some(alias) = alias(&parts_of(&tables, epoch, range.clone()), &range)? {
                    self.aliases.push(alias);
                }
            }
            drop(tables);
            self.access = None;
        }
        Ok(())
    }
}

/// Sorted, and overlapping ones as one.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Maps parts once more, side by side; `None` if they are not all of the range.
fn alias(parts: &[Part<'_>], range: &Range<usize>) -> Result<Option<Alias>> {
    if parts.last().is_none_or(|last| last.range.end < range.end) {
        return Ok(None);
    }
    let mapped = Alias::new(range.clone()).and_then(|alias| {
        for part in parts {
            let (from, to) = (part.range.start - part.start, part.range.end - part.start);
            let mut at = part.range.start;
            for (file, offset, bytes) in part.bytes.parts_between(from as u64..to as u64) {
                alias.back(at, bytes, (file, offset))?;
                at += bytes as usize;
            }
        }
        Ok(alias)
    });
    mapped.map(Some).map_err(|error| {
        Error::new(
            Code::MemoryAllocation,
            format!(
                "{} bytes at {:#x}, which were unmapped after the task was submitted, and in whose place others are, cannot be mapped for it: {error}",
                range.end - range.start,
                range.start
            ),
        )
    })
}

/// What a task sees in a range, from its start to where that ends: pieces of one reservation and one owner.
fn parts_of<'t>(tables: &'t Tables, epoch: Epoch, range: Range<usize>) -> SmallVec<[Part<'t>; 4]> {
    let mut parts: SmallVec<[Part<'t>; 4]> = SmallVec::new();
    let mut reservation: Option<Range<usize>> = None;
    let mut at = range.start;
    while at < range.end {
        let mut end = range.end;
        let mut found = None;
        for piece in tables.retired_for(epoch) {
            let other = piece.range();
            if other.contains(&at) {
                end = end.min(other.end);
                found = Some(piece);
                break;
            }
            if other.start > at {
                end = end.min(other.start);
            }
        }
        let part = match found {
            Some(piece) => Some((
                Part {
                    range: at..end,
                    place: piece.place(),
                    start: piece.start,
                    bytes: &piece.bytes,
                    is_old: true,
                    is_in_place: piece.is_in_place(),
                },
                piece.reservation.clone(),
                piece.piece.is_visible,
            )),
            None => tables.piece_in(&(at..at + 1)).and_then(|(start, piece)| {
                let entry = tables.physicals.get(&piece.physical.id())?;
                let around = tables.reservation_range(at)?;
                let part = Part {
                    range: at..end.min(start + piece.bytes as usize),
                    place: piece.physical.spec.place,
                    start,
                    bytes: &entry.bytes,
                    is_old: false,
                    is_in_place: true,
                };
                Some((part, around, piece.is_visible))
            }),
        };
        let Some((part, around, true)) = part else { break };
        let fits = parts.first().is_none_or(|first| first.place == part.place);
        if !fits || reservation.as_ref().is_some_and(|known| *known != around) {
            break;
        }
        reservation = Some(around);
        at = part.range.end;
        parts.push(part);
    }
    parts
}

impl VirtualMemory {
    /// What a task sees of the virtual memory that it reads and writes, or without an epoch what the program sees now. What
    /// it sees is not taken away before the view is dropped.
    pub fn view(&self, epoch: Option<Epoch>, reads: &[Span], writes: &[Span]) -> Result<View<'_>> {
        let touches_window = self.window.get().is_some()
            && reads.iter().chain(writes).any(|span| window_range(span).is_some());
        let access = touches_window.then(|| self.accesses.begin(epoch, reads.iter().chain(writes)));
        let (old, aliases) = (SmallVec::new(), SmallVec::new());
        let mut view = View { vmm: self, epoch, access, touches_window, old, aliases };
        if view.may_be_late() {
            view.look_back(reads, writes)?;
        }
        Ok(view)
    }
}
