//! What a record costs: nanoseconds and bytes an event, in the sink alone and through the C API.

use crate::acl::Acl;
use crate::measure::{Figure, Report, time_batches};
use cairn_check::{Checker, Tool};
use cairn_record::Reader;
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::record::event::MemoryKind;
use cairn_runtime::record::file::RecordSettings;
use cairn_runtime::record::recorder::Recorder;
use cairn_runtime::record::{Event, Kind, Spine, site};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Arc;

const BATCHES: usize = 200;
/// Allocations, each with its free, or tasks of a batch.
const OPERATIONS: usize = 500;
const GOAL: &str = "at most 50 ns an event";

/// Measures and writes `record.json` below `out`.
pub fn run(out: &Path) -> std::io::Result<()> {
    let mut report = Report::new();
    let folder = std::env::temp_dir().join(format!("cairn-bench-record-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    sink(&mut report, &folder.join("sink.cairn"));
    match std::env::var_os("CAIRN_TOOLKIT") {
        Some(toolkit) => door(&mut report, &PathBuf::from(toolkit), &folder),
        None => println!("without CAIRN_TOOLKIT: the C API is not measured"),
    }
    std::fs::remove_dir_all(&folder)?;
    report.write(&out.join("record.json"))
}

/// Events straight into the sink.
fn sink(report: &mut Report, path: &Path) {
    let spine = Spine::default();
    let allocate_and_free = || {
        site::enter("aclrtMalloc", || {
            for number in 0..OPERATIONS {
                let (kind, address) = (MemoryKind::Device(0), 0x7000_0000_0000 + number * 4096);
                let (bytes, owner) = (4096, Owner::default());
                let alloc = Event::Alloc {
                    kind,
                    address,
                    bytes,
                    purpose: Purpose::User,
                    owner,
                    stream: None,
                };
                spine.emit(Kind::Alloc, || alloc);
                spine.emit(Kind::Free, || Event::Free { kind, address, bytes, stream: None });
            }
        });
    };
    let off = time_batches(BATCHES, 2 * OPERATIONS, || (), allocate_and_free);
    report.single("an event, nobody listens", off, "a load");
    let settings = RecordSettings {
        path: path.to_string_lossy().into_owned(),
        session: String::new(),
        stacks: false,
        backlog: 0,
    };
    let recorder = Recorder::create(&settings).expect("the record can be written");
    spine.subscribe(Arc::new(recorder), &Recorder::KINDS).expect("a sink");
    let on = time_batches(BATCHES, 2 * OPERATIONS, || (), allocate_and_free);
    report.single("an event, recorded", on, GOAL);
    let (entries, bytes) = entries_and_bytes(path);
    report.number("bytes of such an event", bytes as f64 / entries as f64, "bytes");
    read(report, path, entries);
}

/// A record that exists: read, and checked.
fn read(report: &mut Report, path: &Path, entries: usize) {
    let open = || Reader::open(path).expect("a record");
    let read = time_batches(5, entries, || (), || assert_eq!(open().count(), entries));
    report.single("an entry, read", read, "-");
    let check = || {
        let mut checker = Checker::new(&Tool::DEFAULT);
        open().for_each(|entry| checker.entry(&entry));
        assert_eq!(checker.findings().list().len(), 0);
    };
    report.single("an entry, read and checked", time_batches(5, entries, || (), check), "-");
}

/// Programs on the C API, one process each: not recorded, recorded, recorded with stacks.
fn door(report: &mut Report, toolkit: &Path, folder: &Path) {
    let this = std::env::current_exe().expect("the path of this program");
    let measure = |name: &str, stacks: Option<&str>| {
        let path = folder.join(format!("{name}.cairn"));
        let mut command = Command::new(&this);
        command.arg("record-child").env("CAIRN_TOOLKIT", toolkit);
        command.env_remove("CAIRN_RECORD");
        if let Some(stacks) = stacks {
            command.env("CAIRN_RECORD", &path).env("CAIRN_RECORD_STACKS", stacks);
        }
        let output = command.output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = || panic!("{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let [best, median] = numbers[..] else { error() };
        (Figure { best, median }, stacks.map(|_| entries_and_bytes(&path)))
    };
    let (off, _) = measure("off", None);
    report.single("malloc, memset, synchronize, free; off", off, "-");
    for (name, stacks) in [("recorded", "0"), ("with stacks", "1")] {
        let (on, written) = measure(name, Some(stacks));
        report.single(&format!("the same, {name}"), on, "5 % of a model");
        let (entries, bytes) = written.expect("it was recorded");
        let events = entries as f64 / (BATCHES * OPERATIONS) as f64;
        report.number("  events of each", events, "");
        report.number("  time of an event", (on.best - off.best) / events, "ns");
        report.number("  bytes of an event", bytes as f64 / entries as f64, "bytes");
    }
    let checked = checked(&this, toolkit);
    report.compare("the same, checked while it runs", checked, "off", off, "at most 10x");
}

/// The same program under the checker.
fn checked(this: &Path, toolkit: &Path) -> Figure {
    let mut command = Command::new(toolkit.join("bin/cairn"));
    command.args(["check", "--"]).arg(this).arg("record-child");
    command.env("CAIRN_TOOLKIT", toolkit).env("CAIRN_BENCH_LONG", "1");
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [best, median] = numbers[..] else {
        panic!("{text}{}", String::from_utf8_lossy(&output.stderr))
    };
    Figure { best, median }
}

/// What each of the processes does; prints nanoseconds of the best batch and of the one in the middle.
pub fn child() {
    let toolkit = std::env::var_os("CAIRN_TOOLKIT").expect("CAIRN_TOOLKIT names the toolkit");
    let acl = Acl::load(&PathBuf::from(toolkit));
    let mut stream: *mut c_void = null_mut();
    // SAFETY: calls as the headers declare them.
    let codes = unsafe { [(acl.set_device)(0), (acl.create_stream)(&mut stream)] };
    assert_eq!(codes, [0, 0]);
    // Long enough for the checker to fall behind, if it does.
    let batches =
        if std::env::var_os("CAIRN_BENCH_LONG").is_some() { 20 * BATCHES } else { BATCHES };
    let figure = time_batches(
        batches,
        OPERATIONS,
        || (),
        || {
            for _ in 0..OPERATIONS {
                let mut memory: *mut c_void = null_mut();
                // SAFETY: calls as the headers declare them; the memory is the program's between them.
                let codes = unsafe {
                    [
                        (acl.malloc)(&mut memory, 4096, 0),
                        (acl.memset_async)(memory, 4096, 1, 4096, stream),
                        (acl.synchronize)(stream),
                        (acl.free)(memory),
                    ]
                };
                assert_eq!(codes, [0; 4]);
            }
        },
    );
    println!("{} {}", figure.best, figure.median);
}

/// Entries of a record, and the bytes that they take.
fn entries_and_bytes(path: &Path) -> (usize, u64) {
    use cairn_record::layout::{HEADER_BYTES, SEGMENT_BYTES, Segment};
    let bytes = std::fs::read(path).expect("the record can be read");
    let segments = bytes[HEADER_BYTES..].chunks(SEGMENT_BYTES).filter_map(Segment::decode);
    let used = segments.map(|segment| u64::from(segment.used)).sum();
    (Reader::new(&bytes[..]).expect("a record").count(), used)
}
