//! A clause is checked in children, and what became of them is its verdict.

use std::{ffi::OsString, fs, path::Path};

use anyhow::Result;
use cairn_check::{Checker, Finding, Tool};
use cairn_record::Reader;
use serde_json::Value;

use super::clause::{Clause, EXIT};
use crate::{
    bench::{
        child::{self, Ending, Limits, Report, Work},
        spec::AllocatorSpec,
    },
    private_folder::PrivateFolder,
};

/// Whether a clause holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Kept,
    /// It holds, and something is worth knowing.
    Noted,
    /// It does not.
    Broken,
    /// It was not tried, or another one stands in the way.
    NotTried,
}

impl Verdict {
    /// Its word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Noted => "note",
            Verdict::Broken => "BROKEN",
            Verdict::NotTried => "-",
        }
    }
}

/// A verdict, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClauseResult {
    /// The verdict.
    pub verdict: Verdict,
    /// What was seen, in lines.
    pub details: Vec<String>,
    /// The clause that is broken, where it is another one.
    pub of: Option<String>,
}

impl ClauseResult {
    /// One without details.
    pub fn plain(verdict: Verdict) -> ClauseResult {
        ClauseResult { verdict, details: Vec::new(), of: None }
    }

    /// A broken clause.
    pub fn broken(detail: String) -> ClauseResult {
        ClauseResult { verdict: Verdict::Broken, details: vec![detail], of: None }
    }
}

/// The checks of one pool.
pub struct Suite<'a> {
    /// The pool.
    pub spec: &'a AllocatorSpec,
    /// Where their files are.
    pub folder: PrivateFolder,
    /// How long each may take.
    pub limits: Limits,
    /// Of random sequences.
    pub seed: u64,
}

impl Suite<'_> {
    /// Checks a clause in each of its environments; the first that breaks it decides.
    pub fn check(&self, clause: &Clause) -> Result<ClauseResult> {
        let mut kept = ClauseResult::plain(Verdict::Kept);
        for environment in clause.environments {
            let mut variables = vec![("CAIRN_DEVICES", "2".to_owned())];
            // The workloads submit directly: there is no queue of torch_npu's.
            variables.push(("TASK_QUEUE_ENABLE", "0".into()));
            variables.extend(environment.iter().map(|(name, value)| (*name, (*value).to_owned())));
            let words = ["check", clause.id, "--seed", &self.seed.to_string()];
            let report = child::run(
                &self.folder,
                &Work {
                    spec: self.spec,
                    words: words.map(OsString::from).to_vec(),
                    variables,
                    is_recorded: true,
                    limits: self.limits,
                },
            )?;
            let mut result = result_of(clause, &report);
            let _ = fs::remove_file(&report.record);
            if result.verdict == Verdict::Broken {
                if let Some((_, value)) =
                    environment.iter().find(|(name, _)| *name == "CAIRN_MEMORY")
                    && clause.environments.len() > 1
                {
                    result.details.push(format!("with CAIRN_MEMORY={value}"));
                }
                return Ok(result);
            }
            if result.verdict == Verdict::Noted {
                kept = result;
            }
        }
        Ok(kept)
    }
}

fn result_of(clause: &Clause, report: &Report) -> ClauseResult {
    let found = findings(&report.record, clause.findings);
    if !found.is_empty() {
        return ClauseResult { details: describe(&found), ..ClauseResult::plain(Verdict::Broken) };
    }
    let is_done = |result: &&Value| result["stage"].is_null();
    let Some(result) = report.result.as_ref().filter(is_done) else {
        let stage = report.result.as_ref().and_then(|result| result["stage"].as_str());
        let of = stage.filter(|stage| *stage != clause.id).map(str::to_owned);
        return ClauseResult { of, ..ClauseResult::broken(report.describe_ending()) };
    };
    for key in ["broken", "error"] {
        if let Some(text) = result[key].as_str() {
            let of = result["of"].as_str().filter(|of| *of != clause.id).map(str::to_owned);
            return ClauseResult { of, ..ClauseResult::broken(text.to_owned()) };
        }
    }
    if clause.id == EXIT && report.ending != Ending::Exited(0) {
        let when = report.describe_ending();
        return ClauseResult::broken(format!("{when}, after main had returned"));
    }
    let mut details: Vec<String> = (result["notes"].as_array().into_iter().flatten())
        .filter_map(|note| note.as_str().map(str::to_owned))
        .collect();
    details.extend(describe(&findings(&report.record, clause.notes)));
    match details.is_empty() {
        true => ClauseResult::plain(Verdict::Kept),
        false => ClauseResult { details, ..ClauseResult::plain(Verdict::Noted) },
    }
}

/// A clause that could not be checked because of another one is said to be so, if that one is broken by its own check.
pub fn settle(results: &mut [(&'static Clause, ClauseResult)]) {
    let broken: Vec<&'static str> = (results.iter())
        .filter(|(_, result)| result.verdict == Verdict::Broken && result.of.is_none())
        .map(|(clause, _)| clause.id)
        .collect();
    for (_, result) in results {
        if let Some(of) = result.of.take_if(|of| broken.contains(&of.as_str())) {
            let details = vec![format!("cannot be checked while `{of}` is broken")];
            *result = ClauseResult { details, ..ClauseResult::plain(Verdict::NotTried) };
        }
    }
}

/// What the checker finds in a record, by rule.
fn findings(record: &Path, rules: &[&str]) -> Vec<Finding> {
    let Some(reader) =
        Some(rules).filter(|rules| !rules.is_empty()).and_then(|_| Reader::open(record).ok())
    else {
        return Vec::new();
    };
    let mut checker = Checker::new(&Tool::DEFAULT);
    reader.for_each(|entry| checker.entry(&entry));
    checker.finish(false);
    checker
        .findings()
        .list()
        .iter()
        .filter(|finding| rules.contains(&finding.rule))
        .cloned()
        .collect()
}

/// The first finding: what happened, and where.
fn describe(findings: &[Finding]) -> Vec<String> {
    let Some(first) = findings.first() else { return Vec::new() };
    let mut lines = vec![first.title.clone()];
    lines.extend(
        first
            .places
            .iter()
            .enumerate()
            .map(|(index, place)| format!("({}) {}", index + 1, place.text)),
    );
    lines
}
