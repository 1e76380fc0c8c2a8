//! The verdicts as JSON. Times are nanoseconds, sizes bytes.

use serde_json::{Value, json};

use super::{
    Findings,
    clause::Clause,
    suite::{ClauseResult, Verdict},
};
use crate::replay;

/// One object.
pub fn render(findings: &Findings) -> String {
    let clause = |(clause, result): &(&'static Clause, ClauseResult)| {
        json!({
            "id": clause.id,
            "contract": clause.contract(&findings.spec),
            "verdict": match result.verdict {
                Verdict::Kept => "kept",
                Verdict::Noted => "note",
                Verdict::Broken => "broken",
                Verdict::NotTried => "not tried",
            },
            "rule": clause.rule,
            "details": result.details,
            "lesson": result.lesson(clause),
        })
    };
    let trace = |(name, figures): &(String, [_; 2])| json!({"trace": name, "allocators": figures.iter().map(replay::json::allocator).collect::<Vec<Value>>()});
    let value = json!({
        "pool": findings.spec.to_string(),
        "kept": findings.count(Verdict::Kept) + findings.count(Verdict::Noted),
        "broken": findings.count(Verdict::Broken),
        "clauses": findings.clauses.iter().map(clause).collect::<Vec<Value>>(),
        "traces": findings.traces.iter().map(trace).collect::<Vec<Value>>(),
    });
    format!("{value:#}\n")
}
