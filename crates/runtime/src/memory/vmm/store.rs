//! A memory file, handed out in ranges.

use crate::lock::{Mutex, Rank};
use crate::memory::budget::Budget;
use crate::memory::process_file::{self, ProcessFile};
use crate::memory::sharing::HeldParts;
use crate::memory::tlsf::{BlockId, Tlsf};
use crate::sync::{self, Arc};
use crate::worker::spawn_helper;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstat, ftruncate, memfd_create};
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::time::Duration;

/// Offsets of a file end here: address space of a file costs nothing, so ranges need not be reused soon.
const FILE_BYTES: u64 = 1 << 44;
/// Whoever has this byte locked accounts for what the file has: the process that made it, and when that has ended one of those
/// that hold something of it.
const ACCOUNT: Range<u64> = FILE_BYTES..FILE_BYTES + 1;
/// How often it is asked whether other processes still hold what was given back.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// One memory file per device, and one for the host: all physical memory lies there, and whatever is shared with other
/// processes. One file, so that a process with ten thousand pieces has one descriptor; neighbours in it are neighbours
/// in memory, so the kernel joins their mappings.
///
/// **Lifetime.** A range that another process imported is locked by it (a lock of the kernel on the bytes of the file,
/// which ends with the importer, however that ends): it is reused only when the lock is gone. Until then this process
/// accounts for it ([`Store::charging`]), and a thread looks whether it still is.
///
/// **Threads.** Any. **Cost.** A system call to give a range back, to take one none.
pub struct Store {
    file: ProcessFile,
    budget: Option<Arc<Budget>>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    tlsf: Tlsf,
    /// What was given back while another process holds it.
    lent: Vec<Lent>,
    /// A thread looks after `lent`.
    is_watched: bool,
}

/// What another process holds of a range that was given back, or of a part of one that is in use.
struct Lent {
    /// The block of a whole range.
    id: Option<BlockId>,
    offset: u64,
    bytes: u64,
}

impl Store {
    /// An empty file of this name, which shows in `/proc/<pid>/maps`.
    pub fn new(name: &str) -> io::Result<Store> {
        process_file::expect_room(FILE_BYTES)?;
        let file = memfd_create(name, MemfdFlags::CLOEXEC)?;
        ftruncate(&file, FILE_BYTES)?;
        set_lock(file.as_raw_fd(), libc::F_WRLCK, &ACCOUNT)?;
        let file = ProcessFile::new(file);
        Ok(Store { file, budget: None, inner: Mutex::new(Rank::Store, Inner::default()) })
    }

    /// The same, and what other processes hold after it was given back counts here.
    pub fn charging(self, budget: Arc<Budget>) -> Store {
        Store { budget: Some(budget), ..self }
    }

    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Bytes that were given back here and that other processes still hold.
    pub fn lent(&self) -> u64 {
        let mut inner = self.inner.lock();
        self.collect_lent(&mut inner);
        inner.lent.iter().map(|lent| lent.bytes).sum()
    }

    /// A range of zeroes, at a multiple of `align`.
    pub fn take(self: &Arc<Store>, bytes: u64, align: u64) -> io::Result<FileRange> {
        let mut inner = self.inner.lock();
        self.collect_lent(&mut inner);
        let growth = inner.tlsf.needed_growth(bytes, align);
        if growth > FILE_BYTES - inner.tlsf.end() {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "the memory file is full"));
        }
        if growth > 0 {
            inner.tlsf.grow(growth);
        }
        let grant = inner.tlsf.alloc(bytes, align).ok_or(io::ErrorKind::OutOfMemory)?;
        drop(inner);
        Ok(FileRange { store: self.clone(), id: grant.id, offset: grant.offset, bytes })
    }

    /// Takes a range back, or with no `id` the pages of a part of one that stays in use.
    fn give(self: &Arc<Store>, id: Option<BlockId>, offset: u64, bytes: u64) {
        let mut inner = self.inner.lock();
        let range = offset..offset + bytes;
        let is_inside = |lent: &mut Lent| lent.id.is_none() && range.contains(&lent.offset);
        let counted: u64 = inner.lent.extract_if(.., is_inside).map(|lent| lent.bytes).sum();
        self.uncharge(counted);
        let given = Lent { id, offset, bytes };
        if !is_locked(self.file.as_raw_fd(), offset, bytes) {
            return self.free(&mut inner, &given);
        }
        self.charge(bytes);
        inner.lent.push(given);
        let is_watched = std::mem::replace(&mut inner.is_watched, sync::REAL_TIME);
        drop(inner);
        if sync::REAL_TIME && !is_watched {
            self.watch_lent();
        }
    }

    /// Starts a thread that takes back what other processes let go of, until there is no more.
    fn watch_lent(self: &Arc<Store>) {
        let store = Arc::downgrade(self);
        let watch = move || {
            loop {
                std::thread::sleep(LOOK_AGAIN);
                let Some(store) = store.upgrade() else { return };
                let mut inner = store.inner.lock();
                store.collect_lent(&mut inner);
                if inner.lent.is_empty() {
                    inner.is_watched = false;
                    return;
                }
            }
        };
        if let Err(error) = spawn_helper("cairn-lent", watch) {
            log::debug!(
                "memory that others let go of is taken back when more is asked for: {error}"
            );
            self.inner.lock().is_watched = false;
        }
    }

    fn free(&self, inner: &mut Inner, lent: &Lent) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let bytes = lent.bytes;
        match (fallocate(&self.file, flags, lent.offset, bytes), lent.id) {
            (Ok(()), Some(id)) => _ = inner.tlsf.free(id, 0),
            (Ok(()), None) => {}
            // A whole range is never used again: its old bytes would show.
            (Err(error), _) => {
                log::warn!("{bytes} freed bytes of a memory file stay resident: {error}");
            }
        }
    }

    fn collect_lent(&self, inner: &mut Inner) {
        for lent in std::mem::take(&mut inner.lent) {
            match is_locked(self.file.as_raw_fd(), lent.offset, lent.bytes) {
                true => inner.lent.push(lent),
                false => {
                    self.free(inner, &lent);
                    self.uncharge(lent.bytes);
                }
            }
        }
    }

    fn charge(&self, bytes: u64) {
        if let Some(budget) = &self.budget {
            budget.charge(bytes);
        }
    }

    fn uncharge(&self, bytes: u64) {
        if let Some(budget) = self.budget.as_ref().filter(|_| bytes > 0) {
            budget.give(bytes);
        }
    }
}

/// A range of a [`Store`]; dropping it gives it back.
pub struct FileRange {
    store: Arc<Store>,
    id: BlockId,
    offset: u64,
    bytes: u64,
}

impl FileRange {
    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.store.file()
    }

    /// Where it begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Gives the pages of a part back to the machine, once no other process holds them.
    pub fn forget(&self, start: u64, bytes: u64) {
        self.store.give(None, self.offset + start, bytes);
    }
}

impl Drop for FileRange {
    fn drop(&mut self) {
        self.store.give(Some(self.id), self.offset, self.bytes);
    }
}

/// The [`Store`] of another process.
///
/// **Locks.** One of the kernel for each byte that is held, however often: those of one opening do not count.
pub struct ForeignStore {
    file: ProcessFile,
    budget: Arc<Budget>,
    held: Mutex<HeldParts>,
    /// Bytes that this process accounts for; `None` while another one does.
    charged: Mutex<Option<u64>>,
}

impl ForeignStore {
    /// A file that was opened for this process alone: locks belong to the opening. Its memory counts in the budget once its owner
    /// has ended, unless another process accounts for it.
    pub fn new(file: OwnedFd, budget: Arc<Budget>) -> ForeignStore {
        let file = ProcessFile::new(file);
        let held = Mutex::new(Rank::Store, HeldParts::default());
        ForeignStore { file, budget, held, charged: Mutex::new(Rank::Store, None) }
    }

    /// Finds out whether this process has to account for the file, and how much it has.
    pub fn settle(&self) {
        let mut charged = self.charged.lock();
        if charged.is_none() && set_lock(self.file.as_raw_fd(), libc::F_WRLCK, &ACCOUNT).is_err() {
            return;
        }
        let Ok(stat) = fstat(&self.file) else { return };
        let (before, now) = (charged.unwrap_or(0), stat.st_blocks as u64 * 512);
        *charged = Some(now);
        drop(charged);
        match now >= before {
            true => self.budget.charge(now - before),
            false => self.budget.give(before - now),
        }
    }

    /// Holds a range, so that its owner does not reuse it. The caller finds out afterwards whether the range is what
    /// it wants.
    pub fn hold(self: &Arc<ForeignStore>, offset: u64, bytes: u64) -> io::Result<ForeignRange> {
        let mut held = self.held.lock();
        for part in held.add(offset..offset + bytes) {
            if let Err(error) = set_lock(self.file.as_raw_fd(), libc::F_RDLCK, &part) {
                self.let_go(&mut held, offset, bytes);
                return Err(error);
            }
        }
        drop(held);
        Ok(ForeignRange { store: self.clone(), offset, bytes })
    }

    fn let_go(&self, held: &mut HeldParts, offset: u64, bytes: u64) {
        for part in held.remove(offset..offset + bytes) {
            if let Err(error) = set_lock(self.file.as_raw_fd(), libc::F_UNLCK, &part) {
                log::warn!("memory of another process stays held until this one ends: {error}");
            }
        }
    }
}

impl Drop for ForeignStore {
    fn drop(&mut self) {
        if let Some(charged) = *self.charged.lock() {
            self.budget.give(charged);
        }
    }
}

/// A range of another process's memory; dropping it lets it go.
pub struct ForeignRange {
    store: Arc<ForeignStore>,
    offset: u64,
    bytes: u64,
}

impl ForeignRange {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.store.file.as_fd()
    }

    /// Where it begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Drop for ForeignRange {
    fn drop(&mut self) {
        self.store.let_go(&mut self.store.held.lock(), self.offset, self.bytes);
    }
}

fn lock_of(kind: libc::c_int, offset: u64, bytes: u64) -> libc::flock {
    // SAFETY: a plain struct of numbers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (offset as libc::off_t, bytes as libc::off_t);
    lock
}

/// True if another opening of the file has a lock on a byte of the range.
fn is_locked(file: RawFd, offset: u64, bytes: u64) -> bool {
    let mut lock = lock_of(libc::F_WRLCK, offset, bytes);
    // SAFETY: the kernel reads and writes the struct.
    let asked = unsafe { libc::fcntl(file, libc::F_OFD_GETLK, &raw mut lock) };
    asked == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

fn set_lock(file: RawFd, kind: libc::c_int, range: &Range<u64>) -> io::Result<()> {
    let lock = lock_of(kind, range.start, range.end - range.start);
    // SAFETY: the kernel reads the struct.
    match unsafe { libc::fcntl(file, libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use rustix::io::{pread, pwrite};

    const MIB: u64 = 1 << 20;

    fn reopened(store: &Store) -> Arc<ForeignStore> {
        charging(store, &Arc::new(Budget::new(0)))
    }

    fn charging(store: &Store, budget: &Arc<Budget>) -> Arc<ForeignStore> {
        let path = format!("/proc/self/fd/{}", store.file.as_raw_fd());
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        Arc::new(ForeignStore::new(file, budget.clone()))
    }

    #[test]
    fn a_range_is_zero_and_neighbours_follow_each_other() {
        let store = Arc::new(Store::new("cairn-test").unwrap());
        let first = store.take(2 * MIB, 2 * MIB).unwrap();
        let second = store.take(4 * MIB, 2 * MIB).unwrap();
        assert_eq!(second.offset(), first.offset() + 2 * MIB);
        pwrite(first.file(), b"old", first.offset()).unwrap();
        let offset = first.offset();
        drop(first);
        let again = store.take(2 * MIB, 2 * MIB).unwrap();
        assert_eq!(again.offset(), offset);
        let mut bytes = [9; 3];
        pread(again.file(), &mut bytes, offset).unwrap();
        assert_eq!(bytes, [0; 3]);
    }

    #[test]
    fn a_range_that_another_process_holds_is_reused_when_that_lets_go() {
        let store = Arc::new(Store::new("cairn-test").unwrap());
        let foreign = reopened(&store);
        let range = store.take(2 * MIB, 2 * MIB).unwrap();
        pwrite(range.file(), b"kept", range.offset()).unwrap();
        let (held, twice) = (
            foreign.hold(range.offset(), 2 * MIB).unwrap(),
            foreign.hold(range.offset(), 2 * MIB).unwrap(),
        );
        let offset = range.offset();
        drop(range);
        assert_eq!(store.lent(), 2 * MIB);
        assert_ne!(store.take(2 * MIB, 2 * MIB).unwrap().offset(), offset);
        drop(twice);
        let mut bytes = [0; 4];
        pread(held.file(), &mut bytes, held.offset()).unwrap();
        assert_eq!((&bytes, store.lent()), (b"kept", 2 * MIB));
        drop(held);
        assert_eq!(store.lent(), 0);
        assert_eq!(store.take(2 * MIB, 2 * MIB).unwrap().offset(), offset);
    }

    #[test]
    fn a_range_that_another_one_overlaps_is_held_until_its_own_drop() {
        let store = Arc::new(Store::new("cairn-test").unwrap());
        let foreign = reopened(&store);
        let range = store.take(8 * MIB, 2 * MIB).unwrap();
        let (offset, at) = (range.offset(), |mib: u64| range.offset() + mib * MIB);
        let whole = foreign.hold(at(0), 8 * MIB).unwrap();
        let (first, second) =
            (foreign.hold(at(0), 4096).unwrap(), foreign.hold(at(4), 4 * MIB).unwrap());
        let held = |mib: u64| is_locked(store.file.as_raw_fd(), offset + mib * MIB, 4096);
        drop(whole);
        assert_eq!([0, 1, 3, 4, 7].map(held), [true, false, false, true, true]);
        let across = foreign.hold(at(3), 2 * MIB).unwrap();
        drop(second);
        assert_eq!([0, 2, 3, 4, 5].map(held), [true, false, true, true, false]);
        drop(range);
        assert_eq!(store.lent(), 8 * MIB);
        drop((first, across));
        assert_eq!(store.lent(), 0);
    }

    #[test]
    fn what_others_hold_counts_here_and_when_the_owner_has_ended_with_one_of_them() {
        let budgets = [(); 3].map(|()| Arc::new(Budget::new(64 * MIB)));
        let used = || [0, 1, 2].map(|at: usize| 64 - budgets[at].free() / MIB);
        let store = Arc::new(Store::new("cairn-test").unwrap().charging(budgets[0].clone()));
        let holders = [1, 2].map(|at: usize| charging(&store, &budgets[at]));
        let range = store.take(8 * MIB, 2 * MIB).unwrap();
        pwrite(range.file(), &[7; MIB as usize], range.offset()).unwrap();
        let offset = range.offset();
        let held = holders.each_ref().map(|holder| holder.hold(offset, MIB).unwrap());
        range.forget(0, 2 * MIB);
        range.forget(4 * MIB, 2 * MIB);
        assert_eq!((used(), store.lent()), ([2, 0, 0], 2 * MIB));
        drop(range);
        holders.iter().for_each(|holder| holder.settle());
        assert_eq!((used(), store.lent()), ([8, 0, 0], 8 * MIB));
        drop(store);
        // A thread that looks after it may keep it for a moment.
        while used()[1] == 0 {
            holders[0].settle();
        }
        for _ in 0..2 {
            holders.iter().for_each(|holder| holder.settle());
            assert_eq!(used()[1..], [1, 0]);
        }
        let [first, second] = held;
        let [one, other] = holders;
        drop((first, one));
        assert_eq!(used()[1..], [0, 0]);
        other.settle();
        assert_eq!(used()[1..], [0, 1]);
        drop((second, other));
        assert_eq!(used()[1..], [0, 0]);
    }
}
