//! Pieces unmapped: at once for the program and for tasks that are submitted later. Those submitted before go on seeing them
//! ([`super::view`]).

use super::physical::Place;
use super::tables::{PhysicalEntry, RetiredPiece, Standing, Tables};
use super::window::{PAGE, Window};
use super::{VirtualMemory, busy, memory_kind, take_if_unused};
use crate::error::{Error, Result};
use crate::lock::MutexGuard;
use crate::record::{Event, Kind};
use crate::sync::atomic::Ordering;
use crate::sync::{self, now_ns, thread};
use std::ops::Range;
use std::time::Duration;

/// How long a thread sleeps while it waits for tasks that touch what was unmapped.
const POLL: Duration = Duration::from_micros(100);
/// The longest wait for such tasks.
const LONGEST: Duration = Duration::from_secs(60);

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
        let reservation = tables.reservation_range(start)?;
        let piece = tables.pieces.remove(&start)?;
        let (kind, bytes) = (memory_kind(piece.physical.spec.place), piece.bytes);
        self.spine.emit(Kind::Free, || Event::Free { kind, address: start, bytes, stream: None });
        let entry = tables.physicals.get_mut(&piece.physical.id())?;
        entry.maps -= 1;
        let (physical, bytes) = (piece.physical.clone(), entry.bytes.clone());
        let is_visible = piece.is_visible;
        tables.retirements += 1;
        let retired = RetiredPiece {
            id: tables.retirements,
            start,
            piece,
            reservation,
            bytes,
            before: self.progress.tails(),
            standing: Standing::InPlace,
        };
        let range = retired.range();
        tables.retired.push(retired);
        // Whoever does not see this yet is seen among the accesses.
        self.waiting.store(tables.retired.len(), Ordering::SeqCst);
        if is_visible && let Some(window) = self.window.get() {
            window.hide(&range);
        }
        take_if_unused(tables, &physical)
    }

    /// Lets go of what nobody can touch any more.
    pub(super) fn reap(&self, tables: &mut Tables) {
        self.reap_where(tables, |piece| self.progress.covers_all(&piece.before));
    }

    fn reap_where(&self, tables: &mut Tables, is_over: impl Fn(&RetiredPiece) -> bool) {
        let Some(window) = self.window.get() else { return };
        tables.retired.retain_mut(|piece| {
            let is_over = is_over(piece);
            let is_untouched = piece.standing == Standing::Gone
                || is_over && self.accesses.toucher(&piece.range()).is_none();
            if is_over && is_untouched {
                self.displace(window, piece);
            }
            !(is_over && is_untouched)
        });
        self.waiting.store(tables.retired.len(), Ordering::SeqCst);
        for (start, bytes) in tables.take_released() {
            window.release(start, bytes);
        }
    }

    /// Takes a piece away from its addresses, at which nobody touches it.
    fn displace(&self, window: &Window, piece: &mut RetiredPiece) {
        if std::mem::replace(&mut piece.standing, Standing::Gone) == Standing::Gone {
            return;
        }
        let (address, bytes) = (piece.start, piece.piece.bytes);
        if let Err(error) = window.clear(address, bytes) {
            log::warn!("{bytes} bytes at {address:#x} stay mapped: {error}");
        }
        let kind = memory_kind(piece.place());
        self.spine.emit(Kind::Reusable, || Event::Reusable { kind, address, bytes });
    }

    /// Lets go of what nobody can touch any more. Costs a load where nothing waits.
    pub fn release_unmapped(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.reap(&mut self.tables.lock());
        }
    }

    /// Lets go of what no queued task names, whatever keeps those tasks from running. Slow: it looks at all of them. Call it
    /// without a lock.
    pub fn release_untouched(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let last = self.tables.lock().retirements;
        let queued = self.progress.queued_memory();
        self.reap_where(&mut self.tables.lock(), |piece| {
            let (range, is_host) = (piece.range(), piece.place() == Place::Host);
            self.progress.covers_all(&piece.before)
                || piece.id <= last
                    && !queued.touches(range.start, range.end)
                    && !(is_host && queued.host_function)
        });
    }

    /// Frees the addresses of a range from what was unmapped there. Waits for nothing but tasks that touch it at this moment,
    /// and copies of other threads; queued ones find it elsewhere.
    pub(super) fn vacate(&self, range: &Range<usize>) -> Result<MutexGuard<'_, Tables>> {
        let began = now_ns();
        let mut log_after = self.log_after;
        loop {
            let mut tables = self.tables.lock();
            self.reap(&mut tables);
            let mut toucher = None;
            if let Some(window) = self.window.get() {
                let here = |piece: &&mut RetiredPiece| {
                    piece.standing != Standing::Gone && piece.overlaps(range)
                };
                for piece in tables.retired.iter_mut().filter(here) {
                    piece.standing = Standing::Leaving;
                    match self.accesses.toucher(&piece.range()) {
                        None => self.displace(window, piece),
                        touching => toucher = touching,
                    }
                }
            }
            let Some(toucher) = toucher else { return Ok(tables) };
            drop(tables);
            let waited = Duration::from_nanos(now_ns() - began);
            let what = || {
                format!(
                    "{toucher} still touches what was unmapped at {:#x}, in whose place other memory is to be mapped",
                    range.start
                )
            };
            if sync::REAL_TIME && waited >= LONGEST {
                return Err(busy(format!("after {} s {}", waited.as_secs(), what())));
            }
            if sync::REAL_TIME && waited >= log_after {
                log::warn!("a map has waited {:.1} s: {}", waited.as_secs_f64(), what());
                log_after = log_after.saturating_mul(2);
            }
            match sync::REAL_TIME {
                true => thread::sleep(POLL),
                false => thread::yield_now(),
            }
        }
    }
}
