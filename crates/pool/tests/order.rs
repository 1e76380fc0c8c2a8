//! What becomes of memory that moved because the program ordered it: after the order is broken, and
//! when it is asked for from another thread in between.
#![cfg(not(feature = "shuttle"))]

use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use cairn_pool::{GRANULE, Outcome, Pool, Progress, SegmentSource};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

type Hook = Box<dyn FnMut(&'static str, StreamIndex) + Send>;

/// Streams that do as the test says, also while the pool asks about them.
#[derive(Default)]
struct Streams {
    submitted: Mutex<HashMap<StreamIndex, u64>>,
    finished: Mutex<HashMap<StreamIndex, u64>>,
    ordered: Mutex<HashMap<StreamIndex, Clock>>,
    hook: Mutex<Option<Hook>>,
}

impl Streams {
    fn meanwhile(&self, hook: impl FnMut(&'static str, StreamIndex) + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    fn asked(&self, what: &'static str, stream: StreamIndex) {
        let hook = self.hook.lock().unwrap().take();
        if let Some(mut hook) = hook {
            hook(what, stream);
            self.hook.lock().unwrap().get_or_insert(hook);
        }
    }

    fn last(&self, stream: StreamIndex) -> u64 {
        self.submitted.lock().unwrap().get(&stream).copied().unwrap_or(0)
    }

    fn submit(&self, stream: StreamIndex) {
        *self.submitted.lock().unwrap().entry(stream).or_default() += 1;
    }

    fn finish(&self, stream: StreamIndex) {
        let last = self.last(stream);
        self.finished.lock().unwrap().insert(stream, last);
    }

    /// Stream `on` waits for stream `of`.
    fn order(&self, on: StreamIndex, of: StreamIndex) {
        self.submit(on);
        let epoch = Epoch { stream: of, seq: self.last(of) };
        self.ordered.lock().unwrap().entry(on).or_default().raise(epoch);
    }

    /// The waits of a stream are dropped.
    fn abort(&self, stream: StreamIndex) {
        self.ordered.lock().unwrap().remove(&stream);
        self.finish(stream);
    }
}

impl Progress for Streams {
    fn submitted(&self, stream: StreamIndex) -> u64 {
        let last = self.last(stream);
        self.asked("submitted", stream);
        last
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        let done = self.finished.lock().unwrap().get(&stream).copied().unwrap_or(0);
        self.asked("finished", stream);
        done
    }

    fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool {
        self.ordered.lock().unwrap().get(&on).is_some_and(|clock| clock.covers(epoch))
    }
}

/// A growing range; makes `stride` bytes at a time.
struct TestSource {
    end: AtomicU64,
    stride: u64,
}

impl SegmentSource for TestSource {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        let bytes = bytes.next_multiple_of(self.stride);
        let at = self.end.fetch_add(bytes, SeqCst);
        Ok(at..at + bytes)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        vec![range]
    }
}

fn pool(stride: u64) -> (Arc<Streams>, Arc<Pool<Arc<Streams>, TestSource>>) {
    let streams = Arc::new(Streams::default());
    let source = TestSource { end: AtomicU64::new(0), stride };
    (streams.clone(), Arc::new(Pool::new(streams, source, u64::MAX)))
}

fn ready(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Ready { offset, .. } => offset,
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_that_moved_by_order_is_kept_when_the_order_is_broken() {
    let (streams, pool) = pool(GRANULE);
    let first = ready(pool.allocate(4 * MIB, GRANULE, 0));
    streams.submit(0);
    pool.free(first, 0).unwrap();
    streams.order(1, 0);
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 1)), first, "stream 1 waits for stream 0");
    pool.free(first, 1).unwrap();
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 1)), first, "and still does");
    pool.free(first, 1).unwrap();
    streams.abort(1);
    assert_eq!(pool.figures().waiting, 4 * MIB);
    for stream in [1, 2] {
        let other = ready(pool.allocate(4 * MIB, GRANULE, stream));
        assert_ne!(other, first, "stream 0 is still to finish with it");
    }
    assert_eq!(pool.trim(0), 0);
    streams.finish(0);
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 2)), first, "done");
}

#[test]
fn a_block_used_elsewhere_and_gathered_by_order_is_kept_when_the_order_is_broken() {
    let (streams, pool) = pool(GRANULE);
    let block = ready(pool.allocate(4 * MIB, GRANULE, 0));
    pool.record_use(block, 3).unwrap();
    streams.submit(3);
    pool.free(block, 0).unwrap();
    streams.order(0, 3);
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 0)), block);
    pool.free(block, 0).unwrap();
    streams.abort(0);
    assert_ne!(ready(pool.allocate(4 * MIB, GRANULE, 0)), block);
    assert_ne!(ready(pool.allocate(4 * MIB, GRANULE, 1)), block);
    streams.finish(3);
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 1)), block);
}

#[test]
fn an_order_that_comes_in_the_middle_of_a_free_counts_for_its_stream_only() {
    let (streams, pool) = pool(GRANULE);
    let block = ready(pool.allocate(4 * MIB, GRANULE, 0));
    ready(pool.allocate(GRANULE, GRANULE, 2));
    streams.submit(0);
    streams.finish(0);
    streams.submit(1);
    let others = streams.clone();
    streams.meanwhile(move |what, stream| {
        if (what, stream) == ("submitted", 1) {
            others.order(0, 1);
        }
    });
    pool.free(block, 1).unwrap();
    streams.meanwhile(|_, _| ());
    assert_ne!(ready(pool.allocate(4 * MIB, GRANULE, 2)), block, "stream 1 still uses it");
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 0)), block, "stream 0 waits for stream 1");
}

#[test]
fn a_free_between_search_and_growth_is_survived() {
    let (streams, pool) = pool(GRANULE);
    ready(pool.allocate(GRANULE, GRANULE, 1));
    let tail = [0; 2].map(|stream| ready(pool.allocate(4 * MIB, GRANULE, stream)));
    let (others, mut count) = (pool.clone(), 0);
    streams.meanwhile(move |what, stream| {
        if (what, stream) == ("finished", 1) {
            count += 1;
            if count == 2 {
                let others = others.clone();
                let free = move || tail.map(|block| others.free(block, 0).unwrap());
                std::thread::spawn(free).join().unwrap();
            }
        }
    });
    ready(pool.allocate(MIB, GRANULE, 0));
    streams.meanwhile(|_, _| ());
    assert_eq!(pool.figures().live, MIB + GRANULE);
}

#[test]
fn ordered_memory_is_found_after_younger_that_is_not() {
    let (streams, pool) = pool(GRANULE);
    let blocks: Vec<u64> = (0..400).map(|_| ready(pool.allocate(MIB, GRANULE, 0))).collect();
    ready(pool.allocate(GRANULE, GRANULE, 1));
    streams.submit(0);
    blocks[..200].iter().step_by(2).for_each(|&block| _ = pool.free(block, 0).unwrap());
    streams.order(1, 0);
    streams.submit(0);
    blocks[200..].iter().step_by(2).for_each(|&block| _ = pool.free(block, 0).unwrap());
    let before = pool.figures().reserved;
    for _ in 0..99 {
        let block = ready(pool.allocate(MIB, GRANULE, 1));
        assert!(blocks[..200].contains(&block));
    }
    assert_eq!(pool.figures().reserved, before);
}

#[test]
fn a_stream_gets_no_more_than_it_needs() {
    let (streams, pool) = pool(128 * MIB);
    let big = ready(pool.allocate(GRANULE, GRANULE, 0));
    pool.free(big, 0).unwrap();
    streams.submit(0);
    for stream in 1..8 {
        streams.submit(stream);
        let block = ready(pool.allocate(MIB, GRANULE, stream));
        pool.free(block, stream).unwrap();
    }
    assert_eq!(pool.figures().reserved, 128 * MIB, "what no stream has is for all");

    let waiting = ready(pool.allocate(100 * MIB, GRANULE, 0));
    pool.record_use(waiting, 2).unwrap();
    pool.free(waiting, 0).unwrap();
    streams.order(9, 2);
    streams.order(9, 0);
    ready(pool.allocate(80 * MIB, GRANULE, 9));
    let of = pool.figures_of(9).unwrap();
    assert!(of.reserved <= 82 * MIB, "{of:?}");
}

#[test]
fn a_peak_is_exact_after_a_reset() {
    let (_, pool) = pool(GRANULE);
    for stream in 0..8 {
        ready(pool.allocate(GRANULE, GRANULE, stream));
        let block = ready(pool.allocate(2 * MIB - 2 * GRANULE, GRANULE, stream));
        pool.free(block, stream).unwrap();
    }
    pool.reset_peak();
    assert_eq!((pool.figures().peak, pool.figures().live), (8 * GRANULE, 8 * GRANULE));
}
