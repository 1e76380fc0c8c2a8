//! `cairn top`: devices, processes, streams, pools and allocators with their figures, live.

mod frame;
mod json;
mod screen;
mod view;

#[cfg(test)]
mod tests;

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use anyhow::{Result, ensure};
use cairn_runtime::live::{self, details};

use crate::{show, text::format_table};
use frame::{Frame, Process};
use view::View;

/// How long a process may take to answer.
const ANSWER: Duration = Duration::from_millis(200);

/// What `cairn top` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print what there is now, and end; so it is where the output is no terminal
    #[arg(long)]
    once: bool,
    /// Print what there is now as JSON, and end
    #[arg(long)]
    json: bool,
    /// Show this process alone
    #[arg(long, value_name = "PID")]
    pid: Option<i32>,
    /// Seconds between two looks, from 0.1 on
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_interval)]
    interval: f64,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| format!("`{text}` is no number of seconds from 0.1 to 3600"))
}

/// Shows one frame, or one after the other until the user has enough.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let view = View { pid: arguments.pid, ..View::default() };
    let frame = take_frame().of_process(view.pid);
    if let Some(pid) = view.pid {
        ensure!(!frame.processes.is_empty(), "no process {pid} uses a device");
    }
    if arguments.json {
        show(&json::render(&frame));
    } else if arguments.once || !std::io::stdout().is_terminal() {
        show(&plain(&frame, &view));
    } else {
        screen::run(view, Duration::from_secs_f64(arguments.interval), take_frame)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks every process for its figures.
fn take_frame() -> Frame {
    let processes = live::read_all().into_iter().map(|snapshot| {
        let details = details::details_of(snapshot.pid, ANSWER);
        Process { snapshot, details }
    });
    Frame { processes: processes.collect() }
}

/// A frame without colours.
fn plain(frame: &Frame, view: &View) -> String {
    let sections = view.sections(frame, None);
    let text = sections.into_iter().map(|section| {
        let heading = Some(section.heading).filter(|_| !section.rows.is_empty());
        let rows = heading.into_iter().chain(section.rows).collect::<Vec<_>>();
        format!("{}\n{}", section.title, format_table(&rows))
    });
    text.collect::<Vec<_>>().join("\n")
}
