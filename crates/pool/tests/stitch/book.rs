//! A source of pages that can be moved, and what is known of each page.

use super::streams::Streams;
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use cairn_pool::{GRANULE, Progress, SegmentSource, StitchRequest, Stitching};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A block that is held.
pub struct Block {
    pub offset: u64,
    pub size: u64,
    pub stream: StreamIndex,
    uses: Vec<StreamIndex>,
}

/// A mapped page: which one it is, and whether it was moved away from here.
#[derive(Clone, Copy)]
struct Mapped {
    page: u64,
    is_old: bool,
}

/// Which page is where, who holds which granule of it, and until when tasks use it.
pub struct Book {
    streams: Arc<Streams>,
    how: Stitching,
    /// Pages by address.
    mapped: BTreeMap<u64, Mapped>,
    next_page: u64,
    /// Held granules: page, and offset in it.
    held: BTreeMap<(u64, u64), ()>,
    /// Tasks that may use a granule of a page.
    page_uses: BTreeMap<(u64, u64), Clock>,
    /// Tasks that may use an address.
    address_uses: BTreeMap<u64, Clock>,
    pub blocks: Vec<Block>,
    pub refuses: bool,
    /// Nothing can be put right after the memory that there is.
    pub refuses_after: bool,
    /// There is no new memory.
    pub is_exhausted: bool,
    /// Bytes of pages that were moved.
    pub moved: u64,
    /// The most pages that the pool had.
    pub peak_pages: u64,
}

impl Book {
    pub fn new(streams: Arc<Streams>, how: Stitching) -> Book {
        Book {
            streams,
            how,
            mapped: BTreeMap::new(),
            next_page: 0,
            held: BTreeMap::new(),
            page_uses: BTreeMap::new(),
            address_uses: BTreeMap::new(),
            blocks: Vec::new(),
            refuses: false,
            refuses_after: false,
            is_exhausted: false,
            moved: 0,
            peak_pages: 0,
        }
    }

    /// The granule of a page that is at an address.
    fn granule_at(&self, address: u64) -> (u64, u64) {
        let in_page = address % self.how.page;
        let mapped = self.mapped.get(&(address - in_page)).expect("a page is there");
        assert!(!mapped.is_old, "{address:#x} is an old address");
        (mapped.page, in_page)
    }

    /// A stream got a block.
    pub fn take(&mut self, offset: u64, size: u64, stream: StreamIndex) {
        for address in (offset..offset + size).step_by(GRANULE as usize) {
            let granule = self.granule_at(address);
            assert!(self.held.insert(granule, ()).is_none(), "{address:#x} is held twice");
            if let Some(uses) = self.page_uses.get(&granule) {
                assert!(self.streams.may_use(stream, uses), "{address:#x} is used: {uses:?}");
            }
        }
        self.blocks.push(Block { offset, size, stream, uses: Vec::new() });
    }

    /// A block is used on another stream too; returns where it begins.
    pub fn use_on(&mut self, block: usize, stream: StreamIndex) -> u64 {
        self.blocks[block].uses.push(stream);
        self.blocks[block].offset
    }

    /// A block is freed on a stream.
    pub fn free(&mut self, block: usize, stream: StreamIndex) -> Block {
        let block = self.blocks.swap_remove(block);
        let mut uses = Clock::new();
        for stream in block.uses.iter().copied().chain([block.stream, stream]) {
            uses.raise(Epoch { stream, seq: self.streams.submitted(stream) });
        }
        for address in (block.offset..block.offset + block.size).step_by(GRANULE as usize) {
            let granule = self.granule_at(address);
            self.held.remove(&granule).expect("held");
            self.page_uses.entry(granule).or_default().join(&uses);
            self.address_uses.entry(address).or_default().join(&uses);
        }
        block
    }

    fn is_free(&self, page: u64) -> bool {
        self.held.range((page, 0)..(page + 1, 0)).next().is_none()
    }

    /// Pages without a held granule.
    pub fn free_pages(&self) -> u64 {
        self.current().filter(|mapped| self.is_free(mapped.page)).count() as u64
    }

    /// Pages that the pool has.
    pub fn backed_pages(&self) -> u64 {
        self.current().count() as u64
    }

    /// Addresses of pages that were moved.
    pub fn old_pages(&self) -> usize {
        self.mapped.len() - self.current().count()
    }

    /// Addresses with a page.
    pub fn mapped_pages(&self) -> usize {
        self.mapped.len()
    }

    /// The highest address in use.
    pub fn end(&self) -> u64 {
        self.mapped.last_key_value().map_or(0, |(at, _)| at + self.how.page)
    }

    fn current(&self) -> impl Iterator<Item = &Mapped> {
        self.mapped.values().filter(|mapped| !mapped.is_old)
    }

    /// Panics if a task may still use one of these addresses.
    fn assert_unused(&mut self, range: &Range<u64>) {
        let streams = self.streams.clone();
        let is_done = |epoch: Epoch| streams.finished(epoch.stream) >= epoch.seq;
        for (address, uses) in self.address_uses.range(range.clone()) {
            let done = uses.epochs().iter().all(|&epoch| is_done(epoch));
            assert!(done, "{address:#x} is taken from {uses:?}");
        }
        let forgotten: Vec<u64> = self.address_uses.range(range.clone()).map(|(&a, _)| a).collect();
        forgotten.iter().for_each(|address| _ = self.address_uses.remove(address));
    }

    /// The lowest place for so many bytes; at the end, if ranges are to follow each other.
    fn place(&self, bytes: u64) -> u64 {
        let mut from = 0;
        if self.how.extends_end && self.end() + bytes < 1 << 30 {
            return self.end();
        }
        for &at in self.mapped.keys() {
            if at - from >= bytes {
                break;
            }
            from = at + self.how.page;
        }
        from
    }

    fn map_new(&mut self, range: Range<u64>) {
        for at in range.step_by(self.how.page as usize) {
            self.next_page += 1;
            let new = Mapped { page: self.next_page, is_old: false };
            assert!(self.mapped.insert(at, new).is_none(), "{at:#x} is mapped twice");
        }
        self.peak_pages = self.peak_pages.max(self.backed_pages());
    }

    fn unmap(&mut self, range: &Range<u64>, is_old: bool) {
        assert!(
            range.start.is_multiple_of(self.how.page) && range.end.is_multiple_of(self.how.page)
        );
        self.assert_unused(range);
        for at in range.clone().step_by(self.how.page as usize) {
            let mapped = self.mapped.remove(&at).expect("mapped");
            assert_eq!(mapped.is_old, is_old, "{at:#x}");
            if !is_old {
                assert!(self.is_free(mapped.page), "{at:#x} is held");
                self.page_uses = {
                    let mut rest = std::mem::take(&mut self.page_uses);
                    let mut later = rest.split_off(&(mapped.page, 0));
                    rest.append(&mut later.split_off(&(mapped.page + 1, 0)));
                    rest
                };
            }
        }
    }
}

/// The source of a pool; everything is in the book.
pub struct Pages(pub Arc<Mutex<Book>>);

impl SegmentSource for Pages {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        let mut book = self.0.lock().unwrap();
        if book.is_exhausted {
            return Err("exhausted".into());
        }
        let bytes = bytes.next_multiple_of(book.how.page);
        let start = book.place(bytes);
        book.map_new(start..start + bytes);
        Ok(start..start + bytes)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut book = self.0.lock().unwrap();
        let page = book.how.page;
        let pages = range.start.next_multiple_of(page)..range.end / page * page;
        if pages.is_empty() {
            return Vec::new();
        }
        book.unmap(&pages, false);
        vec![pages]
    }

    fn is_contiguous(&self) -> bool {
        self.0.lock().unwrap().how.extends_end
    }

    fn stitching(&self) -> Option<Stitching> {
        Some(self.0.lock().unwrap().how)
    }

    fn stitch(&self, request: &StitchRequest<'_>) -> Result<Range<u64>, String> {
        let StitchRequest { pieces, fresh, after, in_use } = *request;
        let mut book = self.0.lock().unwrap();
        let Stitching { page, min_piece, max_pieces, keeps_addresses, .. } = book.how;
        assert!(pieces.len() <= max_pieces && (fresh == 0 || !book.is_exhausted));
        let bytes = pieces.iter().map(|piece| piece.end - piece.start).sum::<u64>() + fresh;
        let start = book.place(bytes);
        let is_refused = |after| after != start || book.refuses_after;
        if book.refuses || after.is_some_and(is_refused) {
            return Err("refused".into());
        }
        let mut at = start;
        for piece in pieces {
            assert!(piece.start.is_multiple_of(page) && piece.end.is_multiple_of(page));
            assert!(piece.end - piece.start >= min_piece.min(page));
            if !keeps_addresses || !in_use {
                book.assert_unused(piece);
            }
            for old in piece.clone().step_by(page as usize) {
                let mapped = *book.mapped.get(&old).expect("mapped");
                assert!(!mapped.is_old && book.is_free(mapped.page), "{old:#x} is no free page");
                book.mapped.insert(old, Mapped { is_old: true, ..mapped });
                assert!(book.mapped.insert(at, mapped).is_none(), "{at:#x} is mapped twice");
                at += page;
            }
        }
        book.moved += at - start;
        book.map_new(at..at + fresh);
        Ok(start..start + bytes)
    }

    fn vacate(&self, range: Range<u64>) {
        self.0.lock().unwrap().unmap(&range, true);
    }
}
