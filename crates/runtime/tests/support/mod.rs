//! What tests share: a runtime of their own, host functions from closures, and gates that block a stream.

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
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::Spine;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, HostFunction, Kernel, Location, Span, Task};
use std::ops::Deref;
use std::sync::{Arc, Condvar, LazyLock, Mutex};

pub const MIB: u64 = 1 << 20;

/// A runtime whose threads end with the test.
pub struct TestRuntime(Runtime);

impl Deref for TestRuntime {
    type Target = Runtime;
    fn deref(&self) -> &Runtime {
        &self.0
    }
}

impl Drop for TestRuntime {
    fn drop(&mut self) {
        self.shared.scheduler.stop();
        self.shared.host_threads.stop();
        self.shared.exchange_threads.stop();
        host::set_context(0);
    }
}

/// Starts a runtime with two devices of 64 MiB.
pub fn start_runtime(workers: usize, change: impl FnOnce(&mut Config)) -> TestRuntime {
    let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
    config.device_memory = 64 * MIB;
    config.quarantine = 8 * MIB;
    config.workers = workers;
    change(&mut config);
    host::set_context(0);
    TestRuntime(Runtime::start(config).unwrap())
}

impl TestRuntime {
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

/// The current bytes of a range.
pub fn bytes(span: Span) -> Vec<u8> {
    // SAFETY: the test holds the allocation; device memory is plain memory here.
    unsafe { std::slice::from_raw_parts(span.address as *const u8, span.bytes) }.to_vec()
}

/// Waits for a stream without running its tasks on this thread.
pub fn wait_without_helping(stream: &Arc<Stream>) {
    assert!(host::in_callback(|| stream.synchronize(None)).unwrap());
}

/// A host function that is called once; it returns false for an exception.
struct OnceFunction<F>(Mutex<Option<F>>);

impl<F: FnOnce() -> bool + Send> HostFunction for OnceFunction<F> {
    fn call(&self, _on_exit: &dyn Fn()) -> Result<()> {
        let function = self.0.lock().unwrap().take().expect("a host function runs once");
        let thrown = || Error::new(Code::Internal, "it threw a C++ exception");
        if function() { Ok(()) } else { Err(thrown()) }
    }
}

/// A task that calls a host function, which returns false for an exception.
pub fn host_task(function: impl FnOnce() -> bool + Send + 'static) -> Task {
    Task::bare(
        "aclrtLaunchHostFunc",
        Body::Host(Arc::new(OnceFunction(Mutex::new(Some(function))))),
    )
}

/// An exchange that calls a closure, which returns false for a failure, and then fills what it writes with 7.
pub struct ClosureExchange<F>(pub F);

impl<F: Fn() -> bool + Send + Sync> Kernel for ClosureExchange<F> {
    fn argument(&self, _: Use, _: usize) -> &str {
        "buffer"
    }

    fn run(&self, memory: &TaskMemory<'_>) -> Result<()> {
        if !(self.0)() {
            return Err(Error::new(Code::Internal, "the peer is gone"));
        }
        memory.write(0).iter().for_each(|byte| byte.set(7));
        Ok(())
    }
}

/// A task that writes a range once a closure has returned.
pub fn exchange(to: Span, wait: impl Fn() -> bool + Send + Sync + 'static) -> Task {
    let body = Body::Exchange(Arc::new(ClosureExchange(wait)));
    Task { name: "exchange", reads: Default::default(), writes: [to].into_iter().collect(), body }
}

/// Blocks a stream until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    pub fn wait(&self) {
        let guard = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(guard, |open| !*open).unwrap());
    }

    /// A host function that waits for the gate.
    pub fn task(&self) -> Task {
        let gate = self.clone();
        host_task(move || {
            gate.wait();
            true
        })
    }
}

/// Allocates a block of a pool, also of the built-in one.
pub fn allocate(
    memory: &Memory,
    pool: &StreamPool,
    request: &Request<'_>,
    stream: &Arc<Stream>,
) -> Result<usize> {
    memory.pool_maker(pool).allocate(&request.on(stream)).map(|block| block.address)
}

/// Frees a block of a pool.
pub fn free(memory: &Memory, address: usize, stream: &Arc<Stream>) -> Result<()> {
    let pool = memory.pool_at(address).ok_or_else(|| Error::refused("no pool has that address"))?;
    memory.pool_maker(&pool).free(RawBlock::new(address, 0, address), Some(stream))
}

/// Layers over a maker, without any sink.
pub fn funnel_over<'a>(
    stack: &'a Stack,
    maker: &'a dyn Allocator,
) -> Funnel<'a, dyn Allocator + 'a> {
    static SPINE: LazyLock<Spine> = LazyLock::new(Spine::default);
    Funnel::new(stack, maker, &SPINE)
}
