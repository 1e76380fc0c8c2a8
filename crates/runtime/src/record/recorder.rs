//! The sink that writes a record ([`cairn_record`]): every event, as an entry in the segments of its thread.

use super::event::Event;
use super::file::{RecordFile, RecordSettings};
use super::mapped::{SegmentOutput, SegmentWriter};
use super::site::{Preparation, Site};
use super::{Access, Kind, Sink, Stamp, stack};
use crate::error::Result;
use crate::memory::purpose::Owner;
use crate::task::{Body, Task};
use cairn_record::encode::Encoder;
use cairn_record::entry::{self, Happening, TaskKind};
use cairn_record::layout::Segment;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// With less room than this in its segment a thread looks whether it has to wait for a reader.
const ROOM: usize = 4096;

/// Writes everything that happens into a file. Threads share nothing but the file's growth.
pub struct Recorder {
    /// Tells this recorder from others of the process, for what threads keep of their own.
    number: u64,
    file: RecordFile,
    /// The stacks up to this number are in the file.
    written_stacks: AtomicU32,
}

/// What a thread keeps: the state of its chain, and memory to work in. It is never dropped, because a thread-local without
/// a destructor can be used at any time; its segments lie in the file anyway.
struct ThreadLog {
    recorder: u64,
    chain: u32,
    next_ordinal: u32,
    thread: u64,
    segment: Option<SegmentWriter>,
    encoder: Encoder,
    /// What did not fit into the segment.
    rest: Vec<u8>,
    accesses: Vec<Access>,
}

std::thread_local! {
    static LOG: Cell<Option<&'static RefCell<ThreadLog>>> = const { Cell::new(None) };
}

impl Recorder {
    /// What it listens to.
    pub const KINDS: [Kind; Kind::COUNT] = Kind::ALL;

    /// Creates the file.
    pub fn create(settings: &RecordSettings) -> Result<Recorder> {
        static RECORDERS: AtomicU64 = AtomicU64::new(1);
        let number = RECORDERS.fetch_add(1, Ordering::Relaxed);
        let file = RecordFile::create(settings)?;
        if settings.stacks {
            stack::switch_on();
        }
        Ok(Recorder { number, file, written_stacks: AtomicU32::new(0) })
    }

    /// Encodes the stacks up to a number that nobody has written yet.
    #[cold]
    fn encode_stacks(
        &self,
        stamp: &Stamp,
        last: u32,
        encoder: &mut Encoder,
        out: &mut SegmentOutput<'_>,
    ) {
        let first = self.written_stacks.fetch_max(last, Ordering::AcqRel) + 1;
        for number in first..=last {
            let frames = stack::frames(number);
            let what = Happening::Stack { number, frames: Cow::Borrowed(&frames) };
            encoder.encode_parts(stamp.time_ns(), &entry::Site::default(), &what, out);
        }
    }

    /// A log of this record for the calling thread.
    #[cold]
    fn new_log(&self, stamp: &Stamp) -> &'static RefCell<ThreadLog> {
        let log = Box::leak(Box::new(RefCell::new(ThreadLog {
            recorder: self.number,
            chain: self.file.new_chain(),
            next_ordinal: 0,
            thread: stamp.thread(),
            segment: None,
            encoder: Encoder::default(),
            rest: Vec::new(),
            accesses: Vec::new(),
        })));
        LOG.set(Some(log));
        log
    }
}

impl Sink for Recorder {
    fn event(&self, stamp: &Stamp, event: &Event<'_>) {
        if self.file.ended() {
            return;
        }
        let log = LOG.get().unwrap_or_else(|| self.new_log(stamp));
        // Borrowed already: something that happened inside of this very function, which nobody needs to know.
        let Ok(mut log) = log.try_borrow_mut() else { return };
        if log.recorder != self.number {
            log = self.new_log(stamp).borrow_mut();
        }
        let log = &mut *log;
        let call = stamp.site();
        log.accesses.clear();
        if let Event::Submit { task, .. } = event {
            task.each_access(&mut |access| log.accesses.push(access));
        }
        if !log.begin(&self.file) {
            return;
        }
        let Some(segment) = &mut log.segment else { return };
        let before = segment.used();
        let mut out = segment.output(&mut log.rest);
        if call.stack > self.written_stacks.load(Ordering::Acquire) {
            self.encode_stacks(stamp, call.stack, &mut log.encoder, &mut out);
        }
        if let Event::Submit { stream, seq, .. } = *event
            && let Some(Preparation { prepared_ns, accesses }) = call.preparation
        {
            let what = Happening::Prepared { stream, seq, prepared_ns, accesses };
            log.encoder.encode_parts(stamp.time_ns(), &site(call), &what, &mut out);
        }
        // It borrows or is a constant, all of it: there is nothing to drop.
        let what = ManuallyDrop::new(happening(event, &log.accesses));
        log.encoder.encode_parts(stamp.time_ns(), &site(call), &what, &mut out);
        match log.rest.is_empty() {
            true => segment.publish(),
            false => log.append_rest(&self.file, before),
        }
    }

    fn flush(&self) {
        self.file.trim();
    }
}

impl ThreadLog {
    fn new_segment(&mut self, file: &RecordFile, is_busy: bool) -> Option<SegmentWriter> {
        let (chain, ordinal, thread) = (self.chain, self.next_ordinal, self.thread);
        let segment = file.segment(Segment { chain, ordinal, thread, used: 0 }, is_busy)?;
        self.next_ordinal += 1;
        Some(segment)
    }

    /// Says that this thread makes an entry, before the clock is read for it; false when the record has ended.
    #[inline]
    fn begin(&mut self, file: &RecordFile) -> bool {
        match &self.segment {
            Some(segment) if segment.room() >= ROOM => {
                segment.set_busy();
                true
            }
            _ => self.begin_near_end(file),
        }
    }

    #[cold]
    fn begin_near_end(&mut self, file: &RecordFile) -> bool {
        file.wait_for_reader();
        match self.segment.take().filter(|segment| segment.room() > 0) {
            Some(segment) => {
                segment.set_busy();
                self.segment = Some(segment);
            }
            None => self.segment = self.new_segment(file, true),
        }
        self.segment.is_some()
    }

    /// An entry goes on in further segments. The first one, which had `before` bytes, counts last, so that no part of an entry
    /// ever does.
    #[cold]
    fn append_rest(&mut self, file: &RecordFile, before: usize) {
        let bytes = std::mem::take(&mut self.rest);
        let mut written: Vec<SegmentWriter> = self.segment.take().into_iter().collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Some(mut segment) = self.new_segment(file, false) else {
                // The record has ended, and this entry is not in it.
                if let Some(first) = written.first_mut() {
                    first.truncate(before);
                    first.publish();
                }
                return;
            };
            let (part, later) = rest.split_at(rest.len().min(segment.room()));
            segment.write(part);
            rest = later;
            written.push(segment);
        }
        written.iter().rev().for_each(SegmentWriter::publish);
        self.segment = written.pop();
        self.rest = bytes;
        self.rest.clear();
    }
}

fn site(site: Site) -> entry::Site {
    entry::Site { entry: site.entry.into(), thread: site.thread, stack: site.stack }
}

fn owner(owner: Owner) -> entry::Owner {
    let operator = owner.operator.unwrap_or_default().into();
    entry::Owner { graph: owner.graph, loaded: owner.loaded, operator }
}

fn task_kind(task: &Task) -> TaskKind {
    match &task.body {
        Body::Nothing => TaskKind::Nothing,
        Body::Copy | Body::Fill(_) | Body::Work(_) | Body::Kernel(_) | Body::Exchange(_) => {
            TaskKind::Work
        }
        Body::Host(_) => TaskKind::HostFunction,
        Body::Record(_) => TaskKind::Record,
        Body::Wait(_) => TaskKind::Wait,
    }
}

/// What happened, as it is recorded. `accesses` are those of a submitted task.
#[inline]
fn happening<'a>(event: &Event<'a>, accesses: &'a [Access]) -> Happening<'a> {
    match *event {
        Event::Alloc { kind, address, bytes, purpose, owner: of, stream } => {
            Happening::Alloc { kind, address, bytes, purpose, owner: owner(of), stream }
        }
        Event::Free { kind, address, bytes, stream } => {
            Happening::Free { kind, address, bytes, stream }
        }
        Event::Reusable { kind, address, bytes } => Happening::Reusable { kind, address, bytes },
        Event::Usage { device, used, quarantined, capacity } => {
            Happening::Usage { device, used, quarantined, capacity }
        }
        Event::Submit { stream, device, seq, task, ordered } => Happening::Submit {
            stream,
            device,
            seq,
            name: task.name.into(),
            task: task_kind(task),
            accesses: Cow::Borrowed(accesses),
            ordered: Cow::Borrowed(ordered),
        },
        Event::Start { stream, seq } => Happening::Start { stream, seq },
        Event::End { stream, seq, began_ns, outcome, .. } => {
            Happening::End { stream, seq, began_ns, outcome }
        }
        Event::Record { event, epoch } => Happening::Record { event, epoch },
        Event::Wait { event, record, epoch } => Happening::Wait { event, record, epoch },
        Event::Complete { what, known } => {
            Happening::Complete { what, known: Cow::Borrowed(known) }
        }
        Event::Synchronize { what, known, began_ns } => {
            Happening::Synchronize { what, known: Cow::Borrowed(known), began_ns }
        }
        Event::Stream { stream, device, context, change, .. } => {
            Happening::Stream { stream, device, context, change }
        }
        Event::Context { context, device, change } => {
            Happening::Context { context, device, change }
        }
        Event::Device { device, change, capacity } => {
            Happening::Device { device, change, capacity }
        }
        Event::Register { domain, stream, object, change } => {
            Happening::Register { domain, stream, object, change }
        }
        Event::Callback(callback) => Happening::Callback(*callback),
        Event::Load(plan) => Happening::Load(Cow::Borrowed(plan)),
        Event::Run { plan, stream, seq, regions } => {
            Happening::Run { plan, stream, seq, regions: Cow::Borrowed(regions) }
        }
        Event::Unload { loaded } => Happening::Unload { loaded },
        Event::Touch { name, accesses } => {
            Happening::Touch { name: name.into(), accesses: Cow::Borrowed(accesses) }
        }
        Event::Object { kind, handle, change } => {
            Happening::Object { kind: kind.into(), handle: handle as u64, change }
        }
        Event::Region { device, address, bytes, domain, change } => {
            Happening::Region { device, address, bytes, domain: domain.into(), change }
        }
        Event::Mark { range, text, change } => {
            Happening::Mark { range, text: Cow::Borrowed(text), change }
        }
        Event::Communicator(communicator, change) => {
            Happening::Communicator(Cow::Borrowed(communicator), change)
        }
        Event::Collective(collective) => Happening::Collective(Cow::Borrowed(collective)),
        Event::Exit => Happening::Exit,
        Event::HostFault { address, writes } => Happening::HostFault { address, writes },
        Event::WrongFree { address, reason } => {
            Happening::WrongFree { address, reason: Cow::Borrowed(reason) }
        }
        Event::WrongBlock { object, block, fault } => {
            Happening::WrongBlock { object, block, fault }
        }
    }
}
