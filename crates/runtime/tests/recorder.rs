//! The record of a runtime, read back.
#![cfg(not(feature = "shuttle"))]

use cairn_record::entry::{Change, Happening, TaskKind};
use cairn_record::layout::{CONSUMED_OFFSET, HEADER_BYTES, READER_OFFSET, SEGMENT_BYTES, Segment};
use cairn_record::{Entry, Follower, Reader};
use cairn_runtime::record::file::RecordSettings;
use cairn_runtime::record::recorder::Recorder;
use cairn_runtime::record::{Event, Kind, Spine};
use cairn_runtime::task::{Body, Task};
use std::fs;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

mod support;
use support::*;

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("cairn-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn settings(&self, session: &str) -> RecordSettings {
        let path = self.0.join("run.cairn").to_str().unwrap().to_owned();
        RecordSettings { path, session: session.into(), stacks: false, backlog: 0 }
    }

    fn read(&self) -> Vec<Entry<'static>> {
        let mut reader = Reader::open(&self.0.join("run.cairn")).unwrap();
        let entries = reader.by_ref().collect();
        assert_eq!(reader.damage(), []);
        entries
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_happens_is_read_back_in_order() {
    let folder = Folder::new("record");
    let runtime = start_runtime(2, |config| config.record = Some(folder.settings("")));
    runtime.set_device(0).unwrap();
    let stream = runtime.new_stream();
    for _ in 0..100 {
        stream.submit(Task::bare("step", Body::Nothing)).unwrap();
    }
    runtime.synchronize(&stream, None).unwrap();
    let entries = folder.read();
    assert!(entries.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    let position = |what: &dyn Fn(&Happening<'_>) -> bool| {
        entries.iter().position(|entry| what(&entry.happening)).expect("it was recorded")
    };
    let created = position(
        &|h| matches!(h, Happening::Stream { change: Change::Created, stream: s, .. } if *s == stream.index),
    );
    let submits: Vec<_> = (entries.iter())
        .filter_map(|entry| match &entry.happening {
            Happening::Submit { seq, name, task, .. } if &**name == "step" => Some((*seq, *task)),
            _ => None,
        })
        .collect();
    assert_eq!(submits, (1..=100).map(|seq| (seq, TaskKind::Nothing)).collect::<Vec<_>>());
    let ends = entries.iter().filter(|e| matches!(e.happening, Happening::End { .. })).count();
    assert_eq!(ends, 100);
    let last_end = entries.iter().rposition(|e| matches!(e.happening, Happening::End { .. }));
    let synchronized = position(&|h| matches!(h, Happening::Synchronize { .. }));
    assert!(created < synchronized && last_end.unwrap() < synchronized);
    let mode = fs::metadata(folder.0.join("run.cairn")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn threads_have_chains_of_their_own_and_long_entries_go_on() {
    let folder = Folder::new("chains");
    let spine = Arc::new(Spine::default());
    let recorder = Recorder::create(&folder.settings("")).unwrap();
    spine.subscribe(Arc::new(recorder), &Recorder::KINDS).unwrap();
    let emit = |base: usize| {
        for length in 0..200 {
            let regions: Vec<usize> = (0..length * 40).map(|i| base + i * 4096).collect();
            let run = || Event::Run { plan: base as u64, stream: 0, seq: None, regions: &regions };
            spine.emit(Kind::Run, run);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| emit(1 << 30));
        emit(1 << 20);
    });
    let mut lengths = [0, 0];
    for entry in folder.read() {
        let Happening::Run { plan, regions, .. } = entry.happening else { panic!("{entry:?}") };
        let length = &mut lengths[usize::from(plan == 1 << 30)];
        assert_eq!(regions.len(), *length * 40);
        assert!(regions.iter().enumerate().all(|(i, &at)| at as u64 == plan + i as u64 * 4096));
        *length += 1;
    }
    assert_eq!(lengths, [200, 200]);
}

#[test]
fn processes_of_one_session_do_not_overwrite_each_other() {
    let folder = Folder::new("session");
    let create = |session: &str| drop(Recorder::create(&folder.settings(session)).unwrap());
    let files = || fs::read_dir(&folder.0).unwrap().count();
    create("");
    create("");
    assert_eq!(files(), 1, "without a session the last run counts");
    create("a");
    assert_eq!(files(), 1, "another run's file is overwritten");
    create("a");
    create("a");
    assert_eq!(files(), 3);
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = Folder::new("missing");
    let settings = |path: &str| RecordSettings {
        path: path.into(),
        session: String::new(),
        stacks: false,
        backlog: 0,
    };
    let refused = |path: &str| Recorder::create(&settings(path)).err().unwrap().text;
    let missing = folder.0.join("none/run.cairn");
    assert!(refused(missing.to_str().unwrap()).contains("none/run.cairn"));
    let other = folder.0.join("notes.txt");
    fs::write(&other, "not a record").unwrap();
    assert!(refused(other.to_str().unwrap()).contains("it exists and is not a record"));
    assert_eq!(fs::read(&other).unwrap(), b"not a record");
    let link = folder.0.join("link");
    std::os::unix::fs::symlink(folder.0.join("target"), &link).unwrap();
    assert!(refused(link.to_str().unwrap()).contains("cannot be written"));
    assert!(!folder.0.join("target").exists());
}

/// The time of the clock that events have.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Emits the numbers of a counter that threads share, each under a lock: their order is that of time.
fn emit_numbers(spine: &Spine, counter: &Mutex<u64>, count: u64) {
    for _ in 0..count {
        let mut number = counter.lock().unwrap();
        spine.emit(Kind::Unload, || Event::Unload { loaded: *number });
        *number += 1;
    }
}

fn number(entry: &Entry<'_>) -> u64 {
    let Happening::Unload { loaded } = entry.happening else { panic!("{entry:?}") };
    loaded
}

#[test]
fn a_record_is_read_in_order_while_threads_write() {
    let folder = Folder::new("follow");
    let spine = Spine::default();
    let recorder = Recorder::create(&folder.settings("")).unwrap();
    spine.subscribe(Arc::new(recorder), &Recorder::KINDS).unwrap();
    let mut follower = Follower::open(&folder.0.join("run.cairn")).unwrap();
    let (counter, has_read_enough) = (Mutex::new(0), AtomicBool::new(false));
    let mut next = 0;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !has_read_enough.load(Ordering::Relaxed) {
                    emit_numbers(&spine, &counter, 1000);
                }
            });
        }
        while next < 100_000 {
            follower.poll(now_ns()).unwrap();
            while let Some(entry) = follower.next_entry() {
                assert_eq!(number(&entry), next);
                next += 1;
            }
        }
        has_read_enough.store(true, Ordering::Relaxed);
    });
    follower.finish().unwrap();
    while let Some(entry) = follower.next_entry() {
        assert_eq!(number(&entry), next);
        next += 1;
    }
    follower.finish().unwrap();
    assert_eq!(follower.damage(), []);
    assert_eq!(next, *counter.lock().unwrap());
}

#[test]
fn threads_wait_for_a_reader_that_is_behind_while_it_lives() {
    const BACKLOG: u64 = 4 * SEGMENT_BYTES as u64;
    let folder = Folder::new("backlog");
    let settings = RecordSettings { backlog: BACKLOG, ..folder.settings("") };
    let spine = Spine::default();
    spine.subscribe(Arc::new(Recorder::create(&settings).unwrap()), &Recorder::KINDS).unwrap();
    let path = folder.0.join("run.cairn");
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let set_reader =
        |pid: u32| file.write_all_at(&pid.to_le_bytes(), READER_OFFSET as u64).unwrap();
    set_reader(std::process::id());
    let mut follower = Follower::open(&path).unwrap();
    let counter = Mutex::new(0);
    let segments = || {
        let bytes = fs::read(&path).unwrap();
        let chunks = bytes[HEADER_BYTES..].chunks(SEGMENT_BYTES);
        chunks.filter(|chunk| Segment::decode(chunk).is_some()).count() as u64
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| emit_numbers(&spine, &counter, 200_000));
        let (mut consumed, mut next) = (0u64, 0);
        while !thread.is_finished() && next < 150_000 {
            assert!(segments() - consumed <= BACKLOG / SEGMENT_BYTES as u64 + 2);
            follower.poll(now_ns()).unwrap();
            while let Some(entry) = follower.next_entry() {
                assert_eq!(number(&entry), next);
                next += 1;
            }
            consumed += follower.take_done().len() as u64;
            file.write_all_at(&consumed.to_le_bytes(), CONSUMED_OFFSET as u64).unwrap();
        }
        // A process that has ended: the thread goes on without it.
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        set_reader(gone.id());
        thread.join().unwrap();
    });
    assert_eq!(folder.read().len(), 200_000);
}

#[test]
fn a_record_that_could_not_grow_says_so() {
    let folder = Folder::new("cut");
    // It lasts as long as the process, as everywhere: its descriptor is not its own to close any more.
    let spine = Box::leak(Box::new(Spine::default()));
    let path = folder.0.join("run.cairn");
    let recorder = Recorder::create(&folder.settings("")).unwrap();
    spine.subscribe(Arc::new(recorder), &Recorder::KINDS).unwrap();
    spine.emit(Kind::Exit, || Event::Exit);
    assert!(!Reader::open(&path).unwrap().is_cut_short());
    // Another file takes its place, and its descriptor cannot be used any more: it cannot grow.
    let kept = folder.0.join("kept.cairn");
    fs::rename(&path, &kept).unwrap();
    fs::write(&path, "another").unwrap();
    close_descriptors_of(&kept);
    emit_numbers(spine, &Mutex::new(0), 1_000_000);
    let mut reader = Reader::open(&kept).unwrap();
    assert!(reader.is_cut_short());
    assert!(reader.by_ref().count() > 10_000);
    assert_eq!(reader.damage(), []);
}

/// Closes this process's descriptors of a file, as a program that closes all of them does.
fn close_descriptors_of(path: &Path) {
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        if fs::read_link(entry.path()).is_ok_and(|target| target == path) {
            let number = entry.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: nothing in this test uses the descriptor, and the recorder expects that it may be closed.
            drop(unsafe { std::os::fd::OwnedFd::from_raw_fd(number) });
        }
    }
}
