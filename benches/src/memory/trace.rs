//! Recorded programs: `a ID BYTES` takes a block, `f ID` gives it back, in the program's order.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// One line of a trace. Blocks are numbered from 0 in the order in which they are taken.
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
    /// How many blocks there are.
    pub blocks: usize,
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
        let mut trace = Trace { name, events: Vec::new(), blocks: 0, peak_live: 0 };
        let mut live = HashMap::new();
        let mut bytes_live = 0;
        for (number, line) in text.lines().enumerate() {
            let error_at = |why: &str| format!("line {}: {why}: {line}", number + 1);
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                [] | ["#", ..] => {}
                ["a", id, bytes] => {
                    let bytes: u64 = bytes.parse().map_err(|_| error_at("no size"))?;
                    if live.insert(id, (trace.blocks, bytes)).is_some() {
                        return Err(error_at("taken twice"));
                    }
                    trace.events.push(Event::Take(trace.blocks, bytes));
                    trace.blocks += 1;
                    bytes_live += bytes;
                    trace.peak_live = trace.peak_live.max(bytes_live);
                }
                ["f", id] => {
                    let (block, bytes) = live.remove(id).ok_or_else(|| error_at("not held"))?;
                    trace.events.push(Event::Free(block));
                    bytes_live -= bytes;
                }
                _ => return Err(error_at("neither `a ID BYTES` nor `f ID`")),
            }
        }
        Ok(trace)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Trace, String> {
        Trace::parse("t".into(), text)
    }

    #[test]
    fn identifiers_may_come_again() {
        let trace = parse("# one\na 0 10\na 1 5\nf 0\na 0 7\n\nf 0\nf 1\n").unwrap();
        let expected = [
            Event::Take(0, 10),
            Event::Take(1, 5),
            Event::Free(0),
            Event::Take(2, 7),
            Event::Free(2),
            Event::Free(1),
        ];
        assert_eq!(trace.events, expected);
        assert_eq!((trace.blocks, trace.peak_live), (3, 15));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, why) in [
            ("a 0 10\na 0 10", "line 2: taken twice"),
            ("f 3", "line 1: not held"),
            ("a 0 ten", "line 1: no size"),
            ("x", "line 1: neither"),
        ] {
            assert!(parse(text).err().unwrap().starts_with(why), "{text}");
        }
    }
}
