//! `cairn check`: whether a program keeps the contract. A program is run with a record, which is read while it is written; a record
//! that exists is read as it is. Both go through the same rules.

mod across;
mod live;
mod process;
mod records;

use crate::private_folder::PrivateFolder;
use crate::ranks::{self, Job, RankGroup};
use crate::recorded_run::{RecordedRun, Session};
use crate::run;
use anyhow::{Context, Result, anyhow, bail, ensure};
use cairn_check::Tool;
use cairn_check::report;
use cairn_check::suppress::Suppressions;
use live::LiveCheck;
use process::{CheckedProcess, Rules};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is checked, and how it is reported.
#[derive(clap::Args)]
#[command(
    override_usage = "cairn check [OPTIONS] -- PROGRAM...\n       cairn check [OPTIONS] FILE..."
)]
pub struct Arguments {
    /// What to look for: contract, order, memory and ranks when not given; leak and init on request
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
    #[command(flatten)]
    ranks: ranks::RankOptions,
    /// Records to check, in place of a program; those of several ranks together
    #[arg(value_name = "FILE", conflicts_with = "program", required_unless_present = "program")]
    records: Vec<PathBuf>,
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
    let (processes, code): (Vec<CheckedProcess>, u8) =
        match (arguments.ranks.job()?, &*arguments.records) {
            (None, []) => {
                ensure!(!arguments.program.is_empty(), "name a record, or a program after --");
                match check_program(arguments, &rules)? {
                    Ok(checked) => checked,
                    Err(code) => return Ok(code),
                }
            }
            (Some(job), []) => check_ranks(arguments, &rules, &job)?,
            (None, paths) => (records::check(paths, &rules)?, 0),
            (Some(_), [first, ..]) => {
                let path = first.display();
                bail!("--ranks runs a program: cairn check --ranks N -- {path}")
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

/// Runs the program and checks its processes; the inner error is the exit code when it could not be started.
fn check_program(
    arguments: &Arguments,
    rules: &Rules,
) -> Result<Result<(Vec<CheckedProcess>, u8), ExitCode>> {
    let folder = PrivateFolder::create()?;
    let sessions = [(None, Session::new(folder.path().join("run.cairn")))];
    let (program, stacks) = (&arguments.program, arguments.stacks);
    let mut run = match RecordedRun::start(program, &sessions[0].1, stacks, &variables())? {
        Ok(run) => run,
        Err(error) => return Ok(Err(run::not_started(program, &error))),
    };
    let processes = LiveCheck::new(&sessions, rules).run(&mut run)?;
    Ok(Ok((processes, run.code())))
}

/// Runs the ranks of a job and checks them, each by itself and against each other.
fn check_ranks(
    arguments: &Arguments,
    rules: &Rules,
    job: &Job,
) -> Result<(Vec<CheckedProcess>, u8)> {
    let folder = PrivateFolder::create()?;
    let session = |rank: u32| {
        let path = folder.path().join("run.cairn");
        (Some(rank), Session::new(ranks::path_of_rank(&path, rank)))
    };
    let sessions: Vec<_> = job.ranks().map(session).collect();
    let mut group = RankGroup::start(job, &arguments.program, |rank| {
        let mut all = sessions[rank as usize].1.variables(arguments.stacks)?;
        all.extend(variables().map(|(name, value)| (name, value.into())));
        Ok(all)
    })?;
    let processes = LiveCheck::new(&sessions, rules).run(&mut group)?;
    group.report();
    Ok((processes, group.code()))
}

/// Settings of a program that is checked while it runs.
fn variables() -> [(&'static str, String); 2] {
    let backlog = std::env::var("CAIRN_RECORD_BACKLOG").unwrap_or(live::BACKLOG.into());
    [("CAIRN_MEMORY", protected_memory()), ("CAIRN_RECORD_BACKLOG", backlog)]
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
