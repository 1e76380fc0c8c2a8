//! The record of a runtime, read back.
#![cfg(not(feature = "shuttle"))]

use cairn_record::entry::{Change, Happening, TaskKind};
use cairn_record::{Entry, Reader};
use cairn_runtime::record::file::RecordSettings;
use cairn_runtime::record::recorder::Recorder;
use cairn_runtime::record::{Event, Kind, Spine};
use cairn_runtime::task::{Body, Task};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

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
    let settings =
        |path: &str| RecordSettings { path: path.into(), session: String::new(), stacks: false, backlog: 0 };
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
