//! `cairn check`: whether a program keeps the contract. A program is run with a record, which is read while it is written; a record
//! that exists is read as it is. Both go through the same rules.

mod live;
mod process;

use crate::private_folder::PrivateFolder;
use crate::progress::Progress;
use crate::recorded_run::{RecordedRun, Session};
use crate::run;
use anyhow::{Context, Result, anyhow, ensure};
use cairn_check::Tool;
use cairn_check::report;
use cairn_check::suppress::Suppressions;
use cairn_record::ReadError;
use live::LiveCheck;
use process::{CheckedProcess, ProcessCheck, Rules};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is checked, and how it is reported.
#[derive(clap::Args)]
#[command(
    override_usage = "cairn check [OPTIONS] -- PROGRAM...\n       cairn check [OPTIONS] FILE"
)]
pub struct Arguments {
    /// What to look for: contract, order and memory when not given; leak and init on request
    #[arg(long = "tool", value_name = "TOOL", value_delimiter = ',', value_parser = parse_tool)]
    tools: Vec<Tool>,
    /// The exit code when there are errors; 0 keeps the program's own
    #[arg(long, value_name = "N", default_value_t = 1)]
    error_exitcode: u8,
    /// A file of findings that are not to be reported: docs/check.md
    #[arg(long, value_name = "FILE")]
    suppress: Option<PathBuf>,
    /// Write the findings to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Take stacks, which takes longer: each call is shown with its callers
    #[arg(long)]
    stacks: bool,
    /// A record to check, in place of a program
    #[arg(value_name = "FILE", conflicts_with = "program", required_unless_present = "program")]
    record: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true)]
    program: Vec<OsString>,
}

fn parse_tool(text: &str) -> Result<Tool, String> {
    let known = || Tool::ALL.map(Tool::name).join(", ");
    let tool = Tool::ALL.into_iter().find(|tool| tool.name() == text);
    tool.ok_or_else(|| format!("no tool is named `{text}`: there are {}", known()))
}

/// Checks; the exit code says whether there are errors.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let rules = rules(arguments)?;
    if let Some(path) = &arguments.json {
        // A place that cannot be written is known before the program runs.
        File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let (processes, code): (Vec<CheckedProcess>, u8) = match &arguments.record {
        Some(path) => (vec![check_file(path, &rules)?], 0),
        None => {
            ensure!(!arguments.program.is_empty(), "name a record, or a program after --");
            let folder = PrivateFolder::create()?;
            let session = Session::new(folder.path().join("run.cairn"));
            let variables = [
                ("CAIRN_MEMORY", protected_memory()),
                (
                    "CAIRN_RECORD_BACKLOG",
                    std::env::var("CAIRN_RECORD_BACKLOG").unwrap_or(live::BACKLOG.into()),
                ),
            ];
            let (program, stacks) = (&arguments.program, arguments.stacks);
            let mut run = match RecordedRun::start(program, &session, stacks, &variables)? {
                Ok(run) => run,
                Err(error) => return Ok(run::not_started(program, &error)),
            };
            (LiveCheck::new(&session, &rules).run(&mut run)?, run.code())
        }
    };
    close(&processes);
    if let Some(path) = &arguments.json {
        write_json(path, &processes)?;
    }
    let is_wrong =
        |process: &CheckedProcess| process.findings.errors() > 0 || process.is_incomplete;
    let code = match processes.iter().any(is_wrong) && arguments.error_exitcode != 0 {
        true => arguments.error_exitcode,
        false => code,
    };
    Ok(ExitCode::from(code))
}

fn rules(arguments: &Arguments) -> Result<Rules> {
    let suppressions = match &arguments.suppress {
        None => Suppressions::default(),
        Some(path) => {
            let text = fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            Suppressions::parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?
        }
    };
    let tools = match arguments.tools.is_empty() {
        true => Tool::DEFAULT.to_vec(),
        false => arguments.tools.clone(),
    };
    Ok(Rules { tools, suppressions })
}

/// Checks a record, and prints what is found.
fn check_file(path: &Path, rules: &Rules) -> Result<CheckedProcess> {
    let progress = Progress::of_files(std::slice::from_ref(&path.to_path_buf()));
    let mut reader = progress.try_open(path).map_err(|error| match error {
        ReadError::Foreign => {
            let path = path.display();
            anyhow!("{path} is not a record; to check a program: cairn check -- {path}")
        }
        other => anyhow!("{} {other}", path.display()),
    })?;
    let mut check = ProcessCheck::new(reader.header(), rules);
    let mut entries = 0u64;
    for entry in reader.by_ref() {
        entries += 1;
        check.entry(&entry);
    }
    let (mut process, text) = check.finish(reader.damage(), reader.is_cut_short());
    drop(progress);
    if entries == 0 {
        process.warnings.push("the record has no entries: nothing was checked".into());
        process.is_incomplete = true;
    }
    eprint!("{text}");
    Ok(process)
}

/// What is left to say when the findings are printed. The report goes to stderr: stdout is the program's.
fn close(processes: &[CheckedProcess]) {
    if processes.is_empty() {
        eprintln!("cairn check: the program used no device, so there is nothing to check");
    }
    for process in processes {
        if processes.len() > 1 {
            eprintln!("{}", process.title);
        }
        for warning in &process.warnings {
            eprintln!("cairn check: {warning}");
        }
        if process.is_incomplete {
            eprintln!("cairn check: the check is incomplete, which counts as an error");
        }
        eprint!("{}", report::closing(&process.findings));
        if process.suppressed > 0 {
            eprintln!("cairn check: {} suppressed", process.suppressed);
        }
    }
}

fn write_json(path: &Path, processes: &[CheckedProcess]) -> Result<()> {
    let list: Vec<_> = (processes.iter())
        .map(|process| {
            let mut value = report::json(&process.findings, &process.stacks);
            value["process"] = process.title.clone().into();
            value["warnings"] = process.warnings.clone().into();
            value["incomplete"] = process.is_incomplete.into();
            value
        })
        .collect();
    let text = serde_json::to_string_pretty(&list)? + "\n";
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// `CAIRN_MEMORY` as the user has it, with device memory that the program itself cannot touch.
fn protected_memory() -> String {
    match std::env::var("CAIRN_MEMORY") {
        Ok(spec) if !spec.trim().is_empty() => format!("{spec},no-host-access"),
        _ => "no-host-access".into(),
    }
}
