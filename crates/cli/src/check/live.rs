//! The records of a program that runs, read while its processes write them. What was read is given back to the disk, and threads of
//! the program wait when the checker falls too far behind: however long it runs, its records stay short.

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use cairn_record::{
    Follower,
    layout::{CONSUMED_OFFSET, READER_OFFSET, SEGMENT_BYTES},
};
use rustix::fs::{FallocateFlags, fallocate};

use super::{
    across::{self, RankCheck},
    process::{CheckedProcess, ProcessCheck, Rules},
};
use crate::recorded_run::{Running, Session};

/// How many bytes of a record may wait to be read before the program waits.
pub const BACKLOG: &str = "64mib";

/// How many entries are read at a time, before what was read is given back.
const ENTRIES: usize = 20_000;

/// How long to wait before records without anything new are looked at again.
const PAUSE: Duration = Duration::from_millis(5);

/// The processes of a program that runs.
pub struct LiveCheck<'a> {
    /// With the rank that the processes of each are.
    sessions: &'a [(Option<u32>, Session)],
    rules: &'a Rules,
    known: BTreeSet<PathBuf>,
    processes: Vec<LiveProcess<'a>>,
    across: RankCheck<'a>,
    printer: Printer,
}

struct LiveProcess<'a> {
    /// Its number in the check across ranks.
    number: usize,
    follower: Follower,
    check: ProcessCheck<'a>,
    /// Segments that were read to their end.
    consumed: u64,
}

impl<'a> LiveCheck<'a> {
    pub fn new(sessions: &'a [(Option<u32>, Session)], rules: &'a Rules) -> LiveCheck<'a> {
        LiveCheck {
            sessions,
            rules,
            known: BTreeSet::new(),
            processes: Vec::new(),
            across: RankCheck::new(rules),
            printer: Printer::new(sessions.len()),
        }
    }

    /// Follows the program to its end, and prints what is found on the way.
    pub fn run(mut self, program: &mut impl Running) -> Result<Vec<CheckedProcess>> {
        loop {
            let has_ended = program.wait(Some(Duration::ZERO))?;
            self.find_records();
            let is_behind = self.read(has_ended)?;
            if has_ended && !is_behind {
                return self.finish();
            }
            if !is_behind {
                program.wait(Some(PAUSE))?;
            }
        }
    }

    /// Opens the records of processes that have begun.
    fn find_records(&mut self) {
        for (rank, session) in self.sessions {
            for (path, _) in session.files() {
                if !self.known.contains(&path)
                    && let Ok(process) =
                        LiveProcess::open(&path, *rank, self.rules, &mut self.across)
                {
                    self.known.insert(path);
                    self.processes.push(process);
                }
            }
        }
    }

    /// Reads what is complete, or all if the program has ended; true if there is more.
    fn read(&mut self, has_ended: bool) -> Result<bool> {
        let mut is_behind = false;
        for process in &mut self.processes {
            match has_ended {
                true => process.follower.finish()?,
                false => process.follower.poll(now_ns())?,
            }
            is_behind |= process.read_some(&mut self.across);
            let text = process.check.new_findings();
            self.printer.print(process.check.title(), &text);
        }
        let stacks: Vec<_> = self.processes.iter().map(|it| it.check.stacks()).collect();
        self.printer.print(across::TITLE, &self.across.new_findings(&stacks));
        Ok(is_behind)
    }

    fn finish(mut self) -> Result<Vec<CheckedProcess>> {
        for LiveProcess { number, follower, check, .. } in &mut self.processes {
            follower.finish()?;
            check.end();
            if !follower.damage().is_empty() || follower.is_cut_short() {
                self.across.set_incomplete(*number);
            }
        }
        let (checks, followers): (Vec<_>, Vec<_>) =
            self.processes.into_iter().map(|it| (it.check, it.follower)).unzip();
        let found_across = self.across.finish(&checks);
        let mut checked = Vec::new();
        for (check, follower) in checks.into_iter().zip(followers) {
            let (process, text) = check.finish(follower.damage(), follower.is_cut_short());
            self.printer.print(&process.title, &text);
            checked.push(process);
        }
        self.printer.print(across::TITLE, &found_across);
        self.across.close(&mut checked);
        Ok(checked)
    }
}

impl<'a> LiveProcess<'a> {
    fn open(
        path: &Path,
        rank: Option<u32>,
        rules: &'a Rules,
        across: &mut RankCheck<'a>,
    ) -> Result<LiveProcess<'a>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let follower = Follower::new(file)?;
        let this_process = std::process::id().to_le_bytes();
        follower.source().write_all_at(&this_process, READER_OFFSET as u64)?;
        let check = ProcessCheck::new(follower.header(), rules, rank);
        let number = across.add_process(follower.header(), rank);
        Ok(LiveProcess { number, follower, check, consumed: 0 })
    }

    /// Reads some of what is complete; true if there is more.
    fn read_some(&mut self, across: &mut RankCheck<'_>) -> bool {
        for _ in 0..ENTRIES {
            match self.follower.next_entry() {
                Some(entry) => {
                    self.check.entry(&entry);
                    across.entry(self.number, &entry);
                }
                None => {
                    self.give_back();
                    return false;
                }
            }
        }
        self.give_back();
        true
    }

    /// Gives the disk space of segments that were read back. Where the file system cannot, they stay until the end.
    fn give_back(&mut self) {
        let done = self.follower.take_done();
        if done.is_empty() {
            return;
        }
        let file: &File = self.follower.source();
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for offset in &done {
            let _ = fallocate(file, hole, *offset, SEGMENT_BYTES as u64);
        }
        self.consumed += done.len() as u64;
        let _ = file.write_all_at(&self.consumed.to_le_bytes(), CONSUMED_OFFSET as u64);
    }
}

/// Prints findings of several processes as they come.
pub struct Printer {
    /// The process whose findings were printed last; `None` before the first.
    last: Option<String>,
    /// It is said of the first, too, whose findings they are.
    is_first_named: bool,
}

impl Printer {
    /// For this many programs or records.
    pub fn new(count: usize) -> Printer {
        Printer { last: None, is_first_named: count > 1 }
    }

    /// The report goes to stderr: stdout is the program's. At the latest from the second process on, it is said whose findings they are.
    pub fn print(&mut self, title: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let is_named = self.last.as_ref().map_or(self.is_first_named, |last| last != title);
        if is_named {
            eprintln!("{title}");
        }
        self.last = Some(title.to_owned());
        eprint!("{text}");
    }
}

/// The clock that records have.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
