//! `cairn replay`: the requests of recorded programs on other allocators.

pub mod figures;
pub mod json;
pub mod requests;
pub mod rerun;
pub mod text;
pub mod times;

#[cfg(test)]
mod tests;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow, ensure};
use cairn_record::{
    ReadError, Reader,
    trace::{Trace, TraceError},
};
use cairn_runtime::config::parse_bytes;

use crate::{
    bench::{
        child::{Limits, parse_seconds},
        spec::AllocatorSpec,
        step_bar::StepBar,
    },
    show,
};
use figures::{Measured, Setup};
use requests::Selection;

/// What `cairn replay` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Records (docs/record.md), or plain traces: lines `a ID BYTES [STREAM [DEVICE]]` and `f ID [STREAM]`
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// cairn, malloc, so:LIB[:MALLOC:FREE], ge:LIB:FACTORY or acl:LIB:FACTORY; may be given again. cairn and malloc when not given
    #[arg(long = "allocator", value_name = "SPEC")]
    allocators: Vec<AllocatorSpec>,
    /// Which requests of a record are replayed
    #[arg(long, value_enum, default_value_t = Selection::Auto)]
    requests: Selection,
    /// Memory of each device, such as 32gib: what the record's had when not given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    device_memory: Option<u64>,
    /// Seconds that an allocator may take for a file
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = parse_seconds)]
    limit: u64,
    /// Seconds without any use of the processor after which it is said to hang
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = parse_seconds)]
    idle_limit: u64,
    /// End with 1 if a library's allocator refuses a request, gives blocks that are not device memory, or reserves more than
    /// this many times what is live, such as 1.5
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio)]
    fail_above: Option<f64>,
    /// Write the requests of a record to this file as a plain trace
    #[arg(long, value_name = "FILE")]
    write_trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A file and what allocators did with it.
pub struct Replayed {
    /// The file.
    pub file: String,
    /// What its requests are; `None` for a plain trace.
    pub selection: Option<Selection>,
    /// Requests for blocks.
    pub takes: usize,
    /// Blocks that are given back.
    pub frees: usize,
    /// Streams.
    pub streams: usize,
    /// The most that is live.
    pub peak_live: u64,
    /// Whether entries of the record are missing.
    pub is_damaged: bool,
    /// The most that libraries' allocators may reserve for a byte that is live.
    pub max_ratio: Option<f64>,
    /// By allocator.
    pub allocators: Vec<(AllocatorSpec, Measured)>,
}

impl Replayed {
    /// What is wrong with an allocator: it did not come to the end, two blocks overlap, or it is worse than it may be.
    fn fault(&self, spec: &AllocatorSpec, measured: &Measured) -> Option<String> {
        let figures = match measured {
            Err(reason) => return Some(reason.clone()),
            Ok(figures) => figures,
        };
        let max_ratio = self.max_ratio.filter(|_| spec.library().is_some());
        let is_above = |ratio: f64| max_ratio.is_some_and(|max| ratio > max);
        let ratio = figures.ratio().filter(|ratio| is_above(*ratio));
        figures
            .overlap
            .clone()
            .or_else(|| {
                let failures = figures.failures;
                (max_ratio.is_some() && failures > 0).then(|| format!("{failures} requests failed"))
            })
            .or_else(|| figures.remark().filter(|_| max_ratio.is_some()))
            .or_else(|| {
                let (ratio, max) = (ratio?, max_ratio?);
                Some(format!(
                    "it reserves {ratio:.3} times what is live, and more than {max} is too much"
                ))
            })
    }
}

/// The requests of a file.
struct Source {
    trace: Trace,
    selection: Option<Selection>,
    capacity: Option<u64>,
    is_damaged: bool,
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse::<f64>().ok().filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    ratio.ok_or_else(|| format!("`{text}` is no ratio, such as 1.5"))
}

fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("`{text}` is no size, such as 512mib or 32gib"))
}

/// Replays every file on every allocator.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut allocators = arguments.allocators.clone();
    if allocators.is_empty() {
        allocators = vec![AllocatorSpec::Cairn, AllocatorSpec::Malloc];
    }
    let allocators: Vec<_> = allocators.into_iter().map(AllocatorSpec::resolved).collect();
    let bar = StepBar::new(arguments.files.len() * (1 + allocators.len()));
    let mut sources: Vec<(&PathBuf, Source)> = Vec::new();
    for file in &arguments.files {
        bar.begin(&format!("reading {}", file.display()));
        sources.push((file, read(file, arguments.requests)?));
        bar.end();
    }
    if let Some(path) = &arguments.write_trace {
        ensure!(sources.len() == 1, "--write-trace takes the requests of one file");
        fs::write(path, sources[0].1.trace.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut replayed = Vec::new();
    for (file, source) in &sources {
        let memory = arguments.device_memory.or(source.capacity);
        let setup = Setup::new(memory, Limits::of_seconds(arguments.limit, arguments.idle_limit))?;
        let trace = &source.trace;
        let written = setup.write("requests.trc", trace)?;
        let mut measured = Vec::new();
        for allocator in &allocators {
            bar.begin(&format!("{} on {}", file.display(), allocator.label()));
            measured.push((allocator.clone(), setup.measure(allocator, trace, &written)?));
            bar.end();
        }
        replayed.push(Replayed {
            file: file.display().to_string(),
            selection: source.selection,
            takes: trace.blocks(),
            frees: trace.requests().len() - trace.blocks(),
            streams: trace.streams().len(),
            peak_live: trace.peak_live(),
            is_damaged: source.is_damaged,
            max_ratio: arguments.fail_above,
            allocators: measured,
        });
    }
    drop(bar);
    show(&match arguments.json {
        true => json::render(&replayed),
        false => text::render(&replayed),
    });
    let has_failed = replayed.iter().any(|one| {
        one.allocators.iter().any(|(spec, measured)| one.fault(spec, measured).is_some())
    });
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads a record or a plain trace, whichever it is.
fn read(file: &Path, selection: Selection) -> Result<Source> {
    let shown = file.display();
    let open = || Reader::open(file).map_err(|error| anyhow!("{shown} {error}"));
    match Reader::open(file) {
        Ok(_) => {
            let requests = requests::read(open, selection).with_context(|| shown.to_string())?;
            ensure!(requests.trace.blocks() > 0, "{shown} {}", requests.why_none(selection));
            Ok(Source {
                trace: requests.trace,
                selection: Some(requests.selection),
                capacity: Some(requests.capacity).filter(|bytes| *bytes > 0),
                is_damaged: requests.is_damaged,
            })
        }
        Err(ReadError::Foreign) => {
            let trace = read_trace(file)?;
            Ok(Source { trace, selection: None, capacity: None, is_damaged: false })
        }
        Err(error) => Err(anyhow!("{shown} {error}")),
    }
}

/// Reads a plain trace.
pub fn read_trace(file: &Path) -> Result<Trace> {
    let shown = file.display();
    let neither = "is neither a record (`cairn record` makes one) nor a plain trace";
    let bytes = fs::read(file).with_context(|| format!("cannot read {shown}"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{shown} {neither}: it is no text"))?;
    let trace =
        Trace::parse(&text).map_err(|error: TraceError| anyhow!("{shown} {neither}: {error}"))?;
    ensure!(trace.blocks() > 0, "{shown} {neither}: it has no requests");
    Ok(trace)
}
