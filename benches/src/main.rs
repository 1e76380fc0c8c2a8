//! `cargo xtask bench NAME`: Cairn compared with other implementations, in one run.

#![allow(missing_docs)]

mod acl;
#[cfg(feature = "graphs")]
mod graph;
mod measure;
mod memory;
mod models;
mod ort;
mod record;

use acl::Acl;
use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::event::{Kind, flag};
use cairn_runtime::task::{Body, Task};
use measure::{Figure, Report, time_batches};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

fn main() -> std::io::Result<()> {
    let out =
        PathBuf::from(std::env::var_os("CAIRN_BENCH_OUT").unwrap_or_else(|| "target/bench".into()));
    match std::env::args().nth(1).as_deref() {
        None | Some("runtime") => runtime(&out),
        Some("memory") => memory::run(&out),
        Some("memory-traces") => memory::run_traces(),
        #[cfg(feature = "graphs")]
        Some("graph") => graph::run(&out),
        Some("models") => models::run(&out),
        Some("models-engine") => models::serve(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("record") => record::run(&out),
        Some("record-child") => {
            record::child();
            Ok(())
        }
        Some(other) => {
            panic!("no bench is named {other}: there are runtime, memory, record, graph, models")
        }
    }
}

/// The runtime compared with crossbeam, glibc and memcpy.
fn runtime(out: &Path) -> std::io::Result<()> {
    let toolkit =
        PathBuf::from(std::env::var_os("CAIRN_TOOLKIT").expect("CAIRN_TOOLKIT names the toolkit"));
    let mut report = Report::new();
    engine(&mut report);
    door(&mut report, &Acl::load(&toolkit));
    report.write(&out.join("runtime.json"))
}

/// Empty tasks, which the C API cannot submit: straight to the engine.
fn engine(report: &mut Report) {
    let runtime = Runtime::start(Config::from_env().expect("the settings are valid"))
        .expect("the runtime starts");
    runtime.set_device(0).expect("device 0");
    let stream = || {
        runtime
            .stream(runtime.create_stream(0, 0).expect("a stream can be created"))
            .expect("a stream")
    };
    let (a, b) = (stream(), stream());
    let empty = || Task::bare("empty", Body::Nothing);

    let submit = time_batches(
        400,
        200,
        || {
            a.synchronize(None).expect("the tasks succeed");
            a.submit(empty()).expect("the stream takes tasks");
        },
        || {
            (0..200).for_each(|_| {
                a.submit(empty()).expect("the stream takes tasks");
            })
        },
    );
    report.single("submit an empty task, worker awake", submit, "at most 100 ns");

    a.synchronize(None).expect("the tasks succeed");
    let round = time_batches(
        400,
        100,
        || (),
        || {
            for _ in 0..100 {
                a.submit(empty()).expect("the stream takes tasks");
                a.synchronize(None).expect("the tasks succeed");
            }
        },
    );
    report.compare(
        "submit to complete, caller waits",
        round,
        "crossbeam round trip",
        crossbeam_round_trip(),
        "at most 1.5x",
    );

    let event = runtime
        .event(runtime.create_event(Kind::Ex, flag::SYNC).expect("an event can be created"))
        .expect("an event can be created");
    let hand_over = time_batches(
        200,
        100,
        || (),
        || {
            for _ in 0..100 {
                event.record(&a).expect("the event can be recorded");
                event.wait(&b, std::time::Duration::ZERO).expect("the stream takes tasks");
            }
            b.synchronize(None).expect("the tasks succeed");
        },
    );
    report.single("record on one stream, wait on another", hand_over, "-");
    runtime.shared.scheduler.stop();
}

fn crossbeam_round_trip() -> Figure {
    let (tx, rx) = crossbeam_channel::bounded::<u64>(64);
    let (echo_tx, echo_rx) = crossbeam_channel::bounded::<u64>(64);
    let echo = std::thread::spawn(move || {
        for value in rx {
            echo_tx.send(value).expect("the receiver is alive");
        }
    });
    let figure = time_batches(
        400,
        100,
        || (),
        || {
            for value in 0..100 {
                tx.send(value).expect("the echo thread is alive");
                echo_rx.recv().expect("the echo thread is alive");
            }
        },
    );
    drop(tx);
    echo.join().expect("the echo thread does not panic");
    figure
}

/// The C functions that programs call.
fn door(report: &mut Report, acl: &Acl) {
    let ok = |code: i32| assert_eq!(code, 0);
    // SAFETY: calls of the C interface with valid arguments, throughout this function.
    unsafe {
        ok((acl.set_device)(0));
        let mut streams: Vec<*mut c_void> = vec![null_mut(); 1000];
        let mut created = Vec::new();
        for _ in 0..10 {
            let start = std::time::Instant::now();
            streams.iter_mut().for_each(|s| ok((acl.create_stream)(s)));
            created.push(start.elapsed().as_nanos() as f64);
            streams.iter().for_each(|s| ok((acl.destroy_stream)(*s)));
        }
        created.sort_by(f64::total_cmp);
        report.single(
            "1,000 streams created",
            Figure { best: created[0], median: created[5] },
            "at most 10 ms",
        );

        let mut stream = null_mut();
        ok((acl.create_stream)(&mut stream));
        copies(report, acl, stream);

        for size in [512usize, 64 << 10, 1 << 20, 32 << 20] {
            let pairs = if size > 1 << 20 { 8 } else { 64 };
            let ours = time_batches(
                100,
                pairs,
                || ok((acl.synchronize)(stream)),
                || {
                    for _ in 0..pairs {
                        let mut p = null_mut();
                        ok((acl.malloc)(&mut p, size, 2));
                        ok((acl.free)(p));
                    }
                },
            );
            let theirs = time_batches(
                100,
                pairs,
                || (),
                || {
                    for _ in 0..pairs {
                        let p = libc::malloc(size);
                        std::hint::black_box(p);
                        libc::free(p);
                    }
                },
            );
            report.compare(&format!("malloc + free, {}", bytes(size)), ours, "glibc", theirs, "");
        }
    }
}

/// # Safety
/// `stream` is live.
unsafe fn copies(report: &mut Report, acl: &Acl, stream: *mut c_void) {
    let ok = |code: i32| assert_eq!(code, 0);
    const MAX_SIZE: usize = 256 << 20;
    // SAFETY: calls of the C interface on memory that it gave out; memcpy within the same bounds.
    unsafe {
        let (mut device, mut host, mut memcpy_dst) = (null_mut(), null_mut(), null_mut());
        ok((acl.malloc)(&mut device, MAX_SIZE, 0));
        ok((acl.malloc_host)(&mut host, MAX_SIZE));
        ok((acl.malloc)(&mut memcpy_dst, MAX_SIZE, 0));
        for p in [device, host, memcpy_dst] {
            ok((acl.memset_async)(p, MAX_SIZE, 1, MAX_SIZE, stream));
        }
        ok((acl.synchronize)(stream));
        for size in [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20] {
            let rounds = ((64 << 20) / size).clamp(1, 64);
            let count = if size > 64 << 20 { 12 } else { 60 };
            let ours = time_batches(
                count,
                rounds,
                || (),
                || {
                    for _ in 0..rounds {
                        ok((acl.memcpy_async)(device, size, host, size, 1, stream));
                    }
                    ok((acl.synchronize)(stream));
                },
            );
            let theirs = time_batches(
                count,
                rounds,
                || (),
                || {
                    for _ in 0..rounds {
                        libc::memcpy(memcpy_dst, host, size);
                        std::hint::black_box(memcpy_dst);
                    }
                },
            );
            let goal = if size >= 1 << 20 { "at most 1.05x (0.95 of the speed)" } else { "" };
            report.compare(&format!("async copy, {}", bytes(size)), ours, "memcpy", theirs, goal);
        }
        ok((acl.free)(device));
        ok((acl.free)(memcpy_dst));
    }
}

fn bytes(n: usize) -> String {
    match n {
        n if n >= 1 << 20 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}
