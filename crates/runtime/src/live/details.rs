//! What a process says of its streams, pools, allocators and communicators when somebody asks. Nobody asks: it costs nothing.
//!
//! ```text
//!  watcher                                      the process: its thread `cairn-live` sleeps in `asked`
//!  asked += 1, wake ─────────────────────────>  wakes up, collects figures
//!  waits for a new, even `sequence` <─────────  sequence odd, figures, sequence even, wake
//!
//! 4096  asked  sequence  time  streams  pools  allocators  communicators: how many there are
//! 4160  for each of 160 streams: device and number, submitted, finished
//! 9280  for each of 32 pools: device and number, built in, reserved, live, peak, waiting, blocks
//! 11328 for each of 32 allocators: object, device, live, peak, blocks, taken, freed
//! 13376 for each of 32 communicators: rank and size, device, submitted, finished, its name in 128 bytes
//! ```

use super::{FILE, LivePage, MAGIC, PAGE, VERSION, Words, candidates, open_folder};
use rustix::fs::{Mode, OFlags};
use rustix::thread::futex;
use rustix::time::Timespec;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

const ASKED_AT: usize = PAGE;
const SEQUENCE_AT: usize = PAGE + 8;
const TIME_AT: usize = PAGE + 16;
const COUNTS_AT: usize = PAGE + 24;
const TABLES: [Table; 4] = [
    Table { at: PAGE + 64, rows: 160, words: 4 },
    Table { at: PAGE + 64 + 160 * 32, rows: 32, words: 8 },
    Table { at: PAGE + 64 + 160 * 32 + 32 * 64, rows: 32, words: 8 },
    Table { at: PAGE + 64 + 160 * 32 + 2 * 32 * 64, rows: 32, words: COMMUNICATOR_WORDS },
];
const _: () = assert!(TABLES[3].at + TABLES[3].rows * TABLES[3].words * 8 <= FILE);

/// Words of a communicator: figures, and its name.
const COMMUNICATOR_WORDS: usize = 4 + NAME_WORDS;
const NAME_WORDS: usize = 16;

/// Where rows of words lie.
#[derive(Clone, Copy)]
struct Table {
    at: usize,
    rows: usize,
    words: usize,
}

/// What a process says of itself. There may be more streams, pools, allocators and communicators than the file has room for:
/// the counts are of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Its streams.
    pub streams: Vec<StreamFigures>,
    /// Its pools.
    pub pools: Vec<PoolFigures>,
    /// The allocators that the program registered and that were asked for memory.
    pub allocators: Vec<AllocatorFigures>,
    /// Its ends of communicators.
    pub communicators: Vec<CommunicatorFigures>,
    /// How many of each there are.
    pub counts: [u64; 4],
}

/// A stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFigures {
    /// Its device, by its physical number.
    pub device: u32,
    /// Its number in the process.
    pub stream: u32,
    /// The number of its last task.
    pub submitted: u64,
    /// The number of its last task that is done.
    pub finished: u64,
}

/// A pool of the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// Its device, by its physical number.
    pub device: u32,
    /// Its number in the process.
    pub number: u32,
    /// True for the one that operators take from.
    pub built_in: bool,
    /// Bytes that it has from the device.
    pub reserved: u64,
    /// Bytes in blocks.
    pub live: u64,
    /// The most that was live.
    pub peak: u64,
    /// Freed bytes that other streams may not use yet.
    pub waiting: u64,
    /// Blocks that are out.
    pub blocks: u64,
}

/// An allocator of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorFigures {
    /// The program's object.
    pub object: u64,
    /// The device of its last block.
    pub device: u32,
    /// Bytes in blocks that are out.
    pub live: u64,
    /// The most that was out.
    pub peak: u64,
    /// Blocks that are out.
    pub blocks: u64,
    /// Blocks ever taken.
    pub taken: u64,
    /// Blocks ever given back.
    pub freed: u64,
}

/// One rank's end of a communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommunicatorFigures {
    /// What the program calls it, as far as there is room.
    pub name: String,
    /// The rank.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// The rank's device, by its physical number.
    pub device: u32,
    /// Operators that were called.
    pub submitted: u64,
    /// Operators that have ended.
    pub finished: u64,
}

impl CommunicatorFigures {
    fn to_words(&self) -> [u64; COMMUNICATOR_WORDS] {
        let mut words = [0; COMMUNICATOR_WORDS];
        words[..4].copy_from_slice(&[
            pair(self.rank, self.size),
            self.device.into(),
            self.submitted,
            self.finished,
        ]);
        let name = &self.name[..self.name.floor_char_boundary(NAME_WORDS * 8)];
        for (word, bytes) in words[4..].iter_mut().zip(name.as_bytes().chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        words
    }

    fn from_words(words: [u64; COMMUNICATOR_WORDS]) -> CommunicatorFigures {
        let (rank, size) = unpair(words[0]);
        let name: Vec<u8> = words[4..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        CommunicatorFigures {
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
            rank,
            size,
            device: words[1] as u32,
            submitted: words[2],
            finished: words[3],
        }
    }
}

impl StreamFigures {
    fn to_words(self) -> [u64; 8] {
        [pair(self.device, self.stream), self.submitted, self.finished, 0, 0, 0, 0, 0]
    }

    fn from_words(words: [u64; 8]) -> StreamFigures {
        let (device, stream) = unpair(words[0]);
        StreamFigures { device, stream, submitted: words[1], finished: words[2] }
    }
}

impl PoolFigures {
    fn to_words(self) -> [u64; 8] {
        let PoolFigures { device, number, built_in, reserved, live, peak, waiting, blocks } = self;
        [pair(device, number), built_in.into(), reserved, live, peak, waiting, blocks, 0]
    }

    fn from_words(words: [u64; 8]) -> PoolFigures {
        let (device, number) = unpair(words[0]);
        let [_, built_in, reserved, live, peak, waiting, blocks, _] = words;
        PoolFigures {
            device,
            number,
            built_in: built_in != 0,
            reserved,
            live,
            peak,
            waiting,
            blocks,
        }
    }
}

impl AllocatorFigures {
    fn to_words(self) -> [u64; 8] {
        let AllocatorFigures { object, device, live, peak, blocks, taken, freed } = self;
        [object, device.into(), live, peak, blocks, taken, freed, 0]
    }

    fn from_words(words: [u64; 8]) -> AllocatorFigures {
        let [object, device, live, peak, blocks, taken, freed, _] = words;
        AllocatorFigures { object, device: device as u32, live, peak, blocks, taken, freed }
    }
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn unpair(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Words {
    fn write_table<const N: usize>(&self, table: Table, rows: impl Iterator<Item = [u64; N]>) {
        for (row, words) in rows.take(table.rows).enumerate() {
            for (index, word) in words.into_iter().take(table.words).enumerate() {
                self.word(table.at + (row * table.words + index) * 8).store(word, Relaxed);
            }
        }
    }

    fn read_table<T, const N: usize>(
        &self,
        table: Table,
        count: u64,
        parse: fn([u64; N]) -> T,
    ) -> Vec<T> {
        let rows = (count as usize).min(table.rows);
        let word = |row: usize, index: usize| match index < table.words {
            true => self.word(table.at + (row * table.words + index) * 8).load(Relaxed),
            false => 0,
        };
        (0..rows).map(|row| parse(std::array::from_fn(|index| word(row, index)))).collect()
    }

    /// What was written last; `None` while it is being written.
    fn read_details(&self) -> Option<Details> {
        let sequence = self.half_word(SEQUENCE_AT).load(Acquire);
        if !sequence.is_multiple_of(2) {
            return None;
        }
        let counts: [u64; 4] =
            std::array::from_fn(|index| self.word(COUNTS_AT + index * 8).load(Relaxed));
        let details = Details {
            time_ns: self.word(TIME_AT).load(Relaxed),
            streams: self.read_table(TABLES[0], counts[0], StreamFigures::from_words),
            pools: self.read_table(TABLES[1], counts[1], PoolFigures::from_words),
            allocators: self.read_table(TABLES[2], counts[2], AllocatorFigures::from_words),
            communicators: self.read_table(TABLES[3], counts[3], CommunicatorFigures::from_words),
            counts,
        };
        fence(Acquire);
        (self.half_word(SEQUENCE_AT).load(Relaxed) == sequence).then_some(details)
    }
}

/// The side of the process.
impl LivePage {
    /// Sleeps until somebody asked since `seen`, or [`LivePage::stop_waiting`] was called; what to pass next time.
    pub fn wait_until_asked(&self, seen: u32) -> u32 {
        let asked = self.words.half_word(ASKED_AT);
        loop {
            match asked.load(Acquire) {
                now if now != seen => return now,
                _ => _ = futex::wait(asked, futex::Flags::empty(), seen, None),
            }
        }
    }

    /// Wakes the thread that waits to be asked.
    pub fn stop_waiting(&self) {
        ask(&self.words);
    }

    /// Answers.
    pub fn set_details(&self, details: &Details) {
        let sequence = self.words.half_word(SEQUENCE_AT);
        sequence.fetch_add(1, AcqRel);
        fence(Release);
        self.word(TIME_AT).store(details.time_ns, Relaxed);
        for (index, count) in details.counts.into_iter().enumerate() {
            self.word(COUNTS_AT + index * 8).store(count, Relaxed);
        }
        let Details { streams, pools, allocators, communicators, .. } = details;
        self.words.write_table(TABLES[0], streams.iter().map(|one| one.to_words()));
        self.words.write_table(TABLES[1], pools.iter().map(|one| one.to_words()));
        self.words.write_table(TABLES[2], allocators.iter().map(|one| one.to_words()));
        self.words.write_table(TABLES[3], communicators.iter().map(|one| one.to_words()));
        sequence.fetch_add(1, Release);
        let _ = futex::wake(sequence, futex::Flags::empty(), i32::MAX as u32);
    }
}

fn ask(words: &Words) {
    let asked = words.half_word(ASKED_AT);
    asked.fetch_add(1, AcqRel);
    let _ = futex::wake(asked, futex::Flags::empty(), i32::MAX as u32);
}

/// Asks a live process of this user for its details, and waits for the answer until `limit` has passed. `None` if
/// there is no such process, or it does not answer.
pub fn details_of(pid: i32, limit: Duration) -> Option<Details> {
    details_in(&candidates(), pid, limit)
}

fn details_in(folders: &[PathBuf], pid: i32, limit: Duration) -> Option<Details> {
    let words = folders.iter().find_map(|path| {
        let folder = open_folder(path, false).ok()?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, pid.to_string(), flags, Mode::empty()).ok()?;
        let is_whole = rustix::fs::fstat(&file).ok()?.st_size as u64 >= FILE as u64;
        let words = is_whole.then(|| Words::map(&file).ok())??;
        let is_ours =
            words.word(0).load(Relaxed) == MAGIC && words.word(8).load(Relaxed) == VERSION;
        is_ours.then_some(words)
    })?;
    let sequence = words.half_word(SEQUENCE_AT);
    let (before, end) = (sequence.load(Acquire), Instant::now() + limit);
    ask(&words);
    loop {
        let now = sequence.load(Acquire);
        // One that was under way when we asked may be older than the question.
        if now.wrapping_sub(before) >= 2
            && let Some(details) = words.read_details()
        {
            return Some(details);
        }
        let left = end.checked_duration_since(Instant::now())?;
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let _ = futex::wait(sequence, futex::Flags::empty(), now, Some(&timeout));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_process_answers_when_it_is_asked() {
        let folder = std::env::temp_dir().join(format!("cairn-details-{}", std::process::id()));
        let page = Arc::new(LivePage::create_in(&folder, 1).unwrap());
        let ask =
            |limit| details_in(std::slice::from_ref(&folder), std::process::id() as i32, limit);
        let answer = Details {
            time_ns: 7,
            streams: (0..200)
                .map(|stream| StreamFigures { device: 1, stream, submitted: 9, finished: 8 })
                .collect(),
            pools: vec![PoolFigures {
                number: 3,
                built_in: true,
                peak: 5,
                ..PoolFigures::default()
            }],
            allocators: vec![AllocatorFigures {
                object: 0xbeef,
                freed: 2,
                ..AllocatorFigures::default()
            }],
            communicators: ["world", &"ä".repeat(100)]
                .map(|name| CommunicatorFigures {
                    name: name.into(),
                    rank: 1,
                    size: 2,
                    device: 3,
                    submitted: 5,
                    finished: 4,
                })
                .to_vec(),
            counts: [200, 1, 1, 2],
        };
        let (own, given) = (page.clone(), answer.clone());
        let process = std::thread::spawn(move || {
            own.wait_until_asked(0);
            own.set_details(&given);
        });
        let details = ask(Duration::from_secs(60)).expect("it answers");
        process.join().unwrap();
        assert_eq!(details.streams, answer.streams[..160]);
        assert_eq!(details.counts, answer.counts);
        assert_eq!((details.pools, details.allocators), (answer.pools, answer.allocators));
        assert_eq!(details.communicators[0], answer.communicators[0]);
        assert_eq!(details.communicators[1].name, "ä".repeat(64), "a long name is cut");
        assert_eq!(ask(Duration::ZERO), None, "nobody is there to answer");
        drop(page);
        assert_eq!(ask(Duration::ZERO), None, "there is no such process");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
