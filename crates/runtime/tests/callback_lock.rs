//! The callback lock of a user's allocator: one thread at a time, and log lines that name who waits for whom.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::host::HostThread;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::callback_lock::{CallbackLock, Limits, Visit};
use cairn_runtime::memory::external::{CallbackException, Identity, UserAllocator, UserCall};
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, mpsc};
use std::thread;
use std::time::Duration;
use support::*;

const NEVER: Duration = Duration::from_secs(1 << 30);

fn limits(log: Duration) -> Limits {
    Limits { log, free: NEVER }
}

fn visit(object: usize) -> Visit {
    Visit { object, request: UserCall::Alloc(64), stream: Some(3) }
}

/// Every line that was logged.
struct Lines {
    all: Mutex<Vec<String>>,
    more: Condvar,
}

static LINES: Lines = Lines { all: Mutex::new(Vec::new()), more: Condvar::new() };

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        self.all.lock().unwrap().push(record.args().to_string());
        self.more.notify_all();
    }
    fn flush(&self) {}
}

/// Collects what is logged from now on.
fn install_logger() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&LINES).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    });
}

/// Waits for a line that has all these parts.
fn line_with(parts: &[&str]) -> String {
    let has_parts = |line: &&String| parts.iter().all(|part| line.contains(part));
    let mut lines = LINES.all.lock().unwrap();
    loop {
        if let Some(line) = lines.iter().find(has_parts) {
            return line.clone();
        }
        lines = LINES.more.wait(lines).unwrap();
    }
}

#[test]
fn one_thread_at_a_time_and_that_one_recursively() {
    let lock = CallbackLock::new(limits(NEVER));
    let inside = AtomicUsize::new(0);
    let passes = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    lock.pass(visit(1), || {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        lock.pass(visit(1), || lock.pass(visit(1), thread::yield_now));
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        passes.fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        }
    });
    assert_eq!(passes.into_inner(), 4000);
}

#[test]
fn a_panic_inside_lets_the_next_one_in() {
    let lock = CallbackLock::new(limits(NEVER));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lock.pass(visit(1), || std::panic::resume_unwind(Box::new(())))
    }));
    assert!(result.is_err());
    thread::scope(|scope| scope.spawn(|| lock.pass(visit(1), || ())).join().unwrap());
}

#[test]
fn a_long_wait_names_both_threads_and_what_the_owner_does() {
    install_logger();
    let lock = CallbackLock::new(limits(Duration::from_millis(1)));
    let gate = Gate::default();
    let (entered_tx, entered_rx) = mpsc::channel();
    thread::scope(|scope| {
        let (lock, gate) = (&lock, &gate);
        let owner_tx = entered_tx.clone();
        scope.spawn(move || {
            let free = Visit { request: UserCall::Free(0xb10c), ..visit(0xa110c) };
            lock.pass(free, || {
                owner_tx.send(HostThread::current().number()).unwrap();
                gate.wait();
            });
        });
        let owner = entered_rx.recv().unwrap();
        scope.spawn(move || {
            entered_tx.send(HostThread::current().number()).unwrap();
            lock.pass(visit(0xa110c), || ());
        });
        let waiter = entered_rx.recv().unwrap();
        line_with(&[
            &format!("thread {waiter} has waited"),
            &format!("thread {owner} is inside"),
            "free(0xb10c) of the allocator 0xa110c for stream 3",
            "alloc(64)",
        ]);
        gate.open();
    });
}

/// Blocks in an alloc of 4096 bytes, or ends its thread there.
struct BlockingAllocator {
    object: usize,
    gate: Gate,
    ends_thread: bool,
    entered_tx: mpsc::Sender<u64>,
    address: usize,
}

impl UserAllocator for BlockingAllocator {
    fn identity(&self) -> Identity {
        Identity { object: self.object, functions: [[0; 2]; 4] }
    }
    fn takes_advice(&self) -> bool {
        false
    }
    fn call(&self, request: UserCall, on_exit: &dyn Fn()) -> Result<usize, CallbackException> {
        if let UserCall::Alloc(4096) = request {
            if self.ends_thread {
                on_exit();
            }
            self.entered_tx.send(HostThread::current().number()).unwrap();
            if self.ends_thread {
                loop {
                    thread::park();
                }
            }
            self.gate.wait();
        }
        Ok(self.address)
    }
}

struct Fixture {
    runtime: TestRuntime,
    handle: usize,
    stream: Arc<Stream>,
    gate: Gate,
}

fn fixture(object: usize, ends_thread: bool) -> (Arc<Fixture>, mpsc::Receiver<u64>) {
    let runtime = start_runtime(1, |config| config.callback_limits.log = Duration::from_millis(1));
    runtime.set_device(0).unwrap();
    let handle = runtime.create_stream(0, 0).unwrap();
    let stream = runtime.stream(handle).unwrap();
    let (entered_tx, entered_rx) = mpsc::channel();
    let gate = Gate::default();
    let address = runtime.alloc(0, 8192).address;
    let allocator =
        BlockingAllocator { object, gate: gate.clone(), ends_thread, entered_tx, address };
    runtime.allocators.register(Domain::Acl, handle, &stream, 0, Box::new(allocator)).unwrap();
    (Arc::new(Fixture { runtime, handle, stream, gate }), entered_rx)
}

impl Fixture {
    fn allocate(&self, bytes: u64) -> Block {
        let allocator = self.runtime.allocators.allocator_for(Domain::Acl, self.handle).unwrap();
        Block::allocate(&allocator, &Request::bytes(bytes).on(&self.stream)).unwrap()
    }
}

#[test]
fn a_callback_that_does_not_return_is_named_though_nobody_waits() {
    install_logger();
    let (fixture, entered_rx) = fixture(0xb10c5, false);
    thread::scope(|scope| {
        scope.spawn(|| fixture.allocate(4096).free().unwrap());
        let owner = entered_rx.recv().unwrap();
        line_with(&[
            "does not return",
            &format!("thread {owner} is inside"),
            "alloc(4096) of the allocator 0xb10c5",
        ]);
        fixture.gate.open();
    });
}

#[test]
fn a_callback_that_ends_its_thread_blocks_nobody() {
    install_logger();
    let (fixture, entered_rx) = fixture(0x1ef7, true);
    let ending = fixture.clone();
    thread::spawn(move || ending.allocate(4096));
    let ended_thread = entered_rx.recv().unwrap();
    fixture.allocate(64).free().unwrap();
    line_with(&[&format!("thread {ended_thread} ended itself in alloc(4096)"), "0x1ef7"]);
}

#[test]
fn a_free_is_let_in_beside_an_alloc_that_waits_for_it() {
    install_logger();
    let lock = CallbackLock::new(Limits { log: NEVER, free: Duration::from_millis(1) });
    let free = Visit { object: 0xf4ee, request: UserCall::Free(7), stream: None };
    let (freed_tx, freed_rx) = mpsc::channel();
    let (begun_tx, begun_rx) = mpsc::channel();
    let lock = &lock;
    thread::scope(|scope| {
        scope.spawn(move || {
            lock.pass(visit(0xf4ee), || {
                begun_tx.send(()).unwrap();
                freed_rx.recv().unwrap();
            })
        });
        begun_rx.recv().unwrap();
        // Twice inside, as a free of an allocator is: the second time without a wait.
        scope.spawn(move || {
            lock.pass(free, || lock.pass(free, || freed_tx.send(()).unwrap()));
            lock.pass(visit(0xf4ee), || {});
        });
    });
    line_with(&["free(0x7)", "0xf4ee", "let in"]);
    lock.pass(visit(0xf4ee), || {});
}
