//! Streams, events, clocks and freed memory, with real threads.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::clock::{Epoch, QueuedMemory, TaskQueue};
use cairn_runtime::error::{Code, Result};
use cairn_runtime::event::{Event, Kind};
use cairn_runtime::host;
use cairn_runtime::memory::arena::{Arena, ArenaSpec, Attempt};
use cairn_runtime::memory::budget::Budget;
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::event::MemoryKind;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Location, Span, Task, Work};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use support::*;

const FOREVER: Duration = Duration::ZERO;
const SHORT: Duration = Duration::from_millis(3);

fn plain_event() -> Event {
    Event::new(1, Kind::Plain, 9).unwrap()
}

fn ex_event() -> Event {
    Event::new(2, Kind::Ex, 9).unwrap()
}

fn submit_nothing(stream: &Arc<Stream>) -> Epoch {
    let seq = stream.submit(Task::bare("nothing", Body::Nothing)).unwrap();
    Epoch { stream: stream.index, seq }
}

#[test]
fn host_functions_of_two_streams_meet_with_one_worker() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let barrier = Arc::new(Barrier::new(2));
    let streams = [runtime.new_stream(), runtime.new_stream()];
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
        runtime.synchronize(stream, None).unwrap();
    }
}

#[test]
fn exchanges_of_two_streams_meet_whoever_runs_them() {
    for helping in [false, true] {
        let runtime = start_runtime(1, |_| ());
        runtime.set_device(0).unwrap();
        let barrier = Arc::new(Barrier::new(2));
        let pairs = [0, 1].map(|_| (runtime.new_stream(), runtime.alloc(0, 64)));
        let target = runtime.alloc(0, 64);
        for (stream, to) in pairs.clone() {
            let barrier = barrier.clone();
            let wait = move || {
                barrier.wait();
                true
            };
            stream.submit(exchange(to, wait)).unwrap();
        }
        let (stream, from) = &pairs[0];
        stream.submit(copy(*from, target)).unwrap();
        for (stream, to) in &pairs {
            match helping {
                true => runtime.synchronize(stream, None).unwrap(),
                false => wait_without_helping(stream),
            }
            assert_eq!(bytes(*to), [7; 64]);
        }
        assert_eq!(bytes(target), [7; 64]);
    }
}

#[test]
fn an_exchange_checks_its_ranges_and_reports_its_failure() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let stream = runtime.new_stream();
    let to = runtime.alloc(0, 64);
    let wrong = Span { address: 0x1000, ..to };
    stream.submit(exchange(wrong, || panic!("its ranges are wrong"))).unwrap();
    let error = runtime.synchronize(&stream, None).unwrap_err();
    assert!(error.text.contains("buffer") && error.text.contains("0x1000"), "{}", error.text);
    stream.submit(exchange(to, || false)).unwrap();
    let error = runtime.synchronize(&stream, None).unwrap_err();
    assert!(error.text.contains("the peer is gone"), "{}", error.text);
    stream.submit(exchange(to, || panic!("in the body"))).unwrap();
    wait_without_helping(&stream);
    assert!(stream.take_failure().unwrap().text.contains("in the body"));
}

#[test]
fn memory_of_a_pending_exchange_is_named() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, gate, to) = (runtime.new_stream(), Gate::default(), runtime.alloc(0, 64));
    let (entered, inside) = (Gate::default(), gate.clone());
    let begun = entered.clone();
    let wait = move || {
        begun.open();
        inside.wait();
        true
    };
    stream.submit(exchange(to, wait)).unwrap();
    entered.wait();
    let mut queued = QueuedMemory::default();
    stream.collect(&mut queued);
    assert!(!queued.unknown && !queued.host_function);
    assert_eq!(queued.ranges, [(to.address, to.address + 64)]);
    gate.open();
    wait_without_helping(&stream);
}

/// Records the thread that it runs on.
struct ThreadRecorder(Mutex<Option<std::thread::ThreadId>>);

impl Work for ThreadRecorder {
    fn run(&self) -> Result<()> {
        *self.0.lock().unwrap() = Some(std::thread::current().id());
        Ok(())
    }
}

fn thread_recorder() -> (Arc<ThreadRecorder>, Task) {
    let recorder = Arc::new(ThreadRecorder(Mutex::default()));
    (recorder.clone(), Task::bare("short", Body::Work(recorder)))
}

#[test]
fn a_short_task_of_an_idle_stream_runs_on_the_calling_thread() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, here) = (runtime.new_stream(), std::thread::current().id());
    for _ in 0..3 {
        let (recorder, task) = thread_recorder();
        stream.submit_short(task).unwrap();
        assert_eq!(*recorder.0.lock().unwrap(), Some(here), "it ran before the call returned");
        assert!(stream.is_idle());
    }
}

#[test]
fn a_short_task_waits_for_what_was_submitted_before_it() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, gate) = (runtime.new_stream(), Gate::default());
    stream.submit(gate.task()).unwrap();
    let (recorder, task) = thread_recorder();
    stream.submit_short(task).unwrap();
    assert_eq!(*recorder.0.lock().unwrap(), None, "the stream is blocked");
    gate.open();
    wait_without_helping(&stream);
    assert_ne!(*recorder.0.lock().unwrap(), Some(std::thread::current().id()));
}

#[test]
fn a_short_task_runs_elsewhere_in_callbacks_and_host_functions() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, other) = (runtime.new_stream(), runtime.new_stream());
    let (recorder, task) = thread_recorder();
    let here = std::thread::current().id();
    host::in_callback(|| stream.submit_short(task)).unwrap();
    wait_without_helping(&stream);
    assert_ne!(*recorder.0.lock().unwrap(), Some(here));
    let (recorder, task) = thread_recorder();
    let (task, target, there) = (Mutex::new(Some(task)), other.clone(), Arc::new(Mutex::new(None)));
    let caller = there.clone();
    stream
        .submit(host_task(move || {
            *caller.lock().unwrap() = Some(std::thread::current().id());
            target.submit_short(task.lock().unwrap().take().unwrap()).is_ok()
        }))
        .unwrap();
    runtime.synchronize(&stream, None).unwrap();
    wait_without_helping(&other);
    assert_ne!(*recorder.0.lock().unwrap(), *there.lock().unwrap());
}

#[test]
fn a_blocked_stream_stops_no_other() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (blocked, free, gate) = (runtime.new_stream(), runtime.new_stream(), Gate::default());
    let block = runtime.alloc(0, 64);
    blocked.submit(gate.task()).unwrap();
    blocked.submit(fill(block, 1)).unwrap();
    free.submit(fill(block, 2)).unwrap();
    runtime.synchronize(&free, None).unwrap();
    assert_eq!(bytes(block), [2; 64]);
    assert!(!blocked.is_idle());
    gate.open();
    runtime.synchronize(&blocked, None).unwrap();
    assert_eq!(bytes(block), [1; 64]);
}

#[test]
fn work_completes_without_a_host_wait() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, event) = (runtime.new_stream(), ex_event());
    let block = runtime.alloc(0, 4096);
    for value in 1..=200 {
        stream.submit(fill(block, value)).unwrap();
    }
    event.record(&stream).unwrap();
    let start = Instant::now();
    while !(stream.is_idle() && event.is_complete().unwrap()) {
        assert!(start.elapsed() < Duration::from_secs(20), "nobody runs the stream");
        std::thread::yield_now();
    }
    assert_eq!(bytes(block), [200; 4096]);
}

#[test]
fn many_streams_keep_their_own_order() {
    let runtime = start_runtime(3, |_| ());
    runtime.set_device(0).unwrap();
    let streams: Vec<_> = (0..32).map(|_| runtime.new_stream()).collect();
    let cells: Vec<_> = (0..32).map(|_| (runtime.alloc(0, 8), runtime.alloc(0, 8))).collect();
    for round in 0..100u8 {
        for (stream, &(a, b)) in streams.iter().zip(&cells) {
            stream.submit(fill(a, round)).unwrap();
            stream.submit(copy(a, b)).unwrap();
            stream.submit(fill(a, 255)).unwrap();
        }
    }
    runtime.synchronize_device(runtime.device(0).unwrap(), None).unwrap();
    for &(a, b) in &cells {
        assert_eq!((bytes(a), bytes(b)), (vec![255; 8], vec![99; 8]));
    }
}

#[test]
fn an_event_orders_streams_of_two_devices() {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    let first = runtime.new_stream();
    let from = runtime.alloc(0, 256);
    runtime.set_device(1).unwrap();
    let second = runtime.new_stream();
    let to = runtime.alloc(1, 256);
    runtime.shared.memory.set_peer(1, 0, true);
    for (round, event) in (1..=50).map(|r| (r, plain_event())) {
        let gate = Gate::default();
        first.submit(gate.task()).unwrap();
        first.submit(fill(from, round)).unwrap();
        event.record(&first).unwrap();
        event.wait(&second, FOREVER).unwrap();
        second.submit(copy(from, to)).unwrap();
        assert!(!event.is_complete().unwrap() && !event.waits_passed());
        gate.open();
        runtime.synchronize(&second, None).unwrap();
        assert_eq!(bytes(to), [round; 256]);
        assert!(event.is_complete().unwrap() && event.waits_passed());
    }
    runtime.synchronize(&first, None).unwrap();
}

#[test]
fn a_stream_waits_for_an_event_until_its_timeout() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, other, event) = (runtime.new_stream(), runtime.new_stream(), plain_event());
    let block = runtime.alloc(0, 8);
    let start = Instant::now();
    event.wait(&stream, SHORT).unwrap();
    stream.submit(fill(block, 7)).unwrap();
    let error = runtime.synchronize(&stream, None).unwrap_err();
    assert_eq!(error.code, Code::WaitTimeout);
    assert!(error.text.contains("0.003 s"), "{}", error.text);
    assert!(start.elapsed() >= SHORT);
    assert_eq!(bytes(block), [7; 8], "the stream goes on");
    assert!(event.waits_passed());

    event.wait(&stream, Duration::from_secs(60)).unwrap();
    event.record(&other).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    for limit in [SHORT, FOREVER] {
        event.wait(&stream, limit).unwrap();
        runtime.synchronize(&stream, None).unwrap();
    }
}

#[test]
fn timers_expire_in_order_of_their_time() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (slow, quick, event) = (runtime.new_stream(), runtime.new_stream(), plain_event());
    event.wait(&slow, Duration::from_secs(60)).unwrap();
    event.wait(&quick, SHORT).unwrap();
    assert_eq!(runtime.synchronize(&quick, None).unwrap_err().code, Code::WaitTimeout);
    assert!(!slow.is_idle());
    event.record(&quick).unwrap();
    runtime.synchronize(&slow, None).unwrap();
}

#[test]
fn a_host_wait_ends_with_its_limit() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, event, gate) = (runtime.new_stream(), plain_event(), Gate::default());
    stream.submit(gate.task()).unwrap();
    event.record(&stream).unwrap();
    assert_eq!(
        runtime.synchronize(&stream, Some(SHORT)).unwrap_err().code,
        Code::StreamSyncTimeout
    );
    assert!(!event.synchronize(Some(SHORT)).unwrap());
    let device = runtime.device(0).unwrap();
    assert_eq!(
        runtime.synchronize_device(device, Some(SHORT)).unwrap_err().code,
        Code::StreamSyncTimeout
    );
    assert!(!runtime.drain(Some(SHORT)));
    gate.open();
    assert!(event.synchronize(Some(Duration::from_secs(60))).unwrap());
    runtime.synchronize(&stream, Some(Duration::from_secs(60))).unwrap();
    assert!(runtime.drain(Some(Duration::from_secs(60))));
}

#[test]
fn an_unrecorded_event_means_what_its_kind_says() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, other) = (runtime.new_stream(), runtime.new_stream());
    let (plain, ex) = (plain_event(), ex_event());
    assert!(!plain.is_complete().unwrap() && ex.is_complete().unwrap());
    assert_eq!(plain.synchronize(None).unwrap_err().code, Code::RtInternal);
    assert!(ex.synchronize(None).unwrap());
    ex.wait(&stream, FOREVER).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    plain.wait(&stream, FOREVER).unwrap();
    assert!(!stream.synchronize(Some(SHORT)).unwrap());
    plain.record(&other).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    plain.reset(&other).unwrap();
    assert!(!plain.is_complete().unwrap());
    assert_eq!(ex.reset(&other).unwrap_err().code, Code::RtParamInvalid);
}

#[test]
fn abort_drops_what_is_queued() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, gate) = (runtime.new_stream(), Gate::default());
    let (block, event) = (runtime.alloc(0, 8), plain_event());
    stream.submit(gate.task()).unwrap();
    stream.submit(fill(block, 1)).unwrap();
    event.record(&stream).unwrap();
    stream.abort();
    gate.open();
    assert_eq!(runtime.synchronize(&stream, None).unwrap_err().code, Code::StreamAbort);
    assert_eq!(bytes(block), [0; 8]);
    assert!(event.is_complete().unwrap(), "whoever waits for the record goes on");
    runtime.synchronize(&stream, None).unwrap();
    stream.submit(fill(block, 2)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    assert_eq!(bytes(block), [2; 8]);
}

#[test]
fn abort_and_force_reach_a_parked_stream() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let never = plain_event();
    for _ in 0..200 {
        let stream = runtime.new_stream();
        never.wait(&stream, FOREVER).unwrap();
        stream.abort();
        assert_eq!(runtime.synchronize(&stream, None).unwrap_err().code, Code::StreamAbort);
        never.wait(&stream, Duration::from_secs(3600)).unwrap();
        stream.close(false).unwrap();
        assert!(stream.synchronize(None).unwrap());
        assert_eq!(
            stream.submit(fill(runtime.alloc(0, 8), 1)).unwrap_err().code,
            Code::InvalidHandle
        );
    }
    assert!(never.waits_passed());
}

#[test]
fn continue_reports_the_first_failure_once() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, block) = (runtime.new_stream(), runtime.alloc(0, 8));
    stream.submit(host_task(|| false)).unwrap();
    stream.submit(copy(Span { address: 0x10, ..block }, block)).unwrap();
    stream.submit(fill(block, 3)).unwrap();
    let error = runtime.synchronize(&stream, None).unwrap_err();
    assert_eq!(error.code, Code::Internal);
    assert!(error.text.contains("aclrtLaunchHostFunc"), "{}", error.text);
    assert_eq!(bytes(block), [3; 8]);
    runtime.synchronize(&stream, None).unwrap();
}

#[test]
fn stop_ends_the_context() {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, parked, never) = (runtime.new_stream(), runtime.new_stream(), plain_event());
    let (block, gate) = (runtime.alloc(0, 8), Gate::default());
    runtime.set_failure_mode(&stream, 1).unwrap();
    assert_eq!(runtime.set_failure_mode(&stream, 0).unwrap_err().code, Code::RtParamInvalid);
    assert_eq!(runtime.set_failure_mode(&parked, 2).unwrap_err().code, Code::RtParamInvalid);
    never.wait(&parked, FOREVER).unwrap();
    stream.submit(gate.task()).unwrap();
    stream.submit(copy(Span { address: 0x10, ..block }, block)).unwrap();
    stream.submit(fill(block, 9)).unwrap();
    let waiter = {
        let parked = parked.clone();
        std::thread::spawn(move || {
            parked.synchronize(None).unwrap();
            parked.take_failure().unwrap().code
        })
    };
    gate.open();
    for stream in [&stream, &parked] {
        for _ in 0..2 {
            assert_eq!(runtime.synchronize(stream, None).unwrap_err().code, Code::RtParamInvalid);
            assert_eq!(stream.submit(fill(block, 9)).unwrap_err().code, Code::RtParamInvalid);
        }
    }
    assert_eq!(waiter.join().unwrap(), Code::RtParamInvalid);
    assert_eq!(bytes(block), [0; 8]);
    let context = runtime.create_context(0).unwrap();
    let new_stream = runtime.new_stream();
    new_stream.submit(fill(block, 4)).unwrap();
    runtime.synchronize(&new_stream, None).unwrap();
    runtime.destroy_context(context.handle()).unwrap();
    runtime.reset_device(0, false).unwrap();
    runtime.set_device(0).unwrap();
    submit_nothing(&runtime.new_stream());
}

#[test]
fn a_waiting_host_thread_helps_only_where_it_may() {
    let runtime = start_runtime(0, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, block) = (runtime.new_stream(), runtime.alloc(0, 8));
    stream.submit(fill(block, 1)).unwrap();
    assert!(!stream.synchronize(Some(SHORT)).unwrap(), "no help in a timed wait");
    let waiter = {
        let stream = stream.clone();
        std::thread::spawn(move || wait_without_helping(&stream))
    };
    std::thread::sleep(SHORT);
    assert_eq!(bytes(block), [0; 8], "no help inside a callback");
    assert!(stream.synchronize(None).unwrap());
    assert_eq!(bytes(block), [1; 8]);
    waiter.join().unwrap();

    let ran_on = Arc::new(Mutex::new(None));
    let slot = ran_on.clone();
    stream
        .submit(host_task(move || {
            *slot.lock().unwrap() = Some(std::thread::current().id());
            true
        }))
        .unwrap();
    assert!(stream.synchronize(None).unwrap());
    assert_ne!(ran_on.lock().unwrap().unwrap(), std::thread::current().id());
}

#[test]
fn a_host_function_may_not_wait_for_its_own_stream() {
    let runtime = Arc::new(start_runtime(1, |_| ()));
    runtime.set_device(0).unwrap();
    let (handle, other) = (runtime.create_stream(0, 0).unwrap(), runtime.new_stream());
    let stream = runtime.stream(handle).unwrap();
    let codes = Arc::new(Mutex::new(Vec::new()));
    let (inner_runtime, function_codes, own_stream, block) =
        (runtime.clone(), codes.clone(), stream.clone(), runtime.alloc(0, 8));
    stream
        .submit(host_task(move || {
            let mut function_codes = function_codes.lock().unwrap();
            function_codes.push(own_stream.synchronize(None).unwrap_err().code);
            function_codes.push(inner_runtime.destroy_stream(handle, true).unwrap_err().code);
            function_codes.push(inner_runtime.reset_device(0, false).unwrap_err().code);
            other.submit(fill(block, 5)).unwrap();
            assert!(other.synchronize(None).unwrap());
            assert!(inner_runtime.drain(None));
            true
        }))
        .unwrap();
    runtime.synchronize(&stream, None).unwrap();
    assert_eq!(*codes.lock().unwrap(), [Code::RtParamInvalid; 3]);
    assert_eq!(bytes(block), [5; 8]);
    drop(stream);
}

#[test]
fn one_worker_serves_the_first_priority_first() {
    for (late_priority, expected) in [(0, 1), (7, 0)] {
        let runtime = start_runtime(0, |_| ());
        runtime.set_device(0).unwrap();
        let early = runtime.stream(runtime.create_stream(7, 0).unwrap()).unwrap();
        let late = runtime.stream(runtime.create_stream(late_priority, 0).unwrap()).unwrap();
        let (from, to) = (runtime.alloc(0, 8), runtime.alloc(0, 8));
        early.submit(copy(from, to)).unwrap();
        late.submit(fill(from, 1)).unwrap();
        runtime.shared.scheduler.start(1).unwrap();
        wait_without_helping(&early);
        wait_without_helping(&late);
        assert_eq!(bytes(to), [expected; 8], "priority {late_priority} against 7");
    }
}

#[test]
fn ordered_advances_by_record_wait_and_synchronize_only() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let [a, b, c, d] = std::array::from_fn(|_| runtime.new_stream());
    let (event, epoch) = (ex_event(), submit_nothing(&a));
    while !a.is_idle() {
        std::thread::yield_now();
    }
    submit_nothing(&b);
    assert!(runtime.shared.progress.covers(epoch), "it is finished,");
    assert!(!b.ordered().covers(epoch), "but nothing ordered it");
    event.record(&a).unwrap();
    let after = submit_nothing(&a);
    event.wait(&b, FOREVER).unwrap();
    assert!(b.ordered().covers(epoch));
    assert!(!b.ordered().covers(after), "submitted after the record");

    let second = ex_event();
    second.record(&b).unwrap();
    second.wait(&c, FOREVER).unwrap();
    assert!(c.ordered().covers(epoch), "by way of b");
    submit_nothing(&d);
    assert!(!d.ordered().covers(epoch));

    assert!(event.synchronize(None).unwrap());
    assert!(!d.ordered().covers(epoch), "a host thread's knowledge comes with its submits");
    submit_nothing(&d);
    assert!(d.ordered().covers(epoch) && !d.ordered().covers(after));
    runtime.synchronize(&a, None).unwrap();
    submit_nothing(&d);
    assert!(d.ordered().covers(after));

    let e = runtime.new_stream();
    let late = submit_nothing(&a);
    let other_thread = {
        let (a, e) = (a.clone(), e.clone());
        std::thread::spawn(move || {
            submit_nothing(&e);
            let before = e.ordered().covers(epoch);
            assert!(a.synchronize(None).unwrap());
            submit_nothing(&e);
            (before, e.ordered().covers(late))
        })
    };
    assert_eq!(other_thread.join().unwrap(), (false, true));
    submit_nothing(&d);
    assert!(!d.ordered().covers(late), "that was another thread's synchronize");
}

#[test]
fn freed_memory_is_intact_until_the_freeing_thread_synchronizes() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, block) = (runtime.new_stream(), runtime.alloc(0, MIB));
    stream.submit(fill(block, 6)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    runtime.shared.memory.free(block.address).unwrap();
    assert_eq!(
        (runtime.shared.memory.usage(0).live, runtime.shared.memory.usage(0).waiting),
        (0, MIB)
    );
    assert_eq!(runtime.shared.memory.info(0), (64 * MIB, 64 * MIB));
    let error = runtime.shared.memory.free(block.address).unwrap_err();
    assert_eq!(error.code, Code::RtParamInvalid);
    assert!(error.text.contains("already freed"), "{}", error.text);
    let other = runtime.alloc(0, MIB);
    assert_ne!(other.address, block.address);
    let late = runtime.alloc(0, MIB);
    stream.submit(copy(block, late)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    assert_eq!(bytes(late)[..8], [6; 8], "a freed block still serves a late task");
    runtime.alloc(0, 512);
    assert_eq!(runtime.shared.memory.usage(0).waiting, 0);
}

#[test]
fn an_allocation_waits_for_freed_memory() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, gate) = (runtime.new_stream(), Gate::default());
    let target = runtime.shared.memory.allocate_host(64).unwrap();
    let target = Span { address: target, bytes: 64, location: Location::Host };
    for value in 1..=20 {
        let all = runtime.alloc(0, 64 * MIB);
        let head = Span { bytes: 64, ..all };
        stream.submit(fill(head, value)).unwrap();
        if value % 4 == 0 {
            stream.submit(gate.task()).unwrap();
            let gate = gate.clone();
            std::thread::spawn(move || {
                std::thread::sleep(SHORT);
                gate.open();
            });
        }
        stream.submit(copy(head, target)).unwrap();
        runtime.shared.memory.free(all.address).unwrap();
        let new_block = runtime.alloc(0, 64 * MIB);
        assert_eq!(new_block.address, all.address);
        runtime.shared.memory.perform(&fill(Span { bytes: 64, ..new_block }, 99)).unwrap();
        wait_without_helping(&stream);
        assert_eq!(bytes(target), [value; 64]);
        runtime.shared.memory.free(new_block.address).unwrap();
    }
    let _held = runtime.alloc(0, 32 * MIB);
    let request = Request::bytes(33 * MIB);
    let error = runtime.shared.memory.allocate(0, request).unwrap_err();
    assert_eq!(error.code, Code::MemoryAllocation);
    for part in ["asked 34603008", "free 33554432", "capacity 67108864", "largest hole"] {
        assert!(error.text.contains(part), "{}", error.text);
    }
}

#[test]
fn a_full_quarantine_is_released_when_all_is_quiet() {
    let runtime = start_runtime(1, |c| c.quarantine = 4 * MIB);
    runtime.set_device(0).unwrap();
    for _ in 0..64 {
        let block = runtime.alloc(0, MIB);
        runtime.shared.memory.free(block.address).unwrap();
        assert!(runtime.shared.memory.usage(0).waiting <= 5 * MIB);
    }
    assert_eq!(runtime.shared.memory.usage(0).live, 0);
}

#[test]
fn an_arena_reports_why_it_has_no_memory() {
    let runtime = start_runtime(1, |_| ());
    let budget = Arc::new(Budget::new(8 * MIB));
    let progress = runtime.shared.progress.clone();
    let arena = Arena::new(
        ArenaSpec {
            kind: MemoryKind::Device(0),
            capacity: 8 * MIB,
            quarantine_limit: 2 * MIB,
            skew: 0,
            is_protected: false,
        },
        progress,
        budget.clone(),
        Arc::default(),
    )
    .unwrap();
    let request = |bytes| Request::bytes(bytes);
    let take = |bytes| match arena.attempt(&request(bytes), true) {
        Attempt::Taken(address) => arena.offset(address).unwrap(),
        _ => panic!("{bytes} bytes should fit"),
    };
    let (a, b, c) = (take(3 * MIB), take(3 * MIB), take(2 * MIB));
    assert!(matches!(arena.attempt(&request(512), true), Attempt::Exhausted));
    assert!(arena.free(a) && arena.free(b) && !arena.free(b));
    assert_eq!(arena.usage().waiting, 6 * MIB);
    assert!(matches!(arena.attempt(&request(512), true), Attempt::QuarantineFull));
    assert!(matches!(arena.attempt(&request(512), false), Attempt::Waiting));
    assert!(matches!(arena.attempt(&request(7 * MIB), false), Attempt::Exhausted));
    assert!(arena.release_quarantine(0));
    assert_eq!(arena.usage().waiting, 0, "two blocks, to get below half of the limit");
    assert_eq!(take(6 * MIB), a);
    assert!(arena.free(c));
    assert!(!budget.take(1));
    arena.empty_quarantine();
    assert!(!budget.take(2 * MIB + 1) && budget.take(2 * MIB));
    budget.give(2 * MIB);
    assert_eq!(arena.clear(), 1);
    assert!(!budget.take(8 * MIB + 1) && budget.take(8 * MIB));
}

#[test]
fn devices_share_one_budget() {
    let runtime = start_runtime(1, |c| c.budget = 72 * MIB);
    runtime.set_device(0).unwrap();
    let first = runtime.alloc(0, 60 * MIB);
    let request = Request::bytes(20 * MIB);
    assert_eq!(
        runtime.shared.memory.allocate(1, request).unwrap_err().code,
        Code::MemoryAllocation
    );
    runtime.shared.memory.free(first.address).unwrap();
    runtime.shared.memory.allocate(1, request).unwrap();
}

#[test]
fn a_copy_between_devices_needs_peer_access() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let stream = runtime.new_stream();
    let (here, there) = (runtime.alloc(0, 64), runtime.alloc(1, 64));
    let on_device_0 = Span { location: Location::Device(0), ..there };
    stream.submit(copy(here, on_device_0)).unwrap();
    let error = runtime.synchronize(&stream, None).unwrap_err();
    assert_eq!(error.code, Code::RtParamInvalid);
    assert!(error.text.contains("aclrtDeviceEnablePeerAccess"), "{}", error.text);
    for (from, to) in [(0, 1), (1, 0)] {
        assert!(runtime.shared.memory.set_peer(from, to, true));
        assert!(!runtime.shared.memory.set_peer(from, to, true), "it was so already");
        stream.submit(fill(here, 8)).unwrap();
        stream.submit(copy(here, on_device_0)).unwrap();
        runtime.synchronize(&stream, None).unwrap();
        assert_eq!(bytes(there), [8; 64]);
        assert!(runtime.shared.memory.set_peer(from, to, false));
    }
    stream.submit(copy(here, on_device_0)).unwrap();
    runtime.synchronize(&stream, None).unwrap_err();
}

#[test]
fn a_wrong_address_is_named_at_synchronize() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, block) = (runtime.new_stream(), runtime.alloc(0, 1000));
    let local = [0u8; 64];
    let on_device = |address: usize, bytes| Span { address, bytes, location: Location::Device(0) };
    let small = |span: Span| Span { bytes: 64, ..span };
    let hole = on_device(block.address + 60 * MIB as usize, 64);
    let host = Span { location: Location::Host, ..small(block) };
    let pageable = on_device(local.as_ptr() as usize, 64);
    let inner = on_device(block.address + 990, 64);
    let cases = [
        (copy(pageable, small(block)), "source", pageable, "host memory that ACL does not know"),
        (copy(small(block), pageable), "destination", pageable, "expected device memory"),
        (copy(host, small(block)), "source", host, "expected host memory"),
        (fill(inner, 1), "destination", inner, "it leaves"),
        (fill(hole, 1), "destination", hole, "no allocation"),
        (fill(on_device(block.address, 1001), 1), "destination", block, "of 1001 bytes"),
    ];
    for (task, argument, span, reason) in cases {
        let name = task.name;
        stream.submit(task).unwrap();
        let error = runtime.synchronize(&stream, None).unwrap_err();
        assert_eq!(error.code, Code::RtParamInvalid);
        for part in [name, argument, &format!("{:#x}", span.address), reason] {
            assert!(error.text.contains(part), "'{part}' is not in: {}", error.text);
        }
    }
    assert_eq!(bytes(block), vec![0; 1000]);
    assert_eq!(local, [0; 64]);
}

#[test]
fn a_callback_does_not_help_but_its_end_restores_it() {
    assert!(host::may_help());
    host::in_callback(|| {
        host::in_callback(|| assert!(!host::may_help()));
        assert!(!host::may_help());
    });
    assert!(host::may_help());
}
