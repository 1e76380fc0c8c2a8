//! Who registered which allocator on which stream.

use super::allocator::Allocator;
use super::callback_lock::CallbackLocks;
use super::external::{External, Identity, UserAllocator};
use super::outstanding::{BlockCount, Outstanding};
use crate::clock::StreamIndex;
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::record::event::Change;
use crate::record::{Event, Kind};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Weak};
use std::collections::BTreeMap;

/// The interface that an allocator was registered through. Neither sees the other's registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// `aclrtAllocatorRegister`: single operators and models.
    Acl,
    /// `ge::Session::RegisterExternalAllocator`: graphs.
    Ge,
}

/// An allocator as it was registered on a stream.
#[derive(Clone)]
pub struct Registration {
    /// The user's word for it (the descriptor's handle), for whoever asks; never looked into.
    pub word: usize,
    /// The allocator.
    pub external: Arc<External>,
    /// What blocks are taken from: the allocator under its layers.
    pub allocator: Arc<dyn Allocator>,
    /// The stream's number.
    pub stream: StreamIndex,
}

/// The registrations of a process, by domain and handle of the stream.
///
/// A registration ends when the stream does, is replaced or removed; blocks that are out keep
/// their maker, and go back to it. The null handle has no registration, so the default stream has
/// one only under its own handle.
pub struct Registry {
    shared: Arc<Shared>,
    callback_locks: Arc<CallbackLocks>,
    outstanding: Arc<Outstanding>,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    registrations: BTreeMap<(Domain, usize), Registration>,
    externals: BTreeMap<Identity, Weak<External>>,
}

impl Registry {
    /// Without any registration.
    pub fn new(shared: &Arc<Shared>) -> Registry {
        Registry {
            shared: shared.clone(),
            callback_locks: CallbackLocks::new(
                shared.config.callback_limits,
                shared.scheduler.clone(),
            ),
            outstanding: shared.memory.outstanding().clone(),
            tables: Mutex::new(Rank::Registry, Tables::default()),
        }
    }

    /// Registers an allocator on a stream, from the next execution on. The last one wins. An
    /// allocator with the same object and functions as one that is registered or has blocks out is
    /// the same one. It gets layers of its own, unless the same allocator is registered on this stream already.
    pub fn register(
        &self,
        domain: Domain,
        handle: usize,
        stream: &Stream,
        word: usize,
        user: Box<dyn UserAllocator>,
    ) -> Result<()> {
        let (external, spare) = self.external(user);
        drop(spare);
        let key = (domain, handle);
        let kept = self.registration(domain, handle);
        let allocator = match kept {
            Some(kept) if Arc::ptr_eq(&kept.external, &external) => kept.allocator,
            _ => self.shared.memory.wrap_external(external.clone()),
        };
        let mut tables = self.tables.lock();
        if stream.ending.load(Ordering::SeqCst) {
            drop(tables);
            let text = format!("stream {handle:#x} is being destroyed");
            return Err(Error::new(Code::InvalidHandle, text));
        }
        let object = external.identity().object;
        let before = tables
            .registrations
            .insert(key, Registration { word, external, allocator, stream: stream.index });
        self.emit_end(domain, before.as_ref());
        self.emit(domain, stream.index, object, Change::Created);
        drop(tables);
        drop(before);
        Ok(())
    }

    /// The allocator with this identity, and the user's functions if they were not needed.
    fn external(
        &self,
        user: Box<dyn UserAllocator>,
    ) -> (Arc<External>, Option<Box<dyn UserAllocator>>) {
        let identity = user.identity();
        let mut tables = self.tables.lock();
        if let Some(known) = tables.externals.get(&identity).and_then(Weak::upgrade) {
            return (known, Some(user));
        }
        tables.externals.retain(|_, external| external.strong_count() > 0);
        let (callback_locks, outstanding) = (self.callback_locks.clone(), self.outstanding.clone());
        let fresh = Arc::new(External::new(user, callback_locks, outstanding, self.shared.clone()));
        tables.externals.insert(identity, Arc::downgrade(&fresh));
        (fresh, None)
    }

    /// Ends a registration. Without one, nothing happens.
    pub fn unregister(&self, domain: Domain, handle: usize) {
        let mut tables = self.tables.lock();
        self.emit_end(domain, tables.registrations.get(&(domain, handle)));
        let before = tables.registrations.remove(&(domain, handle));
        drop(tables);
        drop(before);
    }

    fn emit(&self, domain: Domain, stream: StreamIndex, object: usize, change: Change) {
        let event = || Event::Register { domain, stream, object, change };
        self.shared.spine.emit(Kind::Register, event);
    }

    fn emit_end(&self, domain: Domain, ended: Option<&Registration>) {
        if let Some(Registration { stream, external, .. }) = ended {
            self.emit(domain, *stream, external.identity().object, Change::Destroyed);
        }
    }

    /// What is registered on a stream.
    pub fn registration(&self, domain: Domain, handle: usize) -> Option<Registration> {
        self.tables.lock().registrations.get(&(domain, handle)).cloned()
    }

    /// What an execution on the stream with this handle takes its memory from; `None` when the user
    /// registered nothing, and then the built-in allocator of the device serves it. Asked once for
    /// every execution.
    pub fn allocator_for(&self, domain: Domain, handle: usize) -> Option<Arc<dyn Allocator>> {
        self.registration(domain, handle).map(|registration| registration.allocator)
    }

    /// A stream has ended: so do its registrations. Whoever set `ending` of the stream calls this
    /// afterwards, so that no registration comes too late.
    pub(crate) fn stream_ended(&self, handle: usize, stream: &Stream) {
        for domain in [Domain::Acl, Domain::Ge] {
            self.unregister(domain, handle);
        }
        let held = self.outstanding.of_stream(stream.index);
        report(
            &format!("stream {} ends", stream.index),
            held,
            "what is out goes back when its holder lets go",
        );
    }

    /// The memory of a device is about to end.
    pub(crate) fn device_ends(&self, device: u32) {
        let held = self.outstanding.write_off(device);
        report(&format!("device {device} ends"), held, "that memory ends with it");
    }

    /// `main` has returned: from now on nothing of the user is called.
    pub fn process_ends(&self) {
        report("the process ends", self.outstanding.all(), "nothing goes back any more");
    }

    /// Blocks and bytes of the user's object that are out.
    pub fn held_of(&self, object: usize) -> BlockCount {
        self.outstanding.all().get(&object).copied().unwrap_or_default()
    }
}

fn report(what: &str, held: BTreeMap<usize, BlockCount>, then: &str) {
    for (object, BlockCount { blocks, bytes }) in held {
        let plural = if blocks == 1 { "" } else { "s" };
        log::warn!(
            "{what} with {blocks} block{plural} ({bytes} bytes) of the allocator {object:#x} out; {then}"
        );
    }
}
