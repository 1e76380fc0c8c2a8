//! The pool inside the runtime, with real memory: the one that operators take from.

use super::candidate::Candidate;
use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::memory::pool::StreamPool;
use cairn_runtime::stream::Stream;
use std::sync::Arc;

/// A pool of device 0, and the stream it is used on.
pub struct RuntimePool {
    runtime: Runtime,
    pool: Arc<StreamPool>,
    stream: Arc<Stream>,
}

impl RuntimePool {
    /// An engine with a pool that stitches or does not; the error says why there is none.
    pub fn new(stitches: bool) -> Result<RuntimePool, String> {
        let config = Config::from_env().map_err(|error| error.text)?;
        let runtime = Runtime::start(Config { stitches, ..config }).map_err(|error| error.text)?;
        runtime.set_device(0).map_err(|error| error.text)?;
        let handle = runtime.create_stream(0, 0).map_err(|error| error.text)?;
        let stream = runtime.stream(handle).map_err(|error| error.text)?;
        let pool = runtime.shared.memory.create_pool(0, u64::MAX);
        Ok(RuntimePool { runtime, pool, stream })
    }

    /// Bytes that it has from its device: now, and at most.
    pub fn reserved(&self) -> (u64, u64) {
        let figures = self.pool.figures();
        (figures.reserved, figures.peak_reserved)
    }
}

impl Candidate for RuntimePool {
    type Block = usize;

    fn allocate(&self, bytes: usize, _: usize) -> usize {
        let taken = self.runtime.shared.memory.take_from(&self.pool, bytes as u64, &self.stream);
        taken.unwrap_or_else(|error| panic!("{bytes} bytes: {}", error.text))
    }

    fn free(&self, block: usize, _: usize, _: usize) {
        let freed = self.runtime.shared.memory.give_back(block, &self.stream);
        freed.unwrap_or_else(|error| panic!("{block:#x}: {}", error.text));
    }
}
