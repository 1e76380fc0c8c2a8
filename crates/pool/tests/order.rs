//! Memory that moved to another stream because the program ordered the streams: after the order is dropped, and
//! when other threads allocate and free in between.
#![cfg(not(feature = "shuttle"))]

use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use cairn_pool::{GRANULE, Outcome, Pool, Progress, SegmentSource};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

/// Called with the function of `Progress` that the pool called, and its stream.
type Hook = Box<dyn FnMut(&'static str, StreamIndex) + Send>;

/// Streams that do as the test says, also during calls of the pool (by the hook).
#[derive(Default)]
struct Streams {
    submitted: Mutex<HashMap<StreamIndex, u64>>,
    finished: Mutex<HashMap<StreamIndex, u64>>,
    ordered: Mutex<HashMap<StreamIndex, Clock>>,
    hook: Mutex<Option<Hook>>,
}

impl Streams {
    fn set_hook(&self, hook: impl FnMut(&'static str, StreamIndex) + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    fn call_hook(&self, function: &'static str, stream: StreamIndex) {
        let hook = self.hook.lock().unwrap().take();
        if let Some(mut hook) = hook {
            hook(function, stream);
            self.hook.lock().unwrap().get_or_insert(hook);
        }
    }

    /// The number of the last task of a stream.
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

    /// Lets stream `waiter` wait for stream `awaited`.
    fn order(&self, waiter: StreamIndex, awaited: StreamIndex) {
        self.submit(waiter);
        let epoch = Epoch { stream: awaited, seq: self.last(awaited) };
        self.ordered.lock().unwrap().entry(waiter).or_default().raise(epoch);
    }

    /// Drops the waits of a stream.
    fn abort(&self, stream: StreamIndex) {
        self.ordered.lock().unwrap().remove(&stream);
        self.finish(stream);
    }
}

impl Progress for Streams {
    fn submitted(&self, stream: StreamIndex) -> u64 {
        let last = self.last(stream);
        self.call_hook("submitted", stream);
        last
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        let finished = self.finished.lock().unwrap().get(&stream).copied().unwrap_or(0);
        self.call_hook("finished", stream);
        finished
    }

    fn is_ordered(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        self.ordered.lock().unwrap().get(&stream).is_some_and(|clock| clock.covers(epoch))
    }
}

/// A growing range, extended by multiples of `stride` bytes.
struct TestSource {
    end: AtomicU64,
    stride: u64,
}

impl SegmentSource for TestSource {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        let bytes = bytes.next_multiple_of(self.stride);
        let start = self.end.fetch_add(bytes, SeqCst);
        Ok(start..start + bytes)
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

/// The offset of a block, which there must be.
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
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 1)), first, "stream 1 still waits for it");
    pool.free(first, 1).unwrap();
    streams.abort(1);
    assert_eq!(pool.figures().waiting, 4 * MIB);
    for stream in [1, 2] {
        let other = ready(pool.allocate(4 * MIB, GRANULE, stream));
        assert_ne!(other, first, "stream 0 is still to finish with it");
    }
    assert_eq!(pool.trim(0), 0);
    streams.finish(0);
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 2)), first, "stream 0 has finished");
}

#[test]
fn a_block_used_elsewhere_and_reclaimed_by_order_is_kept_when_the_order_is_broken() {
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
    let hooked = streams.clone();
    streams.set_hook(move |function, stream| {
        if (function, stream) == ("submitted", 1) {
            hooked.order(0, 1);
        }
    });
    pool.free(block, 1).unwrap();
    streams.set_hook(|_, _| ());
    assert_ne!(ready(pool.allocate(4 * MIB, GRANULE, 2)), block, "stream 1 still uses it");
    assert_eq!(ready(pool.allocate(4 * MIB, GRANULE, 0)), block, "stream 0 waits for stream 1");
}

#[test]
fn a_free_between_search_and_growth_does_no_harm() {
    let (streams, pool) = pool(GRANULE);
    ready(pool.allocate(GRANULE, GRANULE, 1));
    let tail = [0; 2].map(|stream| ready(pool.allocate(4 * MIB, GRANULE, stream)));
    let (hooked, mut count) = (pool.clone(), 0);
    streams.set_hook(move |function, stream| {
        if (function, stream) == ("finished", 1) {
            count += 1;
            if count == 2 {
                let hooked = hooked.clone();
                let free = move || tail.map(|block| hooked.free(block, 0).unwrap());
                std::thread::spawn(free).join().unwrap();
            }
        }
    });
    ready(pool.allocate(MIB, GRANULE, 0));
    streams.set_hook(|_, _| ());
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
    let figures = pool.figures_of(9).unwrap();
    assert!(figures.reserved <= 82 * MIB, "{figures:?}");
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
