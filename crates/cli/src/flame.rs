//! `cairn flame`: bytes that were live at a moment, by the stacks that took them, as folded text for flame graphs.

use std::{
    collections::BTreeMap, fmt::Write as _, io::Write as _, path::PathBuf, process::ExitCode,
};

use anyhow::{Context, Result, ensure};

use crate::{
    blocks::device_name, history::History, moment::Moment, output, progress::Progress, show,
    symbols::Stacks,
};

/// What `cairn flame` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The record, made with --stacks
    file: PathBuf,
    /// When: peak, end, or a time such as 1.5s
    #[arg(long, value_name = "MOMENT", default_value = "peak")]
    at: Moment,
    /// Only this device; all of them, and the host, when not given
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Write to this file in place of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Prints a line for each stack: its frames from the outermost on, and its bytes.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let progress = Progress::of_files(std::slice::from_ref(&arguments.file));
    let history = History::open(&arguments.file, &progress)?;
    drop(progress);
    if let Some(device) = arguments.device {
        let known = || history.devices.keys().map(u32::to_string).collect::<Vec<_>>().join(", ");
        ensure!(
            history.devices.contains_key(&device),
            "the record has no device {device}; it has: {}",
            known()
        );
    }
    if history.stacks.is_empty() {
        eprintln!(
            "cairn flame: no stacks were recorded (cairn record --stacks): calls and operators stand in their place"
        );
    }
    let text = fold(&history, arguments.at, arguments.device);
    if text.is_empty() {
        eprintln!("cairn flame: nothing was live at that moment");
    }
    match &arguments.output {
        None => show(&text),
        Some(path) => output::create(path, std::slice::from_ref(&arguments.file))?
            .write_all(text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The folded text. Bytes of a block that has blocks inside of it count for those; what is left of it for whoever made it.
pub fn fold(history: &History, at: Moment, only: Option<u32>) -> String {
    let mut stacks = Stacks::new(&history.stacks);
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    let mut places: Vec<Option<u32>> = history.devices.keys().copied().map(Some).collect();
    places.push(None);
    for device in places.into_iter().filter(|device| only.is_none() || *device == only) {
        let time_ns = at.time_ns(history, device);
        for (block, bytes) in history.lives.shares(device, time_ns) {
            let mut frames = vec![device_name(device)];
            frames.extend(stacks.describe(block.stack).into_iter().rev());
            if !block.call.is_empty() {
                frames.push(block.call.to_string());
            }
            let owner = history.owner_name(&block.owner);
            if !owner.is_empty() {
                frames.push(owner);
            }
            frames.push(match block.is_divided {
                true => "unused".into(),
                false => block.purpose.name().into(),
            });
            let line: Vec<String> = frames.iter().map(|frame| frame.replace(';', ",")).collect();
            *folded.entry(line.join(";")).or_default() += bytes;
        }
    }
    let mut out = String::new();
    for (line, bytes) in folded {
        let _ = writeln!(out, "{line} {bytes}");
    }
    out
}
