//! A source of segments without memory: it hands out offsets only.

use cairn_pool::{GRANULE, SegmentSource};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One growing range, of which any part can be taken back.
#[derive(Default)]
pub struct TestSource {
    limit: Option<u64>,
    end: AtomicU64,
    backed: Mutex<BTreeMap<u64, u64>>,
}

impl SegmentSource for TestSource {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        assert!(bytes > 0 && bytes.is_multiple_of(GRANULE));
        if self.limit.is_some_and(|limit| self.backed_bytes() + bytes > limit) {
            return Err(format!("the source is full: {bytes}"));
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
            assert!(at < end, "{at} was released before");
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

impl TestSource {
    /// A source that never has more than `limit` bytes out.
    pub fn with_limit(limit: u64) -> TestSource {
        TestSource { limit: Some(limit), ..TestSource::default() }
    }

    /// Where the next range begins.
    pub fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// The ranges that are backed now: start to end.
    pub fn backed(&self) -> BTreeMap<u64, u64> {
        self.backed.lock().unwrap().clone()
    }

    /// Bytes that are backed now.
    pub fn backed_bytes(&self) -> u64 {
        self.backed.lock().unwrap().iter().map(|(start, end)| end - start).sum()
    }
}
