//! The figures of an allocator on a trace: children run it, their records say what it took from devices.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use cairn_record::{
    Reader,
    entry::{Happening, UserCall},
    trace::Trace,
};
use serde_json::Value;

use super::times::Times;
use crate::{
    bench::{
        child::{self, Ending, Limits, Report, Work},
        spec::AllocatorSpec,
    },
    private_folder::PrivateFolder,
    text::{format_bytes, visible},
};

/// What an allocator did with a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The most that it had from devices, or from the system.
    pub peak_reserved: u64,
    /// The most that the trace held of it.
    pub peak_live: u64,
    /// How long it takes to take a block.
    pub alloc: Option<Times>,
    /// And to give one back.
    pub free: Option<Times>,
    /// Requests that it refused.
    pub failures: u64,
    /// The first of them.
    pub first_failure: Option<String>,
    /// The first block that shares bytes with another.
    pub overlap: Option<String>,
}

impl Figures {
    /// Reserved over live, where both are.
    pub fn ratio(&self) -> Option<f64> {
        let is_known = self.peak_live > 0 && self.peak_reserved > 0;
        is_known.then(|| self.peak_reserved as f64 / self.peak_live as f64)
    }

    /// That more was live than it had from devices: no pool of device memory can do that without overlaps.
    pub fn remark(&self) -> Option<String> {
        if self.peak_reserved >= self.peak_live || self.overlap.is_some() {
            return None;
        }
        let live = format_bytes(self.peak_live);
        Some(match self.peak_reserved {
            0 => format!(
                "its blocks are not device memory: {live} were live, and it had nothing from the devices"
            ),
            reserved => format!(
                "not all of its blocks are device memory: {live} were live, and it had {} from the devices at most",
                format_bytes(reserved)
            ),
        })
    }
}

/// The figures, or why there are none.
pub type Measured = Result<Figures, String>;

/// Traces in files, for children to read.
pub struct Setup {
    folder: PrivateFolder,
    /// Bytes that each device has; `None` for what the machine allows.
    pub device_memory: Option<u64>,
    /// How long a child may take.
    pub limits: Limits,
}

impl Setup {
    /// An empty folder.
    pub fn new(device_memory: Option<u64>, limits: Limits) -> Result<Setup> {
        Ok(Setup { folder: PrivateFolder::create()?, device_memory, limits })
    }

    /// Writes a trace where children find it.
    pub fn write(&self, name: &str, trace: &Trace) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        fs::write(&path, trace.to_string()).context("cannot write the trace for a child")?;
        Ok(path)
    }

    /// Runs an allocator on a trace.
    pub fn measure(&self, spec: &AllocatorSpec, trace: &Trace, file: &Path) -> Result<Measured> {
        let devices = trace.streams().iter().map(|(device, _)| device + 1).max().unwrap_or(1);
        let mut variables = vec![("CAIRN_DEVICES", devices.to_string())];
        if let Some(bytes) = self.device_memory {
            variables.push(("CAIRN_DEVICE_MEMORY", bytes.to_string()));
        }
        let work = |is_timed: bool| Work {
            spec,
            words: words(file, is_timed),
            variables: variables.clone(),
            is_recorded: !is_timed && *spec != AllocatorSpec::Malloc,
            limits: self.limits,
        };
        let report = child::run(&self.folder, &work(false))?;
        let Some(result) = report.result.as_ref().filter(|_| report.ending == Ending::Exited(0))
        else {
            return Ok(Err(why_not(&report)));
        };
        let mut figures = parse(result);
        match spec {
            AllocatorSpec::Malloc => {
                figures.peak_reserved = result["peak_reserved"].as_u64().unwrap_or(0);
            }
            _ => add_recorded(&mut figures, &report.record)?,
        }
        let _ = fs::remove_file(&report.record);
        if !matches!(spec, AllocatorSpec::Factory { .. }) {
            let report = child::run(&self.folder, &work(true))?;
            let Some(result) = report.result.as_ref() else { return Ok(Err(why_not(&report))) };
            figures.alloc = Times::parse(&result["alloc"]);
            figures.free = Times::parse(&result["free"]);
        }
        Ok(Ok(figures))
    }
}

fn words(file: &Path, is_timed: bool) -> Vec<OsString> {
    let mut words = vec!["replay".into(), "--trace".into(), file.as_os_str().to_owned()];
    if is_timed {
        words.push("--timed".into());
    }
    words
}

/// Why a child has no result: it said so itself, or it ended before.
fn why_not(report: &Report) -> String {
    let error = report.result.as_ref().and_then(|result| result["error"].as_str());
    visible(&error.map_or_else(|| report.describe_ending(), str::to_owned))
}

fn parse(result: &Value) -> Figures {
    let text = |name: &str| result[name].as_str().map(visible);
    Figures {
        peak_live: result["peak_live"].as_u64().unwrap_or(0),
        failures: result["failures"].as_u64().unwrap_or(0),
        first_failure: text("first_failure"),
        overlap: text("overlap"),
        ..Figures::default()
    }
}

/// What the record of a child says: how much it had from all devices at most, and how long callbacks took.
fn add_recorded(figures: &mut Figures, record: &Path) -> Result<()> {
    let reader = Reader::open(record);
    let reader = reader.map_err(|error| anyhow::anyhow!("the record of a child {error}"))?;
    let mut used: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut allocs, mut frees) = (Vec::new(), Vec::new());
    for entry in reader {
        match &entry.happening {
            Happening::Usage { device, used: bytes, .. } => {
                used.insert(*device, *bytes);
                figures.peak_reserved = figures.peak_reserved.max(used.values().sum());
            }
            Happening::Callback(callback) => {
                let ns = entry.time_ns.saturating_sub(callback.began_ns);
                match callback.request {
                    UserCall::Alloc(_) | UserCall::Advise(..) => allocs.push(ns),
                    UserCall::Free(_) => frees.push(ns),
                    // Asked of a block right after it was given.
                    UserCall::Address(_) => {
                        if let Some(last) = allocs.last_mut() {
                            *last += ns;
                        }
                    }
                }
            }
            _ => {}
        }
    }
    figures.alloc = Times::of(allocs);
    figures.free = Times::of(frees);
    Ok(())
}
