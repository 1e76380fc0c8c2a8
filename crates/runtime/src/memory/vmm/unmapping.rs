//! Pieces unmapped: at once for the program, for tasks when those submitted before are done.

use super::tables::{PhysicalEntry, RetiredPiece, Tables};
use super::window::PAGE;
use super::{VirtualMemory, busy, memory_kind, take_if_unused};
use crate::error::{Error, Result};
use crate::host;
use crate::lock::MutexGuard;
use crate::record::{Event, Kind};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{self, thread};
use std::ops::Range;
use std::time::Duration;

/// How long a thread sleeps while it waits for tasks that touch what was unmapped.
const POLL: Duration = Duration::from_micros(100);

impl VirtualMemory {
    /// Unmaps the piece that begins at an address; what it was, and what ended with it.
    pub(in crate::memory) fn unmap(&self, start: usize) -> Result<Option<PhysicalEntry>> {
        if !start.is_multiple_of(PAGE as usize) {
            return Err(Error::refused(format!("{start:#x} is not a multiple of {PAGE}")));
        }
        let mut tables = self.tables.lock();
        if !tables.pieces.contains_key(&start) {
            let there = match tables.piece_in(&(start..start + 1)) {
                Some((of, piece)) => {
                    format!("it lies inside the one of {} bytes at {of:#x}", piece.bytes)
                }
                None => "nothing is mapped there".into(),
            };
            return Err(busy(format!("{start:#x} is not the start of a mapped piece: {there}")));
        }
        let ended = self.retire(&mut tables, start);
        self.reap(&mut tables);
        Ok(ended)
    }

    /// Ends a piece for the program.
    pub(super) fn retire(&self, tables: &mut Tables, start: usize) -> Option<PhysicalEntry> {
        let piece = tables.pieces.remove(&start)?;
        let place = piece.physical.spec.place;
        let (kind, address, bytes) = (memory_kind(place), start, piece.bytes);
        self.spine.emit(Kind::Free, || Event::Free { kind, address, bytes, stream: None });
        let entry = tables.physicals.get_mut(&piece.physical.id())?;
        entry.maps -= 1;
        tables.retired.push(RetiredPiece {
            start,
            place,
            _bytes: entry.bytes.clone(),
            len: piece.bytes,
            tails: self.progress.tails(),
            is_hidden: !piece.is_visible,
        });
        self.waiting.store(tables.retired.len(), Ordering::Release);
        take_if_unused(tables, &piece.physical)
    }

    /// Lets go of what no task can touch any more.
    pub(super) fn reap(&self, tables: &mut Tables) {
        let Some(window) = self.window.get() else { return };
        let mut index = 0;
        while index < tables.retired.len() {
            let piece = &mut tables.retired[index];
            if !piece.is_hidden && self.progress.covers_all(&piece.tails) {
                window.hide(&piece.range());
                piece.is_hidden = true;
                fence(Ordering::SeqCst);
                piece.tails = self.progress.tails();
            }
            let is_untouched = piece.is_hidden
                && self.progress.covers_all(&piece.tails)
                && self.copies.load(Ordering::SeqCst) == 0;
            if !is_untouched {
                index += 1;
                continue;
            }
            let piece = tables.retired.remove(index);
            if let Err(error) = window.clear(piece.start, piece.len) {
                log::warn!("{} bytes at {:#x} stay mapped: {error}", piece.len, piece.start);
            }
            let (kind, address, bytes) = (memory_kind(piece.place), piece.start, piece.len);
            self.spine.emit(Kind::Reusable, || Event::Reusable { kind, address, bytes });
        }
        self.waiting.store(tables.retired.len(), Ordering::Release);
        for (start, bytes) in tables.take_released() {
            window.release(start, bytes);
        }
    }

    /// Lets go of what no task can touch any more. Costs a load where nothing waits.
    pub fn release_unmapped(&self) {
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.reap(&mut self.tables.lock());
        }
    }

    /// Waits until nothing that was unmapped in a range is touched by tasks any more.
    pub(super) fn wait_for_tasks(&self, range: &Range<usize>) -> Result<MutexGuard<'_, Tables>> {
        loop {
            let mut tables = self.tables.lock();
            self.reap(&mut tables);
            if !tables.is_waiting(range) {
                return Ok(tables);
            }
            drop(tables);
            if host::host_function_of() != 0 {
                return Err(busy(format!(
                    "tasks may still touch what was unmapped at {:#x}, and a host function cannot wait for them",
                    range.start
                )));
            }
            match sync::REAL_TIME {
                true => thread::sleep(POLL),
                false => thread::yield_now(),
            }
        }
    }
}
