//! `cairn pooltest`: whether a pool keeps the contract, clause by clause, and how good it is beside Cairn's own.

pub mod checks;
mod clause;
mod json;
mod junit;
mod suite;
mod text;

#[cfg(test)]
mod tests;

use std::{
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail, ensure};
use cairn_record::trace::Trace;

use crate::{
    bench::{
        child::{Limits, parse_seconds},
        spec::{AllocatorSpec, Door, FREE, MALLOC},
        step_bar::StepBar,
    },
    private_folder::PrivateFolder,
    replay::{
        figures::{Figures, Measured, Setup},
        read_trace,
    },
    show,
};
use clause::{Clause, LOAD, TRACES};
use suite::{ClauseResult, Suite, Verdict, settle};

/// The traces that every pool is run on.
const OWN_TRACES: [(&str, &str); 2] = [
    ("gpt_train", include_str!("../../../benches/traces/gpt_train.trc")),
    ("gpt_infer", include_str!("../../../benches/traces/gpt_infer.trc")),
];

/// What `cairn pooltest` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// A library with malloc and free for torch_npu's pluggable allocator
    #[arg(value_name = "LIB", required_unless_present_any = ["ge", "acl", "list"])]
    library: Option<PathBuf>,
    /// The library's function that takes memory
    #[arg(long, value_name = "NAME", default_value = MALLOC, requires = "library")]
    malloc: String,
    /// The library's function that gives memory back
    #[arg(long, value_name = "NAME", default_value = FREE, requires = "library")]
    free: String,
    /// A library, and its function that makes a ge::Allocator (cairn/factory.h)
    #[arg(long, value_name = "LIB:FACTORY", conflicts_with_all = ["library", "acl"])]
    ge: Option<String>,
    /// A library, and its function that makes an aclrtAllocatorDesc (cairn/factory.h)
    #[arg(long, value_name = "LIB:FACTORY", conflicts_with = "library")]
    acl: Option<String>,
    /// Check these clauses only
    #[arg(long, value_name = "CLAUSE", value_delimiter = ',', value_parser = parse_clause)]
    only: Vec<&'static str>,
    /// List the clauses, and check nothing
    #[arg(long)]
    list: bool,
    /// Run the pool on this trace too
    #[arg(long = "trace", value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// Of random sequences
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Seconds that a check may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = parse_seconds)]
    limit: u64,
    /// Seconds without any use of the processor after which a check is said to hang
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = parse_seconds)]
    idle_limit: u64,
    /// Write the verdicts to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the verdicts to this file as JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// All that is found out about a pool.
pub struct Findings {
    /// The pool.
    pub spec: AllocatorSpec,
    /// The clauses that it was checked against.
    pub clauses: Vec<(&'static Clause, ClauseResult)>,
    /// By trace.
    pub traces: Vec<(String, SideBySide)>,
}

/// The figures of the pool, and of Cairn's own.
type SideBySide = [(AllocatorSpec, Measured); 2];

impl Findings {
    fn count(&self, verdict: Verdict) -> usize {
        self.clauses.iter().filter(|(_, result)| result.verdict == verdict).count()
    }
}

fn parse_clause(text: &str) -> Result<&'static str, String> {
    let known = || clause::ALL.iter().map(|clause| clause.id).collect::<Vec<_>>().join(", ");
    let found = clause::ALL.iter().find(|clause| clause.id == text);
    found
        .map(|clause| clause.id)
        .ok_or_else(|| format!("no clause is named `{text}`: there are {}", known()))
}

/// Checks a pool; the exit code says whether a clause is broken.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list {
        show(&text::list());
        return Ok(ExitCode::SUCCESS);
    }
    let spec = spec(arguments)?.resolved();
    if let Some(library) = spec.library()
        && library.components().count() > 1
    {
        ensure!(library.exists(), "there is no {}", library.display());
    }
    let findings = check(arguments, spec)?;
    let width = std::io::stdout().is_terminal().then_some(text::WIDTH);
    show(&text::render(&findings, width));
    if let Some(path) = &arguments.json {
        write(path, &json::render(&findings))?;
    }
    if let Some(path) = &arguments.junit {
        write(path, &junit::render(&findings))?;
    }
    let is_broken = findings.count(Verdict::Broken) > 0;
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn spec(arguments: &Arguments) -> Result<AllocatorSpec> {
    let factory = |door, text: &str| AllocatorSpec::factory(door, text).map_err(anyhow::Error::msg);
    match (&arguments.library, &arguments.ge, &arguments.acl) {
        (Some(library), ..) => Ok(AllocatorSpec::Torch {
            library: library.clone(),
            malloc: arguments.malloc.clone(),
            free: arguments.free.clone(),
        }),
        (None, Some(ge), _) => factory(Door::Ge, ge),
        (None, None, Some(acl)) => factory(Door::Acl, acl),
        (None, None, None) => bail!("name a library"),
    }
}

fn check(arguments: &Arguments, spec: AllocatorSpec) -> Result<Findings> {
    let is_chosen = |clause: &&Clause| {
        clause.concerns(&spec) && (arguments.only.is_empty() || arguments.only.contains(&clause.id))
    };
    let clauses: Vec<&'static Clause> = clause::ALL.iter().filter(is_chosen).collect();
    ensure!(!clauses.is_empty(), "none of these clauses is for pools with this interface");
    let has_traces = clauses.iter().any(|clause| clause.id == TRACES);
    let traces = if has_traces { traces(&arguments.traces)? } else { Vec::new() };
    let limits = Limits::of_seconds(arguments.limit, arguments.idle_limit);
    let suite =
        Suite { spec: &spec, folder: PrivateFolder::create()?, limits, seed: arguments.seed };
    let bar = StepBar::new(clauses.len() + 2 * traces.len());
    let (mut results, mut measured) = (Vec::new(), Vec::new());
    let mut is_loaded = true;
    for clause in clauses {
        bar.begin(clause.id);
        let result = match clause.id {
            _ if !is_loaded => ClauseResult::plain(Verdict::NotTried),
            TRACES => {
                measured = measure(&spec, &traces, limits, &bar)?;
                result_of_traces(&measured)
            }
            _ => suite.check(clause)?,
        };
        is_loaded &= clause.id != LOAD || result.verdict != Verdict::Broken;
        results.push((clause, result));
        bar.end();
    }
    drop((bar, suite));
    settle(&mut results);
    Ok(Findings { spec, clauses: results, traces: measured })
}

/// Our own traces, and the user's.
fn traces(files: &[PathBuf]) -> Result<Vec<(String, Trace)>> {
    let own = OWN_TRACES.iter().map(|(name, text)| Ok(((*name).to_owned(), Trace::parse(text)?)));
    let given = files.iter().map(|file| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, read_trace(file)?))
    });
    own.chain(given).collect()
}

/// Runs the pool, and Cairn's own, on every trace.
fn measure(
    spec: &AllocatorSpec,
    traces: &[(String, Trace)],
    limits: Limits,
    bar: &StepBar,
) -> Result<Vec<(String, SideBySide)>> {
    let setup = Setup::new(None, limits)?;
    let mut all = Vec::new();
    for (name, trace) in traces {
        let file = setup.write(&format!("{}.trc", all.len()), trace)?;
        let run = |spec: &AllocatorSpec| {
            bar.begin(&format!("{name} on {}", spec.label()));
            let measured = setup.measure(spec, trace, &file);
            bar.end();
            Ok::<_, anyhow::Error>((spec.clone(), measured?))
        };
        all.push((name.clone(), [run(spec)?, run(&AllocatorSpec::Cairn)?]));
    }
    Ok(all)
}

fn result_of_traces(traces: &[(String, SideBySide)]) -> ClauseResult {
    for (name, [(_, measured), _]) in traces {
        let wrong = match measured {
            Err(reason) => Some((reason.clone(), None)),
            Ok(Figures { overlap: Some(overlap), .. }) => Some((overlap.clone(), Some("overlap"))),
            Ok(Figures { first_failure: Some(failure), .. }) => {
                Some((failure.clone(), Some("sizes")))
            }
            Ok(figures) => figures.remark().map(|remark| (remark, Some("devices"))),
        };
        if let Some((text, of)) = wrong {
            let of = of.map(str::to_owned);
            return ClauseResult { of, ..ClauseResult::broken(format!("{name}: {text}")) };
        }
    }
    ClauseResult::plain(Verdict::Kept)
}
