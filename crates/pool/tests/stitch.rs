//! Stitching, beside a model that knows every page: no page in two blocks, none taken from a task that may still use it, at
//! the old address or the new one, and no growth while whole pages are free.
#![cfg(not(feature = "shuttle"))]

#[path = "stitch/book.rs"]
mod book;
#[path = "model/streams.rs"]
mod streams;

use book::{Block, Book, Pages};
use cairn_pool::{GRANULE, Outcome, Pool, Progress, SegmentSource, Stitching};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use streams::Streams;

/// How many streams there are.
const STREAMS: usize = 4;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Pages of a CPU: a block keeps the rest of its last one.
const SMALL: Stitching = Stitching {
    page: 4 * KIB,
    min_block: 4 * KIB,
    min_piece: 4 * KIB,
    max_pieces: usize::MAX,
    keeps_addresses: true,
    extends_end: false,
};
/// Pages of a device, as the standalone pool has them.
const LARGE: Stitching = Stitching {
    page: 128 * KIB,
    min_block: 128 * KIB,
    min_piece: 128 * KIB,
    extends_end: true,
    ..SMALL
};

#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate(u64, u64, usize),
    /// A block, and whether it is freed on its own stream or on this one.
    Free(usize, Option<usize>),
    Use(usize, usize),
    Submit(usize),
    Finish(usize, u64),
    Order(usize, usize),
    Trim(u64),
    FinishAll,
    /// The source refuses to stitch from now on, or no longer.
    Refuse(bool),
    /// The same, where it has to be right after the last memory.
    RefuseAfter(bool),
}

/// A pool, its streams, and what is known of every page.
struct Model {
    streams: Arc<Streams>,
    pool: Pool<Arc<Streams>, Pages>,
    book: Arc<Mutex<Book>>,
    how: Stitching,
    refuses: bool,
    /// Only stream 0 took memory so far.
    is_single: bool,
}

impl Model {
    fn new(how: Stitching, budget: u64) -> Model {
        let streams = Arc::new(Streams::default());
        let book = Arc::new(Mutex::new(Book::new(streams.clone(), how)));
        let pool = Pool::new(streams.clone(), Pages(book.clone()), budget);
        Model { streams, pool, book, how, refuses: false, is_single: true }
    }

    fn step(&mut self, op: Op) {
        let held = self.book.lock().unwrap().blocks.len();
        match op {
            Op::Allocate(bytes, align, stream) => self.allocate(bytes, align, stream),
            Op::Free(block, on) if held > 0 => self.free(block % held, on),
            Op::Use(block, stream) if held > 0 => {
                let offset = self.book.lock().unwrap().use_on(block % held, stream as u32);
                self.pool.record_use(offset, stream as u32).unwrap();
                self.streams.submit(stream);
            }
            Op::Free(..) | Op::Use(..) => {}
            Op::Submit(stream) => self.streams.submit(stream),
            Op::Finish(stream, quarters) => self.streams.finish(stream, quarters),
            Op::Order(waiter, awaited) if waiter != awaited => self.streams.order(waiter, awaited),
            Op::Order(..) => {}
            Op::Trim(keep) => _ = self.pool.trim(keep),
            Op::FinishAll => self.streams.finish_all(),
            Op::Refuse(refuses) => {
                self.refuses = refuses;
                self.book.lock().unwrap().refuses = refuses;
            }
            Op::RefuseAfter(refuses) => self.book.lock().unwrap().refuses_after = refuses,
        }
    }

    fn allocate(&mut self, bytes: u64, align: u64, stream: usize) {
        self.is_single &= stream == 0;
        let Stitching { page, min_block, min_piece, max_pieces, .. } = self.how;
        let moves_all = min_piece == page && max_pieces == usize::MAX;
        let pays = align == GRANULE && bytes >= min_block && moves_all;
        let must_stitch = self.streams.is_idle() && self.is_single && !self.refuses && pays;
        let reserved = self.pool.figures().reserved;
        let free = if must_stitch { self.book.lock().unwrap().free_pages() } else { 0 };
        let free = free * self.how.page;
        let outcome = self.pool.allocate(bytes, align, stream as u32);
        let Outcome::Ready { offset, size } = outcome else {
            assert!(!matches!(outcome, Outcome::Exhausted(_)), "{outcome:?}");
            return;
        };
        assert!(offset.is_multiple_of(align) && size >= bytes && size.is_multiple_of(GRANULE));
        assert!(size - bytes < self.how.page, "{size} for {bytes}");
        self.book.lock().unwrap().take(offset, size, stream as u32);
        if must_stitch {
            let grown = self.pool.figures().reserved.saturating_sub(reserved);
            let missing = bytes.next_multiple_of(self.how.page).saturating_sub(free);
            assert!(grown <= missing, "grew by {grown} for {bytes}: {free} were free");
        }
    }

    fn free(&mut self, block: usize, on: Option<usize>) {
        let mut book = self.book.lock().unwrap();
        let stream = on.map_or(book.blocks[block].stream, |stream| stream as u32);
        let Block { offset, size, .. } = book.free(block, stream);
        drop(book);
        assert_eq!(self.pool.free(offset, stream), Ok(size));
    }

    fn check(&self) {
        let (figures, book) = (self.pool.figures(), self.book.lock().unwrap());
        assert_eq!(figures.live, book.blocks.iter().map(|block| block.size).sum::<u64>());
        assert_eq!(figures.reserved, book.backed_pages() * self.how.page);
        assert_eq!(figures.peak_reserved, book.peak_pages * self.how.page);
        assert_eq!(figures.stitched, book.moved);
        assert!(figures.reserved <= self.pool.budget());
    }

    /// Where the block begins that was taken last, and how long it is.
    fn last_block(&self) -> (u64, u64) {
        let book = self.book.lock().unwrap();
        book.blocks.last().map(|block| (block.offset, block.size)).unwrap()
    }

    /// Frees these of the blocks, in the order of their addresses.
    fn free_in_order(&mut self, is_freed: impl Fn(usize) -> bool) {
        let mut offsets: Vec<u64> =
            self.book.lock().unwrap().blocks.iter().map(|block| block.offset).collect();
        offsets.sort_unstable();
        for (_, offset) in offsets.into_iter().enumerate().filter(|(at, _)| is_freed(*at)) {
            let book = self.book.lock().unwrap();
            let block = book.blocks.iter().position(|block| block.offset == offset).unwrap();
            drop(book);
            self.step(Op::Free(block, None));
        }
    }

    /// Frees everything, and checks that nothing is left behind, old addresses included.
    fn end(mut self) {
        while !self.book.lock().unwrap().blocks.is_empty() {
            self.free(0, None);
        }
        self.streams.finish_all();
        self.check();
        self.pool.trim(0);
        assert_eq!(self.pool.figures().reserved, 0);
        assert_eq!(self.book.lock().unwrap().mapped_pages(), 0);
    }
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = (9u32..20, any::<u64>()).prop_map(|(log, r)| (1u64 << log) + r % (1 << log));
    let align = prop_oneof![9 => Just(GRANULE), 1 => (9u32..14).prop_map(|log| 1 << log)];
    let stream = 0..STREAMS;
    let on = prop_oneof![4 => Just(None), 1 => stream.clone().prop_map(Some)];
    prop_oneof![
        10 => (bytes, align, stream.clone()).prop_map(|(b, a, s)| Op::Allocate(b, a, s)),
        9 => (any::<usize>(), on).prop_map(|(block, on)| Op::Free(block, on)),
        1 => (any::<usize>(), stream.clone()).prop_map(|(block, s)| Op::Use(block, s)),
        4 => stream.clone().prop_map(Op::Submit),
        2 => (stream.clone(), 0u64..5).prop_map(|(s, quarters)| Op::Finish(s, quarters)),
        1 => (stream.clone(), stream).prop_map(|(a, b)| Op::Order(a, b)),
        1 => (0..8 * MIB).prop_map(Op::Trim),
        2 => Just(Op::FinishAll),
        1 => prop::bool::weighted(0.2).prop_map(Op::Refuse),
        1 => any::<bool>().prop_map(Op::RefuseAfter),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn no_page_is_in_two_places(
        ops in prop::collection::vec(op(), 1..300),
        budget in prop_oneof![Just(u64::MAX), 4 * MIB..64 * MIB],
        is_large in any::<bool>(),
        keeps_addresses in any::<bool>(),
        is_single in any::<bool>(),
    ) {
        let how = Stitching { keeps_addresses, ..if is_large { LARGE } else { SMALL } };
        let mut model = Model::new(how, budget / how.page * how.page);
        for op in ops {
            model.step(match op {
                Op::Allocate(bytes, align, _) if is_single => Op::Allocate(bytes, align, 0),
                op => op,
            });
            model.check();
        }
        model.end();
    }
}

/// 10^6 steps (`CAIRN_TESTS=deep`, else a fiftieth): the pages and addresses in use at the end are those that are live.
#[test]
fn a_million_steps_without_growth() {
    let is_deep = std::env::var("CAIRN_TESTS").is_ok_and(|tests| tests == "deep");
    let count = if is_deep { 1_000_000 } else { 20_000 };
    for how in [SMALL, LARGE] {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let mut model = Model::new(how, 64 * MIB);
        let mut highest = [0; 2];
        for number in 0..count {
            let (a, b, c) = (random(), random() as usize, random() as usize);
            let stream = b % STREAMS;
            model.step(match a % 32 {
                0..10 => {
                    let log = 9 + (a >> 8) % 11;
                    Op::Allocate((1 << log) + (a >> 32) % (1 << log), GRANULE, stream)
                }
                10..21 => Op::Free(b, (c % 8 == 0).then_some(c / 8 % STREAMS)),
                21..26 => Op::Submit(stream),
                26..30 => Op::Finish(stream, c as u64 % 5),
                30 => Op::Order(stream, c % STREAMS),
                _ if c % 64 == 0 => Op::Trim(a >> 8 & (32 * MIB - 1)),
                _ => Op::FinishAll,
            });
            if number % 10_000 == 0 {
                model.check();
            }
            let half = usize::from(number >= count / 2);
            highest[half] = model.book.lock().unwrap().end().max(highest[half]);
        }
        assert!(highest[1] <= 2 * highest[0], "addresses grow: {highest:?}");
        assert!(model.pool.figures().stitched > 0);
        model.end();
    }
}

/// Random replacement, without a budget: a pool that always stitched, or grew whenever it may not stitch, would cut what lies
/// in one piece again and again, and grow without end.
#[test]
fn random_replacement_reaches_a_size_and_stays_there() {
    let count = 1_000_000;
    for how in [SMALL, LARGE] {
        let streams = Arc::new(Streams::default());
        let book = Arc::new(Mutex::new(Book::new(streams.clone(), how)));
        let pool = Pool::new(streams, Pages(book.clone()), u64::MAX);
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let mut take = || {
            let log = 9 + random() % 11;
            let bytes = (1 << log) + random() % (1 << log);
            match pool.allocate(bytes, GRANULE, 0) {
                Outcome::Ready { offset, .. } => (offset, random() as usize),
                other => panic!("{bytes} bytes: {other:?}"),
            }
        };
        let mut held: Vec<u64> = (0..256).map(|_| take().0).collect();
        let mut stitched = [0; 2];
        for number in 0..count {
            let (offset, random) = take();
            let old = std::mem::replace(&mut held[random % 256], offset);
            pool.free(old, 0).unwrap();
            if (number + 1) % (count / 2) == 0 {
                stitched[number / (count / 2)] = pool.figures().stitched;
            }
        }
        let figures = pool.figures();
        let (reserved, peak) = (figures.peak_reserved, figures.peak);
        assert!(stitched[0] > 0 && stitched[0] == stitched[1], "it never stops: {stitched:?}");
        assert!(reserved <= peak * 2, "{reserved} bytes reserved for at most {peak} live");
        held.into_iter().for_each(|offset| _ = pool.free(offset, 0).unwrap());
        pool.trim(0);
        assert_eq!((pool.figures().reserved, book.lock().unwrap().mapped_pages()), (0, 0));
    }
}

#[test]
fn holes_serve_a_block_that_fits_in_none() {
    let mut model = Model::new(SMALL, u64::MAX);
    for _ in 0..8 {
        model.step(Op::Allocate(64 * KIB, GRANULE, 0));
    }
    for block in [6, 4, 2, 0] {
        model.step(Op::Free(block, None));
    }
    model.step(Op::Allocate(250 * KIB, GRANULE, 0));
    let figures = model.pool.figures();
    assert_eq!((figures.reserved, figures.stitched), (512 * KIB, 252 * KIB));
    assert_eq!(model.last_block().1, 252 * KIB, "a block keeps the rest of a small page");
    model.end();
}

#[test]
fn what_is_missing_is_added_and_no_more() {
    let mut model = Model::new(SMALL, u64::MAX);
    for _ in 0..4 {
        model.step(Op::Allocate(64 * KIB, GRANULE, 0));
    }
    for block in [2, 0] {
        model.step(Op::Free(block, None));
    }
    model.step(Op::Allocate(160 * KIB, GRANULE, 0));
    assert_eq!(model.pool.figures().reserved, (256 + 32) * KIB);
    model.end();
}

#[test]
fn another_stream_gets_pages_when_it_may() {
    for keeps_addresses in [true, false] {
        let mut model = Model::new(Stitching { keeps_addresses, ..SMALL }, u64::MAX);
        for _ in 0..4 {
            model.step(Op::Allocate(64 * KIB, GRANULE, 0));
        }
        model.step(Op::Submit(0));
        for block in [2, 0] {
            model.step(Op::Free(block, None));
        }
        model.step(Op::Allocate(128 * KIB, GRANULE, 1));
        assert_eq!(model.pool.figures().stitched, 0, "stream 0 is not done");
        model.step(Op::Order(2, 0));
        model.step(Op::Allocate(128 * KIB, GRANULE, 2));
        let stitched = if keeps_addresses { 128 * KIB } else { 0 };
        assert_eq!(model.pool.figures().stitched, stitched, "stream 2 is ordered after it");
        assert!(!keeps_addresses || model.book.lock().unwrap().old_pages() > 0);
        model.step(Op::FinishAll);
        model.pool.trim(u64::MAX);
        assert_eq!(model.book.lock().unwrap().old_pages(), 0);
        model.end();
    }
}

#[test]
fn the_own_stream_needs_no_end_of_its_tasks() {
    let mut model = Model::new(SMALL, u64::MAX);
    for _ in 0..4 {
        model.step(Op::Allocate(64 * KIB, GRANULE, 0));
    }
    model.step(Op::Submit(0));
    for block in [2, 0] {
        model.step(Op::Free(block, None));
    }
    assert!(model.streams.finished(0) < model.streams.submitted(0));
    model.step(Op::Allocate(128 * KIB, GRANULE, 0));
    assert_eq!(model.pool.figures().stitched, 128 * KIB);
    assert_eq!(model.pool.source().stitching(), Some(SMALL));
    model.end();
}

/// Eight pages of which the last two are free, and two others; and a block of four pages after that.
fn take_four_pages(refuses_after: bool) -> Model {
    let mut model = Model::new(LARGE, 2 * MIB);
    model.pool.set_budget(MIB);
    for _ in 0..8 {
        model.step(Op::Allocate(128 * KIB, GRANULE, 0));
    }
    for block in [7, 6, 4, 2] {
        model.step(Op::Free(block, None));
    }
    model.step(Op::RefuseAfter(refuses_after));
    model.step(Op::Allocate(512 * KIB, GRANULE, 0));
    assert_eq!(model.last_block().1, 512 * KIB);
    model.check();
    model
}

#[test]
fn the_last_hole_is_made_longer_where_that_is_possible() {
    let mut model = take_four_pages(false);
    assert_eq!(model.pool.figures().stitched, 256 * KIB);
    assert_eq!(model.last_block().0, 768 * KIB);
    // And longer again.
    model.step(Op::Free(4, None));
    model.pool.set_budget(2 * MIB);
    model.step(Op::Allocate(640 * KIB, GRANULE, 0));
    assert_eq!(model.pool.figures().stitched, 256 * KIB);
    assert_eq!(model.last_block(), (768 * KIB, 640 * KIB));
    model.end();
}

#[test]
fn the_last_hole_moves_where_nothing_can_be_put_after_it() {
    let model = take_four_pages(true);
    assert_eq!(model.pool.figures().stitched, 512 * KIB);
    model.end();
}

#[test]
fn a_block_waits_for_the_tasks_of_all_its_pages() {
    for (used, unused) in [(192 * KIB, 64 * KIB), (64 * KIB, 192 * KIB)] {
        let mut model = Model::new(SMALL, u64::MAX);
        for (bytes, stream) in [(used, 0), (64 * KIB, 0), (unused, 1), (64 * KIB, 1)] {
            model.step(Op::Allocate(bytes, GRANULE, stream));
        }
        model.step(Op::Submit(0));
        model.step(Op::Free(2, None));
        model.step(Op::Free(0, None));
        model.step(Op::Order(2, 0));
        model.step(Op::Allocate(256 * KIB, GRANULE, 2));
        assert_eq!(model.pool.figures().stitched, 256 * KIB);
        model.step(Op::Free(2, None));
        model.streams.abort(2);
        let reserved = model.pool.figures().reserved;
        // Stream 2 is done, but it did not wait: the model knows that stream 3 may have none of it.
        model.step(Op::Allocate(256 * KIB, GRANULE, 3));
        assert!(model.pool.figures().reserved > reserved, "a task of stream 0 is not done");
        model.end();
    }
}

/// Blocks of these sizes in KiB with a small one after each, of which all but the small ones are freed.
fn holes(how: Stitching, budget: u64, sizes: &[u64]) -> Model {
    let mut model = Model::new(how, budget);
    for &size in sizes {
        model.step(Op::Allocate(size * KIB, GRANULE, 0));
        model.step(Op::Allocate(4 * KIB, GRANULE, 0));
    }
    model.free_in_order(|at| at % 2 == 0);
    model
}

#[test]
fn no_more_is_added_than_the_budget_has() {
    let mut model = holes(SMALL, 256 * KIB, &[60, 60, 60, 60]);
    model.step(Op::Allocate(300 * KIB, GRANULE, 0));
    model.check();
    assert_eq!((model.book.lock().unwrap().blocks.len(), model.pool.figures().stitched), (4, 0));
    model.end();
}

#[test]
fn a_block_has_no_more_pieces_than_the_source_takes() {
    let mut model = holes(Stitching { max_pieces: 2, ..SMALL }, u64::MAX, &[64; 4]);
    model.step(Op::Allocate(256 * KIB, GRANULE, 0));
    assert_eq!(model.pool.figures().stitched, 128 * KIB);
    model.end();
}

#[test]
fn small_pieces_stay_where_they_are() {
    let mut model = holes(Stitching { min_piece: 16 * KIB, ..SMALL }, u64::MAX, &[64, 12, 64]);
    model.step(Op::Allocate(140 * KIB, GRANULE, 0));
    assert_eq!(model.pool.figures().stitched, 128 * KIB);
    model.end();
}

#[test]
fn the_last_piece_is_of_the_smallest_hole_that_has_it() {
    let mut model = holes(SMALL, u64::MAX, &[128, 64, 256]);
    model.step(Op::Allocate(320 * KIB, GRANULE, 0));
    let figures = model.pool.figures();
    assert_eq!((figures.stitched, figures.largest_hole), (320 * KIB, 128 * KIB));
    model.end();
}

/// Far more often than a stream may stitch in a row.
#[test]
fn without_more_memory_the_pool_always_stitches() {
    for has_budget in [false, true] {
        let mut model = Model::new(SMALL, if has_budget { 512 * KIB } else { u64::MAX });
        (0..8).for_each(|_| model.step(Op::Allocate(64 * KIB, GRANULE, 0)));
        model.book.lock().unwrap().is_exhausted = !has_budget;
        // Nothing can be given back for new memory while a task may use it.
        model.step(Op::Submit(0));
        for round in 1..700 {
            model.free_in_order(|at| at == 1 || at == 5);
            model.step(Op::Allocate(128 * KIB, GRANULE, 0));
            assert_eq!(model.last_block().1, 128 * KIB, "round {round}");
            assert_eq!(model.pool.figures().stitched, round * 128 * KIB);
            let block = model.book.lock().unwrap().blocks.len() - 1;
            model.step(Op::Free(block, None));
            (0..2).for_each(|_| model.step(Op::Allocate(64 * KIB, GRANULE, 0)));
        }
        model.check();
        model.book.lock().unwrap().is_exhausted = false;
        model.end();
    }
}

#[test]
fn a_busy_stream_leaves_a_bounded_number_of_old_addresses() {
    let mut model = Model::new(SMALL, u64::MAX);
    (0..128).for_each(|_| model.step(Op::Allocate(4 * KIB, GRANULE, 0)));
    model.step(Op::Submit(0));
    for _ in 0..80 {
        model.free_in_order(|at| at % 2 == 0);
        model.step(Op::Allocate(256 * KIB, GRANULE, 0));
        let block = model.book.lock().unwrap().blocks.len() - 1;
        model.step(Op::Free(block, None));
        (0..64).for_each(|_| model.step(Op::Allocate(4 * KIB, GRANULE, 0)));
    }
    let old = model.book.lock().unwrap().old_pages();
    assert!((4096..4096 + 64).contains(&old), "{old}");
    model.end();
}
