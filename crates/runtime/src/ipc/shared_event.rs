//! The part of an event that processes share.

use super::cell::Cell;
use super::watcher::{Signal, Watcher};
use crate::error::{Code, Error, Result};
use crate::event::Capture;
use crate::memory::sharing::{Key, SharedKind, Sharing};
use crate::sync::{Arc, now_ns, thread};
use crate::task::Work;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The word that has the number of the last record, and the process that made it.
const LAST: usize = 0;
/// The word that has the time of the last one that is done.
const TIME: usize = 1;
/// Words that say which records are done: number n is in word n modulo [`RING`].
const DONE: usize = 8;
const RING: u64 = 64;
const PID_BITS: u32 = 22;
const PAUSE: Duration = Duration::from_micros(50);
const LIVENESS: Duration = Duration::from_millis(20);

/// The records of an event, as all processes see them. Each has a number; a wait is for the last one when it is submitted.
pub struct SharedEvent {
    cell: Arc<Cell>,
    watcher: Arc<Watcher>,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRecord {
    /// Its number, from 1.
    pub number: u64,
    /// Who made it.
    pub pid: u32,
}

impl SharedEvent {
    /// An event in this cell.
    pub fn new(cell: Cell, watcher: Arc<Watcher>) -> SharedEvent {
        SharedEvent { cell: Arc::new(cell), watcher }
    }

    /// The key under which other processes open it.
    pub fn export(&self, sharing: &Sharing) -> Result<Key> {
        self.cell.export(sharing, SharedKind::Event, true)
    }

    /// Nobody can open it any more.
    pub fn close(&self, sharing: &Sharing) {
        self.cell.close(sharing, SharedKind::Event);
    }

    /// The last record, whoever made it.
    pub fn last(&self) -> Option<SharedRecord> {
        let word = self.cell.word(LAST).load(SeqCst);
        let record =
            SharedRecord { number: word >> PID_BITS, pid: word as u32 & ((1 << PID_BITS) - 1) };
        (record.number > 0).then_some(record)
    }

    /// Begins a record of this process: it is the last one from now on. What it returns ends it when it runs, or when it is
    /// dropped without that.
    pub fn begin_record(&self) -> Arc<RecordEnd> {
        let pid = u64::from(std::process::id());
        let next = |word: u64| Some(((word >> PID_BITS) + 1) << PID_BITS | pid);
        let before = match self.cell.word(LAST).fetch_update(SeqCst, SeqCst, next) {
            Ok(word) | Err(word) => word,
        };
        let number = (before >> PID_BITS) + 1;
        let (cell, watcher) = (self.cell.clone(), self.watcher.clone());
        Arc::new(RecordEnd { cell, watcher, number, is_over: AtomicBool::new(false) })
    }

    /// When the last record was done.
    pub fn time_ns(&self) -> u64 {
        self.cell.word(TIME).load(SeqCst)
    }

    /// True if a record is done.
    pub fn is_done(&self, record: SharedRecord) -> bool {
        is_done(&self.cell, record)
    }

    /// True if a record is done, or will never be, because its process ended.
    pub fn is_over(&self, record: SharedRecord) -> bool {
        self.is_done(record) || !self.cell.is_used_by(record.pid)
    }

    /// Completes a capture when a record of another process is done. The verdict, which runs after the wait, fails if that
    /// process ended before.
    pub fn watch(&self, capture: &Arc<Capture>, record: SharedRecord) -> Arc<Verdict> {
        let verdict =
            Arc::new(Verdict { cell: self.cell.clone(), record, is_lost: AtomicBool::new(false) });
        self.watcher.watch(capture, verdict.clone());
        verdict
    }

    /// Waits on the calling thread for a record of another process. False if the limit passed.
    pub fn wait(&self, record: SharedRecord, limit: Option<Duration>) -> Result<bool> {
        let began = Instant::now();
        let mut asked = began;
        loop {
            if self.is_done(record) {
                return Ok(true);
            }
            if limit.is_some_and(|limit| began.elapsed() >= limit) {
                return Ok(false);
            }
            if asked.elapsed() >= LIVENESS {
                asked = Instant::now();
                if !self.cell.is_used_by(record.pid) && !self.is_done(record) {
                    return Err(lost(record));
                }
            }
            thread::sleep(PAUSE);
        }
    }
}

fn is_done(cell: &Cell, record: SharedRecord) -> bool {
    cell.word(DONE + (record.number % RING) as usize).load(SeqCst) >= record.number
}

fn lost(record: SharedRecord) -> Error {
    let text = format!("process {} ended before its record of the event was done", record.pid);
    Error::new(Code::Driver, text)
}

/// The task that ends a record.
pub struct RecordEnd {
    cell: Arc<Cell>,
    watcher: Arc<Watcher>,
    number: u64,
    is_over: AtomicBool,
}

impl RecordEnd {
    /// The record.
    pub fn record(&self) -> SharedRecord {
        SharedRecord { number: self.number, pid: std::process::id() }
    }

    fn end(&self) {
        if !self.is_over.swap(true, SeqCst) {
            self.cell.word(TIME).store(now_ns(), SeqCst);
            let word = self.cell.word(DONE + (self.number % RING) as usize);
            word.fetch_max(self.number, SeqCst);
            self.watcher.poke();
        }
    }
}

impl Work for RecordEnd {
    fn run(&self) -> Result<()> {
        self.end();
        Ok(())
    }
}

impl Drop for RecordEnd {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a record of another process was done, or is lost.
pub struct Verdict {
    cell: Arc<Cell>,
    record: SharedRecord,
    is_lost: AtomicBool,
}

impl Signal for Verdict {
    fn poll(&self, asks_process: bool) -> bool {
        if is_done(&self.cell, self.record) {
            return true;
        }
        let is_lost = asks_process
            && !self.cell.is_used_by(self.record.pid)
            && !is_done(&self.cell, self.record);
        self.is_lost.store(is_lost, SeqCst);
        is_lost
    }
}

impl Work for Verdict {
    fn run(&self) -> Result<()> {
        match self.is_lost.load(SeqCst) {
            true => Err(lost(self.record)),
            false => Ok(()),
        }
    }
}
