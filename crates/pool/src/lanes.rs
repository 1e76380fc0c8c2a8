//! The lanes of a pool, by stream.

use crate::clock::StreamIndex;
use crate::granule_table::empty_cells;
use crate::lane::Lane;
use cairn_sync::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Lanes on a page; pages are made on first use.
const PAGE: usize = 256;
/// Pages of a pool.
const PAGES: usize = 1024;

type Cell = OnceLock<Box<Lane>>;
type LanePage = Box<[Cell; PAGE]>;

/// A table of lanes, made on first use. Readers take no lock.
///
/// Most programs have few streams: the first page is a part of the table, so that their lanes are one load away. Every
/// call of the pool waits for that load.
pub(crate) struct Lanes {
    first: [Cell; PAGE],
    /// All pages but the first, which has its place in vain.
    others: Box<[OnceLock<LanePage>; PAGES]>,
    /// One more than the highest stream that has a lane.
    end: AtomicUsize,
}

impl Lanes {
    /// No lanes.
    pub fn new() -> Lanes {
        let first = [const { OnceLock::new() }; PAGE];
        Lanes { first, others: empty_cells(), end: AtomicUsize::new(0) }
    }

    /// The lane of a stream, if it has one.
    #[inline]
    pub fn get(&self, stream: StreamIndex) -> Option<&Lane> {
        let cell = match self.first.get(stream as usize) {
            Some(cell) => cell,
            None => &self.others.get(stream as usize / PAGE)?.get()?[stream as usize % PAGE],
        };
        cell.get().map(|lane| &**lane)
    }

    /// The lane of a stream, and whether it was made by this call.
    ///
    /// # Panics
    /// If the stream is beyond the table.
    pub fn open(&self, stream: StreamIndex) -> (&Lane, bool) {
        let cell = match self.first.get(stream as usize) {
            Some(cell) => cell,
            None => {
                let page = self.others.get(stream as usize / PAGE).unwrap_or_else(|| {
                    panic!("stream {stream}: a pool has room for {}", PAGE * PAGES)
                });
                &page.get_or_init(empty_cells)[stream as usize % PAGE]
            }
        };
        let mut is_new = false;
        let lane = cell.get_or_init(|| {
            is_new = true;
            Box::new(Lane::new(stream))
        });
        if is_new {
            self.end.fetch_max(stream as usize + 1, Ordering::AcqRel);
        }
        (lane, is_new)
    }

    /// All lanes, by stream.
    pub fn iter(&self) -> impl Iterator<Item = &Lane> {
        let end = self.end.load(Ordering::Acquire);
        (0..end as StreamIndex).filter_map(|stream| self.get(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_made_once_on_whatever_page() {
        let lanes = Lanes::new();
        let last = (PAGE * PAGES - 1) as StreamIndex;
        for stream in [last, 0, 255, 256, 1000] {
            assert!(lanes.get(stream).is_none());
            let (lane, is_new) = lanes.open(stream);
            assert!((lane.stream, is_new) == (stream, true) && !lanes.open(stream).1);
            assert!(std::ptr::eq(lanes.get(stream).unwrap(), lane));
        }
        assert!(lanes.get(last + 1).is_none() && lanes.get(StreamIndex::MAX).is_none());
        let streams: Vec<_> = lanes.iter().map(|lane| lane.stream).collect();
        assert_eq!(streams, [0, 255, 256, 1000, last]);
    }
}
