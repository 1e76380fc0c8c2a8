//! Findings as text and as JSON.

use crate::finding::{Fact, Finding, Findings, Place, Severity};
use cairn_record::Site;
use serde_json::{Value, json};
use std::fmt::Write;

/// How many frames of a stack the text shows.
const MAX_FRAMES: usize = 16;

/// Turns a site into lines below its place: the call, and the frames of its stack where one was taken.
pub trait Stacks {
    /// The frames of a stack, innermost first; none for number 0.
    fn frames(&self, stack: u32) -> Vec<String>;
}

/// No stacks were taken.
pub struct NoStacks;

impl Stacks for NoStacks {
    fn frames(&self, _: u32) -> Vec<String> {
        Vec::new()
    }
}

/// The findings as a person reads them, in the order of time, and what [`closing`] says.
pub fn text(findings: &Findings, stacks: &dyn Stacks) -> String {
    let mut out: String = findings.list().iter().map(|it| finding(it, stacks) + "\n").collect();
    out += &closing(findings);
    out
}

/// The end of a report: how many there were of the kinds that came more than once, and how many errors and notes there are.
pub fn closing(findings: &Findings) -> String {
    let mut out = String::new();
    for finding in findings.list().iter().filter(|finding| finding.count > 1) {
        let (severity, rule) = (finding.severity.name(), finding.rule);
        let _ = writeln!(out, "{} times {severity}[{rule}]: {}", finding.count, finding.title);
    }
    out + &totals(findings)
}

/// One line: how many errors and notes there are.
fn totals(findings: &Findings) -> String {
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

/// One finding as a person reads it.
pub fn finding(finding: &Finding, stacks: &dyn Stacks) -> String {
    let mut out = String::new();
    let clauses = match finding.clauses {
        [] => String::new(),
        clauses => format!(" ({})", clauses.join(", ")),
    };
    let severity = finding.severity.name();
    let _ = writeln!(out, "{severity}[{}]: {}{clauses}", finding.rule, finding.title);
    for (number, place) in finding.places.iter().enumerate() {
        write_place(&mut out, number + 1, place, stacks);
    }
    for fact in &finding.facts {
        let _ = writeln!(out, "  {}", fact.text);
        if let Some(site) = &fact.site {
            write_stack(&mut out, site, stacks);
        }
    }
    let _ = writeln!(out, "  help: {}", finding.help);
    out
}

fn write_place(out: &mut String, number: usize, place: &Place, stacks: &dyn Stacks) {
    let _ = writeln!(out, "  ({number}) {}", place.text);
    let site = &place.site;
    if !site.entry.is_empty() {
        let _ = writeln!(out, "      in {}, thread {}", site.entry, site.thread);
    }
    write_stack(out, site, stacks);
}

fn write_stack(out: &mut String, site: &Site, stacks: &dyn Stacks) {
    let frames = stacks.frames(site.stack);
    for frame in frames.iter().take(MAX_FRAMES) {
        let _ = writeln!(out, "        {frame}");
    }
    if frames.len() > MAX_FRAMES {
        let _ = writeln!(out, "        and {} more", frames.len() - MAX_FRAMES);
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
    let fact = |fact: &Fact| {
        let stack = fact.site.as_ref().map(|site| stacks.frames(site.stack));
        json!({"text": fact.text, "stack": stack.unwrap_or_default()})
    };
    let finding = |finding: &Finding| {
        json!({
            "rule": finding.rule,
            "severity": finding.severity.name(),
            "title": finding.title,
            "clauses": finding.clauses,
            "places": finding.places.iter().map(place).collect::<Vec<_>>(),
            "facts": finding.facts.iter().map(fact).collect::<Vec<_>>(),
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
