//! `cargo xtask bench memory`: the pool beside other allocators, in one run.
//!
//! Speed: slices of all candidates in turn over the same sequences ([`interleave`], [`speed`]). Memory:
//! recorded programs and a pattern that made other pools grow ([`efficiency`]). Goals stand beside the
//! figures and fail nothing ([`goals`]).

mod available;
mod c_door;
mod candidate;
mod churn;
mod efficiency;
mod floor;
mod goals;
mod handed;
mod interleave;
mod mapping;
mod measured;
mod peers;
mod pool;
mod runtime_pool;
mod sequence;
mod speed;
mod streams;
mod table;
mod trace;
mod worker;

use available::{AvailablePeers, POOL};
use efficiency::{Growth, TraceResult};
use goals::Goals;
use serde_json::json;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use streams::Streams;
use table::Table;
use worker::Worker;

/// Runs all and writes `memory.json` into `out`.
pub fn run(out: &Path) -> Result<()> {
    let exporter = mapping::Exporter::start()?;
    mapping::run(out, &exporter)?;
    drop(exporter);
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let project = package.parent().expect("benches lies in the project");
    let mut available = AvailablePeers::gather();
    let found = trace::all(project).map_err(Error::other)?;
    available.absent.extend(found.absent);
    available.absent.iter().for_each(|what| println!("absent: {what}"));

    let worker = Rc::new(Worker::start());
    let mut table = Table::default();
    speed::run(&available, &worker, &mut table);
    let streams = Streams::measure(worker, speed::LENGTH, speed::PAIRED);
    table.print();
    println!("\nfreed by another thread on another stream: {:.1} ns", streams.handed.best);

    let rows: Vec<TraceResult> =
        found.traces.iter().map(|t| efficiency::replay(&available, t)).collect();
    let trims: Vec<_> = found.traces.iter().map(efficiency::trim).collect();
    let growth = efficiency::growth(&available);
    print_memory(&rows, &growth);

    let mut goals = Goals::default();
    goals.speed(&table, &streams);
    goals.memory(&rows, &growth, &trims);
    println!();
    goals.print();

    std::fs::create_dir_all(out)?;
    let all = json!({
        "absent": available.absent, "onnxruntime": available.ort.as_ref().map(|ort| &ort.version),
        "speed": table.json(), "streams": streams.json(),
        "memory": efficiency::json(&rows, &growth, &trims), "goals": goals.json(),
    });
    std::fs::write(out.join("memory.json"), serde_json::to_string_pretty(&all)? + "\n")
}

/// Runs the recorded programs only, and prints what each allocator reserved for them.
pub fn run_traces() -> Result<()> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let available = AvailablePeers::gather();
    let found = trace::all(package.parent().expect("benches lies in the project"));
    let found = found.map_err(Error::other)?;
    let rows: Vec<TraceResult> =
        found.traces.iter().map(|t| efficiency::replay(&available, t)).collect();
    print_memory(&rows, &efficiency::growth(&available));
    Ok(())
}

fn print_memory(rows: &[TraceResult], growth: &Growth) {
    const MIB: f64 = (1 << 20) as f64;
    print!("\n{:<26} {:>9}", "peak reserved / live", "MiB live");
    growth.reserved.iter().for_each(|(name, _)| print!(" {name:>18}"));
    println!();
    let line = |what: &str, live: u64, reserved: &[(&str, u64)]| {
        print!("{what:<26} {:>9.1}", live as f64 / MIB);
        reserved.iter().for_each(|(_, bytes)| print!(" {:>18.3}", *bytes as f64 / live as f64));
        println!();
    };
    rows.iter().for_each(|row| line(&row.trace, row.peak_live, &row.reserved));
    line("fragmenting pattern, end", growth.live, &growth.reserved);
    println!(
        "after a trim the {POOL} reserves {:.3} x the live bytes",
        growth.reserved_after_trim as f64 / growth.live as f64
    );
}
