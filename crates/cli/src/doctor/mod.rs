//! `cairn doctor`: checks the installation by reading files only; it loads no Cairn library.

mod libraries;
mod machine;
mod process;
mod settings;
mod toolkit;

use std::{fmt::Display, path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::toolkit::Toolkit;

/// What to check besides the toolkit itself.
#[derive(clap::Args)]
pub struct Arguments {
    /// Libraries or programs whose imported symbols are looked up in the toolkit
    libraries: Vec<PathBuf>,
    /// A running process, to see which libraries it has loaded
    #[arg(long)]
    pid: Option<u32>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Fine,
    Note,
    Wrong,
}

/// The findings, in the order in which they are printed.
#[derive(Debug, Default)]
struct Report {
    findings: Vec<(Severity, String)>,
}

impl Report {
    fn fine(&mut self, text: impl Into<String>) {
        self.findings.push((Severity::Fine, text.into()));
    }

    fn note(&mut self, text: impl Into<String>) {
        self.findings.push((Severity::Note, text.into()));
    }

    fn wrong(&mut self, text: impl Into<String>) {
        self.findings.push((Severity::Wrong, text.into()));
    }

    fn is_clean(&self) -> bool {
        self.findings.iter().all(|(severity, _)| *severity != Severity::Wrong)
    }

    #[cfg(test)]
    fn messages_with(&self, severity: Severity) -> String {
        let texts =
            self.findings.iter().filter(|(one, _)| *one == severity).map(|(_, text)| text.as_str());
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (severity, text) in &self.findings {
            let label = match severity {
                Severity::Fine => "ok   ",
                Severity::Note => "note ",
                Severity::Wrong => "WRONG",
            };
            writeln!(f, "{label}  {}", text.replace('\n', "\n       "))?;
        }
        Ok(())
    }
}

/// Runs every check and prints the findings; the exit code is 1 if something is wrong.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let toolkit = Toolkit::of_current_exe()?;
    let mut report = Report::default();
    toolkit::check(&toolkit, &mut report);
    settings::check(&toolkit, |name| std::env::var_os(name), &mut report);
    if let Err(error) = cairn_runtime::config::Config::from_env() {
        report.wrong(error.to_string());
    }
    machine::check(&machine::Machine::read(), &mut report);
    if let Some(pid) = arguments.pid {
        process::check(&toolkit, pid, &mut report);
    }
    libraries::check(&toolkit, &arguments.libraries, &mut report);
    crate::show(&report.to_string());
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
