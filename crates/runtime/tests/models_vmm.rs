//! Unmap against queued tasks, under a scheduler that tries many interleavings.
//!
//! `cargo test -p cairn-runtime --features shuttle --test models_vmm`; `CAIRN_SHUTTLE_ITERATIONS` sets how many
//! interleavings each model gets.

#![cfg(feature = "shuttle")]

use cairn_runtime::config::Config;
use cairn_runtime::error::Result;
use cairn_runtime::host;
use cairn_runtime::memory::vmm::{PAGE, Pages, Physical, PhysicalSpec, Place};
use cairn_runtime::shared::Shared;
use cairn_runtime::stream::{ContextFailure, Stream, StreamSpec};
use cairn_runtime::sync::atomic::{AtomicBool, Ordering};
use cairn_runtime::sync::{Arc, thread};
use cairn_runtime::task::{Body, HostFunction, Location, Span, Task};
use shuttle::scheduler::{PctScheduler, RandomScheduler};

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let from_env = std::env::var("CAIRN_SHUTTLE_ITERATIONS").ok().and_then(|v| v.parse().ok());
    let iterations = from_env.unwrap_or(300);
    let model = std::sync::Arc::new(model);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let (random, pct) = (model.clone(), model);
    shuttle::Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config).run(move || pct());
}

struct Fixture {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
}

impl Fixture {
    fn new() -> Fixture {
        let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
        config.visible = vec![0];
        config.device_memory = 4 * PAGE;
        config.budget = 8 * PAGE;
        let shared = Shared::new(config, 8).unwrap();
        shared.scheduler.start(1).unwrap();
        let context_failure = Arc::<ContextFailure>::default();
        let spec = StreamSpec { device: 0, context: 1, context_failure, priority: 0, flags: 0 };
        let stream = Stream::new(&shared, spec).unwrap();
        Fixture { shared, stream }
    }

    fn other_stream(&self) -> Arc<Stream> {
        let context_failure = Arc::<ContextFailure>::default();
        let spec = StreamSpec { device: 0, context: 1, context_failure, priority: 0, flags: 0 };
        Stream::new(&self.shared, spec).unwrap()
    }

    fn physical(&self, value: u8, at: usize) -> Arc<Physical> {
        let spec = PhysicalSpec { bytes: PAGE, place: Place::Device(0), pages: Pages::Huge };
        let memory = &self.shared.memory;
        let physical = memory.make_physical(spec).unwrap();
        memory.vmm().map(at, PAGE, &physical, true).unwrap();
        memory.perform(&Task::fill("fill", byte(at), value)).unwrap();
        memory.unmap(at).unwrap();
        physical
    }

    fn end(self) {
        let Fixture { shared, stream } = self;
        drop(stream);
        shared.scheduler.stop();
        shared.host_threads.stop();
        while Arc::strong_count(&shared.scheduler) > 1 {
            thread::yield_now();
        }
    }
}

/// A host function that waits for a flag.
struct Opened(Arc<AtomicBool>);

impl HostFunction for Opened {
    fn call(&self, _: &dyn Fn()) -> Result<()> {
        while !self.0.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        Ok(())
    }
}

fn byte(address: usize) -> Span {
    Span { address, bytes: 1, location: Location::Any }
}

fn cell() -> Span {
    byte(Box::leak(Box::new(0u8)) as *mut u8 as usize)
}

fn read(span: Span) -> u8 {
    // SAFETY: a leaked box of one byte.
    unsafe { *(span.address as *const u8) }
}

/// A queued task reads what was mapped when it was submitted, although another piece is mapped there right after.
#[test]
fn a_task_reads_the_old_piece_when_a_new_one_is_in_its_place() {
    explore(|| {
        let fixture = Fixture::new();
        let memory = fixture.shared.memory.clone();
        let start = memory.vmm().reserve(PAGE, None).unwrap();
        let (old, new) = (fixture.physical(1, start), fixture.physical(9, start));
        memory.vmm().map(start, PAGE, &old, true).unwrap();
        let (first, second) = (cell(), cell());
        fixture.stream.submit(Task::copy("copy", byte(start), first)).unwrap();
        memory.unmap(start).unwrap();
        assert!(memory.free_physical(&old).unwrap(), "the program has no reference left");
        memory.vmm().map(start, PAGE, &new, true).unwrap();
        fixture.stream.submit(Task::copy("copy", byte(start), second)).unwrap();
        assert!(host::in_callback(|| fixture.stream.synchronize(None)).unwrap());
        assert_eq!((read(first), read(second)), (1, 9));
        assert_eq!(memory.usage(0).live, PAGE);
        drop(memory);
        fixture.end();
    });
}

/// Two threads unmap and map other places while tasks run: no task misses its memory, and all of it comes back.
#[test]
fn threads_that_unmap_take_nothing_from_each_others_tasks() {
    explore(|| {
        let fixture = Fixture::new();
        let memory = fixture.shared.memory.clone();
        let starts = [0, 1].map(|_| memory.vmm().reserve(PAGE, None).unwrap());
        let pieces = starts.map(|start| fixture.physical(start as u8 | 5, start));
        for (start, piece) in starts.iter().zip(&pieces) {
            memory.vmm().map(*start, PAGE, piece, true).unwrap();
        }
        let cells = [cell(), cell()];
        let other = {
            let (memory, stream) = (memory.clone(), fixture.stream.clone());
            let (start, cell, piece) = (starts[1], cells[1], pieces[1].clone());
            thread::spawn(move || {
                stream.submit(Task::copy("copy", byte(start), cell)).unwrap();
                memory.unmap(start).unwrap();
                memory.free_physical(&piece).unwrap();
                memory.vmm().release(start).unwrap();
            })
        };
        fixture.stream.submit(Task::copy("copy", byte(starts[0]), cells[0])).unwrap();
        memory.unmap(starts[0]).unwrap();
        memory.free_physical(&pieces[0]).unwrap();
        memory.vmm().release(starts[0]).unwrap();
        other.join().unwrap();
        assert!(host::in_callback(|| fixture.stream.synchronize(None)).unwrap());
        memory.vmm().release_unmapped();
        assert_eq!((read(cells[0]), read(cells[1])), (5, 5));
        let usage = memory.usage(0);
        assert_eq!((usage.live, usage.waiting), (0, 0));
        drop(memory);
        fixture.end();
    });
}

/// A stream waits for the thread that maps where that stream has work queued; beside it a task without a gate races with the map.
#[test]
fn a_map_never_waits_for_what_is_queued_behind_the_thread_that_maps() {
    explore(|| {
        let fixture = Fixture::new();
        let memory = fixture.shared.memory.clone();
        let start = memory.vmm().reserve(PAGE, None).unwrap();
        let (old, new) = (fixture.physical(1, start), fixture.physical(9, start));
        memory.vmm().map(start, PAGE, &old, true).unwrap();
        let other = fixture.other_stream();
        let is_open = Arc::new(AtomicBool::new(false));
        let (free, gated, late) = (cell(), cell(), cell());
        let body = Body::Host(Arc::new(Opened(is_open.clone())));
        fixture.stream.submit(Task::bare("gate", body)).unwrap();
        fixture.stream.submit(Task::copy("copy", byte(start), gated)).unwrap();
        other.submit(Task::copy("copy", byte(start), free)).unwrap();
        memory.unmap(start).unwrap();
        memory.vmm().map(start, PAGE, &new, true).unwrap();
        other.submit(Task::copy("copy", byte(start), late)).unwrap();
        is_open.store(true, Ordering::SeqCst);
        assert!(host::in_callback(|| fixture.stream.synchronize(None)).unwrap());
        assert!(host::in_callback(|| other.synchronize(None)).unwrap());
        assert_eq!((read(free), read(gated), read(late)), (1, 1, 9));
        memory.vmm().release_unmapped();
        assert_eq!(memory.usage(0).waiting, 0);
        drop((memory, other));
        fixture.end();
    });
}

/// A task that is submitted after an unmap fails, whatever older tasks and other threads do meanwhile.
#[test]
fn a_task_after_the_unmap_is_refused_in_every_order() {
    explore(|| {
        let fixture = Fixture::new();
        let memory = fixture.shared.memory.clone();
        let start = memory.vmm().reserve(PAGE, None).unwrap();
        let old = fixture.physical(1, start);
        memory.vmm().map(start, PAGE, &old, true).unwrap();
        let other = fixture.other_stream();
        let (first, second) = (cell(), cell());
        fixture.stream.submit(Task::copy("copy", byte(start), first)).unwrap();
        let reaper = {
            let memory = memory.clone();
            thread::spawn(move || memory.vmm().release_unmapped())
        };
        memory.unmap(start).unwrap();
        other.submit(Task::copy("copy", byte(start), second)).unwrap();
        let synchronize = |stream: &Arc<Stream>| {
            host::in_callback(|| stream.synchronize(None)).unwrap();
            stream.take_failure()
        };
        assert!(synchronize(&fixture.stream).is_none());
        assert!(synchronize(&other).is_some_and(|e| e.text.contains("nothing is mapped there")));
        reaper.join().unwrap();
        assert_eq!((read(first), read(second)), (1, 0));
        drop((memory, other));
        fixture.end();
    });
}
