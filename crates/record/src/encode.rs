//! Entries as bytes. [`crate::decode`] is the other side; a change here raises [`crate::layout::VERSION`].
//!
//! An entry is a tag, the time since the last entry of the chain, its site, and the fields of what happened, most of them
//! numbers of as few bytes as they need. Addresses are counted from the last one of the chain. A name or a site that
//! the chain has had before is its number.

use crate::access::{Access, Mode};
use crate::entry::*;
use crate::name::Name;
pub use crate::wire::Output;
use crate::wire::{Collector, put, put_signed, put_text};
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use rustc_hash::FxHashMap;

/// Makes bytes of the entries of one chain, in their order.
#[derive(Default)]
pub struct Encoder {
    time_ns: u64,
    address: usize,
    texts: FxHashMap<TextKey, u64>,
    /// The number of the empty text, once the chain has had it.
    no_name: Option<u64>,
    sites: FxHashMap<SiteKey, u64>,
    last_site: Option<(SiteKey, u64)>,
}

/// What a text is found by: where a constant of the program stands, or what it says.
#[derive(Clone, PartialEq, Eq, Hash)]
enum TextKey {
    Static(usize, usize),
    Text(std::sync::Arc<str>),
}

impl TextKey {
    fn of(name: &Name) -> TextKey {
        match name {
            Name::Static(text) => TextKey::Static(text.as_ptr() as usize, text.len()),
            Name::Shared(text) => TextKey::Text(text.clone()),
        }
    }
}

/// What a site is found by: its text, thread and stack.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SiteKey(TextKey, u64, u32);

impl SiteKey {
    fn of(site: &Site) -> SiteKey {
        SiteKey(TextKey::of(&site.entry), site.thread, site.stack)
    }

    #[inline(always)]
    fn is(&self, site: &Site) -> bool {
        let is_text = match (&self.0, &site.entry) {
            (TextKey::Static(at, length), Name::Static(text)) => {
                (*at, *length) == (text.as_ptr() as usize, text.len())
            }
            (TextKey::Text(known), Name::Shared(text)) => known == text,
            _ => false,
        };
        is_text && self.1 == site.thread && self.2 == site.stack
    }
}

impl Encoder {
    /// Appends an entry.
    pub fn encode(&mut self, entry: &Entry<'_>, out: &mut impl Output) {
        self.encode_parts(entry.time_ns, &entry.site, &entry.happening, out);
    }

    /// The same for an entry in parts, which nobody has to put together.
    pub fn encode_parts(
        &mut self,
        time_ns: u64,
        site: &Site,
        happening: &Happening<'_>,
        out: &mut impl Output,
    ) {
        let mut out = Collector::new(out);
        out.byte(tag(happening));
        // Times of one chain rise, but for a clock that was read before the thread was interrupted by its own signal.
        put_signed(&mut out, time_ns.wrapping_sub(self.time_ns) as i64);
        self.time_ns = time_ns;
        self.site(site, &mut out);
        self.happening(happening, &mut out);
        out.direct();
    }

    #[inline(always)]
    fn site<O: Output>(&mut self, site: &Site, out: &mut Collector<'_, O>) {
        match &self.last_site {
            Some((last, number)) if last.is(site) => put(out, *number),
            _ => self.other_site(site, out.direct()),
        }
    }

    fn other_site(&mut self, site: &Site, out: &mut impl Output) {
        let key = SiteKey::of(site);
        let next = self.sites.len() as u64 + 1;
        let number = *self.sites.entry(key.clone()).or_insert(next);
        if number == next {
            put(out, 0);
            self.any_name(&site.entry, out);
            put(out, site.thread);
            put(out, u64::from(site.stack));
        } else {
            put(out, number);
        }
        self.last_site = Some((key, number));
    }

    #[inline(always)]
    fn name<O: Output>(&mut self, name: &Name, out: &mut Collector<'_, O>) {
        match self.no_name {
            Some(number) if name.is_empty() => put(out, number),
            _ => self.any_name(name, out.direct()),
        }
    }

    fn any_name(&mut self, name: &Name, out: &mut impl Output) {
        let next = self.texts.len() as u64 + 1;
        let number = *self.texts.entry(TextKey::of(name)).or_insert(next);
        if name.is_empty() {
            self.no_name = Some(number);
        }
        if number == next {
            put(out, 0);
            put_text(out, name);
        } else {
            put(out, number);
        }
    }

    #[inline(always)]
    fn address(&mut self, address: usize, out: &mut impl Output) {
        put_signed(out, address.wrapping_sub(self.address) as i64);
        self.address = address;
    }

    #[inline(always)]
    fn happening<O: Output>(&mut self, happening: &Happening<'_>, out: &mut Collector<'_, O>) {
        match happening {
            Happening::Alloc { kind, address, bytes, purpose, owner, stream } => {
                self.kind(kind, out);
                self.address(*address, out);
                put(out, *bytes);
                put(out, *purpose as u64);
                put_option(out, owner.graph.map(u64::from));
                put_option(out, owner.loaded);
                self.name(&owner.operator, out);
                put_option(out, stream.map(u64::from));
            }
            Happening::Free { kind, address, bytes, stream } => {
                self.kind(kind, out);
                self.address(*address, out);
                put(out, *bytes);
                put_option(out, stream.map(u64::from));
            }
            Happening::Reusable { kind, address, bytes } => {
                self.kind(kind, out);
                self.address(*address, out);
                put(out, *bytes);
            }
            Happening::Usage { device, used, quarantined, capacity } => {
                for value in [u64::from(*device), *used, *quarantined, *capacity] {
                    put(out, value);
                }
            }
            Happening::Submit { stream, device, seq, name, task, accesses, ordered } => {
                put_task(out, *stream, *seq);
                put(out, u64::from(*device));
                self.name(name, out);
                out.byte(*task as u8);
                self.accesses(accesses, out.direct());
                put_clock(out.direct(), ordered);
            }
            Happening::Start { stream, seq } => put_task(out, *stream, *seq),
            Happening::End { stream, seq, began_ns, outcome } => {
                put_task(out, *stream, *seq);
                put_signed(out, self.time_ns.wrapping_sub(*began_ns) as i64);
                out.byte(*outcome as u8);
            }
            Happening::Record { event, epoch } => {
                put(out, u64::from(*event));
                put_epoch(out, *epoch);
            }
            Happening::Wait { event, record, epoch } => {
                put(out, u64::from(*event));
                out.byte(u8::from(record.is_some()));
                if let Some(record) = record {
                    put_epoch(out, *record);
                }
                put_epoch(out, *epoch);
            }
            Happening::Complete { what, known } => {
                put_sync_object(out, *what);
                put_clock(out.direct(), known);
            }
            Happening::Synchronize { what, known, began_ns } => {
                put_sync_object(out, *what);
                put_clock(out.direct(), known);
                put_signed(out, self.time_ns.wrapping_sub(*began_ns) as i64);
            }
            Happening::Stream { stream, device, context, change } => {
                put(out, u64::from(*stream));
                put(out, u64::from(*device));
                put(out, *context);
                out.byte(*change as u8);
            }
            Happening::Context { context, device, change } => {
                put(out, *context);
                put(out, u64::from(*device));
                out.byte(*change as u8);
            }
            Happening::Device { device, change, capacity } => {
                put(out, u64::from(*device));
                out.byte(*change as u8);
                put(out, *capacity);
            }
            Happening::Register { domain, stream, object, change } => {
                out.byte(*domain as u8);
                put(out, u64::from(*stream));
                put(out, *object as u64);
                out.byte(*change as u8);
            }
            Happening::Callback(callback) => self.callback(callback, out.direct()),
            Happening::Load(plan) => self.plan(plan, out.direct()),
            Happening::Run { plan, stream, seq, regions } => {
                put(out, *plan);
                put(out, u64::from(*stream));
                put_option(out, *seq);
                put(out, regions.len() as u64);
                regions.iter().for_each(|region| self.address(*region, out.direct()));
            }
            Happening::Unload { loaded } => put(out, *loaded),
            Happening::Touch { name, accesses } => {
                self.name(name, out);
                self.accesses(accesses, out.direct());
            }
            Happening::HostFault { address, writes } => {
                self.address(*address, out);
                out.byte(u8::from(*writes));
            }
            Happening::Object { kind, handle, change } => {
                self.name(kind, out);
                put(out, *handle);
                out.byte(*change as u8);
            }
            Happening::Stack { number, frames } => {
                put(out, u64::from(*number));
                put(out, frames.len() as u64);
                frames.iter().for_each(|frame| self.frame(frame, out.direct()));
            }
            Happening::Exit => {}
            Happening::Prepared { stream, seq, prepared_ns, accesses } => {
                put_task(out, *stream, *seq);
                put_signed(out, self.time_ns.wrapping_sub(*prepared_ns) as i64);
                put(out, u64::from(*accesses));
            }
            Happening::WrongBlock { object, block, fault } => {
                put(out, *object as u64);
                put(out, *block as u64);
                match fault {
                    BlockFault::FreedBefore => out.byte(0),
                    BlockFault::OfAnother(other) => put_numbers(out, 1, &[*other as u64]),
                }
            }
            Happening::Region { device, address, bytes, domain, change } => {
                put(out, u64::from(*device));
                self.address(*address, out);
                put(out, *bytes);
                self.name(domain, out);
                out.byte(*change as u8);
            }
            Happening::Mark { range, text, change } => {
                put(out, *range);
                put_text(out, text);
                out.byte(*change as u8);
            }
            Happening::Communicator(communicator, change) => {
                self.communicator(communicator, out.direct());
                out.byte(*change as u8);
            }
            Happening::Collective(collective) => self.collective(collective, out),
            Happening::WrongFree { address, reason } => {
                self.address(*address, out);
                put_text(out.direct(), reason);
            }
        }
    }

    #[inline(always)]
    fn kind(&mut self, kind: &MemoryKind, out: &mut impl Output) {
        match *kind {
            MemoryKind::Device(device) => put_numbers(out, 0, &[u64::from(device)]),
            MemoryKind::Pinned => out.byte(1),
            MemoryKind::Registered => out.byte(2),
            MemoryKind::PoolSegment { device, pool } => {
                put_numbers(out, 3, &[u64::from(device), u64::from(pool)]);
            }
            MemoryKind::PoolBlock { device, pool } => {
                put_numbers(out, 4, &[u64::from(device), u64::from(pool)]);
            }
            MemoryKind::Mapped { device } => put_numbers(out, 6, &[u64::from(device)]),
            MemoryKind::External { device, object, block } => {
                put_numbers(out, 5, &[u64::from(device), object as u64, block as u64]);
            }
        }
    }

    fn accesses(&mut self, accesses: &[Access], out: &mut impl Output) {
        let mut out = Collector::new(out);
        put(&mut out, accesses.len() as u64);
        accesses.iter().for_each(|access| self.access(access, &mut out));
        out.direct();
    }

    /// Mode, "may touch" and the number of dimensions share the first number.
    #[inline(always)]
    fn access(&mut self, access: &Access, out: &mut impl Output) {
        let mode = match access.mode {
            Mode::Read => 0,
            Mode::Write => 1,
            Mode::ReadWrite => 2,
        };
        put(out, (access.dims.len() as u64) << 3 | u64::from(access.indexed) << 2 | mode);
        self.address(access.address, out);
        put(out, access.element);
        for (size, stride) in &access.dims {
            put(out, *size);
            put_signed(out, *stride);
        }
    }

    fn communicator(&mut self, communicator: &Communicator, out: &mut impl Output) {
        let Communicator { id, name, identity, rank, size, device } = communicator;
        put(out, *id);
        put_text(out, name);
        put(out, (identity >> 64) as u64);
        put(out, *identity as u64);
        for value in [*rank, *size, *device] {
            put(out, u64::from(value));
        }
    }

    fn collective<O: Output>(&mut self, collective: &Collective, out: &mut Collector<'_, O>) {
        put(out, collective.communicator);
        put(out, collective.ticket);
        self.name(&collective.operator, out);
        put_epoch(out, collective.epoch);
        put(out, collective.count);
        out.byte(collective.data_type);
        put_option(out, collective.reduction.map(u64::from));
        put_option(out, collective.root.map(u64::from));
        for ranks in [&collective.to, &collective.from] {
            put(out, ranks.len() as u64);
            ranks.iter().for_each(|rank| put(out, u64::from(*rank)));
        }
    }

    fn callback(&mut self, callback: &Callback, out: &mut impl Output) {
        put(out, callback.object as u64);
        match callback.request {
            UserCall::Alloc(bytes) => put_numbers(out, 0, &[bytes as u64]),
            UserCall::Advise(bytes, near) => put_numbers(out, 1, &[bytes as u64, near as u64]),
            UserCall::Address(block) => put_numbers(out, 2, &[block as u64]),
            UserCall::Free(block) => put_numbers(out, 3, &[block as u64]),
        }
        put_option(out, callback.stream.map(u64::from));
        put_option(out, callback.answer.map(|answer| answer as u64));
        put_signed(out, self.time_ns.wrapping_sub(callback.began_ns) as i64);
    }

    fn plan(&mut self, plan: &StepPlan, out: &mut impl Output) {
        put(out, plan.id);
        put(out, plan.loaded);
        put_text(out, &plan.label);
        put(out, plan.steps.len() as u64);
        for step in &plan.steps {
            put_text(out, &step.node);
            put(out, step.accesses.len() as u64);
            for access in &step.accesses {
                put(out, u64::from(access.region));
                self.access(&access.access, out);
            }
        }
    }

    fn frame(&mut self, frame: &Frame, out: &mut impl Output) {
        match frame {
            Frame::Native { module, offset } => {
                out.byte(0);
                self.any_name(module, out);
                put(out, *offset);
            }
            Frame::Python { function, file, line } => {
                out.byte(1);
                self.any_name(function, out);
                self.any_name(file, out);
                put(out, u64::from(*line));
            }
        }
    }
}

#[inline(always)]
fn put_numbers(out: &mut impl Output, tag: u8, numbers: &[u64]) {
    out.byte(tag);
    numbers.iter().for_each(|number| put(out, *number));
}

#[inline(always)]
fn put_option(out: &mut impl Output, value: Option<u64>) {
    match value {
        None => out.byte(0),
        Some(value) => {
            out.byte(1);
            put(out, value);
        }
    }
}

fn put_sync_object(out: &mut impl Output, object: SyncObject) {
    let (which, number) = match object {
        SyncObject::Stream(stream) => (0, stream),
        SyncObject::Event(event) => (1, event),
        SyncObject::Device(device) => (2, device),
    };
    out.byte(which);
    put(out, u64::from(number));
}

#[inline(always)]
fn put_task(out: &mut impl Output, stream: StreamIndex, seq: u64) {
    put(out, u64::from(stream));
    put(out, seq);
}

fn put_epoch(out: &mut impl Output, epoch: Epoch) {
    put_task(out, epoch.stream, epoch.seq);
}

fn put_clock(out: &mut impl Output, clock: &Clock) {
    put(out, clock.epochs().len() as u64);
    clock.epochs().iter().for_each(|epoch| put_epoch(out, *epoch));
}

/// The number of a happening in the format.
#[inline(always)]
fn tag(happening: &Happening<'_>) -> u8 {
    match happening {
        Happening::Alloc { .. } => 1,
        Happening::Free { .. } => 2,
        Happening::Reusable { .. } => 3,
        Happening::Usage { .. } => 4,
        Happening::Submit { .. } => 5,
        Happening::Start { .. } => 6,
        Happening::End { .. } => 7,
        Happening::Record { .. } => 8,
        Happening::Wait { .. } => 9,
        Happening::Complete { .. } => 10,
        Happening::Synchronize { .. } => 11,
        Happening::Stream { .. } => 12,
        Happening::Context { .. } => 13,
        Happening::Device { .. } => 14,
        Happening::Register { .. } => 15,
        Happening::Callback(_) => 16,
        Happening::Load(_) => 17,
        Happening::Run { .. } => 18,
        Happening::Unload { .. } => 19,
        Happening::Touch { .. } => 20,
        Happening::HostFault { .. } => 21,
        Happening::Object { .. } => 22,
        Happening::Stack { .. } => 23,
        Happening::Exit => 24,
        Happening::WrongFree { .. } => 25,
        Happening::Prepared { .. } => 26,
        Happening::WrongBlock { .. } => 27,
        Happening::Region { .. } => 28,
        Happening::Mark { .. } => 29,
        Happening::Communicator(..) => 30,
        Happening::Collective(_) => 31,
    }
}
