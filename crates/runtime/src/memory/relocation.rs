//! Moves pages of this process into a memory file, under whoever uses them.
//!
//! ```text
//!  1. the pages become read-only: a thread that writes faults, and waits (wait_for_move)
//!  2. their bytes are copied into the file
//!  3. the file is mapped in their place; the threads go on where they were
//! ```
//!
//! Readers never notice, and nobody has to be found and stopped: neither tasks that run, nor copies, nor the program itself.
//! Faults reach this file through the handler of the door (`ascendcl/src/signal_chain.rs`), which is installed with the first
//! export.

use super::process_file;
use super::system_limits::explain_error;
use crate::lock::{Mutex, Rank};
use rustix::fd::BorrowedFd;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect};
use std::ffi::c_void;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// How many of the last moves are remembered: the thread of a fault may sleep while other pages are moved.
const KEPT: usize = 256;
/// First and last address of the pages that are being moved, or were moved lately, by the number of the move.
static RANGES: [[AtomicUsize; 2]; KEPT] = [const { [const { AtomicUsize::new(0) }; 2] }; KEPT];
/// Faults in pages that were moved, since the last move: a few come late, more are somebody's mistake.
static LATE: AtomicUsize = AtomicUsize::new(0);
const MAX_LATE: usize = 10_000;
/// Odd while pages are being moved.
static MOVES: AtomicUsize = AtomicUsize::new(0);
/// One move at a time.
static MOVING: Mutex<()> = Mutex::new(Rank::Relocation, ());
/// Who makes faults call [`wait_for_move`].
static FAULT_WATCH: OnceLock<fn()> = OnceLock::new();

/// Sets what makes faults of this process call [`wait_for_move`], once. It is called before each move, as others may have
/// installed handlers of theirs in the meantime.
pub fn set_fault_watch(install: fn()) {
    let _ = FAULT_WATCH.set(install);
}

/// Waits until a page that is being moved is in its place. True if the thread that faulted at this address should try
/// again; false if the fault is none of ours. For handlers of faults: takes no lock and allocates nothing.
pub fn wait_for_move(address: usize) -> bool {
    let moves = MOVES.load(SeqCst);
    let is_in = |number: usize| {
        let [start, end] = &RANGES[number % KEPT];
        (start.load(SeqCst)..end.load(SeqCst)).contains(&address)
    };
    let is_moving = moves % 2 == 1 && is_in(moves / 2);
    if !is_moving {
        return (0..KEPT).any(is_in) && LATE.fetch_add(1, SeqCst) < MAX_LATE;
    }
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
    while MOVES.load(SeqCst) == moves {
        // SAFETY: a sleep of a local duration.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
    true
}

/// Moves the whole pages at an address into a file, which has room for them at `offset`, all zero. On failure they stay where they
/// are. Fails where nobody handles faults ([`set_fault_watch`]).
///
/// # Safety
/// The range is private memory of this process, readable and writable, that stays mapped; and so does what is mapped in its
/// place.
pub unsafe fn move_to_file(
    address: usize,
    bytes: usize,
    file: BorrowedFd<'_>,
    offset: u64,
) -> io::Result<()> {
    let _moving = MOVING.lock();
    let install = FAULT_WATCH.get().ok_or_else(|| io::Error::other("nobody handles faults"))?;
    install();
    let [start, end] = &RANGES[MOVES.load(SeqCst) / 2 % KEPT];
    end.store(0, SeqCst);
    start.store(address, SeqCst);
    end.store(address + bytes, SeqCst);
    LATE.store(0, SeqCst);
    MOVES.fetch_add(1, SeqCst);
    // SAFETY: as for the caller.
    let moved = unsafe { protect_and_move(address, bytes, file, offset) };
    if moved.is_err() {
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the range had this access before.
        let _ = unsafe { mprotect(address as *mut c_void, bytes, access) };
    }
    MOVES.fetch_add(1, SeqCst);
    moved
}

/// Bytes that are copied, or found to be zero, together.
const BLOCK: usize = 4096;

/// Copies what is not zero into a range of a file that is: what nobody wrote takes no memory there, either.
fn copy(bytes: &[u8], file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
    let is_zero = |at: usize| {
        let block = &bytes[at..bytes.len().min(at + BLOCK)];
        block == &[0; BLOCK][..block.len()]
    };
    let mut at = 0;
    while at < bytes.len() {
        let mut end = at;
        while end < bytes.len() && !is_zero(end) {
            end = bytes.len().min(end + BLOCK);
        }
        while at < end {
            // The limit may have changed since the file was made, and a write beyond it ends the process.
            process_file::expect_room(offset + end as u64)?;
            match rustix::io::pwrite(file, &bytes[at..end], offset + at as u64)? {
                0 => return Err(io::Error::other("the memory file takes no more")),
                written => at += written,
            }
        }
        // At the end there is a block of zeroes, or nothing.
        at = end + BLOCK;
    }
    Ok(())
}

/// # Safety
/// As [`move_to_file`].
unsafe fn protect_and_move(
    address: usize,
    bytes: usize,
    file: BorrowedFd<'_>,
    offset: u64,
) -> io::Result<()> {
    let pointer = address as *mut c_void;
    let explain =
        |error: rustix::io::Errno| explain_error(error.into(), "mapping pages anew", bytes as u64);
    // SAFETY: the range is mapped; threads that write to it wait in the handler.
    unsafe { mprotect(pointer, bytes, MprotectFlags::READ) }.map_err(explain)?;
    // SAFETY: the range is readable, and nobody writes to it now.
    copy(unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }, file, offset)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the same bytes take the place of the range.
    unsafe { mmap(pointer, bytes, access, flags, file, offset) }.map_err(explain)?;
    for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
        // SAFETY: no contents change.
        let _ = unsafe { madvise(pointer, bytes, advice) };
    }
    Ok(())
}
