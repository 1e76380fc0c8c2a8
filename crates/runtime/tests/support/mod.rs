//! A runtime of its own for a test, host functions from closures, and gates.

#![allow(dead_code)]

use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::host;
use cairn_runtime::memory::Memory;
use cairn_runtime::memory::allocator::{Allocator, RawBlock};
use cairn_runtime::memory::funnel::Funnel;
use cairn_runtime::memory::layer::Stack;
use cairn_runtime::memory::pool::StreamPool;
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::Spine;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, HostFunction, Location, Span, Task};
use std::ops::Deref;
use std::sync::{Arc, Condvar, LazyLock, Mutex};

pub const MIB: u64 = 1 << 20;

/// A runtime whose threads end with the test.
pub struct Rig(Runtime);

impl Deref for Rig {
    type Target = Runtime;
    fn deref(&self) -> &Runtime {
        &self.0
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.shared.scheduler.stop();
        self.shared.host_threads.stop();
        host::set_context(0);
    }
}

/// Two devices of 64 MiB.
pub fn rig(workers: usize, change: impl FnOnce(&mut Config)) -> Rig {
    let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
    config.device_memory = 64 * MIB;
    config.quarantine = 8 * MIB;
    config.workers = workers;
    change(&mut config);
    host::set_context(0);
    Rig(Runtime::start(config).unwrap())
}

impl Rig {
    pub fn new_stream(&self) -> Arc<Stream> {
        let handle = self.create_stream(0, 0).unwrap();
        self.stream(handle).unwrap()
    }

    pub fn alloc(&self, device: u32, bytes: u64) -> Span {
        let request = Request::bytes(bytes);
        let address = self.shared.memory.allocate(device, request).unwrap();
        Span { address, bytes: bytes as usize, location: Location::Device(device) }
    }
}

pub fn fill(to: Span, value: u8) -> Task {
    Task::fill("fill", to, value)
}

pub fn copy(from: Span, to: Span) -> Task {
    Task::copy("copy", from, to)
}

/// The bytes there now.
pub fn bytes(span: Span) -> Vec<u8> {
    // SAFETY: the test holds the allocation; device memory is plain memory here.
    unsafe { std::slice::from_raw_parts(span.address as *const u8, span.bytes) }.to_vec()
}

/// Waits for a stream while its tasks run elsewhere.
pub fn only_wait(stream: &Arc<Stream>) {
    assert!(host::in_callback(|| stream.synchronize(None)).unwrap());
}

/// A host function that is called once; false is an exception.
struct Job<F>(Mutex<Option<F>>);

impl<F: FnOnce() -> bool + Send> HostFunction for Job<F> {
    fn call(&self, _left: &dyn Fn()) -> Result<()> {
        let job = self.0.lock().unwrap().take().expect("a host function runs once");
        let thrown = || Error::new(Code::Internal, "it threw a C++ exception");
        if job() { Ok(()) } else { Err(thrown()) }
    }
}

/// A host function; false is an exception.
pub fn host_task(job: impl FnOnce() -> bool + Send + 'static) -> Task {
    Task::bare("aclrtLaunchHostFunc", Body::Host(Arc::new(Job(Mutex::new(Some(job))))))
}

/// Keeps a stream busy until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let guard = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(guard, |open| !*open).unwrap());
    }

    pub fn task(&self) -> Task {
        let gate = self.clone();
        host_task(move || {
            gate.wait();
            true
        })
    }
}

/// A block of a pool, whoever made the pool.
pub fn take(
    memory: &Memory,
    pool: &StreamPool,
    request: &Request<'_>,
    stream: &Arc<Stream>,
) -> Result<usize> {
    memory.pool_maker(pool).allocate(&request.on(stream)).map(|block| block.address)
}

/// Gives it back.
pub fn give(memory: &Memory, address: usize, stream: &Arc<Stream>) -> Result<()> {
    let pool = memory.pool_at(address).ok_or_else(|| Error::refused("that is no pool's"))?;
    memory.pool_maker(&pool).free(RawBlock::new(address, 0, address), Some(stream))
}

/// Layers over a maker, and nobody who listens.
pub fn over<'a>(stack: &'a Stack, maker: &'a dyn Allocator) -> Funnel<'a, dyn Allocator + 'a> {
    static QUIET: LazyLock<Spine> = LazyLock::new(Spine::default);
    Funnel::new(stack, maker, &QUIET)
}
