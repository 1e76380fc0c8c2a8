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

/// Neither sees the other's registrations.
pub use cairn_record::entry::Domain;

/// An allocator as it was registered on a stream.
#[derive(Clone)]
pub struct Registration {
    /// The user's handle of its descriptor, only to be returned.
    pub descriptor: usize,
    /// The allocator.
    pub external: Arc<External>,
    /// What blocks are taken from: the allocator under its layers.
    pub allocator: Arc<dyn Allocator>,
    /// The stream's number.
    pub stream: StreamIndex,
}

/// The registrations of a process, by domain and handle of the stream.
///
/// A registration ends when the stream does, is replaced or removed; outstanding blocks keep
/// their maker, and are freed to it. The null handle has no registration, so the default stream has
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
    /// An empty registry.
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
        descriptor: usize,
        user: Box<dyn UserAllocator>,
    ) -> Result<()> {
        let (external, unused) = self.external(user);
        drop(unused);
        let key = (domain, handle);
        let existing = self.registration(domain, handle);
        let allocator = match existing {
            Some(existing) if Arc::ptr_eq(&existing.external, &external) => existing.allocator,
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
            .insert(key, Registration { descriptor, external, allocator, stream: stream.index });
        self.emit_end(domain, before.as_ref());
        self.emit(domain, stream.index, object, Change::Created);
        drop(tables);
        drop(before);
        Ok(())
    }

    /// The allocator of this identity, and `user` back if there was one already.
    fn external(
        &self,
        user: Box<dyn UserAllocator>,
    ) -> (Arc<External>, Option<Box<dyn UserAllocator>>) {
        let identity = user.identity();
        let mut tables = self.tables.lock();
        if let Some(existing) = tables.externals.get(&identity).and_then(Weak::upgrade) {
            return (existing, Some(user));
        }
        tables.externals.retain(|_, external| external.strong_count() > 0);
        let (callback_locks, outstanding) = (self.callback_locks.clone(), self.outstanding.clone());
        let new = Arc::new(External::new(user, callback_locks, outstanding, self.shared.clone()));
        tables.externals.insert(identity, Arc::downgrade(&new));
        (new, None)
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

    /// What an execution on the stream with this handle gets its memory from; `None` when the user
    /// registered nothing: then it is the built-in pool of the device. Called once for
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
        log_outstanding(
            &format!("stream {} ends", stream.index),
            held,
            "what is out goes back when its holder lets go",
        );
    }

    /// The memory of a device is about to end: its outstanding blocks are forgotten.
    pub(crate) fn device_ends(&self, device: u32) {
        let held = self.outstanding.remove_device(device);
        log_outstanding(&format!("device {device} ends"), held, "that memory ends with it");
    }

    /// `main` has returned: from now on nothing of the user is called.
    pub fn process_ends(&self) {
        log_outstanding("the process ends", self.outstanding.all(), "nothing goes back any more");
    }

    /// Outstanding blocks and bytes of the user's object.
    pub fn count_of(&self, object: usize) -> BlockCount {
        self.outstanding.all().get(&object).copied().unwrap_or_default()
    }
}

/// Logs which blocks are outstanding when something ends, and what happens to them.
fn log_outstanding(event: &str, held: BTreeMap<usize, BlockCount>, consequence: &str) {
    for (object, BlockCount { blocks, bytes }) in held {
        let plural = if blocks == 1 { "" } else { "s" };
        log::warn!(
            "{event} with {blocks} block{plural} ({bytes} bytes) of the allocator {object:#x} out; {consequence}"
        );
    }
}
