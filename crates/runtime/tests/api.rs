//! Sequences of calls against a model that knows, in program order, what each call answers and what
//! memory holds at each synchronize. A block that moves to another stream is handed over by an event.

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
        1 => (0u32..2, any::<bool>()).prop_map(|(d, on)| Op::SetPeer(d, on)),
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
    failed: Option<Code>,
}

struct StreamModel {
    handle: usize,
    context: usize,
    default: bool,
    alive: bool,
    mode: Option<u64>,
    failure: Option<Code>,
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
    owner: Option<usize>,
}

struct RuntimeModel {
    rig: Rig,
    references: [u64; 2],
    primary: [Option<usize>; 2],
    peers: [bool; 2],
    current: Option<usize>,
    contexts: Vec<ContextModel>,
    streams: Vec<StreamModel>,
    events: Vec<EventModel>,
    blocks: Vec<BlockModel>,
    hosts: u32,
}

fn agree<T>(call: &str, actual: Result<T, Error>, expected: Result<(), Code>) -> Option<T> {
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

fn pick<T>(all: &[T], selector: u8) -> Option<usize> {
    (!all.is_empty()).then(|| selector as usize % all.len())
}

impl RuntimeModel {
    fn new(workers: usize) -> RuntimeModel {
        RuntimeModel {
            rig: rig(workers, |c| c.quarantine = 256 << 10),
            references: [0; 2],
            primary: [None; 2],
            peers: [false; 2],
            current: None,
            contexts: Vec::new(),
            streams: Vec::new(),
            events: Vec::new(),
            blocks: Vec::new(),
            hosts: 0,
        }
    }

    fn current(&self) -> Result<usize, Code> {
        self.current.filter(|&c| self.contexts[c].alive).ok_or(Code::ContextNull)
    }

    fn device(&self, id: i64) -> Result<usize, Code> {
        usize::try_from(id).ok().filter(|&d| d < 2).ok_or(Code::InvalidDeviceId)
    }

    fn new_context(&mut self, context: &Context, device: usize, primary: bool) -> usize {
        let at = self.contexts.len();
        self.contexts.push(ContextModel {
            handle: context.handle(),
            device,
            primary,
            alive: true,
            default: self.streams.len(),
            failed: None,
        });
        self.new_stream(context.default_handle(), at, true);
        at
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
            at => {
                let stream = &self.streams[at - 2];
                let answer = match self.current() {
                    _ if !stream.alive => Err(Code::InvalidHandle),
                    Err(code) => Err(code),
                    Ok(current) if current != stream.context => Err(Code::StreamContext),
                    Ok(_) => Ok(at - 2),
                };
                (stream.handle, answer)
            }
        }
    }

    fn stream(&self, selector: u8) -> Option<(usize, Arc<Stream>)> {
        let (handle, expected) = self.choose(selector);
        let stream = agree("stream", self.rig.stream(handle), expected.map(|_| ()))?;
        Some((expected.unwrap(), stream))
    }

    fn of(&self, stream: usize) -> Arc<Stream> {
        self.rig.handles.get(self.streams[stream].handle).unwrap()
    }

    fn failed(&self, stream: usize) -> Result<(), Code> {
        self.contexts[self.streams[stream].context].failed.map_or(Ok(()), Err)
    }

    fn device_of(&self, stream: usize) -> usize {
        self.contexts[self.streams[stream].context].device
    }

    /// Submits a task that ends with this code and adds `entry` to the stream's journal. A failure in
    /// a stream that stops ends its context.
    fn submit(
        &mut self,
        at: usize,
        task: Task,
        entry: Option<u32>,
        ends: Result<(), Code>,
    ) -> bool {
        let stream = self.of(at);
        let stops = ends.is_err() && self.streams[at].mode == Some(1);
        if stops {
            self.drain();
        }
        if agree("submit", stream.submit(task), self.failed(at)).is_none() {
            return false;
        }
        self.streams[at].expected.extend(entry);
        if let Err(code) = ends {
            let stream = &mut self.streams[at];
            stream.failure = stream.failure.or(Some(code));
            if stops {
                self.contexts[stream.context].failed = Some(code);
                self.synchronize(at);
            }
        }
        true
    }

    /// Orders the stream after the last use of the block elsewhere.
    fn hand_over(&mut self, block: usize, to: usize) {
        if let Some(from) = self.blocks[block].owner.filter(|&from| from != to) {
            let event = Event::new(0, Kind::Ex, 1).unwrap();
            event.record(&self.of(from)).unwrap();
            event.wait(&self.of(to), Duration::ZERO).unwrap();
        }
        self.blocks[block].owner = Some(to);
    }

    fn reaches(&self, device: usize, block: usize) -> bool {
        let there = self.blocks[block].device;
        device == there || self.peers[device] || self.peers[there]
    }

    fn synchronize(&mut self, at: usize) {
        let own = self.streams[at].failure.take().map_or(Ok(()), Err);
        let expected = self.failed(at).and(own);
        agree("synchronize", self.rig.synchronize(&self.of(at), None), expected);
        self.verify(at);
    }

    /// What belongs to a stream that is done is as the model says.
    fn verify(&mut self, at: usize) {
        for block in self.blocks.iter_mut().filter(|b| b.live && b.owner == Some(at)) {
            block.owner = None;
            if let Some(value) = block.value {
                assert!(bytes(block.span).iter().all(|&b| b == value), "block {}", block.span);
            }
        }
        let stream = &self.streams[at];
        assert_eq!(*stream.journal.lock().unwrap(), stream.expected);
    }

    fn drain(&mut self) {
        assert!(self.rig.drain(None));
        for at in 0..self.streams.len() {
            if self.streams[at].alive {
                self.verify(at);
            }
        }
    }

    /// Memory of a device that closes must not be in use by streams of the other.
    fn settle(&mut self, device: usize) {
        let foreign = |b: &BlockModel| {
            b.device == device && b.owner.is_some_and(|s| self.device_of(s) != device)
        };
        if self.blocks.iter().any(foreign) {
            self.drain();
        }
    }

    fn end_stream(&mut self, at: usize) {
        self.verify(at);
        self.streams[at].alive = false;
    }

    fn end_context(&mut self, context: usize) {
        self.contexts[context].alive = false;
        let device = self.contexts[context].device;
        if !self.contexts.iter().any(|c| c.alive && c.device == device) {
            for block in self.blocks.iter_mut().filter(|b| b.device == device) {
                block.live = false;
            }
        }
        for at in 0..self.streams.len() {
            if self.streams[at].context == context && self.streams[at].alive {
                self.end_stream(at);
            }
        }
    }

    fn live_block(&self, selector: u8) -> Option<usize> {
        let live: Vec<_> = (0..self.blocks.len()).filter(|&b| self.blocks[b].live).collect();
        pick(&live, selector).map(|at| live[at])
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::SetDevice(id) => {
                let expected = self.device(id);
                if let Some(c) = agree("set device", self.rig.set_device(id), expected.map(|_| ()))
                {
                    let device = expected.unwrap();
                    self.references[device] += 1;
                    let known = self.primary[device];
                    let at = known.unwrap_or_else(|| self.new_context(&c, device, true));
                    assert_eq!(self.contexts[at].handle, c.handle());
                    self.primary[device] = Some(at);
                    self.current = Some(at);
                }
            }
            Op::ResetDevice(id, force) => {
                let expected = self.device(id).and_then(|d| match self.references[d] {
                    0 => Err(Code::ContextNull),
                    _ => Ok(d),
                });
                if let Ok(device) = expected {
                    self.settle(device);
                }
                let actual = self.rig.reset_device(id, force);
                if agree("reset device", actual, expected.map(|_| ())).is_some() {
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
                let actual = self.rig.create_context(id);
                if let Some(c) = agree("create context", actual, expected.map(|_| ())) {
                    let at = self.new_context(&c, expected.unwrap(), false);
                    self.current = Some(at);
                }
            }
            Op::DestroyContext(selector) => {
                let Some(at) = pick(&self.contexts, selector) else { return };
                self.settle(self.contexts[at].device);
                let context = &self.contexts[at];
                let expected = match (context.alive, context.primary) {
                    (false, _) => Err(Code::InvalidHandle),
                    (_, true) => Err(Code::RtParamInvalid),
                    _ => Ok(()),
                };
                let actual = self.rig.destroy_context(context.handle);
                if agree("destroy context", actual, expected).is_some() {
                    self.end_context(at);
                }
            }
            Op::SetContext(selector) => {
                let Some(at) = pick(&self.contexts, selector) else { return };
                let context = &self.contexts[at];
                let expected = context.alive.then_some(()).ok_or(Code::InvalidHandle);
                let actual = self.rig.set_current_context(context.handle);
                if agree("set context", actual, expected).is_some() {
                    self.current = Some(at);
                }
            }
            Op::CreateStream(priority) => {
                let expected = match priority {
                    0..8 => self.current(),
                    _ => Err(Code::RtParamInvalid),
                };
                let actual = self.rig.create_stream(priority, 0);
                if let Some(handle) = agree("create stream", actual, expected.map(|_| ())) {
                    self.new_stream(handle, expected.unwrap(), false);
                }
            }
            Op::DestroyStream(selector, force) => {
                let Some(at) = pick(&self.streams, selector) else { return };
                let stream = &self.streams[at];
                let expected = match (stream.alive, stream.default) {
                    (false, _) => Err(Code::InvalidHandle),
                    (_, true) => Err(Code::RtParamInvalid),
                    _ => Ok(()),
                };
                let running = self.rig.handles.get::<Stream>(stream.handle).ok();
                let actual = self.rig.destroy_stream(stream.handle, !force);
                if agree("destroy stream", actual, expected).is_none() {
                    return;
                }
                if !force {
                    return self.end_stream(at);
                }
                self.streams[at].alive = false;
                // The task that runs goes on, and may still write.
                while running.as_ref().is_some_and(|stream| !stream.is_idle()) {
                    std::thread::yield_now();
                }
                for block in self.blocks.iter_mut().filter(|b| b.owner.is_some()) {
                    block.value = None;
                    block.owner = block.owner.filter(|&owner| owner != at);
                }
                self.drain();
            }
            Op::FailureMode(selector, mode) => {
                let Some((at, stream)) = self.stream(selector) else { return };
                let allowed = mode < 2 && self.streams[at].mode.is_none();
                let expected = allowed.then_some(()).ok_or(Code::RtParamInvalid);
                if mode == 1 && allowed {
                    self.drain();
                }
                agree("failure mode", self.rig.set_failure_mode(&stream, mode), expected);
                if allowed {
                    self.streams[at].mode = Some(mode);
                }
            }
            Op::CreateEvent(ex) => {
                let kind = if ex { Kind::Ex } else { Kind::Plain };
                let expected = self.current().map(|_| ());
                if let Some(handle) =
                    agree("create event", self.rig.create_event(kind, 9), expected)
                {
                    self.events.push(EventModel { handle, kind, recorded: false, alive: true });
                }
            }
            Op::DestroyEvent(selector) => {
                let Some(at) = pick(&self.events, selector) else { return };
                let event = &mut self.events[at];
                let expected = event.alive.then_some(()).ok_or(Code::InvalidHandle);
                let actual = self.rig.destroy_event(event.handle);
                agree("destroy event", actual, expected);
                event.alive = false;
            }
            Op::Record(event, stream) => {
                let Some((at, event)) = self.event(event) else { return };
                let Some((on, stream)) = self.stream(stream) else { return };
                if agree("record", event.record(&stream), self.failed(on)).is_some() {
                    self.events[at].recorded = true;
                }
            }
            Op::Wait(event, stream) => {
                let Some((at, event)) = self.event(event) else { return };
                let Some((on, stream)) = self.stream(stream) else { return };
                let expires = event.kind == Kind::Plain && !self.events[at].recorded;
                if expires && self.streams[on].mode == Some(1) {
                    return;
                }
                let limit = expires.then_some(Duration::from_millis(1));
                let actual = self.rig.wait_event(&stream, &event, limit);
                if agree("wait", actual, self.failed(on)).is_some() && expires {
                    let stream = &mut self.streams[on];
                    stream.failure = stream.failure.or(Some(Code::WaitTimeout));
                    self.synchronize(on);
                }
            }
            Op::SyncEvent(selector) => {
                let Some((at, event)) = self.event(selector) else { return };
                let model = &self.events[at];
                let never = model.kind == Kind::Plain && !model.recorded;
                let expected = if never { Err(Code::RtInternal) } else { Ok(()) };
                if let Some(done) = agree("synchronize event", event.synchronize(None), expected) {
                    assert!(done && event.is_complete());
                }
                assert_eq!(event.is_complete(), !never);
            }
            Op::Malloc(size) => {
                let current = self.current();
                let device = self.rig.current_device();
                let Some(device) = agree("device", device, current.map(|_| ())) else { return };
                let request = Request::bytes(size);
                let address = self.rig.shared.memory.allocate(device, request).unwrap();
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
                let Some(at) = pick(&self.blocks, selector) else { return };
                let address = self.blocks[at].span.address;
                let live = self.blocks.iter().position(|b| b.live && b.span.address == address);
                let expected = live.map(|_| ()).ok_or(Code::RtParamInvalid);
                agree("free", self.rig.shared.memory.free(address), expected);
                if let Some(live) = live {
                    self.blocks[live].live = false;
                }
            }
            Op::FreeInside(selector) => {
                let Some(at) = pick(&self.blocks, selector) else { return };
                let inside = self.blocks[at].span.address + 8;
                agree("free", self.rig.shared.memory.free(inside), Err(Code::RtParamInvalid));
            }
            Op::FreeForeign => {
                let local = 0u64;
                for address in [FOREIGN, &raw const local as usize, usize::MAX] {
                    agree("free", self.rig.shared.memory.free(address), Err(Code::RtParamInvalid));
                }
            }
            Op::SetPeer(device, on) => {
                self.drain();
                let changed = self.rig.shared.memory.set_peer(device, 1 - device, on);
                assert_eq!(changed, self.peers[device as usize] != on);
                self.peers[device as usize] = on;
            }
            Op::Fill { stream, block, value, excess } => {
                let Some(block) = self.live_block(block) else { return };
                let Some((on, _)) = self.stream(stream) else { return };
                let device = self.device_of(on);
                let mut span = self.blocks[block].span;
                span.location = Location::Device(device as u32);
                span.bytes += usize::from(excess);
                let ends = match self.reaches(device, block) && !excess {
                    true => Ok(()),
                    false => Err(Code::RtParamInvalid),
                };
                if self.failed(on).is_ok() {
                    self.hand_over(block, on);
                }
                if self.submit(on, fill(span, value), None, ends) && ends.is_ok() {
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
                let Some((on, _)) = self.stream(stream) else { return };
                let device = self.device_of(on);
                let (mut source, mut target) = (self.blocks[from].span, self.blocks[to].span);
                let whole = source.bytes >= target.bytes;
                source.bytes = source.bytes.min(target.bytes);
                target.bytes = source.bytes;
                source.location = Location::Device(device as u32);
                target.location = source.location;
                let ends = match self.reaches(device, from) && self.reaches(device, to) {
                    true => Ok(()),
                    false => Err(Code::RtParamInvalid),
                };
                if self.failed(on).is_ok() {
                    self.hand_over(from, on);
                    self.hand_over(to, on);
                }
                if self.submit(on, copy(source, target), None, ends) && ends.is_ok() {
                    let value = self.blocks[from].value;
                    let same = whole || value == self.blocks[to].value;
                    self.blocks[to].value = value.filter(|_| same);
                }
            }
            Op::Host { stream, throws } => {
                let Some((on, _)) = self.stream(stream) else { return };
                self.hosts += 1;
                let (number, journal) = (self.hosts, self.streams[on].journal.clone());
                let task = host_task(move || {
                    journal.lock().unwrap().push(number);
                    !throws
                });
                let ends = if throws { Err(Code::Internal) } else { Ok(()) };
                self.submit(on, task, Some(number), ends);
            }
            Op::Sync(selector) => {
                let Some((on, stream)) = self.stream(selector) else { return };
                self.synchronize(on);
                assert!(stream.is_idle());
            }
            Op::SyncDevice(id) => {
                let expected = self.device(id);
                let Some(device) = agree("device", self.rig.device(id), expected.map(|_| ()))
                else {
                    return;
                };
                let actual = self.rig.synchronize_device(device, None);
                let mut contexts: Vec<_> = (0..self.contexts.len())
                    .filter(|&c| self.contexts[c].alive && self.contexts[c].device == id as usize)
                    .collect();
                contexts.sort_by_key(|&c| !self.contexts[c].primary);
                let mut first = Ok(());
                for context in contexts {
                    for at in 0..self.streams.len() {
                        if self.streams[at].alive && self.streams[at].context == context {
                            let own = self.streams[at].failure.take().map_or(Ok(()), Err);
                            first = first.and(self.failed(at)).and(own);
                            self.verify(at);
                        }
                    }
                }
                agree("synchronize device", actual, first);
            }
        }
    }

    fn event(&self, selector: u8) -> Option<(usize, Arc<Event>)> {
        let at = pick(&self.events, selector)?;
        let expected = self.events[at].alive.then_some(()).ok_or(Code::InvalidHandle);
        Some((at, agree("event", self.rig.event(self.events[at].handle), expected)?))
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
