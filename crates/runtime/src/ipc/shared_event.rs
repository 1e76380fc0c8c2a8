//! The part of an event that processes share.
//!
//! ```text
//!  word of the last record    number 9, lane 2
//!  lane 1                     process 4711, done up to 5        records 5, 8 of a stream of it: 8 is not done
//!  lane 2                     process 4712, done up to 0        record 9 of a stream of it: not done
//! ```
//!
//! Numbers are given across processes; lanes are what makes a word enough to say which are done. A stream has a lane while records of it
//! are not done, and these are done in the order of their numbers, so a later record never stands for one on another stream.

use super::cell::Cell;
use super::watcher::{Signal, Watcher};
use crate::error::{Code, Error, Result};
use crate::event::Capture;
use crate::lock::{Mutex, Rank};
use crate::memory::sharing::{Key, SharedKind, Sharing};
use crate::sync::{Arc, now_ns, thread};
use crate::task::Work;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The word that has the number of the last record, and its lane.
const LAST: usize = 0;
/// The word that has the time of the last one that is done.
const TIME: usize = 1;
/// How many streams of all processes together may have records of one event that are not done.
const LANES: usize = 248;
const LANE_BITS: u32 = 8;
/// Words that have the process of each lane; 0 while nobody has it.
const OWNER: usize = 8;
/// Words that have the last record of each lane that is done, as all before it on that lane are.
const DONE: usize = OWNER + LANES;
const PAUSE: Duration = Duration::from_micros(50);
const LIVENESS: Duration = Duration::from_millis(20);

/// The records of an event, as all processes see them. Each has a number; a wait is for the last one when it is submitted.
pub struct SharedEvent {
    records: Arc<Records>,
    watcher: Arc<Watcher>,
}

/// The records of an event, and the lanes that this process has.
struct Records {
    cell: Arc<Cell>,
    lanes: Mutex<Vec<Lane>>,
}

/// What a stream of this process has recorded.
struct Lane {
    number: usize,
    /// [`Stream::key`](crate::stream::Stream::key) of the stream.
    stream: u64,
    /// Records from the first that is not done on; true for those that are.
    records: VecDeque<(u64, bool)>,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRecord {
    /// Its number, from 1.
    pub number: u64,
    /// The lane that it is on.
    lane: usize,
    /// Who made it; of no meaning once it is done.
    pub pid: u32,
}

impl SharedEvent {
    /// An event in this cell.
    pub fn new(cell: Cell, watcher: Arc<Watcher>) -> SharedEvent {
        SharedEvent::of(Arc::new(cell), watcher)
    }

    fn of(cell: Arc<Cell>, watcher: Arc<Watcher>) -> SharedEvent {
        let lanes = Mutex::new(Rank::Watch, Vec::new());
        SharedEvent { records: Arc::new(Records { cell, lanes }), watcher }
    }

    fn cell(&self) -> &Arc<Cell> {
        &self.records.cell
    }

    /// The key under which other processes open it.
    pub fn export(&self, sharing: &Sharing) -> Result<Key> {
        self.cell().export(sharing, SharedKind::Event, true)
    }

    /// Nobody can open it any more.
    pub fn close(&self, sharing: &Sharing) {
        self.cell().close(sharing, SharedKind::Event);
    }

    /// The last record, whoever made it.
    pub fn last(&self) -> Option<SharedRecord> {
        let word = self.cell().word(LAST).load(SeqCst);
        let (number, lane) = (word >> LANE_BITS, word as usize & ((1 << LANE_BITS) - 1));
        // Whatever the page says, which other processes write too.
        let lane = lane.min(LANES - 1);
        let pid = self.cell().word(OWNER + lane).load(SeqCst) as u32;
        (number > 0).then_some(SharedRecord { number, lane, pid })
    }

    /// Begins a record of this process on the stream with this key: it is the last one from now on. What it returns ends it when
    /// it runs, or when it is dropped without that; it counts as done when those before it on the stream are done too. Fails if
    /// too many streams have records that are not done.
    pub fn begin_record(&self, stream: u64) -> Result<Arc<RecordEnd>> {
        let number = self.records.begin(stream)?;
        let (records, watcher) = (self.records.clone(), self.watcher.clone());
        Ok(Arc::new(RecordEnd {
            records,
            watcher,
            stream,
            number,
            is_over: AtomicBool::new(false),
        }))
    }

    /// When the last record was done.
    pub fn time_ns(&self) -> u64 {
        self.cell().word(TIME).load(SeqCst)
    }

    /// True if a record is done.
    pub fn is_done(&self, record: SharedRecord) -> bool {
        is_done(self.cell(), record)
    }

    /// True if a record is done; fails if it will never be, because its process ended.
    pub fn query(&self, record: SharedRecord) -> Result<bool> {
        match self.is_done(record) {
            true => Ok(true),
            false if self.cell().is_used_by(record.pid) => Ok(false),
            false if self.is_done(record) => Ok(true),
            false => Err(lost(record)),
        }
    }

    /// Completes a capture when a record of another process is done. The verdict, which runs after the wait, fails if that
    /// process ended before, or nobody could watch for it.
    pub fn watch(&self, capture: &Arc<Capture>, record: SharedRecord) -> Arc<Verdict> {
        let (cell, is_lost) = (self.cell().clone(), AtomicBool::new(false));
        let verdict = Arc::new(Verdict { cell, record, is_lost, failure: OnceLock::new() });
        if let Err(error) = self.watcher.watch(capture, verdict.clone()) {
            let _ = verdict.failure.set(error);
        }
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
                if !self.cell().is_used_by(record.pid) && !self.is_done(record) {
                    return Err(lost(record));
                }
            }
            thread::sleep(PAUSE);
        }
    }
}

fn is_done(cell: &Cell, record: SharedRecord) -> bool {
    cell.word(DONE + record.lane).load(SeqCst) >= record.number
}

impl Records {
    fn begin(&self, stream: u64) -> Result<u64> {
        let mut lanes = self.lanes.lock();
        let at = match lanes.iter().position(|lane| lane.stream == stream) {
            Some(at) => at,
            None => {
                let number = self.take_lane()?;
                lanes.push(Lane { number, stream, records: VecDeque::new() });
                lanes.len() - 1
            }
        };
        let lane = &mut lanes[at];
        let next = |word: u64| Some(((word >> LANE_BITS) + 1) << LANE_BITS | lane.number as u64);
        let before = match self.cell.word(LAST).fetch_update(SeqCst, SeqCst, next) {
            Ok(word) | Err(word) => word,
        };
        let number = (before >> LANE_BITS) + 1;
        lane.records.push_back((number, false));
        Ok(number)
    }

    fn take_lane(&self) -> Result<usize> {
        let pid = u64::from(std::process::id());
        let take = |lane: &usize| {
            self.cell.word(OWNER + lane).compare_exchange(0, pid, SeqCst, SeqCst).is_ok()
        };
        (0..LANES).find(take).ok_or_else(|| {
            let text = format!(
                "{LANES} streams have records of one event that are not done, or their processes ended before that: wait for some"
            );
            Error::new(Code::NoEventResource, text)
        })
    }

    fn end(&self, stream: u64, number: u64) {
        let mut lanes = self.lanes.lock();
        let Some(at) = lanes.iter().position(|lane| lane.stream == stream) else { return };
        let lane = &mut lanes[at];
        if let Some(record) = lane.records.iter_mut().find(|record| record.0 == number) {
            record.1 = true;
        }
        let mut done = None;
        while let Some((number, _)) = lane.records.pop_front_if(|(_, is_done)| *is_done) {
            done = Some(number);
        }
        if let Some(number) = done {
            self.cell.word(TIME).store(now_ns(), SeqCst);
            self.cell.word(DONE + lane.number).store(number, SeqCst);
        }
        if lane.records.is_empty() {
            self.cell.word(OWNER + lane.number).store(0, SeqCst);
            lanes.swap_remove(at);
        }
    }
}

fn lost(record: SharedRecord) -> Error {
    let text = format!("process {} ended before its record of the event was done", record.pid);
    Error::new(Code::Driver, text)
}

/// The task that ends a record.
pub struct RecordEnd {
    records: Arc<Records>,
    watcher: Arc<Watcher>,
    stream: u64,
    number: u64,
    is_over: AtomicBool,
}

impl RecordEnd {
    /// The number of the record.
    pub fn number(&self) -> u64 {
        self.number
    }

    fn end(&self) {
        if !self.is_over.swap(true, SeqCst) {
            self.records.end(self.stream, self.number);
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
    /// Why nobody watches for the record.
    failure: OnceLock<Error>,
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

    fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
    }
}

impl Work for Verdict {
    fn run(&self) -> Result<()> {
        match self.failure.get() {
            Some(failure) => Err(failure.clone()),
            None if self.is_lost.load(SeqCst) => Err(lost(self.record)),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::shared::Shared;

    /// Events of several processes over one page.
    fn events(count: usize) -> (Arc<Shared>, Vec<SharedEvent>) {
        let config = Config::from_lookup(|_| None, 1 << 30).unwrap();
        let shared = Shared::new(config, 4).unwrap();
        let cell = Arc::new(Cell::new(shared.memory.sharing()).unwrap());
        let event = || SharedEvent::of(cell.clone(), Arc::default());
        (shared, (0..count).map(|_| event()).collect())
    }

    #[test]
    fn a_record_is_done_when_it_ended_whatever_others_did() {
        let (_shared, events) = events(3);
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as usize % below
        };
        const STREAMS: usize = 5;
        let mut open: Vec<VecDeque<(SharedRecord, Arc<RecordEnd>)>> = Vec::new();
        open.resize_with(events.len() * STREAMS, VecDeque::new);
        let mut ended: Vec<SharedRecord> = Vec::new();
        for step in 0..20_000 {
            let at = random(open.len());
            let (process, stream) = (at / STREAMS, at % STREAMS);
            // The first stream is never done until the end; the others do much meanwhile.
            match random(2) == 0 && (at > 0 || open[at].is_empty()) {
                true => {
                    let end = events[process].begin_record(stream as u64 + 1).unwrap();
                    let record = events[random(3)].last().unwrap();
                    assert_eq!((record.number, record.pid), (end.number(), std::process::id()));
                    open[at].push_back((record, end));
                }
                false if at > 0 => {
                    if let Some((record, end)) = open[at].pop_front() {
                        end.run().unwrap();
                        ended.push(record);
                    }
                }
                false => {}
            }
            if step % 50 == 0 {
                let is_done = |record: &SharedRecord| events[0].is_done(*record);
                assert!(ended.iter().all(is_done), "step {step}");
                assert!(!open.iter().flatten().any(|(record, _)| is_done(record)), "step {step}");
            }
        }
    }

    #[test]
    fn one_that_fails_ends_none_before_it_and_lanes_come_back() {
        let (_shared, events) = events(1);
        let event = &events[0];
        let first = event.begin_record(1).unwrap();
        let first_record = event.last().unwrap();
        drop(event.begin_record(1).unwrap());
        let second_record = event.last().unwrap();
        assert!(!event.is_done(first_record) && !event.is_done(second_record));
        first.run().unwrap();
        assert!(event.is_done(first_record) && event.is_done(second_record));
        assert!(event.query(first_record).unwrap());
        for _ in 0..2 {
            let keys = 1..=LANES as u64;
            let ends: Vec<_> = keys.map(|key| event.begin_record(key).unwrap()).collect();
            let error = event.begin_record(LANES as u64 + 1).err().unwrap();
            assert_eq!(error.code, Code::NoEventResource);
            drop(ends);
            assert!(event.is_done(event.last().unwrap()));
        }
    }
}
