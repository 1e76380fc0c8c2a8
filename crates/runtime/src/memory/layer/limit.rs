//! `limit:8gib`: at most this many bytes may be live.

use super::Layer;
use super::spec::Size;
use crate::error::{Code, Error, Result};
use crate::memory::allocator::{Allocator, RawBlock};
use crate::memory::request::Request;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Refuses a block that would bring the user's bytes over a limit. Bytes are counted before they are
/// allocated and until they are freed, so the limit holds at every moment, whatever threads do; a
/// request that fails below counts nothing. One atomic operation per call.
pub struct Limit {
    max_bytes: u64,
    live: AtomicU64,
}

impl Limit {
    /// A limit of this many bytes.
    pub fn new(max_bytes: u64) -> Limit {
        Limit { max_bytes, live: AtomicU64::new(0) }
    }

    /// Bytes that are live, or being allocated.
    pub fn live(&self) -> u64 {
        self.live.load(Ordering::Acquire)
    }

    fn refusal(&self, requested: u64, live: u64, below: &dyn Allocator) -> Error {
        Error::new(
            Code::MemoryAllocation,
            format!(
                "out of memory by limit:{}: asked {requested} bytes of {}, live {live}, limit {}; free some or raise the limit",
                Size(self.max_bytes),
                below.name(),
                self.max_bytes
            ),
        )
    }
}

impl Layer for Limit {
    fn name(&self) -> &'static str {
        "limit"
    }

    fn allocate(&self, request: &Request<'_>, below: &dyn Allocator) -> Result<RawBlock> {
        let new_live =
            |live: u64| live.checked_add(request.bytes).filter(|&sum| sum <= self.max_bytes);
        self.live
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, new_live)
            .map_err(|live| self.refusal(request.bytes, live, below))?;
        below.allocate(request).inspect_err(|_| {
            self.live.fetch_sub(request.bytes, Ordering::AcqRel);
        })
    }

    fn free(
        &self,
        block: RawBlock,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<()> {
        let bytes = block.bytes;
        let freed = below.free(block, stream);
        self.live.fetch_sub(bytes, Ordering::AcqRel);
        freed
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// An allocator that checks what the limit has counted during each call.
    struct LimitReader<'a>(&'a Limit);

    impl Allocator for LimitReader<'_> {
        fn name(&self) -> String {
            "a test source".into()
        }

        fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
            assert_eq!(self.0.live(), request.bytes, "counted before it is taken");
            Ok(RawBlock::new(512, request.bytes, 0))
        }

        fn free(&self, block: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
            assert_eq!(self.0.live(), block.bytes, "counted until it is back");
            Err(Error::invalid("back all the same"))
        }
    }

    #[test]
    fn bytes_count_for_as_long_as_somebody_has_them() {
        let limit = Limit::new(100);
        let source = LimitReader(&limit);
        for _ in 0..2 {
            let block = limit.allocate(&Request::bytes(100), &source).unwrap();
            limit.allocate(&Request::bytes(1), &source).unwrap_err();
            limit.free(block, None, &source).unwrap_err();
            assert_eq!(limit.live(), 0);
        }
    }
}
