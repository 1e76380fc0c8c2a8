//! What this process exports: slots in a memory file, which other processes read.

use super::area::{Area, Place};
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::memory::process_file::{self, ProcessFile, explain_file_error};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::{pread, pwrite};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::ErrorKind;

/// The name of the file; how other processes find it.
pub const NAME: &str = "cairn-exports";
/// Bytes of the random part of a key, where its slot begins.
const NONCE_BYTES: u64 = 4;
/// Bytes of a slot.
const SLOT: u64 = 128;
/// The most ranges of a file that one key stands for: as many mappings an importer makes.
pub const MAX_EXTENTS: usize = 4096;
/// Ranges that lie in the slot itself; more of them lie in the area.
const IN_SLOT: usize = 4;
/// Slots there may be.
const SLOTS: u32 = 1 << 20;
/// Where the area of lists begins.
const AREA: u64 = 1 << 30;
/// Where a slot has whether any process may import it.
const OPEN_AT: u64 = 8;
/// Where a slot has the place and the length of its list of processes.
const LIST_AT: usize = 24;
/// Where it has the first ranges.
const EXTENTS_AT: usize = 32;
/// Where it has the place and the number of all of them, if they do not lie there.
const MANY_AT: usize = EXTENTS_AT + 16 * IN_SLOT;
/// Where it has the process: `/proc` leads to it by the number of each of its threads, too.
const PID_AT: usize = MANY_AT + 8;
/// Where it has the number of the last key that ended there, and how it ended. New keys leave that as it is.
const ENDED_AT: usize = PID_AT + 4;
/// The most processes of a list: as many as there can be.
const MAX_PIDS: u32 = 1 << 22;
const NONCE_BITS: u32 = 22;
const SLOT_BITS: u32 = 20;

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SharedKind {
    /// Physical memory: `aclrtMemExportToShareableHandle`.
    Physical = 1,
    /// An allocation: `aclrtIpcMemGetExportKey`.
    Memory = 2,
    /// An event.
    Event = 3,
    /// A notify.
    Notify = 4,
}

impl fmt::Display for SharedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SharedKind::Physical => "physical memory",
            SharedKind::Memory => "memory",
            SharedKind::Event => "an event",
            SharedKind::Notify => "a notify",
        })
    }
}

/// How a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum KeyEnd {
    /// It was closed.
    Closed = 1,
    /// What it stands for was freed.
    Freed = 2,
}

/// A key: the process, its slot, and a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u64);

impl Key {
    fn new(slot: u32, nonce: u32) -> Key {
        let pid = u64::from(std::process::id());
        Key(pid << (NONCE_BITS + SLOT_BITS) | u64::from(slot) << NONCE_BITS | u64::from(nonce))
    }

    /// The process that made it.
    pub fn pid(self) -> u32 {
        (self.0 >> (NONCE_BITS + SLOT_BITS)) as u32
    }

    pub(super) fn slot(self) -> u32 {
        (self.0 >> NONCE_BITS) as u32 & (SLOTS - 1)
    }

    pub(super) fn nonce(self) -> u32 {
        self.0 as u32 & ((1 << NONCE_BITS) - 1)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// What it is.
    pub kind: SharedKind,
    /// Any process may import it; otherwise those that are named.
    pub is_open: bool,
    /// The descriptor, in this process, of the file it lies in.
    pub file: i32,
    /// Where it lies in the file: offsets and sizes of its parts, in order.
    pub extents: Vec<(u64, u64)>,
    /// The device it belongs to; `u32::MAX` for the host.
    pub device: u32,
    /// What the importer gets begins so many bytes after the first part does.
    pub shift: u32,
}

impl Export {
    /// All its bytes.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|&(_, bytes)| bytes).sum()
    }
}

/// The slots, written here and read by others.
pub struct Directory {
    file: ProcessFile,
    inner: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    used: u32,
    free: Vec<u32>,
    live: HashMap<u32, Slot>,
    area: Area,
}

/// A slot that is in use.
struct Slot {
    key: Key,
    kind: SharedKind,
    /// Where its ranges lie, if there are too many for the slot.
    many: Option<Place>,
    /// Where its list of processes lies, if it has one.
    list: Option<Place>,
    /// Who is on the list.
    listed: HashSet<i32>,
}

impl Directory {
    /// No slot is used.
    pub fn new() -> Result<Directory> {
        let file = process_file::expect_room(2 * AREA)
            .and_then(|()| Ok(memfd_create(NAME, MemfdFlags::CLOEXEC)?));
        let file = file.map_err(|error| {
            let text = format!("no memory file for what is shared: {}", explain_file_error(&error));
            Error::new(Code::MemoryAllocation, text)
        })?;
        let file = ProcessFile::new(file);
        Ok(Directory { file, inner: Mutex::new(Rank::Store, Slots::default()) })
    }

    /// The error for a key that means nothing here.
    pub fn unknown(reason: &str) -> Error {
        Error::new(Code::Driver, format!("the key names nothing that is shared: {reason}"))
    }

    /// Fills a slot.
    pub fn add(&self, export: &Export) -> Result<Key> {
        let mut slots = self.inner.lock();
        let many = match export.extents.len() {
            0..=IN_SLOT => None,
            _ => Some(slots.area.take(16 * export.extents.len() as u64).ok_or_else(full)?),
        };
        let number = slots.free.last().copied().unwrap_or(slots.used);
        let filled = match number {
            SLOTS => {
                let text = format!("this process has exported {SLOTS} objects: close some");
                Err(Error::new(Code::MemoryAllocation, text))
            }
            _ => self.fill(number, number == slots.used, export, many),
        };
        let key = filled.inspect_err(|_| slots.area.give(many))?;
        if slots.free.pop().is_none() {
            slots.used += 1;
        }
        let (kind, listed) = (export.kind, HashSet::new());
        slots.live.insert(number, Slot { key, kind, many, list: None, listed });
        Ok(key)
    }

    /// Writes a slot, all of it if it is used for the first time.
    fn fill(
        &self,
        number: u32,
        is_first: bool,
        export: &Export,
        many: Option<Place>,
    ) -> Result<Key> {
        let nonce = random()? & ((1 << NONCE_BITS) - 1) | 1;
        let mut bytes = [0u8; SLOT as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(4, &(export.kind as u32).to_le_bytes());
        put(OPEN_AT as usize, &u32::from(export.is_open).to_le_bytes());
        put(12, &export.file.to_le_bytes());
        put(16, &export.device.to_le_bytes());
        put(20, &export.shift.to_le_bytes());
        put(PID_AT, &std::process::id().to_le_bytes());
        let extents: Vec<u8> = (export.extents.iter())
            .flat_map(|(offset, bytes)| [offset.to_le_bytes(), bytes.to_le_bytes()])
            .flatten()
            .collect();
        match many {
            None => put(EXTENTS_AT, &extents),
            Some(place) => {
                self.write(AREA + place.offset(), &extents)?;
                put(MANY_AT, &place.number().to_le_bytes());
                put(MANY_AT + 4, &(export.extents.len() as u32).to_le_bytes());
            }
        }
        let written = if is_first { &bytes[..] } else { &bytes[..ENDED_AT] };
        self.write(u64::from(number) * SLOT, written)?;
        self.write(u64::from(number) * SLOT, &nonce.to_le_bytes())?;
        Ok(Key::new(number, nonce))
    }

    /// Adds processes to the list of a slot: all of them, or on failure none.
    pub fn allow(&self, key: Key, kind: SharedKind, pids: &[i32]) -> Result<()> {
        let mut slots = self.inner.lock();
        check(&slots, key, kind)?;
        let Slots { live, area, .. } = &mut *slots;
        let Some(slot) = live.get_mut(&key.slot()) else { return Ok(()) };
        let mut seen = HashSet::new();
        let fresh = pids.iter().filter(|pid| !slot.listed.contains(pid) && seen.insert(**pid));
        let added: Vec<u8> = fresh.flat_map(|pid| pid.to_le_bytes()).collect();
        if added.is_empty() {
            return Ok(());
        }
        let old_bytes = 4 * slot.listed.len() as u64;
        let bytes = old_bytes + added.len() as u64;
        let kept = slot.list.filter(|place| bytes <= place.bytes());
        let place = match kept {
            Some(place) => place,
            None => area.take(bytes).ok_or_else(full)?,
        };
        let count = slot.listed.len() + seen.len();
        let head = [place.number().to_le_bytes(), (count as u32).to_le_bytes()].concat();
        let written = match kept {
            Some(_) => self.write(AREA + place.offset() + old_bytes, &added),
            None => {
                let mut all = vec![0; old_bytes as usize];
                let read = match slot.list {
                    Some(old) => read_at(self.file.as_fd(), AREA + old.offset(), &mut all),
                    None => Ok(()),
                };
                all.extend_from_slice(&added);
                read.and_then(|()| self.write(AREA + place.offset(), &all))
            }
        };
        let written =
            written.and_then(|()| self.write(u64::from(key.slot()) * SLOT + LIST_AT as u64, &head));
        match kept {
            Some(_) => written?,
            None => {
                written.inspect_err(|_| area.give(Some(place)))?;
                area.give(slot.list.replace(place));
            }
        }
        slot.listed.extend(seen);
        Ok(())
    }

    /// Lets any process import it, or only those that are named.
    pub fn set_open(&self, key: Key, kind: SharedKind, is_open: bool) -> Result<()> {
        let slots = self.inner.lock();
        check(&slots, key, kind)?;
        let at = u64::from(key.slot()) * SLOT + OPEN_AT;
        self.write(at, &u32::from(is_open).to_le_bytes())
    }

    /// Empties a slot. Needs no room: where no more may be written, importers are not told how the key ended.
    pub fn close(&self, key: Key, kind: SharedKind, end: KeyEnd) -> Result<()> {
        let mut slots = self.inner.lock();
        check(&slots, key, kind)?;
        let at = u64::from(key.slot()) * SLOT;
        let ended = [key.nonce().to_le_bytes(), (end as u32).to_le_bytes()].concat();
        if let Err(error) = self.write(at + ENDED_AT as u64, &ended) {
            log::debug!("{}", error.text);
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, at, NONCE_BYTES).map_err(|error| unwritten(&error.into()))?;
        if let Some(slot) = slots.live.remove(&key.slot()) {
            slots.area.give(slot.many);
            slots.area.give(slot.list);
        }
        slots.free.push(key.slot());
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        process_file::expect_room(at + bytes.len() as u64).map_err(|error| unwritten(&error))?;
        match pwrite(&self.file, bytes, at) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => Err(unwritten(&ErrorKind::WriteZero.into())),
            Err(error) => Err(unwritten(&error.into())),
        }
    }
}

fn unwritten(error: &std::io::Error) -> Error {
    Error::new(Code::MemoryAllocation, format!("what is shared cannot be noted: {error}"))
}

/// A number that no other process guesses, nor makes by itself: forked ones share all state.
fn random() -> Result<u32> {
    let mut bytes = [0; 4];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(4) => Ok(u32::from_le_bytes(bytes)),
        outcome => Err(Error::new(
            Code::MemoryAllocation,
            format!("the system gives no random number: {:?}", outcome.err()),
        )),
    }
}

/// A slot as another process sees it.
pub struct SlotView<'a> {
    pub file: BorrowedFd<'a>,
    pub key: Key,
}

impl SlotView<'_> {
    /// How the key ended, if it did and is the last one that ended in its slot.
    pub fn end(&self) -> Option<KeyEnd> {
        let mut ended = [0u8; 8];
        let at = u64::from(self.key.slot()) * SLOT + ENDED_AT as u64;
        read_at(self.file, at, &mut ended).ok()?;
        match (number_at(&ended, 0) == self.key.nonce(), number_at(&ended, 4)) {
            (true, 1) => Some(KeyEnd::Closed),
            (true, 2) => Some(KeyEnd::Freed),
            _ => None,
        }
    }

    /// What is there, with its list of processes; `None` if the key does not hold any more.
    pub fn read(&self) -> Result<Option<(Export, ListPlace)>> {
        let mut bytes = [0u8; SLOT as usize];
        if read_at(self.file, u64::from(self.key.slot()) * SLOT, &mut bytes).is_err() {
            return Ok(None);
        }
        let number = |at: usize| number_at(&bytes, at);
        let is_meant = number(0) == self.key.nonce() && number(PID_AT) == self.key.pid();
        if number(0) == 0 || !is_meant {
            return Ok(None);
        }
        let kind = match number(4) {
            1 => SharedKind::Physical,
            2 => SharedKind::Memory,
            3 => SharedKind::Event,
            4 => SharedKind::Notify,
            other => return Err(Directory::unknown(&format!("kind {other}"))),
        };
        let mut many = Vec::new();
        let extents = match number(MANY_AT + 4) as usize {
            0 => &bytes[EXTENTS_AT..MANY_AT],
            count if count > MAX_EXTENTS => {
                return Err(Directory::unknown(&format!("it has {count} parts")));
            }
            count => {
                many.resize(16 * count, 0);
                read_at(self.file, AREA + Place::offset_of(number(MANY_AT)), &mut many)?;
                &many[..]
            }
        };
        let long =
            |at: usize| u64::from_le_bytes(extents[at..at + 8].try_into().unwrap_or_default());
        let export = Export {
            kind,
            is_open: number(OPEN_AT as usize) == 1,
            file: number(12) as i32,
            device: number(16),
            shift: number(20),
            extents: (0..extents.len() / 16)
                .map(|at| (long(16 * at), long(16 * at + 8)))
                .filter(|(_, bytes)| *bytes > 0)
                .collect(),
        };
        Ok(Some((export, ListPlace { place: number(LIST_AT), count: number(LIST_AT + 4) })))
    }

    /// Whether a list of processes has this one. What it says holds if the slot has that list afterwards, too.
    pub fn lists(&self, list: ListPlace, pid: u32) -> Result<bool> {
        if list.count > MAX_PIDS {
            return Err(Directory::unknown(&format!("it names {} processes", list.count)));
        }
        let mut listed = vec![0; 4 * list.count as usize];
        read_at(self.file, AREA + Place::offset_of(list.place), &mut listed)?;
        Ok(listed.chunks_exact(4).any(|entry| entry == pid.to_le_bytes()))
    }
}

/// Where a list of processes lies, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPlace {
    place: u32,
    count: u32,
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

fn full() -> Error {
    let text = "the room for lists of what this process exports is full: close keys that nobody needs, or name fewer processes";
    Error::new(Code::MemoryAllocation, text)
}

fn check(slots: &Slots, key: Key, kind: SharedKind) -> Result<()> {
    if key.pid() != std::process::id() {
        return Err(Directory::unknown(&format!("it is of process {}", key.pid())));
    }
    match slots.live.get(&key.slot()) {
        Some(slot) if slot.key == key && slot.kind == kind => Ok(()),
        Some(slot) if slot.key == key => {
            Err(Directory::unknown(&format!("it is of {}, not of {kind}", slot.kind)))
        }
        _ => Err(Directory::unknown("it was closed, or never made")),
    }
}

fn read_at(file: BorrowedFd<'_>, at: u64, bytes: &mut [u8]) -> Result<()> {
    match pread(file, &mut *bytes, at) {
        Ok(read) if read == bytes.len() => Ok(()),
        _ => Err(Directory::unknown("there is no such slot")),
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn export(parts: u64) -> Export {
        let extents = (0..parts).map(|at| (at * 8192, 4096)).collect();
        let (kind, is_open) = (SharedKind::Memory, false);
        Export { kind, is_open, file: 7, extents, device: 3, shift: 12 }
    }

    fn listed(directory: &Directory, key: Key, pid: u32) -> bool {
        let view = SlotView { file: directory.file.as_fd(), key };
        let (_, list) = view.read().unwrap().unwrap();
        view.lists(list, pid).unwrap()
    }

    #[test]
    fn what_is_exported_is_read_back_however_many_parts_it_has() {
        let directory = Directory::new().unwrap();
        for parts in [1, 4, 5, 4096] {
            let key = directory.add(&export(parts)).unwrap();
            let view = SlotView { file: directory.file.as_fd(), key };
            assert_eq!(view.read().unwrap().unwrap().0, export(parts));
            directory.close(key, SharedKind::Memory, KeyEnd::Closed).unwrap();
            assert!(view.read().unwrap().is_none());
        }
    }

    #[test]
    fn a_slot_says_how_its_last_key_ended_also_when_it_is_used_again() {
        let directory = Directory::new().unwrap();
        let end = |key| SlotView { file: directory.file.as_fd(), key }.end();
        let first = directory.add(&export(1)).unwrap();
        assert_eq!(end(first), None);
        directory.close(first, SharedKind::Memory, KeyEnd::Freed).unwrap();
        let second = directory.add(&export(5)).unwrap();
        assert_eq!(
            (second.slot(), end(first), end(second)),
            (first.slot(), Some(KeyEnd::Freed), None)
        );
        directory.close(second, SharedKind::Memory, KeyEnd::Closed).unwrap();
        assert_eq!((end(first), end(second)), (None, Some(KeyEnd::Closed)));
    }

    #[test]
    fn a_key_with_the_number_of_another_process_or_of_a_thread_is_none() {
        let directory = Directory::new().unwrap();
        let key = directory.add(&export(1)).unwrap();
        let other = Key(key.0 + (1 << (NONCE_BITS + SLOT_BITS)));
        assert_eq!((other.slot(), other.nonce()), (key.slot(), key.nonce()));
        let read = |key| SlotView { file: directory.file.as_fd(), key }.read().unwrap();
        assert!(read(key).is_some() && read(other).is_none());
    }

    #[test]
    fn lists_of_closed_keys_make_room_for_others() {
        let directory = Directory::new().unwrap();
        let pids: Vec<i32> = (1..=65_535).collect();
        let mut ends = Vec::new();
        for _ in 0..4 {
            let keys = [(); 2].map(|()| directory.add(&export(9)).unwrap());
            for key in keys {
                directory.allow(key, SharedKind::Memory, &pids).unwrap();
                assert!(listed(&directory, key, 65_535) && !listed(&directory, key, 65_536));
            }
            for key in keys {
                directory.close(key, SharedKind::Memory, KeyEnd::Closed).unwrap();
            }
            ends.push(rustix::fs::fstat(&directory.file).unwrap().st_size);
        }
        assert!(ends.iter().all(|&end| end == ends[0]), "{ends:?}");
    }

    #[test]
    fn a_list_grows_and_a_process_that_is_named_again_takes_no_room() {
        let directory = Directory::new().unwrap();
        let (key, other) = (directory.add(&export(1)).unwrap(), directory.add(&export(1)).unwrap());
        for pid in 1..=1000 {
            for named in [pid, 1, pid] {
                directory.allow(key, SharedKind::Memory, &[named, named]).unwrap();
            }
            directory.allow(other, SharedKind::Memory, &[-pid]).unwrap();
        }
        assert!((1..=1000).all(|pid| listed(&directory, key, pid)));
        assert!(!listed(&directory, key, 1001) && !listed(&directory, other, 1));
        assert_eq!(directory.inner.lock().live[&key.slot()].listed.len(), 1000);
        let size = rustix::fs::fstat(&directory.file).unwrap().st_size;
        directory.allow(key, SharedKind::Memory, &[1, 2, 3]).unwrap();
        assert_eq!(rustix::fs::fstat(&directory.file).unwrap().st_size, size);
    }

    #[test]
    fn lists_that_are_full_say_so_and_closing_a_key_helps() {
        let directory = Directory::new().unwrap();
        let (key, other) = (directory.add(&export(1)).unwrap(), directory.add(&export(1)).unwrap());
        directory.allow(other, SharedKind::Memory, &[5]).unwrap();
        let mut taken = Vec::new();
        while let Some(place) = directory.inner.lock().area.take(64 << 20) {
            taken.push(place);
        }
        while directory.inner.lock().area.take(4).is_some() {}
        let error = directory.allow(key, SharedKind::Memory, &[6]).unwrap_err();
        assert!(error.text.contains("close keys"), "{}", error.text);
        assert!(!listed(&directory, key, 6) && listed(&directory, other, 5));
        assert!(directory.add(&export(5)).is_err());
        directory.close(other, SharedKind::Memory, KeyEnd::Closed).unwrap();
        directory.allow(key, SharedKind::Memory, &[6]).unwrap();
        assert!(listed(&directory, key, 6));
        let slots = directory.inner.lock();
        assert_eq!((slots.used, slots.live.len(), slots.free.len()), (2, 1, 1));
    }
}
