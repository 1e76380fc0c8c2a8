//! Random sequences of calls against a model that knows the result of each call and what memory holds at each
//! synchronize. A block that moves to another stream is handed over by an event.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::context::Context;
use cairn_runtime::error::{Code, Error};
use cairn_runtime::event::{Event, Kind};
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span, Task};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::*;

/// An address that is no handle and no memory.
const FOREIGN: usize = 0x10;

#[derive(Clone, Debug)]
enum Op {
    SetDevice(i64),
    ResetDevice(i64, bool),
    CreateContext(i64),
    DestroyContext(u8),
    SetContext(u8),
    CreateStream(u32),
    DestroyStream(u8, bool),
    FailureMode(u8, u64),
    CreateEvent(bool),
    DestroyEvent(u8),
    Record(u8, u8),
    Wait(u8, u8),
    SyncEvent(u8),
    Malloc(u64),
    Free(u8),
    FreeInside(u8),
    FreeForeign,
    SetPeer(u32, bool),
    Fill { stream: u8, block: u8, value: u8, excess: bool },
    Copy { stream: u8, from: u8, to: u8 },
    Host { stream: u8, throws: bool },
    Sync(u8),
    SyncDevice(i64),
}

fn op() -> impl Strategy<Value = Op> {
    let device = || prop_oneof![8 => Just(0i64), 4 => Just(1), 1 => Just(-1), 1 => Just(2)];
    let any8 = || any::<u8>();
    let rare = |n| prop::bool::weighted(1.0 / n as f64);
    prop_oneof![
        4 => device().prop_map(Op::SetDevice),
        1 => (device(), rare(4)).prop_map(|(d, f)| Op::ResetDevice(d, f)),
        1 => device().prop_map(Op::CreateContext),
        1 => any8().prop_map(Op::DestroyContext),
        2 => any8().prop_map(Op::SetContext),
        5 => prop_oneof![9 => 0u32..8, 1 => Just(8)].prop_map(Op::CreateStream),
        2 => (any8(), rare(3)).prop_map(|(s, f)| Op::DestroyStream(s, f)),
        1 => (any8(), 0u64..3).prop_map(|(s, m)| Op::FailureMode(s, m)),
        3 => any::<bool>().prop_map(Op::CreateEvent),
        1 => any8().prop_map(Op::DestroyEvent),
        4 => (any8(), any8()).prop_map(|(e, s)| Op::Record(e, s)),
        4 => (any8(), any8()).prop_map(|(e, s)| Op::Wait(e, s)),
        1 => any8().prop_map(Op::SyncEvent),
        6 => (1u64..65536).prop_map(Op::Malloc),
        2 => any8().prop_map(Op::Free),
        1 => any8().prop_map(Op::FreeInside),
        1 => Just(Op::FreeForeign),
        1 => (0u32..2, any::<bool>()).prop_map(|(d, enabled)| Op::SetPeer(d, enabled)),
        14 => (any8(), any8(), any8(), rare(12)).prop_map(|(stream, block, value, excess)| {
            Op::Fill { stream, block, value, excess }
        }),
        14 => (any8(), any8(), any8()).prop_map(|(stream, from, to)| Op::Copy { stream, from, to }),
        5 => (any8(), rare(6)).prop_map(|(stream, throws)| Op::Host { stream, throws }),
        5 => any8().prop_map(Op::Sync),
        2 => device().prop_map(Op::SyncDevice),
    ]
}

struct ContextModel {
    handle: usize,
    device: usize,
    primary: bool,
    alive: bool,
    default: usize,
    /// The failure that ended it.
    failed: Option<Code>,
}

struct StreamModel {
    handle: usize,
    context: usize,
    default: bool,
    alive: bool,
    mode: Option<u64>,
    failure: Option<Code>,
    /// The host functions that ran, and those that should have.
    journal: Arc<Mutex<Vec<u32>>>,
    expected: Vec<u32>,
}

struct EventModel {
    handle: usize,
    kind: Kind,
    recorded: bool,
    alive: bool,
}

/// `value` is what every byte holds when all that was submitted is done; `None` is unknown.
struct BlockModel {
    span: Span,
    device: usize,
    live: bool,
    value: Option<u8>,
    /// The stream that used it last.
    owner: Option<usize>,
}

struct RuntimeModel {
    runtime: TestRuntime,
    references: [u64; 2],
    primary: [Option<usize>; 2],
    peers: [bool; 2],
    current: Option<usize>,
    contexts: Vec<ContextModel>,
    streams: Vec<StreamModel>,
    events: Vec<EventModel>,
    blocks: Vec<BlockModel>,
    /// Host functions submitted so far.
    host_functions: u32,
}

/// Panics unless a call succeeded, or failed with the code, as expected; returns its value.
fn check<T>(call: &str, actual: Result<T, Error>, expected: Result<(), Code>) -> Option<T> {
    match (actual, expected) {
        (Ok(value), Ok(())) => Some(value),
        (Err(error), Err(code)) => {
            assert_eq!(error.code, code, "{call}: {}", error.text);
            assert!(!error.text.is_empty());
            None
        }
        (Ok(_), Err(code)) => panic!("{call} succeeded, {code:?} was expected"),
        (Err(error), Ok(())) => panic!("{call} failed: {:?} {}", error.code, error.text),
    }
}

/// The index of the element that a selector chooses.
fn pick<T>(all: &[T], selector: u8) -> Option<usize> {
    (!all.is_empty()).then(|| selector as usize % all.len())
}

impl RuntimeModel {
    fn new(workers: usize) -> RuntimeModel {
        RuntimeModel {
            runtime: start_runtime(workers, |c| c.quarantine = 256 << 10),
            references: [0; 2],
            primary: [None; 2],
            peers: [false; 2],
            current: None,
            contexts: Vec::new(),
            streams: Vec::new(),
            events: Vec::new(),
            blocks: Vec::new(),
            host_functions: 0,
        }
    }

    fn current(&self) -> Result<usize, Code> {
        self.current.filter(|&c| self.contexts[c].alive).ok_or(Code::ContextNull)
    }

    fn device(&self, id: i64) -> Result<usize, Code> {
        usize::try_from(id).ok().filter(|&d| d < 2).ok_or(Code::InvalidDeviceId)
    }

    fn new_context(&mut self, context: &Context, device: usize, primary: bool) -> usize {
        let index = self.contexts.len();
        self.contexts.push(ContextModel {
            handle: context.handle(),
            device,
            primary,
            alive: true,
            default: self.streams.len(),
            failed: None,
        });
        self.new_stream(context.default_handle(), index, true);
        index
    }

    fn new_stream(&mut self, handle: usize, context: usize, default: bool) {
        self.streams.push(StreamModel {
            handle,
            context,
            default,
            alive: true,
            mode: None,
            failure: None,
            journal: Arc::default(),
            expected: Vec::new(),
        });
    }

    /// A handle for the selector, and which stream the calling thread gets for it.
    fn choose(&self, selector: u8) -> (usize, Result<usize, Code>) {
        match selector as usize % (self.streams.len() + 2) {
            0 => (0, self.current().map(|c| self.contexts[c].default)),
            1 => (FOREIGN, Err(Code::InvalidHandle)),
            index => {
                let stream = &self.streams[index - 2];
                let answer = match self.current() {
                    _ if !stream.alive => Err(Code::InvalidHandle),
                    Err(code) => Err(code),
                    Ok(current) if current != stream.context => Err(Code::StreamContext),
                    Ok(_) => Ok(index - 2),
                };
                (stream.handle, answer)
            }
        }
    }

    fn stream(&self, selector: u8) -> Option<(usize, Arc<Stream>)> {
        let (handle, expected) = self.choose(selector);
        let stream = check("stream", self.runtime.stream(handle), expected.map(|_| ()))?;
        Some((expected.unwrap(), stream))
    }

    /// The stream at an index of the model.
    fn stream_at(&self, stream: usize) -> Arc<Stream> {
        self.runtime.handles.get(self.streams[stream].handle).unwrap()
    }

    /// The failure of a stream's context.
    fn context_failure(&self, stream: usize) -> Result<(), Code> {
        self.contexts[self.streams[stream].context].failed.map_or(Ok(()), Err)
    }

    fn device_of(&self, stream: usize) -> usize {
        self.contexts[self.streams[stream].context].device
    }

    /// Submits a task that ends with this code and adds `entry` to the stream's journal. A failure in
    /// a stream that stops ends its context.
    fn submit(
        &mut self,
        index: usize,
        task: Task,
        entry: Option<u32>,
        result: Result<(), Code>,
    ) -> bool {
        let stream = self.stream_at(index);
        let ends_context = result.is_err() && self.streams[index].mode == Some(1);
        if ends_context {
            self.drain();
        }
        if check("submit", stream.submit(task), self.context_failure(index)).is_none() {
            return false;
        }
        self.streams[index].expected.extend(entry);
        if let Err(code) = result {
            let stream = &mut self.streams[index];
            stream.failure = stream.failure.or(Some(code));
            if ends_context {
                self.contexts[stream.context].failed = Some(code);
                self.synchronize(index);
            }
        }
        true
    }

    /// Orders the stream after the last use of the block elsewhere.
    fn hand_over(&mut self, block: usize, to: usize) {
        if let Some(from) = self.blocks[block].owner.filter(|&from| from != to) {
            let event = Event::new(0, Kind::Ex, 1).unwrap();
            event.record(&self.stream_at(from)).unwrap();
            event.wait(&self.stream_at(to), Duration::ZERO).unwrap();
        }
        self.blocks[block].owner = Some(to);
    }

    /// Whether a device has access to a block.
    fn has_access(&self, device: usize, block: usize) -> bool {
        let other = self.blocks[block].device;
        device == other || self.peers[device] || self.peers[other]
    }

    fn synchronize(&mut self, index: usize) {
        let failure = self.streams[index].failure.take().map_or(Ok(()), Err);
        let expected = self.context_failure(index).and(failure);
        check("synchronize", self.runtime.synchronize(&self.stream_at(index), None), expected);
        self.verify(index);
    }

    /// Checks the blocks and the journal of a stream that has finished.
    fn verify(&mut self, index: usize) {
        for block in self.blocks.iter_mut().filter(|b| b.live && b.owner == Some(index)) {
            block.owner = None;
            if let Some(value) = block.value {
                assert!(bytes(block.span).iter().all(|&b| b == value), "block {}", block.span);
            }
        }
        let stream = &self.streams[index];
        assert_eq!(*stream.journal.lock().unwrap(), stream.expected);
    }

    fn drain(&mut self) {
        assert!(self.runtime.drain(None));
        for index in 0..self.streams.len() {
            if self.streams[index].alive {
                self.verify(index);
            }
        }
    }

    /// Waits until no stream of the other device uses memory of a device that is about to be closed.
    fn drain_foreign_users(&mut self, device: usize) {
        let is_used_by_other = |b: &BlockModel| {
            b.device == device && b.owner.is_some_and(|s| self.device_of(s) != device)
        };
        if self.blocks.iter().any(is_used_by_other) {
            self.drain();
        }
    }

    fn end_stream(&mut self, index: usize) {
        self.verify(index);
        self.streams[index].alive = false;
    }

    fn end_context(&mut self, context: usize) {
        self.contexts[context].alive = false;
        let device = self.contexts[context].device;
        if !self.contexts.iter().any(|c| c.alive && c.device == device) {
            for block in self.blocks.iter_mut().filter(|b| b.device == device) {
                block.live = false;
            }
        }
        for index in 0..self.streams.len() {
            if self.streams[index].context == context && self.streams[index].alive {
                self.end_stream(index);
            }
        }
    }

    fn live_block(&self, selector: u8) -> Option<usize> {
        let live: Vec<_> = (0..self.blocks.len()).filter(|&b| self.blocks[b].live).collect();
        pick(&live, selector).map(|index| live[index])
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::SetDevice(id) => {
                let expected = self.device(id);
                if let Some(c) =
                    check("set device", self.runtime.set_device(id), expected.map(|_| ()))
                {
                    let device = expected.unwrap();
                    self.references[device] += 1;
                    let existing = self.primary[device];
                    let index = existing.unwrap_or_else(|| self.new_context(&c, device, true));
                    assert_eq!(self.contexts[index].handle, c.handle());
                    self.primary[device] = Some(index);
                    self.current = Some(index);
                }
            }
            Op::ResetDevice(id, force) => {
                let expected = self.device(id).and_then(|d| match self.references[d] {
                    0 => Err(Code::ContextNull),
                    _ => Ok(d),
                });
                if let Ok(device) = expected {
                    self.drain_foreign_users(device);
                }
                let actual = self.runtime.reset_device(id, force);
                if check("reset device", actual, expected.map(|_| ())).is_some() {
                    let device = expected.unwrap();
                    self.references[device] = if force { 0 } else { self.references[device] - 1 };
                    if self.references[device] == 0 {
                        let primary = self.primary[device].take().unwrap();
                        self.end_context(primary);
                    }
                }
            }
            Op::CreateContext(id) => {
                let expected = self.device(id);
                let actual = self.runtime.create_context(id);
                if let Some(c) = check("create context", actual, expected.map(|_| ())) {
                    let index = self.new_context(&c, expected.unwrap(), false);
                    self.current = Some(index);
                }
            }
            Op::DestroyContext(selector) => {
                let Some(index) = pick(&self.contexts, selector) else { return };
                self.drain_foreign_users(self.contexts[index].device);
                let context = &self.contexts[index];
                let expected = match (context.alive, context.primary) {
                    (false, _) => Err(Code::InvalidHandle),
                    (_, true) => Err(Code::RtParamInvalid),
                    _ => Ok(()),
                };
                let actual = self.runtime.destroy_context(context.handle);
                if check("destroy context", actual, expected).is_some() {
                    self.end_context(index);
                }
            }
            Op::SetContext(selector) => {
                let Some(index) = pick(&self.contexts, selector) else { return };
                let context = &self.contexts[index];
                let expected = context.alive.then_some(()).ok_or(Code::InvalidHandle);
                let actual = self.runtime.set_current_context(context.handle);
                if check("set context", actual, expected).is_some() {
                    self.current = Some(index);
                }
            }
            Op::CreateStream(priority) => {
                let expected = match priority {
                    0..8 => self.current(),
                    _ => Err(Code::RtParamInvalid),
                };
                let actual = self.runtime.create_stream(priority, 0);
                if let Some(handle) = check("create stream", actual, expected.map(|_| ())) {
                    self.new_stream(handle, expected.unwrap(), false);
                }
            }
            Op::DestroyStream(selector, force) => {
                let Some(index) = pick(&self.streams, selector) else { return };
                let stream = &self.streams[index];
                let expected = match (stream.alive, stream.default) {
                    (false, _) => Err(Code::InvalidHandle),
                    (_, true) => Err(Code::RtParamInvalid),
                    _ => Ok(()),
                };
                let ending_stream = self.runtime.handles.get::<Stream>(stream.handle).ok();
                let actual = self.runtime.destroy_stream(stream.handle, !force);
                if check("destroy stream", actual, expected).is_none() {
                    return;
                }
                if !force {
                    return self.end_stream(index);
                }
                self.streams[index].alive = false;
                // The task that runs goes on, and may still write.
                while ending_stream.as_ref().is_some_and(|stream| !stream.is_idle()) {
                    std::thread::yield_now();
                }
                for block in self.blocks.iter_mut().filter(|b| b.owner.is_some()) {
                    block.value = None;
                    block.owner = block.owner.filter(|&owner| owner != index);
                }
                self.drain();
            }
            Op::FailureMode(selector, mode) => {
                let Some((index, stream)) = self.stream(selector) else { return };
                let allowed = mode < 2 && self.streams[index].mode.is_none();
                let expected = allowed.then_some(()).ok_or(Code::RtParamInvalid);
                if mode == 1 && allowed {
                    self.drain();
                }
                check("failure mode", self.runtime.set_failure_mode(&stream, mode), expected);
                if allowed {
                    self.streams[index].mode = Some(mode);
                }
            }
            Op::CreateEvent(ex) => {
                let kind = if ex { Kind::Ex } else { Kind::Plain };
                let expected = self.current().map(|_| ());
                if let Some(handle) =
                    check("create event", self.runtime.create_event(kind, 9), expected)
                {
                    self.events.push(EventModel { handle, kind, recorded: false, alive: true });
                }
            }
            Op::DestroyEvent(selector) => {
                let Some(index) = pick(&self.events, selector) else { return };
                let event = &mut self.events[index];
                let expected = event.alive.then_some(()).ok_or(Code::InvalidHandle);
                let actual = self.runtime.destroy_event(event.handle);
                check("destroy event", actual, expected);
                event.alive = false;
            }
            Op::Record(event, stream) => {
                let Some((index, event)) = self.event(event) else { return };
                let Some((stream_index, stream)) = self.stream(stream) else { return };
                if check("record", event.record(&stream), self.context_failure(stream_index))
                    .is_some()
                {
                    self.events[index].recorded = true;
                }
            }
            Op::Wait(event, stream) => {
                let Some((index, event)) = self.event(event) else { return };
                let Some((stream_index, stream)) = self.stream(stream) else { return };
                let expires = event.kind == Kind::Plain && !self.events[index].recorded;
                if expires && self.streams[stream_index].mode == Some(1) {
                    return;
                }
                let limit = expires.then_some(Duration::from_millis(1));
                let actual = self.runtime.wait_event(&stream, &event, limit);
                if check("wait", actual, self.context_failure(stream_index)).is_some() && expires {
                    let stream = &mut self.streams[stream_index];
                    stream.failure = stream.failure.or(Some(Code::WaitTimeout));
                    self.synchronize(stream_index);
                }
            }
            Op::SyncEvent(selector) => {
                let Some((index, event)) = self.event(selector) else { return };
                let model = &self.events[index];
                let is_unrecorded = model.kind == Kind::Plain && !model.recorded;
                let expected = if is_unrecorded { Err(Code::RtInternal) } else { Ok(()) };
                if let Some(done) = check("synchronize event", event.synchronize(None), expected) {
                    assert!(done && event.is_complete().unwrap());
                }
                assert_eq!(event.is_complete().unwrap(), !is_unrecorded);
            }
            Op::Malloc(size) => {
                let current = self.current();
                let device = self.runtime.current_device();
                let Some(device) = check("device", device, current.map(|_| ())) else { return };
                let request = Request::bytes(size);
                let address = self.runtime.shared.memory.allocate(device, request).unwrap();
                let span =
                    Span { address, bytes: size as usize, location: Location::Device(device) };
                let overlaps = |b: &&BlockModel| {
                    b.live
                        && b.span.address < address + size as usize
                        && address < b.span.address + b.span.bytes
                };
                assert!(!self.blocks.iter().any(|b| overlaps(&b)), "two blocks overlap");
                let device = device as usize;
                self.blocks.push(BlockModel { span, device, live: true, value: None, owner: None });
            }
            Op::Free(selector) => {
                let Some(index) = pick(&self.blocks, selector) else { return };
                let address = self.blocks[index].span.address;
                let live = self.blocks.iter().position(|b| b.live && b.span.address == address);
                let expected = live.map(|_| ()).ok_or(Code::RtParamInvalid);
                check("free", self.runtime.shared.memory.free(address), expected);
                if let Some(live) = live {
                    self.blocks[live].live = false;
                }
            }
            Op::FreeInside(selector) => {
                let Some(index) = pick(&self.blocks, selector) else { return };
                let inside = self.blocks[index].span.address + 8;
                check("free", self.runtime.shared.memory.free(inside), Err(Code::RtParamInvalid));
            }
            Op::FreeForeign => {
                let local = 0u64;
                for address in [FOREIGN, &raw const local as usize, usize::MAX] {
                    check(
                        "free",
                        self.runtime.shared.memory.free(address),
                        Err(Code::RtParamInvalid),
                    );
                }
            }
            Op::SetPeer(device, enabled) => {
                self.drain();
                let changed = self.runtime.shared.memory.set_peer(device, 1 - device, enabled);
                assert_eq!(changed, self.peers[device as usize] != enabled);
                self.peers[device as usize] = enabled;
            }
            Op::Fill { stream, block, value, excess } => {
                let Some(block) = self.live_block(block) else { return };
                let Some((stream_index, _)) = self.stream(stream) else { return };
                let device = self.device_of(stream_index);
                let mut span = self.blocks[block].span;
                span.location = Location::Device(device as u32);
                span.bytes += usize::from(excess);
                let result = match self.has_access(device, block) && !excess {
                    true => Ok(()),
                    false => Err(Code::RtParamInvalid),
                };
                if self.context_failure(stream_index).is_ok() {
                    self.hand_over(block, stream_index);
                }
                if self.submit(stream_index, fill(span, value), None, result) && result.is_ok() {
                    self.blocks[block].value = Some(value);
                }
            }
            Op::Copy { stream, from, to } => {
                let (Some(from), Some(to)) = (self.live_block(from), self.live_block(to)) else {
                    return;
                };
                if from == to {
                    return;
                }
                let Some((stream_index, _)) = self.stream(stream) else { return };
                let device = self.device_of(stream_index);
                let (mut source, mut destination) = (self.blocks[from].span, self.blocks[to].span);
                let overwrites_all = source.bytes >= destination.bytes;
                source.bytes = source.bytes.min(destination.bytes);
                destination.bytes = source.bytes;
                source.location = Location::Device(device as u32);
                destination.location = source.location;
                let result = match self.has_access(device, from) && self.has_access(device, to) {
                    true => Ok(()),
                    false => Err(Code::RtParamInvalid),
                };
                if self.context_failure(stream_index).is_ok() {
                    self.hand_over(from, stream_index);
                    self.hand_over(to, stream_index);
                }
                if self.submit(stream_index, copy(source, destination), None, result)
                    && result.is_ok()
                {
                    let value = self.blocks[from].value;
                    let is_uniform = overwrites_all || value == self.blocks[to].value;
                    self.blocks[to].value = value.filter(|_| is_uniform);
                }
            }
            Op::Host { stream, throws } => {
                let Some((stream_index, _)) = self.stream(stream) else { return };
                self.host_functions += 1;
                let (number, journal) =
                    (self.host_functions, self.streams[stream_index].journal.clone());
                let task = host_task(move || {
                    journal.lock().unwrap().push(number);
                    !throws
                });
                let result = if throws { Err(Code::Internal) } else { Ok(()) };
                self.submit(stream_index, task, Some(number), result);
            }
            Op::Sync(selector) => {
                let Some((stream_index, stream)) = self.stream(selector) else { return };
                self.synchronize(stream_index);
                assert!(stream.is_idle());
            }
            Op::SyncDevice(id) => {
                let expected = self.device(id);
                let Some(device) = check("device", self.runtime.device(id), expected.map(|_| ()))
                else {
                    return;
                };
                let actual = self.runtime.synchronize_device(device, None);
                let mut contexts: Vec<_> = (0..self.contexts.len())
                    .filter(|&c| self.contexts[c].alive && self.contexts[c].device == id as usize)
                    .collect();
                contexts.sort_by_key(|&c| !self.contexts[c].primary);
                let mut expected = Ok(());
                for context in contexts {
                    for index in 0..self.streams.len() {
                        if self.streams[index].alive && self.streams[index].context == context {
                            let failure = self.streams[index].failure.take().map_or(Ok(()), Err);
                            expected = expected.and(self.context_failure(index)).and(failure);
                            self.verify(index);
                        }
                    }
                }
                check("synchronize device", actual, expected);
            }
        }
    }

    fn event(&self, selector: u8) -> Option<(usize, Arc<Event>)> {
        let index = pick(&self.events, selector)?;
        let expected = self.events[index].alive.then_some(()).ok_or(Code::InvalidHandle);
        Some((index, check("event", self.runtime.event(self.events[index].handle), expected)?))
    }
}

// Each case has a runtime of its own, whose range of handles stays reserved: the address space ends
// at some thousand cases.
proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").map_or(384, |cases| cases.parse().unwrap()),
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn calls_answer_as_the_model_says(
        workers in 1usize..4,
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut model = RuntimeModel::new(workers);
        model.apply(&Op::SetDevice(0));
        for op in &ops {
            model.apply(op);
        }
        model.drain();
    }
}
