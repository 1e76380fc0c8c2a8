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
use crate::sync::Arc;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::OnceLock;

const STEP: usize = 16;
const CHUNK: usize = 1024;
/// Released slots rest behind this many others, so that a stale handle is recognised for longer.
const RESTING: usize = 256;

/// Something a handle can name. The kind is the user's word for it.
pub trait HandleObject: Any + Send + Sync {
    /// "stream", "event", ...
    const KIND: &'static str;
}

/// The table of all live handles. Lookups take the lock of one slot for a few nanoseconds.
pub struct Table {
    base: usize,
    /// A power of two: every call of the program decodes a handle, and a division would be felt.
    slots: usize,
    generations: usize,
    chunks: Box<[OnceLock<Chunk>]>,
    free: Mutex<Free>,
}

type Chunk = Box<[Mutex<Slot>]>;

#[derive(Default)]
struct Slot {
    generation: usize,
    live: Option<(&'static str, Arc<dyn Any + Send + Sync>)>,
    was: &'static str,
}

struct Free {
    used: usize,
    released: VecDeque<usize>,
}

impl Table {
    /// Reserves the address range; a smaller one where the process is short of addresses.
    pub fn reserve() -> Result<Table> {
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
                    free: Mutex::new(Rank::Handles, Free { used: 0, released: VecDeque::new() }),
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

    /// A new handle for an object that wants to know it.
    pub fn insert_with<T: HandleObject>(
        &self,
        make: impl FnOnce(usize) -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        let number = self.free_slot()?;
        let generation = self.slot(number).lock().generation;
        match make(self.base + (generation * self.slots + number) * STEP) {
            Ok(object) => {
                self.slot(number).lock().live = Some((T::KIND, object.clone()));
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
        if free.released.len() <= RESTING && free.used < self.slots {
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
        let (number, generation) = self.decode(handle).ok_or_else(|| foreign::<T>(handle))?;
        let slot = self.slot(number).lock();
        self.check::<T>(&slot, generation, handle)
    }

    /// Ends a handle and gives the object back; the object lives on while others hold it.
    pub fn remove<T: HandleObject>(&self, handle: usize) -> Result<Arc<T>> {
        let (number, generation) = self.decode(handle).ok_or_else(|| foreign::<T>(handle))?;
        let object = {
            let mut slot = self.slot(number).lock();
            let object = self.check::<T>(&slot, generation, handle)?;
            slot.live = None;
            slot.was = T::KIND;
            slot.generation = (generation + 1) % self.generations;
            object
        };
        self.free.lock().released.push_back(number);
        Ok(object)
    }

    fn decode(&self, handle: usize) -> Option<(usize, usize)> {
        let offset = handle.checked_sub(self.base)?;
        let at = offset / STEP;
        let (number, generation) = (at & (self.slots - 1), at >> self.slots.trailing_zeros());
        let known = offset % STEP == 0 && generation < self.generations;
        (known && self.chunks[number / CHUNK].get().is_some()).then_some((number, generation))
    }

    fn check<T: HandleObject>(
        &self,
        slot: &Slot,
        generation: usize,
        handle: usize,
    ) -> Result<Arc<T>> {
        match &slot.live {
            Some((kind, object)) if slot.generation == generation => {
                object.clone().downcast::<T>().map_err(|_| {
                    invalid(format!("{handle:#x} is not {}: it is {}", one(T::KIND), one(kind)))
                })
            }
            _ if slot.was.is_empty() => Err(foreign::<T>(handle)),
            _ => Err(invalid(format!("{handle:#x} is {} that has been destroyed", one(slot.was)))),
        }
    }
}

fn one(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

fn invalid(text: String) -> Error {
    Error::new(Code::InvalidHandle, text)
}

fn foreign<T: HandleObject>(handle: usize) -> Error {
    invalid(format!("{handle:#x} is not {}: no such handle was ever given out", one(T::KIND)))
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
        let table = Table::reserve().unwrap();
        let apple = table.insert(Arc::new(Apple(7))).unwrap();
        let pear = table.insert(Arc::new(Pear)).unwrap();
        assert_eq!(table.get::<Apple>(apple).unwrap().0, 7);
        let text = |e: Result<Arc<Apple>>| e.err().unwrap().text;
        assert!(text(table.get(pear)).contains("is not an apple: it is a pear"));
        for foreign in [0x10, apple + 1, apple + STEP * 5000, usize::MAX, table.base - 16] {
            assert!(text(table.get(foreign)).contains("was ever given out"), "{foreign:#x}");
        }
        table.remove::<Apple>(apple).unwrap();
        assert!(text(table.get(apple)).contains("an apple that has been destroyed"));
        assert!(text(table.remove(apple)).contains("destroyed"));
    }

    #[test]
    fn a_stale_handle_stays_stale_when_its_slot_lives_again() {
        let table = Table::reserve().unwrap();
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
