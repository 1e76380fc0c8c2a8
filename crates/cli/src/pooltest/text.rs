//! The verdicts as text.

use std::fmt::Write;

use super::{
    Findings,
    clause::{self, Clause, Scope},
    suite::Verdict,
};
use crate::replay;

/// The widest line on a terminal.
pub const WIDTH: usize = 118;

/// A line for each clause; of those that are broken, what was seen and what to do; the figures. Lines are wrapped at `width`,
/// where there is one.
pub fn render(findings: &Findings, width: Option<usize>) -> String {
    let width = width.map_or(usize::MAX, |width| width - 27);
    let count = |verdict| findings.count(verdict);
    let (kept, broken) = (count(Verdict::Kept) + count(Verdict::Noted), count(Verdict::Broken));
    let are = if broken == 1 { "is" } else { "are" };
    let (pool, all) = (findings.spec.label(), findings.clauses.len());
    let mut out = format!("{pool}: {kept} of {all} clauses are kept, {broken} {are} broken");
    let _ = match count(Verdict::NotTried) {
        0 => writeln!(out, "\n"),
        open => writeln!(out, ", {open} cannot be checked\n"),
    };
    for (clause, result) in &findings.clauses {
        let contract = clause.contract(&findings.spec).join(", ");
        let contract = if contract.is_empty() { contract } else { format!(" ({contract})") };
        let (verdict, id, rule) = (result.verdict.name(), clause.id, clause.rule);
        let _ = writeln!(out, "  {verdict:<7} {id:<14} {rule}{contract}");
        let mut put = |mark: &str, text: &str| {
            for (index, line) in wrap(text, width).into_iter().enumerate() {
                let mark = if index == 0 { mark } else { "" };
                let _ = writeln!(out, "{:24}{mark:<3}{line}", "");
            }
        };
        result.details.iter().for_each(|line| put("", line));
        if matches!(result.verdict, Verdict::Broken | Verdict::Noted) {
            put("->", result.lesson(clause));
        }
    }
    for (name, figures) in &findings.traces {
        let _ = write!(out, "\n{name}\n{}", replay::text::table(figures));
    }
    out
}

/// Lines of at most this many characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The clauses, for `--list`.
pub fn list() -> String {
    let scope = |clause: &Clause| match clause.scope {
        Scope::All => "all",
        Scope::Torch => "torch",
        Scope::Engine => "ge, acl",
    };
    let rows = clause::ALL.iter();
    rows.map(|clause| format!("{:<14} {:<8} {}\n", clause.id, scope(clause), clause.rule)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrap("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrap("abcdef g", 3), ["abcdef", "g"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
