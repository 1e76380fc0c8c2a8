//! Which pages of a source were moved into a memory file.

use super::vmm::{FileRange, Store};
use crate::lock::{Mutex, Rank};
use crate::sync::Arc;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that move at once: they are there twice meanwhile, and threads that write to them wait.
const PART: u64 = 16 << 20;

/// Pages that lie in a file.
struct Region {
    bytes: u64,
    file: Arc<FileRange>,
    /// Where in the range of the file it begins.
    shift: u64,
    /// Keys that count on it.
    keys: usize,
}

/// The regions of one source, by offset. Where no key needs one any more it stays in its file as long as it is in use: its next
/// export has nothing to move. Where a larger block is exported, those that no key needs become part of it.
///
/// **Locks.** One export at a time; others may ask and let go while it moves pages.
pub struct SharedPages {
    sharing: Mutex<()>,
    regions: Mutex<BTreeMap<u64, Region>>,
    /// How many there are.
    count: AtomicUsize,
}

impl std::fmt::Debug for SharedPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedPages").finish_non_exhaustive()
    }
}

impl Default for SharedPages {
    fn default() -> SharedPages {
        let sharing = Mutex::new(Rank::PagesToShare, ());
        let regions = Mutex::new(Rank::SharedPages, BTreeMap::new());
        SharedPages { sharing, regions, count: AtomicUsize::new(0) }
    }
}

fn overlapping(
    regions: &BTreeMap<u64, Region>,
    range: &Range<u64>,
) -> impl DoubleEndedIterator<Item = (u64, u64, usize)> {
    let first = regions.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
    let range = range.clone();
    (regions.range(first.min(range.end)..range.end))
        .map(|(&start, region)| (start, start + region.bytes, region.keys))
        .filter(move |&(start, end, _)| start < range.end && range.start < end)
}

/// Takes a range out of the region that begins at `start`: the rest of it stays, and the memory of what was taken goes.
fn take_out(regions: &mut BTreeMap<u64, Region>, start: u64, range: &Range<u64>) {
    let Some(Region { bytes, file, shift, keys }) = regions.remove(&start) else { return };
    let end = start + bytes;
    let (from, to) = (range.start.max(start), range.end.min(end));
    for (rest, rest_end) in [(start, from), (to, end)] {
        if rest < rest_end {
            let (bytes, shift) = (rest_end - rest, shift + (rest - start));
            regions.insert(rest, Region { bytes, file: file.clone(), shift, keys });
        }
    }
    if Arc::strong_count(&file) > 1 {
        file.forget(shift + (from - start), to - from);
    }
}

impl SharedPages {
    /// Lets one more key count on a range; where it lies, in file offsets and sizes. `move_to` moves what lies in no file:
    /// offset, bytes, and where to: a range of a file, and where in it.
    pub fn share(
        &self,
        range: Range<u64>,
        store: &Arc<Store>,
        mut move_to: impl FnMut(u64, u64, &FileRange, u64) -> io::Result<()>,
    ) -> io::Result<Vec<(u64, u64)>> {
        let _sharing = self.sharing.lock();
        let (whole, gaps) = self.plan(&range);
        let moved = gaps.into_iter().try_for_each(|gap| self.move_gap(gap, store, &mut move_to));
        let extents = moved.map(|()| self.count_key(&range));
        self.unshare(whole);
        extents
    }

    /// Moves what lies in a gap, a part at a time: so no more than a part is there twice. On failure what was moved stays in
    /// its file.
    fn move_gap(
        &self,
        gap: Range<u64>,
        store: &Arc<Store>,
        move_to: &mut impl FnMut(u64, u64, &FileRange, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = store.take(gap.end - gap.start, rustix::param::page_size() as u64)?;
        let file = Arc::new(file);
        let mut at = gap.start;
        while at < gap.end {
            let part = at..gap.end.min(at + PART);
            let (bytes, shift) = (part.end - at, at - gap.start);
            move_to(at, bytes, &file, shift)?;
            let mut regions = self.regions.lock();
            let stale: Vec<u64> = overlapping(&regions, &part).map(|(start, ..)| start).collect();
            stale.into_iter().for_each(|start| take_out(&mut regions, start, &part));
            match regions.get_mut(&gap.start) {
                Some(moved) if shift > 0 => moved.bytes += bytes,
                _ => {
                    let region = Region { bytes, file: file.clone(), shift, keys: 1 };
                    _ = regions.insert(gap.start, region);
                }
            }
            self.count.store(regions.len(), Ordering::Release);
            at = part.end;
        }
        Ok(())
    }

    /// What is moved for a range: all that it comes to with the regions that become part of its own, and what of that lies in no
    /// region that stays. Until the whole is unshared its regions stay where they are.
    fn plan(&self, range: &Range<u64>) -> (Range<u64>, Vec<Range<u64>>) {
        let mut regions = self.regions.lock();
        let stays = |start: u64, end: u64, keys: usize| {
            keys > 0 || start <= range.start && range.end <= end
        };
        let mut whole = range.clone();
        for (start, end, keys) in overlapping(&regions, range) {
            if !stays(start, end, keys) {
                whole = whole.start.min(start)..whole.end.max(end);
            }
        }
        let (mut gaps, mut at) = (Vec::new(), whole.start);
        let kept =
            overlapping(&regions, &whole).filter(|&(start, end, keys)| stays(start, end, keys));
        for (start, end) in kept.map(|(start, end, _)| (start, end)).chain([(whole.end, whole.end)])
        {
            if at < start {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        let starts: Vec<u64> = overlapping(&regions, &whole).map(|(start, ..)| start).collect();
        for start in starts {
            if let Some(region) = regions.get_mut(&start) {
                region.keys += 1;
            }
        }
        (whole, gaps)
    }

    /// One more key counts on a range, all of which lies in regions; where they lie, in file offsets and sizes.
    fn count_key(&self, range: &Range<u64>) -> Vec<(u64, u64)> {
        let mut regions = self.regions.lock();
        let mut extents = Vec::new();
        let starts: Vec<_> = overlapping(&regions, range).map(|(start, ..)| start).collect();
        for start in starts {
            let Some(region) = regions.get_mut(&start) else { continue };
            region.keys += 1;
            let (from, to) = (start.max(range.start), (start + region.bytes).min(range.end));
            extents.push((region.file.offset() + region.shift + (from - start), to - from));
        }
        extents
    }

    /// One key fewer counts on a range.
    pub fn unshare(&self, range: Range<u64>) {
        let mut regions = self.regions.lock();
        let starts: Vec<_> = overlapping(&regions, &range).map(|(start, ..)| start).collect();
        for start in starts {
            if let Some(region) = regions.get_mut(&start) {
                region.keys = region.keys.saturating_sub(1);
            }
        }
    }

    /// True if any of these pages lies in a file.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.count.load(Ordering::Acquire) > 0
            && overlapping(&self.regions.lock(), range).next().is_some()
    }

    /// Takes the parts of a range that lie in files and that no key needs out of their files: `renew` puts new pages in the
    /// place of each (offset and bytes). Where it fails they stay. Nobody uses the range. Whoever imported them keeps them.
    pub fn restore(
        &self,
        range: &Range<u64>,
        mut renew: impl FnMut(u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let mut regions = self.regions.lock();
        let unused: Vec<_> = overlapping(&regions, range)
            .filter(|&(.., keys)| keys == 0)
            .map(|(start, end, _)| (start, start.max(range.start), end.min(range.end)))
            .collect();
        let mut outcome = Ok(());
        for (start, from, to) in unused {
            if let Err(error) = renew(from, to - from) {
                outcome = Err(error);
                continue;
            }
            take_out(&mut regions, start, &(from..to));
        }
        self.count.store(regions.len(), Ordering::Release);
        outcome
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn share(
        pages: &SharedPages,
        store: &Arc<Store>,
        range: Range<u64>,
    ) -> (Vec<u64>, Vec<(u64, u64)>) {
        let mut moved = Vec::new();
        let extents =
            pages.share(range.start * PAGE..range.end * PAGE, store, |offset, bytes, _, _| {
                moved.extend([offset / PAGE, bytes / PAGE]);
                Ok(())
            });
        (moved, extents.unwrap())
    }

    fn restored(pages: &SharedPages, range: Range<u64>) -> Vec<u64> {
        let mut restored = Vec::new();
        let result = pages.restore(&(range.start * PAGE..range.end * PAGE), |offset, bytes| {
            restored.extend([offset / PAGE, bytes / PAGE]);
            Ok(())
        });
        result.unwrap();
        restored
    }

    #[test]
    fn nobody_waits_while_pages_move() {
        let (pages, store) = (SharedPages::default(), Arc::new(Store::new("cairn-test").unwrap()));
        share(&pages, &store, 0..2);
        share(&pages, &store, 6..7);
        share(&pages, &store, 20..21);
        pages.unshare(20 * PAGE..21 * PAGE);
        let mut moves = 0;
        let extents = pages.share(4 * PAGE..10 * PAGE, &store, |_, _, _, _| {
            moves += 1;
            if moves > 1 {
                return Ok(());
            }
            pages.unshare(6 * PAGE..7 * PAGE);
            assert!(pages.overlaps(&(0..PAGE)));
            pages.unshare(0..2 * PAGE);
            assert_eq!(restored(&pages, 0..2), [0, 2]);
            // What is part of the move stays, what is not may go.
            assert_eq!(restored(&pages, 4..30), [20, 1]);
            Ok(())
        });
        assert_eq!((extents.unwrap().len(), moves), (3, 2));
        assert_eq!(restored(&pages, 0..100), []);
        pages.unshare(4 * PAGE..10 * PAGE);
        assert_eq!(restored(&pages, 0..100).len(), 6);
    }

    #[test]
    fn large_ranges_move_in_parts_and_what_was_moved_stays_when_one_fails() {
        let (pages, store) = (SharedPages::default(), Arc::new(Store::new("cairn-test").unwrap()));
        share(&pages, &store, 1..3);
        pages.unshare(PAGE..3 * PAGE);
        let part = PART / PAGE;
        let whole = 2 * PAGE..(2 * part + 5) * PAGE;
        let mut moved = Vec::new();
        let failed = pages.share(whole.clone(), &store, |offset, bytes, _, shift| {
            moved.push((offset / PAGE, bytes / PAGE, shift / PAGE));
            match moved.len() {
                1 => Ok(()),
                _ => Err(io::Error::other("no memory")),
            }
        });
        // The region from page 1 on becomes part of it.
        assert!(failed.is_err());
        assert_eq!(moved, [(1, part, 0), (1 + part, part, part)]);
        assert!(pages.overlaps(&(part * PAGE..(part + 1) * PAGE)));
        assert!(!pages.overlaps(&((part + 1) * PAGE..whole.end)));
        let mut moved = Vec::new();
        let extents = pages.share(whole.clone(), &store, |offset, bytes, _, shift| {
            moved.push((offset / PAGE, bytes / PAGE, shift / PAGE));
            Ok(())
        });
        assert_eq!(moved, [(1, part, 0), (1 + part, part, part), (1 + 2 * part, 4, 2 * part)]);
        let extents = extents.unwrap();
        assert_eq!((extents.len(), extents[0].1), (1, whole.end - whole.start));
        pages.unshare(whole);
        assert_eq!(restored(&pages, 0..10 * part), [1, 2 * part + 4]);
        assert_eq!(store.take(PAGE, PAGE).unwrap().offset(), 0, "all of the file is free");
    }

    #[test]
    fn pages_move_once_and_lie_apart_only_where_a_key_holds_them() {
        let (pages, store) = (SharedPages::default(), Arc::new(Store::new("cairn-test").unwrap()));
        let (moved, first) = share(&pages, &store, 4..8);
        assert_eq!((moved, first.len(), first[0].1), (vec![4, 4], 1, 4 * PAGE));
        let (moved, inner) = share(&pages, &store, 5..6);
        assert_eq!((moved, inner), (vec![], vec![(first[0].0 + PAGE, PAGE)]));
        let (moved, across) = share(&pages, &store, 7..9);
        assert_eq!(moved, [8, 1]);
        assert_eq!(across[0], (first[0].0 + 3 * PAGE, PAGE));
        assert_eq!((across.len(), across[1].1), (2, PAGE));
        assert_eq!(restored(&pages, 0..100), []);
        pages.unshare(4 * PAGE..8 * PAGE);
        pages.unshare(5 * PAGE..6 * PAGE);
        pages.unshare(7 * PAGE..9 * PAGE);
        let (moved, whole) = share(&pages, &store, 6..10);
        assert_eq!((moved, whole.len()), (vec![4, 6], 1));
        assert_eq!(whole[0].1, 4 * PAGE);
        assert_eq!(restored(&pages, 0..100), []);
        pages.unshare(6 * PAGE..10 * PAGE);
        assert_eq!(restored(&pages, 5..7), [5, 2]);
        let (moved, rest) = share(&pages, &store, 7..9);
        assert_eq!((moved, rest), (vec![], vec![(whole[0].0 + PAGE, 2 * PAGE)]));
        pages.unshare(7 * PAGE..9 * PAGE);
        assert_eq!(restored(&pages, 0..100), [4, 1, 7, 3]);
        assert!(!pages.overlaps(&(0..100 * PAGE)));
        let again = store.take(4 * PAGE, PAGE).unwrap();
        assert_eq!(again.offset(), 0, "all of the file is free");
    }
}
