//! `cairn check`: whether a program keeps the contract. A program is run with a record, and the record is read; a record
//! that exists is read as it is.

use crate::private_folder::PrivateFolder;
use crate::recorded_run::RecordedRun;
use crate::run;
use crate::symbols::Symbols;
use anyhow::{Context, Result, anyhow, ensure};
use cairn_check::report::{self, Stacks};
use cairn_check::suppress::Suppressions;
use cairn_check::{Checker, Findings, Tool};
use cairn_record::entry::{Frame, Happening};
use cairn_record::{ReadError, Reader};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is checked, and how it is reported.
#[derive(clap::Args)]
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

/// The findings of one process.
struct Process {
    title: String,
    findings: Findings,
    stacks: RecordedStacks,
    warnings: Vec<String>,
    suppressed: usize,
}

fn parse_tool(text: &str) -> Result<Tool, String> {
    let known = || Tool::ALL.map(Tool::name).join(", ");
    let tool = Tool::ALL.into_iter().find(|tool| tool.name() == text);
    tool.ok_or_else(|| format!("no tool is named `{text}`: there are {}", known()))
}

/// Rules whose findings say that an order is missing.
const ABOUT_ORDER: [&str; 5] = [
    "order",
    "pool-on-two-streams",
    "model-on-two-streams",
    "freed-while-pending",
    "pool-freed-while-pending",
];

/// Checks; the exit code says whether there are errors.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
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
    let check = |path: &Path| check_file(path, &tools, &suppressions);
    let (processes, code): (Vec<Process>, u8) = match &arguments.record {
        Some(path) => (vec![check(path)?], 0),
        None => {
            ensure!(!arguments.program.is_empty(), "name a record, or a program after --");
            let folder = PrivateFolder::create()?;
            let (program, output) = (&arguments.program, folder.path().join("run.cairn"));
            let variables = [("CAIRN_MEMORY", protected_memory())];
            let run = match RecordedRun::run(program, output, arguments.stacks, &variables)? {
                Ok(run) => run,
                Err(error) => return Ok(run::not_started(program, &error)),
            };
            let processes = run.files().iter().map(|(path, _)| check(path)).collect::<Result<_>>();
            (processes?, run.code())
        }
    };
    if processes.is_empty() {
        eprintln!("cairn check: the program used no device, so there is nothing to check");
    }
    print(&processes);
    if let Some(path) = &arguments.json {
        write_json(path, &processes)?;
    }
    let has_errors = processes.iter().any(|process| process.findings.errors() > 0);
    Ok(ExitCode::from(match has_errors && arguments.error_exitcode != 0 {
        true => arguments.error_exitcode,
        false => code,
    }))
}

fn check_file(path: &Path, tools: &[Tool], suppressions: &Suppressions) -> Result<Process> {
    let mut reader = Reader::open(path).map_err(|error| match error {
        ReadError::Foreign => {
            let path = path.display();
            anyhow!("{path} is not a record; to check a program: cairn check -- {path}")
        }
        other => anyhow!("{} {other}", path.display()),
    })?;
    let header = reader.header().clone();
    let (mut checker, mut stacks) = (Checker::new(tools), RecordedStacks::default());
    let mut has_ended = false;
    for entry in reader.by_ref() {
        match &entry.happening {
            Happening::Exit => has_ended = true,
            Happening::Stack { number, frames } => stacks.insert(*number, frames),
            _ => {}
        }
        checker.entry(&entry);
    }
    let mut warnings: Vec<String> = (reader.damage().iter())
        .map(|damage| format!("entries of thread {} are missing: {}", damage.thread, damage.reason))
        .collect();
    let is_whole = has_ended && warnings.is_empty();
    if !has_ended {
        warnings.push(
            "the end of the process is not in its record (a signal, or no room on the disk): what came after is not checked, nor are leaks"
                .into(),
        );
    }
    let mut findings = checker.finish(is_whole);
    if !reader.damage().is_empty() {
        // What ordered the work may be among what is missing.
        findings.retain(|finding| !ABOUT_ORDER.contains(&finding.rule));
        warnings.push("findings about order are left out".into());
    }
    let suppressed = suppressions.apply(&mut findings);
    let title = format!("process {}: {}", header.pid, header.command);
    Ok(Process { title, findings, stacks, warnings, suppressed })
}

/// The report goes to stderr: stdout is the program's.
fn print(processes: &[Process]) {
    for process in processes {
        if processes.len() > 1 {
            eprintln!("{}", process.title);
        }
        for warning in &process.warnings {
            eprintln!("cairn check: {warning}");
        }
        eprint!("{}", report::text(&process.findings, &process.stacks));
        if process.suppressed > 0 {
            eprintln!("cairn check: {} suppressed", process.suppressed);
        }
    }
}

fn write_json(path: &Path, processes: &[Process]) -> Result<()> {
    let list: Vec<_> = (processes.iter())
        .map(|process| {
            let mut value = report::json(&process.findings, &process.stacks);
            value["process"] = process.title.clone().into();
            value["warnings"] = process.warnings.clone().into();
            value
        })
        .collect();
    let text = serde_json::to_string_pretty(&list)? + "\n";
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The stacks of a record, as text.
#[derive(Default)]
struct RecordedStacks {
    frames: HashMap<u32, Vec<String>>,
    symbols: Symbols,
}

impl RecordedStacks {
    fn insert(&mut self, number: u32, frames: &[Frame]) {
        let text = frames.iter().map(|frame| self.symbols.describe(frame)).collect();
        self.frames.insert(number, text);
    }
}

impl Stacks for RecordedStacks {
    fn frames(&self, stack: u32) -> Vec<String> {
        self.frames.get(&stack).cloned().unwrap_or_default()
    }
}

/// `CAIRN_MEMORY` as the user has it, with device memory that the program itself cannot touch.
fn protected_memory() -> String {
    match std::env::var("CAIRN_MEMORY") {
        Ok(spec) if !spec.trim().is_empty() => format!("{spec},no-host-access"),
        _ => "no-host-access".into(),
    }
}
