//! Findings as text and as JSON.

use crate::finding::{Finding, Findings, Place, Severity};
use serde_json::{Value, json};
use std::fmt::Write;

/// Turns a site into lines below its place: the call, and the frames of its stack where one was taken.
pub trait Stacks {
    /// The frames of a stack, innermost first.
    fn frames(&self, stack: u32) -> Vec<String>;
}

/// No stacks were taken.
pub struct NoStacks;

impl Stacks for NoStacks {
    fn frames(&self, _: u32) -> Vec<String> {
        Vec::new()
    }
}

/// The findings as a person reads them, errors and notes in the order of time, and a last line with their numbers.
pub fn text(findings: &Findings, stacks: &dyn Stacks) -> String {
    let mut out = String::new();
    for finding in findings.list() {
        write_finding(&mut out, finding, stacks);
        out.push('\n');
    }
    out += &totals(findings);
    out
}

/// One line: how many errors and notes there are.
pub fn totals(findings: &Findings) -> String {
    let count = |severity| findings.list().iter().filter(|it| it.severity == severity).count();
    let of = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let (errors, notes) = (count(Severity::Error), count(Severity::Note));
    match (errors, notes) {
        (0, 0) => "cairn check: no findings\n".into(),
        _ => format!("cairn check: {}, {}\n", of(errors, "error"), of(notes, "note")),
    }
}

fn write_finding(out: &mut String, finding: &Finding, stacks: &dyn Stacks) {
    let clauses = match finding.clauses {
        [] => String::new(),
        clauses => format!(" ({})", clauses.join(", ")),
    };
    let severity = finding.severity.name();
    let _ = writeln!(out, "{severity}[{}]: {}{clauses}", finding.rule, finding.title);
    for (number, place) in finding.places.iter().enumerate() {
        write_place(out, number + 1, place, stacks);
    }
    for fact in &finding.facts {
        let _ = writeln!(out, "  {fact}");
    }
    let _ = writeln!(out, "  help: {}", finding.help);
    if finding.count > 1 {
        let _ = writeln!(out, "  {} of this kind", finding.count);
    }
}

fn write_place(out: &mut String, number: usize, place: &Place, stacks: &dyn Stacks) {
    let _ = writeln!(out, "  ({number}) {}", place.text);
    let site = &place.site;
    if !site.entry.is_empty() {
        let _ = writeln!(out, "      in {}, thread {}", site.entry, site.thread);
    }
    if site.stack != 0 {
        for frame in stacks.frames(site.stack) {
            let _ = writeln!(out, "        {frame}");
        }
    }
}

/// The findings for programs.
pub fn json(findings: &Findings, stacks: &dyn Stacks) -> Value {
    let place = |place: &Place| {
        json!({
            "text": place.text,
            "call": &*place.site.entry,
            "thread": place.site.thread,
            "stack": stacks.frames(place.site.stack),
        })
    };
    let finding = |finding: &Finding| {
        json!({
            "rule": finding.rule,
            "severity": finding.severity.name(),
            "title": finding.title,
            "clauses": finding.clauses,
            "places": finding.places.iter().map(place).collect::<Vec<_>>(),
            "facts": finding.facts,
            "help": finding.help,
            "count": finding.count,
            "time_ns": finding.time_ns,
        })
    };
    let list = findings.list();
    json!({
        "errors": findings.errors(),
        "notes": list.len() - findings.errors(),
        "findings": list.iter().map(finding).collect::<Vec<_>>(),
    })
}
