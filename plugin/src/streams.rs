//! The streams that the pools know: from ACL's handle to the index that a pool has for a stream.
//!
//! A runtime may reuse the handle of a destroyed stream for another one. So the pool registers a
//! callback that ACL calls before a stream is destroyed ([`StreamSlot::begin_destroy`]); the new stream
//! then gets a slot of its own, and the old one keeps its slot until nothing waits for it. With an ACL
//! that has no such callback (no `aclrtRegStreamStateCallback`), two streams with one handle are one
//! stream here. That is sound, because `aclrtDestroyStream` waits for the first; but a stream that may
//! be destroyed must not be queried, so only `cairn_pool_synchronized` tells its
//! progress.

use crate::acl::{Acl, Handle};
use crate::events::{CompletionTracker, Ticks};
use cairn_pool::clock::StreamIndex;
use cairn_sync::lock::{Mutex, Rank};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

const SLOTS_PER_CHUNK: usize = 64;
const CHUNKS: usize = 64;
/// Entries of the cache of recently used streams.
const CACHE: usize = 1024;

/// How blocks are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreePath {
    /// A block is freed after its last task was submitted to the stream.
    Direct = 0,
    /// A block may be freed before that, because tasks go through a queue of the caller's.
    Queued = 1,
}

/// A slot for a stream. Slots live as long as the process; a stream has one from its first use until
/// it is destroyed and nothing waits for it any more. A slot stays with its device: what was freed in
/// it long ago may still wait for that device to be synchronized.
pub struct StreamSlot {
    /// The handle it is found by; 0 when it cannot be found.
    key: AtomicUsize,
    handle: AtomicUsize,
    device: AtomicI32,
    generation: AtomicU32,
    /// Which slot this is.
    number: u32,
    /// Which frees are finished, by [`FreePath`]; ticks are explained in `events.rs`.
    pub(crate) ticks: [Ticks; 2],
    /// True while an event is pending.
    pub(crate) has_event: AtomicBool,
    pub(crate) tracker: Mutex<CompletionTracker>,
}

/// How many slots were ever taken, and which of them are vacant, by device.
struct SlotTable {
    used: u32,
    vacant: Vec<(i32, u32)>,
}

static SLOTS: Mutex<SlotTable> =
    Mutex::new(Rank::Handles, SlotTable { used: 0, vacant: Vec::new() });
static SLOT_CHUNKS: [OnceLock<Box<[StreamSlot]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
static RECENT: [AtomicPtr<StreamSlot>; CACHE] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CACHE];

impl StreamSlot {
    fn vacant(number: u32) -> StreamSlot {
        StreamSlot {
            key: AtomicUsize::new(0),
            handle: AtomicUsize::new(0),
            device: AtomicI32::new(-1),
            generation: AtomicU32::new(1),
            number,
            ticks: [Ticks::default(), Ticks::default()],
            has_event: AtomicBool::new(false),
            tracker: Mutex::new(Rank::Tracker, CompletionTracker::default()),
        }
    }

    /// The stream's index in the pools. Each free path has its own, because completion events do not cover blocks
    /// freed through the caller's queue.
    #[inline]
    pub fn index(&self, free_path: FreePath) -> StreamIndex {
        self.number * 2 + free_path as u32
    }

    /// ACL's handle.
    pub fn handle(&self) -> Handle {
        self.handle.load(Ordering::Acquire) as Handle
    }

    /// The device it is used for.
    #[inline]
    pub fn device(&self) -> i32 {
        self.device.load(Ordering::Relaxed)
    }

    /// True until the stream is destroyed.
    pub fn is_known(&self) -> bool {
        self.key.load(Ordering::Acquire) != 0
    }

    /// A generational id that outlives the stream, never 0, for [`find_by_id`].
    pub fn id(&self) -> usize {
        (self.generation.load(Ordering::Acquire) as usize) << 32 | (self.number as usize + 1)
    }

    /// From now on [`find`] does not find it.
    pub(crate) fn unregister(&self) {
        self.key.store(0, Ordering::Release);
    }

    /// The stream is about to be destroyed: it cannot be found from now on.
    pub fn begin_destroy(&self, acl: &Acl) {
        self.unregister();
        self.start_last_query(acl);
    }

    /// Nothing of the stream with this id is left in a pool, so another may have its slot.
    pub fn vacate(&self, id: usize) {
        let mut slots = SLOTS.lock();
        let slot = (self.device(), self.number);
        if self.id() == id && !slots.vacant.contains(&slot) {
            self.key.store(0, Ordering::Release);
            self.generation.fetch_add(1, Ordering::AcqRel);
            self.reuse_ticks();
            slots.vacant.push(slot);
        }
    }
}

/// The stream and the free path of a [`StreamSlot::index`].
#[inline]
pub fn by_index(index: StreamIndex) -> (&'static StreamSlot, FreePath) {
    let free_path = if index.is_multiple_of(2) { FreePath::Direct } else { FreePath::Queued };
    (slot(index / 2).expect("a number that was given out"), free_path)
}

/// The stream with a [`StreamSlot::id`]; `None` once it is gone.
pub fn find_by_id(id: usize) -> Option<&'static StreamSlot> {
    let stream = slot((id as u32).checked_sub(1)?)?;
    (stream.id() == id && stream.is_known()).then_some(stream)
}

/// Every slot of a device, also of streams that are gone.
pub fn of_device(device: i32) -> impl Iterator<Item = &'static StreamSlot> {
    let used = SLOTS.lock().used;
    (0..used).filter_map(slot).filter(move |stream| stream.device() == device)
}

/// The slot of a live stream that has one. A few loads.
#[inline]
pub fn find(handle: Handle) -> Option<&'static StreamSlot> {
    let key = handle as usize;
    if key == 0 {
        return None;
    }
    let recent = &RECENT[hash(key)];
    // SAFETY: null, or a slot, and slots live as long as the process.
    if let Some(stream) = unsafe { recent.load(Ordering::Acquire).as_ref() }
        && stream.key.load(Ordering::Acquire) == key
    {
        return Some(stream);
    }
    let used = SLOTS.lock().used;
    let stream = (0..used).filter_map(slot).find(|s| s.key.load(Ordering::Acquire) == key)?;
    recent.store(std::ptr::from_ref(stream).cast_mut(), Ordering::Release);
    Some(stream)
}

/// Takes a slot for a stream, or finds the one it has. `tracker` says how its progress can be queried.
pub fn add(
    handle: Handle,
    device: i32,
    tracker: CompletionTracker,
) -> Result<&'static StreamSlot, String> {
    let key = handle as usize;
    let mut slots = SLOTS.lock();
    let mut used = (0..slots.used).filter_map(slot);
    if let Some(stream) = used.find(|s| s.key.load(Ordering::Acquire) == key) {
        return Ok(stream);
    }
    let vacant = slots.vacant.iter().position(|&(other, _)| other == device);
    let number = match vacant.map(|at| slots.vacant.swap_remove(at).1) {
        Some(number) => number,
        None if slots.used as usize == SLOTS_PER_CHUNK * CHUNKS => {
            return Err(format!("more than {} streams are in use", SLOTS_PER_CHUNK * CHUNKS));
        }
        None => {
            slots.used += 1;
            slots.used - 1
        }
    };
    let chunk = SLOT_CHUNKS[number as usize / SLOTS_PER_CHUNK].get_or_init(|| {
        let first = number / SLOTS_PER_CHUNK as u32 * SLOTS_PER_CHUNK as u32;
        (first..first + SLOTS_PER_CHUNK as u32).map(StreamSlot::vacant).collect()
    });
    let stream = &chunk[number as usize % SLOTS_PER_CHUNK];
    stream.tracker.lock().restart(tracker);
    stream.handle.store(key, Ordering::Release);
    stream.device.store(device, Ordering::Relaxed);
    stream.key.store(key, Ordering::Release);
    Ok(stream)
}

/// The slot that stands for streams of a device that are destroyed or unknown, when a block is freed on them.
pub fn placeholder(device: i32) -> Result<&'static StreamSlot, String> {
    // Odd, so that it is the handle of no real stream: those are aligned addresses.
    let handle = (2 * device + 1) as usize as Handle;
    match find(handle) {
        Some(stream) => Ok(stream),
        None => add(handle, device, CompletionTracker::default()),
    }
}

fn slot(number: u32) -> Option<&'static StreamSlot> {
    SLOT_CHUNKS
        .get(number as usize / SLOTS_PER_CHUNK)?
        .get()?
        .get(number as usize % SLOTS_PER_CHUNK)
}

#[inline]
fn hash(key: usize) -> usize {
    ((key >> 4) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (usize::BITS - 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_its_index_until_its_slot_is_vacated() {
        let handle = |n: usize| (0x7000_0000 + n * 64) as Handle;
        let first = add(handle(1), 7, CompletionTracker::default()).unwrap();
        assert!(std::ptr::eq(add(handle(1), 7, CompletionTracker::default()).unwrap(), first));
        assert!(std::ptr::eq(find(handle(1)).unwrap(), first));
        assert_ne!(first.index(FreePath::Direct), first.index(FreePath::Queued));
        let (same, free_path) = by_index(first.index(FreePath::Queued));
        assert!(std::ptr::eq(same, first) && free_path == FreePath::Queued);

        let id = first.id();
        assert!(std::ptr::eq(find_by_id(id).unwrap(), first));
        first.vacate(id + (1 << 32));
        assert!(find(handle(1)).is_some(), "another stream's id");
        first.vacate(id);
        first.vacate(first.id());
        assert!(find(handle(1)).is_none() && find_by_id(id).is_none());
        let elsewhere = add(handle(2), 6, CompletionTracker::default()).unwrap();
        assert!(!std::ptr::eq(elsewhere, first));
        let again = add(handle(1), 7, CompletionTracker::default()).unwrap();
        assert!(std::ptr::eq(again, first) && again.id() != id);
        assert_eq!(of_device(7).count(), 1);
        let third = add(handle(3), 7, CompletionTracker::default()).unwrap();
        assert!(!std::ptr::eq(third, first), "vacated twice, taken once");
        first.vacate(id);
        assert!(find(handle(1)).is_some(), "the id of the stream before");
    }

    #[test]
    fn many_streams_have_different_indexes() {
        let handles: Vec<Handle> = (1..500).map(|n| (0x5000_0000 + n * 16) as Handle).collect();
        let indexes: std::collections::BTreeSet<_> = handles
            .iter()
            .map(|&h| add(h, 8, CompletionTracker::default()).unwrap().index(FreePath::Direct))
            .collect();
        assert_eq!(indexes.len(), handles.len());
        assert!(handles.iter().all(|&h| find(h).is_some_and(|s| s.handle() == h)));
        assert_eq!(of_device(8).count(), handles.len());
    }

    #[test]
    fn null_and_invalid_ids_are_not_found() {
        assert!(find(std::ptr::null_mut()).is_none());
        assert!(find_by_id(0).is_none() && find_by_id(usize::MAX).is_none());
    }
}
