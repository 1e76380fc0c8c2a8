//! Who touches virtual memory right now: tasks that run, and copies that threads of the program make.
//!
//! ```text
//!  toucher: its ranges into a slot ──> is anything unmapped?        the other order on the other side, so one of the
//!  mapper:  "this was unmapped"    ──> whose slots overlap it?      two sees the other
//! ```

use super::WINDOW;
use crate::clock::Epoch;
use crate::sync;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::task::Span;
use std::cell::Cell;
use std::fmt;
use std::ops::Range;

/// As many touch virtual memory at a time without sharing a slot.
const SLOTS: usize = if sync::REAL_TIME { 64 } else { 4 };
/// Ranges that a slot keeps apart; further ones are one, with what lies between.
const RANGES: usize = 8;

const FREE: usize = 0;
const CLAIMED: usize = 1;
/// A slot with no ranges; one with more has this and their number.
const FILLED: usize = 2;

/// Whoever touches virtual memory, each in a slot of its own.
///
/// **Threads.** Any; nobody waits. **Cost.** Two atomic exchanges for an access.
pub(super) struct Accesses {
    slots: [Slot; SLOTS],
    /// Accesses that found no slot, and may be anywhere.
    elsewhere: AtomicUsize,
}

#[derive(Default)]
#[repr(align(64))]
struct Slot {
    state: AtomicUsize,
    ranges: [(AtomicUsize, AtomicUsize); RANGES],
    /// Stream, plus one, and number of the task; 0 for a thread of the program.
    stream: AtomicU64,
    seq: AtomicU64,
}

/// Who touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toucher {
    /// A task.
    Task(Epoch),
    /// A thread of the program, outside of tasks.
    Thread,
}

impl fmt::Display for Toucher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Toucher::Task(Epoch { stream, seq }) => write!(f, "task {seq} of stream {stream}"),
            Toucher::Thread => write!(f, "a copy that a thread makes"),
        }
    }
}

/// An access is under way; it ends with the drop.
pub(super) struct AccessGuard<'a> {
    accesses: &'a Accesses,
    slot: Option<usize>,
}

impl Drop for AccessGuard<'_> {
    fn drop(&mut self) {
        match self.slot {
            Some(slot) => self.accesses.slots[slot].state.store(FREE, Ordering::SeqCst),
            None => _ = self.accesses.elsewhere.fetch_sub(1, Ordering::SeqCst),
        }
    }
}

impl Default for Accesses {
    fn default() -> Accesses {
        Accesses { slots: std::array::from_fn(|_| Slot::default()), elsewhere: AtomicUsize::new(0) }
    }
}

/// The addresses of a span, if they are virtual memory.
pub(super) fn window_range(span: &Span) -> Option<Range<usize>> {
    (span.bytes > 0 && WINDOW.contains(&span.address))
        .then(|| span.address..span.address.saturating_add(span.bytes))
}

thread_local! {
    /// Where this thread found its last slot.
    static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}

static NEXT_HINT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

fn hint() -> usize {
    HINT.with(|hint| {
        if hint.get() == usize::MAX {
            hint.set(NEXT_HINT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
        hint.get()
    })
}

impl Accesses {
    /// Somebody begins to touch those of the spans that are virtual memory.
    pub fn begin<'a>(
        &self,
        epoch: Option<Epoch>,
        spans: impl Iterator<Item = &'a Span>,
    ) -> AccessGuard<'_> {
        let first = if sync::REAL_TIME { hint() } else { 0 };
        let free = (0..SLOTS).map(|number| (first + number) % SLOTS).find(|&number| {
            let state = &self.slots[number].state;
            state.compare_exchange(FREE, CLAIMED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        });
        let Some(number) = free else {
            self.elsewhere.fetch_add(1, Ordering::SeqCst);
            return AccessGuard { accesses: self, slot: None };
        };
        let slot = &self.slots[number];
        let (stream, seq) = epoch.map_or((0, 0), |epoch| (u64::from(epoch.stream) + 1, epoch.seq));
        slot.stream.store(stream, Ordering::Relaxed);
        slot.seq.store(seq, Ordering::Relaxed);
        let mut count = 0;
        let mut rest: Option<Range<usize>> = None;
        for range in spans.filter_map(window_range) {
            if count < RANGES - 1 {
                slot.ranges[count].0.store(range.start, Ordering::Relaxed);
                slot.ranges[count].1.store(range.end, Ordering::Relaxed);
                count += 1;
            } else {
                let joined = rest.unwrap_or(range.clone());
                rest = Some(joined.start.min(range.start)..joined.end.max(range.end));
            }
        }
        if let Some(range) = rest {
            slot.ranges[count].0.store(range.start, Ordering::Relaxed);
            slot.ranges[count].1.store(range.end, Ordering::Relaxed);
            count += 1;
        }
        slot.state.store(FILLED + count, Ordering::SeqCst);
        AccessGuard { accesses: self, slot: Some(number) }
    }

    /// Somebody who touches a range now, or may. What begins after the call is not found.
    pub fn toucher(&self, range: &Range<usize>) -> Option<Toucher> {
        if self.elsewhere.load(Ordering::SeqCst) > 0 {
            return Some(Toucher::Thread);
        }
        self.slots.iter().find_map(|slot| {
            let count = match slot.state.load(Ordering::SeqCst) {
                FREE => return None,
                CLAIMED => return Some(Toucher::Thread),
                filled => filled - FILLED,
            };
            let overlaps = slot.ranges[..count].iter().any(|(start, end)| {
                start.load(Ordering::Relaxed) < range.end
                    && range.start < end.load(Ordering::Relaxed)
            });
            overlaps.then(|| match slot.stream.load(Ordering::Relaxed) {
                0 => Toucher::Thread,
                stream => Toucher::Task(Epoch {
                    stream: (stream - 1) as u32,
                    seq: slot.seq.load(Ordering::Relaxed),
                }),
            })
        })
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::task::Location;

    fn span(offset: usize, bytes: usize) -> Span {
        Span { address: WINDOW.start + offset, bytes, location: Location::Any }
    }

    fn range(offset: usize, bytes: usize) -> Range<usize> {
        WINDOW.start + offset..WINDOW.start + offset + bytes
    }

    #[test]
    fn ranges_are_touched_from_begin_to_drop_and_apart_from_each_other() {
        let accesses = Accesses::default();
        let epoch = Epoch { stream: 3, seq: 17 };
        let spans = [span(100, 10), span(1000, 10), Span { address: 5, ..span(0, 7) }];
        let guard = accesses.begin(Some(epoch), spans.iter());
        assert_eq!(accesses.toucher(&range(0, 101)), Some(Toucher::Task(epoch)));
        assert_eq!(accesses.toucher(&range(1009, 1)), Some(Toucher::Task(epoch)));
        assert_eq!(accesses.toucher(&range(110, 890)), None);
        assert_eq!(accesses.toucher(&range(0, 100)), None);
        drop(guard);
        assert_eq!(accesses.toucher(&range(0, 1 << 20)), None);
    }

    #[test]
    fn many_ranges_and_many_touchers_are_all_found() {
        let accesses = Accesses::default();
        let spans: Vec<_> = (0..20).map(|n| span(n * 100, 10)).collect();
        let guard = accesses.begin(None, spans.iter());
        for n in 0..20 {
            assert_eq!(accesses.toucher(&range(n * 100 + 9, 1)), Some(Toucher::Thread));
        }
        assert_eq!(accesses.toucher(&range(50, 50)), None);
        assert_eq!(accesses.toucher(&range(2000, 50)), None);
        drop(guard);
        let many: Vec<_> = (0..SLOTS).map(|_| accesses.begin(None, [].iter())).collect();
        assert_eq!(accesses.toucher(&range(0, 10)), None);
        let beyond = accesses.begin(None, [span(0, 1)].iter());
        assert_eq!(accesses.toucher(&range(500, 10)), Some(Toucher::Thread));
        drop((beyond, many));
        assert_eq!(accesses.toucher(&range(0, 1 << 20)), None);
    }
}
