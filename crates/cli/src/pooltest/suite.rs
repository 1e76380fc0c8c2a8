//! A clause is checked in children, and what became of them is its verdict.

use std::{ffi::OsString, fs, path::Path};

use anyhow::Result;
use cairn_check::{Checker, Finding, Tool};
use cairn_record::Reader;
use serde_json::Value;

use super::clause::{self, Clause, EXIT};
use crate::{
    bench::{
        child::{self, Ending, Limits, Report, Work},
        spec::AllocatorSpec,
    },
    private_folder::PrivateFolder,
    text::visible,
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
    /// What to do, where the clause's own lesson does not fit.
    pub lesson: Option<String>,
}

impl ClauseResult {
    /// One without details.
    pub fn plain(verdict: Verdict) -> ClauseResult {
        ClauseResult { verdict, details: Vec::new(), of: None, lesson: None }
    }

    /// A broken clause.
    pub fn broken(detail: String) -> ClauseResult {
        ClauseResult { details: vec![detail], ..ClauseResult::plain(Verdict::Broken) }
    }

    /// What to do about it.
    pub fn lesson<'a>(&'a self, clause: &'a Clause) -> &'a str {
        self.lesson.as_deref().unwrap_or(clause.lesson)
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
    let text_of = |key: &str| Some(report.result.as_ref()?[key].as_str()?.to_owned());
    let broken = |detail: String, of: Option<String>| {
        let of = of.filter(|of| of != clause.id);
        let lesson = text_of("lesson").filter(|_| of.is_none() || !clause.is_about_circumstances);
        ClauseResult { of, lesson, ..ClauseResult::broken(visible(&detail)) }
    };
    let is_done = |result: &&Value| result["stage"].is_null();
    let Some(result) = report.result.as_ref().filter(is_done) else {
        return broken(report.describe_ending(), text_of("stage"));
    };
    if let Some(text) = text_of("broken").or_else(|| text_of("error")) {
        return broken(text, text_of("of"));
    }
    if clause.id == EXIT && report.ending != Ending::Exited(0) {
        let when = report.describe_ending();
        return ClauseResult::broken(format!("{when}, after main had returned"));
    }
    let mut details: Vec<String> = (result["notes"].as_array().into_iter().flatten())
        .filter_map(|note| note.as_str().map(visible))
        .collect();
    details.extend(describe(&findings(&report.record, clause.notes)));
    match details.is_empty() {
        true => ClauseResult::plain(Verdict::Kept),
        false => ClauseResult { details, ..ClauseResult::plain(Verdict::Noted) },
    }
}

/// A clause that could not be checked because of another one is said to be so, if that one is broken. It is by its own check, or
/// by the first workload that met it.
pub fn settle(results: &mut [(&'static Clause, ClauseResult)]) {
    for index in 0..results.len() {
        let (clause, result) = &results[index];
        if let Some(of) = &result.of
            && !clause.is_about_circumstances
            && result.lesson.is_none()
            && let Some(met) = results.iter().position(|(other, _)| other.id == of)
            && matches!(results[met].1.verdict, Verdict::Kept | Verdict::Noted)
        {
            let mut details = result.details.clone();
            details.push(format!("while `{}` was checked", clause.id));
            results[met].1 = ClauseResult { details, ..ClauseResult::plain(Verdict::Broken) };
        }
    }
    let broken: Vec<&'static str> = (results.iter())
        .filter(|(_, result)| result.verdict == Verdict::Broken && result.of.is_none())
        .map(|(clause, _)| clause.id)
        .collect();
    for (clause, result) in results {
        let Some(of) = &result.of else { continue };
        if broken.contains(&of.as_str()) {
            let details = vec![format!("cannot be checked while `{of}` is broken")];
            *result = ClauseResult { details, ..ClauseResult::plain(Verdict::NotTried) };
        } else if !clause.is_about_circumstances && result.lesson.is_none() {
            let other = clause::ALL.iter().find(|other| other.id == of);
            result.lesson = other.map(|other| other.lesson.to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_pool_prints_is_shown_and_not_obeyed() {
        let clause = clause::ALL.iter().find(|clause| clause.id == "load").unwrap();
        let report = |result: Value| Report {
            ending: Ending::Signal(6),
            result: Some(result),
            output: "first\n\x1b[31mred\x08".into(),
            record: "/none".into(),
        };
        let crashed = result_of(clause, &report(json!({"stage": "load", "lesson": "never null"})));
        let text = "the process crashed (SIGABRT); it printed: \\x1b[31mred\\x08";
        assert_eq!(crashed.details, [text]);
        assert_eq!((crashed.of.as_deref(), crashed.lesson(clause)), (None, "never null"));
        let said = result_of(clause, &report(json!({"broken": "\x1b[2J", "of": "zero"})));
        assert_eq!((said.details, said.of), (vec!["\\x1b[2J".to_owned()], Some("zero".into())));
    }
}
