//! The stream-ordered pool against a naive model: no overlap, no use of freed memory before its time,
//! no growth while free memory that may be used fits, and all of it comes back.

use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use cairn_pool::{Backing, GRANULE, Outcome, Pool, Progress, Wrong};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const STREAMS: usize = 8;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Streams whose work ends when the test says so.
#[derive(Default)]
struct Streams {
    submitted: [AtomicU64; STREAMS],
    finished: [AtomicU64; STREAMS],
    ordered: [[AtomicU64; STREAMS]; STREAMS],
    waits: [Mutex<VecDeque<Wait>>; STREAMS],
}

/// Work `seq` of a stream waits for another stream's.
struct Wait {
    seq: u64,
    epoch: Epoch,
}

impl Progress for Streams {
    fn submitted(&self, stream: StreamIndex) -> u64 {
        self.submitted[stream as usize].load(Relaxed)
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        self.finished[stream as usize].load(Relaxed)
    }

    fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool {
        self.ordered[on as usize][epoch.stream as usize].load(Relaxed) >= epoch.seq
    }
}

impl Streams {
    fn submit(&self, stream: usize) {
        self.submitted[stream].fetch_add(1, Relaxed);
    }

    fn finish(&self, stream: usize, share: u64) {
        let (submitted, finished) = (&self.submitted[stream], &self.finished[stream]);
        let open = submitted.load(Relaxed) - finished.load(Relaxed);
        let mut to = finished.load(Relaxed) + open * share / 4;
        let mut waits = self.waits[stream].lock().unwrap();
        while let Some(wait) = waits.front().filter(|wait| wait.seq <= to) {
            if self.finished(wait.epoch.stream) < wait.epoch.seq {
                to = wait.seq - 1;
                break;
            }
            waits.pop_front();
        }
        finished.store(to, Relaxed);
    }

    fn finish_all(&self) {
        while !self.is_idle() {
            (0..STREAMS).for_each(|stream| self.finish(stream, 4));
        }
    }

    fn is_idle(&self) -> bool {
        (0..STREAMS as u32).all(|stream| self.finished(stream) == self.submitted(stream))
    }

    /// Stream `on` waits for all that `of` was given so far, and for what that was ordered after.
    fn order(&self, on: usize, of: usize) {
        self.submit(on);
        let epoch = Epoch { stream: of as u32, seq: self.submitted[of].load(Relaxed) };
        let seq = self.submitted[on].load(Relaxed);
        self.waits[on].lock().unwrap().push_back(Wait { seq, epoch });
        for through in 0..STREAMS {
            let known = match through == of {
                true => self.submitted[of].load(Relaxed),
                false => self.ordered[of][through].load(Relaxed),
            };
            self.ordered[on][through].fetch_max(known, Relaxed);
        }
    }

    fn may_use(&self, on: StreamIndex, clock: &Clock) -> bool {
        clock
            .marks()
            .iter()
            .all(|&e| e.stream == on || self.finished(e.stream) >= e.seq || self.is_ordered(on, e))
    }
}

/// One growing range, of which any part can be taken back.
#[derive(Default)]
struct Shelf {
    end: AtomicU64,
    backed: Mutex<BTreeMap<u64, u64>>,
    refuse_from: Option<u64>,
}

impl Backing for Shelf {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        assert!(bytes > 0 && bytes.is_multiple_of(GRANULE));
        if self.refuse_from.is_some_and(|most| self.held() + bytes > most) {
            return Err(format!("the shelf is full: {bytes}"));
        }
        let start = self.end.fetch_add(bytes, Relaxed);
        self.backed.lock().unwrap().insert(start, start + bytes);
        Ok(start..start + bytes)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut backed = self.backed.lock().unwrap();
        let mut at = range.start;
        while at < range.end {
            let (&start, &end) = backed.range(..=at).next_back().expect("backed");
            assert!(at < end, "{at} was taken back before");
            backed.remove(&start);
            let stop = end.min(range.end);
            if start < at {
                backed.insert(start, at);
            }
            if stop < end {
                backed.insert(stop, end);
            }
            at = stop;
        }
        vec![range]
    }
}

impl Shelf {
    fn held(&self) -> u64 {
        self.backed.lock().unwrap().iter().map(|(start, end)| end - start).sum()
    }
}

struct Held {
    offset: u64,
    size: u64,
    stream: StreamIndex,
    uses: Vec<StreamIndex>,
}

/// The truth: what is held, and for every byte that was freed, what has to be over before who uses it.
struct Model {
    streams: Arc<Streams>,
    held: Vec<Held>,
    live: BTreeMap<u64, u64>,
    freed: BTreeMap<u64, (u64, Clock)>,
}

impl Model {
    fn take(&mut self, offset: u64, size: u64, stream: StreamIndex) {
        let end = offset + size;
        let before = self.live.range(..end).next_back();
        assert!(before.is_none_or(|(_, &e)| e <= offset), "{offset}+{size} overlaps {before:?}");
        let old: Vec<_> = self
            .freed
            .range(..end)
            .rev()
            .take_while(|(_, (e, _))| *e > offset)
            .map(|(&s, (e, clock))| (s, *e, clock.clone()))
            .collect();
        for (s, e, clock) in old {
            assert!(
                self.streams.may_use(stream, &clock),
                "{offset}+{size} on stream {stream} is still used: {clock:?}"
            );
            self.freed.remove(&s);
            if s < offset {
                self.freed.insert(s, (offset, clock.clone()));
            }
            if e > end {
                self.freed.insert(end, (e, clock));
            }
        }
        self.live.insert(offset, end);
        self.held.push(Held { offset, size, stream, uses: Vec::new() });
    }

    fn free(&mut self, which: usize, on: StreamIndex) -> Held {
        let held = self.held.swap_remove(which);
        self.live.remove(&held.offset);
        let mut clock = Clock::new();
        for stream in held.uses.iter().copied().chain([held.stream, on]) {
            clock.raise(Epoch { stream, seq: self.streams.submitted(stream) });
        }
        self.freed.insert(held.offset, (held.offset + held.size, clock));
        held
    }

    /// True if free memory that `stream` may have, in one piece, holds `size` bytes at `align`.
    fn has_room(&self, stream: StreamIndex, size: u64, align: u64, backed: &Shelf) -> bool {
        let mut usable: BTreeMap<u64, u64> = backed.backed.lock().unwrap().clone();
        let unusable = self.freed.iter().filter(|(_, (_, c))| !self.streams.may_use(stream, c));
        let out =
            unusable.map(|(&s, &(e, _))| (s, e)).chain(self.live.iter().map(|(&s, &e)| (s, e)));
        for (s, e) in out.collect::<Vec<_>>() {
            let touched: Vec<_> = usable
                .range(..e)
                .rev()
                .take_while(|(_, end)| **end > s)
                .map(|(a, b)| (*a, *b))
                .collect();
            for (a, b) in touched {
                usable.remove(&a);
                if a < s {
                    usable.insert(a, s);
                }
                if b > e {
                    usable.insert(e, b);
                }
            }
        }
        let mut start = None;
        let mut end = 0;
        for (&a, &b) in usable.iter().chain([(&u64::MAX, &u64::MAX)]) {
            if a != end
                && let Some(from) = start.replace(a)
                && u64::next_multiple_of(from, align) + size <= end
            {
                return true;
            }
            start.get_or_insert(a);
            end = b;
        }
        false
    }
}

struct World {
    streams: Arc<Streams>,
    pool: Pool<Arc<Streams>, Shelf>,
    model: Model,
    waits: u64,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate(u64, u64, usize),
    Free(usize, usize),
    Use(usize, usize),
    Submit(usize),
    Finish(usize, u64),
    Order(usize, usize),
    Trim(u64),
    FinishAll,
}

impl World {
    fn new(budget: u64) -> World {
        let streams = Arc::new(Streams::default());
        let (held, live, freed) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        World {
            pool: Pool::new(streams.clone(), Shelf::default(), budget),
            model: Model { streams: streams.clone(), held, live, freed },
            streams,
            waits: 0,
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Allocate(bytes, align, stream) => {
                let stream = stream as StreamIndex;
                match self.pool.allocate(bytes, align, stream) {
                    Outcome::Ready { offset, size } => {
                        assert_eq!(size, bytes.max(1).next_multiple_of(GRANULE));
                        assert!(offset.is_multiple_of(align));
                        assert_eq!(self.pool.find(offset), Some((size, stream)));
                        self.model.take(offset, size, stream);
                    }
                    Outcome::Wait(clock) => {
                        assert!(!clock.marks().is_empty());
                        self.waits += 1;
                    }
                    Outcome::OverBudget => self.waits += 1,
                    Outcome::Exhausted(reason) => panic!("{reason}"),
                }
            }
            Op::Free(which, on) if !self.model.held.is_empty() => {
                let which = which % self.model.held.len();
                let on = match on % 4 {
                    0 => (on / 4 % STREAMS) as StreamIndex,
                    _ => self.model.held[which].stream,
                };
                let held = self.model.free(which, on);
                assert_eq!(self.pool.free(held.offset, on), Ok(held.size));
                assert_eq!(self.pool.free(held.offset, on), Err(Wrong::NotHeld));
                assert_eq!(self.pool.free(held.offset + 8, on), Err(Wrong::Unknown));
            }
            Op::Use(which, stream) if !self.model.held.is_empty() => {
                let which = which % self.model.held.len();
                let held = &mut self.model.held[which];
                held.uses.push(stream as StreamIndex);
                self.pool.record_use(held.offset, stream as StreamIndex).unwrap();
            }
            Op::Free(..) | Op::Use(..) => {}
            Op::Submit(stream) => self.streams.submit(stream),
            Op::Finish(stream, share) => self.streams.finish(stream, share),
            Op::Order(on, of) if on != of => self.streams.order(on, of),
            Op::Order(..) => {}
            Op::Trim(keep) => {
                self.pool.trim(keep);
            }
            Op::FinishAll => self.streams.finish_all(),
        }
    }

    fn agree(&self) {
        let figures = self.pool.figures();
        assert_eq!(figures.live, self.model.held.iter().map(|h| h.size).sum::<u64>());
        assert_eq!(figures.blocks, self.model.held.len() as u64);
        assert_eq!(figures.taken - figures.freed, figures.blocks);
        assert_eq!(figures.reserved, self.pool.backing().held());
        assert!(figures.reserved <= self.pool.budget());
        assert!(figures.peak >= figures.live && figures.peak_reserved >= figures.reserved);
        let of: Vec<_> = (0..STREAMS as u32).filter_map(|s| self.pool.figures_of(s)).collect();
        assert_eq!(of.iter().map(|f| f.live).sum::<u64>(), figures.live);
    }

    /// Gives everything back, lets all work end, and sees whether it is one piece again.
    fn end(mut self) {
        while !self.model.held.is_empty() {
            self.step(Op::Free(0, 1));
        }
        self.streams.finish_all();
        self.agree();
        let figures = self.pool.figures();
        assert_eq!((figures.live, figures.requested, figures.waiting), (0, 0, 0));
        let reserved = figures.reserved;
        assert_eq!(self.pool.trim(0), reserved);
        assert_eq!(self.pool.figures().reserved, 0);
        assert_eq!(self.pool.backing().held(), 0);
    }
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = (0u32..21, any::<u64>()).prop_map(|(log, r)| (1u64 << log) + r % (1 << log));
    let align = prop_oneof![9 => Just(GRANULE), 1 => (9u32..17).prop_map(|log| 1 << log)];
    let stream = 0..STREAMS;
    prop_oneof![
        10 => (bytes, align, stream.clone()).prop_map(|(b, a, s)| Op::Allocate(b, a, s)),
        9 => (any::<usize>(), any::<usize>()).prop_map(|(w, o)| Op::Free(w, o)),
        2 => (any::<usize>(), stream.clone()).prop_map(|(w, s)| Op::Use(w, s)),
        4 => stream.clone().prop_map(Op::Submit),
        2 => (stream.clone(), 0u64..5).prop_map(|(s, share)| Op::Finish(s, share)),
        2 => (stream.clone(), stream).prop_map(|(a, b)| Op::Order(a, b)),
        1 => (0..8 * MIB).prop_map(Op::Trim),
        2 => Just(Op::FinishAll),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_naive_model(
        ops in prop::collection::vec(op(), 1..400),
        budget in prop_oneof![Just(u64::MAX), 4 * MIB..64 * MIB],
    ) {
        let mut world = World::new(budget);
        for op in ops {
            if let Op::Allocate(bytes, align, stream) = op {
                let size = bytes.max(1).next_multiple_of(GRANULE);
                let idle = world.streams.is_idle();
                let backing = world.pool.backing();
                let room = world.model.has_room(stream as u32, size, align, backing);
                let before = backing.end.load(Relaxed);
                world.step(op);
                let grown = world.pool.backing().end.load(Relaxed) > before;
                prop_assert!(!(idle && room && grown), "grew by {size} though there was room");
            } else {
                world.step(op);
            }
            world.agree();
        }
        world.end();
    }
}

/// 10^7 operations with the same rules; `CAIRN_POOL_OPERATIONS` changes how many.
#[test]
fn ten_million_operations() {
    let many = std::env::var("CAIRN_POOL_OPERATIONS").map_or(10_000_000, |n| n.parse().unwrap());
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut world = World::new(256 * MIB);
    for number in 0..many {
        let (a, b, c) = (random(), random() as usize, random() as usize);
        let stream = b % STREAMS;
        let op = match a % 32 {
            0..10 => {
                let log = 9 + (a >> 8) % 12;
                let align = if (a >> 20).is_multiple_of(16) { 4 * KIB } else { GRANULE };
                Op::Allocate((1 << log) + (a >> 32) % (1 << log), align, stream)
            }
            10..20 => Op::Free(b, c),
            20 => Op::Use(b, c % STREAMS),
            21..27 => Op::Submit(stream),
            27..30 => Op::Finish(stream, c as u64 % 5),
            30 => Op::Order(stream, c % STREAMS),
            _ if (a >> 8).is_multiple_of(64) => Op::Trim((a >> 16) % (128 * MIB)),
            _ => Op::Free(b, c),
        };
        world.step(op);
        if number % 100_000 == 0 {
            world.agree();
        }
    }
    assert!(world.waits < many / 100, "{} requests found nothing", world.waits);
    world.end();
}

fn ready(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Ready { offset, .. } => offset,
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_moves_to_another_stream_when_it_is_done_or_ordered_and_not_before() {
    let streams = Arc::new(Streams::default());
    let pool = Pool::new(streams.clone(), Shelf::default(), u64::MAX);
    let first = ready(pool.allocate(MIB, GRANULE, 0));
    streams.submit(0);
    pool.free(first, 0).unwrap();
    assert_eq!(pool.figures().waiting, MIB);

    let second = ready(pool.allocate(MIB, GRANULE, 1));
    assert_ne!(first, second, "stream 0 may still use it");
    assert_eq!(ready(pool.allocate(MIB, GRANULE, 0)), first, "its own stream may have it at once");
    pool.free(first, 0).unwrap();
    streams.finish(0, 4);
    assert_eq!(pool.figures().waiting, 0);
    assert_eq!(ready(pool.allocate(MIB, GRANULE, 1)), first, "done");

    pool.free(first, 1).unwrap();
    streams.submit(1);
    pool.free(second, 1).unwrap();
    streams.order(2, 1);
    let third = ready(pool.allocate(MIB, GRANULE, 2));
    assert!(third == first || third == second, "ordered before stream 2");
    assert_eq!(pool.figures().reserved, 2 * MIB);
}

#[test]
fn a_recorded_use_is_waited_for_on_the_own_stream_too() {
    let streams = Arc::new(Streams::default());
    let pool = Pool::new(streams.clone(), Shelf::default(), 2 * MIB);
    let block = ready(pool.allocate(MIB, GRANULE, 0));
    pool.record_use(block, 3).unwrap();
    streams.submit(3);
    pool.free(block, 0).unwrap();
    let other = ready(pool.allocate(MIB, GRANULE, 0));
    assert_ne!(block, other);
    assert_eq!(
        pool.allocate(MIB, GRANULE, 0),
        Outcome::Wait({
            let mut clock = Clock::new();
            clock.raise(Epoch { stream: 3, seq: 1 });
            clock
        })
    );
    streams.finish(3, 4);
    assert_eq!(ready(pool.allocate(MIB, GRANULE, 0)), block);
    assert_eq!(pool.allocate(MIB, GRANULE, 0), Outcome::OverBudget);
    assert_eq!(pool.figures().failed, 2);
    assert_eq!(pool.record_use(77 * GRANULE, 1), Err(Wrong::Unknown));
}

#[test]
fn the_budget_is_hard_and_scattered_free_memory_makes_room() {
    let pool = Pool::new(Arc::new(Streams::default()), Shelf::default(), 4 * MIB);
    let blocks: Vec<u64> = (0..4).map(|_| ready(pool.allocate(MIB, GRANULE, 0))).collect();
    assert_eq!(pool.allocate(1, GRANULE, 1), Outcome::OverBudget);
    pool.free(blocks[0], 0).unwrap();
    pool.free(blocks[2], 0).unwrap();
    let wide = ready(pool.allocate(2 * MIB, GRANULE, 1));
    assert!(wide >= 4 * MIB, "in one piece, at new addresses");
    assert_eq!(pool.figures().reserved, 4 * MIB);
    assert_eq!(pool.owners()[0].live, 2 * MIB);
}

#[test]
fn what_the_backing_says_is_handed_on() {
    let shelf = Shelf { refuse_from: Some(MIB), ..Shelf::default() };
    let pool = Pool::new(Arc::new(Streams::default()), shelf, u64::MAX);
    let block = ready(pool.allocate(MIB, GRANULE, 0));
    let Outcome::Exhausted(reason) = pool.allocate(512, GRANULE, 0) else { panic!() };
    assert!(reason.contains("full"), "{reason}");
    pool.free(block, 0).unwrap();
    assert_eq!(ready(pool.allocate(512, GRANULE, 5)), block);
    for absurd in [u64::MAX, u64::MAX - 511, 1 << 63] {
        assert!(!matches!(pool.allocate(absurd, GRANULE, 0), Outcome::Ready { .. }));
    }
}

#[test]
fn peaks_are_exact_for_one_stream_and_can_be_reset() {
    let pool = Pool::new(Arc::new(Streams::default()), Shelf::default(), u64::MAX);
    let a = ready(pool.allocate(3 * MIB + 1, GRANULE, 0));
    let b = ready(pool.allocate(5 * MIB, GRANULE, 0));
    pool.free(a, 0).unwrap();
    let figures = pool.figures();
    assert_eq!((figures.peak, figures.live), (8 * MIB + GRANULE, 5 * MIB));
    pool.reset_peak();
    assert_eq!(pool.figures().peak, 5 * MIB);
    ready(pool.allocate(KIB, GRANULE, 1));
    let figures = pool.figures();
    assert!((5 * MIB + KIB..=7 * MIB + KIB).contains(&figures.peak), "{figures:?}");
    assert_eq!((figures.requested, figures.taken, figures.freed), (5 * MIB + KIB, 3, 1));
    pool.free(b, 0).unwrap();
    pool.retire(0);
    let reserved = pool.figures().reserved;
    ready(pool.allocate(8 * MIB - KIB, GRANULE, 1));
    assert_eq!(pool.figures().reserved, reserved);
}
