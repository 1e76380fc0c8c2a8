//! Streams, events, workers and the quarantine under a scheduler that tries many interleavings.
//!
//! `cargo test -p cairn-runtime --features shuttle --test models`; `CAIRN_SHUTTLE_ITERATIONS` sets
//! how many interleavings each model gets. A hang is a deadlock to shuttle, hence a failure.

#![cfg(feature = "shuttle")]

use cairn_runtime::clock::Epoch;
use cairn_runtime::config::Config;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::event::{Event, Kind};
use cairn_runtime::host;
use cairn_runtime::memory::arena::{Arena, ArenaSpec, Attempt};
use cairn_runtime::memory::budget::Budget;
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::event::MemoryKind;
use cairn_runtime::shared::Shared;
use cairn_runtime::stream::{ContextFailure, FailureMode, Stream, StreamSpec};
use cairn_runtime::sync::{Arc, thread};
use cairn_runtime::task::{Body, HostFunction, Kernel, Location, Span, Task};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Barrier;
use std::sync::Mutex;
use std::time::Duration;

const FOREVER: Duration = Duration::ZERO;

/// Runs a model under many interleavings.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let from_env = std::env::var("CAIRN_SHUTTLE_ITERATIONS").ok().and_then(|v| v.parse().ok());
    let iterations = from_env.unwrap_or(2000);
    let model = std::sync::Arc::new(model);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let (random, pct) = (model.clone(), model);
    shuttle::Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config).run(move || pct());
}

/// One runtime inside one execution.
struct Fixture {
    shared: Arc<Shared>,
    context_failure: Arc<ContextFailure>,
}

impl Fixture {
    fn new(workers: usize) -> Fixture {
        let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
        config.visible = vec![0];
        config.device_memory = 2 << 20;
        config.budget = 16 << 20;
        config.quarantine = 2 << 20;
        let shared = Shared::new(config, 8).unwrap();
        shared.scheduler.start(workers).unwrap();
        Fixture { shared, context_failure: Arc::default() }
    }

    fn stream(&self) -> Arc<Stream> {
        let context_failure = self.context_failure.clone();
        let spec = StreamSpec { device: 0, context: 1, context_failure, priority: 0, flags: 0 };
        Stream::new(&self.shared, spec).unwrap()
    }

    /// Panics unless the stream has finished this many tasks, all that were submitted.
    fn assert_done(&self, stream: &Stream, tasks: u64) {
        assert_eq!(self.shared.progress.submitted(stream.index), tasks);
        assert_eq!(self.shared.progress.finished(stream.index), tasks);
    }

    /// Stops all threads of the runtime and waits for their end.
    fn end(self) {
        self.shared.scheduler.stop();
        self.shared.host_threads.stop();
        self.shared.exchange_threads.stop();
        while Arc::strong_count(&self.shared.scheduler) > 1
            || Arc::strong_count(&self.shared.host_threads) > 1
            || Arc::strong_count(&self.shared.exchange_threads) > 1
        {
            thread::yield_now();
        }
    }
}

/// Waits for a stream without running its tasks on this thread: the workers have to.
fn wait_without_helping(stream: &Arc<Stream>) {
    assert!(host::in_callback(|| stream.synchronize(None)).unwrap());
}

/// A byte that tasks write. Modelled threads take turns, so plain memory is enough.
fn cell() -> Span {
    Span {
        address: Box::leak(Box::new(0u8)) as *mut u8 as usize,
        bytes: 1,
        location: Location::Any,
    }
}

fn read(span: Span) -> u8 {
    // SAFETY: a leaked box of one byte, or memory of an arena that the test holds.
    unsafe { *(span.address as *const u8) }
}

fn fill(to: Span, value: u8) -> Task {
    Task::fill("fill", to, value)
}

fn copy(from: Span, to: Span) -> Task {
    Task::copy("copy", from, to)
}

/// A host function from a closure, which returns false for an exception.
struct ClosureFunction<F>(F);

impl<F: Fn() -> bool + Send + Sync> HostFunction for ClosureFunction<F> {
    fn call(&self, _on_exit: &dyn Fn()) -> Result<()> {
        let thrown = || Error::new(Code::Internal, "it threw");
        if (self.0)() { Ok(()) } else { Err(thrown()) }
    }
}

fn host_task(job: impl Fn() -> bool + Send + Sync + 'static) -> Task {
    Task::bare("host", Body::Host(Arc::new(ClosureFunction(job))))
}

/// An exchange that calls a closure.
struct ClosureExchange<F>(F);

impl<F: Fn() + Send + Sync> Kernel for ClosureExchange<F> {
    fn argument(&self, _: Use, _: usize) -> &str {
        "buffer"
    }

    fn run(&self, _: &TaskMemory<'_>) -> Result<()> {
        (self.0)();
        Ok(())
    }
}

/// What ran, in order.
#[derive(Clone, Default)]
struct Journal(std::sync::Arc<Mutex<Vec<u32>>>);

impl Journal {
    /// A task that adds an entry.
    fn entry(&self, value: u32) -> Task {
        let journal = self.clone();
        host_task(move || {
            journal.0.lock().unwrap().push(value);
            true
        })
    }

    fn entries(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}

fn plain_event() -> Arc<Event> {
    Arc::new(Event::new(1, Kind::Plain, 9).unwrap())
}

#[test]
fn exchanges_meet_with_one_worker_and_keep_the_order() {
    explore(|| {
        let fixture = Fixture::new(1);
        let streams = [fixture.stream(), fixture.stream()];
        let (barrier, journal) = (Arc::new(Barrier::new(2)), Journal::default());
        for (number, stream) in (0..).zip(&streams) {
            stream.submit(journal.entry(number)).unwrap();
            let barrier = barrier.clone();
            let meet = ClosureExchange(move || drop(barrier.wait()));
            stream.submit(Task::bare("exchange", Body::Exchange(Arc::new(meet)))).unwrap();
            stream.submit(journal.entry(10 + number)).unwrap();
        }
        wait_without_helping(&streams[0]);
        assert!(streams[1].synchronize(None).unwrap());
        let mut entries = journal.entries();
        entries[..2].sort();
        entries[2..].sort();
        assert_eq!(entries, [0, 1, 10, 11]);
        streams.iter().for_each(|stream| fixture.assert_done(stream, 3));
        drop(streams);
        fixture.end();
    });
}

#[test]
fn an_abort_meets_an_exchange() {
    explore(|| {
        let fixture = Fixture::new(1);
        let stream = fixture.stream();
        for _ in 0..2 {
            let pass = ClosureExchange(thread::yield_now);
            stream.submit(Task::bare("exchange", Body::Exchange(Arc::new(pass)))).unwrap();
        }
        let aborting = stream.clone();
        let abort = thread::spawn(move || aborting.abort());
        wait_without_helping(&stream);
        abort.join().unwrap();
        fixture.assert_done(&stream, 2);
        drop(stream);
        fixture.end();
    });
}

#[test]
fn stream_runs_every_task_once_in_order() {
    explore(|| {
        let fixture = Fixture::new(1);
        let stream = fixture.stream();
        let submitters: Vec<_> = [10u8, 20]
            .into_iter()
            .map(|value| {
                let stream = stream.clone();
                thread::spawn(move || {
                    let cells = [cell(), cell(), cell()];
                    stream.submit(fill(cells[0], value)).unwrap();
                    stream.submit(copy(cells[0], cells[1])).unwrap();
                    stream.submit(copy(cells[1], cells[2])).unwrap();
                    cells[2]
                })
            })
            .collect();
        assert!(stream.synchronize(None).unwrap());
        let ends: Vec<_> = submitters.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(stream.synchronize(None).unwrap());
        assert_eq!((read(ends[0]), read(ends[1])), (10, 20));
        assert!(stream.is_idle());
        fixture.assert_done(&stream, 6);
        fixture.end();
    });
}

#[test]
fn short_tasks_run_once_and_in_order() {
    explore(|| {
        let fixture = Fixture::new(1);
        let stream = fixture.stream();
        let submitters: Vec<_> = [10u8, 20]
            .into_iter()
            .map(|value| {
                let stream = stream.clone();
                thread::spawn(move || {
                    let cells = [cell(), cell(), cell()];
                    stream.submit_short(fill(cells[0], value)).unwrap();
                    stream.submit(copy(cells[0], cells[1])).unwrap();
                    stream.submit_short(copy(cells[1], cells[2])).unwrap();
                    cells[2]
                })
            })
            .collect();
        assert!(stream.synchronize(None).unwrap());
        let ends: Vec<_> = submitters.into_iter().map(|t| t.join().unwrap()).collect();
        wait_without_helping(&stream);
        assert_eq!((read(ends[0]), read(ends[1])), (10, 20));
        fixture.assert_done(&stream, 6);
        fixture.end();
    });
}

#[test]
fn stream_with_two_helpers() {
    explore(|| {
        let fixture = Fixture::new(1);
        let stream = fixture.stream();
        let cells = [cell(), cell()];
        stream.submit(fill(cells[0], 7)).unwrap();
        let helper = {
            let stream = stream.clone();
            thread::spawn(move || assert!(stream.synchronize(None).unwrap()))
        };
        stream.submit(copy(cells[0], cells[1])).unwrap();
        assert!(stream.synchronize(None).unwrap());
        assert_eq!(read(cells[1]), 7);
        helper.join().unwrap();
        fixture.assert_done(&stream, 2);
        fixture.end();
    });
}

#[test]
fn stream_hands_host_functions_off_and_back() {
    explore(|| {
        let fixture = Fixture::new(1);
        let (stream, journal) = (fixture.stream(), Journal::default());
        let cells = [cell(), cell()];
        let second = {
            let (stream, journal) = (stream.clone(), journal.clone());
            thread::spawn(move || {
                for value in [11, 12] {
                    stream.submit(journal.entry(value)).unwrap();
                }
            })
        };
        stream.submit(journal.entry(1)).unwrap();
        stream.submit(fill(cells[0], 5)).unwrap();
        let entries = journal.clone();
        stream
            .submit(host_task(move || {
                assert_eq!(read(cells[0]), 5);
                entries.0.lock().unwrap().push(2);
                true
            }))
            .unwrap();
        stream.submit(copy(cells[0], cells[1])).unwrap();
        assert!(stream.synchronize(None).unwrap());
        assert_eq!(read(cells[1]), 5);
        second.join().unwrap();
        wait_without_helping(&stream);
        let entries = journal.entries();
        let entries_from =
            |low: u32| entries.iter().copied().filter(|v| v / 10 == low).collect::<Vec<_>>();
        assert_eq!((entries_from(0), entries_from(1)), (vec![1, 2], vec![11, 12]));
        fixture.assert_done(&stream, 6);
        fixture.end();
    });
}

#[test]
fn event_waits_keep_their_capture() {
    explore(|| {
        let fixture = Fixture::new(1);
        let (a, b, c) = (fixture.stream(), fixture.stream(), fixture.stream());
        let (event, gate) = (plain_event(), plain_event());
        let cells = [cell(), cell()];
        a.submit(fill(cells[0], 1)).unwrap();
        event.record(&a).unwrap();
        event.wait(&b, FOREVER).unwrap();
        b.submit(copy(cells[0], cells[1])).unwrap();
        gate.wait(&c, FOREVER).unwrap();
        event.record(&c).unwrap();
        wait_without_helping(&b);
        assert_eq!(read(cells[1]), 1);
        assert!(!event.is_complete().unwrap());
        let epoch = Epoch { stream: a.index, seq: 2 };
        assert!(b.ordered().covers(epoch) && !c.ordered().covers(epoch));
        gate.record(&b).unwrap();
        assert!(event.synchronize(None).unwrap());
        assert!(event.is_complete().unwrap() && gate.is_complete().unwrap());
        assert!(event.waits_passed());
        fixture.end();
    });
}

#[test]
fn event_park_and_unpark_race() {
    explore(|| {
        let fixture = Fixture::new(1);
        let (a, b, c) = (fixture.stream(), fixture.stream(), fixture.stream());
        let event = plain_event();
        let cells = [cell(), cell(), cell()];
        let recorder = {
            let (a, event) = (a.clone(), event.clone());
            thread::spawn(move || {
                a.submit(fill(cells[0], 3)).unwrap();
                event.record(&a).unwrap();
            })
        };
        let other = {
            let (c, event) = (c.clone(), event.clone());
            thread::spawn(move || {
                event.wait(&c, FOREVER).unwrap();
                c.submit(copy(cells[0], cells[2])).unwrap();
                assert!(c.synchronize(None).unwrap());
            })
        };
        event.wait(&b, FOREVER).unwrap();
        b.submit(copy(cells[0], cells[1])).unwrap();
        wait_without_helping(&b);
        other.join().unwrap();
        recorder.join().unwrap();
        assert_eq!((read(cells[1]), read(cells[2])), (3, 3));
        assert!(event.waits_passed());
        fixture.end();
    });
}

#[test]
fn abort_frees_a_parked_stream() {
    explore(|| {
        let fixture = Fixture::new(1);
        let stream = fixture.stream();
        let never = plain_event();
        let cells = [cell(), cell()];
        never.wait(&stream, FOREVER).unwrap();
        stream.submit(fill(cells[0], 1)).unwrap();
        let aborter = {
            let stream = stream.clone();
            thread::spawn(move || stream.abort())
        };
        assert!(stream.synchronize(None).unwrap());
        assert_eq!(read(cells[0]), 0, "what was queued is dropped");
        aborter.join().unwrap();
        assert_eq!(stream.take_failure().unwrap().code, Code::StreamAbort);
        assert!(never.waits_passed());
        stream.submit(fill(cells[1], 2)).unwrap();
        wait_without_helping(&stream);
        assert_eq!(read(cells[1]), 2, "later work runs");
        assert!(stream.take_failure().is_none());
        fixture.end();
    });
}

#[test]
fn abort_races_with_the_record() {
    explore(|| {
        let fixture = Fixture::new(2);
        let (a, b) = (fixture.stream(), fixture.stream());
        let event = plain_event();
        event.wait(&b, FOREVER).unwrap();
        let aborter = {
            let b = b.clone();
            thread::spawn(move || b.abort())
        };
        event.record(&a).unwrap();
        wait_without_helping(&b);
        aborter.join().unwrap();
        event.wait(&b, FOREVER).unwrap();
        wait_without_helping(&b);
        fixture.assert_done(&b, 2);
        assert!(event.waits_passed());
        fixture.end();
    });
}

#[test]
fn a_forced_close_ends_a_parked_stream() {
    explore(|| {
        let fixture = Fixture::new(1);
        let (stream, other) = (fixture.stream(), fixture.stream());
        let (never, last) = (plain_event(), plain_event());
        never.wait(&stream, FOREVER).unwrap();
        last.record(&stream).unwrap();
        last.wait(&other, FOREVER).unwrap();
        let closer = {
            let stream = stream.clone();
            thread::spawn(move || stream.close(false).unwrap())
        };
        wait_without_helping(&other);
        closer.join().unwrap();
        let refused = stream.submit(Task::bare("late", Body::Nothing)).unwrap_err();
        assert_eq!(refused.code, Code::InvalidHandle);
        let index = stream.index;
        drop(stream);
        while fixture.shared.progress.open() != Some(index) {
            thread::yield_now();
        }
        fixture.end();
    });
}

#[test]
fn a_wait_that_expires_fails_alone() {
    explore(|| {
        let fixture = Fixture::new(1);
        let (stream, other) = (fixture.stream(), fixture.stream());
        let (never, done) = (plain_event(), plain_event());
        done.record(&other).unwrap();
        wait_without_helping(&other);
        never.wait(&stream, Duration::from_millis(1)).unwrap();
        done.wait(&stream, FOREVER).unwrap();
        wait_without_helping(&stream);
        assert_eq!(stream.take_failure().unwrap().code, Code::WaitTimeout);
        assert!(stream.take_failure().is_none());
        assert!(never.waits_passed() && done.waits_passed());
        fixture.end();
    });
}

#[test]
fn an_aborted_wait_leaves_no_timeout_behind() {
    explore(|| {
        let fixture = Fixture::new(2);
        let (stream, other) = (fixture.stream(), fixture.stream());
        let event = plain_event();
        event.wait(&stream, Duration::from_millis(1)).unwrap();
        let aborter = {
            let stream = stream.clone();
            thread::spawn(move || stream.abort())
        };
        wait_without_helping(&stream);
        aborter.join().unwrap();
        assert!(stream.take_failure().is_some());
        event.wait(&stream, FOREVER).unwrap();
        event.record(&other).unwrap();
        wait_without_helping(&stream);
        assert_eq!(stream.take_failure(), None, "no timeout of the first wait");
        fixture.end();
    });
}

#[test]
fn a_late_timer_ends_no_other_wait() {
    explore(|| {
        let fixture = Fixture::new(2);
        let (stream, event) = (fixture.stream(), plain_event());
        event.wait(&stream, Duration::from_millis(1)).unwrap();
        thread::yield_now();
        stream.abort();
        wait_without_helping(&stream);
        assert!(stream.take_failure().is_some());
        event.wait(&stream, FOREVER).unwrap();
        for _ in 0..3 {
            thread::yield_now();
        }
        event.record(&fixture.stream()).unwrap();
        wait_without_helping(&stream);
        assert_eq!(stream.take_failure(), None);
        fixture.end();
    });
}

fn no_wake_up_is_lost(workers: usize) {
    explore(move || {
        let fixture = Fixture::new(workers);
        let streams = [fixture.stream(), fixture.stream()];
        let cells = [cell(), cell()];
        for round in 1..=2 {
            let other = {
                let stream = streams[1].clone();
                thread::spawn(move || {
                    stream.submit(fill(cells[1], round)).unwrap();
                    wait_without_helping(&stream);
                })
            };
            streams[0].submit(fill(cells[0], round)).unwrap();
            wait_without_helping(&streams[0]);
            other.join().unwrap();
            assert_eq!((read(cells[0]), read(cells[1])), (round, round));
        }
        fixture.end();
    });
}

#[test]
fn one_worker_loses_no_wake_up() {
    no_wake_up_is_lost(1);
}

#[test]
fn two_workers_lose_no_wake_up() {
    no_wake_up_is_lost(2);
}

#[test]
fn two_host_functions_wait_for_each_other() {
    explore(|| {
        let fixture = Fixture::new(1);
        let streams = [fixture.stream(), fixture.stream()];
        let barrier = Arc::new(Barrier::new(2));
        streams[0].submit(host_task(|| true)).unwrap();
        wait_without_helping(&streams[0]);
        for stream in &streams {
            let barrier = barrier.clone();
            stream
                .submit(host_task(move || {
                    barrier.wait();
                    true
                }))
                .unwrap();
        }
        for stream in &streams {
            assert!(stream.synchronize(None).unwrap());
            assert!(stream.take_failure().is_none());
        }
        fixture.end();
    });
}

#[test]
fn workers_finish_what_is_ready_when_they_are_stopped() {
    explore(|| {
        let fixture = Fixture::new(2);
        let (a, b) = (fixture.stream(), fixture.stream());
        let cells = [cell(), cell()];
        a.submit(fill(cells[0], 1)).unwrap();
        b.submit(fill(cells[1], 2)).unwrap();
        fixture.end();
        assert_eq!((read(cells[0]), read(cells[1])), (1, 2));
    });
}

fn request(bytes: u64) -> Request<'static> {
    Request::bytes(bytes)
}

/// The allocating call waits for the work that was queued at the free, also when the freeing thread
/// has synchronized another stream since.
#[test]
fn quarantine_keeps_what_queued_work_reads() {
    explore(|| {
        let fixture = Fixture::new(1);
        let (stream, gate) = (fixture.stream(), plain_event());
        let all = fixture.shared.config.device_memory;
        let target = cell();
        let address = fixture.shared.memory.allocate(0, request(all)).unwrap();
        let block = Span { address, bytes: 1, location: Location::Device(0) };
        stream.submit(fill(block, 1)).unwrap();
        gate.wait(&stream, FOREVER).unwrap();
        stream.submit(copy(block, target)).unwrap();
        fixture.shared.memory.free(address).unwrap();
        fixture.stream().synchronize(None).unwrap();
        let opener = {
            let (gate, other) = (gate.clone(), fixture.stream());
            thread::spawn(move || gate.record(&other).unwrap())
        };
        let new_address = fixture.shared.memory.allocate(0, request(all)).unwrap();
        assert_eq!(new_address, address, "there is no other room");
        fixture.shared.memory.perform(&fill(block, 9)).unwrap();
        wait_without_helping(&stream);
        assert_eq!(read(target), 1);
        opener.join().unwrap();
        fixture.end();
    });
}

/// As in torch_npu: the kernel waits in a queue of the program while its memory is freed; the freeing
/// thread's synchronize first drains that queue. Another thread must not get the memory before.
#[test]
fn quarantine_keeps_what_a_queue_of_the_program_reads() {
    explore(|| {
        let fixture = Fixture::new(1);
        let stream = fixture.stream();
        let budget = Arc::new(Budget::new(2 << 20));
        let progress = fixture.shared.progress.clone();
        let arena = Arc::new(
            Arena::new(
                ArenaSpec {
                    kind: MemoryKind::Device(0),
                    capacity: 2 << 20,
                    quarantine_limit: 4 << 20,
                    skew: 0,
                    is_protected: false,
                },
                progress,
                budget,
                Arc::default(),
            )
            .unwrap(),
        );
        let Attempt::Taken(address) = arena.attempt(&request(2 << 20), true) else { panic!() };
        let block = Span { address, bytes: 1, location: Location::Any };
        let target = cell();
        fixture.shared.memory.perform(&fill(block, 1)).unwrap();

        let allocating_thread = {
            let (arena, shared) = (arena.clone(), fixture.shared.clone());
            thread::spawn(move || {
                loop {
                    if let Attempt::Taken(new_address) = arena.attempt(&request(2 << 20), true) {
                        assert_eq!(new_address, address);
                        shared.memory.perform(&fill(block, 9)).unwrap();
                        return;
                    }
                    thread::yield_now();
                }
            })
        };
        stream.synchronize(None).unwrap();
        let program_queue = {
            let stream = stream.clone();
            thread::spawn(move || {
                stream.submit(copy(block, target)).unwrap();
            })
        };
        assert!(arena.free(arena.offset(address).unwrap()));
        assert!(!arena.free(arena.offset(address).unwrap()), "a second free finds nothing");
        program_queue.join().unwrap();
        assert!(stream.synchronize(None).unwrap());
        assert_eq!(read(target), 1);
        allocating_thread.join().unwrap();
        fixture.end();
    });
}

/// Two threads free the same block: one of them does it.
#[test]
fn a_block_is_freed_once() {
    explore(|| {
        let fixture = Fixture::new(0);
        let shared = fixture.shared.clone();
        let address = shared.memory.allocate(0, request(512)).unwrap();
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.memory.free(address).is_ok())
        };
        let is_freed_here = shared.memory.free(address).is_ok();
        assert!(is_freed_here != other.join().unwrap());
        assert_eq!(shared.memory.usage(0).live, 0);
        drop(shared);
        fixture.end();
    });
}

#[test]
fn stop_drops_the_rest_and_refuses_later_work() {
    explore(|| {
        let fixture = Fixture::new(1);
        let (a, b) = (fixture.stream(), fixture.stream());
        let cells = [cell(), cell()];
        assert!(a.set_failure_mode(FailureMode::Stop));
        a.submit(fill(cells[0], 1)).unwrap();
        a.submit(host_task(|| false)).unwrap();
        a.submit(fill(cells[0], 2)).ok();
        let other = {
            let b = b.clone();
            thread::spawn(move || {
                let is_submitted = b.submit(fill(cells[1], 3)).is_ok();
                assert!(b.synchronize(None).unwrap());
                is_submitted
            })
        };
        assert!(a.synchronize(None).unwrap());
        assert_eq!(read(cells[0]), 1, "the rest is dropped");
        for stream in [&a, &b] {
            assert_eq!(stream.take_failure().unwrap().code, Code::Internal);
            let late = stream.submit(Task::bare("late", Body::Nothing)).unwrap_err();
            assert_eq!(late.code, Code::Internal);
        }
        let is_submitted = other.join().unwrap();
        assert!(is_submitted || read(cells[1]) == 0);
        assert!(a.is_idle() && b.is_idle());
        fixture.end();
    });
}

#[test]
fn stop_frees_the_parked_streams_of_the_context() {
    explore(|| {
        let fixture = Fixture::new(1);
        let (a, b) = (fixture.stream(), fixture.stream());
        let never = plain_event();
        assert!(a.set_failure_mode(FailureMode::Stop));
        never.wait(&b, FOREVER).unwrap();
        a.submit(host_task(|| false)).unwrap();
        assert!(b.synchronize(None).unwrap());
        assert_eq!(b.take_failure().unwrap().code, Code::Internal);
        assert!(never.waits_passed());
        fixture.end();
    });
}
