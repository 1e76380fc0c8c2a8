//! What this process exports: slots in a memory file, which other processes read.

use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{pread, pwrite};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};

/// The name of the file; how other processes find it.
pub const NAME: &str = "cairn-exports";
/// Bytes of a slot.
const SLOT: u64 = 128;
/// The most ranges of a file that one key stands for.
pub const MAX_EXTENTS: usize = 4;
/// Slots there may be.
const SLOTS: u32 = 1 << 20;
/// Where the lists of processes begin.
const LISTS: u64 = 1 << 30;
/// The most entries in all lists.
const MAX_LISTED: u32 = 1 << 24;
/// Where a slot has the start of its list.
const LIST_AT: u64 = 24;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// What it is.
    pub kind: SharedKind,
    /// Any process may import it; otherwise those that are named.
    pub is_open: bool,
    /// The descriptor, in this process, of the file it lies in.
    pub file: i32,
    /// Where it lies in the file: offsets and sizes of its parts, in order; unused ones have no bytes.
    pub extents: [(u64, u64); MAX_EXTENTS],
    /// The device it belongs to; `u32::MAX` for the host.
    pub device: u32,
    /// What the importer gets begins so many bytes after the first part does.
    pub shift: u32,
}

impl Export {
    /// One range of a file.
    pub fn one(offset: u64, bytes: u64) -> [(u64, u64); MAX_EXTENTS] {
        let mut extents = [(0, 0); MAX_EXTENTS];
        extents[0] = (offset, bytes);
        extents
    }

    /// All its bytes.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|&(_, bytes)| bytes).sum()
    }
}

/// The slots, written here and read by others.
pub struct Directory {
    file: OwnedFd,
    inner: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    used: u32,
    free: Vec<u32>,
    live: HashMap<u32, (Key, SharedKind)>,
    listed: u32,
}

impl Directory {
    /// No slot is used.
    pub fn new() -> Result<Directory> {
        let file = memfd_create(NAME, MemfdFlags::CLOEXEC).map_err(|error| {
            let text = format!("no memory file for what is shared: {error} (ulimit -n?)");
            Error::new(Code::MemoryAllocation, text)
        })?;
        Ok(Directory { file, inner: Mutex::new(Rank::Store, Slots::default()) })
    }

    /// The error for a key that means nothing here.
    pub fn unknown(reason: &str) -> Error {
        Error::new(Code::Driver, format!("the key names nothing that is shared: {reason}"))
    }

    /// Fills a slot.
    pub fn add(&self, export: &Export) -> Result<Key> {
        let mut slots = self.inner.lock();
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None if slots.used == SLOTS => {
                let text = format!("this process has exported {SLOTS} objects: close some");
                return Err(Error::new(Code::MemoryAllocation, text));
            }
            None => {
                slots.used += 1;
                slots.used - 1
            }
        };
        let nonce = random()? & ((1 << NONCE_BITS) - 1) | 1;
        let mut bytes = [0u8; SLOT as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(4, &(export.kind as u32).to_le_bytes());
        put(8, &u32::from(export.is_open).to_le_bytes());
        put(12, &export.file.to_le_bytes());
        put(16, &export.device.to_le_bytes());
        put(20, &export.shift.to_le_bytes());
        for (number, (offset, bytes)) in export.extents.iter().enumerate() {
            put(32 + 16 * number, &offset.to_le_bytes());
            put(40 + 16 * number, &bytes.to_le_bytes());
        }
        self.write(u64::from(slot) * SLOT, &bytes)?;
        self.write(u64::from(slot) * SLOT, &nonce.to_le_bytes())?;
        let key = Key::new(slot, nonce);
        slots.live.insert(slot, (key, export.kind));
        Ok(key)
    }

    /// Adds processes to the list of a slot.
    pub fn allow(&self, key: Key, kind: SharedKind, pids: &[i32]) -> Result<()> {
        let mut slots = self.inner.lock();
        check(&slots, key, kind)?;
        let head_at = u64::from(key.slot()) * SLOT + LIST_AT;
        let mut head = [0; 4];
        read_at(self.file.as_fd(), head_at, &mut head)?;
        let mut head = u32::from_le_bytes(head);
        for &pid in pids {
            if slots.listed == MAX_LISTED {
                let text = format!("{MAX_LISTED} processes are named already");
                return Err(Error::new(Code::MemoryAllocation, text));
            }
            slots.listed += 1;
            let entry = [pid.to_le_bytes(), head.to_le_bytes()].concat();
            self.write(LISTS + u64::from(slots.listed) * 8, &entry)?;
            head = slots.listed;
        }
        self.write(head_at, &head.to_le_bytes())
    }

    /// Empties a slot.
    pub fn close(&self, key: Key, kind: SharedKind) -> Result<()> {
        let mut slots = self.inner.lock();
        check(&slots, key, kind)?;
        self.write(u64::from(key.slot()) * SLOT, &0u32.to_le_bytes())?;
        slots.live.remove(&key.slot());
        slots.free.push(key.slot());
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        match pwrite(&self.file, bytes, at) {
            Ok(written) if written == bytes.len() => Ok(()),
            outcome => Err(Error::new(
                Code::MemoryAllocation,
                format!("what is shared cannot be noted: {:?}", outcome.err()),
            )),
        }
    }
}

/// A slot as another process sees it.
pub struct SlotView<'a> {
    pub file: BorrowedFd<'a>,
    pub key: Key,
}

impl SlotView<'_> {
    /// What is there, with the start of its list of processes; `None` if the key does not hold any more.
    pub fn read(&self) -> Result<Option<(Export, u32)>> {
        let mut bytes = [0u8; SLOT as usize];
        if read_at(self.file, u64::from(self.key.slot()) * SLOT, &mut bytes).is_err() {
            return Ok(None);
        }
        let number =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if number(0) == 0 || number(0) != self.key.nonce() {
            return Ok(None);
        }
        let kind = match number(4) {
            1 => SharedKind::Physical,
            2 => SharedKind::Memory,
            3 => SharedKind::Event,
            4 => SharedKind::Notify,
            other => return Err(Directory::unknown(&format!("kind {other}"))),
        };
        let export = Export {
            kind,
            is_open: number(8) == 1,
            file: number(12) as i32,
            device: number(16),
            shift: number(20),
            extents: std::array::from_fn(|at| (long(32 + 16 * at), long(40 + 16 * at))),
        };
        Ok(Some((export, number(LIST_AT as usize))))
    }

    /// Whether a list of processes has this one.
    pub fn lists(&self, mut head: u32, pid: u32) -> bool {
        let mut left = MAX_LISTED;
        while head != 0 && left > 0 {
            let mut entry = [0u8; 8];
            if read_at(self.file, LISTS + u64::from(head) * 8, &mut entry).is_err() {
                return false;
            }
            let [listed, next] = [&entry[..4], &entry[4..]]
                .map(|b| u32::from_le_bytes(b.try_into().unwrap_or_default()));
            if listed == pid {
                return true;
            }
            (head, left) = (next, left - 1);
        }
        false
    }
}

fn check(slots: &Slots, key: Key, kind: SharedKind) -> Result<()> {
    if key.pid() != std::process::id() {
        return Err(Directory::unknown(&format!("it is of process {}", key.pid())));
    }
    match slots.live.get(&key.slot()) {
        Some((live, found)) if *live == key && *found == kind => Ok(()),
        Some((live, found)) if *live == key => {
            Err(Directory::unknown(&format!("it is of {found}, not of {kind}")))
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

fn random() -> Result<u32> {
    let mut bytes = [0u8; 4];
    let mut read =
        || -> io::Result<()> { std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes) };
    read().map_err(|error| Error::new(Code::MemoryAllocation, format!("/dev/urandom: {error}")))?;
    Ok(u32::from_le_bytes(bytes))
}
