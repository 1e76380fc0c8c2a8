//! Ranks as threads of one process, a device each, over the in-process engine.

#![allow(dead_code)]

pub mod checks;
pub mod reference;

use cairn_comm::communicator::Communicator;
use cairn_comm::engine::Engine;
use cairn_comm::engine::threads::ThreadEngine;
use cairn_comm::{CommConfig, Communicators, Environment, Operator, Result};
use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::error as runtime;
use cairn_runtime::host;
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use std::sync::Arc;
use std::time::Duration;

/// A process with eight devices.
pub struct World {
    pub runtime: Runtime,
    pub engine: Arc<ThreadEngine>,
    pub communicators: Communicators,
}

impl Drop for World {
    fn drop(&mut self) {
        self.runtime.shared.scheduler.stop();
        self.runtime.shared.host_threads.stop();
        self.runtime.shared.exchange_threads.stop();
        host::set_context(0);
    }
}

/// Short enough for tests of what never comes, long enough for a machine that is busy.
pub fn quick_environment() -> Environment {
    Environment { connect_timeout: Duration::from_millis(300), ..Environment::default() }
}

pub fn world_with(environment: Environment) -> World {
    let engine = Arc::new(ThreadEngine::default());
    world_over(engine.clone(), engine, environment)
}

/// A world over any engine; `engine` is what faults are injected into.
pub fn world_over(
    opened: Arc<dyn Engine>,
    engine: Arc<ThreadEngine>,
    environment: Environment,
) -> World {
    let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
    config.device_memory = 64 << 20;
    config.workers = 2;
    config.visible = (0..16).collect();
    let runtime = Runtime::start(config).unwrap();
    let open = Box::new(move || Ok(opened.clone()));
    let communicators = Communicators::new(runtime.shared.clone(), environment, open);
    World { runtime, engine, communicators }
}

pub fn world() -> World {
    world_with(Environment::default())
}

/// One rank, on its thread.
pub struct RankThread<'w> {
    pub world: &'w World,
    pub communicator: Arc<Communicator>,
    pub stream: Arc<Stream>,
}

impl World {
    /// Makes a communicator of `size` ranks and runs `body` on a thread for each.
    pub fn run<R: Send>(&self, size: u32, body: impl Fn(&RankThread<'_>) -> R + Sync) -> Vec<R> {
        self.run_with(size, &CommConfig::default(), body)
    }

    pub fn run_with<R: Send>(
        &self,
        size: u32,
        config: &CommConfig,
        body: impl Fn(&RankThread<'_>) -> R + Sync,
    ) -> Vec<R> {
        let info = self.communicators.open_meeting().unwrap();
        self.on_ranks(size, |rank| {
            let communicator = self.communicators.join(rank, size, &info, rank, config).unwrap();
            let thread = self.thread(communicator);
            let result = body(&thread);
            self.communicators.destroy(&thread.communicator).unwrap();
            result
        })
    }

    /// Runs `body` on a thread for each rank, with its device set.
    pub fn on_ranks<R: Send>(&self, size: u32, body: impl Fn(u32) -> R + Sync) -> Vec<R> {
        std::thread::scope(|scope| {
            let body = &body;
            let start = |rank: u32| {
                scope.spawn(move || {
                    self.runtime.set_device(i64::from(rank)).unwrap();
                    body(rank)
                })
            };
            let threads: Vec<_> = (0..size).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    pub fn stream(&self) -> Arc<Stream> {
        let handle = self.runtime.create_stream(0, 0).unwrap();
        self.runtime.stream(handle).unwrap()
    }

    pub fn thread(&self, communicator: Arc<Communicator>) -> RankThread<'_> {
        RankThread { world: self, communicator, stream: self.stream() }
    }
}

impl RankThread<'_> {
    pub fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    pub fn size(&self) -> u32 {
        self.communicator.size()
    }

    /// Device memory with these bytes; it stays until the world ends.
    pub fn put(&self, bytes: &[u8]) -> usize {
        let request = Request::bytes(bytes.len().max(1) as u64);
        let device = self.communicator.device();
        let address = self.world.runtime.shared.memory.allocate(device, request).unwrap();
        write(address, bytes);
        address
    }

    pub fn submit(&self, operator: Operator) -> Result<()> {
        self.communicator.submit(&self.stream, operator)
    }

    pub fn synchronize(&self) -> runtime::Result<()> {
        self.world.runtime.synchronize(&self.stream, None)
    }

    /// Runs an operator to its end.
    pub fn run(&self, operator: Operator) {
        self.submit(operator).unwrap();
        self.synchronize().unwrap();
    }
}

pub fn write(address: usize, bytes: &[u8]) {
    // SAFETY: the test holds the allocation; device memory is plain memory here.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}

pub fn read(address: usize, bytes: usize) -> Vec<u8> {
    // SAFETY: the test holds the allocation; device memory is plain memory here.
    unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec()
}
