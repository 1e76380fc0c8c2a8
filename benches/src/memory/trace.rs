//! Recorded programs, as plain traces ([`cairn_record::trace`]).

use cairn_record::trace::{self, Request};
use std::path::{Path, PathBuf};

/// One request of a trace. Blocks are numbered from 0 in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block of this many bytes is taken.
    Take(usize, u64),
    /// It is given back.
    Free(usize),
}

/// A whole program.
pub struct Trace {
    /// The file's name without its ending.
    pub name: String,
    /// What happens.
    pub events: Vec<Event>,
    /// The most bytes that are held at a time.
    pub peak_live: u64,
}

/// The traces that were found; those in the data folder (`CAIRN_DATA`) are not on every machine.
pub struct TraceSet {
    /// By name.
    pub traces: Vec<Trace>,
    /// A folder that does not exist.
    pub absent: Option<String>,
}

impl Trace {
    /// Reads one; the error names file, line and reason.
    pub fn read(path: &Path) -> Result<Trace, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Trace::parse(name, &text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(name: String, text: &str) -> Result<Trace, String> {
        let trace = trace::Trace::parse(text).map_err(|error| error.to_string())?;
        let events = trace.requests().iter().map(|request| match *request {
            Request::Take { block, bytes, .. } => Event::Take(block, bytes),
            Request::Free { block, .. } => Event::Free(block),
        });
        Ok(Trace { name, events: events.collect(), peak_live: trace.peak_live() })
    }

    /// Whether the program trains a network: such programs keep more memory live, and differ more from step to step.
    pub fn is_training(&self) -> bool {
        self.name.contains("train")
    }
}

/// All traces: ours, and those of the data folder: `data/traces` below `CAIRN_DATA`, or below `../shared` beside
/// the project.
pub fn all(project: &Path) -> Result<TraceSet, String> {
    let mut traces = read_folder(&project.join("benches/traces"))?;
    let data_folder =
        std::env::var_os("CAIRN_DATA").filter(|path| !path.is_empty()).map(PathBuf::from);
    let data = data_folder.unwrap_or_else(|| project.join("../shared")).join("data/traces");
    let absent = match data.is_dir() {
        true => {
            traces.extend(read_folder(&data)?);
            None
        }
        false => Some(format!("traces of the data folder: there is no {}", data.display())),
    };
    Ok(TraceSet { traces, absent })
}

fn read_folder(folder: &Path) -> Result<Vec<Trace>, String> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "trc"))
        .collect();
    paths.sort();
    paths.iter().map(|path| Trace::read(path)).collect()
}
