//! Handles: what a C program holds for a stream, an event, a context, a descriptor.
//!
//! A handle is an address inside a range that is reserved for the process and never mapped, so it
//! collides with no object of the user and reading through it faults at once. Slot and generation
//! are in the address; both are checked before anything is touched, so a foreign, freed or wrong
//! handle is an error, never a crash.
//!
//! ```text
//! handle = base + (generation * SLOTS + slot) * STEP
//! ```

use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::record::{Change, Event, Kind, Spine};
use crate::sync::Arc;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::OnceLock;

/// Bytes between two handles.
const STEP: usize = 16;
/// Slots in a chunk; chunks are made on first use.
const CHUNK: usize = 1024;
/// A released slot is reused only after this many others, so that a stale handle is recognised for longer.
const REUSE_DELAY: usize = 256;

/// Something that a handle can stand for.
pub trait HandleObject: Any + Send + Sync {
    /// What it is called in error messages: "stream", "event", ...
    const KIND: &'static str;
}

/// The table of all live handles. Lookups take the lock of one slot for a few nanoseconds.
pub struct Table {
    base: usize,
    /// A power of two: every call of the program decodes a handle, and a division would cost time.
    slots: usize,
    generations: usize,
    chunks: Box<[OnceLock<Chunk>]>,
    free: Mutex<FreeSlots>,
    spine: Arc<Spine>,
}

type Chunk = Box<[Mutex<Slot>]>;

#[derive(Default)]
struct Slot {
    generation: usize,
    live: Option<(&'static str, Arc<dyn Any + Send + Sync>)>,
    /// The kind of the last object here; empty if there was none.
    last_kind: &'static str,
}

struct FreeSlots {
    /// How many slots were ever used.
    used: usize,
    /// Slots to reuse, the one that was released first in front.
    released: VecDeque<usize>,
}

impl Table {
    /// Reserves the address range; a smaller one where the process is short of addresses. Handles that come and go are
    /// emitted to `spine`.
    pub fn reserve(spine: Arc<Spine>) -> Result<Table> {
        for (slots, generations) in [(1 << 20, 1 << 12), (1 << 18, 1 << 8), (1 << 16, 1 << 4)] {
            // SAFETY: a new anonymous mapping without access; nothing else is touched.
            let mapped = unsafe {
                mmap_anonymous(
                    std::ptr::null_mut(),
                    slots * generations * STEP,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            };
            if let Ok(base) = mapped {
                return Ok(Table {
                    base: base as usize,
                    slots,
                    generations,
                    chunks: (0..slots / CHUNK).map(|_| OnceLock::new()).collect(),
                    free: Mutex::new(
                        Rank::Handles,
                        FreeSlots { used: 0, released: VecDeque::new() },
                    ),
                    spine,
                });
            }
        }
        Err(Error::new(Code::MemoryAllocation, "no address range for handles: raise `ulimit -v`"))
    }

    fn slot(&self, number: usize) -> &Mutex<Slot> {
        let chunk = self.chunks[number / CHUNK].get_or_init(|| {
            (0..CHUNK).map(|_| Mutex::new(Rank::Handles, Slot::default())).collect()
        });
        &chunk[number % CHUNK]
    }

    /// A new handle for the object.
    pub fn insert<T: HandleObject>(&self, object: Arc<T>) -> Result<usize> {
        let mut created = 0;
        self.insert_with(|handle| {
            created = handle;
            Ok(object)
        })?;
        Ok(created)
    }

    /// A new handle for an object that is made with it.
    pub fn insert_with<T: HandleObject>(
        &self,
        make: impl FnOnce(usize) -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        let number = self.free_slot()?;
        let generation = self.slot(number).lock().generation;
        let handle = self.base + (generation * self.slots + number) * STEP;
        match make(handle) {
            Ok(object) => {
                self.slot(number).lock().live = Some((T::KIND, object.clone()));
                self.emit::<T>(handle, Change::Created);
                Ok(object)
            }
            Err(error) => {
                self.free.lock().released.push_back(number);
                Err(error)
            }
        }
    }

    fn free_slot(&self) -> Result<usize> {
        let mut free = self.free.lock();
        if free.released.len() <= REUSE_DELAY && free.used < self.slots {
            free.used += 1;
            return Ok(free.used - 1);
        }
        free.released.pop_front().ok_or_else(|| {
            Error::new(
                Code::MemoryAllocation,
                format!("this process holds {} handles already", self.slots),
            )
        })
    }

    /// The object behind a handle of the user.
    pub fn get<T: HandleObject>(&self, handle: usize) -> Result<Arc<T>> {
        let (number, generation) =
            self.decode(handle).ok_or_else(|| never_given_out::<T>(handle))?;
        let slot = self.slot(number).lock();
        self.check::<T>(&slot, generation, handle)
    }

    /// Ends a handle and gives the object back; the object lives on while others hold it.
    pub fn remove<T: HandleObject>(&self, handle: usize) -> Result<Arc<T>> {
        let (number, generation) =
            self.decode(handle).ok_or_else(|| never_given_out::<T>(handle))?;
        let object = {
            let mut slot = self.slot(number).lock();
            let object = self.check::<T>(&slot, generation, handle)?;
            slot.live = None;
            slot.last_kind = T::KIND;
            slot.generation = (generation + 1) % self.generations;
            object
        };
        self.free.lock().released.push_back(number);
        self.emit::<T>(handle, Change::Destroyed);
        Ok(object)
    }

    fn emit<T: HandleObject>(&self, handle: usize, change: Change) {
        self.spine.emit(Kind::Object, || Event::Object { kind: T::KIND, handle, change });
    }

    /// Slot and generation of a handle that may have been given out.
    fn decode(&self, handle: usize) -> Option<(usize, usize)> {
        let offset = handle.checked_sub(self.base)?;
        let entry = offset / STEP;
        let (number, generation) = (entry & (self.slots - 1), entry >> self.slots.trailing_zeros());
        let is_valid = offset % STEP == 0 && generation < self.generations;
        (is_valid && self.chunks[number / CHUNK].get().is_some()).then_some((number, generation))
    }

    /// The object of a slot, if it is of this type and generation.
    fn check<T: HandleObject>(
        &self,
        slot: &Slot,
        generation: usize,
        handle: usize,
    ) -> Result<Arc<T>> {
        match &slot.live {
            Some((kind, object)) if slot.generation == generation => {
                object.clone().downcast::<T>().map_err(|_| {
                    invalid(format!(
                        "{handle:#x} is not {}: it is {}",
                        with_article(T::KIND),
                        with_article(kind)
                    ))
                })
            }
            _ if slot.last_kind.is_empty() => Err(never_given_out::<T>(handle)),
            _ => Err(invalid(format!(
                "{handle:#x} is {} that has been destroyed",
                with_article(slot.last_kind)
            ))),
        }
    }
}

/// The kind with its article.
fn with_article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

fn invalid(text: String) -> Error {
    Error::new(Code::InvalidHandle, text)
}

fn never_given_out<T: HandleObject>(handle: usize) -> Error {
    invalid(format!(
        "{handle:#x} is not {}: no such handle was ever given out",
        with_article(T::KIND)
    ))
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    struct Apple(u32);
    struct Pear;
    impl HandleObject for Apple {
        const KIND: &'static str = "apple";
    }
    impl HandleObject for Pear {
        const KIND: &'static str = "pear";
    }

    #[test]
    fn wrong_handles_are_errors_that_name_them() {
        let table = Table::reserve(Arc::default()).unwrap();
        let apple = table.insert(Arc::new(Apple(7))).unwrap();
        let pear = table.insert(Arc::new(Pear)).unwrap();
        assert_eq!(table.get::<Apple>(apple).unwrap().0, 7);
        let text = |e: Result<Arc<Apple>>| e.err().unwrap().text;
        assert!(text(table.get(pear)).contains("is not an apple: it is a pear"));
        for wrong in [0x10, apple + 1, apple + STEP * 5000, usize::MAX, table.base - 16] {
            assert!(text(table.get(wrong)).contains("was ever given out"), "{wrong:#x}");
        }
        table.remove::<Apple>(apple).unwrap();
        assert!(text(table.get(apple)).contains("an apple that has been destroyed"));
        assert!(text(table.remove(apple)).contains("destroyed"));
    }

    #[test]
    fn a_stale_handle_stays_stale_when_its_slot_is_reused() {
        let table = Table::reserve(Arc::default()).unwrap();
        let first = table.insert(Arc::new(Apple(0))).unwrap();
        table.remove::<Apple>(first).unwrap();
        for n in 1..3000 {
            let handle = table.insert(Arc::new(Apple(n))).unwrap();
            assert_ne!(handle, first);
            assert!(table.get::<Apple>(first).is_err());
            table.remove::<Apple>(handle).unwrap();
        }
    }
}
